#include "guest.h"

#include "reader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define SLOTS (2 * WEFT_SESSIONS_MAX) /* also those that are being hung up */
#define GRACE 5000                    /* milliseconds from SIGHUP to SIGKILL */
#define QUIET 100                     /* milliseconds until a terminal that nobody has open is looked at again */
#define TURN 4                        /* frames of a session at a time */
#define CREDIT (WEFT_WINDOW / 4)      /* what has been taken is told in such pieces */

/* What weftd asks for. */
struct own_kind {
    const char *name;
    const char *(*refusal)(void);
    void (*run)(const struct question *question); /* in a child */
    void (*succeeded)(void);
    int (*is_at_hand)(void); /* or not: NULL, it never is */
    int (*answer)(const struct question *question, char *input, struct text *ret_said);
    int (*go_on)(struct text *ret_said);
    unsigned (*want)(struct pollfd *ret_polls, int64_t *ret_when);
    void (*drop)(void);
};

struct session {
    uint32_t id; /* 0: free */
    struct child child;
    int tty;
    const struct own_kind *own; /* weftd's own; NULL: a client's */
    struct question question;   /* … which is answered without a child, if child.pid is 0, when all of it is there */
    int begun;                  /* … and the answer takes its time */
    int listened;               /* weftd has not closed it */
    int exited;
    uint32_t status;
    struct text input; /* on its way to the child */
    size_t taken;      /* of input */
    int eof;           /* and then its end */
    uint32_t may_send, may_receive, owed;
    int64_t kill_at;
    int64_t quiet_until;
};

static struct session sessions[SLOTS];

static void
close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void
release(struct session *session)
{
    close_fd(&session->child.in);
    close_fd(&session->child.out);
    close_fd(&session->child.err);
    text_free(&session->input);
    *session = (struct session){ 0 };
}

static void
refuse(uint32_t id, const char *why)
{
    server_send(id, WEFT_FRAME_REFUSE, why, strlen(why));
}

/* The terminal's foreground group is whom a key would reach. */
static void
signal_session(const struct session *session, int number)
{
    pid_t group = session->child.pid;
    if (session->tty && ioctl(session->child.out, TIOCGPGRP, &group) < 0)
        group = session->child.pid;
    if (group > 0)
        kill(-group, number);
}

/* Nobody listens any more. */
static void
hang_up(struct session *session)
{
    session->listened = 0;
    if (session->begun)
        session->own->drop();
    if (!session->exited && session->child.pid > 0) {
        signal_session(session, SIGHUP);
        kill(-session->child.pid, SIGHUP);
        kill(-session->child.pid, SIGCONT);
        session->kill_at = now() + GRACE;
    }
    close_fd(&session->child.in);
    close_fd(&session->child.out);
    close_fd(&session->child.err);
    if (session->exited)
        release(session);
}

void
sessions_hang_up(void)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (sessions[i].id && sessions[i].listened)
            hang_up(&sessions[i]);
}

unsigned
sessions_left(void)
{
    unsigned left = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        left += sessions[i].id != 0;
    return left;
}

static void
fail(struct session *session, const char *why)
{
    refuse(session->id, why);
    hang_up(session);
}

/* --- frames --- */

static const char *
must_know_itself(void)
{
    return server_options()->node ? NULL : "the node does not know who it is";
}

/* Whoever asks for more than weftd does has a session of the kind exec. */
static const struct own_kind own_kinds[] = {
    { "meet", must_know_itself, meet_run, NULL, meet_is_at_hand, meet_here, meet_go_on, meet_want, meet_drop },
    { .name = "settle", .refusal = settle_refusal, .run = settle_run, .succeeded = become_rehearse },
    { "become", NULL, become_run, server_learn, become_is_at_hand, become_here },
    { .name = "quiesce", .refusal = must_know_itself, .run = quiesce_run },
    { .name = "resume", .refusal = must_know_itself, .run = resume_run },
};

static const struct own_kind *
find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof own_kinds / sizeof *own_kinds; i++)
        if (strcmp(own_kinds[i].name, name) == 0)
            return &own_kinds[i];
    return NULL;
}

static struct session *
free_slot(int own)
{
    struct session *slot = NULL;
    unsigned same = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        if (!sessions[i].id)
            slot = &sessions[i];
        else
            same += sessions[i].listened && !sessions[i].own == !own;
    }
    return same < WEFT_SESSIONS_MAX ? slot : NULL;
}

struct own_start {
    const struct own_kind *kind;
    struct question question;
};

static void
run_own(const void *data)
{
    const struct own_start *start = data;
    start->kind->run(&start->question);
}

static const char *
start_own(const struct own_kind *kind, const char *payload, size_t length, struct question *ret_question,
          struct child *ret_child)
{
    struct own_start start = { .kind = kind };
    const char *problem = kind->refusal ? kind->refusal() : NULL;
    for (const char *text = payload; text < payload + length; text += strlen(text) + 1)
        if (strncmp(text, "now=", 4) == 0)
            start.question.time = strtoll(text + 4, NULL, 10);
    *ret_question = start.question;
    *ret_child = (struct child){ 0, -1, -1, -1 };
    if (problem || (kind->is_at_hand && kind->is_at_hand()))
        return problem;
    return child_start(0, run_own, &start, ret_child);
}

