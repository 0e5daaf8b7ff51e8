/* Brings a file to weftd, whatever happens to the connection on the way. */
#pragma once

#include "cli.h"

typedef struct WeftUpload {
    char *digest; /* SHA-256, hexadecimal */
    guint64 size;
    char start[8]; /* its first bytes */
} WeftUpload;

void weft_upload_clear(WeftUpload *upload);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftUpload, weft_upload_clear)

/* Sums the file up, and sends what weftd does not have of it. what is for the progress: "disk". */
gboolean weft_upload_file(WeftCli *cli, const char *what, const char *path, WeftUpload *ret_upload, GError **error);

/* The same of a part of a file, of which digest and size are known: weftd checks them. */
gboolean
weft_upload_part(WeftCli *cli, const char *what, const char *path, guint64 offset, const WeftUpload *part, GError **error);

/* "82M", rounded: for people. */
char *weft_upload_size(guint64 bytes);
