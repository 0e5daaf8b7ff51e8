#include "tar.h"

#include "errors.h"
#include "size.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <sys/stat.h>

#define BLOCK (64 * 1024)
#define COMPLAINT_MAX 1024
#define SECURE (ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SECURE_NODOTDOT | ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS)

/* --- what tar says --- */

/* The last that it said on its standard error. */
static char *
last_complaint(WeftSession *session)
{
    const GByteArray *came = weft_session_has(session, WEFT_SESSION_ERRORS);
    g_autofree char *text = g_strstrip(g_strndup((const char *)came->data, came->len));
    const char *line = strrchr(text, '\n');
    return g_strndup(line ? line + 1 : text, COMPLAINT_MAX);
}

/* Keeps the end of what it says: so much is never said that a window would be full of it. */
static gboolean
turn(WeftSession *session, GError **error)
{
    gsize said = weft_session_has(session, WEFT_SESSION_ERRORS)->len;
    if (said > 2 * COMPLAINT_MAX)
        weft_session_take(session, WEFT_SESSION_ERRORS, said - COMPLAINT_MAX);
    return weft_session_turn(session, error);
}

gboolean
weft_tar_await_end(WeftSession *session, GError **error)
{
    int status = 0;
    while (!weft_session_has_ended(session, &status)) {
        weft_session_take(session, WEFT_SESSION_OUTPUT, weft_session_has(session, WEFT_SESSION_OUTPUT)->len);
        if (!turn(session, error))
            return FALSE;
    }
    g_autofree char *complaint = last_complaint(session);
    if (status == 0)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "node %s: %s (exit status %d)", weft_session_label(session),
                             *complaint ? complaint : "tar failed", status);
}

/* libarchive's word; what ended the session goes before. */
static gboolean
set_archive_error(struct archive *archive, GError **failure, const char *what, GError **error)
{
    if (*failure)
        g_propagate_error(error, g_steal_pointer(failure));
    else
        weft_error_refuse(error, WEFT_ERROR_FAILED, "%s: %s", what, archive_error_string(archive));
    return FALSE;
}

static void
show(const WeftTar *tar, const char *name, guint64 bytes)
{
    g_autofree char *size = weft_size_format(bytes & ~(guint64)0xfffff);
    g_autofree char *clean = weft_cli_clean(name);
    g_autofree char *text = g_strdup_printf("%s %s", clean, size);
    if (tar->progress)
        weft_progress_show(tar->progress, text);
}

/* --- sending --- */

struct WeftTarSender {
    WeftTar tar;
    struct archive *archive;
    GError *failure; /* of the session */
};

static la_ssize_t
on_write(struct archive *archive, void *data, const void *bytes, size_t size)
{
    WeftTarSender *sender = data;
    WeftSession *session = sender->tar.session;
    int status = 0;
    while (!weft_session_room(session) && !sender->failure) {
        if (weft_session_has_ended(session, &status))
            weft_tar_await_end(session, &sender->failure);
        else
            turn(session, &sender->failure);
    }
    if (sender->failure)
        return -1;
    gsize n = MIN(size, weft_session_room(session));
    weft_session_send(session, bytes, n);
    return (la_ssize_t)n;
}

WeftTarSender *
weft_tar_sender_new(const WeftTar *tar, GError **error)
{
    g_autoptr(WeftTarSender) sender = g_new0(WeftTarSender, 1);
    sender->tar = *tar;
    sender->archive = archive_write_new();
    /* Every tar reads GNU's format, names are bytes in it, and there is no limit to their length. */
    archive_write_set_format_gnutar(sender->archive);
    archive_write_set_bytes_per_block(sender->archive, BLOCK);
    archive_write_set_bytes_in_last_block(sender->archive, 1);
    if (archive_write_open(sender->archive, sender, NULL, on_write, NULL) != ARCHIVE_OK) {
        set_archive_error(sender->archive, &sender->failure, "tar", error);
        return NULL;
    }
    return g_steal_pointer(&sender);
}

void
weft_tar_sender_free(WeftTarSender *sender)
{
    if (!sender)
        return;
    archive_write_free(sender->archive);
    g_clear_error(&sender->failure);
    g_free(sender);
}

