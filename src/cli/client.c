#include "client.h"

#include "backoff.h"
#include "errors.h"
#include "file.h"
#include "id.h"
#include "yaml.h"

#include <errno.h>
#include <gio/gio.h>
#include <signal.h>
#include <unistd.h>

#define ANSWER_MAX (32 << 20)
#define CONNECT_TIMEOUT_MS 5000
#define TIMEOUT_MS 30000
#define PATIENCE_SECONDS 30 /* for which lost connections and 429 are tried again */
#define BUSY_TRIES 5        /* … of 429 */
#define PAGE_LIMIT "1000"

struct WeftClient {
    char *url;    /* as the user wrote it */
    char *base;   /* what curl gets */
    char *socket; /* NULL: TCP */
    char *admin;  /* the socket that short requests of an administrator of weftd's machine take; NULL: none */
    char *token;
    char *ca;
    guint timeout_ms;
    CURL *easy; /* of ordinary requests; keeps its connection */
};

/* What one attempt left behind. */
typedef struct Answer {
    CURL *easy;
    FILE *file; /* where it goes; NULL: text */
    GString *text;
    char *etag;
    long status;
    char detail[CURL_ERROR_SIZE];
} Answer;

static volatile sig_atomic_t interrupted;

static void
on_interrupt(int number)
{
    interrupted = 1;
}

void
weft_client_catch_interrupts(void)
{
    struct sigaction action = { .sa_handler = on_interrupt };
    sigaction(SIGINT, &action, NULL);
}

void
weft_client_forget_interrupt(void)
{
    interrupted = 0;
}

gboolean
weft_client_interrupted(GError **error)
{
    if (!interrupted)
        return FALSE;
    g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_CANCELLED, "interrupted");
    return TRUE;
}

static gboolean
set_url(WeftClient *client, const char *url, GError **error)
{
    client->url = g_strdup(url);
    if (g_str_has_prefix(url, "unix:///") || (g_str_has_prefix(url, "unix:/") && url[6] != '/')) {
        client->socket = g_strdup(url + (url[6] == '/' ? strlen("unix://") : strlen("unix:")));
        client->base = g_strdup("http://weft");
        return TRUE;
    }
    if (g_str_has_prefix(url, "https://") && url[strlen("https://")] != '\0') {
        client->base = g_strdup(url);
        if (g_str_has_suffix(client->base, "/"))
            client->base[strlen(client->base) - 1] = '\0';
        return TRUE;
    }
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "URL '%s': write unix:///PATH or https://HOST:PORT", url);
    return FALSE;
}

/* Nobody but root and weftd's user may open it. With a token the caller is somebody else. */
static void
find_admin_socket(WeftClient *client)
{
    g_autofree char *path = client->socket && !client->token ? weft_file_admin_socket(client->socket) : NULL;
    if (path && access(path, R_OK | W_OK) == 0)
        client->admin = g_steal_pointer(&path);
}

WeftClient *
weft_client_new(const WeftClientOptions *options, GError **error)
{
    g_autoptr(WeftClient) client = g_new0(WeftClient, 1);
    if (!set_url(client, options->url, error))
        return NULL;
    client->token = g_strdup(options->token);
    client->ca = g_strdup(options->ca);
    client->timeout_ms = options->timeout_ms ? options->timeout_ms : TIMEOUT_MS;
    find_admin_socket(client);
    client->easy = curl_easy_init();
    if (!client->easy) {
        g_set_error_literal(error, WEFT_ERROR, WEFT_ERROR_FAILED, "libcurl cannot be initialised");
        return NULL;
    }
    return g_steal_pointer(&client);
}

void
weft_client_free(WeftClient *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->easy);
    g_free(client->url);
    g_free(client->base);
    g_free(client->socket);
    g_free(client->admin);
    g_free(client->token);
    g_free(client->ca);
    g_free(client);
}

const char *
weft_client_url(const WeftClient *client)
{
    return client->url;
}

void
weft_response_clear(WeftResponse *response)
{
    g_clear_pointer(&response->etag, g_free);
    g_clear_pointer(&response->body, json_decref);
    g_clear_pointer(&response->bytes, g_bytes_unref);
}

