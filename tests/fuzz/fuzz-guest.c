/* What a guest program answers, whoever runs in the node: a byte that says whether it greets as it should, then its bytes. Each
 * question is answered once, by an output or by an error that can be shown; the link ends with the stream. */
#include "fuzz.h"

#include "link.h"
#include "protocol.h"
#include "reader.h"

#include <sys/socket.h>
#include <unistd.h>

#define QUESTIONS 3

typedef struct Talk {
    WeftLink *link;
    guint asked, answered;
    gboolean ended;
} Talk;

static void
answered(const char *output, const GError *error, gpointer data)
{
    Talk *talk = data;
    talk->answered++;
    fuzz_promise(output || error);
    if (error)
        fuzz_check_refusal(g_error_copy(error));
}

static void
greeted(WeftLink *link, GHashTable *facts, const GError *error, gpointer data)
{
    static const char *const kinds[QUESTIONS] = { "meet", "settle", "quiesce" };
    Talk *talk = data;
    talk->ended = error != NULL;
    for (; facts && talk->asked < QUESTIONS; talk->asked++)
        weft_link_ask(link, &(WeftQuestion){ kinds[talk->asked], "within 5\n" }, NULL, answered, talk);
}

static void
lost(WeftLink *link, const GError *error, gpointer data)
{
    ((Talk *)data)->ended = TRUE;
}

static void
run(void)
{
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

/* The last bytes of the sync that weftd has sent. */
static void
read_nonce(int fd, guint8 nonce[WEFT_NONCE_LENGTH])
{
    guint8 bytes[65536];
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    fuzz_promise(n >= WEFT_NONCE_LENGTH);
    memcpy(nonce, bytes + n - WEFT_NONCE_LENGTH, WEFT_NONCE_LENGTH);
}

static void
greet(int fd)
{
    static const char facts[] = "version=1\0hostname=n1";
    guint8 message[WEFT_SYNC_LENGTH + WEFT_NONCE_LENGTH + WEFT_FRAME_HEADER + sizeof facts];
    memcpy(message, WEFT_SYNC, WEFT_SYNC_LENGTH);
    read_nonce(fd, message + WEFT_SYNC_LENGTH);
    guint8 *frame = message + WEFT_SYNC_LENGTH + WEFT_NONCE_LENGTH;
    weft_frame_encode(&(struct weft_frame){ 0, WEFT_FRAME_WELCOME, sizeof facts }, frame);
    memcpy(frame + WEFT_FRAME_HEADER, facts, sizeof facts);
    fuzz_promise(send(fd, message, sizeof message, MSG_NOSIGNAL) == sizeof message);
    run();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    int ends[2];
    Talk talk = { 0 };
    fuzz_promise(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    talk.link = weft_link_new(ends[0], greeted, lost, &talk);
    run();
    if (data[0] & 1)
        greet(ends[1]);
    fuzz_promise(!(data[0] & 1) || talk.asked == QUESTIONS);
    /* A link that broke off has closed its end. */
    if (send(ends[1], data + 1, size - 1, MSG_NOSIGNAL) >= 0)
        run();
    close(ends[1]);
    run();
    fuzz_promise(talk.ended && talk.answered == talk.asked);
    weft_link_free(talk.link);
    return 0;
}
