#include "forward.h"

#include "backoff.h"
#include "errors.h"
#include "text.h"

#include <fcntl.h>
#include <gio/gunixinputstream.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define READY "weft-forward-ready"
#define SAID_MAX 2000

static const WeftBackoff backoff = { .base = G_USEC_PER_SEC / 2, .max = 30 * G_USEC_PER_SEC };

struct WeftForward {
    GPtrArray *argv;
    char *folder; /* private: holds the socket */
    char *path;

    GMutex lock;      /* of all that follows */
    GSubprocess *ssh; /* NULL: it does not run */
    int output;       /* of it; its end tells that ssh ended */
    gboolean is_ready;
    GString *said;
    guint failures;
    gint64 not_before;
};

/* --- the command --- */

static gboolean
check_url(GUri *uri, const char *url, GError **error)
{
    static const char *const allowed = G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "._-";
    const char *user = g_uri_get_userinfo(uri), *host = g_uri_get_host(uri), *path = g_uri_get_path(uri);
    gboolean ok = (!user || (*user && *user != '-' && !user[strspn(user, allowed)])) && host && *host && *host != '-' &&
                  !host[strspn(host, allowed)] && path && strlen(path) > 1 && !strpbrk(path, ": \t\n%") &&
                  !g_uri_get_query(uri) && !g_uri_get_fragment(uri);
    return ok || weft_error_refuse(error, WEFT_ERROR_INVALID,
                                   "manager \"%s\": must be ssh://user@machine[:port]/path of its socket there", url);
}

static void
add(GPtrArray *argv, const char *option, char *value)
{
    g_ptr_array_add(argv, g_strdup(option));
    if (value)
        g_ptr_array_add(argv, value);
}

/* Fails rather than asks, and says when the socket is there: the local command runs once the forward is made. */
static const char *const settings[] = {
    "BatchMode=yes",         "ExitOnForwardFailure=yes", "StreamLocalBindUnlink=yes",
    "ServerAliveInterval=5", "ServerAliveCountMax=3",    "ConnectTimeout=10",
    "ControlPath=none",      "PermitLocalCommand=yes",   ("LocalCommand=echo " READY),
};

static void
make_command(WeftForward *forward, GUri *uri, const WeftForwardOptions *options)
{
    const char *user = g_uri_get_userinfo(uri), *host = g_uri_get_host(uri);
    forward->argv = g_ptr_array_new_with_free_func(g_free);
    add(forward->argv, options->program ? options->program : "ssh", NULL);
    add(forward->argv, "-NT", NULL);
    for (guint i = 0; i < G_N_ELEMENTS(settings); i++)
        add(forward->argv, "-o", g_strdup(settings[i]));
    if (options->key) {
        add(forward->argv, "-o", g_strdup("IdentitiesOnly=yes"));
        add(forward->argv, "-i", g_strdup(options->key));
    }
    if (g_uri_get_port(uri) > 0)
        add(forward->argv, "-p", g_strdup_printf("%d", g_uri_get_port(uri)));
    add(forward->argv, "-L", g_strdup_printf("%s:%s", forward->path, g_uri_get_path(uri)));
    add(forward->argv, "--", user ? g_strdup_printf("%s@%s", user, host) : g_strdup(host));
    g_ptr_array_add(forward->argv, NULL);
}

WeftForward *
weft_forward_new(const char *url, const WeftForwardOptions *options, GError **error)
{
    g_autoptr(GUri) uri = g_uri_parse(url, G_URI_FLAGS_NONE, NULL);
    if (!uri)
        weft_error_refuse(error, WEFT_ERROR_INVALID, "manager \"%s\": must be ssh://user@machine[:port]/path", url);
    if (!uri || !check_url(uri, url, error))
        return NULL;
    g_autoptr(WeftForward) forward = g_new0(WeftForward, 1);
    g_mutex_init(&forward->lock);
    forward->said = g_string_new(NULL);
    forward->output = -1;
    forward->folder = g_dir_make_tmp("weft-XXXXXX", error);
    if (!forward->folder)
        return NULL;
    forward->path = g_build_filename(forward->folder, "opensm.sock", NULL);
    make_command(forward, uri, options);
    return g_steal_pointer(&forward);
}

const char *
weft_forward_path(const WeftForward *forward)
{
    return forward->path;
}

