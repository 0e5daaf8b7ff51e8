#include "held.h"

#include "clock.h"
#include "errors.h"
#include "hosts.h"
#include "node-mark.h"
#include "work.h"

#include <string.h>

/* --- what is held --- */

static json_t *
found_view(const WeftWatch *host, const WeftFound *found)
{
    g_autoptr(WeftNodeMark) mark = found->record ? weft_node_mark_read(found->record, NULL) : NULL;
    g_autofree char *label = mark ? weft_node_label(mark->node) : NULL;
    const char *verdict = found->there ? "elsewhere" : found->confirmed ? "confirmed" : "unproved";
    return json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:s?, s:s?, s:b, s:s?, s:s?, s:s?, s:s, s:s?}", "host", host->name,
                     "since", (json_int_t)host->since, "kind", weft_thing_words[found->thing], "id", found->id, "name",
                     found->name, "key", found->key, "site", found->site, "placement", found->stay, "running", (int)found->runs,
                     "tenant", mark ? mark->node->tenant : NULL, "cluster", mark ? mark->node->cluster_name : NULL, "node",
                     label, "verdict", verdict, "recorded_on", found->there);
}

static int
compare_hosts(gconstpointer a, gconstpointer b)
{
    return strcmp((*(WeftWatch *const *)a)->name, (*(WeftWatch *const *)b)->name);
}

static int
compare_keys(gconstpointer a, gconstpointer b)
{
    return strcmp((*(WeftFound *const *)a)->key, (*(WeftFound *const *)b)->key);
}

/* Where something is held, from that host on; by name. */
static GPtrArray *
hosts_from(const WeftHosts *hosts, const char *first)
{
    GPtrArray *from = g_ptr_array_new();
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, hosts->by_name);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftWatch *host = value;
        if (host->held->len + host->confirmed->len > 0 && strcmp(host->name, first) >= 0)
            g_ptr_array_add(from, value);
    }
    g_ptr_array_sort(from, compare_hosts);
    return from;
}

/* What is held there, or is to be removed, behind that key; by key. */
static GPtrArray *
found_behind(const WeftWatch *host, const char *key)
{
    const GPtrArray *all[] = { host->held, host->confirmed };
    GPtrArray *behind = g_ptr_array_new();
    for (guint a = 0; a < G_N_ELEMENTS(all); a++)
        for (guint i = 0; i < all[a]->len; i++)
            if (strcmp(((const WeftFound *)all[a]->pdata[i])->key, key) > 0)
                g_ptr_array_add(behind, all[a]->pdata[i]);
    g_ptr_array_sort(behind, compare_keys);
    return behind;
}

json_t *
weft_site_held(const WeftControl *control, const char *after, guint limit)
{
    g_auto(GStrv) last = g_strsplit(after ? after : "", "/", 2); /* host and key */
    const char *first = last[0] ? last[0] : "";
    g_autoptr(GPtrArray) hosts = hosts_from(control->hosts, first);
    g_autofree char *next = NULL;
    json_t *items = json_array();
    limit = MIN(limit, WEFT_SITE_PAGE_MAX);
    for (guint h = 0; h < hosts->len && !next; h++) {
        const WeftWatch *host = hosts->pdata[h];
        g_autoptr(GPtrArray) found = found_behind(host, g_str_equal(host->name, first) && last[1] ? last[1] : "");
        for (guint i = 0; i < found->len && !next; i++) {
            json_array_append_new(items, found_view(host, found->pdata[i]));
            if (json_array_size(items) == limit && (i + 1 < found->len || h + 1 < hosts->len))
                next = g_strdup_printf("%s/%s", host->name, ((const WeftFound *)found->pdata[i])->key);
        }
    }
    return json_pack("{s:o, s:s?}", "items", items, "next", next);
}

gboolean
weft_site_holds_number(const WeftControl *control, const WeftFabric *fabric, guint pkey)
{
    GHashTable *held = control->hosts->held;
    if (g_hash_table_size(held) == 0)
        return FALSE;
    g_autofree char *partition = weft_number_of_partition(fabric->name, pkey);
    g_autofree char *network = weft_number_of_network(fabric->vxlan_base + pkey);
    return g_hash_table_contains(held, partition) || g_hash_table_contains(held, network);
}

