#include "watchdog.h"

#include <time.h>

#define LOG_INTERVAL (10 * G_USEC_PER_SEC) /* the log is no place for each of a flood */
#define SUBJECT_MAX 96

typedef struct Slice {
    const char *kind;
    char subject[SUBJECT_MAX];
    gint64 cpu;  /* when it began */
    gint64 wall; /* likewise */
} Slice;

/* From one wait for events to the next: a flood of small slices keeps everybody waiting as one long slice does. */
typedef struct Turn {
    gint64 cpu; /* when it began */
    guint slices;
    gint64 longest; /* of its slices */
    char what[SUBJECT_MAX + 64];
} Turn;

static gboolean watching;
static Slice slice;
static Turn turn;
static guint64 slices, turns;
static gint64 longest, last, logged;
static guint unlogged;
static char longest_what[SUBJECT_MAX + 64];

static gint64
processor_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (gint64)time.tv_sec * G_USEC_PER_SEC + time.tv_nsec / 1000;
}

/* FALSE: another message was logged just now. */
static gboolean
may_log(void)
{
    gint64 now = g_get_monotonic_time();
    last = g_get_real_time();
    if (logged && now - logged < LOG_INTERVAL) {
        unlogged++;
        return FALSE;
    }
    logged = now;
    return TRUE;
}

static void
report_slice(gint64 took, const char *what)
{
    slices++;
    if (!may_log())
        return;
    g_warning("the main loop was kept busy for %d ms (%d ms of wall time) by %s; %u more since the last such message",
              (int)(took / 1000), (int)((g_get_monotonic_time() - slice.wall) / 1000), what, unlogged);
    unlogged = 0;
}

static void
report_turn(gint64 took)
{
    turns++;
    if (!may_log())
        return;
    g_warning("the main loop was kept busy for %d ms by %u things one after the other, %d ms of them %s; %u more since the last"
              " such message",
              (int)(took / 1000), turn.slices, (int)(turn.longest / 1000), turn.what, unlogged);
    unlogged = 0;
}

static void
end_slice(gint64 now)
{
    gint64 took = now - slice.cpu;
    turn.slices++;
    if (took <= turn.longest && took <= WEFT_SLICE_MAX / 4)
        return;
    char what[sizeof turn.what];
    g_snprintf(what, sizeof what, "%s%s%s", slice.kind, *slice.subject ? " " : "", slice.subject);
    if (took > turn.longest) {
        turn.longest = took;
        g_strlcpy(turn.what, what, sizeof turn.what);
    }
    if (took > longest) {
        longest = took;
        g_strlcpy(longest_what, what, sizeof longest_what);
    }
    if (took > WEFT_SLICE_MAX / 4)
        g_debug("main loop: %d us of %s", (int)took, what);
    if (took > WEFT_SLICE_MAX)
        report_slice(took, what);
}

/* One long slice was told of already. */
static void
end_turn(gint64 now)
{
    gint64 took = now - turn.cpu;
    if (took - turn.longest > WEFT_TURN_MAX)
        report_turn(took);
}

static void
begin_slice(const char *kind, const char *subject, gint64 now)
{
    slice.kind = kind;
    slice.cpu = now;
    slice.wall = g_get_monotonic_time();
    g_strlcpy(slice.subject, subject ? subject : "", sizeof slice.subject);
}

void
weft_watchdog_mark(const char *kind, const char *subject)
{
    if (!watching)
        return;
    gint64 now = processor_time();
    end_slice(now);
    begin_slice(kind, subject, now);
}

static gint
wait_for_events(GPollFD *fds, guint n, gint timeout)
{
    gint64 now = processor_time();
    end_slice(now);
    end_turn(now);
    gint ready = g_poll(fds, n, timeout);
    now = processor_time();
    turn = (Turn){ .cpu = now };
    begin_slice("events of the main loop", NULL, now);
    return ready;
}

void
weft_watchdog_start(void)
{
    watching = TRUE;
    turn = (Turn){ .cpu = processor_time() };
    begin_slice("the start", NULL, turn.cpu);
    g_main_context_set_poll_func(NULL, wait_for_events);
}

WeftWatchdogFigures
weft_watchdog_read(void)
{
    return (WeftWatchdogFigures){ slices, turns, longest, last, longest_what };
}
