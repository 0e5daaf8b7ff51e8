/* What weft wrote into a domain's or a network's metadata. Pure. */
#pragma once

#include "host.h"
#include "network.h"

#include <glib.h>

/* Larger texts are refused where they are weft's. */
#define WEFT_HOOK_XML_MAX (16 * 1024 * 1024)

typedef struct WeftHookDevice {
    guint rail;
    char *hca;
    WeftHcaDriver driver;
    int vf;    /* -1: the whole HCA */
    char *pci; /* of what the guest gets */
    char *pf;
    guint64 guid; /* 0 with a whole HCA */
    guint pkey;   /* partition number, 15 bits */
    guint n_shared;
    guint16 shared[WEFT_SHARED_MAX]; /* P_Keys of shared partitions, with the bit of full membership */
} WeftHookDevice;

/* Memory in a file: see hook.h. */
typedef struct WeftHookMemory {
    char *id;
    char *generation;
    guint64 page; /* bytes */
    gboolean made;
} WeftHookMemory;

typedef struct WeftHookNode {
    char *domain;
    char *id;
    char *run;    /* of the weftd that had it started, whose the host must be then; NULL: it does not say */
    guint number; /* libvirt's for it while it runs; 0: it does not yet */
    guint vxlan;
    guint64 size;           /* of its memory, bytes */
    WeftHookMemory *memory; /* NULL: it has its own */
    GPtrArray *devices;     /* WeftHookDevice: what is plugged now or later */
    GPtrArray *gpus;        /* char *, addresses of GPUs: likewise */
    GPtrArray *hostdevs;    /* char *, addresses of the PCI devices among the domain's own */
} WeftHookNode;

void weft_hook_node_free(WeftHookNode *node);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftHookNode, weft_hook_node_free)

/* "0000:41:00.1", in lower case. */
gboolean weft_hook_is_pci(const char *text);
/* Does the text carry weft's mark? Where it does not, nothing else need be looked at. */
gboolean weft_hook_is_domain(const char *xml);
gboolean weft_hook_is_network(const char *xml);

/* name is the domain's as libvirt calls the hook with; the node must be of that name. */
WeftHookNode *weft_hook_node_read(const char *name, const char *xml, GError **error);
/* The network within libvirt's <hookData>. Its peers are as they were written: names are not resolved. ret_run: as a node's;
 * NULL: nobody asks. */
WeftHostNetwork *weft_hook_network_read(const char *name, const char *xml, char **ret_run, GError **error);
