#include "records.h"

#include "clock.h"
#include "errors.h"
#include "size.h"
#include "txn.h"

#include <stdarg.h>
#include <string.h>

/* Resources that more than one place names. */
#define CLUSTER_ID "cluster/%s"
#define TOKEN_HASH "token/%s"
#define UNIX_USER "unix/%s"
#define GUID "fabric/%s/guid/0x%016" G_GINT64_MODIFIER "x"
#define QUOTA "tenant/%s/%s"
#define HOSTS_BARE "fabric/%s/hosts/bare"
#define HOSTS_VFS "fabric/%s/hosts/vfs"
#define PRINCIPALS "tenant/%s/principals"
#define TOKENS "principal/%s/tokens"
#define IMAGE "image/%s"
#define CHECKPOINTS "tenant/%s/checkpoints"
#define TEMPLATES "tenant/%s/template-count"
#define ANSWERS "tenant/%s/answers"
#define MAC "mac/%s"
#define PKEY "fabric/%s/pkey/%u"
#define PKEY_REST "%s/0x%04x" /* the key of its record */
#define RESERVATIONS "reservations"
#define PRIMED "host/%s/numa/%u/primed/%s/%s"

char *
weft_cluster_key(const char *tenant, const char *name)
{
    return g_strdup_printf("%s/%s", tenant, name);
}

char *
weft_move_key(const char *cluster_id, guint rank)
{
    return g_strdup_printf("%s/%u", cluster_id, rank);
}

char *
weft_event_key(gint64 id)
{
    return g_strdup_printf("%016" G_GINT64_MODIFIER "x", id);
}

/* --- reading --- */

static json_t *
parse_value(const WeftRecord *record, GError **error)
{
    json_t *json = json_loads(record->value, 0, NULL);
    if (!json)
        g_set_error_literal(error, WEFT_ERROR, WEFT_ERROR_FAILED, "not JSON");
    return json;
}

static WeftRecord *
load(WeftStore *store, WeftKind kind, const char *key, gint64 *ret_revision, GError **error)
{
    GError *failure = NULL;
    WeftRecord *record = weft_store_get(store, kind, key, &failure);
    if (failure)
        g_propagate_error(error, failure);
    else if (!record)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "there is no %s %s", weft_kind_words[kind], key);
    else if (ret_revision)
        *ret_revision = record->revision;
    return record;
}

/* decode is an expression of json and error. */
#define DECODE(Type, type, decode)                                                                                             \
    Type *weft_record_##type(const WeftRecord *record, GError **error)                                                         \
    {                                                                                                                          \
        json_auto_t *json = parse_value(record, error);                                                                        \
        Type *object = json ? decode : NULL;                                                                                   \
        if (!object)                                                                                                           \
            g_prefix_error(error, "store: %s %s: ", weft_kind_words[record->kind], record->key);                               \
        return object;                                                                                                         \
    }

#define DECODE_AND_LOAD(Type, type, kind, decode)                                                                              \
    DECODE(Type, type, decode)                                                                                                 \
    Type *weft_store_load_##type(WeftStore *store, const char *key, gint64 *ret_revision, GError **error)                      \
    {                                                                                                                          \
        g_autoptr(WeftRecord) record = load(store, kind, key, ret_revision, error);                                            \
        return record ? weft_record_##type(record, error) : NULL;                                                              \
    }

