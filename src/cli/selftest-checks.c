/* The checks of a self test, in the order in which they are made. */
#include "await.h"
#include "errors.h"
#include "selftest-private.h"
#include "size.h"

#include <stdarg.h>
#include <string.h>

#define FULL 0x8000
#define DEFAULT_LIMITED 0x7fff /* SA queries need it */
#define KIB 1024

WeftVerdict
weft_verdict(GString *found, WeftVerdict verdict, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_string_truncate(found, 0);
    g_string_append_vprintf(found, format, arguments);
    va_end(arguments);
    return verdict;
}

json_t *
weft_party_inside(const WeftParty *party, size_t rank)
{
    return json_array_get(party->inside, rank);
}

char *
weft_party_node_name(const WeftParty *party, size_t rank)
{
    return weft_cli_field(json_array_get(party->nodes, rank), "name");
}

gboolean
weft_list_contains(json_t *list, json_t *text)
{
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item)
        if (json_equal(item, text))
            return TRUE;
    return FALSE;
}

/* --- a cluster over the hosts --- */

/* NULL: each host has a node. */
static char *
find_bare(const WeftSelftest *test, const WeftParty *party)
{
    size_t i, j;
    json_t *host, *node;
    json_array_foreach (test->hosts, i, host) {
        gboolean has = FALSE;
        json_array_foreach (party->nodes, j, node)
            has |= json_equal(json_object_get(node, "host"), json_object_get(host, "name"));
        if (!has)
            return weft_cli_field(host, "name");
    }
    return NULL;
}

WeftVerdict
weft_check_make(WeftSelftest *test, guint party, const WeftSiteOrder *order, GString *found, GError **error)
{
    gint64 start = g_get_monotonic_time();
    if (!weft_site_create(test, &test->parties[party], order, error))
        return WEFT_CHECK_FAILED;
    g_autofree char *nodes = weft_cli_count(order->count, "node");
    g_string_append_printf(found, "%s of tenant %s, path %s, ready in %.1f s", nodes, test->parties[party].cli.tenant,
                           test->path, (double)(g_get_monotonic_time() - start) / G_TIME_SPAN_SECOND);
    return WEFT_CHECK_OK;
}

WeftSiteOrder
weft_main_order(const WeftSelftest *test)
{
    return (WeftSiteOrder){ .count = MAX(2, (guint)json_array_size(test->hosts)) };
}

WeftVerdict
weft_check_create(WeftSelftest *test, GString *found, GError **error)
{
    WeftParty *party = &test->parties[WEFT_FIRST];
    WeftSiteOrder order = weft_main_order(test);
    WeftVerdict verdict = weft_check_make(test, WEFT_FIRST, &order, found, error);
    g_autofree char *bare = verdict == WEFT_CHECK_OK ? find_bare(test, party) : NULL;
    return bare ? weft_verdict(found, WEFT_CHECK_FAILED, "host %s got no node: it has no room for one", bare) : verdict;
}

/* --- devices --- */

/* What tells a device that is no InfiniBand port from all others. */
static json_t *
identities_of(json_t *inside)
{
    json_t *controllers = json_object_get(inside, "controllers");
    return json_array_size(controllers) ? controllers : NULL;
}

/* GUIDs that its ports are to have; a whole adapter has its own. */
static json_t *
guids_given(const WeftSelftest *test, json_t *node)
{
    json_t *list = json_array(), *device, *host, *hca;
    size_t i, j, k;
    json_array_foreach (json_object_get(node, "devices"), i, device) {
        if (json_is_string(json_object_get(device, "guid")))
            json_array_append(list, json_object_get(device, "guid"));
        json_array_foreach (test->hosts, j, host)
            json_array_foreach (json_object_get(host, "hcas"), k, hca)
                if (json_is_null(json_object_get(device, "vf")) &&
                    json_equal(json_object_get(host, "name"), json_object_get(node, "host")) &&
                    json_equal(json_object_get(hca, "name"), json_object_get(device, "hca")))
                    json_array_append(list, json_object_get(hca, "port_guid"));
    }
    return list;
}

