/* A node as libvirt's domain XML. Pure. */
#pragma once

#include "domain-mark.h"
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

/* The same spec always gives the same text. */
char *weft_domain_xml_format(const WeftDomainSpec *spec, GError **error);

/* The network device alone, to be plugged into a domain that was to have it later. */
char *weft_domain_nic_format(const WeftDomainSpec *spec, GError **error);

/* What it has of its host's devices, alone, to be plugged or unplugged: by its alias, which it also has in a definition. index:
 * as weft_node_parts() counts them. It has no place on the guest's buses: libvirt finds one. */
char *weft_domain_device_format(const WeftDomainSpec *spec, guint index, GError **error);

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
