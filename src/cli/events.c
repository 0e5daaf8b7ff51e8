/* weft events: what happened, and what happens. */
#include "clock.h"
#include "feed.h"
#include "verbs.h"

static gboolean follow;
static char *since;

static const GOptionEntry options[] = {
    { "follow", 'f', 0, G_OPTION_ARG_NONE, &follow, "go on with what happens from now on, until Ctrl-C", NULL },
    { "since", 0, 0, G_OPTION_ARG_STRING, &since, "not older than this: a time, a day, or how long ago (2h)", "TIME" },
    { NULL },
};

static void
print_event(const WeftCli *cli, json_t *event)
{
    if (cli->json) {
        json_dumpf(event, stdout, JSON_COMPACT);
        fputc('\n', stdout);
        return;
    }
    g_autofree char *time = weft_cli_field(event, "time");
    g_autofree char *type = weft_cli_field(event, "type");
    g_autofree char *cluster = weft_cli_field(event, "cluster_name");
    g_autofree char *host = weft_cli_field(event, "host");
    g_autofree char *message = weft_cli_field(event, "message");
    printf("%s  %-18s  %-12s  %s\n", time, type, strcmp(cluster, "-") != 0 ? cluster : host, message);
}

/* An event's id is its time in microseconds: all that came at that time or later comes after this one. */
static char *
id_before(const char *time)
{
    gint64 microseconds = 0;
    if (time)
        weft_clock_parse(time, &microseconds, NULL);
    return g_strdup_printf("%016" G_GINT64_MODIFIER "x", MAX(microseconds - 1, 0));
}

/* The stream begins with what happened before it, so nothing is missed in between. It would wait for a weftd that is not there:
 * so look first. */
static gboolean
follow_on(WeftCli *cli, const char *path, const char *after, GError **error)
{
    g_autofree char *one = weft_client_query(g_strdup(path), "limit", "1");
    json_t *there = weft_client_get(cli->client, one, error);
    if (!there)
        return FALSE;
    json_decref(there);
    g_autoptr(WeftFeed) feed = weft_feed_new(cli->client, path, after);
    while (weft_feed_wait(feed, 0, G_MAXINT64, error)) {
        for (json_t *event; (event = weft_feed_next(feed)); json_decref(event))
            print_event(cli, event);
        fflush(stdout);
    }
    return FALSE;
}

static json_t *
after_only(json_t *events, const char *after)
{
    json_t *chosen = json_array();
    size_t i;
    json_t *event;
    json_array_foreach (events, i, event) {
        if (g_strcmp0(json_string_value(json_object_get(event, "id")), after) > 0)
            json_array_append(chosen, event);
    }
    json_decref(events);
    return chosen;
}

static gboolean
list(WeftCli *cli, const char *path, const char *after, GError **error)
{
    json_t *events = weft_client_list(cli->client, path, error);
    if (!events)
        return FALSE;
    events = after_only(events, after);
    if (cli->json) {
        weft_cli_print_json(events);
        return TRUE;
    }
    size_t i;
    json_t *event;
    json_array_foreach (events, i, event) {
        print_event(cli, event);
    }
    json_decref(events);
    return TRUE;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *from = since ? weft_cli_time("--since", since, error) : NULL;
    if (since && !from)
        return FALSE;
    g_autofree char *path = args[0] ? weft_cli_cluster_path(cli, args[0], "/events")
                                    : weft_client_query(g_strdup("/v1/events"), "tenant", cli->tenant);
    g_autofree char *after = id_before(from);
    gboolean ok = follow ? follow_on(cli, path, after, error) : list(cli, path, after, error);
    if (!ok && args[0])
        weft_cli_blame(error, "cluster", args[0]);
    return ok;
}

const WeftVerb weft_events_verbs[] = {
    {
        .name = "events",
        .arguments = "[NAME]",
        .summary = "show events",
        .about = "Tells what happened to a cluster, or to all that you may see. With --json and --follow: one object a line.",
        .examples = "weft events cfd\n"
                    "weft events --follow --since 1h",
        .max_args = 1,
        .names = WEFT_NAMES_CLUSTERS,
        .whole = TRUE,
        .options = options,
        .run = run,
    },
    { 0 },
};
