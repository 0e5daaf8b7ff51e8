/* weft console: the serial console of a node. */
#include "target.h"
#include "terminal.h"
#include "tunnel.h"
#include "verbs.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define ESCAPE 0x1d /* Ctrl-] */
#define BLOCK 4096
#define INPUT_MAX 1024

typedef struct {
    WeftTunnel *tunnel;
    GByteArray *input;  /* for the node */
    GByteArray *output; /* of the node */
    gboolean reads;
    gboolean over;
} Console;

static void
read_keys(Console *console)
{
    guint8 keys[INPUT_MAX];
    gssize n = read(STDIN_FILENO, keys, sizeof keys);
    if (n < 0 && errno == EINTR)
        return;
    console->reads = n > 0;
    const guint8 *escape = n > 0 ? memchr(keys, ESCAPE, (gsize)n) : NULL;
    console->over |= escape != NULL;
    if (n > 0)
        g_byte_array_append(console->input, keys, (guint)(escape ? escape - keys : n));
}

static gboolean
move_input(Console *console, GError **error)
{
    if (!console->input->len)
        return TRUE;
    gssize n = weft_tunnel_send(console->tunnel, console->input->data, console->input->len, error);
    if (n > 0)
        g_byte_array_remove_range(console->input, 0, (guint)n);
    return n >= 0;
}

static gboolean
move_output(Console *console, GError **error)
{
    guint8 block[BLOCK];
    gssize n = console->output->len ? 0 : weft_tunnel_receive(console->tunnel, block, sizeof block, error);
    if (n > 0)
        g_byte_array_append(console->output, block, (guint)n);
    return n >= 0;
}

static void
write_output(Console *console)
{
    gssize n = write(STDOUT_FILENO, console->output->data, console->output->len);
    if (n > 0)
        g_byte_array_remove_range(console->output, 0, (guint)n);
}

static gboolean
turn(Console *console, GError **error)
{
    gboolean waits = console->output->len > 0;
    short events = (short)((waits ? 0 : POLLIN) | (console->input->len ? POLLOUT : 0));
    struct pollfd fds[] = {
        { events ? weft_tunnel_fd(console->tunnel) : -1, events, 0 },
        { console->reads && console->input->len < INPUT_MAX ? STDIN_FILENO : -1, POLLIN, 0 },
        { waits ? STDOUT_FILENO : -1, POLLOUT, 0 },
    };
    int timeout = !waits && weft_tunnel_has_more(console->tunnel) ? 0 : -1;
    if (weft_terminal_poll(fds, G_N_ELEMENTS(fds), timeout) < 0) {
        int signal = weft_terminal_signal();
        console->over |= signal && signal != SIGWINCH;
        return TRUE;
    }
    if (fds[1].revents)
        read_keys(console);
    if (fds[2].revents)
        write_output(console);
    return move_input(console, error) && move_output(console, error);
}

static gboolean
converse(WeftTunnel *tunnel, GError **error)
{
    Console console = { .tunnel = tunnel, .input = g_byte_array_new(), .output = g_byte_array_new(), .reads = TRUE };
    gboolean fine = TRUE;
    while (fine && !console.over)
        fine = turn(&console, error);
    g_byte_array_unref(console.input);
    g_byte_array_unref(console.output);
    return fine;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *cluster = NULL;
    guint rank = 0;
    weft_terminal_catch();
    if (!weft_target_find_one(cli, args[0], &cluster, &rank, error))
        return FALSE;
    g_autofree char *suffix = g_strdup_printf("/nodes/%u/console", rank);
    g_autofree char *path = weft_cli_cluster_path(cli, cluster, suffix);
    g_autoptr(WeftTunnel) tunnel = weft_tunnel_open(cli->client, path, "weft-console/1", error);
    if (!tunnel)
        return FALSE;
    fprintf(stderr, "console of %s[%u]; Ctrl-] ends it\n", cluster, rank);
    gboolean raw = weft_terminal_make_raw();
    gboolean fine = converse(tunnel, error);
    weft_terminal_restore();
    if (raw)
        fputc('\n', stderr);
    return fine;
}

const WeftVerb weft_console_verbs[] = {
    {
        .name = "console",
        .arguments = "CLUSTER[RANK]",
        .summary = "open the serial console of a node",
        .about = "Opens the serial console of a node, also while it boots. Ctrl-] ends it. One person at a time has it.",
        .examples = "weft console cfd\n"
                    "weft console 'cfd[3]'",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_CLUSTERS,
        .speaks = TRUE,
        .run = run,
    },
    { 0 },
};
