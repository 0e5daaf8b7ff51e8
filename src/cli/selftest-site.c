/* Hosts, tenants and clusters of a self test. */
#include "await.h"
#include "clock.h"
#include "errors.h"
#include "hostlist.h"
#include "id.h"
#include "selftest-private.h"

#include <string.h>

#define WALLTIME "1h" /* should nobody be left to remove them */

static const char *const names[WEFT_PARTIES] = { "selftest-a", "selftest-b" };

/* --- hosts --- */

static gboolean
has_functions(json_t *host)
{
    size_t i;
    json_t *hca;
    json_array_foreach (json_object_get(host, "hcas"), i, hca)
        if (weft_cli_number(hca, "vfs") > 0)
            return TRUE;
    return FALSE;
}

static gboolean
is_open(json_t *host)
{
    return g_strcmp0(json_string_value(json_object_get(host, "state")), "up") == 0 &&
           !json_is_true(json_object_get(host, "draining"));
}

static gboolean
is_same_fabric(json_t *a, json_t *b)
{
    return !a || json_equal(json_object_get(a, "fabric"), json_object_get(b, "fabric"));
}

/* Two where nobody is; those with functions come first. */
static void
choose_free(json_t *all, json_t *chosen)
{
    for (int functions = TRUE; functions >= FALSE && json_array_size(chosen) == 0; functions--) {
        size_t i;
        json_t *host;
        json_array_foreach (all, i, host)
            if (json_array_size(chosen) < 2 && is_open(host) && weft_cli_number(host, "nodes") == 0 &&
                (!functions || has_functions(host)) && is_same_fabric(json_array_get(chosen, 0), host))
                json_array_append(chosen, host);
    }
}

static json_t *
find_host(json_t *all, const char *name)
{
    size_t i;
    json_t *host;
    json_array_foreach (all, i, host)
        if (g_strcmp0(json_string_value(json_object_get(host, "name")), name) == 0)
            return host;
    return NULL;
}

static gboolean
choose_named(json_t *all, const char *list, json_t *chosen, GError **error)
{
    g_auto(GStrv) wanted = weft_hostlist_expand(list, error);
    for (guint i = 0; wanted && wanted[i]; i++) {
        json_t *host = find_host(all, wanted[i]);
        if (!host)
            return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "--hosts: there is no host %s; weft hosts lists them",
                                     wanted[i]);
        if (!is_open(host))
            return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "--hosts: host %s takes no nodes: it is not up, or draining",
                                     wanted[i]);
        if (!is_same_fabric(json_array_get(chosen, 0), host))
            return weft_error_refuse(error, WEFT_ERROR_INVALID, "--hosts: host %s is on another fabric; test one at a time",
                                     wanted[i]);
        if (!find_host(chosen, wanted[i]))
            json_array_append(chosen, host);
    }
    return wanted != NULL;
}

/* Does somebody program the partitions that functions need? */
static gboolean
is_managed(WeftSelftest *test, gboolean *ret_managed, GError **error)
{
    const char *name = json_string_value(json_object_get(json_array_get(test->hosts, 0), "fabric"));
    g_autofree char *path = weft_client_path("/v1/fabrics", name);
    json_auto_t *fabric = weft_client_get(test->cli->client, path, error);
    const char *way = json_string_value(json_object_get(json_object_get(fabric, "manager"), "way"));
    *ret_managed = g_strcmp0(way, "none") != 0;
    return fabric != NULL;
}

static gboolean
settle_path(WeftSelftest *test, GError **error)
{
    gboolean all = TRUE;
    size_t i;
    json_t *host;
    json_array_foreach (test->hosts, i, host)
        all &= has_functions(host);
    if (all && !test->wish->path && !is_managed(test, &all, error))
        return FALSE;
    test->path = test->wish->path ? test->wish->path : all ? "sriov" : "bridge";
    test->functions = strcmp(test->path, "bridge") != 0;
    return TRUE;
}

