/* What the parts of the plugin share: opensm, and who we are in it.
 *
 * Locks, always in this order: opensm's own (osm->lock), then ours (a leaf: nothing is called while one is held). opensm's lock
 * is never held over I/O or a wait. */
#pragma once

#include "pkeys.h"

#include <glib.h>
/* GLib first: complib leaves TRUE, FALSE, MIN and MAX alone where they are. */
#include <opensm/osm_file_ids.h>
#define FILE_ID OSM_FILE_EVENT_PLUGIN_C
#include <opensm/osm_event_plugin.h>
#include <opensm/osm_opensm.h>
#include <opensm/osm_partition.h>
#include <opensm/osm_version.h>

#include <sys/types.h>

typedef struct WeftAcks WeftAcks;
typedef struct WeftDoor WeftDoor;
typedef struct WeftHands WeftHands;
typedef struct WeftApplier WeftApplier;

typedef struct WeftOsm {
    osm_opensm_t *osm;
    char *trouble; /* why we touch nothing: opensm is not laid out as we were told; NULL: it is */
    char *socket;
    uid_t uid;           /* whose orders we take, besides root's */
    WeftPkeys pkeys;     /* the only numbers that we touch */
    char *partitions;    /* opensm's partitions.conf */
    gint ruling;         /* atomic; what those who listen were told last */
    gint rising;         /* atomic; since it last did not rule it has made no routes */
    gint sweeping;       /* atomic; opensm looks at the whole fabric just now */
    const char *routing; /* atomic; the engine that made the routes; opensm's */
    WeftAcks *acks;
    WeftApplier *applier;
    WeftHands *hands;
    WeftDoor *door;
} WeftOsm;

/* Whether opensm rules the fabric and has swept it since. Its own words for that are set one after the other: it says that it
 * rules a moment before it says that it has not swept. */
static inline gboolean
weft_osm_is_ruling(const WeftOsm *weft)
{
    const osm_subn_t *subn = &weft->osm->subn;
    return subn->sm_state == IB_SMINFO_STATE_MASTER && !g_atomic_int_get(&weft->rising) && !subn->first_time_master_sweep &&
           !subn->force_first_time_master_sweep;
}

/* Whether switches check P_Keys at their ports. */
static inline gboolean
weft_osm_enforces(const osm_opensm_t *osm)
{
    return osm->subn.opt.part_enforce_enum != OSM_PARTITION_ENFORCE_TYPE_OFF;
}

/* To opensm's log, unless that may be elsewhere. */
#define weft_osm_log(weft, level, ...)                                                                                         \
    do {                                                                                                                       \
        if (!(weft)->trouble)                                                                                                  \
            osm_log_v2(&(weft)->osm->log, (level), FILE_ID, "weft: " __VA_ARGS__);                                             \
    } while (0)
