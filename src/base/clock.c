#include "clock.h"

#include "errors.h"
#include "text.h"

#include <time.h>

#define SECOND G_GINT64_CONSTANT(1000000)
#define YEAR_0001 (-G_GINT64_CONSTANT(62135596800)) /* seconds since 1970 */
#define YEAR_9999_END G_GINT64_CONSTANT(253402300799)

static gint64 last_stamp;

gint64
weft_clock_thread(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (gint64)used.tv_sec * G_USEC_PER_SEC + used.tv_nsec / 1000;
}

gint64
weft_clock_stamp(void)
{
    gint64 last = __atomic_load_n(&last_stamp, __ATOMIC_RELAXED), next;
    do
        next = MAX(weft_clock_now(), last + 1);
    while (!__atomic_compare_exchange_n(&last_stamp, &last, next, TRUE, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return next;
}

void
weft_clock_advance(gint64 at_least)
{
    gint64 last = __atomic_load_n(&last_stamp, __ATOMIC_RELAXED);
    while (last < at_least &&
           !__atomic_compare_exchange_n(&last_stamp, &last, at_least, TRUE, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        continue;
}

char *
weft_clock_format(gint64 time)
{
    gint64 fraction = (time % SECOND + SECOND) % SECOND;
    time_t seconds = CLAMP(time / SECOND - (time % SECOND < 0), YEAR_0001, YEAR_9999_END);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    return g_strdup_printf("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
                           tm.tm_min, tm.tm_sec, (int)(fraction / 1000));
}

/* Exactly n digits and then the separator (NUL: none). */
static gboolean
take(const char **p, int n, char separator, int max, int *ret)
{
    *ret = 0;
    for (int i = 0; i < n; i++, (*p)++) {
        if (!g_ascii_isdigit(**p))
            return FALSE;
        *ret = *ret * 10 + (**p - '0');
    }
    if (separator && *(*p)++ != separator)
        return FALSE;
    return *ret <= max;
}

static gboolean
take_fraction(const char **p, gint64 *ret_micros)
{
    *ret_micros = 0;
    if (**p != '.')
        return TRUE;
    const char *start = ++*p;
    for (gint64 scale = SECOND / 10; g_ascii_isdigit(**p); (*p)++, scale /= 10)
        *ret_micros += scale * (**p - '0');
    return *p > start;
}

/* "Z" or "+02:00", which must end the text. */
static gboolean
take_zone(const char *p, gint64 *ret_seconds)
{
    int hours = 0, minutes = 0, sign = *p == '-' ? -1 : 1;
    *ret_seconds = 0;
    if (*p == 'Z')
        return p[1] == '\0';
    if (*p != '+' && *p != '-')
        return FALSE;
    p++;
    if (!take(&p, 2, ':', 23, &hours) || !take(&p, 2, '\0', 59, &minutes))
        return FALSE;
    *ret_seconds = sign * (hours * 3600 + minutes * 60);
    return *p == '\0';
}

gboolean
weft_clock_parse(const char *text, gint64 *ret_time, GError **error)
{
    const char *p = text;
    struct tm tm = { 0 };
    gint64 micros, zone;
    if (!take(&p, 4, '-', 9999, &tm.tm_year) || !take(&p, 2, '-', 12, &tm.tm_mon) || !take(&p, 2, 'T', 31, &tm.tm_mday) ||
        !g_date_valid_dmy((GDateDay)tm.tm_mday, (GDateMonth)tm.tm_mon, (GDateYear)tm.tm_year) ||
        !take(&p, 2, ':', 23, &tm.tm_hour) || !take(&p, 2, ':', 59, &tm.tm_min) || !take(&p, 2, '\0', 59, &tm.tm_sec) ||
        !take_fraction(&p, &micros) || !take_zone(p, &zone)) {
        g_autofree char *quoted = weft_text_quote(text);
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "time %s is not understood; write it like 2026-01-31T12:00:00Z",
                    quoted);
        return FALSE;
    }
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *ret_time = ((gint64)timegm(&tm) - zone) * SECOND + micros;
    return TRUE;
}

typedef struct {
    const char *name;
    gint64 length;
} Unit;

static const Unit units[] = {
    { "d", 86400 * SECOND }, { "h", 3600 * SECOND }, { "m", 60 * SECOND }, { "s", SECOND }, { "ms", 1000 },
};

gboolean
weft_duration_parse(const char *text, gint64 *ret_duration, GError **error)
{
    char *suffix = NULL;
    guint64 number = g_ascii_isdigit(*text) ? g_ascii_strtoull(text, &suffix, 10) : 0;
    for (guint i = 0; suffix && i < G_N_ELEMENTS(units); i++) {
        if (strcmp(suffix, units[i].name) == 0 && number <= (guint64)(G_MAXINT64 / units[i].length)) {
            *ret_duration = (gint64)number * units[i].length;
            return TRUE;
        }
    }
    g_autofree char *quoted = weft_text_quote(text);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "duration %s is not understood; write it like 250ms, 90s, 5m, 2h or 1d",
                quoted);
    return FALSE;
}

/* The largest unit and the next smaller one, if there is something of it. */
char *
weft_duration_format(gint64 duration)
{
    guint i = 0;
    gint64 rest = duration == G_MININT64 ? G_MAXINT64 : ABS(duration);
    while (i < G_N_ELEMENTS(units) - 1 && rest < units[i].length)
        i++;
    GString *text = g_string_new(NULL);
    g_string_printf(text, "%s%" G_GINT64_FORMAT " %s", duration < 0 ? "-" : "", rest / units[i].length, units[i].name);
    rest %= units[i].length;
    if (i + 1 < G_N_ELEMENTS(units) && rest >= units[i + 1].length)
        g_string_append_printf(text, " %" G_GINT64_FORMAT " %s", rest / units[i + 1].length, units[i + 1].name);
    return g_string_free(text, FALSE);
}
