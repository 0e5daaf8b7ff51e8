/* weft events: what happened, and what happens. */
#include "clock.h"
#include "stream.h"
#include "table.h"
#include "verbs.h"

#define FIRST_ID "0" /* before all events: a stream from there on misses none */

static gboolean follow;
static char *since;

static const GOptionEntry options[] = {
    {"follow", 'f', 0, G_OPTION_ARG_NONE, &follow, "go on with what happens from now on, until Ctrl-C", NULL },
    { "since",       0, 0, G_OPTION_ARG_STRING, &since, "not older than this: a time, a day, or how long ago (2h)", "TIME" },
    { NULL},
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

/* Times of one format compare as texts. */
static json_t *
not_older(json_t *events, const char *from)
{
    json_t *recent = json_array();
    size_t i;
    json_t *event;
    json_array_foreach (events, i, event) {
        if (!from || g_strcmp0(json_string_value(json_object_get(event, "time")), from) >= 0)
            json_array_append(recent, event);
    }
    json_decref(events);
    return recent;
}

static void
print_events(const WeftCli *cli, json_t *events)
{
    size_t i;
    json_t *event;
    json_array_foreach (events, i, event) {
        print_event(cli, event);
    }
}

static gboolean
follow_on(WeftCli *cli, const char *path, const char *last_id, GError **error)
{
    g_autoptr(WeftStream) stream = weft_stream_new(cli->client, path, last_id ? last_id : FIRST_ID);
    for (;;) {
        fflush(stdout);
        if (!weft_stream_wait(stream, 0, G_MAXINT64, error))
            return FALSE;
        json_t *event;
        while ((event = weft_stream_next(stream))) {
            print_event(cli, event);
            json_decref(event);
        }
    }
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *from = since ? weft_cli_time("--since", since, error) : NULL;
    if (since && !from)
        return FALSE;
    g_autofree char *path = args[0] ? weft_cli_cluster_path(cli, args[0], "/events")
                                    : weft_client_query(g_strdup("/v1/events"), "tenant", cli->tenant);
    json_t *events = weft_client_list(cli->client, path, error);
    if (!events) {
        if (args[0])
            g_prefix_error(error, "cluster %s: ", args[0]);
        return FALSE;
    }
    json_t *last = json_array_get(events, json_array_size(events) - 1);
    g_autofree char *last_id = g_strdup(json_string_value(json_object_get(last, "id")));
    events = not_older(events, from);
    if (cli->json && !follow) {
        weft_cli_print_json(events);
        return TRUE;
    }
    print_events(cli, events);
    json_decref(events);
    return !follow || follow_on(cli, path, last_id, error);
}

const WeftVerb weft_events_verbs[] = {
    {
     .name = "events",
     .arguments = "[NAME]",
     .summary = "tell what happened",
     .about = "Tells what happened to a cluster, or to all that you may see. With --json and --follow: one object a line.",
     .examples = "weft events cfd\n"
                    "weft events --follow --since 1h", .max_args = 1,
     .names = WEFT_NAMES_CLUSTERS,
     .options = options,
     .run = run,
     },
    { 0},
};
