/* Takes a byte stream apart into frames and syncs. Plain C; bounded: it holds one frame. */
#pragma once

#include "protocol.h"

#include <stddef.h>
#include <stdint.h>

enum weft_read {
    WEFT_READ_MORE,  /* the bytes are used up */
    WEFT_READ_FRAME, /* payload: the frame's, until the next call */
    WEFT_READ_SYNC,  /* payload: its nonce, until the next call */
    WEFT_READ_BROKEN /* no frame begins here; give up, or hunt for the next sync */
};

struct weft_reader {
    uint8_t buffer[WEFT_FRAME_HEADER + WEFT_FRAME_MAX];
    size_t filled;
    size_t used; /* of buffer, by what was last given out */
    int hunting;
};

/* Ready for frames; {0} is, too. */
void weft_reader_reset(struct weft_reader *reader);
/* Drops all that comes before a sync; what was broken may hold its beginning. */
void weft_reader_hunt(struct weft_reader *reader);

/* Advances *bytes and *count by what it took. Call until it says WEFT_READ_MORE. */
enum weft_read weft_reader_next(struct weft_reader *reader, const uint8_t **bytes, size_t *count, struct weft_frame *ret_frame,
                                const uint8_t **ret_payload);

/* Does its length fit its type? The reader lets others through as well, so that a session alone can be ended for it. */
int weft_frame_fits(const struct weft_frame *frame);

static inline uint32_t
weft_be32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static inline void
weft_put_be32(uint32_t value, uint8_t *ret_bytes)
{
    ret_bytes[0] = (uint8_t)(value >> 24);
    ret_bytes[1] = (uint8_t)(value >> 16);
    ret_bytes[2] = (uint8_t)(value >> 8);
    ret_bytes[3] = (uint8_t)value;
}
