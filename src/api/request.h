/* A request as a handler sees it, and the ways in which a handler ends.
 *
 * Handlers run on a reader (readers.h), one for a request at a time, and read the store as they like. A change is one
 * transaction, given to weft_request_commit() with the answer that its success deserves. When the store has moved meanwhile,
 * the handler runs again from its first line: it must have no other effects. What needs the main thread, such as a question to
 * the gate, goes on there after weft_request_go_on().
 *
 * thread: main, where nothing else is said. A reader uses what the request says and its store, and ends in one of the ways
 * below; all else of it, its references too, is the main thread's. */
#pragma once

#include "api.h"
#include "auth.h"
#include "blobs.h"
#include "budgets.h"
#include "cluster-texts.h"
#include "readers.h"
#include "reply.h"
#include "router.h"
#include "sessions.h"
#include "shares.h"
#include "store.h"
#include "streams.h"

#include <microhttpd.h>

typedef struct WeftServer WeftServer;

/* On the main thread, while the request has a client. data is taken over. */
typedef void (*WeftGoOn)(WeftRequest *request, gpointer data);

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
    WeftStore *store; /* of the thread that has the request */
    WeftStreams *streams;
    WeftSessions *sessions;
    WeftGate *gate;           /* NULL: none */
    WeftClusterTexts **texts; /* for a tenant's eyes, and for those that see all */
    WeftReaders *readers;
    WeftShares *shares;
    WeftBudgets *budgets; /* its own reference: what is done for the request costs also when the server is gone */
    WeftBlobs *blobs;     /* NULL: none */
    const WeftApiOptions *options;
    const WeftRoute *route;
    char *method;
    char *target;
    WeftMatch match;
    WeftHeaders headers;
    const WeftPeer *peer; /* valid as long as connection is not NULL */
    WeftPrincipal *principal;
    char *account;    /* the principal in words that no other has: for limits and idempotency keys; of a stranger its party */
    json_t *body;     /* for the handler: an object, or NULL where the route allows none */
    WeftBlobPin *pin; /* what must not go before the request has ended, its commit too; NULL: nothing */

    /* for request.c and server.c */
    grefcount references;
    WeftServer *server;
    WeftAudit *audit;                  /* NULL: none */
    gboolean recorded;                 /* the trail has it */
    gboolean waits;                    /* … but not on the disk yet, and the answer has to wait */
    gboolean replayed;                 /* its answer is that of an earlier one */
    gboolean acted;                    /* what it asked for was begun, or done */
    guint outcome;                     /* status of an answer that it deserved and that nobody took; 0: none */
    char *id;                          /* in the trail, and for the client */
    char *digest;                      /* of its body */
    json_t *from;                      /* where it came from, when its connection is gone */
    struct MHD_Connection *connection; /* NULL: the client is gone, and so may be the server */
    GByteArray *upload;                /* what came; a raw body is this */
    gsize uploaded;
    WeftShare *upload_share; /* of a long upload; NULL: it is none */
    gint64 wait;             /* microseconds before another try makes sense; 0: a second */
    gboolean complete;       /* the whole request has come */
    gboolean last;           /* the connection ends after the answer */
    gboolean paused;
    guint timer;      /* wakes it; 0: none */
    gboolean hung_up; /* the client is gone, and the connection is about to be closed */
    guint tries;
    gpointer held; /* what ends with the connection */
    GDestroyNotify end_held;
    WeftReply *reply;
    gint gone; /* atomic: the client is */
    /* While a reader has it, and what it left behind: an answer, a transaction with the answer to its success, or something to
     * do on the main thread. */
    gboolean reading;
    WeftTxn *txn;
    WeftReply *prepared;
    WeftGoOn go_on;
    gpointer go_on_data;
    GDestroyNotify free_go_on;
};

WeftRequest *weft_request_new(WeftServer *server, const char *target);
WeftRequest *weft_request_ref(WeftRequest *request);
void weft_request_unref(WeftRequest *request);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftRequest, weft_request_unref)

