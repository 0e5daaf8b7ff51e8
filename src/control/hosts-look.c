#include "hosts.h"

#define NAMED_MAX 16    /* domains that are not weft's: those that a look finds beside these are counted */
#define REMOVALS_MAX 64 /* on one host at a time; looks that follow go on with the rest */

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
    job->network = weft_host_network_copy(network);
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
        if ((is_confirmed(host, suspects, g_strdup(look->stale->pdata[i])) || fenced) && host->stopping < REMOVALS_MAX)
            destroy_stale(host, look->stale->pdata[i]);
    for (guint i = 0; i < look->networks->len; i++) {
        const WeftHostNetwork *network = look->networks->pdata[i];
        if ((is_confirmed(host, suspects, g_strdup_printf("network %u", network->vxlan)) || fenced) &&
            host->stopping < REMOVALS_MAX)
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
        if (is_confirmed(host, suspects, g_strdup_printf("memory %s", (const char *)primed->pdata[i])) && host->errands == 0)
            remove_primed(host, primed->pdata[i]);
}

static void
tell_foreign(const WeftWatch *host, const GPtrArray *domains)
{
    WeftTxn *txn = weft_txn_new("domain-foreign-seen");
    for (guint i = 0; i < MIN(domains->len, NAMED_MAX); i++)
        weft_txn_tell(txn, "foreign-domain", NULL, host->name,
                      "host %s: domain %s is not weft's and uses resources there; it is left alone", host->name,
                      (const char *)domains->pdata[i]);
    if (domains->len > NAMED_MAX)
        weft_txn_tell(txn, "foreign-domain", NULL, host->name,
                      "host %s: %u more domains are not weft's and use resources there; they are left alone", host->name,
                      domains->len - NAMED_MAX);
    weft_control_commit_quietly(host->control, txn);
}

/* Tells each once, and remembers those that are still there. */
static void
report_foreign(WeftWatch *host, const GPtrArray *domains)
{
    GHashTable *seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GPtrArray) new = g_ptr_array_new();
    for (guint i = 0; i < domains->len; i++) {
        const char *domain = domains->pdata[i];
        g_hash_table_add(seen, g_strdup(domain));
        if (!g_hash_table_contains(host->reported, domain))
            g_ptr_array_add(new, (gpointer)domain);
    }
    if (new->len)
        tell_foreign(host, new);
    g_hash_table_unref(host->reported);
    host->reported = seen;
}

/* Where the store is an older one, a node may run on another host by now: all are looked at before it is taken for gone. */
static void
report_gone(WeftWatch *host, const GPtrArray *nodes, GHashTable *suspects)
{
    host->gone_waits = FALSE;
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        if (!is_confirmed(host, suspects, g_strdup(node->id)))
            continue;
        if (!weft_hosts_may_miss(host->control->hosts, node->host, node->id)) {
            host->gone_waits = TRUE;
            continue;
        }
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

/* --- what was confirmed --- */

/* Keys of what an operator had removed from there, as far as it may be done by now: what was seen to go at the last look, or
 * after weftd's start all of it, whichever run was told. */
static GPtrArray *
list_confirmed(const WeftWatch *host)
{
    GPtrArray *all = host->known ? NULL : weft_store_confirmed_ends(host->control->store, host->name, TRUE, NULL);
    if (all)
        return all;
    GPtrArray *keys = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < host->confirmed->len; i++)
        g_ptr_array_add(keys, g_strdup(((const WeftFound *)host->confirmed->pdata[i])->key));
    return keys;
}

