/* Nodes that are to leave their host while they run: which, and to where. What they hold there is claimed before anything
 * happens, in one transaction. */
#include "work.h"

#include "clock.h"
#include "errors.h"
#include "id.h"
#include "schedule.h"
#include "turns.h"

#include <string.h>

#define PLACES_MAX 8 /* that are looked at for one that suits */
#define UNMOVABLE_SHM "it shares memory with others on its host"

/* --- what is held --- */

static void
count(WeftControl *control, const char *host, int by)
{
    guint n = GPOINTER_TO_UINT(g_hash_table_lookup(control->moves, host)) + (guint)by;
    if (n)
        g_hash_table_insert(control->moves, g_strdup(host), GUINT_TO_POINTER(n));
    else
        g_hash_table_remove(control->moves, host);
}

/* Others move to or from it, or what there is to know of it and all others is not known yet: better wait. */
static gboolean
is_busy(const WeftControl *control, const char *host)
{
    if (!weft_hosts_are_heard(control->hosts) || !weft_hosts_inventory(control->hosts, host, NULL))
        return TRUE;
    return GPOINTER_TO_UINT(g_hash_table_lookup(control->moves, host)) >= control->options.moves_per_host;
}

void
weft_control_take_target(WeftControl *control, const WeftNode *node)
{
    g_autoptr(WeftNode) there = weft_node_moved(node);
    weft_fleet_take(control->fleet, there);
    count(control, node->host, 1);
    count(control, there->host, 1);
}

void
weft_control_give_target(WeftControl *control, const WeftNode *node)
{
    g_autoptr(WeftNode) there = weft_node_moved(node);
    weft_fleet_give(control->fleet, there);
    count(control, node->host, -1);
    count(control, there->host, -1);
}

/* The commit that ended its move is in the store. */
void
weft_work_left(WeftWork *work, WeftNodeWork *item)
{
    WeftControl *control = work->control;
    WeftNode *before = item->before;
    if (g_str_equal(before->host, item->node->host)) {
        weft_control_give_target(control, before);
    } else {
        weft_fleet_give(control->fleet, before);
        count(control, before->host, -1);
        count(control, item->node->host, -1);
    }
    weft_hosts_hint(control->hosts, before->host);
    weft_hosts_hint(control->hosts, before->target->host);
    g_clear_pointer(&item->before, weft_node_free);
}

/* --- wishes --- */

void
weft_work_read_wishes(WeftWork *work)
{
    g_autoptr(GError) error = NULL;
    WeftQuery query = { .kind = WEFT_KIND_MOVE, .scope = work->cluster->id };
    g_autoptr(GPtrArray) records = weft_store_list(work->control->store, &query, &error);
    g_ptr_array_set_size(work->wishes, 0);
    for (guint i = 0; records && i < records->len; i++) {
        WeftMoveWish *wish = weft_record_move(records->pdata[i], &error);
        if (!wish)
            break;
        wish->revision = ((const WeftRecord *)records->pdata[i])->revision;
        g_ptr_array_add(work->wishes, wish);
    }
    work->wishes_stale = error != NULL;
    if (error)
        g_warning("cluster %s: its moves cannot be read, the next look tries again: %s", work->key, error->message);
}

const WeftMoveWish *
weft_work_wish(const WeftWork *work, const WeftNode *node)
{
    for (guint i = 0; i < work->wishes->len; i++)
        if (g_str_equal(((const WeftMoveWish *)work->wishes->pdata[i])->node, node->id))
            return work->wishes->pdata[i];
    return NULL;
}

gboolean
weft_work_forget_move(const WeftWork *work, WeftTxn *txn, const WeftNode *node)
{
    if (!node->target && !weft_work_wish(work, node))
        return FALSE;
    g_autofree char *key = weft_move_key(node->cluster, node->rank);
    weft_txn_delete(txn, WEFT_KIND_MOVE, key, WEFT_ANY);
    return TRUE;
}

/* Why nothing comes of a wish: its node is another by now, or not well enough, or somebody called it off. NULL: something may.
 */