/* Has a reader answer: from what was remembered under the idempotency key, else by the handler. */
void weft_request_run(WeftRequest *request);
/* For readers.c: from here on a reader has the request, with its own store; and the main thread has it again, with its own. */
void weft_request_begin_reading(WeftRequest *request, WeftStore *store);
void weft_request_end_reading(WeftRequest *request, WeftStore *store);
/* The client is gone; commits that are on their way end without an answer. */
void weft_request_abandon(WeftRequest *request);

/* What is under way for the request: ended when the client is gone. NULL: nothing any more. */
void weft_request_hold(WeftRequest *request, gpointer held, GDestroyNotify end);

/* --- the audit trail (audit.c) --- */

/* Has the audit trail an entry for this answer, if it is to have one; once. TRUE: the answer must not be sent before the
 * request is woken. */
gboolean weft_request_record(WeftRequest *request, guint status);
/* FALSE: a change that must be in the trail, which cannot be written now. */
gboolean weft_request_may_change(WeftRequest *request, GError **error);
/* thread: a reader. What the trail has of the body. */
void weft_request_digest(WeftRequest *request);
/* The peer is about to go. */
void weft_request_keep_origin(WeftRequest *request);

/* --- what it costs --- */

/* On whose account it is; borrows from the request. */
WeftPayer weft_request_payer(const WeftRequest *request);
/* One of what clients share, on the request's account; NULL and BUSY, or INVALID where its connection has to have an end. */
WeftShare *weft_request_take(WeftRequest *request, WeftShareKind kind, GError **error);
/* FALSE and BUSY while the account is in debt. */
gboolean weft_request_check_debt(WeftRequest *request, WeftBudgetKind kind, GError **error);
/* Processor time, in microseconds, that another thread used for the request. */
void weft_request_charge(WeftRequest *request, gint64 microseconds);

/* Charges what the main thread does for the request in a scope, and names it to the watchdog of the main loop:
 *
 *     g_auto(WeftMeter) meter = weft_meter_start(request);
 *
 * Scopes must not be nested. */
typedef struct WeftMeter {
    WeftRequest *request; /* a reference */
    gint64 since;
} WeftMeter;
WeftMeter weft_meter_start(WeftRequest *request);
void weft_meter_stop(WeftMeter *meter);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftMeter, weft_meter_stop)

/* --- how a handler ends, and what went on for it; each returns TRUE, and takes over what it is given. thread: main or a reader
 * --- */

gboolean weft_request_reply(WeftRequest *request, WeftReply *reply);
gboolean weft_request_commit(WeftRequest *request, WeftTxn *txn, WeftReply *reply);
void weft_request_fail(WeftRequest *request, const GError *error);
/* thread: a reader. Calls go_on with data on the main thread; free_data frees it where that is not called any more. */
gboolean weft_request_go_on(WeftRequest *request, WeftGoOn go_on, gpointer data, GDestroyNotify free_data);
/* The answer to it that an error is, with Retry-After where it is worth another try. What only operators may read is logged,
 * too.
 */
WeftReply *weft_request_problem(const WeftRequest *request, const GError *error);

/* --- what it says. thread: main or a reader --- */

/* Nobody waits for the answer any more: long work ends. */
gboolean weft_request_is_gone(WeftRequest *request);

/* NULL: absent. */
const char *weft_request_query(const WeftRequest *request, const char *name);
gboolean weft_request_sees_all(const WeftRequest *request);
gboolean weft_request_wants_stream(const WeftRequest *request);
/* thread: main. Has the caller still the rights that it came with? A revoked token ends what it began. */
gboolean weft_request_is_still_allowed(const WeftRequest *request);
/* … after these changes; what they do not touch is not looked up again. */
gboolean weft_request_is_allowed_after(const WeftRequest *request, const WeftChange *changes, gsize n);

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
