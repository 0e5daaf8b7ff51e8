#include "hosts.h"

#include "site-record.h"

#define ASKED_AT_ONCE 3 /* hosts, where it is in doubt whose they are */

void
weft_watch_claim(const WeftWatch *host, WeftJob *look)
{
    const WeftControl *control = host->control;
    if (host->granted || !control->options.owner)
        return;
    look->claim = control->options.owner;
    look->take = weft_store_is_to_take(control->store, host->name, look->claim->run);
}

static char *
explain(const WeftWatch *host, const WeftJob *look)
{
    const WeftOwner *owner = look->record;
    if (look->claim_error)
        return g_strdup_printf("whose it is cannot be asked: %s; see: weft doctor %s", look->claim_error->message, host->name);
    if (look->verdict == WEFT_OWNER_STALE)
        return g_strdup_printf("it has seen a start of this weftd, epoch %" G_GUINT64_FORMAT
                               ", that this store, at epoch %" G_GUINT64_FORMAT
                               ", does not know: the store is older than the host, or a copy; if it is the right one: weft "
                               "site take %s",
                               owner->epoch, look->claim->epoch, host->name);
    return g_strdup_printf("it belongs to another weftd, of site %s, instance %s, epoch %" G_GUINT64_FORMAT
                           "; this one starts and removes nothing there; to have it: weft site take %s",
                           owner->site, owner->instance, owner->epoch, host->name);
}

/* Clusters whose partitions and networks were left as they are go on. */
static void
wake_all(WeftHosts *hosts)
{
    weft_hosts_wake_waiting(hosts);
    weft_control_wake_all(hosts->control);
    weft_subnets_take_stock(hosts->control->subnets);
}

static void
set_rival(WeftWatch *host, gboolean rival)
{
    WeftHosts *hosts = host->control->hosts;
    gboolean last_rival = host->rival && !rival && hosts->n_rivals == 1;
    hosts->n_rivals += rival - host->rival;
    host->rival = rival;
    if (last_rival && !host->control->closing)
        wake_all(hosts);
}

/* rival: it is of this site. */
static void
set_passive(WeftWatch *host, char *why, gboolean rival)
{
    host->unwritten |= g_strcmp0(host->passive, why) != 0;
    g_free(host->passive);
    host->passive = why;
    set_rival(host, rival);
}

/* By itself its loss says nothing of the weftd that has it, which may know partitions better than this one. But after an
 * operator had it taken in this run, nobody waits for a machine that may never answer: it is taken when it comes back. */
void
weft_watch_forgive_lost(WeftWatch *host)
{
    const WeftControl *control = host->control;
    if (host->rival && host->state == WEFT_HOST_LOST && control->options.owner &&
        weft_store_is_to_take(control->store, host->name, control->options.owner->run))
        set_rival(host, FALSE);
}

void
weft_watch_forget_owner(WeftWatch *host)
{
    host->granted = FALSE;
    set_passive(host, NULL, FALSE);
}

/* Whoever had it before was of this site, and is not known to this store: that may know less than the other. */
static void
note_taken(const WeftWatch *host, const WeftJob *look)
{
    WeftTxn *txn = weft_txn_new("host-taken");
    if (look->record && g_str_equal(look->record->site, look->claim->site) &&
        weft_owner_judge(look->record, look->claim) != WEFT_OWNER_GRANTED)
        weft_subnets_doubt_store(host->control->subnets, txn);
    weft_txn_taken(txn, host->control->store, host->name, host->control->options.owner->instance);
    weft_txn_tell(txn, "host-taken", NULL, host->name, "host %s is this weftd's from now on", host->name);
    weft_control_commit_quietly(host->control, txn);
}

