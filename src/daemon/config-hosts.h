/* The hosts of weft.yaml: an entry whose name is a hostlist stands for many. */
#pragma once

#include <glib.h>
#include <jansson.h>

/* Port GUIDs of an entry are those of its first host; the next host's are larger by this. */
#define WEFT_GUID_STRIDE 0x10

/* Appends the WeftHosts that the entry stands for. where is its path ("hosts[3]"), fabric that of hosts that name none. */
gboolean weft_config_add_hosts(GPtrArray *hosts, json_t *entry, const char *where, const char *fabric, GError **error);
