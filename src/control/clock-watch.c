#include "clock-watch.h"

#include "checks.h"
#include "clock-trust.h"
#include "clock.h"
#include "errors.h"
#include "hosts.h"
#include "watchdog.h"

#define KEY "clock"
#define LOOK 1 /* second */
#define KEEP (60 * 60 * (gint64)G_USEC_PER_SEC)
#define ASK_AGAIN (60 * (gint64)G_USEC_PER_SEC)
#define REMEDY "set the clock of weftd's machine right, or let it be accepted as it is: weft clock accept"

typedef struct Acceptance {
    char *who;
    gint64 since; /* clusters that were placed from then on keep what is left of their walltimes */
    WeftClockTrust before;
    gint64 gap;
    WeftClockAccepted accepted;
    gpointer data;
} Acceptance;

struct WeftClockWatch {
    WeftControl *control;
    guint timer;
    WeftClockTrust told;
    GHashTable *votes;      /* host to WeftClockVerdict */
    gint64 gap;             /* that they were asked about */
    gint64 asked;           /* monotonic */
    gint64 kept;            /* when the last moment was written, monotonic; 0: not yet */
    Acceptance *acceptance; /* under way; NULL: none */
};

/* --- the store's last moment of trust --- */

static json_t *
mark_to_json(const WeftClockMark *mark)
{
    return json_pack("{s:I, s:I, s:I, s:b, s:s}", "time", (json_int_t)mark->time, "ticks", (json_int_t)mark->ticks, "followed",
                     (json_int_t)mark->followed, "jumped", (int)mark->jumped, "boot", mark->boot);
}

/* A store of before it was kept: its newest event. */
static gboolean
find_newest(WeftStore *store, WeftClockMark *ret_mark, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_EVENT, .limit = 1, .backwards = TRUE };
    g_autoptr(GPtrArray) records = weft_store_list(store, &query, error);
    if (records && records->len)
        ret_mark->time = g_ascii_strtoll(((WeftRecord *)records->pdata[0])->key, NULL, 16);
    return records != NULL;
}

static gboolean
find_mark(WeftStore *store, WeftClockMark *ret_mark, GError **error)
{
    GError *failed = NULL;
    g_autoptr(WeftRecord) record = weft_store_get(store, WEFT_KIND_META, KEY, &failed);
    if (failed) {
        g_propagate_error(error, failed);
        return FALSE;
    }
    if (!record)
        return find_newest(store, ret_mark, error);
    json_t *json = json_loads(record->value, 0, NULL);
    const char *boot = json_string_value(json_object_get(json, "boot"));
    ret_mark->time = json_integer_value(json_object_get(json, "time"));
    ret_mark->ticks = json_integer_value(json_object_get(json, "ticks"));
    ret_mark->followed = json_integer_value(json_object_get(json, "followed"));
    ret_mark->jumped = json_is_true(json_object_get(json, "jumped"));
    g_strlcpy(ret_mark->boot, boot ? boot : "", sizeof ret_mark->boot);
    json_decref(json);
    return TRUE;
}

gboolean
weft_clock_watch_begin(WeftStore *store, gint64 bound, GError **error)
{
    WeftClockMark mark = { 0 };
    if (!find_mark(store, &mark, error))
        return FALSE;
    weft_clock_begin(mark.time ? &mark : NULL, bound);
    return TRUE;
}

/* What is held is not known to be right: the moment of before stays. */
static void
keep(WeftClockWatch *watch)
{
    if (weft_clock_is_held())
        return;
    WeftClockMark mark = weft_clock_mark();
    WeftTxn *txn = weft_txn_new("clock-kept");
    weft_txn_put(txn, WEFT_KIND_META, KEY, "", "", mark_to_json(&mark), WEFT_ANY);
    weft_control_commit_quietly(watch->control, txn);
    watch->kept = g_get_monotonic_time();
}

/* --- accepting --- */

static void try_accept(WeftClockWatch *watch);

