/* The seam to the subnet manager of a fabric. Implementations: fake (a world in files), opensm.
 *
 * thread: all calls on the main thread; they return at once, and their callback runs later on the main thread, also after a
 * cancellation. Errors as in hypervisor.h. */
#pragma once

#include "partition.h"

#include <gio/gio.h>
#include <glib.h>

typedef struct WeftFabricDriver WeftFabricDriver;

/* A change of weft's partitions: those in set get exactly these members, those in removed (P_Key numbers) go. */
typedef struct WeftFabricChange {
    guint64 generation; /* grows with each change; a driver refuses one that is older than what it applied (CONFLICT) */
    GPtrArray *set;     /* WeftPartition */
    GArray *removed;    /* guint16 */
} WeftFabricChange;

WeftFabricChange *weft_fabric_change_new(guint64 generation);
void weft_fabric_change_free(WeftFabricChange *change);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFabricChange, weft_fabric_change_free)

typedef void (*WeftFabricApplied)(const GError *error, gpointer data);
/* partitions: WeftPartition by number, the site's own as well; NULL with an error. Borrowed. */
typedef void (*WeftFabricListed)(GPtrArray *partitions, const GError *error, gpointer data);

typedef struct WeftFabricDriverOps {
    const char *name;
    /* All of the change or nothing of it; ends when the ports have it. Idempotent. A partition of that number that is not
     * weft's is CONFLICT, and removing one that is not there is success. Takes the change over. */
    void (*apply)(WeftFabricDriver *fabric, WeftFabricChange *change, GCancellable *cancellable, WeftFabricApplied callback,
                  gpointer data);
    void (*list)(WeftFabricDriver *fabric, GCancellable *cancellable, WeftFabricListed callback, gpointer data);
    /* The largest generation that the manager has seen: where the next change must start. thread: may block briefly; start-up
     * only. */
    gboolean (*generation)(WeftFabricDriver *fabric, guint64 *ret_generation, GError **error);
    void (*free)(WeftFabricDriver *fabric);
} WeftFabricDriverOps;

struct WeftFabricDriver {
    const WeftFabricDriverOps *ops;
};

/* Cancels what is pending; callbacks do not run any more. NULL is fine. */
void weft_fabric_driver_free(WeftFabricDriver *fabric);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFabricDriver, weft_fabric_driver_free)
