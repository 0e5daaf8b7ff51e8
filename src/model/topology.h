/* A fabric: what one subnet manager rules. Its switches and links come with the fabric driver; hosts name their leaf. */
#pragma once

#include "lane.h"

#include <glib.h>
#include <jansson.h>

#define WEFT_PKEY_FIRST 0x0001 /* partition numbers are 15 bits; 0x7fff is the default partition */
#define WEFT_PKEY_LAST 0x7ffe

typedef struct WeftFabric {
    char *name;
    guint pkey_first; /* the range that weft may use */
    guint pkey_last;
    guint64 guid_prefix; /* upper 24 bits of the virtual functions' GUIDs, the lower 40 zero */
    guint vxlan_base;    /* VXLAN id of a partition is vxlan_base + its number */
    WeftLanes qos;       /* what is promised of hosts' links */
} WeftFabric;

/* { "name": "ib0", "pkey_first": "0x0001", "pkey_last": "0x7ffe", "guid_prefix": "0x0277650000000000", "vxlan_base": 10000 }
 * All but the name may be left out; these are what they are then. */
WeftFabric *weft_fabric_from_json(json_t *json, const char *where, GError **error);
json_t *weft_fabric_to_json(const WeftFabric *fabric);
void weft_fabric_free(WeftFabric *fabric);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFabric, weft_fabric_free)

/* A GUID of a virtual function from the fabric's prefix and 40 random bits; never 0. */
guint64 weft_fabric_guid(const WeftFabric *fabric, guint64 random);
/* "02:xx:xx:xx:xx:xx" from 40 random bits: locally administered, unicast. */
char *weft_mac_format(guint64 random);
