/* A node as libvirt's domain XML. Pure. */
#pragma once

#include "host.h"
#include "image.h"
#include "node.h"

#include <glib.h>

/* So many devices of its host may be plugged into a node while it runs that had fewer before: after a fork, or a move. */
#define WEFT_DOMAIN_SPARE_PORTS 4

typedef struct WeftDomainSpec {
    const WeftNode *node;
    const char *site;   /* whose it is; NULL: its mark does not say */
    const char *record; /* weft_node_mark_write() of it, for whoever finds it without a record; NULL: none */
    const WeftHost *host;
    guint pkey;             /* partition number of its cluster */
    const GArray *shared;   /* guint16, P_Keys of partitions that it shares, with the bit of full membership; NULL: none */
    guint vxlan;            /* VXLAN id of its partition */
    const WeftImage *image; /* NULL: boots from nothing (the fake) */
    gboolean tcg;           /* there is no usable KVM on the host: emulate */
    gboolean shm;           /* ivshmem between the cluster's nodes on this host, beside its path */
    guint64 shm_size;       /* bytes, a power of two; with shm */
    gboolean later;         /* it has free ports for what is plugged once it knows who it is: a template, or a fork of one */
    gboolean parted;        /* what it has of its host's devices is plugged while it runs: after a fork, a move, a restore */
    gboolean copied;        /* it goes on from a running node: its link is down until that is plugged */
} WeftDomainSpec;

/* The namespace of weft's element in <metadata>: a domain that has it is weft's. What weft-hook reads there:
 *
 *     <weft:node xmlns:weft="NAMESPACE" id="4k2m8w9x1a2b-3" tenant="acme" rank="3" hostname="cfd-3" path="sriov"
 *                mac="02:00:00:00:00:01" site="7t0k2m8w9x1a" placement="3p1a2b4k2m8w">
 *       <weft:cluster id="4k2m8w9x1a2b" name="cfd"/>
 *       <weft:partition pkey="0x0001" vxlan="10001" bridge="weft10001"/>
 *       <weft:device rail="0" hca="mlx5_0" driver="mlx5" vf="2" pci="0000:41:00.3" pf="0000:41:00.0"
 *                    guid="0x0277650000000001" pkey="0x0001" shared="0x7001 0xf002" plugged="later"/>
 *       <weft:device rail="1" hca="mlx5_1" driver="mlx5" pci="0000:81:00.0" pf="0000:81:00.0" pkey="0x0001"/>
 *       <weft:gpu name="0000:42:00.0"/>
 *       <weft:record>{"node": …}</weft:record>
 *       <weft:owner run="3r1a2b4k2m8w"/>
 *     </weft:node>
 *
 * tenant and name are for people; site, placement and record for weftd, which removes nothing that it cannot prove to be its
 * own and ended. path is a word of weft_path_words. pkey is the partition's number, 15 bits, without the bit of full
 * membership. shared, absent where there are none, are P_Keys of other partitions, 16 bits with that bit: a function's table
 * has pkey first, then these in their order, then the default partition, limited. hca is the device's name on the host
 * (/sys/class/infiniband), driver a word of weft_hca_driver_words, vf the number of the virtual function from 0. Without vf the
 * device is the whole HCA: it has no guid of weft's, and pci is the address of the HCA itself. pci, the address of what the
 * guest gets, and pf, that of the physical function, have the form "dddd:bb:ss.f"; only a domain that boots from nothing (the
 * fake's) may lack them. guid serves as node and as port GUID. plugged="later" marks a device that is not among the domain's
 * <devices> yet and is to be prepared all the same; the attribute is absent otherwise. owner comes
 * from the driver that starts the domain: see hook.h. */
#define WEFT_DOMAIN_NAMESPACE "https://weft.dev/xmlns/domain/1"

/* The same spec always gives the same text. */
char *weft_domain_xml_format(const WeftDomainSpec *spec, GError **error);

/* The network device alone, to be plugged into a domain that was to have it later. */
char *weft_domain_nic_format(const WeftDomainSpec *spec, GError **error);

/* What it has of its host's devices, alone, to be plugged or unplugged: by its alias, which it also has in a definition. index:
 * as weft_node_parts() counts them. It has no place on the guest's buses: libvirt finds one. */
char *weft_domain_device_format(const WeftDomainSpec *spec, guint index, GError **error);

/* Larger texts are refused: a domain of 1,024 cores stays far below. */
#define WEFT_DOMAIN_XML_MAX (1024 * 1024)

/* What a domain's XML says of itself. */
typedef struct WeftDomainFacts {
    char *name;
    char *node; /* NULL for a domain that is not weft's */
    char *site; /* … of which site, which stay of the node, and its record; NULL: its mark does not say */
    char *placement;
    char *record;
    GPtrArray *uses; /* char *, what it takes for itself: "cpu/3", "vf/mlx5_0/2", "hca/mlx5_0", "guid/0x…", "gpu/…" */
} WeftDomainFacts;

WeftDomainFacts *weft_domain_xml_read(const char *xml, GError **error);
/* Digests of the images whose files a definition names, in its order: char *. */
GPtrArray *weft_domain_xml_images(const char *xml);
void weft_domain_facts_free(WeftDomainFacts *facts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftDomainFacts, weft_domain_facts_free)
