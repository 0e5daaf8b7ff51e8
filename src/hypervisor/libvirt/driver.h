/* What the files of the libvirt driver share. */
#pragma once

#include "libvirt-hypervisor.h"
#include "move-plan.h"
#include "saved.h"
#include "xml.h"

#include <gio/gio.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

/* --- libvirt's objects --- */

#define WEFT_VIR_CLEANUP(Type) G_DEFINE_AUTOPTR_CLEANUP_FUNC(Type, Type##Free)

static inline void
weft_vir_connect_close(virConnect *conn)
{
    virConnectClose(conn);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(virConnect, weft_vir_connect_close)
WEFT_VIR_CLEANUP(virDomain)
WEFT_VIR_CLEANUP(virNetwork)
WEFT_VIR_CLEANUP(virStoragePool)
WEFT_VIR_CLEANUP(virStorageVol)
WEFT_VIR_CLEANUP(virStream)
WEFT_VIR_CLEANUP(virNodeDevice)

/* --- errors.c --- */

/* libvirt's last error of this thread as one of weft's; always returns FALSE. weft_vir_fail(error, "starting %s", domain).
 * virDomainGetName() and its like forget that error: so it is kept before the other arguments are looked at. */
#define weft_vir_fail(...) (weft_vir_keep_error(), weft_vir_tell_error(__VA_ARGS__))
void weft_vir_keep_error(void);
gboolean weft_vir_tell_error(GError **error, const char *doing, ...) G_GNUC_PRINTF(2, 3);
/* Was libvirt's last error of this thread this one? */
gboolean weft_vir_failed_with(int code);
/* What the hook said, out of libvirt's text about it; NULL: it is not about a hook. */
char *weft_vir_hook_text(const char *message);
/* libvirt's words in one line, with what they mean where that is not plain. */
char *weft_vir_explain(const char *message);
/* Keeps libvirt from printing errors. */
void weft_vir_be_silent(void);

/* --- host.c: a host, its connection and its calls --- */

typedef struct WeftLibvirt WeftLibvirt;

/* Outlives the driver for as long as a call that was left behind, or a stream, uses it. */
typedef struct WeftShared {
    WeftLibvirtOptions options;
    GMutex mutex;
    WeftHostChanged changed; /* guarded; NULL: nobody listens */
    gpointer changed_data;
    GHashTable *hashed; /* guarded; digest to the state of the file that has it */
} WeftShared;

struct WeftLibvirt {
    WeftHypervisor base;
    WeftShared *shared;
    GMutex mutex;
    GHashTable *hosts; /* guarded; name to WeftVirHost */
};

typedef struct WeftVirHost {
    WeftShared *shared;
    char *name;
    char *uri;
    gint64 used; /* when it was last asked for; guarded by the driver's mutex */

    GMutex mutex;
    GCond news;           /* anything below changed */
    virConnect *conn;     /* the first one, which also tells of events; NULL: none */
    gboolean taken;       /* a call has it */
    GQueue spares;        /* virConnect, for calls at the same time */
    GHashTable *busy;     /* set of what calls are about, while they run */
    guint abandoned;      /* calls and dials that nobody waits for */
    guint dial;           /* number of the dial that is awaited; 0: none */
    guint dials;          /* so far */
    guint failures;       /* in a row */
    gint64 dial_deadline; /* monotonic */
    gint64 next_dial;
    char *reason;         /* why the last dial failed */
    GSocketAddress *peer; /* where its libvirtd last took a connection; NULL: nowhere, or not by TCP */
    GPtrArray *before;    /* GSocketAddress: connections there end before those to this host (see move.c) */
    gboolean closed;
    gboolean pool;        /* this connection's storage pool was seen active */
    GHashTable *marks;    /* "UUID NUMBER" to a domain's mark, "" for one that is not ours */
    guint forgotten;      /* how often they were: one that was asked for before that must not come in after it */
    GHashTable *networks; /* UUID to WeftHostNetwork */
    GHashTable *primed;   /* id to WeftVirPrimed, of some that were used */
    GHashTable *streams;  /* name to the descriptor of an open stream: our end */
} WeftVirHost;

void weft_shared_unref(WeftShared *shared);
WeftVirHost *weft_vir_host_new(WeftShared *shared, const WeftHostAddress *address);
WeftVirHost *weft_vir_host_ref(WeftVirHost *host);
void weft_vir_host_unref(WeftVirHost *host);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftVirHost, weft_vir_host_unref)
/* Gives the connection up, without waiting. The calls that use it keep it until they end. */
void weft_vir_host_close(WeftVirHost *host);
/* This connection is of no use any more. thread: any. */
void weft_vir_host_lose(WeftVirHost *host, virConnect *conn);
/* With the mutex held. Numbers of domains begin anew when the host boots, and a node that runs there again has the same UUID.
 */
