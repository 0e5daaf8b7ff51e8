/* A checkpoint as one file, which tar(1) can list: first its manifest, then the files that it names by their digest. */
#pragma once

#include <glib.h>
#include <jansson.h>

#define WEFT_ARCHIVE_BLOCK 512
#define WEFT_ARCHIVE_MANIFEST "manifest.json"

/* The part of a header that is used: POSIX.1-1988, with sizes above 8 GiB as GNU tar writes them. */
typedef struct WeftArchiveHeader {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2];
    char rest[247];
} WeftArchiveHeader;
G_STATIC_ASSERT(sizeof(WeftArchiveHeader) == WEFT_ARCHIVE_BLOCK);

WeftArchiveHeader weft_archive_header(const char *name, guint64 size);
/* Members begin at whole blocks. */
guint64 weft_archive_padded(guint64 size);

typedef struct WeftArchiveMember {
    char *name;
    guint64 offset; /* of its bytes in the file */
    guint64 size;
} WeftArchiveMember;

/* WeftArchiveMember, each within the file; the first is the manifest, the others are called as digests are. NULL: the file is
 * not what weft checkpoints export writes, or was cut off. */
GPtrArray *weft_archive_members(int fd);
/* An object; NULL likewise. */
json_t *weft_archive_manifest(int fd, const GPtrArray *members);
