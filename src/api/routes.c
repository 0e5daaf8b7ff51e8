#include "routes.h"

#include "handlers.h"

/* clang-format off */
const WeftRoute weft_routes[] = {
    { "GET",    "/v1/version",                    WEFT_ROLE_VIEWER,   weft_handle_version },
    { "GET",    "/v1/whoami",                     WEFT_ROLE_VIEWER,   weft_handle_whoami },
    { "GET",    "/v1/openapi.json",               WEFT_ROLE_VIEWER,   weft_handle_openapi },

    { "GET",    "/v1/clusters",                   WEFT_ROLE_VIEWER,   weft_handle_cluster_list,       WEFT_BODY_NONE,     { "tenant", "name", "limit", "after" } },
    { "POST",   "/v1/clusters",                   WEFT_ROLE_MEMBER,   weft_handle_cluster_create,     WEFT_BODY_REQUIRED, { "tenant" } },
    { "GET",    "/v1/clusters/:cluster",          WEFT_ROLE_VIEWER,   weft_handle_cluster_get,        WEFT_BODY_NONE,     { "tenant" } },
    { "PATCH",  "/v1/clusters/:cluster",          WEFT_ROLE_MEMBER,   weft_handle_cluster_scale,      WEFT_BODY_REQUIRED, { "tenant" } },
    { "DELETE", "/v1/clusters/:cluster",          WEFT_ROLE_MEMBER,   weft_handle_cluster_delete,     WEFT_BODY_NONE,     { "tenant" } },
    { "POST",   "/v1/clusters/:cluster/clone",    WEFT_ROLE_MEMBER,   weft_handle_cluster_clone,      WEFT_BODY_REQUIRED, { "tenant" } },
    { "GET",    "/v1/clusters/:cluster/nodes",    WEFT_ROLE_VIEWER,   weft_handle_node_list,          WEFT_BODY_NONE,     { "tenant", "limit", "after" } },
    { "GET",    "/v1/clusters/:cluster/events",   WEFT_ROLE_VIEWER,   weft_handle_cluster_event_list, WEFT_BODY_NONE,     { "tenant", "limit", "after" } },
    { "GET",    "/v1/clusters/:cluster/load",     WEFT_ROLE_VIEWER,   weft_handle_cluster_load,       WEFT_BODY_NONE,     { "tenant" } },
    { "GET",    "/v1/clusters/:cluster/hostfile", WEFT_ROLE_VIEWER,   weft_handle_cluster_hostfile,   WEFT_BODY_NONE,     { "tenant" } },
    { "GET",    "/v1/clusters/:cluster/nodes/:rank/session", WEFT_ROLE_MEMBER, weft_handle_node_session, WEFT_BODY_NONE,  { "tenant" } },
    { "GET",    "/v1/clusters/:cluster/nodes/:rank/console", WEFT_ROLE_MEMBER, weft_handle_node_console, WEFT_BODY_NONE,  { "tenant" } },
    { "GET",    "/v1/clusters/:cluster/nodes/:rank/move",    WEFT_ROLE_VIEWER, weft_handle_node_move_get, WEFT_BODY_NONE, { "tenant" } },
    { "POST",   "/v1/clusters/:cluster/nodes/:rank/move",    WEFT_ROLE_MEMBER, weft_handle_node_move,    WEFT_BODY_OPTIONAL, { "tenant" } },
    { "DELETE", "/v1/clusters/:cluster/nodes/:rank/move",    WEFT_ROLE_MEMBER, weft_handle_node_move_cancel, WEFT_BODY_NONE, { "tenant" } },

    { "POST",   "/v1/clusters/:cluster/checkpoints", WEFT_ROLE_MEMBER, weft_handle_checkpoint_make,   WEFT_BODY_OPTIONAL, { "tenant" } },
    { "GET",    "/v1/checkpoints",                WEFT_ROLE_VIEWER,   weft_handle_checkpoint_list,    WEFT_BODY_NONE,     { "tenant", "limit", "after" } },
    { "POST",   "/v1/checkpoints",                WEFT_ROLE_OPERATOR, weft_handle_checkpoint_import,  WEFT_BODY_REQUIRED, { "tenant" } },
    { "GET",    "/v1/checkpoints/:checkpoint",    WEFT_ROLE_VIEWER,   weft_handle_checkpoint_get,     WEFT_BODY_NONE,     { "tenant" } },
    { "DELETE", "/v1/checkpoints/:checkpoint",    WEFT_ROLE_MEMBER,   weft_handle_checkpoint_remove,  WEFT_BODY_NONE,     { "tenant" } },
    { "POST",   "/v1/checkpoints/:checkpoint/restore", WEFT_ROLE_MEMBER, weft_handle_checkpoint_restore, WEFT_BODY_OPTIONAL, { "tenant" } },
    { "GET",    "/v1/checkpoints/:checkpoint/manifest", WEFT_ROLE_MEMBER, weft_handle_checkpoint_manifest, WEFT_BODY_NONE, { "tenant" } },
    { "GET",    "/v1/checkpoints/:checkpoint/files/:digest", WEFT_ROLE_MEMBER, weft_handle_checkpoint_piece, WEFT_BODY_NONE, { "tenant", "offset" } },

    { "POST",   "/v1/placements",                 WEFT_ROLE_MEMBER,   weft_handle_placement_try,      WEFT_BODY_REQUIRED, { "tenant" } },

    { "GET",    "/v1/events",                     WEFT_ROLE_VIEWER,   weft_handle_event_list,         WEFT_BODY_NONE,     { "tenant", "limit", "after" } },
    { "GET",    "/v1/queue",                      WEFT_ROLE_VIEWER,   weft_handle_queue,              WEFT_BODY_NONE,     { "tenant" } },
    { "GET",    "/v1/usage",                      WEFT_ROLE_VIEWER,   weft_handle_usage,              WEFT_BODY_NONE,     { "tenant", "from", "to" } },

    { "GET",    "/v1/hosts",                      WEFT_ROLE_OPERATOR, weft_handle_host_list,          WEFT_BODY_NONE,     { "limit", "after" } },
    { "POST",   "/v1/hosts",                      WEFT_ROLE_ADMIN,    weft_handle_host_add,           WEFT_BODY_REQUIRED },
    { "GET",    "/v1/hosts/:host",                WEFT_ROLE_OPERATOR, weft_handle_host_get },
    { "DELETE", "/v1/hosts/:host",                WEFT_ROLE_ADMIN,    weft_handle_host_remove },
    { "POST",   "/v1/hosts/:host/drain",          WEFT_ROLE_OPERATOR, weft_handle_host_drain,         WEFT_BODY_OPTIONAL },
    { "POST",   "/v1/hosts/:host/undrain",        WEFT_ROLE_OPERATOR, weft_handle_host_undrain,       WEFT_BODY_OPTIONAL },
    { "GET",    "/v1/hosts/:host/doctor",         WEFT_ROLE_OPERATOR, weft_handle_host_doctor },
    { "GET",    "/v1/doctor",                     WEFT_ROLE_OPERATOR, weft_handle_doctor },
    { "GET",    "/v1/reservations",               WEFT_ROLE_OPERATOR, weft_handle_reservation_list,   WEFT_BODY_NONE,     { "limit", "after" } },
    { "POST",   "/v1/reservations",               WEFT_ROLE_OPERATOR, weft_handle_reservation_add,    WEFT_BODY_REQUIRED },
    { "GET",    "/v1/reservations/:reservation",  WEFT_ROLE_OPERATOR, weft_handle_reservation_get },
    { "DELETE", "/v1/reservations/:reservation",  WEFT_ROLE_OPERATOR, weft_handle_reservation_remove },
    { "GET",    "/v1/fabrics",                    WEFT_ROLE_OPERATOR, weft_handle_fabric_list,        WEFT_BODY_NONE,     { "limit", "after" } },
    { "GET",    "/v1/fabrics/:fabric",            WEFT_ROLE_OPERATOR, weft_handle_fabric_get },
    { "GET",    "/v1/fabrics/:fabric/partitions", WEFT_ROLE_OPERATOR, weft_handle_fabric_partitions },
    { "GET",    "/v1/fabrics/:fabric/tables",     WEFT_ROLE_OPERATOR, weft_handle_fabric_tables },
    { "GET",    "/v1/fabrics/:fabric/topology",   WEFT_ROLE_OPERATOR, weft_handle_fabric_topology },
    { "POST",   "/v1/fabrics/:fabric/map",        WEFT_ROLE_OPERATOR, weft_handle_fabric_import,      WEFT_BODY_RAW,      { NULL }, WEFT_RAW_MAP_MAX },
    { "DELETE", "/v1/fabrics/:fabric/map",        WEFT_ROLE_OPERATOR, weft_handle_fabric_forget },

    { "GET",    "/v1/images",                     WEFT_ROLE_VIEWER,   weft_handle_image_list,         WEFT_BODY_NONE,     { "limit", "after" } },
    { "POST",   "/v1/images",                     WEFT_ROLE_OPERATOR, weft_handle_image_add,          WEFT_BODY_REQUIRED },
    { "GET",    "/v1/images/:image",              WEFT_ROLE_VIEWER,   weft_handle_image_get },
    { "DELETE", "/v1/images/:image",              WEFT_ROLE_OPERATOR, weft_handle_image_remove },
    { "GET",    "/v1/templates",                  WEFT_ROLE_OPERATOR, weft_handle_template_list,      WEFT_BODY_NONE,     { "limit", "after" } },
    { "GET",    "/v1/templates/:template",        WEFT_ROLE_OPERATOR, weft_handle_template_get },
    { "DELETE", "/v1/templates/:template",        WEFT_ROLE_OPERATOR, weft_handle_template_remove },
    { "GET",    "/v1/blobs/:digest",              WEFT_ROLE_OPERATOR, weft_handle_blob_get },
    { "PATCH",  "/v1/blobs/:digest",              WEFT_ROLE_OPERATOR, weft_handle_blob_write,         WEFT_BODY_RAW,      { "offset", "size" } },

    { "GET",    "/v1/tenants",                    WEFT_ROLE_VIEWER,   weft_handle_tenant_list,        WEFT_BODY_NONE,     { "limit", "after" } },
    { "POST",   "/v1/tenants",                    WEFT_ROLE_ADMIN,    weft_handle_tenant_add,         WEFT_BODY_REQUIRED },
    { "GET",    "/v1/tenants/:tenant",            WEFT_ROLE_VIEWER,   weft_handle_tenant_get },
    { "PATCH",  "/v1/tenants/:tenant",            WEFT_ROLE_ADMIN,    weft_handle_tenant_change,      WEFT_BODY_REQUIRED },
    { "DELETE", "/v1/tenants/:tenant",            WEFT_ROLE_ADMIN,    weft_handle_tenant_remove },

    { "GET",    "/v1/principals",                 WEFT_ROLE_ADMIN,    weft_handle_principal_list,     WEFT_BODY_NONE,     { "limit", "after" } },
    { "POST",   "/v1/principals",                 WEFT_ROLE_ADMIN,    weft_handle_principal_add,      WEFT_BODY_REQUIRED },
    { "DELETE", "/v1/principals/:principal",      WEFT_ROLE_ADMIN,    weft_handle_principal_remove },

    { "GET",    "/v1/tokens",                     WEFT_ROLE_MEMBER,   weft_handle_token_list,         WEFT_BODY_NONE,     { "limit", "after" } },
    { "POST",   "/v1/tokens",                     WEFT_ROLE_MEMBER,   weft_handle_token_make,         WEFT_BODY_REQUIRED },
    { "DELETE", "/v1/tokens/:token",              WEFT_ROLE_MEMBER,   weft_handle_token_revoke },
    { 0 },
};
/* clang-format on */
