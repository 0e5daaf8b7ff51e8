/* Calls to hosts, on bounded workers: so many in all, so many to one host, each with a deadline; tenants take turns. Looking at
 * hosts, opening streams, bringing images and answering clients have workers of their own, so that none waits for hosts that
 * hang in another.
 *
 * thread: jobs are submitted on the main thread and end by their callback there; only the driver's call itself runs on a
 * worker, between the failpoints "STEP-before" and "STEP-after". */
#pragma once

#include "hypervisor.h"

#include <gio/gio.h>
#include <glib.h>

typedef enum {
    WEFT_STEP_START,
    WEFT_STEP_STOP,
    WEFT_STEP_LIST,
    WEFT_STEP_INSPECT,
    WEFT_STEP_OPEN,
    WEFT_STEP_CONNECT,
    WEFT_STEP_DISCONNECT,
    WEFT_STEP_BRING,
    WEFT_STEP_DISCARD,
    WEFT_STEP_SAVE,
    WEFT_STEP_FETCH,
    WEFT_STEP_PRIME,
    WEFT_STEP_UNPRIME,
    WEFT_STEP_PLUG,
    WEFT_STEP_UNPLUG,
    WEFT_STEP_PAUSE,
    WEFT_STEP_RESUME,
    WEFT_STEP_MEASURE,
    WEFT_STEP_MOVE,
    WEFT_STEPS
} WeftStepType;
extern const char *const weft_step_words[WEFT_STEPS + 1];

typedef struct WeftJobs WeftJobs;
typedef struct WeftJob WeftJob;

/* A job that was cancelled or ran into its deadline ends with WEFT_ERROR_TIMEOUT. */
typedef void (*WeftJobDone)(WeftJob *job, const GError *error);
/* On the worker, before the driver is called; may fail in its stead. */
typedef gboolean (*WeftJobPrepare)(WeftJob *job, GError **error);
/* On the worker, after a look that was answered. */
typedef void (*WeftJobPonder)(WeftJob *job);
/* On the worker, when a file was fetched; may fail in its stead. */
typedef gboolean (*WeftJobKeep)(WeftJob *job, GError **error);

struct WeftJob {
    WeftStepType step;
    char *host;
    char *uri;  /* NULL: the driver knows */
    char *text; /* the definition to start, the domain's name, the digest to discard, the file to fetch, or what was primed */
    GBytes *seed;
    WeftImageFile *file; /* what a start lays the domain's disk over, or what is to be brought; owned */
    guint64 disk_size;
    WeftImageFile *saved; /* what a start goes on from, or memory is primed from; NULL: it boots; owned */
    WeftImageFile *disk;  /* … and its own disk of the same moment; NULL: it has none; owned */
    char *primed;         /* … and the memory that it shares then */
    gboolean paused;      /* … and it waits for a resume */
    gboolean own;         /* a start goes on from the host's own "<domain>.saved" */
    WeftSaveMode mode;    /* what becomes of a domain that is saved */
    char *xml;            /* of the memory to prime, of the device to plug or unplug, or of the domain that is moved */
    char *to;             /* the host that it is moved to … */
    char *to_uri;
    WeftMove move;            /* … and how: copy, stall and bandwidth … */
    char *rdma;               /* … and over RDMA by which address */
    char *path;               /* of the file to bring, or where it is to be fetched to */
    guint64 most, reserve;    /* bytes that are fetched, and that stay free here */
    char *site;               /* whose a file is that is brought */
    WeftHostNetwork *network; /* to connect; of one to disconnect the number counts */
    const WeftOwner *claim;   /* as whom its host is claimed before anything is changed; NULL: it is not; borrowed */
    gboolean take;            /* … from whoever has it */
    WeftChannel channel;
    char *tenant;      /* whose turn it takes; NULL: weft itself */
    GPtrArray *others; /* char *, tenants that wait for it as well; NULL: none */
    gboolean queued;   /* it waits for a worker */
    gboolean asked;    /* a client waits for it, and nothing else does */
    gint64 deadline;   /* microseconds from the moment that it runs, or that it last told how far it is */
    WeftJobPrepare prepare;
    gpointer prepare_data;
    GDestroyNotify prepare_free;
    WeftJobPonder ponder; /* NULL: nothing is to be done there */
    WeftJobKeep keep;     /* of every fetch */
    WeftJobDone done;
    gpointer owner; /* the caller's, borrowed */
    char *subject;  /* the caller's: the node that it is about */
    GCancellable *cancellable;

    /* The outcome; whoever takes it leaves NULL or -1. */
    WeftContents *contents;
    GHashTable *unknown; /* … of which the store has nothing: weft_look_unknown(); NULL: it was not asked */
    WeftInventory *inventory;
    WeftOwnerVerdict verdict; /* of the claim */
    WeftOwner *record;        /* … and whose the host was; NULL: nobody's */
    GError *claim_error;      /* why a look could not claim it */
    int fd;
    WeftSaved standstill;   /* of a domain that was saved */
    WeftImageFile *fetched; /* owned */
    guint64 inode;          /* … of the file, where it is the first of its digest here; 0: it is not */
    guint64 rate;           /* bytes a second that a domain writes to */
    WeftMoved moved;        /* how a move went */
    WeftPlugged plugged;    /* what plugging a device did */
    guint64 brought;        /* bytes so far, of a file or of memory; atomic */
    gint64 alive;           /* when it began, or the driver last told that; 0: it waits for a worker; atomic */
    gint64 ended;           /* when the driver's call returned, monotonic; 0: it was not called */
    GError *error;
    gboolean late; /* its deadline passed */
};

/* Both numbers are of what changes something on hosts; the others have a share of them. */
WeftJobs *weft_jobs_new(WeftHypervisor *hv, guint workers, guint workers_per_host);
/* Cancels everything and waits until the workers are idle; callbacks do not run any more. */
void weft_jobs_free(WeftJobs *jobs);

/* A job to fill in; submitting takes it over. */
WeftJob *weft_job_new(WeftStepType step, const char *host, const char *uri, const char *text);
/* One that is not submitted after all. */
void weft_job_free(WeftJob *job);
void weft_jobs_submit(WeftJobs *jobs, WeftJob *job);
/* Nobody wants it any more: it is freed, and done() is not called. FALSE: it was given to a worker already, and nothing was
 * done. */
gboolean weft_jobs_withdraw(WeftJobs *jobs, WeftJob *job);
/* This tenant waits for it as well, and must not have to wait for all else that the other one has asked for. */
void weft_jobs_join(WeftJobs *jobs, WeftJob *job, const char *tenant);
/* From now on a job is asked for when it is submitted, and once more right before it begins. One that is refused ends with that
 * error, and its host is not called; one that is to wait is asked for again at weft_jobs_ask_again(). */
typedef enum { WEFT_JOB_ALLOWED, WEFT_JOB_WAITS, WEFT_JOB_REFUSED } WeftJobVerdict;
typedef WeftJobVerdict (*WeftJobGuard)(WeftJob *job, gpointer data, GError **error);
/* A claim was not granted: nothing was done on its host. */
typedef void (*WeftJobDisowned)(const WeftJob *job, gpointer data);
void weft_jobs_guard(WeftJobs *jobs, WeftJobGuard guard, WeftJobDisowned disowned, gpointer data);
void weft_jobs_ask_again(WeftJobs *jobs);

/* Bytes of its file that are on the host. */
guint64 weft_job_brought(const WeftJob *job);
WeftImageFile *weft_job_file_copy(const WeftImageFile *file);
/* NULL is fine. */
void weft_job_file_free(WeftImageFile *file);
