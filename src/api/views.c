#include "views.h"

#include "clock.h"
#include "codec.h"
#include "errors.h"

#include <string.h>

char *
weft_view_text(json_t *view)
{
    char *dumped = view ? json_dumps(view, JSON_COMPACT) : NULL;
    char *text = g_strdup(dumped);
    free(dumped);
    json_decref(view);
    return text;
}

static json_t *
time_view(gint64 time)
{
    g_autofree char *text = time ? weft_clock_format(time) : NULL;
    return text ? json_string(text) : json_null();
}

static json_t *
hex_view(guint64 number, int digits)
{
    return json_sprintf("0x%0*" G_GINT64_MODIFIER "x", digits, number);
}

/* NULL is null. */
static json_t *
text_view(const char *text)
{
    return text ? json_string(text) : json_null();
}

/* Takes more over. */
static json_t *
merge(json_t *view, json_t *more)
{
    json_object_update(view, more);
    json_decref(more);
    return view;
}

/* --- clusters --- */

/* 0 stands for none. */
static json_t *
size_view(guint64 bytes)
{
    return bytes ? json_integer((json_int_t)bytes) : json_null();
}

static json_t *
group_view(const WeftGroup *group)
{
    return json_pack("{s:s, s:i, s:i, s:I, s:o, s:i, s:i, s:s, s:s, s:s?, s:o}", "name", group->name, "count",
                     (int)group->count, "cores", (int)group->cores, "memory", (json_int_t)group->memory, "pages",
                     size_view(group->page_size), "gpus", (int)group->gpus, "rails", (int)group->rails, "path",
                     weft_path_words[group->path], "numa", weft_locality_words[group->locality], "image", group->image, "disk",
                     size_view(group->disk));
}

static json_t *
labels_view(GHashTable *labels)
{
    json_t *view = json_object();
    GHashTableIter iter;
    gpointer name, value;
    g_hash_table_iter_init(&iter, labels);
    while (g_hash_table_iter_next(&iter, &name, &value))
        json_object_set_new(view, name, json_string(value));
    return view;
}

/* As ssh-keygen -l tells a key: of the line "TYPE BASE64 COMMENT" a hash of the key's own bytes. The lines themselves would
 * make a list of clusters large. */
static json_t *
key_view(const char *line)
{
    g_auto(GStrv) words = g_strsplit(line, " ", 3);
    gsize length;
    g_autofree guchar *key = g_base64_decode(words[1], &length);
    guint8 hash[32];
    gsize size = sizeof hash;
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    g_checksum_update(sum, key, (gssize)length);
    g_checksum_get_digest(sum, hash, &size);
    g_autofree char *text = g_base64_encode(hash, size);
    text[strcspn(text, "=")] = '\0';
    return json_sprintf("SHA256:%s", text);
}

/* User-data may hold secrets: only that there is some is told. */
static json_t *
inside_view(const WeftCluster *cluster)
{
    json_t *keys = json_array();
    for (guint i = 0; i < cluster->ssh_keys->len; i++)
        json_array_append_new(keys, key_view(cluster->ssh_keys->pdata[i]));
    return json_pack("{s:o, s:o, s:b, s:b, s:o, s:o}", "shared", weft_codec_write_texts(cluster->shared), "ssh_keys", keys,
                     "user_data", cluster->user_data != NULL, "slurm", cluster->slurm, "shm", size_view(cluster->shm),
                     "bandwidth", size_view(cluster->bandwidth));
}

/* Which ranks talk how much may be long, and is not told. */
static json_t *
placement_view(const WeftCluster *cluster)
{
    return json_pack("{s:s, s:b, s:o, s:s, s:i, s:o, s:b, s:s}", "layout", weft_layout_words[cluster->layout], "exclusive",
                     cluster->exclusive, "apart", weft_codec_write_texts(cluster->apart), "pattern",
                     weft_pattern_words[cluster->pattern], "priority", cluster->priority, "walltime",
                     size_view(cluster->walltime), "preemptible", cluster->preemptible, "start",
                     weft_start_words[cluster->start]);
}

