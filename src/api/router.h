/* From method and request target to a route and its parameters. Pure: no daemon, no store. */
#pragma once

#include "tenant.h"

#include <glib.h>

#define WEFT_PATH_MAX 1024       /* bytes of the path as sent */
#define WEFT_TARGET_MAX 4096     /* … with the query */
#define WEFT_QUERY_VALUE_MAX 256 /* bytes of a query value, decoded */
#define WEFT_SEGMENTS_MAX 8
#define WEFT_PARAMS_MAX 2 /* of a route's path */
#define WEFT_QUERY_MAX 4  /* of a route */

typedef struct WeftRequest WeftRequest;

/* Ends in one of the ways that request.h has; FALSE: the error is the answer. */
typedef gboolean (*WeftHandler)(WeftRequest *request, GError **error);

typedef enum {
    WEFT_BODY_NONE,
    WEFT_BODY_OPTIONAL, /* a JSON object, or nothing */
    WEFT_BODY_REQUIRED, /* a JSON object */
    WEFT_BODY_RAW       /* bytes, at most WEFT_RAW_MAX unless the route says otherwise */
} WeftBody;
#define WEFT_RAW_MAX (4u << 20)
#define WEFT_RAW_MAP_MAX (16u << 20) /* of a fabric's map: 10,000 hosts on three levels of switches */

/* Whether requests are in the audit trail. */
typedef enum {
    WEFT_AUDIT_CHANGES, /* those of a method that changes something: all but GET */
    WEFT_AUDIT_ALWAYS,  /* these open a way into a node */
    WEFT_AUDIT_FIRST,   /* these read what is worth an entry: the first within an hour stands for all of one caller */
    WEFT_AUDIT_NEVER    /* these change nothing, whatever their method says */
} WeftAuditRule;

typedef struct WeftRoute {
    const char *method; /* NULL ends a table */
    const char *path;   /* a segment such as ":cluster" stands for any text */
    WeftRole role;      /* the least that may use it */
    WeftHandler handler;
    WeftBody body;
    const char *query[WEFT_QUERY_MAX + 1]; /* the query parameters that it takes */
    guint raw_max;                         /* bytes of a raw body; 0: WEFT_RAW_MAX */
    WeftAuditRule audit;
} WeftRoute;

typedef struct WeftMatch {
    char *params[WEFT_PARAMS_MAX]; /* what stands for ":…" in the path, decoded, in order */
    char *query[WEFT_QUERY_MAX];   /* the values of the route's query parameters, decoded; NULL: absent */
    char *allow;                   /* after a 405: the methods that the path takes, "GET, POST" */
} WeftMatch;

/* The route for a request target as it stands in the request line, or NULL and an error. ret_match is always written; clear it
 * in both cases. Parameters are valid UTF-8 without control characters, not empty, and may contain '/'. */
const WeftRoute *
weft_router_match(const WeftRoute *routes, const char *method, const char *target, WeftMatch *ret_match, GError **error);
gboolean weft_route_is_audited(const WeftRoute *route);
void weft_match_clear(WeftMatch *match);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftMatch, weft_match_clear)