/* --- orders --- */

#define TRIES_MAX 8

/* An order on its way into the store. */
typedef struct Errand {
    WeftControl *control;
    char *host;
    GPtrArray *keys; /* char * */
    char *who;
    gboolean dry_run;
    void (*again)(struct Errand *errand); /* when something that was read has changed meanwhile; NULL: nothing is read */
    guint tries;
    GPtrArray *clusters; /* char *, keys of clusters that changed */
    GPtrArray *left;     /* char *, names of other hosts on which nodes have no record any more */
    GPtrArray *moves;    /* WeftNode, as they were: they are not on their way any more */
    WeftSiteDone done;
    gpointer data;
} Errand;

static void
errand_free(Errand *errand)
{
    g_free(errand->host);
    g_ptr_array_unref(errand->keys);
    g_free(errand->who);
    g_ptr_array_unref(errand->clusters);
    g_ptr_array_unref(errand->left);
    g_ptr_array_unref(errand->moves);
    g_free(errand);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Errand, errand_free)

static Errand *
errand_new(WeftControl *control, const WeftSiteOrder *order, WeftSiteDone done, gpointer data)
{
    Errand *errand = g_new0(Errand, 1);
    *errand = (Errand){ .control = control,
                        .host = g_strdup(order->host),
                        .keys = g_ptr_array_new_with_free_func(g_free),
                        .who = g_strdup(order->who),
                        .dry_run = order->dry_run,
                        .clusters = g_ptr_array_new_with_free_func(g_free),
                        .left = g_ptr_array_new_with_free_func(g_free),
                        .moves = g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free),
                        .done = done,
                        .data = data };
    for (guint i = 0; i < order->keys->len; i++)
        g_ptr_array_add(errand->keys, g_strdup(order->keys->pdata[i]));
    return errand;
}

static void
index_found(GHashTable *index, const GPtrArray *found)
{
    for (guint i = 0; i < found->len; i++)
        g_hash_table_insert(index, ((WeftFound *)found->pdata[i])->key, found->pdata[i]);
}

/* What is held there, or is to be removed, by its key; NULL with an error. */
static GHashTable *
index_held(const WeftControl *control, const char *name, GError **error)
{
    const WeftWatch *host = weft_hosts_find(control->hosts, name);
    if (host && host->passive) {
        weft_error_refuse(error, WEFT_ERROR_CONFLICT, "host %s: %s", name, host->passive);
        return NULL;
    }
    GHashTable *index = g_hash_table_new(g_str_hash, g_str_equal);
    if (host) {
        index_found(index, host->confirmed);
        index_found(index, host->held);
    }
    return index;
}

/* NULL with an error: it is not there, or not to be touched. */
static const WeftFound *
find_held(GHashTable *index, const char *name, const char *key, GError **error)
{
    const WeftFound *found = g_hash_table_lookup(index, key);
    if (!found)
        weft_error_refuse(error, WEFT_ERROR_CONFLICT, "host %s: nothing is held there as %s; see: weft site ls", name, key);
    else if (found->there)
        weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                          "%s is recorded on host %s, and is neither adopted nor removed on %s: the two are one machine, or "
                          "share their pool, or their addresses are mixed up; correct the description of one of them",
                          found->name, found->there, name);
    return found && !found->there ? found : NULL;
}

/* Its partition is a cluster's from now on, and whoever works on that reads it again: it has other records. */
static void
take_over(WeftControl *control, const char *key)
{
    g_autoptr(WeftClusterStatus) status = weft_store_load_cluster_status(control->store, key, NULL, NULL);
    if (status) {
        weft_subnets_adopt_pkey(control->subnets, status->fabric, status->pkey, key, status->cluster);
        weft_expiry_set(control->expiry, key, status);
    }
    weft_control_reload(control, key);
}

