#include "clock-trust.h"

#include "clock.h"
#include "file.h"

#include <time.h>

#define SECOND G_GINT64_CONSTANT(1000000)
#define FILE_MAX 4096
#define BOOT_FILE "/proc/sys/kernel/random/boot_id"

static GMutex mutex;
static WeftReckoning reckoning = { .bound = G_MAXINT64 }; /* under the mutex */

/* --- the machine's clocks --- */

static gint64
read_clock(clockid_t id)
{
    struct timespec time;
    clock_gettime(id, &time);
    return (gint64)time.tv_sec * SECOND + time.tv_nsec / 1000;
}

/* For tests: the file that WEFT_CLOCK names says by how many seconds the wall clock is wrong and, after a blank, which boot
 * of the machine it is. */
static void
distort(WeftClockReading *reading, const char *path)
{
    g_autofree char *text = weft_file_read(path, FILE_MAX, NULL, NULL);
    g_auto(GStrv) words = g_strsplit(text ? g_strstrip(text) : "", " ", 2);
    if (!words[0])
        return;
    reading->wall += g_ascii_strtoll(words[0], NULL, 10) * SECOND;
    if (words[1])
        g_strlcpy(reading->boot, words[1], sizeof reading->boot);
}

/* Ticks go on while the machine sleeps. */
static WeftClockReading
read_clocks(void)
{
    WeftClockReading reading = { .wall = read_clock(CLOCK_REALTIME), .ticks = read_clock(CLOCK_BOOTTIME) };
    const char *distortion = g_getenv("WEFT_CLOCK");
    if (G_UNLIKELY(distortion))
        distort(&reading, distortion);
    return reading;
}

/* Which boot it is matters only for what is kept over a restart. */
static void
read_boot(WeftClockReading *reading)
{
    g_autofree char *text = reading->boot[0] ? NULL : weft_file_read(BOOT_FILE, FILE_MAX, NULL, NULL);
    if (text)
        g_strlcpy(reading->boot, g_strstrip(text), sizeof reading->boot);
}

/* --- the reckoning --- */

void
weft_clock_begin(const WeftClockMark *mark, gint64 bound)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&mutex);
    WeftClockReading reading = read_clocks();
    read_boot(&reading);
    weft_reckoning_begin(&reckoning, &reading, mark, bound);
}

/* The clocks are read under the mutex, so that a thread that waited for it does not come with a time of before a jump. */
WeftClockState
weft_clock_state(void)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&mutex);
    WeftClockReading reading = read_clocks();
    gint64 now = weft_reckoning_now(&reckoning, &reading);
    return (WeftClockState){ reckoning.trust, now, reading.wall, reckoning.bound, reckoning.since };
}

gint64
weft_clock_now(void)
{
    return weft_clock_state().now;
}

gboolean
weft_clock_is_held(void)
{
    return weft_clock_state().trust == WEFT_CLOCK_HELD;
}

WeftClockMark
weft_clock_mark(void)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&mutex);
    WeftClockReading reading = read_clocks();
    read_boot(&reading);
    WeftClockMark mark = { .time = weft_reckoning_now(&reckoning, &reading), .ticks = reading.ticks };
    mark.followed = reckoning.followed;
    mark.jumped = reckoning.trust == WEFT_CLOCK_JUMPED;
    g_strlcpy(mark.boot, reading.boot, sizeof mark.boot);
    return mark;
}

void
weft_clock_hold(void)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&mutex);
    reckoning.trust = WEFT_CLOCK_HELD;
}

void
weft_clock_confirm(void)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&mutex);
    weft_reckoning_confirm(&reckoning);
}

/* Should the wall clock have been set again since, the next look at it notices. */
void
weft_clock_accept(gint64 gap)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&mutex);
    weft_reckoning_accept(&reckoning, gap);
}
