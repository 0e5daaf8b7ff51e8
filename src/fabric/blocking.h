/* A fabric driver made of calls that block. Each call runs on the driver's one worker, one after the other: a list sees the
 * changes before it and none after. The answer comes on the main thread. */
#pragma once

#include "fabric.h"

/* thread: worker, unless it says otherwise; never two at once. Each ends soon after the cancellable was cancelled. */
typedef struct WeftBlockingOps {
    const char *name;
    WeftFabricManagement management;
    gboolean (*apply)(gpointer self, const WeftFabricChange *change, GCancellable *cancellable, GError **error);
    GPtrArray *(*list)(gpointer self, GCancellable *cancellable, GError **error);
    WeftManager *(*greet)(gpointer self, GCancellable *cancellable, GError **error);
    WeftFabricMap *(*map)(gpointer self, GCancellable *cancellable, GError **error);
    GPtrArray *(*verify)(gpointer self, const GArray *port_guids, GCancellable *cancellable, GError **error);
    /* thread: main as well, when weftd starts. */
    gboolean (*generation)(gpointer self, guint64 *ret_generation, GCancellable *cancellable, GError **error);
    /* thread: main. From now on, or no more, weft_blocking_tell() what happens; when it returns from "no more", nothing is
     * told. */
    void (*listen)(gpointer self, gboolean on);
    /* thread: main, with no call under way. */
    void (*free)(gpointer self);
} WeftBlockingOps;

/* Takes self over. A change that touches other numbers than these does not reach it. */
WeftFabricDriver *weft_blocking_new(const WeftBlockingOps *ops, gpointer self, const WeftPkeys *pkeys);

/* thread: any. Nothing happens when nobody listens. */
void weft_blocking_tell(WeftFabricDriver *fabric, WeftFabricEvent event, const char *detail);
