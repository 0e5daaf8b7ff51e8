#include "blobs.h"
#include "bounds.h"
#include "clock.h"
#include "errors.h"
#include "handlers.h"
#include "image-head.h"
#include "page.h"
#include "problem.h"
#include "request.h"
#include "views.h"

static gboolean
has_blobs(const WeftRequest *request, GError **error)
{
    return request->blobs || weft_problem_refuse(error, WEFT_ERROR_UNAVAILABLE, "this weftd keeps no images");
}

/* --- blobs --- */

static json_t *
blob_view(const char *digest, const WeftBlob *blob)
{
    return json_pack("{s:s, s:I, s:b}", "digest", digest, "size", (json_int_t)blob->size, "complete", (int)blob->complete);
}

gboolean
weft_handle_blob_get(WeftRequest *request, GError **error)
{
    const char *digest = request->match.params[0];
    WeftBlob blob;
    if (!has_blobs(request, error) || !weft_digest_check(digest, error) ||
        !weft_blobs_look(request->blobs, digest, &blob, error))
        return FALSE;
    return weft_request_reply(request, weft_reply_new(200, blob_view(digest, &blob)));
}

static gboolean
read_number(WeftRequest *request, const char *name, guint64 min, guint64 *ret_number, GError **error)
{
    const char *text = weft_request_query(request, name);
    if (text && g_ascii_string_to_unsigned(text, 10, min, WEFT_IMAGE_SIZE_MAX, ret_number, NULL))
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "%s: must be a number of bytes, %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT
                             ": ?offset=N&size=TOTAL",
                             name, min, (guint64)WEFT_IMAGE_SIZE_MAX);
}

static gboolean
read_piece(WeftRequest *request, WeftBlobPiece *ret_piece, GError **error)
{
    *ret_piece = (WeftBlobPiece){ .digest = request->match.params[0], .bytes = request->upload };
    if (!weft_digest_check(ret_piece->digest, error) || !read_number(request, "offset", 0, &ret_piece->offset, error) ||
        !read_number(request, "size", 1, &ret_piece->total, error))
        return FALSE;
    if (ret_piece->offset + ret_piece->bytes->len <= ret_piece->total)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "size: %" G_GUINT64_FORMAT " bytes are too few for %u more behind the first %" G_GUINT64_FORMAT,
                             ret_piece->total, ret_piece->bytes->len, ret_piece->offset);
}

static void
written(const WeftBlob *blob, const GError *error, gpointer data)
{
    g_autoptr(WeftRequest) request = data;
    if (!request->connection)
        return;
    if (error)
        weft_request_fail(request, error);
    else
        weft_request_reply(request, weft_reply_new(200, blob_view(request->match.params[0], blob)));
}

static void
write_piece(WeftRequest *request, gpointer data)
{
    g_autofree WeftBlobPiece *piece = data;
    weft_blobs_write(request->blobs, piece, written, weft_request_ref(request));
}

gboolean
weft_handle_blob_write(WeftRequest *request, GError **error)
{
    WeftBlobPiece piece;
    if (!has_blobs(request, error) || !read_piece(request, &piece, error))
        return FALSE;
    return weft_request_go_on(request, write_piece, g_memdup2(&piece, sizeof piece), g_free);
}

/* --- images --- */

static json_t *
file_view(const WeftImageFile *file, gboolean disk)
{
    if (!file)
        return json_null();
    json_t *view = json_pack("{s:s, s:I}", "digest", file->digest, "size", (json_int_t)file->size);
    if (disk)
        json_object_set_new(view, "format", json_string(weft_disk_format_words[file->format]));
    return view;
}

static json_t *
image_view(const WeftImage *image)
{
    g_autofree char *created = weft_clock_format(image->created);
    return json_pack("{s:s, s:o, s:o, s:o, s:s?, s:s}", "name", image->name, "disk", file_view(image->disk, TRUE), "kernel",
                     file_view(image->kernel, FALSE), "initrd", file_view(image->initrd, FALSE), "cmdline", image->cmdline,
                     "created", created);
}

static char *
image_text(WeftRequest *request, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftImage) image = weft_record_image(record, error);
    return image ? weft_view_text(image_view(image)) : NULL;
}

gboolean
weft_handle_image_list(WeftRequest *request, GError **error)
{
    return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_IMAGE }, image_text, error);
}

static WeftImage *
find_image(WeftRequest *request, gint64 *ret_revision, GError **error)
{
    const char *name = request->match.params[0];
    WeftImage *image = weft_store_load_image(request->store, name, ret_revision, error);
    if (!image)
        weft_reword_not_found("image", name, error);
    return image;
}

gboolean
weft_handle_image_get(WeftRequest *request, GError **error)
{
    g_autoptr(WeftImage) image = find_image(request, NULL, error);
    return image && weft_request_reply(request, weft_reply_new(200, image_view(image)));
}

static gboolean
check_blob(WeftRequest *request, const char *field, const WeftImageFile *file, GError **error)
{
    WeftBlob blob;
    if (!weft_blobs_look(request->blobs, file->digest, &blob, error))
        return FALSE;
    if (!blob.complete)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: blob %s is not here; send it first: PATCH /v1/blobs/%s", field,
                                 file->digest, file->digest);
    if (blob.size == file->size)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "%s.size: %" G_GUINT64_FORMAT " is not that of blob %s, which has %" G_GUINT64_FORMAT " bytes",
                             field, file->size, file->digest, blob.size);
}