DECODE(WeftFabric, fabric, weft_fabric_from_json(json, "", error))
DECODE_AND_LOAD(WeftHost, host, WEFT_KIND_HOST, weft_host_from_record(json, error))
DECODE_AND_LOAD(WeftHostStatus, host_status, WEFT_KIND_HOST_STATUS, weft_host_status_from_json(json, error))
DECODE_AND_LOAD(WeftTenant, tenant, WEFT_KIND_TENANT, weft_tenant_from_json(json, "", error))
DECODE_AND_LOAD(WeftPrincipal, principal, WEFT_KIND_PRINCIPAL, weft_principal_from_json(json, "", error))
DECODE_AND_LOAD(WeftToken, token, WEFT_KIND_TOKEN, weft_token_from_json(json, error))
DECODE_AND_LOAD(WeftImage, image, WEFT_KIND_IMAGE, weft_image_from_json(json, "", error))
DECODE_AND_LOAD(WeftCluster, cluster, WEFT_KIND_CLUSTER, weft_cluster_from_json(json, error))
DECODE_AND_LOAD(WeftClusterStatus, cluster_status, WEFT_KIND_CLUSTER_STATUS, weft_cluster_status_from_json(json, error))
DECODE_AND_LOAD(WeftNode, node, WEFT_KIND_NODE, weft_node_from_json(json, error))
DECODE_AND_LOAD(WeftReservation, reservation, WEFT_KIND_RESERVATION, weft_reservation_from_json(json, error))
DECODE_AND_LOAD(WeftTemplate, template, WEFT_KIND_TEMPLATE, weft_template_from_json(json, error))
DECODE(WeftPrimed, primed, weft_primed_from_json(json, error))
DECODE_AND_LOAD(WeftCheckpoint, checkpoint, WEFT_KIND_CHECKPOINT, weft_checkpoint_from_json(json, error))
DECODE_AND_LOAD(WeftMoveWish, move, WEFT_KIND_MOVE, weft_move_wish_from_json(json, error))
DECODE(WeftEvent, event, weft_event_from_json(json, error))
DECODE(WeftUsage, usage, weft_usage_from_json(json, error))

/* --- who has it, and how much --- */

WeftRecord *
weft_store_cluster_of_id(WeftStore *store, const char *id, GError **error)
{
    g_autofree char *resource = g_strdup_printf(CLUSTER_ID, id);
    return weft_store_holder(store, resource, error);
}

WeftRecord *
weft_store_token_of_hash(WeftStore *store, const char *hash, GError **error)
{
    g_autofree char *resource = g_strdup_printf(TOKEN_HASH, hash);
    return weft_store_holder(store, resource, error);
}

WeftRecord *
weft_store_principal_of_user(WeftStore *store, const char *unix_user, GError **error)
{
    g_autofree char *resource = g_strdup_printf(UNIX_USER, unix_user);
    return weft_store_holder(store, resource, error);
}

WeftRecord *
weft_store_holder_of_guid(WeftStore *store, const char *fabric, guint64 guid, GError **error)
{
    g_autofree char *resource = g_strdup_printf(GUID, fabric, guid);
    return weft_store_holder(store, resource, error);
}

WeftRecord *
weft_store_holder_of_mac(WeftStore *store, const char *mac, GError **error)
{
    g_autofree char *resource = g_strdup_printf(MAC, mac);
    return weft_store_holder(store, resource, error);
}

WeftRecord *
weft_store_holder_of_pkey(WeftStore *store, const char *fabric, guint pkey, GError **error)
{
    g_autofree char *resource = g_strdup_printf(PKEY, fabric, pkey);
    return weft_store_holder(store, resource, error);
}

gboolean
weft_store_quota_used(WeftStore *store, const char *tenant, WeftQuota quota, guint64 *ret_used, GError **error)
{
    g_autofree char *resource = g_strdup_printf(QUOTA, tenant, weft_quota_words[quota]);
    return weft_store_used(store, resource, ret_used, error);
}

gboolean
weft_store_count_hosts(WeftStore *store, const char *fabric, guint64 *ret_bare, guint64 *ret_vfs, GError **error)
{
    g_autofree char *bare = g_strdup_printf(HOSTS_BARE, fabric);
    g_autofree char *vfs = g_strdup_printf(HOSTS_VFS, fabric);
    return weft_store_used(store, bare, ret_bare, error) && weft_store_used(store, vfs, ret_vfs, error);
}

gboolean
weft_store_tokens_used(WeftStore *store, const char *principal, guint64 *ret_used, GError **error)
{
    g_autofree char *resource = g_strdup_printf(TOKENS, principal);
    return weft_store_used(store, resource, ret_used, error);
}

gboolean
weft_store_answers_used(WeftStore *store, const char *tenant, guint64 *ret_used, GError **error)
{
    g_autofree char *resource = g_strdup_printf(ANSWERS, tenant);
    return weft_store_used(store, resource, ret_used, error);
}

