/* A plugin of opensm that has a race, to show that the sanitizer finds those of a module which a program that was not built
 * with it has loaded: a thread of its own and opensm's count together, once with a lock and once without. */
#include <glib.h>
#include <opensm/osm_event_plugin.h>
#include <opensm/osm_version.h>

typedef struct {
    GThread *thread;
    GMutex mutex;
    gint ended; /* atomic */
    guint locked;
    guint racy;
} Racer;

static void
count(Racer *racer)
{
    g_mutex_lock(&racer->mutex);
    racer->locked++;
    g_mutex_unlock(&racer->mutex);
    racer->racy++;
}

static gpointer
run(gpointer data)
{
    Racer *racer = data;
    while (!g_atomic_int_get(&racer->ended)) {
        count(racer);
        g_usleep(G_USEC_PER_SEC / 1000);
    }
    return NULL;
}

static void *
racer_create(struct osm_opensm *osm)
{
    Racer *racer = g_new0(Racer, 1);
    g_mutex_init(&racer->mutex);
    racer->thread = g_thread_new("racer", run, racer);
    return racer;
}

static void
racer_delete(void *data)
{
    Racer *racer = data;
    g_atomic_int_set(&racer->ended, TRUE);
    g_thread_join(racer->thread);
    g_mutex_clear(&racer->mutex);
    g_free(racer);
}

/* thread: any of opensm's. */
static void
racer_report(void *data, osm_epi_event_id_t event, void *detail)
{
    count(data);
}

extern osm_event_plugin_t osm_event_plugin;
osm_event_plugin_t osm_event_plugin = {
    .osm_version = OSM_VERSION,
    .create = racer_create,
    .delete = racer_delete,
    .report = racer_report,
};