static char *
why_vain(const WeftWork *work, const WeftMoveWish *wish)
{
    const WeftNodeWork *item = weft_work_find(work, wish->node);
    WeftNodePhase phase = item ? item->node->phase : WEFT_NODE_STOPPING;
    if (item && item->node->target)
        return NULL;
    if (phase != WEFT_NODE_READY && phase != WEFT_NODE_UP)
        return g_strdup("it failed meanwhile, or was replaced");
    return wish->called_off ? weft_work_called_off_words(wish) : NULL;
}

static gboolean
drop_vain(WeftWork *work)
{
    g_autoptr(WeftTxn) txn = weft_txn_new("moves-dropped");
    for (guint i = 0; i < work->wishes->len; i++) {
        const WeftMoveWish *wish = work->wishes->pdata[i];
        g_autofree char *why = why_vain(work, wish);
        if (!why)
            continue;
        g_autofree char *key = weft_move_key(wish->cluster, wish->rank);
        weft_txn_delete(txn, WEFT_KIND_MOVE, key, WEFT_ANY);
        weft_txn_tell(txn, "node-move-failed", work->cluster, NULL, "%s[%u] is not moved: %s", work->cluster->name, wish->rank,
                      why);
    }
    if (weft_txn_is_empty(txn))
        return FALSE;
    work->wishes_stale = TRUE;
    weft_work_commit(work, g_steal_pointer(&txn));
    return TRUE;
}

/* --- who is to leave --- */

gboolean
weft_work_is_emptied(const WeftWork *work, const WeftNode *node)
{
    return weft_hosts_is_moving(work->control->hosts, node->host, NULL) && !work->cluster->capture;
}

gboolean
weft_work_can_be_moved(const WeftWork *work, const WeftNode *node)
{
    return node->target ||
           (node->phase == WEFT_NODE_READY && !node->reason && !work->cluster->capture && !node->shm && !work->cluster->shm);
}

gboolean
weft_work_leaves(const WeftWork *work, const WeftNodeWork *item)
{
    const WeftNode *node = item->node;
    return node->phase == WEFT_NODE_READY && !node->target && !weft_work_is_freezing(work) &&
           weft_rest_is_over(&item->leave, work->now) &&
           (weft_work_wish(work, node) || (weft_work_is_emptied(work, node) && !node->reason));
}

void
weft_control_drain_changed(WeftControl *control, const char *cluster_key)
{
    WeftWork *work = g_hash_table_lookup(control->works, cluster_key);
    if (work)
        work->drains_changed = TRUE;
}

/* Those that stayed are looked at anew. */
void
weft_work_hear_drains(WeftWork *work)
{
    for (guint i = 0; work->drains_changed && i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        weft_rest_clear(&item->leave);
        item->awaits = FALSE;
        if (item->node->phase != WEFT_NODE_READY || !item->node->reason)
            continue;
        g_clear_pointer(&item->node->reason, g_free);
        g_clear_pointer(&item->node->detail, g_free);
        item->dirty = TRUE;
    }
    work->drains_changed = FALSE;
}

/* --- a place --- */

static guint
cores_in(const WeftHost *host, const WeftNode *node, guint numa)
{
    guint n = 0;
    for (guint i = 0; i < node->cores->len; i++)
        n += g_array_index(host->cores, WeftCore, g_array_index(node->cores, guint16, i)).numa == numa;
    return n;
}

/* Whatever its guest sees of where it is must be the same there. */
static gboolean
is_alike(const WeftControl *control, const WeftNode *a, const WeftNode *b)
{
    const WeftHost *here = weft_fleet_host(control->fleet, a->host), *there = weft_fleet_host(control->fleet, b->host);
    if (a->path != b->path || a->shm != b->shm || a->devices->len != b->devices->len || a->gpus->len != b->gpus->len ||
        a->cores->len != b->cores->len || a->memory->len != b->memory->len)
        return FALSE;
    for (guint i = 0; i < a->memory->len; i++) {
        const WeftMemory *x = &g_array_index(a->memory, WeftMemory, i), *y = &g_array_index(b->memory, WeftMemory, i);
        if (x->page_size != y->page_size || x->pages != y->pages ||
            (a->memory->len > 1 && cores_in(here, a, x->numa) != cores_in(there, b, y->numa)))
            return FALSE;
    }
    return TRUE;
}