gboolean
weft_store_templates_used(WeftStore *store, const char *tenant, guint64 *ret_used, GError **error)
{
    g_autofree char *resource = g_strdup_printf(TEMPLATES, tenant);
    return weft_store_used(store, resource, ret_used, error);
}

gboolean
weft_store_checkpoints_used(WeftStore *store, const char *tenant, guint64 *ret_used, GError **error)
{
    g_autofree char *resource = g_strdup_printf(CHECKPOINTS, tenant);
    return weft_store_used(store, resource, ret_used, error);
}

gboolean
weft_store_image_used(WeftStore *store, const char *image, guint64 *ret_used, GError **error)
{
    g_autofree char *resource = g_strdup_printf(IMAGE, image);
    return weft_store_used(store, resource, ret_used, error);
}

/* --- writing --- */

void
weft_txn_put_fabric(WeftTxn *txn, const WeftFabric *fabric, gint64 expected)
{
    weft_txn_put(txn, WEFT_KIND_FABRIC, fabric->name, NULL, NULL, weft_fabric_to_json(fabric), expected);
    for (guint i = 0; i < fabric->shared->len; i++)
        weft_txn_claim(txn, PKEY, fabric->name, ((const WeftShared *)fabric->shared->pdata[i])->pkey);
}

/* One whose hardware is not known yet may. */
static gboolean
may_have_vfs(const WeftHost *host)
{
    gboolean may = host->cores->len == 0;
    for (guint i = 0; i < host->hcas->len; i++)
        may |= ((const WeftHca *)host->hcas->pdata[i])->vfs > 0;
    return may;
}

void
weft_txn_put_host(WeftTxn *txn, const WeftHost *host, gint64 expected)
{
    weft_txn_put(txn, WEFT_KIND_HOST, host->name, NULL, NULL, weft_host_to_json(host), expected);
    for (guint i = 0; i < host->hcas->len; i++) {
        const WeftHca *hca = host->hcas->pdata[i];
        if (hca->port_guid)
            weft_txn_claim(txn, GUID, host->fabric, hca->port_guid);
    }
    if (may_have_vfs(host))
        weft_txn_share(txn, 1, 0, HOSTS_VFS, host->fabric);
    else
        weft_txn_share(txn, 1, 0, HOSTS_BARE, host->fabric);
}

void
weft_txn_put_host_status(WeftTxn *txn, const WeftHostStatus *status, gint64 expected)
{
    weft_txn_put(txn, WEFT_KIND_HOST_STATUS, status->host, NULL, NULL, weft_host_status_to_json(status), expected);
}

void
weft_txn_put_tenant(WeftTxn *txn, const WeftTenant *tenant, gint64 expected)
{
    weft_txn_put(txn, WEFT_KIND_TENANT, tenant->name, NULL, NULL, weft_tenant_to_json(tenant), expected);
}

void
weft_txn_put_principal(WeftTxn *txn, const WeftPrincipal *principal, gint64 expected)
{
    weft_txn_put(txn, WEFT_KIND_PRINCIPAL, principal->name, principal->tenant, NULL, weft_principal_to_json(principal),
                 expected);
    if (principal->unix_user)
        weft_txn_claim(txn, UNIX_USER, principal->unix_user);
    if (principal->tenant)
        weft_txn_share(txn, 1, 0, PRINCIPALS, principal->tenant);
}

void
weft_txn_put_token(WeftTxn *txn, const WeftToken *token, gint64 expected)
{
    weft_txn_put(txn, WEFT_KIND_TOKEN, token->id, token->tenant, token->principal, weft_token_to_json(token), expected);
    weft_txn_claim(txn, TOKEN_HASH, token->hash);
    weft_txn_share(txn, 1, WEFT_TOKENS_MAX, TOKENS, token->principal);
}

void
weft_txn_put_reservation(WeftTxn *txn, const WeftReservation *reservation, gint64 expected)
{
    weft_txn_put(txn, WEFT_KIND_RESERVATION, reservation->name, NULL, NULL, weft_reservation_to_json(reservation), expected);
    weft_txn_share(txn, 1, WEFT_RESERVATIONS_MAX, RESERVATIONS);
}

