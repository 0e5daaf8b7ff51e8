/* What the files of the fake hypervisor share (see fake-hypervisor.h). thread: any, unless told otherwise. */
#pragma once

#include "domain-xml.h"
#include "hypervisor.h"

typedef struct WeftFakeGuests WeftFakeGuests;
typedef struct WeftFakeReboots WeftFakeReboots;

typedef struct WeftFakeHypervisor {
    WeftHypervisor base;
    char *world;
    WeftFakeGuests *guests;
    WeftFakeReboots *reboots;
    char *hook; /* weft-hook; NULL: nobody's */
} WeftFakeHypervisor;

/* A folder of a host, open. fd -1: there is none, and so nothing in it. */
typedef struct WeftFakeFolder {
    const char *host;
    int fd;
} WeftFakeFolder;

gboolean weft_fake_fail(GError **error, const char *doing, const char *what); /* with errno; FALSE */

/* Every call begins with this: the faults that a test asked for, and an early end. */
gboolean weft_fake_pass(const char *world, const char *host, const char *op, GCancellable *cancellable, GError **error);

gboolean
weft_fake_folder_open(const char *world, const char *host, const char *name, WeftFakeFolder *ret_folder, GError **error);
/* Likewise, and nobody else has it locked. */
gboolean
weft_fake_folder_open_still(const char *world, const char *host, const char *name, WeftFakeFolder *ret_folder, GError **error);
/* Makes the folder, and keeps everybody else from locking it until it is closed. */
gboolean
weft_fake_folder_lock(const char *world, const char *host, const char *name, WeftFakeFolder *ret_folder, GError **error);
void weft_fake_folder_close(WeftFakeFolder *folder);

/* The host's record is of this run, or DENIED; there: what is to be made is, and so DENIED as well. */
gboolean weft_fake_check_owner(const char *world, const char *host, const char *run, gboolean there, GError **error);

/* The file's text, cut after max bytes; NULL without an error when it is not there (any more). */
char *weft_fake_read(const WeftFakeFolder *folder, const char *file, gsize max, GError **error);
/* Whole or not at all, whenever weftd is killed. The folder is locked. */
gboolean weft_fake_replace(const WeftFakeFolder *folder, const char *file, const char *text, gsize length, GError **error);
/* Success also when it is not there. */
gboolean weft_fake_remove(const WeftFakeFolder *folder, const char *name, const char *suffix, GError **error);
gboolean weft_fake_exists(const WeftFakeFolder *folder, const char *name, const char *suffix);
/* The empty file that says whose the subject's files are; site NULL: nobody says. And away with all of them. */
gboolean
weft_fake_mark_make(const WeftFakeFolder *pool, const char *subject, const char *site, const char *placement, GError **error);
gboolean weft_fake_marks_remove(const WeftFakeFolder *pool, const char *subject, GError **error);
/* Names of files, sorted; hidden ones are none. */
GPtrArray *weft_fake_files(const WeftFakeFolder *folder, GError **error);

/* A name that is a file's name. */
gboolean weft_fake_check_name(const char *name, GError **error);

#define WEFT_FAKE_DOMAINS "domains"
#define WEFT_FAKE_POOL "pool"
#define WEFT_FAKE_NETWORKS "networks"
#define WEFT_FAKE_RUNNING ".xml"
#define WEFT_FAKE_STOPPED ".off"
#define WEFT_FAKE_PRIMED "primed"
#define WEFT_FAKE_BLANK ".blank"     /* its guest was forked, and does not know yet who it is */
#define WEFT_FAKE_PLUGGED ".plugged" /* what was plugged into it, or unplugged */
#define WEFT_FAKE_NIC "ua-nic"       /* … the alias of a network device there */
#define WEFT_FAKE_SHARED "shared"    /* … a line of it: it was forked, and nothing was copied yet */
#define WEFT_FAKE_PAUSED ".paused"   /* its processors stand still */
#define WEFT_FAKE_RATE ".rate"       /* bytes a second that it writes to */
#define WEFT_FAKE_OUT ".out"         /* it has left, and nobody knows yet whether it has arrived */
#define WEFT_FAKE_IN ".in"           /* it is about to arrive */
#define WEFT_FAKE_MEMORY (256u << 20)
#define WEFT_FAKE_DISK_MAX                                                                                                     \
    (1u << 20) /* of a disk's text: what is below it, its size, and whatever a test has its guest write */

