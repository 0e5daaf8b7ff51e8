/* The helpers of src/base but for the parsers of longer texts (test-parse.c). Tables hold what is taken and what is refused,
 * with the whole message. */
#include "backoff.h"
#include "clock.h"
#include "errors.h"
#include "id.h"
#include "owner.h"
#include "reckoning.h"
#include "size.h"
#include "text.h"
#include "watchdog.h"

#include <gio/gio.h>
#include <time.h>

#define SECOND G_GINT64_CONSTANT(1000000)

static void
assert_error(GError *error, WeftErrorCode code, const char *message)
{
    g_assert_error(error, WEFT_ERROR, (int)code);
    g_assert_cmpstr(error->message, ==, message);
    g_error_free(error);
}

/* ---- errors ---- */

static void
test_errors(void)
{
    for (guint code = 0; code < WEFT_ERROR_COUNT; code++) {
        g_assert_nonnull(weft_error_name(code));
        g_assert_cmpint(weft_error_from_name(weft_error_name(code)), ==, code);
        g_assert_cmpuint(weft_error_http_status(code), >=, 400);
        g_assert_cmpint(weft_error_exit_code(code), >, 0);
    }
    g_assert_cmpint(weft_error_from_name("nonsense"), ==, WEFT_ERROR_FAILED);
    g_autoptr(GError) cancelled = g_error_new_literal(G_IO_ERROR, G_IO_ERROR_CANCELLED, "x");
    g_assert_cmpint(weft_error_code(cancelled), ==, WEFT_ERROR_TIMEOUT);
    g_autoptr(GError) foreign = g_error_new_literal(G_FILE_ERROR, G_FILE_ERROR_NOENT, "x");
    g_assert_cmpint(weft_error_code(foreign), ==, WEFT_ERROR_FAILED);
}

/* ---- backoff, id ---- */

static void
test_backoff(void)
{
    static const struct {
        guint attempt;
        gint64 full;
    } cases[] = {
        { 1, 100 }, { 2, 200 }, { 3, 400 }, { 4, 800 }, { 5, 1000 }, { 63, 1000 }, { 64, 1000 }, { G_MAXUINT, 1000 }
    };
    const WeftBackoff backoff = { .base = 100, .max = 1000 };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        for (guint n = 0; n < 200; n++) {
            gint64 delay = weft_backoff_delay(&backoff, cases[i].attempt);
            g_assert_cmpint(delay, >=, cases[i].full / 2);
            g_assert_cmpint(delay, <=, cases[i].full);
        }
    }
    const WeftBackoff huge = { .base = G_MAXINT64 / 3, .max = G_MAXINT64 };
    g_assert_cmpint(weft_backoff_delay(&huge, 100), >=, G_MAXINT64 / 2);
    const WeftBackoff none = { .base = 0, .max = 0 };
    g_assert_cmpint(weft_backoff_delay(&none, 3), ==, 0);
}

static void
test_backoff_jitters(void)
{
    const WeftBackoff backoff = { .base = SECOND, .max = SECOND };
    gint64 first = weft_backoff_delay(&backoff, 1);
    guint others = 0;
    for (guint i = 0; i < 50; i++)
        others += weft_backoff_delay(&backoff, 1) != first;
    g_assert_cmpuint(others, >, 0);
}

static void
test_id(void)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < 10000; i++) {
        char *id = weft_id_new();
        g_assert_true(weft_id_is_valid(id));
        g_assert_true(g_hash_table_add(seen, id));
    }
    static const char *const bad[] = {
        "", "4k2m", "a12345678901", "1234567890123", "12345678901X", "12345678901-", "1 3456789012"
    };
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++)
        g_assert_false(weft_id_is_valid(bad[i]));
    g_assert_cmpuint(weft_random_u64(), !=, weft_random_u64());
}

/* ---- clock ---- */

