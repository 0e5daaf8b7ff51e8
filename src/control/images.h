/* The images' files on their way to hosts: each once to each host, however many nodes wait for it. thread: main. */
#pragma once

#include "image.h"

#include <glib.h>

typedef struct WeftControl WeftControl;
typedef struct WeftImages WeftImages;

WeftImages *weft_images_new(WeftControl *control);
void weft_images_free(WeftImages *images);

/* The record of an image appeared, changed or went. */
void weft_images_changed(WeftImages *images);
/* NULL: there is none of that name. Borrowed until the next change. */
const WeftImage *weft_images_find(WeftImages *images, const char *name);
/* Set of the digests of all images; NULL when the store cannot be read. Borrowed likewise. */
GHashTable *weft_images_wanted(WeftImages *images);

/* Are all its files there? */
gboolean weft_images_are_on(const WeftImages *images, const char *host, const WeftImage *image);
/* Begins to bring those that are missing; the cluster is woken when one came, failed, or got further. */
void weft_images_bring(WeftImages *images, const char *host, const WeftImage *image, const char *cluster_key);

/* How far those are that a cluster waits for: "bringing image mpi to 3 hosts: 42 %". FALSE: it waits for none. detail: what a
 * driver said of the last failure; NULL: nothing went wrong. */
gboolean weft_images_progress(const WeftImages *images, const char *cluster_key, char **ret_text, char **ret_detail);
