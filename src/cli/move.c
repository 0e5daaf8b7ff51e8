/* weft move: a node goes to another host while it runs. */
#include "await.h"
#include "clock.h"
#include "errors.h"
#include "target.h"
#include "verbs.h"

static char *to, *method, *timeout;
static gboolean disrupt, cancel, no_wait;

static const GOptionEntry options[] = {
    { "to", 0, 0, G_OPTION_ARG_STRING, &to, "this host, for operators; any that suits unless given", "HOST" },
    { "disrupt", 0, 0, G_OPTION_ARG_NONE, &disrupt, "also where what it has open on its fabric devices breaks", NULL },
    { "method", 0, 0, G_OPTION_ARG_STRING, &method, "auto, pre-copy, post-copy or hybrid (auto: as suits what it writes)",
      "HOW" },
    { "cancel", 0, 0, G_OPTION_ARG_NONE, &cancel, "call its move off, and wait until that is certain", NULL },
    { "no-wait", 0, 0, G_OPTION_ARG_NONE, &no_wait, "return once the request is accepted", NULL },
    { "timeout", 0, 0, G_OPTION_ARG_STRING, &timeout, "wait no longer than this: 90s, 10m", "TIME" },
    { NULL },
};

/* --- until it has ended --- */

static gboolean
ended(json_t *move, gboolean *ret_reached, GError **error)
{
    *ret_reached = !move;
    return TRUE;
}

static char *
describe(json_t *move)
{
    json_t *reason = json_object_get(move, "reason");
    if (json_is_string(reason))
        return g_strdup(json_string_value(reason));
    return g_strdup(json_is_true(json_object_get(move, "begun")) ? "on its way" : "about to leave");
}

static const WeftGoal goal = { ended, describe };

/* What was told of it since; NULL: nothing. */
static json_t *
find_outcome(json_t *events, const char *label, const char *since)
{
    json_t *found = NULL, *event;
    size_t i;
    json_array_foreach (events, i, event) {
        const char *type = json_string_value(json_object_get(event, "type"));
        const char *message = json_string_value(json_object_get(event, "message"));
        gboolean of_moves = g_strcmp0(type, "node-moved") == 0 || g_strcmp0(type, "node-move-failed") == 0 ||
                            g_strcmp0(type, "node-lost") == 0 || g_strcmp0(type, "node-failed") == 0;
        if (of_moves && message && g_str_has_prefix(message, label) && strchr(" :", message[strlen(label)]) &&
            g_strcmp0(json_string_value(json_object_get(event, "time")), since) >= 0)
            found = event;
    }
    return found;
}

static gboolean
tell_outcome(WeftCli *cli, const char *cluster, json_t *move, GError **error)
{
    g_autofree char *path = weft_cli_cluster_path(cli, cluster, "/events");
    g_autofree char *label = weft_cli_field(move, "name");
    json_t *events = weft_client_list(cli->client, path, error);
    if (!events)
        return FALSE;
    json_t *outcome = find_outcome(events, label, json_string_value(json_object_get(move, "created")));
    const char *type = json_string_value(json_object_get(outcome, "type"));
    gboolean well = g_strcmp0(type, cancel ? "node-move-failed" : "node-moved") == 0;
    g_autofree char *message = outcome ? weft_cli_field(outcome, "message") : g_strdup_printf("%s was not moved", label);
    if (well && cli->json)
        weft_cli_print_json(json_incref(outcome));
    else if (well)
        puts(message);
    else
        g_set_error_literal(error, WEFT_ERROR, WEFT_ERROR_FAILED, message);
    json_decref(events);
    return well;
}

static gboolean
wait_for(WeftCli *cli, const char *cluster, const char *path, json_t *move, GError **error)
{
    gint64 limit = 0;
    g_autofree char *label = weft_cli_field(move, "name");
    g_autofree char *what = g_strdup_printf("node %s", label);
    g_autofree char *events = weft_cli_cluster_path(cli, cluster, "/events");
    if (timeout && !weft_duration_parse(timeout, &limit, error)) {
        g_prefix_error(error, "--timeout: ");
        return FALSE;
    }
    WeftAwait await = {
        .goal = &goal, .what = what, .path = path, .events = events, .timeout = limit, .after = "it goes on being moved"
    };
    return weft_await(cli, &await, NULL, error) && tell_outcome(cli, cluster, move, error);
}

static json_t *
body(void)
{
    json_t *wish = json_pack("{s:b}", "disrupt", disrupt);
    if (to)
        json_object_set_new(wish, "to", json_string(to));
    if (method)
        json_object_set_new(wish, "copy", json_string(method));
    return wish;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *cluster = NULL;
    guint rank = 0;
    if (cancel && (to || method || disrupt))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "--cancel calls a move off; leave out --%s",
                                 to       ? "to"
                                 : method ? "method"
                                          : "disrupt");
    if (!weft_target_find_one(cli, args[0], &cluster, &rank, error))
        return FALSE;
    g_autofree char *suffix = g_strdup_printf("/nodes/%u/move", rank);
    g_autofree char *path = weft_cli_cluster_path(cli, cluster, suffix);
    g_auto(WeftResponse) response = { 0 };
    json_t *wish = cancel ? NULL : body();
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ cancel ? "DELETE" : "POST", path, wish }, &response, error);
    json_decref(wish);
    if (!ok) {
        weft_cli_blame(error, "cluster", cluster);
        return FALSE;
    }
    if (!no_wait)
        return wait_for(cli, cluster, path, response.body, error);
    if (cli->json)
        weft_cli_print_json(g_steal_pointer(&response.body));
    else
        printf("%s[%u] is %s\n", cluster, rank, cancel ? "not to be moved after all" : "being moved");
    return TRUE;
}

const WeftVerb weft_move_verbs[] = {
    {
        .name = "move",
        .arguments = "CLUSTER[RANK]",
        .summary = "move a node to another host while it runs",
        .about =
            "Moves a node to another host while it runs, and waits until it is there. Its name, addresses, memory and disk go\n"
            "along. Without a rank it is node 0. Where it cannot be moved it runs on where it is.",
        .examples = "weft move 'cfd[3]'\n"
                    "weft move 'cfd[3]' --to n7 --method hybrid",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_CLUSTERS,
        .options = options,
        .run = run,
    },
    { 0 },
};
