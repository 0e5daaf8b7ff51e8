#include "peers.h"

#include "errors.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>

static gboolean
resolve(const char *name, in_addr_t *ret_peer, GError **error)
{
    struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_DGRAM }, *found = NULL;
    int status = getaddrinfo(name, NULL, &hints, &found);
    if (status != 0)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                                 "cannot find the IPv4 address of host %s: %s; give it one in this host's /etc/hosts, or an "
                                 "\"address\" in its description",
                                 name, gai_strerror(status));
    struct sockaddr_in address;
    memcpy(&address, found->ai_addr, sizeof address);
    *ret_peer = address.sin_addr.s_addr;
    freeaddrinfo(found);
    return TRUE;
}

GArray *
weft_peers_resolve(GPtrArray *names, GError **error)
{
    g_autoptr(GArray) peers = g_array_new(FALSE, FALSE, sizeof(in_addr_t));
    for (guint i = 0; i < names->len; i++) {
        in_addr_t peer;
        if (!resolve(g_ptr_array_index(names, i), &peer, error))
            return NULL;
        g_array_append_val(peers, peer);
    }
    return g_steal_pointer(&peers);
}

char *
weft_peers_format(GArray *peers)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < peers->len; i++) {
        char name[INET_ADDRSTRLEN];
        struct in_addr address = { .s_addr = g_array_index(peers, in_addr_t, i) };
        g_string_append_printf(text, "%s\n", inet_ntop(AF_INET, &address, name, sizeof name));
    }
    return g_string_free(text, FALSE);
}

GArray *
weft_peers_parse(const char *text)
{
    GArray *peers = g_array_new(FALSE, FALSE, sizeof(in_addr_t));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line; line++) {
        struct in_addr address;
        if (inet_pton(AF_INET, *line, &address) == 1)
            g_array_append_val(peers, address.s_addr);
    }
    return peers;
}
