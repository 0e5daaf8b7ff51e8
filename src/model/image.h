/* An image: what a node boots from. Its files are known by their SHA-256, wherever they are. */
#pragma once

#include <glib.h>
#include <jansson.h>

typedef enum {
    WEFT_DISK_QCOW2,    /* a cloud image: each node writes to a layer of its own over it */
    WEFT_DISK_RAW,      /* likewise */
    WEFT_DISK_READONLY, /* a raw file system that all nodes share and none writes to (squashfs); the image's own init layers it
                         */
    WEFT_DISK_FORMATS
} WeftDiskFormat;
extern const char *const weft_disk_format_words[WEFT_DISK_FORMATS + 1]; /* "qcow2", "raw", "readonly" */

typedef struct WeftImageFile {
    char *digest;          /* SHA-256, 64 lower-case hexadecimal digits */
    guint64 size;          /* bytes */
    WeftDiskFormat format; /* of a disk */
} WeftImageFile;

typedef enum { WEFT_PART_DISK, WEFT_PART_KERNEL, WEFT_PART_INITRD, WEFT_PARTS } WeftImagePart;
extern const char *const weft_image_part_words[WEFT_PARTS + 1]; /* "disk", "kernel", "initrd" */

typedef struct WeftImage {
    char *name;
    WeftImageFile *disk;   /* NULL: all is in the initrd */
    WeftImageFile *kernel; /* NULL: the disk boots by itself */
    WeftImageFile *initrd; /* NULL: none */
    char *cmdline;         /* of the kernel; NULL: none */
    gint64 created;
} WeftImage;

/* { "name": "mpi", "disk": {"digest": "…", "size": 82000000, "format": "readonly"}, "kernel": {…}, "initrd": {…},
 *   "cmdline": "quiet" }. INVALID without a disk and without a kernel, with an initrd or cmdline but no kernel. */
WeftImage *weft_image_from_json(json_t *json, const char *where, GError **error);
json_t *weft_image_to_json(const WeftImage *image);
void weft_image_free(WeftImage *image);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftImage, weft_image_free)

/* NULL: it has no such part. */
const WeftImageFile *weft_image_part(const WeftImage *image, WeftImagePart part);
/* The first, second … of the files that it has; NULL: there are no more. */
const WeftImageFile *weft_image_file(const WeftImage *image, guint n);

#define WEFT_DIGEST_LENGTH 64
/* So many lower-case hexadecimal digits? */
gboolean weft_digest_check(const char *digest, GError **error);
/* "image-<digest>": its name on a host. */
#define WEFT_IMAGE_PREFIX "image-"
char *weft_image_file_name(const char *digest);
