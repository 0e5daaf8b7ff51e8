/* weft-hook: what libvirt cannot do on a host. It is both libvirt's qemu hook and its network hook, installed as
 * /etc/libvirt/hooks/qemu.d/weft and network.d/weft, and knows by the path that it is run by which of them it is. By hand its
 * first argument tells:
 *
 *     qemu DOMAIN prepare|start|started|stopped|release|migrate|restore|reconnect|attach …   the domain's XML on standard input
 *     network NAME start|started|stopped|updated|port-created|port-deleted …                 the network's XML
 *
 * The qemu hook sets up the virtual functions and the bridge that a node's metadata names (see domain-xml.h), and undoes it at
 * release. The network hook is the one carrier for what changes on a host while nodes run there: weftd creates a transient
 * libvirt network "weft-<vxlan>" whose metadata names the VXLAN's peers, and creates it anew when they change; the bridge and
 * its ports stay:
 *
 *     <network>
 *       <name>weft-10001</name>
 *       <metadata>
 *         <weft:network xmlns:weft="NAMESPACE" cluster="4k2m8w9x1a2b" vxlan="10001" site="7t…">
 *           <weft:owner run="3r…"/>
 *           <weft:peer address="n2.example.org"/>
 *         </weft:network>
 *       </metadata>
 *       <forward mode="bridge"/>
 *       <bridge name="weft10001"/>
 *     </network>
 *
 * A peer is a name that resolves on the host, or an IPv4 address. The network is never destroyed to be created anew unless both
 * follow each other at once: between them the peers are kept as long as a node is on the bridge.
 *
 * A network "weft-probe", or "weft-probe-…", is a question: at start the hook answers on standard error, after the line
 * "weft-hook: report", with one line of JSON about the host, and fails, so that nothing is created and the answer reaches weftd
 * as libvirt's error:
 *
 *     { "version": "0.1.0", "kernel": "6.1.0", "cmdline": "…", "iommu_groups": 41, "interrupt_remapping": true,
 *       "unsafe_interrupts": false, "vfio": true, "kvm": true, "tun": true, "filters_bridges": false,
 *       "rdma_address": "10.2.0.1",
 *       "hugepages": [ { "node": 0, "size": 2097152, "total": 1024, "free": 900 }, … ],
 *       "hcas": [ { "name": "mlx5_0", "driver": "mlx5", "pci": "…", "port_guid": "0x…", "state": "active", "vfs": 8,
 *                   "vfs_total": 16, "numa": 0, … how its functions are: see adapter.h } ],
 *       "lacking": [ { "domain": "weft-4k2m…", "pci": "…" } ], devices that were taken from under nodes that run
 *       "settings": { "smt": "on", "swap": [], … },   see settings.h
 *       "unclean": [ { "domain": "weft-4k2m…", "why": "…" } ], whose devices could not be looked at: nobody gets them
 *       "unsafe_folders": [ { "path": "/dev/shm/weft-memory", "why": "…" } ], where no memory of nodes is put
 *       "quarantine": [ { "pci", "since": "2026-11-18T20:00:00Z", "why", "whole" } ], devices that nobody gets until they are
 *                     repaired, nor, of one that is no virtual function, what has its firmware in common with it
 *       "volatile": "tmpfs", the file system of /var/lib/weft where a reboot empties it, or may ("overlay")
 *       "firmware_tools": { "mstflint": true, "nvidia-smi": false }, which are there to compare whole devices' firmware with
 *       "machine": { "uptime": 12345, "load": 0.4 } }
 *
 * What lacks on the host is absent or null there: no port, no NUMA, no address on an RDMA device that is up.
 *
 * So is a network "weft-seal-<vxlan>-<anything>": libvirt runs no hook when an interface is plugged into a running node, so
 * weftd asks for it while the interface's link is still down. The hook keeps the host out of all ports of that bridge, and
 * answers with the line "weft-hook: sealed".
 *
 * And "weft-own-<node id>-<anything>": how many bytes of the memory that it was forked with that node has for itself by now is
 * the answer, "weft-hook: own 1048576".
 *
 * And "weft-owner-<anything>": whose the host is. The metadata names who asks, as owner.h writes it, and whether it is taken
 * from whoever has it:
 *
 *     <weft:owner xmlns:weft="NAMESPACE" claim="SITE INSTANCE EPOCH RUN" take="yes"/>
 *
 * The record is in WEFT_OWNER_PATH, which outlives a reboot, and is compared and set under a lock. The answer is "weft-hook:
 * owner granted|stale|foreign RECORD" with the record as it was before, "-" where there was none.
 *
 * The definition of a network, or of a node (see domain-xml.h), may name a run: then the hook compares it with the record's
 * right before it prepares anything, under the same lock, and refuses with "weft-hook: owner other RECORD: …" where it is
 * another one. Without it the host was claimed before. Whoever hands libvirt a definition that was made before, of a node that
 * goes on or moves, writes the present run into it or leaves it out.
 *
 * Memory that domains are forked from is a file on the host: huge pages where the domain wants them, else /dev/shm. A domain's
 * metadata says with which file it is to be started, and whether it makes or shares it:
 *
 *     <memory:memory xmlns:memory="MEMORY NAMESPACE" id="4k2m8w9x1a2b" generation="9f3c…" page="2097152" use="share"/>
 *
 * At start the hook mounts it where libvirt has QEMU look for it, and takes it away from there once QEMU runs. One that is
 * shared must be of that generation, size and checksum, or the start is refused; and a file that a second monitor of QEMU
 * reads, by the link "<domain>.in", has QEMU leave the memory as it is. When the domain that made a memory ends, "<id>.sum" is
 * written. All of these are in WEFT_FORK_PATH, which a reboot empties as it does the memory, and where weftd keeps "<id>.state"
 * and, once both are whole, "<id>.ok": memory without either of them, that no domain makes, is removed.
 *
 * What the hook refuses it says in one line on standard error, which libvirt passes on. Domains and networks without weft's
 * mark are none of its business. */
#pragma once

#define WEFT_NETWORK_NAMESPACE "https://weft.dev/xmlns/network/1"

/* The carriers' names: "weft-<vxlan>", and the question's. */
#define WEFT_NETWORK_PREFIX "weft-"
#define WEFT_NETWORK_PROBE "weft-probe"
#define WEFT_NETWORK_SEAL "weft-seal-"
#define WEFT_NETWORK_OWN "weft-own-"
#define WEFT_NETWORK_OWNER "weft-owner"
/* What it says begins so; and what comes before the answers to questions. */
#define WEFT_HOOK_SAYS "weft-hook: "
#define WEFT_HOOK_REPORT WEFT_HOOK_SAYS "report"
#define WEFT_HOOK_SEALED WEFT_HOOK_SAYS "sealed"
#define WEFT_HOOK_OWN WEFT_HOOK_SAYS "own "
#define WEFT_HOOK_OWNER WEFT_HOOK_SAYS "owner "
/* Whose the host is. */
#define WEFT_OWNER_PATH "/var/lib/weft/owner"
/* Memory to fork from. */
#define WEFT_MEMORY_NAMESPACE "https://weft.dev/xmlns/memory/1"
#define WEFT_MEMORY_MAKE "make"
#define WEFT_MEMORY_SHARE "share"
#define WEFT_FORK_PATH "/run/weft-fork"
#define WEFT_FORK_STATE ".state"
#define WEFT_FORK_WHOLE ".ok"
