/* Model objects in the store: which key, scope, place and claims each has. The only place that knows. */
#pragma once

#include "checkpoint.h"
#include "cluster.h"
#include "event.h"
#include "host.h"
#include "image.h"
#include "move-wish.h"
#include "node.h"
#include "reservation.h"
#include "store.h"
#include "template.h"
#include "tenant.h"
#include "topology.h"

/* keys
 *   cluster, cluster status   "<tenant>/<name>"            scope tenant; the cluster claims "cluster/<id>", its quotas, and
 *                                                          a share of the images that its groups start from
 *                                                          the status claims "fabric/<fabric>/pkey/<number>"
 *   node                      "<id>"                       scope cluster id, place host; claims what it holds, GUIDs and MAC
 *   host, host status         "<name>"                     a host claims its ports' GUIDs, so that no other port has them,
 *                                                          and is counted as one that may have VFs or has none
 *   site                      "site" of kind meta          see site-record.h
 *   fabric, tenant, image     "<name>"                     a fabric claims the P_Keys of what is shared on it
 *   reservation               "<name>"                     is counted as one of all
 *   template                  "<id>"                       is counted, and its bytes, for the tenant that it was made for;
 *                                                          one of a clone is among that tenant's storage
 *   primed memory             "<id>"                       scope template, place host; claims its pages, and that it is the
 *                                                          only one of its template and tenant on its NUMA node
 *   checkpoint                "<tenant>/<name>"            scope tenant, place cluster id; a share of the images of its wish,
 *                                                          and of its tenant's storage
 *   P_Key that rests          "<fabric>/<number, 0x0000>"  scope fabric; { "freed": when, "name": of the partition }
 *   fabric map                "<fabric>"                   { "map": as in topology's map.h }, put by the API
 *   token                     "<id>"                       scope tenant, place principal; claims "token/<hash>"
 *   principal                 "<name>"                     scope tenant; claims "unix/<user>"
 *   move                      "<cluster id>/<rank>"        scope cluster id, place the host that it is on its way to
 *   event                     "<id, 16 hex digits>"        scope tenant, place cluster id
 *   usage                     "<node id>/<start, 16 hex>"  scope tenant, place cluster id
 *   ended                     "<thing>/<id>"               that this store ended on hosts, never to be started again
 *   … confirmed               "<host>/<thing>/<id>"        place host: an operator has said that it is to be removed there
 *   request                   "<account>/<key>"            scope tenant, or "" of operators; its bytes of WEFT_ANSWERS_MAX;
 *                                                          made and read by the API; "created" in it tells its age
 */
char *weft_cluster_key(const char *tenant, const char *name);
char *weft_move_key(const char *cluster_id, guint rank);
char *weft_event_key(gint64 id);

