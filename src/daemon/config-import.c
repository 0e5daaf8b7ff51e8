#include "config.h"

#include "clock.h"
#include "errors.h"
#include "records.h"

/* Changes of one transaction: enough to be quick, few enough that the store's writer is not held up. */
#define BATCH 1000
#define TOLD_MAX 100 /* changes that are told of at once */

/* A record that is to be written (object) or deleted (NULL). */
typedef struct Change {
    WeftKind kind;
    char *key;
    gint64 expected;
    gconstpointer object;
    gboolean draining; /* the marks of a host, which the file does not know */
    gboolean moving, disrupting;
    gboolean evicting;
    WeftHost *found; /* a host whose hardware was read from it, as the file does not describe it; NULL: it does */
    gint64 created;  /* of a tenant, likewise */
    json_t *retired; /* of a fabric: what was shared until now */
} Change;

/* What is to be done, all of it checked before any of it is done. */
typedef struct Plan {
    const WeftConfig *config;
    WeftStore *store;
    GArray *changes; /* Change */
} Plan;

/* A record of the store and its value. */
typedef struct Old {
    const WeftRecord *record;
    json_t *json;
} Old;

static void
change_clear(gpointer data)
{
    Change *change = data;
    g_free(change->key);
    weft_host_free(change->found);
    json_decref(change->retired);
}

static void
plan_delete(Plan *plan, WeftKind kind, const char *key, gint64 expected)
{
    Change change = { .kind = kind, .key = g_strdup(key), .expected = expected };
    g_array_append_val(plan->changes, change);
}

static const char *
text_of(const json_t *json, const char *field)
{
    return json_string_value(json_object_get(json, field));
}

static gboolean
is_from_file(const json_t *json)
{
    return g_strcmp0(text_of(json, "origin"), weft_origin_words[WEFT_ORIGIN_CONFIG]) == 0;
}

/* TRUE in ret_any when the query finds a record. */
static gboolean
any(WeftStore *store, WeftQuery query, gboolean *ret_any, GError **error)
{
    query.limit = 1;
    g_autoptr(GPtrArray) records = weft_store_list(store, &query, error);
    if (records)
        *ret_any = records->len > 0;
    return records != NULL;
}

/* --- hosts --- */

/* Are nodes there, or on their way to it? */
static gboolean
is_busy(const Plan *plan, const char *host, gboolean *ret_busy, GError **error)
{
    return any(plan->store, (WeftQuery){ .kind = WEFT_KIND_NODE, .place = host }, ret_busy, error) &&
           (*ret_busy || any(plan->store, (WeftQuery){ .kind = WEFT_KIND_MOVE, .place = host }, ret_busy, error));
}

/* What nodes hold is named by these. */
static const char *const hardware[] = { "numa", "housekeeping", "hcas", "gpus", "discovered" };

static void
keep_found(json_t *json, const Old *old, Change *change)
{
    for (gsize i = 0; i < G_N_ELEMENTS(hardware); i++) {
        json_t *found = json_object_get(old->json, hardware[i]);
        if (found)
            json_object_set(json, hardware[i], found);
    }
    change->found = weft_host_from_json(json, "", NULL);
}

/* Which port an adapter is, where the file leaves that to the fabric's map. */
static gboolean
keep_ports(json_t *json, const json_t *old)
{
    gboolean kept = FALSE;
    json_t *hca, *known;
    gsize i, k;
    if (!json_equal(json_object_get(json, "fabric"), json_object_get(old, "fabric")))
        return FALSE;
    json_array_foreach (json_object_get(json, "hcas"), i, hca)
        json_array_foreach (json_object_get(old, "hcas"), k, known) {
            json_t *guid = json_object_get(known, "port_guid");
            if (guid && !json_object_get(hca, "port_guid") &&
                json_equal(json_object_get(hca, "name"), json_object_get(known, "name")))
                kept = json_object_set(hca, "port_guid", guid) == 0;
        }
    return kept;
}

