/* Files of images and of saved nodes: where weftd has them, and on their way to hosts, each once to each host, however many
 * nodes wait for it. thread: main. */
#pragma once

#include "image.h"
#include "rest.h"

#include <glib.h>

typedef struct WeftControl WeftControl;
typedef struct WeftImages WeftImages;
typedef struct WeftJob WeftJob;

WeftImages *weft_images_new(WeftControl *control);
void weft_images_free(WeftImages *images);

/* The record of an image appeared, changed or went. */
void weft_images_changed(WeftImages *images);
/* NULL: there is none of that name. Borrowed until the next change. */
const WeftImage *weft_images_find(WeftImages *images, const char *name);
/* Set of the digests of all images, and of what templates and nodes that are restored are saved in; NULL when the store cannot
 * be read. Borrowed likewise.
 */
GHashTable *weft_images_wanted(WeftImages *images);

/* Where weftd has the file of that name: its digest once it is whole. */
char *weft_images_path(const WeftControl *control, const char *name);
/* Time for a step that reads, writes or sends so many bytes. */
gint64 weft_images_deadline(const WeftControl *control, guint64 bytes);
/* Lets a job fetch at most so many bytes to the path of that name, which it takes over; weftd's reserve stays free. When it is
 * done the file has the name of its digest, and a power cut does not take it away. */
void weft_images_fetch(const WeftControl *control, WeftJob *job, char *path, guint64 most);
/* Nobody wants what a job fetched: its file goes, unless it is somebody else's as well. */
void weft_images_drop(WeftImages *images, const WeftJob *job);

/* Are all its files there? */
gboolean weft_images_are_on(const WeftImages *images, const char *host, const WeftImage *image);
/* Is a file of that digest on its way to a host, or was, and did not get there? */
gboolean weft_images_carries(const WeftImages *images, const char *digest);
/* Begins to bring those that are missing; the cluster is woken when one came, failed, or got further. */
void weft_images_bring(WeftImages *images, const char *host, const WeftImage *image, const char *cluster_key);

/* What went wrong with those that are missing, the worst of them; attempts 0: nothing. Borrowed until something changes. */
const WeftRest *weft_images_trouble(const WeftImages *images, const char *host, const WeftImage *image);

/* … since weftd's own file is not what it was? */
gboolean weft_images_is_damaged(const WeftImages *images, const char *host, const WeftImage *image);

/* Has one of those got further than ever? */
gboolean weft_images_progress(const WeftImages *images, const char *host, const WeftImage *image);

/* How far several are. */
typedef struct WeftBringing {
    const WeftRest *trouble; /* of one that got no further since; NULL: none */
    const char *image;       /* one of them, of which something is told */
    guint64 done, total;     /* bytes, of all together */
    GHashTable *files;       /* set of those that are in it, borrowed */
    GHashTable *hosts;       /* set of names, borrowed */
} WeftBringing;

WeftBringing *weft_bringing_new(void);
void weft_bringing_free(WeftBringing *bringing);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftBringing, weft_bringing_free)
/* Adds those of an image that are on their way to a host. */
void weft_images_add(const WeftImages *images, const char *host, const WeftImage *image, WeftBringing *bringing);
/* "bringing image mpi to 3 hosts: 42 %", or what is wrong; nothing when there are none. */
void weft_bringing_tell(const WeftBringing *bringing, char **ret_text, char **ret_detail);
