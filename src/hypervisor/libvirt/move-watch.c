#include "copy-choice.h"
#include "errors.h"
#include "move.h"

#define LOOK (100 * 1000) /* microseconds between looks: libvirt tells of passes, but not of how far one got */
#define STUCK                                                                                                                  \
    (2 * G_USEC_PER_SEC) /* a post-copy that nobody waits for and that gets no further is broken off to be resumed             \
                          */

typedef struct Stats {
    int type; /* VIR_DOMAIN_JOB_NONE: nothing is known yet */
    guint64 total, remaining, sent;
    guint64 speed; /* bytes a second */
    guint passes;
} Stats;

typedef struct Watch {
    WeftCall *call;
    virConnect *conn;
    virDomain *domain;
    guint number;      /* of itself */
    guint passes;      /* that were begun */
    guint64 sent;      /* before the last of them */
    guint vain;        /* of them, that were not worth their time */
    guint told;        /* parts of the stall that is allowed, to QEMU */
    WeftCopyTurn turn; /* what is to be done in this one */
    gboolean switched; /* post-copy was asked for */
    gint64 broken;     /* since when the post-copy is, as far as is known; 0: it is not */
} Watch;

static WeftMoving *
moving_of(const Watch *watch)
{
    return watch->call->args;
}

/* FALSE: over, or soon. */
static gboolean
pause_watch(const Watch *watch)
{
    WeftMoving *moving = moving_of(watch);
    gint64 until = g_get_monotonic_time() + LOOK;
    g_mutex_lock(&moving->mutex);
    while (moving->watch == watch->number && g_cond_wait_until(&moving->news, &moving->mutex, until))
        ;
    gboolean goes_on = moving->watch == watch->number;
    g_mutex_unlock(&moving->mutex);
    return goes_on;
}

static gboolean
is_current(const Watch *watch)
{
    WeftMoving *moving = moving_of(watch);
    g_mutex_lock(&moving->mutex);
    gboolean is = moving->watch == watch->number;
    g_mutex_unlock(&moving->mutex);
    return is;
}

static guint64
get_ullong(virTypedParameter *params, int n, const char *name)
{
    unsigned long long value = 0;
    virTypedParamsGetULLong(params, n, name, &value);
    return value;
}

static Stats
read_stats(virDomain *domain)
{
    Stats stats = { .type = VIR_DOMAIN_JOB_NONE };
    virTypedParameter *params = NULL;
    int n = 0;
    if (virDomainGetJobStats(domain, &stats.type, &params, &n, 0) < 0)
        stats.type = VIR_DOMAIN_JOB_NONE;
    stats.total = get_ullong(params, n, VIR_DOMAIN_JOB_MEMORY_TOTAL);
    stats.remaining = get_ullong(params, n, VIR_DOMAIN_JOB_MEMORY_REMAINING);
    stats.sent = get_ullong(params, n, VIR_DOMAIN_JOB_MEMORY_PROCESSED);
    stats.speed = get_ullong(params, n, VIR_DOMAIN_JOB_MEMORY_BPS);
    stats.passes = (guint)get_ullong(params, n, VIR_DOMAIN_JOB_MEMORY_ITERATION);
    virTypedParamsFree(params, n);
    return stats;
}

static void
note_stats(WeftMoving *moving, const Stats *stats)
{
    g_mutex_lock(&moving->mutex);
    if (stats->sent != moving->sent || moving->told == 0)
        moving->told = g_get_monotonic_time();
    moving->sent = stats->sent;
    moving->passes = MAX(moving->passes, stats->passes);
    g_mutex_unlock(&moving->mutex);
}

/* A pre-copy that ended now would have it stand still no longer than it may. */
static gboolean
would_fit(const WeftMoving *moving, const Stats *stats)
{
    guint64 speed = moving->bandwidth > 0 ? weft_move_share(moving->bandwidth) : stats->speed;
    return (double)stats->remaining <= (double)speed * (double)moving->stall / G_USEC_PER_SEC;
}

static void
note_pass(Watch *watch, const Stats *stats)
{
    const WeftMoving *moving = moving_of(watch);
    if (stats->passes <= watch->passes)
        return;
    const WeftCopyPass pass = { .number = stats->passes,
                                .carried = stats->sent - MIN(watch->sent, stats->sent),
                                .left = stats->remaining,
                                .fits = would_fit(moving, stats),
                                .vain = watch->vain };
    watch->turn = weft_copy_turn(moving->copy, &pass);
    watch->vain += watch->turn != WEFT_TURN_ON;
    watch->passes = stats->passes;
    watch->sent = stats->sent;
}

