/* A device of this host with virtual functions: what sysfs tells of it. */
#pragma once

#include "context.h"

#include <glib.h>
#include <jansson.h>

typedef struct WeftAdapter {
    char *pci;            /* of its physical function: "0000:41:00.0" */
    char *folder;         /* of that in sysfs, below the root */
    char *driver;         /* "mlx5_core"; NULL: it has none */
    gint64 total;         /* functions that it can have; -1: SR-IOV is off */
    gint64 wanted;        /* what sriov_numvfs says; -1: there is no such file */
    GPtrArray *functions; /* their addresses, by number; NULL where a number has none */
} WeftAdapter;

void weft_adapter_free(WeftAdapter *adapter);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftAdapter, weft_adapter_free)

/* name: as /sys/class/infiniband or /sys/class/nvme has it, or a PCI address. NOT_FOUND names what there is; INVALID: it is a
 * virtual function itself. */
WeftAdapter *weft_adapter_find(const WeftHook *hook, const char *name, GError **error);
/* By its address, whatever is there. */
WeftAdapter *weft_adapter_at(const WeftHook *hook, const char *pci);

gboolean weft_device_is_there(const WeftHook *hook, const char *pci);
/* The driver that has a device, or NULL. */
char *weft_device_driver(const WeftHook *hook, const char *pci);
/* Is that a driver of this host's own, that keeps the device from nodes? Those of vfio do not. */
gboolean weft_driver_is_hosts(const char *driver);

/* The process that has it through vfio: its number; NULL: none. */
char *weft_device_process(const WeftHook *hook, const char *pci);
/* Who uses it, in words: "process 4711", "the node weft-4k2m…", also one that is being started; NULL: nobody. */
char *weft_device_user(const WeftHook *hook, const char *pci);

/* For the host's report (see hook.h): { "driver": "mlx5", "pci", "numa", "vfs", "vfs_total",
 *     "bound":     functions that a driver of the host has
 *     "ungrouped": functions without an IOMMU group
 *     "shared":    functions whose group has other devices, too
 *     "acs_off", "acs_lacking": ports above it that let its functions reach others; null: these cannot be read } */
json_t *weft_adapter_to_json(const WeftHook *hook, const WeftAdapter *adapter);
/* "mlx5" of "mlx5_core"; NULL for NULL. */
char *weft_driver_short(const char *driver);