void
weft_txn_put_image(WeftTxn *txn, const WeftImage *image, gint64 expected)
{
    weft_txn_put(txn, WEFT_KIND_IMAGE, image->name, NULL, NULL, weft_image_to_json(image), expected);
}

/* tenant NULL: without a limit. */
static void
share_quota(WeftTxn *txn, const char *name, const WeftTenant *tenant, WeftQuota quota, guint64 amount)
{
    weft_txn_share(txn, amount, tenant ? tenant->quota[quota] : 0, QUOTA, name, weft_quota_words[quota]);
}

void
weft_txn_put_template(WeftTxn *txn, const WeftTemplate *template, const WeftTenant *tenant, gint64 expected)
{
    weft_txn_put(txn, WEFT_KIND_TEMPLATE, template->id, NULL, NULL, weft_template_to_json(template), expected);
    if (!template->tenant)
        return;
    share_quota(txn, template->tenant, tenant, template->source ? WEFT_QUOTA_STORAGE : WEFT_QUOTA_TEMPLATES,
                weft_template_storage(template));
    if (!template->source)
        weft_txn_share(txn, 1, tenant ? WEFT_TEMPLATES_MAX : 0, TEMPLATES, template->tenant);
}

static json_t *
make_checkpoint(gconstpointer data)
{
    return weft_checkpoint_to_json(data);
}

void
weft_txn_put_checkpoint(WeftTxn *txn, const WeftCheckpoint *checkpoint, const WeftTenant *tenant, gint64 expected)
{
    g_autofree char *key = weft_cluster_key(checkpoint->tenant, checkpoint->name);
    const WeftLateValue value = { make_checkpoint, NULL, weft_checkpoint_copy(checkpoint), (GDestroyNotify)weft_checkpoint_free,
                                  .told = TRUE };
    weft_txn_put_late(txn, WEFT_KIND_CHECKPOINT, key, checkpoint->tenant, checkpoint->cluster, &value, expected);
    for (guint i = 0; i < checkpoint->wish->groups->len; i++)
        weft_txn_share(txn, 1, 0, IMAGE, ((const WeftGroup *)checkpoint->wish->groups->pdata[i])->image);
    if (!checkpoint->hidden)
        weft_txn_share(txn, 1, WEFT_CHECKPOINTS_MAX, CHECKPOINTS, checkpoint->tenant);
    share_quota(txn, checkpoint->tenant, tenant, WEFT_QUOTA_STORAGE, weft_checkpoint_storage(checkpoint));
}

void
weft_txn_put_move(WeftTxn *txn, const WeftMoveWish *wish, const char *on, gint64 expected)
{
    g_autofree char *key = weft_move_key(wish->cluster, wish->rank);
    weft_txn_put(txn, WEFT_KIND_MOVE, key, wish->cluster, on, weft_move_wish_to_json(wish), expected);
}

void
weft_txn_put_system_cluster(WeftTxn *txn, const WeftCluster *cluster, gint64 expected)
{
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    weft_txn_put(txn, WEFT_KIND_CLUSTER, key, cluster->tenant, NULL, weft_cluster_to_json(cluster), expected);
    weft_txn_claim(txn, CLUSTER_ID, cluster->id);
}

void
weft_txn_put_cluster(WeftTxn *txn, const WeftCluster *cluster, const WeftTenant *tenant, gint64 expected)
{
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    weft_txn_put(txn, WEFT_KIND_CLUSTER, key, cluster->tenant, NULL, weft_cluster_to_json(cluster), expected);
    if (cluster->deleted) {
        weft_txn_keep_claims(txn);
        return;
    }
    guint64 demand[WEFT_QUOTAS];
    weft_cluster_demand(cluster, demand);
    weft_txn_claim(txn, CLUSTER_ID, cluster->id);
    for (WeftQuota quota = 0; quota < WEFT_QUOTAS; quota++)
        share_quota(txn, cluster->tenant, tenant, quota, demand[quota]);
    for (guint i = 0; i < cluster->groups->len; i++)
        weft_txn_share(txn, 1, 0, IMAGE, ((const WeftGroup *)cluster->groups->pdata[i])->image);
}