static void
end_acceptance(WeftClockWatch *watch, const GError *error)
{
    Acceptance *acceptance = g_steal_pointer(&watch->acceptance);
    if (error && acceptance->before == WEFT_CLOCK_JUMPED)
        weft_clock_confirm();
    if (acceptance->accepted)
        acceptance->accepted(error, acceptance->data);
    else if (error)
        g_warning("the clock that hosts agree with cannot be accepted, trying again: %s", error->message);
    g_free(acceptance->who);
    g_free(acceptance);
}

/* Somebody wrote a cluster's status in between: it is read again. */
static void
accept_ended(gint64 revision, const GError *error, gpointer data)
{
    WeftClockWatch *watch = ((WeftControl *)data)->clock;
    if (error && g_error_matches(error, WEFT_ERROR, WEFT_ERROR_CONFLICT) && !watch->control->closing) {
        try_accept(watch);
        return;
    }
    if (!error) {
        weft_clock_accept(watch->acceptance->gap);
        watch->told = WEFT_CLOCK_TRUSTED;
        weft_expiry_shifted(watch->control->expiry, revision);
        weft_control_room_changed(watch->control);
        g_message("the clock is accepted by %s", watch->acceptance->who);
    }
    end_acceptance(watch, error);
}

/* One transaction: the moment, and the ends that were reckoned otherwise. */
static void
try_accept(WeftClockWatch *watch)
{
    const Acceptance *acceptance = watch->acceptance;
    g_autoptr(GError) error = NULL;
    WeftClockMark mark = weft_clock_mark();
    mark.time += acceptance->gap;
    mark.followed = 0;
    mark.jumped = FALSE;
    g_autoptr(WeftTxn) txn = weft_txn_new("clock-accepted");
    weft_txn_put(txn, WEFT_KIND_META, KEY, "", "", mark_to_json(&mark), WEFT_ANY);
    if (!weft_expiry_shift(watch->control->expiry, txn, acceptance->since, acceptance->gap, &error)) {
        end_acceptance(watch, error);
        return;
    }
    g_autofree char *time = weft_clock_format(mark.time), *gap = weft_duration_format(acceptance->gap);
    weft_txn_tell(txn, "clock-accepted", NULL, NULL,
                  "%s accepted the clock of weftd's machine, %s, which differs by %s from "
                  "what weft went by; what is due ends now",
                  acceptance->who, time, gap);
    weft_control_commit(watch->control, g_steal_pointer(&txn), accept_ended, watch->control);
}

/* Until it is written, nothing ends by either time. What is left of walltimes was counted right unless the machine booted
 * with a clock that was trusted until then. */
static void
begin_acceptance(WeftClockWatch *watch, const char *who, WeftClockAccepted accepted, gpointer data)
{
    WeftClockState clock = weft_clock_state();
    Acceptance acceptance = { .who = g_strdup(who),
                              .since = clock.since,
                              .before = clock.trust,
                              .gap = clock.wall - clock.now,
                              .accepted = accepted,
                              .data = data };
    watch->acceptance = g_memdup2(&acceptance, sizeof acceptance);
    weft_clock_hold();
    try_accept(watch);
}

void
weft_clock_watch_accept(WeftClockWatch *watch, const char *who, gint64 seen, WeftClockAccepted accepted, gpointer data)
{
    WeftClockState clock = weft_clock_state();
    g_autoptr(GError) error = NULL;
    if (ABS(clock.wall - seen) > clock.bound)
        weft_error_refuse(&error, WEFT_ERROR_CONFLICT,
                          "the clock of weftd's machine was set in the meantime; look again: weft clock show");
    else if (watch->acceptance)
        weft_error_refuse(&error, WEFT_ERROR_CONFLICT, "the clock is being accepted already; look again: weft clock show");
    if (error || clock.trust == WEFT_CLOCK_TRUSTED)
        accepted(error, data);
    else
        begin_acceptance(watch, who, accepted, data);
}

/* --- what hosts say --- */

