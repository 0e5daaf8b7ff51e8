/* The API over its Unix socket, on a real store: a client on a thread of its own, the server in this one. */
#include "../contract/scratch.h"
#include "api.h"
#include "auth.h"
#include "errors.h"
#include "records.h"
#include "sqlite.h"

#include <glib/gstdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SPEC "{\"name\":\"%s\",\"count\":2,\"cores\":1,\"memory\":\"256M\",\"image\":\"mpi\"}"

typedef struct {
    char *folder;
    char *socket;
    WeftApiOptions options;
    WeftStore *store;
    WeftApi *api;
} Env;

/* --- the client --- */

typedef struct {
    const char *socket;
    const char *send;
    gsize size;
    const char *until; /* read until this has come; NULL: to the end */
    GString *got;
    gboolean done;
} Call;

static gpointer
call_thread(gpointer data)
{
    Call *call = data;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    g_strlcpy(address.sun_path, call->socket, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(connect(fd, (const struct sockaddr *)&address, sizeof address), ==, 0);
    for (gsize sent = 0; sent < call->size;) {
        ssize_t n = send(fd, call->send + sent, call->size - sent, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        sent += (gsize)n;
    }
    char buffer[4096];
    for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;) {
        g_string_append_len(call->got, buffer, n);
        if (call->until && strstr(call->got->str, call->until))
            break;
    }
    close(fd);
    g_atomic_int_set(&call->done, TRUE);
    g_main_context_wakeup(NULL);
    return NULL;
}

/* What comes back for these bytes, as it is. */
static char *
talk(Env *env, const char *bytes, gsize size, const char *until)
{
    Call call = { .socket = env->socket, .send = bytes, .size = size, .until = until, .got = g_string_new(NULL) };
    GThread *thread = g_thread_new("client", call_thread, &call);
    while (!g_atomic_int_get(&call.done))
        g_main_context_iteration(NULL, TRUE);
    g_thread_join(thread);
    return g_string_free(call.got, FALSE);
}

typedef struct {
    guint status;
    char *head;
    char *text;
    json_t *json;
} Answer;

static void
answer_clear(Answer *answer)
{
    g_free(answer->head);
    g_free(answer->text);
    json_decref(answer->json);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Answer, answer_clear)

static Answer
parse_answer(const char *bytes)
{
    Answer answer = { 0 };
    const char *end = strstr(bytes, "\r\n\r\n");
    g_assert_nonnull(end);
    answer.head = g_strndup(bytes, (gsize)(end - bytes));
    answer.text = g_strdup(end + 4);
    answer.status = (guint)g_ascii_strtoull(answer.head + strlen("HTTP/1.1 "), NULL, 10);
    answer.json = json_loads(answer.text, 0, NULL);
    return answer;
}

/* who NULL: root or the user that runs the test, an admin; headers: lines that end with \r\n. */
static Answer
ask_with(Env *env, const char *who, const char *headers, const char *line, const char *body)
{
    g_autofree char *authorization = who ? g_strdup_printf("Authorization: Bearer weft_0%s_%s\r\n", who, who) : g_strdup("");
    g_autofree char *content =
        body ? g_strdup_printf("Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body)) : g_strdup("");
    g_autofree char *request = g_strdup_printf("%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s%s%s\r\n%s", line,
                                               authorization, content, headers ? headers : "", body ? body : "");
    g_autofree char *bytes = talk(env, request, strlen(request), NULL);
    return parse_answer(bytes);
}

static Answer
ask(Env *env, const char *who, const char *line, const char *body)
{
    return ask_with(env, who, NULL, line, body);
}

static guint
status(Env *env, const char *who, const char *line, const char *body)
{
    g_auto(Answer) answer = ask(env, who, line, body);
    if (answer.status >= 400) {
        g_test_message("%s: %s", line, answer.text);
        g_assert_nonnull(strstr(answer.head, "Content-Type: application/problem+json"));
        g_assert_cmpint(json_integer_value(json_object_get(answer.json, "status")), ==, answer.status);
    }
    return answer.status;
}

static char *
header(const Answer *answer, const char *name)
{
    g_auto(GStrv) lines = g_strsplit(answer->head, "\r\n", -1);
    g_autofree char *prefix = g_strconcat(name, ": ", NULL);
    for (guint i = 0; lines[i]; i++)
        if (g_str_has_prefix(lines[i], prefix))
            return g_strdup(lines[i] + strlen(prefix));
    return NULL;
}

static const char *
text_of(const Answer *answer, const char *field)
{
    return json_string_value(json_object_get(answer->json, field));
}

/* --- the site --- */

static void
put_principal(WeftTxn *txn, const char *name, const char *tenant, WeftRole role)
{
    g_autofree char *hash = weft_auth_hash(name);
    g_autofree char *id = g_strconcat("0", name, NULL);
    WeftPrincipal principal = { .name = (char *)name, .tenant = (char *)tenant, .role = role };
    WeftToken token = { .id = id, .hash = hash, .principal = (char *)name, .tenant = (char *)tenant, .created = 1 };
    weft_txn_put_principal(txn, &principal, WEFT_ABSENT);
    weft_txn_put_token(txn, &token, WEFT_ABSENT);
}

static void
fill(WeftStore *store)
{
    GError *error = NULL;
    WeftTxn *txn = weft_txn_new("test-filled");
    WeftTenant acme = { .name = (char *)"acme", .quota = { [WEFT_QUOTA_CORES] = 8 }, .share = 1 };
    WeftTenant umbrella = { .name = (char *)"umbrella", .share = 1 };
    weft_txn_put_tenant(txn, &acme, WEFT_ABSENT);
    weft_txn_put_tenant(txn, &umbrella, WEFT_ABSENT);
    put_principal(txn, "alice", "acme", WEFT_ROLE_MEMBER);
    put_principal(txn, "victor", "acme", WEFT_ROLE_VIEWER);
    put_principal(txn, "eve", "umbrella", WEFT_ROLE_MEMBER);
    put_principal(txn, "olga", NULL, WEFT_ROLE_OPERATOR);
    json_auto_t *json = json_pack("{s:s}", "name", "ib0");
    g_autoptr(WeftFabric) fabric = weft_fabric_from_json(json, "", NULL);
    weft_txn_put_fabric(txn, fabric, WEFT_ABSENT);
    weft_store_commit_wait(store, txn, &error);
    g_assert_no_error(error);
}

static void
start(Env *env)
{
    GError *error = NULL;
    env->api = weft_api_new(env->store, &env->options, &error);
    g_assert_no_error(error);
}

static void
restart(Env *env)
{
    weft_api_free(env->api);
    start(env);
}

static void
set_up(Env *env, gconstpointer data)
{
    GError *error = NULL;
    env->folder = scratch_new();
    env->socket = g_build_filename(env->folder, "weft.sock", NULL);
    g_autofree char *path = g_build_filename(env->folder, "weft.db", NULL);
    env->store = weft_store_sqlite_open(path, 0, &error);
    g_assert_no_error(error);
    fill(env->store);
    env->options = weft_api_defaults;
    env->options.socket_path = env->socket;
    start(env);
}

static void
tear_down(Env *env, gconstpointer data)
{
    weft_api_free(env->api);
    weft_store_free(env->store);
    g_assert_false(g_file_test(env->socket, G_FILE_TEST_EXISTS));
    scratch_free(env->folder);
    g_free(env->socket);
}

static char *
dump(Env *env)
{
    json_t *everything = weft_store_dump(env->store, NULL);
    char *text = json_dumps(everything, JSON_SORT_KEYS);
    json_decref(everything);
    return text;
}

static void
create(Env *env, const char *who, const char *name)
{
    g_autofree char *body = g_strdup_printf(SPEC, name);
    g_assert_cmpuint(status(env, who, "POST /v1/clusters", body), ==, 201);
}

/* --- who --- */

static void
test_authentication(Env *env, gconstpointer data)
{
    g_auto(Answer) root = ask(env, NULL, "GET /v1/whoami", NULL);
    g_assert_cmpuint(root.status, ==, 200);
    g_assert_cmpstr(text_of(&root, "role"), ==, "admin");
    g_auto(Answer) alice = ask(env, "alice", "GET /v1/whoami", NULL);
    g_assert_cmpstr(text_of(&alice, "name"), ==, "alice");
    g_assert_cmpstr(text_of(&alice, "tenant"), ==, "acme");
    g_assert_cmpuint(status(env, "nobody", "GET /v1/whoami", NULL), ==, 401);
    g_assert_cmpuint(status(env, "nobody", "GET /v1/no/such/path", NULL), ==, 401);
    g_assert_cmpuint(status(env, "victor", "POST /v1/clusters", "{}"), ==, 403);
    g_assert_cmpuint(status(env, "alice", "GET /v1/hosts", NULL), ==, 403);
    g_assert_cmpuint(status(env, "olga", "GET /v1/hosts", NULL), ==, 200);
}

static void
test_tokens(Env *env, gconstpointer data)
{
    const char *key = "Idempotency-Key: once\r\n";
    g_auto(Answer) made = ask_with(env, "alice", key, "POST /v1/tokens", "{\"note\":\"laptop\",\"expires_in\":\"30d\"}");
    g_assert_cmpuint(made.status, ==, 201);
    const char *secret = strrchr(text_of(&made, "token"), '_') + 1;
    g_autofree char *stored = dump(env);
    g_assert_null(strstr(stored, secret));

    g_autofree char *bearer = g_strdup_printf("Authorization: Bearer %s\r\n", text_of(&made, "token"));
    g_auto(Answer) used = ask_with(env, NULL, bearer, "GET /v1/whoami", NULL);
    g_assert_cmpstr(text_of(&used, "name"), ==, "alice");

    g_auto(Answer) again = ask_with(env, "alice", key, "POST /v1/tokens", "{\"note\":\"laptop\",\"expires_in\":\"30d\"}");
    g_assert_cmpuint(again.status, ==, 409);

    g_autofree char *line = g_strdup_printf("DELETE /v1/tokens/%s", text_of(&made, "id"));
    g_assert_cmpuint(status(env, "eve", line, NULL), ==, 404);
    g_assert_cmpuint(status(env, "alice", line, NULL), ==, 204);
    g_auto(Answer) revoked = ask_with(env, NULL, bearer, "GET /v1/whoami", NULL);
    g_assert_cmpuint(revoked.status, ==, 401);
    g_assert_cmpuint(status(env, "alice", "POST /v1/tokens", "{\"principal\":\"victor\"}"), ==, 404);
    g_assert_cmpuint(status(env, "alice", "POST /v1/tokens", "{\"principal\":\"nobody\"}"), ==, 404);
}

static void
test_removed_tenant_takes_its_people(Env *env, gconstpointer data)
{
    create(env, "eve", "lab");
    g_assert_cmpuint(status(env, NULL, "DELETE /v1/tenants/umbrella", NULL), ==, 409);
    WeftTxn *txn = weft_txn_new("test-deleted");
    weft_txn_delete(txn, WEFT_KIND_CLUSTER, "umbrella/lab", WEFT_ANY);
    g_assert_true(weft_store_commit_wait(env->store, txn, NULL));
    g_assert_cmpuint(status(env, NULL, "DELETE /v1/tenants/umbrella", NULL), ==, 204);
    g_assert_cmpuint(status(env, "eve", "GET /v1/whoami", NULL), ==, 401);
    g_auto(Answer) principals = ask(env, NULL, "GET /v1/principals", NULL);
    g_assert_null(strstr(principals.text, "eve"));
    g_assert_cmpuint(status(env, "alice", "GET /v1/whoami", NULL), ==, 200);
}

/* --- clusters --- */

static void
test_isolation(Env *env, gconstpointer data)
{
    create(env, "alice", "cfd");
    g_auto(Answer) mine = ask(env, "alice", "GET /v1/clusters/cfd", NULL);
    g_assert_cmpuint(mine.status, ==, 200);
    g_assert_cmpstr(text_of(&mine, "phase"), ==, "queued");
    const char *const paths[] = { "", "/nodes", "/events" };
    for (guint i = 0; i < G_N_ELEMENTS(paths); i++) {
        g_autofree char *by_id = g_strdup_printf("GET /v1/clusters/%s%s", text_of(&mine, "id"), paths[i]);
        g_autofree char *by_name = g_strdup_printf("GET /v1/clusters/cfd%s", paths[i]);
        g_autofree char *foreign = g_strdup_printf("GET /v1/clusters/cfd%s?tenant=acme", paths[i]);
        g_assert_cmpuint(status(env, "alice", by_id, NULL), ==, 200);
        g_assert_cmpuint(status(env, "eve", by_id, NULL), ==, 404);
        g_assert_cmpuint(status(env, "eve", by_name, NULL), ==, 404);
        g_assert_cmpuint(status(env, "eve", foreign, NULL), ==, 404);
        g_assert_cmpuint(status(env, "olga", by_id, NULL), ==, 200);
        g_assert_cmpuint(status(env, "olga", by_name, NULL), ==, 400);
        g_assert_cmpuint(status(env, "olga", foreign, NULL), ==, 200);
    }
    const char *const lists[] = { "GET /v1/clusters", "GET /v1/events", "GET /v1/tenants", "GET /v1/usage" };
    for (guint i = 0; i < G_N_ELEMENTS(lists); i++) {
        g_auto(Answer) answer = ask(env, "eve", lists[i], NULL);
        g_assert_cmpuint(answer.status, ==, 200);
        g_assert_null(strstr(answer.text, "acme"));
        g_assert_null(strstr(answer.text, "cfd"));
    }
    create(env, "eve", "cfd");
    g_auto(Answer) both = ask(env, "olga", "GET /v1/clusters?name=cfd&limit=1", NULL);
    g_assert_cmpuint(json_array_size(json_object_get(both.json, "items")), ==, 1);
    g_autofree char *next = g_strdup_printf("GET /v1/clusters?name=cfd&limit=1&after=%s", text_of(&both, "next"));
    g_auto(Answer) second = ask(env, "olga", next, NULL);
    g_assert_nonnull(strstr(second.text, "umbrella"));
    g_assert_true(json_is_null(json_object_get(second.json, "next")));
}

static void
test_quota(Env *env, gconstpointer data)
{
    create(env, "alice", "cfd");
    g_auto(Answer) answer = ask(env, "alice", "POST /v1/clusters",
                                "{\"name\":\"big\",\"count\":7,\"cores\":1,\"memory\":\"64M\",\"image\":\"mpi\"}");
    g_assert_cmpuint(answer.status, ==, 409);
    g_assert_cmpstr(text_of(&answer, "code"), ==, "exhausted");
    g_assert_cmpstr(
        text_of(&answer, "detail"), ==,
        "quota of tenant acme: cores 2 of 8 in use, 7 more asked for; remove a cluster or ask an admin to raise it");
    g_assert_cmpuint(status(env, "alice", "PATCH /v1/clusters/cfd", "{\"count\":9}"), ==, 409);
    g_assert_cmpuint(status(env, "alice", "PATCH /v1/clusters/cfd", "{\"count\":8}"), ==, 200);
    /* What shrinks is let go, whatever the quota says meanwhile. */
    g_assert_cmpuint(status(env, NULL, "PATCH /v1/tenants/acme", "{\"quota\":{\"cores\":1}}"), ==, 200);
    g_assert_cmpuint(status(env, "alice", "PATCH /v1/clusters/cfd", "{\"count\":4}"), ==, 200);
    g_assert_cmpuint(status(env, "alice", "PATCH /v1/clusters/cfd", "{\"count\":5}"), ==, 409);
    g_auto(Answer) tenant = ask(env, "alice", "GET /v1/tenants/acme", NULL);
    g_assert_cmpint(json_integer_value(json_object_get(json_object_get(tenant.json, "used"), "cores")), ==, 4);
    g_assert_cmpuint(status(env, "alice", "DELETE /v1/clusters/cfd", NULL), ==, 202);
    g_assert_cmpuint(status(env, "alice", "PATCH /v1/clusters/cfd", "{\"count\":3}"), ==, 409);
}

static void
test_etag(Env *env, gconstpointer data)
{
    create(env, "alice", "cfd");
    g_auto(Answer) got = ask(env, "alice", "GET /v1/clusters/cfd", NULL);
    g_autofree char *etag = header(&got, "ETag");
    g_autofree char *condition = g_strdup_printf("If-Match: \"other\", %s\r\n", etag);
    g_auto(Answer) first = ask_with(env, "alice", condition, "PATCH /v1/clusters/cfd", "{\"count\":3}");
    g_assert_cmpuint(first.status, ==, 200);
    g_autofree char *new_etag = header(&first, "ETag");
    g_assert_cmpstr(new_etag, !=, etag);
    g_auto(Answer) late = ask_with(env, "alice", condition, "PATCH /v1/clusters/cfd", "{\"count\":4}");
    g_assert_cmpuint(late.status, ==, 412);
    g_assert_cmpstr(text_of(&late, "code"), ==, "conflict");
    g_auto(Answer) gone = ask_with(env, "alice", condition, "DELETE /v1/clusters/cfd", NULL);
    g_assert_cmpuint(gone.status, ==, 412);
    g_auto(Answer) any = ask_with(env, "alice", "If-Match: *\r\n", "DELETE /v1/clusters/cfd", NULL);
    g_assert_cmpuint(any.status, ==, 202);
}

static void
test_idempotency(Env *env, gconstpointer data)
{
    const char *key = "Idempotency-Key: k1\r\n";
    g_autofree char *body = g_strdup_printf(SPEC, "cfd");
    g_autofree char *other = g_strdup_printf(SPEC, "cfe");
    g_auto(Answer) first = ask_with(env, "alice", key, "POST /v1/clusters", body);
    g_assert_cmpuint(first.status, ==, 201);
    g_autofree char *before = dump(env);
    restart(env);
    g_auto(Answer) second = ask_with(env, "alice", key, "POST /v1/clusters", body);
    g_assert_cmpuint(second.status, ==, 201);
    g_assert_cmpstr(first.text, ==, second.text);
    const char *const headers[] = { "ETag", "Location" };
    for (guint i = 0; i < G_N_ELEMENTS(headers); i++) {
        g_autofree char *one = header(&first, headers[i]);
        g_autofree char *two = header(&second, headers[i]);
        g_assert_nonnull(one);
        g_assert_cmpstr(one, ==, two);
    }
    g_assert_nonnull(strstr(second.head, "Idempotent-Replayed: true"));
    g_auto(Answer) changed = ask_with(env, "alice", key, "POST /v1/clusters", other);
    g_assert_cmpuint(changed.status, ==, 422);
    g_autofree char *after = dump(env);
    g_assert_cmpstr(before, ==, after);
    g_auto(Answer) stranger = ask_with(env, "eve", key, "POST /v1/clusters", other);
    g_assert_cmpuint(stranger.status, ==, 201);
    g_assert_cmpuint(status(env, "alice", "POST /v1/clusters", body), ==, 409);
}

static void
test_pages(Env *env, gconstpointer data)
{
    g_autoptr(GString) seen = g_string_new(NULL);
    g_autofree char *line = g_strdup("GET /v1/clusters?limit=2");
    for (guint i = 0; i < 5; i++) {
        g_autofree char *name = g_strdup_printf("c%u", i);
        create(env, "eve", name);
    }
    create(env, "alice", "hidden");
    for (guint page = 0; line; page++) {
        g_auto(Answer) answer = ask(env, "eve", line, NULL);
        json_t *items = json_object_get(answer.json, "items");
        g_assert_cmpuint(json_array_size(items), ==, page == 2 ? 1 : 2);
        for (gsize i = 0; i < json_array_size(items); i++)
            g_string_append(seen, json_string_value(json_object_get(json_array_get(items, i), "name")));
        g_free(line);
        const char *next = text_of(&answer, "next");
        line = next ? g_strdup_printf("GET /v1/clusters?limit=2&after=%s", next) : NULL;
    }
    g_assert_cmpstr(seen->str, ==, "c0c1c2c3c4");
    g_assert_cmpuint(status(env, "eve", "GET /v1/clusters?after=nonsense!", NULL), ==, 400);
}

/* --- hosts --- */

static void
test_hosts(Env *env, gconstpointer data)
{
    const char *n1 =
        "{\"name\":\"n1\",\"fabric\":\"ib0\",\"leaf\":\"l1\",\"uri\":\"fake://n1/\",\"numa\":[{\"cores\":4,\"pages\":"
        "{\"2M\":512}}],\"hcas\":[{\"name\":\"mlx5_0\",\"port_guid\":\"0x1\",\"vfs\":4}]}";
    g_autofree char *same_port = g_strdup(n1);
    same_port[strlen("{\"name\":\"n")] = '2';
    g_assert_cmpuint(status(env, NULL, "POST /v1/hosts", n1), ==, 201);
    g_assert_cmpuint(status(env, NULL, "POST /v1/hosts", n1), ==, 409);
    g_auto(Answer) port = ask(env, NULL, "POST /v1/hosts", same_port);
    g_assert_cmpuint(port.status, ==, 409);
    g_assert_nonnull(strstr(text_of(&port, "detail"), "port_guid"));
    g_auto(Answer) drained = ask(env, "olga", "POST /v1/hosts/n1/drain", "{\"evict\":true}");
    g_assert_true(json_is_true(json_object_get(drained.json, "draining")));
    g_assert_true(json_is_true(json_object_get(drained.json, "evicting")));
    g_auto(Answer) back = ask(env, "olga", "POST /v1/hosts/n1/undrain", NULL);
    g_assert_cmpuint(back.status, ==, 200);
    g_assert_false(json_is_true(json_object_get(back.json, "draining")));
    g_assert_cmpuint(status(env, "olga", "DELETE /v1/hosts/n1", NULL), ==, 403);
    g_assert_cmpuint(status(env, NULL, "DELETE /v1/hosts/n1", NULL), ==, 204);
    g_assert_cmpuint(status(env, NULL, "GET /v1/hosts/n1", NULL), ==, 404);
}

/* --- streams --- */

static char *
stream_request(const char *who, const char *path, const char *last)
{
    g_autofree char *id = last ? g_strdup_printf("Last-Event-ID: %s\r\n", last) : g_strdup("");
    return g_strdup_printf(
        "GET %s HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nAuthorization: Bearer weft_0%s_%s\r\n%s\r\n", path, who,
        who, id);
}

static gboolean
tell(gpointer data)
{
    Env *env = data;
    WeftTxn *txn = weft_txn_new("test-told");
    weft_txn_tell(txn, "site-checked", NULL, "n1", "live");
    WeftEvent event = { .type = (char *)"note", .tenant = (char *)"umbrella", .message = (char *)"live" };
    weft_txn_put_event(txn, &event);
    g_assert_true(weft_store_commit_wait(env->store, txn, NULL));
    return G_SOURCE_CONTINUE;
}

/* Reads a stream until the text comes, while things happen again and again: whenever it opens, news follow. */
static char *
follow(Env *env, const char *request, const char *until)
{
    guint news = g_timeout_add(20, tell, env);
    char *got = talk(env, request, strlen(request), until);
    g_source_remove(news);
    return got;
}

/* More than a page is replayed, then the live event comes: each once, in order, and nobody else's. */
static void
test_stream_replays_without_gap(Env *env, gconstpointer data)
{
    WeftTxn *txn = weft_txn_new("test-many");
    for (guint i = 0; i < 500; i++) {
        g_autofree char *message = g_strdup_printf("number %u", i);
        WeftEvent event = { .type = (char *)"note", .tenant = (char *)(i % 2 ? "acme" : "umbrella"), .message = message };
        weft_txn_put_event(txn, &event);
    }
    g_assert_true(weft_store_commit_wait(env->store, txn, NULL));
    g_autofree char *request = stream_request("eve", "/v1/events", "0000000000000000");
    g_autofree char *got = follow(env, request, "live\"");
    g_assert_true(g_str_has_prefix(got, "HTTP/1.1 200 OK"));
    const char *at = got;
    for (guint i = 0; i < 500; i += 2) {
        g_autofree char *wanted = g_strdup_printf("\"number %u\"", i);
        at = strstr(at, wanted);
        g_assert_nonnull(at);
        g_assert_null(strstr(at + 1, wanted));
    }
    g_assert_null(strstr(got, "acme"));
    g_assert_null(strstr(got, "site-checked"));
    g_assert_null(strstr(got, "\"n1\""));
}

static void
test_stream_of_news(Env *env, gconstpointer data)
{
    create(env, "alice", "old");
    g_autofree char *request = stream_request("olga", "/v1/events", NULL);
    g_autofree char *got = follow(env, request, "event: note");
    g_assert_nonnull(strstr(got, "event: site-checked"));
    g_assert_null(strstr(got, "cluster-created"));
    g_autofree char *bad = stream_request("olga", "/v1/events", "nonsense");
    g_autofree char *refused = talk(env, bad, strlen(bad), "}");
    g_assert_true(g_str_has_prefix(refused, "HTTP/1.1 400"));
}

static void
test_stream_limit(Env *env, gconstpointer data)
{
    env->options.streams = 0;
    restart(env);
    g_autofree char *request = stream_request("eve", "/v1/events", NULL);
    g_autofree char *got = talk(env, request, strlen(request), "}");
    g_assert_true(g_str_has_prefix(got, "HTTP/1.1 429"));
    g_assert_nonnull(strstr(got, "Retry-After: 1"));
}

/* --- images --- */

static void
put_image(Env *env, const char *name)
{
    GError *error = NULL;
    g_autofree char *digest = g_strnfill(WEFT_DIGEST_LENGTH, 'a');
    WeftImageFile kernel = { .digest = digest, .size = 1 };
    WeftImage image = { .name = (char *)name, .kernel = &kernel };
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_image(txn, &image, WEFT_ABSENT);
    weft_store_commit_wait(env->store, txn, &error);
    g_assert_no_error(error);
}

static void
test_images_must_be_there(Env *env, gconstpointer data)
{
    env->options.check_images = TRUE;
    env->options.default_image = "mpi";
    restart(env);
    g_autofree char *before = dump(env);
    g_autofree char *body = g_strdup_printf(SPEC, "cfd");
    g_auto(Answer) unknown = ask(env, "alice", "POST /v1/clusters", body);
    g_assert_cmpuint(unknown.status, ==, 400);
    g_assert_cmpstr(text_of(&unknown, "detail"), ==, "image: \"mpi\" is not known; weft image ls lists those that are");
    g_autofree char *after = dump(env);
    g_assert_cmpstr(after, ==, before);

    put_image(env, "mpi");
    create(env, "alice", "cfd");
    g_auto(Answer) other = ask(env, "alice", "POST /v1/clusters", "{\"name\":\"other\",\"count\":1}");
    g_assert_cmpuint(other.status, ==, 201);
    json_t *group = json_array_get(json_object_get(other.json, "groups"), 0);
    g_assert_cmpstr(json_string_value(json_object_get(group, "image")), ==, "mpi");
}

static void
test_no_folder_no_images(Env *env, gconstpointer data)
{
    static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    g_autofree char *line = g_strdup_printf("GET /v1/blobs/%s", digest);
    g_assert_cmpuint(status(env, "olga", line, NULL), ==, 503);
    g_assert_cmpuint(status(env, "olga", "POST /v1/images", "{\"name\":\"mpi\"}"), ==, 503);
    g_assert_cmpuint(status(env, "alice", "GET /v1/images", NULL), ==, 200);
}

/* --- limits and nonsense --- */

static void
test_rate(Env *env, gconstpointer data)
{
    env->options.requests_per_second = 1;
    env->options.requests_burst = 3;
    restart(env);
    guint refused = 0;
    for (guint i = 0; i < 12; i++)
        refused += status(env, "alice", "GET /v1/version", NULL) == 429;
    g_assert_cmpuint(refused, >, 0);
    g_assert_cmpuint(status(env, "eve", "GET /v1/version", NULL), ==, 200);
}

static void
test_body_limits(Env *env, gconstpointer data)
{
    g_autofree char *large = g_strnfill(3 << 20, ' ');
    g_assert_cmpuint(status(env, "alice", "POST /v1/clusters", large), ==, 413);
    g_assert_cmpuint(status(env, "alice", "GET /v1/clusters", "{}"), ==, 400);
    g_assert_cmpuint(status(env, "alice", "POST /v1/clusters", "[]"), ==, 400);
    g_assert_cmpuint(status(env, "alice", "POST /v1/clusters", NULL), ==, 400);
}

typedef struct {
    const char *bytes;
    const char *answer; /* how it begins; "": none at all */
} Nonsense;

static const Nonsense nonsense[] = {
    { "GET /v1/version HTTP/1.1\r\n\r\n", "HTTP/1.1 400" },
    { "GET /v1/version HTTP/9.9\r\nHost: x\r\n\r\n", "HTTP/1.1 505" },
    { "OPTIONS /v1/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 405" },
    { "HEAD /v1/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 405" },
    { "POST /v1/clusters HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 415" },
    { "POST /v1/clusters HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
      "HTTP/1.1 415" },
    { "GET * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 404" },
    { "POST /v1/clusters HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n", "HTTP/1.1 400" },
    { "POST /v1/clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", "HTTP/1.1 413" },
    { "POST /v1/clusters HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400" },
    { "GET /v1/version HTTP/1.1\r\nHost: x\r\nAccept: a\r\nAccept: b\r\nConnection: close\r\n\r\n", "HTTP/1.1 400" },
};

static void
test_nonsense(Env *env, gconstpointer data)
{
    g_autofree char *before = dump(env);
    for (guint i = 0; i < G_N_ELEMENTS(nonsense); i++) {
        g_test_message("%s", nonsense[i].bytes);
        g_autofree char *got = talk(env, nonsense[i].bytes, strlen(nonsense[i].bytes), NULL);
        g_assert_true(g_str_has_prefix(got, nonsense[i].answer));
    }
    g_autofree char *filler = g_strnfill(20000, 'x');
    g_autofree char *long_header = g_strdup_printf("X: %s\r\n", filler);
    g_auto(Answer) headers = ask_with(env, "alice", long_header, "GET /v1/version", NULL);
    g_assert_cmpuint(headers.status, ==, 431);
    g_autofree char *after = dump(env);
    g_assert_cmpstr(before, ==, after);
}

static void
test_chunks(Env *env, gconstpointer data)
{
    g_autofree char *body = g_strdup_printf(SPEC, "cfd");
    g_autofree char *request =
        g_strdup_printf("POST /v1/clusters?tenant=acme HTTP/1.1\r\nHost: x\r\nContent-Type: application/json; charset=utf-8\r\n"
                        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n",
                        strlen(body), body);
    g_autofree char *got = talk(env, request, strlen(request), NULL);
    g_assert_true(g_str_has_prefix(got, "HTTP/1.1 201"));
}

static gboolean
has_record(WeftStore *store, WeftKind kind, const char *key)
{
    g_autoptr(WeftRecord) record = weft_store_get(store, kind, key, NULL);
    return record != NULL;
}

/* --- life --- */

/* The server goes while a commit is on its way: the commit ends, the answer does not, and nothing is used after its end. */
static void
test_stop_with_a_commit_under_way(Env *env, gconstpointer data)
{
    g_autofree char *body = g_strdup_printf(SPEC, "cfd");
    g_autofree char *request =
        g_strdup_printf("POST /v1/clusters?tenant=acme HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        strlen(body), body);
    Call call = { .socket = env->socket, .send = request, .size = strlen(request), .got = g_string_new(NULL) };
    GThread *thread = g_thread_new("client", call_thread, &call);
    /* The clock of the test is the store: once the cluster can be read, its callback is at hand or has run. */
    while (!has_record(env->store, WEFT_KIND_CLUSTER, "acme/cfd"))
        g_main_context_iteration(NULL, FALSE);
    g_clear_pointer(&env->api, weft_api_free);
    g_thread_join(thread);
    g_string_free(call.got, TRUE);
}

static void
test_socket(Env *env, gconstpointer data)
{
    GError *error = NULL;
    g_assert_null(weft_api_new(env->store, &env->options, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
    g_clear_error(&error);
    g_assert_cmpuint(status(env, NULL, "GET /v1/version", NULL), ==, 200);

    WeftApiOptions options = env->options;
    g_autofree char *file = g_build_filename(env->folder, "file", NULL);
    g_assert_true(g_file_set_contents(file, "precious", -1, NULL));
    options.socket_path = file;
    g_assert_null(weft_api_new(env->store, &options, &error));
    g_assert_nonnull(strstr(error->message, "is not a socket"));
    g_assert_true(g_file_test(file, G_FILE_TEST_IS_REGULAR));
    g_clear_error(&error);

    options.socket_path = "/nonexistent/weft.sock";
    g_assert_null(weft_api_new(env->store, &options, &error));
    g_assert_nonnull(strstr(error->message, "does the folder exist?"));
    g_clear_error(&error);

    options = env->options;
    options.tcp_address = "127.0.0.1:0";
    weft_api_free(env->api);
    env->api = weft_api_new(env->store, &options, &error);
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_clear_error(&error);
}

static void
test_stale_socket(Env *env, gconstpointer data)
{
    g_clear_pointer(&env->api, weft_api_free);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    g_strlcpy(address.sun_path, env->socket, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    g_assert_cmpint(bind(fd, (const struct sockaddr *)&address, sizeof address), ==, 0);
    close(fd);
    start(env);
    g_assert_cmpuint(status(env, NULL, "GET /v1/version", NULL), ==, 200);
}

static void
test_openapi_is_served(Env *env, gconstpointer data)
{
    g_auto(Answer) answer = ask(env, "victor", "GET /v1/openapi.json", NULL);
    g_assert_cmpstr(text_of(&answer, "openapi"), ==, "3.1.0");
}

#define ADD(name, function) g_test_add("/api/" name, Env, NULL, set_up, function, tear_down)

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("authentication", test_authentication);
    ADD("tokens", test_tokens);
    ADD("removed-tenant", test_removed_tenant_takes_its_people);
    ADD("isolation", test_isolation);
    ADD("quota", test_quota);
    ADD("etag", test_etag);
    ADD("idempotency", test_idempotency);
    ADD("pages", test_pages);
    ADD("hosts", test_hosts);
    ADD("stream-replay", test_stream_replays_without_gap);
    ADD("stream-news", test_stream_of_news);
    ADD("stream-limit", test_stream_limit);
    ADD("images", test_images_must_be_there);
    ADD("no-images", test_no_folder_no_images);
    ADD("rate", test_rate);
    ADD("body", test_body_limits);
    ADD("nonsense", test_nonsense);
    ADD("chunks", test_chunks);
    ADD("stop-with-commit", test_stop_with_a_commit_under_way);
    ADD("socket", test_socket);
    ADD("stale-socket", test_stale_socket);
    ADD("openapi", test_openapi_is_served);
    return g_test_run();
}