/* A confirmation holds for what was seen then: should the same network or file come back, somebody is asked again. */
static void
note_confirmed(WeftWatch *host, GPtrArray *confirmed)
{
    g_autoptr(GPtrArray) keys = list_confirmed(host);
    g_autoptr(GHashTable) still = g_hash_table_new(g_str_hash, g_str_equal);
    WeftTxn *txn = NULL;
    for (guint i = 0; i < confirmed->len; i++)
        g_hash_table_add(still, ((const WeftFound *)confirmed->pdata[i])->key);
    for (guint i = 0; i < keys->len; i++) {
        if (g_hash_table_contains(still, keys->pdata[i]))
            continue;
        if (!txn)
            txn = weft_txn_new("confirmations-done");
        weft_txn_forget_confirmation(txn, host->name, keys->pdata[i]);
    }
    if (txn)
        weft_control_commit_quietly(host->control, txn);
    g_ptr_array_unref(host->confirmed);
    host->confirmed = confirmed;
}

/* Does anybody ask whether it is there? Hardly ever: all hosts are looked at again and again. */
static gboolean
is_doubted(const WeftWatch *host, const WeftNode *node)
{
    GHashTable *held = host->control->hosts->held;
    return weft_watch_is_held(host) || g_hash_table_contains(held, node->cluster) ||
           (node->target && g_hash_table_size(held) > 0);
}

/* Nodes that are recorded there, and have no domain there, nor files: an older store knows of some that have ended since. One
 * look may have begun before the node was started, and while a call for it runs none says anything. */
static void
note_absent(WeftWatch *host, const GPtrArray *nodes, GHashTable *suspects)
{
    g_autoptr(GHashTable) before = host->absent;
    host->absent = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        if (!is_doubted(host, node) || g_hash_table_contains(host->domains, node->id) ||
            weft_control_is_calling(host->control, node) ||
            !is_confirmed(host, suspects, g_strdup_printf("absent %s", node->id)))
            continue;
        g_hash_table_add(host->absent, g_strdup(node->id));
        g_autofree char *key = weft_cluster_key(node->tenant, node->cluster_name);
        if (node->phase == WEFT_NODE_STOPPING && !g_hash_table_contains(before, node->id))
            weft_control_wake(host->control, key); /* that it has stopped is known from now on */
    }
}

gboolean
weft_watch_act(WeftWatch *host, const WeftJob *seen, const GPtrArray *nodes, gboolean *ret_clean)
{
    const WeftContents *contents = seen->contents;
    g_auto(WeftLook) look = { 0 };
    g_auto(WeftHostProof) proof = { .store = host->control->store,
                                    .host = host->name,
                                    .run = weft_control_run(host->control),
                                    .control = host->control,
                                    .unknown = seen->unknown,
                                    .confirmed = weft_watch_confirmations(host) };
    g_autoptr(GHashTable) suspects = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GHashTable) holders = find_holders(host, contents, nodes);
    WeftLookInput input = { .site = host->control->options.site,
                            .host = host->name,
                            .contents = contents,
                            .nodes = nodes,
                            .holders = holders,
                            .images = weft_images_wanted(host->control->images),
                            .proof = weft_host_proof(&proof) };
    weft_look(&input, &look);
    g_hash_table_remove_all(host->domains);
    for (guint i = 0; i < contents->domains->len; i++) {
        const WeftDomain *domain = contents->domains->pdata[i];
        if (domain->node)
            g_hash_table_add(host->domains, g_strdup(domain->node));
    }
    report_foreign(host, look.foreign);
    note_confirmed(host, g_steal_pointer(&look.confirmed));
    weft_watch_hold(host, g_steal_pointer(&look.unproved));
    *ret_clean = look.stale->len == 0 && look.networks->len == 0 && host->stopping == 0;
    note_absent(host, nodes, suspects);
    if (!weft_watch_is_held(host) && !host->adopting) {
        if (host->stopping == 0)
            remove_confirmed(host, &look, suspects);
        discard_confirmed(host, look.images, suspects);
        remove_confirmed_memory(host, look.memory, suspects);
        report_gone(host, look.gone, suspects);
    }
    gboolean again = has_new(suspects, host->suspects);
    g_hash_table_unref(host->suspects);
    host->suspects = g_steal_pointer(&suspects);
    return again;
}
