#include "fake-private.h"

#include "errors.h"
#include "file.h"
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64
#define PAUSED_STEP 5000 /* microseconds between two looks whether a guest goes on */

/* One end of an open stream, and what answers there. */
typedef struct Stream {
    char *key; /* "HOST/DOMAIN/CHANNEL" */
    char *host;
    char *domain;
    WeftChannel channel;
    int fd;
    struct weft_reader reader;
    GHashTable *meetings; /* sessions that wait for the end of what they are told, to their kind (static) */
    GHashTable *strict;   /* those that need hooks */
    GHashTable *asked;    /* session to the first that it was told: text */
} Stream;

struct WeftFakeGuests {
    char *world;
    char *program;    /* NULL: the thread answers */
    GMutex lock;      /* of program, open and by_fd */
    GHashTable *open; /* key to Stream, its owner */
    GHashTable *by_fd;
    int epoll;
    int wakeup; /* the thread is to end */
    GThread *thread;
    GThreadPool *faults; /* waits as the fault files tell, and answers then */
    GCancellable *ended;
};

/* An answer that a fault may delay or turn into another. */
typedef struct Answer {
    int fd; /* a copy: the stream may be gone by then */
    char *host;
    const char *op;
    guint32 session;
    gboolean strict;
    guint8 nonce[WEFT_NONCE_LENGTH];
    char *domain; /* … which is its hostname too */
    char *asked;  /* NULL: it was told nothing */
} Answer;

static void
stream_free(gpointer data)
{
    Stream *stream = data;
    shutdown(stream->fd, SHUT_RDWR); /* whoever holds a copy holds it for nothing */
    close(stream->fd);
    g_hash_table_unref(stream->meetings);
    g_hash_table_unref(stream->strict);
    g_hash_table_unref(stream->asked);
    g_free(stream->key);
    g_free(stream->host);
    g_free(stream->domain);
    g_free(stream);
}

static void
answer_free(Answer *answer)
{
    close(answer->fd);
    g_free(answer->host);
    g_free(answer->domain);
    g_free(answer->asked);
    g_free(answer);
}

/* --- what it says --- */

static void
append_frame(GByteArray *bytes, guint32 session, enum weft_frame_type type, gconstpointer payload, gsize length)
{
    guint8 header[WEFT_FRAME_HEADER];
    weft_frame_encode(&(struct weft_frame){ session, (guint16)type, (guint16)length }, header);
    g_byte_array_append(bytes, header, sizeof header);
    g_byte_array_append(bytes, payload, (guint)length);
}

/* A text of several frames is data. */
static void
append_text(GByteArray *bytes, guint32 session, enum weft_frame_type type, const char *text)
{
    gsize left = strlen(text);
    do {
        gsize n = MIN(left, WEFT_FRAME_MAX);
        append_frame(bytes, session, type, text, n);
        text += n;
        left -= n;
    } while (left > 0);
}

/* Its answers are small: a socket without room for them belongs to somebody who does not read. */
static void
say(int fd, const GByteArray *bytes)
{
    if (send(fd, bytes->data, bytes->len, MSG_NOSIGNAL | MSG_DONTWAIT) != (gssize)bytes->len)
        shutdown(fd, SHUT_RDWR);
}

static void
say_welcome(const WeftFakeGuests *guests, const Answer *answer)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    guint boots = weft_fake_boots(guests->world, answer->host, answer->domain);
    g_autofree char *facts =
        g_strdup_printf("version=%d%chostname=%s%cboot=fake-%u", WEFT_PROTOCOL_VERSION, 1, answer->domain, 1, boots);
    gsize length = strlen(facts) + 1;
    for (char *p = facts; (p = strchr(p, 1));)
        *p++ = '\0';
    g_byte_array_append(bytes, (const guint8 *)WEFT_SYNC, WEFT_SYNC_LENGTH);
    g_byte_array_append(bytes, answer->nonce, sizeof answer->nonce);
    append_frame(bytes, 0, WEFT_FRAME_WELCOME, facts, length);
    say(answer->fd, bytes);
}

