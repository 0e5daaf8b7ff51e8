#include "hosts.h"

#include "look.h"

/* --- removing what nothing explains --- */

static void
removal_ended(WeftJob *job, const GError *error)
{
    WeftControl *control = job->owner;
    WeftWatch *host = weft_hosts_find(control->hosts, job->host);
    host->stopping--;
    if (host->removed)
        weft_hosts_end_removal(control->hosts, host);
    else if (!error)
        weft_hosts_hint(control->hosts, job->host);
}

static void
stale_stopped(WeftJob *job, const GError *error)
{
    removal_ended(job, error);
    if (error) {
        g_warning("host %s: domain %s that no node explains was not removed: %s", job->host, job->text, error->message);
        return;
    }
    WeftTxn *txn = weft_txn_new("domain-garbage-removed");
    weft_txn_tell(txn, "garbage-removed", NULL, job->host, "host %s: domain %s that no node explains was removed", job->host,
                  job->text);
    weft_control_commit_quietly(job->owner, txn);
}

static void
destroy_stale(WeftWatch *host, const char *domain)
{
    WeftControl *control = host->control;
    host->stopping++;
    weft_jobs_submit(control->jobs,
                     weft_watch_job(host, WEFT_STEP_STOP, domain, control->options.stop_deadline, stale_stopped));
}

static void
network_removed(WeftJob *job, const GError *error)
{
    WeftControl *control = job->owner;
    if (!error)
        weft_hosts_set_network(control->hosts, job->host, job->network->vxlan, NULL);
    removal_ended(job, error);
    if (error) {
        g_warning("host %s: network %u that no cluster explains was not removed: %s", job->host, job->network->vxlan,
                  error->message);
        return;
    }
    WeftTxn *txn = weft_txn_new("network-garbage-removed");
    weft_txn_tell(txn, "garbage-removed", NULL, job->host, "host %s: network %u that no cluster explains was removed",
                  job->host, job->network->vxlan);
    weft_control_commit_quietly(control, txn);
}

static void
remove_network(WeftWatch *host, const WeftHostNetwork *network)
{
    WeftControl *control = host->control;
    WeftJob *job = weft_watch_job(host, WEFT_STEP_DISCONNECT, NULL, control->options.stop_deadline, network_removed);
    job->network = weft_host_network_new(network->vxlan, network->cluster);
    host->stopping++;
    weft_jobs_submit(control->jobs, job);
}

static void
errand_ended(WeftJob *job)
{
    WeftControl *control = job->owner;
    WeftWatch *host = weft_hosts_find(control->hosts, job->host);
    host->errands--;
    if (host->removed)
        weft_hosts_end_removal(control->hosts, host);
    else
        weft_watch_inspect(host); /* which waited for this */
}

static void
image_discarded(WeftJob *job, const GError *error)
{
    WeftControl *control = job->owner;
    if (!error)
        weft_watch_set_image(weft_hosts_find(control->hosts, job->host), job->text, FALSE);
    errand_ended(job);
    if (error) {
        g_warning("host %s: image %s that nobody wants was not removed: %s", job->host, job->text, error->message);
        return;
    }
    WeftTxn *txn = weft_txn_new("image-garbage-removed");
    weft_txn_tell(txn, "garbage-removed", NULL, job->host, "host %s: image %.12s… that nobody wants was removed", job->host,
                  job->text);
    weft_control_commit_quietly(control, txn);
}

static void
discard_image(WeftWatch *host, const char *digest)
{
    WeftControl *control = host->control;
    host->errands++;
    weft_jobs_submit(control->jobs,
                     weft_watch_job(host, WEFT_STEP_DISCARD, digest, control->options.stop_deadline, image_discarded));
}

static void
primed_removed(WeftJob *job, const GError *error)
{
    WeftControl *control = job->owner;
    if (!error)
        weft_hosts_set_primed(control->hosts, job->host, job->text, FALSE);
    errand_ended(job);
    if (error) {
        g_warning("host %s: memory %s that no record explains was not removed: %s", job->host, job->text, error->message);
        return;
    }
    WeftTxn *txn = weft_txn_new("memory-garbage-removed");
    weft_txn_tell(txn, "garbage-removed", NULL, job->host, "host %s: memory %s that no record explains was removed", job->host,
                  job->text);
    weft_control_commit_quietly(control, txn);
}

static void
remove_primed(WeftWatch *host, const char *id)
{
    WeftControl *control = host->control;
    host->errands++;
    weft_jobs_submit(control->jobs,
                     weft_watch_job(host, WEFT_STEP_UNPRIME, id, control->options.stop_deadline, primed_removed));
}

/* --- a second look decides --- */

/* The first time it only becomes a suspect: what was looked at may have changed since the look began. Takes the name over. */
static gboolean
is_confirmed(const WeftWatch *host, GHashTable *suspects, char *name)
{
    gboolean confirmed = g_hash_table_contains(host->suspects, name);
    g_hash_table_add(suspects, name);
    return confirmed;
}

