/* What the files of a move share. */
#pragma once

#include "driver.h"

typedef struct WeftMoving {
    char *domain;
    char *xml;
    WeftCopy copy;
    gint64 stall;      /* microseconds */
    guint64 bandwidth; /* bytes a second; 0: as fast as can be */
    WeftCall *there;   /* carries the connection to the other host; never run */
    GSocketAddress *peer;
    gint64 began;

    GMutex mutex;
    GCond news;
    gboolean over;    /* guarded from here: nobody need watch any more */
    gboolean endless; /* it was broken off as it would never have ended */
    guint64 sent;
    guint passes;
    gint64 told;             /* when it last got further */
    gint64 stopped, went_on; /* when its processors stopped here, and ran there; 0: not heard */
} WeftMoving;

/* Of what the link carries, what a move takes: as much as leaves no queue in front of pages that the guest waits for. */
guint64 weft_move_share(guint64 bandwidth);

/* --- move-files.c --- */

/* What the domain has on its host and takes along; ret_disk: the target of its own disk, which libvirt copies; NULL: none. */
gboolean
weft_move_files(WeftCall *here, WeftCall *there, const WeftMoving *moving, const char *live, char **ret_disk, GError **error);

/* --- move-watch.c --- */

/* Follows libvirt's migration from a thread and a connection of its own, until it is over: tells how far it is, turns it into a
 * post-copy when it is time, and breaks it off when nobody waits for it any more. */
void weft_move_watch(WeftCall *call);
/* Hears on these connections when the domain stops here and goes on there: libvirt's own figures know no post-copy. Returns the
 * callbacks' numbers, for weft_move_deafen(). */
typedef struct WeftMoveEars {
    int here, there;
} WeftMoveEars;
WeftMoveEars weft_move_listen(WeftCall *call);
void weft_move_deafen(WeftCall *call, WeftMoveEars ears);
void weft_move_unwatch(WeftMoving *moving);