static void
written(gint64 revision, const GError *error, gpointer data)
{
    g_autoptr(Errand) errand = data;
    WeftControl *control = errand->control;
    WeftWatch *host = control->closing ? NULL : weft_hosts_find(control->hosts, errand->host);
    if (host && host->adopting) /* else it is another one of that name */
        host->adopting--;
    /* Who works on a cluster writes its status at any time. */
    if (errand->again && g_error_matches(error, WEFT_ERROR, WEFT_ERROR_CONFLICT) && !control->closing &&
        ++errand->tries < TRIES_MAX) {
        g_ptr_array_set_size(errand->clusters, 0);
        g_ptr_array_set_size(errand->left, 0);
        g_ptr_array_set_size(errand->moves, 0);
        errand->again(g_steal_pointer(&errand));
        return;
    }
    errand->done(error, errand->data);
    if (error || control->closing)
        return;
    for (guint i = 0; i < errand->moves->len; i++)
        weft_control_give_target(control, errand->moves->pdata[i]);
    weft_hosts_recount(control->hosts, errand->host);
    for (guint i = 0; i < errand->left->len; i++)
        weft_hosts_recount(control->hosts, errand->left->pdata[i]);
    for (guint i = 0; i < errand->clusters->len; i++)
        take_over(control, errand->clusters->pdata[i]);
    weft_hosts_hint(control->hosts, errand->host);
}

static void
finish(Errand *errand, WeftTxn *txn, const GError *error)
{
    WeftWatch *host = weft_hosts_find(errand->control->hosts, errand->host);
    if (!error && !errand->dry_run) {
        host->adopting++;
        weft_control_commit(errand->control, txn, written, errand);
        return;
    }
    weft_txn_free(txn);
    errand->done(error, errand->data);
    errand_free(errand);
}

/* --- removing --- */

void
weft_site_remove(WeftControl *control, const WeftSiteOrder *order, WeftSiteDone done, gpointer data)
{
    g_autoptr(GError) error = NULL;
    Errand *errand = errand_new(control, order, done, data);
    WeftTxn *txn = weft_txn_new("ends-confirmed");
    const WeftConfirmation confirmation = { order->who, weft_clock_now(), weft_control_run(control) };
    g_autoptr(GHashTable) held = index_held(control, order->host, &error);
    for (guint i = 0; !error && i < order->keys->len; i++) {
        const WeftFound *found = find_held(held, order->host, order->keys->pdata[i], &error);
        if (!found)
            break;
        weft_txn_confirm_end(txn, order->host, found->key, &confirmation);
        weft_txn_tell(txn, "end-confirmed", NULL, order->host, "%s had %s %s removed from host %s", order->who,
                      weft_thing_words[found->thing], found->name, order->host);
    }
    finish(errand, txn, error);
}

/* --- adopting --- */

/* What becomes of a cluster when nodes are adopted: it gets some of them, or loses one that is recorded on their host and is
 * not there. */
typedef struct Adoption {
    WeftControl *control;
    Errand *errand;
    WeftTxn *txn;
    const WeftHost *host;
    char *key;
    WeftCluster *cluster;
    gint64 revision; /* WEFT_ABSENT: it comes back with its nodes */
    WeftClusterStatus *status;
    gint64 status_revision;
    GPtrArray *nodes; /* WeftNode: that it has, and those that it gets */
    gboolean gains;
} Adoption;

static void
adoption_free(Adoption *adoption)
{
    g_free(adoption->key);
    weft_cluster_free(adoption->cluster);
    weft_cluster_status_free(adoption->status);
    g_clear_pointer(&adoption->nodes, g_ptr_array_unref);
    g_free(adoption);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Adoption, adoption_free)

static WeftNodeMark *
read_found(const WeftControl *control, const WeftFound *found, const char *host, GError **error)
{
    if (found->thing != WEFT_THING_NODE || !found->record || !found->stay) {
        weft_error_refuse(error, WEFT_ERROR_INVALID,
                          "%s %s cannot be adopted: only a node whose mark says all of it; remove it",
                          weft_thing_words[found->thing], found->name);
        return NULL;
    }
    if (g_strcmp0(found->site, control->options.site) != 0) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "%s is of site %s, and this is %s: it is not this store's to adopt",
                          found->name, found->site ? found->site : "unknown", control->options.site);
        return NULL;
    }
    g_autoptr(WeftNodeMark) mark = weft_node_mark_read(found->record, error);
    if (!mark) {
        g_prefix_error(error, "%s: ", found->name);
        return NULL;
    }
    if (g_strcmp0(mark->node->id, found->id) != 0 || g_strcmp0(mark->node->placement, found->stay) != 0) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: its mark contradicts itself: it is of node %s; remove it",
                          found->name, mark->node->id);
        return NULL;
    }
    if (g_strcmp0(mark->node->host, host) != 0) {
        weft_error_refuse(
            error, WEFT_ERROR_CONFLICT,
            "%s was started on host %s, as its mark says, and is on %s: give the host its former name, or remove it",
            found->name, mark->node->host, host);
        return NULL;
    }
    return g_steal_pointer(&mark);
}

