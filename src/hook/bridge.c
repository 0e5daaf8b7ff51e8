#include "bridge.h"

#include "errors.h"
#include "netlink.h"
#include "network.h"
#include "seal.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <net/if.h>
#include <netlink/route/link.h>
#include <netlink/route/link/vxlan.h>
#include <netlink/route/neighbour.h>
#include <string.h>

#define VXLAN_PORT 4789

/* How many addresses are learned: a node that sends from ever new ones must not take the host's memory. It is enough for
 * the largest cluster and what runs inside of its nodes; beyond, frames go to all, as those to unknown addresses do. The bridge
 * knows this limit from Linux 6.7 on, which older headers do not tell, and older kernels do not mind. */
#define LEARNED_MAX 8192
#define BRIDGE_LEARNED_MAX 49 /* IFLA_BR_FDB_MAX_LEARNED */

/* --- what is there --- */

typedef struct Link {
    int index;
    int master; /* 0: none */
    char *name;
    char *kind; /* NULL: not a virtual one */
    guint vxlan;
} Link;

static void
link_free(gpointer data)
{
    Link *link = data;
    g_free(link->name);
    g_free(link->kind);
    g_free(link);
}

static void
keep_link(struct nl_object *object, void *data)
{
    struct rtnl_link *route = (struct rtnl_link *)object;
    Link *link = g_new0(Link, 1);
    link->index = rtnl_link_get_ifindex(route);
    link->master = rtnl_link_get_master(route);
    link->name = g_strdup(rtnl_link_get_name(route));
    link->kind = g_strdup(rtnl_link_get_type(route));
    if (rtnl_link_is_vxlan(route))
        rtnl_link_vxlan_get_id(route, &link->vxlan);
    g_ptr_array_add(data, link);
}

static void
keep_links(struct nl_msg *message, gpointer data)
{
    nl_msg_parse(message, keep_link, data);
}

static GPtrArray *
read_links(const WeftHook *hook, GError **error)
{
    g_autoptr(GPtrArray) links = g_ptr_array_new_with_free_func(link_free);
    struct nl_msg *request = nlmsg_alloc_simple(RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP);
    struct ifinfomsg header = { .ifi_family = AF_UNSPEC };
    nlmsg_append(request, &header, sizeof header, NLMSG_ALIGNTO);
    return weft_netlink_ask(hook->netlink, request, keep_links, links, error) ? g_steal_pointer(&links) : NULL;
}

static const Link *
find_link(GPtrArray *links, const char *name)
{
    for (guint i = 0; i < links->len; i++) {
        const Link *link = g_ptr_array_index(links, i);
        if (g_strcmp0(link->name, name) == 0)
            return link;
    }
    return NULL;
}

/* --- making it --- */

/* The request was built; NULL where libnl had no memory for it. */
static gboolean
run(const WeftHook *hook, struct nl_msg *request, const char *verb, const char *name, GError **error)
{
    g_autofree char *what = g_strdup_printf("%s interface %s", verb, name);
    if (!request)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot %s: no memory", what);
    return weft_netlink_do(hook->netlink, request, what, error);
}

static struct nl_msg *
vxlan_request(const char *name, guint vxlan)
{
    struct rtnl_link *link = rtnl_link_vxlan_alloc();
    struct nl_msg *request = NULL;
    if (!link)
        return NULL;
    rtnl_link_set_name(link, name);
    rtnl_link_set_mtu(link, WEFT_NETWORK_MTU);
    rtnl_link_vxlan_set_id(link, vxlan);
    rtnl_link_vxlan_set_port(link, VXLAN_PORT);
    rtnl_link_vxlan_set_learning(link, 1);
    rtnl_link_vxlan_set_limit(link, LEARNED_MAX);
    if (rtnl_link_build_add_request(link, NLM_F_CREATE | NLM_F_EXCL, &request) < 0)
        request = NULL;
    rtnl_link_put(link);
    return request;
}