/* Pages that the guest misses are sent at once, but behind all that the link has yet to carry: so there must be no queue. */
static void
switch_over(Watch *watch, const Stats *stats)
{
    guint64 mib = weft_move_share(stats->speed) >> 20;
    if (moving_of(watch)->bandwidth == 0 && mib > 0)
        virDomainMigrateSetMaxSpeed(watch->domain, mib, VIR_DOMAIN_MIGRATE_MAX_SPEED_POSTCOPY);
    watch->switched = virDomainMigrateStartPostCopy(watch->domain, 0) == 0;
}

static gboolean
is_stuck(WeftMoving *moving, gint64 time)
{
    g_mutex_lock(&moving->mutex);
    gboolean stuck = g_get_monotonic_time() - moving->told > time;
    g_mutex_unlock(&moving->mutex);
    return stuck;
}

static WeftMoveEnd
end_of(virDomain *domain)
{
    int state, reason;
    return virDomainGetState(domain, &state, &reason, 0) == 0 ? weft_vir_end_of(domain, state, reason) : WEFT_END_ABSENT;
}

/* QEMU there may wait for a page that only this end has, and hear neither its monitor nor that the link broke. Then nobody can
 * let it go on, and libvirt's call ends with it. */
static void
end_there(Watch *watch)
{
    WeftMoving *moving = moving_of(watch);
    g_autoptr(virConnect) conn = weft_vir_dial(moving->there->host, NULL);
    g_autoptr(virDomain) there = conn ? virDomainLookupByName(conn, moving->domain) : NULL;
    WeftMoveEnd end = there ? end_of(there) : WEFT_END_ABSENT;
    if ((end != WEFT_END_COPIES && end != WEFT_END_HALTED) || !is_current(watch) || !is_stuck(moving, STUCK))
        return; /* meanwhile it was resumed */
    g_message("domain %s hangs on host %s in the middle of a post-copy, and nobody can let it go on: it is ended",
              moving->domain, moving->there->host->name);
    weft_vir_domain_end(there, NULL);
}

/* A post-copy is let go on where it can, also when nobody waits for it: the next call finds it done. One that gets no further
 * is broken off, for the next call to resume it. One that has sent everything, and waits for the other end to say so, cannot
 * be, and is ended before whoever awaits it has to return. libvirt takes one that a weftd before us began for broken although
 * QEMU goes on with it: so it is not ended while it gets any further. */
static void
mend(Watch *watch, gint64 patience)
{
    WeftMoving *moving = moving_of(watch);
    gint64 now = g_get_monotonic_time();
    WeftMoveEnd end = is_stuck(moving, STUCK) ? end_of(watch->domain) : WEFT_END_RUNS;
    if (end != WEFT_END_BROKEN)
        watch->broken = 0;
    else if (watch->broken == 0)
        watch->broken = now;
    gboolean hangs = end == WEFT_END_BROKEN && now - watch->broken > moving->patience;
    if (end == WEFT_END_COPIES && is_stuck(moving, patience))
        hangs = virDomainAbortJobFlags(watch->domain, VIR_DOMAIN_ABORT_JOB_POSTCOPY) < 0 &&
                is_stuck(moving, moving->patience + moving->patience / 2);
    if (hangs)
        end_there(watch);
}

static void
bound(Watch *watch)
{
    guint parts = MIN(1 + watch->vain, WEFT_COPY_GRANTS);
    gint64 milliseconds = moving_of(watch)->stall / 1000 * parts / WEFT_COPY_GRANTS;
    if (watch->told != parts && milliseconds > 0 &&
        virDomainMigrateSetMaxDowntime(watch->domain, (unsigned long long)milliseconds, 0) == 0)
        watch->told = parts;
}

static void
end_endless(const Watch *watch)
{
    WeftMoving *moving = moving_of(watch);
    g_mutex_lock(&moving->mutex);
    moving->endless = TRUE;
    g_mutex_unlock(&moving->mutex);
    virDomainAbortJob(watch->domain);
}

static void
steer(Watch *watch, const Stats *stats)
{
    note_pass(watch, stats);
    bound(watch);
    if (watch->turn == WEFT_TURN_SWITCH)
        switch_over(watch, stats);
    else if (watch->turn == WEFT_TURN_END)
        end_endless(watch);
}

