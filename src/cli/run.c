/* weft run: a command on nodes of a cluster. */
#include "talk.h"
#include "target.h"
#include "terminal.h"
#include "verbs.h"

#include <gio/gio.h>

#define AT_ONCE 32
#define FAILED 255

static char *user;
static gboolean tty, all;
static char **variables;

static const GOptionEntry options[] = {
    { "all", 'a', 0, G_OPTION_ARG_NONE, &all, "on all nodes of the cluster", NULL },
    { "env", 'e', 0, G_OPTION_ARG_STRING_ARRAY, &variables, "set a variable; may be given again", "NAME=VALUE" },
    { "login", 'l', 0, G_OPTION_ARG_STRING, &user, "as this user; root unless told", "USER" },
    { "tty", 't', 0, G_OPTION_ARG_NONE, &tty, "give the command a terminal", NULL },
    { NULL },
};

static gboolean
check_variables(GError **error)
{
    for (char **pair = variables; pair && *pair; pair++) {
        g_autofree char *name = NULL;
        g_autofree char *value = NULL;
        if (!weft_cli_split_pair("--env", *pair, &name, &value, error))
            return FALSE;
    }
    return TRUE;
}

/* guint, ascending as the nodes are listed. */
static GArray *
all_ranks(WeftCli *cli, const char *cluster, GError **error)
{
    g_autofree char *path = weft_cli_cluster_path(cli, cluster, "/hostfile");
    json_t *nodes = weft_client_get(cli->client, path, error);
    if (!nodes)
        return NULL;
    GArray *ranks = g_array_new(FALSE, FALSE, sizeof(guint));
    size_t i;
    json_t *node;
    json_array_foreach (json_object_get(nodes, "items"), i, node) {
        const char *hostname = json_string_value(json_object_get(node, "hostname"));
        g_autofree char *name = NULL;
        guint rank = 0;
        if (hostname && weft_target_split(hostname, &name, &rank))
            g_array_append_val(ranks, rank);
    }
    json_decref(nodes);
    return ranks;
}

static gboolean
find_ranks(WeftCli *cli, const char *text, WeftTarget *target, GError **error)
{
    if (!weft_target_find(cli, text, target, error))
        return FALSE;
    if (all && target->ranks) {
        weft_cli_set_usage(error, "%s: --all means all nodes; leave out their numbers", text);
        return FALSE;
    }
    if (!target->ranks)
        target->ranks = all ? all_ranks(cli, target->cluster, error) : g_array_new(FALSE, TRUE, sizeof(guint));
    if (target->ranks && !all && target->ranks->len == 0)
        g_array_set_size(target->ranks, 1);
    return target->ranks != NULL;
}

/* Until fewer than that many run. What goes wrong with one node does not stop the others, only Ctrl-C does. failure: of the
 * last one that should have begun, taken over. */
static gboolean
carry_on(WeftCli *cli, WeftTalk *talk, guint fewer, GError *failure, GError **error)
{
    while (failure || !weft_talk_until(talk, fewer, &failure)) {
        if (g_error_matches(failure, G_IO_ERROR, G_IO_ERROR_CANCELLED)) {
            g_propagate_error(error, failure);
            return FALSE;
        }
        weft_cli_report(failure);
        g_clear_error(&failure);
        cli->status = FAILED;
    }
    return TRUE;
}

static gboolean
run_many(WeftCli *cli, const WeftTarget *target, const WeftSessionSpec *spec, GError **error)
{
    g_autoptr(WeftTalk) talk = weft_talk_new(TRUE, FALSE);
    for (guint i = 0; i < target->ranks->len; i++) {
        GError *failure = NULL;
        WeftSession *session = weft_session_open(cli, target->cluster, g_array_index(target->ranks, guint, i), spec, &failure);
        if (session)
            weft_talk_add(talk, session);
        if (!carry_on(cli, talk, AT_ONCE, failure, error))
            return FALSE;
    }
    if (!carry_on(cli, talk, 1, NULL, error))
        return FALSE;
    cli->status = MAX(cli->status, weft_talk_status(talk));
    return TRUE;
}

static gboolean
run_one(WeftCli *cli, const WeftTarget *target, const WeftSessionSpec *spec, GError **error)
{
    WeftSession *session = weft_session_open(cli, target->cluster, g_array_index(target->ranks, guint, 0), spec, error);
    if (!session)
        return FALSE;
    g_autoptr(WeftTalk) talk = weft_talk_new(FALSE, spec->tty);
    weft_talk_add(talk, session);
    gboolean fine = weft_talk_until(talk, 1, error);
    cli->status = weft_talk_status(talk);
    return fine;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_auto(WeftTarget) target = { 0 };
    if (!cli->command) {
        weft_cli_set_usage(error, "run: the command is missing: weft run %s -- COMMAND…", args[0]);
        return FALSE;
    }
    weft_terminal_catch();
    if (!check_variables(error) || !find_ranks(cli, args[0], &target, error))
        return FALSE;
    WeftSessionSpec spec = { .command = cli->command, .variables = variables, .user = user, .tty = tty };
    if (target.ranks->len == 1 && !all)
        return run_one(cli, &target, &spec, error);
    if (tty) {
        weft_cli_set_usage(error, "run: --tty is for one node, and %s names %u", args[0], target.ranks->len);
        return FALSE;
    }
    return run_many(cli, &target, &spec, error);
}

const WeftVerb weft_run_verbs[] = {
    {
        .name = "run",
        .arguments = "CLUSTER[RANK…] -- COMMAND…",
        .summary = "run a command on nodes",
        .about = "Runs a command on a node, 0 unless told, and passes on its output, input, exit status and Ctrl-C; a second\n"
                 "Ctrl-C within 2 s ends weft itself. On several nodes each line begins with its node's name, there is no\n"
                 "input, and the highest exit status counts. 255: weft itself failed.",
        .examples = "weft run cfd -- mpirun ./solver\n"
                    "weft run 'cfd[0-3,7]' -e OMP_NUM_THREADS=4 -- ./bench",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_CLUSTERS,
        .takes_command = TRUE,
        .speaks = TRUE,
        .failure = FAILED,
        .options = options,
        .run = run,
    },
    { 0 },
};
