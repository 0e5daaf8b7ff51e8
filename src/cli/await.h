/* Waits until an object of the API is as it should be, told by the event stream, with progress, across restarts of weftd. */
#pragma once

#include "cli.h"

typedef struct WeftGoal {
    /* Is it there? object is what a GET gave, NULL: 404. An error ends the waiting. */
    gboolean (*reached)(json_t *object, gboolean *ret_reached, GError **error);
    /* Where it is now, for the progress. */
    char *(*describe)(json_t *object);
} WeftGoal;

extern const WeftGoal weft_goal_ready;
extern const WeftGoal weft_goal_deleted;
extern const WeftGoal weft_goal_drained;

typedef struct WeftAwait {
    const WeftGoal *goal;
    const char *what;   /* "cluster cfd" */
    const char *path;   /* of the object */
    const char *events; /* of a stream that tells of its changes */
    gint64 timeout;     /* microseconds; 0: none */
    gint64 patience;    /* for which a failure may still be that of the wish before; 0: none */
    const char *after;  /* what happens when nobody waits: "it goes on being created" */
} WeftAwait;

/* Gives the object as it was last seen, NULL where it is gone by now; ret_object may be NULL. CANCELLED of G_IO_ERROR after
 * Ctrl-C. */
gboolean weft_await(WeftCli *cli, const WeftAwait *await, json_t **ret_object, GError **error);

/* The same for a cluster as the API showed it; what, path and events need not be filled in. */
gboolean weft_await_cluster(WeftCli *cli, json_t *cluster, const WeftAwait *await, json_t **ret_object, GError **error);
/* Waits until it is ready, and prints that, or the cluster. more: what is told after how long it took, owned; NULL: nothing. */
gboolean weft_await_ready(WeftCli *cli, json_t *cluster, const WeftAwait *await, char *(*more)(json_t *ready), GError **error);
