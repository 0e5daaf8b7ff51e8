/* Templates: which there are, which are being made, and the memory of hosts that nodes are forked from. thread: main.
 *
 *     templates.c          what a new node is forked from; templates are wanted, made, and dropped
 *     templates-primed.c   memory on hosts: claimed, made, and given back
 *     work-fork.c          nodes that are forked, and the one that becomes a template
 *     work-clone.c         templates that are made of running nodes, for their clones alone
 *
 * A template that is wanted is made by a cluster of the system's own with one node: it is claimed, placed, healed and cleaned
 * up as any other, gives way to all, and goes when the node was saved. Whoever wants nodes meanwhile has them booted. */
#pragma once

#include "cluster.h"
#include "node.h"
#include "rest.h"
#include "store.h"
#include "template.h"

#include <glib.h>

typedef struct WeftControl WeftControl;
typedef struct WeftTemplates WeftTemplates;

WeftTemplates *weft_templates_new(WeftControl *control);
/* Takes what is claimed for them in the fleet, which knows the hosts. */
gboolean weft_templates_load(WeftTemplates *templates, GError **error);
void weft_templates_free(WeftTemplates *templates);

/* The record of a template changed or went. */
void weft_templates_changed(WeftTemplates *templates, const char *id);
/* What was made for it goes, too. */
void weft_templates_tenant_gone(WeftTemplates *templates, const char *tenant);
/* Adds the digests of their saved files to a set that owns its texts. */
void weft_templates_add_digests(const WeftTemplates *templates, GHashTable *digests);
/* NULL: there is none of that id. Borrowed until something changes. */
const WeftTemplate *weft_templates_find(const WeftTemplates *templates, const char *id);

/* The id of what a node that is about to be claimed is forked from; NULL: it boots. A template that there is not yet becomes
 * wanted. ret_why: why it boots, in words for its tenant, static; NULL: nobody expected anything else. */
char *weft_templates_choose(WeftTemplates *templates, const WeftCluster *cluster, const WeftNode *node, const char **ret_why);
/* Adds the names of hosts where the cluster cannot make its template to a set that owns them. */
void weft_templates_add_barred(const WeftTemplates *templates, const WeftCluster *cluster, GHashTable *hosts);

/* --- those of clones --- */

/* What a node would be put aside as, without its source; NULL: it cannot, and why, in words for its tenant, static. */
WeftTemplate *weft_templates_describe(const WeftTemplates *templates, const WeftNode *node, const char **ret_why);
/* What was made, or is being made, for a cluster that is a clone, by rank: WeftTemplate, borrowed until something changes. */
GPtrArray *weft_templates_of_clone(const WeftTemplates *templates, const char *cluster);
/* Is a node of that cluster being put aside for a clone? */
gboolean weft_templates_is_source(const WeftTemplates *templates, const char *cluster);
/* Is it a clone's? */
gboolean weft_templates_is_private(const WeftTemplates *templates, const char *id);
/* Adds what the clone was made of to what is deleted. */
void weft_templates_end_clone(const WeftTemplates *templates, WeftTxn *txn, const char *cluster);
/* … or to what is written: how it is by now. Takes its revision from what is known. */
void weft_templates_put_private(const WeftTemplates *templates, WeftTxn *txn, const WeftTemplate *template);

/* There is a node that was forked from it. */
void weft_templates_note_fork(WeftTemplates *templates, const char *id);

/* --- making one --- */

/* Its node, on that host, was saved in a file that is here; the cluster goes. */
void weft_templates_captured(WeftTemplates *templates, const char *id, const char *host, const WeftImageFile *file);
/* Trying again at once cannot help; the cluster goes. */
void weft_templates_failed(WeftTemplates *templates, const char *id, const char *reason, const char *detail);
/* Its saved file is not what was captured: it is captured anew, unless that happened at once the last time, too. */
void weft_templates_damaged(WeftTemplates *templates, const char *id, const char *detail);
/* Would the node become that template? */
gboolean weft_templates_fits(const WeftTemplates *templates, const char *id, const WeftNode *node);

/* --- memory on hosts (templates-primed.c) --- */

/* What a node that is to be forked waits for. */
typedef struct WeftPrimeOrder {
    const WeftNode *node;
    const char *cluster_key; /* is woken when something has changed */
    const char *xml;         /* the node's definition */
} WeftPrimeOrder;

/* The id of the memory that it is forked from; NULL: it is not there. Borrowed until something changes. */
const char *weft_templates_primed(const WeftTemplates *templates, const WeftNode *node);
/* Begins what is missing. FALSE: it cannot be had, and why, in words for its tenant; what is said is the caller's. */
gboolean weft_templates_prime(WeftTemplates *templates, const WeftPrimeOrder *order, char **ret_why, char **ret_detail);
/* A node was forked from it. */
void weft_templates_used(WeftTemplates *templates, const WeftNode *node);
/* Being forked from it failed. The memory is given back and made anew; where that fails at once as well, it is not tried there
 * again for a while. Where it was only a device of the host (PLUG), those with such devices are not forked there for a while.
 */
void weft_templates_spoilt(WeftTemplates *templates, const WeftNode *node, WeftDeed deed, const char *why);
/* It was forked, and knows who it is. */
void weft_templates_worked(WeftTemplates *templates, const WeftNode *node);
/* Takes in the fleet what is claimed on a host of which all else was counted anew. */
void weft_templates_recount(const WeftTemplates *templates, const char *host);
/* Is it in the store? */
gboolean weft_templates_knows_primed(const WeftTemplates *templates, const char *id);
