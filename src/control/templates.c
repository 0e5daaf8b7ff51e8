#include "templates-private.h"

#include "clock-trust.h"
#include "clock.h"
#include "domain-xml.h"
#include "errors.h"
#include "id.h"
#include "size.h"
#include "turns.h"

#include <glib/gstdio.h>

#define TEND_MILLISECONDS 1000
#define WRITE_USED_MAX (3600 * (gint64)G_USEC_PER_SEC) /* when it was last used is written that often */
#define CREATOR "weft"
#define BEING_MADE "there is no template of its image and shape yet; one is being made"
#define NO_ROOM "there is no template of its image and shape, and its tenant's quota of templates has no room for one more"

static void
item_free(gpointer data)
{
    WeftTemplateItem *item = data;
    weft_template_free(item->record);
    g_free(item->ending);
    g_free(item);
}

static WeftTemplateItem *
find(const WeftTemplates *templates, const char *id)
{
    return g_hash_table_lookup(templates->by_id, id);
}

const WeftTemplate *
weft_templates_find(const WeftTemplates *templates, const char *id)
{
    const WeftTemplateItem *item = find(templates, id);
    return item ? item->record : NULL;
}

static WeftTemplateItem *
put(WeftTemplates *templates, WeftTemplate *record, gint64 revision)
{
    WeftTemplateItem item = { record, revision };
    WeftTemplateItem *copy = g_memdup2(&item, sizeof item);
    g_hash_table_replace(templates->by_id, record->id, copy);
    weft_images_changed(templates->control->images);
    return copy;
}

static void
forget(WeftTemplates *templates, const char *id)
{
    g_hash_table_remove(templates->by_id, id);
    weft_images_changed(templates->control->images);
}

void
weft_templates_changed(WeftTemplates *templates, const char *id)
{
    gint64 revision;
    g_autoptr(GError) error = NULL;
    WeftTemplate *record = weft_store_load_template(templates->control->store, id, &revision, &error);
    if (record)
        put(templates, record, revision);
    else if (g_error_matches(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
        forget(templates, id);
    else
        g_warning("template %s cannot be read: %s", id, error->message);
}

void
weft_templates_add_digests(const WeftTemplates *templates, GHashTable *digests)
{
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, templates->by_id);
    while (g_hash_table_iter_next(&iter, NULL, &item)) {
        const WeftTemplate *record = ((WeftTemplateItem *)item)->record;
        const char *ending = ((WeftTemplateItem *)item)->ending;
        if (ending)
            g_hash_table_add(digests, g_strdup(ending));
        if (record->digest)
            g_hash_table_add(digests, g_strdup(record->digest));
        if (record->disk)
            g_hash_table_add(digests, g_strdup(record->disk));
    }
}

/* --- writing --- */

/* What the callback of a commit has to know. */
typedef struct Written {
    WeftTemplates *templates;
    char *id;
} Written;

/* The store tells how things are, also when nothing of it happened. */
static void
written(gint64 revision, const GError *error, gpointer data)
{
    Written *written = data;
    if (error && error->code != WEFT_ERROR_CONFLICT && error->code != WEFT_ERROR_EXHAUSTED)
        g_warning("template %s: cannot be written: %s", written->id, error->message);
    if (!written->templates->control->closing)
        weft_templates_changed(written->templates, written->id);
    g_free(written->id);
    g_free(written);
}

static void
commit(WeftTemplates *templates, const char *id, WeftTxn *txn)
{
    WeftTemplateItem *item = find(templates, id);
    Written data = { templates, g_strdup(id) };
    if (item)
        item->writing = TRUE;
    weft_control_commit(templates->control, txn, written, g_memdup2(&data, sizeof data));
}

static char *
describe(const WeftTemplate *template)
{
    g_autofree char *memory = weft_size_format(template->memory);
    return g_strdup_printf("template %s of image %s with %u %s and %s", template->id, template->image, template->cores,
                           template->cores == 1 ? "core" : "cores", memory);
}

static char *
cluster_key(const char *id)
{
    g_autofree char *name = weft_template_cluster(id);
    return weft_cluster_key(WEFT_SYSTEM_TENANT, name);
}

/* The cluster that makes it is to go, if it is there. */
static void
end_cluster(const WeftTemplates *templates, WeftTxn *txn, const char *id)
{
    g_autofree char *key = cluster_key(id);
    gint64 revision;
    g_autoptr(WeftCluster) cluster = weft_store_load_cluster(templates->control->store, key, &revision, NULL);
    if (!cluster || cluster->deleted)
        return;
    cluster->deleted = TRUE;
    weft_txn_put_cluster(txn, cluster, NULL, revision);
}

/* --- one is wanted --- */

static WeftCluster *
make_cluster(const WeftTemplate *template, GError **error)
{
    g_autofree char *name = weft_template_cluster(template->id);
    json_auto_t *spec =
        json_pack("{s:s, s:i, s:i, s:I, s:I, s:s, s:s, s:s, s:b, s:i}", "name", name, "count", 1, "cores", (int)template->cores,
                  "memory", (json_int_t) template->memory, "pages", (json_int_t) template->page_size, "image", template->image,
                  "path", "bridge", "numa", "required", "preemptible", 1, "priority", WEFT_PRIORITY_MIN);
    WeftCluster *cluster = weft_cluster_from_spec(spec, error);
    if (!cluster)
        return NULL;
    cluster->id = weft_id_new();
    cluster->tenant = g_strdup(WEFT_SYSTEM_TENANT);
    cluster->creator = g_strdup(CREATOR);
    cluster->created = weft_clock_now();
    cluster->start = WEFT_START_COLD;
    cluster->capture = g_strdup(template->id);
    cluster->bridged = TRUE;
    return cluster;
}

/* One more than any of the same image and shape has had. */
static guint64
next_generation(const WeftTemplates *templates, const WeftTemplate *wanted)
{
    guint64 last = 0;
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, templates->by_id);
    while (g_hash_table_iter_next(&iter, NULL, &item)) {
        const WeftTemplate *other = ((WeftTemplateItem *)item)->record;
        if (!other->source && g_str_equal(other->image, wanted->image) && other->cores == wanted->cores &&
            other->memory == wanted->memory && other->page_size == wanted->page_size)
            last = MAX(last, other->generation);
    }
    return last + 1;
}

