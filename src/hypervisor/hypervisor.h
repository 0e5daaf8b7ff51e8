/* The seam to the hosts. Implementations: libvirt, and fake (a world in files).
 *
 * thread: the operations run on workers and may block; several may run at once, also for one host. Each returns soon after its
 * cancellable was cancelled, with what it had begun done, undone, or left to the next call: all are idempotent.
 *
 * Errors: UNAVAILABLE when the host cannot be reached, TIMEOUT when cancelled, INVALID when trying again cannot help. Their
 * messages are the driver's words, for operators; tenants are told in weft's own. */
#pragma once

#include "host.h"
#include "image.h"
#include "network.h"

#include <gio/gio.h>
#include <glib.h>

typedef struct WeftHypervisor WeftHypervisor;

/* Where weft keeps its files on a host, a storage pool of that name: images as "image-<digest>", and what belongs to a domain
 * as "<domain>.seed" and "<domain>.disk". */
#define WEFT_POOL "weft"
#define WEFT_POOL_PATH "/var/lib/libvirt/weft"
#define WEFT_SEED_SUFFIX ".seed"
#define WEFT_DISK_SUFFIX ".disk"

typedef enum { WEFT_DOMAIN_RUNNING, WEFT_DOMAIN_STOPPED } WeftDomainState;

typedef struct WeftDomain {
    char *name;
    char *node; /* weft's mark: the node's id; NULL for a domain that is not ours */
    WeftDomainState state;
    guint64 cpu_time; /* nanoseconds so far; 0: unknown */
    guint64 memory;   /* bytes resident; 0: unknown */
} WeftDomain;

void weft_domain_free(WeftDomain *domain);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftDomain, weft_domain_free)

/* What is on a host. */
typedef struct WeftContents {
    /* WeftDomain, ours or not, sorted by name. Where only files of a domain are left, it is one that is stopped. */
    GPtrArray *domains;
    GPtrArray *images;   /* char *, digests of the images that are there whole, sorted */
    GPtrArray *networks; /* WeftHostNetwork, weft's, sorted by VXLAN id */
} WeftContents;

WeftContents *weft_contents_new(void);
void weft_contents_free(WeftContents *contents);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftContents, weft_contents_free)

/* Where a call goes: a host by name and the URI that it is reached by. */
typedef struct WeftHostAddress {
    const char *name;
    const char *uri;
} WeftHostAddress;

/* A domain to start. */
typedef struct WeftStart {
    const char *xml;           /* its disks name files of the pool */
    GBytes *seed;              /* becomes "<domain>.seed"; NULL: it has none */
    const WeftImageFile *base; /* what its own disk "<domain>.disk" is laid over; NULL: it has none */
    guint64 disk_size;         /* of that disk, bytes; 0: as large as the base */
} WeftStart;

/* A file to bring to a host: one of an image's. */
typedef struct WeftBring {
    const WeftImageFile *file;                                    /* digest and size */
    const char *path;                                             /* where weftd has it */
    void (*progress)(guint64 done, guint64 total, gpointer data); /* on the worker, now and then; NULL: nobody asks */
    gpointer data;
} WeftBring;

/* What happened on a host. Each is a hint: it may come late, twice, or be lost. */
typedef enum {
    WEFT_NEWS_CHANGED,  /* look again */
    WEFT_NEWS_HARDWARE, /* … its devices changed */
    WEFT_NEWS_MISSED,   /* … nothing of what happened until now was heard of */
    WEFT_NEWS_REBOOTED, /* the guest of a domain began anew; its stream for the guest program has ended */
} WeftNews;

/* Tells on the main thread. domain: that rebooted; NULL with the others. */
typedef void (*WeftHostChanged)(const char *host, WeftNews news, const char *domain, gpointer data);

typedef enum { WEFT_CHANNEL_GUEST, WEFT_CHANNEL_CONSOLE } WeftChannel;

typedef struct WeftHypervisorOps {
    const char *name;
    /* A running domain of that name with the same definition is success, one with another definition is CONFLICT; a stopped one
     * is started anew from the given definition. Returns when the domain runs. Where it does not, its files are gone too. */
    gboolean (*start)(WeftHypervisor *hv, const WeftHostAddress *host, const WeftStart *start, GCancellable *cancellable,
                      GError **error);
    /* Ends and undefines, and removes its files; success also when there is no such domain. Returns when it is gone. */
    gboolean (*stop)(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable,
                     GError **error);
    WeftContents *(*list)(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error);
    /* Returns when the file is on the host, whole and checked; at once when it is there already. What was broken off is
     * resumed. Two calls for the same file at the same time bring it once. */
    gboolean (*bring)(WeftHypervisor *hv, const WeftHostAddress *host, const WeftBring *bring, GCancellable *cancellable,
                      GError **error);
    /* Removes an image's file; success also when it is not there. */
    gboolean (*discard)(WeftHypervisor *hv, const WeftHostAddress *host, const char *digest, GCancellable *cancellable,
                        GError **error);
    /* Makes the host's part of a partition's network as described: missing parts are made, peers that are not named are
     * forgotten. Nodes that use it notice nothing. */
    gboolean (*connect)(WeftHypervisor *hv, const WeftHostAddress *host, const WeftHostNetwork *network,
                        GCancellable *cancellable, GError **error);
    /* Takes it away; success also when it is not there. A bridge that a domain still uses goes with that domain. */
    gboolean (*disconnect)(WeftHypervisor *hv, const WeftHostAddress *host, guint vxlan, GCancellable *cancellable,
                           GError **error);
    /* The host's hardware and what it is able to. */
    WeftInventory *(*inspect)(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error);
    /* A descriptor, non-blocking and the caller's, that carries a domain's byte stream: its end is the stream's end. NOT_FOUND
     * when the domain is not running, BUSY when somebody else has it. The guest need not have opened its side yet. */
    int (*open)(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, WeftChannel channel,
                GCancellable *cancellable, GError **error);
    /* thread: main. One listener. A driver that cannot tell does nothing: the reconciler looks from time to time anyway. */
    void (*watch)(WeftHypervisor *hv, WeftHostChanged changed, gpointer data);
    void (*free)(WeftHypervisor *hv);
} WeftHypervisorOps;

struct WeftHypervisor {
    const WeftHypervisorOps *ops;
};

/* NULL is fine. */
void weft_hypervisor_free(WeftHypervisor *hv);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftHypervisor, weft_hypervisor_free)