/* Loads and decodes; NULL with WEFT_ERROR_NOT_FOUND where there is none. ret_revision may be NULL. */
WeftHost *weft_store_load_host(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftHostStatus *weft_store_load_host_status(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftTenant *weft_store_load_tenant(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftPrincipal *weft_store_load_principal(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftToken *weft_store_load_token(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftImage *weft_store_load_image(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftCluster *weft_store_load_cluster(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftClusterStatus *weft_store_load_cluster_status(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftNode *weft_store_load_node(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftTemplate *weft_store_load_template(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftCheckpoint *weft_store_load_checkpoint(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftMoveWish *weft_store_load_move(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);
WeftReservation *weft_store_load_reservation(WeftStore *store, const char *key, gint64 *ret_revision, GError **error);

/* The record that holds what only one can have; NULL and no error: none does. */
WeftRecord *weft_store_cluster_of_id(WeftStore *store, const char *id, GError **error);
WeftRecord *weft_store_token_of_hash(WeftStore *store, const char *hash, GError **error);
WeftRecord *weft_store_principal_of_user(WeftStore *store, const char *unix_user, GError **error);
WeftRecord *weft_store_holder_of_guid(WeftStore *store, const char *fabric, guint64 guid, GError **error);
WeftRecord *weft_store_holder_of_mac(WeftStore *store, const char *mac, GError **error);
WeftRecord *weft_store_holder_of_pkey(WeftStore *store, const char *fabric, guint pkey, GError **error);
/* How much of a quota a tenant uses, and how many tokens a principal has. */
gboolean weft_store_quota_used(WeftStore *store, const char *tenant, WeftQuota quota, guint64 *ret_used, GError **error);
gboolean weft_store_tokens_used(WeftStore *store, const char *principal, guint64 *ret_used, GError **error);
/* How many hosts of a fabric have no virtual functions by their descriptions, and how many have some, or may. */
gboolean weft_store_count_hosts(WeftStore *store, const char *fabric, guint64 *ret_bare, guint64 *ret_vfs, GError **error);
/* Bytes of a tenant's answers that are kept. */
gboolean weft_store_answers_used(WeftStore *store, const char *tenant, guint64 *ret_used, GError **error);
/* How many templates were made for a tenant. */
gboolean weft_store_templates_used(WeftStore *store, const char *tenant, guint64 *ret_used, GError **error);
/* How many checkpoints a tenant has made. */
gboolean weft_store_checkpoints_used(WeftStore *store, const char *tenant, guint64 *ret_used, GError **error);
/* How many groups of clusters, and of checkpoints, start from an image. */
gboolean weft_store_image_used(WeftStore *store, const char *image, guint64 *ret_used, GError **error);

/* Decoding of records that a list gave. */
WeftFabric *weft_record_fabric(const WeftRecord *record, GError **error);
WeftHost *weft_record_host(const WeftRecord *record, GError **error);
WeftHostStatus *weft_record_host_status(const WeftRecord *record, GError **error);
WeftTenant *weft_record_tenant(const WeftRecord *record, GError **error);
WeftPrincipal *weft_record_principal(const WeftRecord *record, GError **error);
WeftToken *weft_record_token(const WeftRecord *record, GError **error);
WeftImage *weft_record_image(const WeftRecord *record, GError **error);
WeftCluster *weft_record_cluster(const WeftRecord *record, GError **error);
WeftClusterStatus *weft_record_cluster_status(const WeftRecord *record, GError **error);
WeftNode *weft_record_node(const WeftRecord *record, GError **error);
WeftTemplate *weft_record_template(const WeftRecord *record, GError **error);
WeftPrimed *weft_record_primed(const WeftRecord *record, GError **error);
WeftCheckpoint *weft_record_checkpoint(const WeftRecord *record, GError **error);
WeftMoveWish *weft_record_move(const WeftRecord *record, GError **error);
WeftReservation *weft_record_reservation(const WeftRecord *record, GError **error);
WeftEvent *weft_record_event(const WeftRecord *record, GError **error);
WeftUsage *weft_record_usage(const WeftRecord *record, GError **error);

/* Puts with the right key, scope, place and claims. expected as for weft_txn_put(). */
void weft_txn_put_fabric(WeftTxn *txn, const WeftFabric *fabric, gint64 expected);
void weft_txn_put_host(WeftTxn *txn, const WeftHost *host, gint64 expected);
void weft_txn_put_host_status(WeftTxn *txn, const WeftHostStatus *status, gint64 expected);
void weft_txn_put_tenant(WeftTxn *txn, const WeftTenant *tenant, gint64 expected);
void weft_txn_put_principal(WeftTxn *txn, const WeftPrincipal *principal, gint64 expected);
#define WEFT_TOKENS_MAX 100 /* of one principal */
void weft_txn_put_token(WeftTxn *txn, const WeftToken *token, gint64 expected);
/* One of WEFT_RESERVATIONS_MAX. */
void weft_txn_put_reservation(WeftTxn *txn, const WeftReservation *reservation, gint64 expected);
void weft_txn_put_image(WeftTxn *txn, const WeftImage *image, gint64 expected);
/* tenant: who pays for it, within its limits; NULL: what it takes of them does not grow. */
void weft_txn_put_template(WeftTxn *txn, const WeftTemplate *template, const WeftTenant *tenant, gint64 expected);
/* Claims its pages within what the host has. */
void weft_txn_put_primed(WeftTxn *txn, const WeftPrimed *primed, const WeftHost *host);
/* One of WEFT_CHECKPOINTS_MAX of its tenant. tenant: its storage stays within its limit; NULL: what it takes of it does not
 * grow, or is not its tenant's wish, and is counted all the same. */
void weft_txn_put_checkpoint(WeftTxn *txn, const WeftCheckpoint *checkpoint, const WeftTenant *tenant, gint64 expected);
/* on: the host that its node is on its way to; NULL: it has not left. */
void weft_txn_put_move(WeftTxn *txn, const WeftMoveWish *wish, const char *on, gint64 expected);
/* One of the system's own: it counts in no quota, and keeps nobody from removing its image. */
void weft_txn_put_system_cluster(WeftTxn *txn, const WeftCluster *cluster, gint64 expected);
/* Claims the tenant's quotas within its limits. A cluster whose wish is to be gone keeps its claims until it is. */
void weft_txn_put_cluster(WeftTxn *txn, const WeftCluster *cluster, const WeftTenant *tenant, gint64 expected);
void weft_txn_put_cluster_status(WeftTxn *txn, const WeftClusterStatus *status, gint64 expected);
/* The partition of that name has ended: its number was in use until now, so that others do not get it too soon, and what is
 * left of the partition may be removed. tenant: of the cluster that had it; NULL: it was nobody's. That it has rested enough,
 * and is seen nowhere; and what was written of it. */
void weft_txn_rest_pkey(WeftTxn *txn, const char *fabric, guint pkey, const char *name, const char *tenant, gint64 now);
void weft_txn_forget_pkey(WeftTxn *txn, const char *fabric, guint pkey);
gboolean
weft_record_pkey_rest(const WeftRecord *record, guint *ret_pkey, char **ret_name, char **ret_tenant, gint64 *ret_freed);
/* A new node claims everything that it holds within what the host has; host tells the limits of its pages. */
void weft_txn_put_new_node(WeftTxn *txn, const WeftNode *node, const WeftHost *host);
/* … with what it is guaranteed on the device's port, of so many bits a second that the lane has there. Follows it at once, or
 * what puts it as moved. */
void weft_txn_share_lane(WeftTxn *txn, const WeftNode *node, const WeftDevice *device, guint64 room);
/* A change of phase; what it holds does not change. */
void weft_txn_put_node(WeftTxn *txn, const WeftNode *node, gint64 expected);
/* A change of what it holds: a move begins (it has a target, and holds both), or has ended (it is there, or is not moved). from
 * and to describe the hosts; to is NULL where it has no target. */
void weft_txn_put_moved_node(WeftTxn *txn, const WeftNode *node, const WeftHost *from, const WeftHost *to, gint64 expected);
/* What weft leaves on hosts, each with a mark. Nothing of it is removed unless a record says that it ended: this is the proof,
 * which is written with the transaction that ends it, and kept until the thing is known to be gone, or for ended_age. */
typedef enum {
    WEFT_THING_NODE,    /* a domain, or its files: weft_placement_id() */
    WEFT_THING_NETWORK, /* the cluster's id */
    WEFT_THING_IMAGE,   /* a digest */
    WEFT_THING_MEMORY,  /* the id of memory to fork from */
    WEFT_THINGS
} WeftThing;
extern const char *const weft_thing_words[WEFT_THINGS + 1]; /* "node", "network", "image", "memory" */

char *weft_placement_id(const char *node_id, const char *placement);
/* id NULL: there was none. */
void weft_txn_end(WeftTxn *txn, WeftThing thing, const char *id);
/* The digest of the file of an image that the change says has ended, borrowed from it; NULL: it says nothing like that. */
const char *weft_change_ended_file(const WeftChange *change);
/* Its stay where it is; and there, too, where it has a target. */
void weft_txn_end_stay(WeftTxn *txn, const WeftNode *node);
void weft_txn_end_placements(WeftTxn *txn, const WeftNode *node);
/* Who said so, when, and to which run of weftd. It counts in that run only: in a copy of the store it may have been taken back
 * since, and nobody can tell a copy from the store as it was when weftd was last stopped. */
typedef struct WeftConfirmation {
    const char *who;
    gint64 at;
    const char *run; /* NULL: weftd has none */
} WeftConfirmation;
/* That of that key ("<thing>/<id>" as its mark says) which is on the host is to be removed. */
void weft_txn_confirm_end(WeftTxn *txn, const char *host, const char *key, const WeftConfirmation *confirmation);
/* … or is not: it was carried out, or taken back. */
void weft_txn_forget_confirmation(WeftTxn *txn, const char *host, const char *key);
/* Keys (char *) of what is to be removed from there, as this run was told; all: or any other. NULL: they cannot be read, which
 * is logged. */
GPtrArray *weft_store_confirmed_ends(WeftStore *store, const char *host, gboolean all, const char *run);
/* Errors count as no. */
gboolean weft_store_has_ended(WeftStore *store, WeftThing thing, const char *id);
/* … then, or later: what is newer than its end has come back since. */
gboolean weft_store_ended_after(WeftStore *store, WeftThing thing, const char *id, gint64 time);

/* Removals with the ends of the files that only they named. */
void weft_txn_remove_template(WeftTxn *txn, const WeftTemplate *template, gint64 expected);
void weft_txn_remove_checkpoint(WeftTxn *txn, const WeftCheckpoint *checkpoint, gint64 expected);

/* It was where it is until now; another interval begins. */
void weft_txn_put_usage(WeftTxn *txn, const WeftNode *node, gint64 now);
/* Frees what it holds, and writes that it ended, with its usage interval until now. */
void weft_txn_release_node(WeftTxn *txn, const WeftNode *node, gint64 expected, gint64 now);
/* Removals that are EXHAUSTED as long as a node is on the host, the tenant has a cluster, a principal or a checkpoint, the
 * principal a token, a cluster the image: also one that was not there to be read yet. */
void weft_txn_remove_host(WeftTxn *txn, const WeftHost *host, gint64 expected);
void weft_txn_remove_tenant(WeftTxn *txn, const WeftTenant *tenant, gint64 expected);
void weft_txn_remove_principal(WeftTxn *txn, const WeftPrincipal *principal, gint64 expected);
void weft_txn_remove_image(WeftTxn *txn, const WeftImage *image, gint64 expected);
/* An answer that is kept under an idempotency key. tenant NULL: an operator's, who is not bounded. Takes value over. */
void weft_txn_put_answer(WeftTxn *txn, const char *key, const char *tenant, gsize bytes, json_t *value);
/* Stamps the event with its id; one that has an id replaces what was told under it. */
void weft_txn_put_event(WeftTxn *txn, WeftEvent *event);
/* Gives the new events of a transaction that another thread made their ids again: they must be in the order of commits, or
 * whoever follows events would miss some. */
void weft_txn_stamp_events(WeftTxn *txn);

/* Formats and puts an event of a cluster (NULL: of the site). */
void weft_txn_tell(WeftTxn *txn, const char *type, const WeftCluster *cluster, const char *host, const char *format, ...)
    G_GNUC_PRINTF(5, 6);
