/* The files of images, known by their SHA-256, in one folder: "<digest>" is whole and was checked, "<digest>.part" is on its
 * way. What is there is what the folder says: a killed weftd goes on where the file ends.
 *
 * A file goes soon after the last image, template or checkpoint that names it goes, or where a record says that it has ended
 * before any of them did. What none of them names for a day is removed at the next start: uploads that nobody ended, and what a
 * crash left between an image's end and its files'.
 *
 * thread: main, but for looks, heads and pins, which are for any. Bytes are written and summed on workers, and read on others:
 * a file that does not answer keeps nobody from writing. */
#pragma once

#include "checkpoint.h"
#include "image.h"
#include "store.h"

#include <glib.h>

typedef struct WeftBlobs WeftBlobs;

/* Threads that read. Whoever has so many reads at the same time at most, as shares.h counts them, has none that waits for
 * another. */
#define WEFT_BLOB_READERS 16

/* Makes the folder where it is missing. reserve: bytes that uploads leave free. */
WeftBlobs *weft_blobs_new(WeftStore *store, const char *folder, guint64 reserve, GError **error);
/* Ends what is being written first. NULL is fine. */
void weft_blobs_free(WeftBlobs *blobs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftBlobs, weft_blobs_free)

typedef struct WeftBlob {
    guint64 size; /* bytes so far; 0: nothing */
    gboolean complete;
} WeftBlob;

gboolean weft_blobs_look(WeftBlobs *blobs, const char *digest, WeftBlob *ret_blob, GError **error);

/* Up to *length of its first bytes, when it is complete; sets *length to how many there are. */
gboolean weft_blobs_head(WeftBlobs *blobs, const char *digest, guint8 *head, gsize *length, GError **error);

typedef struct WeftBlobPiece {
    const char *digest;
    guint64 offset;    /* of these bytes */
    guint64 total;     /* of the whole */
    GByteArray *bytes; /* none behind the last of them: it is only checked */
} WeftBlobPiece;

/* error NULL: this is what is there now. CONFLICT: the file does not end at that offset, the message tells where it does.
 * INVALID: it is whole, but not what its digest says: it was removed. EXHAUSTED: the disk is full. BUSY: another piece of it is
 * being written.
 */
typedef void (*WeftBlobWritten)(const WeftBlob *blob, const GError *error, gpointer data);
void weft_blobs_write(WeftBlobs *blobs, const WeftBlobPiece *piece, WeftBlobWritten written, gpointer data);

/* took: processor time of the thread that read, in microseconds. */
typedef void (*WeftBlobRead)(GBytes *bytes, gint64 took, const GError *error, gpointer data);
/* Reads total bytes from the offset on, fewer at the end; none behind it. read is called once, unless the blobs were freed
 * before; free_data is last of all, also where nobody waits for the bytes any more. */
void weft_blobs_read(WeftBlobs *blobs, const WeftBlobPiece *piece, WeftBlobRead read, gpointer data, GDestroyNotify free_data);

/* As long as a pin is there, the files that the image names stay, whichever images go. It may outlive the blobs. */
typedef struct WeftBlobPin WeftBlobPin;
WeftBlobPin *weft_blobs_pin(WeftBlobs *blobs, const WeftImage *image);
WeftBlobPin *weft_blobs_pin_checkpoint(WeftBlobs *blobs, const WeftCheckpoint *checkpoint);
void weft_blob_pin_free(WeftBlobPin *pin);
