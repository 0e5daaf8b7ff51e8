/* The controller of an NVMe device's physical function, and what it tells of those of its virtual functions. See NVM Express
 * Base Specification 2.0: 5.17 (identify). */
#pragma once

#include "adapter.h"

#include <glib.h>
#include <linux/nvme_ioctl.h>

#define WEFT_NVME_PAGE 4096

enum { WEFT_NVME_QUEUES, WEFT_NVME_INTERRUPTS }; /* kinds of resources */

typedef struct WeftNvmeResource {
    guint32 total;   /* that can be dealt out */
    guint16 primary; /* of which the primary has */
    guint16 most;    /* for one secondary; 0: no limit */
} WeftNvmeResource;

typedef struct WeftNvme {
    char *path;  /* of /dev/nvme0 */
    char *reset; /* of its function's file in sysfs */
    char *state; /* of its controller's */
    guint16 id;
    WeftNvmeResource resources[2];
    guint8 secondaries[WEFT_NVME_PAGE];
} WeftNvme;

void weft_nvme_free(WeftNvme *device);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftNvme, weft_nvme_free)

/* Whatever its driver is called: by its class, or by the controller that it has. */
gboolean weft_nvme_is(const WeftAdapter *adapter);
/* Asks it. NULL: it has no controller, or that does not answer. */
WeftNvme *weft_nvme_look(const WeftHook *hook, const WeftAdapter *adapter, GError **error);
/* The entry of a virtual function, counted from 0, in the list of secondary controllers: its first word is its number. */
const guint8 *weft_nvme_secondary(const WeftNvme *device, guint function);

/* An administration command: FALSE with what it answered. timeout_ms: 0 is usual. */
gboolean weft_nvme_command(const char *path, struct nvme_passthru_cmd *order, GError **error);
/* What: the CNS field. page has WEFT_NVME_PAGE bytes. */
gboolean weft_nvme_identify(const char *path, guint32 what, guint32 namespace, gpointer page, GError **error);

guint16 weft_nvme_get16(const guint8 *data, guint at);
guint32 weft_nvme_get32(const guint8 *data, guint at);
