/* Fabrics in weft.yaml: what they are, who manages them, and what clusters share on them. */
#pragma once

#include "fabric.h"
#include "opensm-fabric.h"
#include "topology.h"

#include <glib.h>
#include <jansson.h>

/* Who manages a fabric, and how weft speaks to it. */
typedef struct WeftConfigManager {
    char *fabric;
    gboolean opensm;           /* FALSE: the fake */
    char *world;               /* of the fake; NULL: below that of all */
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

/* pkeys: the numbers that it may write. world: folder of the fakes of all fabrics. */
WeftFabricDriver *
weft_config_make_fabric(const WeftConfigManager *manager, const WeftPkeys *pkeys, const char *world, GError **error);
