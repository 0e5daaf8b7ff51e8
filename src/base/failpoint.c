#include "failpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <unistd.h>

enum { UNREAD, IDLE, ARMED };

static gsize state = UNREAD;
/* Written once before state says ARMED, then only read; but for the countdown. */
static char *deadly;
static gint countdown = 1;
static int log_fd = -1;

static void
read_deadly(const char *text)
{
    g_auto(GStrv) parts = g_strsplit(text, ":", 2);
    guint64 hits = 1;
    if (parts[0] && parts[1] && !g_ascii_string_to_unsigned(parts[1], 10, 1, G_MAXINT, &hits, NULL))
        g_error("WEFT_FAILPOINT=%s: write NAME or NAME:N with N from 1 on", text);
    deadly = g_strdup(parts[0]);
    countdown = (gint)hits;
}

static void
open_log(const char *path)
{
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0)
        g_error("WEFT_FAILPOINT_LOG=%s: %s", path, g_strerror(errno));
}

static gboolean
armed(void)
{
    if (g_once_init_enter(&state)) {
        const char *name = g_getenv("WEFT_FAILPOINT");
        const char *log = g_getenv("WEFT_FAILPOINT_LOG");
        if (name && *name)
            read_deadly(name);
        if (log && *log)
            open_log(log);
        g_once_init_leave(&state, deadly || log_fd >= 0 ? ARMED : IDLE);
    }
    return G_UNLIKELY(state == ARMED);
}

/* One write() to an O_APPEND file, so that lines of several threads and processes never mix. */
static void
append_to_log(const char *name)
{
    g_autofree char *line = g_strconcat(name, "\n", NULL);
    if (write(log_fd, line, strlen(line)) < 0)
        g_error("WEFT_FAILPOINT_LOG: %s", g_strerror(errno));
}

static void
reach(const char *name)
{
    if (log_fd >= 0)
        append_to_log(name);
    if (g_strcmp0(name, deadly) == 0 && g_atomic_int_dec_and_test(&countdown))
        kill(getpid(), SIGKILL);
}

void
weft_failpoint(const char *name)
{
    if (armed())
        reach(name);
}

void
weft_failpoint_edge(const char *name, const char *edge)
{
    if (!armed())
        return;
    g_autofree char *full = g_strconcat(name, "-", edge, NULL);
    reach(full);
}
