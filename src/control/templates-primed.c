#include "templates-private.h"

#include "clock.h"
#include "errors.h"
#include "id.h"
#include "turns.h"

#define KEEP_BUSY (60 * (gint64)G_USEC_PER_SEC)   /* it stays that long after its last use, whoever waits for room */
#define KEEP_IDLE (3600 * (gint64)G_USEC_PER_SEC) /* … and that long where nobody does */

typedef struct WeftPrimedItem {
    WeftTemplates *templates;
    WeftPrimed *record;
    gint64 revision;     /* 0: its commit is under way */
    gboolean busy;       /* a call to its host is under way */
    gboolean going;      /* its record is to go, or is being deleted */
    gint64 used;         /* monotonic */
    GHashTable *waiting; /* set of keys of clusters */
} WeftPrimedItem;

void
weft_primed_item_free(gpointer data)
{
    WeftPrimedItem *item = data;
    weft_primed_free(item->record);
    g_hash_table_unref(item->waiting);
    g_free(item);
}

/* --- where it is --- */

/* One memory at the most: that of one tenant's nodes of a template, on a NUMA node of a host. */
typedef struct Place {
    const char *template, *tenant, *host;
    guint numa;
} Place;

static Place
place_of(const WeftNode *node)
{
    return (Place){ node->template, node->tenant, node->host,
                    node->memory->len ? g_array_index(node->memory, WeftMemory, 0).numa : 0 };
}

static Place
place_of_record(const WeftPrimed *record)
{
    return (Place){ record->template, record->tenant, record->host, record->numa };
}

static char *
place_text(Place place)
{
    return g_strdup_printf("%s %s %s %u", place.template, place.tenant, place.host, place.numa);
}

/* Takes the record over. */
static WeftPrimedItem *
add(WeftTemplates *templates, WeftPrimed *record, gint64 revision)
{
    WeftPrimedItem *item = g_new0(WeftPrimedItem, 1);
    WeftMemory memory = weft_primed_memory(record);
    *item = (WeftPrimedItem){ templates, record, revision, .used = g_get_monotonic_time() };
    item->waiting = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_hash_table_insert(templates->primed, record->id, item);
    g_hash_table_insert(templates->primed_places, place_text(place_of_record(record)), item);
    weft_fleet_take_pages(templates->control->fleet, record->host, &memory);
    return item;
}

static void
wake_waiting(const WeftPrimedItem *item)
{
    GHashTableIter iter;
    gpointer key;
    g_hash_table_iter_init(&iter, item->waiting);
    while (g_hash_table_iter_next(&iter, &key, NULL))
        weft_control_wake(item->templates->control, key);
    g_hash_table_remove_all(item->waiting);
}

/* What it held is free. */
static void
removed(WeftPrimedItem *item)
{
    WeftControl *control = item->templates->control;
    WeftMemory memory = weft_primed_memory(item->record);
    weft_fleet_give_pages(control->fleet, item->record->host, &memory);
    wake_waiting(item);
    g_autofree char *place = place_text(place_of_record(item->record));
    g_hash_table_remove(item->templates->primed_places, place);
    g_hash_table_remove(item->templates->primed, item->record->id);
    weft_control_room_changed(control);
}

static WeftPrimedItem *
find(const WeftTemplates *templates, const WeftNode *node)
{
    g_autofree char *place = place_text(place_of(node));
    return g_hash_table_lookup(templates->primed_places, place);
}

/* --- what failed there --- */

/* Devices of the host fail apart from the memory. */
static WeftRest *
rest_of(const WeftTemplates *templates, Place where, gboolean devices)
{
    g_autofree char *text = place_text(where);
    g_autofree char *place = g_strconcat(text, devices ? " devices" : "", NULL);
    WeftRest *rest = g_hash_table_lookup(templates->spoilt, place);
    if (!rest) {
        rest = g_new0(WeftRest, 1);
        g_hash_table_insert(templates->spoilt, g_steal_pointer(&place), rest);
    }
    return rest;
}

static void
spoil(const WeftTemplates *templates, WeftRest *rest, const char *why, const char *detail)
{
    WeftBackoff backoff = { templates->control->options.template_retry, templates->control->options.template_retry };
    weft_rest_fail(rest, &backoff, WEFT_DEED_FORK, why, detail);
}