/* libnl knows none of the bridge's own settings. */
static struct nl_msg *
bridge_request(const char *name, int flags)
{
    struct nl_msg *request = nlmsg_alloc_simple(RTM_NEWLINK, NLM_F_REQUEST | flags);
    struct ifinfomsg header = { .ifi_family = AF_UNSPEC };
    nlmsg_append(request, &header, sizeof header, NLMSG_ALIGNTO);
    nla_put_string(request, IFLA_IFNAME, name);
    nla_put_u32(request, IFLA_MTU, WEFT_NETWORK_MTU);
    struct nlattr *info = nla_nest_start(request, IFLA_LINKINFO);
    nla_put_string(request, IFLA_INFO_KIND, "bridge");
    struct nlattr *data = nla_nest_start(request, IFLA_INFO_DATA);
    nla_put_u32(request, IFLA_BR_STP_STATE, 0);
    nla_put_u32(request, IFLA_BR_FORWARD_DELAY, 0);
    nla_put_u8(request, IFLA_BR_MCAST_SNOOPING, 0);
    nla_put_u16(request, IFLA_BR_GROUP_FWD_MASK, WEFT_SEAL_BRIDGE_GROUPS);
    nla_put_u32(request, BRIDGE_LEARNED_MAX, LEARNED_MAX);
    nla_nest_end(request, data);
    nla_nest_end(request, info);
    return request;
}

static struct nl_msg *
up_request(const Link *link)
{
    struct nl_msg *request = nlmsg_alloc_simple(RTM_NEWLINK, NLM_F_REQUEST);
    struct ifinfomsg header = { .ifi_family = AF_UNSPEC, .ifi_index = link->index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP };
    nlmsg_append(request, &header, sizeof header, NLMSG_ALIGNTO);
    return request;
}

static struct nl_msg *
port_request(const Link *link, const Link *bridge)
{
    struct nl_msg *request = nlmsg_alloc_simple(RTM_NEWLINK, NLM_F_REQUEST);
    struct ifinfomsg header = { .ifi_family = AF_UNSPEC, .ifi_index = link->index };
    nlmsg_append(request, &header, sizeof header, NLMSG_ALIGNTO);
    nla_put_u32(request, IFLA_MASTER, (guint32)bridge->index);
    return request;
}

/* Makes an interface unless it is there, and checks that what has its name is it. */
static gboolean
ensure_link(const WeftHook *hook, GPtrArray *links, const char *name, guint vxlan, GError **error)
{
    const char *kind = vxlan ? "vxlan" : "bridge";
    const Link *link = find_link(links, name);
    if (!link)
        return run(hook, vxlan ? vxlan_request(name, vxlan) : bridge_request(name, NLM_F_CREATE | NLM_F_EXCL), "make", name,
                   error);
    if (g_strcmp0(link->kind, kind) != 0 || link->vxlan != vxlan)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "interface %s exists and is not weft's %s: remove it, or give weft other VXLAN numbers", name,
                                 kind);
    return vxlan || run(hook, bridge_request(name, 0), "set up", name, error);
}

static gboolean
join(const WeftHook *hook, const char *bridge, const char *tunnel, GError **error)
{
    g_autoptr(GPtrArray) links = read_links(hook, error);
    const Link *master = links ? find_link(links, bridge) : NULL;
    const Link *port = links ? find_link(links, tunnel) : NULL;
    if (!links)
        return FALSE;
    if (!master || !port)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "interface %s is gone again: let nobody else manage it",
                                 master ? tunnel : bridge);
    return weft_seal_bridge(hook, master->index, bridge, error) &&
           run(hook, port_request(port, master), "make a port of", tunnel, error) &&
           weft_seal_port(hook, port->index, tunnel, error) && run(hook, up_request(port), "put up", tunnel, error) &&
           run(hook, up_request(master), "put up", bridge, error);
}

gboolean
weft_bridge_ensure(const WeftHook *hook, guint vxlan, GError **error)
{
    g_autofree char *bridge = weft_network_bridge(vxlan);
    g_autofree char *tunnel = weft_network_vxlan(vxlan);
    g_autoptr(GPtrArray) links = read_links(hook, error);
    if (!links)
        return FALSE;
    return ensure_link(hook, links, bridge, 0, error) && ensure_link(hook, links, tunnel, vxlan, error) &&
           weft_seal_mute(bridge, error) && weft_seal_mute(tunnel, error) && join(hook, bridge, tunnel, error);
}

