#include "trail.h"

#include "clock.h"
#include "errors.h"
#include "file.h"
#include "head-file.h"
#include "orphans.h"
#include "waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGITS 12 /* of the number in the name of a file that is full */
/* What waits while nothing can be written: some thousand entries. */
#define WAITING_MAX (4 * 1024 * 1024)
#define FRAME 256 /* bytes of a line beside its fields: number, hashes, end */
/* Room that the file has before it needs it: a disk that others have filled takes a few hundred entries more. */
#define ROOM (256 * 1024)

struct WeftTrail {
    char *path;
    guint64 full;
    int fd;
    int head_fd;
    guint64 synced;      /* bytes from its beginning that are on the disk */
    guint64 room;        /* … that it has blocks for */
    WeftAuditHead head;  /* the last entry that was added */
    WeftAuditHead kept;  /* … that the head file names */
    gboolean is_short;   /* the disk has no more blocks for it */
    GString *waiting;    /* lines that are not on the disk */
    WeftWaiting *shares; /* whose they are */
    gsize written;       /* bytes of them that are in the file */
    gboolean is_unsure;  /* a sync failed: nobody knows which of these reached the disk */
    GString *line;       /* the last one that was added */
    guint64 lost;
};

static gboolean
fail(const WeftTrail *trail, const char *verb, GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot %s the audit trail %s: %s", verb, trail->path,
                             g_strerror(errno));
}

/* --- adding --- */

static void
append(WeftTrail *trail, const json_t *fields)
{
    g_autofree char *line = weft_audit_line(&trail->head, fields);
    g_string_assign(trail->line, line);
    g_string_append(trail->waiting, line);
    g_string_append_c(trail->waiting, '\n');
}

/* Of the trail itself: takes what it says over. */
static void
note(WeftTrail *trail, const char *kind, const char *name, json_t *value)
{
    g_autofree char *now = weft_clock_format(weft_clock_now());
    json_auto_t *fields = json_pack("{s:s, s:s, s:o}", "time", now, "kind", kind, name, value);
    append(trail, fields);
}

/* --- opening --- */

static gboolean
check_file(const WeftTrail *trail, struct stat *info, GError **error)
{
    if (fstat(trail->fd, info) < 0)
        return fail(trail, "look at", error);
    if (!S_ISREG(info->st_mode) || info->st_mode & 022)
        return weft_error_refuse(
            error, WEFT_ERROR_INVALID,
            "the audit trail %s must be a file that nobody but weft may write, and has mode %06o; chmod 0600 it", trail->path,
            info->st_mode);
    for (gint64 began = g_get_monotonic_time(); flock(trail->fd, LOCK_EX | LOCK_NB) < 0;)
        if (!weft_orphans_wait(began))
            return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "another weftd writes the audit trail %s; stop it first",
                                     trail->path);
    return TRUE;
}