static void
tell_damage(WeftTxn *txn, const char *what, const char *damage)
{
    g_autofree char *message = g_strdup_printf("the saved file of %s is damaged; it is captured anew", what);
    weft_txn_put_event(txn, &(WeftEvent){ .type = (char *)"template-damaged", .message = message, .detail = (char *)damage });
}

/* Takes it over. tenant: whose node wants it, and who has room for it. revision: of a record of its id that is there;
 * WEFT_ABSENT: none is. damage: of that one, for operators; NULL: none. */
static void
want(WeftTemplates *templates, WeftTemplate *template, const WeftTenant *tenant, gint64 revision, const char *damage)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftCluster) cluster = make_cluster(template, &error);
    if (!cluster) {
        g_warning("template %s: %s", template->id, error->message);
        weft_template_free(template);
        return;
    }
    g_free(template->tenant);
    template->tenant = g_strdup(tenant->name);
    template->size = WEFT_SAVED_LIVE_MAX(template->memory);
    template->generation = next_generation(templates, template);
    template->state = WEFT_TEMPLATE_CAPTURING;
    template->since = weft_clock_now();
    g_autofree char *what = describe(template);
    const WeftTemplateItem *before = find(templates, template->id);
    g_autofree char *ending = before ? g_strdup(before->record->digest) : NULL;
    WeftTxn *txn = weft_txn_new("template-wanted");
    weft_txn_put_template(txn, template, tenant, revision);
    weft_txn_end(txn, WEFT_THING_IMAGE, ending);
    weft_txn_put_system_cluster(txn, cluster, WEFT_ABSENT);
    if (damage)
        tell_damage(txn, what, damage);
    weft_txn_tell(txn, "template-wanted", NULL, NULL, "%s is wanted, and a node boots for it (%s)", what, template->kind);
    put(templates, template, revision)->ending = g_steal_pointer(&ending);
    commit(templates, template->id, txn);
}

