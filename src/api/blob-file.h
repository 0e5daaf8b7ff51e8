/* One file of an image while it comes: what a worker does with it. */
#pragma once

#include "blobs.h"

typedef struct WeftBlobFile WeftBlobFile;

WeftBlobFile *weft_blob_file_new(const char *folder, const char *digest, guint64 reserve);
void weft_blob_file_free(WeftBlobFile *file);

/* What is there of a digest. */
gboolean weft_blob_file_look(const char *folder, const char *digest, WeftBlob *ret_blob, GError **error);

/* Reads up to *length of the first bytes of one that is complete, and sets *length to how many there are. */
gboolean weft_blob_file_head(const char *folder, const char *digest, guint8 *head, gsize *length, GError **error);

/* Writes the piece behind what is there, and checks the whole when it is the last. After a restart what is there is summed
 * first. thread: worker; may block; one call at a time for a file. */
gboolean weft_blob_file_write(WeftBlobFile *file, const WeftBlobPiece *piece, WeftBlob *ret_blob, GError **error);

/* Up to length bytes from the offset on. thread: worker; may block. */
GBytes *weft_blob_file_read(const char *folder, const char *digest, guint64 offset, guint64 length, GError **error);
