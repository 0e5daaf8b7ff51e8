/* Lists in pages. */
#pragma once

#include "request.h"

/* What is shown of a record, as JSON text; NULL without an error leaves it out. */
typedef char *(*WeftView)(WeftRequest *request, const WeftRecord *record, GError **error);

/* Answers with the page of the query that ?limit= and ?after= ask for. */
gboolean weft_page_reply(WeftRequest *request, WeftQuery query, WeftView view, GError **error);
/* How many requests the page counts as. */
guint weft_page_cost(const WeftRequest *request);
/* The only page of a list of one item, or of none (NULL). */
WeftReply *weft_page_of(const char *item);
