/* A fabric: what one subnet manager rules. Its switches and links come with the fabric driver; hosts name their leaf. */
#pragma once

#include "lane.h"
#include "partition.h"
#include "pkeys.h"

#include <glib.h>
#include <jansson.h>

/* A partition that clusters may ask for beside their own: the site's storage, for instance. */
typedef struct WeftShared {
    char *name;
    guint pkey;
    WeftMembership clusters; /* of their ports: limited keeps them from each other, full or limited */
    GArray *servers;         /* guint64, port GUIDs of the site's own machines, full members */
    GPtrArray *tenants;      /* char *, whose clusters may ask for it; empty: all */
} WeftShared;

typedef struct WeftFabric {
    char *name;
    guint pkey_first; /* of clusters; what is shared lies outside */
    guint pkey_last;
    guint64 guid_prefix; /* upper 24 bits of the virtual functions' GUIDs, the lower 40 zero */
    guint vxlan_base;    /* VXLAN id of a partition is vxlan_base + its number */
    WeftLanes qos;       /* what is promised of hosts' links */
    guint port_pkeys;    /* places in the P_Key table of a port of which no more is known */
    GPtrArray *shared;   /* WeftShared */
} WeftFabric;

/* { "name": "ib0", "pkey_first": "0x1000", "pkey_last": "0x1fff", "guid_prefix": "0x0277650000000000", "vxlan_base": 10000,
 *   "port_pkeys": 128,
 *   "shared": [ { "name": "storage", "pkey": "0x7001", "clusters": "limited", "servers": ["0x…"], "tenants": ["acme"] } ] }
 * and "qos" as in lane.h. All but the name may be left out; these are what they are then, and nothing is shared or promised. Of
 * what is shared, all but name and pkey may be left out. */
WeftFabric *weft_fabric_from_json(json_t *json, const char *where, GError **error);
json_t *weft_fabric_to_json(const WeftFabric *fabric);
void weft_fabric_free(WeftFabric *fabric);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFabric, weft_fabric_free)

/* Reads one of "shared"; where as in weft_host_from_json(). */
WeftShared *weft_shared_from_json(json_t *json, const char *where, GError **error);
void weft_shared_free(WeftShared *shared);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftShared, weft_shared_free)
/* Adds it, unless the fabric has one of its name or its number, or the number is one for clusters: INVALID. Takes it over. */
gboolean weft_fabric_add_shared(WeftFabric *fabric, WeftShared *shared, GError **error);
/* NULL: none of that name. */
const WeftShared *weft_fabric_shared(const WeftFabric *fabric, const char *name);
gboolean weft_shared_allows(const WeftShared *shared, const char *tenant);
/* The P_Key that a cluster's port has of it, with the bit of full membership where it is one. */
guint weft_shared_key(const WeftShared *shared);

/* All numbers that weft may write there: those of clusters, and of what is shared. */
WeftPkeys weft_fabric_pkeys(const WeftFabric *fabric);

/* A GUID of a virtual function from the fabric's prefix and 40 random bits; never 0. */
guint64 weft_fabric_guid(const WeftFabric *fabric, guint64 random);
/* "02:xx:xx:xx:xx:xx" from 40 random bits: locally administered, unicast. */
char *weft_mac_format(guint64 random);