static gpointer
take_stamps(gpointer data)
{
    gint64 *stamps = data;
    for (guint i = 0; i < 10000; i++)
        stamps[i] = weft_clock_stamp();
    return NULL;
}

static void
test_clock_stamps(void)
{
    static gint64 stamps[4][10000];
    GThread *threads[4];
    for (guint i = 0; i < 4; i++)
        threads[i] = g_thread_new("stamps", take_stamps, stamps[i]);
    for (guint i = 0; i < 4; i++)
        g_thread_join(threads[i]);
    g_autoptr(GHashTable) seen = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (guint i = 0; i < 4; i++)
        for (guint n = 0; n < 10000; n++) {
            g_assert_true(n == 0 || stamps[i][n] > stamps[i][n - 1]);
            g_assert_true(g_hash_table_add(seen, &stamps[i][n]));
        }
    gint64 future = weft_clock_now() + 3600 * SECOND;
    weft_clock_advance(future);
    g_assert_cmpint(weft_clock_stamp(), ==, future + 1);
    weft_clock_advance(0);
    g_assert_cmpint(weft_clock_stamp(), ==, future + 2);
}

#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define BOUND (600 * SECOND)

static WeftClockReading
reading(gint64 wall, gint64 ticks, const char *boot)
{
    WeftClockReading clocks = { .wall = wall, .ticks = ticks };
    g_strlcpy(clocks.boot, boot, sizeof clocks.boot);
    return clocks;
}

static const gint64 jumps[] = { HOUR, -HOUR, DAY, -DAY, 3650 * DAY, -3650 * DAY };

/* Whatever the wall clock does, time goes on; and it is trusted again when it is back, or accepted. */
static void
test_clock_jumps(void)
{
    gint64 start = 20000 * DAY;
    for (guint i = 0; i < G_N_ELEMENTS(jumps); i++) {
        WeftReckoning clock;
        WeftClockReading now = reading(start, HOUR, "a");
        weft_reckoning_begin(&clock, &now, NULL, BOUND);
        now = reading(start + 5 * SECOND, HOUR + 3 * SECOND, "a");
        g_assert_cmpint(weft_reckoning_now(&clock, &now), ==, start + 5 * SECOND);
        g_assert_cmpint(clock.trust, ==, WEFT_CLOCK_TRUSTED);
        now = reading(start + 6 * SECOND + jumps[i], HOUR + 4 * SECOND, "a");
        g_assert_cmpint(weft_reckoning_now(&clock, &now), ==, start + 6 * SECOND);
        g_assert_cmpint(clock.trust, ==, WEFT_CLOCK_JUMPED);
        g_assert_cmpint(weft_reckoning_gap(&clock, &now), ==, jumps[i]);
        g_assert_cmpint(clock.since, ==, G_MININT64);
        now = reading(start + 8 * SECOND, HOUR + 5 * SECOND, "a");
        g_assert_cmpint(weft_reckoning_now(&clock, &now), ==, start + 8 * SECOND);
        g_assert_cmpint(clock.trust, ==, WEFT_CLOCK_TRUSTED);
    }
}