/* Many may fail by the same memory, which counts once; the next is made at once, should it be the first that failed. */
static void
spoil_memory(WeftTemplates *templates, const WeftNode *node, const char *why)
{
    WeftPrimedItem *item = find(templates, node);
    WeftRest *rest = rest_of(templates, place_of(node), FALSE);
    gboolean first = rest->attempts == 0;
    if (!item || item->going)
        return;
    item->going = TRUE;
    spoil(templates, rest, why, NULL);
    if (first)
        rest->not_before = 0;
}

void
weft_templates_spoilt(WeftTemplates *templates, const WeftNode *node, WeftDeed deed, const char *why)
{
    if (deed == WEFT_DEED_PLUG && weft_node_parts(node))
        spoil(templates, rest_of(templates, place_of(node), TRUE), why, NULL);
    else
        spoil_memory(templates, node, why);
}

void
weft_primed_forgive(const WeftTemplates *templates, const char *id)
{
    GHashTableIter iter;
    gpointer place, rest;
    g_hash_table_iter_init(&iter, templates->spoilt);
    while (g_hash_table_iter_next(&iter, &place, &rest))
        if (g_str_has_prefix(place, id))
            weft_rest_clear(rest);
}

void
weft_templates_worked(WeftTemplates *templates, const WeftNode *node)
{
    weft_rest_clear(rest_of(templates, place_of(node), FALSE));
    if (weft_node_parts(node))
        weft_rest_clear(rest_of(templates, place_of(node), TRUE));
}

/* --- giving back --- */

static void
deleted(gint64 revision, const GError *error, gpointer data)
{
    WeftPrimedItem *item = data;
    item->busy = FALSE;
    if (!error && !item->templates->control->closing)
        removed(item);
}

static void
delete_record(WeftPrimedItem *item)
{
    item->busy = TRUE;
    WeftTxn *txn = weft_txn_new("memory-released");
    weft_txn_delete(txn, WEFT_KIND_PRIMED, item->record->id, item->revision);
    weft_txn_end(txn, WEFT_THING_MEMORY, item->record->id);
    weft_control_commit(item->templates->control, txn, deleted, item);
}

static void
unprimed(WeftJob *job, const GError *error)
{
    WeftPrimedItem *item = job->owner;
    WeftControl *control = item->templates->control;
    item->busy = FALSE;
    if (error) {
        g_warning("host %s: memory %s of template %s was not given back: %s", job->host, job->text, item->record->template,
                  error->message);
        weft_hosts_hint(control->hosts, job->host);
        return;
    }
    weft_hosts_set_primed(control->hosts, job->host, job->text, FALSE);
    delete_record(item);
}

static void
give_back(WeftPrimedItem *item)
{
    WeftControl *control = item->templates->control;
    const WeftHost *host = weft_fleet_host(control->fleet, item->record->host);
    item->going = TRUE;
    if (!host) { /* and with it all that was there */
        delete_record(item);
        return;
    }
    item->busy = TRUE;
    WeftJob *job = weft_job_new(WEFT_STEP_UNPRIME, host->name, host->uri, item->record->id);
    job->deadline = control->options.stop_deadline;
    job->owner = item;
    job->done = unprimed;
    weft_jobs_submit(control->jobs, job);
}

static gboolean
is_needed(const WeftPrimedItem *item, gboolean others_wait)
{
    const WeftTemplate *template = weft_templates_find(item->templates, item->record->template);
    gint64 idle = g_get_monotonic_time() - item->used;
    if (item->going || !item->record->tenant || !template || template->state != WEFT_TEMPLATE_READY ||
        template->generation != item->record->generation ||
        !weft_fleet_host(item->templates->control->fleet, item->record->host))
        return FALSE;
    return idle < (others_wait ? KEEP_BUSY : KEEP_IDLE);
}

void
weft_primed_tend(WeftTemplates *templates)
{
    gboolean others_wait = weft_turns_is_awaited(templates->control->turns);
    g_autoptr(GList) items = g_hash_table_get_values(templates->primed);
    for (GList *link = items; link; link = link->next) {
        WeftPrimedItem *item = link->data;
        if (!item->busy && item->revision && !is_needed(item, others_wait))
            give_back(item);
    }
}

