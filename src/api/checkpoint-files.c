/* Checkpoints that leave the site, and come from others: a manifest, and files by their digest.
 *
 * Whoever brings one brings the state of virtual machines, which hypervisors believe: importing is for operators. The manifest
 * is believed in nothing: the wish is checked as one that somebody asks for, files must be here and are known by their digest,
 * and the image must be the same. */
#include "bounds.h"
#include "clock.h"
#include "errors.h"
#include "handlers.h"
#include "id.h"
#include "names.h"
#include "problem.h"
#include "views.h"

#include <string.h>

#define PIECE (1u << 20) /* bytes of an answer */
#define FORMAT 1

/* --- leaving --- */

static json_t *
list_images(WeftRequest *request, const WeftCluster *wish)
{
    json_t *images = json_object();
    for (guint i = 0; i < wish->groups->len; i++) {
        const char *name = ((const WeftGroup *)wish->groups->pdata[i])->image;
        g_autoptr(WeftImage) image = weft_store_load_image(request->store, name, NULL, NULL);
        json_t *digests = json_array();
        const WeftImageFile *file;
        for (guint n = 0; image && (file = weft_image_file(image, n)); n++)
            json_array_append_new(digests, json_string(file->digest));
        json_object_set_new(images, name, digests);
    }
    return images;
}

static gboolean
check_complete(const WeftCheckpoint *checkpoint, GError **error)
{
    return checkpoint->state == WEFT_CHECKPOINT_COMPLETE ||
           weft_error_refuse(error, WEFT_ERROR_CONFLICT, "checkpoint %s is %s: only one that is complete can be exported",
                             checkpoint->name, weft_checkpoint_words[checkpoint->state]);
}

/* What no other site has a use for, as its hosts have other names, or what nobody is told once it was given: user-data may hold
 * secrets. Whether there was some is told, so that whoever imports it can give it again. */
static json_t *
leave_out(json_t *checkpoint)
{
    json_t *wish = json_object_get(checkpoint, "wish"), *left_out = json_array();
    if (json_object_get(wish, "user_data"))
        json_array_append_new(left_out, json_string("user_data"));
    json_object_del(wish, "user_data");
    json_object_del(wish, "hosts");
    json_object_del(checkpoint, "detail");
    return left_out;
}

gboolean
weft_handle_checkpoint_manifest(WeftRequest *request, GError **error)
{
    g_autoptr(WeftCheckpoint) checkpoint = weft_find_checkpoint(request, NULL, error);
    if (!checkpoint || !check_complete(checkpoint, error))
        return FALSE;
    json_t *json = weft_checkpoint_to_json(checkpoint), *left_out = leave_out(json);
    json_t *manifest = json_pack("{s:i, s:o, s:o, s:o}", "format", FORMAT, "images", list_images(request, checkpoint->wish),
                                 "checkpoint", json, "left_out", left_out);
    return weft_request_reply(request, weft_reply_new(200, manifest));
}

static const WeftImageFile *
find_file(const WeftCheckpoint *checkpoint, const char *digest)
{
    const WeftImageFile *file;
    for (guint at = 0; (file = weft_checkpoint_next_file(checkpoint, &at));)
        if (strcmp(file->digest, digest) == 0)
            return file;
    return NULL;
}

/* A read that hangs cannot be ended: it keeps its thread, and so its share, though its client has gone. */
typedef struct {
    WeftRequest *request;
    WeftShare *share;
} Reading;

static void
reading_free(gpointer data)
{
    Reading *reading = data;
    weft_share_free(reading->share);
    weft_request_unref(reading->request);
    g_free(reading);
}

static void
piece_read(GBytes *bytes, gint64 took, const GError *error, gpointer data)
{
    WeftRequest *request = ((const Reading *)data)->request;
    g_auto(WeftMeter) meter = weft_meter_start(request);
    weft_request_charge(request, took);
    if (!request->connection)
        return;
    if (error)
        weft_request_fail(request, error);
    else
        weft_request_reply(request, weft_reply_bytes(bytes));
}

static void
read_piece(WeftRequest *request, gpointer data)
{
    g_autofree WeftBlobPiece *piece = data;
    g_autoptr(GError) busy = NULL;
    WeftShare *share = weft_request_take(request, WEFT_SHARE_PIECES, &busy);
    if (!share) {
        weft_request_fail(request, busy);
        return;
    }
    Reading *reading = g_new(Reading, 1);
    *reading = (Reading){ weft_request_ref(request), share };
    weft_blobs_read(request->blobs, piece, piece_read, reading, reading_free);
}