/* Once more, after a while, or since what was captured is damaged. */
static void
want_again(WeftTemplates *templates, const WeftTemplateItem *item, const WeftTenant *tenant, const char *damage)
{
    WeftTemplate *again = weft_template_copy(item->record);
    g_clear_pointer(&again->reason, g_free);
    g_clear_pointer(&again->detail, g_free);
    g_clear_pointer(&again->digest, g_free);
    g_clear_pointer(&again->host, g_free);
    again->captured = again->used = 0;
    again->failed += damage != NULL;
    want(templates, again, tenant, item->revision, damage);
}

static void
drop(WeftTemplates *templates, const WeftTemplateItem *item, const char *why)
{
    g_autofree char *what = describe(item->record);
    WeftTxn *txn = weft_txn_new("template-dropped");
    weft_txn_remove_template(txn, item->record, item->revision);
    end_cluster(templates, txn, item->record->id);
    weft_txn_tell(txn, "template-dropped", NULL, NULL, "%s was dropped: %s", what, why);
    commit(templates, item->record->id, txn);
}

/* --- who pays for it --- */

static gint64
last_use(const WeftTemplate *template)
{
    return MAX(template->used, template->since);
}

/* What the tenant has, and has not used for longest; NULL: none that could go. One that was made or used just now stays: else
 * two shapes that take turns would push each other out, and boot a node for it each time. */
static WeftTemplateItem *
find_oldest(const WeftTemplates *templates, const char *tenant, const WeftTemplate *but)
{
    WeftTemplateItem *oldest = NULL;
    gint64 before = weft_clock_now() - templates->control->options.template_retry;
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, templates->by_id);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        WeftTemplateItem *item = value;
        const WeftTemplate *record = item->record;
        if (record == but || record->source || item->writing || item->forked || record->state == WEFT_TEMPLATE_CAPTURING ||
            g_strcmp0(record->tenant, tenant) != 0 || last_use(record) > before)
            continue;
        if (!oldest || last_use(record) < last_use(oldest->record))
            oldest = item;
    }
    return oldest;
}

/* Is there room in its quota for a template of so many bytes, if need be in place of others of its own? What is dropped for it
 * is gone before it is claimed: commits keep their order. own: the record that is there of it; NULL: none. */
static gboolean
make_room(WeftTemplates *templates, const WeftTenant *tenant, guint64 bytes, const WeftTemplate *own)
{
    WeftStore *store = templates->control->store;
    guint64 used = 0, count = 0, limit = tenant->quota[WEFT_QUOTA_TEMPLATES];
    if (!weft_store_quota_used(store, tenant->name, WEFT_QUOTA_TEMPLATES, &used, NULL) ||
        !weft_store_templates_used(store, tenant->name, &count, NULL) || (limit && bytes > limit))
        return FALSE;
    if (own && g_strcmp0(own->tenant, tenant->name) == 0) {
        used -= MIN(used, weft_template_storage(own));
        count -= MIN(count, 1);
    }
    while (count >= WEFT_TEMPLATES_MAX || (limit && used > limit - bytes)) {
        const WeftTemplateItem *oldest = find_oldest(templates, tenant->name, own);
        if (!oldest)
            return FALSE;
        used -= MIN(used, weft_template_storage(oldest->record));
        count--;
        drop(templates, oldest, "its tenant has no room for as many");
    }
    return TRUE;
}

/* The tenant, where the template can be made for it; NULL: it cannot. */
static WeftTenant *
find_payer(WeftTemplates *templates, const char *tenant_name, const WeftTemplate *wanted)
{
    g_autoptr(GError) error = NULL;
    const WeftTemplateItem *there = find(templates, wanted->id);
    g_autoptr(WeftTenant) tenant = weft_store_load_tenant(templates->control->store, tenant_name, NULL, &error);
    if (!tenant)
        g_warning("template %s: %s", wanted->id, error->message);
    gboolean fits = tenant && make_room(templates, tenant, WEFT_SAVED_LIVE_MAX(wanted->memory), there ? there->record : NULL);
    return fits ? g_steal_pointer(&tenant) : NULL;
}

