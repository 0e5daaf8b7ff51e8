#include "host-uri.h"

#include "errors.h"

#define PARAMETERS_MAX 1

/* A parameter's value is a path of weftd's machine, which only its administrators can put a key or a socket at. */
typedef struct {
    const char *scheme;
    const char *path; /* the only one; NULL: any, as libvirt never sees it */
    const char *parameters[PARAMETERS_MAX + 1];
} Rule;

/* clang-format off */
static const Rule rules[] = {
    { "qemu+tls",  "/system", { "pkipath" } },
    { "qemu+ssh",  "/system", { "keyfile" } },
    { "qemu+tcp",  "/system", { NULL } },
    { "qemu+unix", "/system", { "socket" } },
    { "qemu",      "/system", { NULL } },
    { "fake",      NULL,      { NULL } }, /* hypervisor.driver: fake */
};
/* clang-format on */

static const Rule *
find_rule(const char *scheme)
{
    for (gsize i = 0; i < G_N_ELEMENTS(rules); i++)
        if (g_str_equal(rules[i].scheme, scheme))
            return &rules[i];
    return NULL;
}

static char *
list_schemes(void)
{
    g_autoptr(GString) list = g_string_new(NULL);
    for (gsize i = 0; rules[i].path; i++)
        g_string_append_printf(list, "%s%s", i ? ", " : "", rules[i].scheme);
    return g_string_free(g_steal_pointer(&list), FALSE);
}

static char *
list_parameters(const Rule *rule)
{
    if (!rule->parameters[0])
        return g_strdup("leave it out: it has none");
    g_autofree char *names = g_strjoinv(", ", (char **)rule->parameters);
    return g_strdup_printf("leave it out: it has only %s", names);
}

/* libvirt compares names without case and unescapes them; here only the plain spelling is known. */
static gboolean
check_parameter(const Rule *rule, const char *name, const char *value, GError **error)
{
    g_autofree char *remedy = list_parameters(rule);
    if (!g_strv_contains(rule->parameters, name))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "parameter \"%s\" is not allowed with %s; %s", name, rule->scheme,
                                 remedy);
    return g_path_is_absolute(value) ||
           weft_error_refuse(error, WEFT_ERROR_INVALID, "%s=%s is not a whole path; begin it with /", name, value);
}

static gboolean
check_query(const Rule *rule, const char *query, GError **error)
{
    GUriParamsIter iter;
    g_autoptr(GError) broken = NULL;
    /* libvirt takes both for separators. */
    g_uri_params_iter_init(&iter, query ? query : "", -1, "&;", G_URI_PARAMS_NONE);
    for (;;) {
        g_autofree char *name = NULL, *value = NULL;
        if (!g_uri_params_iter_next(&iter, &name, &value, &broken))
            break;
        if (!check_parameter(rule, name, value, error))
            return FALSE;
    }
    return !broken || weft_error_refuse(error, WEFT_ERROR_INVALID, "the part after ? must be NAME=VALUE&…");
}

/* ssh would read a name that begins so as one of its options. */
static gboolean
is_option(const char *text)
{
    return text && text[0] == '-';
}

gboolean
weft_host_uri_check(const char *text, GError **error)
{
    g_autoptr(GUri) uri = strchr(text, ' ') ? NULL : g_uri_parse(text, G_URI_FLAGS_ENCODED_QUERY, NULL);
    if (!uri)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "\"%s\" is not a URI; write it like qemu+tls://NAME/system", text);
    const char *scheme = g_uri_get_scheme(uri), *path = g_uri_get_path(uri);
    const Rule *rule = find_rule(scheme);
    g_autofree char *schemes = list_schemes();
    if (!rule)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "\"%s\" is no transport to a host; take one of %s", scheme,
                                 schemes);
    if (is_option(g_uri_get_host(uri)) || is_option(g_uri_get_userinfo(uri)))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "\"%s\" has a user or host that begins with -; use another name",
                                 text);
    if (rule->path && (g_uri_get_fragment(uri) || !g_str_equal(path, rule->path)))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "\"%s\" has another path than %s; write it like %s://NAME%s", text,
                                 rule->path, scheme, rule->path);
    return check_query(rule, g_uri_get_query(uri), error);
}
