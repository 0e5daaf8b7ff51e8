/* The fleet as placement sees it: every host, and what is free on it. Derived from hosts and nodes, never stored. */
#pragma once

#include "host.h"
#include "node.h"

#include <glib.h>

typedef struct WeftFleet WeftFleet;

WeftFleet *weft_fleet_new(void);
void weft_fleet_free(WeftFleet *fleet);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftFleet, weft_fleet_free)

/* Adds a host or replaces its description; takes it over. What nodes hold there stays taken. A new host is closed. */
void weft_fleet_put_host(WeftFleet *fleet, WeftHost *host);
void weft_fleet_remove_host(WeftFleet *fleet, const char *name);
const WeftHost *weft_fleet_host(const WeftFleet *fleet, const char *name);

/* An open host takes new nodes: the reconciler opens it once it was seen up and clean, and closes it when it is lost. */
void weft_fleet_set_open(WeftFleet *fleet, const char *name, gboolean open);

/* What the host has, by its own word: adapters, functions and GPUs that are described and not among it are not placed on. All
 * of them are there until this is told, and after each weft_fleet_put_host(). */
void weft_fleet_set_devices(WeftFleet *fleet, const char *name, const WeftHost *found);

/* To be called before placement when hosts came or went; cheap when none did. */
void weft_fleet_sort(WeftFleet *fleet);

/* A host that is not there is passed over: its nodes hold nothing that could be given to others. */
void weft_fleet_take(WeftFleet *fleet, const WeftNode *node);
void weft_fleet_give(WeftFleet *fleet, const WeftNode *node);
/* Nothing is taken there any more. */
void weft_fleet_empty(WeftFleet *fleet, const char *host);
