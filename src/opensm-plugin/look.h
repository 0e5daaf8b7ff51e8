/* What opensm knows, and what its ports say. Each answers a request of wire.h. */
#pragma once

#include "osm.h"

#include <jansson.h>

/* thread: any; no lock is taken. */
json_t *weft_look_hello(WeftOsm *weft, json_t *request, GError **error);
/* thread: a worker. */
json_t *weft_look_list(WeftOsm *weft, json_t *request, GError **error);
json_t *weft_look_topology(WeftOsm *weft, json_t *request, GError **error);
json_t *weft_look_verify(WeftOsm *weft, json_t *request, GError **error);
