/* Fabrics in weft.yaml: what they are, who manages them, and what clusters share on them. */
#pragma once

#include "fabric.h"
#include "opensm-fabric.h"
#include "topology.h"

#include <glib.h>
#include <jansson.h>

/* What programs the partitions of a fabric. */
typedef enum {
    WEFT_MANAGER_UNNAMED, /* the file does not say */
    WEFT_MANAGER_OPENSM,
    WEFT_MANAGER_NONE,
    WEFT_MANAGER_FAKE,
} WeftManagerDriver;

/* Who manages a fabric, and how weft speaks to it. */
typedef struct WeftConfigManager {
    char *fabric;
    WeftManagerDriver driver;
    char *world;               /* folder of the fake's world */
    const char *options_file;  /* its opensm.conf, where weftd can read it; NULL: not told. The json's */
    WeftOpensmOptions options; /* its texts are the json's */
    const char **sockets;      /* … and these too */
    json_t *json;
} WeftConfigManager;

void weft_config_manager_free(WeftConfigManager *manager);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftConfigManager, weft_config_manager_free)

/* Read an entry of fabrics, and of shared. managers: WeftConfigManager, in order of the fabrics. */
gboolean weft_config_add_fabric(GPtrArray *fabrics, GPtrArray *managers, json_t *item, const char *where, GError **error);
gboolean weft_config_add_shared(GPtrArray *fabrics, json_t *item, const char *where, GError **error);

/* Refuses what a fabric promises that has no manager to keep it. fabrics: WeftFabric, in order of the managers. */
gboolean weft_config_check_managers(const GPtrArray *fabrics, const GPtrArray *managers, GError **error);
/* Of a fabric whose manager the file does not name: what to write. FALSE. */
gboolean weft_config_lacks_manager(const WeftConfigManager *manager, GError **error);

/* pkeys: the numbers that it may write. */
WeftFabricDriver *weft_config_make_fabric(const WeftConfigManager *manager, const WeftPkeys *pkeys, GError **error);
