/* weft clone: a new cluster that begins with the memory of a running one. */
#include "await.h"
#include "clock.h"
#include "errors.h"
#include "target.h"
#include "verbs.h"

static char *to, *timeout;
static int count;
static gboolean no_wait;

static const GOptionEntry options[] = {
    { "to", 0, 0, G_OPTION_ARG_STRING, &to, "what the clone is called", "NAME" },
    { "count", 'n', 0, G_OPTION_ARG_INT, &count, "number of nodes (default: as many as are copied)", "N" },
    { "no-wait", 0, 0, G_OPTION_ARG_NONE, &no_wait, "return once the request is accepted", NULL },
    { "timeout", 0, 0, G_OPTION_ARG_STRING, &timeout, "wait no longer than this: 90s, 10m", "TIME" },
    { NULL },
};

static json_t *
make_body(const WeftTarget *target, const char *text, GError **error)
{
    if (!to) {
        weft_cli_set_usage(error, "clone: what is the clone called? (--to NAME)");
        return NULL;
    }
    if (count < 0) {
        weft_cli_set_usage(error, "clone: -n %d: write how many nodes, 1 or more", count);
        return NULL;
    }
    if (target->ranks && target->ranks->len != 1) {
        weft_cli_set_usage(error, "clone: %s names %u nodes; name one, like %s[0], or the cluster", text, target->ranks->len,
                           target->cluster);
        return NULL;
    }
    json_t *body = json_pack("{s:s}", "name", to);
    if (count)
        json_object_set_new(body, "count", json_integer(count));
    if (target->ranks)
        json_object_set_new(body, "rank", json_integer(g_array_index(target->ranks, guint, 0)));
    return body;
}

static char *
tell_pause(json_t *ready)
{
    double paused = json_number_value(json_object_get(json_object_get(ready, "clone"), "paused")) * 1000;
    return g_strdup_printf("; what it was cloned from stood still for %.1f ms", paused);
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    gint64 limit = 0;
    g_auto(WeftTarget) target = { 0 };
    if (timeout && !weft_duration_parse(timeout, &limit, error)) {
        g_prefix_error(error, "--timeout: ");
        return FALSE;
    }
    json_t *body = weft_target_find(cli, args[0], &target, error) ? make_body(&target, args[0], error) : NULL;
    if (!body)
        return FALSE;
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *path = weft_cli_cluster_path(cli, target.cluster, "/clone");
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ "POST", path, body }, &response, error);
    json_decref(body);
    if (!ok) {
        weft_cli_blame(error, "cluster", target.cluster);
        return FALSE;
    }
    if (!no_wait)
        return weft_await_ready(cli, response.body,
                                &(WeftAwait){ .goal = &weft_goal_ready, .timeout = limit, .after = "it goes on being cloned" },
                                tell_pause, error);
    if (cli->json)
        weft_cli_print_json(g_steal_pointer(&response.body));
    else
        printf("cluster %s is being cloned from %s\n", to, args[0]);
    return TRUE;
}

const WeftVerb weft_clone_verbs[] = {
    {
        .name = "clone",
        .arguments = "NAME[RANK] --to NAME",
        .summary = "clone a running cluster, memory included",
        .about = "Copies running nodes into a new cluster of the same tenant: what they have in memory comes along; names,\n"
                 "addresses and keys are new. With a rank, all nodes of the clone are copies of that one. What runs goes on\n"
                 "running, and stands still for a moment, which is told.",
        .examples = "weft clone cfd --to sweep\n"
                    "weft clone 'cfd[0]' --to sweep -n 32",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_CLUSTERS,
        .options = options,
        .run = run,
    },
    { 0 },
};