static json_t *
encode_host(gconstpointer object, const Old *old, Change *change)
{
    WeftHost host = *(const WeftHost *)object;
    change->draining = host.draining = old && json_is_true(json_object_get(old->json, "draining"));
    change->moving = host.moving = old && json_is_true(json_object_get(old->json, "moving"));
    change->disrupting = host.disrupting = old && json_is_true(json_object_get(old->json, "disrupting"));
    change->evicting = host.evicting = old && json_is_true(json_object_get(old->json, "evicting"));
    json_t *json = weft_host_to_json(&host);
    if (host.cores->len == 0 && old && json_is_true(json_object_get(old->json, "discovered")))
        keep_found(json, old, change);
    else if (old && keep_ports(json, old->json))
        change->found = weft_host_from_json(json, "", NULL);
    return json;
}

static void
put_host(WeftTxn *txn, const Change *change)
{
    if (change->found) {
        weft_txn_put_host(txn, change->found, change->expected);
        return;
    }
    WeftHost host = *(const WeftHost *)change->object;
    host.draining = change->draining;
    host.moving = change->moving;
    host.disrupting = change->disrupting;
    host.evicting = change->evicting;
    weft_txn_put_host(txn, &host, change->expected);
}

static gboolean
remove_host(Plan *plan, const Old *old, GError **error)
{
    const char *name = old->record->key;
    gboolean busy;
    if (!is_busy(plan, name, &busy, error))
        return FALSE;
    if (busy)
        return weft_error_refuse(
            error, WEFT_ERROR_CONFLICT,
            "host %s is no longer in the file, but nodes are on it; put it back, \"weft drain --evict %s\", "
            "then take it out",
            name, name);
    plan_delete(plan, WEFT_KIND_HOST_STATUS, name, WEFT_ANY);
    return TRUE;
}

/* What nodes hold is named by the host's description: it stays while they are there. */
static gboolean
change_host(Plan *plan, const Old *old, json_t *new, GError **error)
{
    static const char *const held[] = { "fabric", "numa", "housekeeping", "hcas", "gpus" };
    const char *name = old->record->key, *field = NULL;
    for (gsize i = 0; i < G_N_ELEMENTS(held); i++) {
        const json_t *a = json_object_get(old->json, held[i]), *b = json_object_get(new, held[i]);
        if (a != b && !json_equal(a, b))
            field = held[i];
    }
    gboolean busy = FALSE;
    if (field && !is_busy(plan, name, &busy, error))
        return FALSE;
    if (busy)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "host %s: %s changed in the file while nodes are on it; change it back, \"weft drain --evict "
                                 "%s\", then change it",
                                 name, field, name);
    return TRUE;
}

/* --- fabrics --- */

static guint
number_of(const json_t *json, const char *field)
{
    const char *text = text_of(json, field);
    return text ? (guint)g_ascii_strtoull(text, NULL, 16) : 0;
}

static gboolean
is_shared(const json_t *fabric, const json_t *one)
{
    size_t i;
    json_t *shared;
    json_array_foreach (json_object_get(fabric, "shared"), i, shared)
        if (number_of(shared, "pkey") == number_of(one, "pkey") &&
            g_strcmp0(text_of(shared, "name"), text_of(one, "name")) == 0)
            return TRUE;
    return FALSE;
}

/* What is shared no more has ended: it is removed, although its number is not weft's from now on. */
static json_t *
encode_fabric(gconstpointer object, const Old *old, Change *change)
{
    json_t *new = weft_fabric_to_json(object), *shared;
    size_t i;
    change->retired = json_array();
    json_array_foreach (old ? json_object_get(old->json, "shared") : NULL, i, shared)
        if (!is_shared(new, shared))
            json_array_append(change->retired, shared);
    return new;
}

static void
put_fabric(WeftTxn *txn, const Change *change)
{
    const WeftFabric *fabric = change->object;
    size_t i;
    json_t *shared;
    weft_txn_put_fabric(txn, fabric, change->expected);
    json_array_foreach (change->retired, i, shared) {
        g_autofree char *name = weft_partition_shared_name(text_of(shared, "name"));
        weft_txn_rest_pkey(txn, fabric->name, number_of(shared, "pkey"), name, NULL, weft_clock_now());
    }
}

