/* weft-hook: what libvirt cannot do on a host. It is both libvirt's qemu hook and its network hook.
 *
 *     qemu DOMAIN prepare|start|started|stopped|release|migrate|restore|reconnect|attach …   the domain's XML on standard input
 *     network NAME start|started|stopped|updated|port-created|port-deleted …                 the network's XML
 *
 * The qemu hook sets up the virtual functions and the bridge that a node's metadata names, and undoes it at release. The
 * network hook is the one carrier for what changes on a host while nodes run there: weftd creates a transient libvirt network
 * "weft-<vxlan>" whose metadata names the VXLAN's peers, and creates it anew when they change; the bridge and its ports stay.
 *
 * A network "weft-probe" is a question: at start the hook answers on standard error, after the line "weft-hook: report", with
 * one line of JSON about the host, and fails, so that nothing is created and the answer reaches weftd as libvirt's error:
 *
 *     { "version": "0.1.0", "kernel": "6.1.0", "cmdline": "…", "iommu_groups": 41, "vfio": true, "kvm": true, "tun": true,
 *       "hugepages": [ { "node": 0, "size": 2097152, "total": 1024, "free": 900 }, … ],
 *       "hcas": [ { "name": "mlx5_0", "driver": "mlx5", "pci": "…", "port_guid": "0x…", "state": "active", "vfs": 8,
 * "vfs_total": 16, "numa": 0 } ], "machine": { "uptime": 12345, "load": 0.4 } }
 */
#pragma once

#define WEFT_NETWORK_NAMESPACE "https://weft.dev/xmlns/network/1"
