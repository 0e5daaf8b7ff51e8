/* weft checkpoint, weft restore, and what there is of checkpoints. */
#include "await.h"
#include "clock.h"
#include "errors.h"
#include "table.h"
#include "upload.h"
#include "verbs.h"

static char *name, *as, *timeout;
static gboolean disrupt, no_wait;

static const GOptionEntry make_options[] = {
    { "name", 0, 0, G_OPTION_ARG_STRING, &name, "what to call it (the cluster's name and a number)", "NAME" },
    { "disrupt", 0, 0, G_OPTION_ARG_NONE, &disrupt, "also where what nodes have open on their fabric devices breaks", NULL },
    { "no-wait", 0, 0, G_OPTION_ARG_NONE, &no_wait, "return once the request is accepted", NULL },
    { "timeout", 0, 0, G_OPTION_ARG_STRING, &timeout, "wait no longer than this: 90s, 10m", "TIME" },
    { NULL },
};

static const GOptionEntry restore_options[] = {
    { "as", 0, 0, G_OPTION_ARG_STRING, &as, "the name of the new cluster (as it was called)", "NAME" },
    { "no-wait", 0, 0, G_OPTION_ARG_NONE, &no_wait, "return once the request is accepted", NULL },
    { "timeout", 0, 0, G_OPTION_ARG_STRING, &timeout, "wait no longer than this: 90s, 10m", "TIME" },
    { NULL },
};

/* --- waiting --- */

static gboolean
is_complete(json_t *checkpoint, gboolean *ret_reached, GError **error)
{
    g_autofree char *state = checkpoint ? weft_cli_field(checkpoint, "state") : g_strdup("gone");
    *ret_reached = strcmp(state, "complete") == 0;
    if (strcmp(state, "failed") != 0 && checkpoint)
        return TRUE;
    g_autofree char *reason = checkpoint ? weft_cli_field(checkpoint, "reason") : g_strdup("somebody removed it");
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "%s: %s", state, reason);
}

static char *
describe(json_t *checkpoint)
{
    return weft_cli_field(checkpoint, "state");
}

static const WeftGoal goal_complete = { is_complete, describe };

static gboolean
read_timeout(gint64 *ret_timeout, GError **error)
{
    if (!timeout || weft_duration_parse(timeout, ret_timeout, error))
        return TRUE;
    g_prefix_error(error, "--timeout: ");
    return FALSE;
}

static char *
path_of(const WeftCli *cli, const char *checkpoint, const char *suffix)
{
    g_autofree char *base = weft_client_path("/v1/checkpoints", checkpoint);
    return weft_client_query(g_strconcat(base, suffix, NULL), "tenant", cli->tenant);
}

static gboolean
await_checkpoint(WeftCli *cli, json_t *asked, const char *cluster, json_t **ret_checkpoint, GError **error)
{
    g_autofree char *called = weft_cli_field(asked, "name");
    g_autofree char *what = g_strdup_printf("checkpoint %s", called);
    g_autofree char *path = path_of(cli, called, "");
    g_autofree char *events = weft_cli_cluster_path(cli, cluster, "/events");
    WeftAwait await = {
        .goal = &goal_complete, .what = what, .path = path, .events = events, .after = "it goes on being made"
    };
    return read_timeout(&await.timeout, error) && weft_await(cli, &await, ret_checkpoint, error);
}

/* --- verbs --- */

static void
print_made(json_t *checkpoint)
{
    g_autofree char *called = weft_cli_field(checkpoint, "name");
    g_autofree char *nodes = weft_cli_count(weft_cli_number(checkpoint, "nodes"), "node");
    g_autofree char *size = weft_upload_size((guint64)weft_cli_number(checkpoint, "size"));
    printf("checkpoint %s is complete: %s in %s, paused for %" G_GINT64_FORMAT " ms, within %" G_GINT64_FORMAT
           " ms of each other\n",
           called, nodes, size, weft_cli_number(checkpoint, "paused_ms"), weft_cli_number(checkpoint, "skew_ms"));
}

static gboolean
run_make(WeftCli *cli, char **args, GError **error)
{
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *path = weft_cli_cluster_path(cli, args[0], "/checkpoints");
    json_auto_t *body = json_object();
    json_t *checkpoint = NULL;
    if (name)
        json_object_set_new(body, "name", json_string(name));
    if (disrupt)
        json_object_set_new(body, "disrupt", json_true());
    if (!weft_client_call(cli->client, &(WeftCall){ "POST", path, body }, &response, error)) {
        weft_cli_blame(error, "cluster", args[0]);
        return FALSE;
    }
    if (no_wait)
        checkpoint = json_incref(response.body);
    else if (!await_checkpoint(cli, response.body, args[0], &checkpoint, error))
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(checkpoint);
        return TRUE;
    }
    if (no_wait) {
        g_autofree char *called = weft_cli_field(checkpoint, "name");
        printf("checkpoint %s is being made\n", called);
    } else {
        print_made(checkpoint);
    }
    json_decref(checkpoint);
    return TRUE;
}

