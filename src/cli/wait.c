/* weft wait: until clusters are ready, or gone. */
#include "await.h"
#include "clock.h"
#include "errors.h"
#include "verbs.h"

static char *what_for, *timeout;

static const GOptionEntry options[] = {
    { "for", 0, 0, G_OPTION_ARG_STRING, &what_for, "what to wait for (ready)", "ready|deleted" },
    { "timeout", 0, 0, G_OPTION_ARG_STRING, &timeout, "wait no longer than this: 90s, 10m", "TIME" },
    { NULL },
};

static const WeftGoal *
parse_goal(GError **error)
{
    if (!what_for || strcmp(what_for, "ready") == 0)
        return &weft_goal_ready;
    if (strcmp(what_for, "deleted") == 0)
        return &weft_goal_deleted;
    weft_cli_set_usage(error, "wait: --for %s: write ready or deleted", what_for);
    return NULL;
}

/* Waits by the id: a name may be given to a new cluster while the old one is waited for. */
static gboolean
wait_one(WeftCli *cli, const char *name, const WeftAwait *await, json_t **ret_cluster, GError **error)
{
    g_autofree char *path = weft_cli_cluster_path(cli, name, "");
    g_autoptr(GError) local = NULL;
    json_t *cluster = weft_client_get(cli->client, path, &local);
    if (!cluster && await->goal == &weft_goal_deleted && g_error_matches(local, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
        return TRUE;
    if (!cluster) {
        g_propagate_error(error, g_steal_pointer(&local));
        weft_cli_blame(error, "cluster", name);
        return FALSE;
    }
    gboolean ok = weft_await_cluster(cli, cluster, await, ret_cluster, error);
    json_decref(cluster);
    return ok;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    WeftAwait await = { .goal = parse_goal(error), .after = "what weftd does with it goes on" };
    if (!await.goal)
        return FALSE;
    if (timeout && !weft_duration_parse(timeout, &await.timeout, error)) {
        g_prefix_error(error, "--timeout: ");
        return FALSE;
    }
    g_autoptr(GPtrArray) names = weft_cli_expand(args, error);
    json_t *clusters = json_array();
    gboolean ok = names != NULL;
    for (guint i = 0; ok && i < names->len; i++) {
        json_t *cluster = NULL;
        ok = wait_one(cli, names->pdata[i], &await, &cluster, error);
        if (cluster)
            json_array_append_new(clusters, cluster);
        if (ok && !cli->json)
            printf("cluster %s is %s\n", (char *)names->pdata[i], await.goal == &weft_goal_ready ? "ready" : "gone");
    }
    if (ok && cli->json)
        weft_cli_print_json(json_incref(clusters));
    json_decref(clusters);
    return ok;
}

const WeftVerb weft_wait_verbs[] = {
    {
        .name = "wait",
        .arguments = "NAME…",
        .summary = "wait until clusters are ready, or gone",
        .about = "Waits until clusters are ready, or gone. Brackets name several clusters: run[0-3].",
        .examples = "weft wait cfd --timeout 10m\n"
                    "weft wait 'run[0-9]' --for deleted",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_CLUSTERS,
        .options = options,
        .run = run,
    },
    { 0 },
};