static WeftVerdict
check_port(const WeftSelftest *test, json_t *given, json_t *port, const char *name, GString *found)
{
    g_autofree char *guid = weft_cli_field(port, "guid");
    g_autofree char *state = weft_cli_field(port, "state");
    gboolean whole = strcmp(test->path, "passthrough") == 0; /* may have a second port */
    if (!whole && !weft_list_contains(given, json_object_get(port, "guid")))
        return weft_verdict(found, WEFT_CHECK_FAILED, "%s has a port with GUID %s, which was not given to it", name, guid);
    if (!whole && strcmp(state, "ACTIVE") != 0)
        return weft_verdict(found, WEFT_CHECK_FAILED, "%s: its port %s is %s; does the subnet manager know it?", name, guid,
                            state);
    return WEFT_CHECK_OK;
}

static WeftVerdict
check_ports(const WeftSelftest *test, const WeftParty *party, size_t rank, GString *found)
{
    g_autofree char *name = weft_party_node_name(party, rank);
    json_t *given = guids_given(test, json_array_get(party->nodes, rank)), *seen = json_array(), *port, *guid;
    WeftVerdict verdict = WEFT_CHECK_OK;
    size_t i;
    json_array_foreach (json_object_get(weft_party_inside(party, rank), "ports"), i, port) {
        json_array_append(seen, json_object_get(port, "guid"));
        if (verdict == WEFT_CHECK_OK)
            verdict = check_port(test, given, port, name, found);
    }
    json_array_foreach (given, i, guid)
        if (verdict == WEFT_CHECK_OK && !weft_list_contains(seen, guid))
            verdict = weft_verdict(found, WEFT_CHECK_FAILED, "%s was given GUID %s, and has no port with it", name,
                                   json_string_value(guid));
    json_decref(given);
    json_decref(seen);
    return verdict;
}

/* A device is there, but no InfiniBand port of it. */
static WeftVerdict
check_devices(const WeftParty *party, size_t rank, GString *found)
{
    g_autofree char *name = weft_party_node_name(party, rank);
    json_t *inside = weft_party_inside(party, rank), *devices = json_object_get(inside, "devices");
    size_t wanted = json_array_size(json_object_get(json_array_get(party->nodes, rank), "devices"));
    g_autofree char *kind = weft_cli_field(json_array_get(devices, 0), "kind");
    g_autofree char *class = weft_cli_field(json_array_get(devices, 0), "class");
    if (json_array_size(devices) != wanted)
        return weft_verdict(found, WEFT_CHECK_FAILED, "%s was given %zu devices, and has %zu", name, wanted,
                            json_array_size(devices));
    if (g_str_has_prefix(class, "0x0207") || !identities_of(inside))
        return weft_verdict(found, WEFT_CHECK_FAILED,
                            "%s has its device (%s), and no driver took it: the image needs it, as mlx5_ib or mlx4_ib", name,
                            kind);
    return WEFT_CHECK_OK;
}

/* Nobody has what another node has: what both see would be one device in two hands. */
static WeftVerdict
check_distinct(const WeftSelftest *test, GString *found)
{
    g_autoptr(GHashTable) owners = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    for (guint p = 0; p < WEFT_PARTIES; p++) {
        const WeftParty *party = &test->parties[p];
        for (size_t rank = 0; rank < json_array_size(party->inside); rank++) {
            json_t *host = json_object_get(json_array_get(party->nodes, rank), "host"), *item;
            size_t i;
            json_array_foreach (identities_of(weft_party_inside(party, rank)), i, item) {
                char *key = g_strdup_printf("%s %s", json_string_value(host), json_string_value(item));
                g_autofree char *name = weft_party_node_name(party, rank);
                const char *other = g_hash_table_lookup(owners, key);
                if (other) {
                    weft_verdict(found, WEFT_CHECK_FAILED, "%s and %s have the same device, controller %s", other, name,
                                 json_string_value(item));
                    g_free(key);
                    return WEFT_CHECK_FAILED;
                }
                g_hash_table_insert(owners, key, g_steal_pointer(&name));
            }
        }
    }
    return WEFT_CHECK_OK;
}

static WeftVerdict
check_devices_of(const WeftSelftest *test, const WeftParty *party, GString *found)
{
    WeftVerdict verdict = WEFT_CHECK_OK;
    for (size_t rank = 0; rank < json_array_size(party->nodes) && verdict == WEFT_CHECK_OK; rank++)
        verdict = json_array_size(json_object_get(weft_party_inside(party, rank), "ports"))
                      ? check_ports(test, party, rank, found)
                      : check_devices(party, rank, found);
    return verdict == WEFT_CHECK_OK ? check_distinct(test, found) : verdict;
}