static int
on_tick(void *data, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
    return interrupted;
}

void
weft_client_prepare(WeftClient *client, CURL *easy, const char *path)
{
    g_autofree char *url = g_strconcat(client->base, path, NULL);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "weft/" WEFT_VERSION);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)MIN(client->timeout_ms, CONNECT_TIMEOUT_MS));
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_tick);
    if (client->token) {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, client->token);
    }
    if (client->socket) {
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->socket);
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
        return;
    }
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
    if (client->ca)
        curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca);
}

char *
weft_client_upgrade_text(const WeftClient *client, const char *path, const char *protocol)
{
    const char *host = strstr(client->base, "://") + strlen("://");
    gsize length = strcspn(host, "/");
    g_autofree char *bearer = client->token ? g_strdup_printf("Authorization: Bearer %s\r\n", client->token) : g_strdup("");
    return g_strdup_printf("GET %s%s HTTP/1.1\r\nHost: %.*s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n"
                           "User-Agent: weft/" WEFT_VERSION "\r\n%s\r\n",
                           host + length, path, (int)length, host, protocol, bearer);
}

/* curl names the port even where there is none: the kernel's word is better. */
static char *
why_lost(CURL *easy, CURLcode result, const char *detail)
{
    long number = 0;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    if (result == CURLE_COULDNT_CONNECT && number != 0)
        return g_strdup(g_strerror((int)number));
    return g_strdup(detail[0] ? detail : curl_easy_strerror(result));
}

static gboolean
is_denied(CURL *easy)
{
    long number = 0;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    return number == EACCES;
}

void
weft_client_set_lost(WeftClient *client, CURL *easy, CURLcode result, const char *detail, GError **error)
{
    if (weft_client_interrupted(error))
        return;
    g_autofree char *why = why_lost(easy, result, detail);
    const char *format = "cannot reach weftd at %s: %s: is it running? (weftd --config FILE, or set WEFT_URL)";
    if (result == CURLE_OPERATION_TIMEDOUT || result == CURLE_GOT_NOTHING || result == CURLE_RECV_ERROR)
        format = "weftd at %s gave no answer: %s";
    else if (result == CURLE_COULDNT_CONNECT && is_denied(easy))
        format = "cannot reach weftd at %s: %s: you may not open its socket; an admin can add you to its group, or use https";
    else if (result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE)
        format = "cannot trust weftd at %s: %s (--ca FILE names its authority)";
    else if (result == CURLE_WRITE_ERROR)
        format = "weftd at %s answered with more than fits: %s";
    g_autofree char *message = g_strdup_printf(format, client->url, why);
    g_set_error_literal(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE, message);
}

/* For an answer that is no problem document: from a proxy, say. */
static WeftErrorCode
code_of_status(long status)
{
    for (WeftErrorCode code = WEFT_ERROR_INVALID; code < WEFT_ERROR_COUNT; code++)
        if ((long)weft_error_http_status(code) == status)
            return code;
    return status >= 500 ? WEFT_ERROR_UNAVAILABLE : WEFT_ERROR_FAILED;
}

void
weft_client_set_problem(long status, const char *text, gsize length, GError **error)
{
    json_t *problem = weft_json_parse(text, length, NULL);
    const char *code = json_string_value(json_object_get(problem, "code"));
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    if (!detail)
        detail = json_string_value(json_object_get(problem, "title"));
    WeftErrorCode number = code ? weft_error_from_name(code) : code_of_status(status);
    if (detail)
        g_set_error_literal(error, WEFT_ERROR, number, detail);
    else
        g_set_error(error, WEFT_ERROR, number, "weftd answered with HTTP status %ld and no explanation", status);
    json_decref(problem);
}