static gboolean
send_contents(WeftTarSender *sender, struct archive *disk, struct archive_entry *entry, GError **error)
{
    const char *name = archive_entry_pathname(entry);
    g_autofree char *block = g_malloc(BLOCK);
    guint64 sent = 0;
    la_ssize_t n;
    while ((n = archive_read_data(disk, block, BLOCK)) > 0) {
        if (archive_write_data(sender->archive, block, (gsize)n) < 0)
            return set_archive_error(sender->archive, &sender->failure, name, error);
        sent += (guint64)n;
        show(&sender->tar, name, sent);
    }
    return n == 0 || set_archive_error(disk, &sender->failure, name, error);
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
send_entry(WeftTarSender *sender, struct archive *disk, struct archive_entry *entry, GError **error)
{
    mode_t type = archive_entry_filetype(entry);
    if (type == AE_IFDIR && !sender->tar.recursive)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: is a folder; copy it with -r",
                                 archive_entry_sourcepath(entry));
    if (type != AE_IFDIR && type != AE_IFREG && type != AE_IFLNK) {
        fprintf(stderr, "weft: %s: is no file, folder or link; left out\n", archive_entry_sourcepath(entry));
        return TRUE;
    }
    disown(entry);
    if (archive_write_header(sender->archive, entry) < ARCHIVE_WARN)
        return set_archive_error(sender->archive, &sender->failure, archive_entry_pathname(entry), error);
    return type != AE_IFREG || send_contents(sender, disk, entry, error);
}

static gboolean
send_tree(WeftTarSender *sender, struct archive *disk, const char *root, const char *name, GError **error)
{
    struct archive_entry *entry = archive_entry_new();
    gboolean fine = TRUE;
    int result = ARCHIVE_OK;
    while (fine && (result = archive_read_next_header2(disk, entry)) >= ARCHIVE_WARN && result != ARCHIVE_EOF) {
        const char *path = archive_entry_pathname(entry);
        g_autofree char *there = g_strconcat(name, path + MIN(strlen(root), strlen(path)), NULL);
        archive_entry_copy_sourcepath(entry, path);
        archive_entry_copy_pathname(entry, there);
        fine = send_entry(sender, disk, entry, error);
        if (fine)
            archive_read_disk_descend(disk);
        archive_entry_clear(entry);
    }
    if (fine && result != ARCHIVE_EOF)
        fine = set_archive_error(disk, &sender->failure, root, error);
    archive_entry_free(entry);
    return fine;
}

gboolean
weft_tar_send(WeftTarSender *sender, const char *path, const char *name, GError **error)
{
    struct archive *disk = archive_read_disk_new();
    archive_read_disk_set_symlink_hybrid(disk); /* what is named is followed, what is found below stays a link */
    archive_read_disk_set_behavior(disk, ARCHIVE_READDISK_NO_ACL | ARCHIVE_READDISK_NO_XATTR | ARCHIVE_READDISK_NO_FFLAGS);
    gboolean fine = archive_read_disk_open(disk, path) == ARCHIVE_OK ? send_tree(sender, disk, path, name, error)
                                                                     : set_archive_error(disk, &sender->failure, path, error);
    archive_read_free(disk);
    return fine;
}

gboolean
weft_tar_sender_finish(WeftTarSender *sender, GError **error)
{
    if (archive_write_close(sender->archive) != ARCHIVE_OK)
        return set_archive_error(sender->archive, &sender->failure, "tar", error);
    weft_session_send_end(sender->tar.session);
    return weft_tar_await_end(sender->tar.session, error);
}

/* --- receiving --- */

typedef struct {
    const WeftTar *tar;
    const char *from;
    const char *to;
    struct archive *stream;
    struct archive *disk;
    GError *failure; /* of the session */
    guint8 block[BLOCK];
} Receiver;

static la_ssize_t
on_read(struct archive *archive, void *data, const void **ret_bytes)
{
    Receiver *receiver = data;
    WeftSession *session = receiver->tar->session;
    const GByteArray *came = weft_session_has(session, WEFT_SESSION_OUTPUT);
    while (!came->len && !weft_session_is_at_end(session))
        if (!turn(session, &receiver->failure))
            return -1;
    gsize n = MIN(came->len, BLOCK);
    memcpy(receiver->block, came->data, n);
    weft_session_take(session, WEFT_SESSION_OUTPUT, n);
    *ret_bytes = receiver->block;
    return (la_ssize_t)n;
}

/* Where it goes here; NULL: it is nothing that was asked for. */
static char *
map_name(const Receiver *receiver, const char *name)
{
    gsize length = strlen(receiver->from);
    if (!name || strncmp(name, receiver->from, length) != 0 || (name[length] && name[length] != '/'))
        return NULL;
    return g_strconcat(receiver->to, name + length, NULL);
}

