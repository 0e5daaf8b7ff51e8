/* What hosts and fabric tell, beside what was promised and what it was before. */
#include "await.h"
#include "errors.h"
#include "selftest-private.h"
#include "size.h"

#include <string.h>

#define NUMBER 0x7fff
#define SETTLE (60 * G_TIME_SPAN_SECOND) /* memory that nodes were forked from is given back after its template */

static guint
pkey_of(json_t *text)
{
    return (guint)g_ascii_strtoull(json_string_value(text) ? json_string_value(text) : "0", NULL, 16) & NUMBER;
}

/* --- the fabric --- */

static json_t *
ask_fabric(const WeftSelftest *test, const char *question, GError **error)
{
    const char *fabric = json_string_value(json_object_get(json_array_get(test->hosts, 0), "fabric"));
    g_autofree char *base = weft_client_path("/v1/fabrics", fabric);
    g_autofree char *path = g_strdup_printf("%s/%s", base, question);
    json_t *answer = weft_client_get(test->cli->client, path, error);
    json_t *list = answer ? json_incref(json_object_get(answer, question[0] == 't' ? "ports" : question)) : NULL;
    json_decref(answer);
    return list;
}

static json_t *
find_by(json_t *list, const char *field, const char *text)
{
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item)
        if (g_strcmp0(json_string_value(json_object_get(item, field)), text) == 0)
            return item;
    return NULL;
}

/* A host's port is a member once, however many of its functions are; a virtual port is one by itself. */
static gboolean
check_members(const WeftParty *party, json_t *members, GError **error)
{
    size_t i, j;
    json_t *node, *guid, *member;
    json_array_foreach (party->nodes, i, node) {
        const char *host = json_string_value(json_object_get(node, "host"));
        g_autofree char *name = weft_cli_field(node, "name");
        if (!find_by(members, "host", host))
            return weft_error_refuse(error, WEFT_ERROR_FAILED, "no port of host %s, where %s is, is a member", host, name);
        json_array_foreach (json_object_get(node, "guids"), j, guid)
            if (json_is_string(json_object_get(json_array_get(members, 0), "virtual_guid")) &&
                !find_by(members, "virtual_guid", json_string_value(guid)))
                return weft_error_refuse(error, WEFT_ERROR_FAILED, "%s of %s is no member", json_string_value(guid), name);
    }
    json_array_foreach (members, i, member) {
        g_autofree char *host = weft_cli_field(member, "host");
        g_autofree char *port = weft_cli_field(member, "guid");
        if (!find_by(party->nodes, "host", host))
            return weft_error_refuse(error, WEFT_ERROR_FAILED, "port %s of host %s is a member, and has no node of it", port,
                                     host);
    }
    return TRUE;
}

/* Only of the hosts of the test: others may be on their way. */
static gboolean
check_tables(const WeftSelftest *test, json_t *ports, guint *ret_count, GError **error)
{
    size_t i;
    json_t *port;
    json_array_foreach (ports, i, port) {
        const char *host = json_string_value(json_object_get(port, "host"));
        const char *wrong = json_string_value(json_array_get(json_object_get(port, "differences"), 0));
        if (!host || !find_by(test->hosts, "name", host))
            continue;
        ++*ret_count;
        if (wrong)
            return weft_error_refuse(error, WEFT_ERROR_FAILED, "port %s of host %s: %s",
                                     json_string_value(json_object_get(port, "guid")), host, wrong);
    }
    return TRUE;
}

gboolean
weft_look_members(WeftSelftest *test, const WeftParty *party, GString *found, GError **error)
{
    const char *id = json_string_value(json_object_get(party->cluster, "id"));
    g_autofree char *name = g_strconcat("weft-", id, NULL);
    g_autofree char *number = weft_cli_field(party->cluster, "partition");
    guint count = 0;
    json_t *partitions = ask_fabric(test, "partitions", error);
    json_t *ports = partitions ? ask_fabric(test, "tables", error) : NULL;
    json_t *own = find_by(partitions, "name", name), *members = json_object_get(own, "members");
    gboolean ok = ports && (own || weft_error_refuse(error, WEFT_ERROR_FAILED, "the manager has no partition %s", name)) &&
                  check_members(party, members, error) && check_tables(test, ports, &count, error);
    if (ok) {
        g_autofree char *ports_text = weft_cli_count(count, "port");
        g_autofree char *members_text = weft_cli_count((gint64)json_array_size(members), "member");
        g_string_append_printf(found, "partition %s has %s, of the right hosts; tables of %s are as the manager says", number,
                               members_text, ports_text);
    }
    json_decref(partitions);
    json_decref(ports);
    return ok;
}

