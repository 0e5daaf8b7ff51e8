#include "router.h"

#include "errors.h"
#include "problem.h"

gboolean
weft_route_is_audited(const WeftRoute *route)
{
    return route->audit == WEFT_AUDIT_CHANGES ? strcmp(route->method, "GET") != 0 : route->audit != WEFT_AUDIT_NEVER;
}

void
weft_match_clear(WeftMatch *match)
{
    for (guint i = 0; i < WEFT_PARAMS_MAX; i++)
        g_clear_pointer(&match->params[i], g_free);
    for (guint i = 0; i < WEFT_QUERY_MAX; i++)
        g_clear_pointer(&match->query[i], g_free);
    g_clear_pointer(&match->allow, g_free);
}

static gboolean
is_clean(const char *text)
{
    if (!g_utf8_validate(text, -1, NULL))
        return FALSE;
    for (const char *p = text; *p; p++)
        if (g_ascii_iscntrl(*p))
            return FALSE;
    return TRUE;
}

/* The text as sent is plain ASCII, so that it is safe to repeat in a message. */
static char *
decode(const char *text, GError **error)
{
    g_autoptr(GString) decoded = g_string_new(NULL);
    for (const char *p = text; *p; p++) {
        int high = *p == '%' ? g_ascii_xdigit_value(p[1]) : 0;
        int low = *p == '%' && high >= 0 ? g_ascii_xdigit_value(p[2]) : 0;
        if (high < 0 || low < 0 || (*p == '%' && high == 0 && low == 0)) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s: each %% must be followed by two hexadecimal digits, not 00",
                        text);
            return NULL;
        }
        g_string_append_c(decoded, *p == '%' ? (char)(high << 4 | low) : *p);
        p += *p == '%' ? 2 : 0;
    }
    if (!is_clean(decoded->str)) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s: must be UTF-8 without control characters", text);
        return NULL;
    }
    return g_string_free(g_steal_pointer(&decoded), FALSE);
}

static gboolean
check_target(const char *target, GError **error)
{
    gsize length = strlen(target);
    if (length > WEFT_TARGET_MAX || strcspn(target, "?") > WEFT_PATH_MAX) {
        g_set_error(error, WEFT_HTTP_ERROR, 414, "the path may have %d bytes, %d with its query; this one has %zu in all",
                    WEFT_PATH_MAX, WEFT_TARGET_MAX, length);
        return FALSE;
    }
    for (const char *p = target; *p; p++) {
        if (!g_ascii_isgraph(*p) || *p == '#') {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "byte 0x%02x in the path: write it as %%%02X", (guchar)*p,
                        (guchar)*p);
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean
segments_match(const char *pattern, char *const *segments)
{
    g_auto(GStrv) wanted = g_strsplit(pattern + 1, "/", -1);
    guint i = 0;
    for (; wanted[i] && segments[i]; i++)
        if (wanted[i][0] == ':' ? !*segments[i] : g_strcmp0(wanted[i], segments[i]) != 0)
            return FALSE;
    return !wanted[i] && !segments[i];
}

static gboolean
take_params(const char *pattern, char *const *segments, WeftMatch *match, GError **error)
{
    g_auto(GStrv) wanted = g_strsplit(pattern + 1, "/", -1);
    for (guint i = 0, n = 0; wanted[i]; i++) {
        if (wanted[i][0] != ':')
            continue;
        g_assert(n < WEFT_PARAMS_MAX);
        match->params[n] = decode(segments[i], error);
        if (!match->params[n++])
            return FALSE;
    }
    return TRUE;
}

static void
refuse_parameter(const WeftRoute *route, const char *name, GError **error)
{
    g_autofree char *known = g_strjoinv(", ", (char **)route->query);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "query parameter %s: not known here; %s %s takes %s", name,
                route->method, route->path, *known ? known : "none");
}

static gboolean
take_parameter(const WeftRoute *route, const char *pair, WeftMatch *match, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(pair, "=", 2);
    const char *name = parts[0] ? parts[0] : "";
    guint i = 0;
    while (route->query[i] && strcmp(route->query[i], name) != 0)
        i++;
    if (!route->query[i]) {
        refuse_parameter(route, name, error);
        return FALSE;
    }
    if (match->query[i]) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "query parameter %s: given twice; give it once", name);
        return FALSE;
    }
    g_autofree char *value = decode(parts[1] ? parts[1] : "", error);
    if (!value)
        return FALSE;
    if (!*value || strlen(value) > WEFT_QUERY_VALUE_MAX) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "query parameter %s: must have 1 to %d bytes, has %zu", name,
                    WEFT_QUERY_VALUE_MAX, strlen(value));
        return FALSE;
    }
    match->query[i] = g_steal_pointer(&value);
    return TRUE;
}

static gboolean
take_query(const WeftRoute *route, const char *query, WeftMatch *match, GError **error)
{
    g_auto(GStrv) pairs = g_strsplit(query, "&", -1);
    for (guint i = 0; pairs[i]; i++)
        if (!take_parameter(route, pairs[i], match, error))
            return FALSE;
    return TRUE;
}

static const WeftRoute *
find(const WeftRoute *routes, const char *method, const char *path, char *const *segments, WeftMatch *match, GError **error)
{
    g_autoptr(GString) allow = g_string_new(NULL);
    for (const WeftRoute *route = routes; route->method; route++) {
        if (!segments_match(route->path, segments))
            continue;
        if (strcmp(route->method, method) == 0)
            return route;
        g_string_append_printf(allow, "%s%s", allow->len ? ", " : "", route->method);
    }
    if (allow->len) {
        match->allow = g_strdup(allow->str);
        g_set_error(error, WEFT_HTTP_ERROR, 405, "%s: this path takes %s", is_clean(method) ? method : "method", allow->str);
    } else {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "%s: no such path; GET /v1/openapi.json lists all", path);
    }
    return NULL;
}

const WeftRoute *
weft_router_match(const WeftRoute *routes, const char *method, const char *target, WeftMatch *ret_match, GError **error)
{
    *ret_match = (WeftMatch){ 0 };
    if (!check_target(target, error))
        return NULL;

    g_auto(GStrv) parts = g_strsplit(target, "?", 2);
    const char *path = parts[0] ? parts[0] : "";
    g_auto(GStrv) segments = g_strsplit(*path == '/' ? path + 1 : "", "/", WEFT_SEGMENTS_MAX + 1);
    const WeftRoute *route = find(routes, method, path, segments, ret_match, error);
    if (!route || !take_params(route->path, segments, ret_match, error))
        return NULL;
    if (parts[0] && parts[1] && !take_query(route, parts[1], ret_match, error))
        return NULL;
    return route;
}