/* On a host that does not take nodes yet nothing can have been started meanwhile: there one look is enough. */
static void
remove_confirmed(WeftWatch *host, const WeftLook *look, GHashTable *suspects)
{
    gboolean fenced = host->state != WEFT_HOST_UP;
    for (guint i = 0; i < look->stale->len; i++)
        if (is_confirmed(host, suspects, g_strdup(look->stale->pdata[i])) || fenced)
            destroy_stale(host, look->stale->pdata[i]);
    for (guint i = 0; i < look->networks->len; i++) {
        const WeftHostNetwork *network = look->networks->pdata[i];
        if (is_confirmed(host, suspects, g_strdup_printf("network %u", network->vxlan)) || fenced)
            remove_network(host, network);
    }
}

static void
discard_confirmed(WeftWatch *host, const GPtrArray *images, GHashTable *suspects)
{
    for (guint i = 0; i < images->len; i++)
        if (is_confirmed(host, suspects, g_strdup_printf("image %s", (const char *)images->pdata[i])) && host->errands == 0)
            discard_image(host, images->pdata[i]);
}

static void
remove_confirmed_memory(WeftWatch *host, const GPtrArray *primed, GHashTable *suspects)
{
    for (guint i = 0; i < primed->len; i++)
        if (!weft_templates_knows_primed(host->control->templates, primed->pdata[i]) &&
            is_confirmed(host, suspects, g_strdup_printf("memory %s", (const char *)primed->pdata[i])) && host->errands == 0)
            remove_primed(host, primed->pdata[i]);
}

/* Tells each once, and remembers those that are still there. */
static void
report_foreign(WeftWatch *host, const GPtrArray *domains)
{
    GHashTable *seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < domains->len; i++) {
        const char *domain = domains->pdata[i];
        g_hash_table_add(seen, g_strdup(domain));
        if (g_hash_table_contains(host->reported, domain))
            continue;
        WeftTxn *txn = weft_txn_new("domain-foreign-seen");
        weft_txn_tell(txn, "foreign-domain", NULL, host->name,
                      "host %s: domain %s is not weft's and uses resources there; it is left alone", host->name, domain);
        weft_control_commit_quietly(host->control, txn);
    }
    g_hash_table_unref(host->reported);
    host->reported = seen;
}

static void
report_gone(const WeftWatch *host, const GPtrArray *nodes, GHashTable *suspects)
{
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        if (!is_confirmed(host, suspects, g_strdup(node->id)))
            continue;
        weft_control_node_gone(host->control, node, "its domain ended by itself");
        g_hash_table_remove(suspects, node->id); /* once it is started anew, one early look must not be enough */
    }
}

static gboolean
has_new(GHashTable *suspects, GHashTable *before)
{
    GHashTableIter iter;
    gpointer name;
    g_hash_table_iter_init(&iter, suspects);
    while (g_hash_table_iter_next(&iter, &name, NULL))
        if (!g_hash_table_contains(before, name))
            return TRUE;
    return FALSE;
}

/* Which cluster has which of the numbers that were seen. */
static GHashTable *
find_holders(const WeftWatch *host, const WeftContents *contents, const GPtrArray *nodes)
{
    GHashTable *holders = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < contents->networks->len; i++) {
        guint vxlan = ((const WeftHostNetwork *)contents->networks->pdata[i])->vxlan;
        const char *key = weft_subnets_holder(host->control->subnets, vxlan);
        for (guint n = 0; key && n < nodes->len; n++) {
            const WeftNode *node = nodes->pdata[n];
            g_autofree char *own = weft_cluster_key(node->tenant, node->cluster_name);
            if (g_str_equal(own, key))
                g_hash_table_insert(holders, GUINT_TO_POINTER(vxlan), node->cluster);
        }
    }
    return holders;
}

gboolean
weft_watch_act(WeftWatch *host, const WeftContents *contents, const GPtrArray *nodes, gboolean *ret_clean)
{
    g_auto(WeftLook) look = { 0 };
    g_autoptr(GHashTable) suspects = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GHashTable) holders = find_holders(host, contents, nodes);
    WeftLookInput input = { contents, nodes, holders, weft_images_wanted(host->control->images) };
    weft_look(&input, &look);
    *ret_clean = look.stale->len == 0 && look.networks->len == 0 && host->stopping == 0;
    if (host->stopping == 0)
        remove_confirmed(host, &look, suspects);
    discard_confirmed(host, look.images, suspects);
    remove_confirmed_memory(host, contents->primed, suspects);
    report_foreign(host, look.foreign);
    report_gone(host, look.gone, suspects);
    gboolean again = has_new(suspects, host->suspects);
    g_hash_table_unref(host->suspects);
    host->suspects = g_steal_pointer(&suspects);
    return again;
}