/* Its number may be somebody else's by now. */
static gboolean
check_partition_gone(const WeftSelftest *test, json_t *was, json_t *partitions, json_t *ports, GError **error)
{
    const char *name = json_string_value(json_object_get(was, "name"));
    const char *text = json_string_value(json_object_get(was, "pkey"));
    guint number = pkey_of(json_object_get(was, "pkey"));
    size_t i, j;
    json_t *port, *key;
    if (find_by(partitions, "name", name))
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "the manager still has partition %s, %s", text, name);
    json_array_foreach (ports, i, port) {
        g_autofree char *host = weft_cli_field(port, "host");
        json_array_foreach (json_object_get(port, "pkeys"), j, key)
            if (pkey_of(key) == number && find_by(test->hosts, "name", host) && !find_by(partitions, "pkey", text))
                return weft_error_refuse(error, WEFT_ERROR_FAILED, "a port of host %s still has P_Key %s", host, text);
    }
    return TRUE;
}

static gboolean
check_partitions_gone(WeftSelftest *test, GError **error)
{
    json_t *partitions = ask_fabric(test, "partitions", error), *was;
    json_t *ports = partitions && test->functions ? ask_fabric(test, "tables", error) : NULL;
    gboolean ok = partitions && (ports || !test->functions);
    for (guint i = 0; ok && i < WEFT_PARTIES; i++) {
        size_t j;
        json_array_foreach (test->parties[i].partitions, j, was)
            ok = ok && check_partition_gone(test, was, partitions, ports, error);
    }
    json_decref(partitions);
    json_decref(ports);
    return ok;
}

/* --- hosts --- */

/* {"node", "size", "total", "free"}; NULL: the host does not tell of it. */
static json_t *
pages_of(json_t *examination, guint node, guint64 size)
{
    size_t i, j;
    json_t *check, *figure;
    json_array_foreach (json_object_get(examination, "checks"), i, check)
        json_array_foreach (json_object_get(check, "pages"), j, figure)
            if (weft_cli_number(figure, "node") == node && weft_cli_number(figure, "size") == (gint64)size &&
                json_is_integer(json_object_get(figure, "free")))
                return figure;
    return NULL;
}

/* Pages of that size and NUMA node of that host that the party's nodes were promised. */
static gint64
promised(const WeftParty *party, const char *host, gint64 numa, gint64 size)
{
    gint64 pages = 0;
    size_t i, j;
    json_t *node, *memory;
    json_array_foreach (party->nodes, i, node)
        json_array_foreach (json_object_get(node, "memory_nodes"), j, memory)
            if (g_strcmp0(json_string_value(json_object_get(node, "host")), host) == 0 &&
                weft_cli_number(memory, "numa") == numa && weft_cli_number(memory, "page_size") == size)
                pages += weft_cli_number(memory, "pages");
    return pages;
}

static WeftVerdict
check_memory(WeftSelftest *test, json_t *now, const char *host, json_t *memory, GString *found)
{
    gint64 numa = weft_cli_number(memory, "numa"), size = weft_cli_number(memory, "page_size");
    json_t *then = pages_of(json_object_get(test->before, host), (guint)numa, (guint64)size);
    json_t *there = pages_of(json_object_get(now, host), (guint)numa, (guint64)size);
    g_autofree char *text = weft_size_format((guint64)size);
    if (size <= 4096)
        return weft_verdict(found, WEFT_CHECK_SKIPPED, "nodes have no huge pages: the hosts have none to give");
    if (!then || !there)
        return weft_verdict(found, WEFT_CHECK_SKIPPED, "host %s does not tell how many of its pages are free", host);
    gint64 taken = weft_cli_number(then, "free") - weft_cli_number(there, "free");
    gint64 wanted = promised(&test->parties[WEFT_FIRST], host, numa, size);
    if (taken < wanted && weft_cli_number(find_by(test->hosts, "name", host), "nodes") > 0)
        return weft_verdict(found, WEFT_CHECK_SKIPPED, "host %s has nodes of others, which take and give pages, too", host);
    if (taken < wanted)
        return weft_verdict(found, WEFT_CHECK_FAILED,
                            "host %s, NUMA node %" G_GINT64_FORMAT ": nodes were promised %" G_GINT64_FORMAT
                            " pages of %s, and %" G_GINT64_FORMAT " were taken",
                            host, numa, wanted, text, taken);
    g_string_append_printf(found, "%s%s: %" G_GINT64_FORMAT " of %s in NUMA node %" G_GINT64_FORMAT, found->len ? ", " : "",
                           host, wanted, text, numa);
    return WEFT_CHECK_OK;
}

WeftVerdict
weft_check_hugepages(WeftSelftest *test, GString *found, GError **error)
{
    WeftVerdict verdict = WEFT_CHECK_OK;
    size_t i, j;
    json_t *node, *memory, *now = weft_site_examine(test, error);
    json_array_foreach (test->parties[WEFT_FIRST].nodes, i, node) {
        const char *host = json_string_value(json_object_get(node, "host"));
        json_array_foreach (json_object_get(node, "memory_nodes"), j, memory)
            if (now && verdict == WEFT_CHECK_OK)
                verdict = check_memory(test, now, host, memory, found);
    }
    json_decref(now);
    return verdict;
}

