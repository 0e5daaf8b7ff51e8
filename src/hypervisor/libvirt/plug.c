#include "driver.h"
#include "errors.h"
#include "hook.h"

#include <string.h>

#define LOOK (50 * 1000)               /* microseconds between looks whether the guest has let go */
#define ASK_AGAIN (5 * G_USEC_PER_SEC) /* a guest that was booting has not heard */

typedef struct Device {
    char *domain;
    char *alias;
    char *xml;    /* as given; an interface is plugged with its link down */
    char *linked; /* … and with its link up; NULL: it is no interface of a partition */
    guint64 vxlan;
    gboolean pins; /* it is the host's, and has all memory of the domain pinned */
    WeftPlugged plugged;
} Device;

static void
device_free(gpointer data)
{
    Device *device = data;
    g_free(device->domain);
    g_free(device->alias);
    g_free(device->xml);
    g_free(device->linked);
    g_free(device);
}

/* --- what is asked for --- */

static char *
with_link(xmlDoc *doc, const char *state)
{
    xmlNode *root = xmlDocGetRootElement(doc);
    xmlNode *link = (xmlNode *)weft_xml_child(root, "link");
    if (!link)
        link = xmlNewChild(root, NULL, BAD_CAST "link", NULL);
    xmlSetProp(link, BAD_CAST "state", BAD_CAST state);
    return weft_vir_xml_text(doc);
}

/* A partition's bridge is "weft<vxlan>". */
static gboolean
read_bridge(const xmlNode *interface, guint64 *ret_vxlan)
{
    g_autofree char *bridge = weft_xml_get(weft_xml_child(interface, "source"), "bridge");
    return weft_xml_is(interface, "interface") && bridge && g_str_has_prefix(bridge, "weft") &&
           weft_xml_number(bridge + strlen("weft"), 10, G_MAXUINT32, ret_vxlan);
}

static Device *
device_new(const char *domain, const char *xml, GError **error)
{
    g_autoptr(xmlDoc) doc = weft_xml_load(xml);
    const xmlNode *root = doc && !doc->intSubset ? xmlDocGetRootElement(doc) : NULL;
    g_autofree char *alias = weft_xml_get(weft_xml_child(root, "alias"), "name");
    if (!alias || !g_str_has_prefix(alias, "ua-")) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "a device to plug has an alias that begins with \"ua-\", not %s",
                          alias ? alias : "none");
        return NULL;
    }
    Device *device = g_new0(Device, 1);
    device->domain = g_strdup(domain);
    device->alias = g_steal_pointer(&alias);
    device->pins = weft_xml_is(root, "hostdev");
    if (read_bridge(root, &device->vxlan)) {
        device->linked = with_link(doc, "up");
        device->xml = with_link(doc, "down");
    } else {
        device->xml = g_strdup(xml);
    }
    return device;
}

/* --- what is there --- */

typedef enum { GONE, UNLINKED, PLUGGED } Presence;

static Presence
find_alias(const xmlNode *devices, const char *alias)
{
    for (const xmlNode *node = devices ? devices->children : NULL; node; node = node->next) {
        g_autofree char *name = weft_xml_get(weft_xml_child(node, "alias"), "name");
        g_autofree char *link = weft_xml_get(weft_xml_child(node, "link"), "state");
        if (g_strcmp0(name, alias) == 0)
            return g_strcmp0(link, "down") == 0 ? UNLINKED : PLUGGED;
    }
    return GONE;
}

static gboolean
look(virDomain *domain, const char *alias, Presence *ret_presence, GError **error)
{
    char *text = virDomainGetXMLDesc(domain, 0);
    if (!text)
        return weft_vir_fail(error, "asking for the devices of domain %s", virDomainGetName(domain));
    g_autoptr(xmlDoc) doc = weft_xml_parse(text, "domain", error);
    free(text);
    if (!doc)
        return FALSE;
    *ret_presence = find_alias(weft_xml_child(xmlDocGetRootElement(doc), "devices"), alias);
    return TRUE;
}

/* --- plug --- */

/* The qemu hook does not fire now, so the network's does, as a question (see hook.h). */
static gboolean
ask_hook(WeftCall *call, const char *question, const char *what, GError **error)
{
    g_autofree char *whole = g_strconcat(question, what, NULL);
    if (weft_vir_ask_hook(call, whole))
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_FAILED,
                             "weft-hook is not installed, or older than weftd, and does not answer \"%s\"", question);
}

static gboolean
seal(WeftCall *call, guint64 vxlan, GError **error)
{
    g_autofree char *what = g_strdup_printf("%" G_GUINT64_FORMAT, vxlan);
    if (!ask_hook(call, WEFT_NETWORK_SEAL, what, error))
        return FALSE;
    if (strstr(virGetLastErrorMessage(), WEFT_HOOK_SEALED))
        return TRUE;
    return weft_vir_fail(error, "keeping the host out of network %" G_GUINT64_FORMAT, vxlan);
}