/* On the same boot the ticks tell how long nobody looked; after another only the store's last time is known. */
static void
test_clock_starts(void)
{
    gint64 last = 20000 * DAY;
    WeftClockMark mark = { .time = last, .ticks = HOUR, .boot = "a" };
    static const struct {
        gint64 wall, ticks;
        const char *boot;
        WeftClockTrust trust;
        gint64 now;
    } cases[] = {
        { 2 * DAY, HOUR + 2 * DAY, "a", WEFT_CLOCK_TRUSTED, 2 * DAY },
        { 2 * DAY + HOUR, HOUR + 2 * DAY, "a", WEFT_CLOCK_JUMPED, 2 * DAY },
        { 2 * DAY - HOUR, HOUR + 2 * DAY, "a", WEFT_CLOCK_JUMPED, 2 * DAY },
        { 300 * SECOND, 60 * SECOND, "b", WEFT_CLOCK_TRUSTED, 300 * SECOND },
        { HOUR, 60 * SECOND, "b", WEFT_CLOCK_HELD, 0 },
        { -HOUR, 60 * SECOND, "b", WEFT_CLOCK_HELD, 0 },
        { 3650 * DAY, 60 * SECOND, "b", WEFT_CLOCK_HELD, 0 },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        WeftReckoning clock;
        WeftClockReading now = reading(last + cases[i].wall, cases[i].ticks, cases[i].boot);
        weft_reckoning_begin(&clock, &now, &mark, BOUND);
        g_assert_cmpint(weft_reckoning_now(&clock, &now), ==, last + cases[i].now);
        g_assert_cmpint(clock.trust, ==, cases[i].trust);
        gboolean held = clock.trust == WEFT_CLOCK_HELD;
        g_assert_cmpint(weft_clock_is_for_hosts(clock.trust, clock.since), ==, held);
        g_assert_true(!held || clock.since == last);
        /* It had jumped before: the same time, but all times were reckoned, and hosts have no say. */
        WeftClockMark doubted = mark;
        doubted.jumped = TRUE;
        weft_reckoning_begin(&clock, &now, &doubted, BOUND);
        g_assert_cmpint(weft_reckoning_now(&clock, &now), ==, last + cases[i].now);
        g_assert_cmpint(clock.trust, ==, cases[i].trust);
        g_assert_false(weft_clock_is_for_hosts(clock.trust, clock.since));
        g_assert_true(!held || clock.since == G_MININT64);
    }
}

/* Steps that are followed one by one, with so much time between them, come to no more than the bound in a day. */
static void
test_clock_steps(void)
{
    static const struct {
        gint64 step, pause;
        guint count, followed; /* so many are */
        gboolean restarts;
    } cases[] = {
        { 599 * SECOND, 100000, 149, 1, FALSE },     { -599 * SECOND, 100000, 149, 1, FALSE },
        { 599 * SECOND, 100000, 149, 1, TRUE },      { 60 * SECOND, 10 * SECOND, 100, 10, FALSE },
        { 60 * SECOND, 10 * SECOND, 100, 10, TRUE }, { 600 * SECOND, DAY, 100, 100, FALSE },
        { -600 * SECOND, DAY, 100, 100, TRUE },      { 10 * SECOND, HOUR, 1000, 1000, FALSE },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        WeftReckoning clock;
        WeftClockReading now = reading(20000 * DAY, HOUR, "a");
        weft_reckoning_begin(&clock, &now, NULL, BOUND);
        gint64 offset = clock.offset;
        for (guint n = 0; n < cases[i].count; n++) {
            now.ticks += cases[i].pause;
            now.wall += cases[i].pause + cases[i].step;
            weft_reckoning_now(&clock, &now);
            WeftClockMark mark = {
                .time = now.ticks + clock.offset, .ticks = now.ticks, .followed = clock.followed, .boot = "a"
            };
            if (cases[i].restarts)
                weft_reckoning_begin(&clock, &now, &mark, BOUND);
        }
        gboolean all = cases[i].followed == cases[i].count;
        g_assert_cmpint(clock.trust, ==, all ? WEFT_CLOCK_TRUSTED : WEFT_CLOCK_JUMPED);
        g_assert_cmpint(clock.offset - offset, ==, cases[i].followed * cases[i].step);
        /* It comes back. */
        now.wall = now.ticks + offset;
        weft_reckoning_now(&clock, &now);
        if (!all)
            g_assert_cmpint(clock.trust, ==, WEFT_CLOCK_TRUSTED);
    }
}