/* A record of that kind whose fabric is the given one; NULL without an error: none. */
static char *
user_of_fabric(WeftStore *store, WeftKind kind, const char *fabric, gboolean (*counts)(const json_t *), GError **error)
{
    WeftQuery query = { .kind = kind };
    g_autoptr(GPtrArray) records = weft_store_list(store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = g_ptr_array_index(records, i);
        json_auto_t *json = json_loads(record->value, 0, NULL);
        if (g_strcmp0(text_of(json, "fabric"), fabric) == 0 && (!counts || counts(json)))
            return g_strdup(record->key);
    }
    return NULL;
}

static gboolean
is_from_api(const json_t *json)
{
    return !is_from_file(json);
}

static gboolean
check_fabric_unused(Plan *plan, const char *name, WeftKind kind, gboolean (*counts)(const json_t *), const char *what,
                    GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autofree char *user = user_of_fabric(plan->store, kind, name, counts, &failed);
    if (user)
        return weft_error_refuse(
            error, WEFT_ERROR_CONFLICT, "fabric %s: %s, but %s %s uses it; undo that, or remove the %s first", name, what,
            kind == WEFT_KIND_HOST ? "host" : "cluster", user, kind == WEFT_KIND_HOST ? "host" : "cluster");
    if (failed)
        g_propagate_error(error, g_steal_pointer(&failed));
    return failed == NULL;
}

static gboolean
remove_fabric(Plan *plan, const Old *old, GError **error)
{
    static const char what[] = "it is no longer in the file";
    const char *name = old->record->key;
    WeftQuery query = { .kind = WEFT_KIND_PKEY_REST, .scope = name };
    g_autoptr(GPtrArray) resting = weft_store_list(plan->store, &query, error);
    for (guint i = 0; resting && i < resting->len; i++)
        plan_delete(plan, WEFT_KIND_PKEY_REST, ((const WeftRecord *)resting->pdata[i])->key, WEFT_ANY);
    return resting && check_fabric_unused(plan, name, WEFT_KIND_HOST, is_from_api, what, error) &&
           check_fabric_unused(plan, name, WEFT_KIND_CLUSTER_STATUS, NULL, what, error);
}

/* Its partition could be neither changed nor removed any more. */
static gboolean
check_range(Plan *plan, const char *fabric, json_t *new, GError **error)
{
    guint first = number_of(new, "pkey_first"), last = number_of(new, "pkey_last");
    g_autoptr(GPtrArray) records = weft_store_list(plan->store, &(WeftQuery){ .kind = WEFT_KIND_CLUSTER_STATUS }, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = records->pdata[i];
        json_auto_t *status = json_loads(record->value, 0, NULL);
        guint pkey = (guint)json_integer_value(json_object_get(status, "pkey"));
        if (pkey && (pkey < first || pkey > last) && g_strcmp0(text_of(status, "fabric"), fabric) == 0)
            return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                     "fabric %s: pkey_first to pkey_last, 0x%04x to 0x%04x, leaves out 0x%04x of cluster %s; "
                                     "widen it, or remove the cluster first",
                                     fabric, first, last, pkey, record->key);
    }
    return records != NULL;
}