void
weft_txn_put_cluster_status(WeftTxn *txn, const WeftClusterStatus *status, gint64 expected)
{
    g_autofree char *key = weft_cluster_key(status->tenant, status->name);
    weft_txn_put(txn, WEFT_KIND_CLUSTER_STATUS, key, status->tenant, NULL, weft_cluster_status_to_json(status), expected);
    if (status->pkey)
        weft_txn_claim(txn, PKEY, status->fabric, status->pkey);
}

void
weft_txn_rest_pkey(WeftTxn *txn, const char *fabric, guint pkey, const char *name, const char *tenant, gint64 now)
{
    g_autofree char *key = g_strdup_printf(PKEY_REST, fabric, pkey);
    json_t *value = json_pack("{s:I, s:s, s:s*}", "freed", (json_int_t)now, "name", name, "tenant", tenant);
    weft_txn_put(txn, WEFT_KIND_PKEY_REST, key, fabric, NULL, value, WEFT_ANY);
}

void
weft_txn_forget_pkey(WeftTxn *txn, const char *fabric, guint pkey)
{
    g_autofree char *key = g_strdup_printf(PKEY_REST, fabric, pkey);
    weft_txn_delete(txn, WEFT_KIND_PKEY_REST, key, WEFT_ANY);
}

gboolean
weft_record_pkey_rest(const WeftRecord *record, guint *ret_pkey, char **ret_name, char **ret_tenant, gint64 *ret_freed)
{
    const char *number = strrchr(record->key, '/');
    guint64 pkey;
    json_auto_t *json = json_loads(record->value, 0, NULL);
    if (!number || !g_ascii_string_to_unsigned(number + strlen("/0x"), 16, 1, WEFT_PKEY_LAST, &pkey, NULL))
        return FALSE;
    *ret_pkey = (guint)pkey;
    *ret_freed = json_integer_value(json_object_get(json, "freed"));
    *ret_name = g_strdup(json_string_value(json_object_get(json, "name")));
    *ret_tenant = g_strdup(json_string_value(json_object_get(json, "tenant")));
    return TRUE;
}

static guint64
pages_of(const WeftHost *host, const WeftMemory *memory)
{
    if (memory->numa >= host->numa->len)
        return 0;
    const WeftNuma *numa = &g_array_index(host->numa, WeftNuma, memory->numa);
    for (guint i = 0; i < numa->n_pages; i++)
        if (numa->pages[i].size == memory->page_size)
            return numa->pages[i].count;
    return 0;
}

static void
claim_memory(WeftTxn *txn, const WeftMemory *memory, const WeftHost *host)
{
    g_autofree char *size = weft_size_format(memory->page_size);
    guint64 limit = pages_of(host, memory);
    /* A limit of 0 would be none: where the host has no such pages, ask for more than any. */
    weft_txn_share(txn, limit ? memory->pages : G_MAXUINT64, limit ? limit : 1, "host/%s/numa/%u/pages/%s", host->name,
                   memory->numa, size);
}

/* A whole HCA takes all its virtual functions with it, so that neither can be had while the other is in use. */
static void
claim_device(WeftTxn *txn, const WeftDevice *device, const WeftHost *host, gboolean guid)
{
    if (guid && device->guid)
        weft_txn_claim(txn, GUID, host->fabric, device->guid);
    if (device->vf >= 0) {
        weft_txn_claim(txn, "host/%s/vf/%s/%d", host->name, device->hca, device->vf);
        return;
    }
    const WeftHca *hca = weft_host_hca(host, device->hca);
    weft_txn_claim(txn, "host/%s/hca/%s", host->name, device->hca);
    for (guint vf = 0; hca && vf < hca->vfs; vf++)
        weft_txn_claim(txn, "host/%s/vf/%s/%u", host->name, device->hca, vf);
}

