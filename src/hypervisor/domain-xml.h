/* A node as libvirt's domain XML. Pure. */
#pragma once

#include "host.h"
#include "image.h"
#include "node.h"

#include <glib.h>

typedef struct WeftDomainSpec {
    const WeftNode *node;
    const WeftHost *host;
    guint pkey;             /* partition number of its cluster */
    guint vxlan;            /* VXLAN id of its partition */
    const WeftImage *image; /* NULL: boots from nothing (the fake) */
    gboolean tcg;           /* there is no usable KVM on the host: emulate */
    gboolean shm;           /* ivshmem between the cluster's nodes on this host, beside its path */
    guint64 shm_size;       /* bytes, a power of two; with shm */
} WeftDomainSpec;

/* The namespace of weft's element in <metadata>: a domain that has it is weft's. */
#define WEFT_DOMAIN_NAMESPACE "https://weft.dev/xmlns/domain/1"

/* The same spec always gives the same text. */
char *weft_domain_xml_format(const WeftDomainSpec *spec, GError **error);

/* Larger texts are refused: a domain of 1,024 cores stays far below. */
#define WEFT_DOMAIN_XML_MAX (1024 * 1024)

/* What a domain's XML says of itself. */
typedef struct WeftDomainFacts {
    char *name;
    char *node;      /* NULL for a domain that is not weft's */
    GPtrArray *uses; /* char *, what it takes for itself: "cpu/3", "vf/mlx5_0/2", "hca/mlx5_0", "guid/0x…", "gpu/…" */
} WeftDomainFacts;

WeftDomainFacts *weft_domain_xml_read(const char *xml, GError **error);
void weft_domain_facts_free(WeftDomainFacts *facts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftDomainFacts, weft_domain_facts_free)

/* What a running domain's XML says of itself; ret_node is NULL for a domain that is not weft's. */
gboolean weft_domain_xml_identify(const char *xml, char **ret_name, char **ret_node, GError **error);
