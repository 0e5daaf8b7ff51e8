/* The store: records with revisions, claims on resources, and transactions that take all or nothing.
 *
 * A record is (kind, key) → JSON text. It may lie in a scope (the tenant of a cluster, the cluster of a node) and in a place
 * (the host of a node): both can be listed. It may hold claims:
 *
 *   - exclusive: a resource such as "host/n1/core/3" has one holder at most;
 *   - shared: a resource such as "tenant/acme/cores" may be held by many, as long as the sum of their amounts stays within
 *     the limit that the claimant states. An amount that does not grow is never refused, whatever the limit has become.
 *
 * A resource is one or the other, by its name. Claims are part of the record that holds them: putting the record replaces
 * them, deleting it frees them. There is no other way to free a claim, and so none can leak.
 *
 * Every commit gets the next revision, and each record remembers the revision that wrote it. All operations of a transaction
 * are conditional and take effect together, or none does: the contract holds for 1,024 nodes with all their claims.
 *
 * thread: everything here is called on the main thread, but that a transaction may be made anywhere, and that another thread
 * may read with a reader of its own. Commits are written elsewhere and end by a callback on the main thread, in the order in
 * which they were given; a read sees every commit whose callback has run before it began, and may see later ones. */
#pragma once

#include <glib.h>
#include <jansson.h>

typedef enum {
    WEFT_KIND_META, /* the store's own: who owns it, what was imported */
    WEFT_KIND_FABRIC,
    WEFT_KIND_FABRIC_MAP, /* that somebody imported, of a fabric whose manager gives none */
    WEFT_KIND_PKEY_REST,  /* a partition number that was freed and rests */
    WEFT_KIND_HOST,
    WEFT_KIND_HOST_STATUS,
    WEFT_KIND_TENANT,
    WEFT_KIND_PRINCIPAL,
    WEFT_KIND_TOKEN,
    WEFT_KIND_IMAGE,
    WEFT_KIND_CLUSTER,
    WEFT_KIND_CLUSTER_STATUS,
    WEFT_KIND_NODE,
    WEFT_KIND_RESERVATION,
    WEFT_KIND_TEMPLATE,
    WEFT_KIND_PRIMED, /* memory of a host that nodes are forked from */
    WEFT_KIND_CHECKPOINT,
    WEFT_KIND_MOVE, /* a node that is to be moved, or is on its way */
    WEFT_KIND_EVENT,
    WEFT_KIND_USAGE,
    WEFT_KIND_ENDED,   /* what this store started on hosts and has ended, and what an operator has confirmed to be */
    WEFT_KIND_REQUEST, /* answers to requests with an idempotency key */
    WEFT_KINDS
} WeftKind;
extern const char *const weft_kind_words[WEFT_KINDS + 1];

typedef struct WeftRecord {
    WeftKind kind;
    char *key;
    char *scope; /* "" for none */
    char *place; /* "" for none */
    gint64 revision;
    char *value; /* JSON text */
} WeftRecord;

void weft_record_free(WeftRecord *record);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftRecord, weft_record_free)

/* --- transactions --- */

typedef struct WeftTxn WeftTxn;

/* The name is that of the failpoint that follows the commit, unique in the code: a commit without one cannot be written. */
WeftTxn *weft_txn_new(const char *name);
void weft_txn_free(WeftTxn *txn);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftTxn, weft_txn_free)
gboolean weft_txn_is_empty(const WeftTxn *txn);
/* It is refused as WEFT_ERROR_EXHAUSTED where the store is full by the time that it would be written. */
void weft_txn_leave_reserve(WeftTxn *txn);

/* What the record must be for the transaction to happen: a revision, or one of these. */
#define WEFT_ABSENT 0
#define WEFT_ANY (-1)

/* A value that is made of data where it is written, on another thread: for records of which one transaction may have
 * thousands. data is freed there, too. */
typedef struct WeftLateValue {
    json_t *(*make)(gconstpointer data);
    GPtrArray *(*claim)(
        gconstpointer data); /* char *, owned: exclusive resources, behind those that are claimed now; NULL: none */
    gpointer data;
    GDestroyNotify free_data;
    gboolean told; /* who watches gets data, too, with the change; it is freed on the main thread then */
} WeftLateValue;

/* Puts a record; the claims that follow belong to it. value is taken over, and so is what the late one holds. */
void weft_txn_put_late(WeftTxn *txn, WeftKind kind, const char *key, const char *scope, const char *place,
                       const WeftLateValue *value, gint64 expected);
void weft_txn_put(WeftTxn *txn, WeftKind kind, const char *key, const char *scope, const char *place, json_t *value,
                  gint64 expected);
void weft_txn_delete(WeftTxn *txn, WeftKind kind, const char *key, gint64 expected);
/* Only checks. */
void weft_txn_expect(WeftTxn *txn, WeftKind kind, const char *key, gint64 expected);

/* For the record that was put last. An exclusive resource that one record claims twice is refused as one that two records
 * claim; shares of the same resource add up. An amount of 0 is no claim, a limit of 0 is no limit. */
void weft_txn_claim(WeftTxn *txn, const char *resource_format, ...) G_GNUC_PRINTF(2, 3);
void weft_txn_share(WeftTxn *txn, guint64 amount, guint64 limit, const char *resource_format, ...) G_GNUC_PRINTF(4, 5);
/* The record that was put last keeps the claims that it has: for updates that do not touch them. */
void weft_txn_keep_claims(WeftTxn *txn);

