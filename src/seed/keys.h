/* The secrets of a cluster and of a node, derived from the site's secret and their ids: nothing of them is stored, and they are
 * the same after every restart. Pure. */
#pragma once

#include <glib.h>

#define WEFT_SECRET_LENGTH 32

typedef struct WeftKeys {
    char *user_private; /* by which its nodes log in to each other, OpenSSH's format, ed25519 */
    char *user_public;  /* "ssh-ed25519 AAAA… cfd" */
    guint8 munge[128];
    char *host_private; /* of the node's ssh server; the others know it by the roster */
    char *host_public;
    GBytes *host_dropbear; /* the private one as dropbear keeps it: conversion is a program that each node would have to run */
    char machine_id[33];   /* of the node, as in /etc/machine-id */
} WeftKeys;

/* Whose they are. */
typedef struct WeftKeyOwner {
    const char *cluster_id;
    const char *cluster; /* its name: a comment in keys */
    const char *node_id;
} WeftKeyOwner;

WeftKeys *weft_keys_derive(const guint8 secret[WEFT_SECRET_LENGTH], const WeftKeyOwner *owner, GError **error);
void weft_keys_free(WeftKeys *keys);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftKeys, weft_keys_free)

/* The public half of a node's host key alone, without a comment: "ssh-ed25519 AAAA…". A tenth of a millisecond. */
char *weft_host_key_derive(const guint8 secret[WEFT_SECRET_LENGTH], const char *node_id, GError **error);

/* Reads the site's secret, or makes it: a file of WEFT_SECRET_LENGTH random bytes that only its owner may read. */
gboolean weft_secret_load(const char *path, guint8 ret_secret[WEFT_SECRET_LENGTH], GError **error);