void
weft_txn_put_primed(WeftTxn *txn, const WeftPrimed *primed, const WeftHost *host)
{
    WeftMemory memory = weft_primed_memory(primed);
    weft_txn_put(txn, WEFT_KIND_PRIMED, primed->id, primed->template, primed->host, weft_primed_to_json(primed), WEFT_ABSENT);
    weft_txn_claim(txn, PRIMED, primed->host, primed->numa, primed->template, primed->tenant);
    claim_memory(txn, &memory, host);
}

static json_t *
make_node(gconstpointer node)
{
    return weft_node_to_json(node);
}

static void
add_cores(const WeftNode *node, GPtrArray *claims)
{
    for (guint i = 0; i < node->cores->len; i++)
        g_ptr_array_add(claims, g_strdup_printf("host/%s/core/%u", node->host, g_array_index(node->cores, guint16, i)));
}

/* Of its cores, here and there: a thousand nodes have a hundred thousand. */
static GPtrArray *
claim_cores(gconstpointer data)
{
    const WeftNode *node = data;
    GPtrArray *claims = g_ptr_array_new_with_free_func(g_free);
    add_cores(node, claims);
    if (node->target)
        add_cores(node->target, claims);
    return claims;
}

/* claims: other than those that its record has. */
static void
put_node(WeftTxn *txn, const WeftNode *node, gint64 expected, gboolean claims)
{
    const WeftLateValue value = { make_node, claims ? claim_cores : NULL, weft_node_copy(node),
                                  (GDestroyNotify)weft_node_free };
    weft_txn_put_late(txn, WEFT_KIND_NODE, node->id, node->cluster, node->host, &value, expected);
}

/* What it holds on a host beside cores. guids: those of its devices too. */
static void
claim_place(WeftTxn *txn, const WeftNode *node, const WeftHost *host, gboolean guids)
{
    for (guint i = 0; i < node->memory->len; i++)
        claim_memory(txn, &g_array_index(node->memory, WeftMemory, i), host);
    for (guint i = 0; i < node->devices->len; i++)
        claim_device(txn, node->devices->pdata[i], host, guids);
    for (guint i = 0; i < node->gpus->len; i++)
        weft_txn_claim(txn, "host/%s/gpu/%s", host->name, (const char *)node->gpus->pdata[i]);
}

void
weft_txn_put_new_node(WeftTxn *txn, const WeftNode *node, const WeftHost *host)
{
    put_node(txn, node, WEFT_ABSENT, TRUE);
    claim_place(txn, node, host, TRUE);
    weft_txn_claim(txn, MAC, node->mac);
}

/* Its GUIDs and its MAC go with it: it has them once. */
void
weft_txn_put_moved_node(WeftTxn *txn, const WeftNode *node, const WeftHost *from, const WeftHost *to, gint64 expected)
{
    put_node(txn, node, expected, TRUE);
    claim_place(txn, node, from, TRUE);
    if (node->target)
        claim_place(txn, node->target, to, FALSE);
    weft_txn_claim(txn, MAC, node->mac);
}

void
weft_txn_share_lane(WeftTxn *txn, const WeftNode *node, const WeftDevice *device, guint64 room)
{
    weft_txn_share(txn, room ? node->bandwidth : G_MAXUINT64, room ? room : 1, "host/%s/lane/%s/%u", node->host, device->hca,
                   node->sl);
}

void
weft_txn_put_node(WeftTxn *txn, const WeftNode *node, gint64 expected)
{
    put_node(txn, node, expected, FALSE);
    weft_txn_keep_claims(txn);
}

void
weft_txn_put_usage(WeftTxn *txn, const WeftNode *node, gint64 now)
{
    g_autoptr(WeftUsage) usage = weft_usage_of(node, now);
    g_autofree char *key = g_strdup_printf("%s/%016" G_GINT64_MODIFIER "x", usage->node, usage->start);
    weft_txn_put(txn, WEFT_KIND_USAGE, key, usage->tenant, usage->cluster, weft_usage_to_json(usage), WEFT_ABSENT);
}

void
weft_txn_release_node(WeftTxn *txn, const WeftNode *node, gint64 expected, gint64 now)
{
    weft_txn_delete(txn, WEFT_KIND_NODE, node->id, expected);
    weft_txn_put_usage(txn, node, now);
    weft_txn_end_placements(txn, node);
}