/* --- fake-images.c --- */
gboolean weft_fake_bring(WeftHypervisor *hv, const WeftHostAddress *host, const WeftBring *bring, GCancellable *cancellable,
                         GError **error);
gboolean weft_fake_discard(WeftHypervisor *hv, const WeftHostAddress *host, const char *digest, GCancellable *cancellable,
                           GError **error);
/* Every image that the definition names is there, or NOT_FOUND. */
gboolean weft_fake_images_check(const WeftFakeFolder *pool, const char *xml, GError **error);
/* The digest of an image that is there whole, from the name of its file; NULL: it is another file. */
const char *weft_fake_image_digest(const char *file);

/* --- fake-saved.c --- */
gboolean weft_fake_save(WeftHypervisor *hv, const WeftHostAddress *address, const char *domain, WeftSaveMode mode,
                        WeftSaved *ret_saved, GCancellable *cancellable, GError **error);
gboolean weft_fake_fetch(WeftHypervisor *hv, const WeftHostAddress *host, const WeftFetch *fetch, WeftImageFile *ret_file,
                         GCancellable *cancellable, GError **error);
gboolean weft_fake_prime(WeftHypervisor *hv, const WeftHostAddress *host, const WeftPrime *prime, GCancellable *cancellable,
                         GError **error);
gboolean
weft_fake_unprime(WeftHypervisor *hv, const WeftHostAddress *host, const char *id, GCancellable *cancellable, GError **error);
gboolean weft_fake_list_primed(const char *world, const char *host, GPtrArray *primed, GError **error);
/* Of a pool that is locked: makes one of a domain's disk and what it wrote since it was saved. */
gboolean weft_fake_layer_drop(const WeftFakeFolder *pool, const char *domain, GError **error);
/* What it is to go on from is there, is of one piece, and of its size. */
gboolean
weft_fake_check_origin(const char *world, const char *host, const char *domain, const WeftStart *start, GError **error);
/* Its processors stand still: nobody answers. */
gboolean weft_fake_is_paused(const char *world, const char *host, const char *domain);
/* What the guest lacks to meet others; NULL: nothing. */
const char *weft_fake_lacks(const char *world, const char *host, const char *domain);
/* From now on it knows who it is. */
void weft_fake_become(const char *world, const char *host, const char *domain);

/* --- fake-devices.c --- */
gboolean weft_fake_plug(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, const char *xml,
                        WeftPlugged *ret_plugged, GCancellable *cancellable, GError **error);
gboolean weft_fake_unplug(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, const char *xml,
                          GCancellable *cancellable, GError **error);
/* It has no device of its host that could not go along, or INVALID. */
gboolean weft_fake_check_parted(const WeftFakeFolder *host, const char *domain, GError **error);
/* It has arrived with a definition that has its network device, plugged or not. */
gboolean weft_fake_note_move(const WeftFakeFolder *host, const char *domain, GError **error);
/* It shares its memory from now on. */
gboolean weft_fake_note_fork(const WeftFakeFolder *host, const char *domain, GError **error);
gboolean weft_fake_has_plugged(const WeftFakeFolder *host, const char *domain, const char *alias);

/* --- fake-moves.c --- */
gboolean
weft_fake_pause(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable, GError **error);
gboolean weft_fake_resume(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable,
                          GError **error);
gboolean weft_fake_measure(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, guint64 *ret_rate,
                           GCancellable *cancellable, GError **error);
