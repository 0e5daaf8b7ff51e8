#include "auth.h"

#include "clock.h"
#include "errors.h"
#include "id.h"
#include "problem.h"
#include "records.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#define SECRET_BYTES 24

/* A site has 2^64 addresses of IPv6: they count as one. */
static char *
party_of_six(const struct sockaddr_in6 *six)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address = six->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address))
        return g_strdup(inet_ntop(AF_INET, address.s6_addr + 12, text, sizeof text));
    memset(address.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &address, text, sizeof text);
    return g_strdup_printf("%s/64", text);
}

static char *
party_of(const struct sockaddr_storage *address)
{
    char text[INET_ADDRSTRLEN];
    if (address->ss_family == AF_INET6)
        return party_of_six((const struct sockaddr_in6 *)address);
    return g_strdup(inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, sizeof text));
}

static char *
address_of(const struct sockaddr_storage *address)
{
    char text[INET6_ADDRSTRLEN];
    const struct sockaddr_in *four = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    if (address->ss_family == AF_INET)
        return g_strdup_printf("%s:%u", inet_ntop(AF_INET, &four->sin_addr, text, sizeof text), ntohs(four->sin_port));
    if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        return g_strdup_printf("%s:%u", inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, text, sizeof text),
                               ntohs(six->sin6_port));
    return g_strdup_printf("[%s]:%u", inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text), ntohs(six->sin6_port));
}

WeftPeer *
weft_peer_new(int fd, const struct sockaddr_storage *address)
{
    gboolean local = address->ss_family == AF_UNIX;
    struct ucred credentials;
    socklen_t length = sizeof credentials;
    if (local && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
        return NULL;
    WeftPeer *peer = g_new0(WeftPeer, 1);
    peer->local = local;
    peer->uid = local ? credentials.uid : 0;
    peer->pid = local ? (guint)credentials.pid : 0;
    peer->address = local ? NULL : address_of(address);
    peer->party = local ? g_strdup_printf("uid %u", peer->uid) : party_of(address);
    return peer;
}

void
weft_peer_free(WeftPeer *peer)
{
    if (!peer)
        return;
    g_free(peer->user);
    g_free(peer->address);
    g_free(peer->party);
    g_free(peer);
}

gboolean
weft_peer_is_admin(const WeftPeer *peer)
{
    return peer->local && (peer->uid == 0 || peer->uid == geteuid());
}

char *
weft_auth_secret(void)
{
    guint8 bytes[SECRET_BYTES];
    weft_random_bytes(bytes, sizeof bytes);
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < sizeof bytes; i++)
        g_string_append_printf(text, "%02x", bytes[i]);
    return g_string_free(text, FALSE);
}

char *
weft_auth_hash(const char *secret)
{
    return g_compute_checksum_for_string(G_CHECKSUM_SHA256, secret, -1);
}

/* The lookup is by the hash of what was sent: how long it takes tells nothing of any secret. */
static WeftToken *
find_token(WeftStore *store, const char *bearer, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(bearer, "_", 3);
    if (g_strv_length(parts) != 3 || strcmp(parts[0], "weft") != 0)
        return NULL;
    g_autofree char *hash = weft_auth_hash(parts[2]);
    g_autoptr(WeftRecord) record = weft_store_token_of_hash(store, hash, error);
    g_autoptr(WeftToken) token = record ? weft_record_token(record, error) : NULL;
    if (!token || strcmp(token->id, parts[1]) != 0 || (token->expires && token->expires <= weft_clock_now()))
        return NULL;
    return g_steal_pointer(&token);
}

static WeftPrincipal *
principal_of(WeftStore *store, const WeftToken *token, GError **error)
{
    g_autoptr(WeftPrincipal) principal = weft_store_load_principal(store, token->principal, NULL, error);
    /* A principal of that name that came later, in another tenant, is somebody else. */
    return principal && g_strcmp0(principal->tenant, token->tenant) == 0 ? g_steal_pointer(&principal) : NULL;
}

static WeftPrincipal *
by_token(WeftStore *store, const char *authorization, GError **error)
{
    if (g_ascii_strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    g_autoptr(WeftToken) token = find_token(store, authorization + 7, error);
    return token ? principal_of(store, token, error) : NULL;
}

static WeftPrincipal *
by_peer(WeftStore *store, const WeftPeer *peer, GError **error)
{
    if (!peer->local)
        return NULL;
    if (weft_peer_is_admin(peer)) {
        WeftPrincipal *admin = g_new0(WeftPrincipal, 1);
        admin->name = peer->user ? g_strdup(peer->user) : g_strdup_printf("%u", peer->uid);
        admin->role = WEFT_ROLE_ADMIN;
        return admin;
    }
    if (!peer->user) {
        weft_problem_refuse(
            error, WEFT_ERROR_UNAVAILABLE,
            "the name of user %u cannot be found out: this machine's user database does not answer; try again later",
            peer->uid);
        return NULL;
    }
    g_autoptr(WeftRecord) record = weft_store_principal_of_user(store, peer->user, error);
    return record ? weft_record_principal(record, error) : NULL;
}

WeftPrincipal *
weft_auth_identify(WeftStore *store, const WeftPeer *peer, const char *authorization, GError **error)
{
    GError *failure = NULL;
    WeftPrincipal *principal = authorization ? by_token(store, authorization, &failure) : by_peer(store, peer, &failure);
    if (principal)
        return principal;
    if (failure && !g_error_matches(failure, WEFT_ERROR, WEFT_ERROR_NOT_FOUND)) {
        g_propagate_error(error, failure);
        return NULL;
    }
    g_clear_error(&failure);
    if (authorization)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_UNAUTHENTICATED,
                    "the token is not known, has expired or was revoked; make one with: weft token create");
    else if (peer->local)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_UNAUTHENTICATED,
                    "user %s is nobody here; an admin can add a principal with \"unix_user\": \"%s\"", peer->user, peer->user);
    else
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_UNAUTHENTICATED, "send a token: Authorization: Bearer weft_…");
    return NULL;
}

/* weft_ID_SECRET: only the id is looked at, as the token has shown who it is already. */
static gboolean
is_of_token(const char *authorization, const char *id)
{
    const char *bearer = authorization ? strchr(authorization, '_') : NULL;
    gsize length = strlen(id);
    return bearer && strncmp(bearer + 1, id, length) == 0 && bearer[1 + length] == '_';
}

gboolean
weft_auth_is_touched(const WeftPrincipal *principal, const char *authorization, const WeftChange *changes, gsize n)
{
    for (gsize i = 0; i < n; i++)
        if ((changes[i].kind == WEFT_KIND_PRINCIPAL && strcmp(changes[i].key, principal->name) == 0) ||
            (changes[i].kind == WEFT_KIND_TOKEN && is_of_token(authorization, changes[i].key)))
            return TRUE;
    return FALSE;
}