static const char *
start_exec(char *payload, size_t length, int *ret_tty, struct child *ret_child)
{
    static struct exec_request request;
    if (server_options()->template)
        return "the node has no identity yet";
    const char *problem = exec_parse(payload, length, &request);
    *ret_tty = request.tty;
    return problem ? problem : exec_start(&request, ret_child);
}

static void
open_session(uint32_t id, uint8_t *payload, size_t length)
{
    char *kind = (char *)payload;
    if (length == 0 || payload[length - 1] != '\0' || (!find_kind(kind) && strcmp(kind, "exec") != 0)) {
        refuse(id, "the guest program knows no such sessions");
        return;
    }
    const struct own_kind *own = find_kind(kind);
    struct session *session = free_slot(own != NULL);
    struct question question = { 0 };
    struct child child;
    int tty = 0;
    const char *problem;
    if (!session)
        problem = "the node has too many sessions; end one, or try again later";
    else
        problem = own ? start_own(own, kind, length, &question, &child) : start_exec(kind, length, &tty, &child);
    if (problem) {
        refuse(id, problem);
        return;
    }
    *session = (struct session){ .id = id,
                                 .child = child,
                                 .tty = tty,
                                 .own = own,
                                 .question = question,
                                 .exited = child.pid == 0,
                                 .listened = 1,
                                 .may_send = WEFT_WINDOW,
                                 .may_receive = WEFT_WINDOW };
}

static void
take_data(struct session *session, const uint8_t *payload, size_t length)
{
    if (session->eof || length > session->may_receive) {
        fail(session, session->eof ? "data came after its end" : "more data came than the window allows");
        return;
    }
    session->may_receive -= (uint32_t)length;
    text_add_bytes(&session->input, payload, length);
}

static void
take_window(struct session *session, const uint8_t *payload)
{
    uint32_t more = weft_be32(payload);
    if (more > WEFT_WINDOW_MAX || session->may_send + more > WEFT_WINDOW_MAX)
        fail(session, "the window is too large");
    else
        session->may_send += more;
}

static void
take_for(struct session *session, const struct weft_frame *frame, const uint8_t *payload)
{
    switch (frame->type) {
    case WEFT_FRAME_DATA:
        take_data(session, payload, frame->length);
        break;
    case WEFT_FRAME_EOF:
        session->eof = 1;
        break;
    case WEFT_FRAME_WINDOW:
        take_window(session, payload);
        break;
    case WEFT_FRAME_SIGNAL:
        if (!session->exited && weft_be32(payload) > 0 && weft_be32(payload) < (uint32_t)NSIG)
            signal_session(session, (int)weft_be32(payload));
        break;
    case WEFT_FRAME_RESIZE:
        if (session->tty)
            child_resize(&session->child, (uint16_t)(payload[0] << 8 | payload[1]), (uint16_t)(payload[2] << 8 | payload[3]));
        break;
    case WEFT_FRAME_CLOSE:
        hang_up(session);
        break;
    default:
        fail(session, "this frame is not for the guest program");
    }
}

/* Frames for a session that has ended are on their way still: nobody waits for an answer. */
void
sessions_take(const struct weft_frame *frame, uint8_t *payload)
{
    struct session *session = NULL;
    for (unsigned i = 0; i < SLOTS; i++)
        if (sessions[i].id == frame->session && sessions[i].listened)
            session = &sessions[i];
    if (frame->session == 0)
        return;
    if (session && (!weft_frame_fits(frame) || frame->type == WEFT_FRAME_OPEN))
        fail(session, "a frame was malformed");
    else if (session)
        take_for(session, frame, payload);
    else if (frame->type == WEFT_FRAME_OPEN)
        open_session(frame->session, payload, frame->length);
}

/* --- moving --- */

/* A terminal's input ends with a character. */
static void
end_input(struct session *session)
{
    struct termios mode;
    if (session->tty && tcgetattr(session->child.in, &mode) == 0 && write(session->child.in, &mode.c_cc[VEOF], 1) < 0 &&
        errno == EAGAIN)
        return;
    close_fd(&session->child.in);
}

static void
give_credit(struct session *session, size_t taken)
{
    session->owed += (uint32_t)taken;
    if (session->owed == 0 || (session->owed < CREDIT && session->taken < session->input.length))
        return;
    uint8_t more[4];
    weft_put_be32(session->owed, more);
    server_send(session->id, WEFT_FRAME_WINDOW, more, sizeof more);
    session->may_receive += session->owed;
    session->owed = 0;
}

/* What a child does not want to read is dropped, as a pipe would. */
static void
pump_in(struct session *session)
{
    size_t left = session->input.length - session->taken;
    if (left > 0) {
        ssize_t n =
            session->child.in < 0 ? (ssize_t)left : write(session->child.in, session->input.data + session->taken, left);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            close_fd(&session->child.in);
            n = (ssize_t)left;
        }
        session->taken += n > 0 ? (size_t)n : 0;
        if (session->taken == session->input.length)
            session->input.length = session->taken = 0;
        give_credit(session, n > 0 ? (size_t)n : 0);
    }
    if (session->eof && session->child.in >= 0 && session->input.length == 0)
        end_input(session);
}

