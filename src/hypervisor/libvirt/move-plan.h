/* What a move has to decide: how far it got, by how the domain is at both ends, and how its definition there reads. Pure. */
#pragma once

#include <glib.h>

/* How a domain is at one end. */
typedef enum {
    WEFT_END_ABSENT,
    WEFT_END_RUNS,   /* with all of its memory */
    WEFT_END_PAUSED, /* likewise, but somebody paused it */
    WEFT_END_HALTED, /* a migration is about to begin with it, or has ended with it, and nobody said what came of that */
    WEFT_END_COPIES, /* in post-copy: only both ends together are the domain */
    WEFT_END_BROKEN, /* likewise, and they have lost each other */
    WEFT_ENDS
} WeftMoveEnd;

/* From libvirt's state and its reason. */
WeftMoveEnd weft_move_end(int state, int reason);

/* What to do next, so that it runs there and nowhere else. */
typedef enum {
    WEFT_MOVE_BEGIN,
    WEFT_MOVE_RESUME, /* the post-copy that broke */
    WEFT_MOVE_BREAK,  /* one end has not noticed yet that the post-copy broke: tell it */
    WEFT_MOVE_AWAIT,  /* it goes on without us */
    WEFT_MOVE_WAKE,   /* it has not gone: it runs on here */
    WEFT_MOVE_CLEAR,  /* what is there never ran, or must not */
    WEFT_MOVE_END,    /* it has gone: what is here must not run again */
    WEFT_MOVE_DONE,
    WEFT_MOVE_LOST,
    WEFT_MOVE_REFUSE, /* it is paused */
} WeftMoveStep;

WeftMoveStep weft_move_step(WeftMoveEnd here, WeftMoveEnd there);

/* The definition for libvirt there: the running domain (live, libvirt's migratable text) with the places, the mark and the
 * connections of the definition that weft wants. Whatever the guest sees stays: a device that was plugged keeps its address,
 * and memory that was forked is the domain's own there. limit: KiB that it may have, and lock, there; 0: no limit. */
char *weft_move_definition(const char *live, const char *wanted, guint64 limit, GError **error);
/* The target's name of the disk that is the domain's own, "vda", with its backing file and format; NULL: it has none. */
char *weft_move_own_disk(const char *live, char **ret_base, char **ret_format);
