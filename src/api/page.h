/* Lists in pages. */
#pragma once

#include "request.h"

/* What is shown of a record, as JSON text; NULL without an error leaves it out. */
typedef char *(*WeftView)(WeftRequest *request, const WeftRecord *record, GError **error);

/* Answers with the page of the query that ?limit= and ?after= ask for. */
gboolean weft_page_reply(WeftRequest *request, WeftQuery query, WeftView view, GError **error);
/* The page that ?limit= and ?after= ask for, of a list that is not in the store. after: NULL: from the first. */
typedef struct WeftPageWish {
    guint limit;
    char *after;
} WeftPageWish;
gboolean weft_page_read(const WeftRequest *request, WeftPageWish *ret_wish, GError **error);
/* What the client gives as ?after= to go on behind that key; NULL for NULL. */
char *weft_page_cursor(const char *key);
/* A page of these, JSON texts with commas between; next: the key to go on behind, NULL: it is the last. */
WeftReply *weft_page_of_items(const char *items, const char *next);
/* The only page of a list of one item, or of none (NULL). */
WeftReply *weft_page_of(const char *item);
