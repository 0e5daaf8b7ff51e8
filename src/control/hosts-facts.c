#include "hosts.h"

/* What a call to the host has brought, or a look has seen. */
typedef struct Fact {
    gint64 since;             /* monotonic: a look that began before that knows less */
    gboolean there;           /* FALSE: it is known to be gone */
    WeftHostNetwork *network; /* of a network that is there */
    guint64 serial;           /* of what it says: the same number is the same text */
} Fact;

static void
fact_free(gpointer data)
{
    Fact *fact = data;
    weft_host_network_free(fact->network);
    g_free(fact);
}

void
weft_watch_facts_new(WeftWatch *host)
{
    host->networks = g_hash_table_new_full(NULL, NULL, NULL, fact_free);
    host->images = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, fact_free);
    host->primed = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, fact_free);
}

void
weft_watch_facts_free(WeftWatch *host)
{
    g_hash_table_unref(host->networks);
    g_hash_table_unref(host->images);
    g_hash_table_unref(host->primed);
}

void
weft_watch_forget(WeftWatch *host)
{
    g_hash_table_remove_all(host->networks);
    g_hash_table_remove_all(host->images);
    g_hash_table_remove_all(host->primed);
}

static Fact *
fact_new(gint64 since, gboolean there, WeftHostNetwork *network)
{
    Fact *fact = g_new0(Fact, 1);
    static guint64 serial;
    *fact = (Fact){ since, there, network, ++serial };
    return fact;
}

/* --- what calls bring --- */

void
weft_hosts_set_network(WeftHosts *hosts, const char *name, guint vxlan, const WeftHostNetwork *network)
{
    WeftWatch *host = weft_hosts_find(hosts, name);
    if (host)
        g_hash_table_insert(
            host->networks, GUINT_TO_POINTER(vxlan),
            fact_new(g_get_monotonic_time(), network != NULL, network ? weft_host_network_copy(network) : NULL));
}

const WeftHostNetwork *
weft_hosts_network(const WeftHosts *hosts, const char *name, guint vxlan, guint64 *ret_serial)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    const Fact *fact = host ? g_hash_table_lookup(host->networks, GUINT_TO_POINTER(vxlan)) : NULL;
    *ret_serial = fact ? fact->serial : 0;
    return fact ? fact->network : NULL;
}

void
weft_watch_set_image(WeftWatch *host, const char *digest, gboolean there)
{
    g_hash_table_insert(host->images, g_strdup(digest), fact_new(g_get_monotonic_time(), there, NULL));
}

void
weft_hosts_image_came(WeftHosts *hosts, const char *name, const char *digest)
{
    WeftWatch *host = weft_hosts_find(hosts, name);
    if (host)
        weft_watch_set_image(host, digest, TRUE);
}

gboolean
weft_hosts_has_image(const WeftHosts *hosts, const char *name, const char *digest)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    const Fact *fact = host ? g_hash_table_lookup(host->images, digest) : NULL;
    return fact && fact->there;
}

void
weft_hosts_set_primed(WeftHosts *hosts, const char *name, const char *id, gboolean there)
{
    WeftWatch *host = weft_hosts_find(hosts, name);
    if (host)
        g_hash_table_insert(host->primed, g_strdup(id), fact_new(g_get_monotonic_time(), there, NULL));
}

gboolean
weft_hosts_has_primed(const WeftHosts *hosts, const char *name, const char *id)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    const Fact *fact = host ? g_hash_table_lookup(host->primed, id) : NULL;
    return fact && fact->there;
}

/* --- what looks see --- */

/* Those that are not what they were known to be are to be looked at by their clusters: all that are gone now, first. */
static GHashTable *
forget_older(GHashTable *facts, gint64 looked)
{
    GHashTable *old = g_hash_table_new_full(NULL, NULL, NULL, fact_free);
    GHashTableIter iter;
    gpointer vxlan, fact;
    g_hash_table_iter_init(&iter, facts);
    while (g_hash_table_iter_next(&iter, &vxlan, &fact))
        if (((Fact *)fact)->since < looked) {
            g_hash_table_iter_steal(&iter);
            g_hash_table_insert(old, vxlan, fact);
        }
    return old;
}

static void
wake_owner(const WeftWatch *host, const char *cluster, const GPtrArray *nodes)
{
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        if (g_strcmp0(node->cluster, cluster) != 0)
            continue;
        g_autofree char *key = weft_cluster_key(node->tenant, node->cluster_name);
        weft_control_wake(host->control, key);
        return;
    }
}

/* Old ones that were seen again are taken out of old. */
static void
learn_network(WeftWatch *host, const WeftHostNetwork *seen, GHashTable *old, const GPtrArray *nodes)
{
    gpointer key = GUINT_TO_POINTER(seen->vxlan);
    if (g_hash_table_contains(host->networks, key))
        return;
    Fact *before = g_hash_table_lookup(old, key);
    if (before && before->there && weft_host_network_equal(before->network, seen)) {
        g_hash_table_steal(old, key);
        g_hash_table_insert(host->networks, key, before);
        return;
    }
    wake_owner(host, seen->cluster, nodes);
    g_hash_table_remove(old, key);
    g_hash_table_insert(host->networks, key, fact_new(host->looked, TRUE, weft_host_network_copy(seen)));
}

static void
learn_names(const WeftWatch *host, GHashTable *facts, const GPtrArray *names)
{
    GHashTableIter iter;
    gpointer fact;
    g_hash_table_iter_init(&iter, facts);
    while (g_hash_table_iter_next(&iter, NULL, &fact))
        if (((Fact *)fact)->since < host->looked)
            g_hash_table_iter_remove(&iter);
    for (guint i = 0; i < names->len; i++)
        if (!g_hash_table_contains(facts, names->pdata[i]))
            g_hash_table_insert(facts, g_strdup(names->pdata[i]), fact_new(host->looked, TRUE, NULL));
}

void
weft_watch_learn(WeftWatch *host, const WeftContents *contents, const GPtrArray *nodes)
{
    g_autoptr(GHashTable) old = forget_older(host->networks, host->looked);
    for (guint i = 0; i < contents->networks->len; i++)
        learn_network(host, contents->networks->pdata[i], old, nodes);
    GHashTableIter iter;
    gpointer fact;
    g_hash_table_iter_init(&iter, old);
    while (g_hash_table_iter_next(&iter, NULL, &fact))
        if (((Fact *)fact)->there)
            wake_owner(host, ((Fact *)fact)->network->cluster, nodes);
    learn_names(host, host->images, contents->images);
    learn_names(host, host->primed, contents->primed);
}
