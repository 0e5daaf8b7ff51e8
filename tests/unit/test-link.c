/* weftd's side of the conversation with a node, on socket pairs: the test is the guest program and the clients. */
#include "errors.h"
#include "link.h"
#include "protocol.h"
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE (10 * G_USEC_PER_SEC)

/* --- the other ends --- */

/* Somebody who speaks frames: a guest program or a client. */
typedef struct End {
    int fd;
    struct weft_reader reader;
    guint8 bytes[65536];
    const guint8 *rest;
    gsize left;
    struct weft_frame frame; /* the last one */
    const guint8 *payload;
} End;

static void
end_init(End *end, int fd)
{
    *end = (End){ .fd = fd };
    g_assert_cmpint(fcntl(fd, F_SETFL, O_NONBLOCK), ==, 0);
}

static void
end_write(End *end, gconstpointer bytes, gsize count)
{
    for (gsize done = 0; done < count;) {
        gssize n = send(end->fd, (const guint8 *)bytes + done, count - done, MSG_NOSIGNAL);
        g_assert_true(n > 0 || errno == EAGAIN);
        done += n > 0 ? (gsize)n : 0;
        g_main_context_iteration(NULL, FALSE);
    }
}

static void
end_send(End *end, guint32 session, guint16 type, gconstpointer payload, gsize length)
{
    guint8 frame[WEFT_FRAME_HEADER + WEFT_FRAME_MAX];
    weft_frame_encode(&(struct weft_frame){ session, type, (guint16)length }, frame);
    if (length)
        memcpy(frame + WEFT_FRAME_HEADER, payload, length);
    end_write(end, frame, WEFT_FRAME_HEADER + length);
}

static void
end_send_text(End *end, guint32 session, guint16 type, const char *text)
{
    end_send(end, session, type, text, strlen(text));
}

static void
end_send_number(End *end, guint32 session, guint16 type, guint32 number)
{
    guint8 bytes[4];
    weft_put_be32(number, bytes);
    end_send(end, session, type, bytes, sizeof bytes);
}

/* What comes next, the main loop running meanwhile. FALSE: the stream ended. */
static gboolean
end_next(End *end, enum weft_read *ret_read)
{
    gint64 patience = g_get_monotonic_time() + PATIENCE;
    for (;;) {
        *ret_read = weft_reader_next(&end->reader, &end->rest, &end->left, &end->frame, &end->payload);
        if (*ret_read != WEFT_READ_MORE)
            return TRUE;
        g_main_context_iteration(NULL, FALSE);
        gssize n = read(end->fd, end->bytes, sizeof end->bytes);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return FALSE;
        g_assert_true(n > 0 || errno == EAGAIN);
        end->rest = end->bytes;
        end->left = n > 0 ? (gsize)n : 0;
        g_assert_cmpint(g_get_monotonic_time(), <, patience);
    }
}

static void
expect_frame(End *end, guint32 session, guint16 type)
{
    enum weft_read read;
    g_assert_true(end_next(end, &read));
    g_assert_cmpint(read, ==, WEFT_READ_FRAME);
    g_assert_cmpuint(end->frame.session, ==, session);
    g_assert_cmpuint(end->frame.type, ==, type);
}

static void
expect_text(End *end, guint32 session, guint16 type, const char *text)
{
    expect_frame(end, session, type);
    g_autofree char *got = g_strndup((const char *)end->payload, end->frame.length);
    g_assert_cmpstr(got, ==, text);
}

static void
expect_end(End *end)
{
    enum weft_read read;
    g_assert_false(end_next(end, &read));
}

/* --- finding a sync --- */

/* Which bytes are the nonce, however the stream is cut. */
static void
expect_sync(const GByteArray *stream, gsize step)
{
    struct weft_reader reader = { 0 };
    struct weft_frame frame;
    const guint8 *payload = NULL;
    weft_reader_hunt(&reader);
    for (gsize at = 0; at < stream->len; at += step) {
        const guint8 *bytes = stream->data + at;
        gsize count = MIN(step, stream->len - at);
        enum weft_read read = weft_reader_next(&reader, &bytes, &count, &frame, &payload);
        gboolean last = at + step >= stream->len;
        g_assert_cmpint(read, ==, last ? WEFT_READ_SYNC : WEFT_READ_MORE);
    }
    g_assert_cmpmem(payload, WEFT_NONCE_LENGTH, "a nonce, 16 long", WEFT_NONCE_LENGTH);
}

/* What comes before it may be part of one, and ends with as many of its first bytes as it likes. */
static void
test_hunt(void)
{
    static const gsize steps[] = { 1, 3, 7, 1024 };
    for (gsize part = 0; part < WEFT_SYNC_LENGTH; part++) {
        for (gsize padding = 0; padding < 40; padding++) {
            g_autoptr(GByteArray) stream = g_byte_array_new();
            g_byte_array_append(stream, (const guint8 *)WEFT_SYNC, (guint)part);
            for (gsize i = 0; i < padding; i++)
                g_byte_array_append(stream, (const guint8 *)"\xff", 1);
            g_byte_array_append(stream, (const guint8 *)WEFT_SYNC, WEFT_SYNC_LENGTH);
            g_byte_array_append(stream, (const guint8 *)"a nonce, 16 long", WEFT_NONCE_LENGTH);
            for (gsize i = 0; i < G_N_ELEMENTS(steps); i++)
                expect_sync(stream, steps[i]);
        }
    }
}