gboolean weft_fake_move(WeftHypervisor *hv, const WeftHostAddress *from, const WeftHostAddress *to, const WeftMove *move,
                        WeftMoved *ret_moved, GCancellable *cancellable, GError **error);
/* Names of the files of domains that stand still between two hosts. */
gboolean weft_fake_list_halted(const WeftFakeFolder *host, GPtrArray *names, GError **error);

/* --- fake-hypervisor.c --- */
/* What a domain's file says of it. NULL for a text that nobody can read: a domain, but not ours, and of which nothing is known.
 */
WeftDomainFacts *weft_fake_facts(const char *domain, const char *text);
/* Writes a domain's file as that of a running one is written, under this suffix; nothing of it may be another's. */
gboolean weft_fake_put(const WeftFakeFolder *host, const char *xml, const char *suffix, GError **error);

/* --- fake-hook.c: weft-hook as libvirt runs it; all of them do nothing where none is used --- */

/* What a libvirtd does that starts: processes without a domain are ended. */
void weft_fake_hook_recover(const WeftFakeHypervisor *hv);
/* Before it runs: "prepare" and "start". Where either refuses, all is undone. */
gboolean
weft_fake_hook_begin(const WeftFakeHypervisor *hv, const char *host, const char *domain, const char *xml, GError **error);
/* It runs. FALSE: it must not. */
gboolean
weft_fake_hook_started(const WeftFakeHypervisor *hv, const char *host, const char *domain, const char *xml, GError **error);
/* Its process is gone: "stopped" and "release". */
void weft_fake_hook_end(const WeftFakeHypervisor *hv, const char *host, const char *domain, const char *xml);
/* Asks for a report. NULL: there is none, and why. */
json_t *weft_fake_hook_report(const WeftFakeHypervisor *hv, const char *host, char **ret_problem);

/* --- fake-networks.c --- */
gboolean weft_fake_connect(WeftHypervisor *hv, const WeftHostAddress *host, const WeftHostNetwork *network, const char *run,
                           GCancellable *cancellable, GError **error);
gboolean
weft_fake_disconnect(WeftHypervisor *hv, const WeftHostAddress *host, guint vxlan, GCancellable *cancellable, GError **error);
gboolean weft_fake_networks_list(const char *world, const char *host, GPtrArray *networks, GError **error);

/* --- fake-inventory.c --- */
WeftInventory *weft_fake_inspect(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error);

/* --- fake-world.c: what happens to guests behind the driver's back --- */

/* How often it rebooted so far. */
guint weft_fake_boots(const char *world, const char *host, const char *domain);
/* What it says of the ports that it is asked about: a line each, as its definition and the world have it. ret_failed: it says
 * that they do not work. */
char *weft_fake_ports(const char *world, const char *host, const char *domain, const char *asked, gboolean *ret_failed);
/* What it says of those of its cluster that it does not reach; NULL: it reaches all. */
char *weft_fake_apart(const char *world, const char *host, const char *domain);
/* thread: main. Tells of reboots from now on. */
WeftFakeReboots *weft_fake_reboots_new(const char *world, WeftFakeGuests *guests, WeftHostChanged changed, gpointer data);
void weft_fake_reboots_free(WeftFakeReboots *reboots);
/* Has it told that the host's devices changed. */
void weft_fake_devices_changed(const char *world, const char *host);

/* --- fake-guest.c: one thread that answers for all guests, and consoles that echo --- */
WeftFakeGuests *weft_fake_guests_new(const char *world);
void weft_fake_guests_free(WeftFakeGuests *guests);
/* From now on a real guest program answers, each time a process of its own. */
void weft_fake_guests_use(WeftFakeGuests *guests, const char *program);
/* A descriptor as of WeftHypervisorOps.open(). */
int weft_fake_guests_open(WeftFakeGuests *guests, const char *host, const char *domain, WeftChannel channel, GError **error);
/* The domain ended, and with it its streams. */
void weft_fake_guests_end(WeftFakeGuests *guests, const char *host, const char *domain);
