#include "await.h"

#include "clock.h"
#include "errors.h"
#include "feed.h"
#include "progress.h"

#include <gio/gio.h>

#define LOOK_PAUSE (100 * G_TIME_SPAN_MILLISECOND) /* events come in bursts; one look answers them all */
#define LOOK_AGAIN (2 * G_TIME_SPAN_SECOND)        /* what no event tells: a new reason, another count of ready nodes */

static const char *
phase_of(json_t *cluster)
{
    const char *phase = json_string_value(json_object_get(cluster, "phase"));
    return phase ? phase : "unknown";
}

/* After a scale the phase may still be that of the old wish: the counts tell. */
static gboolean
ready_reached(json_t *cluster, gboolean *ret_reached, GError **error)
{
    if (!cluster || json_is_true(json_object_get(cluster, "deleting"))) {
        g_set_error_literal(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "was removed meanwhile");
        return FALSE;
    }
    if (strcmp(phase_of(cluster), "failed") == 0) {
        g_autofree char *reason = weft_cli_field(cluster, "reason");
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_FAILED, "failed: %s", reason);
        return FALSE;
    }
    gint64 count = weft_cli_number(cluster, "count");
    *ret_reached = strcmp(phase_of(cluster), "ready") == 0 && weft_cli_number(cluster, "ready") == count &&
                   weft_cli_number(cluster, "nodes") == count;
    return TRUE;
}

static gboolean
deleted_reached(json_t *cluster, gboolean *ret_reached, GError **error)
{
    *ret_reached = cluster == NULL;
    return TRUE;
}

static char *
describe_cluster(json_t *cluster)
{
    gint64 wished = weft_cli_number(cluster, "count"), extra = weft_cli_number(cluster, "nodes") - wished;
    g_autofree char *count = weft_cli_count(extra > 0 ? extra : wished, "node");
    g_autofree char *reason = weft_cli_field(cluster, "reason");
    const char *colon = json_is_string(json_object_get(cluster, "reason")) ? ": " : "";
    if (extra > 0)
        return g_strdup_printf("%s, %s too many%s%s", phase_of(cluster), count, colon, colon[0] ? reason : "");
    return g_strdup_printf("%s, %" G_GINT64_FORMAT " of %s ready%s%s", phase_of(cluster), weft_cli_number(cluster, "ready"),
                           count, colon, colon[0] ? reason : "");
}

static char *
describe_removal(json_t *cluster)
{
    g_autofree char *count = weft_cli_count(weft_cli_number(cluster, "nodes"), "node");
    return g_strdup_printf("%s, %s left", phase_of(cluster), count);
}

/* What stays there is not waited for. */
static gboolean
drained_reached(json_t *host, gboolean *ret_reached, GError **error)
{
    size_t stays = json_is_true(json_object_get(host, "evicting")) ? 0 : json_array_size(json_object_get(host, "stays"));
    *ret_reached = !host || weft_cli_number(host, "nodes") == (gint64)stays;
    if (!*ret_reached && !json_is_true(json_object_get(host, "draining"))) {
        g_set_error_literal(error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "is no longer draining");
        return FALSE;
    }
    return TRUE;
}

static char *
describe_drain(json_t *host)
{
    g_autofree char *count = weft_cli_count(weft_cli_number(host, "nodes"), "node");
    return g_strdup_printf("draining, %s left", count);
}

const WeftGoal weft_goal_ready = { ready_reached, describe_cluster };
const WeftGoal weft_goal_deleted = { deleted_reached, describe_removal };
const WeftGoal weft_goal_drained = { drained_reached, describe_drain };

/* weftd may be starting anew: that is no reason to stop waiting. */
static gboolean
is_passing(const GError *error)
{
    return g_error_matches(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE) || g_error_matches(error, WEFT_ERROR, WEFT_ERROR_BUSY);
}

/* What one look at the object showed. */
typedef struct Sight {
    json_t *object; /* NULL: gone, or weftd cannot be asked now */
    char *text;     /* of the last look that saw something */
    gboolean reached;
} Sight;

static gboolean
look(WeftCli *cli, const WeftAwait *await, Sight *sight, GError **error)
{
    g_autoptr(GError) local = NULL;
    g_clear_pointer(&sight->object, json_decref);
    sight->object = weft_client_get(cli->client, await->path, &local);
    if (is_passing(local)) {
        g_free(sight->text);
        sight->text = g_strdup("waiting for weftd, which does not answer");
        return TRUE;
    }
    if (local && !g_error_matches(local, WEFT_ERROR, WEFT_ERROR_NOT_FOUND)) {
        g_propagate_error(error, g_steal_pointer(&local));
        return FALSE;
    }
    if (sight->object) {
        g_free(sight->text);
        g_autofree char *text = await->goal->describe(sight->object);
        sight->text = weft_cli_clean(text);
    }
    return await->goal->reached(sight->object, &sight->reached, error);
}