static json_t *
wish_view(const WeftCluster *cluster)
{
    json_t *groups = json_array();
    for (guint i = 0; i < cluster->groups->len; i++)
        json_array_append_new(groups, group_view(cluster->groups->pdata[i]));
    json_t *view = json_pack("{s:s, s:s, s:s, s:o, s:o, s:i, s:s?, s:o, s:b}", "id", cluster->id, "name", cluster->name,
                             "tenant", cluster->tenant, "groups", groups, "labels", labels_view(cluster->labels), "count",
                             (int)weft_cluster_count(cluster), "creator", cluster->creator, "created",
                             time_view(cluster->created), "deleting", (int)cluster->deleted);
    return merge(merge(view, inside_view(cluster)), placement_view(cluster));
}

/* Seconds, to the microsecond. */
static json_t *
clone_view(const WeftCluster *cluster, const WeftClusterStatus *status)
{
    return json_pack("{s:s, s:s?, s:o, s:o}", "of", cluster->clone_of, "node", cluster->clone_node, "paused",
                     status->paused ? json_real((double)status->paused / G_USEC_PER_SEC) : json_null(), "done",
                     time_view(status->cloned));
}

/* The reconciler writes the status: a cluster that it has not seen yet is queued. */
static json_t *
progress_view(const WeftCluster *cluster, const WeftClusterStatus *status, gboolean all)
{
    WeftClusterStatus queued = { .phase = WEFT_CLUSTER_QUEUED, .since = cluster->created };
    if (!status)
        status = &queued;
    json_t *view = json_pack("{s:s, s:o, s:o, s:s?, s:o, s:o, s:i, s:i}", "phase", weft_cluster_phase_words[status->phase],
                             "reason", text_view(status->reason), "since", time_view(status->since), "fabric",
                             status->fabric ? status->fabric : cluster->fabric, "partition",
                             status->pkey && !status->unmanaged ? hex_view(status->pkey, 4) : json_null(), "vxlan",
                             status->pkey ? json_integer(status->vxlan) : json_null(), "nodes", (int)status->nodes, "ready",
                             (int)status->ready);
    json_object_set_new(view, "sl", json_integer(status->sl));
    json_object_set_new(view, "placed", time_view(status->placed));
    json_object_set_new(view, "ends", time_view(status->ends));
    json_object_set_new(view, "clone", cluster->clone_of ? clone_view(cluster, status) : json_null());
    if (all) {
        json_object_set_new(view, "detail", text_view(status->detail));
        json_object_set_new(view, "hosts", text_view(cluster->hosts));
    }
    return view;
}

json_t *
weft_view_cluster(WeftStore *store, const WeftCluster *cluster, gboolean all, GError **error)
{
    GError *failure = NULL;
    g_autofree char *key = weft_cluster_key(cluster->tenant, cluster->name);
    g_autoptr(WeftClusterStatus) status = weft_store_load_cluster_status(store, key, NULL, &failure);
    if (failure && !weft_error_forgive(&failure, WEFT_ERROR_NOT_FOUND)) {
        g_propagate_error(error, failure);
        return NULL;
    }
    return merge(wish_view(cluster), progress_view(cluster, status, all));
}

char *
weft_view_etag(const WeftCluster *cluster)
{
    json_t *wish = weft_cluster_to_json(cluster);
    char *text = json_dumps(wish, JSON_COMPACT | JSON_SORT_KEYS);
    g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
    free(text);
    json_decref(wish);
    return g_strdup_printf("\"%.16s\"", sum);
}

/* --- nodes --- */

static json_t *
device_view(const WeftDevice *device)
{
    return json_pack("{s:i, s:s, s:o, s:o}", "rail", (int)device->rail, "hca", device->hca, "vf",
                     device->vf < 0 ? json_null() : json_integer(device->vf), "guid",
                     device->guid ? hex_view(device->guid, 16) : json_null());
}

static json_t *
memory_view(const WeftMemory *memory)
{
    return json_pack("{s:i, s:I, s:I}", "numa", (int)memory->numa, "page_size", (json_int_t)memory->page_size, "pages",
                     (json_int_t)memory->pages);
}

