/* The one error domain of weft. Each code maps once to an HTTP status and to an exit code of the command line. */
#pragma once

#include <glib.h>

#define WEFT_ERROR (weft_error_quark())
GQuark weft_error_quark(void);

typedef enum {
    WEFT_ERROR_FAILED,          /* something broke that the caller could not have avoided */
    WEFT_ERROR_INVALID,         /* the input is wrong: the message names the value and the remedy */
    WEFT_ERROR_UNAUTHENTICATED, /* who are you? */
    WEFT_ERROR_DENIED,          /* known, but not allowed */
    WEFT_ERROR_NOT_FOUND,       /* also: not yours to see */
    WEFT_ERROR_CONFLICT,        /* the object changed, exists already, or is in a state that forbids it */
    WEFT_ERROR_EXHAUSTED,       /* a quota or the capacity of the fleet is used up */
    WEFT_ERROR_BUSY,            /* a limit on rate or concurrency: try again later */
    WEFT_ERROR_UNAVAILABLE,     /* a host, the subnet manager or the store cannot be reached now */
    WEFT_ERROR_TIMEOUT,         /* a step did not end before its deadline */
    WEFT_ERROR_COUNT
} WeftErrorCode;

/* "invalid", "not-found", …: stable words for machines. */
const char *weft_error_name(WeftErrorCode code);
guint weft_error_http_status(WeftErrorCode code);
int weft_error_exit_code(WeftErrorCode code);

/* The code of any GError; WEFT_ERROR_FAILED for those of other domains (a cancelled or timed-out GIO call is TIMEOUT). */
WeftErrorCode weft_error_code(const GError *error);

/* The inverse of weft_error_name(), for the client side; WEFT_ERROR_FAILED for unknown words. */
WeftErrorCode weft_error_from_name(const char *name);

/* TRUE: it was of that code, and is cleared; any other stays. */
gboolean weft_error_forgive(GError **error, WeftErrorCode code);

/* Sets an error of this domain and returns FALSE, so that a check can end with it. */
gboolean weft_error_refuse(GError **error, WeftErrorCode code, const char *format, ...) G_GNUC_PRINTF(3, 4);
