#include "discover.h"
#include "hosts.h"

const WeftInventory *
weft_hosts_inventory(const WeftHosts *hosts, const char *name, const char **ret_why_not)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    *ret_why_not = host ? host->inspect_error : NULL;
    return host ? host->inventory : NULL;
}

void
weft_hosts_hardware_changed(WeftHosts *hosts, const char *name)
{
    WeftWatch *host = weft_hosts_find(hosts, name);
    if (host)
        host->inspect = TRUE;
    weft_hosts_hint(hosts, name);
}

/* --- hardware that nobody described --- */

/* Cores, pages or devices that nodes hold are never taken from under them: their claims would be on nothing. */
static void
tell_kept(WeftWatch *host)
{
    if (host->kept_told)
        return;
    host->kept_told = TRUE;
    WeftTxn *txn = weft_txn_new("host-hardware-kept");
    weft_txn_tell(txn, "host-hardware-kept", NULL, host->name,
                  "host %s has less than its nodes hold; its old description stays until they are elsewhere: weft host drain "
                  "--evict %s",
                  host->name, host->name);
    weft_control_commit_quietly(host->control, txn);
}

static gboolean
is_same(const WeftHost *a, const WeftHost *b)
{
    json_t *x = weft_host_to_json(a), *y = weft_host_to_json(b);
    gboolean same = json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return same;
}

static void
discover(WeftWatch *host)
{
    const WeftHost *before = weft_fleet_host(host->control->fleet, host->name);
    if ((host->described && !before->discovered) || host->inventory->hardware->cores->len == 0)
        return;
    g_autoptr(WeftHost) after = weft_discover(before, host->inventory);
    g_autoptr(GPtrArray) nodes = weft_watch_nodes(host);
    if (!nodes || is_same(before, after))
        return;
    if (!weft_discover_holds(after, nodes)) {
        tell_kept(host);
        return;
    }
    host->kept_told = FALSE;
    WeftTxn *txn = weft_txn_new("host-discovered");
    weft_txn_put_host(txn, after, host->revision);
    weft_txn_tell(txn, "host-discovered", NULL, host->name, "host %s has %u cores, %u HCAs and %u GPUs", host->name,
                  after->cores->len, after->hcas->len, after->gpus->len);
    weft_control_commit_quietly(host->control, txn);
}

/* --- asking --- */

static void
inspected(WeftJob *job, const GError *error)
{
    WeftControl *control = job->owner;
    WeftWatch *host = weft_hosts_find(control->hosts, job->host);
    host->errands--;
    if (host->removed) {
        weft_hosts_end_removal(control->hosts, host);
        return;
    }
    g_clear_pointer(&host->inspect_error, g_free);
    if (error) {
        g_warning("host %s does not tell what it is able to, asking again: %s", host->name, error->message);
        host->inspect = TRUE;
        host->inspect_error = g_strdup(error->message);
        weft_watch_recheck(host, weft_backoff_delay(&control->options.backoff, ++host->inspect_attempts));
        return;
    }
    host->inspect_attempts = 0;
    gboolean first = !host->inventory;
    weft_inventory_free(host->inventory);
    host->inventory = g_steal_pointer(&job->inventory);
    discover(host);
    if (first) {
        g_autoptr(GPtrArray) nodes = weft_watch_nodes(host);
        weft_watch_wake_clusters(host, nodes, FALSE);
    }
}

void
weft_watch_inspect(WeftWatch *host)
{
    WeftControl *control = host->control;
    if (!host->inspect || host->errands)
        return;
    host->inspect = FALSE;
    host->errands++;
    weft_jobs_submit(control->jobs, weft_watch_job(host, WEFT_STEP_INSPECT, NULL, control->options.list_deadline, inspected));
}
