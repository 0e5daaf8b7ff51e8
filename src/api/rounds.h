/* Questions to the gate on behalf of a request, several at a time; the request is answered when all are, or when it has waited
 * long enough. */
#pragma once

#include "gate.h"
#include "request.h"

/* One of the gate's operations that report. */
typedef void (*WeftGateAsk)(WeftGate *gate, const char *name, GCancellable *cancellable, WeftGateReported reported,
                            gpointer data);

typedef struct WeftRoundItem {
    char *name;
    json_t *report; /* NULL: there is none, and the error says why */
    GError *error;
} WeftRoundItem;

/* thread: a reader. Answers the request. items: in the order of the names, borrowed. */
typedef void (*WeftRoundDone)(WeftRequest *request, const WeftRoundItem *items, guint n);

/* For a handler's end. kind: what it takes a share of; who has asked for too much already is told that it is BUSY. names: char
 * *, NULL allowed, taken over together with the array. UNAVAILABLE without a gate. */
gboolean
weft_round_ask(WeftRequest *request, WeftShareKind kind, WeftGateAsk ask, GPtrArray *names, WeftRoundDone done, GError **error);
/* The operation, also where there is no gate; for weft_round_ask(). */
#define WEFT_GATE_ASK(request, operation) ((request)->gate ? (request)->gate->ops->operation : NULL)
