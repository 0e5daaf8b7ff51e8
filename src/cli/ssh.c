/* weft ssh: a shell or a command in a node. */
#include "talk.h"
#include "target.h"
#include "terminal.h"
#include "verbs.h"

#include <unistd.h>

static char *user;
static gboolean tty;

static const GOptionEntry options[] = {
    { "login", 'l', 0, G_OPTION_ARG_STRING, &user, "log in as this user; root unless told", "USER" },
    { "tty", 't', 0, G_OPTION_ARG_NONE, &tty, "give the command a terminal, as a shell has", NULL },
    { NULL },
};

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *cluster = NULL;
    guint rank = 0;
    weft_terminal_catch();
    if (!weft_target_find_one(cli, args[0], &cluster, &rank, error))
        return FALSE;
    gboolean shell = !cli->command;
    WeftSessionSpec spec = { .command = cli->command, .user = user, .tty = tty || (shell && isatty(STDIN_FILENO)) };
    WeftSession *session = weft_session_open(cli, cluster, rank, &spec, error);
    if (!session)
        return FALSE;
    g_autoptr(WeftTalk) talk = weft_talk_new(FALSE, spec.tty);
    weft_talk_add(talk, session);
    gboolean fine = weft_talk_until(talk, 1, error);
    cli->status = weft_talk_status(talk);
    return fine;
}

const WeftVerb weft_ssh_verbs[] = {
    {
        .name = "ssh",
        .arguments = "CLUSTER[RANK] [-- COMMAND…]",
        .summary = "log in to a node",
        .about = "Logs in to a node, or runs a command there. It goes through weftd: neither a route nor a key is needed.\n"
                 "Without a rank it is node 0; cfd[3] and cfd-3 are the same. Ends with the exit status of the command, or\n"
                 "with 255 where weft itself failed.",
        .examples = "weft ssh 'cfd[3]' -l alice\n"
                    "weft ssh cfd-3 -- uname -a",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_CLUSTERS,
        .takes_command = TRUE,
        .speaks = TRUE,
        .failure = 255,
        .options = options,
        .run = run,
    },
    { 0 },
};