/* The cluster as the store has it. */
static gboolean
load_known(Adoption *adoption, const WeftRecord *record, GError **error)
{
    WeftStore *store = adoption->control->store;
    adoption->cluster = weft_record_cluster(record, error);
    adoption->revision = record->revision;
    if (!adoption->cluster)
        return FALSE;
    adoption->key = g_strdup(record->key);
    adoption->status = weft_store_load_cluster_status(store, adoption->key, &adoption->status_revision, error);
    WeftQuery query = { .kind = WEFT_KIND_NODE, .scope = adoption->cluster->id };
    g_autoptr(GPtrArray) records = adoption->status ? weft_store_list(store, &query, error) : NULL;
    for (guint i = 0; records && i < records->len; i++) {
        WeftNode *node = weft_record_node(records->pdata[i], error);
        if (!node)
            return FALSE;
        g_ptr_array_add(adoption->nodes, node);
    }
    return records != NULL;
}

/* When its walltime is over; but its people are warned before, as others are, who have a walltime of twice that. */
static gint64
end_of(const WeftControl *control, const WeftCluster *cluster, const WeftClusterStatus *status)
{
    gint64 walltime = (gint64)cluster->walltime * G_USEC_PER_SEC, warning = MIN(control->options.expiry_warning, walltime / 2);
    return walltime ? MAX(status->placed + walltime, weft_clock_now() + warning) : 0;
}

/* It gave way and came back since this store was copied: then it has its whole walltime again. */
static void
take_end(Adoption *adoption, const WeftNodeMark *mark)
{
    WeftClusterStatus *status = adoption->status;
    gint64 placed = MIN(mark->placed, weft_clock_now());
    if (placed <= status->placed)
        return;
    status->placed = placed;
    status->ends = end_of(adoption->control, adoption->cluster, status);
}

/* It was placed after this store was copied: where and when, its nodes remember. */
static void
take_placement(Adoption *adoption, const WeftNodeMark *mark)
{
    const WeftControl *control = adoption->control;
    WeftClusterStatus *status = adoption->status;
    status->phase = WEFT_CLUSTER_HEALING;
    status->since = weft_clock_now();
    status->placed = mark->placed ? MIN(mark->placed, status->since) : status->since;
    status->ends = end_of(control, adoption->cluster, status);
    g_free(status->fabric);
    status->fabric = g_strdup(mark->fabric);
    status->pkey = mark->pkey;
    status->sl = mark->node->sl;
    status->vxlan = weft_subnets_fabric(control->subnets, mark->fabric)->vxlan_base + mark->pkey;
    status->was_ready = TRUE;
}

/* It waits for room in this store, for the first time or after it gave way. */
static gboolean
is_unplaced(const WeftClusterStatus *status, const WeftNodeMark *mark)
{
    return !status->pkey || (status->phase == WEFT_CLUSTER_PREEMPTED && status->pkey == mark->pkey &&
                             g_strcmp0(status->fabric, mark->fabric) == 0);
}

/* One that came to be after this store was copied: as its nodes remember it. */
static gboolean
load_unknown(Adoption *adoption, const WeftNodeMark *mark, GError **error)
{
    WeftControl *control = adoption->control;
    adoption->cluster = weft_cluster_copy(mark->cluster);
    adoption->key = weft_cluster_key(mark->cluster->tenant, mark->cluster->name);
    g_autoptr(WeftRecord) namesake = weft_store_get(control->store, WEFT_KIND_CLUSTER, adoption->key, NULL);
    if (namesake)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "another cluster has the name %s by now: remove that one, then adopt; or remove the node",
                                 adoption->key);
    if (adoption->cluster->capture)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "it makes a template, which is made again when one is wanted; remove it");
    for (guint i = 0; !control->options.bare && i < mark->cluster->groups->len; i++) {
        const char *image = ((const WeftGroup *)mark->cluster->groups->pdata[i])->image;
        if (!weft_images_find(control->images, image))
            return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "image %s is not in this store: add it first, weft image add",
                                     image);
    }
    WeftClusterStatus *status = adoption->status = g_new0(WeftClusterStatus, 1);
    status->cluster = g_strdup(mark->cluster->id);
    status->tenant = g_strdup(mark->cluster->tenant);
    status->name = g_strdup(mark->cluster->name);
    take_placement(adoption, mark);
    return TRUE;
}