void weft_vir_forget_marks(WeftVirHost *host);
/* Runs a function on a helper thread, soon. */
void weft_vir_helper(void (*run)(gpointer data), gpointer data);
/* Closes a connection on a helper thread: libvirtd is told, and its answer awaited. */
void weft_vir_goodbye(virConnect *conn);

/* --- connection.c --- */

/* A connection, within the limit unless libvirt itself hangs. Blocks. */
virConnect *weft_vir_dial(WeftVirHost *host, GError **error);
/* With the host's mutex held: ends every TCP connection to its libvirtd, so that what waits there returns. */
void weft_vir_hang_up(WeftVirHost *host);
/* Has it break when its host is silent for too long. */
gboolean weft_vir_keep_alive(virConnect *conn, const WeftLibvirtOptions *options, GError **error);
/* With the host's mutex held: waits until there is a connection, and dials where nobody does. */
gboolean weft_vir_await_connection(WeftVirHost *host, GCancellable *cancellable, GError **error);
gboolean weft_vir_cancelled(GCancellable *cancellable, GError **error);

/* --- events.c --- */

void weft_vir_events_add(WeftVirHost *host, virConnect *conn);
/* Tells the listener on the main thread. thread: any. */
void weft_vir_tell(WeftVirHost *host, WeftNews kind, const char *domain);

/* --- calls.c --- */

typedef struct WeftCall WeftCall;
typedef gboolean (*WeftCallRun)(WeftCall *call, GError **error);

struct WeftCall {
    WeftVirHost *host;
    virConnect *conn;     /* its alone, while it runs; NULL before that: still to be dialled */
    virStoragePool *pool; /* weft's, once it was asked for; freed before conn, which it keeps open */
    GPtrArray *made;      /* names of the marks and files of a domain that it made; NULL: none */
    gboolean bare;        /* it needs no connection, only a host that can be reached */
    WeftCallRun run;      /* on a helper thread */
    gpointer args;        /* what it needs and what comes out; the caller's again only after success */
    GDestroyNotify args_free;
    void (*progress)(guint64 done, guint64 total, gpointer data); /* run on the caller's thread; NULL: none */
    gpointer progress_data;

    char *about;      /* guarded by the host's mutex from here */
    gboolean primary; /* it has the host's first connection */
    gboolean done, ok, abandoned;
    guint64 step, total;
    GError *error;
};

WeftCall *
weft_call_new(WeftHypervisor *hv, const WeftHostAddress *address, WeftCallRun run, gpointer args, GDestroyNotify args_free);
void weft_call_unref(WeftCall *call);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftCall, weft_call_unref)
/* Runs it and waits. about: calls about the same thing run one after another; NULL: about nothing in particular. */
gboolean weft_call_wait(WeftCall *call, const char *about, GCancellable *cancellable, GError **error);
/* From inside: how far it got, as before where total is 0; FALSE with an error when nobody waits any more. */
gboolean weft_call_go_on(WeftCall *call, guint64 step, guint64 total, GError **error);

