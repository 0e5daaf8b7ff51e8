/* The headers of a request: which count, and what they may be. */
#pragma once

#include "request.h"

/* Fills request->headers. FALSE: there are too many, one is given twice, or where the request ends can be read in two ways;
 * then the connection ends with it. */
gboolean weft_headers_take(WeftRequest *request, GError **error);
/* An Idempotency-Key where it does not count is forgotten. */
gboolean weft_headers_check_key(WeftRequest *request, GError **error);
gboolean weft_headers_check_type(const WeftRequest *request, const char *wanted, GError **error);