/* Once somebody has accepted it, as much may be followed as at first. A boot is no fresh start. */
static void
test_clock_steps_counted(void)
{
    WeftReckoning clock;
    WeftClockReading now = reading(20000 * DAY + HOUR, HOUR, "a");
    weft_reckoning_begin(&clock, &now, NULL, BOUND);
    now.wall += 2 * DAY;
    weft_reckoning_now(&clock, &now);
    g_assert_cmpint(clock.trust, ==, WEFT_CLOCK_JUMPED);
    weft_reckoning_accept(&clock, weft_reckoning_gap(&clock, &now));
    now.wall += BOUND;
    weft_reckoning_now(&clock, &now);
    g_assert_cmpint(clock.trust, ==, WEFT_CLOCK_TRUSTED);
    g_assert_cmpint(clock.followed, ==, BOUND);
    WeftClockMark mark = { .time = now.wall, .ticks = now.ticks, .followed = clock.followed, .boot = "a" };
    now = reading(now.wall + SECOND, SECOND, "b");
    weft_reckoning_begin(&clock, &now, &mark, BOUND);
    g_assert_cmpint(clock.trust, ==, WEFT_CLOCK_TRUSTED);
    now.wall += SECOND;
    weft_reckoning_now(&clock, &now);
    g_assert_cmpint(clock.trust, ==, WEFT_CLOCK_JUMPED);
}

static void
test_clock_jury(void)
{
    static const struct {
        guint hosts, wall, reckoned, neither;
        WeftClockVerdict verdict;
    } cases[] = {
        { 0, 0, 0, 0, WEFT_VERDICT_NONE },     { 1, 1, 0, 0, WEFT_VERDICT_WALL },     { 4, 2, 0, 0, WEFT_VERDICT_NONE },
        { 4, 3, 1, 0, WEFT_VERDICT_WALL },     { 4, 0, 3, 0, WEFT_VERDICT_RECKONED }, { 10000, 8, 0, 0, WEFT_VERDICT_WALL },
        { 10000, 7, 0, 0, WEFT_VERDICT_NONE }, { 10000, 8, 8, 0, WEFT_VERDICT_NONE }, { 4, 2, 1, 1, WEFT_VERDICT_NONE },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++)
        g_assert_cmpint(weft_clock_judge(cases[i].hosts, cases[i].wall, cases[i].reckoned, cases[i].neither), ==,
                        cases[i].verdict);
}