/* --- channel.c --- */

/* What an open stream is called among those of its host. */
char *weft_vir_stream_name(const char *domain, WeftChannel channel);

/* --- volumes.c --- */

#define WEFT_IMAGE_WHOLE ".ok" /* … of an image's name: all of it is there */

virStoragePool *weft_vir_pool(WeftCall *call, GError **error);
/* NULL without an error: there is none. */
virStorageVol *weft_vir_volume(virStoragePool *pool, const char *name, GError **error);
gboolean weft_vir_volume_remove(virStoragePool *pool, const char *name, GError **error);
/* What is in it is for the hypervisor's user alone, whatever it is: its file has mode 0600. */
typedef struct WeftVolume {
    const char *name;
    const char *format; /* "raw", "qcow2" */
    guint64 capacity;   /* bytes; 0 with a base: as large as that */
    const char *base;   /* name of the volume below; NULL: none */
    const char *base_format;
} WeftVolume;
virStorageVol *weft_vir_volume_create(virStoragePool *pool, const WeftVolume *volume, GError **error);
char *weft_vir_volume_xml(const WeftVolume *volume);
typedef struct WeftFill {
    guint64 offset, total; /* from where to where */
    /* Where the bytes come from: so many into the buffer, at least one; -1 with an error. */
    gssize (*source)(gpointer data, char *buffer, gsize size, GError **error);
    gpointer data;
} WeftFill;
gboolean weft_vir_volume_fill(WeftCall *call, virStorageVol *volume, const WeftFill *fill, GError **error);
/* Bytes of its file, now; not of the disk that it may describe. */
gboolean weft_vir_volume_size(virStorageVol *volume, guint64 *ret_size, GError **error);
/* Names of all volumes of a pool, sorted; empty when there is no such pool. */
GPtrArray *weft_vir_volume_names(WeftCall *call, const char *pool_name, GError **error);

/* The domain has none, or DENIED: for a host that was not claimed. */
gboolean weft_vir_files_check_none(WeftCall *call, const char *domain, GError **error);
gboolean weft_vir_files_make(WeftCall *call, const char *domain, const WeftStart *start, GError **error);
/* Removes what this call made, and nothing else: another weftd's files have the same names. */
void weft_vir_files_unmake(WeftCall *call);
gboolean weft_vir_files_remove(WeftCall *call, const char *domain, GError **error);
/* The volume that says whose the subject's files are, before the first of them is made: nothing where its site is not known. …
 * those of a domain, by its definition; and away with all of them, after the last file is gone. */
gboolean weft_vir_mark_make(WeftCall *call, const WeftFileMark *mark, GError **error);
gboolean weft_vir_domain_mark(WeftCall *call, const char *xml, GError **error);
gboolean weft_vir_marks_remove(WeftCall *call, const char *subject, GError **error);

/* --- layer.c --- */

/* What a domain writes to. */
typedef struct WeftOwnDisk {
    char *target;     /* "vda"; NULL: it has none of its own */
    gboolean layered; /* what is below is kept as it was when it was saved */
} WeftOwnDisk;

void weft_own_disk_clear(WeftOwnDisk *disk);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftOwnDisk, weft_own_disk_clear)
gboolean weft_vir_own_disk(virDomain *domain, WeftOwnDisk *ret_disk, GError **error);
/* For its disk to change over to. */
gboolean weft_vir_layer_make(virStoragePool *pool, virDomain *domain, const WeftOwnDisk *disk, GError **error);
/* Makes one of the disk and its layer, if there is any. It runs: QEMU lets no disk change in one that was saved and stands
 * still. */
gboolean weft_vir_layer_drop(WeftCall *call, virDomain *domain, GError **error);
/* Makes a disk with what another volume has, which is laid over the same, or INVALID. */
gboolean weft_vir_disk_copy(WeftCall *call, virStoragePool *pool, const WeftVolume *volume, const char *from, GError **error);

