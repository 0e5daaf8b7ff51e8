#include "watch.h"

#include "backoff.h"
#include "errors.h"

static const WeftBackoff backoff = { .base = G_USEC_PER_SEC / 10, .max = 5 * G_USEC_PER_SEC };

typedef struct Ear {
    WeftPluginWatch *watch;
    WeftPluginManager *manager;
    GThread *thread;
    gboolean hears; /* it is connected; under the lock */
} Ear;

struct WeftPluginWatch {
    WeftPluginTell tell;
    gpointer data;
    gint64 deadline;
    GCancellable *cancellable;
    GMutex lock;
    guint n_ears, hearing;
    const Ear *ruler; /* the last that said that it rules; under the lock */
    gboolean lost;    /* that has been told; under the lock */
    Ear ears[];
};

/* --- who rules --- */

static void
heard_ruler(Ear *ear, const char *version)
{
    WeftPluginWatch *watch = ear->watch;
    g_mutex_lock(&watch->lock);
    gboolean news = watch->lost || (watch->ruler && watch->ruler != ear);
    watch->ruler = ear;
    watch->lost = FALSE;
    g_mutex_unlock(&watch->lock);
    g_autofree char *detail = g_strdup_printf("%s at %s rules the fabric", version ? version : "opensm", ear->manager->address);
    if (news)
        watch->tell(WEFT_FABRIC_EVENT_MANAGER, detail, watch->data);
}

static void
set_hearing(Ear *ear, gboolean hears, const char *why)
{
    WeftPluginWatch *watch = ear->watch;
    g_mutex_lock(&watch->lock);
    watch->hearing += (guint)hears - (guint)ear->hears;
    ear->hears = hears;
    gboolean news = watch->hearing == 0 && !watch->lost && !g_cancellable_is_cancelled(watch->cancellable);
    watch->lost |= news;
    g_mutex_unlock(&watch->lock);
    g_autofree char *detail = g_strdup_printf("%s: %s", ear->manager->address, why);
    if (news)
        watch->tell(WEFT_FABRIC_EVENT_LOST, detail, watch->data);
}

/* --- one manager; thread: the ear's --- */

static gboolean
greet(Ear *ear, WeftPluginLink *link, GError **error)
{
    gint64 deadline = g_get_monotonic_time() + ear->watch->deadline;
    g_autoptr(WeftManager) manager = weft_plugin_link_greet(link, deadline, ear->watch->cancellable, error);
    if (manager && manager->master)
        heard_ruler(ear, manager->version);
    return manager != NULL;
}

static gboolean
take_event(Ear *ear, WeftPluginLink *link, json_t *json, GError **error)
{
    const char *event = json_string_value(json_object_get(json, "event"));
    const char *detail = json_string_value(json_object_get(json, "detail"));
    if (g_strcmp0(event, "ports") == 0)
        ear->watch->tell(WEFT_FABRIC_EVENT_PORTS, detail, ear->watch->data);
    else if (g_strcmp0(event, "swept") == 0)
        ear->watch->tell(WEFT_FABRIC_EVENT_SWEPT, detail, ear->watch->data);
    /* A manager that took over rules after its first sweep. */
    return (g_strcmp0(event, "swept") != 0 && g_strcmp0(event, "manager") != 0) || greet(ear, link, error);
}

static WeftPluginLink *
connect_to(Ear *ear, GError **error)
{
    GCancellable *cancellable = ear->watch->cancellable;
    gint64 deadline = g_get_monotonic_time() + ear->watch->deadline;
    g_autoptr(WeftPluginLink) link = weft_plugin_link_new(ear->manager, deadline, cancellable, error);
    json_t *request = json_pack("{ss}", "do", "listen");
    json_t *answer = link ? weft_plugin_link_ask(link, json_incref(request), deadline, cancellable, error) : NULL;
    gboolean ok = answer && weft_wire_check_answer(answer, error) && greet(ear, link, error);
    json_decref(answer);
    json_decref(request);
    return ok ? g_steal_pointer(&link) : NULL;
}

/* Until the link breaks. */
static void
follow(Ear *ear, GError **error)
{
    g_autoptr(WeftPluginLink) link = connect_to(ear, error);
    if (!link)
        return;
    set_hearing(ear, TRUE, NULL);
    for (json_t *event; (event = weft_plugin_link_hear(link, ear->watch->cancellable, error));) {
        gboolean ok = take_event(ear, link, event, error);
        json_decref(event);
        if (!ok)
            break;
    }
}

static void
rest(GCancellable *cancellable, gint64 microseconds)
{
    GPollFD polled;
    if (!g_cancellable_make_pollfd(cancellable, &polled))
        return;
    g_poll(&polled, 1, (int)(microseconds / 1000));
    g_cancellable_release_fd(cancellable);
}

static gpointer
listen_on(gpointer data)
{
    Ear *ear = data;
    for (guint failures = 0; !g_cancellable_is_cancelled(ear->watch->cancellable);) {
        g_autoptr(GError) error = NULL;
        follow(ear, &error);
        failures = ear->hears ? 1 : failures + 1;
        set_hearing(ear, FALSE, error ? error->message : "");
        rest(ear->watch->cancellable, weft_backoff_delay(&backoff, failures));
    }
    return NULL;
}

/* --- all of them --- */

WeftPluginWatch *
weft_plugin_watch_new(GPtrArray *managers, gint64 deadline, WeftPluginTell tell, gpointer data)
{
    WeftPluginWatch *watch = g_malloc0(sizeof *watch + managers->len * sizeof(Ear));
    watch->tell = tell;
    watch->data = data;
    watch->deadline = deadline;
    watch->cancellable = g_cancellable_new();
    g_mutex_init(&watch->lock);
    watch->n_ears = managers->len;
    for (guint i = 0; i < managers->len; i++) {
        watch->ears[i].watch = watch;
        watch->ears[i].manager = managers->pdata[i];
        watch->ears[i].thread = g_thread_new("opensm-events", listen_on, &watch->ears[i]);
    }
    return watch;
}

void
weft_plugin_watch_free(WeftPluginWatch *watch)
{
    if (!watch)
        return;
    g_cancellable_cancel(watch->cancellable);
    for (guint i = 0; i < watch->n_ears; i++)
        g_thread_join(watch->ears[i].thread);
    g_object_unref(watch->cancellable);
    g_mutex_clear(&watch->lock);
    g_free(watch);
}
