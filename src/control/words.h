/* What went wrong, in weft's own words, for whoever owns the cluster: never the name of a host or a domain, and nothing that a
 * driver said. Pure. */
#pragma once

#include <glib.h>

/* In the order in which a node takes them. */
typedef enum {
    WEFT_DEED_STOP,
    WEFT_DEED_WIRE,    /* the partition in the fabric */
    WEFT_DEED_VERIFY,  /* … and in the ports of its hosts */
    WEFT_DEED_CONNECT, /* the partition's network on a host */
    WEFT_DEED_INSPECT, /* what its host is able to */
    WEFT_DEED_BRING,   /* the image's files */
    WEFT_DEED_START,
    WEFT_DEED_FORK,    /* from its template, until it knows who it is and has its network device */
    WEFT_DEED_THAW,    /* from a checkpoint, until it goes on */
    WEFT_DEED_GREET,   /* the first answer from inside */
    WEFT_DEED_MEET,    /* reaching the others */
    WEFT_DEED_QUIESCE, /* its guest comes to rest */
    WEFT_DEED_UNPLUG,  /* … and lets go of its host's devices */
    WEFT_DEED_PLUG,    /* it has them again */
    WEFT_DEED_WAKE,    /* … and goes on */
    WEFT_DEED_MOVE,    /* to another host, while it runs */
    WEFT_DEED_CAPTURE, /* as a template */
    WEFT_DEED_CLONE,   /* its memory is put aside while it runs */
    WEFT_DEED_FREEZE,  /* in a checkpoint */
    WEFT_DEEDS
} WeftDeed;

/* deadline: what it had, microseconds; told when it was not enough. */
char *weft_words(WeftDeed deed, const GError *error, gint64 deadline);
