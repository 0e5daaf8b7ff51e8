/* A host: a physical machine as placement sees it. */
#pragma once

#include "bounds.h"

#include <glib.h>
#include <jansson.h>

/* Who says so: what the configuration file describes is changed there, not through the API. */
typedef enum { WEFT_ORIGIN_API, WEFT_ORIGIN_CONFIG } WeftOrigin;
extern const char *const weft_origin_words[];

/* What nodes there have to prove before they are ready. */
typedef enum {
    WEFT_VERIFY_FABRIC,  /* each port that they were promised, and that they reach the others on each rail */
    WEFT_VERIFY_ETHERNET /* that they reach the others on their Ethernet: its adapters are stand-ins for real ones */
} WeftVerify;
extern const char *const weft_verify_words[];

typedef struct WeftCore {
    guint16 id;            /* index within the host, in order of NUMA nodes */
    guint8 numa;           /* index into numa */
    gboolean housekeeping; /* for the host, emulator and I/O threads; never a node's */
    guint8 n_cpus;
    guint16 cpus[WEFT_CORE_CPUS_MAX]; /* hardware threads as Linux numbers them */
} WeftCore;

typedef struct WeftPages {
    guint64 size; /* bytes of a page: 4K, 2M, 1G */
    guint64 count;
} WeftPages;

typedef struct WeftNuma {
    guint n_pages;
    WeftPages pages[WEFT_PAGE_SIZES_MAX]; /* largest size first */
} WeftNuma;

typedef enum { WEFT_HCA_MLX4, WEFT_HCA_MLX5 } WeftHcaDriver;
extern const char *const weft_hca_driver_words[];

typedef struct WeftHca {
    char *name; /* "mlx5_0" */
    WeftHcaDriver driver;
    guint numa;
    guint rail;
    guint64 port_guid; /* 0: not known yet; no partition can have it, and no node gets it */
    guint vfs;         /* virtual functions, numbered from 0 */
    char *leaf;        /* switch of this port; the host's leaf unless told */
    char *pci;         /* address of the physical function, "0000:41:00.0"; NULL: not known */
    GPtrArray *vf_pci; /* char *, addresses of the virtual functions by number; empty: not known */
    char *root;        /* PCIe root that it shares with other devices; NULL: unknown */
} WeftHca;

typedef struct WeftGpu {
    char *name; /* PCI address */
    guint numa;
    char *root; /* PCIe root that it shares with other devices; NULL: unknown */
} WeftGpu;

typedef struct WeftHost {
    char *name;
    char *uri;     /* libvirt's */
    char *address; /* by which the other hosts reach it, for the nodes' network: a name or an address; NULL: as in the URI */
    char *rdma_address; /* of it on an RDMA device, by which nodes come to it; "none": it is to have none; NULL: as it says
                           itself */
    char *fabric;
    char *leaf;         /* NULL: as the fabric's map says */
    GHashTable *labels; /* text to text, never NULL */
    GArray *cores;      /* WeftCore, ids are indices */
    GArray *numa;       /* WeftNuma */
    GPtrArray *hcas;    /* WeftHca */
    GPtrArray *gpus;    /* WeftGpu */
    WeftVerify verify;
    WeftOrigin origin;
    gboolean discovered; /* its hardware was not described but read from the host, and is read again when it changes */
    gboolean draining;   /* takes no new nodes */
    gboolean moving;     /* and its nodes are to be moved elsewhere while they run … */
    gboolean disrupting; /* … also where what they have open on their fabric devices breaks */
    gboolean evicting;   /* and its nodes, or those of them that cannot be moved, are to be re-created elsewhere */
    gint shares;         /* references beside the first; thread: any */
} WeftHost;

/* where is the path for messages ("hosts[3]"). The same form is read from the configuration, the API and the store:
 *
 *     { "name": "n1", "fabric": "ib0", "leaf": "leaf1", "labels": {"rack": "r1"},
 *       "numa": [ { "cores": 16, "threads": 2, "pages": {"2M": 30720, "1G": 4}, "cpus": [[0,32],[1,33],…] }, … ],
 *       "housekeeping": 1,                                         cores per NUMA node kept for the host, the first ones
 *       "hcas": [ { "name": "mlx5_0", "driver": "mlx5", "numa": 0, "rail": 0, "port_guid": "0x…", "vfs": 8, "leaf": …,
 *                   "pci": "0000:41:00.0", "vf_pci": ["0000:41:00.1", …], "root": "…" } ],
 *       "gpus": [ { "name": "0000:41:00.0", "numa": 1, "root": "…" } ],
 *       "address": "10.1.0.1", "rdma_address": "10.2.0.1", "uri": "qemu+tls://n1/system", "draining": false,
 *       "moving": false, "disrupting": false, "evicting": false, "verify": "fabric", "origin": "config" }
 *
 * Without "cpus" the threads are numbered as Linux does on x86: all first threads, then all second ones. A NUMA node may have
 * no cores (memory only) and then keeps none for the host. What may be left out, and what it is then: labels, pages, cpus,
 * hcas, gpus (none), leaf and port_guid (as the fabric's map says), threads 1, housekeeping 0, uri "qemu+tls://NAME/system",
 * verify "fabric", origin "api"; of an HCA driver "mlx5", numa 0, rail its place in the list, vfs 0; of a GPU numa 0. Without
 * "numa" its hardware is not described: there are no HCAs and GPUs then either, and it takes no nodes until all of it was read
 * from the host. */
