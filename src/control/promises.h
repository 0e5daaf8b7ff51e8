/* What nodes were promised of their fabric, and whether they have it, by what they say from inside. Pure. */
#pragma once

#include "host.h"
#include "node.h"

#include <glib.h>

typedef struct WeftPromised {
    const WeftNode *node;
    const WeftHost *host;
    guint pkey;          /* its partition's number */
    const char *manager; /* who manages its fabric, for operators */
    gboolean saved;      /* its guest may be older than this weftd: it was ready before, or goes on from saved memory */
} WeftPromised;

/* What is missing by its answer to "meet" (protocol.h), for its tenant; NULL: nothing, or the answer is about something else.
 * well: it says that all is well, which nobody believes who reads nothing of its ports, but of a guest program that cannot be
 * another. ret_detail: the same for operators, who know hosts and devices; set where something is missing. */
char *weft_promises_missing(const WeftPromised *promised, const char *output, gboolean well, char **ret_detail);
/* What such a node need not prove, or does not by the answer that nothing was missing in, and why, for its tenant; NULL: it has
 * proved all. */
char *weft_promises_unverified(const WeftPromised *promised, const char *output);
