/* What failed and rests until it is tried again, and what there is to say of it: the same words until it gets further. */
#pragma once

#include "backoff.h"
#include "words.h"

#include <glib.h>

typedef struct WeftRest {
    guint attempts;    /* failures in a row */
    gint64 not_before; /* monotonic */
    WeftDeed deed;     /* what failed last */
    gint64 delay;      /* that was told; 0: none is */
    char *what;        /* for the user; NULL: nothing to say */
    char *detail;      /* the driver's words, for operators; NULL: none */
} WeftRest;

/* Once more: backs off. what: in weft's words. */
void weft_rest_fail(WeftRest *rest, const WeftBackoff *backoff, WeftDeed deed, const char *what, const char *detail);
/* Backs off, and says nothing new. */
void weft_rest_wait(WeftRest *rest, const WeftBackoff *backoff);
void weft_rest_say(WeftRest *rest, WeftDeed deed, const char *what, const char *detail);
/* "what; try 3 in 2s" */
char *weft_rest_text(const WeftRest *rest);
/* It got as far as that: what failed on the way there is told no more. The row of failures does not end with it. */
void weft_rest_pass(WeftRest *rest, WeftDeed deed);
/* All is well. */
void weft_rest_clear(WeftRest *rest);

/* now: monotonic. Whoever passes over what rests, and sets a timer for it afterwards, asks twice: with the same time, or a rest
 * that ends in between is never heard of again. */
static inline gboolean
weft_rest_is_over(const WeftRest *rest, gint64 now)
{
    return rest->not_before <= now;
}