WeftHost *weft_host_from_json(json_t *json, const char *where, GError **error);
/* One of a record: what was taken before is taken, also with a URI that weft_host_uri_check() refuses by now. */
WeftHost *weft_host_from_record(json_t *json, GError **error);
json_t *weft_host_to_json(const WeftHost *host);
/* Its lists are there and empty, and own what they hold. */
WeftHost *weft_host_new(void);
WeftHca *weft_hca_new(void);
/* One more owner of a host that nobody changes any more. thread: any. */
WeftHost *weft_host_share(WeftHost *host);
/* The last owner's call frees it. thread: any. */
void weft_host_free(WeftHost *host);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftHost, weft_host_free)

/* Is this a page size that some Linux has? The error tells which are. */
gboolean weft_page_size_check(guint64 size, GError **error);

/* What its rdma_address is where it is to have none. */
#define WEFT_RDMA_NONE "none"

/* How the other hosts reach it: its address, or the host of its URI; its name where that has none. */
char *weft_host_address(const WeftHost *host);

/* Is there an adapter of which nobody knows which port it is? */
gboolean weft_host_lacks_ports(const WeftHost *host);
WeftHost *weft_host_copy(const WeftHost *host);

/* NULL when there is none of that name. */
const WeftHca *weft_host_hca(const WeftHost *host, const char *name);

/* What the reconciler saw of a host; kept apart from its description. */
typedef enum {
    WEFT_HOST_UNKNOWN, /* not yet asked */
    WEFT_HOST_UP,
    WEFT_HOST_LOST, /* unreachable for longer than the grace time: its nodes are replaced */
    WEFT_HOST_HELD, /* it has things with weft's mark that this store cannot prove to have ended: it is left as it is */
    WEFT_HOST_STATES
} WeftHostState;
extern const char *const weft_host_state_words[];

typedef struct WeftHostStatus {
    char *host;
    WeftHostState state;
    gint64 since;
    char *reason;     /* NULL: none */
    char *quarantine; /* devices of which operators were told that they are in it, with a space between; NULL: none */
} WeftHostStatus;

WeftHostStatus *weft_host_status_from_json(json_t *json, GError **error);
json_t *weft_host_status_to_json(const WeftHostStatus *status);
void weft_host_status_free(WeftHostStatus *status);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftHostStatus, weft_host_status_free)

/* What a host is able to, as it says itself: for placement where its hardware is not described, and for weft doctor. */
typedef struct WeftInventory {
    WeftHost *hardware; /* only cores, numa, hcas and gpus are filled in; fabric, leaf and port GUIDs may be missing */
    gboolean kvm;       /* the kernel module and the CPU's flag are there */
    char *cpu_model;    /* NULL: unknown */
    char *libvirt;      /* versions, "9.0.0"; NULL: unknown */
    char *qemu;
    char *rdma_address; /* of it on an RDMA device that works; NULL: none was found */
    char *machine;      /* type of machine that nodes get, with its version, "pc-q35-7.2"; NULL: unknown */
    gboolean iommu;     /* as libvirt says */
    json_t *hook;       /* what weft-hook says of the host (see hook.h); NULL: it is not installed or did not answer */
    char *hook_error;   /* why not; NULL: it answered */
    gint64 time;        /* of its wall clock, microseconds since 1970; 0: not known */
} WeftInventory;

WeftInventory *weft_inventory_new(void);
void weft_inventory_free(WeftInventory *inventory);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftInventory, weft_inventory_free)

/* How nodes that move come to it over RDMA: as it is described, else as it says itself (NULL: it has not yet). NULL: not at
 * all. */
const char *weft_host_rdma_address(const WeftHost *host, const WeftInventory *inventory);
