/* weft scale: more or fewer nodes. */
#include "await.h"
#include "clock.h"
#include "errors.h"
#include "verbs.h"

#define PATIENCE (3 * G_TIME_SPAN_SECOND) /* weftd looks at the new wish long before */
#define TRIES 20                          /* of a relative change that others overtake */

static char *group, *timeout;
static gboolean no_wait;

static const GOptionEntry options[] = {
    { "group", 'g', 0, G_OPTION_ARG_STRING, &group, "of this group, where there are several", "NAME" },
    { "no-wait", 0, 0, G_OPTION_ARG_NONE, &no_wait, "return once the request is accepted", NULL },
    { "timeout", 0, 0, G_OPTION_ARG_STRING, &timeout, "wait no longer than this: 90s, 10m", "TIME" },
    { NULL },
};

typedef struct Change {
    gint64 number;
    gboolean relative;
} Change;

static gboolean
parse_change(const char *text, Change *ret_change, GError **error)
{
    gboolean sign = text[0] == '+' || text[0] == '-';
    guint64 number = 0;
    if (!g_ascii_string_to_unsigned(text + sign, 10, 0, G_MAXINT32, &number, NULL)) {
        weft_cli_set_usage(error, "scale: COUNT '%s': write how many nodes (9), or a change (+1, -2)", text);
        return FALSE;
    }
    *ret_change = (Change){ text[0] == '-' ? -(gint64)number : (gint64)number, sign };
    return TRUE;
}

/* How many nodes the group that is meant has now. */
static gboolean
current_count(json_t *cluster, gint64 *ret_count, GError **error)
{
    json_t *groups = json_object_get(cluster, "groups"), *one;
    if (!group && json_array_size(groups) != 1) {
        weft_cli_set_usage(error, "has %zu groups: name one with --group", json_array_size(groups));
        return FALSE;
    }
    size_t i;
    json_array_foreach (groups, i, one) {
        if (!group || g_strcmp0(group, json_string_value(json_object_get(one, "name"))) == 0) {
            *ret_count = weft_cli_number(one, "count");
            return TRUE;
        }
    }
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "no group '%s'", group);
    return FALSE;
}

static gboolean
patch(WeftCli *cli, const char *path, gint64 count, const char *if_match, WeftResponse *ret_response, GError **error)
{
    json_t *body = json_pack("{s:I}", "count", (json_int_t)count);
    if (group)
        json_object_set_new(body, "group", json_string(group));
    WeftCall call = { "PATCH", path, body, if_match };
    gboolean ok = weft_client_call(cli->client, &call, ret_response, error);
    json_decref(body);
    return ok;
}

/* A relative change holds for the very count that it was computed from; when another one came between, it is computed anew. */
static gboolean
patch_relative(WeftCli *cli, const char *path, gint64 change, WeftResponse *ret_response, GError **error)
{
    for (guint try = 1;; try++) {
        g_auto(WeftResponse) now = { 0 };
        gint64 count = 0;
        g_autoptr(GError) local = NULL;
        weft_response_clear(ret_response);
        if (!weft_client_call(cli->client, &(WeftCall){ .path = path }, &now, error) || !current_count(now.body, &count, error))
            return FALSE;
        if (count + change < 0) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                        "has %" G_GINT64_FORMAT " nodes: cannot take %" G_GINT64_FORMAT " away", count, -change);
            return FALSE;
        }
        if (patch(cli, path, count + change, now.etag, ret_response, &local))
            return TRUE;
        if (ret_response->status != 412 || try == TRIES) {
            g_propagate_error(error, g_steal_pointer(&local));
            return FALSE;
        }
    }
}

static gboolean
finish(WeftCli *cli, WeftResponse *response, gint64 limit, GError **error)
{
    json_t *cluster = NULL;
    WeftAwait await = { .goal = &weft_goal_ready, .timeout = limit, .patience = PATIENCE, .after = "it goes on being scaled" };
    if (no_wait)
        cluster = g_steal_pointer(&response->body);
    else if (!weft_await_cluster(cli, response->body, &await, &cluster, error))
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(cluster);
        return TRUE;
    }
    g_autofree char *name = weft_cli_field(cluster, "name");
    g_autofree char *nodes = weft_cli_count(weft_cli_number(cluster, "count"), "node");
    printf("cluster %s %s %s\n", name, no_wait ? "is being scaled to" : "is ready:", nodes);
    json_decref(cluster);
    return TRUE;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    gint64 limit = 0;
    Change change;
    if (!parse_change(args[1], &change, error))
        return FALSE;
    if (timeout && !weft_duration_parse(timeout, &limit, error)) {
        g_prefix_error(error, "--timeout: ");
        return FALSE;
    }
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *path = weft_cli_cluster_path(cli, args[0], "");
    gboolean ok = change.relative ? patch_relative(cli, path, change.number, &response, error)
                                  : patch(cli, path, change.number, NULL, &response, error);
    if (!ok) {
        weft_cli_blame(error, "cluster", args[0]);
        return FALSE;
    }
    return finish(cli, &response, limit, error);
}

const WeftVerb weft_scale_verbs[] = {
    {
        .name = "scale",
        .arguments = "NAME COUNT",
        .summary = "give a cluster more or fewer nodes",
        .about = "Changes how many nodes a cluster has, and waits until it is ready again. +N and -N are relative.",
        .examples = "weft scale cfd 16\n"
                    "weft scale cfd --group gpu +2",
        .min_args = 2,
        .max_args = 2,
        .names = WEFT_NAMES_CLUSTERS,
        .whole = TRUE,
        .options = options,
        .run = run,
    },
    { 0 },
};
