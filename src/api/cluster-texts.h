/* Clusters as the API shows them, as JSON text. Lists are asked for often, and most clusters have not changed since: a text is
 * made again only when the wish or its progress has another revision. thread: any. */
#pragma once

#include "store.h"

#include <glib.h>

typedef struct WeftClusterTexts WeftClusterTexts;

/* all: for eyes that may see hosts. */
WeftClusterTexts *weft_cluster_texts_new(gboolean all);
void weft_cluster_texts_free(WeftClusterTexts *texts);

/* The text of a cluster's record in a store. NULL: an error. */
char *weft_cluster_texts_get(WeftClusterTexts *texts, WeftStore *store, const WeftRecord *record, GError **error);
