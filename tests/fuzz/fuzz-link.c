/* The reader of frames, which takes what tenants and guests send. The input is a byte that says in which pieces the rest comes.
 * What it makes of the bytes does not depend on the pieces, and after something broken it finds the next sync. */
#include "fuzz.h"

#include "reader.h"

static void
record(GByteArray *events, enum weft_read read, const struct weft_frame *frame, const uint8_t *payload)
{
    guint8 kind = (guint8)read;
    g_byte_array_append(events, &kind, 1);
    if (read == WEFT_READ_FRAME) {
        fuzz_promise(frame->length <= WEFT_FRAME_MAX);
        fuzz_promise(frame->type > 0 && frame->type < WEFT_FRAME_TYPES);
        guint8 fits = weft_frame_fits(frame) != 0;
        g_byte_array_append(events, (const guint8 *)frame, sizeof *frame);
        g_byte_array_append(events, payload, frame->length);
        g_byte_array_append(events, &fits, 1);
    } else if (read == WEFT_READ_SYNC) {
        g_byte_array_append(events, payload, WEFT_NONCE_LENGTH);
    }
}

static GByteArray *
read_in_pieces(const uint8_t *data, size_t size, size_t piece)
{
    GByteArray *events = g_byte_array_new();
    g_autofree struct weft_reader *reader = g_new0(struct weft_reader, 1);
    for (size_t at = 0; at < size; at += piece) {
        /* A copy of the exact size, so that a sanitizer sees a read past its end. */
        size_t count = MIN(piece, size - at);
        g_autofree uint8_t *copy = g_memdup2(data + at, count);
        const uint8_t *bytes = copy;
        for (size_t left = count;;) {
            struct weft_frame frame = { 0 };
            const uint8_t *payload = NULL;
            enum weft_read read = weft_reader_next(reader, &bytes, &left, &frame, &payload);
            fuzz_promise(bytes + left == copy + count);
            if (read == WEFT_READ_MORE) {
                fuzz_promise(left == 0);
                break;
            }
            record(events, read, &frame, payload);
            if (read == WEFT_READ_BROKEN)
                weft_reader_hunt(reader);
        }
    }
    return events;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    g_autoptr(GByteArray) whole = read_in_pieces(data + 1, size - 1, size - 1);
    g_autoptr(GByteArray) pieces = read_in_pieces(data + 1, size - 1, (size_t)data[0] + 1);
    fuzz_promise(whole->len == pieces->len &&
                 memcmp(whole->data ? whole->data : data, pieces->data ? pieces->data : data, whole->len) == 0);
    return 0;
}
