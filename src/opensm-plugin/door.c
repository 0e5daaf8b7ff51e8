#include "door.h"

#include "client.h"
#include "errors.h"
#include "hands.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENTS_MAX 16
#define BACKLOG 64
#define LOOK_SECONDS 1
#define EVENTS_MAX 1024 /* that wait to be told: of more ports nothing new is said */

struct WeftDoor {
    WeftOsm *weft;
    int fd;
    GMainContext *context;
    GMainLoop *loop;
    GThread *thread;
    GHashTable *clients; /* guint64 * → WeftClient; this and the rest below: the door's thread only */
    guint64 last;        /* client */
    GSource *listening;  /* NULL: no descriptors were left; tried again at the next look */
    gint events;         /* atomic; on their way to the door's thread */
};

static void
attach(WeftDoor *door, GSource *source, GSourceFunc func)
{
    g_source_set_callback(source, func, door, NULL);
    g_source_attach(source, door->context);
    g_source_unref(source);
}

static void take_requests(WeftDoor *door, WeftClient *client);

/* --- answers and events: from any thread to the door's --- */

typedef struct {
    WeftDoor *door;
    guint64 client;
    json_t *object; /* an answer, or an event for all who listen */
    gboolean event;
} Letter;

static void
drop_client(WeftDoor *door, WeftClient *client)
{
    guint64 number = client->number;
    g_hash_table_remove(door->clients, &number);
}

static void
hand_over(WeftDoor *door, WeftClient *client, GBytes *frame)
{
    if (!weft_client_write(client, frame))
        drop_client(door, client);
}

static void
tell_all(WeftDoor *door, GBytes *frame)
{
    g_autoptr(GPtrArray) listeners = g_ptr_array_new();
    GHashTableIter iter;
    gpointer client;
    g_hash_table_iter_init(&iter, door->clients);
    while (g_hash_table_iter_next(&iter, NULL, &client))
        if (((WeftClient *)client)->listens)
            g_ptr_array_add(listeners, client);
    for (guint i = 0; i < listeners->len; i++)
        hand_over(door, listeners->pdata[i], frame);
}

static gboolean
deliver(gpointer data)
{
    Letter *letter = data;
    WeftDoor *door = letter->door;
    g_autoptr(GBytes) frame = weft_wire_frame(letter->object);
    if (letter->event) {
        g_atomic_int_add(&door->events, -1);
        tell_all(door, frame);
        return G_SOURCE_REMOVE;
    }
    WeftClient *client = g_hash_table_lookup(door->clients, &letter->client);
    if (!client)
        return G_SOURCE_REMOVE;
    weft_client_settle(client);
    take_requests(door, client);
    hand_over(door, client, frame);
    return G_SOURCE_REMOVE;
}

static void
free_letter(gpointer data)
{
    Letter *letter = data;
    json_decref(letter->object);
    g_free(letter);
}

static void
post(Letter letter)
{
    GSource *source = g_idle_source_new();
    g_source_set_priority(source, G_PRIORITY_DEFAULT);
    g_source_set_callback(source, deliver, g_memdup2(&letter, sizeof letter), free_letter);
    g_source_attach(source, letter.door->context);
    g_source_unref(source);
}

static void
answered(guint64 client, json_t *answer, gpointer data)
{
    post((Letter){ .door = data, .client = client, .object = answer });
}

void
weft_door_tell(WeftDoor *door, const char *event, const char *detail)
{
    if (g_atomic_int_add(&door->events, 1) >= EVENTS_MAX && g_str_equal(event, "ports")) {
        g_atomic_int_add(&door->events, -1);
        return;
    }
    post((Letter){ .door = door, .object = json_pack("{ss ss*}", "event", event, "detail", detail), .event = TRUE });
}

/* --- requests --- */