static gboolean
rename_entry(const Receiver *receiver, struct archive_entry *entry, GError **error)
{
    const char *name = archive_entry_pathname(entry), *twin = archive_entry_hardlink(entry);
    g_autofree char *here = map_name(receiver, name);
    g_autofree char *twin_here = twin ? map_name(receiver, twin) : NULL;
    if (!here || (twin && !twin_here)) {
        g_autofree char *clean = weft_cli_clean(name);
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "node %s: sent %s, which nobody asked for",
                                 weft_session_label(receiver->tar->session), clean);
    }
    archive_entry_copy_pathname(entry, here);
    if (twin)
        archive_entry_copy_hardlink(entry, twin_here);
    archive_entry_set_perm(entry, archive_entry_perm(entry) & 0777);
    return TRUE;
}

static gboolean
receive_contents(Receiver *receiver, struct archive_entry *entry, GError **error)
{
    const char *name = archive_entry_pathname(entry);
    guint64 received = 0;
    const void *bytes;
    size_t size;
    la_int64_t offset;
    int result;
    while ((result = archive_read_data_block(receiver->stream, &bytes, &size, &offset)) == ARCHIVE_OK) {
        if (archive_write_data_block(receiver->disk, bytes, size, offset) < ARCHIVE_WARN)
            return set_archive_error(receiver->disk, &receiver->failure, name, error);
        received += size;
        show(receiver->tar, name, received);
    }
    return result == ARCHIVE_EOF || set_archive_error(receiver->stream, &receiver->failure, name, error);
}

static gboolean
receive_entry(Receiver *receiver, struct archive_entry *entry, GError **error)
{
    mode_t type = archive_entry_filetype(entry);
    gboolean twin = archive_entry_hardlink(entry) != NULL;
    if (!rename_entry(receiver, entry, error))
        return FALSE;
    const char *name = archive_entry_pathname(entry);
    if (type == AE_IFDIR && !receiver->tar->recursive)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: is a folder; copy it with -r", receiver->from);
    if (type != AE_IFDIR && type != AE_IFREG && type != AE_IFLNK && !twin) {
        fprintf(stderr, "weft: %s: is no file, folder or link; left out\n", name);
        return TRUE;
    }
    if (archive_write_header(receiver->disk, entry) < ARCHIVE_WARN)
        return set_archive_error(receiver->disk, &receiver->failure, name, error);
    if (type == AE_IFREG && !twin && !receive_contents(receiver, entry, error))
        return FALSE;
    return archive_write_finish_entry(receiver->disk) >= ARCHIVE_WARN ||
           set_archive_error(receiver->disk, &receiver->failure, name, error);
}

static gboolean
receive_all(Receiver *receiver, GError **error)
{
    struct archive_entry *entry;
    int result;
    while ((result = archive_read_next_header(receiver->stream, &entry)) == ARCHIVE_OK || result == ARCHIVE_WARN)
        if (!receive_entry(receiver, entry, error))
            return FALSE;
    if (result != ARCHIVE_EOF)
        return set_archive_error(receiver->stream, &receiver->failure, receiver->from, error);
    return archive_write_close(receiver->disk) == ARCHIVE_OK ||
           set_archive_error(receiver->disk, &receiver->failure, receiver->to, error);
}

/* An empty stream is tar's way to say that it found nothing: its own words come first. */
gboolean
weft_tar_receive(const WeftTar *tar, const char *from, const char *to, GError **error)
{
    g_autofree Receiver *receiver = g_new0(Receiver, 1);
    *receiver = (Receiver){ .tar = tar, .from = from, .to = to };
    receiver->stream = archive_read_new();
    receiver->disk = archive_write_disk_new();
    archive_read_support_format_tar(receiver->stream);
    archive_read_support_format_empty(receiver->stream);
    archive_write_disk_set_options(receiver->disk, ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_PERM | SECURE);
    gboolean fine = archive_read_open(receiver->stream, receiver, NULL, on_read, NULL) == ARCHIVE_OK
                        ? receive_all(receiver, error)
                        : set_archive_error(receiver->stream, &receiver->failure, from, error);
    archive_read_free(receiver->stream);
    archive_write_free(receiver->disk);
    g_clear_error(&receiver->failure);
    return fine && weft_tar_await_end(tar->session, error);
}
