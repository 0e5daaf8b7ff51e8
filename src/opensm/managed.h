/* weft's part of opensm's partitions.conf. The site's own file is a template: weft writes between its two marks and nowhere
 * else.
 *
 *     Default=0x7fff, ipoib : ALL=limited, SELF=full ;
 *     # >>> weft: written by weft, changes between these marks are lost (generation 12) >>>
 *     weft-k3v9…=0x0001, ipoib, sl=2 :
 *         0x0002c903000e0001=full, # 0x0200000000000001 0x0200000000000002
 *         0x0002c903000e0002=full ;
 *     # <<< weft <<<
 *
 * A member a line; behind it, for weft alone, the virtual functions of the port that are members. A member's index is 0 or any.
 *
 * Pure: text in, text out; and one function that replaces a file. */
#pragma once

#include "fabric.h"

typedef struct WeftManagedFile {
    char *before;          /* the site's, up to the mark */
    char *after;           /* the site's, behind the mark */
    guint64 generation;    /* 0: weft has not written here yet */
    GPtrArray *partitions; /* WeftPartition, those between the marks, by number */
    GPtrArray *texts;      /* char *, what was written of each; NULL: not yet. With thousands a change of one costs one */
    GPtrArray *site;       /* weft_managed_file_site() */
    gboolean was_edited;   /* between the marks is something that weft did not write */
} WeftManagedFile;

void weft_managed_file_free(WeftManagedFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftManagedFile, weft_managed_file_free)

/* A file without marks is the site's alone; weft's part then goes to its end. Marks without their partner, twice or in the
 * wrong order are INVALID with the line: nothing is guessed about a site's file. So are partitions of the site's that would
 * swallow weft's: one that is not ended, or to which opensm would give one of weft's numbers because it has none. */
WeftManagedFile *weft_managed_file_parse(const char *text, GError **error);
/* weft's partition of that number; NULL: none. */
const WeftPartition *weft_managed_file_find(const WeftManagedFile *file, guint pkey);
/* What opensm reads: lines are kept below 4,000 characters, as its parser wants. */
char *weft_managed_file_format(const WeftManagedFile *file);
/* All of the change or nothing of it. CONFLICT: older than the file, or the number is one that the site's part defines. */
gboolean weft_managed_file_change(WeftManagedFile *file, const WeftFabricChange *change, GError **error);
/* Numbers (guint16) that the site's part defines, with their names: WeftPartition without members where these are not GUIDs. */
GPtrArray *weft_managed_file_site(const WeftManagedFile *file);

/* Reads, or writes a new one beside it, syncs and renames; owner and mode stay. A file that is not there is empty. */
WeftManagedFile *weft_managed_file_load(const char *path, GError **error);
gboolean weft_managed_file_save(const WeftManagedFile *file, const char *path, GError **error);
/* The same in two steps. What is likely to fail fails in the first, which changes nothing yet; the second takes the time, and
 * frees. What somebody who was killed between the two has left beside the file goes; one at a time writes it. */
typedef struct WeftManagedSave WeftManagedSave;
WeftManagedSave *weft_managed_save_begin(const WeftManagedFile *file, const char *path, GError **error);
gboolean weft_managed_save_end(WeftManagedSave *save, GError **error);
void weft_managed_save_cancel(WeftManagedSave *save); /* NULL is fine */

/* Which file it is, and since when: for those who keep what they read or wrote. */
typedef struct WeftManagedStamp {
    guint64 device, inode;
    gint64 size, seconds, nanoseconds;
} WeftManagedStamp;

/* Of the new file; it will be the same at the old one's place. */
gboolean weft_managed_save_stamp(const WeftManagedSave *save, WeftManagedStamp *ret_stamp);
/* Whether the file there is that one, and nobody has written to it since. */
gboolean weft_managed_stamp_holds(const WeftManagedStamp *stamp, const char *path);
