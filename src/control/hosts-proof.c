#include "hosts.h"

#include <string.h>

#define FEW 128 /* things and marks that the main thread asks about itself: nearly every host has no more */

static gboolean
has_ended(WeftThing thing, const char *id, gpointer data)
{
    return weft_store_has_ended(((const WeftHostProof *)data)->store, thing, id);
}

/* All at once: they are as many as somebody has confirmed, and not as the host claims. */
static GHashTable *
read_confirmations(WeftStore *store, const char *host, const char *run)
{
    g_autoptr(GPtrArray) keys = weft_store_confirmed_ends(store, host, FALSE, run);
    GHashTable *confirmations = keys ? g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL) : NULL;
    for (guint i = 0; keys && i < keys->len; i++)
        g_hash_table_add(confirmations, g_strdup(keys->pdata[i]));
    return confirmations;
}

GHashTable *
weft_watch_confirmations(WeftWatch *host)
{
    if (!host->confirmations)
        host->confirmations = read_confirmations(host->control->store, host->name, weft_control_run(host->control));
    return host->confirmations ? g_hash_table_ref(host->confirmations) : NULL;
}

void
weft_hosts_confirmation_changed(WeftHosts *hosts, const WeftChange *change)
{
    WeftWatch *host = weft_hosts_find(hosts, change->place);
    const char *key = change->key + strlen(change->place) + 1;
    if (!host)
        return;
    if (host->confirmations && change->deleted)
        g_hash_table_remove(host->confirmations, key);
    else if (host->confirmations)
        g_hash_table_add(host->confirmations, g_strdup(key));
    if (!change->deleted)
        weft_watch_forgive_held(host);
}

static gboolean
is_confirmed(const char *key, gpointer data)
{
    WeftHostProof *proof = data;
    if (!proof->confirmed)
        proof->confirmed = read_confirmations(proof->store, proof->host, proof->run);
    return proof->confirmed && g_hash_table_contains(proof->confirmed, key);
}

static gboolean
is_unknown(const char *key, gpointer data)
{
    const WeftHostProof *proof = data;
    return proof->unknown && g_hash_table_contains(proof->unknown, key);
}

static gboolean
has_cluster(const char *id, gpointer data)
{
    g_autoptr(WeftRecord) record = weft_store_cluster_of_id(((const WeftHostProof *)data)->store, id, NULL);
    return record != NULL;
}

static gboolean
has_memory(const char *id, gpointer data)
{
    const WeftControl *control = ((const WeftHostProof *)data)->control;
    return control && weft_templates_knows_primed(control->templates, id);
}

static gboolean
has_file(const char *digest, gpointer data)
{
    const WeftControl *control = ((const WeftHostProof *)data)->control;
    return control && weft_checkpoints_have(control->checkpoints, digest);
}

static char *
find_stay(const char *node_id, const char *stay, gpointer data)
{
    g_autoptr(WeftRecord) record = weft_store_get(((const WeftHostProof *)data)->store, WEFT_KIND_NODE, node_id, NULL);
    g_autoptr(WeftNode) node = record ? weft_record_node(record, NULL) : NULL;
    return !node                                                           ? NULL
           : g_strcmp0(node->placement, stay) == 0                         ? g_strdup(node->host)
           : node->target && g_strcmp0(node->target->placement, stay) == 0 ? g_strdup(node->target->host)
                                                                           : NULL;
}

WeftProof
weft_host_proof(WeftHostProof *proof)
{
    return (WeftProof){ has_ended, is_confirmed, is_unknown, has_cluster, has_memory, has_file, find_stay, proof };
}

void
weft_host_proof_clear(WeftHostProof *proof)
{
    g_clear_pointer(&proof->confirmed, g_hash_table_unref);
}

/* --- on the worker of a look --- */

/* What is not known here is asked about on the main thread, where a record may have come or gone meanwhile. That the store has
 * nothing of a thing holds its host for one look at worst: a stay is recorded before anything of it is on a host, and it ends
 * with a record. */
void
weft_watch_ponder(WeftJob *look)
{
    const WeftControl *control = look->owner;
    WeftContents *contents = look->contents;
    if (contents->domains->len + contents->networks->len + contents->images->len + contents->primed->len +
            contents->marks->len <=
        FEW)
        return;
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftStore) store = weft_store_reader(control->store, &error);
    if (!store) {
        g_warning("host %s: what it has cannot be looked up by a reader: %s", look->host, error->message);
        return;
    }
    g_auto(WeftHostProof) proof = { .store = store, .host = look->host, .run = weft_control_run(control) };
    const WeftProof asked = weft_host_proof(&proof);
    look->unknown = weft_look_unknown(control->options.site, look->host, contents, &asked);
}