static gboolean
check_partition(const Adoption *adoption, const WeftNodeMark *mark, GError **error)
{
    const WeftClusterStatus *status = adoption->status;
    g_assert(status); /* an adoption without one is not made */
    WeftPkeys pkeys = weft_fabric_pkeys(weft_subnets_fabric(adoption->control->subnets, mark->fabric));
    g_autoptr(WeftRecord) holder = weft_store_holder_of_pkey(adoption->control->store, mark->fabric, mark->pkey, NULL);
    if (!weft_pkeys_contain(&pkeys, mark->pkey))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "partition 0x%04x of fabric %s is not of weft's range, see pkey_first in weft.yaml",
                                 mark->pkey, mark->fabric);
    if (g_strcmp0(status->fabric, mark->fabric) != 0 || status->pkey != mark->pkey)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "cluster %s has partition 0x%04x now, and the node is in 0x%04x: it cannot reach the others",
                                 adoption->key, status->pkey, mark->pkey);
    if (holder && g_strcmp0(holder->key, adoption->key) != 0)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "partition 0x%04x of fabric %s is another cluster's by now",
                                 mark->pkey, mark->fabric);
    return TRUE;
}

static Adoption *
adoption_new(Errand *errand, WeftTxn *txn)
{
    WeftControl *control = errand->control;
    Adoption *adoption = g_new0(Adoption, 1);
    *adoption = (Adoption){ control, errand, txn, weft_fleet_host(control->fleet, errand->host) };
    adoption->nodes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free);
    return adoption;
}

static Adoption *
find_adoption(GPtrArray *adoptions, const char *cluster_id)
{
    for (guint i = 0; i < adoptions->len; i++)
        if (g_str_equal(((Adoption *)adoptions->pdata[i])->cluster->id, cluster_id))
            return adoptions->pdata[i];
    return NULL;
}

/* mark NULL: it is a cluster that the store has. */
static Adoption *
get_adoption(GPtrArray *adoptions, Errand *errand, WeftTxn *txn, const char *cluster_id, const WeftNodeMark *mark,
             GError **error)
{
    WeftControl *control = errand->control;
    Adoption *known = find_adoption(adoptions, cluster_id);
    if (known)
        return known;
    g_autoptr(Adoption) adoption = adoption_new(errand, txn);
    g_autoptr(WeftRecord) record = weft_store_cluster_of_id(control->store, cluster_id, NULL);
    if (record ? !load_known(adoption, record, error) : !mark || !load_unknown(adoption, mark, error))
        return NULL;
    g_ptr_array_add(errand->clusters, g_strdup(adoption->key));
    g_ptr_array_add(adoptions, adoption);
    return g_steal_pointer(&adoption);
}

/* --- what makes room for them --- */

/* Does it not run there? On this very host what is there is what is adopted, as a host has one domain of a name; and whatever
 * is on a lost host has ended for this store. */
static gboolean
has_left(const Adoption *adoption, const char *node_id, const char *host, GError **error)
{
    const WeftHosts *hosts = adoption->control->hosts;
    const WeftWatch *there = weft_hosts_find(hosts, host);
    if (g_str_equal(host, adoption->host->name) || weft_hosts_seen(hosts, host) == WEFT_SEEN_LOST)
        return TRUE;
    if (!(there && there->known && there->answered))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "node %s is recorded on host %s, which does not answer, and may run there; adopt it when that "
                                 "host answers or is lost, see: weft host show %s",
                                 node_id, host, host);
    if (weft_hosts_runs(hosts, host, node_id))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "node %s is recorded on host %s, and is there as well; remove this one: weft site remove",
                                 node_id, host);
    return TRUE;
}

