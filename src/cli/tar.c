#include "tar.h"

#include "errors.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#define BLOCK (64 * 1024)
#define COMPLAINT_MAX 1024
#define SECURE (ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SECURE_NODOTDOT | ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS)

struct WeftTar {
    WeftSession *session;
    WeftTarOptions options;
    GString *said; /* what tar complained of, the beginning */
    struct archive *archive;
    struct archive *disk; /* when receiving */
    const char *from, *to;
    guint8 *block;
    GError *failure; /* of the session: goes before what libarchive says of it */
};

WeftTar *
weft_tar_new(WeftSession *session, const WeftTarOptions *options)
{
    WeftTar *tar = g_new0(WeftTar, 1);
    tar->session = session;
    tar->options = *options;
    tar->said = g_string_new(NULL);
    tar->block = g_malloc(BLOCK);
    return tar;
}

void
weft_tar_free(WeftTar *tar)
{
    if (!tar)
        return;
    archive_free(tar->archive);
    archive_free(tar->disk);
    weft_session_free(tar->session);
    g_string_free(tar->said, TRUE);
    g_clear_error(&tar->failure);
    g_free(tar->block);
    g_free(tar);
}

/* --- what tar says --- */

static gboolean
turn(WeftTar *tar, GError **error)
{
    gboolean fine = weft_session_turn(tar->session, error);
    const GByteArray *came = weft_session_has(tar->session, WEFT_SESSION_ERRORS);
    if (tar->said->len < COMPLAINT_MAX)
        g_string_append_len(tar->said, (const char *)came->data, MIN(came->len, COMPLAINT_MAX - tar->said->len));
    weft_session_take(tar->session, WEFT_SESSION_ERRORS, came->len);
    return fine;
}

static gboolean
await_end(WeftTar *tar, GError **error)
{
    int status = 0;
    while (!weft_session_has_ended(tar->session, &status)) {
        weft_session_take(tar->session, WEFT_SESSION_OUTPUT, weft_session_has(tar->session, WEFT_SESSION_OUTPUT)->len);
        if (!turn(tar, error))
            return FALSE;
    }
    if (status == 0)
        return TRUE;
    g_string_truncate(tar->said, strcspn(tar->said->str, "\n"));
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "node %s: %s (exit status %d)", weft_session_label(tar->session),
                             tar->said->len ? tar->said->str : "tar failed", status);
}

static const char *
reason_of(struct archive *archive)
{
    return archive_errno(archive) > 0 ? g_strerror(archive_errno(archive)) : archive_error_string(archive);
}

static gboolean
set_archive_error(WeftTar *tar, struct archive *archive, const char *what, GError **error)
{
    if (tar->failure)
        g_propagate_error(error, g_steal_pointer(&tar->failure));
    else
        weft_error_refuse(error, WEFT_ERROR_FAILED, "%s: %s", what, reason_of(archive));
    return FALSE;
}

static void
show(const WeftTar *tar, const char *name, guint64 bytes)
{
    if (!tar->options.progress)
        return;
    g_autofree char *clean = weft_cli_clean(name);
    g_autofree char *size = g_format_size_full(bytes, G_FORMAT_SIZE_IEC_UNITS);
    g_autofree char *text = g_strdup_printf("%s %s", clean, size);
    weft_progress_show(tar->options.progress, text);
}

/* --- sending --- */

static la_ssize_t
on_write(struct archive *archive, void *data, const void *bytes, size_t size)
{
    WeftTar *tar = data;
    int status = 0;
    while (!weft_session_room(tar->session) && !tar->failure) {
        if (weft_session_has_ended(tar->session, &status) && await_end(tar, &tar->failure))
            weft_error_refuse(&tar->failure, WEFT_ERROR_FAILED, "node %s: tar ended early", weft_session_label(tar->session));
        if (!tar->failure)
            turn(tar, &tar->failure);
    }
    if (tar->failure)
        return -1;
    gsize n = MIN(size, weft_session_room(tar->session));
    weft_session_send(tar->session, bytes, n);
    return (la_ssize_t)n;
}

/* Every tar reads GNU's format, names are bytes in it, and there is no limit to their length. */
static gboolean
begin(WeftTar *tar, GError **error)
{
    if (tar->archive)
        return TRUE;
    tar->archive = archive_write_new();
    archive_write_set_format_gnutar(tar->archive);
    archive_write_set_bytes_per_block(tar->archive, BLOCK);
    archive_write_set_bytes_in_last_block(tar->archive, 1);
    return archive_write_open(tar->archive, tar, NULL, on_write, NULL) == ARCHIVE_OK ||
           set_archive_error(tar, tar->archive, "tar", error);
}