/* What a fork has for itself, bytes. Nobody is kept waiting for a figure: one that cannot be had is none. */
static guint64
count_own(WeftCall *call, const Device *device)
{
    g_autoptr(GError) error = NULL;
    const char *node = device->domain + strlen(WEFT_DOMAIN_PREFIX);
    if (!device->pins || !g_str_has_prefix(device->domain, WEFT_DOMAIN_PREFIX))
        return 0;
    gboolean asked = ask_hook(call, WEFT_NETWORK_OWN, node, &error);
    const char *answer = asked ? strstr(virGetLastErrorMessage(), WEFT_HOOK_OWN) : NULL;
    if (!answer)
        g_warning("domain %s: how much memory it has for itself is not known: %s", device->domain,
                  error ? error->message : virGetLastErrorMessage());
    return answer ? g_ascii_strtoull(answer + strlen(WEFT_HOOK_OWN), NULL, 10) : 0;
}

/* Until the host is kept out of its port on the bridge the guest cannot send: its link is down. */
static gboolean
link_up(WeftCall *call, virDomain *domain, const Device *device, GError **error)
{
    if (!device->linked)
        return TRUE;
    if (!seal(call, device->vxlan, error))
        return FALSE;
    if (virDomainUpdateDeviceFlags(domain, device->linked, VIR_DOMAIN_AFFECT_LIVE) < 0)
        return weft_vir_fail(error, "linking device %s of domain %s", device->alias, device->domain);
    return TRUE;
}

static gboolean
attach(WeftCall *call, virDomain *domain, Device *device, GError **error)
{
    guint64 before = count_own(call, device);
    gint64 began = g_get_monotonic_time();
    if (virDomainAttachDeviceFlags(domain, device->xml, VIR_DOMAIN_AFFECT_LIVE) < 0)
        return weft_vir_fail(error, "plugging device %s into domain %s", device->alias, device->domain);
    device->plugged.took = g_get_monotonic_time() - began;
    guint64 after = count_own(call, device);
    device->plugged.copied = after > before ? after - before : 0;
    return TRUE;
}

static gboolean
run_plug(WeftCall *call, GError **error)
{
    Device *device = call->args;
    Presence presence = GONE;
    g_autoptr(virDomain) domain = weft_vir_domain_running(call, device->domain, error);
    if (!domain || !look(domain, device->alias, &presence, error))
        return FALSE;
    if (presence == PLUGGED)
        return TRUE;
    return (presence != GONE || attach(call, domain, device, error)) && link_up(call, domain, device, error);
}

gboolean
weft_vir_plug(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, const char *xml, WeftPlugged *ret_plugged,
              GCancellable *cancellable, GError **error)
{
    Device *device = device_new(domain, xml, error);
    if (!device)
        return FALSE;
    g_autofree char *about = weft_vir_about_domain(domain);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_plug, device, device_free);
    if (!weft_call_wait(call, about, cancellable, error))
        return FALSE;
    *ret_plugged = device->plugged;
    return TRUE;
}

/* --- unplug --- */

/* Asked by alias, libvirt does not wait for the guest, which may take as long as it likes, or be too busy to hear. That it was
 * asked already is no failure. */
static gboolean
ask(virDomain *domain, const Device *device, GError **error)
{
    if (virDomainDetachDeviceAlias(domain, device->alias, VIR_DOMAIN_AFFECT_LIVE) == 0 ||
        weft_vir_failed_with(VIR_ERR_DEVICE_MISSING) || strstr(virGetLastErrorMessage(), "in the process of unplug"))
        return TRUE;
    return weft_vir_fail(error, "unplugging device %s from domain %s", device->alias, device->domain);
}

static gboolean
run_unplug(WeftCall *call, GError **error)
{
    const Device *device = call->args;
    Presence presence = GONE;
    gint64 ask_at = 0;
    g_autoptr(virDomain) domain = weft_vir_domain_running(call, device->domain, error);
    if (!domain)
        return FALSE;
    while (look(domain, device->alias, &presence, error)) {
        if (presence == GONE)
            return TRUE;
        gint64 now = g_get_monotonic_time();
        if (now >= ask_at && !ask(domain, device, error))
            return FALSE;
        if (now >= ask_at)
            ask_at = now + ASK_AGAIN;
        g_usleep(LOOK);
        if (!weft_call_go_on(call, 0, 0, error))
            return FALSE;
    }
    return FALSE;
}

gboolean
weft_vir_unplug(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, const char *xml, GCancellable *cancellable,
                GError **error)
{
    Device *device = device_new(domain, xml, error);
    if (!device)
        return FALSE;
    g_autofree char *about = weft_vir_about_domain(domain);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_unplug, device, device_free);
    return weft_call_wait(call, about, cancellable, error);
}