static void
take(WeftDoor *door, WeftClient *client, json_t *request)
{
    if (g_strcmp0(json_string_value(json_object_get(request, "do")), "listen") != 0) {
        weft_hands_do(door->weft->hands, client->number, request, answered, door);
        return;
    }
    client->listens = TRUE;
    json_t *id = json_object_get(request, "id");
    answered(client->number, json_pack("{sO}", "id", id ? id : json_null()), door);
    json_decref(request);
}

/* Each is answered by a letter, so that the client is never gone in between. */
static void
take_requests(WeftDoor *door, WeftClient *client)
{
    for (json_t *request; (request = weft_client_next(client));)
        take(door, client, request);
}

static gboolean
serve(WeftClient *client, GIOCondition condition)
{
    WeftDoor *door = client->owner;
    if (!weft_client_serve(client, condition)) {
        drop_client(door, client);
        return G_SOURCE_REMOVE;
    }
    take_requests(door, client);
    return G_SOURCE_CONTINUE;
}

static gboolean
is_welcome(const WeftDoor *door, int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return FALSE;
    if (peer.uid != 0 && peer.uid != door->weft->uid) {
        weft_osm_log(door->weft, OSM_LOG_ERROR, "refused uid %u on %s; only %u may give orders\n", peer.uid, door->weft->socket,
                     door->weft->uid);
        return FALSE;
    }
    return TRUE;
}

/* A machine that vanished does not hang up: where places lack, the one that was silent for longest goes, but none that waits
 * for an answer. If it lives, it comes again. */
static gboolean
make_room(WeftDoor *door)
{
    if (g_hash_table_size(door->clients) < CLIENTS_MAX)
        return TRUE;
    WeftClient *silent = NULL;
    GHashTableIter iter;
    gpointer client;
    g_hash_table_iter_init(&iter, door->clients);
    while (g_hash_table_iter_next(&iter, NULL, &client))
        if (((WeftClient *)client)->pending == 0 && (!silent || ((WeftClient *)client)->heard < silent->heard))
            silent = client;
    if (silent)
        drop_client(door, silent);
    return silent != NULL;
}

static gboolean
welcome(int fd, GIOCondition condition, gpointer data)
{
    WeftDoor *door = data;
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer < 0) {
        gboolean passes = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
        if (!passes)
            door->listening = NULL;
        return passes;
    }
    if (!is_welcome(door, peer) || !make_room(door)) {
        close(peer);
        return G_SOURCE_CONTINUE;
    }
    WeftClient *client = weft_client_new(peer, ++door->last, door);
    g_hash_table_insert(door->clients, &client->number, client);
    weft_client_attach(client, door->context, serve);
    return G_SOURCE_CONTINUE;
}

static void
listen_again(WeftDoor *door)
{
    door->listening = g_unix_fd_source_new(door->fd, G_IO_IN);
    attach(door, door->listening, G_SOURCE_FUNC(welcome));
}

/* opensm has no event for all ways in which it comes to rule, or ceases to. */
void
weft_door_tell_rule(WeftDoor *door)
{
    gboolean rules = !door->weft->trouble && weft_osm_is_ruling(door->weft);
    if (g_atomic_int_compare_and_exchange(&door->weft->ruling, !rules, rules))
        weft_door_tell(door, "manager", rules ? "rules the fabric" : "does not rule the fabric");
}

/* Ends those who began a frame and do not finish it, and those who do not read. */
static gboolean
look_around(gpointer data)
{
    WeftDoor *door = data;
    GHashTableIter iter;
    gpointer client;
    weft_door_tell_rule(door);
    if (!door->listening)
        listen_again(door);
    g_hash_table_iter_init(&iter, door->clients);
    while (g_hash_table_iter_next(&iter, NULL, &client))
        if (weft_client_is_late(client))
            g_hash_table_iter_remove(&iter);
    return G_SOURCE_CONTINUE;
}

/* --- the socket --- */

static gboolean
fail(GError **error, const char *path, const char *what)
{
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "%s: %s: %s", path, what, g_strerror(errno));
}

