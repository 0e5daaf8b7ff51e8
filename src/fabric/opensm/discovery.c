#include "discovery.h"

#include "clock.h"
#include "errors.h"

#include <errno.h>
#include <gio/gunixinputstream.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "weft-discover"
#define PRINTED_MAX (128u << 20) /* a subnet of as many nodes as it can have fits */

/* What it says beside is for our log. */
static GSubprocess *
start(const WeftMadsOptions *options, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(GSubprocessLauncher) launcher = g_subprocess_launcher_new(G_SUBPROCESS_FLAGS_STDOUT_PIPE);
    g_autofree char *key = g_strdup_printf("0x%016" G_GINT64_MODIFIER "x", options->m_key);
    g_autofree char *port = g_strdup_printf("%u", options->port);
    /* A secret: others see command lines. */
    g_subprocess_launcher_setenv(launcher, "WEFT_M_KEY", key, TRUE);
    GSubprocess *process = g_subprocess_launcher_spawn(launcher, &failed, options->program ? options->program : PROGRAM,
                                                       options->device ? options->device : "", port, NULL);
    if (!process)
        weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                          PROGRAM
                          ", which looks at the fabric, cannot be started: %s; install it beside weftd's other programs",
                          failed->message);
    return process;
}

/* FALSE: the time is over, or it was cancelled. */
static gboolean
wait_for_output(int output, gint64 end, GCancellable *cancellable)
{
    GPollFD polled[2] = { { .fd = output, .events = G_IO_IN | G_IO_HUP } };
    guint n = g_cancellable_make_pollfd(cancellable, &polled[1]) ? 2 : 1;
    int ready;
    do {
        gint64 left = MAX(0, end - g_get_monotonic_time());
        ready = g_poll(polled, n, (int)MIN(left / 1000 + 1, G_MAXINT));
    } while (ready < 0 && errno == EINTR);
    if (n == 2)
        g_cancellable_release_fd(cancellable);
    return ready > 0 && polled[0].revents && !g_cancellable_is_cancelled(cancellable);
}

/* All that it prints, until it ends. */
static GByteArray *
hear(GSubprocess *process, gint64 deadline, GCancellable *cancellable, GError **error)
{
    int output = g_unix_input_stream_get_fd(G_UNIX_INPUT_STREAM(g_subprocess_get_stdout_pipe(process)));
    gint64 end = g_get_monotonic_time() + deadline;
    g_autoptr(GByteArray) printed = g_byte_array_new();
    guint8 chunk[65536];
    while (wait_for_output(output, end, cancellable)) {
        ssize_t n = read(output, chunk, sizeof chunk);
        if (n <= 0)
            return g_steal_pointer(&printed);
        if (printed->len + (gsize)n > PRINTED_MAX) {
            weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, PROGRAM " printed more than %u MiB, which no fabric takes",
                              PRINTED_MAX >> 20);
            return NULL;
        }
        g_byte_array_append(printed, chunk, (guint)n);
    }
    if (g_cancellable_is_cancelled(cancellable)) {
        weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "looking at the fabric was cancelled");
        return NULL;
    }
    g_autofree char *limit = weft_duration_format(deadline);
    weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                      PROGRAM " has not seen the whole fabric within %s; where it takes longer, raise the manager's deadline",
                      limit);
    return NULL;
}

static gboolean
check_end(GSubprocess *process, const WeftMadsOptions *options, GError **error)
{
    if (g_subprocess_get_if_signaled(process)) {
        int ended_by = g_subprocess_get_term_sig(process);
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                                 PROGRAM
                                 " was ended by signal %d (%s) while it looked at the fabric; weftd's log has what it said",
                                 ended_by, strsignal(ended_by));
    }
    return g_subprocess_get_exit_status(process) == 0 ||
           weft_error_refuse(
               error, WEFT_ERROR_UNAVAILABLE,
               "the fabric cannot be looked at from here (%s, port %u); is the adapter there, ib_umad loaded, and may "
               "weft open /dev/infiniband/umad*?",
               options->device ? options->device : "any adapter", options->port);
}

json_t *
weft_discovery_run(const WeftMadsOptions *options, GCancellable *cancellable, GError **error)
{
    g_autoptr(GSubprocess) process = start(options, error);
    if (!process)
        return NULL;
    g_autoptr(GByteArray) printed = hear(process, options->deadline, cancellable, error);
    /* Whoever has closed its output ends by itself, and how it ended stays; all others are late. */
    g_subprocess_force_exit(process);
    g_subprocess_wait(process, NULL, NULL);
    if (!printed || !check_end(process, options, error))
        return NULL;
    json_error_t why;
    json_t *found = json_loadb((const char *)printed->data, printed->len, JSON_REJECT_DUPLICATES, &why);
    if (!found)
        weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, PROGRAM " printed no JSON (%s at byte %d)", why.text, why.position);
    return found;
}
