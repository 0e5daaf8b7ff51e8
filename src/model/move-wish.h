/* A node that is to be moved to another host while it runs: what was asked for. The wish is there until the move has ended,
 * well or not. */
#pragma once

#include "node.h"

#include <glib.h>
#include <jansson.h>

/* How its memory is copied. */
typedef enum {
    WEFT_METHOD_AUTO, /* as suits what it writes */
    WEFT_METHOD_PRE_COPY,
    WEFT_METHOD_POST_COPY,
    WEFT_METHOD_HYBRID,
    WEFT_METHODS
} WeftMethod;
extern const char *const weft_method_words[WEFT_METHODS + 1];

typedef struct WeftMoveWish {
    char *cluster; /* id */
    guint rank;
    char *node;       /* id: should another have its rank meanwhile, that one is not meant */
    char *to;         /* host; NULL: any */
    gboolean disrupt; /* what it has open on its fabric devices may break */
    WeftMethod copy;
    char *creator; /* principal; NULL: its host is being emptied */
    gint64 created;
    char *called_off; /* principal who wants it no more; NULL: nobody. One that has gone over already arrives */
    gint64 revision;  /* of its record, in memory only; 0: it has none */
} WeftMoveWish;

WeftMoveWish *weft_move_wish_from_json(json_t *json, GError **error);
json_t *weft_move_wish_to_json(const WeftMoveWish *wish);
void weft_move_wish_free(WeftMoveWish *wish);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftMoveWish, weft_move_wish_free)

/* What a user may write: { "to": "n2", "disrupt": false, "copy": "auto" }, all of it optional; body NULL: nothing is written.
 */
WeftMoveWish *weft_move_wish_from_spec(json_t *body, GError **error);
