#include "reader.h"

#include <string.h>

#define SYNC_WHOLE (WEFT_SYNC_LENGTH + WEFT_NONCE_LENGTH)
#define LEAD 4 /* bytes that no session has */

void
weft_reader_reset(struct weft_reader *reader)
{
    reader->filled = 0;
    reader->used = 0;
    reader->hunting = 0;
}

/* Leaves in the buffer what a sync may begin with. */
static void
drop_up_to_sync(struct weft_reader *reader)
{
    while (memcmp(reader->buffer, WEFT_SYNC, reader->filled < WEFT_SYNC_LENGTH ? reader->filled : WEFT_SYNC_LENGTH) != 0)
        memmove(reader->buffer, reader->buffer + 1, --reader->filled);
}

void
weft_reader_hunt(struct weft_reader *reader)
{
    if (reader->used || reader->filled > SYNC_WHOLE)
        weft_reader_reset(reader);
    reader->hunting = 1;
    drop_up_to_sync(reader);
}

static int
fill(struct weft_reader *reader, size_t wanted, const uint8_t **bytes, size_t *count)
{
    size_t n = wanted > reader->filled ? wanted - reader->filled : 0;
    if (n > *count)
        n = *count;
    memcpy(reader->buffer + reader->filled, *bytes, n);
    reader->filled += n;
    *bytes += n;
    *count -= n;
    return reader->filled >= wanted;
}

/* How much of a sync is there after one more byte. Its first LEAD bytes are the same, and nowhere else in it: of those that
 * came before a wrong one the last may still be its beginning. */
static size_t
follow(size_t matched, uint8_t byte)
{
    static const uint8_t sync[] = WEFT_SYNC;
    if (byte == sync[matched])
        return matched + 1;
    if (byte != sync[0])
        return 0;
    return matched == LEAD ? LEAD : 1;
}

static int
hunt(struct weft_reader *reader, const uint8_t **bytes, size_t *count)
{
    if (reader->filled >= WEFT_SYNC_LENGTH)
        return 1;
    for (; *count > 0 && reader->filled < WEFT_SYNC_LENGTH; ++*bytes, --*count)
        reader->filled = follow(reader->filled, **bytes);
    memcpy(reader->buffer, WEFT_SYNC, reader->filled);
    return reader->filled == WEFT_SYNC_LENGTH;
}

static enum weft_read
take_sync(struct weft_reader *reader, const uint8_t **bytes, size_t *count, const uint8_t **ret_payload)
{
    if (!fill(reader, SYNC_WHOLE, bytes, count))
        return WEFT_READ_MORE;
    if (memcmp(reader->buffer, WEFT_SYNC, WEFT_SYNC_LENGTH) != 0)
        return WEFT_READ_BROKEN;
    reader->used = SYNC_WHOLE;
    reader->hunting = 0;
    *ret_payload = reader->buffer + WEFT_SYNC_LENGTH;
    return WEFT_READ_SYNC;
}

enum weft_read
weft_reader_next(struct weft_reader *reader, const uint8_t **bytes, size_t *count, struct weft_frame *ret_frame,
                 const uint8_t **ret_payload)
{
    if (reader->used) {
        reader->used = 0;
        reader->filled = 0;
    }
    if (*count == 0)
        return WEFT_READ_MORE;
    if (reader->hunting)
        return hunt(reader, bytes, count) ? take_sync(reader, bytes, count, ret_payload) : WEFT_READ_MORE;
    if (!fill(reader, WEFT_FRAME_HEADER, bytes, count))
        return WEFT_READ_MORE;
    if (memcmp(reader->buffer, WEFT_SYNC, sizeof ret_frame->session) == 0)
        return take_sync(reader, bytes, count, ret_payload);
    if (!weft_frame_decode(reader->buffer, ret_frame))
        return WEFT_READ_BROKEN;
    size_t whole = WEFT_FRAME_HEADER + (size_t)ret_frame->length;
    if (!fill(reader, whole, bytes, count))
        return WEFT_READ_MORE;
    reader->used = whole;
    *ret_payload = reader->buffer + WEFT_FRAME_HEADER;
    return WEFT_READ_FRAME;
}

int
weft_frame_fits(const struct weft_frame *frame)
{
    static const struct {
        uint16_t min, max;
    } lengths[WEFT_FRAME_TYPES] = {
        [WEFT_FRAME_WELCOME] = { 0, WEFT_FRAME_MAX },
        [WEFT_FRAME_OPEN] = { 2, WEFT_FRAME_MAX },
        [WEFT_FRAME_DATA] = { 1, WEFT_FRAME_MAX },
        [WEFT_FRAME_ERROR_DATA] = { 1, WEFT_FRAME_MAX },
        [WEFT_FRAME_EOF] = { 0, 0 },
        [WEFT_FRAME_WINDOW] = { 4, 4 },
        [WEFT_FRAME_SIGNAL] = { 4, 4 },
        [WEFT_FRAME_RESIZE] = { 4, 4 },
        [WEFT_FRAME_EXIT] = { 4, 4 },
        [WEFT_FRAME_REFUSE] = { 0, WEFT_FRAME_MAX },
        [WEFT_FRAME_CLOSE] = { 0, 0 },
    };
    return frame->length >= lengths[frame->type].min && frame->length <= lengths[frame->type].max;
}
