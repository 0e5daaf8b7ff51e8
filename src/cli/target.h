/* Which nodes a text names: cfd, cfd[3], cfd[0-3,7] or cfd-3, and with a path cfd[3]:/tmp/x. */
#pragma once

#include "cli.h"

typedef struct WeftTarget {
    char *cluster;
    GArray *ranks; /* guint; NULL: none was named */
} WeftTarget;

void weft_target_clear(WeftTarget *target);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftTarget, weft_target_clear)

/* "cfd-3" may be node 3 of cfd, or a cluster of that name: that is left open. */
gboolean weft_target_parse(const char *text, WeftTarget *ret_target, GError **error);
/* The host name of a node, "cfd-3", as its cluster and rank; FALSE: it cannot be one. */
gboolean weft_target_split(const char *hostname, char **ret_cluster, guint *ret_rank);
/* "cfd[3]:/tmp/x", "cfd:x": both parts, newly allocated. FALSE: it is the path of a file here. */
gboolean weft_target_split_path(const char *text, char **ret_nodes, char **ret_path);

/* For verbs that are about a whole cluster: wrong usage where the text names nodes of one. */
gboolean weft_target_check_whole(const char *verb, const char *text, GError **error);

/* Parses, and asks weftd where that leaves it open. */
gboolean weft_target_find(WeftCli *cli, const char *text, WeftTarget *ret_target, GError **error);
/* The same for one node, 0 if none is named. ret_cluster: newly allocated. */
gboolean weft_target_find_one(WeftCli *cli, const char *text, char **ret_cluster, guint *ret_rank, GError **error);
