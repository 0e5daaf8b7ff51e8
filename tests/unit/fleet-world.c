#include "fleet-world.h"

#include <string.h>

void
fleet_add_host(WeftFleet *fleet, const char *name, const char *text)
{
    g_autoptr(GError) error = NULL;
    json_t *json = json_loads(text, 0, NULL); /* of a field that is there twice, the later */
    WeftHost *host = weft_host_from_json(json, "host", &error);
    json_decref(json);
    g_assert_no_error(error);
    weft_fleet_put_host(fleet, host);
    weft_fleet_set_open(fleet, name, TRUE);
}

WeftCluster *
cluster_from(const char *spec)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = g_strdup_printf("{\"name\":\"x\",%s}", spec);
    json_t *json = json_loads(text, 0, NULL);
    g_assert_nonnull(json);
    WeftCluster *cluster = weft_cluster_from_spec(json, &error);
    json_decref(json);
    g_assert_no_error(error);
    return cluster;
}

void
counts_of(const WeftCluster *cluster, guint counts[WEFT_GROUPS_MAX])
{
    for (guint i = 0; i < cluster->groups->len; i++)
        counts[i] = ((const WeftGroup *)cluster->groups->pdata[i])->count;
}

GHashTable *
all_but(const WeftFleet *fleet, const char *host)
{
    GHashTable *hosts = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < weft_fleet_size(fleet); i++) {
        const char *name = weft_fleet_name(fleet, i);
        if (name && strcmp(name, host) != 0)
            g_hash_table_add(hosts, (gpointer)name);
    }
    return hosts;
}
