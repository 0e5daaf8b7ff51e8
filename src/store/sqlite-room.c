#include "sqlite-room.h"

#include "errors.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONG_LOG 16384         /* pages: those that change often reach the file once */
#define STEP (256 * 1024)      /* bytes that a file grows by */
#define FRAME_HEAD 24          /* bytes of the log before each page */
#define INDEX_PART (32 * 1024) /* bytes of the index for each… */
#define INDEX_FRAMES 4096      /* …pages of the log, some fewer in the first part */

static const char *const suffixes[WEFT_ROOM_FILES] = { "", "-wal", "-shm" };

/* --- the files --- */

static guint64
size_of(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 ? (guint64)info.st_size : 0;
}

static guint64
count_missing(int fd, guint64 wanted)
{
    guint64 size = size_of(fd);
    return wanted > size ? wanted - size : 0;
}

/* Not by SQLITE_FCNTL_SIZE_HINT: Debian's SQLite writes a byte to each block then. */
static gboolean
extend(int fd, guint64 wanted)
{
    guint64 size = size_of(fd), steps = (wanted + STEP - 1) / STEP;
    return wanted <= size || posix_fallocate(fd, (off_t)size, (off_t)(steps * STEP - size)) == 0;
}

/* What SQLite commits first after a start says how long the file is, with all that was added to it. Were that lost with the
 * power and the commit not, SQLite would take the file for damaged, and never fold the log. */
static gboolean
extend_file(int fd, guint64 wanted)
{
    return count_missing(fd, wanted) == 0 || (extend(fd, wanted) && fdatasync(fd) == 0);
}

/* Folding the log cuts off what the file has beyond its last page, for anybody to take, but no part of what SQLite calls a
 * chunk: so all of it is one, unless it has to grow. A chunk is no longer than an int says: a file of over 2 GiB is a few equal
 * ones. */
static void
keep_whole(const WeftRoom *room, guint64 pages_size)
{
    guint64 size = size_of(room->files[WEFT_ROOM_FILE]), chunk = size;
    while (chunk > G_MAXINT && chunk % 2 == 0)
        chunk /= 2;
    int whole = size >= pages_size && chunk <= G_MAXINT ? (int)chunk : STEP;
    sqlite3_file_control(room->db->sqlite, "main", SQLITE_FCNTL_CHUNK_SIZE, &whole);
}

/* --- keeping it --- */

/* Of all pages, also of those that are in the log only. */
static gboolean
measure_pages(const WeftRoom *room, guint64 *ret_size)
{
    gint64 pages;
    if (!weft_db_number(room->db, "PRAGMA page_count", &pages, NULL))
        return FALSE;
    *ret_size = (guint64)pages * room->page;
    return TRUE;
}

static guint64
frames_size(const WeftRoom *room, guint64 frames)
{
    return frames * (room->page + FRAME_HEAD);
}

static gboolean
grow(WeftRoom *room, guint64 free)
{
    guint64 pages_size, missing = 0;
    if (room->reserve == 0)
        return TRUE;
    if (!measure_pages(room, &pages_size))
        return FALSE;
    guint64 log_size = frames_size(room, room->frames) + room->reserve / 2;
    const guint64 wanted[WEFT_ROOM_FILES] = {
        [WEFT_ROOM_FILE] = pages_size + room->reserve / 2,
        [WEFT_ROOM_LOG] = log_size,
        [WEFT_ROOM_INDEX] = (log_size / frames_size(room, 1) / INDEX_FRAMES + 2) * INDEX_PART,
    };
    for (guint i = 0; i < WEFT_ROOM_FILES; i++)
        missing += count_missing(room->files[i], wanted[i]);
    if (missing == 0 && free == 0)
        return TRUE;
    /* Only a hint: but where there is too little, trying would take what there is from others for nothing. */
    g_autofree char *folder = g_path_get_dirname(sqlite3_db_filename(room->db->sqlite, "main"));
    return weft_file_check_room(folder, missing, free, NULL) &&
           extend_file(room->files[WEFT_ROOM_FILE], wanted[WEFT_ROOM_FILE]) &&
           extend(room->files[WEFT_ROOM_LOG], wanted[WEFT_ROOM_LOG]) &&
           extend(room->files[WEFT_ROOM_INDEX], wanted[WEFT_ROOM_INDEX]);
}

/* What was folded into the file is written over by what comes next, unless somebody still reads it. */
gboolean
weft_room_fold(WeftRoom *room)
{
    int frames, folded;
    guint64 pages_size;
    if (room->reserve > 0 && measure_pages(room, &pages_size))
        keep_whole(room, pages_size);
    if (sqlite3_wal_checkpoint_v2(room->db->sqlite, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, &folded) != SQLITE_OK ||
        folded < frames)
        return FALSE;
    room->frames = 0;
    return TRUE;
}

gboolean
weft_room_keep(WeftRoom *room, guint64 free)
{
    gboolean kept = grow(room, free);
    if (kept && room->frames < LONG_LOG)
        return TRUE;
    return weft_room_fold(room) ? grow(room, free) : kept;
}

static int
note_frames(gpointer data, sqlite3 *sqlite, const char *name, int frames)
{
    ((WeftRoom *)data)->frames = (guint64)frames;
    return SQLITE_OK;
}

/* --- beginning and end --- */

/* They are open for as long as SQLite has them: closing one gives up the locks that SQLite has on it. Copying makes holes. */
static gboolean
open_files(WeftRoom *room, GError **error)
{
    for (guint i = 0; i < WEFT_ROOM_FILES; i++) {
        g_autofree char *path = g_strconcat(sqlite3_db_filename(room->db->sqlite, "main"), suffixes[i], NULL);
        room->files[i] = open(path, O_RDWR | O_CLOEXEC);
        if (room->files[i] < 0)
            return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "%s: %s", path, g_strerror(errno));
        guint64 size = size_of(room->files[i]);
        if (room->reserve > 0 && size > 0 && posix_fallocate(room->files[i], 0, (off_t)size) != 0)
            g_message("%s has holes that there is no room for on its disk", path);
    }
    return TRUE;
}

/* It keeps as much when it begins anew. */
static gboolean
bound_log(WeftRoom *room, GError **error)
{
    g_autofree char *sql =
        g_strdup_printf("PRAGMA journal_size_limit = %" G_GUINT64_FORMAT, frames_size(room, LONG_LOG) + room->reserve);
    return weft_db_script(room->db, sql, error);
}

void
weft_room_prepare(WeftRoom *room)
{
    *room = (WeftRoom){ .files = { -1, -1, -1 } };
}

gboolean
weft_room_init(WeftRoom *room, WeftDb *db, guint64 reserve, GError **error)
{
    gint64 page;
    room->db = db;
    room->reserve = reserve;
    if (!weft_db_number(db, "PRAGMA page_size", &page, error))
        return FALSE;
    room->page = (guint64)page;
    sqlite3_wal_hook(db->sqlite, note_frames, room);
    if (!bound_log(room, error) || !open_files(room, error))
        return FALSE;
    /* What an earlier weftd has left: as many as there may be, where they cannot be folded now. */
    if (!weft_room_fold(room))
        room->frames = size_of(room->files[WEFT_ROOM_LOG]) / frames_size(room, 1);
    return TRUE;
}

void
weft_room_clear(WeftRoom *room)
{
    for (guint i = 0; i < WEFT_ROOM_FILES; i++)
        if (room->files[i] >= 0)
            close(room->files[i]);
}
