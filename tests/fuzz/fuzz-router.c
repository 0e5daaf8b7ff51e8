/* The HTTP path router. The input is a request line: a method, a blank, a target. */
#include "fuzz.h"

#include "router.h"

/* All shapes that a route may have; the daemon's own table would bring its handlers along. */
static const WeftRoute routes[] = {
    { "GET", "/v1/version" },
    { "GET", "/v1/clusters", .query = { "tenant", "name", "limit", "after" } },
    { "POST", "/v1/clusters", .query = { "tenant" } },
    { "GET", "/v1/clusters/:cluster", .query = { "tenant" } },
    { "DELETE", "/v1/clusters/:cluster", .query = { "tenant" } },
    { "GET", "/v1/clusters/:cluster/nodes/:node" },
    { "POST", "/v1/hosts/:host/drain" },
    { NULL },
};

static gboolean
is_clean(const char *text)
{
    for (const char *p = text; *p; p++)
        if (g_ascii_iscntrl(*p))
            return FALSE;
    return g_utf8_validate(text, -1, NULL);
}

static guint
params_of(const WeftRoute *route)
{
    guint n = 0;
    for (const char *p = route->path; *p; p++)
        n += *p == ':';
    return n;
}

static void
check_match(const WeftRoute *route, const char *method, const WeftMatch *match)
{
    fuzz_promise(strcmp(route->method, method) == 0);
    for (guint i = 0; i < WEFT_PARAMS_MAX; i++) {
        const char *param = match->params[i];
        fuzz_promise((i < params_of(route)) == (param != NULL));
        fuzz_promise(!param || (*param && is_clean(param)));
    }
    for (guint i = 0; i < WEFT_QUERY_MAX; i++) {
        const char *value = match->query[i];
        fuzz_promise(!value || (route->query[i] && *value && strlen(value) <= WEFT_QUERY_VALUE_MAX && is_clean(value)));
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GError *error = NULL;
    g_autofree char *line = g_strndup((const char *)data, size);
    g_auto(GStrv) parts = g_strsplit(line, " ", 2);
    const char *method = parts[0] ? parts[0] : "";
    const char *target = parts[0] && parts[1] ? parts[1] : "";
    g_auto(WeftMatch) match = { 0 };
    const WeftRoute *route = weft_router_match(routes, method, target, &match, &error);
    if (route)
        check_match(route, method, &match);
    else
        fuzz_check_refusal(error);
    return 0;
}