void
weft_watch_claimed(WeftWatch *host, const WeftJob *look)
{
    if (!look->claim)
        return;
    gboolean granted = !look->claim_error && look->verdict == WEFT_OWNER_GRANTED;
    gboolean rival = !granted && !look->claim_error && g_str_equal(look->record->site, look->claim->site);
    if (granted && look->take) /* before anything may be changed */
        note_taken(host, look);
    set_passive(host, granted ? NULL : explain(host, look), rival);
    WeftHosts *hosts = host->control->hosts;
    const WeftHost *described = weft_fleet_host(host->control->fleet, host->name);
    gboolean first = granted && (!hosts->owned || (described && !weft_hosts_own(hosts, described->fabric)));
    /* Whoever asked for it while this look was under way has the next one. */
    host->granted = granted && (look->take || !weft_store_is_to_take(host->control->store, host->name, look->claim->run));
    hosts->owned |= host->granted;
    if (first && host->granted && !host->control->closing)
        wake_all(hosts);
}

void
weft_hosts_take(WeftHosts *hosts, const char *name)
{
    WeftWatch *host = weft_hosts_find(hosts, name);
    if (host) {
        host->granted = FALSE;
        weft_watch_forgive_lost(host);
    }
    weft_hosts_hint(hosts, name);
}

/* The next look says whose it is. */
void
weft_hosts_disowned(const WeftJob *job, gpointer hosts)
{
    WeftWatch *host = weft_hosts_find(hosts, job->host), *to = job->to ? weft_hosts_find(hosts, job->to) : NULL;
    if (job->step == WEFT_STEP_LIST)
        return;
    if (host)
        host->granted = FALSE;
    if (to)
        to->granted = FALSE;
    weft_hosts_hint(hosts, job->host);
}

/* --- what that means for hosts that are lost --- */

/* Where another weftd of this site has a host it may have this one as well, and what runs there has not ended for it. Where
 * none has ever said that it is this run's, the store may be a copy. */
gboolean
weft_hosts_may_give_up(const WeftHosts *hosts)
{
    gboolean owner = hosts->owned || hosts->round->len == 0 || !hosts->control->options.owner;
    return hosts->unlooked == 0 && hosts->n_rivals == 0 && owner;
}

/* --- what that means for fabrics --- */

/* Nearly always the first one that is asked about. */
gboolean
weft_hosts_own(const WeftHosts *hosts, const char *fabric)
{
    for (guint i = 0; i < hosts->round->len; i++) {
        const WeftWatch *host = hosts->round->pdata[i];
        const WeftHost *described = host->granted ? weft_fleet_host(hosts->control->fleet, host->name) : NULL;
        if (described && g_str_equal(described->fabric, fabric))
            return TRUE;
    }
    return !hosts->control->options.owner;
}

/* All are claimed again with their next look, and these few at once: one is enough to go on. */
void
weft_hosts_doubt_owner(WeftHosts *hosts, const char *fabric)
{
    guint asked = 0;
    hosts->owned = FALSE;
    for (guint i = 0; i < hosts->round->len; i++) {
        WeftWatch *host = hosts->round->pdata[i];
        const WeftHost *described = host->granted ? weft_fleet_host(hosts->control->fleet, host->name) : NULL;
        host->granted = FALSE;
        if (asked < ASKED_AT_ONCE && described && g_str_equal(described->fabric, fabric)) {
            asked++;
            weft_hosts_hint(hosts, host->name);
        }
    }
}

gboolean
weft_hosts_may_wire(const WeftHosts *hosts, const char *fabric)
{
    return hosts->unlooked == 0 && hosts->n_rivals == 0 && weft_hosts_own(hosts, fabric);
}

char *
weft_hosts_why_not_wire(const WeftHosts *hosts, const char *fabric)
{
    if (hosts->unlooked > 0 || weft_hosts_may_wire(hosts, fabric))
        return NULL;
    for (guint i = 0; i < hosts->round->len; i++) {
        const WeftWatch *host = hosts->round->pdata[i];
        if (host->rival)
            return g_strdup_printf("host %s belongs to another weftd of this site%s, so partitions and networks are left as "
                                   "they are; if this weftd has the right store: weft site take %s",
                                   host->name, host->state == WEFT_HOST_LOST ? ", and is lost" : "", host->name);
    }
    return g_strdup_printf("no host of fabric %s says that it is this weftd's, so partitions are left as they are; see: weft "
                           "hosts",
                           fabric);
}