gboolean
weft_site_choose(WeftSelftest *test, GError **error)
{
    json_t *all = weft_client_list(test->cli->client, "/v1/hosts", error);
    test->hosts = json_array();
    gboolean ok = all && (!test->wish->hosts || choose_named(all, test->wish->hosts, test->hosts, error));
    if (ok && !test->wish->hosts)
        choose_free(all, test->hosts);
    if (ok && json_array_size(test->hosts) == 0)
        ok = weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                               "no host is up and free; name some with --hosts: what runs there is not touched");
    g_autoptr(GPtrArray) list = g_ptr_array_new();
    size_t i;
    json_t *host;
    json_array_foreach (test->hosts, i, host)
        g_ptr_array_add(list, (gpointer)json_string_value(json_object_get(host, "name")));
    g_ptr_array_add(list, NULL);
    test->hostlist = weft_hostlist_fold((const char *const *)list->pdata);
    ok = ok && settle_path(test, error);
    json_decref(all);
    return ok;
}

/* --- tenants --- */

/* One that was left behind by a test that was killed is taken over when its clusters have gone. */
static gboolean
check_empty(const WeftParty *party, GError **error)
{
    g_autofree char *path = weft_client_query(g_strdup("/v1/clusters"), "tenant", party->cli.tenant);
    json_t *clusters = weft_client_list(party->cli.client, path, error);
    gboolean known = clusters != NULL, empty = json_array_size(clusters) == 0;
    json_decref(clusters);
    return known &&
           (empty || weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                       "tenant %s has clusters: another self test runs, or was killed; they go after " WALLTIME
                                       ", or now by weft rm %s --tenant %s",
                                       party->cli.tenant, party->name, party->cli.tenant));
}

static gboolean
make_tenant(WeftParty *party, GError **error)
{
    GError *local = NULL;
    g_autofree char *path = weft_client_path("/v1/tenants", party->cli.tenant);
    json_t *there = weft_client_get(party->cli.client, path, &local);
    if (there) {
        json_decref(there);
        return party->made = check_empty(party, error);
    }
    json_t *body = json_pack("{s:s}", "name", party->cli.tenant);
    if (weft_error_forgive(&local, WEFT_ERROR_NOT_FOUND))
        party->made = weft_client_call(party->cli.client, &(WeftCall){ "POST", "/v1/tenants", body }, NULL, &local);
    json_decref(body);
    if (local)
        g_propagate_prefixed_error(error, local, "tenant %s: ", party->cli.tenant);
    return party->made;
}

json_t *
weft_site_examine(const WeftSelftest *test, GError **error)
{
    json_t *found = json_object(), *host;
    size_t i;
    json_array_foreach (test->hosts, i, host) {
        const char *name = json_string_value(json_object_get(host, "name"));
        g_autofree char *base = weft_client_path("/v1/hosts", name);
        g_autofree char *path = g_strconcat(base, "/doctor", NULL);
        json_t *told = weft_client_get(test->cli->client, path, error);
        if (!told) {
            json_decref(found);
            return NULL;
        }
        json_object_set_new(found, name, told);
    }
    return found;
}

/* Ids of those that there are. */
static json_t *
list_templates(WeftCli *cli, GError **error)
{
    json_t *all = weft_client_list(cli->client, "/v1/templates", error), *template;
    json_t *ids = all ? json_array() : NULL;
    size_t i;
    json_array_foreach (all, i, template)
        json_array_append(ids, json_object_get(template, "id"));
    json_decref(all);
    return ids;
}

gboolean
weft_site_begin(WeftSelftest *test, GError **error)
{
    test->mark = g_strdup_printf("weft-selftest-%016" G_GINT64_MODIFIER "x", weft_random_u64());
    test->made = json_array();
    for (guint i = 0; i < WEFT_PARTIES; i++) {
        WeftParty *party = &test->parties[i];
        *party = (WeftParty){ .cli = *test->cli, .name = names[i], .had = json_array(), .partitions = json_array() };
        if (!party->cli.tenant)
            party->cli.tenant = names[i];
    }
    test->before = weft_site_examine(test, error);
    test->templates = test->before ? list_templates(test->cli, error) : NULL;
    if (!test->templates)
        return FALSE;
    for (guint i = 0; i < WEFT_PARTIES && !test->cli->tenant; i++)
        if (!make_tenant(&test->parties[i], error))
            return FALSE;
    return TRUE;
}

/* --- clusters --- */

