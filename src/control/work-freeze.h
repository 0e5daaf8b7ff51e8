/* A checkpoint that is being made: by work-freeze.c, which has work-freeze-record.c write down how far it is. Each record_…()
 * begins a commit; what is not written by then was not done. */
#pragma once

#include "work.h"

/* A node of it. */
typedef struct WeftFreezeShare {
    guint done;     /* stages up to this one, exclusive */
    guint running;  /* one more than the stage that a step of it is under way for; 0: none is */
    gint64 stopped; /* when it stood still, monotonic; 0: not, or nobody knows */
    WeftImageFile *file;
    WeftImageFile *disk; /* NULL: it has none of its own */
    WeftRest rest;
} WeftFreezeShare;

struct WeftFreeze {
    char *name;
    guint stage;           /* of work-freeze.c */
    GHashTable *shares;    /* node id to WeftFreezeShare */
    gint64 first, last;    /* when the first and the last stood still, monotonic */
    gint64 taken;          /* … on the clock */
    gint64 paused;         /* the longest of them, microseconds */
    char *reason, *detail; /* why it failed; NULL: it did not */
};

/* All stand still, and are saved on their hosts: whoever finds it so goes on behind this. */
void weft_freeze_record_saved(WeftWork *work, const WeftCheckpoint *checkpoint, gint64 revision);
/* Their files are here: from now on nothing can happen to it. FALSE: one of them is not, and nothing is written. */
gboolean weft_freeze_record_files(WeftWork *work, const WeftCheckpoint *checkpoint, gint64 revision);
void weft_freeze_record_complete(WeftWork *work, const WeftCheckpoint *checkpoint, gint64 revision);
/* Also removes what was fetched for it. */
void weft_freeze_record_failed(WeftWork *work, const WeftCheckpoint *checkpoint, gint64 revision);