/* The kinds of session that it takes, and what it says of one that went well. */
static const struct {
    const char *kind;
    const char *well;
} kinds[] = {
    { "meet", "every node answers\n" },   { "settle", "nothing moves any more\n" },
    { "become", "it knows who it is\n" }, { "quiesce", "hooks 1\nnothing is on its way\n" },
    { "resume", "it goes on\n" },
};

/* NULL: it does not take it. */
static const char *
find_kind(const guint8 *payload, gsize length)
{
    for (guint i = 0; i < G_N_ELEMENTS(kinds); i++)
        if (length >= strlen(kinds[i].kind) && strncmp((const char *)payload, kinds[i].kind, length) == 0)
            return kinds[i].kind;
    return NULL;
}

static const char *
words_of(const char *kind)
{
    for (guint i = 0; i < G_N_ELEMENTS(kinds); i++)
        if (g_str_equal(kinds[i].kind, kind))
            return kinds[i].well;
    return "";
}

static char *
lack_hooks(const char *world)
{
    g_autofree char *path = g_build_filename(world, "hookless", NULL);
    return access(path, F_OK) == 0 ? g_strdup("hooks 0\nthere is no hook in /" WEFT_QUIESCE_FOLDER "\n") : NULL;
}

/* What a test has all guests say instead of what is true; NULL: nothing. */
static char *
read_false_answer(const char *world)
{
    g_autofree char *path = g_build_filename(world, "answer", NULL);
    char *text = NULL;
    return access(path, R_OK) == 0 && g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
}

/* What is true of its ports, and of whom it reaches; failed as its status is to say. */
static char *
do_meet(const WeftFakeGuests *guests, const Answer *answer, gboolean *ret_failed)
{
    char *wanted = read_false_answer(guests->world);
    *ret_failed = wanted != NULL;
    if (wanted)
        return wanted;
    const char *lacks = weft_fake_lacks(guests->world, answer->host, answer->domain);
    g_autofree char *ports =
        weft_fake_ports(guests->world, answer->host, answer->domain, answer->asked ? answer->asked : "", ret_failed);
    if (*ret_failed)
        return g_strconcat(ports, "not all ports that this node was promised work\n", NULL);
    g_autofree char *apart = lacks ? g_strdup(lacks) : weft_fake_apart(guests->world, answer->host, answer->domain);
    *ret_failed = apart != NULL;
    return g_strconcat(ports, apart ? apart : words_of("meet"), NULL);
}

/* Why it cannot; NULL: it has done it. */
static char *
do_kind(const WeftFakeGuests *guests, const Answer *answer)
{
    if (g_str_equal(answer->op, "become")) {
        weft_fake_become(guests->world, answer->host, answer->domain);
        return NULL;
    }
    return answer->strict ? lack_hooks(guests->world) : NULL;
}

static void
say_done(const WeftFakeGuests *guests, const Answer *answer, const GError *error)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    gboolean meets = !error && g_str_equal(answer->op, "meet"), failed = FALSE;
    g_autofree char *said = error   ? g_strdup(error->message)
                            : meets ? do_meet(guests, answer, &failed)
                                    : do_kind(guests, answer);
    guint8 status[4];
    weft_put_be32(meets ? failed : said != NULL, status);
    append_text(bytes, answer->session, WEFT_FRAME_DATA, said ? said : words_of(answer->op));
    append_frame(bytes, answer->session, WEFT_FRAME_EXIT, status, sizeof status);
    say(answer->fd, bytes);
}

/* A fault may end the stream at once. */
static void
welcome(const WeftFakeGuests *guests, const Answer *answer)
{
    say_welcome(guests, answer);
    if (!weft_fake_pass(guests->world, answer->host, "greeted", guests->ended, NULL))
        shutdown(answer->fd, SHUT_RDWR);
}