/* What goes must have for itself, for a moment, all that others have of it. */

void
weft_txn_remove_host(WeftTxn *txn, const WeftHost *host, gint64 expected)
{
    weft_txn_put_host(txn, host, expected);
    for (guint i = 0; i < host->cores->len; i++)
        weft_txn_claim(txn, "host/%s/core/%u", host->name, i);
    weft_txn_delete(txn, WEFT_KIND_HOST, host->name, WEFT_ANY);
}

void
weft_txn_remove_tenant(WeftTxn *txn, const WeftTenant *tenant, gint64 expected)
{
    weft_txn_put_tenant(txn, tenant, expected);
    weft_txn_share(txn, 1, 1, QUOTA, tenant->name, weft_quota_words[WEFT_QUOTA_CLUSTERS]);
    weft_txn_share(txn, 1, 1, PRINCIPALS, tenant->name);
    weft_txn_share(txn, 1, 1, CHECKPOINTS, tenant->name);
    weft_txn_delete(txn, WEFT_KIND_TENANT, tenant->name, WEFT_ANY);
}

void
weft_txn_remove_principal(WeftTxn *txn, const WeftPrincipal *principal, gint64 expected)
{
    weft_txn_put_principal(txn, principal, expected);
    weft_txn_share(txn, 1, 1, TOKENS, principal->name);
    weft_txn_delete(txn, WEFT_KIND_PRINCIPAL, principal->name, WEFT_ANY);
}

void
weft_txn_remove_image(WeftTxn *txn, const WeftImage *image, gint64 expected)
{
    weft_txn_put_image(txn, image, expected);
    weft_txn_share(txn, 1, 1, IMAGE, image->name);
    weft_txn_delete(txn, WEFT_KIND_IMAGE, image->name, WEFT_ANY);
    const WeftImageFile *file;
    for (guint i = 0; (file = weft_image_file(image, i)); i++)
        weft_txn_end(txn, WEFT_THING_IMAGE, file->digest);
}

void
weft_txn_put_answer(WeftTxn *txn, const char *key, const char *tenant, gsize bytes, json_t *value)
{
    weft_txn_put(txn, WEFT_KIND_REQUEST, key, tenant, NULL, value, WEFT_ABSENT);
    if (tenant)
        weft_txn_share(txn, bytes, WEFT_ANSWERS_MAX, ANSWERS, tenant);
}

void
weft_txn_put_event(WeftTxn *txn, WeftEvent *event)
{
    gint64 expected = event->id ? WEFT_ANY : WEFT_ABSENT;
    if (!event->id)
        event->id = weft_clock_stamp();
    g_autofree char *key = weft_event_key(event->id);
    /* No tenant has such a name, so none is shown it. */
    g_autofree char *doer = event->doer ? g_strconcat("~", event->doer, NULL) : NULL;
    const char *scope = event->tenant ? event->tenant : doer;
    weft_txn_put(txn, WEFT_KIND_EVENT, key, scope, event->cluster, weft_event_to_json(event), expected);
}

void
weft_txn_stamp_events(WeftTxn *txn)
{
    for (guint i = 0; i < txn->ops->len; i++) {
        WeftOp *op = &g_array_index(txn->ops, WeftOp, i);
        if (op->type != WEFT_OP_PUT || op->kind != WEFT_KIND_EVENT || op->expected != WEFT_ABSENT)
            continue;
        gint64 id = weft_clock_stamp();
        json_auto_t *value = json_loads(op->value, 0, NULL);
        json_object_set_new(value, "id", json_integer(id));
        free(op->value);
        op->value = json_dumps(value, JSON_COMPACT);
        g_free(op->key);
        op->key = weft_event_key(id);
    }
}

void
weft_txn_tell(WeftTxn *txn, const char *type, const WeftCluster *cluster, const char *host, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *message = g_strdup_vprintf(format, args);
    va_end(args);
    WeftEvent event = { .type = (char *)type, .host = (char *)host, .message = message };
    if (cluster) {
        event.tenant = cluster->tenant;
        event.cluster = cluster->id;
        event.cluster_name = cluster->name;
    }
    weft_txn_put_event(txn, &event);
}