/* What was well before, and is not now; NULL: nothing. */
static char *
find_worse(json_t *before, json_t *now)
{
    json_t *was = json_array(), *check;
    size_t i;
    char *worse = NULL;
    json_array_foreach (json_object_get(before, "checks"), i, check)
        if (g_strcmp0(json_string_value(json_object_get(check, "state")), "ok") == 0)
            json_array_append(was, json_object_get(check, "check"));
    json_array_foreach (json_object_get(now, "checks"), i, check) {
        json_t *name = json_object_get(check, "check");
        gboolean well = g_strcmp0(json_string_value(json_object_get(check, "state")), "ok") == 0;
        g_autofree char *found = weft_cli_field(check, "found");
        if (!worse && !well && weft_list_contains(was, name))
            worse = g_strdup_printf("%s: %s", json_string_value(name), found);
    }
    json_decref(was);
    return worse;
}

static gboolean
check_hosts(WeftSelftest *test, GError **error)
{
    json_t *now = weft_site_examine(test, error), *before;
    const char *name;
    gboolean ok = now != NULL;
    json_object_foreach (test->before, name, before) {
        g_autofree char *worse = ok ? find_worse(before, json_object_get(now, name)) : NULL;
        if (worse)
            ok = weft_error_refuse(error, WEFT_ERROR_FAILED, "host %s is not as it was: %s", name, worse);
    }
    json_decref(now);
    return ok;
}

gboolean
weft_look_gone(WeftSelftest *test, GError **error)
{
    return check_partitions_gone(test, error) && check_hosts(test, error);
}

/* --- pages given back --- */

/* Of a host where nobody is: others' nodes come and go as they like. */
static json_t *pages_before;

static gboolean
pages_are_back(json_t *examination, gboolean *ret_reached, GError **error)
{
    size_t i, j;
    json_t *check, *figure;
    *ret_reached = TRUE;
    json_array_foreach (json_object_get(pages_before, "checks"), i, check)
        json_array_foreach (json_object_get(check, "pages"), j, figure) {
            json_t *now =
                pages_of(examination, (guint)weft_cli_number(figure, "node"), (guint64)weft_cli_number(figure, "size"));
            *ret_reached &= !now || weft_cli_number(now, "free") >= weft_cli_number(figure, "free");
        }
    return TRUE;
}

static char *
describe_pages(json_t *examination)
{
    return g_strdup("fewer huge pages are free than before");
}

/* Names of hosts where the site's templates hold memory for nodes to come, perhaps since ours were forked there. */
static json_t *
find_primed(WeftSelftest *test, GError **error)
{
    json_t *all = weft_client_list(test->cli->client, "/v1/templates", error), *template, *primed;
    json_t *hosts = json_array();
    size_t i, j;
    json_array_foreach (all, i, template) {
        g_autofree char *id = weft_cli_field(template, "id");
        g_autofree char *path = weft_client_path("/v1/templates", id);
        json_t *whole = weft_client_get(test->cli->client, path, NULL); /* NULL: it has gone meanwhile */
        json_array_foreach (json_object_get(whole, "primed"), j, primed)
            json_array_append(hosts, json_object_get(primed, "host"));
        json_decref(whole);
    }
    if (!all)
        g_clear_pointer(&hosts, json_decref);
    json_decref(all);
    return hosts;
}

static gboolean
await_pages(WeftSelftest *test, json_t *host, GError **error)
{
    static const WeftGoal goal = { pages_are_back, describe_pages };
    g_autofree char *name = weft_cli_field(host, "name");
    g_autofree char *path = weft_client_path("/v1/hosts", name);
    g_autofree char *doctor = g_strconcat(path, "/doctor", NULL);
    g_autofree char *what = g_strconcat("host ", name, NULL);
    WeftAwait await = { .goal = &goal,
                        .what = what,
                        .path = doctor,
                        .events = "/v1/events",
                        .timeout = SETTLE,
                        .after = "who has them is told by weft host show and weft template ls" };
    json_t *now = weft_client_get(test->cli->client, path, error);
    gboolean known = now != NULL, empty = weft_cli_number(now, "nodes") == 0 && weft_cli_number(host, "nodes") == 0;
    json_decref(now);
    pages_before = json_object_get(test->before, name);
    return known && (!empty || weft_await(test->cli, &await, NULL, error));
}

gboolean
weft_look_pages_back(WeftSelftest *test, GError **error)
{
    json_t *primed = find_primed(test, error), *host;
    gboolean ok = primed != NULL;
    size_t i;
    json_array_foreach (test->hosts, i, host)
        ok = ok && (weft_list_contains(primed, json_object_get(host, "name")) || await_pages(test, host, error));
    json_decref(primed);
    return ok;
}
