/* What tests of placement share: hosts and clusters from a line of JSON. */
#pragma once

#include "schedule.h"

/* An open host, from its JSON. */
void fleet_add_host(WeftFleet *fleet, const char *name, const char *text);
/* From the fields of a specification but its name. */
WeftCluster *cluster_from(const char *spec);
void counts_of(const WeftCluster *cluster, guint counts[WEFT_GROUPS_MAX]);
/* The names of all hosts but that one, borrowed: for avoid. */
GHashTable *all_but(const WeftFleet *fleet, const char *host);