static guint
count(const WeftClockWatch *watch, WeftClockVerdict verdict)
{
    GHashTableIter iter;
    gpointer value;
    guint n = 0;
    g_hash_table_iter_init(&iter, watch->votes);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        n += GPOINTER_TO_UINT(value) == verdict;
    return n;
}

/* A jury of those that answer. */
static void
ask_hosts(const WeftClockWatch *watch)
{
    WeftHosts *hosts = watch->control->hosts;
    guint n = 0;
    GHashTableIter iter;
    gpointer name;
    g_hash_table_iter_init(&iter, hosts->by_name);
    while (n < WEFT_CLOCK_JURY && g_hash_table_iter_next(&iter, &name, NULL)) {
        if (weft_hosts_is_silent(hosts, name))
            continue;
        weft_hosts_hardware_changed(hosts, name);
        n++;
    }
}

/* Only where nothing else is known. On the same boot the ticks are exact: where hosts contradict them, they follow the same
 * wrong time server, and whether that is so is for an admin to say. */
static void
decide(WeftClockWatch *watch)
{
    WeftClockVerdict verdict =
        weft_clock_judge(g_hash_table_size(watch->control->hosts->by_name), count(watch, WEFT_VERDICT_WALL),
                         count(watch, WEFT_VERDICT_RECKONED), count(watch, WEFT_VERDICT_NONE));
    WeftClockState clock = weft_clock_state();
    if (watch->acceptance || watch->control->closing || clock.trust != WEFT_CLOCK_HELD)
        return;
    if (verdict == WEFT_VERDICT_WALL && weft_clock_is_for_hosts(clock.trust, clock.since))
        begin_acceptance(watch, "a majority of hosts", NULL, NULL);
    else if (verdict == WEFT_VERDICT_RECKONED)
        weft_clock_confirm();
}

/* Whatever a host says: the difference may be more than fits. */
static gboolean
is_near(gint64 time, gint64 other, gint64 bound)
{
    gint64 gap;
    return !__builtin_sub_overflow(time, other, &gap) && gap <= bound && gap >= -bound;
}

void
weft_clock_watch_heard(WeftClockWatch *watch, const char *host, gint64 time)
{
    WeftClockState clock = weft_clock_state();
    if (!time || clock.trust == WEFT_CLOCK_TRUSTED)
        return;
    WeftClockVerdict verdict = is_near(time, clock.wall, clock.bound)  ? WEFT_VERDICT_WALL
                               : is_near(time, clock.now, clock.bound) ? WEFT_VERDICT_RECKONED
                                                                       : WEFT_VERDICT_NONE;
    g_hash_table_replace(watch->votes, g_strdup(host), GUINT_TO_POINTER(verdict));
}

/* --- from time to time --- */

static const struct {
    const char *event;
    const char *meaning;
} meanings[] = {
    [WEFT_CLOCK_TRUSTED] = { "clock-trusted", "it is trusted again" },
    [WEFT_CLOCK_JUMPED] = { "clock-jumped", "weft goes on by the time since the last boot, and nothing ends earlier or later" },
    [WEFT_CLOCK_HELD] = { "clock-held", "nothing ends or is dropped by its age until hosts agree or an admin accepts it" },
};

static const char *
meaning_of(const WeftClockState *clock)
{
    if (clock->trust == WEFT_CLOCK_HELD && !weft_clock_is_for_hosts(clock->trust, clock->since))
        return "it had jumped before the machine booted; nothing ends or is dropped by its age until an admin accepts it";
    return meanings[clock->trust].meaning;
}

static void
tell(WeftClockWatch *watch, const WeftClockState *clock)
{
    g_autofree char *wall = weft_clock_format(clock->wall), *now = weft_clock_format(clock->now);
    const char *meaning = meaning_of(clock);
    WeftTxn *txn = weft_txn_new("clock-told");
    if (clock->trust == WEFT_CLOCK_TRUSTED) {
        g_message("the clock of weftd's machine says %s: %s", wall, meaning);
        weft_txn_tell(txn, meanings[clock->trust].event, NULL, NULL, "the clock of weftd's machine says %s: %s", wall, meaning);
    } else {
        g_warning("the clock of weftd's machine says %s, and weft goes by %s: %s; %s", wall, now, meaning, REMEDY);
        weft_txn_tell(txn, meanings[clock->trust].event, NULL, NULL,
                      "the clock of weftd's machine says %s, and weft goes by %s: %s", wall, now, meaning);
    }
    weft_control_commit_quietly(watch->control, txn);
    watch->told = clock->trust;
}

