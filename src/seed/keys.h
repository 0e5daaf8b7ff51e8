/* The secrets of a cluster, derived from the site's secret and the cluster's id: nothing of them is stored, and they are the
 * same after every restart. Pure. */
#pragma once

#include <glib.h>

#define WEFT_SECRET_LENGTH 32

typedef struct WeftKeys {
    char *user_private; /* by which its nodes log in to each other, OpenSSH's format, ed25519 */
    char *user_public;  /* "ssh-ed25519 AAAA… cfd" */
    char *host_private; /* of its nodes' ssh servers: one for all, so that known_hosts needs one line */
    char *host_public;
    guint8 munge[128];
} WeftKeys;

WeftKeys *
weft_keys_derive(const guint8 secret[WEFT_SECRET_LENGTH], const char *cluster_id, const char *comment, GError **error);
void weft_keys_free(WeftKeys *keys);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftKeys, weft_keys_free)

/* Reads the site's secret, or makes it: a file of WEFT_SECRET_LENGTH random bytes that only its owner may read. */
gboolean weft_secret_load(const char *path, guint8 ret_secret[WEFT_SECRET_LENGTH], GError **error);
