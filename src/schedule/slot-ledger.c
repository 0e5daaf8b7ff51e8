#include "slot-private.h"

WeftLedger *
weft_ledger_ref(WeftLedger *ledger)
{
    if (ledger)
        g_atomic_int_inc(&ledger->refs);
    return ledger;
}

void
weft_ledger_unref(WeftLedger *ledger)
{
    if (ledger && g_atomic_int_dec_and_test(&ledger->refs))
        g_free(ledger);
}

/* Is it this cluster? A longer id than fits is known by its beginning. */
static gboolean
is_of(const WeftTenancy *tenancy, const char *cluster)
{
    return strncmp(tenancy->cluster, cluster, WEFT_SLOT_ID) == 0;
}

const WeftTenancy *
weft_ledger_find(const WeftLedger *ledger, const char *cluster)
{
    for (guint i = 0; ledger && cluster && i < ledger->n_tenancies; i++)
        if (is_of(&ledger->tenancies[i], cluster))
            return &ledger->tenancies[i];
    return NULL;
}

static WeftPromise *
find_promise(const WeftLedger *ledger, guint hca, guint sl)
{
    for (guint i = 0; ledger && i < ledger->n_promises; i++)
        if (ledger->promises[i].hca == hca && ledger->promises[i].sl == sl)
            return &ledger->promises[i];
    return NULL;
}

guint64
weft_ledger_bits(const WeftLedger *ledger, guint hca, guint sl)
{
    const WeftPromise *promise = find_promise(ledger, hca, sl);
    return promise ? promise->bits : 0;
}

/* With room for so many more of each. */
static WeftLedger *
copy_with_room(const WeftLedger *old, guint tenancies, guint promises)
{
    guint n_tenancies = old ? old->n_tenancies : 0, n_promises = old ? old->n_promises : 0;
    gsize head = sizeof(WeftLedger) + (n_tenancies + tenancies) * sizeof(WeftTenancy);
    head = (head + sizeof(WeftPromise) - 1) / sizeof(WeftPromise) * sizeof(WeftPromise);
    WeftLedger *ledger = g_malloc0(head + (n_promises + promises) * sizeof(WeftPromise));
    ledger->refs = 1;
    ledger->promises = (WeftPromise *)((char *)ledger + head);
    ledger->n_tenancies = n_tenancies;
    ledger->n_promises = n_promises;
    for (guint i = 0; i < n_tenancies; i++)
        ledger->tenancies[i] = old->tenancies[i];
    for (guint i = 0; i < n_promises; i++)
        ledger->promises[i] = old->promises[i];
    return ledger;
}

static WeftTenancy *
add_tenancy(WeftLedger *ledger, const char *cluster)
{
    WeftTenancy *tenancy = (WeftTenancy *)weft_ledger_find(ledger, cluster);
    if (tenancy)
        return tenancy;
    tenancy = &ledger->tenancies[ledger->n_tenancies++];
    g_strlcpy(tenancy->cluster, cluster, sizeof tenancy->cluster);
    return tenancy;
}

static void
add_promise(WeftLedger *ledger, const WeftPromise *more)
{
    WeftPromise *promise = find_promise(ledger, more->hca, more->sl);
    if (!promise) {
        ledger->promises[ledger->n_promises++] = *more;
        return;
    }
    promise->bits += more->bits;
    promise->devices = (guint16)(promise->devices + more->devices);
}

WeftLedger *
weft_ledger_add(WeftLedger *old, const WeftSeat *seat, const char *cluster)
{
    WeftLedger *ledger = copy_with_room(old, 1, seat->n_rails);
    WeftTenancy *tenancy = add_tenancy(ledger, cluster);
    tenancy->nodes++;
    tenancy->exclusive = (guint16)(tenancy->exclusive + !!seat->exclusive);
    for (guint rail = 0; rail < seat->n_rails; rail++) {
        guint8 hca = seat->hca[rail];
        if (hca >= WEFT_HCAS_MAX)
            continue;
        tenancy->keys[hca]++;
        if (seat->bandwidth)
            add_promise(ledger, &(WeftPromise){ hca, (guint8)seat->sl, 1, seat->bandwidth });
    }
    weft_ledger_unref(old);
    return ledger;
}

static void
drop_promise(WeftLedger *ledger, guint hca, const WeftSeat *seat)
{
    WeftPromise *promise = find_promise(ledger, hca, seat->sl);
    if (!promise)
        return;
    promise->bits -= MIN(promise->bits, seat->bandwidth);
    if (--promise->devices == 0)
        *promise = ledger->promises[--ledger->n_promises];
}

WeftLedger *
weft_ledger_drop(WeftLedger *old, const WeftSeat *seat, const char *cluster)
{
    if (!weft_ledger_find(old, cluster))
        return old;
    WeftLedger *ledger = copy_with_room(old, 0, 0);
    WeftTenancy *tenancy = (WeftTenancy *)weft_ledger_find(ledger, cluster);
    tenancy->exclusive = (guint16)(tenancy->exclusive - MIN(tenancy->exclusive, !!seat->exclusive));
    for (guint rail = 0; rail < seat->n_rails; rail++) {
        guint8 hca = seat->hca[rail];
        if (hca >= WEFT_HCAS_MAX)
            continue;
        tenancy->keys[hca] = (guint16)(tenancy->keys[hca] - MIN(tenancy->keys[hca], 1));
        if (seat->bandwidth)
            drop_promise(ledger, hca, seat);
    }
    if (--tenancy->nodes == 0)
        *tenancy = ledger->tenancies[--ledger->n_tenancies];
    if (ledger->n_tenancies == 0 && ledger->n_promises == 0)
        g_clear_pointer(&ledger, weft_ledger_unref);
    weft_ledger_unref(old);
    return ledger;
}

WeftLedger *
weft_ledger_moved(const WeftLedger *old, const int hcas[WEFT_HCAS_MAX])
{
    if (!old)
        return NULL;
    WeftLedger *ledger = copy_with_room(old, 0, 0);
    for (guint i = 0; i < ledger->n_tenancies; i++) {
        memset(ledger->tenancies[i].keys, 0, sizeof ledger->tenancies[i].keys);
        for (guint h = 0; h < WEFT_HCAS_MAX; h++)
            if (hcas[h] >= 0)
                ledger->tenancies[i].keys[hcas[h]] = old->tenancies[i].keys[h];
    }
    ledger->n_promises = 0;
    for (guint i = 0; i < old->n_promises; i++) {
        WeftPromise promise = old->promises[i];
        if (hcas[promise.hca] < 0)
            continue;
        promise.hca = (guint8)hcas[promise.hca];
        ledger->promises[ledger->n_promises++] = promise;
    }
    return ledger;
}