/* --- fork-pool.c --- */

#define WEFT_FORK_POOL "weft-fork" /* at WEFT_FORK_PATH: "<id>.state" and "<id>.ok", see hook.h, and "<domain>.fork" */
#define WEFT_FORK_TAIL ".fork"

virStoragePool *weft_vir_fork_pool(WeftCall *call, GError **error);
/* The first bytes of it; length 0: all. More than max is INVALID. */
GBytes *weft_vir_volume_read(WeftCall *call, virStorageVol *volume, guint64 length, guint64 max, GError **error);
/* Over its first bytes. */
gboolean weft_vir_volume_write(WeftCall *call, virStorageVol *volume, GBytes *bytes, GError **error);
/* Anew, with these bytes; NULL: empty. */
gboolean weft_vir_volume_make(WeftCall *call, virStoragePool *pool, const char *name, GBytes *bytes, GError **error);
/* The head of a saved file, and all that comes before QEMU's part; INVALID: it is none, or not whole. */
GBytes *weft_vir_saved_front(WeftCall *call, virStorageVol *volume, WeftSavedHead *ret_head, GError **error);

/* --- origin.c --- */

/* How a domain goes on. */
typedef struct WeftRestore {
    const char *domain;
    const char *xml;
    const char *digest;            /* of the saved file; NULL: its own */
    const char *primed;            /* memory to share; NULL: it is in the saved file */
    const WeftSavedMemory *memory; /* that it makes; NULL: it has its own */
    gboolean paused;
} WeftRestore;

gboolean weft_vir_go_on(WeftCall *call, const WeftRestore *wanted, GError **error);
/* It is there already: what a weftd that died may have left to be done before its guest runs. */
gboolean weft_vir_gone_on(WeftCall *call, const WeftRestore *wanted, GError **error);
/* From a saved file that was brought. */
gboolean weft_vir_restore_copy(WeftCall *call, const WeftRestore *wanted, GError **error);
/* Removes what a domain was saved to or went on from. */
gboolean weft_vir_saved_remove(WeftCall *call, const char *domain, GError **error);

/* --- prime.c --- */

/* What forks of a primed memory begin with. */
typedef struct WeftVirPrimed {
    char *generation;
    char *saved; /* digest of the file that it was made of */
    GBytes *state;
} WeftVirPrimed;

WeftVirPrimed *weft_vir_primed_ref(WeftVirPrimed *primed);
void weft_vir_primed_unref(WeftVirPrimed *primed);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftVirPrimed, weft_vir_primed_unref)
/* saved: the digest that it must be made of; NULL: any. */
WeftVirPrimed *weft_vir_primed_get(WeftCall *call, const char *id, const char *saved, GError **error);
/* From now on all of a domain's memory counts as its own, also that it was forked with. */
gboolean weft_vir_share_nothing(virDomain *domain, GError **error);

/* --- inspect.c --- */

/* Has the hook run: question is the name of a network that is none (see hook.h), and the answer libvirt's last error. FALSE:
 * there is no hook. */
gboolean weft_vir_ask_hook(WeftCall *call, const char *question);
/* … with this in the network's metadata. */
gboolean weft_vir_ask_hook_with(WeftCall *call, const char *question, const char *metadata);
/* Asks for a report, at which the hook gives back what nobody has any more. Where there is none, the host is told to have
 * changed: it is inspected until it reports. */
void weft_vir_tidy(WeftCall *call);

/* --- images.c --- */

/* Every image that the definition names, and the base unless NULL, is there whole, or NOT_FOUND. */
gboolean weft_vir_images_check(WeftCall *call, const char *xml, const WeftImageFile *base, GError **error);

/* --- domains.c --- */