static void
avoid_all_but(const WeftWork *work, const char *to, GHashTable *avoid)
{
    g_autoptr(GPtrArray) hosts = weft_fleet_hosts(work->control->fleet, work->status->fabric);
    for (guint i = 0; i < hosts->len; i++)
        if (!g_str_equal(((const WeftHost *)hosts->pdata[i])->name, to))
            g_hash_table_add(avoid, g_strdup(((const WeftHost *)hosts->pdata[i])->name));
}

/* Where it cannot be: where it is, where its cluster cannot be, and hosts of another kind. */
static GHashTable *
list_avoided(WeftWork *work, const WeftNode *node, const WeftMoveWish *wish)
{
    WeftControl *control = work->control;
    GHashTable *avoid = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    const WeftInventory *inventory = weft_hosts_inventory(control->hosts, node->host, NULL);
    g_autofree char *kind = inventory ? weft_inventory_kind(inventory) : g_strdup("");
    g_hash_table_add(avoid, g_strdup(node->host));
    weft_control_add_barred(control, work->cluster, avoid);
    weft_bookings_add(control->turns, work->cluster->tenant, avoid);
    weft_hosts_add_of_other_kind(control->hosts, kind, avoid);
    if (wish && wish->to)
        avoid_all_but(work, wish->to, avoid);
    else
        weft_work_add_shunned(work, avoid);
    return avoid;
}

static GHashTable *
list_beside(const WeftWork *work, const WeftNode *node)
{
    GHashTable *beside = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNode *other = ((const WeftNodeWork *)work->nodes->pdata[i])->node;
        if (other != node)
            g_hash_table_add(beside, other->host);
    }
    return beside;
}

/* It keeps the GUIDs of its devices. */
static void
keep_guids(const WeftNode *node, WeftNode *there)
{
    for (guint i = 0; i < there->devices->len; i++)
        ((WeftDevice *)there->devices->pdata[i])->guid = ((const WeftDevice *)node->devices->pdata[i])->guid;
}

static WeftNode *
find_place(WeftWork *work, const WeftNode *node, const WeftMoveWish *wish, GError **error)
{
    WeftControl *control = work->control;
    guint counts[WEFT_GROUPS_MAX] = { 0 };
    counts[weft_node_group(node, work->cluster)] = 1;
    g_autoptr(GHashTable) avoid = list_avoided(work, node, wish);
    g_autoptr(GHashTable) beside = list_beside(work, node);
    WeftPlaceRequest request = { work->cluster, work->status->fabric, counts,
                                 avoid,         work->status->sl,     &control->options.path_rule };
    request.like = weft_work_like(work);
    request.beside = g_hash_table_size(beside) ? beside : NULL;
    weft_fleet_sort(control->fleet);
    for (guint i = 0; i < PLACES_MAX; i++) {
        g_autoptr(GPtrArray) nodes = weft_schedule(control->fleet, &request, error);
        if (!nodes)
            return NULL;
        WeftNode *there = g_ptr_array_steal_index(nodes, 0);
        if (is_alike(control, node, there)) {
            keep_guids(node, there);
            return there;
        }
        g_hash_table_add(avoid, g_strdup(there->host));
        weft_node_free(there);
    }
    weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "no host with room for it offers it the same NUMA nodes and pages");
    return NULL;
}

/* --- leaving --- */

/* A wish ends with it; one whose host is being emptied stays, or tries again. */
static gboolean
refuse(WeftWork *work, WeftNodeWork *item, const char *why, gboolean for_good)
{
    WeftNode *node = item->node;
    const WeftMoveWish *wish = weft_work_wish(work, node);
    g_autofree char *words = g_strdup_printf("is not moved, and runs on where it is: %s", why);
    if (!wish && !for_good) {
        g_autofree char *label = weft_node_label(node);
        g_autofree char *what = g_strdup_printf("%s is to leave its host: %s", label, why);
        weft_rest_fail(&item->leave, &work->control->options.backoff, WEFT_DEED_MOVE, what, NULL);
        item->awaits = TRUE;
        weft_work_set_waiting(work, TRUE);
        weft_work_wake(work);
        return FALSE;
    }
    WeftTxn *txn = weft_txn_new("move-refused");
    if (wish)
        weft_work_forget_move(work, txn, node);
    if (weft_work_is_emptied(work, node)) {
        g_free(node->reason);
        node->reason = g_strdup(why);
        item->dirty = TRUE;
    }
    weft_work_tell_event(work, txn, "node-move-failed", node, NULL, " %s", words);
    work->wishes_stale = TRUE;
    weft_work_commit(work, txn);
    return TRUE;
}

