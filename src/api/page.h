/* Lists in pages. */
#pragma once

#include "request.h"

/* What is shown of a record; NULL without an error leaves it out. */
typedef json_t *(*WeftView)(WeftRequest *request, const WeftRecord *record, GError **error);

/* Answers with the page of the query that ?limit= and ?after= ask for. */
gboolean weft_page_reply(WeftRequest *request, WeftQuery query, WeftView view, GError **error);

/* For lists that are not one query. The cursor is opaque outside: the key of the last item that was shown. */
gboolean weft_page_limit(const WeftRequest *request, guint *ret_limit, GError **error);
/* NULL without an error: from the beginning. */
char *weft_page_after(const WeftRequest *request, GError **error);
/* next NULL: this is the last page. Takes the items over. */
WeftReply *weft_page_of(json_t *items, const char *next);