/* Of one that was restored, and stands still until it is resumed (processors.c). */
gboolean weft_vir_set_waiting(virDomain *domain, gboolean waiting, GError **error);
/* As weft_move_end(); one that waits to be resumed is not one that a move halted. */
WeftMoveEnd weft_vir_end_of(virDomain *domain, int state, int reason);
/* What a call about this domain is about. */
char *weft_vir_about_domain(const char *domain);
/* NULL without an error: there is none. */
virDomain *weft_vir_domain_find(WeftCall *call, const char *name, GError **error);
/* Likewise, NOT_FOUND when it is not running. */
virDomain *weft_vir_domain_running(WeftCall *call, const char *name, GError **error);
/* Ends and forgets it; success also when it is gone. */
gboolean weft_vir_domain_end(virDomain *domain, GError **error);
/* Notes in a definition that it is, or stands for, the one that weft gave. */
void weft_vir_definition_mark(xmlNode *root, const char *xml);
char *weft_vir_xml_text(xmlDoc *doc);

/* --- the operations, as in hypervisor.h --- */

gboolean weft_vir_start(WeftHypervisor *hv, const WeftHostAddress *host, const WeftStart *start, GCancellable *cancellable,
                        GError **error);
gboolean
weft_vir_stop(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable, GError **error);
WeftContents *weft_vir_list(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error);
gboolean weft_vir_bring(WeftHypervisor *hv, const WeftHostAddress *host, const WeftBring *bring, GCancellable *cancellable,
                        GError **error);
gboolean weft_vir_discard(WeftHypervisor *hv, const WeftHostAddress *host, const char *digest, GCancellable *cancellable,
                          GError **error);
gboolean weft_vir_connect(WeftHypervisor *hv, const WeftHostAddress *host, const WeftHostNetwork *network, const char *run,
                          GCancellable *cancellable, GError **error);
gboolean
weft_vir_disconnect(WeftHypervisor *hv, const WeftHostAddress *host, guint vxlan, GCancellable *cancellable, GError **error);
gboolean weft_vir_claim(WeftHypervisor *hv, const WeftHostAddress *host, const WeftOwner *owner, gboolean take,
                        WeftOwnerVerdict *ret_verdict, WeftOwner **ret_record, GCancellable *cancellable, GError **error);
WeftInventory *weft_vir_inspect(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error);
int weft_vir_open(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, WeftChannel channel,
                  GCancellable *cancellable, GError **error);
gboolean weft_vir_save(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, WeftSaveMode mode,
                       WeftSaved *ret_saved, GCancellable *cancellable, GError **error);
gboolean weft_vir_fetch(WeftHypervisor *hv, const WeftHostAddress *host, const WeftFetch *fetch, WeftImageFile *ret_file,
                        GCancellable *cancellable, GError **error);
gboolean weft_vir_prime(WeftHypervisor *hv, const WeftHostAddress *host, const WeftPrime *prime, GCancellable *cancellable,
                        GError **error);
gboolean
weft_vir_unprime(WeftHypervisor *hv, const WeftHostAddress *host, const char *id, GCancellable *cancellable, GError **error);
gboolean weft_vir_plug(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, const char *xml,
                       WeftPlugged *ret_plugged, GCancellable *cancellable, GError **error);
gboolean weft_vir_unplug(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, const char *xml,
                         GCancellable *cancellable, GError **error);
gboolean
weft_vir_pause(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable, GError **error);
gboolean
weft_vir_resume(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable, GError **error);
gboolean weft_vir_measure(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, guint64 *ret_rate,
                          GCancellable *cancellable, GError **error);
gboolean weft_vir_move(WeftHypervisor *hv, const WeftHostAddress *from, const WeftHostAddress *to, const WeftMove *move,
                       WeftMoved *ret_moved, GCancellable *cancellable, GError **error);

/* Adds weft's networks to the list. */
gboolean weft_vir_networks_list(WeftCall *call, GPtrArray *networks, GError **error);