static gboolean
open_file(WeftTrail *trail, GError **error)
{
    struct stat info = { 0 };
    trail->fd = open(trail->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (trail->fd < 0)
        return fail(trail, "open", error);
    if (!check_file(trail, &info, error) || !weft_file_sync_folder(trail->path, error)) {
        close(trail->fd);
        trail->fd = -1;
        return FALSE;
    }
    trail->synced = (guint64)info.st_size;
    trail->room = (guint64)info.st_blocks * 512;
    return TRUE;
}

/* The end of a file, at most so much of it as an entry and what a torn one left can have. */
static char *
read_end(int fd, guint64 size, gsize *ret_length)
{
    gsize length = (gsize)MIN(size, 2 * (guint64)WEFT_AUDIT_LINE_MAX);
    char *text = g_malloc(length + 1);
    gsize got = 0;
    for (ssize_t n = 1; n > 0 && got<length; got += n> 0 ? (gsize)n : 0)
        n = pread(fd, text + got, length - got, (off_t)(size - length + got));
    *ret_length = got;
    return text;
}

/* Where the last whole entry ends, with its line's end; 0: there is none. */
static gsize
find_head(const char *text, gsize length, WeftAuditHead *ret_head)
{
    const char *end = memrchr(text, '\n', length);
    while (end) {
        const char *before = end > text ? memrchr(text, '\n', (gsize)(end - text)) : NULL;
        const char *line = before ? before + 1 : text;
        json_auto_t *entry = weft_audit_parse(line, (gsize)(end - line), ret_head);
        if (entry)
            return (gsize)(end - text) + 1;
        end = before;
    }
    return 0;
}

/* The chain of a file that was begun and says nothing yet goes on behind the one before it. */
static void
find_former(WeftTrail *trail)
{
    g_auto(GStrv) files = weft_trail_files(trail->path);
    for (guint i = 0; files[i] && !trail->head.sequence; i++) {
        int fd = open(files[i], O_RDONLY | O_CLOEXEC);
        struct stat info;
        if (fd < 0)
            continue;
        gsize length = 0;
        g_autofree char *text = fstat(fd, &info) == 0 ? read_end(fd, (guint64)info.st_size, &length) : NULL;
        if (text && !find_head(text, length, &trail->head))
            trail->head = (WeftAuditHead){ 0 };
        close(fd);
    }
}

/* The end of a torn line is written with the entry that tells of it, in one piece. */
static void
close_torn(WeftTrail *trail, const char *text, gsize length)
{
    gboolean has_end = text[length - 1] == '\n';
    json_auto_t *fields = weft_audit_torn(text, length - has_end);
    if (!has_end)
        g_string_append_c(trail->waiting, '\n');
    append(trail, fields);
}

/* What the head file names was on the disk: where it is in none of the files the chain goes on behind it all the same, and says
 * what was found. A file has another name then, or was packed, or somebody has cut off the end. */
static void
resume(WeftTrail *trail)
{
    gsize length;
    g_autofree char *text = read_end(trail->fd, trail->synced, &length);
    gsize end = find_head(text, length, &trail->head);
    if (!end) {
        trail->head = (WeftAuditHead){ 0 };
        find_former(trail);
    }
    guint64 found = trail->head.sequence;
    gboolean is_missing = found <= trail->kept.sequence && strcmp(trail->head.hash, trail->kept.hash) != 0;
    if (is_missing)
        trail->head = trail->kept;
    if (end < length)
        close_torn(trail, text + end, length - end);
    if (is_missing)
        note(trail, "resume", "found", json_integer((json_int_t)found));
}

WeftTrail *
weft_trail_open(const char *path, guint64 size, GError **error)
{
    g_autoptr(WeftTrail) trail = g_new0(WeftTrail, 1);
    trail->path = g_strdup(path);
    trail->full = size;
    trail->head_fd = -1;
    trail->waiting = g_string_new(NULL);
    trail->shares = weft_waiting_new(WAITING_MAX);
    trail->line = g_string_new(NULL);
    if (!open_file(trail, error))
        return NULL;
    trail->head_fd = weft_head_open(path, &trail->kept, error);
    if (trail->head_fd < 0)
        return NULL;
    resume(trail);
    return g_steal_pointer(&trail);
}

void
weft_trail_free(WeftTrail *trail)
{
    if (!trail)
        return;
    if (trail->fd >= 0)
        close(trail->fd);
    if (trail->head_fd >= 0)
        close(trail->head_fd);
    g_string_free(trail->waiting, TRUE);
    weft_waiting_free(trail->shares);
    g_string_free(trail->line, TRUE);
    g_free(trail->path);
    g_free(trail);
}

/* --- the next file --- */

static gboolean
begin_file(WeftTrail *trail, const char *kind, const char *former, GError **error)
{
    int before = trail->fd;
    if (!open_file(trail, error)) {
        trail->fd = before;
        return FALSE;
    }
    close(before);
    note(trail, kind, "former", former ? json_string(former) : json_null());
    return TRUE;
}

static gboolean
move(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0;
}

/* Where it cannot be done the trail goes on in the file that it has, and it is tried again when that is twice as large. */
static void
rotate(WeftTrail *trail)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *former = g_strdup_printf("%s.%0*" G_GUINT64_FORMAT, trail->path, DIGITS, trail->head.sequence);
    g_autofree char *name = g_path_get_basename(former);
    if (!move(trail->path, former))
        fail(trail, "begin another file of", &error);
    else if (!begin_file(trail, "rotate", name, &error) && !move(former, trail->path))
        g_warning("the audit trail goes on in %s", former);
    if (error) {
        g_warning("%s", error->message);
        trail->full *= 2;
    }
}

gboolean
weft_trail_reopen(WeftTrail *trail, GError **error)
{
    struct stat ours, there;
    if (trail->written)
        return weft_error_refuse(error, WEFT_ERROR_BUSY,
                                 "the end of the audit trail %s is not on the disk yet; it is tried again", trail->path);
    if (fstat(trail->fd, &ours) == 0 && stat(trail->path, &there) == 0 && ours.st_ino == there.st_ino &&
        ours.st_dev == there.st_dev)
        return TRUE;
    return begin_file(trail, "reopen", NULL, error);
}

