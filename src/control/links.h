/* Conversations with nodes: at most one link to each, shared by all who want something of it, opened on demand and closed when
 * nobody has used it for a while. thread: main. */
#pragma once

#include "backoff.h"
#include "jobs.h"
#include "link.h"

typedef struct WeftLinks WeftLinks;

/* Where a node is. All borrowed. */
typedef struct WeftLinkAddress {
    const char *node;
    const char *domain;
    const char *host;
    const char *uri;
    const char *boot; /* of the guest that is expected; NULL: any */
} WeftLinkAddress;

/* fd: of a connection, the caller's; else -1. output: what was answered, with FAILED too, borrowed; else NULL. error: the
 * driver's of open(), UNAVAILABLE when the link was lost or dropped, TIMEOUT when the deadline passed, and as in link.h. */
typedef void (*WeftLinkDone)(int fd, const char *output, const GError *error, gpointer data);

typedef struct WeftLinkAsk {
    const char *kind;  /* NULL: nothing but the greeting is wanted */
    const char *input; /* copied */
    GBytes *more;      /* behind the input, shared; NULL: nothing */
    gboolean connect;  /* a connection for a client (weft_link_connect()) */
    gint64 deadline;   /* microseconds for all of it */
    WeftLinkDone done; /* once, later */
    gpointer data;
    GDestroyNotify free; /* of data, in any case */
} WeftLinkAsk;

typedef struct WeftLinkLimits {
    gint64 open_deadline; /* microseconds */
    gint64 idle;          /* … after which a link that nobody uses is closed */
    guint resting;        /* so many that nobody uses stay open: each costs a descriptor, and a stream of its host */
    WeftBackoff breaks;   /* of one node: how far apart they are told as the first of a row; all zeros: each is one */
} WeftLinkLimits;

typedef struct WeftLinkListener {
    /* The stream to a node there ended. again: so it did a moment ago, and guests that end theirs after each greeting are not
     * to keep anybody busy. */
    void (*lost)(const char *host, gboolean again, gpointer data);
    void (*rebooted)(const char *node, const char *boot, gpointer data); /* its guest is another than was expected */
    gpointer data;
} WeftLinkListener;

WeftLinks *weft_links_new(WeftJobs *jobs, const WeftLinkLimits *limits, const WeftLinkListener *listener);
/* Nothing is called any more. The jobs must have ended. */
void weft_links_free(WeftLinks *links);

/* Opens the link where there is none. */
void weft_links_want(WeftLinks *links, const WeftLinkAddress *address, const WeftLinkAsk *ask);
/* Whoever asked with this data does not want it any more: neither done() nor free() is called. */
void weft_links_forget(WeftLinks *links, const char *node, gconstpointer data);
/* The boot of the guest that its link goes to, or WEFT_BOOT_UNTOLD; NULL: it has not greeted. */
#define WEFT_BOOT_UNTOLD "?"
const char *weft_links_boot(const WeftLinks *links, const char *node);
/* The node goes or was started anew: ends its link; done() of all who want something of it runs with an error before this
 * returns. */
void weft_links_drop(WeftLinks *links, const char *node);