/* Shows where things are until there is reason to look again. A stream that is refused with 404 says that the object is gone:
 * the next look sees that too. */
static gboolean
pass_time(WeftFeed *feed, WeftProgress *progress, const char *text, gint64 deadline, GError **error)
{
    gint64 looked = g_get_monotonic_time();
    gint64 until = MIN(looked + LOOK_AGAIN, deadline);
    weft_progress_show(progress, text);
    g_autoptr(GError) local = NULL;
    if (!weft_feed_wait(feed, looked + LOOK_PAUSE, MIN(until, weft_progress_due(progress)), &local) &&
        !g_error_matches(local, WEFT_ERROR, WEFT_ERROR_NOT_FOUND)) {
        g_propagate_error(error, g_steal_pointer(&local));
        return FALSE;
    }
    json_t *event;
    while ((event = weft_feed_next(feed)))
        json_decref(event);
    return TRUE;
}

static gboolean
await_until(WeftCli *cli, const WeftAwait *await, gint64 deadline, Sight *sight, GError **error)
{
    g_autoptr(WeftFeed) feed = weft_feed_new(cli->client, await->events, NULL);
    g_autoptr(WeftProgress) progress = weft_progress_new(await->what);
    gint64 patient_until = g_get_monotonic_time() + await->patience;
    for (;;) {
        g_autoptr(GError) local = NULL;
        gboolean ok = look(cli, await, sight, &local);
        gboolean early = g_error_matches(local, WEFT_ERROR, WEFT_ERROR_FAILED) && g_get_monotonic_time() < patient_until;
        if (!ok && !early) {
            g_propagate_error(error, g_steal_pointer(&local));
            return FALSE;
        }
        if (sight->reached)
            return TRUE;
        if (g_get_monotonic_time() >= deadline) {
            g_autofree char *time = weft_duration_format(await->timeout);
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_TIMEOUT, "not done after %s (%s); %s", time, sight->text, await->after);
            return FALSE;
        }
        if (!pass_time(feed, progress, sight->text, deadline, error))
            return FALSE;
    }
}

gboolean
weft_await(WeftCli *cli, const WeftAwait *await, json_t **ret_object, GError **error)
{
    g_autoptr(GError) local = NULL;
    Sight sight = { 0 };
    gint64 now = g_get_monotonic_time();
    gint64 deadline = await->timeout > 0 && await->timeout < G_MAXINT64 - now ? now + await->timeout : G_MAXINT64;
    weft_client_catch_interrupts();
    gboolean reached = await_until(cli, await, deadline, &sight, &local);
    if (!reached && g_error_matches(local, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_CANCELLED, "%s: stopped waiting; %s", await->what, await->after);
    else if (!reached)
        g_propagate_prefixed_error(error, g_steal_pointer(&local), "%s: ", await->what);
    if (reached && ret_object)
        *ret_object = g_steal_pointer(&sight.object);
    json_decref(sight.object);
    g_free(sight.text);
    return reached;
}

gboolean
weft_await_cluster(WeftCli *cli, json_t *cluster, const WeftAwait *await, json_t **ret_object, GError **error)
{
    const char *id = json_string_value(json_object_get(cluster, "id"));
    g_autofree char *name = weft_cli_field(cluster, "name");
    g_autofree char *what = g_strdup_printf("cluster %s", name);
    g_autofree char *path = weft_cli_cluster_path(cli, id ? id : name, "");
    g_autofree char *events = weft_cli_cluster_path(cli, id ? id : name, "/events");
    WeftAwait whole = *await;
    whole.what = what;
    whole.path = path;
    whole.events = events;
    return weft_await(cli, &whole, ret_object, error);
}

gboolean
weft_await_ready(WeftCli *cli, json_t *cluster, const WeftAwait *await, char *(*more)(json_t *ready), GError **error)
{
    json_t *ready = NULL;
    gint64 start = g_get_monotonic_time();
    if (!weft_await_cluster(cli, cluster, await, &ready, error))
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(ready);
        return TRUE;
    }
    g_autofree char *name = weft_cli_field(ready, "name");
    g_autofree char *nodes = weft_cli_count(weft_cli_number(ready, "ready"), "node");
    g_autofree char *rest = more ? more(ready) : NULL;
    double seconds = (double)(g_get_monotonic_time() - start) / G_TIME_SPAN_SECOND;
    printf("cluster %s is ready: %s in %.1f s%s\n", name, nodes, seconds, rest ? rest : "");
    json_decref(ready);
    return TRUE;
}
