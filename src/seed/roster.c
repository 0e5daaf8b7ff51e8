#include "roster.h"

#include "network.h"

#define FULL_MEMBER 0x8000 /* bit of a P_Key */

static void
add_node(GString *text, const WeftNode *node)
{
    g_autofree char *hostname = weft_node_hostname(node);
    g_autofree char *address = weft_node_address(node);
    g_string_append_printf(text, "node %u %s %s %u %s\n", node->rank, hostname, address, node->cores->len, node->mac);
}

static void
add_rails(GString *text, const WeftNode *node, const WeftHost *host)
{
    gboolean stand_ins = host && host->verify == WEFT_VERIFY_ETHERNET;
    for (guint i = 0; !stand_ins && i < node->devices->len; i++) {
        const WeftDevice *device = g_ptr_array_index(node->devices, i);
        g_autofree char *address = weft_node_ipoib_address(node, device->rail);
        g_string_append_printf(text, "ipoib %u %u %s\n", node->rank, device->rail, address);
    }
}

/* Equal names get the same number. */
static guint
leaf_number(GHashTable *numbers, const char *leaf)
{
    gpointer number;
    if (!g_hash_table_lookup_extended(numbers, leaf, NULL, &number)) {
        number = GUINT_TO_POINTER(g_hash_table_size(numbers));
        g_hash_table_insert(numbers, (gpointer)leaf, number);
    }
    return GPOINTER_TO_UINT(number);
}

GArray *
weft_roster_promises(const WeftNode *node, const WeftHost *host, guint pkey)
{
    GArray *promises = g_array_new(FALSE, FALSE, sizeof(WeftPromise));
    for (guint i = 0; host && host->verify == WEFT_VERIFY_FABRIC && i < node->devices->len; i++) {
        const WeftDevice *device = g_ptr_array_index(node->devices, i);
        WeftPromise promise = { device->rail, weft_device_port(device, host), FULL_MEMBER | pkey };
        g_array_append_val(promises, promise);
    }
    return promises;
}

char *
weft_roster_rails(const WeftNode *node, const WeftHost *host)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; host && i < node->devices->len; i++) {
        const WeftDevice *device = g_ptr_array_index(node->devices, i);
        g_string_append_printf(text, "rail %u 0x%016" G_GINT64_MODIFIER "x\n", device->rail, weft_device_port(device, host));
    }
    return g_string_free(text, FALSE);
}

char *
weft_roster_members(const WeftRoster *roster)
{
    const GPtrArray *nodes = roster->nodes, *hosts = roster->hosts, *leaves = roster->leaves, *host_keys = roster->host_keys;
    g_autoptr(GHashTable) numbers = g_hash_table_new(g_str_hash, g_str_equal);
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < nodes->len; i++)
        add_node(text, g_ptr_array_index(nodes, i));
    for (guint i = 0; i < nodes->len; i++)
        add_rails(text, g_ptr_array_index(nodes, i), g_ptr_array_index(hosts, i));
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = g_ptr_array_index(nodes, i);
        const char *key = g_ptr_array_index(host_keys, i);
        if (key)
            g_string_append_printf(text, "hostkey %u %s\n", node->rank, key);
    }
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = g_ptr_array_index(nodes, i);
        g_string_append_printf(text, "leaf %u leaf%u\n", node->rank, leaf_number(numbers, g_ptr_array_index(leaves, i)));
    }
    return g_string_free(text, FALSE);
}

char *
weft_roster_head(guint64 generation, guint self, guint within, const GArray *promises)
{
    GString *text = g_string_new(NULL);
    g_string_printf(text, "generation %" G_GUINT64_FORMAT "\nself %u\nwithin %u\n", generation, self, within);
    for (guint i = 0; i < promises->len; i++) {
        const WeftPromise *promise = &g_array_index(promises, WeftPromise, i);
        g_string_append_printf(text, "port %u 0x%016" G_GINT64_MODIFIER "x 0x%04x\n", promise->rail, promise->guid,
                               promise->pkey);
    }
    return g_string_free(text, FALSE);
}