/* --- making it --- */

static void
primed(WeftJob *job, const GError *error)
{
    WeftPrimedItem *item = job->owner;
    WeftControl *control = item->templates->control;
    item->busy = FALSE;
    if (error) {
        g_autofree char *words = weft_words(WEFT_DEED_FORK, error, job->deadline);
        spoil(item->templates, rest_of(item->templates, place_of_record(item->record), FALSE), words, error->message);
        if (g_error_matches(error, WEFT_ERROR, WEFT_ERROR_INVALID))
            weft_templates_damaged(item->templates, item->record->template, error->message);
        item->going = TRUE;
        weft_hosts_hint(control->hosts, job->host);
    } else {
        weft_hosts_set_primed(control->hosts, job->host, job->text, TRUE);
    }
    wake_waiting(item);
}

static void
begin(WeftPrimedItem *item, const WeftTemplate *template, const WeftPrimeOrder *order)
{
    WeftControl *control = item->templates->control;
    const WeftHost *host = weft_fleet_host(control->fleet, item->record->host);
    const WeftImageFile file = weft_template_file(template);
    WeftJob *job = weft_job_new(WEFT_STEP_PRIME, host->name, host->uri, item->record->id);
    job->xml = g_strdup(order->xml);
    job->tenant = g_strdup(order->node->tenant);
    job->saved = weft_job_file_copy(&file);
    job->deadline = weft_images_deadline(control, file.size);
    job->owner = item;
    job->done = primed;
    item->busy = TRUE;
    weft_jobs_submit(control->jobs, job);
}

static void
claimed(gint64 revision, const GError *error, gpointer data)
{
    WeftPrimedItem *item = data;
    WeftControl *control = item->templates->control;
    if (control->closing)
        return;
    if (!error) {
        item->revision = revision;
        wake_waiting(item);
        return;
    }
    /* Placement thought the pages free: it shall know better the next time. */
    if (g_error_matches(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED))
        weft_hosts_recount(control->hosts, item->record->host);
    removed(item);
}

/* FALSE: there is no room. */
static gboolean
claim(WeftTemplates *templates, const WeftTemplate *template, const WeftPrimeOrder *order)
{
    WeftControl *control = templates->control;
    const WeftNode *node = order->node;
    const WeftMemory *memory = &g_array_index(node->memory, WeftMemory, 0);
    if (!weft_fleet_has_pages(control->fleet, node->host, memory))
        return FALSE;
    WeftPrimed *record = g_new0(WeftPrimed, 1);
    g_autofree char *id = weft_id_new();
    *record = (WeftPrimed){ g_strdup_printf("%s-%s", control->options.site, id),
                            g_strdup(template->id),
                            template->generation,
                            g_strdup(node->tenant),
                            g_strdup(node->host),
                            memory->numa,
                            memory->page_size,
                            memory->pages,
                            weft_clock_now() };
    WeftTxn *txn = weft_txn_new("memory-claimed");
    weft_txn_expect(txn, WEFT_KIND_HOST, node->host, weft_hosts_revision(control->hosts, node->host));
    weft_txn_put_primed(txn, record, weft_fleet_host(control->fleet, node->host));
    WeftPrimedItem *item = add(templates, record, 0);
    g_hash_table_add(item->waiting, g_strdup(order->cluster_key));
    weft_control_commit(control, txn, claimed, item);
    return TRUE;
}

/* --- what a node needs --- */

const char *
weft_templates_primed(const WeftTemplates *templates, const WeftNode *node)
{
    const WeftTemplate *template = weft_templates_find(templates, node->template);
    const WeftPrimedItem *item = find(templates, node);
    if (!template || !item || !item->revision || item->busy || item->going || template->state != WEFT_TEMPLATE_READY ||
        template->generation != item->record->generation ||
        !weft_hosts_has_primed(templates->control->hosts, node->host, item->record->id))
        return NULL;
    return item->record->id;
}

static gboolean
refuse(char **ret_why, char **ret_detail, const char *why, const char *detail)
{
    *ret_why = g_strdup(why);
    *ret_detail = g_strdup(detail);
    return FALSE;
}

