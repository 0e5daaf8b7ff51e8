/* A reservation: hosts that an operator keeps for one tenant, or for nobody, for a while. */
#pragma once

#include "bounds.h"

#include <glib.h>
#include <jansson.h>

typedef struct WeftReservation {
    char *name;
    char **hosts; /* names, each once, in natural order; never NULL */
    char *tenant; /* who may use them meanwhile; NULL: nobody, they are to be worked on */
    gint64 start;
    gint64 end;
    char *creator; /* principal */
    gint64 created;
    gboolean begun; /* that it began has been told, and who was in the way */
} WeftReservation;

/* What an operator may write; start is now unless told, and may be over already as long as the end is not:
 *
 *     { "name": "acceptance", "hosts": "n[1-4],n9", "start": "2026-01-31T12:00:00Z", "duration": "8h", "tenant": "acme" } */
WeftReservation *weft_reservation_from_spec(json_t *json, gint64 now, GError **error);

WeftReservation *weft_reservation_from_json(json_t *json, GError **error);
json_t *weft_reservation_to_json(const WeftReservation *reservation);
void weft_reservation_free(WeftReservation *reservation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftReservation, weft_reservation_free)

/* "n[1-4]" */
char *weft_reservation_hosts(const WeftReservation *reservation);
/* The first host that both keep at the same time; NULL: none. */
const char *weft_reservation_overlaps(const WeftReservation *a, const WeftReservation *b);
/* Does it keep its hosts from that tenant then? */
gboolean weft_reservation_bars(const WeftReservation *reservation, const char *tenant, gint64 time);
