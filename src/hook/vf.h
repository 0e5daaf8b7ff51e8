/* A node's fabric devices on this host: a table of operations for each driver of the physical function. */
#pragma once

#include "context.h"
#include "metadata.h"

#include <glib.h>

/* What a virtual function has that is nobody's. */
#define WEFT_GUID_NONE G_MAXUINT64

typedef struct WeftVfOps {
    const char *driver; /* of the physical function, as sysfs says */
    /* Can it be prepared? Changes nothing. */
    gboolean (*check)(const WeftHook *hook, const WeftHookDevice *device, GError **error);
    /* Sets GUID, policy and P_Keys and reads them back. Idempotent. */
    gboolean (*prepare)(const WeftHook *hook, const WeftHookDevice *device, GError **error);
    /* Takes them away: nobody's function reaches nobody. Idempotent. */
    gboolean (*clear)(const WeftHook *hook, const WeftHookDevice *device, GError **error);
} WeftVfOps;

extern const WeftVfOps weft_vf_mlx4, weft_vf_mlx5;

/* Is this what the metadata says, on this host, now, and does no process use it? Changes nothing. */
gboolean weft_vf_check(const WeftHook *hook, const WeftHookDevice *device, GError **error);
/* What it had of others is gone then. */
gboolean weft_vf_prepare(const WeftHook *hook, const WeftHookDevice *device, GError **error);
/* Is the adapter of a function, or the function, not there any more? */
gboolean weft_vf_is_gone(const WeftHook *hook, const WeftHookDevice *device);
/* Is the function still what the metadata says, and does no process use it? */
gboolean weft_vf_check_mine(const WeftHook *hook, const WeftHookDevice *device, GError **error);
/* Takes away what the function was given. */
gboolean weft_vf_forget(const WeftHook *hook, const WeftHookDevice *device, GError **error);

/* Refuses a domain that is given an HCA, or a function of one, that its metadata does not name: nobody would have prepared
 * it. */
gboolean weft_vf_check_hostdevs(const WeftHook *hook, const WeftHookNode *node, GError **error);
