#include "outlet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

struct WeftOutlet {
    GMutex mutex; /* over what follows */
    char *path;
    int fd; /* -1: not connected */
    gboolean failed;
};

WeftOutlet *
weft_outlet_new(const char *path)
{
    WeftOutlet *outlet = g_new0(WeftOutlet, 1);
    g_mutex_init(&outlet->mutex);
    outlet->path = g_strdup(path);
    outlet->fd = -1;
    return outlet;
}

static void
disconnect(WeftOutlet *outlet)
{
    if (outlet->fd >= 0)
        close(outlet->fd);
    outlet->fd = -1;
}

void
weft_outlet_free(WeftOutlet *outlet)
{
    if (!outlet)
        return;
    disconnect(outlet);
    g_mutex_clear(&outlet->mutex);
    g_free(outlet->path);
    g_free(outlet);
}

static gboolean
dial(WeftOutlet *outlet)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (g_strlcpy(address.sun_path, outlet->path, sizeof address.sun_path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return FALSE;
    }
    outlet->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return outlet->fd >= 0 && connect(outlet->fd, (const struct sockaddr *)&address, sizeof address) == 0;
}

/* One that was restarted has another socket of the same name. */
static gboolean
send_to(WeftOutlet *outlet, const char *message)
{
    gsize length = strlen(message);
    if (outlet->fd >= 0 && send(outlet->fd, message, length, MSG_NOSIGNAL) == (ssize_t)length)
        return TRUE;
    disconnect(outlet);
    return dial(outlet) && send(outlet->fd, message, length, MSG_NOSIGNAL) == (ssize_t)length;
}

void
weft_outlet_send(WeftOutlet *outlet, const char *line)
{
    g_autofree char *message = g_strdup_printf("<%d>weftd-audit[%d]: %s", LOG_AUTHPRIV | LOG_NOTICE, (int)getpid(), line);
    g_mutex_lock(&outlet->mutex);
    gboolean sent = send_to(outlet, message);
    int reason = errno;
    if (!sent)
        disconnect(outlet);
    if (sent == outlet->failed)
        g_message("the system's log %s: %s", outlet->path, sent ? "takes the audit trail again" : g_strerror(reason));
    outlet->failed = !sent;
    g_mutex_unlock(&outlet->mutex);
}
