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
#include "owner.h"

#include <gio/gio.h>
#include <glib.h>

typedef struct WeftHypervisor WeftHypervisor;

/* Where weft keeps its files on a host, a storage pool of that name: images, and saved files that were brought, as
 * "image-<digest>", what belongs to a domain as "<domain>.seed", "<domain>.disk" and, saved here, "<domain>.saved"; while that
 * is there, what a domain that goes on writes to its disk is in "<domain>.layer". */
#define WEFT_POOL "weft"
#define WEFT_POOL_PATH "/var/lib/libvirt/images/weft"
#define WEFT_SEED_SUFFIX ".seed"
#define WEFT_DISK_SUFFIX ".disk"
#define WEFT_LAYER_SUFFIX ".layer"
#define WEFT_SAVED_SUFFIX ".saved"

/* Whose files these are is told by an empty one beside them, "<subject>.<site>[.<placement>].mark", which comes before the
 * first of them and goes after the last: the subject is a domain's name, or "image-<digest>". */
#define WEFT_MARK_SUFFIX ".mark"
typedef struct WeftFileMark {
    char *subject;
    char *site;
    char *placement; /* NULL: an image's */
} WeftFileMark;

char *weft_file_mark_name(const char *subject, const char *site, const char *placement);
/* NULL: it is not the name of one. */
WeftFileMark *weft_file_mark_read(const char *name);
void weft_file_mark_free(WeftFileMark *mark);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFileMark, weft_file_mark_free)

typedef enum {
    WEFT_DOMAIN_RUNNING,
    WEFT_DOMAIN_STOPPED,
    WEFT_DOMAIN_HALTED, /* in the middle of a move: it is not whole here, or waits for what comes of it */
} WeftDomainState;

typedef struct WeftDomain {
    char *name;
    char *node;      /* weft's mark: the node's id; NULL for a domain that is not weft's */
    char *site;      /* … of which site; NULL: it does not say, or only files are left, of which WeftContents.marks tells */
    char *placement; /* … which stay of the node it is */
    char *record;    /* … and weft_node_mark_write() of it; NULL: it does not say */
    WeftDomainState state;
    guint64 cpu_time; /* nanoseconds so far; 0: unknown */
    guint64 memory;   /* bytes resident; 0: unknown */
    char *number;     /* the caller's: which partition its record names; "": none; NULL: it was not read for that */
} WeftDomain;

void weft_domain_free(WeftDomain *domain);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftDomain, weft_domain_free)

/* What is on a host. */
typedef struct WeftContents {
    /* WeftDomain, ours or not, sorted by name. Where only files of a domain are left, it is one that is stopped. */
    GPtrArray *domains;
    GPtrArray *images;   /* char *, digests of the images that are there whole, sorted */
    GPtrArray *networks; /* WeftHostNetwork, weft's, sorted by VXLAN id */
    GPtrArray *primed;   /* char *, ids of the memories to fork from that are there whole, sorted */
    GPtrArray *marks;    /* WeftFileMark: whose the files are that lie there */
} WeftContents;

WeftContents *weft_contents_new(void);
void weft_contents_free(WeftContents *contents);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftContents, weft_contents_free)
/* What weft makes has names of UTF-8; whatever else a host has is not weft's, and is told of by a name that can be written. */
void weft_contents_tidy(WeftContents *contents);

/* Where a call goes: a host by name and the URI that it is reached by. */
typedef struct WeftHostAddress {
    const char *name;
    const char *uri;
} WeftHostAddress;

/* What a domain goes on from, instead of booting: a file that save() made of it, or of another domain of the same devices and
 * size. Only name, identity, places on the host and files may differ in its definition. */
typedef struct WeftDomainOrigin {
    const WeftImageFile *saved; /* which was brought; NULL: the host's own "<domain>.saved", and its disk that was kept */
    const WeftImageFile *disk;  /* … and its own disk of the same moment, which is copied; NULL: that is an empty layer */
    const char *primed;         /* memory made of it that the domain shares until it writes to it; NULL: it is read */
    gboolean paused;            /* it waits for resume() */
} WeftDomainOrigin;

/* A domain to start. */
typedef struct WeftStart {
    const char *xml;                /* its disks name files of the pool */
    GBytes *seed;                   /* becomes "<domain>.seed"; NULL: it has none */
    const WeftImageFile *base;      /* what its own disk "<domain>.disk" is laid over; NULL: it has none */
    guint64 disk_size;              /* of that disk, bytes; 0: as large as the base */
    const WeftDomainOrigin *origin; /* NULL: it boots */
    const char *run;                /* see start(); NULL: the host was claimed */
} WeftStart;