static void
add_placement(json_t *view, const WeftNode *node)
{
    json_t *cores = json_array(), *memory = json_array(), *devices = json_array(), *gpus = json_array();
    for (guint i = 0; i < node->cores->len; i++)
        json_array_append_new(cores, json_integer(g_array_index(node->cores, guint16, i)));
    for (guint i = 0; i < node->memory->len; i++)
        json_array_append_new(memory, memory_view(&g_array_index(node->memory, WeftMemory, i)));
    for (guint i = 0; i < node->devices->len; i++)
        json_array_append_new(devices, device_view(node->devices->pdata[i]));
    for (guint i = 0; i < node->gpus->len; i++)
        json_array_append_new(gpus, json_string(node->gpus->pdata[i]));
    json_object_set_new(view, "host", json_string(node->host));
    json_object_set_new(view, "moving_to", text_view(node->target ? node->target->host : NULL));
    json_object_set_new(view, "detail", text_view(node->detail));
    json_object_set_new(view, "core_ids", cores);
    json_object_set_new(view, "memory_nodes", memory);
    json_object_set_new(view, "devices", devices);
    json_object_set_new(view, "gpu_ids", gpus);
}

/* What devices of its host cost a fork. */
static json_t *
copied_view(const WeftNode *node)
{
    if (!node->copied)
        return json_null();
    return json_pack("{s:I, s:f}", "bytes", (json_int_t)node->copied, "seconds", (double)node->copy_time / G_USEC_PER_SEC);
}

json_t *
weft_view_node(const WeftNode *node, gboolean all)
{
    g_autofree char *label = weft_node_label(node);
    g_autofree char *hostname = weft_node_hostname(node);
    json_t *guids = json_array();
    for (guint i = 0; i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        if (device->guid)
            json_array_append_new(guids, hex_view(device->guid, 16));
    }
    json_t *view = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:o}", "id", node->id, "name", label, "hostname",
                             hostname, "cluster", node->cluster, "tenant", node->tenant, "rank", (int)node->rank, "group",
                             node->group, "phase", weft_node_phase_words[node->phase], "reason", text_view(node->reason));
    json_t *holds =
        json_pack("{s:i, s:I, s:i, s:o, s:s?, s:s, s:s?, s:o}", "cores", (int)node->cores->len, "memory",
                  (json_int_t)weft_node_memory(node), "gpus", (int)node->gpus->len, "guids", guids, "mac", node->mac, "path",
                  weft_path_words[node->path], "image", node->image, "since", time_view(node->since));
    merge(view, holds);
    json_object_set_new(view, "copied", copied_view(node));
    json_object_set_new(view, "unverified", text_view(node->phase == WEFT_NODE_READY ? node->unverified : NULL));
    if (all)
        add_placement(view, node);
    return view;
}

json_t *
weft_view_move(const WeftMoveWish *wish, const WeftNode *node, const WeftClusterStatus *status, gboolean all)
{
    g_autofree char *label = weft_node_label(node);
    json_t *view = json_pack("{s:s, s:s, s:b, s:b, s:s, s:s?, s:o, s:o, s:s?}", "id", wish->node, "name", label, "begun",
                             (int)(node->target != NULL), "disrupt", (int)wish->disrupt, "copy", weft_method_words[wish->copy],
                             "creator", wish->creator, "created", time_view(wish->created), "reason",
                             text_view(status ? status->reason : NULL), "called_off", wish->called_off);
    if (all) {
        json_object_set_new(view, "to", text_view(wish->to));
        json_object_set_new(view, "host", json_string(node->host));
        json_object_set_new(view, "moving_to", text_view(node->target ? node->target->host : NULL));
    }
    return view;
}

/* --- hosts --- */

/* One that stays where it is, although its host is being emptied. */
static json_t *
stay_view(const WeftNode *node)
{
    g_autofree char *label = weft_node_label(node);
    return json_pack("{s:s, s:s, s:s, s:s}", "id", node->id, "name", label, "tenant", node->tenant, "reason", node->reason);
}