/* --- a link and its guest --- */

typedef struct Fixture {
    WeftLink *link;
    End guest;
    guint greetings, losses;
    GHashTable *facts;
    GError *error;
    gboolean free_in_callback;
} Fixture;

static void
greeted(WeftLink *link, GHashTable *facts, const GError *error, gpointer data)
{
    Fixture *f = data;
    f->greetings++;
    f->facts = facts ? g_hash_table_ref(facts) : NULL;
    f->error = error ? g_error_copy(error) : NULL;
    if (f->free_in_callback)
        g_clear_pointer(&f->link, weft_link_free);
}

static void
lost(WeftLink *link, const GError *error, gpointer data)
{
    Fixture *f = data;
    f->losses++;
    g_clear_error(&f->error);
    f->error = g_error_copy(error);
    if (f->free_in_callback)
        g_clear_pointer(&f->link, weft_link_free);
}

static void
set_up(Fixture *f)
{
    int ends[2];
    *f = (Fixture){ 0 };
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
    end_init(&f->guest, ends[1]);
    weft_reader_hunt(&f->guest.reader);
    f->link = weft_link_new(ends[0], greeted, lost, f);
}

static void
tear_down(Fixture *f)
{
    weft_link_free(f->link);
    if (f->guest.fd >= 0)
        close(f->guest.fd);
    g_clear_pointer(&f->facts, g_hash_table_unref);
    g_clear_error(&f->error);
}

static void
take_sync(Fixture *f, guint8 ret_nonce[WEFT_NONCE_LENGTH])
{
    enum weft_read read;
    g_assert_true(end_next(&f->guest, &read));
    g_assert_cmpint(read, ==, WEFT_READ_SYNC);
    memcpy(ret_nonce, f->guest.payload, WEFT_NONCE_LENGTH);
}

static void
welcome(Fixture *f)
{
    static const char facts[] = "version=1\0hostname=cfd-3\0boot=b00t";
    guint8 nonce[WEFT_NONCE_LENGTH];
    take_sync(f, nonce);
    end_write(&f->guest, WEFT_SYNC, WEFT_SYNC_LENGTH);
    end_write(&f->guest, nonce, sizeof nonce);
    end_send(&f->guest, 0, WEFT_FRAME_WELCOME, facts, sizeof facts);
    while (f->greetings == 0)
        g_main_context_iteration(NULL, TRUE);
}

static void
set_up_greeted(Fixture *f)
{
    set_up(f);
    welcome(f);
}

