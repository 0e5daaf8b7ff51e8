/* One thread, one poll(): the port, the children, and the questions of the other nodes. */
#include "guest.h"

#include "reader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM (64 * 1024)   /* queued for weftd: sessions wait until it is less */
#define FULL (1024 * 1024) /* then weftd is not listened to */

#define LATE_SECONDS 1 /* a device that came by itself needs no long wait for others */

static struct server_options options;
static char boot[64]; /* the kernel's own, whatever a fork shows to others */
static int responders[RAILS_MAX + 1];
static unsigned n_responders;
static struct text queue;
static size_t written; /* of queue */
static struct weft_reader reader;
static int signals;
static int away;  /* weftd has closed the port */
static int ended; /* and will not be back */

const struct server_options *
server_options(void)
{
    return &options;
}

static void
open_responders(void)
{
    while (n_responders > 0)
        close(responders[--n_responders]);
    n_responders = options.node ? responder_open(options.node, responders) : 0;
}

/* Devices come and go with forks and moves, and may have come before the node knew that they are its own. A process that waits
 * for them would be woken by each of the many events: one is started when there is something to wait for. */
static void
look_at_devices(void)
{
    char interface[16];
    if (!root_is_node() || !options.node || net_is_up(options.node))
        return;
    if (devices_are_at_hand(options.node))
        devices_set_up(options.node, 0);
    else if (options.node->n_rails > 0 || net_ethernet_name(options.node, interface))
        devices_set_up_aside(options.node, LATE_SECONDS);
}

void
server_learn(void)
{
    static struct node known;
    struct node fresh;
    if (!node_read(NODE_FILE, &fresh) || fresh.template)
        return;
    node_free(&known);
    known = fresh;
    options.node = &known;
    options.template = 0;
    open_responders();
    look_at_devices();
}

void
server_send(uint32_t session, enum weft_frame_type type, const void *payload, size_t length)
{
    uint8_t header[WEFT_FRAME_HEADER];
    weft_frame_encode(&(struct weft_frame){ session, (uint16_t)type, (uint16_t)length }, header);
    text_add_bytes(&queue, header, sizeof header);
    text_add_bytes(&queue, payload, length);
}

int
server_has_room(void)
{
    return queue.length - written < ROOM;
}

static void
forget_conversation(void)
{
    sessions_hang_up();
    queue.length = written = 0;
}

/* --- greeting --- */

static void
add_fact(struct text *facts, const char *key, const char *value)
{
    text_add(facts, "%s=%s", key, value);
    text_add_bytes(facts, "", 1);
}

static void
read_boot(void)
{
    char *id = file_read("/proc/sys/kernel/random/boot_id", NULL);
    if (id)
        snprintf(boot, sizeof boot, "%.*s", (int)strcspn(id, "\n"), id);
    free(id);
}

/* Those of a template stay as they are: a fork need not look. */
static const char *
count_hooks(void)
{
    static char number[16];
    struct hooks hooks;
    if (options.template && number[0])
        return number;
    hooks_list(WEFT_QUIESCE_FOLDER, &hooks);
    snprintf(number, sizeof number, "%u", hooks.n);
    hooks_free(&hooks);
    return number;
}

static void
greet(const uint8_t *nonce)
{
    struct text facts = { 0 };
    char hostname[NAME_SIZE] = "", version[16];
    forget_conversation();
    /* Whose store was restored from a backup knows of fewer rosters than this node: only within a conversation is one stale. */
    file_remove(GENERATION);
    gethostname(hostname, sizeof hostname - 1);
    text_add_bytes(&queue, WEFT_SYNC, WEFT_SYNC_LENGTH);
    text_add_bytes(&queue, nonce, WEFT_NONCE_LENGTH);
    version[0] = (char)('0' + WEFT_PROTOCOL_VERSION);
    version[1] = '\0';
    add_fact(&facts, "version", version);
    add_fact(&facts, "hostname", hostname);
    add_fact(&facts, "boot", boot);
    add_fact(&facts, "template", options.template ? "1" : "0");
    add_fact(&facts, "hooks", count_hooks());
    server_send(0, WEFT_FRAME_WELCOME, facts.data, facts.length);
    text_free(&facts);
}

/* --- the port --- */

