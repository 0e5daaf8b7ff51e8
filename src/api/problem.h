/* Errors as RFC 9457 problem documents. */
#pragma once

#include <glib.h>
#include <jansson.h>

/* Errors that HTTP has a status of its own for; the code is the status. All others are of WEFT_ERROR. */
#define WEFT_HTTP_ERROR (weft_http_error_quark())
GQuark weft_http_error_quark(void);

guint weft_problem_status(const GError *error);
json_t *weft_problem_to_json(const GError *error);