static gboolean
is_paused(const WeftFakeGuests *guests, const Answer *answer)
{
    return weft_fake_is_paused(guests->world, answer->host, answer->domain);
}

/* thread: worker. A fault that hangs ends with the fake. */
static void
answer_now(gpointer data, gpointer guests_data)
{
    WeftFakeGuests *guests = guests_data;
    Answer *answer = data;
    g_autoptr(GError) error = NULL;
    weft_fake_pass(guests->world, answer->host, answer->op, guests->ended, &error);
    if (answer->session)
        say_done(guests, answer, error);
    else if (!error)
        welcome(guests, answer);
    answer_free(answer);
}

/* thread: worker. What reaches a guest that is paused is answered when it goes on. */
static void
answer_later(gpointer data, gpointer guests_data)
{
    WeftFakeGuests *guests = guests_data;
    while (is_paused(guests, data) && !g_cancellable_is_cancelled(guests->ended))
        g_usleep(PAUSED_STEP);
    answer_now(data, guests);
}

static gboolean
has_faults(WeftFakeGuests *guests, const char *host)
{
    g_autofree char *everywhere = g_build_filename(guests->world, "faults", NULL);
    g_autofree char *here = g_build_filename(guests->world, host, "faults", NULL);
    return access(everywhere, F_OK) == 0 || access(here, F_OK) == 0;
}

static void
answer(WeftFakeGuests *guests, const Stream *stream, const char *op, guint32 session, const guint8 *nonce)
{
    Answer *pending = g_new0(Answer, 1);
    pending->fd = fcntl(stream->fd, F_DUPFD_CLOEXEC, 0);
    pending->host = g_strdup(stream->host);
    pending->op = op;
    pending->session = session;
    pending->strict = g_hash_table_remove(stream->strict, GUINT_TO_POINTER(session));
    pending->domain = g_strdup(stream->domain);
    gpointer asked = NULL;
    if (g_hash_table_steal_extended(stream->asked, GUINT_TO_POINTER(session), NULL, &asked))
        pending->asked = asked;
    if (nonce)
        memcpy(pending->nonce, nonce, sizeof pending->nonce);
    if (has_faults(guests, stream->host) || is_paused(guests, pending))
        g_thread_pool_push(guests->faults, pending, NULL);
    else
        answer_now(pending, guests);
}

/* --- what it is told --- */

static void
take_frame(WeftFakeGuests *guests, const Stream *stream, const struct weft_frame *frame, const guint8 *payload)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    guint8 more[4];
    gpointer session = GUINT_TO_POINTER(frame->session), kind = NULL;
    switch (frame->type) {
    case WEFT_FRAME_OPEN:
        if ((kind = (gpointer)find_kind(payload, frame->length)))
            g_hash_table_insert(stream->meetings, session, kind);
        else
            append_text(bytes, frame->session, WEFT_FRAME_REFUSE, "this node is a fake: nothing runs there");
        break;
    case WEFT_FRAME_DATA:
        weft_put_be32(frame->length, more);
        if (g_strstr_len((const char *)payload, frame->length, "hooks needed"))
            g_hash_table_add(stream->strict, session);
        if (g_hash_table_contains(stream->meetings, session) && !g_hash_table_contains(stream->asked, session))
            g_hash_table_insert(stream->asked, session, g_strndup((const char *)payload, frame->length));
        if (g_hash_table_contains(stream->meetings, session))
            append_frame(bytes, frame->session, WEFT_FRAME_WINDOW, more, sizeof more);
        break;
    case WEFT_FRAME_EOF:
        if (g_hash_table_steal_extended(stream->meetings, session, NULL, &kind))
            answer(guests, stream, kind, frame->session, NULL);
        break;
    default:
        break;
    }
    if (bytes->len)
        say(stream->fd, bytes);
}