static WeftMoveWish *
wish_new(const WeftWork *work, const WeftNode *node)
{
    WeftMoveWish *wish = g_new0(WeftMoveWish, 1);
    wish->cluster = g_strdup(node->cluster);
    wish->rank = node->rank;
    wish->node = g_strdup(node->id);
    weft_hosts_is_moving(work->control->hosts, node->host, &wish->disrupt);
    wish->created = weft_clock_now();
    return wish;
}

void
weft_work_members_changed(WeftWork *work, const WeftNode *node)
{
    if (node->devices->len == 0)
        return;
    work->status->generation++;
    work->status_dirty = TRUE;
}

/* Claims there what it holds here. */
static gboolean
leave(WeftWork *work, WeftNodeWork *item, WeftNode *there)
{
    WeftControl *control = work->control;
    WeftNode *node = item->node;
    WeftTxn *txn = weft_txn_new("move-begun");
    const WeftMoveWish *asked = weft_work_wish(work, node);
    g_autoptr(WeftMoveWish) own = asked ? NULL : wish_new(work, node);
    g_free(there->placement);
    there->placement = weft_id_new();
    node->target = there;
    node->still = weft_work_needs_still(node);
    item->dirty = item->claims = item->departing = TRUE;
    item->measured = item->at_rest = item->gone_over = FALSE;
    weft_rest_clear(&item->rest);
    item->awaits = FALSE;
    weft_control_take_target(control, node);
    weft_turns_hold(control->turns, work);
    weft_work_members_changed(work, node);
    weft_txn_expect(txn, WEFT_KIND_HOST, there->host, weft_hosts_revision(control->hosts, there->host));
    weft_txn_expect(txn, WEFT_KIND_CLUSTER, work->key, work->cluster_revision);
    weft_txn_put_move(txn, asked ? asked : own, there->host, asked ? asked->revision : WEFT_ABSENT);
    weft_work_tell_event(work, txn, "node-moving", node, NULL, " leaves for another host");
    work->wishes_stale = TRUE;
    weft_work_commit(work, txn);
    return TRUE;
}

/* Soon after a start hosts and subnet managers have not all answered: that there is no place says nothing then. */
static gboolean
knows_places(const WeftWork *work)
{
    return !weft_hosts_await_looks(work->control->hosts, work->key) &&
           weft_subnets_has_manager(work->control->subnets, work->status->fabric);
}

gboolean
weft_work_leave(WeftWork *work, const WeftPlan *plan)
{
    if (drop_vain(work))
        return TRUE;
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        if (plan->actions[i] != WEFT_DO_LEAVE)
            continue;
        g_autoptr(GError) error = NULL;
        const WeftMoveWish *wish = weft_work_wish(work, item->node);
        if (item->node->shm || work->cluster->shm)
            return refuse(work, item, UNMOVABLE_SHM, TRUE);
        gboolean full = !knows_places(work) || weft_control_is_cloned(work->control, work->cluster->id) ||
                        is_busy(work->control, item->node->host);
        WeftNode *there = full ? NULL : find_place(work, item->node, wish, &error);
        if (there && is_busy(work->control, there->host)) {
            g_clear_pointer(&there, weft_node_free);
            full = TRUE;
        }
        if (there)
            return leave(work, item, there);
        gboolean unsure = wish && weft_hosts_may_open(work->control->hosts, work->status->fabric);
        if (full || unsure) { /* the end of another move wakes it, or a host that tells something new */
            weft_rest_wait(&item->leave, &work->control->options.backoff);
            item->awaits = TRUE;
            weft_work_set_waiting(work, TRUE);
            return FALSE;
        }
        return refuse(work, item, error->message, FALSE);
    }
    return FALSE;
}