/* A number that a cluster has cannot become everybody's. */
static gboolean
check_shared(Plan *plan, const char *fabric, json_t *new, GError **error)
{
    json_t *item;
    gsize i;
    json_array_foreach (json_object_get(new, "shared"), i, item) {
        GError *failed = NULL;
        guint pkey = (guint)g_ascii_strtoull(text_of(item, "pkey"), NULL, 16);
        g_autoptr(WeftRecord) holder = weft_store_holder_of_pkey(plan->store, fabric, pkey, &failed);
        if (holder && holder->kind == WEFT_KIND_CLUSTER_STATUS)
            g_set_error(&failed, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                        "shared: P_Key 0x%04x of \"%s\" is that of cluster %s; choose another", pkey, text_of(item, "name"),
                        holder->key);
        if (failed) {
            g_propagate_error(error, failed);
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean
has_guarantee(const json_t *status)
{
    return json_integer_value(json_object_get(status, "sl")) > 0;
}

static json_int_t
share_of(json_t *fabric, json_t *sl)
{
    size_t i;
    json_t *lane;
    json_array_foreach (json_object_get(json_object_get(fabric, "qos"), "lanes"), i, lane)
        if (json_equal(json_object_get(lane, "sl"), sl))
            return json_integer_value(json_object_get(lane, "share"));
    return 0;
}

/* What was promised in a lane would have no room any more. */
static gboolean
lanes_shrink(json_t *old, json_t *new)
{
    size_t i;
    json_t *lane;
    json_array_foreach (json_object_get(json_object_get(old, "qos"), "lanes"), i, lane)
        if (share_of(new, json_object_get(lane, "sl")) < json_integer_value(json_object_get(lane, "share")))
            return TRUE;
    return FALSE;
}

static gboolean
change_fabric(Plan *plan, const Old *old, json_t *new, GError **error)
{
    const char *name = old->record->key;
    if (!json_equal(json_object_get(old->json, "vxlan_base"), json_object_get(new, "vxlan_base")) &&
        !check_fabric_unused(plan, name, WEFT_KIND_CLUSTER_STATUS, NULL, "vxlan_base changed in the file", error))
        return FALSE;
    if (!check_range(plan, name, new, error) || !check_shared(plan, name, new, error))
        return FALSE;
    return !lanes_shrink(old->json, new) || check_fabric_unused(plan, name, WEFT_KIND_CLUSTER_STATUS, has_guarantee,
                                                                "a lane of it went or shrank in the file", error);
}

/* --- tenants --- */

static json_t *
encode_tenant(gconstpointer object, const Old *old, Change *change)
{
    WeftTenant tenant = *(const WeftTenant *)object;
    change->created = tenant.created = old ? json_integer_value(json_object_get(old->json, "created")) : weft_clock_now();
    return weft_tenant_to_json(&tenant);
}

static void
put_tenant(WeftTxn *txn, const Change *change)
{
    WeftTenant tenant = *(const WeftTenant *)change->object;
    tenant.created = change->created;
    weft_txn_put_tenant(txn, &tenant, change->expected);
}

/* Those of the file go with the tenant: the file was checked to name no principal of a tenant that it does not have. */
static gboolean
check_no_principals(Plan *plan, const char *tenant, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_PRINCIPAL, .scope = tenant };
    g_autoptr(GPtrArray) records = weft_store_list(plan->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = g_ptr_array_index(records, i);
        json_auto_t *json = json_loads(record->value, 0, NULL);
        if (!is_from_file(json))
            return weft_error_refuse(
                error, WEFT_ERROR_CONFLICT,
                "tenant %s is no longer in the file, but principal %s, made through the API, belongs to it; put "
                "it back and remove the principal first",
                tenant, record->key);
    }
    return records != NULL;
}

static gboolean
remove_tenant(Plan *plan, const Old *old, GError **error)
{
    const char *name = old->record->key;
    gboolean busy;
    if (!any(plan->store, (WeftQuery){ .kind = WEFT_KIND_CLUSTER, .scope = name }, &busy, error))
        return FALSE;
    if (busy)
        return weft_error_refuse(
            error, WEFT_ERROR_CONFLICT,
            "tenant %s is no longer in the file, but has clusters; put it back, remove them, then take it out", name);
    return check_no_principals(plan, name, error);
}

static gboolean
change_tenant(Plan *plan, const Old *old, json_t *new, GError **error)
{
    return TRUE;
}

/* --- principals --- */

static json_t *
encode_principal(gconstpointer object, const Old *old, Change *change)
{
    return weft_principal_to_json(object);
}

static void
put_principal(WeftTxn *txn, const Change *change)
{
    weft_txn_put_principal(txn, change->object, change->expected);
}

/* Tokens of a principal that is gone, or that is now another tenant's, are worth nothing. */
static gboolean
remove_tokens(Plan *plan, const char *principal, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_TOKEN, .place = principal };
    g_autoptr(GPtrArray) records = weft_store_list(plan->store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        const WeftRecord *record = g_ptr_array_index(records, i);
        plan_delete(plan, WEFT_KIND_TOKEN, record->key, record->revision);
    }
    return records != NULL;
}

static gboolean
remove_principal(Plan *plan, const Old *old, GError **error)
{
    return remove_tokens(plan, old->record->key, error);
}

static gboolean
change_principal(Plan *plan, const Old *old, json_t *new, GError **error)
{
    if (g_strcmp0(text_of(old->json, "tenant"), text_of(new, "tenant")) == 0)
        return TRUE;
    return remove_tokens(plan, old->record->key, error);
}

/* --- what the file describes, kind by kind --- */

typedef struct Section {
    WeftKind kind;
    gsize offset;        /* of its list in WeftConfig */
    gboolean has_origin; /* may come through the API too */
    const char *frees;   /* a field whose claim another record of the kind may take over: it is given up before */
    json_t *(*encode)(gconstpointer object, const Old *old, Change *change);
    void (*put)(WeftTxn *txn, const Change *change);
    /* May it be changed, may it go? And what goes with it. */
    gboolean (*change)(Plan *plan, const Old *old, json_t *new, GError **error);
    gboolean (*remove)(Plan *plan, const Old *old, GError **error);
} Section;

/* clang-format off */
static const Section sections[] = {
    { WEFT_KIND_FABRIC, offsetof(WeftConfig, fabrics), FALSE, NULL,
      encode_fabric, put_fabric, change_fabric, remove_fabric },
    { WEFT_KIND_TENANT, offsetof(WeftConfig, tenants), TRUE, NULL,
      encode_tenant, put_tenant, change_tenant, remove_tenant },
    { WEFT_KIND_HOST, offsetof(WeftConfig, hosts), TRUE, NULL,
      encode_host, put_host, change_host, remove_host },
    { WEFT_KIND_PRINCIPAL, offsetof(WeftConfig, principals), TRUE, "unix_user",
      encode_principal, put_principal, change_principal, remove_principal },
};
/* clang-format on */

static const Section *
section_of(WeftKind kind)
{
    for (gsize i = 0; i < G_N_ELEMENTS(sections); i++) {
        if (sections[i].kind == kind)
            return &sections[i];
    }
    g_assert_not_reached();
}

static void
old_free(gpointer data)
{
    Old *old = data;
    json_decref(old->json);
    g_free(old);
}

/* Key to Old. */
static GHashTable *
index_records(const GPtrArray *records, GError **error)
{
    g_autoptr(GHashTable) index = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, old_free);
    for (guint i = 0; i < records->len; i++) {
        Old *old = g_new0(Old, 1);
        old->record = g_ptr_array_index(records, i);
        old->json = json_loads(old->record->value, 0, NULL);
        g_hash_table_insert(index, old->record->key, old);
        if (!old->json) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_FAILED, "store: %s %s is damaged; restore the store from a backup",
                        weft_kind_words[old->record->kind], old->record->key);
            return NULL;
        }
    }
    return g_steal_pointer(&index);
}