static void
take_bytes(WeftFakeGuests *guests, Stream *stream, const guint8 *bytes, gsize count)
{
    struct weft_frame frame;
    const guint8 *payload;
    for (;;) {
        switch (weft_reader_next(&stream->reader, &bytes, &count, &frame, &payload)) {
        case WEFT_READ_MORE:
            return;
        case WEFT_READ_SYNC:
            answer(guests, stream, "sync", 0, payload);
            break;
        case WEFT_READ_FRAME:
            take_frame(guests, stream, &frame, payload);
            break;
        case WEFT_READ_BROKEN:
            weft_reader_hunt(&stream->reader);
            break;
        }
    }
}

/* The lock is held. FALSE: the stream ended. */
static gboolean
take(WeftFakeGuests *guests, Stream *stream)
{
    guint8 bytes[32768];
    gssize n = recv(stream->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    if (stream->channel == WEFT_CHANNEL_GUEST)
        take_bytes(guests, stream, bytes, (gsize)n);
    else
        send(stream->fd, bytes, (gsize)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    return TRUE;
}

/* The lock is held. */
static void
forget(WeftFakeGuests *guests, Stream *stream)
{
    g_hash_table_remove(guests->by_fd, GINT_TO_POINTER(stream->fd));
    g_hash_table_remove(guests->open, stream->key);
}

static gpointer
serve(gpointer data)
{
    WeftFakeGuests *guests = data;
    struct epoll_event events[EVENTS];
    while (!g_cancellable_is_cancelled(guests->ended)) {
        int n = epoll_wait(guests->epoll, events, EVENTS, -1);
        g_mutex_lock(&guests->lock);
        for (int i = 0; i < n; i++) {
            /* By number and not by address: it may have ended since. */
            Stream *stream = g_hash_table_lookup(guests->by_fd, GINT_TO_POINTER(events[i].data.fd));
            if (stream && !take(guests, stream))
                forget(guests, stream);
        }
        g_mutex_unlock(&guests->lock);
    }
    return NULL;
}

/* --- streams --- */

static char *
key_of(const char *host, const char *domain, WeftChannel channel)
{
    return g_strdup_printf("%s/%s/%d", host, domain, (int)channel);
}

static gboolean
peer_is_gone(const Stream *stream)
{
    struct pollfd fd = { .fd = stream->fd, .events = POLLRDHUP };
    return poll(&fd, 1, 0) > 0;
}

/* There is no seed in a fake: what the guest program takes from one to know who it is, is written here. */
static gboolean
lay_out(const char *root, const Stream *stream, GError **error)
{
    g_autofree char *folder = g_build_filename(root, "run/weft", NULL);
    g_autofree char *node = g_build_filename(folder, "node", NULL);
    g_autofree char *text = g_strdup_printf("hostname %s\nrank 0\ncluster %s\n", stream->domain, stream->domain);
    if (g_mkdir_with_parents(folder, 0755) < 0)
        return weft_fake_fail(error, "making", folder);
    return weft_file_replace(node, text, strlen(text), FALSE, error);
}

/* The guest program sees its end of the stream as descriptor 3, and files below a folder of its domain. */
static gboolean
spawn(const char *world, const char *program, const Stream *stream, GError **error)
{
    g_autofree char *root = g_build_filename(world, stream->host, "guests", stream->domain, NULL);
    const char *const argv[] = { program, "serve", "3", root, "alone", NULL };
    const gint source = stream->fd, target = 3;
    if (!lay_out(root, stream, error))
        return FALSE;
    return g_spawn_async_with_pipes_and_fds(NULL, argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, -1, -1, -1, &source, &target, 1,
                                            NULL, NULL, NULL, NULL, error);
}

/* The lock is held. */
static gboolean
begin(WeftFakeGuests *guests, Stream *stream, GError **error)
{
    if (stream->channel == WEFT_CHANNEL_GUEST && guests->program)
        return spawn(guests->world, guests->program, stream, error);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = stream->fd };
    if (epoll_ctl(guests->epoll, EPOLL_CTL_ADD, stream->fd, &event) < 0)
        return weft_fake_fail(error, "watching", stream->key);
    g_hash_table_insert(guests->by_fd, GINT_TO_POINTER(stream->fd), stream);
    return TRUE;
}

static gboolean
enter(WeftFakeGuests *guests, Stream *stream, GError **error)
{
    Stream *other = g_hash_table_lookup(guests->open, stream->key);
    if (other && !peer_is_gone(other)) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_BUSY, "host %s: somebody else is connected to domain %s", stream->host,
                    stream->domain);
        return FALSE;
    }
    if (other)
        forget(guests, other);
    if (!begin(guests, stream, error))
        return FALSE;
    g_hash_table_insert(guests->open, stream->key, stream);
    return TRUE;
}

