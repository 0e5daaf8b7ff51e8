/* Room on the disk that belongs to the store's own files before they need it; inside of the SQLite store only.
 *
 * SQLite's log has blocks for more than was written to it, the store's file for more than the pages that it has with those in
 * the log, and the log's index for every page that fits into the log. So whoever else fills the disk, and goes on filling it,
 * takes none of that: what makes room can be written there, which is removals and whatever those in charge want.
 *
 * thread: the writer's. */
#pragma once

#include "sqlite-db.h"

typedef enum { WEFT_ROOM_FILE, WEFT_ROOM_LOG, WEFT_ROOM_INDEX, WEFT_ROOM_FILES } WeftRoomFile;

typedef struct WeftRoom {
    WeftDb *db;                 /* the writer's */
    guint64 reserve;            /* bytes, half for the log, half for the file; 0: nothing is kept */
    guint64 page;               /* bytes */
    guint64 frames;             /* pages in the log */
    int files[WEFT_ROOM_FILES]; /* descriptors, or -1 */
} WeftRoom;

/* One that has nothing yet. */
void weft_room_prepare(WeftRoom *room);
/* db: a store in WAL mode. From now on the log is folded into the file by weft_room_keep(), not by SQLite itself. */
gboolean weft_room_init(WeftRoom *room, WeftDb *db, guint64 reserve, GError **error);
/* After the last connection was closed. */
void weft_room_clear(WeftRoom *room);

/* After each transaction: takes what lacks, where so many bytes stay free for others, and folds a long log into the file. TRUE:
 * nothing lacks, and they do. */
gboolean weft_room_keep(WeftRoom *room, guint64 free);
/* Folds the log, however long: also after a transaction that could not be written, as it may have needed more than the log has
 * left. TRUE: the next one begins the log anew, unless somebody still reads it. */
gboolean weft_room_fold(WeftRoom *room);
