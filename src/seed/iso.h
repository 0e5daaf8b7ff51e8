/* A small ISO 9660 file system in memory, with Rock Ridge and Joliet names. */
#pragma once

#include <glib.h>

typedef struct WeftIsoFile {
    const char *path; /* "weft/files/munge.key"; a folder comes into being with its first file */
    guint mode;
    GBytes *content; /* not empty */
} WeftIsoFile;

/* The same files, in the same order, give the same bytes. thread: any, one at a time (it takes a lock). */
GBytes *weft_iso_make(const char *label, const WeftIsoFile *files, gsize n, GError **error);