static gboolean
is_infiniband(const WeftParty *party)
{
    return json_array_size(json_object_get(weft_party_inside(party, 0), "ports")) > 0;
}

WeftVerdict
weft_check_device(WeftSelftest *test, GString *found, GError **error)
{
    const WeftParty *party = &test->parties[WEFT_FIRST];
    WeftVerdict verdict = check_devices_of(test, party, found);
    if (verdict != WEFT_CHECK_OK)
        return verdict;
    size_t i;
    json_t *node;
    json_array_foreach (party->nodes, i, node) {
        json_t *functions = weft_site_functions(node);
        json_t *port = json_array_get(json_object_get(weft_party_inside(party, i), "ports"), 0);
        g_autofree char *guid = weft_cli_field(port, "guid");
        json_t *controller = json_array_get(identities_of(weft_party_inside(party, i)), 0);
        g_string_append_printf(found, "%s%s as %s", i ? ", " : "", json_string_value(json_array_get(functions, 0)),
                               is_infiniband(party) ? guid : json_string_value(controller));
        json_decref(functions);
    }
    return WEFT_CHECK_OK;
}

/* --- P_Keys --- */

static WeftVerdict
check_pkeys_of(const WeftParty *party, GString *found)
{
    guint own = (guint)g_ascii_strtoull(json_string_value(json_object_get(party->cluster, "partition")), NULL, 16) | FULL;
    for (size_t rank = 0; rank < json_array_size(party->nodes); rank++) {
        g_autofree char *name = weft_party_node_name(party, rank);
        size_t i, j;
        json_t *port, *entry;
        json_array_foreach (json_object_get(weft_party_inside(party, rank), "ports"), i, port) {
            gint64 first = 0;
            json_array_foreach (json_object_get(port, "pkeys"), j, entry) {
                gint64 index = weft_cli_number(entry, "index"), value = weft_cli_number(entry, "value");
                first = index == 0 ? value : first;
                if (value != own && value != DEFAULT_LIMITED)
                    return weft_verdict(found, WEFT_CHECK_FAILED,
                                        "%s has P_Key 0x%04x at index %" G_GINT64_FORMAT ", which is not its cluster's", name,
                                        (guint)value, index);
            }
            if (first != own)
                return weft_verdict(found, WEFT_CHECK_FAILED, "%s has P_Key 0x%04x at index 0; its cluster's is 0x%04x", name,
                                    (guint)first, own);
        }
    }
    return WEFT_CHECK_OK;
}

#define NO_PORTS "the functions here are no InfiniBand ports: what a port would have is told by hosts and fabric only"

WeftVerdict
weft_check_pkeys(WeftSelftest *test, GString *found, GError **error)
{
    const WeftParty *party = &test->parties[WEFT_FIRST];
    if (!is_infiniband(party))
        return weft_verdict(found, WEFT_CHECK_SKIPPED, NO_PORTS);
    if (check_pkeys_of(party, found) != WEFT_CHECK_OK)
        return WEFT_CHECK_FAILED;
    g_autofree char *partition = weft_cli_field(party->cluster, "partition");
    return weft_verdict(found, WEFT_CHECK_OK, "partition %s at index 0, as full member, and none of others", partition);
}

WeftVerdict
weft_check_given(const WeftSelftest *test, GString *found)
{
    WeftVerdict verdict = WEFT_CHECK_OK;
    for (guint p = 0; p < WEFT_PARTIES && test->functions && verdict == WEFT_CHECK_OK; p++) {
        const WeftParty *party = &test->parties[p];
        if (!party->nodes)
            continue;
        verdict = check_devices_of(test, party, found);
        if (verdict == WEFT_CHECK_OK)
            verdict = check_pkeys_of(party, found);
    }
    return verdict;
}

WeftVerdict
weft_check_fabric(WeftSelftest *test, GString *found, GError **error)
{
    return weft_look_members(test, &test->parties[WEFT_FIRST], found, error) ? WEFT_CHECK_OK : WEFT_CHECK_FAILED;
}

