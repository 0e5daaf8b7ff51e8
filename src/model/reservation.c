#include "reservation.h"

#include "clock.h"
#include "codec.h"
#include "hostlist.h"

#include <stdlib.h>
#include <string.h>

#define DURATION_MIN G_USEC_PER_SEC
#define DURATION_MAX ((gint64)WEFT_WALLTIME_MAX * G_USEC_PER_SEC)

static const WeftCodecField spec_fields[] = {
    WEFT_FIELD(WeftReservation, name, TEXT, .grammar = WEFT_GRAMMAR_NAME, .what = "reservation name"),
    WEFT_FIELD(WeftReservation, tenant, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_NAME, .what = "tenant name"),
    {},
};

static const WeftCodecField record_fields[] = {
    WEFT_FIELD(WeftReservation, name, TEXT),
    WEFT_FIELD(WeftReservation, tenant, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftReservation, start, UINT64),
    WEFT_FIELD(WeftReservation, end, UINT64),
    WEFT_FIELD(WeftReservation, creator, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftReservation, created, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftReservation, begun, BOOL, WEFT_OPTIONAL),
    {},
};

static int
compare_names(gconstpointer a, gconstpointer b)
{
    return weft_natural_compare(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts, and leaves the first of equal ones. */
static void
tidy(char **names)
{
    guint n = g_strv_length(names), kept = 0;
    qsort(names, n, sizeof *names, compare_names);
    for (guint i = 0; i < n; i++)
        if (kept && strcmp(names[kept - 1], names[i]) == 0)
            g_free(names[i]);
        else
            names[kept++] = names[i];
    names[kept] = NULL;
}

/* Never NULL. */
static char **
read_hosts(WeftFields *f)
{
    g_autoptr(GError) error = NULL;
    const char *text = weft_fields_string(f, "hosts", WEFT_REQUIRED_TEXT);
    g_auto(GStrv) names = f->error ? NULL : weft_hostlist_expand(text, &error);
    for (guint i = 0; names && names[i]; i++)
        if (!weft_host_name_check(names[i], &error))
            break;
    if (error)
        weft_fields_fail(f, "hosts", "%s", error->message);
    if (names)
        tidy(names);
    return names ? g_steal_pointer(&names) : g_new0(char *, 1);
}

static void
read_times(WeftFields *f, WeftReservation *reservation, gint64 now)
{
    reservation->start = weft_fields_time(f, "start", now);
    gint64 duration = weft_fields_duration(f, "duration", -1);
    if (!f->error && (duration < DURATION_MIN || duration > DURATION_MAX)) {
        g_autofree char *most = weft_duration_format(DURATION_MAX);
        g_autofree char *is = weft_duration_format(duration);
        weft_fields_fail(f, "duration", "must be 1 s to %s, is %s", most, is);
    }
    if (!f->error && reservation->start > now + DURATION_MAX)
        weft_fields_fail(f, "start", "is more than ten years away; make it nearer");
    if (f->error)
        return;
    reservation->end = reservation->start + duration;
    if (reservation->end <= now)
        weft_fields_fail(f, "start", "is so long ago that the reservation would be over already; make it later, or longer");
}

WeftReservation *
weft_reservation_from_spec(json_t *json, gint64 now, GError **error)
{
    g_autoptr(WeftReservation) reservation = g_new0(WeftReservation, 1);
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "");
    weft_codec_read(&f, spec_fields, reservation);
    reservation->hosts = read_hosts(&f);
    read_times(&f, reservation, now);
    return weft_fields_end(&f, error) ? g_steal_pointer(&reservation) : NULL;
}

WeftReservation *
weft_reservation_from_json(json_t *json, GError **error)
{
    g_autoptr(WeftReservation) reservation = g_new0(WeftReservation, 1);
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "");
    weft_codec_read(&f, record_fields, reservation);
    reservation->hosts = read_hosts(&f);
    return weft_fields_end(&f, error) ? g_steal_pointer(&reservation) : NULL;
}

char *
weft_reservation_hosts(const WeftReservation *reservation)
{
    return weft_hostlist_fold((const char *const *)reservation->hosts);
}

json_t *
weft_reservation_to_json(const WeftReservation *reservation)
{
    g_autofree char *hosts = weft_reservation_hosts(reservation);
    json_t *json = weft_codec_write(record_fields, reservation);
    json_object_set_new_nocheck(json, "hosts", json_string(hosts));
    return json;
}

void
weft_reservation_free(WeftReservation *reservation)
{
    if (!reservation)
        return;
    g_strfreev(reservation->hosts);
    weft_codec_free(record_fields, reservation);
}

const char *
weft_reservation_overlaps(const WeftReservation *a, const WeftReservation *b)
{
    if (a->end <= b->start || b->end <= a->start)
        return NULL;
    char **x = a->hosts, **y = b->hosts;
    while (*x && *y) {
        int order = weft_natural_compare(*x, *y);
        if (order == 0)
            return *x;
        if (order < 0)
            x++;
        else
            y++;
    }
    return NULL;
}

gboolean
weft_reservation_bars(const WeftReservation *reservation, const char *tenant, gint64 time)
{
    return reservation->start <= time && time < reservation->end && g_strcmp0(reservation->tenant, tenant) != 0;
}