/* A move that the store has under way ended before it was copied back: no call for it may run, and neither end has the node
 * as it was. Two looks say so where it is not adopted, as a call may have ended after the first. */
static gboolean
has_left_move(const Adoption *adoption, const WeftNode *old, GError **error)
{
    const WeftControl *control = adoption->control;
    const char *ends[] = { old->host, old->target->host };
    gboolean calling = weft_control_is_calling(control, old);
    for (guint i = 0; i < G_N_ELEMENTS(ends); i++) {
        if (!has_left(adoption, old->id, ends[i], error))
            return FALSE;
        const WeftWatch *there = weft_hosts_find(control->hosts, ends[i]);
        calling |= !g_str_equal(ends[i], adoption->host->name) && weft_hosts_seen(control->hosts, ends[i]) != WEFT_SEEN_LOST &&
                   !g_hash_table_contains(there->absent, old->id);
    }
    return !calling || weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                         "node %s is recorded as moving from host %s to %s, and whether it does is not known "
                                         "yet; try again in a moment",
                                         old->id, old->host, old->target->host);
}

/* The record that it has elsewhere goes, if it is known not to run there. */
static gboolean
leave_old(Adoption *adoption, const WeftNode *old, gint64 now, GError **error)
{
    Errand *errand = adoption->errand;
    if (old->target ? !has_left_move(adoption, old, error) : !has_left(adoption, old->id, old->host, error))
        return FALSE;
    weft_txn_put_usage(adoption->txn, old, now);
    weft_txn_end_placements(adoption->txn, old);
    g_ptr_array_add(errand->left, g_strdup(old->host));
    if (!old->target)
        return TRUE;
    g_autofree char *key = weft_move_key(old->cluster, old->rank);
    json_auto_t *json = weft_node_to_json(old);
    weft_txn_delete(adoption->txn, WEFT_KIND_MOVE, key, WEFT_ANY);
    g_ptr_array_add(errand->left, g_strdup(old->target->host));
    g_ptr_array_add(errand->moves, weft_node_from_json(json, NULL));
    return TRUE;
}

/* why: what becomes of its place. */
static void
drop_node(Adoption *adoption, const WeftNode *node, gint64 revision, const char *why)
{
    weft_txn_release_node(adoption->txn, node, revision, weft_clock_now());
    weft_txn_tell(adoption->txn, "node-released", adoption->cluster, node->host,
                  "%s[%u] is not on host %s, where it is recorded: %s", node->cluster_name, node->rank, node->host, why);
    g_ptr_array_add(adoption->errand->left, g_strdup(node->host));
    for (guint i = 0; i < adoption->nodes->len; i++) {
        if (!g_str_equal(((const WeftNode *)adoption->nodes->pdata[i])->id, node->id))
            continue;
        g_ptr_array_remove_index(adoption->nodes, i); /* which may have freed the very node that was given */
        return;
    }
}

/* Nodes that are recorded there and are not there hold what others have got since this store was copied. Those that are held
 * on another host wait until they are adopted there. */
static gboolean
drop_absent(GPtrArray *adoptions, Errand *errand, WeftTxn *txn, GError **error)
{
    const WeftControl *control = errand->control;
    const WeftWatch *host = weft_hosts_find(control->hosts, errand->host);
    WeftQuery query = { .kind = WEFT_KIND_NODE, .place = errand->host };
    g_autoptr(GPtrArray) records = weft_store_list(control->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        g_autoptr(WeftNode) node = weft_record_node(record, error);
        if (!node)
            return FALSE;
        if (node->target || !g_hash_table_contains(host->absent, node->id) ||
            !weft_hosts_may_miss(control->hosts, node->host, node->id))
            continue;
        Adoption *adoption = get_adoption(adoptions, errand, txn, node->cluster, NULL, error);
        if (!adoption)
            return FALSE;
        drop_node(adoption, node, record->revision, "it gives its place to nodes that are adopted there");
    }
    return records != NULL;
}

/* Another node has the rank in this store, which was replaced since by the one that is adopted: it goes, if it is known not to
 * run; whatever is on a lost host has ended for this store. */