void
weft_templates_tenant_gone(WeftTemplates *templates, const char *tenant)
{
    g_autoptr(GList) items = g_hash_table_get_values(templates->by_id);
    for (GList *link = items; link; link = link->next) {
        const WeftTemplateItem *item = link->data;
        if (!item->record->source && !item->writing && g_strcmp0(item->record->tenant, tenant) == 0)
            drop(templates, item, "the tenant that it was made for is gone");
    }
    weft_primed_tenant_gone(templates, tenant);
}

/* --- choosing --- */

static const char *
find_obstacle(const WeftCluster *cluster, const WeftNode *node)
{
    if (cluster->user_data)
        return "it has user-data of its own, which only a node that boots takes in";
    if (weft_node_parts(node) > WEFT_DOMAIN_SPARE_PORTS)
        return "it has more devices of its host than can be plugged into a fork";
    if (cluster->shm || node->shm)
        return "its nodes on one host share memory";
    return NULL;
}

static gboolean
is_wanted(const WeftTemplates *templates, const WeftCluster *cluster, const WeftNode *node)
{
    return templates->control->options.templates && templates->guest && cluster->start == WEFT_START_TEMPLATE &&
           !cluster->capture && node->image;
}

static WeftTemplate *
template_of(const WeftTemplates *templates, const WeftNode *node, gboolean running, const char **ret_why)
{
    WeftControl *control = templates->control;
    const WeftInventory *inventory = weft_hosts_inventory(control->hosts, node->host, NULL);
    const WeftHost *host = weft_fleet_host(control->fleet, node->host);
    g_autofree char *kind = inventory ? weft_inventory_kind(inventory) : NULL;
    WeftTemplateNeed need = { node, host, weft_images_find(control->images, node->image), kind, templates->guest, running };
    *ret_why = NULL;
    return host ? weft_template_for(&need, ret_why) : NULL;
}

/* Once more, for the tenant whose node asks now. */
static void
try_again(WeftTemplates *templates, const WeftTemplateItem *item, const char *tenant_name)
{
    g_autoptr(WeftTenant) tenant = find_payer(templates, tenant_name, item->record);
    if (tenant)
        want_again(templates, item, tenant, NULL);
}

/* Why it is not ready; NULL: it is. */
static const char *
check_state(WeftTemplates *templates, const WeftTemplateItem *item, const char *tenant)
{
    gint64 now = weft_clock_now();
    switch (item->record->state) {
    case WEFT_TEMPLATE_READY:
        return NULL;
    case WEFT_TEMPLATE_CAPTURING:
        return BEING_MADE;
    default:
        if (!item->writing && now - item->record->since >= templates->control->options.template_retry)
            try_again(templates, item, tenant);
        return "the template of its image and shape could not be made";
    }
}

char *
weft_templates_choose(WeftTemplates *templates, const WeftCluster *cluster, const WeftNode *node, const char **ret_why)
{
    *ret_why = NULL;
    if (!is_wanted(templates, cluster, node) || !weft_images_find(templates->control->images, node->image))
        return NULL;
    *ret_why = find_obstacle(cluster, node);
    g_autoptr(WeftTemplate) wanted = *ret_why ? NULL : template_of(templates, node, FALSE, ret_why);
    if (!wanted)
        return NULL;
    const WeftTemplateItem *item = find(templates, wanted->id);
    g_autofree char *id = g_strdup(wanted->id);
    if (item) {
        *ret_why = check_state(templates, item, cluster->tenant);
    } else {
        g_autoptr(WeftTenant) tenant = find_payer(templates, cluster->tenant, wanted);
        *ret_why = tenant ? BEING_MADE : NO_ROOM;
        if (tenant)
            want(templates, g_steal_pointer(&wanted), tenant, WEFT_ABSENT, NULL);
    }
    return *ret_why ? NULL : g_steal_pointer(&id);
}

