/* weft rm: removes clusters. */
#include "await.h"
#include "errors.h"
#include "hostlist.h"
#include "verbs.h"

#include <unistd.h>

static gboolean yes, no_wait;

static const GOptionEntry options[] = {
    { "yes", 'y', 0, G_OPTION_ARG_NONE, &yes, "do not ask", NULL },
    { "no-wait", 0, 0, G_OPTION_ARG_NONE, &no_wait, "return once the request is accepted", NULL },
    { NULL },
};

/* Asks only where somebody can answer: scripts are not stopped. */
static gboolean
confirmed(GPtrArray *names)
{
    if (yes || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return TRUE;
    g_autofree char *count = weft_cli_count(names->len, "cluster");
    g_ptr_array_add(names, NULL);
    g_autofree char *list = weft_hostlist_fold((const char *const *)names->pdata);
    g_ptr_array_set_size(names, (int)names->len - 1);
    fprintf(stderr, "remove %s, %s? [y/N] ", count, list);
    char answer[16] = "";
    return fgets(answer, sizeof answer, stdin) && g_ascii_tolower(answer[0]) == 'y';
}

static json_t *
remove_one(WeftCli *cli, const char *name, GError **error)
{
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *path = weft_cli_cluster_path(cli, name, "");
    if (!weft_client_call(cli->client, &(WeftCall){ "DELETE", path }, &response, error)) {
        weft_cli_blame(error, "cluster", name);
        return NULL;
    }
    return g_steal_pointer(&response.body);
}

static gboolean
wait_gone(WeftCli *cli, json_t *cluster, GError **error)
{
    WeftAwait await = { .goal = &weft_goal_deleted, .after = "it goes on being removed" };
    return weft_await_cluster(cli, cluster, &await, NULL, error);
}

static void
tell(json_t *cluster)
{
    g_autofree char *name = weft_cli_field(cluster, "name");
    printf("cluster %s is %s\n", name, no_wait ? "being removed" : "removed");
    fflush(stdout);
}

/* All are asked to go before the first is waited for. */
static json_t *
remove_all(WeftCli *cli, GPtrArray *names, GError **first)
{
    json_t *removed = json_array();
    for (guint i = 0; i < names->len; i++) {
        GError *local = NULL;
        json_t *cluster = remove_one(cli, names->pdata[i], &local);
        if (cluster)
            json_array_append_new(removed, cluster);
        else
            weft_cli_keep_first(first, local);
    }
    return removed;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autoptr(GPtrArray) names = weft_cli_expand(args, error);
    if (!names)
        return FALSE;
    if (!confirmed(names)) {
        g_set_error_literal(error, WEFT_ERROR, WEFT_ERROR_FAILED, "nothing was removed");
        return FALSE;
    }
    GError *first = NULL;
    json_t *removed = remove_all(cli, names, &first);
    size_t i;
    json_t *cluster;
    json_array_foreach (removed, i, cluster) {
        GError *local = NULL;
        if (!no_wait && !wait_gone(cli, cluster, &local)) {
            weft_cli_keep_first(&first, local);
            if (weft_client_interrupted(NULL))
                break;
        } else if (!cli->json)
            tell(cluster);
    }
    if (cli->json)
        weft_cli_print_json(json_incref(removed));
    json_decref(removed);
    if (first)
        g_propagate_error(error, first);
    return first == NULL;
}

const WeftVerb weft_rm_verbs[] = {
    {
        .name = "rm",
        .arguments = "NAME…",
        .summary = "remove clusters",
        .about = "Removes clusters and waits until they are gone. Asks first on a terminal. Brackets name several clusters:\n"
                 "run[0-3] is run0, run1, run2 and run3.",
        .examples = "weft rm cfd\n"
                    "weft rm -y 'run[0-9]'",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_CLUSTERS,
        .options = options,
        .run = run,
    },
    { 0 },
};