static void
look(Watch *watch)
{
    Stats stats = read_stats(watch->domain);
    gboolean copying = stats.type != VIR_DOMAIN_JOB_NONE && stats.total > 0;
    guint64 done = stats.total - MIN(stats.remaining, stats.total);
    if (copying)
        note_stats(moving_of(watch), &stats);
    gboolean wanted = weft_call_go_on(watch->call, copying ? done : 0, stats.total, NULL);
    if (wanted && copying && !watch->switched)
        steer(watch, &stats);
    else if (!wanted)
        virDomainAbortJob(watch->domain); /* of a pre-copy: the domain runs on here */
    mend(watch, wanted ? moving_of(watch)->patience : STUCK);
}

static void
hang_up(Watch *watch)
{
    g_clear_pointer(&watch->domain, virDomainFree);
    g_clear_pointer(&watch->conn, virConnectClose);
}

/* A connection that broke is replaced: without it a migration could neither be turned nor broken off. */
static gboolean
is_connected(Watch *watch)
{
    if (watch->conn && virConnectIsAlive(watch->conn) == 1)
        return TRUE;
    hang_up(watch);
    watch->conn = weft_vir_dial(watch->call->host, NULL);
    if (watch->conn && weft_vir_keep_alive(watch->conn, &watch->call->host->shared->options, NULL))
        watch->domain = virDomainLookupByName(watch->conn, moving_of(watch)->domain);
    if (!watch->domain)
        hang_up(watch);
    return watch->domain != NULL;
}

static void
run_watch(gpointer data)
{
    g_autofree Watch *watch = data;
    while (pause_watch(watch)) {
        if (is_connected(watch))
            look(watch);
    }
    hang_up(watch);
    weft_call_unref(watch->call);
}

void
weft_move_watch(WeftCall *call, gboolean switched)
{
    WeftMoving *moving = call->args;
    Watch *watch = g_new0(Watch, 1);
    watch->switched = switched;
    g_mutex_lock(&moving->mutex);
    watch->number = ++moving->watch;
    moving->told = g_get_monotonic_time();
    g_mutex_unlock(&moving->mutex);
    watch->call = g_atomic_rc_box_acquire(call);
    weft_vir_helper(run_watch, watch);
}

void
weft_move_unwatch(WeftMoving *moving)
{
    g_mutex_lock(&moving->mutex);
    moving->watch++;
    g_cond_broadcast(&moving->news);
    g_mutex_unlock(&moving->mutex);
}

/* --- when it stood still --- */

static void
note_event(WeftCall *call, const char *domain, gboolean here)
{
    WeftMoving *moving = call->args;
    if (!g_str_equal(domain, moving->domain))
        return;
    g_mutex_lock(&moving->mutex);
    if (here && moving->stopped == 0)
        moving->stopped = g_get_monotonic_time();
    else if (!here && moving->went_on == 0)
        moving->went_on = g_get_monotonic_time();
    g_mutex_unlock(&moving->mutex);
}

static int
on_event_here(virConnect *conn, virDomain *domain, int event, int detail, void *call)
{
    if (event == VIR_DOMAIN_EVENT_SUSPENDED)
        note_event(call, virDomainGetName(domain), TRUE);
    return 0;
}

/* A post-copy is also told of as "resumed", when it begins and when all is there: what counts is the first. */
static int
on_event_there(virConnect *conn, virDomain *domain, int event, int detail, void *call)
{
    if (event == VIR_DOMAIN_EVENT_RESUMED)
        note_event(call, virDomainGetName(domain), FALSE);
    return 0;
}

static void
drop_call(void *call)
{
    weft_call_unref(call);
}

static int
listen_on(virConnect *conn, virConnectDomainEventCallback heard, WeftCall *call)
{
    int ear = virConnectDomainEventRegisterAny(conn, NULL, VIR_DOMAIN_EVENT_ID_LIFECYCLE, VIR_DOMAIN_EVENT_CALLBACK(heard),
                                               g_atomic_rc_box_acquire(call), drop_call);
    if (ear < 0)
        weft_call_unref(call);
    return ear;
}

WeftMoveEars
weft_move_listen(WeftCall *call)
{
    const WeftMoving *moving = call->args;
    return (WeftMoveEars){ listen_on(call->conn, on_event_here, call), listen_on(moving->there->conn, on_event_there, call) };
}

void
weft_move_deafen(WeftCall *call, WeftMoveEars ears)
{
    const WeftMoving *moving = call->args;
    if (ears.here >= 0)
        virConnectDomainEventDeregisterAny(call->conn, ears.here);
    if (ears.there >= 0)
        virConnectDomainEventDeregisterAny(moving->there->conn, ears.there);
}