static gboolean
add_load(WeftStore *store, json_t *view, const WeftHost *host, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_NODE, .place = host->name };
    g_autoptr(GPtrArray) records = weft_store_list(store, &query, error);
    if (!records)
        return FALSE;
    guint used = 0, total = 0;
    json_t *stays = json_array();
    json_object_set_new(view, "stays", stays);
    for (guint i = 0; i < records->len; i++) {
        g_autoptr(WeftNode) node = weft_record_node(records->pdata[i], error);
        if (!node)
            return FALSE;
        used += node->cores->len;
        if (host->moving && node->phase == WEFT_NODE_READY && node->reason)
            json_array_append_new(stays, stay_view(node));
    }
    for (guint i = 0; i < host->cores->len; i++)
        total += !g_array_index(host->cores, WeftCore, i).housekeeping;
    json_object_set_new(view, "nodes", json_integer(records->len));
    json_object_set_new(view, "cores_total", json_integer(total));
    json_object_set_new(view, "cores_used", json_integer(used));
    return TRUE;
}

static gboolean
add_state(WeftStore *store, json_t *view, const WeftHost *host, GError **error)
{
    GError *failure = NULL;
    g_autoptr(WeftHostStatus) status = weft_store_load_host_status(store, host->name, NULL, &failure);
    if (failure && !weft_error_forgive(&failure, WEFT_ERROR_NOT_FOUND)) {
        g_propagate_error(error, failure);
        return FALSE;
    }
    json_object_set_new(view, "state", json_string(weft_host_state_words[status ? status->state : WEFT_HOST_UNKNOWN]));
    json_object_set_new(view, "since", time_view(status ? status->since : 0));
    json_object_set_new(view, "reason", status ? text_view(status->reason) : json_sprintf("connecting to %s", host->uri));
    return TRUE;
}

/* The store leaves out what is as usual; a reader of the API should not have to know what that is. */
static json_t *
description_view(const WeftHost *host)
{
    json_t *view =
        json_pack("{s:b, s:b, s:b, s:b, s:{}, s:[], s:[]}", "draining", (int)host->draining, "moving", (int)host->moving,
                  "disrupting", (int)host->disrupting, "evicting", (int)host->evicting, "labels", "hcas", "gpus");
    return merge(view, weft_host_to_json(host));
}

json_t *
weft_view_host(WeftStore *store, const WeftHost *host, GError **error)
{
    json_t *view = description_view(host);
    if (add_state(store, view, host, error) && add_load(store, view, host, error))
        return view;
    json_decref(view);
    return NULL;
}

/* --- tenants and their people --- */

json_t *
weft_view_tenant(WeftStore *store, const WeftTenant *tenant, GError **error)
{
    json_t *quotas = json_object(), *used = json_object();
    json_t *view = json_pack("{s:s, s:o, s:o, s:i, s:f, s:o, s:s}", "name", tenant->name, "quota", quotas, "used", used,
                             "priority_max", tenant->priority_max, "share", tenant->share, "devices",
                             weft_devices_to_json(tenant->devices), "origin", weft_origin_words[tenant->origin]);
    for (guint i = 0; i < WEFT_QUOTAS; i++) {
        guint64 amount = 0;
        if (!weft_store_quota_used(store, tenant->name, (WeftQuota)i, &amount, error)) {
            json_decref(view);
            return NULL;
        }
        json_t *quota = tenant->quota[i] ? json_integer((json_int_t)tenant->quota[i]) : json_null();
        json_object_set_new(quotas, weft_quota_words[i], quota);
        json_object_set_new(used, weft_quota_words[i], json_integer((json_int_t)amount));
    }
    return view;
}

json_t *
weft_view_reservation(const WeftReservation *reservation)
{
    g_autofree char *hosts = weft_reservation_hosts(reservation);
    gboolean active = reservation->start <= weft_clock_now();
    return json_pack("{s:s, s:s, s:s?, s:o, s:o, s:b, s:s?, s:o}", "name", reservation->name, "hosts", hosts, "tenant",
                     reservation->tenant, "start", time_view(reservation->start), "end", time_view(reservation->end), "active",
                     (int)active, "creator", reservation->creator, "created", time_view(reservation->created));
}