/* --- ssh; lock: held --- */

static void
forget(WeftForward *forward)
{
    if (!forward->ssh)
        return;
    g_subprocess_force_exit(forward->ssh);
    g_clear_object(&forward->ssh);
    forward->is_ready = FALSE;
    g_unlink(forward->path);
}

static gboolean
start(WeftForward *forward, GError **error)
{
    if (g_get_monotonic_time() < forward->not_before)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "ssh ended, and is started again soon; it said: %s",
                                 *forward->said->str ? forward->said->str : "nothing");
    g_autoptr(GError) failed = NULL;
    g_string_truncate(forward->said, 0);
    forward->ssh = g_subprocess_newv((const char *const *)forward->argv->pdata,
                                     G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_MERGE, &failed);
    if (!forward->ssh)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "ssh cannot be started: %s", failed->message);
    forward->output = g_unix_input_stream_get_fd(G_UNIX_INPUT_STREAM(g_subprocess_get_stdout_pipe(forward->ssh)));
    g_unix_set_fd_nonblocking(forward->output, TRUE, NULL);
    return TRUE;
}

/* The last of it is what counts: a machine may greet with pages of law. */
static void
hear(WeftForward *forward, const char *chunk, gsize length)
{
    g_string_append_len(forward->said, chunk, (gssize)length);
    const char *ready = strstr(forward->said->str, READY);
    if (ready) {
        forward->is_ready = TRUE;
        forward->failures = 0;
        g_string_erase(forward->said, ready - forward->said->str, strlen(READY));
    }
    if (forward->said->len > SAID_MAX)
        g_string_erase(forward->said, 0, (gssize)(forward->said->len - SAID_MAX));
}

/* Takes in what ssh said. FALSE: it ended. */
static gboolean
drain(WeftForward *forward)
{
    char chunk[1024];
    ssize_t n;
    while ((n = read(forward->output, chunk, sizeof chunk)) > 0)
        hear(forward, chunk, (gsize)n);
    if (n != 0)
        return TRUE;
    g_strstrip(forward->said->str);
    forward->said->len = strlen(forward->said->str);
    forward->not_before = g_get_monotonic_time() + weft_backoff_delay(&backoff, ++forward->failures);
    forget(forward);
    return FALSE;
}

/* FALSE: the time is over, or it was cancelled. */
static gboolean
wait_for_output(const WeftForward *forward, gint64 deadline, GCancellable *cancellable)
{
    GPollFD polled[2] = { { .fd = forward->output, .events = G_IO_IN | G_IO_HUP } };
    guint n = g_cancellable_make_pollfd(cancellable, &polled[1]) ? 2 : 1;
    gint64 left = MAX(0, deadline - g_get_monotonic_time());
    int ready = g_poll(polled, n, (int)MIN(left / 1000 + 1, G_MAXINT));
    if (n == 2)
        g_cancellable_release_fd(cancellable);
    return ready > 0 && polled[0].revents && !g_cancellable_is_cancelled(cancellable);
}

static gboolean
open_locked(WeftForward *forward, gint64 deadline, GCancellable *cancellable, GError **error)
{
    if (forward->ssh)
        drain(forward);
    if (!forward->ssh && !start(forward, error))
        return FALSE;
    while (!forward->is_ready) {
        if (!wait_for_output(forward, deadline, cancellable))
            return weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "ssh has not brought the socket here yet");
        if (!drain(forward))
            return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "ssh ended: %s",
                                     *forward->said->str ? forward->said->str : "it said nothing");
    }
    return TRUE;
}

gboolean
weft_forward_open(WeftForward *forward, gint64 deadline, GCancellable *cancellable, GError **error)
{
    g_mutex_lock(&forward->lock);
    gboolean ok = open_locked(forward, deadline, cancellable, error);
    g_mutex_unlock(&forward->lock);
    return ok;
}

void
weft_forward_free(WeftForward *forward)
{
    if (!forward)
        return;
    forget(forward);
    if (forward->folder)
        g_rmdir(forward->folder);
    g_clear_pointer(&forward->argv, g_ptr_array_unref);
    g_string_free(forward->said, TRUE);
    g_free(forward->folder);
    g_free(forward->path);
    g_mutex_clear(&forward->lock);
    g_free(forward);
}