static void
until_lost(Fixture *f, const char *pattern)
{
    while (f->losses == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_error(f->error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    if (!g_pattern_match_simple(pattern, f->error->message))
        g_error("\"%s\" is not \"%s\"", f->error->message, pattern);
}

static void
connect_client(Fixture *f, End *client)
{
    g_autoptr(GError) error = NULL;
    int fd = weft_link_connect(f->link, &error);
    g_assert_no_error(error);
    end_init(client, fd);
}

#define EXEC "exec\0arg=/bin/true"

/* Returns the number that its session has on the link. */
static guint32
open_session(Fixture *f, End *client)
{
    connect_client(f, client);
    end_send(client, 1, WEFT_FRAME_OPEN, EXEC, sizeof EXEC);
    enum weft_read read;
    g_assert_true(end_next(&f->guest, &read));
    g_assert_cmpint(read, ==, WEFT_READ_FRAME);
    g_assert_cmpuint(f->guest.frame.type, ==, WEFT_FRAME_OPEN);
    g_assert_cmpmem(f->guest.payload, f->guest.frame.length, EXEC, sizeof EXEC);
    return f->guest.frame.session;
}

/* Whatever happened to others, this one works. */
static void
check_works(Fixture *f, End *client, guint32 session)
{
    end_send_text(client, 1, WEFT_FRAME_DATA, "ping");
    expect_text(&f->guest, session, WEFT_FRAME_DATA, "ping");
    end_send_text(&f->guest, session, WEFT_FRAME_DATA, "pong");
    expect_text(client, 1, WEFT_FRAME_DATA, "pong");
}

/* --- greeting --- */

static void
test_greeting(void)
{
    Fixture f;
    set_up_greeted(&f);
    g_assert_no_error(f.error);
    g_assert_cmpuint(g_hash_table_size(f.facts), ==, 3);
    g_assert_cmpstr(g_hash_table_lookup(f.facts, "hostname"), ==, "cfd-3");
    g_assert_cmpstr(g_hash_table_lookup(f.facts, "version"), ==, "1");
    g_assert_cmpuint(weft_link_sessions(f.link), ==, 0);
    tear_down(&f);
    g_assert_cmpuint(f.greetings, ==, 1);
    g_assert_cmpuint(f.losses, ==, 0);
}

static void
test_greeting_after_noise(void)
{
    Fixture f;
    guint8 other[WEFT_NONCE_LENGTH] = "somebody else's";
    set_up(&f);
    end_write(&f.guest, "Login: \r\n\xff\xff\xff\xff\xff", 14);
    end_write(&f.guest, WEFT_SYNC, WEFT_SYNC_LENGTH);
    end_write(&f.guest, other, sizeof other);
    end_send(&f.guest, 0, WEFT_FRAME_WELCOME, "version=0", 10);
    welcome(&f);
    g_assert_no_error(f.error);
    g_assert_cmpstr(g_hash_table_lookup(f.facts, "version"), ==, "1");
    tear_down(&f);
}

static void
test_greeting_that_never_comes(void)
{
    Fixture f;
    set_up(&f);
    close(f.guest.fd);
    f.guest.fd = -1;
    f.free_in_callback = TRUE;
    while (f.greetings == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_error(f.error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    g_assert_cmpuint(f.losses, ==, 0);
    tear_down(&f);
}

static void
test_welcome_is_first(void)
{
    Fixture f;
    guint8 nonce[WEFT_NONCE_LENGTH];
    set_up(&f);
    take_sync(&f, nonce);
    end_write(&f.guest, WEFT_SYNC, WEFT_SYNC_LENGTH);
    end_write(&f.guest, nonce, sizeof nonce);
    end_send(&f.guest, 1, WEFT_FRAME_DATA, "x", 1);
    while (f.greetings == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_error(f.error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    tear_down(&f);
}

/* --- the end of a link --- */

static void
test_loss(void)
{
    Fixture f;
    End client;
    set_up_greeted(&f);
    open_session(&f, &client);
    close(f.guest.fd);
    f.guest.fd = -1;
    until_lost(&f, "the connection to the node ended: *");
    expect_frame(&client, 1, WEFT_FRAME_REFUSE);
    expect_end(&client);
    g_autoptr(GError) error = NULL;
    g_assert_cmpint(weft_link_connect(f.link, &error), ==, -1);
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    close(client.fd);
    tear_down(&f);
}

static void
test_loss_frees(void)
{
    Fixture f;
    End client;
    set_up_greeted(&f);
    open_session(&f, &client);
    f.free_in_callback = TRUE;
    end_write(&f.guest, "this is no frame", 16);
    until_lost(&f, "the guest program sent something that is no frame");
    g_assert_null(f.link);
    expect_frame(&client, 1, WEFT_FRAME_REFUSE);
    expect_end(&client);
    close(client.fd);
    tear_down(&f);
}

static void
test_guest_program_started_anew(void)
{
    Fixture f;
    guint8 zeros[WEFT_NONCE_LENGTH] = { 0 };
    set_up_greeted(&f);
    end_write(&f.guest, WEFT_SYNC, WEFT_SYNC_LENGTH);
    end_write(&f.guest, zeros, sizeof zeros);
    until_lost(&f, "the guest program was started anew");
    tear_down(&f);
}

static void
test_sessions_that_nobody_opened(void)
{
    Fixture f;
    set_up_greeted(&f);
    end_send(&f.guest, 7, WEFT_FRAME_DATA, "x", 1);
    until_lost(&f, "the guest program spoke of sessions that nobody opened");
    tear_down(&f);
}

static void
test_free_tells_clients(void)
{
    Fixture f;
    End client;
    set_up_greeted(&f);
    open_session(&f, &client);
    g_clear_pointer(&f.link, weft_link_free);
    expect_text(&client, 1, WEFT_FRAME_REFUSE, "the connection to the node was closed");
    expect_end(&client);
    expect_end(&f.guest);
    close(client.fd);
    tear_down(&f);
}

/* --- asking --- */

typedef struct Answer {
    guint calls;
    char *output;
    GError *error;
    Fixture *free_link_of;
} Answer;

static void
answered(const char *output, const GError *error, gpointer data)
{
    Answer *answer = data;
    answer->calls++;
    answer->output = g_strdup(output);
    answer->error = error ? g_error_copy(error) : NULL;
    if (answer->free_link_of)
        g_clear_pointer(&answer->free_link_of->link, weft_link_free);
}

static void
answer_clear(Answer *answer)
{
    g_free(answer->output);
    g_clear_error(&answer->error);
}

static void
until_answered(Answer *answer)
{
    while (answer->calls == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(answer->calls, ==, 1);
}

static void
expect_question(Fixture *f, const char *input)
{
    expect_frame(&f->guest, 1, WEFT_FRAME_OPEN);
    const char *kind = (const char *)f->guest.payload, *told = kind + strlen(kind) + 1;
    g_assert_cmpstr(kind, ==, "meet");
    g_assert_cmpuint(strlen(kind) + 1 + strlen(told) + 1, ==, f->guest.frame.length);
    g_assert_true(g_str_has_prefix(told, "now="));
    g_assert_cmpint(ABS(g_get_real_time() - g_ascii_strtoll(told + 4, NULL, 10)), <, 60 * G_USEC_PER_SEC);
    if (*input)
        expect_text(&f->guest, 1, WEFT_FRAME_DATA, input);
    expect_frame(&f->guest, 1, WEFT_FRAME_EOF);
}

static void
test_ask(void)
{
    Fixture f;
    Answer answer = { 0 };
    set_up_greeted(&f);
    weft_link_ask(f.link, &(WeftQuestion){ "meet", "roster\n" }, NULL, answered, &answer);
    g_assert_cmpuint(weft_link_sessions(f.link), ==, 1);
    expect_question(&f, "roster\n");
    end_send_text(&f.guest, 1, WEFT_FRAME_DATA, "all ");
    end_send_text(&f.guest, 1, WEFT_FRAME_ERROR_DATA, "is well\n");
    end_send_number(&f.guest, 1, WEFT_FRAME_EXIT, 0);
    until_answered(&answer);
    g_assert_no_error(answer.error);
    g_assert_cmpstr(answer.output, ==, "all is well\n");
    g_assert_cmpuint(weft_link_sessions(f.link), ==, 0);
    answer_clear(&answer);
    tear_down(&f);
}

/* clang-format off */
static const struct {
    const char *data;   /* NULL: none */
    guint16 type;       /* of the last frame */
    const char *text;   /* of it; NULL: exit status 1 */
    WeftErrorCode code;
    const char *message;
} bad_answers[] = {
    { "cfd-1 is there\ncfd-2 does not answer\n", WEFT_FRAME_EXIT, NULL, WEFT_ERROR_FAILED, "cfd-2 does not answer" },
    { "no end of line", WEFT_FRAME_EXIT, NULL, WEFT_ERROR_FAILED, "no end of line" },
    { NULL, WEFT_FRAME_EXIT, NULL, WEFT_ERROR_FAILED, "it ended with status 1" },
    { "a\x1b[31mb\xff", WEFT_FRAME_EXIT, NULL, WEFT_ERROR_FAILED, "a?[31mb\xef\xbf\xbd" },
    { "a\xc2\x9b" "31mb\xe2\x80\xae" "c\x7f", WEFT_FRAME_EXIT, NULL, WEFT_ERROR_FAILED, "a?31mb?c?" }, /* C1, right to left */
    { NULL, WEFT_FRAME_REFUSE, "no such kind", WEFT_ERROR_INVALID, "no such kind" },
    { NULL, WEFT_FRAME_REFUSE, "", WEFT_ERROR_INVALID, "the node refused it, and did not say why" },
    { NULL, WEFT_FRAME_RESIZE, "1234", WEFT_ERROR_UNAVAILABLE,
      "the guest program did not keep to the protocol; restart the node" },
};
/* clang-format on */

static void
test_ask_in_vain(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(bad_answers); i++) {
        Fixture f;
        Answer answer = { 0 };
        set_up_greeted(&f);
        weft_link_ask(f.link, &(WeftQuestion){ "meet", "" }, NULL, answered, &answer);
        expect_question(&f, "");
        if (bad_answers[i].data)
            end_send_text(&f.guest, 1, WEFT_FRAME_DATA, bad_answers[i].data);
        if (bad_answers[i].text)
            end_send_text(&f.guest, 1, bad_answers[i].type, bad_answers[i].text);
        else
            end_send_number(&f.guest, 1, bad_answers[i].type, 1);
        until_answered(&answer);
        const char *said = bad_answers[i].data ? bad_answers[i].data : "";
        g_assert_cmpstr(answer.output, ==, bad_answers[i].code == WEFT_ERROR_FAILED ? said : NULL);
        g_assert_error(answer.error, WEFT_ERROR, (gint)bad_answers[i].code);
        g_assert_cmpstr(answer.error->message, ==, bad_answers[i].message);
        answer_clear(&answer);
        tear_down(&f);
    }
}

/* As much as the window allows, and the rest when it allows more, be it the question's own or shared. */
static void
test_ask_with_much(void)
{
    Fixture f;
    Answer answer = { 0 };
    g_autofree char *input = g_strnfill(WEFT_WINDOW - 10, 'x');
    g_autoptr(GBytes) more = g_bytes_new_take(g_strnfill(1010, 'y'), 1010);
    set_up_greeted(&f);
    weft_link_ask(f.link, &(WeftQuestion){ "meet", input, more }, NULL, answered, &answer);
    expect_frame(&f.guest, 1, WEFT_FRAME_OPEN);
    for (gsize got = 0; got < WEFT_WINDOW; got += f.guest.frame.length)
        expect_frame(&f.guest, 1, WEFT_FRAME_DATA);
    for (guint i = 0; i < 100; i++)
        g_main_context_iteration(NULL, FALSE);
    g_assert_cmpint(recv(f.guest.fd, f.guest.bytes, 1, MSG_PEEK), <, 0);
    end_send_number(&f.guest, 1, WEFT_FRAME_WINDOW, 1000);
    expect_frame(&f.guest, 1, WEFT_FRAME_DATA);
    g_assert_cmpuint(f.guest.frame.length, ==, 1000);
    expect_frame(&f.guest, 1, WEFT_FRAME_EOF);
    end_send_number(&f.guest, 1, WEFT_FRAME_EXIT, 0);
    until_answered(&answer);
    g_assert_cmpstr(answer.output, ==, "");
    answer_clear(&answer);
    tear_down(&f);
}

static void
test_ask_and_hear_too_much(void)
{
    Fixture f;
    Answer answer = { 0 };
    g_autofree char *output = g_strnfill(WEFT_FRAME_MAX, 'x');
    set_up_greeted(&f);
    weft_link_ask(f.link, &(WeftQuestion){ "meet", "" }, NULL, answered, &answer);
    expect_question(&f, "");
    for (gsize sent = 0; sent < WEFT_WINDOW; sent += WEFT_FRAME_MAX)
        end_send(&f.guest, 1, WEFT_FRAME_DATA, output, WEFT_FRAME_MAX);
    until_answered(&answer);
    g_assert_error(answer.error, WEFT_ERROR, WEFT_ERROR_FAILED);
    expect_frame(&f.guest, 1, WEFT_FRAME_CLOSE);
    answer_clear(&answer);
    tear_down(&f);
}

static void
test_ask_cancelled(void)
{
    Fixture f;
    Answer answer = { 0 };
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    set_up_greeted(&f);
    weft_link_ask(f.link, &(WeftQuestion){ "meet", "" }, cancellable, answered, &answer);
    expect_question(&f, "");
    g_cancellable_cancel(cancellable);
    until_answered(&answer);
    g_assert_error(answer.error, WEFT_ERROR, WEFT_ERROR_TIMEOUT);
    expect_frame(&f.guest, 1, WEFT_FRAME_CLOSE);
    /* What it says before it knows is dropped. */
    end_send_text(&f.guest, 1, WEFT_FRAME_DATA, "late");
    end_send_number(&f.guest, 1, WEFT_FRAME_EXIT, 0);
    End client;
    guint32 session = open_session(&f, &client);
    check_works(&f, &client, session);
    g_assert_cmpuint(f.losses, ==, 0);
    close(client.fd);
    answer_clear(&answer);
    tear_down(&f);
}

static void
test_ask_too_early_and_too_late(void)
{
    Fixture f;
    Answer early = { 0 }, late = { 0 }, during = { 0 };
    set_up(&f);
    weft_link_ask(f.link, &(WeftQuestion){ "meet", "" }, NULL, answered, &early);
    g_assert_cmpuint(early.calls, ==, 0);
    until_answered(&early);
    g_assert_error(early.error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    welcome(&f);
    weft_link_ask(f.link, &(WeftQuestion){ "meet", "" }, NULL, answered, &during);
    close(f.guest.fd);
    f.guest.fd = -1;
    until_answered(&during);
    g_assert_error(during.error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    g_assert_cmpuint(f.losses, ==, 1);
    weft_link_ask(f.link, &(WeftQuestion){ "meet", "" }, NULL, answered, &late);
    until_answered(&late);
    g_assert_error(late.error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    answer_clear(&early);
    answer_clear(&during);
    answer_clear(&late);
    tear_down(&f);
}

static void
test_answer_frees(void)
{
    Fixture f;
    Answer answer = { .free_link_of = &f }, never = { 0 };
    set_up_greeted(&f);
    weft_link_ask(f.link, &(WeftQuestion){ "meet", "" }, NULL, answered, &answer);
    weft_link_ask(f.link, &(WeftQuestion){ "meet", "" }, NULL, answered, &never);
    end_send_number(&f.guest, 1, WEFT_FRAME_EXIT, 0);
    until_answered(&answer);
    g_assert_null(f.link);
    g_assert_cmpuint(never.calls, ==, 0);
    answer_clear(&answer);
    tear_down(&f);
}

/* --- clients --- */

static void
test_client(void)
{
    Fixture f;
    End client, other;
    set_up_greeted(&f);
    guint32 session = open_session(&f, &client);
    guint32 second = open_session(&f, &other);
    g_assert_cmpuint(session, !=, second);
    check_works(&f, &client, session);
    check_works(&f, &other, second);

    end_send_number(&client, 1, WEFT_FRAME_SIGNAL, 2);
    expect_frame(&f.guest, session, WEFT_FRAME_SIGNAL);
    end_send_number(&client, 1, WEFT_FRAME_RESIZE, 24 << 16 | 80);
    expect_frame(&f.guest, session, WEFT_FRAME_RESIZE);
    g_assert_cmpuint(weft_be32(f.guest.payload), ==, 24 << 16 | 80);
    end_send(&client, 1, WEFT_FRAME_EOF, NULL, 0);
    expect_frame(&f.guest, session, WEFT_FRAME_EOF);
    end_send_text(&f.guest, session, WEFT_FRAME_ERROR_DATA, "oh");
    end_send_number(&f.guest, session, WEFT_FRAME_EXIT, 3);
    expect_text(&client, 1, WEFT_FRAME_ERROR_DATA, "oh");
    expect_frame(&client, 1, WEFT_FRAME_EXIT);
    g_assert_cmpuint(weft_be32(client.payload), ==, 3);
    expect_end(&client);
    check_works(&f, &other, second);
    g_assert_cmpuint(weft_link_sessions(f.link), ==, 1);
    close(client.fd);
    close(other.fd);
    tear_down(&f);
}

static void
test_client_goes(void)
{
    static const gboolean says_so[] = { FALSE, TRUE };
    for (gsize i = 0; i < G_N_ELEMENTS(says_so); i++) {
        Fixture f;
        End client;
        set_up_greeted(&f);
        guint32 session = open_session(&f, &client);
        if (says_so[i]) {
            end_send(&client, 1, WEFT_FRAME_CLOSE, NULL, 0);
            expect_end(&client);
        }
        close(client.fd);
        expect_frame(&f.guest, session, WEFT_FRAME_CLOSE);
        g_assert_cmpuint(weft_link_sessions(f.link), ==, 0);
        tear_down(&f);
    }
}

#define FRAME(session, type, length) "\0\0\0" session "\0" type "\0" length

/* clang-format off */
static const struct {
    gboolean open; /* after a session was opened */
    const char *bytes;
    gsize length;
    const char *why;
} bad_clients[] = {
#define BYTES(text) text, sizeof text - 1
    { FALSE, BYTES("GET / HTTP/1.1\r\n"), "a frame is malformed" },
    { FALSE, BYTES(WEFT_SYNC "0123456789abcdef"), "a frame is malformed" },
    { FALSE, BYTES(FRAME("\2", "\2", "\5") "exec\0"), "a connection has one session, number 1" },
    { FALSE, BYTES(FRAME("\0", "\2", "\5") "exec\0"), "a connection has one session, number 1" },
    { FALSE, BYTES(FRAME("\1", "\2", "\5") "meet\0"), "sessions of this kind are not for clients; ask for \"exec\"" },
    { FALSE, BYTES(FRAME("\1", "\2", "\5") "exec!"), "the last text of OPEN is not ended by NUL" },
    { FALSE, BYTES(FRAME("\1", "\2", "\0")), "a frame is malformed or not for the node" },
    { FALSE, BYTES(FRAME("\1", "\3", "\1") "x"), "a session begins with OPEN" },
    { FALSE, BYTES(FRAME("\1", "\1", "\0")), "a frame is malformed or not for the node" },
    { TRUE, BYTES(FRAME("\1", "\2", "\5") "exec\0"), "the session is open already" },
    { TRUE, BYTES(FRAME("\1", "\3", "\0")), "a frame is malformed or not for the node" },
    { TRUE, BYTES(FRAME("\1", "\4", "\1") "x"), "a frame is malformed or not for the node" },
    { TRUE, BYTES(FRAME("\1", "\5", "\1") "x"), "a frame is malformed or not for the node" },
    { TRUE, BYTES(FRAME("\1", "\6", "\3") "xxx"), "a frame is malformed or not for the node" },
    { TRUE, BYTES(FRAME("\1", "\6", "\4") "\xff\xff\xff\xff"), "the window is larger than 1048576 bytes" },
    { TRUE, BYTES(FRAME("\1", "\6", "\4") "\0\x10\0\0"), "the window is larger than 1048576 bytes" },
    { TRUE, BYTES(FRAME("\1", "\7", "\2") "xx"), "a frame is malformed or not for the node" },
    { TRUE, BYTES(FRAME("\1", "\x09", "\4") "\0\0\0\0"), "a frame is malformed or not for the node" },
    { TRUE, BYTES(FRAME("\1", "\x0a", "\1") "x"), "a frame is malformed or not for the node" },
    { TRUE, BYTES(FRAME("\1", "\x0c", "\0")), "a frame is malformed" },
    { TRUE, BYTES(FRAME("\1", "\5", "\0") FRAME("\1", "\5", "\0")), "its end came twice" },
    { TRUE, BYTES(FRAME("\1", "\5", "\0") FRAME("\1", "\3", "\1") "x"), "data came after its end" },
#undef BYTES
};
/* clang-format on */

static void
expect_close(End *guest, guint32 session)
{
    enum weft_read read;
    do {
        g_assert_true(end_next(guest, &read));
        g_assert_cmpuint(guest->frame.session, ==, session);
    } while (guest->frame.type != WEFT_FRAME_CLOSE);
}

static void
check_bad_client(gsize i)
{
    Fixture f;
    End good, bad;
    guint32 session = 0;
    set_up_greeted(&f);
    guint32 other = open_session(&f, &good);
    if (bad_clients[i].open)
        session = open_session(&f, &bad);
    else
        connect_client(&f, &bad);
    end_write(&bad, bad_clients[i].bytes, bad_clients[i].length);
    expect_text(&bad, 1, WEFT_FRAME_REFUSE, bad_clients[i].why);
    expect_end(&bad);
    if (session)
        expect_close(&f.guest, session);
    check_works(&f, &good, other);
    g_assert_cmpuint(weft_link_sessions(f.link), ==, 1);
    close(good.fd);
    close(bad.fd);
    tear_down(&f);
}

static void
test_client_misbehaves(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(bad_clients); i++)
        check_bad_client(i);
}

static void
test_client_sends_too_much(void)
{
    Fixture f;
    End client;
    guint8 data[WEFT_FRAME_MAX] = { 0 };
    set_up_greeted(&f);
    guint32 session = open_session(&f, &client);
    for (gsize sent = 0; sent < WEFT_WINDOW; sent += sizeof data) {
        end_send(&client, 1, WEFT_FRAME_DATA, data, sizeof data);
        expect_frame(&f.guest, session, WEFT_FRAME_DATA);
    }
    end_send_number(&f.guest, session, WEFT_FRAME_WINDOW, 10);
    expect_frame(&client, 1, WEFT_FRAME_WINDOW);
    end_send(&client, 1, WEFT_FRAME_DATA, data, 10);
    expect_frame(&f.guest, session, WEFT_FRAME_DATA);
    end_send(&client, 1, WEFT_FRAME_DATA, data, 1);
    expect_text(&client, 1, WEFT_FRAME_REFUSE, "more data came than the window allows");
    expect_close(&f.guest, session);
    close(client.fd);
    tear_down(&f);
}

/* It allows more and more without ever reading: what waits for it is bounded. */
static void
test_client_does_not_read(void)
{
    Fixture f;
    End lazy, good;
    guint8 data[WEFT_FRAME_MAX] = { 0 };
    gsize sent = 0;
    set_up_greeted(&f);
    guint32 session = open_session(&f, &lazy);
    guint32 other = open_session(&f, &good);
    gboolean closed = FALSE;
    while (!closed) {
        g_assert_cmpuint(sent, <, 8 * 1024 * 1024);
        end_send(&f.guest, session, WEFT_FRAME_DATA, data, sizeof data);
        sent += sizeof data;
        end_send_number(&lazy, 1, WEFT_FRAME_WINDOW, sizeof data);
        enum weft_read read;
        g_assert_true(end_next(&f.guest, &read));
        g_assert_cmpuint(f.guest.frame.session, ==, session);
        closed = f.guest.frame.type == WEFT_FRAME_CLOSE;
    }
    check_works(&f, &good, other);
    close(lazy.fd);
    close(good.fd);
    tear_down(&f);
}

static void
test_too_many_clients(void)
{
    Fixture f;
    End *clients = g_new(End, WEFT_SESSIONS_MAX);
    set_up_greeted(&f);
    for (guint i = 0; i < WEFT_SESSIONS_MAX; i++)
        connect_client(&f, &clients[i]);
    g_autoptr(GError) error = NULL;
    g_assert_cmpint(weft_link_connect(f.link, &error), ==, -1);
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_BUSY);
    close(clients[0].fd);
    while (weft_link_sessions(f.link) == WEFT_SESSIONS_MAX)
        g_main_context_iteration(NULL, TRUE);
    connect_client(&f, &clients[0]);
    for (guint i = 0; i < WEFT_SESSIONS_MAX; i++)
        close(clients[i].fd);
    g_free(clients);
    tear_down(&f);
}

/* --- a guest that misbehaves --- */

/* clang-format off */
static const struct {
    guint16 type;
    gsize length;
} bad_frames[] = {
    { WEFT_FRAME_DATA, 0 },
    { WEFT_FRAME_OPEN, 5 },
    { WEFT_FRAME_CLOSE, 0 },
    { WEFT_FRAME_SIGNAL, 4 },
    { WEFT_FRAME_WELCOME, 9 },
    { WEFT_FRAME_EXIT, 3 },
    { WEFT_FRAME_WINDOW, 4 }, /* of 0x78787878 bytes */
    { WEFT_FRAME_EOF, 1 },
};
/* clang-format on */

static void
test_guest_misbehaves(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(bad_frames); i++) {
        Fixture f;
        End client, other;
        set_up_greeted(&f);
        guint32 session = open_session(&f, &client);
        guint32 second = open_session(&f, &other);
        end_send(&f.guest, session, bad_frames[i].type, "xxxxxxxxxxxx", bad_frames[i].length);
        expect_text(&client, 1, WEFT_FRAME_REFUSE, "the guest program did not keep to the protocol; restart the node");
        expect_end(&client);
        expect_close(&f.guest, session);
        check_works(&f, &other, second);
        close(client.fd);
        close(other.fd);
        tear_down(&f);
    }
}

static void
test_guest_sends_more_than_allowed(void)
{
    Fixture f;
    End client;
    guint8 data[WEFT_FRAME_MAX] = { 0 };
    set_up_greeted(&f);
    guint32 session = open_session(&f, &client);
    for (gsize sent = 0; sent < WEFT_WINDOW; sent += sizeof data) {
        end_send(&f.guest, session, WEFT_FRAME_DATA, data, sizeof data);
        expect_frame(&client, 1, WEFT_FRAME_DATA);
    }
    end_send(&f.guest, session, WEFT_FRAME_DATA, data, 1);
    expect_frame(&client, 1, WEFT_FRAME_REFUSE);
    expect_close(&f.guest, session);
    close(client.fd);
    tear_down(&f);
}

/* What was on its way when a session ended is dropped, but not without end. */
static void
test_guest_goes_on_for_ever(void)
{
    Fixture f;
    End client;
    guint8 data[WEFT_FRAME_MAX] = { 0 };
    gsize sent = 0;
    set_up_greeted(&f);
    guint32 session = open_session(&f, &client);
    close(client.fd);
    expect_close(&f.guest, session);
    for (; f.losses == 0; sent += sizeof data) {
        guint8 frame[WEFT_FRAME_HEADER];
        weft_frame_encode(&(struct weft_frame){ session, WEFT_FRAME_DATA, sizeof data }, frame);
        g_assert_cmpuint(sent, <, 4 * 1024 * 1024);
        if (send(f.guest.fd, frame, sizeof frame, MSG_NOSIGNAL) == sizeof frame)
            for (gsize done = 0; done < sizeof data && f.losses == 0;) {
                gssize n = send(f.guest.fd, data + done, sizeof data - done, MSG_NOSIGNAL);
                done += n > 0 ? (gsize)n : 0;
                g_main_context_iteration(NULL, FALSE);
            }
        g_main_context_iteration(NULL, FALSE);
    }
    g_assert_cmpuint(sent, >, 8 * WEFT_WINDOW);
    until_lost(&f, "the guest program spoke of sessions that nobody opened");
    tear_down(&f);
}

/* A guest that does not read stops its clients, and nothing is lost when it does. */
static void
test_guest_does_not_read(void)
{
    Fixture f;
    const guint n = 32;
    guint8 data[WEFT_FRAME_MAX];
    End *clients = g_new(End, n);
    gsize *done = g_new0(gsize, n), accepted = 0, got = 0;
    const gsize each = (WEFT_WINDOW / WEFT_FRAME_MAX) * (WEFT_FRAME_HEADER + WEFT_FRAME_MAX);
    g_autofree guint8 *stream = g_malloc(each);
    memset(data, 'x', sizeof data);
    for (gsize i = 0; i < WEFT_WINDOW / WEFT_FRAME_MAX; i++) {
        guint8 *frame = stream + i * (WEFT_FRAME_HEADER + WEFT_FRAME_MAX);
        weft_frame_encode(&(struct weft_frame){ 1, WEFT_FRAME_DATA, sizeof data }, frame);
        memcpy(frame + WEFT_FRAME_HEADER, data, sizeof data);
    }
    set_up_greeted(&f);
    int small = 4096;
    setsockopt(f.guest.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (guint i = 0; i < n; i++) {
        open_session(&f, &clients[i]);
        setsockopt(clients[i].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    }
    for (guint quiet = 0; quiet < 200; quiet++) {
        for (guint i = 0; i < n; i++) {
            gssize sent = done[i] < each ? send(clients[i].fd, stream + done[i], each - done[i], MSG_NOSIGNAL) : 0;
            if (sent > 0) {
                done[i] += (gsize)sent;
                accepted += (gsize)sent;
                quiet = 0;
            }
        }
        g_main_context_iteration(NULL, FALSE);
    }
    /* Far less than the two megabytes that they may send. */
    g_assert_cmpuint(accepted, <, n * each);
    while (got < (gsize)n * WEFT_WINDOW) {
        enum weft_read read;
        for (guint i = 0; i < n; i++) {
            gssize sent = done[i] < each ? send(clients[i].fd, stream + done[i], each - done[i], MSG_NOSIGNAL) : 0;
            done[i] += sent > 0 ? (gsize)sent : 0;
        }
        g_assert_true(end_next(&f.guest, &read));
        g_assert_cmpuint(f.guest.frame.type, ==, WEFT_FRAME_DATA);
        got += f.guest.frame.length;
    }
    for (guint i = 0; i < n; i++)
        close(clients[i].fd);
    g_free(clients);
    g_free(done);
    tear_down(&f);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    signal(SIGPIPE, SIG_IGN);
    g_test_add_func("/link/hunt", test_hunt);
    g_test_add_func("/link/greeting", test_greeting);
    g_test_add_func("/link/greeting-after-noise", test_greeting_after_noise);
    g_test_add_func("/link/greeting-that-never-comes", test_greeting_that_never_comes);
    g_test_add_func("/link/welcome-is-first", test_welcome_is_first);
    g_test_add_func("/link/loss", test_loss);
    g_test_add_func("/link/loss-frees", test_loss_frees);
    g_test_add_func("/link/guest-program-started-anew", test_guest_program_started_anew);
    g_test_add_func("/link/sessions-that-nobody-opened", test_sessions_that_nobody_opened);
    g_test_add_func("/link/free-tells-clients", test_free_tells_clients);
    g_test_add_func("/link/ask", test_ask);
    g_test_add_func("/link/ask-in-vain", test_ask_in_vain);
    g_test_add_func("/link/ask-with-much", test_ask_with_much);
    g_test_add_func("/link/ask-and-hear-too-much", test_ask_and_hear_too_much);
    g_test_add_func("/link/ask-cancelled", test_ask_cancelled);
    g_test_add_func("/link/ask-too-early-and-too-late", test_ask_too_early_and_too_late);
    g_test_add_func("/link/answer-frees", test_answer_frees);
    g_test_add_func("/link/client", test_client);
    g_test_add_func("/link/client-goes", test_client_goes);
    g_test_add_func("/link/client-misbehaves", test_client_misbehaves);
    g_test_add_func("/link/client-sends-too-much", test_client_sends_too_much);
    g_test_add_func("/link/client-does-not-read", test_client_does_not_read);
    g_test_add_func("/link/too-many-clients", test_too_many_clients);
    g_test_add_func("/link/guest-misbehaves", test_guest_misbehaves);
    g_test_add_func("/link/guest-sends-more-than-allowed", test_guest_sends_more_than_allowed);
    g_test_add_func("/link/guest-goes-on-for-ever", test_guest_goes_on_for_ever);
    g_test_add_func("/link/guest-does-not-read", test_guest_does_not_read);
    return g_test_run();
}