static gboolean
send_contents(WeftTar *tar, struct archive *disk, struct archive_entry *entry, GError **error)
{
    const char *name = archive_entry_pathname(entry);
    guint64 sent = 0;
    la_ssize_t n;
    while ((n = archive_read_data(disk, tar->block, BLOCK)) > 0) {
        if (archive_write_data(tar->archive, tar->block, (gsize)n) < 0)
            return set_archive_error(tar, tar->archive, name, error);
        sent += (guint64)n;
        show(tar, name, sent);
    }
    return n == 0 || weft_cli_refuse_file(archive_entry_sourcepath(entry), reason_of(disk), error);
}

/* It belongs to whom unpacks it. */
static void
disown(struct archive_entry *entry)
{
    archive_entry_set_uid(entry, 0);
    archive_entry_set_gid(entry, 0);
    archive_entry_set_uname(entry, NULL);
    archive_entry_set_gname(entry, NULL);
    archive_entry_sparse_clear(entry);
}

static gboolean
send_entry(WeftTar *tar, struct archive *disk, struct archive_entry *entry, GError **error)
{
    mode_t type = archive_entry_filetype(entry);
    if (type == AE_IFDIR && !tar->options.recursive)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: is a folder; copy it with -r",
                                 archive_entry_sourcepath(entry));
    if (type != AE_IFDIR && type != AE_IFREG && type != AE_IFLNK) {
        fprintf(stderr, "weft: %s: is no file, folder or link; left out\n", archive_entry_sourcepath(entry));
        return TRUE;
    }
    disown(entry);
    if (archive_write_header(tar->archive, entry) < ARCHIVE_WARN)
        return set_archive_error(tar, tar->archive, archive_entry_pathname(entry), error);
    return type != AE_IFREG || send_contents(tar, disk, entry, error);
}

static gboolean
send_tree(WeftTar *tar, struct archive *disk, const char *root, const char *name, GError **error)
{
    struct archive_entry *entry = archive_entry_new();
    gboolean fine = TRUE;
    int result = ARCHIVE_OK;
    while (fine && (result = archive_read_next_header2(disk, entry)) >= ARCHIVE_WARN && result != ARCHIVE_EOF) {
        const char *path = archive_entry_pathname(entry);
        g_autofree char *there = g_strconcat(name, path + MIN(strlen(root), strlen(path)), NULL);
        archive_entry_copy_sourcepath(entry, path);
        archive_entry_copy_pathname(entry, there);
        fine = send_entry(tar, disk, entry, error);
        if (fine)
            archive_read_disk_descend(disk);
        archive_entry_clear(entry);
    }
    if (fine && result != ARCHIVE_EOF)
        fine = weft_cli_refuse_file(root, reason_of(disk), error);
    archive_entry_free(entry);
    return fine;
}

gboolean
weft_tar_send(WeftTar *tar, const char *path, const char *name, GError **error)
{
    if (!begin(tar, error))
        return FALSE;
    struct archive *disk = archive_read_disk_new();
    archive_read_disk_set_symlink_hybrid(disk); /* what is named is followed, what is found below stays a link */
    archive_read_disk_set_behavior(disk, ARCHIVE_READDISK_NO_ACL | ARCHIVE_READDISK_NO_XATTR | ARCHIVE_READDISK_NO_FFLAGS);
    gboolean fine = archive_read_disk_open(disk, path) == ARCHIVE_OK ? send_tree(tar, disk, path, name, error)
                                                                     : weft_cli_refuse_file(path, reason_of(disk), error);
    archive_read_free(disk);
    return fine;
}

gboolean
weft_tar_send_end(WeftTar *tar, GError **error)
{
    if (archive_write_close(tar->archive) != ARCHIVE_OK)
        return set_archive_error(tar, tar->archive, "tar", error);
    weft_session_send_end(tar->session);
    return await_end(tar, error);
}

/* --- receiving --- */

static la_ssize_t
on_read(struct archive *archive, void *data, const void **ret_bytes)
{
    WeftTar *tar = data;
    const GByteArray *came = weft_session_has(tar->session, WEFT_SESSION_OUTPUT);
    while (!came->len && !weft_session_is_at_end(tar->session))
        if (!turn(tar, &tar->failure))
            return -1;
    gsize n = MIN(came->len, BLOCK);
    if (n)
        memcpy(tar->block, came->data, n);
    weft_session_take(tar->session, WEFT_SESSION_OUTPUT, n);
    *ret_bytes = tar->block;
    return (la_ssize_t)n;
}