/* --- the store --- */

typedef struct WeftStore WeftStore;

/* error NULL: committed as revision. WEFT_ERROR_CONFLICT: a record was not as expected; WEFT_ERROR_EXHAUSTED: a claim is taken
 * or a limit would be passed, the message names the resource. In both cases nothing changed. WEFT_ERROR_UNAVAILABLE: it
 * could not be written; read again before trusting either way. */
typedef void (*WeftCommitted)(gint64 revision, const GError *error, gpointer data);

/* A hint that records changed: look again. deleted: it is gone. made_of: the data of a late value that is told; NULL: none. */
typedef struct WeftChange {
    WeftKind kind;
    const char *key;
    const char *scope;
    const char *place;
    gint64 revision;
    gboolean deleted;
    gconstpointer made_of;
} WeftChange;
typedef void (*WeftChanged)(const WeftChange *changes, gsize n, gpointer data);

typedef struct WeftQuery {
    WeftKind kind;
    const char *scope; /* NULL: all. At most one of scope and place. */
    const char *place;
    const char *after; /* keys larger than this one; with backwards, smaller; NULL: from the end */
    guint skip;        /* leaves out so many of them first */
    guint limit;       /* 0: no limit */
    gboolean backwards;
} WeftQuery;

typedef struct WeftStoreOps {
    const char *name;
    /* NULL and no error: there is none. */
    WeftRecord *(*get)(WeftStore *store, WeftKind kind, const char *key, GError **error);
    /* WeftRecord in order of key (bytewise), or NULL and an error. */
    GPtrArray *(*list)(WeftStore *store, const WeftQuery *query, GError **error);
    /* The record that holds an exclusive claim; NULL and no error: nobody. */
    WeftRecord *(*holder)(WeftStore *store, const char *resource, GError **error);
    /* The sum of the amounts of a shared resource. */
    gboolean (*used)(WeftStore *store, const char *resource, guint64 *ret_used, GError **error);
    /* Takes the transaction over. callback may be NULL. */
    void (*commit)(WeftStore *store, WeftTxn *txn, WeftCommitted callback, gpointer data);
    /* Everything as JSON, sorted, for tests and backups. What has no claims has an empty array and an empty object:
     *
     *     { "records": { "node 4k-0": { "scope": "4k", "place": "n1", "revision": 7, "value": …,
     *                                   "claims": [ "host/n1/core/3" ], "shares": { "host/n1/numa/0/pages/2M": 512 } } },
     *       "claims": { "host/n1/core/3": "node 4k-0" }, "meters": { "host/n1/numa/0/pages/2M": 512 } } */
    json_t *(*dump)(WeftStore *store, GError **error);
    WeftStore *(*reader)(WeftStore *store, GError **error);
    void (*free)(WeftStore *store);
} WeftStoreOps;

/* thread: main. */
typedef void (*WeftRoomChanged)(gboolean full, gpointer data);

struct WeftStore {
    const WeftStoreOps *ops;
    gint full; /* atomic */
    WeftRoomChanged room_changed;
    gpointer room_data;
    GPtrArray *watchers;
    guint last_watcher;
    guint notifying;
    gint64 told; /* revision of the last commit of which all were told who wait for it or watch; thread: main */
};

WeftRecord *weft_store_get(WeftStore *store, WeftKind kind, const char *key, GError **error);
GPtrArray *weft_store_list(WeftStore *store, const WeftQuery *query, GError **error);
WeftRecord *weft_store_holder(WeftStore *store, const char *resource, GError **error);
gboolean weft_store_used(WeftStore *store, const char *resource, guint64 *ret_used, GError **error);
void weft_store_commit(WeftStore *store, WeftTxn *txn, WeftCommitted callback, gpointer data);
json_t *weft_store_dump(WeftStore *store, GError **error);
/* The same records, for one other thread at a time: it can get, list, and tell holders and sums, and nothing else. It is freed
 * before the store is. */
WeftStore *weft_store_reader(WeftStore *store, GError **error);
/* Ends pending commits first; their callbacks run. Never from inside one of them. NULL is fine. */
void weft_store_free(WeftStore *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftStore, weft_store_free)

/* Its disk is full, and commits live on its reserve: only what makes room, and what those in charge of the site want, should be
 * written until that is over. */
gboolean weft_store_is_full(WeftStore *store);
/* One listener is told when that begins and ends; NULL: none. */
void weft_store_watch_room(WeftStore *store, WeftRoomChanged changed, gpointer data);

/* Runs the main loop until this commit has ended: for start-up and tests. */
gboolean weft_store_commit_wait(WeftStore *store, WeftTxn *txn, GError **error);

/* Watchers are told after the callback of the commit, on the main thread. Returns an id for unwatch. */
guint weft_store_watch(WeftStore *store, WeftChanged changed, gpointer data);
void weft_store_unwatch(WeftStore *store, guint id);
/* Watchers know of all commits up to this revision. A record that is read may be a later one's: what somebody has made of
 * earlier records is older than it then. */
gint64 weft_store_told(const WeftStore *store);

/* For implementations. */
void weft_store_init(WeftStore *store, const WeftStoreOps *ops);
void weft_store_clear(WeftStore *store);
void weft_store_notify(WeftStore *store, const WeftChange *changes, gsize n);