const char *
weft_trail_add(WeftTrail *trail, const json_t *fields)
{
    if (!weft_waiting_take(trail->shares, fields, json_dumpb(fields, NULL, 0, JSON_COMPACT) + FRAME)) {
        trail->lost++;
        return NULL;
    }
    if (trail->lost)
        note(trail, "lost", "entries", json_integer((json_int_t)trail->lost));
    trail->lost = 0;
    if (trail->synced >= trail->full && !trail->waiting->len && !trail->is_short) /* another file would have no blocks */
        rotate(trail);
    append(trail, fields);
    return trail->line->str;
}

/* --- writing --- */

/* Where there is none to be had, nothing is lost but the room. */
static void
take_room(WeftTrail *trail)
{
    guint64 end = trail->synced + trail->waiting->len;
    trail->is_short = FALSE;
    if (end + ROOM / 2 <= trail->room)
        return;
    if (fallocate(trail->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)(end + ROOM)) == 0)
        trail->room = end + ROOM;
    else
        trail->is_short = errno == ENOSPC || errno == EDQUOT;
}

guint64
weft_trail_left(const WeftTrail *trail)
{
    guint64 end = trail->synced + trail->waiting->len;
    return !trail->is_short ? WEFT_TRAIL_ENOUGH : trail->room > end ? trail->room - end : 0;
}

/* Linux tells once of what it could not bring to the disk, and takes it for written then: a second sync says nothing. So what
 * was not synced is taken out of the file, and written again. */
static gboolean
take_back(WeftTrail *trail, GError **error)
{
    if (ftruncate(trail->fd, (off_t)trail->synced) < 0)
        return fail(trail, "take back what did not reach the disk of", error);
    trail->is_unsure = FALSE;
    trail->written = 0;
    trail->room = 0;
    return TRUE;
}

static gboolean
write_lines(WeftTrail *trail, GError **error)
{
    struct stat info;
    if (!trail->written && fstat(trail->fd, &info) == 0)
        trail->synced = (guint64)info.st_size; /* whoever else has written there loses nothing by take_back() */
    while (trail->written < trail->waiting->len) {
        ssize_t n = write(trail->fd, trail->waiting->str + trail->written, trail->waiting->len - trail->written);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(trail, "write", error);
        trail->written += (gsize)n;
    }
    return TRUE;
}

static gboolean
sync_lines(WeftTrail *trail, GError **error)
{
    trail->is_unsure = fdatasync(trail->fd) < 0;
    if (trail->is_unsure)
        return fail(trail, "sync", error);
    trail->synced += trail->written;
    trail->written = 0;
    g_string_truncate(trail->waiting, 0);
    weft_waiting_clear(trail->shares);
    return TRUE;
}

gboolean
weft_trail_flush(WeftTrail *trail, GError **error)
{
    if (trail->is_unsure && !take_back(trail, error))
        return FALSE;
    take_room(trail);
    if (!write_lines(trail, error) || !sync_lines(trail, error))
        return FALSE;
    if (trail->kept.sequence == trail->head.sequence)
        return TRUE;
    if (!weft_head_write(trail->head_fd, &trail->head))
        return fail(trail, "write the head of", error);
    trail->kept = trail->head;
    return TRUE;
}

/* --- the files --- */

/* They are in one folder, however that was written. */
guint64
weft_trail_last(const char *path, const char *file)
{
    g_autofree char *stem = g_path_get_basename(path), *name = g_path_get_basename(file);
    gsize length = strlen(stem);
    guint64 last = 0;
    const char *digits = g_str_has_prefix(name, stem) && name[length] == '.' ? name + length + 1 : "";
    return strlen(digits) >= DIGITS && g_ascii_string_to_unsigned(digits, 10, 1, G_MAXUINT64, &last, NULL) ? last : 0;
}

static int
newest_first(gconstpointer a, gconstpointer b)
{
    const char *one = *(const char *const *)a, *other = *(const char *const *)b;
    gsize lengths[] = { strlen(one), strlen(other) };
    return lengths[0] != lengths[1] ? (lengths[0] < lengths[1] ? 1 : -1) : strcmp(other, one);
}

char **
weft_trail_files(const char *path)
{
    g_autofree char *folder = g_path_get_dirname(path);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    GPtrArray *files = g_ptr_array_new();
    for (const char *name; dir && (name = g_dir_read_name(dir));) {
        g_autofree char *file = g_build_filename(folder, name, NULL);
        if (weft_trail_last(path, file))
            g_ptr_array_add(files, g_steal_pointer(&file));
    }
    g_ptr_array_sort(files, newest_first);
    g_ptr_array_insert(files, 0, g_strdup(path));
    g_ptr_array_add(files, NULL);
    return (char **)g_ptr_array_free(files, FALSE);
}
