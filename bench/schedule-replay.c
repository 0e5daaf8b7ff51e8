/* Puts requests that are read from a file, a line of JSON each, into the queue, and tells of each how long the decision took:
 *
 *     { "fleet": { "hosts": 1000, "per_leaf": 32, "per_pod": 16, "numa": 2, "cores": 16, "housekeeping": 0, "memory": 131072,
 * "vfs": 8 } } { "id": "7", "nodes": 8, "cores": 4, "memory": 4096, "vf": true, "exclusive": false } { "free": "7" }
 *
 * First the fleet, all of it optional but hosts: cores of each NUMA node, MiB of a host. Memory of a node is in MiB. Prints
 *
 *     { "id": "7", "placed": true, "micros": 12.3, "leaves": 1, "hosts": 4 }
 *
 * for each request, in their order. Counted is what the queue and the fleet do: with the request, its places, and what became
 * free before it. What does not fit is withdrawn. */
#include "queue.h"
#include "schedule-bench.h"

#include <errno.h>

typedef struct Replay {
    WeftFleet *fleet;
    WeftQueue *queue;
    GHashTable *gangs; /* id (char *) to Gang */
    gint64 now;        /* of the queue */
    gint64 upkeep;     /* nanoseconds since the last decision */
    guint next;
    guint line;
} Replay;

typedef struct Gang {
    WeftCluster *cluster;
    WeftPlacement placement; /* with seats of its own; n 0: none */
} Gang;

static void
gang_free(gpointer data)
{
    Gang *gang = data;
    weft_cluster_free(gang->cluster);
    g_free(gang->placement.seats);
    g_free(gang);
}

/* A number of the object, or what it is where it is not there. */
static guint64
number(const json_t *json, const char *name, guint64 otherwise)
{
    const json_t *value = json_object_get(json, name);
    return value ? (guint64)json_integer_value(value) : otherwise;
}

static void
begin(Replay *replay, const json_t *json)
{
    BenchFleet what = BENCH_FLEET((guint)number(json, "hosts", 0));
    guint numa = (guint)number(json, "numa", what.host.numa);
    what.per_leaf = (guint)number(json, "per_leaf", what.per_leaf);
    what.per_pod = (guint)number(json, "per_pod", what.per_pod);
    what.host = (CaseHost){ .numa = numa,
                            .cores = (guint)number(json, "cores", what.host.cores),
                            .housekeeping = (guint)number(json, "housekeeping", 0),
                            .small = (guint)(number(json, "memory", 131072) / 2 / MAX(1, numa)) };
    what.vfs = (guint)number(json, "vfs", what.vfs);
    if (what.hosts == 0 || what.hosts > WEFT_HOSTS_MAX || numa == 0 || what.per_leaf == 0 || what.per_pod == 0)
        g_error("line %u: a fleet needs hosts, at most %u, and NUMA nodes, hosts of a leaf and leaves of a pod", replay->line,
                WEFT_HOSTS_MAX);
    replay->fleet = bench_fleet(&what);
    replay->queue = weft_queue_new(replay->fleet, NULL);
}

static WeftCluster *
wish(Replay *replay, const json_t *json)
{
    g_autofree char *id = g_strdup_printf("%012u", replay->next++);
    WeftCluster *cluster = case_cluster(id);
    WeftGroup *group = case_add_group(cluster, (guint)number(json, "nodes", 1), (guint)number(json, "cores", 1),
                                      number(json, "memory", 1024) << 20);
    group->rails = json_is_true(json_object_get(json, "vf"));
    group->path = group->rails ? WEFT_PATH_SRIOV : WEFT_PATH_BRIDGE;
    cluster->exclusive = json_is_true(json_object_get(json, "exclusive"));
    return cluster;
}

static gboolean
start(const WeftAsk *ask, const WeftPlacement *placement, gpointer data)
{
    Replay *replay = data;
    Gang *gang = g_hash_table_lookup(replay->gangs, ask->key);
    const WeftCluster *cluster = gang->cluster;
    WeftHold hold = { .key = ask->key,
                      .cluster = cluster->id,
                      .tenant = cluster->tenant,
                      .since = replay->now,
                      .end = WEFT_QUEUE_NEVER,
                      .seats = placement->seats,
                      .n = placement->n };
    gang->placement = *placement;
    gang->placement.seats = g_memdup2(placement->seats, placement->n * sizeof *placement->seats);
    weft_fleet_take_seats(replay->fleet, placement->seats, placement->n, cluster->id);
    weft_queue_hold(replay->queue, &hold);
    return TRUE;
}

static void
place(Replay *replay, const char *id, const json_t *json)
{
    static const WeftQueueOps ops = { .start = start };
    Gang *gang = g_new0(Gang, 1);
    gang->cluster = wish(replay, json);
    g_hash_table_insert(replay->gangs, g_strdup(id), gang);
    guint count = ((const WeftGroup *)gang->cluster->groups->pdata[0])->count;
    replay->now += G_USEC_PER_SEC;
    WeftAsk ask = { .key = id, .request = { .cluster = gang->cluster, .counts = &count }, .since = replay->now };
    gint64 began = bench_now();
    weft_queue_put(replay->queue, &ask);
    weft_queue_run(replay->queue, replay->now, &ops, replay);
    gint64 took = bench_now() - began + replay->upkeep;
    replay->upkeep = 0;
    weft_queue_withdraw(replay->queue, id);
    const WeftPlacement *placement = &gang->placement;
    printf("{\"id\": \"%s\", \"placed\": %s, \"micros\": %.3f, \"leaves\": %u, \"hosts\": %u}\n", id,
           placement->n ? "true" : "false", (double)took / 1000, placement->leaves, placement->hosts);
}

static void
release(Replay *replay, const char *id)
{
    const Gang *gang = g_hash_table_lookup(replay->gangs, id);
    if (!gang)
        g_error("line %u: there is no %s to be freed", replay->line, id);
    gint64 began = bench_now();
    weft_fleet_give_seats(replay->fleet, gang->placement.seats, gang->placement.n, gang->cluster->id);
    weft_queue_release(replay->queue, id);
    replay->upkeep += bench_now() - began;
    g_hash_table_remove(replay->gangs, id);
}

static void
obey(Replay *replay, const char *line)
{
    json_error_t where;
    json_auto_t *json = json_loads(line, 0, &where);
    const char *id = json_string_value(json_object_get(json, "id")), *free = json_string_value(json_object_get(json, "free"));
    replay->line++;
    if (!json)
        g_error("line %u: %s", replay->line, where.text);
    if (!replay->fleet)
        begin(replay, json_object_get(json, "fleet"));
    else if (free)
        release(replay, free);
    else if (id)
        place(replay, id, json);
    else
        g_error("line %u: neither id nor free", replay->line);
}

gboolean
bench_replay(int argc, char **argv)
{
    Replay replay = { .gangs = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, gang_free) };
    g_autofree char *text = NULL;
    GError *error = NULL;
    if (argc < 1 || !g_file_get_contents(argv[0], &text, NULL, &error))
        g_error("replay: %s", error ? error->message : "name a file");
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    for (guint i = 0; lines[i]; i++)
        if (lines[i][0])
            obey(&replay, lines[i]);
    weft_queue_free(replay.queue);
    weft_fleet_free(replay.fleet);
    g_hash_table_unref(replay.gangs);
    return TRUE;
}
