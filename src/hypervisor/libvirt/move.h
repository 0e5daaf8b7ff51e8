/* What the files of a move share. */
#pragma once

#include "driver.h"
#include "move-plan.h"

typedef struct WeftMoving {
    char *domain;
    char *xml;
    WeftCopy copy;
    gint64 stall;      /* microseconds */
    guint64 bandwidth; /* bytes a second; 0: as fast as can be */
    gint64 patience;   /* microseconds */
    char *rdma;        /* the other host's address that RDMA goes by; NULL: over TCP … */
    char *rdma_failed; /* … as it failed; NULL: nothing did */
    WeftCall *there;   /* carries the connection to the other host; never run */
    GSocketAddress *peer;
    gint64 began;

    GMutex mutex;
    GCond news;
    guint watch;      /* guarded from here: the number of the one that goes on, or of none any more */
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

/* --- move-rdma.c --- */

/* libvirt lets QEMU lock memory for RDMA only up to the limit of what the domain may have at all, and refuses one without. KiB;
 * 0: it goes over TCP. */
guint64 weft_move_limit(const WeftMoving *moving, virDomain *domain);
/* Gives the running domain that limit, or takes it away (0). */
gboolean weft_move_set_limit(virDomain *domain, guint64 limit, GError **error);
/* A migration over RDMA has ended: at the end where the domain runs there is no limit any more. */
void weft_move_unlimit(WeftCall *call);
/* Was it to go over RDMA, did that fail with this error, and does the domain run on here? Then it is to be begun anew, over
 * TCP. */
gboolean weft_move_falls_back(WeftCall *call, WeftMoveEnd here, GError **error);

/* --- move-watch.c --- */

/* Follows libvirt's migration, ours or one that is awaited, from a thread and a connection of its own, until it is over: tells
 * how far it is, turns it into a post-copy when it is time, and breaks it off when nobody waits for it any more. switched: it
 * is one already. */
void weft_move_watch(WeftCall *call, gboolean switched);
/* Hears on these connections when the domain stops here and goes on there: libvirt's own figures know no post-copy. Returns the
 * callbacks' numbers, for weft_move_deafen(). */
typedef struct WeftMoveEars {
    int here, there;
} WeftMoveEars;
WeftMoveEars weft_move_listen(WeftCall *call);
void weft_move_deafen(WeftCall *call, WeftMoveEars ears);
void weft_move_unwatch(WeftMoving *moving);
