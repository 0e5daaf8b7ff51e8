#include "errors.h"

#include <gio/gio.h>

/* clang-format off */
G_DEFINE_QUARK(weft-error, weft_error)
/* clang-format on */

typedef struct {
    const char *name;
    guint http_status;
    int exit_code;
} ErrorInfo;

/* Exit code 1 is left to "failed"; weft(1) documents the others. */
/* clang-format off */
static const ErrorInfo infos[WEFT_ERROR_COUNT] = {
    [WEFT_ERROR_FAILED]          = { "failed",          500, 1  },
    [WEFT_ERROR_INVALID]         = { "invalid",         400, 2  },
    [WEFT_ERROR_UNAUTHENTICATED] = { "unauthenticated", 401, 3  },
    [WEFT_ERROR_DENIED]          = { "denied",          403, 3  },
    [WEFT_ERROR_NOT_FOUND]       = { "not-found",       404, 4  },
    [WEFT_ERROR_CONFLICT]        = { "conflict",        409, 5  },
    [WEFT_ERROR_EXHAUSTED]       = { "exhausted",       409, 6  },
    [WEFT_ERROR_BUSY]            = { "busy",            429, 7  },
    [WEFT_ERROR_UNAVAILABLE]     = { "unavailable",     503, 8  },
    [WEFT_ERROR_TIMEOUT]         = { "timeout",         504, 9  },
};
/* clang-format on */

const char *
weft_error_name(WeftErrorCode code)
{
    return infos[code].name;
}

guint
weft_error_http_status(WeftErrorCode code)
{
    return infos[code].http_status;
}

int
weft_error_exit_code(WeftErrorCode code)
{
    return infos[code].exit_code;
}

WeftErrorCode
weft_error_code(const GError *error)
{
    if (error->domain == WEFT_ERROR && error->code >= 0 && error->code < WEFT_ERROR_COUNT)
        return (WeftErrorCode)error->code;
    /* By its name: weft-hook, which libvirt runs four times for each guest, would link all of GIO for the function. */
    GQuark io = g_quark_from_static_string("g-io-error-quark");
    if (g_error_matches(error, io, G_IO_ERROR_CANCELLED) || g_error_matches(error, io, G_IO_ERROR_TIMED_OUT))
        return WEFT_ERROR_TIMEOUT;
    return WEFT_ERROR_FAILED;
}

WeftErrorCode
weft_error_from_name(const char *name)
{
    for (guint i = 0; i < WEFT_ERROR_COUNT; i++)
        if (g_strcmp0(infos[i].name, name) == 0)
            return (WeftErrorCode)i;
    return WEFT_ERROR_FAILED;
}

gboolean
weft_error_forgive(GError **error, WeftErrorCode code)
{
    if (!g_error_matches(*error, WEFT_ERROR, (int)code))
        return FALSE;
    g_clear_error(error);
    return TRUE;
}

gboolean
weft_error_refuse(GError **error, WeftErrorCode code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *message = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error_literal(error, WEFT_ERROR, (int)code, message);
    return FALSE;
}
