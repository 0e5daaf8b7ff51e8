/* What a host says of itself, read from libvirt's texts. Pure. */
#pragma once

#include "host.h"

#include <glib.h>

/* Cores, NUMA nodes, pages, CPU model and IOMMU from libvirt's capabilities. ret_offers_kvm: it would start domains of that
 * type; ret_flag: the CPU's flag for it is named. NUMA nodes keep their numbers: where one lacks, an empty one stands in. The
 * first core of a NUMA node with several is kept for the host. */
gboolean weft_inventory_read_capabilities(WeftInventory *inventory, const char *xml, gboolean *ret_offers_kvm,
                                          gboolean *ret_flag, GError **error);

/* HCAs and GPUs from the node devices' texts (char *), by PCI address. An HCA is what the hook's report says to be one, and
 * what its maker and class say. Devices of other kinds and those that make no sense are passed over. The root of a device is
 * the PCIe root complex that it hangs on, "pci0000:40". Without the hook's report an HCA is named as the kernel does, by driver
 * and order of addresses. */
void weft_inventory_read_devices(WeftInventory *inventory, const GPtrArray *texts);

/* What the hook answered, out of libvirt's error: NULL with FAILED when there is no answer in it. */
json_t *weft_inventory_read_report(const char *message, GError **error);
/* Names, port GUIDs and numbers of virtual functions that only the host knows. */
void weft_inventory_apply_report(WeftInventory *inventory);