static void
test_clock_format(void)
{
    static const struct {
        gint64 time;
        const char *text;
    } cases[] = {
        { 0, "1970-01-01T00:00:00.000Z" },
        { G_GINT64_CONSTANT(1769860800123000), "2026-01-31T12:00:00.123Z" },
        { G_GINT64_CONSTANT(951827696999000), "2000-02-29T12:34:56.999Z" },
        { -1000, "1969-12-31T23:59:59.999Z" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        gint64 back;
        g_autofree char *text = weft_clock_format(cases[i].time);
        g_assert_cmpstr(text, ==, cases[i].text);
        g_assert_true(weft_clock_parse(text, &back, NULL));
        g_assert_cmpint(back, ==, cases[i].time);
    }
    g_autofree char *least = weft_clock_format(G_MININT64), *most = weft_clock_format(G_MAXINT64);
    g_assert_true(g_str_has_prefix(least, "0001-01-01T"));
    g_assert_true(g_str_has_prefix(most, "9999-12-31T"));
}

static void
test_clock_parse(void)
{
    static const struct {
        const char *text;
        gint64 time; /* -1: refused */
    } cases[] = {
        { "1970-01-01T00:00:01Z", SECOND },
        { "1970-01-01T00:00:00.5Z", SECOND / 2 },
        { "1970-01-01T00:00:00.123456Z", 123456 },
        { "1970-01-01T00:00:00.123456999999999999999Z", 123456 },
        { "1970-01-01T02:00:00+02:00", 0 },
        { "1969-12-31T23:30:00-00:30", 0 },
        { "", -1 },
        { "1970-01-01", -1 },
        { "1970-01-01T00:00:00", -1 },
        { "1970-01-01t00:00:00z", -1 },
        { "1970-01-01 00:00:00Z", -1 },
        { "1970-01-01T00:00:00.Z", -1 },
        { "1970-01-01T00:00:00Zx", -1 },
        { "1970-01-01T24:00:00Z", -1 },
        { "1970-01-01T00:60:00Z", -1 },
        { "1970-01-01T00:00:60Z", -1 },
        { "1970-02-30T00:00:00Z", -1 },
        { "2025-02-29T00:00:00Z", -1 },
        { "1970-00-01T00:00:00Z", -1 },
        { "0000-01-01T00:00:00Z", -1 },
        { "1970-01-01T00:00:00+24:00", -1 },
        { "1970-01-01T00:00:00+0200", -1 },
        { "19700101T000000Z", -1 },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        gint64 time = -1;
        gboolean ok = weft_clock_parse(cases[i].text, &time, &error);
        g_assert_cmpint(time, ==, cases[i].time);
        g_assert_true(ok == (error == NULL));
        g_autofree char *message =
            g_strdup_printf("time \"%s\" is not understood; write it like 2026-01-31T12:00:00Z", cases[i].text);
        if (!ok)
            assert_error(error, WEFT_ERROR_INVALID, message);
    }
}

static void
test_duration(void)
{
    static const struct {
        const char *text;
        gint64 duration; /* -1: refused */
        const char *format;
    } cases[] = {
        { "250ms", 250000, "250 ms" },
        { "90s", 90 * SECOND, "1 m 30 s" },
        { "200s", 200 * SECOND, "3 m 20 s" },
        { "5m", 300 * SECOND, "5 m" },
        { "2h", 7200 * SECOND, "2 h" },
        { "1d", G_GINT64_CONSTANT(86400000000), "1 d" },
        { "90061s", G_GINT64_CONSTANT(90061000000), "1 d 1 h" },
        { "86401s", G_GINT64_CONSTANT(86401000000), "1 d" },
        { "1500ms", 1500000, "1 s 500 ms" },
        { "0s", 0, "0 ms" },
        { "106751991d", G_GINT64_CONSTANT(106751991) * 86400 * SECOND, "106751991 d" },
        { "", -1, NULL },
        { "5", -1, NULL },
        { "s", -1, NULL },
        { "-5s", -1, NULL },
        { "+5s", -1, NULL },
        { " 5s", -1, NULL },
        { "5 s", -1, NULL },
        { "5S", -1, NULL },
        { "1h30m", -1, NULL },
        { "1.5h", -1, NULL },
        { "5w", -1, NULL },
        { "106751992d", -1, NULL },
        { "99999999999999999999999ms", -1, NULL },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        gint64 duration = -1;
        gboolean ok = weft_duration_parse(cases[i].text, &duration, &error);
        g_assert_cmpint(duration, ==, cases[i].duration);
        g_autofree char *message =
            g_strdup_printf("duration \"%s\" is not understood; write it like 250ms, 90s, 5m, 2h or 1d", cases[i].text);
        if (!ok) {
            assert_error(error, WEFT_ERROR_INVALID, message);
            continue;
        }
        g_autofree char *format = weft_duration_format(duration);
        g_assert_cmpstr(format, ==, cases[i].format);
    }
    g_autofree char *negative = weft_duration_format(-90 * SECOND);
    g_assert_cmpstr(negative, ==, "-1 m 30 s");
}

/* ---- size, text ---- */

static void
test_size_taken(void)
{
    static const struct {
        const char *text;
        guint64 bytes;
        const char *format; /* NULL: the same text */
    } cases[] = {
        { "0", 0, NULL },
        { "1", 1, NULL },
        { "1000", 1000, NULL },
        { "512", 512, NULL },
        { "1K", 1024, NULL },
        { "1k", 1024, "1K" },
        { "512M", 512ULL << 20, NULL },
        { "512Mi", 512ULL << 20, "512M" },
        { "8G", 8ULL << 30, NULL },
        { "8GiB", 8ULL << 30, "8G" },
        { "8g", 8ULL << 30, "8G" },
        { "1T", 1ULL << 40, NULL },
        { "2P", 2ULL << 50, NULL },
        { "1.5G", 3ULL << 29, NULL },
        { "1.50000000000000000000000G", 3ULL << 29, "1.5G" },
        { "1.0", 1, "1" },
        { "0.5K", 512, "512" },
        { "008M", 8ULL << 20, "8M" },
        { "1536M", 3ULL << 29, "1.5G" },
        { "1048577", 1048577, NULL },
        { "18446744073709551615", G_MAXUINT64, NULL },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        guint64 bytes = 7;
        GError *error = NULL;
        weft_size_parse(cases[i].text, &bytes, &error);
        g_assert_no_error(error);
        g_assert_cmpuint(bytes, ==, cases[i].bytes);
        g_autofree char *format = weft_size_format(bytes);
        g_assert_cmpstr(format, ==, cases[i].format ? cases[i].format : cases[i].text);
    }
}

static void
test_size_refused(void)
{
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        { "", "is empty" },
        { "G", "is not understood" },
        { "8GB", "is not understood" },
        { "8gb", "is not understood" },
        { "8B", "is not understood" },
        { "8 G", "is not understood" },
        { " 8G", "is not understood" },
        { "8G ", "is not understood" },
        { "-1", "is not understood" },
        { "+1", "is not understood" },
        { "1e3", "is not understood" },
        { "0x10", "is not understood" },
        { "1.G", "is not understood" },
        { ".5G", "is not understood" },
        { "1.5.5G", "is not understood" },
        { "1,5G", "is not understood" },
        { "8Gib", "is not understood" },
        { "8GiBB", "is not understood" },
        { "8E", "is not understood" },
        { "1.3K", "is not a whole number of bytes" },
        { "1.5", "is not a whole number of bytes" },
        { "0.0000000000000000001P", "is not a whole number of bytes" },
        { "18446744073709551616", "is too large" },
        { "99999999999999999999999999", "is too large" },
        { "16384P", "is too large" },
        { "18014398509481984K", "is too large" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        guint64 bytes = 7;
        g_assert_false(weft_size_parse(cases[i].text, &bytes, &error));
        g_assert_cmpuint(bytes, ==, 7);
        g_autofree char *message = g_strdup_printf("size \"%s\" %s; write it like 512M, 8G or 1T", cases[i].text, cases[i].why);
        assert_error(error, WEFT_ERROR_INVALID, message);
    }
}

static void
test_size_round_trip(void)
{
    for (guint i = 0; i < 20000; i++) {
        guint64 bytes = weft_random_u64() >> (i % 64) << (i % 51), back = 0;
        g_autofree char *text = weft_size_format(bytes);
        g_assert_true(weft_size_parse(text, &back, NULL));
        g_assert_cmpuint(back, ==, bytes);
    }
}

static void
test_size_about(void)
{
    static const struct {
        guint64 bytes;
        const char *text;
    } cases[] = {
        { 0, "0B" },
        { 10239, "10239B" },
        { 10240, "10K" },
        { 142447143, "136M" },
        { 5ULL << 20, "5120K" },
        { 10ULL << 30, "10G" },
        { G_MAXUINT64, "16384P" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = weft_size_about(cases[i].bytes);
        g_assert_cmpstr(text, ==, cases[i].text);
    }
}

static void
test_rate(void)
{
    static const struct {
        const char *text;
        guint64 bits; /* 0: it is refused */
        const char *format;
    } cases[] = {
        { "10G", 10000000000, "10G" },
        { "2.5G", 2500000000, "2.5G" },
        { "100g", 100000000000, "100G" },
        { "1T", 1000000000000, "1T" },
        { "1500M", 1500000000, "1.5G" },
        { "1024", 1024, "1024" },
        { "10Gi", 0, "is not understood" },
        { "10Gb", 0, "is not understood" },
        { "0.0001K", 0, "is not a whole number of bits" },
        { "20000P", 0, "is too large" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        guint64 bits = 7;
        GError *error = NULL;
        if (!cases[i].bits) {
            g_assert_false(weft_rate_parse(cases[i].text, &bits, &error));
            g_autofree char *message =
                g_strdup_printf("rate \"%s\" %s; write it like 500M, 10G or 2.5G", cases[i].text, cases[i].format);
            assert_error(error, WEFT_ERROR_INVALID, message);
            continue;
        }
        g_assert_true(weft_rate_parse(cases[i].text, &bits, &error));
        g_assert_cmpuint(bits, ==, cases[i].bits);
        g_autofree char *format = weft_rate_format(bits);
        g_assert_cmpstr(format, ==, cases[i].format);
    }
}

static void
test_text(void)
{
    static const struct {
        const char *text;
        const char *quoted;
    } quotes[] = {
        { "", "\"\"" },
        { "cfd", "\"cfd\"" },
        { "größe", "\"größe\"" },
        { "a\nb\x7f", "\"a\\x0ab\\x7f\"" },
        { "a\"b\\", "\"a\\\"b\\\\\"" },
        { "\xff", "\"\xef\xbf\xbd\"" },
        { "\xe2\x80\xae", "\"\\u202e\"" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(quotes); i++) {
        g_autofree char *quoted = weft_text_quote(quotes[i].text);
        g_assert_cmpstr(quoted, ==, quotes[i].quoted);
    }
    g_autofree char *long_text = g_strnfill(100000, 'x');
    g_autofree char *clip = weft_text_clip(long_text);
    g_autofree char *line = weft_text_line("\xff\x1b[2Jé\né\xc2\x85 \n", 100), *cut = weft_text_line("ééé", 2);
    g_assert_cmpstr(line, ==, "\ufffd [2Jé é");
    g_assert_cmpstr(cut, ==, "éé");
    g_assert_cmpuint(g_utf8_strlen(clip, -1), ==, 65);
    g_assert_true(g_str_has_suffix(clip, "x…"));

    static const char *const words[] = { "name", "cores", "count", "memory" };
    g_assert_cmpstr(weft_text_nearest("coers", words, 4), ==, "cores");
    g_assert_cmpstr(weft_text_nearest("Cores", words, 4), ==, "cores");
    g_assert_cmpstr(weft_text_nearest("nmae", words, 4), ==, "name");
    g_assert_null(weft_text_nearest("x", words, 4));
    g_assert_null(weft_text_nearest("gpus", words, 4));
    g_assert_null(weft_text_nearest(long_text, words, 4));
    g_assert_null(weft_text_nearest("cores", words, 0));
}

static gint64
processor_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (gint64)time.tv_sec * G_USEC_PER_SEC + time.tv_nsec / 1000;
}

static gboolean
burn(gpointer data)
{
    weft_watchdog_mark("cluster", data);
    gint64 end = processor_time() + 2 * WEFT_SLICE_MAX;
    while (processor_time() < end)
        ;
    return G_SOURCE_REMOVE;
}

/* Not run, as on a busy machine. */
static gboolean
rest(gpointer data)
{
    g_usleep(2 * WEFT_SLICE_MAX);
    return G_SOURCE_REMOVE;
}

/* One turn of many slices, none of which is long. */
static gboolean
burn_in_pieces(gpointer data)
{
    gint64 end = weft_clock_thread() + 2 * WEFT_TURN_MAX;
    while (weft_clock_thread() < end)
        weft_watchdog_mark("piece", data);
    return G_SOURCE_REMOVE;
}

static gboolean
stop_loop(gpointer data)
{
    g_main_loop_quit(data);
    return G_SOURCE_REMOVE;
}

static void
run_in_loop(GSourceFunc function, gpointer data)
{
    g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
    g_idle_add_full(G_PRIORITY_DEFAULT, function, data, NULL);
    g_idle_add(stop_loop, loop);
    g_main_loop_run(loop);
}

/* Only processor time counts, the slice is named, and of several one is logged. */
static void
test_watchdog(void)
{
    weft_watchdog_start();
    run_in_loop(rest, NULL);
    g_assert_cmpuint(weft_watchdog_read().slices, ==, 0);
    g_test_expect_message(NULL, G_LOG_LEVEL_WARNING, "the main loop was kept busy for * by cluster acme/cfd; 0 more *");
    run_in_loop(burn, "acme/cfd");
    g_test_assert_expected_messages();
    run_in_loop(burn, "acme/cfd");
    WeftWatchdogFigures figures = weft_watchdog_read();
    g_assert_cmpuint(figures.slices, ==, 2);
    g_assert_cmpint(figures.longest, >=, 2 * WEFT_SLICE_MAX);
    g_assert_cmpstr(figures.what, ==, "cluster acme/cfd");
    g_assert_cmpuint(figures.turns, ==, 0);
    run_in_loop(burn_in_pieces, "of acme");
    figures = weft_watchdog_read();
    g_assert_cmpuint(figures.slices, ==, 2);
    g_assert_cmpuint(figures.turns, ==, 1);
}

/* ---- whose a host is ---- */

/* What a host answers is whatever its root likes: one that is another's says whose it is, or has not answered. */
static void
test_owner_answers(void)
{
    static const struct {
        const char *text;
        gboolean understood;
    } cases[] = {
        { "granted -", TRUE },
        { "granted 1aaaaaaaaaaa 1bbbbbbbbbbb 3 1ccccccccccc", TRUE },
        { "foreign 1aaaaaaaaaaa 1bbbbbbbbbbb 3 1ccccccccccc\nmore", TRUE },
        { "foreign -", FALSE },
        { "stale -", FALSE },
        { "foreign 1aaaaaaaaaaa", FALSE },
        { "mine -", FALSE },
        { "granted", FALSE },
        { "", FALSE },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        WeftOwnerVerdict verdict = WEFT_OWNER_GRANTED;
        g_autoptr(WeftOwner) record = NULL;
        g_assert_cmpint(weft_owner_parse_answer(cases[i].text, &verdict, &record), ==, cases[i].understood);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/errors", test_errors);
    g_test_add_func("/base/backoff/bounds", test_backoff);
    g_test_add_func("/base/backoff/jitter", test_backoff_jitters);
    g_test_add_func("/base/id", test_id);
    g_test_add_func("/base/clock/stamps", test_clock_stamps);
    g_test_add_func("/base/clock/jumps", test_clock_jumps);
    g_test_add_func("/base/clock/starts", test_clock_starts);
    g_test_add_func("/base/clock/steps", test_clock_steps);
    g_test_add_func("/base/clock/steps-counted", test_clock_steps_counted);
    g_test_add_func("/base/clock/jury", test_clock_jury);
    g_test_add_func("/base/clock/format", test_clock_format);
    g_test_add_func("/base/clock/parse", test_clock_parse);
    g_test_add_func("/base/duration", test_duration);
    g_test_add_func("/base/size/taken", test_size_taken);
    g_test_add_func("/base/size/refused", test_size_refused);
    g_test_add_func("/base/size/round-trip", test_size_round_trip);
    g_test_add_func("/base/size/about", test_size_about);
    g_test_add_func("/base/rate", test_rate);
    g_test_add_func("/base/text", test_text);
    g_test_add_func("/base/watchdog", test_watchdog);
    g_test_add_func("/base/owner/answers", test_owner_answers);
    return g_test_run();
}