gboolean
weft_bridge_seal(const WeftHook *hook, guint vxlan, GError **error)
{
    g_autofree char *name = weft_network_bridge(vxlan);
    g_autoptr(GPtrArray) links = read_links(hook, error);
    const Link *bridge = links ? find_link(links, name) : NULL;
    for (guint i = 0; bridge && i < links->len; i++) {
        const Link *link = g_ptr_array_index(links, i);
        if (link->master == bridge->index &&
            (!weft_seal_mute(link->name, error) || !weft_seal_port(hook, link->index, link->name, error)))
            return FALSE;
    }
    return links != NULL;
}

/* --- peers --- */

/* An entry of the VXLAN's table: where frames for a MAC go. */
typedef struct Entry {
    guint8 mac[6];
    in_addr_t peer;
} Entry;

typedef struct Table {
    int index;
    GArray *entries; /* Entry */
} Table;

static void
keep_entry(struct nl_msg *message, gpointer data)
{
    Table *table = data;
    struct rtnl_neigh *neigh = NULL;
    if (rtnl_neigh_parse(nlmsg_hdr(message), &neigh) < 0)
        return;
    struct nl_addr *mac = rtnl_neigh_get_lladdr(neigh);
    struct nl_addr *peer = rtnl_neigh_get_dst(neigh);
    if (rtnl_neigh_get_ifindex(neigh) == table->index && mac && nl_addr_get_len(mac) == sizeof((Entry){ 0 }.mac) && peer &&
        nl_addr_get_len(peer) == sizeof(in_addr_t)) {
        Entry entry;
        memcpy(entry.mac, nl_addr_get_binary_addr(mac), sizeof entry.mac);
        memcpy(&entry.peer, nl_addr_get_binary_addr(peer), sizeof entry.peer);
        g_array_append_val(table->entries, entry);
    }
    rtnl_neigh_put(neigh);
}

static GArray *
read_entries(const WeftHook *hook, int index, GError **error)
{
    g_autoptr(GArray) entries = g_array_new(FALSE, FALSE, sizeof(Entry));
    Table table = { .index = index, .entries = entries };
    struct nl_msg *request = nlmsg_alloc_simple(RTM_GETNEIGH, NLM_F_REQUEST | NLM_F_DUMP);
    struct ifinfomsg header = { .ifi_family = AF_BRIDGE, .ifi_index = index }; /* as the kernel wants it, not an ndmsg */
    nlmsg_append(request, &header, sizeof header, NLMSG_ALIGNTO);
    return weft_netlink_ask(hook->netlink, request, keep_entry, &table, error) ? g_steal_pointer(&entries) : NULL;
}

static gboolean
change_entry(const WeftHook *hook, int index, const Entry *entry, gboolean add, GError **error)
{
    int type = add ? RTM_NEWNEIGH : RTM_DELNEIGH;
    struct nl_msg *request = nlmsg_alloc_simple(type, NLM_F_REQUEST | (add ? NLM_F_CREATE | NLM_F_APPEND : 0));
    struct ndmsg header = {
        .ndm_family = AF_BRIDGE, .ndm_ifindex = index, .ndm_state = NUD_NOARP | NUD_PERMANENT, .ndm_flags = NTF_SELF
    };
    nlmsg_append(request, &header, sizeof header, NLMSG_ALIGNTO);
    nla_put(request, NDA_LLADDR, sizeof entry->mac, entry->mac);
    nla_put(request, NDA_DST, sizeof entry->peer, &entry->peer);
    int status = hook->netlink->talk(hook->netlink, request, NULL, NULL);
    nlmsg_free(request);
    /* One that was learned may have gone by itself. */
    if (status == 0 || (!add && status == -ENOENT))
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot %s a peer of a VXLAN: %s", add ? "add" : "remove",
                             g_strerror(-status));
}

static gboolean
is_for_all(const Entry *entry)
{
    static const guint8 zero[sizeof entry->mac];
    return memcmp(entry->mac, zero, sizeof zero) == 0;
}

static gboolean
has_peer(GArray *peers, in_addr_t peer)
{
    for (guint i = 0; i < peers->len; i++) {
        if (g_array_index(peers, in_addr_t, i) == peer)
            return TRUE;
    }
    return FALSE;
}

static gboolean
has_entry_for_all(GArray *entries, in_addr_t peer)
{
    for (guint i = 0; i < entries->len; i++) {
        const Entry *entry = &g_array_index(entries, Entry, i);
        if (entry->peer == peer && is_for_all(entry))
            return TRUE;
    }
    return FALSE;
}

