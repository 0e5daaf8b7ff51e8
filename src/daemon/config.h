/* weft.yaml: how weftd runs, and the fabrics, hosts, tenants and principals that the site describes in a file. */
#pragma once

#include "api.h"
#include "audit.h"
#include "config-fabrics.h"
#include "control.h"
#include "host.h"
#include "libvirt-hypervisor.h"
#include "tenant.h"
#include "topology.h"

#include <glib.h>

typedef struct WeftConfig {
    char *store_path;       /* SQLite file */
    guint64 reserve;        /* bytes that are kept for it on its disk */
    WeftAuditOptions audit; /* of the trail of who did what */
    char *guest;            /* the guest program; NULL: where it is installed or was built */
    char *secret;           /* file of the site's secret */
    char *hypervisor;       /* driver: "libvirt" or "fake" */
    char *hypervisor_world; /* folder of the fake's world */
    gboolean run_guests;    /* the fake's guests are answered by the guest program */
    char *hook;             /* the program that the fake runs as weft-hook; NULL: none */
    WeftLibvirtOptions libvirt;
    WeftApiOptions api; /* its texts belong to the config */
    WeftControlOptions control;
    GPtrArray *fabrics;    /* WeftFabric */
    GPtrArray *managers;   /* WeftConfigManager, one for each */
    GPtrArray *hosts;      /* WeftHost, origin config */
    GPtrArray *tenants;    /* WeftTenant */
    GPtrArray *principals; /* WeftPrincipal */
} WeftConfig;

/* Reads and checks everything; errors carry the file and the path of the field. A host's name may be a hostlist: then it stands
 * for that many equal hosts, whose leaf may be a hostlist too (dealt out in equal blocks) and whose port GUIDs count up. */
WeftConfig *weft_config_load(const char *path, GError **error);
void weft_config_free(WeftConfig *config);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftConfig, weft_config_free)

/* Refuses a fabric that names no manager, unless the store has it from an older weft, where it needed none: that one is held
 * until the file names one, and all else works. */
gboolean weft_config_check_new(const WeftConfig *config, WeftStore *store, GError **error);

/* Refuses a group for the API's socket that may read keys of weftd's: its certificate's, or one for a host that the store has.
 */
gboolean weft_config_check_group(const WeftConfig *config, WeftStore *store, GError **error);

/* changes: [{"kind": "tenant", "name": "acme", "change": "written" | "removed"}, …], a hundred at most, taken over. FALSE: none
 * of it may be done. */
typedef gboolean (*WeftConfigTell)(json_t *changes, gpointer data, GError **error);

/* Brings the store to what the file says: adds and changes what it describes, removes what it described before and no longer
 * does (a host with nodes or a tenant with clusters is refused, with the remedy). What came through the API is left alone; a
 * name that exists there already is refused. Drain marks survive. told: once everything was checked, before any of it is done.
 */
gboolean weft_config_import(const WeftConfig *config, WeftStore *store, WeftConfigTell told, gpointer data, GError **error);
