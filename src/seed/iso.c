#include "iso.h"

#include "errors.h"

#include <stdint.h>

#define LIBISOFS_WITHOUT_LIBBURN
#include <libisofs/libisofs.h>

#define BLOCK 2048
#define FIFO_BLOCKS 1024         /* between libisofs' own writer thread and us */
#define EPOCH "2000010100000000" /* every time in the file system: year, month, day, … */
#define EPOCH_SECONDS 946684800

/* libisofs counts and reports in variables of the whole process. */
G_LOCK_DEFINE_STATIC(libisofs);

static gboolean
check(int rc, const char *what, GError **error)
{
    return rc >= 0 || weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot make a seed: %s: %s", what, iso_error_to_msg(rc));
}

static IsoDir *
find_folder(IsoDir *parent, const char *name, GError **error)
{
    IsoNode *node = NULL;
    if (iso_dir_get_node(parent, name, &node) == 1)
        return (IsoDir *)node;
    IsoDir *folder = NULL;
    if (!check(iso_tree_add_new_dir(parent, name, &folder), name, error))
        return NULL;
    iso_node_set_permissions((IsoNode *)folder, 0755);
    return folder;
}

static gboolean
add_stream(IsoDir *folder, const char *name, const WeftIsoFile *file, GError **error)
{
    gsize size;
    gconstpointer data = g_bytes_get_data(file->content, &size);
    IsoStream *stream = NULL;
    unsigned char *copy = g_memdup2(data, size);
    if (!check(iso_memory_stream_new(copy, size, &stream), file->path, error)) {
        g_free(copy);
        return FALSE;
    }
    IsoFile *added = NULL;
    if (!check(iso_tree_add_new_file(folder, name, stream, &added), file->path, error)) {
        iso_stream_unref(stream);
        return FALSE;
    }
    iso_node_set_permissions((IsoNode *)added, file->mode);
    return TRUE;
}

static gboolean
add_file(IsoImage *image, const WeftIsoFile *file, GError **error)
{
    g_auto(GStrv) names = g_strsplit(file->path, "/", -1);
    IsoDir *folder = iso_image_get_root(image);
    guint i = 0;
    for (; names[i + 1]; i++)
        if (!(folder = find_folder(folder, names[i], error)))
            return FALSE;
    return add_stream(folder, names[i], file, error);
}

/* Rock Ridge for Linux, of the version without inode numbers, which libisofs gives in no certain order; Joliet for the rest;
 * every owner root, every time the same. */
static gboolean
choose(IsoWriteOpts *options, GError **error)
{
    char uuid[] = EPOCH;
    return check(iso_write_opts_set_rockridge(options, 1), "Rock Ridge", error) &&
           check(iso_write_opts_set_joliet(options, 1), "Joliet", error) &&
           check(iso_write_opts_set_rrip_version_1_10(options, 1), "Rock Ridge", error) &&
           check(iso_write_opts_set_replace_mode(options, 0, 0, 2, 2), "owners", error) &&
           check(iso_write_opts_set_replace_timestamps(options, 2), "times", error) &&
           check(iso_write_opts_set_default_timestamp(options, EPOCH_SECONDS), "times", error) &&
           check(iso_write_opts_set_always_gmt(options, 1), "times", error) &&
           check(iso_write_opts_set_pvd_times(options, EPOCH_SECONDS, EPOCH_SECONDS, 0, 0, uuid), "times", error) &&
           check(iso_write_opts_set_fifo_size(options, FIFO_BLOCKS), "buffer", error);
}

static GBytes *
collect(struct burn_source *source, GError **error)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    guint8 block[BLOCK];
    int n;
    while ((n = source->read_xt(source, block, sizeof block)) > 0)
        g_byte_array_append(bytes, block, (guint)n);
    source->free_data(source);
    free(source);
    return check(n, "writing", error) ? g_byte_array_free_to_bytes(g_steal_pointer(&bytes)) : NULL;
}

static GBytes *
write_image(IsoImage *image, GError **error)
{
    IsoWriteOpts *options = NULL;
    if (!check(iso_write_opts_new(&options, 0), "options", error))
        return NULL;
    struct burn_source *source = NULL;
    gboolean ok = choose(options, error) && check(iso_image_create_burn_source(image, options, &source), "starting", error);
    iso_write_opts_free(options);
    return ok ? collect(source, error) : NULL;
}

static GBytes *
make_image(const char *label, const WeftIsoFile *files, gsize n, GError **error)
{
    IsoImage *image = NULL;
    if (!check(iso_image_new(label, &image), "image", error))
        return NULL;
    gboolean ok = TRUE;
    for (gsize i = 0; ok && i < n; i++)
        ok = add_file(image, &files[i], error);
    GBytes *bytes = ok ? write_image(image, error) : NULL;
    iso_image_unref(image);
    return bytes;
}

GBytes *
weft_iso_make(const char *label, const WeftIsoFile *files, gsize n, GError **error)
{
    GBytes *bytes = NULL;
    G_LOCK(libisofs);
    /* Not by the locale: names are ASCII, and the process's locale is not libisofs' to set. */
    if (check(iso_init_with_flag(1), "libisofs", error)) {
        bytes = make_image(label, files, n, error);
        iso_finish();
    }
    G_UNLOCK(libisofs);
    return bytes;
}