/* Memory to fork from. */
typedef struct WeftPrime {
    const char *id;             /* the caller's name for it, and its mark: letters, digits and "-" */
    const char *xml;            /* a definition as for a start, with the size and the NUMA node that it is to have */
    const WeftImageFile *saved; /* which was brought */
} WeftPrime;

/* What becomes of a domain that is saved. */
typedef enum {
    WEFT_SAVE_AWAY,    /* it is gone */
    WEFT_SAVE_RUNNING, /* it runs on, and is paused for as short as can be; one that stands still goes on standing still */
    WEFT_SAVE_STILL,   /* it was paused before, and still is: else the files of several domains are not of one moment */
} WeftSaveMode;

/* How long a domain stood still, and how much it had. */
typedef struct WeftSaved {
    guint64 size;  /* bytes of the file */
    gint64 paused; /* microseconds, as its host knows it; 0: it did not go on */
} WeftSaved;

/* A file of the pool to fetch. */
typedef struct WeftFetch {
    const char *name;                                             /* in the pool */
    const char *path;                                             /* where weftd is to have it; what is there is replaced */
    guint64 most;                                                 /* bytes that it may have, whatever its host says; 0: any */
    guint64 reserve;                                              /* bytes that stay free where it comes to */
    void (*progress)(guint64 done, guint64 total, gpointer data); /* as with WeftBring */
    gpointer data;
} WeftFetch;

/* What plugging a device did. */
typedef struct WeftPlugged {
    gint64 took;    /* microseconds; 0: it was there */
    guint64 copied; /* bytes of memory that a fork shared until then: a device of the host pins all of it */
} WeftPlugged;

typedef enum {
    WEFT_COPY_PRE,    /* runs here until the rest is small enough for the stall that is allowed */
    WEFT_COPY_POST,   /* runs there at once, and fetches what it misses */
    WEFT_COPY_HYBRID, /* all of it once, then as with post */
    WEFT_COPIES
} WeftCopy;
extern const char *const weft_copy_words[WEFT_COPIES + 1]; /* "pre-copy", "post-copy", "hybrid" */

/* A live migration. */
typedef struct WeftMove {
    const char *domain;
    const char *xml; /* its definition there */
    WeftCopy copy;
    gint64 stall;      /* microseconds that it may stand still */
    guint64 bandwidth; /* bytes a second; 0: as fast as can be */
    gint64 patience;   /* microseconds that the other end has to notice that a post-copy broke */
    const char *rdma;  /* the other host's address that RDMA goes by; NULL: over TCP */
    void (*progress)(guint64 done, guint64 total, gpointer data); /* bytes of memory; as with WeftBring */
    gpointer data;
} WeftMove;

/* How it went, by the word of the hypervisor: guests have seen longer stalls. */
typedef struct WeftMoved {
    gint64 took; /* microseconds */
    gint64 stall;
    guint64 sent; /* bytes */
    guint passes;
    gboolean rdma;     /* it went over RDMA */
    char *rdma_failed; /* why it did not, although it was to; NULL: nothing did; the caller's, see weft_moved_clear() */
} WeftMoved;

void weft_moved_clear(WeftMoved *moved);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftMoved, weft_moved_clear)