/* Another gap is another question, and so is the same one after a while: clocks of hosts are set, too. */
static void
question(WeftClockWatch *watch, const WeftClockState *clock)
{
    gint64 gap = clock->wall - clock->now, now = g_get_monotonic_time();
    if (ABS(gap - watch->gap) > clock->bound || now - watch->asked >= ASK_AGAIN) {
        g_hash_table_remove_all(watch->votes);
        watch->gap = gap;
        ask_hosts(watch);
        watch->asked = now;
    }
    decide(watch);
}

/* A jump is kept at once: should the machine fail before the hour is over, the next boot has to know of it. */
static void
look(WeftClockWatch *watch)
{
    WeftClockState clock = weft_clock_state();
    gboolean changed = clock.trust != watch->told;
    if (changed)
        tell(watch, &clock);
    if (clock.trust == WEFT_CLOCK_TRUSTED)
        watch->gap = 0;
    else
        question(watch, &clock);
    if (changed || !watch->kept || g_get_monotonic_time() - watch->kept >= KEEP)
        keep(watch);
}

static gboolean
look_again(gpointer data)
{
    WeftClockWatch *watch = data;
    watch->timer = g_timeout_add_seconds(LOOK, look_again, watch);
    weft_watchdog_mark("the look at the clock", NULL);
    if (!watch->acceptance)
        look(watch);
    return G_SOURCE_REMOVE;
}

/* --- asking --- */

json_t *
weft_clock_watch_view(const WeftClockWatch *watch)
{
    WeftClockState clock = weft_clock_state();
    return json_pack("{s:s, s:I, s:I, s:{s:I, s:I, s:I}}", "state", weft_clock_trust_words[clock.trust], "time",
                     (json_int_t)clock.now, "wall", (json_int_t)clock.wall, "hosts", "wall",
                     (json_int_t)count(watch, WEFT_VERDICT_WALL), "time", (json_int_t)count(watch, WEFT_VERDICT_RECKONED),
                     "neither", (json_int_t)count(watch, WEFT_VERDICT_NONE));
}

void
weft_clock_watch_examine(const WeftClockWatch *watch, json_t *checks)
{
    WeftClockState clock = weft_clock_state();
    g_autofree char *wall = weft_clock_format(clock.wall), *now = weft_clock_format(clock.now);
    if (clock.trust == WEFT_CLOCK_TRUSTED)
        weft_doctor_add(checks, "clock", WEFT_HEALTH_OK, NULL, "trusted");
    else
        weft_doctor_add(checks, "clock", WEFT_HEALTH_FAIL, REMEDY,
                        "it says %s, weft goes by %s (%u hosts agree with the first, %u with the second, %u with neither): %s",
                        wall, now, count(watch, WEFT_VERDICT_WALL), count(watch, WEFT_VERDICT_RECKONED),
                        count(watch, WEFT_VERDICT_NONE), meaning_of(&clock));
}

/* --- life --- */

WeftClockWatch *
weft_clock_watch_new(WeftControl *control)
{
    WeftClockWatch *watch = g_new0(WeftClockWatch, 1);
    watch->control = control;
    watch->votes = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    watch->timer = g_idle_add(look_again, watch);
    return watch;
}

void
weft_clock_watch_stop(WeftClockWatch *watch)
{
    if (watch->kept && !watch->acceptance)
        keep(watch);
    g_clear_handle_id(&watch->timer, g_source_remove);
}

void
weft_clock_watch_free(WeftClockWatch *watch)
{
    if (!watch)
        return;
    g_hash_table_unref(watch->votes);
    g_free(watch);
}
