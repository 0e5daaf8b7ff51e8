/* A partition as the fabric driver gets it. */
#pragma once

#include <glib.h>

typedef enum { WEFT_MEMBER_FULL, WEFT_MEMBER_LIMITED, WEFT_MEMBER_BOTH } WeftMembership;
extern const char *const weft_membership_words[];

typedef struct WeftMember {
    guint64 port_guid;    /* of the host's HCA */
    guint64 virtual_guid; /* of the virtual function; 0: the port itself */
    WeftMembership membership;
    int index; /* wished index in the P_Key table of the virtual port, else of the port; -1: any */
} WeftMember;

#define WEFT_PARTITION_NAME_MAX 31 /* what opensm keeps of one */

typedef struct WeftPartition {
    guint pkey;      /* 15 bits */
    char *name;      /* weft_partition_name(), or the site's own */
    gboolean ipoib;  /* the manager makes its broadcast group */
    guint sl;        /* service level, 0 to 15 */
    guint rate;      /* of the broadcast group, as in InfiniBand's PathRecord; 0: the manager's default */
    guint mtu;       /* the same */
    GArray *members; /* WeftMember */
} WeftPartition;

WeftPartition *weft_partition_new(guint pkey, const char *name);
WeftPartition *weft_partition_copy(const WeftPartition *partition);
void weft_partition_free(WeftPartition *partition);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftPartition, weft_partition_free)

/* Adds a member unless an equal one is there already. */
void weft_partition_add(WeftPartition *partition, const WeftMember *member);
/* Same number, name, settings and members, in whatever order. */
gboolean weft_partition_equal(const WeftPartition *a, const WeftPartition *b);
/* "weft-<cluster id>", and "weft-shared-<name>" of one that is shared: weft's mark, and whether a name carries it. */
char *weft_partition_name(const char *cluster_id);
char *weft_partition_shared_name(const char *name);
gboolean weft_partition_is_ours(const char *name);
/* The cluster's id in a name, borrowed from it; NULL: no cluster's. */
const char *weft_partition_cluster(const char *name);
