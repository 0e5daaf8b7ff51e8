#include "listen.h"

#include "errors.h"
#include "orphans.h"

#include <errno.h>
#include <gio/gio.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#define BACKLOG 1024 /* who finds it full is not let in at all, so it holds more than come while the main thread is busy */

static int
fail(int fd, const char *what, const char *where, GError **error)
{
    int reason = errno;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_FAILED, "%s: cannot %s: %s", where, what, g_strerror(reason));
    if (fd >= 0)
        close(fd);
    return -1;
}

static gboolean
is_listened_on(const struct sockaddr_un *address)
{
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    gboolean refused =
        probe >= 0 && connect(probe, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED;
    if (probe >= 0)
        close(probe);
    return !refused;
}

/* Only a socket that refuses connections is stale: whatever else is there stays. */
static gboolean
remove_stale(const struct sockaddr_un *address, GError **error)
{
    struct stat info;
    if (lstat(address->sun_path, &info) != 0)
        return TRUE;
    if (!S_ISSOCK(info.st_mode)) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_FAILED, "%s: exists and is not a socket; move it away", address->sun_path);
        return FALSE;
    }
    for (gint64 began = g_get_monotonic_time(); is_listened_on(address);)
        if (!weft_orphans_wait(began)) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "%s: another weftd listens there; stop it first",
                        address->sun_path);
            return FALSE;
        }
    unlink(address->sun_path);
    return TRUE;
}

/* What the kernel keeps as the attribute below: version 2, then these entries, in this order (acl(5)). */
#define ACL_ATTRIBUTE "system.posix_acl_access"
#define ACL_NOBODY 0xffffffffu

typedef struct {
    guint16 tag, rights;
    guint32 id;
} AclEntry;

typedef struct {
    guint32 version;
    AclEntry owner, own_group, group, mask, others;
} Acl;

/* weftd.service forbids chown, as all that only root needs; an owner may name a group beside the file's own all the same. Where
 * the file system has no such lists, the file becomes the group's. */
static gboolean
open_to_group(const char *path, gid_t group)
{
    const Acl acl = { .version = GUINT32_TO_LE(2),
                      .owner = { GUINT16_TO_LE(0x01), GUINT16_TO_LE(6), ACL_NOBODY },
                      .own_group = { GUINT16_TO_LE(0x04), 0, ACL_NOBODY },
                      .group = { GUINT16_TO_LE(0x08), GUINT16_TO_LE(6), GUINT32_TO_LE(group) },
                      .mask = { GUINT16_TO_LE(0x10), GUINT16_TO_LE(6), ACL_NOBODY },
                      .others = { GUINT16_TO_LE(0x20), 0, ACL_NOBODY } };
    return setxattr(path, ACL_ATTRIBUTE, &acl, sizeof acl, 0) == 0 || chown(path, (uid_t)-1, group) == 0;
}

/* Files are made with that group, and keys are made readable by it: its members could read what is weftd's alone. */
static gboolean
is_own_group(gid_t group)
{
    const struct passwd *self = getpwuid(geteuid());
    return group == getgid() || group == getegid() || (self && group == self->pw_gid);
}

static gboolean
let_connect(const char *path, guint mode, const char *group, GError **error)
{
    const struct group *entry = group ? getgrnam(group) : NULL;
    if (group && !entry)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "api.group: there is no group \"%s\"; add it, or name another",
                                 group);
    if (entry && is_own_group(entry->gr_gid))
        return weft_error_refuse(
            error, WEFT_ERROR_INVALID,
            "api.group: \"%s\" is weftd's own group, and whoever is in it can read files of weftd's; name a "
            "group that is for clients only, such as weft-users",
            group);
    if ((!entry || open_to_group(path, entry->gr_gid)) && chmod(path, mode) == 0)
        return TRUE;
    fail(-1, "set who may connect", path, error);
    return FALSE;
}

int
weft_listen_unix(const char *path, guint mode, const char *group, GError **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (g_strlcpy(address.sun_path, path, sizeof address.sun_path) >= sizeof address.sun_path) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s: the path of a socket may have %zu bytes; take a shorter one",
                    path, sizeof address.sun_path - 1);
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(fd, "open a socket", path, error);
    if (!remove_stale(&address, error)) {
        close(fd);
        return -1;
    }
    mode_t mask = umask(0177);
    int bound = bind(fd, (const struct sockaddr *)&address, sizeof address);
    umask(mask);
    if (bound != 0)
        return fail(fd, "listen there; does the folder exist?", path, error);
    if (!let_connect(path, mode, group, error)) {
        close(fd);
        unlink(path);
        return -1;
    }
    return listen(fd, BACKLOG) == 0 ? fd : fail(fd, "listen", path, error);
}

static GSocketAddress *
parse_address(const char *text, GError **error)
{
    g_autoptr(GRegex) shape = g_regex_new("^(?:\\[([0-9A-Fa-f:.]+)\\]|([0-9.]+)):([0-9]{1,5})$", 0, 0, NULL);
    g_autoptr(GMatchInfo) match = NULL;
    if (g_regex_match(shape, text, 0, &match)) {
        g_autofree char *six = g_match_info_fetch(match, 1);
        g_autofree char *four = g_match_info_fetch(match, 2);
        g_autofree char *port = g_match_info_fetch(match, 3);
        guint64 number = g_ascii_strtoull(port, NULL, 10);
        GSocketAddress *address =
            number <= G_MAXUINT16 ? g_inet_socket_address_new_from_string(*six ? six : four, (guint)number) : NULL;
        if (address)
            return address;
    }
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s: must be ADDRESS:PORT, such as 127.0.0.1:7600 or [::1]:7600", text);
    return NULL;
}

static gboolean
bind_tcp(int fd, GSocketAddress *address)
{
    struct sockaddr_storage native;
    int yes = 1;
    gssize size = g_socket_address_get_native_size(address);
    if (!g_socket_address_to_native(address, &native, sizeof native, NULL) ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
        return FALSE;
    for (gint64 began = g_get_monotonic_time(); bind(fd, (const struct sockaddr *)&native, (socklen_t)size) != 0;)
        if (errno != EADDRINUSE || !weft_orphans_wait(began))
            return FALSE;
    return listen(fd, BACKLOG) == 0;
}

int
weft_listen_tcp(const char *text, guint *ret_port, GError **error)
{
    g_autoptr(GSocketAddress) address = parse_address(text, error);
    if (!address)
        return -1;
    int family = g_socket_address_get_family(address) == G_SOCKET_FAMILY_IPV6 ? AF_INET6 : AF_INET;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || !bind_tcp(fd, address))
        return fail(fd, "listen there", text, error);
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    if (getsockname(fd, (struct sockaddr *)&bound, &length) != 0)
        return fail(fd, "learn the port", text, error);
    g_autoptr(GSocketAddress) actual = g_socket_address_new_from_native(&bound, length);
    *ret_port = g_inet_socket_address_get_port(G_INET_SOCKET_ADDRESS(actual));
    return fd;
}
