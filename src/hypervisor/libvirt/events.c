#include "driver.h"

#include <sys/socket.h>

typedef struct News {
    WeftVirHost *host;
    WeftNews news;
    char *domain;
} News;

static void
news_free(gpointer data)
{
    News *news = data;
    weft_vir_host_unref(news->host);
    g_free(news->domain);
    g_free(news);
}

static gboolean
deliver(gpointer data)
{
    const News *news = data;
    WeftShared *shared = news->host->shared;
    g_mutex_lock(&shared->mutex);
    WeftHostChanged changed = shared->changed;
    gpointer changed_data = shared->changed_data;
    g_mutex_unlock(&shared->mutex);
    if (changed)
        changed(news->host->name, news->news, news->domain, changed_data);
    return G_SOURCE_REMOVE;
}

void
weft_vir_tell(WeftVirHost *host, WeftNews kind, const char *domain)
{
    News *news = g_new(News, 1);
    *news = (News){ weft_vir_host_ref(host), kind, g_strdup(domain) };
    g_idle_add_full(G_PRIORITY_DEFAULT, deliver, news, news_free);
}

static void
drop_host(void *data)
{
    weft_vir_host_unref(data);
}

static int
on_lifecycle(virConnect *conn, virDomain *domain, int event, int detail, void *host)
{
    weft_vir_tell(host, WEFT_NEWS_CHANGED, NULL);
    return 0;
}

/* The guest program of before is gone with all that it was asked, but the stream would not end by itself. */
static void
on_reboot(virConnect *conn, virDomain *domain, void *data)
{
    WeftVirHost *host = data;
    gpointer fd;
    g_autofree char *name = weft_vir_stream_name(virDomainGetName(domain), WEFT_CHANNEL_GUEST);
    g_mutex_lock(&host->mutex);
    if (g_hash_table_lookup_extended(host->streams, name, NULL, &fd))
        shutdown(GPOINTER_TO_INT(fd), SHUT_RDWR);
    g_mutex_unlock(&host->mutex);
    weft_vir_tell(host, WEFT_NEWS_REBOOTED, virDomainGetName(domain));
}

/* Each tap of each guest is a device too, and tells nothing of the hardware. */
static void
on_device(virConnect *conn, virNodeDevice *device, int event, int detail, void *host)
{
    if (g_str_has_prefix(virNodeDeviceGetName(device), "pci_"))
        weft_vir_tell(host, WEFT_NEWS_HARDWARE, NULL);
}

/* One of its host's that was taken from under it, perhaps: the hook knows. */
static void
on_device_removed(virConnect *conn, virDomain *domain, const char *alias, void *host)
{
    weft_vir_tell(host, WEFT_NEWS_HARDWARE, NULL);
}

static void
on_close(virConnect *conn, int reason, void *host)
{
    weft_vir_host_lose(host, conn);
}

/* A driver without some of these events tells less: the reconciler looks from time to time anyway. */
void
weft_vir_events_add(WeftVirHost *host, virConnect *conn)
{
    if (virConnectRegisterCloseCallback(conn, on_close, weft_vir_host_ref(host), drop_host) < 0)
        weft_vir_host_unref(host);
    if (virConnectDomainEventRegisterAny(conn, NULL, VIR_DOMAIN_EVENT_ID_LIFECYCLE, VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle),
                                         weft_vir_host_ref(host), drop_host) < 0)
        weft_vir_host_unref(host);
    if (virConnectDomainEventRegisterAny(conn, NULL, VIR_DOMAIN_EVENT_ID_REBOOT, VIR_DOMAIN_EVENT_CALLBACK(on_reboot),
                                         weft_vir_host_ref(host), drop_host) < 0)
        weft_vir_host_unref(host);
    if (virConnectDomainEventRegisterAny(conn, NULL, VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED,
                                         VIR_DOMAIN_EVENT_CALLBACK(on_device_removed), weft_vir_host_ref(host), drop_host) < 0)
        weft_vir_host_unref(host);
    if (virConnectNodeDeviceEventRegisterAny(conn, NULL, VIR_NODE_DEVICE_EVENT_ID_LIFECYCLE,
                                             VIR_NODE_DEVICE_EVENT_CALLBACK(on_device), weft_vir_host_ref(host), drop_host) < 0)
        weft_vir_host_unref(host);
}