/* A file to bring to a host: one of an image's. */
typedef struct WeftBring {
    const WeftImageFile *file;                                    /* digest and size */
    const char *path;                                             /* where weftd has it */
    const char *site;                                             /* whose it is; NULL: nobody says */
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
     * is started anew from the given definition. Returns when the domain runs. Where it does not, what this call made for it
     * is gone too; its own "<domain>.saved" that it was to go on from goes when it runs.
     *
     * run: of the owner that the host must have. The host compares in the moment that it makes the domain, which spares a
     * claim. DENIED: it has another, or anything of that name is there already, which must not be touched before: claim the
     * host, and start without a run. */
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
    /* Removes an image's file, or "<domain>.saved"; success also when it is not there. With the latter a disk of the domain
     * that was kept as it was then is one with what was written since; where that fails the same call tries again. */
    gboolean (*discard)(WeftHypervisor *hv, const WeftHostAddress *host, const char *digest, GCancellable *cancellable,
                        GError **error);
    /* Makes the host's part of a partition's network as described: missing parts are made, peers that are not named are
     * forgotten. Nodes that use it notice nothing. run: as for start(). */
    gboolean (*connect)(WeftHypervisor *hv, const WeftHostAddress *host, const WeftHostNetwork *network, const char *run,
                        GCancellable *cancellable, GError **error);
    /* Takes it away; success also when it is not there. A bridge that a domain still uses goes with that domain. */
    gboolean (*disconnect)(WeftHypervisor *hv, const WeftHostAddress *host, guint vxlan, GCancellable *cancellable,
                           GError **error);
    /* Whether the host is the claimant's, or becomes it now; take: from whoever has it. Before anything is changed there, and
     * again before each change but those that are given a run. ret_record: whose it was; NULL: nobody's. */
    gboolean (*claim)(WeftHypervisor *hv, const WeftHostAddress *host, const WeftOwner *claim, gboolean take,
                      WeftOwnerVerdict *ret_verdict, WeftOwner **ret_record, GCancellable *cancellable, GError **error);
    /* The host's hardware and what it is able to. */
    WeftInventory *(*inspect)(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error);
    /* A descriptor, non-blocking and the caller's, that carries a domain's byte stream: its end is the stream's end. NOT_FOUND
     * when the domain is not running, BUSY when somebody else has it. The guest need not have opened its side yet. */
    int (*open)(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, WeftChannel channel,
                GCancellable *cancellable, GError **error);
    /* Saves a domain as "<domain>.saved". Where it is gone then its other files are kept. Its own disk is in "<domain>.disk" as
     * of the same moment, until the saved file is discarded. Success also when both are there whole and, if it was to be gone,
     * the domain is. What was broken off leaves no file, and the domain as it was. INVALID: it has devices of its host;
     * CONFLICT: it was to stand still, and runs. */
    gboolean (*save)(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, WeftSaveMode mode,
                     WeftSaved *ret_saved, GCancellable *cancellable, GError **error);
    /* Brings a file of the pool to weftd; returns when it is there, whole and on the disk, and tells its digest and size.
     * INVALID: it has more bytes than it may have, or than its host said before; EXHAUSTED: there is no room for it here.
     * Nothing of it stays. */
    gboolean (*fetch)(WeftHypervisor *hv, const WeftHostAddress *host, const WeftFetch *fetch, WeftImageFile *ret_file,
                      GCancellable *cancellable, GError **error);
    /* Makes memory to fork from; success also when it is there whole. */
    gboolean (*prime)(WeftHypervisor *hv, const WeftHostAddress *host, const WeftPrime *prime, GCancellable *cancellable,
                      GError **error);
    /* Domains that were forked from it go on. Success also when it is not there. */
    gboolean (*unprime)(WeftHypervisor *hv, const WeftHostAddress *host, const char *id, GCancellable *cancellable,
                        GError **error);
    /* Plugs a device into a running domain, or unplugs it: xml as it is in a definition, known by its alias ("ua-…"). Success
     * also when it is there, or is not; an interface that is there with its link down gets its link. An interface on a
     * partition's bridge carries nothing before the host is kept out of its port. unplug returns when the guest has let go of
     * it. */
    gboolean (*plug)(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, const char *xml,
                     WeftPlugged *ret_plugged, GCancellable *cancellable, GError **error);
    gboolean (*unplug)(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, const char *xml,
                       GCancellable *cancellable, GError **error);
    /* Stops its processors, or lets them go on; success also when they do that already. resume: CONFLICT where a move has
     * halted it, of which only move() knows where it goes on. */
    gboolean (*pause)(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable,
                      GError **error);
    gboolean (*resume)(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable,
                       GError **error);
    /* Bytes a second that a running domain writes to, of different pages; takes about a second. By samples: a rough figure. */
    gboolean (*measure)(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, guint64 *ret_rate,
                        GCancellable *cancellable, GError **error);
    /* Moves a running domain to another host, where its network and its images are; its own files go along. Success also when
     * it runs there and not here. Where it fails the domain runs on here, but for one whose post-copy broke: it stands still,
     * CONFLICT tells so, and the same call resumes it. The same call also ends what a weftd that died had begun, and what was
     * left when it was cancelled. Where it was to go over RDMA, and does not get there, it goes over TCP. INVALID: it is
     * paused, or has devices of its host. NOT_FOUND: it is not there, or one of the hosts has lost it in the middle of a
     * post-copy, and what is left of it is to be stopped. */
    gboolean (*move)(WeftHypervisor *hv, const WeftHostAddress *from, const WeftHostAddress *to, const WeftMove *move,
                     WeftMoved *ret_moved, GCancellable *cancellable, GError **error);
    /* thread: main. One listener. A driver that cannot tell does nothing: the reconciler looks from time to time anyway. */
    void (*watch)(WeftHypervisor *hv, WeftHostChanged changed, gpointer data);
    void (*free)(WeftHypervisor *hv);
} WeftHypervisorOps;

struct WeftHypervisor {
    const WeftHypervisorOps *ops;
};

/* For drivers: start() or connect() was given a run, and finds that there already, or has to change what is there. */
gboolean weft_hypervisor_refuse_unclaimed(GError **error, const char *what);

/* NULL is fine. */
void weft_hypervisor_free(WeftHypervisor *hv);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftHypervisor, weft_hypervisor_free)