void
weft_templates_add_barred(const WeftTemplates *templates, const WeftCluster *cluster, GHashTable *hosts)
{
    g_autoptr(GPtrArray) sources = cluster->clone_of ? weft_templates_of_clone(templates, cluster->id) : NULL;
    const WeftTemplate *template = cluster->capture          ? weft_templates_find(templates, cluster->capture)
                                   : sources && sources->len ? sources->pdata[0]
                                                             : NULL;
    if (template)
        weft_hosts_add_of_other_kind(templates->control->hosts, template->kind, hosts);
}

gboolean
weft_templates_fits(const WeftTemplates *templates, const char *id, const WeftNode *node)
{
    const char *why;
    g_autoptr(WeftTemplate) own = template_of(templates, node, FALSE, &why);
    return own && g_str_equal(own->id, id);
}

void
weft_templates_note_fork(WeftTemplates *templates, const char *id)
{
    WeftTemplateItem *item = find(templates, id);
    if (item)
        item->forked = TRUE;
}

/* --- those of clones --- */

WeftTemplate *
weft_templates_describe(const WeftTemplates *templates, const WeftNode *node, const char **ret_why)
{
    *ret_why = "weftd has no guest program to give it another identity with";
    if (!templates->guest)
        return NULL;
    if (node->devices->len || node->gpus->len)
        *ret_why = "it has devices of its host, of which the memory cannot be copied while they write to it";
    else if (node->shm)
        *ret_why = "its nodes on one host share memory";
    else
        return template_of(templates, node, TRUE, ret_why);
    return NULL;
}

static int
compare_ranks(gconstpointer a, gconstpointer b)
{
    guint x = (*(WeftTemplate *const *)a)->rank, y = (*(WeftTemplate *const *)b)->rank;
    return x < y ? -1 : x > y;
}

GPtrArray *
weft_templates_of_clone(const WeftTemplates *templates, const char *cluster)
{
    GPtrArray *found = g_ptr_array_new();
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, templates->by_id);
    while (g_hash_table_iter_next(&iter, NULL, &item)) {
        WeftTemplate *record = ((WeftTemplateItem *)item)->record;
        if (g_strcmp0(record->cluster, cluster) == 0)
            g_ptr_array_add(found, record);
    }
    g_ptr_array_sort(found, compare_ranks);
    return found;
}

gboolean
weft_templates_is_source(const WeftTemplates *templates, const char *cluster)
{
    g_autofree char *prefix = g_strconcat(cluster, "-", NULL);
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, templates->by_id);
    while (g_hash_table_iter_next(&iter, NULL, &item)) {
        const WeftTemplate *record = ((WeftTemplateItem *)item)->record;
        if (record->source && record->state == WEFT_TEMPLATE_CAPTURING && g_str_has_prefix(record->source, prefix))
            return TRUE;
    }
    return FALSE;
}

gboolean
weft_templates_is_private(const WeftTemplates *templates, const char *id)
{
    const WeftTemplate *template = id ? weft_templates_find(templates, id) : NULL;
    return template && template->source;
}

void
weft_templates_put_private(const WeftTemplates *templates, WeftTxn *txn, const WeftTemplate *template)
{
    const WeftTemplateItem *item = find(templates, template->id);
    weft_txn_put_template(txn, template, NULL, item ? item->revision : WEFT_ABSENT);
}

void
weft_templates_end_clone(const WeftTemplates *templates, WeftTxn *txn, const char *cluster)
{
    g_autoptr(GPtrArray) records = weft_templates_of_clone(templates, cluster);
    for (guint i = 0; i < records->len; i++) {
        const WeftTemplate *record = records->pdata[i];
        weft_txn_remove_template(txn, record, find(templates, record->id)->revision);
    }
}

/* --- it was made, or not --- */

