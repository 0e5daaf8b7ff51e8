#include "problem.h"

/* What only HTTP tells apart is one of weft's codes to a program. */
static const struct {
    guint status;
    WeftErrorCode code;
} http_statuses[] = {
    { 405, WEFT_ERROR_INVALID },     { 412, WEFT_ERROR_CONFLICT }, { 413, WEFT_ERROR_INVALID },   { 414, WEFT_ERROR_INVALID },
    { 415, WEFT_ERROR_INVALID },     { 422, WEFT_ERROR_INVALID },  { 426, WEFT_ERROR_INVALID },   { 431, WEFT_ERROR_INVALID },
    { 503, WEFT_ERROR_UNAVAILABLE }, { 504, WEFT_ERROR_TIMEOUT },  { 507, WEFT_ERROR_EXHAUSTED },
};

static const char *const titles[WEFT_ERROR_COUNT] = {
    [WEFT_ERROR_FAILED] = "Internal error",
    [WEFT_ERROR_INVALID] = "Invalid request",
    [WEFT_ERROR_UNAUTHENTICATED] = "Not authenticated",
    [WEFT_ERROR_DENIED] = "Not allowed",
    [WEFT_ERROR_NOT_FOUND] = "Not found",
    [WEFT_ERROR_CONFLICT] = "Conflict",
    [WEFT_ERROR_EXHAUSTED] = "Quota or capacity used up",
    [WEFT_ERROR_BUSY] = "Too many requests",
    [WEFT_ERROR_UNAVAILABLE] = "Unavailable",
    [WEFT_ERROR_TIMEOUT] = "Timeout",
};

/* Of failures whose own text is for operators. */
static const char *const told[WEFT_ERROR_COUNT] = {
    [WEFT_ERROR_FAILED] = "weftd failed at this, and its log says why; ask an operator of this site",
    [WEFT_ERROR_UNAVAILABLE] =
        "something that weftd needs for this is not available now, and its log says what; try again later",
    [WEFT_ERROR_TIMEOUT] = "this took too long, and weftd's log says what did; try again later",
};

/* clang-format off */
G_DEFINE_QUARK(weft-http-error, weft_http_error)
/* clang-format on */

static WeftErrorCode
problem_code(const GError *error)
{
    if (error->domain != WEFT_HTTP_ERROR)
        return weft_error_code(error);
    for (guint i = 0; i < G_N_ELEMENTS(http_statuses); i++)
        if ((int)http_statuses[i].status == error->code)
            return http_statuses[i].code;
    return WEFT_ERROR_FAILED;
}

guint
weft_problem_status(const GError *error)
{
    return error->domain == WEFT_HTTP_ERROR ? (guint)error->code : weft_error_http_status(weft_error_code(error));
}

gboolean
weft_problem_refuse(GError **error, WeftErrorCode code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *message = g_strdup_vprintf(format, args);
    va_end(args);
    guint status = weft_error_http_status(code);
    if (status < 500)
        g_set_error_literal(error, WEFT_ERROR, (int)code, message);
    else
        g_set_error_literal(error, WEFT_HTTP_ERROR, (int)status, message);
    return FALSE;
}

const char *
weft_problem_told(const GError *error)
{
    const char *text = error->domain == WEFT_HTTP_ERROR ? NULL : told[weft_error_code(error)];
    return text ? text : error->message;
}

json_t *
weft_problem_to_json(const GError *error, const char *detail)
{
    WeftErrorCode code = problem_code(error);
    const char *name = weft_error_name(code);
    g_autofree char *valid = g_utf8_make_valid(detail, -1);
    return json_pack("{s:s+, s:s, s:i, s:s, s:s}", "type", "https://weft.dev/problems/", name, "title", titles[code], "status",
                     (int)weft_problem_status(error), "code", name, "detail", valid);
}