gboolean
weft_handle_checkpoint_piece(WeftRequest *request, GError **error)
{
    const char *digest = request->match.params[1], *text = weft_request_query(request, "offset");
    WeftBlobPiece piece = { .digest = digest, .total = PIECE };
    g_autoptr(WeftCheckpoint) checkpoint = weft_find_checkpoint(request, NULL, error);
    if (!checkpoint || !check_complete(checkpoint, error))
        return FALSE;
    const WeftImageFile *file = find_file(checkpoint, digest);
    if (!file) {
        weft_not_found("file", digest, error);
        return FALSE;
    }
    if (!g_ascii_string_to_unsigned(text ? text : "0", 10, 0, file->size - 1, &piece.offset, NULL))
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "offset: \"%s\" is not within the %" G_GUINT64_FORMAT " bytes of the file", text, file->size);
    if (!request->blobs)
        return weft_problem_refuse(error, WEFT_ERROR_UNAVAILABLE, "this weftd keeps no images");
    return weft_request_go_on(request, read_piece, g_memdup2(&piece, sizeof piece), g_free);
}

/* --- coming --- */

static gboolean
check_images(WeftRequest *request, const WeftCluster *wish, json_t *images, GError **error)
{
    json_auto_t *own = list_images(request, wish);
    for (guint i = 0; i < wish->groups->len; i++) {
        const char *name = ((const WeftGroup *)wish->groups->pdata[i])->image;
        json_t *theirs = json_object_get(images, name), *ours = json_object_get(own, name);
        if (json_array_size(ours) == 0 && (request->options->check_images || json_array_size(theirs) > 0))
            return weft_error_refuse(error, WEFT_ERROR_INVALID, "image \"%s\" is not here; add it first: weft image add", name);
        if (!json_equal(theirs, ours))
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "image \"%s\" is another one here, with other files; its nodes could not go on with it",
                                     name);
    }
    return TRUE;
}

static gboolean
check_files(WeftRequest *request, const WeftCheckpoint *checkpoint, GError **error)
{
    const WeftImageFile *file;
    for (guint at = 0; (file = weft_checkpoint_next_file(checkpoint, &at));) {
        WeftBlob blob;
        if (!weft_blobs_look(request->blobs, file->digest, &blob, error))
            return FALSE;
        if (!blob.complete || blob.size != file->size)
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "file %s of %" G_GUINT64_FORMAT " bytes is not here; send it first: PATCH /v1/blobs/%s",
                                     file->digest, file->size, file->digest);
    }
    return TRUE;
}

/* What one of its nodes claims to be. */
static gboolean
check_node(const WeftCheckpoint *checkpoint, const WeftCheckpointNode *node, GError **error)
{
    const WeftGroup *group = NULL;
    for (guint i = 0; i < checkpoint->wish->groups->len && !group; i++) {
        const WeftGroup *one = checkpoint->wish->groups->pdata[i];
        group = strcmp(one->name, node->group) == 0 ? one : NULL;
    }
    g_autofree char *mac = weft_mac_format(0);
    if (!group || node->cpus != group->cores || node->memory < group->memory ||
        node->memory - group->memory >= MAX(node->page_size, 1) || node->path != WEFT_PATH_BRIDGE || node->guids->len)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "nodes[%u]: is not as its group \"%s\" says, or has devices; export the checkpoint again",
                                 node->rank, node->group);
    if (strlen(node->mac) != strlen(mac) || strspn(node->mac, "0123456789abcdef:") != strlen(mac) ||
        strncmp(node->mac, "02:", 3) != 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "nodes[%u].mac: \"%s\" is none of weft's", node->rank, node->mac);
    if (!weft_name_check(node->hostname, "hostname", error))
        return FALSE;
    return !node->host_key || (strlen(node->host_key) < 512 && !strpbrk(node->host_key, "\n\r")) ||
           weft_error_refuse(error, WEFT_ERROR_INVALID, "nodes[%u].host_key: is no key", node->rank);
}

/* The wish as somebody would write it: all that is granted goes, and what is left must be fit to be asked for. */
static WeftCluster *
reread_wish(const WeftCluster *wish, GError **error)
{
    static const char *const granted[] = { "id",      "tenant",  "creator",    "created", "scaled",  "deleted",
                                           "bridged", "capture", "checkpoint", "keys",    "clone_of" };
    json_auto_t *spec = weft_cluster_to_json(wish);
    for (guint i = 0; i < G_N_ELEMENTS(granted); i++)
        json_object_del(spec, granted[i]);
    WeftCluster *cluster = weft_cluster_from_spec(spec, error);
    if (!cluster)
        g_prefix_error(error, "wish: ");
    return cluster;
}