void
weft_templates_captured(WeftTemplates *templates, const char *id, const char *host, const WeftImageFile *file)
{
    const WeftTemplateItem *item = find(templates, id);
    if (!item || item->writing || item->record->state != WEFT_TEMPLATE_CAPTURING)
        return;
    g_autoptr(WeftTemplate) ready = weft_template_copy(item->record);
    ready->state = WEFT_TEMPLATE_READY;
    ready->since = ready->captured = ready->used = weft_clock_now();
    ready->digest = g_strdup(file->digest);
    ready->size = file->size;
    ready->host = g_strdup(host);
    weft_primed_forgive(templates, id);
    g_autofree char *what = describe(ready), *size = weft_size_about(ready->size);
    WeftTxn *txn = weft_txn_new("template-captured");
    weft_txn_put_template(txn, ready, NULL, item->revision);
    end_cluster(templates, txn, id);
    weft_txn_tell(txn, "template-captured", NULL, host, "%s, generation %" G_GUINT64_FORMAT ", is ready: %s", what,
                  ready->generation, size);
    commit(templates, id, txn);
}

void
weft_templates_failed(WeftTemplates *templates, const char *id, const char *reason, const char *detail)
{
    const WeftTemplateItem *item = find(templates, id);
    if (!item || item->writing)
        return;
    g_autoptr(WeftTemplate) failed = weft_template_copy(item->record);
    failed->state = WEFT_TEMPLATE_FAILED;
    failed->since = weft_clock_now();
    failed->failed++;
    g_clear_pointer(&failed->digest, g_free);
    failed->size = 0;
    g_free(failed->reason);
    g_free(failed->detail);
    failed->reason = g_strdup(reason);
    failed->detail = g_strdup(detail);
    g_autofree char *what = describe(failed), *retry = weft_duration_format(templates->control->options.template_retry);
    /* What was captured of a running node is not to be had again: its clone tells what comes of that. */
    g_autofree char *message =
        failed->source ? g_strdup_printf("%s failed: %s", what, reason)
                       : g_strdup_printf("%s failed: %s; nodes boot, and after %s it is tried again", what, reason, retry);
    WeftTxn *txn = weft_txn_new("template-failed");
    weft_txn_put_template(txn, failed, NULL, item->revision);
    weft_txn_end(txn, WEFT_THING_IMAGE, item->record->digest);
    end_cluster(templates, txn, id);
    weft_txn_put_event(txn, &(WeftEvent){ .type = (char *)"template-failed", .message = message, .detail = failed->detail });
    commit(templates, id, txn);
}

/* Whoever was forked before that was not: a second in a row has another cause than what lies on a disk. What was captured of a
 * running node is not to be had again. */
void
weft_templates_damaged(WeftTemplates *templates, const char *id, const char *detail)
{
    const WeftTemplateItem *item = find(templates, id);
    if (!item || item->writing || item->record->state != WEFT_TEMPLATE_READY)
        return;
    gboolean once = !item->record->failed && !item->record->source && item->record->tenant;
    g_autoptr(WeftTenant) tenant = once ? find_payer(templates, item->record->tenant, item->record) : NULL;
    if (!tenant)
        weft_templates_failed(templates, id,
                              item->record->failed ? "what was captured is damaged, once more" : "what was captured is damaged",
                              detail);
    else
        want_again(templates, item, tenant, detail ? detail : "");
}

/* --- from time to time --- */

/* Where the cluster that makes it is. */
static void
watch_capture(WeftTemplates *templates, const WeftTemplateItem *item)
{
    const char *id = item->record->id;
    gint64 limit = templates->control->options.capture_deadline, now = weft_clock_now();
    g_autofree char *key = cluster_key(id);
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftCluster) cluster = weft_store_load_cluster(templates->control->store, key, NULL, &error);
    g_autoptr(WeftClusterStatus) status = weft_store_load_cluster_status(templates->control->store, key, NULL, NULL);
    if ((!cluster && g_error_matches(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND)) || (cluster && cluster->deleted)) {
        weft_templates_failed(templates, id, "somebody ended the cluster that made it", NULL);
    } else if (status && status->phase == WEFT_CLUSTER_FAILED) {
        weft_templates_failed(templates, id, status->reason ? status->reason : "its node cannot start", status->detail);
    } else if (status && status->placed && now - status->placed > limit && !weft_clock_is_held()) {
        g_autofree char *told = weft_duration_format(limit);
        g_autofree char *reason = g_strdup_printf("it took longer than %s%s%s", told, status->reason ? ": " : "",
                                                  status->reason ? status->reason : "");
        weft_templates_failed(templates, id, reason, status->detail);
    }
}

