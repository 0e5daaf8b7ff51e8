/* An answer, complete before any of it is sent. */
#pragma once

#include <glib.h>
#include <jansson.h>

typedef struct WeftStream WeftStream;

typedef struct WeftReply {
    guint status;
    const char *type;    /* of the body, static */
    char *body;          /* a text; NULL: none */
    gsize raw;           /* bytes of a body that is none; 0: it is one */
    int fd;              /* of a file that is the body, with raw bytes; -1: none */
    GPtrArray *headers;  /* name, value, name, value, … */
    gboolean once;       /* the body is a secret: a repetition of the request must not get it again */
    WeftStream *stream;  /* instead of a body; belongs to the reply until it is sent */
    const char *upgrade; /* instead of both: the protocol that the request's session goes on with */
} WeftReply;

/* The body is taken over; NULL: none. */
WeftReply *weft_reply_new(guint status, json_t *body);
WeftReply *weft_reply_text(guint status, const char *type, const char *body);
/* Bytes as they are. */
WeftReply *weft_reply_bytes(GBytes *bytes);
/* A file from its beginning; the descriptor is taken over. */
WeftReply *weft_reply_file(int fd, guint64 size);
/* detail: the error's message, or what is told instead. */
WeftReply *weft_reply_problem(const GError *error, const char *detail);
void weft_reply_header(WeftReply *reply, const char *name, const char *format, ...) G_GNUC_PRINTF(3, 4);
void weft_reply_free(WeftReply *reply);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftReply, weft_reply_free)