static gboolean
change_entries(const WeftHook *hook, int index, GArray *entries, GArray *peers, GError **error)
{
    for (guint i = 0; i < peers->len; i++) {
        Entry entry = { .peer = g_array_index(peers, in_addr_t, i) };
        if (!has_entry_for_all(entries, entry.peer) && !change_entry(hook, index, &entry, TRUE, error))
            return FALSE;
    }
    for (guint i = 0; i < entries->len; i++) {
        const Entry *entry = &g_array_index(entries, Entry, i);
        if (!has_peer(peers, entry->peer) && !change_entry(hook, index, entry, FALSE, error))
            return FALSE;
    }
    return TRUE;
}

gboolean
weft_bridge_set_peers(const WeftHook *hook, guint vxlan, GArray *peers, GError **error)
{
    g_autofree char *tunnel = weft_network_vxlan(vxlan);
    g_autoptr(GPtrArray) links = read_links(hook, error);
    const Link *link = links ? find_link(links, tunnel) : NULL;
    if (!links)
        return FALSE;
    if (!link)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "interface %s is gone again: let nobody else manage it", tunnel);
    g_autoptr(GArray) entries = read_entries(hook, link->index, error);
    return entries && change_entries(hook, link->index, entries, peers, error);
}

/* --- removing it --- */

gboolean
weft_bridge_has_ports(const WeftHook *hook, guint vxlan, gboolean *ret_has, GError **error)
{
    g_autofree char *name = weft_network_bridge(vxlan);
    g_autofree char *tunnel = weft_network_vxlan(vxlan);
    g_autoptr(GPtrArray) links = read_links(hook, error);
    if (!links)
        return FALSE;
    const Link *bridge = find_link(links, name);
    *ret_has = FALSE;
    for (guint i = 0; bridge && i < links->len; i++) {
        const Link *link = g_ptr_array_index(links, i);
        *ret_has |= link->master == bridge->index && g_strcmp0(link->name, tunnel) != 0;
    }
    return TRUE;
}

static gboolean
remove_link(const WeftHook *hook, const Link *link, GError **error)
{
    struct nl_msg *request = nlmsg_alloc_simple(RTM_DELLINK, NLM_F_REQUEST);
    struct ifinfomsg header = { .ifi_family = AF_UNSPEC, .ifi_index = link->index };
    nlmsg_append(request, &header, sizeof header, NLMSG_ALIGNTO);
    return run(hook, request, "remove", link->name, error);
}

/* The VXLAN's number where the interface is weft's, else 0. */
static guint
vxlan_of(const Link *link)
{
    gboolean is_bridge = g_strcmp0(link->kind, "bridge") == 0;
    guint64 vxlan;
    if (!link->name || strlen(link->name) <= 4 || !g_ascii_string_to_unsigned(link->name + 4, 10, 1, G_MAXUINT32, &vxlan, NULL))
        return 0;
    g_autofree char *name = is_bridge ? weft_network_bridge((guint)vxlan) : weft_network_vxlan((guint)vxlan);
    return g_str_equal(name, link->name) && (is_bridge || link->vxlan == vxlan) ? (guint)vxlan : 0;
}

gboolean
weft_bridge_remove(const WeftHook *hook, guint vxlan, GError **error)
{
    g_autoptr(GPtrArray) links = read_links(hook, error);
    if (!links)
        return FALSE;
    for (guint i = 0; i < links->len; i++) {
        const Link *link = g_ptr_array_index(links, i);
        if (vxlan_of(link) == vxlan && !remove_link(hook, link, error))
            return FALSE;
    }
    return TRUE;
}

GArray *
weft_bridge_list(const WeftHook *hook, GError **error)
{
    g_autoptr(GPtrArray) links = read_links(hook, error);
    if (!links)
        return NULL;
    GArray *list = g_array_new(FALSE, FALSE, sizeof(guint));
    for (guint i = 0; i < links->len; i++) {
        guint vxlan = vxlan_of(g_ptr_array_index(links, i));
        gboolean listed = vxlan == 0;
        for (guint j = 0; j < list->len; j++)
            listed |= g_array_index(list, guint, j) == vxlan;
        if (!listed)
            g_array_append_val(list, vxlan);
    }
    return list;
}