static void
write_used(WeftTemplates *templates, WeftTemplateItem *item)
{
    gint64 now = weft_clock_now(), age = templates->control->options.template_age;
    gboolean known = item->record->used > item->record->captured; /* that it is of use at all is written at once */
    if (!item->forked || (known && now - item->record->used < MIN(age / 8, WRITE_USED_MAX)))
        return;
    g_autoptr(WeftTemplate) used = weft_template_copy(item->record);
    used->used = now;
    used->failed = 0;
    WeftTxn *txn = weft_txn_new("template-used");
    weft_txn_put_template(txn, used, NULL, item->revision);
    commit(templates, used->id, txn);
}

static void
tend_item(WeftTemplates *templates, WeftTemplateItem *item)
{
    WeftControl *control = templates->control;
    const WeftTemplate *record = item->record;
    const WeftImage *image = weft_images_find(control->images, record->image);
    if (item->writing || record->source) /* its clone decides what becomes of it */
        return;
    if (weft_images_wanted(control->images) && (!image || !weft_template_is_of(record, image)))
        drop(templates, item, "its image is gone, or is another one by now");
    else if (g_strcmp0(record->guest, templates->guest) != 0)
        drop(templates, item, "nodes have another guest program by now");
    else if (record->state == WEFT_TEMPLATE_CAPTURING)
        watch_capture(templates, item);
    else if (!item->forked && !weft_clock_is_held() && weft_clock_now() - last_use(record) > control->options.template_age)
        drop(templates, item, "nobody has used it for long");
    else if (record->state == WEFT_TEMPLATE_READY)
        write_used(templates, item);
}

static gboolean
tend(gpointer data)
{
    WeftTemplates *templates = data;
    if (templates->control->closing)
        return G_SOURCE_CONTINUE;
    g_autoptr(GList) items = g_hash_table_get_values(templates->by_id);
    for (GList *link = items; link; link = link->next)
        tend_item(templates, link->data);
    weft_primed_tend(templates);
    return G_SOURCE_CONTINUE;
}

/* --- life --- */

WeftTemplates *
weft_templates_new(WeftControl *control)
{
    WeftTemplates *templates = g_new0(WeftTemplates, 1);
    templates->control = control;
    templates->by_id = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, item_free);
    templates->primed = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, weft_primed_item_free);
    templates->primed_places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    templates->spoilt = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    if (control->options.guest && control->options.secret)
        templates->guest = g_compute_checksum_for_bytes(G_CHECKSUM_SHA256, control->options.guest);
    return templates;
}

gboolean
weft_templates_load(WeftTemplates *templates, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_TEMPLATE };
    g_autoptr(GPtrArray) records = weft_store_list(templates->control->store, &query, error);
    if (!records)
        return FALSE;
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        WeftTemplate *template = weft_record_template(record, error);
        if (!template)
            return FALSE;
        put(templates, template, record->revision);
    }
    if (!weft_primed_load(templates, error))
        return FALSE;
    guint half = (guint)MAX(templates->control->options.template_age / 2000, 50);
    templates->timer = g_timeout_add(MIN(half, TEND_MILLISECONDS), tend, templates);
    return TRUE;
}

void
weft_templates_free(WeftTemplates *templates)
{
    if (!templates)
        return;
    g_clear_handle_id(&templates->timer, g_source_remove);
    g_hash_table_unref(templates->by_id);
    g_hash_table_unref(templates->primed);
    g_hash_table_unref(templates->primed_places);
    GHashTableIter iter;
    gpointer rest;
    g_hash_table_iter_init(&iter, templates->spoilt);
    while (g_hash_table_iter_next(&iter, NULL, &rest)) {
        weft_rest_clear(rest);
        g_free(rest);
    }
    g_hash_table_unref(templates->spoilt);
    g_free(templates->guest);
    g_free(templates);
}
