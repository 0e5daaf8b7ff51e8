/* What a look at a host found: what is there against what the store's records say. Pure.
 *
 * Each thing that carries weft's mark is one of these:
 *
 *     explained   a record of this store says that it is to be there
 *     ended       a record of this store says that it ended it, or an operator has confirmed that it is to go: it may go
 *     elsewhere   a record of this store has this very stay of the node on another host: the two are one machine, or share
 *                 their pool. It must not be touched, whatever was confirmed
 *     unproved    none of these: it is of another site, or this store is not the one that knows of it; it must not be touched,
 *                 and nothing else there either
 *
 * What carries no mark is foreign, and nobody's business. */
#pragma once

#include "hypervisor.h"
#include "node.h"
#include "records.h"

#include <glib.h>

/* A thing that is unproved or elsewhere, or that an operator has confirmed to be removed. */
typedef struct WeftFound {
    WeftThing thing;
    char *id;     /* of the node, the cluster, the image's file or the memory */
    char *site;   /* that its mark names; NULL: none */
    char *stay;   /* of a node: the placement that its mark names; NULL: none */
    char *key;    /* "<thing>/<site>/<id>[/<placement>]": all that its mark says of it, which a confirmation names; its
                     sum where that is long */
    char *name;   /* on the host: of the domain or the network, or as id */
    char *record; /* of a node: weft_node_mark_write(); NULL: its mark does not say */
    char *number; /* that it uses, which no cluster may get: weft_number_of_partition() or …_of_network(); NULL: not known */
    char *there;  /* of a node: the host where its record has it; NULL: nowhere else */
    gboolean runs;
    gboolean confirmed;
} WeftFound;

void weft_found_free(WeftFound *found);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFound, weft_found_free)

/* Names of a number that is in use, as a mark of a node and a network tell it. */
char *weft_number_of_partition(const char *fabric, guint pkey);
char *weft_number_of_network(guint vxlan);

/* What the store tells of things that no record explains. */
typedef struct WeftProof {
    gboolean (*has_ended)(WeftThing thing, const char *id, gpointer data); /* as weft_txn_end() wrote it */
    gboolean (*is_confirmed)(const char *key, gpointer data);              /* of a WeftFound */
    /* The store was asked about it since it was seen, and had nothing: weft_look_unknown(). It need not be asked again. */
    gboolean (*is_unknown)(const char *key, gpointer data);
    gboolean (*has_cluster)(const char *id, gpointer data);
    gboolean (*has_memory)(const char *id, gpointer data);
    gboolean (*has_file)(const char *digest, gpointer data); /* a record names it, whether or not hosts are to have it */
    /* Where a record has that stay of a node; NULL: nowhere. */
    char *(*find_stay)(const char *node_id, const char *stay, gpointer data);
    gpointer data;
} WeftProof;

typedef struct WeftLookInput {
    const char *site;
    const char *host;
    const WeftContents *contents;
    const GPtrArray *nodes; /* WeftNode: those that the store has on this host, or on their way to it */
    GHashTable *holders;    /* VXLAN id to the id of the cluster whose partition has it; absent: nobody's */
    GHashTable *images;     /* set of digests that somebody may want; NULL: not known, so nobody's are touched */
    WeftProof proof;
} WeftLookInput;

typedef struct WeftLook {
    GPtrArray *stale;     /* names of domains that have ended */
    GPtrArray *foreign;   /* names of domains that are not weft's */
    GPtrArray *gone;      /* WeftNode: up or ready, but without a running domain */
    GPtrArray *networks;  /* WeftHostNetwork: of no cluster that has nodes here, or not its present number */
    GPtrArray *images;    /* digests that nobody wants any more */
    GPtrArray *memory;    /* ids of memory to fork from that has ended */
    GPtrArray *unproved;  /* WeftFound, owned; with those that are elsewhere */
    GPtrArray *confirmed; /* WeftFound, owned: that go since an operator has confirmed it */
} WeftLook;

/* Everything else in the look is borrowed from the input. */
void weft_look(const WeftLookInput *input, WeftLook *ret_look);
/* Keys of those things there that the store has nothing of, neither that they are somewhere, nor that they ended: a look that
 * is told of them holds the host for them, unless they are explained or confirmed by then, and asks about the others only. A
 * host may claim thousands. Also reads what marks say of numbers.
 * thread: any, with a proof that may be asked there. It need not know of memory and files. */
GHashTable *weft_look_unknown(const char *site, const char *host, WeftContents *contents, const WeftProof *proof);
void weft_look_clear(WeftLook *look);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftLook, weft_look_clear)