/* Where it goes here; NULL: it is nothing that was asked for. Who did not ask for a folder asked for one name. */
static char *
map_name(const WeftTar *tar, const char *name)
{
    gsize length = strlen(tar->from);
    if (!name || strncmp(name, tar->from, length) != 0 || (name[length] && (name[length] != '/' || !tar->options.recursive)))
        return NULL;
    return g_strconcat(tar->to, name + length, NULL);
}

static gboolean
rename_entry(const WeftTar *tar, struct archive_entry *entry, GError **error)
{
    const char *name = archive_entry_pathname(entry), *twin = archive_entry_hardlink(entry);
    g_autofree char *here = map_name(tar, name);
    g_autofree char *twin_here = twin ? map_name(tar, twin) : NULL;
    gboolean link = archive_entry_filetype(entry) == AE_IFLNK && !tar->options.recursive; /* tar was told to follow it */
    if (!here || (twin && !twin_here) || link) {
        g_autofree char *clean = weft_cli_clean(name);
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "node %s: sent %s, which nobody asked for",
                                 weft_session_label(tar->session), clean);
    }
    archive_entry_copy_pathname(entry, here);
    if (twin)
        archive_entry_copy_hardlink(entry, twin_here);
    archive_entry_set_perm(entry, archive_entry_perm(entry) & 0777);
    return TRUE;
}

static gboolean
receive_contents(WeftTar *tar, struct archive_entry *entry, GError **error)
{
    const char *name = archive_entry_pathname(entry);
    guint64 received = 0;
    const void *bytes;
    size_t size;
    la_int64_t offset;
    int result;
    while ((result = archive_read_data_block(tar->archive, &bytes, &size, &offset)) == ARCHIVE_OK) {
        if (archive_write_data_block(tar->disk, bytes, size, offset) < ARCHIVE_WARN)
            return set_archive_error(tar, tar->disk, name, error);
        received += size;
        show(tar, name, received);
    }
    return result == ARCHIVE_EOF || set_archive_error(tar, tar->archive, name, error);
}

static gboolean
receive_entry(WeftTar *tar, struct archive_entry *entry, GError **error)
{
    mode_t type = archive_entry_filetype(entry);
    gboolean twin = archive_entry_hardlink(entry) != NULL;
    if (type == AE_IFDIR && !tar->options.recursive)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: is a folder; copy it with -r", tar->from);
    if (!rename_entry(tar, entry, error))
        return FALSE;
    const char *name = archive_entry_pathname(entry);
    if (type != AE_IFDIR && type != AE_IFREG && type != AE_IFLNK && !twin) {
        g_autofree char *clean = weft_cli_clean(name);
        fprintf(stderr, "weft: %s: is no file, folder or link; left out\n", clean);
        return TRUE;
    }
    if (archive_write_header(tar->disk, entry) < ARCHIVE_WARN)
        return set_archive_error(tar, tar->disk, name, error);
    if (type == AE_IFREG && !twin && !receive_contents(tar, entry, error))
        return FALSE;
    return archive_write_finish_entry(tar->disk) >= ARCHIVE_WARN || set_archive_error(tar, tar->disk, name, error);
}

static gboolean
receive_all(WeftTar *tar, GError **error)
{
    struct archive_entry *entry;
    int result;
    while ((result = archive_read_next_header(tar->archive, &entry)) == ARCHIVE_OK || result == ARCHIVE_WARN)
        if (!receive_entry(tar, entry, error))
            return FALSE;
    if (result != ARCHIVE_EOF)
        return set_archive_error(tar, tar->archive, tar->from, error);
    return archive_write_close(tar->disk) == ARCHIVE_OK || set_archive_error(tar, tar->disk, tar->to, error);
}

gboolean
weft_tar_receive(WeftTar *tar, const char *from, const char *to, GError **error)
{
    tar->from = from;
    tar->to = to;
    tar->archive = archive_read_new();
    tar->disk = archive_write_disk_new();
    archive_read_support_format_tar(tar->archive);
    archive_read_support_format_empty(tar->archive); /* tar found nothing: its own words tell */
    archive_write_disk_set_options(tar->disk, ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_PERM | SECURE);
    if (archive_read_open(tar->archive, tar, NULL, on_read, NULL) != ARCHIVE_OK)
        return set_archive_error(tar, tar->archive, from, error);
    return receive_all(tar, error) && await_end(tar, error);
}
