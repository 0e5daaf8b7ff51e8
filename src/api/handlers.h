/* The handlers of the route table, by the file that they are in. */
#pragma once

#include "records.h"
#include "request.h"
#include "router.h"

/* about.c */
gboolean weft_handle_version(WeftRequest *request, GError **error);
gboolean weft_handle_whoami(WeftRequest *request, GError **error);
gboolean weft_handle_openapi(WeftRequest *request, GError **error);

/* site.c */
gboolean weft_handle_site(WeftRequest *request, GError **error);
gboolean weft_handle_site_remove(WeftRequest *request, GError **error);
gboolean weft_handle_site_adopt(WeftRequest *request, GError **error);

/* clusters.c */
gboolean weft_handle_cluster_list(WeftRequest *request, GError **error);
gboolean weft_handle_cluster_create(WeftRequest *request, GError **error);
gboolean weft_handle_cluster_get(WeftRequest *request, GError **error);
gboolean weft_handle_cluster_scale(WeftRequest *request, GError **error);
gboolean weft_handle_cluster_delete(WeftRequest *request, GError **error);
gboolean weft_handle_node_list(WeftRequest *request, GError **error);
/* The cluster that the body asks for, with all that can be told before it is placed: it is not there yet, and within the
 * tenant's quotas (of which those that it does not touch are cleared). txn: to expect what it relies on; NULL: nothing. */
WeftCluster *weft_read_wish(WeftRequest *request, WeftTenant *tenant, WeftTxn *txn, GError **error);
/* … of one that is made otherwise. */
gboolean weft_check_wish(WeftRequest *request, WeftTenant *tenant, WeftCluster *cluster, WeftTxn *txn, GError **error);
/* Is there room in a quota for so much more? The claims of the transaction decide; this is for a message that helps. */
gboolean weft_check_quota(WeftRequest *request, const WeftTenant *tenant, WeftQuota quota, guint64 more, GError **error);
/* The answer that shows it. */
WeftReply *weft_cluster_reply(WeftRequest *request, guint status, const WeftCluster *cluster, GError **error);
/* The cluster that the path names, by id or name, if the caller may see it. */
WeftCluster *weft_find_cluster(WeftRequest *request, gint64 *ret_revision, GError **error);

/* clones.c */
gboolean weft_handle_cluster_clone(WeftRequest *request, GError **error);

/* placements.c */
gboolean weft_handle_placement_try(WeftRequest *request, GError **error);

/* events.c */
gboolean weft_handle_event_list(WeftRequest *request, GError **error);
gboolean weft_handle_cluster_event_list(WeftRequest *request, GError **error);

/* nodes.c */
gboolean weft_handle_node_session(WeftRequest *request, GError **error);
gboolean weft_handle_node_console(WeftRequest *request, GError **error);
gboolean weft_handle_cluster_hostfile(WeftRequest *request, GError **error);
gboolean weft_handle_cluster_load(WeftRequest *request, GError **error);

/* The node that the path names by its rank. */
WeftNode *weft_find_node(WeftRequest *request, const WeftCluster *cluster, GError **error);

/* moves.c */
gboolean weft_handle_node_move(WeftRequest *request, GError **error);
gboolean weft_handle_node_move_get(WeftRequest *request, GError **error);
gboolean weft_handle_node_move_cancel(WeftRequest *request, GError **error);

/* doctor.c */
gboolean weft_handle_host_doctor(WeftRequest *request, GError **error);
gboolean weft_handle_doctor(WeftRequest *request, GError **error);

/* images.c */
gboolean weft_handle_blob_get(WeftRequest *request, GError **error);
gboolean weft_handle_blob_write(WeftRequest *request, GError **error);
gboolean weft_handle_image_list(WeftRequest *request, GError **error);
gboolean weft_handle_image_get(WeftRequest *request, GError **error);
gboolean weft_handle_image_add(WeftRequest *request, GError **error);
gboolean weft_handle_image_remove(WeftRequest *request, GError **error);
/* Names the images that its groups start from, and has the transaction, unless it is NULL, expect that they stay until then. */
gboolean weft_settle_images(WeftRequest *request, WeftCluster *cluster, WeftTxn *txn, GError **error);

/* backup.c */
gboolean weft_handle_backup(WeftRequest *request, GError **error);

/* audit.c */
gboolean weft_handle_audit(WeftRequest *request, GError **error);