static gboolean
check_all(WeftRequest *request, WeftCheckpoint *checkpoint, json_t *images, GError **error)
{
    g_autoptr(WeftCluster) wish = reread_wish(checkpoint->wish, error);
    if (!wish)
        return FALSE;
    if (checkpoint->state != WEFT_CHECKPOINT_COMPLETE || checkpoint->nodes->len != weft_cluster_count(wish))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "checkpoint: is not complete; export it again");
    for (guint i = 0; i < checkpoint->nodes->len; i++)
        if (!check_node(checkpoint, checkpoint->nodes->pdata[i], error))
            return FALSE;
    return check_images(request, wish, images, error) && check_files(request, checkpoint, error);
}

/* Whose it was there is of no interest here. */
static void
adopt(WeftRequest *request, WeftCheckpoint *checkpoint, const WeftTenant *tenant, const char *name)
{
    WeftCluster *wish = checkpoint->wish;
    char **own[] = {
        &checkpoint->tenant, &checkpoint->creator, &checkpoint->cluster, &wish->id, &wish->tenant, &wish->creator
    };
    g_clear_pointer(&wish->keys, g_free);
    g_clear_pointer(&wish->capture, g_free);
    g_clear_pointer(&wish->clone_of, g_free);
    g_clear_pointer(&wish->checkpoint, g_free);
    g_clear_pointer(&wish->hosts, g_free);
    g_clear_pointer(&checkpoint->detail, g_free);
    for (guint i = 0; i < G_N_ELEMENTS(own); i++)
        g_clear_pointer(own[i], g_free);
    checkpoint->tenant = g_strdup(tenant->name);
    checkpoint->creator = g_strdup(request->principal->name);
    checkpoint->cluster = weft_id_new();
    wish->id = g_strdup(checkpoint->cluster);
    wish->tenant = g_strdup(tenant->name);
    wish->creator = g_strdup(request->principal->name);
    if (name) {
        g_free(checkpoint->name);
        checkpoint->name = g_strdup(name);
    }
    checkpoint->created = weft_clock_now();
    checkpoint->restored = 0;
    checkpoint->hidden = FALSE;
    checkpoint->imported = TRUE;
}

/* Which the manifest does not have. */
static gboolean
give_user_data(WeftCluster *wish, json_t *given, GError **error)
{
    if (given && !json_is_string(given))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "user_data: must be a text, as for a new cluster");
    if (given) {
        g_free(wish->user_data);
        wish->user_data = g_strdup(json_string_value(given));
    }
    return TRUE;
}

gboolean
weft_handle_checkpoint_import(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    json_t *images = json_object_get(request->body, "images");
    const char *name = json_string_value(json_object_get(request->body, "name"));
    g_autoptr(WeftTenant) tenant = weft_request_tenant(request, &revision, error);
    if (!tenant)
        return FALSE;
    if (!request->blobs)
        return weft_problem_refuse(error, WEFT_ERROR_UNAVAILABLE, "this weftd keeps no images");
    if (json_integer_value(json_object_get(request->body, "format")) != FORMAT || !json_is_object(images))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "format: must be %d, as weft checkpoint export writes it", FORMAT);
    g_autoptr(WeftCheckpoint) checkpoint = weft_checkpoint_from_json(json_object_get(request->body, "checkpoint"), error);
    if (!checkpoint || !give_user_data(checkpoint->wish, json_object_get(request->body, "user_data"), error))
        return FALSE;
    adopt(request, checkpoint, tenant, name);
    weft_blob_pin_free(request->pin);
    request->pin = weft_blobs_pin_checkpoint(request->blobs, checkpoint);
    if (!weft_checkpoint_name_check(request, tenant->name, checkpoint->name, error) ||
        !check_all(request, checkpoint, images, error) ||
        !weft_check_quota(request, tenant, WEFT_QUOTA_STORAGE, weft_checkpoint_storage(checkpoint), error))
        return FALSE;
    WeftReply *reply = weft_reply_new(201, weft_view_checkpoint(checkpoint, weft_request_sees_all(request)));
    weft_reply_header(reply, "Location", "/v1/checkpoints/%s", checkpoint->name);
    WeftTxn *txn = weft_txn_new("checkpoint-imported");
    weft_txn_put_checkpoint(txn, checkpoint, tenant, WEFT_ABSENT);
    weft_txn_expect(txn, WEFT_KIND_TENANT, tenant->name, revision);
    WeftEvent event = { .type = (char *)"checkpoint-imported", .tenant = tenant->name };
    g_autofree char *message = g_strdup_printf("%s imported checkpoint %s of %u nodes", request->principal->name,
                                               checkpoint->name, checkpoint->nodes->len);
    event.message = message;
    weft_txn_put_event(txn, &event);
    return weft_request_commit(request, txn, reply);
}
