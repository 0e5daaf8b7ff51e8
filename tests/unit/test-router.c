/* The pure parts of the API: the router, and the limit on rates. */
#include "errors.h"
#include "problem.h"
#include "router.h"

static const WeftRoute table[] = {
    { "GET", "/v1/things", WEFT_ROLE_VIEWER, NULL, WEFT_BODY_NONE, { "limit", "after" } },
    { "POST", "/v1/things", WEFT_ROLE_MEMBER, NULL, WEFT_BODY_REQUIRED },
    { "GET", "/v1/things/:thing", WEFT_ROLE_VIEWER },
    { "DELETE", "/v1/things/:thing/parts/:part", WEFT_ROLE_VIEWER },
    { 0 },
};

typedef struct {
    const char *method;
    const char *target;
    const char *path; /* of the route that matches */
    const char *params[WEFT_PARAMS_MAX];
    const char *query[2];
} Match;

static const Match matches[] = {
    { "GET", "/v1/things?", "/v1/things" },
    { "GET", "/v1/things", "/v1/things" },
    { "POST", "/v1/things", "/v1/things" },
    { "GET", "/v1/things?limit=5", "/v1/things", { NULL }, { "5" } },
    { "GET", "/v1/things?after=a%3Db&limit=5", "/v1/things", { NULL }, { "5", "a=b" } },
    { "GET", "/v1/things?after=a+b=c", "/v1/things", { NULL }, { NULL, "a+b=c" } },
    { "GET", "/v1/things/x", "/v1/things/:thing", { "x" } },
    { "GET", "/v1/things/%78%c3%a9", "/v1/things/:thing", { "xé" } },
    { "GET", "/v1/things/a%2fb", "/v1/things/:thing", { "a/b" } },
    { "DELETE", "/v1/things/x/parts/y", "/v1/things/:thing/parts/:part", { "x", "y" } },
};

static void
test_matches(void)
{
    for (guint i = 0; i < G_N_ELEMENTS(matches); i++) {
        const Match *wanted = &matches[i];
        GError *error = NULL;
        g_auto(WeftMatch) match;
        g_test_message("%s %s", wanted->method, wanted->target);
        const WeftRoute *route = weft_router_match(table, wanted->method, wanted->target, &match, &error);
        g_assert_no_error(error);
        g_assert_cmpstr(route->method, ==, wanted->method);
        g_assert_cmpstr(route->path, ==, wanted->path);
        for (guint j = 0; j < WEFT_PARAMS_MAX; j++)
            g_assert_cmpstr(match.params[j], ==, wanted->params[j]);
        for (guint j = 0; j < 2; j++)
            g_assert_cmpstr(match.query[j], ==, wanted->query[j]);
    }
}

typedef struct {
    const char *method;
    const char *target;
    guint status;
    const char *message;
} Refusal;

static const Refusal refusals[] = {
    { "GET", "", 404, "*" },
    { "GET", "/", 404, "*" },
    { "GET", "*", 404, "*" },
    { "GET", "v1/things", 404, "*" },
    { "GET", "/v1/things/", 404, "*" },
    { "GET", "//v1/things", 404, "*" },
    { "GET", "/v1/things/x/parts", 404, "*" },
    { "GET", "/v1/things/x/parts/y/z", 404, "*" },
    { "GET", "/1/2/3/4/5/6/7/8/9/10", 404, "*" },
    { "GET", "http://elsewhere/v1/things", 404, "*" },
    { "PUT", "/v1/things", 405, "PUT: this path takes GET, POST" },
    { "get", "/v1/things", 405, "*" },
    { "GET", "/v1/things/%", 400, "*two hexadecimal digits*" },
    { "GET", "/v1/things/%4", 400, "*two hexadecimal digits*" },
    { "GET", "/v1/things/%zz", 400, "*two hexadecimal digits*" },
    { "GET", "/v1/things/%00", 400, "*not 00" },
    { "GET", "/v1/things/%ff", 400, "*UTF-8*" },
    { "GET", "/v1/things/%0a", 400, "*control characters*" },
    { "GET", "/v1/things/\x1b", 400, "byte 0x1b in the path: write it as %1B" },
    { "GET", "/v1/things/\xc3\xa9", 400, "byte 0xc3*" },
    { "GET", "/v1/things#x", 400, "byte 0x23*" },
    { "GET", "/v1/things?colour=red", 400, "query parameter colour: not known here*" },
    { "GET", "/v1/things/x?limit=1", 400, "query parameter limit: not known here; GET /v1/things/:thing takes none" },
    { "GET", "/v1/things?limit=1&limit=2", 400, "query parameter limit: given twice*" },
    { "GET", "/v1/things?limit=", 400, "query parameter limit: must have 1 to 256 bytes, has 0" },
    { "GET", "/v1/things?limit", 400, "query parameter limit: must have 1 to 256 bytes, has 0" },
    { "GET", "/v1/things?limit=1&", 400, "query parameter : not known*" },
    { "GET", "/v1/things?after=%", 400, "*two hexadecimal digits*" },
};