/* A socket of an opensm that was killed. One that somebody listens on is not ours to take. */
static gboolean
clear_path(const struct sockaddr_un *address, GError **error)
{
    struct stat there;
    if (lstat(address->sun_path, &there) < 0)
        return TRUE;
    if (!S_ISSOCK(there.st_mode))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "%s is there and is no socket; remove it", address->sun_path);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    gboolean alive = probe >= 0 && connect(probe, (const struct sockaddr *)address, sizeof *address) == 0;
    if (probe >= 0)
        close(probe);
    if (alive)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "%s: another opensm listens there", address->sun_path);
    return unlink(address->sun_path) == 0 || fail(error, address->sun_path, "unlink");
}

/* From its first moment nobody but its owner may connect. */
static gboolean
bind_closed(int fd, const struct sockaddr_un *address)
{
    return fchmod(fd, 0600) == 0 && bind(fd, (const struct sockaddr *)address, sizeof *address) == 0;
}

/* The folder may be that user's own: what stands there is looked at once and not by its name again, lest a link that was put in
 * its place give away what it names. */
static gboolean
hand_to(const char *path, uid_t uid)
{
    struct stat there;
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return FALSE;
    gboolean ok = fstat(fd, &there) == 0;
    if (ok && (!S_ISSOCK(there.st_mode) || there.st_uid != geteuid())) {
        errno = ENOTSOCK;
        ok = FALSE;
    }
    ok = ok && fchownat(fd, "", uid, (gid_t)-1, AT_EMPTY_PATH) == 0;
    int saved = errno;
    close(fd);
    errno = saved;
    return ok;
}

static int
open_socket(const char *path, uid_t uid, GError **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (g_strlcpy(address.sun_path, path, sizeof address.sun_path) >= sizeof address.sun_path) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: longer than %zu characters", path, sizeof address.sun_path - 1);
        return -1;
    }
    g_autofree char *folder = g_path_get_dirname(path);
    if (g_mkdir_with_parents(folder, 0755) < 0) {
        fail(error, folder, "mkdir");
        return -1;
    }
    if (!clear_path(&address, error))
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind_closed(fd, &address) && (uid == geteuid() || hand_to(path, uid)) && listen(fd, BACKLOG) == 0)
        return fd;
    fail(error, path, "listen");
    if (fd >= 0)
        close(fd);
    return -1;
}

/* --- life --- */

static gpointer
run(gpointer data)
{
    WeftDoor *door = data;
    g_main_context_push_thread_default(door->context);
    g_main_loop_run(door->loop);
    g_main_context_pop_thread_default(door->context);
    return NULL;
}

WeftDoor *
weft_door_new(WeftOsm *weft, GError **error)
{
    int fd = open_socket(weft->socket, weft->uid, error);
    if (fd < 0)
        return NULL;
    WeftDoor *door = g_new0(WeftDoor, 1);
    door->weft = weft;
    door->fd = fd;
    door->context = g_main_context_new();
    door->loop = g_main_loop_new(door->context, FALSE);
    door->clients = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, (GDestroyNotify)weft_client_free);
    listen_again(door);
    attach(door, g_timeout_source_new_seconds(LOOK_SECONDS), look_around);
    door->thread = g_thread_new("weft door", run, door);
    return door;
}

static gboolean
quit(gpointer data)
{
    WeftDoor *door = data;
    g_main_loop_quit(door->loop);
    return G_SOURCE_REMOVE;
}

void
weft_door_close(WeftDoor *door)
{
    if (!door)
        return;
    /* Not from here: a loop that has not begun to run yet would miss it. Before all that clients still ask for. */
    GSource *last = g_idle_source_new();
    g_source_set_priority(last, G_PRIORITY_HIGH);
    attach(door, last, quit);
    g_thread_join(door->thread);
    g_hash_table_remove_all(door->clients);
    close(door->fd);
    unlink(door->weft->socket);
}

void
weft_door_free(WeftDoor *door)
{
    if (!door)
        return;
    g_hash_table_unref(door->clients);
    g_main_loop_unref(door->loop);
    g_main_context_unref(door->context);
    g_free(door);
}