static void
leave(void)
{
    forget_conversation();
    weft_reader_reset(&reader);
    weft_reader_hunt(&reader);
    away = options.virtio;
    ended = !options.virtio;
}

static void
take_bytes(const uint8_t *bytes, size_t count)
{
    struct weft_frame frame;
    const uint8_t *payload;
    for (;;) {
        switch (weft_reader_next(&reader, &bytes, &count, &frame, &payload)) {
        case WEFT_READ_MORE:
            return;
        case WEFT_READ_SYNC:
            greet(payload);
            break;
        case WEFT_READ_FRAME:
            sessions_take(&frame, reader.buffer + WEFT_FRAME_HEADER);
            break;
        case WEFT_READ_BROKEN:
            weft_reader_hunt(&reader);
            break;
        }
    }
}

static void
take(void)
{
    uint8_t bytes[32768];
    ssize_t n = read(options.fd, bytes, sizeof bytes);
    if (n > 0)
        take_bytes(bytes, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        leave();
}

static void
flush(void)
{
    while (!away && !ended && written < queue.length) {
        ssize_t n = write(options.fd, queue.data + written, queue.length - written);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            leave();
            return;
        }
        if (n <= 0)
            break;
        written += (size_t)n;
    }
    if (written < queue.length / 2)
        return;
    memmove(queue.data, queue.data + written, queue.length - written);
    queue.length -= written;
    written = 0;
}

/* A port that weftd has closed polls as hung up, always. Edge-triggered, the kernel tells when that changes. */
static int
watch_port(void)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, options.fd, &event) < 0)
        say("the port cannot be watched: %s", strerror(errno));
    return fd;
}

static void
look_whether_back(int watch)
{
    struct epoll_event event;
    struct pollfd port = { .fd = options.fd, .events = POLLIN };
    epoll_wait(watch, &event, 1, 0);
    poll(&port, 1, 0);
    away = (port.revents & POLLHUP) != 0;
}

/* --- the loop --- */

static void
reap(void)
{
    struct signalfd_siginfo info;
    int status;
    while (read(signals, &info, sizeof info) > 0)
        continue;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        sessions_exited(pid, status);
}

static int
open_signals(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

enum { PORT, SIGNALS, DEVICES, RESPONDERS };

static void
turn(int watch, int events)
{
    struct pollfd polls[RESPONDERS + RAILS_MAX + 1 + SESSION_POLLS];
    size_t queued = queue.length - written;
    int timeout;
    polls[PORT] = (struct pollfd){ .fd = ended ? -1 : away ? watch : options.fd, .events = queued < FULL ? POLLIN : 0 };
    if (queued > 0 && !away)
        polls[PORT].events |= POLLOUT;
    polls[SIGNALS] = (struct pollfd){ .fd = signals, .events = POLLIN };
    polls[DEVICES] = (struct pollfd){ .fd = events, .events = POLLIN };
    for (unsigned i = 0; i < n_responders; i++)
        polls[RESPONDERS + i] = (struct pollfd){ .fd = responders[i], .events = POLLIN };
    unsigned n_polled = n_responders, n = RESPONDERS + n_responders;
    n += sessions_want(polls + n, &timeout);
    if (poll(polls, n, timeout) < 0)
        return;
    if (polls[DEVICES].revents && uevent_take(events))
        look_at_devices();
    for (unsigned i = 0; i < n_polled; i++)
        if (polls[RESPONDERS + i].revents)
            responder_answer(responders[i], options.node);
    if (polls[SIGNALS].revents)
        reap(); /* which may open others */
    if (away && polls[PORT].revents)
        look_whether_back(watch);
    else if (polls[PORT].revents & (POLLIN | POLLHUP | POLLERR))
        take();
    sessions_pump();
    flush();
}

void
server_run(const struct server_options *given)
{
    static const uint8_t anew[WEFT_NONCE_LENGTH];
    options = *given;
    signals = open_signals();
    int watch = options.virtio ? watch_port() : -1;
    int events = root_is_node() ? uevent_open() : -1;
    read_boot();
    open_responders();
    weft_reader_hunt(&reader);
    text_add_bytes(&queue, WEFT_SYNC, WEFT_SYNC_LENGTH);
    text_add_bytes(&queue, anew, sizeof anew);
    while (!ended || sessions_left() > 0)
        turn(watch, events);
}
