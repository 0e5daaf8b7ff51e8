/* weft checkpoints export and import: a checkpoint as one file, which tar(1) can list: its manifest, and the files that it
 * names by their digest. */
#include "checkpoint-archive.h"
#include "errors.h"
#include "file.h"
#include "progress.h"
#include "table.h"
#include "upload.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define USER_DATA_MAX (64 << 10)

static char *import_name, *import_user_data;

static const GOptionEntry import_options[] = {
    { "name", 0, 0, G_OPTION_ARG_STRING, &import_name, "what to call it here (as it was called)", "NAME" },
    { "user-data", 0, 0, G_OPTION_ARG_FILENAME, &import_user_data, "its user-data, which no export has", "FILE" },
    { NULL },
};

/* --- export --- */

typedef struct Export {
    WeftCli *cli;
    const char *name;
    char *path;
    FILE *file;
    WeftProgress *progress;
    guint64 done, total;
} Export;

static gboolean
fail_file(const char *path, GError **error)
{
    return weft_cli_refuse_file(path, g_strerror(errno), error);
}

static gboolean
write_bytes(Export *export, gconstpointer bytes, gsize length, GError **error)
{
    return fwrite(bytes, 1, length, export->file) == length || fail_file(export->path, error);
}

static gboolean
write_padding(Export *export, guint64 size, GError **error)
{
    static const char zeros[WEFT_ARCHIVE_BLOCK];
    return write_bytes(export, zeros, (gsize)(weft_archive_padded(size) - size), error);
}

static gboolean
write_member(Export *export, const char *name, const char *text, GError **error)
{
    gsize size = strlen(text);
    WeftArchiveHeader header = weft_archive_header(name, size);
    return write_bytes(export, &header, sizeof header, error) && write_bytes(export, text, size, error) &&
           write_padding(export, size, error);
}

static char *
api_path(const WeftCli *cli, const char *checkpoint, const char *suffix)
{
    g_autofree char *base = weft_client_path("/v1/checkpoints", checkpoint);
    return weft_client_query(g_strconcat(base, suffix, NULL), "tenant", cli->tenant);
}

static GBytes *
get_piece(const Export *export, const char *digest, guint64 offset, GError **error)
{
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *suffix = g_strconcat("/files/", digest, NULL);
    g_autofree char *number = g_strdup_printf("%" G_GUINT64_FORMAT, offset);
    g_autofree char *path = api_path(export->cli, export->name, suffix);
    path = weft_client_query(g_steal_pointer(&path), "offset", number);
    if (!weft_client_call(export->cli->client, &(WeftCall){ .path = path, .bytes = TRUE }, &response, error))
        return NULL;
    return g_steal_pointer(&response.bytes);
}

static void
show(const Export *export, const char *verb)
{
    g_autofree char *size = weft_upload_size(export->total);
    g_autofree char *text =
        weft_text_is_live(stderr)
            ? g_strdup_printf("%s %s, %u %%", verb, size, (guint)(100.0 * (double)export->done / (double)MAX(export->total, 1)))
            : g_strdup_printf("%s %s", verb, size);
    weft_progress_show(export->progress, text);
}

static gboolean
write_pieces(Export *export, const char *digest, guint64 size, GError **error)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    for (guint64 offset = 0; offset < size;) {
        g_autoptr(GBytes) piece = get_piece(export, digest, offset, error);
        gsize length = 0;
        const guint8 *bytes = piece ? g_bytes_get_data(piece, &length) : NULL;
        if (!piece)
            return FALSE;
        if (length == 0 || length > size - offset)
            return weft_error_refuse(error, WEFT_ERROR_FAILED, "file %s ended after %" G_GUINT64_FORMAT " bytes", digest,
                                     offset);
        if (!write_bytes(export, bytes, length, error))
            return FALSE;
        g_checksum_update(sum, bytes, (gssize)length);
        offset += length;
        export->done += length;
        show(export, "writing");
    }
    return strcmp(g_checksum_get_string(sum), digest) == 0 ||
           weft_error_refuse(error, WEFT_ERROR_FAILED, "file %s of weftd is damaged: it is %s", digest,
                             g_checksum_get_string(sum));
}

static const char *const parts[] = { "saved", "disk" }; /* of a node that are files */

static guint64
size_of_part(json_t *node, const char *part)
{
    return (guint64)json_integer_value(json_object_get(json_object_get(node, part), "size"));
}

/* Each once, however many nodes have the same. */
static gboolean
write_part(Export *export, json_t *node, const char *part, GHashTable *written, GError **error)
{
    const char *digest = json_string_value(json_object_get(json_object_get(node, part), "digest"));
    guint64 size = size_of_part(node, part);
    if (!digest || !g_hash_table_add(written, (gpointer)digest))
        return TRUE;
    WeftArchiveHeader header = weft_archive_header(digest, size);
    return write_bytes(export, &header, sizeof header, error) && write_pieces(export, digest, size, error) &&
           write_padding(export, size, error);
}

static gboolean
write_files(Export *export, json_t *nodes, GError **error)
{
    g_autoptr(GHashTable) written = g_hash_table_new(g_str_hash, g_str_equal);
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node)
        for (gsize p = 0; p < G_N_ELEMENTS(parts); p++)
            if (!write_part(export, node, parts[p], written, error))
                return FALSE;
    return TRUE;
}

static guint64
size_of(json_t *nodes)
{
    guint64 total = 0;
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node)
        for (gsize p = 0; p < G_N_ELEMENTS(parts); p++)
            total += size_of_part(node, parts[p]);
    return total;
}