/* A terminal whose programs have all closed it is kept as long as its child lives, which would be hung up otherwise. Of a child
 * that has ended everything is there to be read; what its own children still write is lost. */
static void
take_end(struct session *session, int *fd, int would_block)
{
    if (session->tty && !session->exited && !would_block)
        session->quiet_until = now() + QUIET;
    else if (!would_block || (session->exited && !session->tty))
        close_fd(fd);
}

static void
pump_out(struct session *session, int *fd, enum weft_frame_type type)
{
    uint8_t bytes[WEFT_FRAME_MAX];
    for (int turn = 0; turn < TURN && *fd >= 0 && session->may_send > 0 && server_has_room(); turn++) {
        ssize_t n = read(*fd, bytes, session->may_send < sizeof bytes ? session->may_send : sizeof bytes);
        if (n <= 0) {
            take_end(session, fd, n < 0 && (errno == EAGAIN || errno == EINTR));
            return;
        }
        session->may_send -= (uint32_t)n;
        server_send(session->id, type, bytes, (size_t)n);
    }
}

static int
begin_answer(struct session *session, struct text *said)
{
    session->begun = 1;
    return session->own->answer(&session->question, session->input.data, said);
}

/* 0: not all of the question is there, it is too long, or the answer takes its time. */
static int
answer(struct session *session)
{
    struct text said = { 0 };
    size_t fresh = session->input.length - session->taken;
    session->taken = session->input.length;
    give_credit(session, fresh);
    if (session->input.length > FILE_MAX)
        fail(session, "the question is too long");
    if (!session->eof || !session->listened)
        return 0;
    int status = session->begun ? session->own->go_on(&said) : begin_answer(session, &said);
    if (status == ANSWER_LATER)
        return 0;
    session->begun = 0;
    session->status = (uint32_t)status;
    server_send(session->id, WEFT_FRAME_DATA, said.data, said.length);
    text_free(&said);
    if (session->status == 0 && session->own->succeeded)
        session->own->succeeded();
    return 1;
}

static void
pump(struct session *session)
{
    if (session->child.pid == 0 && !answer(session))
        return;
    if (session->child.pid > 0)
        pump_in(session);
    pump_out(session, &session->child.out, WEFT_FRAME_DATA);
    pump_out(session, &session->child.err, WEFT_FRAME_ERROR_DATA);
    if (!session->exited || session->child.out >= 0 || session->child.err >= 0)
        return;
    uint8_t status[4];
    weft_put_be32(session->status, status);
    server_send(session->id, WEFT_FRAME_EXIT, status, sizeof status);
    release(session);
}

void
sessions_pump(void)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        struct session *session = &sessions[i];
        if (session->id && session->listened)
            pump(session);
        else if (session->id && session->kill_at <= now())
            kill(-session->child.pid, SIGKILL);
    }
}

void
sessions_exited(pid_t pid, int status)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        struct session *session = &sessions[i];
        if (!session->id || session->exited || session->child.pid != pid)
            continue;
        session->exited = 1;
        session->status = (uint32_t)(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
        if (session->own && session->own->succeeded && session->status == 0)
            session->own->succeeded();
        if (!session->listened) {
            kill(-pid, SIGKILL);
            release(session);
        }
    }
}

static void
wait_until(int64_t when, int *timeout)
{
    int64_t left = when - now();
    int wait = left < 1 ? 1 : (int)left;
    if (*timeout < 0 || wait < *timeout)
        *timeout = wait;
}

static unsigned
want(const struct session *session, struct pollfd *ret_polls, int *timeout)
{
    unsigned n = 0;
    int reads = session->may_send > 0 && server_has_room();
    int writes = session->input.length > 0 || session->eof;
    if (session->begun) {
        int64_t when;
        n += session->own->want(ret_polls, &when);
        wait_until(when, timeout);
    }
    if (session->child.in >= 0 && writes)
        ret_polls[n++] = (struct pollfd){ .fd = session->child.in, .events = POLLOUT };
    if (session->quiet_until > now())
        wait_until(session->quiet_until, timeout);
    else if (session->child.out >= 0 && reads)
        ret_polls[n++] = (struct pollfd){ .fd = session->child.out, .events = POLLIN };
    if (session->child.err >= 0 && reads)
        ret_polls[n++] = (struct pollfd){ .fd = session->child.err, .events = POLLIN };
    return n;
}

unsigned
sessions_want(struct pollfd *ret_polls, int *ret_timeout)
{
    unsigned n = 0;
    *ret_timeout = -1;
    for (unsigned i = 0; i < SLOTS; i++) {
        if (sessions[i].id && sessions[i].listened)
            n += want(&sessions[i], ret_polls + n, ret_timeout);
        else if (sessions[i].id)
            wait_until(sessions[i].kill_at > now() ? sessions[i].kill_at : now() + QUIET, ret_timeout);
    }
    return n;
}
