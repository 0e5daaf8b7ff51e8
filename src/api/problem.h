/* Errors as RFC 9457 problem documents, in two texts (docs/decisions/0009): operators read what failed and where, everybody
 * else only words that were written for them. Those are of every error that the caller can avoid (4xx), and of those that
 * weft_problem_refuse() made; what else is weftd's own failure (5xx) comes from the store, a file or a driver and may name
 * paths and hosts. */
#pragma once

#include "errors.h"

#include <glib.h>
#include <jansson.h>

/* Errors that HTTP has a status of its own for; the code is the status. All others are of WEFT_ERROR. */
#define WEFT_HTTP_ERROR (weft_http_error_quark())
GQuark weft_http_error_quark(void);

/* Sets an error whose words are for everybody, whatever its code, and returns FALSE. */
gboolean weft_problem_refuse(GError **error, WeftErrorCode code, const char *format, ...) G_GNUC_PRINTF(3, 4);

guint weft_problem_status(const GError *error);
/* What everybody may read; the error's own message, or a static text. */
const char *weft_problem_told(const GError *error);
/* detail: its message, or what is told instead. */
json_t *weft_problem_to_json(const GError *error, const char *detail);