/* One that is the same in all but its age is there already, and that is fine: whoever adds it may not know that it did. */
static gboolean
check_name(WeftRequest *request, const WeftImage *image, WeftImage **ret_there, GError **error)
{
    g_autoptr(GError) failure = NULL;
    g_autoptr(WeftImage) other = weft_store_load_image(request->store, image->name, NULL, &failure);
    if (!other && g_error_matches(failure, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
        return TRUE;
    if (!other) {
        g_propagate_error(error, g_steal_pointer(&failure));
        return FALSE;
    }
    json_auto_t *there = weft_image_to_json(other), *wanted = weft_image_to_json(image);
    json_object_del(there, "created");
    if (!json_equal(there, wanted))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "image %s exists already, with other content; remove it first, or choose another name",
                                 image->name);
    *ret_there = g_steal_pointer(&other);
    return TRUE;
}

static gboolean
check_part(WeftRequest *request, WeftImagePart part, const WeftImageFile *file, GError **error)
{
    guint8 head[WEFT_IMAGE_HEAD_LENGTH];
    gsize length = sizeof head;
    return check_blob(request, weft_image_part_words[part], file, error) &&
           weft_blobs_head(request->blobs, file->digest, head, &length, error) &&
           weft_image_head_check(part, file, head, length, error);
}

static gboolean
check_files(WeftRequest *request, const WeftImage *image, GError **error)
{
    for (guint part = 0; part < WEFT_PARTS; part++) {
        const WeftImageFile *file = weft_image_part(image, part);
        if (file && !check_part(request, part, file, error))
            return FALSE;
    }
    return TRUE;
}

gboolean
weft_handle_image_add(WeftRequest *request, GError **error)
{
    if (!has_blobs(request, error) || !weft_body_without(request->body, "created", error))
        return FALSE;
    g_autoptr(WeftImage) image = weft_image_from_json(request->body, "", error), there = NULL;
    if (!image)
        return FALSE;
    weft_blob_pin_free(request->pin);
    request->pin = weft_blobs_pin(request->blobs, image);
    if (!check_name(request, image, &there, error) || !check_files(request, image, error))
        return FALSE;
    WeftTxn *txn = weft_txn_new("image-added");
    if (!there) {
        image->created = weft_clock_now();
        weft_txn_put_image(txn, image, WEFT_ABSENT);
        weft_txn_tell(txn, "image-added", NULL, NULL, "%s added image %s", request->principal->name, image->name);
    }
    WeftReply *reply = weft_reply_new(201, image_view(there ? there : image));
    weft_reply_header(reply, "Location", "/v1/images/%s", image->name);
    return weft_request_commit(request, txn, reply);
}

/* The claims of the transaction decide; this is for a message that helps. */
static gboolean
check_unused(WeftRequest *request, const WeftImage *image, GError **error)
{
    guint64 used = 0;
    if (!weft_store_image_used(request->store, image->name, &used, error))
        return FALSE;
    return used == 0 || weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                          "image %s: %" G_GUINT64_FORMAT
                                          " %s it; remove these clusters first: weft show tells a cluster's image",
                                          image->name, used, used == 1 ? "group of nodes boots" : "groups of nodes boot");
}

gboolean
weft_handle_image_remove(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftImage) image = find_image(request, &revision, error);
    if (!image || !check_unused(request, image, error))
        return FALSE;
    WeftTxn *txn = weft_txn_new("image-removed");
    weft_txn_remove_image(txn, image, revision);
    weft_txn_tell(txn, "image-removed", NULL, NULL, "%s removed image %s", request->principal->name, image->name);
    return weft_request_commit(request, txn, weft_reply_new(204, NULL));
}

/* --- for clusters --- */

/* What its nodes write to is as large as the image unless they are to have more, and counts as that. Where it is read-only they
 * have no disk of their own. */
static gboolean
settle_disk(WeftRequest *request, WeftGroup *group, const WeftImage *image, GError **error)
{
    guint8 head[WEFT_IMAGE_HEAD_LENGTH];
    gsize length = sizeof head;
    if (!image->disk || image->disk->format == WEFT_DISK_READONLY)
        group->disk = 0;
    if (!image->disk || image->disk->format == WEFT_DISK_READONLY || group->disk || !request->blobs)
        return TRUE;
    if (!weft_blobs_head(request->blobs, image->disk->digest, head, &length, error))
        return FALSE;
    group->disk = MAX(weft_image_capacity(image->disk, head, length), WEFT_DISK_MIN);
    return TRUE;
}

static gboolean
settle_image(WeftRequest *request, WeftGroup *group, WeftTxn *txn, GError **error)
{
    g_autoptr(GError) failure = NULL;
    gint64 revision = 0;
    g_autoptr(WeftImage) image = weft_store_load_image(request->store, group->image, &revision, &failure);
    if (image && txn)
        weft_txn_expect(txn, WEFT_KIND_IMAGE, group->image, revision);
    if (image)
        return settle_disk(request, group, image, error);
    if (!g_error_matches(failure, WEFT_ERROR, WEFT_ERROR_NOT_FOUND)) {
        g_propagate_error(error, g_steal_pointer(&failure));
        return FALSE;
    }
    return !request->options->check_images ||
           weft_error_refuse(error, WEFT_ERROR_INVALID, "image: \"%s\" is not known; weft image ls lists those that are",
                             group->image);
}

gboolean
weft_settle_images(WeftRequest *request, WeftCluster *cluster, WeftTxn *txn, GError **error)
{
    const WeftApiOptions *options = request->options;
    for (guint i = 0; i < cluster->groups->len; i++) {
        WeftGroup *group = cluster->groups->pdata[i];
        if (options->default_image && g_str_equal(group->image, "default")) {
            g_free(group->image);
            group->image = g_strdup(options->default_image);
        }
        if (!settle_image(request, group, txn, error))
            return FALSE;
    }
    return TRUE;
}