/* clock.c */
gboolean weft_handle_clock(WeftRequest *request, GError **error);
gboolean weft_handle_clock_accept(WeftRequest *request, GError **error);

/* queue.c */
gboolean weft_handle_queue(WeftRequest *request, GError **error);

/* checkpoints.c, checkpoint-files.c */
gboolean weft_handle_checkpoint_list(WeftRequest *request, GError **error);
gboolean weft_handle_checkpoint_make(WeftRequest *request, GError **error);
gboolean weft_handle_checkpoint_get(WeftRequest *request, GError **error);
gboolean weft_handle_checkpoint_remove(WeftRequest *request, GError **error);
gboolean weft_handle_checkpoint_restore(WeftRequest *request, GError **error);
gboolean weft_handle_checkpoint_manifest(WeftRequest *request, GError **error);
gboolean weft_handle_checkpoint_piece(WeftRequest *request, GError **error);
gboolean weft_handle_checkpoint_import(WeftRequest *request, GError **error);
/* Is it one that its tenant may still give? */
gboolean weft_checkpoint_name_check(WeftRequest *request, const char *tenant, const char *name, GError **error);
/* The checkpoint that the path names, if the caller may see it. */
WeftCheckpoint *weft_find_checkpoint(WeftRequest *request, gint64 *ret_revision, GError **error);

/* templates.c */
gboolean weft_handle_template_list(WeftRequest *request, GError **error);
gboolean weft_handle_template_get(WeftRequest *request, GError **error);
gboolean weft_handle_template_remove(WeftRequest *request, GError **error);

/* reservations.c */
gboolean weft_handle_reservation_list(WeftRequest *request, GError **error);
gboolean weft_handle_reservation_add(WeftRequest *request, GError **error);
gboolean weft_handle_reservation_get(WeftRequest *request, GError **error);
gboolean weft_handle_reservation_remove(WeftRequest *request, GError **error);

/* usage.c */
gboolean weft_handle_usage(WeftRequest *request, GError **error);

/* hosts.c */
gboolean weft_handle_host_list(WeftRequest *request, GError **error);
gboolean weft_handle_host_add(WeftRequest *request, GError **error);
gboolean weft_handle_host_get(WeftRequest *request, GError **error);
gboolean weft_handle_host_remove(WeftRequest *request, GError **error);
gboolean weft_handle_host_drain(WeftRequest *request, GError **error);
gboolean weft_handle_host_take(WeftRequest *request, GError **error);
gboolean weft_handle_host_undrain(WeftRequest *request, GError **error);
gboolean weft_handle_fabric_list(WeftRequest *request, GError **error);

/* fabrics.c */
gboolean weft_handle_fabric_get(WeftRequest *request, GError **error);
gboolean weft_handle_fabric_partitions(WeftRequest *request, GError **error);
gboolean weft_handle_fabric_tables(WeftRequest *request, GError **error);
gboolean weft_handle_fabric_topology(WeftRequest *request, GError **error);
gboolean weft_handle_fabric_import(WeftRequest *request, GError **error);
gboolean weft_handle_partition_release(WeftRequest *request, GError **error);
gboolean weft_handle_fabric_forget(WeftRequest *request, GError **error);

/* tenants.c */
gboolean weft_handle_tenant_list(WeftRequest *request, GError **error);
gboolean weft_handle_tenant_add(WeftRequest *request, GError **error);
gboolean weft_handle_tenant_get(WeftRequest *request, GError **error);
gboolean weft_handle_tenant_change(WeftRequest *request, GError **error);
gboolean weft_handle_tenant_remove(WeftRequest *request, GError **error);

/* principals.c */
gboolean weft_handle_principal_list(WeftRequest *request, GError **error);
gboolean weft_handle_principal_add(WeftRequest *request, GError **error);
gboolean weft_handle_principal_remove(WeftRequest *request, GError **error);
/* Adds the removal of a principal and its tokens. */
gboolean
weft_principal_discard(WeftRequest *request, WeftTxn *txn, const WeftPrincipal *principal, gint64 revision, GError **error);

/* tokens.c */
gboolean weft_handle_token_list(WeftRequest *request, GError **error);
gboolean weft_handle_token_make(WeftRequest *request, GError **error);
gboolean weft_handle_token_revoke(WeftRequest *request, GError **error);
