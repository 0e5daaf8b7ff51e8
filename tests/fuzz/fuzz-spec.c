/* Cluster specifications: what is taken is stored and read back without a change. */
#include "fuzz.h"

#include "cluster.h"
#include "id.h"
#include "yaml.h"

/* What the API adds to a specification. */
static void
grant(WeftCluster *cluster)
{
    cluster->id = weft_id_new();
    cluster->tenant = g_strdup("acme");
    cluster->creator = g_strdup("alice");
    cluster->created = 1;
}

static void
check_cluster(WeftCluster *cluster)
{
    guint count = weft_cluster_count(cluster);
    fuzz_promise(count >= 1 && count <= WEFT_NODES_MAX);
    grant(cluster);
    json_t *stored = weft_cluster_to_json(cluster);
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftCluster) again = weft_cluster_from_json(stored, &error);
    if (!again)
        g_error("a stored cluster is not read again: %s", error->message);
    json_t *twice = weft_cluster_to_json(again);
    fuzz_promise(json_equal(stored, twice));
    json_decref(twice);
    json_decref(stored);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GError *error = NULL;
    json_t *json = weft_json_parse((const char *)data, size, &error);
    g_autoptr(WeftCluster) cluster = json ? weft_cluster_from_spec(json, &error) : NULL;
    if (cluster)
        check_cluster(cluster);
    else
        fuzz_check_refusal(error);
    json_decref(json);
    return 0;
}
