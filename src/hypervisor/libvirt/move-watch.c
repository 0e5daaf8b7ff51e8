#include "errors.h"
#include "move.h"

#define LOOK (100 * 1000) /* microseconds between looks: libvirt tells of passes, but not of how far one got */
#define STUCK                                                                                                                  \
    (2 * G_USEC_PER_SEC) /* a post-copy that nobody waits for and that gets no further is broken off to be resumed             \
                          */
#define PASSES_MAX 30    /* of a pre-copy; whoever writes less than the link carries needs a handful */
#define VAIN_MAX 4       /* of them, when all of the stall was granted and none left much less than the one before */
#define STEPS 6          /* in which the stall that is allowed is granted */

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
    guint steps, told; /* of the stall that is allowed: granted, and told to QEMU */
    guint vain;        /* passes of a pre-copy that left much */
    guint passes;      /* that were begun */
    guint64 sent;      /* before the last of them */
    gboolean shrinks;  /* it has at most half to do of what the one before did */
    gboolean switched; /* post-copy was asked for */
} Watch;

static WeftMoving *
moving_of(const Watch *watch)
{
    return watch->call->args;
}

/* FALSE: over, or soon. */
static gboolean
pause_watch(WeftMoving *moving)
{
    gint64 until = g_get_monotonic_time() + LOOK;
    g_mutex_lock(&moving->mutex);
    while (!moving->over && g_cond_wait_until(&moving->news, &moving->mutex, until))
        ;
    gboolean over = moving->over;
    g_mutex_unlock(&moving->mutex);
    return !over;
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

/* TRUE: another pass was begun. */
static gboolean
note_pass(Watch *watch, const Stats *stats)
{
    if (stats->passes <= watch->passes)
        return FALSE;
    guint64 before = stats->sent - MIN(watch->sent, stats->sent);
    watch->shrinks = watch->passes == 0 || stats->remaining <= before / 2;
    watch->passes = stats->passes;
    watch->sent = stats->sent;
    return TRUE;
}

/* A pre-copy that ended now would have it stand still no longer than it may. */
static gboolean
would_fit(const WeftMoving *moving, const Stats *stats)
{
    guint64 speed = moving->bandwidth > 0 ? moving->bandwidth : stats->speed;
    return (double)stats->remaining <= (double)speed * (double)moving->stall / G_USEC_PER_SEC;
}

/* As long as each pass leaves much less than the one before, the stall gets shorter with the next. Then more of what is allowed
 * is granted, or the hybrid goes on as post-copy. */
static void
weigh_pass(Watch *watch, const Stats *stats)
{
    const WeftMoving *moving = moving_of(watch);
    if (watch->shrinks)
        return;
    if (moving->copy == WEFT_COPY_PRE)
        watch->steps = MIN(1 + ++watch->vain, STEPS);
    else if (would_fit(moving, stats))
        watch->steps = STEPS;
}

static gboolean
is_time_to_switch(const Watch *watch, const Stats *stats)
{
    switch (moving_of(watch)->copy) {
    case WEFT_COPY_POST:
        return stats->passes >= 1;
    case WEFT_COPY_HYBRID:
        return !watch->shrinks && !would_fit(moving_of(watch), stats);
    default:
        return FALSE;
    }
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
is_stuck(WeftMoving *moving)
{
    g_mutex_lock(&moving->mutex);
    gboolean stuck = g_get_monotonic_time() - moving->told > STUCK;
    g_mutex_unlock(&moving->mutex);
    return stuck;
}

/* A pre-copy ends, and the domain runs on here. A post-copy is let go on where it can: the next call finds it done. */
static void
break_off(const Watch *watch)
{
    if (virDomainAbortJob(watch->domain) < 0 && is_stuck(moving_of(watch)))
        virDomainAbortJobFlags(watch->domain, VIR_DOMAIN_ABORT_JOB_POSTCOPY);
}

static void
bound(Watch *watch)
{
    gint64 milliseconds = moving_of(watch)->stall / 1000 * watch->steps / STEPS;
    if (watch->told != watch->steps && milliseconds > 0 &&
        virDomainMigrateSetMaxDowntime(watch->domain, (unsigned long long)milliseconds, 0) == 0)
        watch->told = watch->steps;
}

static void
steer(Watch *watch, const Stats *stats)
{
    WeftMoving *moving = moving_of(watch);
    if (note_pass(watch, stats))
        weigh_pass(watch, stats);
    bound(watch);
    if (!watch->switched && is_time_to_switch(watch, stats))
        switch_over(watch, stats);
    if (moving->copy == WEFT_COPY_PRE && (stats->passes > PASSES_MAX || watch->vain >= STEPS + VAIN_MAX)) {
        g_mutex_lock(&moving->mutex);
        moving->endless = TRUE;
        g_mutex_unlock(&moving->mutex);
        virDomainAbortJob(watch->domain);
    }
}

static void
look(Watch *watch)
{
    Stats stats = read_stats(watch->domain);
    gboolean copying = stats.type != VIR_DOMAIN_JOB_NONE && stats.total > 0;
    guint64 done = stats.total - MIN(stats.remaining, stats.total);
    if (copying)
        note_stats(moving_of(watch), &stats);
    if (!weft_call_go_on(watch->call, copying ? done : 0, stats.total, NULL))
        break_off(watch);
    else if (copying)
        steer(watch, &stats);
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
    g_autoptr(WeftCall) call = watch->call;
    while (pause_watch(call->args)) {
        if (is_connected(watch))
            look(watch);
    }
    hang_up(watch);
}

void
weft_move_watch(WeftCall *call)
{
    Watch *watch = g_new0(Watch, 1);
    watch->steps = 1;
    watch->shrinks = TRUE;
    watch->call = g_atomic_rc_box_acquire(call);
    weft_vir_helper(run_watch, watch);
}

void
weft_move_unwatch(WeftMoving *moving)
{
    g_mutex_lock(&moving->mutex);
    moving->over = TRUE;
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
