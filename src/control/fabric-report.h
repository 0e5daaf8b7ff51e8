/* A fabric told as JSON (see gate.h for its form). Pure, but for the names of clusters, which the store has. */
#pragma once

#include "fabric.h"
#include "store.h"

#include <jansson.h>

typedef struct WeftFabricFacts {
    const char *fabric;
    WeftFabricManagement management;
    json_t *manager;     /* weft_report_manager(); NULL: it did not answer */
    char *trouble;       /* why not, or why there is no map of it; NULL: none */
    const char *source;  /* of the map: "manager", "import"; NULL: there is no map */
    WeftFabricMap *map;  /* NULL: none */
    GPtrArray *hosts;    /* WeftHost */
    json_t *partitions;  /* weft_report_owners() */
    json_t *tables;      /* weft_report_tables() */
    char *options_path;  /* of its opensm.conf; NULL: not told */
    char *options;       /* its text; NULL: it could not be read, */
    char *options_error; /* and why */
    gboolean guarantees; /* bandwidth is promised on it */
} WeftFabricFacts;

json_t *weft_report_manager(const WeftManager *manager);
json_t *weft_report_fabric(const WeftFabricFacts *facts);
json_t *weft_report_topology(const WeftFabricFacts *facts);
/* Hosts' names go into the members of facts->partitions. */
json_t *weft_report_partitions(const WeftFabricFacts *facts);

/* Partitions (WeftPartition) with the clusters and nodes that they belong to. NULL with an error. */
json_t *weft_report_owners(WeftStore *store, const char *fabric, const GPtrArray *partitions, GError **error);
