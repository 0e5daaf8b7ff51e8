/* Two workers that do what takes time: one changes, the other looks, so that a change that waits for a port holds up no look.
 */
#pragma once

#include "osm.h"

#include <jansson.h>

WeftHands *weft_hands_new(WeftOsm *weft);
/* Waits for what is being done. */
void weft_hands_free(WeftHands *hands);

/* thread: a worker, or the caller. answer: the whole object; taken over. */
typedef void (*WeftAnswered)(guint64 client, json_t *answer, gpointer data);
/* Takes the request over. */
void weft_hands_do(WeftHands *hands, guint64 client, json_t *request, WeftAnswered answered, gpointer data);