static void
refuse(const char *method, const char *target, guint status, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_auto(WeftMatch) match;
    g_assert_null(weft_router_match(table, method, target, &match, &error));
    g_test_message("%s %.40s: %s", method, target, error->message);
    g_assert_cmpuint(weft_problem_status(error), ==, status);
    g_assert_true(g_pattern_match_simple(message, error->message));
    g_assert_cmpstr(match.allow, ==, status == 405 ? "GET, POST" : NULL);
}

static void
test_refusals(void)
{
    for (guint i = 0; i < G_N_ELEMENTS(refusals); i++)
        refuse(refusals[i].method, refusals[i].target, refusals[i].status, refusals[i].message);
}

static void
test_limits(void)
{
    g_autofree char *long_path = g_strnfill(WEFT_PATH_MAX, 'a');
    g_autofree char *path = g_strconcat("/", long_path, NULL);
    refuse("GET", path, 414, "*1024 bytes*");
    g_autofree char *value = g_strnfill(WEFT_QUERY_VALUE_MAX + 1, 'a');
    g_autofree char *query = g_strconcat("/v1/things?after=", value, NULL);
    refuse("GET", query, 400, "*has 257");
    g_autofree char *long_value = g_strnfill(WEFT_TARGET_MAX, 'a');
    g_autofree char *target = g_strconcat("/v1/things?after=", long_value, NULL);
    refuse("GET", target, 414, "*4096 with its query*");
}

/* What is below the API says where it failed; that is for operators, unless the caller can help it. */
static void
test_told(void)
{
    for (WeftErrorCode code = 0; code < WEFT_ERROR_COUNT; code++) {
        g_autoptr(GError) below = g_error_new_literal(WEFT_ERROR, (int)code, "/var/lib/weft/weft.db: damaged");
        gboolean is_ours = weft_error_http_status(code) >= 500;
        g_assert_cmpint(strstr(weft_problem_told(below), "/var/lib") == NULL, ==, is_ours);
        g_autoptr(GError) meant = NULL;
        g_assert_false(weft_problem_refuse(&meant, code, "node %s does not answer", "cfd[0]"));
        g_assert_cmpstr(weft_problem_told(meant), ==, "node cfd[0] does not answer");
        g_assert_cmpuint(weft_problem_status(meant), ==, weft_error_http_status(code));
        json_auto_t *problem = weft_problem_to_json(meant, meant->message);
        g_assert_cmpstr(json_string_value(json_object_get(problem, "code")), ==, weft_error_name(code));
    }
    g_autoptr(GError) foreign = g_error_new_literal(G_FILE_ERROR, G_FILE_ERROR_NOENT, "/var/lib/weft/images: gone");
    g_assert_null(strstr(weft_problem_told(foreign), "/var/lib"));
}

static void
test_problems(void)
{
    g_autoptr(GError) error = g_error_new(WEFT_ERROR, WEFT_ERROR_INVALID, "cores: must be 1 to 1024, is 0 \xff");
    json_t *problem = weft_problem_to_json(error, error->message);
    g_assert_cmpstr(json_string_value(json_object_get(problem, "type")), ==, "https://weft.dev/problems/invalid");
    g_assert_cmpstr(json_string_value(json_object_get(problem, "title")), ==, "Invalid request");
    g_assert_cmpstr(json_string_value(json_object_get(problem, "code")), ==, "invalid");
    g_assert_cmpstr(json_string_value(json_object_get(problem, "detail")), ==, "cores: must be 1 to 1024, is 0 \xef\xbf\xbd");
    g_assert_cmpint(json_integer_value(json_object_get(problem, "status")), ==, 400);
    json_decref(problem);
    /* Every code has its title and document. */
    for (int code = 0; code < WEFT_ERROR_COUNT; code++) {
        g_autoptr(GError) other = g_error_new_literal(WEFT_ERROR, code, "x");
        problem = weft_problem_to_json(other, other->message);
        g_assert_nonnull(problem);
        json_decref(problem);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/router/matches", test_matches);
    g_test_add_func("/router/refusals", test_refusals);
    g_test_add_func("/router/limits", test_limits);
    g_test_add_func("/problem/documents", test_problems);
    g_test_add_func("/problem/told", test_told);
    return g_test_run();
}
