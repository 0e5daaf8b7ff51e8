/* The reconciler: compares the wish with the world and takes the next idempotent step. It learns of wishes from the store's
 * changes and of the world from the drivers, and is the only code that joins store, placement, hosts and fabric. */
#pragma once

#include "backoff.h"
#include "fabric.h"
#include "gate.h"
#include "hypervisor.h"
#include "path-rule.h"
#include "queue.h"
#include "store.h"

#include <glib.h>

typedef struct WeftControlOptions {
    const char *site;       /* the id of the store's site, which every mark carries; borrowed */
    const WeftOwner *owner; /* as whom hosts are claimed; NULL: they are not; borrowed */
    guint workers;          /* calls to hosts at the same time, in all (see jobs.h) */
    guint workers_per_host; /* … to one host */
    gint64 start_deadline;  /* microseconds for each step; bringing an image has more, by its size */
    gint64 await_deadline;  /* … for the first answer from inside */
    gint64 meet_deadline;   /* … for reaching all others */
    gint64 still_deadline;  /* … for coming to rest, or going on: its guest, and each device */
    gint64 stop_deadline;
    gint64 connect_deadline;
    gint64 list_deadline;
    gint64 apply_deadline;
    WeftBackoff backoff;
    gint64 host_grace;       /* how long a host may be silent before its nodes are replaced */
    gint64 scan_interval;    /* how often each host and fabric is looked at without a hint */
    gint64 patrol_interval;  /* … and each fabric's ports are read back */
    gint64 pkey_rest;        /* how long a partition number that was freed is given to nobody */
    guint starts_max;        /* tries on one host before a node is placed elsewhere */
    guint events_per_tenant; /* … its older ones are dropped */
    gint64 event_age;        /* events and idempotency keys older than these are dropped */
    gint64 request_age;
    gint64 ended_age;            /* … and records of what has ended on hosts: what is found there later is held */
    gint64 link_idle;            /* how long a stream to a node stays open that nobody uses */
    WeftPathRule path_rule;      /* for clusters with path auto that tell their pattern */
    gboolean templates;          /* nodes are forked from templates, and these are made */
    gint64 migration_stall;      /* for so long a node may stand still while it is moved */
    guint64 migration_bandwidth; /* bytes a second that a move may take; 0: as many as can be */
    guint moves_per_host;        /* at the same time */
    gint64 template_age;         /* one that nobody has used for so long is dropped */
    gint64 template_retry;     /* one that could not be made, or a place where a fork failed, is not tried again before that */
    gint64 capture_deadline;   /* from its place to its saved file */
    gboolean trust_emulator;   /* guests without KVM lose no writes while they are copied: QEMU 9.0 and later, or the lab's */
    gint64 checkpoint_skew;    /* between the first and the last node of a cluster that stops for a checkpoint, at most */
    gint64 expiry_warning;     /* how long before its walltime is over a cluster is told */
    gint64 clock_bound;        /* what the wall clock may be set by, or be ahead at a start, and still be trusted */
    WeftQueueOptions queue;    /* in which order those that wait get room */
    const char *images;        /* folder of the images' files, by their digest */
    guint64 reserve;           /* bytes that what is fetched leaves free there */
    gboolean bare;             /* a node whose image is not known starts from nothing: for the fake */
    const guint8 *secret;      /* the site's, WEFT_SECRET_LENGTH bytes; NULL: no node has a seed */
    GBytes *guest;             /* the guest program; NULL: likewise */
    GHashTable *options_files; /* fabric (char *) to the path of its manager's opensm.conf, for the doctor; NULL: none */
} WeftControlOptions;

/* All but queue, whose defaults are weft_queue_defaults. */
extern const WeftControlOptions weft_control_defaults;

typedef struct WeftControl WeftControl;

/* Reads the store and starts to work as soon as the main loop runs. fabrics: name (char *) to WeftFabricDriver, borrowed like
 * the others; all must outlive the control. */
WeftControl *
weft_control_new(WeftStore *store, WeftHypervisor *hv, GHashTable *fabrics, const WeftControlOptions *options, GError **error);
/* How the API reaches nodes and hosts; lives as long as the control. */
WeftGate *weft_control_gate(WeftControl *control);
/* Cancels what runs and waits for it; what was not finished goes on at the next start. */
void weft_control_free(WeftControl *control);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftControl, weft_control_free)