static gboolean
drop_namesake(Adoption *adoption, const WeftNode *other, GError **error)
{
    const WeftControl *control = adoption->control;
    g_autoptr(WeftRecord) record = weft_store_get(control->store, WEFT_KIND_NODE, other->id, NULL);
    gboolean lost = weft_hosts_seen(control->hosts, other->host) == WEFT_SEEN_LOST &&
                    weft_hosts_may_miss(control->hosts, other->host, other->id) && !weft_control_is_calling(control, other);
    if (!record || other->target || !(lost || weft_hosts_lack(control->hosts, other->host, other->id)))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "rank %u of cluster %s is node %s by now, which may be on host %s; adopt this one when that "
                                 "host answers and does not have it, or is lost; or remove this one: weft site remove",
                                 other->rank, adoption->key, other->id, other->host);
    drop_node(adoption, other, record->revision, "it was replaced since by a node that is adopted");
    return TRUE;
}

/* --- nodes --- */

static void
claim_lanes(const Adoption *adoption, const WeftNode *node)
{
    for (guint i = 0; node->bandwidth && i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        weft_txn_share_lane(adoption->txn, node, device,
                            weft_fleet_lane_room(adoption->control->fleet, node->host, device->hca, node->sl));
    }
}

/* By their files: another image may have the name by now. */
static gboolean
check_image(const WeftControl *control, const WeftNodeMark *mark, GError **error)
{
    const WeftImage *image = weft_images_find(control->images, mark->node->image);
    guint n = 0, same = 0;
    for (const WeftImageFile *file; image && (file = weft_image_file(image, n)); n++)
        same += n < mark->digests->len && g_strcmp0(mark->digests->pdata[n], file->digest) == 0;
    if (mark->digests->len == 0 || (image && n == same && n == mark->digests->len))
        return TRUE;
    return weft_error_refuse(
        error, WEFT_ERROR_CONFLICT,
        "node %s was started from another image %s than this store has; add that image as it was, its first "
        "file is %.12s…: weft image add %s",
        mark->node->id, mark->node->image, (const char *)mark->digests->pdata[0], mark->node->image);
}

static gboolean
check_node(const Adoption *adoption, const WeftNodeMark *mark, GError **error)
{
    const WeftCluster *cluster = adoption->cluster;
    gboolean group = FALSE;
    for (guint i = 0; i < cluster->groups->len; i++)
        group |= g_str_equal(((const WeftGroup *)cluster->groups->pdata[i])->name, mark->node->group);
    if (cluster->deleted)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "cluster %s is being deleted; remove its nodes", adoption->key);
    if (!group || !g_str_equal(cluster->tenant, mark->cluster->tenant) || !g_str_equal(cluster->name, mark->cluster->name))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "cluster %s has no group %s, or is not the one that its mark names", adoption->key,
                                 mark->node->group);
    return check_partition(adoption, mark, error) && check_image(adoption->control, mark, error);
}

static gboolean
adopt_node(Adoption *adoption, const WeftNodeMark *mark, GError **error)
{
    json_auto_t *json = weft_node_to_json(mark->node);
    g_autoptr(WeftNode) node = weft_node_from_json(json, error);
    gint64 revision = WEFT_ABSENT;
    if (!node)
        return FALSE;
    node->since = weft_clock_now();
    for (guint i = adoption->nodes->len; i-- > 0;) {
        WeftNode *other = adoption->nodes->pdata[i];
        if (g_str_equal(other->id, node->id)) {
            g_autoptr(WeftRecord) record = weft_store_get(adoption->control->store, WEFT_KIND_NODE, node->id, NULL);
            revision = record ? record->revision : WEFT_ABSENT;
            node->since = MAX(node->since, other->since + 1);
            if (!leave_old(adoption, other, node->since, error))
                return FALSE;
            g_ptr_array_remove_index(adoption->nodes, i);
        } else if (other->rank == node->rank && other->phase != WEFT_NODE_STOPPING && !drop_namesake(adoption, other, error)) {
            return FALSE;
        }
    }
    node->phase = WEFT_NODE_UP;
    /* It may have been ready for days: whatever keeps it from the others now, it is not started again for that. */
    g_free(node->boot);
    node->boot = g_strdup(WEFT_BOOT_UNTOLD);
    if (revision)
        weft_txn_put_moved_node(adoption->txn, node, adoption->host, NULL, revision);
    else
        weft_txn_put_new_node(adoption->txn, node, adoption->host);
    claim_lanes(adoption, node);
    take_end(adoption, mark);
    adoption->status->next_serial = MAX(adoption->status->next_serial, mark->serial + 1);
    adoption->gains = TRUE;
    g_ptr_array_add(adoption->nodes, g_steal_pointer(&node));
    return TRUE;
}