static size_t
on_body(char *bytes, size_t size, size_t count, void *data)
{
    Answer *answer = data;
    long status = 0;
    if (answer->file && curl_easy_getinfo(answer->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK && status < 300)
        return fwrite(bytes, size, count, answer->file) * size;
    if (answer->text->len + size * count > ANSWER_MAX)
        return 0;
    g_string_append_len(answer->text, bytes, size * count);
    return size * count;
}

static size_t
on_header(const char *bytes, size_t size, size_t count, void *data)
{
    Answer *answer = data;
    gsize length = size * count;
    if (length > 5 && g_ascii_strncasecmp(bytes, "etag:", 5) == 0) {
        g_free(answer->etag);
        answer->etag = g_strstrip(g_strndup(bytes + 5, length - 5));
    }
    return length;
}

static struct curl_slist *
call_headers(const WeftCall *call, const char *key)
{
    struct curl_slist *headers = curl_slist_append(NULL, "Accept: application/json");
    headers = curl_slist_append(headers, "Expect:");
    if (call->body)
        headers = curl_slist_append(headers, "Content-Type: application/json");
    if (call->raw)
        headers = curl_slist_append(headers, "Content-Type: application/octet-stream");
    if (key) {
        g_autofree char *line = g_strconcat("Idempotency-Key: ", key, NULL);
        headers = curl_slist_append(headers, line);
    }
    if (call->if_match) {
        g_autofree char *line = g_strconcat("If-Match: ", call->if_match, NULL);
        headers = curl_slist_append(headers, line);
    }
    return headers;
}

static CURLcode
attempt(WeftClient *client, const WeftCall *call, const char *key, Answer *answer)
{
    CURL *easy = client->easy;
    char *body = call->body ? json_dumps(call->body, JSON_COMPACT) : NULL;
    struct curl_slist *headers = call_headers(call, key);
    g_string_truncate(answer->text, 0);
    g_clear_pointer(&answer->etag, g_free);
    answer->easy = easy;
    answer->file = call->file;
    if (call->file && (fseek(call->file, 0, SEEK_SET) < 0 || ftruncate(fileno(call->file), 0) < 0))
        return CURLE_WRITE_ERROR;
    answer->detail[0] = '\0';

    curl_easy_reset(easy);
    weft_client_prepare(client, easy, call->path);
    if (client->admin)
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->admin);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, call->file ? 0 : (long)client->timeout_ms);
    if (body || g_strcmp0(call->method, "POST") == 0)
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body ? body : "");
    if (call->raw) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->raw_length);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->raw);
    }
    if (call->method)
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, answer);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, answer->detail);
    CURLcode result = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer->status);
    curl_slist_free_all(headers);
    free(body);
    return result;
}

/* Was the connection lost after it had been there? Then what was asked for may have been done, and only a request that can be
 * repeated is. Where nobody listens from the start, trying again would only make the user wait for the message. */
static gboolean
was_lost(CURLcode result, guint tries)
{
    return result == CURLE_GOT_NOTHING || result == CURLE_RECV_ERROR || result == CURLE_SEND_ERROR ||
           result == CURLE_PARTIAL_FILE || (result == CURLE_COULDNT_CONNECT && tries > 0);
}

/* How long to wait before the next attempt; -1: the answer stands. */
static gint64
retry_delay(WeftClient *client, CURLcode result, long status, gboolean repeatable, guint tries)
{
    static const WeftBackoff backoff = { 100 * G_TIME_SPAN_MILLISECOND, 3 * G_TIME_SPAN_SECOND };
    if (result == CURLE_OK && status == 429) {
        if (tries >= BUSY_TRIES)
            return -1;
        curl_off_t seconds = 0;
        curl_easy_getinfo(client->easy, CURLINFO_RETRY_AFTER, &seconds);
        return MAX(weft_backoff_delay(&backoff, tries + 1), CLAMP(seconds, 0, 10) * G_TIME_SPAN_SECOND);
    }
    return repeatable && was_lost(result, tries) ? weft_backoff_delay(&backoff, tries + 1) : -1;
}

/* Nobody should have to guess why nothing happens. */
static void
tell_busy(const Answer *answer, guint tries, gint64 delay)
{
    g_autoptr(GError) error = NULL;
    weft_client_set_problem(answer->status, answer->text->str, answer->text->len, &error);
    gint64 seconds = (delay + G_TIME_SPAN_SECOND - 1) / G_TIME_SPAN_SECOND;
    fprintf(stderr, "weft: %s (trying again in %" G_GINT64_FORMAT " s, %u of %d)\n", error->message, seconds, tries + 1,
            BUSY_TRIES);
}