static gboolean
check_owner(const Section *section, const Old *old, GError **error)
{
    if (!section->has_origin || is_from_file(old->json))
        return TRUE;
    const char *kind = weft_kind_words[section->kind], *key = old->record->key;
    return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                             "%s %s is in the file, but was made through the API; remove it there, or take it out of the file",
                             kind, key);
}

/* Plans the write of one object, unless the store has it like that. */
static gboolean
plan_object(Plan *plan, const Section *section, gconstpointer object, const Old *old, GArray *puts, GError **error)
{
    if (old && !check_owner(section, old, error))
        return FALSE;
    Change change = { .kind = section->kind, .object = object, .expected = old ? old->record->revision : WEFT_ABSENT };
    json_auto_t *new = section->encode(object, old, &change);
    gboolean same = old && json_equal(old->json, new);
    if (same || (old && !section->change(plan, old, new, error))) {
        change_clear(&change);
        return same;
    }
    if (old && section->frees && g_strcmp0(text_of(old->json, section->frees), text_of(new, section->frees)) != 0) {
        plan_delete(plan, section->kind, old->record->key, old->record->revision);
        change.expected = WEFT_ABSENT;
    }
    g_array_append_val(puts, change);
    return TRUE;
}

static gboolean
plan_removals(Plan *plan, const Section *section, GHashTable *gone, GError **error)
{
    GHashTableIter iter;
    gpointer value;
    g_hash_table_iter_init(&iter, gone);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const Old *old = value;
        if (section->has_origin && !is_from_file(old->json))
            continue;
        if (!section->remove(plan, old, error))
            return FALSE;
        plan_delete(plan, section->kind, old->record->key, old->record->revision);
    }
    return TRUE;
}