static gboolean
run_restore(WeftCli *cli, char **args, GError **error)
{
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *path = path_of(cli, args[0], "/restore");
    json_auto_t *body = json_object();
    json_t *cluster = NULL;
    WeftAwait await = { .goal = &weft_goal_ready, .after = "it goes on being restored" };
    if (as)
        json_object_set_new(body, "as", json_string(as));
    if (!read_timeout(&await.timeout, error))
        return FALSE;
    if (!weft_client_call(cli->client, &(WeftCall){ "POST", path, body }, &response, error)) {
        weft_cli_blame(error, "checkpoint", args[0]);
        return FALSE;
    }
    if (no_wait)
        cluster = json_incref(response.body);
    else if (!weft_await_cluster(cli, response.body, &await, &cluster, error))
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(cluster);
        return TRUE;
    }
    g_autofree char *called = weft_cli_field(cluster, "name");
    g_autofree char *nodes = weft_cli_count(weft_cli_number(cluster, "count"), "node");
    printf("cluster %s %s %s\n", called, no_wait ? "is being restored:" : "is ready, and goes on from the checkpoint:", nodes);
    json_decref(cluster);
    return TRUE;
}

static gboolean
run_ls(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *path = weft_client_query(g_strdup("/v1/checkpoints"), "tenant", cli->tenant);
    json_t *checkpoints = weft_client_list(cli->client, path, error);
    if (!checkpoints)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(checkpoints);
        return TRUE;
    }
    g_autoptr(WeftTable) table = weft_table_new("NAME|TENANT|CLUSTER|>NODES|!STATE|>SIZE|>TAKEN|REASON");
    size_t i;
    json_t *one;
    json_array_foreach (checkpoints, i, one) {
        json_t *size = json_object_get(one, "size");
        weft_table_take(table, weft_cli_field(one, "name"));
        weft_table_take(table, weft_cli_field(one, "tenant"));
        weft_table_take(table, weft_cli_field(one, "cluster_name"));
        weft_table_take(table, weft_cli_field(one, "nodes"));
        weft_table_take(table, weft_cli_field(one, "state"));
        weft_table_take(table, json_is_integer(size) ? weft_upload_size((guint64)json_integer_value(size)) : g_strdup("-"));
        weft_table_take(table, weft_cli_age_field(one, "taken"));
        weft_table_take(table, weft_cli_field(one, "reason"));
    }
    weft_table_print(table, stdout);
    json_decref(checkpoints);
    return TRUE;
}

static gboolean
run_show(WeftCli *cli, char **args, GError **error)
{
    static const struct {
        const char *field, *label;
    } lines[] = {
        { "name", "checkpoint" }, { "cluster_name", "of cluster" }, { "tenant", "tenant" },    { "nodes", "nodes" },
        { "state", "state" },     { "reason", "reason" },           { "detail", "detail" },    { "size", "bytes" },
        { "taken", "taken" },     { "paused_ms", "paused, ms" },    { "skew_ms", "skew, ms" }, { "creator", "made by" },
        { "kind", "hosts" },      { "restored", "restored" }
    };
    g_autofree char *path = path_of(cli, args[0], "");
    json_t *checkpoint = weft_client_get(cli->client, path, error);
    if (!checkpoint) {
        weft_cli_blame(error, "checkpoint", args[0]);
        return FALSE;
    }
    if (cli->json) {
        weft_cli_print_json(checkpoint);
        return TRUE;
    }
    for (gsize i = 0; i < G_N_ELEMENTS(lines); i++) {
        json_t *value = json_object_get(checkpoint, lines[i].field);
        g_autofree char *text = weft_cli_field(checkpoint, lines[i].field);
        if (value && !json_is_null(value))
            printf("%-11s %s\n", lines[i].label, text);
    }
    json_decref(checkpoint);
    return TRUE;
}

static gboolean
run_rm(WeftCli *cli, char **args, GError **error)
{
    return weft_cli_remove(cli, &(WeftRemoval){ "checkpoint", "/v1/checkpoints", "is removed", TRUE }, args, error);
}

const WeftVerb weft_checkpoint_verbs[] = {
    {
        .name = "checkpoint",
        .arguments = "CLUSTER",
        .summary = "save a running cluster; it continues to run",
        .about =
            "Puts all nodes of a cluster aside as they are at one moment, memory and all, to be restored from later, also on "
            "other hosts. They stand still while they are saved, and go on.",
        .examples = "weft checkpoint cfd\n"
                    "weft checkpoint cfd --name before-upgrade",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_CLUSTERS,
        .whole = TRUE,
        .options = make_options,
        .run = run_make,
    },
    {
        .name = "restore",
        .arguments = "CHECKPOINT",
        .summary = "make a cluster again from a checkpoint",
        .about =
            "Makes a cluster of which all nodes go on from where they were when the checkpoint was taken, with the addresses "
            "that they had: the cluster that has these must be gone.",
        .examples = "weft restore cfd-1\n"
                    "weft restore before-upgrade --as again",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_CHECKPOINTS,
        .options = restore_options,
        .run = run_restore,
    },
    {
        .name = "checkpoints ls",
        .arguments = "",
        .summary = "list checkpoints",
        .examples = "weft checkpoints ls\n"
                    "weft checkpoints ls --json",
        .run = run_ls,
    },
    {
        .name = "checkpoints show",
        .arguments = "NAME",
        .summary = "show a checkpoint",
        .examples = "weft checkpoints show cfd-1\n"
                    "weft checkpoints show cfd-1 --json",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_CHECKPOINTS,
        .run = run_show,
    },
    {
        .name = "checkpoints rm",
        .arguments = "NAME…",
        .summary = "remove checkpoints",
        .examples = "weft checkpoints rm cfd-1\n"
                    "weft checkpoints rm cfd-1 cfd-2",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_CHECKPOINTS,
        .run = run_rm,
    },
    { 0 },
};