/* TRUE: it is there. FALSE, and no reason: it is on its way. */
static gboolean
bring(WeftTemplates *templates, const WeftTemplate *template, const WeftPrimeOrder *order, char **ret_why, char **ret_detail)
{
    WeftImages *images = templates->control->images;
    const char *host = order->node->host;
    WeftImageFile file = weft_template_file(template), disk = weft_template_disk(template);
    const WeftImage saved = { .name = template->image, .kernel = &file, .disk = disk.digest ? &disk : NULL };
    if (weft_images_are_on(images, host, &saved))
        return TRUE;
    const WeftRest *trouble = weft_images_trouble(images, host, &saved);
    if (trouble->attempts && weft_images_is_damaged(images, host, &saved)) {
        refuse(ret_why, ret_detail, "the saved file of its template is damaged", trouble->detail);
        weft_templates_damaged(templates, template->id, *ret_detail);
        return FALSE;
    }
    if (trouble->attempts)
        return refuse(ret_why, ret_detail, "its template did not reach its host", trouble->detail);
    weft_images_bring(images, host, &saved, order->cluster_key);
    return FALSE;
}

gboolean
weft_templates_prime(WeftTemplates *templates, const WeftPrimeOrder *order, char **ret_why, char **ret_detail)
{
    const WeftNode *node = order->node;
    const WeftTemplate *template = weft_templates_find(templates, node->template);
    const WeftRest *memory = rest_of(templates, place_of(node), FALSE);
    const WeftRest *devices = rest_of(templates, place_of(node), weft_node_parts(node) > 0);
    gint64 now = g_get_monotonic_time();
    const WeftRest *rest = weft_rest_is_over(memory, now) ? devices : memory;
    *ret_why = *ret_detail = NULL;
    if (!weft_rest_is_over(rest, now))
        return refuse(ret_why, ret_detail, rest->what, rest->detail);
    if (!template || template->state != WEFT_TEMPLATE_READY)
        return refuse(ret_why, ret_detail, "its template is gone", NULL);
    if (!bring(templates, template, order, ret_why, ret_detail))
        return *ret_why == NULL;
    if (template->disk) /* whoever primed memory would write to it */
        return refuse(ret_why, ret_detail, "it goes on with a disk of its own", NULL);
    WeftPrimedItem *item = find(templates, node);
    if (!item)
        return claim(templates, template, order) ||
               refuse(ret_why, ret_detail, "its host has no memory to spare for its template", NULL);
    g_hash_table_add(item->waiting, g_strdup(order->cluster_key));
    if (item->busy || !item->revision)
        return TRUE;
    if (item->going || item->record->generation != template->generation)
        give_back(item);
    else
        begin(item, template, order);
    return TRUE;
}

void
weft_templates_used(WeftTemplates *templates, const WeftNode *node)
{
    WeftPrimedItem *item = find(templates, node);
    WeftTemplateItem *template = g_hash_table_lookup(templates->by_id, node->template);
    if (item)
        item->used = g_get_monotonic_time();
    if (template)
        template->forked = TRUE;
}

/* --- all of them --- */

void
weft_primed_tenant_gone(const WeftTemplates *templates, const char *tenant)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, templates->primed);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        WeftPrimedItem *item = value;
        item->going = item->going || g_strcmp0(item->record->tenant, tenant) == 0;
    }
}

void
weft_templates_recount(const WeftTemplates *templates, const char *host)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, templates->primed);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const WeftPrimed *record = ((WeftPrimedItem *)value)->record;
        WeftMemory memory = weft_primed_memory(record);
        if (g_str_equal(record->host, host))
            weft_fleet_take_pages(templates->control->fleet, host, &memory);
    }
}

gboolean
weft_templates_knows_primed(const WeftTemplates *templates, const char *id)
{
    return g_hash_table_contains(templates->primed, id);
}

gboolean
weft_primed_load(WeftTemplates *templates, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_PRIMED };
    g_autoptr(GPtrArray) records = weft_store_list(templates->control->store, &query, error);
    if (!records)
        return FALSE;
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        WeftPrimed *primed = weft_record_primed(record, error);
        if (!primed)
            return FALSE;
        add(templates, primed, record->revision);
    }
    return TRUE;
}