static CURLcode
perform(WeftClient *client, const WeftCall *call, Answer *answer)
{
    gboolean post = g_strcmp0(call->method, "POST") == 0;
    g_autofree char *key = NULL;
    if (post)
        key = g_strdup_printf("%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x", weft_random_u64(), weft_random_u64());

    gint64 end = g_get_monotonic_time() + PATIENCE_SECONDS * G_TIME_SPAN_SECOND;
    for (guint tries = 0;; tries++) {
        CURLcode result = attempt(client, call, key, answer);
        if (result == CURLE_COULDNT_CONNECT && client->admin) {
            g_clear_pointer(&client->admin, g_free);
            result = attempt(client, call, key, answer);
        }
        gint64 delay = retry_delay(client, result, answer->status, post || !call->method, tries);
        if (delay < 0 || interrupted || g_get_monotonic_time() + delay > end)
            return result;
        if (answer->status == 429)
            tell_busy(answer, tries, delay);
        g_poll(NULL, 0, (gint)(delay / 1000)); /* unlike g_usleep() it ends at Ctrl-C */
    }
}

static gboolean
take_answer(WeftClient *client, CURLcode result, Answer *answer, gboolean bytes, WeftResponse *response, GError **error)
{
    if (result != CURLE_OK) {
        weft_client_set_lost(client, client->easy, result, answer->detail, error);
        return FALSE;
    }
    response->status = answer->status;
    if (answer->status >= 300) {
        weft_client_set_problem(answer->status, answer->text->str, answer->text->len, error);
        return FALSE;
    }
    if (bytes) {
        response->bytes = g_bytes_new(answer->text->str, answer->text->len);
    } else if (answer->text->len > 0) {
        response->body = weft_json_parse(answer->text->str, answer->text->len, error);
        if (!response->body) {
            g_prefix_error(error, "weftd at %s answered with what is no JSON: ", client->url);
            return FALSE;
        }
    }
    response->etag = g_steal_pointer(&answer->etag);
    return TRUE;
}

gboolean
weft_client_call(WeftClient *client, const WeftCall *call, WeftResponse *ret_response, GError **error)
{
    g_auto(WeftResponse) ignored = { 0 };
    WeftResponse *response = ret_response ? ret_response : &ignored;
    Answer answer = { .text = g_string_new(NULL) };
    CURLcode result = perform(client, call, &answer);
    gboolean ok = take_answer(client, result, &answer, call->bytes, response, error);
    g_string_free(answer.text, TRUE);
    g_free(answer.etag);
    return ok;
}

json_t *
weft_client_get(WeftClient *client, const char *path, GError **error)
{
    g_auto(WeftResponse) response = { 0 };
    if (!weft_client_call(client, &(WeftCall){ .path = path }, &response, error))
        return NULL;
    if (!response.body)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_FAILED, "weftd at %s answered with nothing", client->url);
    return g_steal_pointer(&response.body);
}

json_t *
weft_client_list(WeftClient *client, const char *path, GError **error)
{
    json_t *items = json_array();
    g_autofree char *after = NULL;
    do {
        g_autofree char *page_path = weft_client_query(g_strdup(path), "limit", PAGE_LIMIT);
        page_path = weft_client_query(g_steal_pointer(&page_path), "after", after);
        json_t *page = weft_client_get(client, page_path, error);
        if (!page) {
            json_decref(items);
            return NULL;
        }
        json_array_extend(items, json_object_get(page, "items"));
        g_free(after);
        after = g_strdup(json_string_value(json_object_get(page, "next")));
        json_decref(page);
    } while (after);
    return items;
}

char *
weft_client_path(const char *base, const char *name)
{
    g_autofree char *escaped = g_uri_escape_string(name, NULL, FALSE);
    return g_strconcat(base, "/", escaped, NULL);
}

char *
weft_client_query(char *path, const char *key, const char *value)
{
    if (!value)
        return path;
    g_autofree char *old = path;
    g_autofree char *escaped = g_uri_escape_string(value, NULL, FALSE);
    return g_strconcat(old, strchr(old, '?') ? "&" : "?", key, "=", escaped, NULL);
}
