#include "clock.h"
#include "errors.h"
#include "handlers.h"
#include "page.h"
#include "views.h"

static char *
reservation_view(WeftRequest *request, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftReservation) reservation = weft_record_reservation(record, error);
    return reservation ? weft_view_text(weft_view_reservation(reservation)) : NULL;
}

gboolean
weft_handle_reservation_list(WeftRequest *request, GError **error)
{
    return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_RESERVATION }, reservation_view, error);
}

static gboolean
check_hosts(WeftRequest *request, const WeftReservation *reservation, GError **error)
{
    for (guint i = 0; reservation->hosts[i]; i++) {
        GError *failure = NULL;
        g_autoptr(WeftRecord) host = weft_store_get(request->store, WEFT_KIND_HOST, reservation->hosts[i], &failure);
        if (host)
            continue;
        if (!failure)
            g_set_error(&failure, WEFT_ERROR, WEFT_ERROR_INVALID, "hosts: there is no host \"%s\"; weft hosts lists them",
                        reservation->hosts[i]);
        g_propagate_error(error, failure);
        return FALSE;
    }
    return TRUE;
}

static gboolean
check_tenant(WeftRequest *request, const WeftReservation *reservation, GError **error)
{
    GError *failure = NULL;
    if (!reservation->tenant)
        return TRUE;
    g_autoptr(WeftRecord) tenant = weft_store_get(request->store, WEFT_KIND_TENANT, reservation->tenant, &failure);
    if (!tenant && !failure)
        g_set_error(&failure, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "tenant: there is no tenant \"%s\"; weft tenant ls lists them, and without one nobody may use the hosts",
                    reservation->tenant);
    if (failure)
        g_propagate_error(error, failure);
    return tenant != NULL;
}

/* That of the record, in its way. */
static gboolean
check_other(const WeftRecord *record, const WeftReservation *reservation, GError **error)
{
    g_autoptr(WeftReservation) other = weft_record_reservation(record, error);
    if (!other)
        return FALSE;
    if (g_str_equal(other->name, reservation->name))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "reservation %s exists already", other->name);
    const char *host = weft_reservation_overlaps(other, reservation);
    if (!host)
        return TRUE;
    g_autofree char *until = weft_clock_format(other->end);
    return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                             "hosts: %s is kept by reservation %s then, until %s; choose another time or other hosts", host,
                             other->name, until);
}

/* A host is kept for one at a time. */
static gboolean
check_others(WeftRequest *request, const WeftReservation *reservation, GError **error)
{
    g_autoptr(GPtrArray) records = weft_store_list(request->store, &(WeftQuery){ .kind = WEFT_KIND_RESERVATION }, error);
    if (!records)
        return FALSE;
    for (guint i = 0; i < records->len; i++)
        if (!check_other(records->pdata[i], reservation, error))
            return FALSE;
    if (records->len >= WEFT_RESERVATIONS_MAX)
        return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "there are %u reservations already; remove one first",
                                 records->len);
    return TRUE;
}

static char *
describe(const WeftReservation *reservation)
{
    g_autofree char *hosts = weft_reservation_hosts(reservation);
    g_autofree char *start = weft_clock_format(reservation->start);
    g_autofree char *end = weft_clock_format(reservation->end);
    return g_strdup_printf("%s: %s for %s from %s to %s", reservation->name, hosts,
                           reservation->tenant ? reservation->tenant : "nobody", start, end);
}

gboolean
weft_handle_reservation_add(WeftRequest *request, GError **error)
{
    gint64 now = weft_clock_now();
    g_autoptr(WeftReservation) reservation = weft_reservation_from_spec(request->body, now, error);
    if (!reservation || !check_hosts(request, reservation, error) || !check_tenant(request, reservation, error) ||
        !check_others(request, reservation, error))
        return FALSE;
    reservation->creator = g_strdup(request->principal->name);
    reservation->created = now;
    WeftReply *reply = weft_reply_new(201, weft_view_reservation(reservation));
    weft_reply_header(reply, "Location", "/v1/reservations/%s", reservation->name);

    g_autofree char *words = describe(reservation);
    WeftTxn *txn = weft_txn_new("reservation-added");
    weft_txn_put_reservation(txn, reservation, WEFT_ABSENT);
    weft_txn_tell(txn, "reservation-added", NULL, NULL, "%s made reservation %s", request->principal->name, words);
    return weft_request_commit(request, txn, reply);
}

static WeftReservation *
find_reservation(WeftRequest *request, gint64 *ret_revision, GError **error)
{
    const char *name = request->match.params[0];
    WeftReservation *reservation = weft_store_load_reservation(request->store, name, ret_revision, error);
    if (!reservation)
        weft_reword_not_found("reservation", name, error);
    return reservation;
}

gboolean
weft_handle_reservation_get(WeftRequest *request, GError **error)
{
    g_autoptr(WeftReservation) reservation = find_reservation(request, NULL, error);
    return reservation ? weft_request_reply(request, weft_reply_new(200, weft_view_reservation(reservation))) : FALSE;
}

gboolean
weft_handle_reservation_remove(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    g_autoptr(WeftReservation) reservation = find_reservation(request, &revision, error);
    if (!reservation)
        return FALSE;
    WeftTxn *txn = weft_txn_new("reservation-removed");
    weft_txn_delete(txn, WEFT_KIND_RESERVATION, reservation->name, revision);
    weft_txn_tell(txn, "reservation-removed", NULL, NULL, "%s removed reservation %s", request->principal->name,
                  reservation->name);
    return weft_request_commit(request, txn, weft_reply_new(204, NULL));
}
