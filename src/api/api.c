#include "api.h"

#include "certificates.h"
#include "errors.h"
#include "file.h"
#include "listen.h"
#include "routes.h"
#include "server.h"

#include <unistd.h>

const WeftApiOptions weft_api_defaults = {
    .socket_path = "/run/weft/weft.sock",
    .connections = 1024,
    .connections_per_address = 64,
    .body_max = 1024 * 1024,
    .requests_per_second = 200,
    .requests_burst = 400,
    .processor_per_tenant = 20,
    .streams = 256,
    .sessions = 256,
    .trials = 32,
    .questions = 64,
    .uploads = 64,
    .idle_timeout = 10 * G_USEC_PER_SEC,
    .token_lifetime = 90 * G_TIME_SPAN_DAY,
    .token_lifetime_max = 365 * G_TIME_SPAN_DAY,
};

#define ADMINS 16         /* connections of administrators on this machine, at the same time */
#define CONNECTIONS_MIN 8 /* however few descriptors there are */

struct WeftApi {
    WeftBlobs *blobs;
    WeftCertificates *certificates; /* NULL: no TLS */
    WeftServer *server;
    GPtrArray *socket_paths;
    guint port;
};

/* --- descriptors --- */

/* Of each kind of listener; the socket for everybody and TLS have the same number each. */
static guint
share_of(const WeftApiOptions *options)
{
    return options->tcp_address ? MAX(options->connections / 2, 1) : options->connections;
}

guint
weft_api_descriptors(const WeftApiOptions *options)
{
    guint share = share_of(options);
    guint tls = options->tcp_address ? weft_listener_descriptors(WEFT_LISTENER_TLS, share) : 0;
    guint nodes = MIN(options->sessions, options->connections); /* the other end of each */
    return weft_listener_descriptors(WEFT_LISTENER_USERS, share) + tls + nodes +
           weft_listener_descriptors(WEFT_LISTENER_ADMINS, ADMINS);
}

gboolean
weft_api_fit_descriptors(WeftApiOptions *options, guint64 descriptors)
{
    guint wished = options->connections;
    while (options->connections > CONNECTIONS_MIN && weft_api_descriptors(options) > descriptors / 2)
        options->connections--;
    return options->connections < wished;
}

/* --- listening --- */

static gboolean
listen_unix(WeftApi *api, const WeftServerSocket *socket, guint mode, const char *group, GError **error)
{
    WeftServerSocket bound = *socket;
    bound.fd = weft_listen_unix(socket->name, mode, group, error);
    if (bound.fd < 0)
        return FALSE;
    g_ptr_array_add(api->socket_paths, g_strdup(socket->name));
    weft_server_listen(api->server, &bound);
    return TRUE;
}

static gboolean
listen_locally(WeftApi *api, const WeftApiOptions *options, GError **error)
{
    g_autofree char *admin_path = weft_file_admin_socket(options->socket_path);
    WeftServerSocket users = { .kind = WEFT_LISTENER_USERS, .name = options->socket_path, .connections = share_of(options) };
    WeftServerSocket admins = { .kind = WEFT_LISTENER_ADMINS, .name = admin_path, .connections = ADMINS };
    /* Whoever can connect to the one for users finds the other one there as well. */
    return listen_unix(api, &admins, 0600, NULL, error) &&
           listen_unix(api, &users, options->socket_group ? 0660 : 0666, options->socket_group, error);
}

static gboolean
listen_tcp(WeftApi *api, const WeftApiOptions *options, GError **error)
{
    if (!options->tls_certificate || !options->tls_key) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "TCP on %s needs a TLS certificate and its key",
                    options->tcp_address);
        return FALSE;
    }
    api->certificates = weft_certificates_new(options->tls_certificate, options->tls_key, error);
    int fd = api->certificates ? weft_listen_tcp(options->tcp_address, &api->port, error) : -1;
    if (fd < 0)
        return FALSE;
    WeftServerSocket socket = {
        .kind = WEFT_LISTENER_TLS,
        .fd = fd,
        .name = options->tcp_address,
        .connections = share_of(options),
        .certificates = api->certificates,
    };
    weft_server_listen(api->server, &socket);
    return TRUE;
}

/* --- life --- */

WeftApi *
weft_api_new(WeftStore *store, const WeftApiOptions *options, GError **error)
{
    g_autoptr(WeftApi) api = g_new0(WeftApi, 1);
    api->socket_paths = g_ptr_array_new_with_free_func(g_free);
    if (options->images && !(api->blobs = weft_blobs_new(store, options->images, options->reserve, error)))
        return NULL;
    api->server = weft_server_new(store, options, api->blobs, error);
    if (!api->server || !listen_locally(api, options, error) || (options->tcp_address && !listen_tcp(api, options, error)))
        return NULL;
    return g_steal_pointer(&api);
}

void
weft_api_free(WeftApi *api)
{
    if (!api)
        return;
    for (guint i = 0; i < api->socket_paths->len; i++)
        unlink(api->socket_paths->pdata[i]);
    weft_server_free(api->server);
    weft_certificates_free(api->certificates);
    weft_blobs_free(api->blobs);
    g_ptr_array_unref(api->socket_paths);
    g_free(api);
}

void
weft_api_reload(WeftApi *api)
{
    if (api->certificates)
        weft_certificates_reload(api->certificates);
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
        json_array_append_new(table, json_pack("{s:s, s:s, s:s, s:b}", "method", route->method, "path", route->path, "role",
                                               weft_role_words[route->role], "audited", weft_route_is_audited(route)));
    return table;
}
