/* What a fabric looks like and who is in what, for people: the answers behind the gate's fabric, partitions, tables and
 * topology. */
#pragma once

#include "control-private.h"

/* The last is for the doctor: { "checks": […] } as in doctor.h. */
typedef enum { WEFT_VIEW_FABRIC, WEFT_VIEW_PARTITIONS, WEFT_VIEW_TABLES, WEFT_VIEW_TOPOLOGY, WEFT_VIEW_HEALTH } WeftViewKind;

typedef struct WeftView WeftView;
/* report: borrowed, as gate.h tells; NULL with an error. */
typedef void (*WeftViewed)(json_t *report, const GError *error, gpointer data);

/* Asks the fabric's manager. The callback runs once, later; the view is freed then, or at the end, when the drivers are freed
 * next. NULL and NOT_FOUND where there is no such fabric. */
WeftView *
weft_view_new(WeftControl *control, WeftViewKind kind, const char *fabric, WeftViewed viewed, gpointer data, GError **error);
void weft_view_free(WeftView *view);
/* Nobody waits for it any more: it ends as soon as its driver lets it. */
void weft_view_cancel(WeftView *view);

/* The map in a record that somebody imported. thread: any; a large one takes long. */
WeftFabricMap *weft_view_imported(const WeftRecord *record, GError **error);