static gboolean
plan_section(Plan *plan, const Section *section, GError **error)
{
    WeftQuery query = { .kind = section->kind };
    g_autoptr(GPtrArray) records = weft_store_list(plan->store, &query, error);
    g_autoptr(GHashTable) olds = records ? index_records(records, error) : NULL;
    g_autoptr(GArray) puts = g_array_new(FALSE, FALSE, sizeof(Change));
    g_array_set_clear_func(puts, change_clear);
    if (!olds)
        return FALSE;
    const GPtrArray *objects = G_STRUCT_MEMBER(GPtrArray *, plan->config, section->offset);
    for (guint i = 0; i < objects->len; i++) {
        gconstpointer object = g_ptr_array_index(objects, i);
        const char *name = *(char *const *)object;
        if (!plan_object(plan, section, object, g_hash_table_lookup(olds, name), puts, error))
            return FALSE;
        g_hash_table_remove(olds, name);
    }
    if (!plan_removals(plan, section, olds, error))
        return FALSE;
    g_array_append_vals(plan->changes, puts->data, puts->len);
    g_array_set_clear_func(puts, NULL); /* what they own is the plan's now */
    return TRUE;
}

static void
add_change(WeftTxn *txn, const Change *change)
{
    if (change->object)
        section_of(change->kind)->put(txn, change);
    else
        weft_txn_delete(txn, change->kind, change->key, change->expected);
}

/* What goes with another change, as a tenant's tokens do, is not told of. */
static gboolean
tell(const Plan *plan, WeftConfigTell told, gpointer data, GError **error)
{
    json_auto_t *changes = json_array();
    for (guint i = 0; i < plan->changes->len; i++) {
        const Change *change = &g_array_index(plan->changes, Change, i);
        gboolean is_told = FALSE;
        for (gsize k = 0; k < G_N_ELEMENTS(sections); k++)
            is_told |= sections[k].kind == change->kind;
        if (!is_told)
            continue;
        const char *name = change->object ? *(char *const *)change->object : change->key;
        json_array_append_new(changes, json_pack("{s:s, s:s, s:s}", "kind", weft_kind_words[change->kind], "name", name,
                                                 "change", change->object ? "written" : "removed"));
        if (json_array_size(changes) < TOLD_MAX)
            continue;
        if (!told(json_incref(changes), data, error))
            return FALSE;
        json_decref(changes);
        changes = json_array();
    }
    return !json_array_size(changes) || told(json_incref(changes), data, error);
}

/* Killed between two batches, the next start plans what is left: nothing depends on their order, since nobody is served yet. */
static gboolean
carry_out(Plan *plan, GError **error)
{
    for (guint i = 0; i < plan->changes->len;) {
        g_autoptr(WeftTxn) txn = weft_txn_new("config-imported");
        for (guint end = MIN(i + BATCH, plan->changes->len); i < end; i++)
            add_change(txn, &g_array_index(plan->changes, Change, i));
        if (!weft_store_commit_wait(plan->store, g_steal_pointer(&txn), error))
            return FALSE;
    }
    return TRUE;
}

gboolean
weft_config_check_new(const WeftConfig *config, WeftStore *store, GError **error)
{
    for (guint i = 0; i < config->managers->len; i++) {
        const WeftConfigManager *manager = config->managers->pdata[i];
        if (manager->driver != WEFT_MANAGER_UNNAMED)
            continue;
        g_autoptr(GError) failed = NULL;
        g_autoptr(WeftRecord) known = weft_store_get(store, WEFT_KIND_FABRIC, manager->fabric, &failed);
        if (failed) {
            g_propagate_error(error, g_steal_pointer(&failed));
            return FALSE;
        }
        if (!known)
            return weft_config_lacks_manager(manager, error);
    }
    return TRUE;
}

gboolean
weft_config_import(const WeftConfig *config, WeftStore *store, WeftConfigTell told, gpointer data, GError **error)
{
    Plan plan = { .config = config, .store = store, .changes = g_array_new(FALSE, FALSE, sizeof(Change)) };
    g_array_set_clear_func(plan.changes, change_clear);
    gboolean ok = TRUE;
    for (gsize i = 0; ok && i < G_N_ELEMENTS(sections); i++)
        ok = plan_section(&plan, &sections[i], error);
    ok = ok && tell(&plan, told, data, error) && carry_out(&plan, error);
    g_array_unref(plan.changes);
    return ok;
}