static gboolean
write_all(Export *export, json_t *manifest, GError **error)
{
    static const char end[2 * WEFT_ARCHIVE_BLOCK];
    json_t *nodes = json_object_get(json_object_get(manifest, "checkpoint"), "nodes");
    char *text = json_dumps(manifest, JSON_INDENT(2));
    export->total = size_of(nodes);
    gboolean ok = write_member(export, WEFT_ARCHIVE_MANIFEST, text, error) && write_files(export, nodes, error) &&
                  write_bytes(export, end, sizeof end, error);
    free(text);
    return ok;
}

static gboolean
run_export(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *api = api_path(cli, args[0], "/manifest");
    g_autofree char *target = args[1] ? g_strdup(args[1]) : g_strconcat(args[0], ".weft", NULL);
    json_auto_t *manifest = weft_client_get(cli->client, api, error);
    if (!manifest) {
        weft_cli_blame(error, "checkpoint", args[0]);
        return FALSE;
    }
    g_autofree char *part = g_strconcat(target, ".part", NULL);
    g_autoptr(WeftProgress) progress = weft_progress_new(args[0]);
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); /* it holds the memory of nodes */
    Export export = { cli, args[0], part, fd < 0 ? NULL : fdopen(fd, "wb"), progress, 0, 0 };
    if (!export.file)
        return fail_file(part, error);
    gboolean ok = write_all(&export, manifest, error);
    if (ok && (fflush(export.file) != 0 || !weft_file_place(fd, part, target, 0)))
        ok = fail_file(target, error);
    fclose(export.file);
    if (!ok) {
        g_unlink(part);
        return FALSE;
    }
    g_autofree char *size = weft_upload_size(export.total);
    if (cli->json)
        weft_cli_print_json(
            json_pack("{s:s, s:s, s:I}", "checkpoint", args[0], "file", target, "size", (json_int_t) export.total));
    else
        printf("checkpoint %s is in %s: %s\n", args[0], target, size);
    return TRUE;
}

/* --- import --- */

static gboolean
send_all(WeftCli *cli, const char *path, const GPtrArray *members, GError **error)
{
    for (guint i = 1; i < members->len; i++) {
        const WeftArchiveMember *member = members->pdata[i];
        g_autofree char *what = g_strdup_printf("file %u of %u", i, members->len - 1);
        WeftUpload part = { .digest = member->name, .size = member->size };
        if (!weft_upload_part(cli, what, path, member->offset, &part, error))
            return FALSE;
    }
    return TRUE;
}

/* What the file lacks and who imports it has to say. */
static gboolean
complete(json_t *manifest, GError **error)
{
    g_autofree char *text = import_user_data ? weft_cli_read_text(import_user_data, USER_DATA_MAX, NULL, error) : NULL;
    if (import_user_data && !text)
        return FALSE;
    if (text && json_object_set_new(manifest, "user_data", json_string(text)) < 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: is not a text in UTF-8", weft_cli_file_name(import_user_data));
    if (!text && json_array_size(json_object_get(manifest, "left_out")) > 0)
        fputs("its user-data is not in the file: nodes that it gets later boot without; --user-data gives it again\n", stderr);
    if (import_name)
        json_object_set_new(manifest, "name", json_string(import_name));
    return TRUE;
}

static gboolean
import(WeftCli *cli, const char *path, int fd, GError **error)
{
    g_autoptr(GPtrArray) members = weft_archive_members(fd);
    json_auto_t *manifest = members ? weft_archive_manifest(fd, members) : NULL;
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *api = weft_client_query(g_strdup("/v1/checkpoints"), "tenant", cli->tenant);
    if (!manifest)
        return weft_cli_refuse_file(path, "is not what weft checkpoints export writes, or was cut off", error);
    if (!complete(manifest, error) || !send_all(cli, path, members, error))
        return FALSE;
    if (!weft_client_call(cli->client, &(WeftCall){ "POST", api, manifest }, &response, error))
        return FALSE;
    g_autofree char *called = weft_cli_field(response.body, "name");
    if (cli->json)
        weft_cli_print_json(g_steal_pointer(&response.body));
    else
        printf("checkpoint %s is here; go on from it with: weft restore %s\n", called, called);
    return TRUE;
}

static gboolean
run_import(WeftCli *cli, char **args, GError **error)
{
    int fd = open(args[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_file(args[0], error);
    gboolean ok = import(cli, args[0], fd, error);
    close(fd);
    return ok;
}

const WeftVerb weft_checkpoint_file_verbs[] = {
    {
        .name = "checkpoints export",
        .arguments = "NAME [FILE]",
        .summary = "write a checkpoint to a file, for another weft",
        .about =
            "Writes a checkpoint to one file, NAME.weft unless told, which tar(1) can list. It holds the memory of all nodes, "
            "with all keys in it. Its manifest has neither user-data nor names of hosts.",
        .examples = "weft checkpoints export cfd-1\n"
                    "weft checkpoints export cfd-1 /backup/cfd.weft",
        .min_args = 1,
        .max_args = 2,
        .names = WEFT_NAMES_CHECKPOINTS,
        .run = run_export,
    },
    {
        .name = "checkpoints import",
        .arguments = "FILE",
        .summary = "take a checkpoint from a file of another weft",
        .about =
            "Takes a checkpoint that was exported. Its image must be here under the same name, with the same files. Hosts "
            "believe what is in such a file: only operators may bring one. User-data is in no export; --user-data gives it "
            "again.",
        .examples = "weft checkpoints import cfd-1.weft --tenant acme\n"
                    "weft checkpoints import cfd-1.weft --name cfd-old --tenant acme",
        .min_args = 1,
        .max_args = 1,
        .options = import_options,
        .run = run_import,
    },
    { 0 },
};
