/* What the mark of a domain says of its node, as JSON text: all that it takes to write the node's record again, and that of its
 * cluster, should the store not have them; and nothing that changes while the node stays where it is. */
#pragma once

#include "cluster.h"
#include "image.h"
#include "node.h"

#include <glib.h>

typedef struct WeftNodeMark {
    WeftNode *node;       /* claimed, since no time */
    WeftCluster *cluster; /* without nodes, and without what only new ones need: user-data, pattern, priority */
    char *fabric;
    guint pkey;         /* of the cluster's partition there */
    gint64 placed;      /* when the cluster was, which its walltime counts from; 0: not said */
    GPtrArray *digests; /* char *: of the files of its image when it was started; none: not said */
    guint serial;       /* of the node in its cluster, which its id ends with */
} WeftNodeMark;

/* image NULL: it has none. */
char *
weft_node_mark_write(const WeftNode *node, const WeftCluster *cluster, const WeftClusterStatus *status, const WeftImage *image);
/* INVALID: it is not such a text, or contradicts itself. Whoever is root on a host can write what it likes there: a mark that
 * was read may name hosts, devices and numbers that are not its own, but what it says of node and cluster fits together. */
WeftNodeMark *weft_node_mark_read(const char *text, GError **error);
void weft_node_mark_free(WeftNodeMark *mark);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftNodeMark, weft_node_mark_free)
