/* The API over HTTP: requests with their JSON answers, problem documents as GErrors. */
#pragma once

#include <curl/curl.h>
#include <glib.h>
#include <jansson.h>
#include <stdio.h>

#define WEFT_CLIENT_URL "unix:///run/weft/weft.sock"

typedef struct WeftClientOptions {
    const char *url;   /* unix:///PATH, unix:/PATH or https://HOST[:PORT] */
    const char *token; /* NULL: none; only sent over TLS */
    const char *ca;    /* file of certificates to trust; NULL: the system's */
    guint timeout_ms;  /* of one request; 0: 30 s */
} WeftClientOptions;

typedef struct WeftClient WeftClient;

WeftClient *weft_client_new(const WeftClientOptions *options, GError **error);
void weft_client_free(WeftClient *client);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftClient, weft_client_free)

const char *weft_client_url(const WeftClient *client);

typedef struct WeftCall {
    const char *method; /* NULL: GET */
    const char *path;   /* with its query */
    json_t *body;       /* borrowed; NULL: none */
    const char *if_match;
    const void *raw; /* instead of a body: bytes, borrowed; NULL: none */
    gsize raw_length;
    gboolean bytes; /* the answer is no JSON */
    FILE *file;     /* where an answer that is none goes, however long it is and takes; NULL: it is kept */
} WeftCall;

typedef struct WeftResponse {
    long status; /* 0: none came */
    char *etag;
    json_t *body;  /* NULL: empty */
    GBytes *bytes; /* … of an answer that is none; NULL: it is */
} WeftResponse;

void weft_response_clear(WeftResponse *response);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftResponse, weft_response_clear)

/* Every POST carries a fresh Idempotency-Key; it and GET are sent again when the connection is lost on the way, and everything
 * when weftd asks for patience (429), a few times and after as long as it says, which stderr tells. A refusal is an error of
 * the code that the problem document says; ret_response, which may be NULL, has the status then too. CANCELLED of G_IO_ERROR
 * after Ctrl-C, if weft_client_catch_interrupts() was called. */
gboolean weft_client_call(WeftClient *client, const WeftCall *call, WeftResponse *ret_response, GError **error);

json_t *weft_client_get(WeftClient *client, const char *path, GError **error);
/* All pages of a list as one array. */
json_t *weft_client_list(WeftClient *client, const char *path, GError **error);

/* "BASE/NAME" with the name escaped. */
char *weft_client_path(const char *base, const char *name);
/* Appends "?key=value" or "&key=value", escaped; nothing where the value is NULL. Frees path, returns the new one. */
char *weft_client_query(char *path, const char *key, const char *value);

/* From now on Ctrl-C ends the request or the wait in progress instead of the process. */
void weft_client_catch_interrupts(void);
gboolean weft_client_interrupted(GError **error);
/* … which is not to end what comes now, as it is to tidy up. */
void weft_client_forget_interrupt(void);

/* For feed.c and tunnel.c: prepares a handle for a path, tells why it lost the connection, and turns a problem document into an
 * error; the head of the request that asks for another protocol on a connection that a handle made. */
void weft_client_prepare(WeftClient *client, CURL *easy, const char *path);
void weft_client_set_lost(WeftClient *client, CURL *easy, CURLcode result, const char *detail, GError **error);
char *weft_client_upgrade_text(const WeftClient *client, const char *path, const char *protocol);
void weft_client_set_problem(long status, const char *text, gsize length, GError **error);
