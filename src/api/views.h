/* What the API shows of each object. */
#pragma once

#include "records.h"

/* Takes the view; NULL is NULL. */
char *weft_view_text(json_t *view);

json_t *weft_view_host(WeftStore *store, const WeftHost *host, GError **error);
/* A move that is asked for or under way. status: how far it is; NULL: nowhere yet. all: also which hosts. */
json_t *weft_view_move(const WeftMoveWish *wish, const WeftNode *node, const WeftClusterStatus *status, gboolean all);
json_t *weft_view_tenant(WeftStore *store, const WeftTenant *tenant, GError **error);
json_t *weft_view_reservation(const WeftReservation *reservation);
json_t *weft_view_template(const WeftTemplate *template);
json_t *weft_view_checkpoint(const WeftCheckpoint *checkpoint, gboolean all);
json_t *weft_view_primed(const WeftPrimed *primed);
json_t *weft_view_principal(const WeftPrincipal *principal);
json_t *weft_view_token(const WeftToken *token);
/* all: for eyes that may see hosts. */
json_t *weft_view_cluster(WeftStore *store, const WeftCluster *cluster, gboolean all, GError **error);
json_t *weft_view_node(const WeftNode *node, gboolean all);
json_t *weft_view_event(const WeftEvent *event, gboolean all);

/* The ETag of a cluster, with its quotes: it changes with the wish only, and tells nothing of how much else happens here. */
char *weft_view_etag(const WeftCluster *cluster);