/* It makes nobody give way, and goes by itself should the test be killed. */
static json_t *
wish_of(const WeftSelftest *test, const WeftParty *party, const WeftSiteOrder *order)
{
    json_t *spec =
        json_pack("{s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:[]}", "name", party->name, "count", (int)order->count,
                  "cores", 1, "memory", test->wish->memory, "path", test->path, "hosts", test->hostlist, "layout", "spread",
                  "preemptible", TRUE, "walltime", WALLTIME, "start", order->forked ? "template" : "cold", "ssh_keys");
    if (test->wish->image)
        json_object_set_new(spec, "image", json_string(test->wish->image));
    return spec;
}

static gboolean
post_wish(WeftSelftest *test, const WeftParty *party, const char *route, const WeftSiteOrder *order, json_t **ret_body,
          GError **error)
{
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *path = weft_client_query(g_strdup(route), "tenant", party->cli.tenant);
    json_t *spec = wish_of(test, party, order);
    gboolean ok = weft_client_call(party->cli.client, &(WeftCall){ "POST", path, spec }, &response, error);
    json_decref(spec);
    if (ok)
        *ret_body = g_steal_pointer(&response.body);
    return ok;
}

gboolean
weft_site_has_room(WeftSelftest *test, const WeftParty *party, const WeftSiteOrder *order, char **ret_reason, GError **error)
{
    json_t *placement = NULL;
    *ret_reason = NULL;
    if (!post_wish(test, party, "/v1/placements", order, &placement, error))
        return FALSE;
    gboolean fits = json_is_true(json_object_get(placement, "fits"));
    if (!fits)
        *ret_reason = weft_cli_field(placement, "reason");
    json_decref(placement);
    return fits;
}

static void
forget(WeftParty *party)
{
    g_clear_pointer(&party->cluster, json_decref);
    g_clear_pointer(&party->nodes, json_decref);
    g_clear_pointer(&party->inside, json_decref);
}

/* By rank, as all that looks at them expects. */
static json_t *
list_nodes(const WeftParty *party, GError **error)
{
    g_autofree char *path = weft_cli_cluster_path(&party->cli, party->name, "/nodes");
    json_t *all = weft_client_list(party->cli.client, path, error), *node;
    json_t *nodes = all ? json_array() : NULL;
    for (gint64 rank = 0; rank < (gint64)json_array_size(all); rank++) {
        size_t i;
        json_array_foreach (all, i, node)
            if (weft_cli_number(node, "rank") == rank)
                json_array_append(nodes, node);
    }
    json_decref(all);
    return nodes;
}

gboolean
weft_site_look(WeftParty *party, GError **error)
{
    g_autofree char *path = weft_cli_cluster_path(&party->cli, party->name, "");
    forget(party);
    party->cluster = weft_client_get(party->cli.client, path, error);
    party->nodes = party->cluster ? list_nodes(party, error) : NULL;
    party->inside = json_array();
    for (guint rank = 0; rank < json_array_size(party->nodes); rank++) {
        json_t *told = weft_inside_look(party, rank, error);
        if (!told)
            return FALSE;
        json_array_append_new(party->inside, told);
    }
    return party->nodes != NULL;
}

gboolean
weft_site_create(WeftSelftest *test, WeftParty *party, const WeftSiteOrder *order, GError **error)
{
    json_t *cluster = NULL;
    g_autofree char *reason = NULL;
    WeftAwait await = { .goal = &weft_goal_ready, .timeout = test->wish->timeout, .after = "it is removed now" };
    if (!weft_site_has_room(test, party, order, &reason, error)) /* it would wait for it */
        return reason ? weft_error_refuse(error, WEFT_ERROR_EXHAUSTED, "%s", reason) : FALSE;
    party->there = TRUE; /* whatever becomes of the answer */
    gboolean ok = post_wish(test, party, "/v1/clusters", order, &cluster, error) &&
                  weft_await_cluster(&party->cli, cluster, &await, NULL, error) && weft_site_look(party, error);
    json_decref(cluster);
    test->able |= ok;
    return ok;
}

json_t *
weft_site_functions(json_t *node)
{
    json_t *list = json_array(), *device;
    size_t i;
    json_array_foreach (json_object_get(node, "devices"), i, device) {
        g_autofree char *host = weft_cli_field(node, "host");
        g_autofree char *hca = weft_cli_field(device, "hca");
        g_autofree char *vf = weft_cli_field(device, "vf");
        json_array_append_new(list, json_sprintf("%s/%s/%s", host, hca, vf));
    }
    return list;
}