/* It wants as many as it has, if those are more: else the next look would stop some. */
static void
raise_counts(Adoption *adoption)
{
    for (guint g = 0; g < adoption->cluster->groups->len; g++) {
        WeftGroup *group = adoption->cluster->groups->pdata[g];
        guint have = 0;
        for (guint i = 0; i < adoption->nodes->len; i++) {
            const WeftNode *node = adoption->nodes->pdata[i];
            have += node->phase != WEFT_NODE_STOPPING && weft_node_group(node, adoption->cluster) == g;
        }
        group->count = MAX(group->count, have);
    }
}

static gboolean
adoption_write(Adoption *adoption, const char *who, GError **error)
{
    WeftClusterStatus *status = adoption->status;
    status->generation++;
    weft_txn_put_cluster_status(adoption->txn, status, adoption->status_revision);
    if (!adoption->gains)
        return TRUE;
    g_autoptr(WeftTenant) tenant = weft_store_load_tenant(adoption->control->store, adoption->cluster->tenant, NULL, error);
    if (!tenant)
        return FALSE;
    raise_counts(adoption);
    weft_txn_put_cluster(adoption->txn, adoption->cluster, tenant, adoption->revision);
    weft_txn_tell(adoption->txn, "cluster-adopted", adoption->cluster, NULL, "%s had nodes of it adopted: it has %u now", who,
                  adoption->nodes->len);
    return TRUE;
}

static gboolean
adopt_found(GPtrArray *adoptions, Errand *errand, WeftTxn *txn, const WeftFound *found, GError **error)
{
    const WeftControl *control = errand->control;
    const WeftWatch *host = weft_hosts_find(control->hosts, errand->host);
    const WeftHost *described = weft_fleet_host(control->fleet, errand->host);
    g_autoptr(WeftNodeMark) mark = read_found(control, found, errand->host, error);
    if (!mark)
        return FALSE;
    if (!described || g_strcmp0(described->fabric, mark->fabric) != 0)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "%s is of fabric %s, and host %s is not", found->name,
                                 mark->fabric, errand->host);
    if (found->confirmed && (!weft_watch_is_held(host) || host->stopping || host->errands))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "%s: its removal, which was confirmed, is under way", found->name);
    if (found->confirmed)
        weft_txn_forget_confirmation(txn, errand->host, found->key);
    Adoption *adoption = get_adoption(adoptions, errand, txn, mark->cluster->id, mark, error);
    if (adoption && is_unplaced(adoption->status, mark))
        take_placement(adoption, mark);
    return adoption && check_node(adoption, mark, error) && adopt_node(adoption, mark, error);
}

static void
adopt(Errand *errand)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) adoptions = g_ptr_array_new_with_free_func((GDestroyNotify)adoption_free);
    WeftTxn *txn = weft_txn_new("nodes-adopted");
    g_autoptr(GHashTable) held = index_held(errand->control, errand->host, &error);
    for (guint i = 0; !error && i < errand->keys->len; i++) {
        const WeftFound *found = find_held(held, errand->host, errand->keys->pdata[i], &error);
        if (found && (i > 0 || drop_absent(adoptions, errand, txn, &error)))
            adopt_found(adoptions, errand, txn, found, &error);
    }
    for (guint i = 0; !error && i < adoptions->len; i++)
        adoption_write(adoptions->pdata[i], errand->who, &error);
    finish(errand, txn, error);
}

void
weft_site_adopt(WeftControl *control, const WeftSiteOrder *order, WeftSiteDone done, gpointer data)
{
    Errand *errand = errand_new(control, order, done, data);
    errand->again = adopt;
    adopt(errand);
}