int
weft_fake_guests_open(WeftFakeGuests *guests, const char *host, const char *domain, WeftChannel channel, GError **error)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        weft_fake_fail(error, "opening", domain);
        return -1;
    }
    Stream *stream = g_new0(Stream, 1);
    stream->key = key_of(host, domain, channel);
    stream->host = g_strdup(host);
    stream->domain = g_strdup(domain);
    stream->channel = channel;
    stream->meetings = g_hash_table_new(NULL, NULL);
    stream->strict = g_hash_table_new(NULL, NULL);
    stream->asked = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    stream->fd = ends[1];
    weft_reader_hunt(&stream->reader);
    g_mutex_lock(&guests->lock);
    gboolean ok = enter(guests, stream, error);
    g_mutex_unlock(&guests->lock);
    if (!ok) {
        stream_free(stream);
        close(ends[0]);
        return -1;
    }
    return ends[0];
}

void
weft_fake_guests_end(WeftFakeGuests *guests, const char *host, const char *domain)
{
    static const WeftChannel channels[] = { WEFT_CHANNEL_GUEST, WEFT_CHANNEL_CONSOLE };
    g_mutex_lock(&guests->lock);
    for (guint i = 0; i < G_N_ELEMENTS(channels); i++) {
        g_autofree char *key = key_of(host, domain, channels[i]);
        Stream *stream = g_hash_table_lookup(guests->open, key);
        if (stream)
            forget(guests, stream);
    }
    g_mutex_unlock(&guests->lock);
}

void
weft_fake_guests_use(WeftFakeGuests *guests, const char *program)
{
    g_mutex_lock(&guests->lock);
    g_free(guests->program);
    guests->program = g_strdup(program);
    g_mutex_unlock(&guests->lock);
}

WeftFakeGuests *
weft_fake_guests_new(const char *world)
{
    WeftFakeGuests *guests = g_new0(WeftFakeGuests, 1);
    guests->world = g_strdup(world);
    g_mutex_init(&guests->lock);
    guests->open = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, stream_free);
    guests->by_fd = g_hash_table_new(NULL, NULL);
    guests->ended = g_cancellable_new();
    guests->epoll = epoll_create1(EPOLL_CLOEXEC);
    guests->wakeup = eventfd(0, EFD_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = guests->wakeup };
    epoll_ctl(guests->epoll, EPOLL_CTL_ADD, guests->wakeup, &event);
    guests->faults = g_thread_pool_new(answer_later, guests, -1, FALSE, NULL);
    guests->thread = g_thread_new("fake-guests", serve, guests);
    return guests;
}

void
weft_fake_guests_free(WeftFakeGuests *guests)
{
    g_cancellable_cancel(guests->ended);
    eventfd_write(guests->wakeup, 1);
    g_thread_join(guests->thread);
    g_thread_pool_free(guests->faults, FALSE, TRUE);
    g_hash_table_unref(guests->by_fd);
    g_hash_table_unref(guests->open);
    close(guests->wakeup);
    close(guests->epoll);
    g_object_unref(guests->ended);
    g_mutex_clear(&guests->lock);
    g_free(guests->program);
    g_free(guests->world);
    g_free(guests);
}
