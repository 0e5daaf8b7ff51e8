/* A node's seed: a small ISO 9660 file system labelled CIDATA, as cloud-init's NoCloud source wants it, with the guest program
 * beside. The same spec gives the same bytes. Pure but for libisofs.
 *
 *     meta-data, user-data, network-config   cloud-init's. user-data is a MIME archive: a boothook of ours that mounts the seed
 *                                            at WEFT_SEED_MOUNT and starts the guest program, then the user's own, whatever
 *                                            its type: nothing of either is lost
 *     vendor-data                            what of weft's own the user's may overrule: see user-data.h
 *     weft/guest                             the guest program; an image without cloud-init runs it as "guest start MOUNTPOINT"
 *     weft/node                              what this node is, a line each: see below
 *     weft/files/…                           what belongs into the node as it is: ssh/id_ed25519, ssh/id_ed25519.pub,
 *                                            ssh/host_ed25519, ssh/host_ed25519.pub, ssh/host_dropbear, munge.key
 *
 * weft/node: "key value" lines, in this order, some more than once:
 *     hostname cfd-3            rank 3                 cluster cfd
 *     id 4k2m8w9x1a2b-3         machine 8f3c…          of this node; the machine-id, which follows from it
 *     mac 02:… 10.64.0.4/16 1450                       the partition's Ethernet
 *     ipoib 0 0x… 10.65.0.4/16                         rail, port GUID (0x0000000000000000: not known, and the rails are the
 *                                                      devices in order), address
 *     pkey 0x8012               sl 2                   for UCX_IB_PKEY, UCX_IB_SL; full membership bit set
 *     shared 0x7001                                    P_Keys of what it shares, behind its own in the table
 *     path bridge               slots 4                slurm 1 (absent: none)
 *     login ssh-ed25519 AAAA…                          a public key that may log in, the cluster's own first
 *
 * A seed without identity, of which templates boot, has no weft/files, and of weft/node the lines "template 1" and mac. A node
 * that was forked from one gets weft/node and weft/files as the input of a session "become" (protocol.h). */
#pragma once

#include "cluster.h"
#include "keys.h"
#include "node.h"

#include <glib.h>

#define WEFT_SEED_LABEL "CIDATA"
#define WEFT_SEED_MOUNT "/run/weft/seed"
#define WEFT_SEED_RANDOM 64 /* bytes: WEFT_BECOME_RANDOM of protocol.h */

typedef struct WeftSeedSpec {
    const WeftNode *node;
    const GArray *ports; /* weft_node_ports() */
    const WeftCluster *cluster;
    guint pkey;
    const WeftKeys *keys;
    GBytes *guest;        /* the guest program */
    const GArray *shared; /* guint16, P_Keys of partitions that it shares, as it has them; NULL: none */
} WeftSeedSpec;

/* thread: any, one at a time (it takes a lock); a few milliseconds, mostly for copying the guest program. */
GBytes *weft_seed_make(const WeftSeedSpec *spec, GError **error);
/* The seed without identity, of a node with such a network device. The same gives the same bytes. */
GBytes *weft_seed_make_blank(const WeftNode *node, GBytes *guest, GError **error);
/* What "become" is told, instead of a seed of its own. was: the id of the node of which it is a copy, or NULL where it is a
 * fork of a template. random: for this call alone. The guest program of the spec is not needed. */
char *weft_seed_become(const WeftSeedSpec *spec, const char *was, const guint8 random[WEFT_SEED_RANDOM]);