json_t *
weft_view_template(const WeftTemplate *template)
{
    json_t *view = json_pack("{s:s, s:I, s:s, s:i, s:i, s:I, s:I, s:s, s:s, s:o}", "id", template->id, "generation",
                             (json_int_t) template->generation, "image", template->image, "cores", (int)template->cores, "cpus",
                             (int)template->cpus, "memory", (json_int_t) template->memory, "pages",
                             (json_int_t) template->page_size, "kind", template->kind, "state",
                             weft_template_state_words[template->state], "since", time_view(template->since));
    json_object_update_new(view, json_pack("{s:s?, s:s?, s:s?, s:o, s:s?, s:o, s:o}", "reason", template->reason, "detail",
                                           template->detail, "digest", template->digest, "size",
                                           size_view(template->digest ? template->size : 0), "host", template->host, "captured",
                                           time_view(template->captured), "used", time_view(template->used)));
    json_object_update_new(view, json_pack("{s:s?, s:s?, s:s?}", "source", template->source, "cluster", template->cluster,
                                           "tenant", template->tenant));
    return view;
}

json_t *
weft_view_checkpoint(const WeftCheckpoint *checkpoint, gboolean all)
{
    guint count = checkpoint->nodes->len ? checkpoint->nodes->len : weft_cluster_count(checkpoint->wish);
    json_t *view = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s?, s:o}", "name", checkpoint->name, "tenant",
                             checkpoint->tenant, "cluster", checkpoint->cluster, "cluster_name", checkpoint->wish->name,
                             "nodes", (int)count, "state", weft_checkpoint_words[checkpoint->state], "reason",
                             checkpoint->reason, "size", size_view(weft_checkpoint_size(checkpoint)));
    merge(view, json_pack("{s:s, s:o, s:o, s:I, s:I, s:b, s:o}", "creator", checkpoint->creator, "created",
                          time_view(checkpoint->created), "taken", time_view(checkpoint->taken), "paused_ms",
                          (json_int_t)checkpoint->paused / 1000, "skew_ms", (json_int_t)checkpoint->skew / 1000, "imported",
                          (int)checkpoint->imported, "restored", time_view(checkpoint->restored)));
    if (all)
        merge(view, json_pack("{s:s?, s:s?}", "kind", checkpoint->kind, "detail", checkpoint->detail));
    return view;
}

json_t *
weft_view_primed(const WeftPrimed *primed)
{
    guint64 memory = primed->pages * primed->page_size;
    return json_pack("{s:s, s:s?, s:s, s:i, s:I, s:I, s:o}", "id", primed->id, "tenant", primed->tenant, "host", primed->host,
                     "numa", (int)primed->numa, "generation", (json_int_t)primed->generation, "memory", (json_int_t)memory,
                     "since", time_view(primed->since));
}

json_t *
weft_view_principal(const WeftPrincipal *principal)
{
    return json_pack("{s:s, s:s?, s:s, s:s?, s:s}", "name", principal->name, "tenant", principal->tenant, "role",
                     weft_role_words[principal->role], "unix_user", principal->unix_user, "origin",
                     weft_origin_words[principal->origin]);
}

json_t *
weft_view_token(const WeftToken *token)
{
    return json_pack("{s:s, s:s, s:s?, s:s?, s:o, s:o}", "id", token->id, "principal", token->principal, "tenant",
                     token->tenant, "note", token->note, "created", time_view(token->created), "expires",
                     time_view(token->expires));
}

json_t *
weft_view_event(const WeftEvent *event, gboolean all)
{
    g_autofree char *id = weft_event_key(event->id);
    return json_pack("{s:s, s:o, s:s, s:s?, s:s?, s:s?, s:s?, s:s, s:s?}", "id", id, "time", time_view(event->id), "type",
                     event->type, "tenant", event->tenant, "cluster", event->cluster, "cluster_name", event->cluster_name,
                     "host", all ? event->host : NULL, "message", event->message, "detail", all ? event->detail : NULL);
}
