#include "api.h"

#include "errors.h"
#include "file.h"
#include "listen.h"
#include "routes.h"
#include "server.h"

#include <unistd.h>

#define PEM_MAX (256 * 1024)

const WeftApiOptions weft_api_defaults = {
    .socket_path = "/run/weft/weft.sock",
    .connections = 1024,
    .connections_per_address = 64,
    .body_max = 1024 * 1024,
    .requests_per_second = 200,
    .requests_burst = 400,
    .streams = 256,
    .sessions = 256,
    .idle_timeout = 10 * G_USEC_PER_SEC,
};

struct WeftApi {
    WeftBlobs *blobs;
    WeftServer *server;
    char *socket_path;
    guint port;
};

static gboolean
listen_unix(WeftApi *api, const WeftApiOptions *options, guint connections, GError **error)
{
    int fd = weft_listen_unix(options->socket_path, options->socket_group, error);
    if (fd < 0)
        return FALSE;
    api->socket_path = g_strdup(options->socket_path);
    return weft_server_listen(api->server, &(WeftListener){ .fd = fd, .local = TRUE, .connections = connections }, error);
}

static gboolean
listen_tcp(WeftApi *api, const WeftApiOptions *options, guint connections, GError **error)
{
    if (!options->tls_certificate || !options->tls_key) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "TCP on %s needs a TLS certificate and its key",
                    options->tcp_address);
        return FALSE;
    }
    g_autofree char *certificate = weft_file_read(options->tls_certificate, PEM_MAX, NULL, error);
    g_autofree char *key = certificate ? weft_file_read(options->tls_key, PEM_MAX, NULL, error) : NULL;
    int fd = key ? weft_listen_tcp(options->tcp_address, &api->port, error) : -1;
    if (fd < 0)
        return FALSE;
    WeftListener listener = { .fd = fd, .connections = connections, .certificate = certificate, .key = key };
    return weft_server_listen(api->server, &listener, error);
}

WeftApi *
weft_api_new(WeftStore *store, const WeftApiOptions *options, GError **error)
{
    g_autoptr(WeftApi) api = g_new0(WeftApi, 1);
    guint connections = options->tcp_address ? MAX(options->connections / 2, 1) : options->connections;
    if (options->images && !(api->blobs = weft_blobs_new(store, options->images, error)))
        return NULL;
    api->server = weft_server_new(store, options, api->blobs);
    if (!listen_unix(api, options, connections, error))
        return NULL;
    if (options->tcp_address && !listen_tcp(api, options, connections, error))
        return NULL;
    return g_steal_pointer(&api);
}

void
weft_api_free(WeftApi *api)
{
    if (!api)
        return;
    if (api->socket_path)
        unlink(api->socket_path);
    weft_server_free(api->server);
    weft_blobs_free(api->blobs);
    g_free(api->socket_path);
    g_free(api);
}

guint
weft_api_port(const WeftApi *api)
{
    return api->port;
}

json_t *
weft_api_routes(void)
{
    json_t *table = json_array();
    for (const WeftRoute *route = weft_routes; route->method; route++)
        json_array_append_new(table, json_pack("{s:s, s:s, s:s}", "method", route->method, "path", route->path, "role",
                                               weft_role_words[route->role]));
    return table;
}