/* What the next one who gets it must not find. */
static void
remember(WeftParty *party)
{
    size_t i;
    json_t *node;
    json_array_clear(party->had);
    json_array_foreach (party->nodes, i, node) {
        json_t *functions = weft_site_functions(node);
        json_array_extend(party->had, functions);
        json_decref(functions);
    }
    g_autofree char *id = weft_cli_field(party->cluster, "id");
    json_array_append_new(party->partitions, json_pack("{s:o, s:O}", "name", json_sprintf("weft-%s", id), "pkey",
                                                       json_object_get(party->cluster, "partition")));
}

gboolean
weft_site_remove(WeftSelftest *test, WeftParty *party, GError **error)
{
    GError *local = NULL;
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *path = weft_cli_cluster_path(&party->cli, party->name, "");
    WeftAwait await = { .goal = &weft_goal_deleted, .timeout = test->wish->timeout, .after = "it goes on being removed" };
    if (!party->there)
        return TRUE;
    if (party->nodes)
        remember(party);
    forget(party);
    gboolean ok = weft_client_call(party->cli.client, &(WeftCall){ "DELETE", path }, &response, &local)
                      ? weft_await_cluster(&party->cli, response.body, &await, NULL, &local)
                      : weft_error_forgive(&local, WEFT_ERROR_NOT_FOUND);
    party->there = !ok;
    if (local)
        g_propagate_error(error, local);
    return ok;
}

/* --- the end --- */

static void add_left(GString *left, GError *error, const char *format, ...) G_GNUC_PRINTF(3, 4);

static void
add_left(GString *left, GError *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_string_append(left, left->len ? "; " : "");
    g_string_append_vprintf(left, format, arguments);
    va_end(arguments);
    g_string_append_printf(left, " (%s)", error->message);
    g_error_free(error);
}

static void
end_clusters(WeftSelftest *test, GString *left)
{
    for (guint i = 0; i < WEFT_PARTIES; i++) {
        GError *local = NULL;
        WeftParty *party = &test->parties[i];
        if (!weft_site_remove(test, party, &local))
            add_left(left, local, "weft rm %s --tenant %s", party->name, party->cli.tenant);
    }
}

static gboolean
delete_one(WeftCli *cli, const char *list, const char *name, GError **error)
{
    GError *local = NULL;
    g_autofree char *path = weft_client_path(list, name);
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ "DELETE", path }, NULL, &local) ||
                  weft_error_forgive(&local, WEFT_ERROR_NOT_FOUND);
    if (!ok)
        g_propagate_error(error, local);
    return ok;
}

gboolean
weft_site_end(WeftSelftest *test, GError **error)
{
    g_autoptr(GString) left = g_string_new(NULL);
    GError *local = NULL;
    size_t i;
    json_t *id;
    end_clusters(test, left);
    json_array_foreach (test->made, i, id)
        if (!delete_one(test->cli, "/v1/templates", json_string_value(id), &local))
            add_left(left, g_steal_pointer(&local), "weft template rm %s", json_string_value(id));
    json_array_clear(test->made);
    for (guint p = 0; p < WEFT_PARTIES; p++) {
        WeftParty *party = &test->parties[p];
        if (party->made && !delete_one(test->cli, "/v1/tenants", party->cli.tenant, &local))
            add_left(left, g_steal_pointer(&local), "weft tenant rm %s", party->cli.tenant);
        else
            party->made = FALSE;
    }
    return left->len == 0 ||
           weft_error_refuse(error, WEFT_ERROR_FAILED,
                             "something of the test is left; clusters go by themselves after " WALLTIME ", or now by: %s",
                             left->str);
}

void
weft_site_clear(WeftSelftest *test)
{
    for (guint i = 0; i < WEFT_PARTIES; i++) {
        forget(&test->parties[i]);
        json_decref(test->parties[i].had);
        json_decref(test->parties[i].partitions);
    }
    json_decref(test->hosts);
    json_decref(test->before);
    json_decref(test->templates);
    json_decref(test->made);
    g_free(test->hostlist);
    g_free(test->mark);
}
