/* Tenants, the people of a tenant, and their tokens. */
#pragma once

#include "host.h"

#include <glib.h>
#include <jansson.h>

/* 0 means: no limit. The words are those of weft_quota_words, in the store as claims "tenant/T/WORD". Templates are a cache:
 * whoever has no room for another one loses the one that was not used for longest. */
typedef enum {
    WEFT_QUOTA_CLUSTERS,
    WEFT_QUOTA_NODES,
    WEFT_QUOTA_CORES,
    WEFT_QUOTA_MEMORY,
    WEFT_QUOTA_GPUS,
    WEFT_QUOTA_VFS,
    WEFT_QUOTA_STORAGE,   /* bytes of nodes' own disks, of checkpoints, and of what clones are made of */
    WEFT_QUOTA_TEMPLATES, /* bytes of templates that were made since its nodes wanted them */
    WEFT_QUOTAS
} WeftQuota;
extern const char *const weft_quota_words[WEFT_QUOTAS + 1];
/* What a new tenant has where neither it nor the site says otherwise. */
extern const guint64 weft_quota_defaults[WEFT_QUOTAS];
gboolean weft_quota_is_size(WeftQuota quota); /* bytes, written as 8G */

/* What a node has whole, its firmware and caches included: nodes of a tenant have such devices only where it was granted them,
 * which no tenant is unless told. */
typedef enum { WEFT_DEVICE_PASSTHROUGH, WEFT_DEVICE_GPU, WEFT_DEVICE_KINDS } WeftDeviceKind;
extern const char *const weft_device_words[WEFT_DEVICE_KINDS + 1];

typedef struct WeftTenant {
    char *name;
    guint64 quota[WEFT_QUOTAS];
    gint priority_max; /* of clusters that its own people ask for */
    double share;      /* its weight beside other tenants where clusters wait; 1 unless told */
    guint devices;     /* that it was granted: a bit of each kind, 1 << WEFT_DEVICE_GPU */
    WeftOrigin origin;
    gint64 created; /* what an earlier tenant of this name did is not this one's to see */
} WeftTenant;

/* { "name": "acme", "quota": { "nodes": 64, "memory": "1T" }, "priority_max": 100, "share": 2.5,
 *   "devices": ["gpu"], "origin": "api" } */
WeftTenant *weft_tenant_from_json(json_t *json, const char *where, GError **error);
/* A new one: quotas that are not named are these (WEFT_QUOTAS numbers), null is said for no limit. */
WeftTenant *weft_tenant_from_spec(json_t *json, const guint64 *defaults, const char *where, GError **error);
/* { "nodes": 64, "memory": "1T", "gpus": null }: what is not named stays. */
gboolean weft_quotas_from_json(json_t *json, const char *where, guint64 *quotas, GError **error);
json_t *weft_tenant_to_json(const WeftTenant *tenant);
json_t *weft_devices_to_json(guint kinds); /* ["passthrough", "gpu"] */
/* May its nodes have devices of these kinds (bits)? DENIED names the first that was not granted, and who grants it. */
gboolean weft_tenant_check_devices(const WeftTenant *tenant, guint kinds, GError **error);
void weft_tenant_free(WeftTenant *tenant);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftTenant, weft_tenant_free)

/* Each role may do all that the ones before it may. Viewers and members belong to a tenant and see nothing else;
 * operators and admins see all. */
typedef enum { WEFT_ROLE_VIEWER, WEFT_ROLE_MEMBER, WEFT_ROLE_OPERATOR, WEFT_ROLE_ADMIN, WEFT_ROLES } WeftRole;
extern const char *const weft_role_words[WEFT_ROLES + 1];

typedef struct WeftPrincipal {
    char *name;
    char *tenant; /* NULL exactly for operators and admins */
    WeftRole role;
    char *unix_user; /* who this is on the Unix socket; NULL: by token only */
    WeftOrigin origin;
} WeftPrincipal;

/* { "name": "alice", "tenant": "acme", "role": "member", "unix_user": "alice", "origin": "config" } */
WeftPrincipal *weft_principal_from_json(json_t *json, const char *where, GError **error);
json_t *weft_principal_to_json(const WeftPrincipal *principal);
void weft_principal_free(WeftPrincipal *principal);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftPrincipal, weft_principal_free)

typedef struct WeftToken {
    char *id;        /* public name of the token, weft_id_new() */
    char *hash;      /* SHA-256 of the secret, hexadecimal; the secret itself is never stored */
    char *principal; /* whose rights it carries, looked up at each use */
    char *tenant;    /* of that principal, NULL for operators and admins */
    char *note;      /* what it is for, NULL: none */
    gint64 created;
    gint64 expires; /* 0: never */
} WeftToken;

WeftToken *weft_token_from_json(json_t *json, GError **error);
json_t *weft_token_to_json(const WeftToken *token);
void weft_token_free(WeftToken *token);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftToken, weft_token_free)
