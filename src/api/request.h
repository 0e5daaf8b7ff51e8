/* A request as a handler sees it, and the ways in which a handler ends.
 *
 * Handlers run on the main thread and read the store as they like. A change is one transaction, given to
 * weft_request_commit() with the answer that its success deserves. When the store has moved meanwhile, the handler runs again
 * from its first line: it must have no other effects. */
#pragma once

#include "api.h"
#include "auth.h"
#include "blobs.h"
#include "cluster-texts.h"
#include "reply.h"
#include "router.h"
#include "sessions.h"
#include "store.h"
#include "streams.h"
#include "works.h"

#include <microhttpd.h>

typedef struct WeftServer WeftServer;

typedef struct WeftHeaders {
    char *authorization;
    char *content_type;
    char *accept;
    char *if_match;
    char *idempotency_key;
    char *last_event_id;
    char *content_length;
} WeftHeaders;

struct WeftRequest {
    WeftStore *store;
    WeftStreams *streams;
    WeftSessions *sessions;
    WeftGate *gate;           /* NULL: none */
    WeftClusterTexts **texts; /* for a tenant's eyes, and for those that see all */
    WeftWorks *works;
    WeftBlobs *blobs; /* NULL: none */
    const WeftApiOptions *options;
    const WeftRoute *route;
    char *method;
    char *target;
    WeftMatch match;
    WeftHeaders headers;
    const WeftPeer *peer; /* valid as long as connection is not NULL */
    WeftPrincipal *principal;
    char *account;    /* the principal in words that no other has: for limits and idempotency keys */
    json_t *body;     /* an object, or NULL where the route allows none */
    WeftBlobPin *pin; /* what must not go before the request has ended, its commit too; NULL: nothing */

    /* for request.c and server.c */
    grefcount references;
    WeftServer *server;
    struct MHD_Connection *connection; /* NULL: the client is gone, and so may be the server */
    GByteArray *upload;                /* what came; a raw body is this */
    gsize uploaded;
    gboolean complete; /* the whole request has come */
    gboolean last;     /* the connection ends after the answer */
    gboolean paused;
    guint tries;
    gpointer held; /* what ends with the connection */
    GDestroyNotify end_held;
    WeftReply *prepared;
    WeftReply *reply;
};

WeftRequest *weft_request_new(WeftServer *server, const char *target);
WeftRequest *weft_request_ref(WeftRequest *request);
void weft_request_unref(WeftRequest *request);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftRequest, weft_request_unref)

/* Answers: from what was remembered under the idempotency key, else by the handler. */
void weft_request_run(WeftRequest *request);
/* The client is gone; commits that are on their way end without an answer. */
void weft_request_abandon(WeftRequest *request);

/* What is under way for the request: ended when the client is gone. NULL: nothing any more. */
void weft_request_hold(WeftRequest *request, gpointer held, GDestroyNotify end);

/* --- how a handler ends; each returns TRUE, and takes over what it is given --- */

gboolean weft_request_reply(WeftRequest *request, WeftReply *reply);
gboolean weft_request_commit(WeftRequest *request, WeftTxn *txn, WeftReply *reply);
void weft_request_fail(WeftRequest *request, const GError *error);

/* --- what it says --- */

/* NULL: absent. */
const char *weft_request_query(const WeftRequest *request, const char *name);
gboolean weft_request_sees_all(const WeftRequest *request);
gboolean weft_request_wants_stream(const WeftRequest *request);
/* Has the caller still the rights that it came with? A revoked token ends what it began. */
gboolean weft_request_is_still_allowed(const WeftRequest *request);

/* The tenant that the request is about: the principal's own, or the one of ?tenant=; NULL for all. Another's and an unknown one
 * are both NOT_FOUND. */
gboolean weft_request_scope(WeftRequest *request, const char **ret_tenant, GError **error);
/* The same where one must be named. */
WeftTenant *weft_request_tenant(WeftRequest *request, gint64 *ret_revision, GError **error);
/* Since when the caller may look back: its tenant's beginning, for there may have been another of that name; 0 for operators.
 */
gboolean weft_request_since(WeftRequest *request, gint64 *ret_since, GError **error);

/* The error for what is not there, or not the caller's to see: one wording for both. */
void weft_not_found(const char *what, const char *name, GError **error);
/* After a load that failed: in these words, if it found nothing. */
void weft_reword_not_found(const char *what, const char *name, GError **error);
/* FALSE where the file describes the object: what is "tenant acme". */
gboolean weft_origin_check(WeftOrigin origin, const char *what, const char *name, GError **error);
/* Refuses a field that is weft's own to set. */
gboolean weft_body_without(json_t *body, const char *field, GError **error);