/* --- cores and memory --- */

static gboolean
has_threads(const WeftSelftest *test, json_t *node, gint64 threads)
{
    size_t i, j;
    json_t *host, *numa;
    json_array_foreach (test->hosts, i, host)
        json_array_foreach (json_object_get(host, "numa"), j, numa)
            if (json_equal(json_object_get(host, "name"), json_object_get(node, "host")) &&
                MAX(weft_cli_number(numa, "threads"), 1) == threads)
                return TRUE;
    return FALSE;
}

WeftVerdict
weft_check_shape(WeftSelftest *test, GString *found, GError **error)
{
    const WeftParty *party = &test->parties[WEFT_FIRST];
    gint64 cpus = 0, memory = 0;
    for (size_t rank = 0; rank < json_array_size(party->nodes); rank++) {
        json_t *node = json_array_get(party->nodes, rank), *inside = weft_party_inside(party, rank);
        g_autofree char *name = weft_party_node_name(party, rank);
        g_autofree char *promised = weft_cli_size_field(node, "memory");
        gint64 cores = weft_cli_number(node, "cores");
        cpus = weft_cli_number(inside, "cpus");
        memory = weft_cli_number(inside, "memory") * KIB;
        if (cores <= 0 || cpus % cores || !has_threads(test, node, cpus / cores))
            return weft_verdict(found, WEFT_CHECK_FAILED,
                                "%s was given %" G_GINT64_FORMAT " cores, and has %" G_GINT64_FORMAT " processors", name, cores,
                                cpus);
        if (memory > weft_cli_number(node, "memory") || memory < weft_cli_number(node, "memory") / 2)
            return weft_verdict(found, WEFT_CHECK_FAILED, "%s was given %s, and has %" G_GINT64_FORMAT " bytes", name, promised,
                                memory);
    }
    g_autofree char *processors = weft_cli_count(cpus, "processor");
    return weft_verdict(found, WEFT_CHECK_OK, "%s and %" G_GINT64_FORMAT " MiB in each node", processors, memory / KIB / KIB);
}

/* --- who reaches whom --- */

json_t *
weft_party_addresses(const WeftParty *party, size_t rank, const WeftParty *unlike)
{
    g_autofree char *own = g_strdup_printf("%s-%zu", party->name, rank);
    json_t *list = json_array(), *name;
    const char *address;
    json_object_foreach (json_object_get(weft_party_inside(party, rank), "peers"), address, name) {
        const char *text = json_string_value(name);
        gboolean is_own = g_str_has_prefix(text, own) && strchr("-", text[strlen(own)]);
        if (!is_own && !(unlike && json_object_get(json_object_get(weft_party_inside(unlike, 0), "peers"), address)))
            json_array_append_new(list, json_string(address));
    }
    return list;
}

#define UNABLE "the image has no ping; all nodes have met each other by weft's own program"

WeftVerdict
weft_check_reach(WeftSelftest *test, GString *found, GError **error)
{
    const WeftParty *party = &test->parties[WEFT_FIRST];
    gboolean able = FALSE;
    json_t *addresses = weft_party_addresses(party, 0, NULL);
    json_t *answers = weft_inside_ping(party, 0, addresses, &able, error);
    g_autofree char *name = weft_party_node_name(party, 0);
    WeftVerdict verdict = answers ? WEFT_CHECK_OK : WEFT_CHECK_FAILED;
    size_t i;
    json_t *address;
    if (answers && !able)
        verdict = weft_verdict(found, WEFT_CHECK_SKIPPED, UNABLE);
    else if (answers && json_array_size(addresses) == 0)
        verdict = weft_verdict(found, WEFT_CHECK_FAILED, "%s knows no other node: its /etc/hosts names none", name);
    else if (answers)
        g_string_append_printf(found, "%s reaches all others, at %zu of %zu addresses", name, json_array_size(answers),
                               json_array_size(addresses));
    json_array_foreach (addresses, i, address)
        if (verdict == WEFT_CHECK_OK && !weft_list_contains(answers, address))
            verdict = weft_verdict(found, WEFT_CHECK_FAILED, "%s does not reach %s", name, json_string_value(address));
    json_decref(addresses);
    json_decref(answers);
    return verdict;
}
