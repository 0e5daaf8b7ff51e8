/* The checks of a self test for which clusters come, go and move. */
#include "await.h"
#include "errors.h"
#include "selftest-private.h"

#include <string.h>

#define ASKED_MAX 8 /* addresses of another cluster: silence takes seconds each */

/* --- beside another --- */

WeftVerdict
weft_check_second(WeftSelftest *test, GString *found, GError **error)
{
    g_autofree char *reason = NULL;
    WeftSiteOrder order = { .count = 1 };
    if (weft_site_has_room(test, &test->parties[WEFT_SECOND], &order, &reason, error))
        return weft_check_make(test, WEFT_SECOND, &order, found, error);
    return weft_verdict(found, reason ? WEFT_CHECK_SKIPPED : WEFT_CHECK_FAILED, "%s", reason ? reason : "");
}

/* The address of a node is that of its rank, in all clusters: so those are asked for that only the first one has. It has to
 * reach them itself at that time, or nothing would be shown. */
static WeftVerdict
check_unreached(WeftSelftest *test, GString *found, GError **error)
{
    const WeftParty *first = &test->parties[WEFT_FIRST], *second = &test->parties[WEFT_SECOND];
    gboolean able = FALSE;
    json_t *addresses = weft_party_addresses(first, 0, second);
    while (json_array_size(addresses) > ASKED_MAX)
        json_array_remove(addresses, ASKED_MAX);
    json_t *theirs = weft_inside_ping(second, 0, addresses, &able, error);
    json_t *own = theirs ? weft_inside_ping(first, 0, addresses, &able, error) : NULL;
    g_autofree char *name = weft_party_node_name(second, 0);
    g_autofree char *other = weft_party_node_name(first, 0);
    WeftVerdict verdict = own ? WEFT_CHECK_OK : WEFT_CHECK_FAILED;
    if (own && !able)
        verdict = weft_verdict(found, WEFT_CHECK_SKIPPED, "the image has no ping");
    else if (own && json_array_size(theirs))
        verdict = weft_verdict(found, WEFT_CHECK_FAILED, "%s reaches %s of another cluster", name,
                               json_string_value(json_array_get(theirs, 0)));
    else if (own && json_array_size(own) == 0)
        verdict = weft_verdict(found, WEFT_CHECK_FAILED, "nobody reaches the nodes that are to be asked for");
    else if (own)
        weft_verdict(found, WEFT_CHECK_OK, "%s reaches 0 of %zu addresses at which %s reaches its own cluster", name,
                     json_array_size(own), other);
    json_decref(addresses);
    json_decref(theirs);
    json_decref(own);
    return verdict;
}

WeftVerdict
weft_check_apart(WeftSelftest *test, GString *found, GError **error)
{
    if (!weft_site_look(&test->parties[WEFT_FIRST], error) || weft_check_given(test, found) != WEFT_CHECK_OK)
        return WEFT_CHECK_FAILED;
    return check_unreached(test, found, error);
}

/* --- gone, and again --- */

/* How many devices there hold data, and have the mark by now. */
static gboolean
mark_all(WeftSelftest *test, guint *ret_blocks, GError **error)
{
    *ret_blocks = 0;
    for (guint p = 0; p < WEFT_PARTIES; p++) {
        const WeftParty *party = &test->parties[p];
        for (size_t rank = 0; rank < json_array_size(party->inside); rank++) {
            if (json_array_size(json_object_get(weft_party_inside(party, rank), "blocks")) == 0)
                continue;
            json_t *blocks = weft_inside_mark(party, (guint)rank, test->mark, error);
            if (!blocks)
                return FALSE;
            *ret_blocks += (guint)json_array_size(blocks);
            json_decref(blocks);
        }
    }
    return TRUE;
}

static gboolean
remove_both(WeftSelftest *test, GError **error)
{
    return weft_site_remove(test, &test->parties[WEFT_FIRST], error) &&
           weft_site_remove(test, &test->parties[WEFT_SECOND], error);
}

WeftVerdict
weft_check_delete(WeftSelftest *test, GString *found, GError **error)
{
    guint blocks = 0;
    gint64 start = g_get_monotonic_time();
    if (!mark_all(test, &blocks, error) || !remove_both(test, error) || !weft_look_gone(test, error))
        return WEFT_CHECK_FAILED;
    g_autofree char *marked = weft_cli_count(blocks, "device");
    return weft_verdict(found, WEFT_CHECK_OK, "in %.1f s; partitions are gone, hosts are as before%s%s%s",
                        (double)(g_get_monotonic_time() - start) / G_TIME_SPAN_SECOND, blocks ? "; data was left on " : "",
                        blocks ? marked : "", blocks ? " for who comes next" : "");
}

/* Functions that the other party had before. */
static guint
count_swapped(const WeftSelftest *test)
{
    guint count = 0;
    for (guint p = 0; p < WEFT_PARTIES; p++) {
        json_t *theirs = test->parties[WEFT_PARTIES - 1 - p].had, *node, *function;
        size_t i, j;
        json_array_foreach (test->parties[p].nodes, i, node) {
            json_t *functions = weft_site_functions(node);
            json_array_foreach (functions, j, function)
                count += weft_list_contains(theirs, function);
            json_decref(functions);
        }
    }
    return count;
}

/* TRUE: nobody reads anything of anybody before. */
static gboolean
check_data(const WeftSelftest *test, GString *found, GError **error)
{
    for (guint p = 0; p < WEFT_PARTIES; p++) {
        const WeftParty *party = &test->parties[p];
        for (size_t rank = 0; rank < json_array_size(party->inside); rank++) {
            if (json_array_size(json_object_get(weft_party_inside(party, rank), "blocks")) == 0)
                continue;
            json_t *left = weft_inside_find(party, (guint)rank, test->mark, error);
            g_autofree char *name = weft_party_node_name(party, rank);
            gboolean clean = left && json_array_size(left) == 0;
            if (left && !clean)
                weft_verdict(found, WEFT_CHECK_FAILED, "%s reads on %s what was written there before it", name,
                             json_string_value(json_array_get(left, 0)));
            json_decref(left);
            if (!clean)
                return FALSE;
        }
    }
    return TRUE;
}

/* The second one asks first now, for as many as the first one had: functions are given in order. */
WeftVerdict
weft_check_swap(WeftSelftest *test, GString *found, GError **error)
{
    WeftSiteOrder order = weft_main_order(test), one = { .count = 1 };
    g_autofree char *reason = NULL;
    g_autoptr(GString) unused = g_string_new(NULL);
    if (!remove_both(test, error))
        return WEFT_CHECK_FAILED;
    WeftVerdict verdict = weft_check_make(test, WEFT_SECOND, &order, unused, error);
    if (verdict == WEFT_CHECK_OK && weft_site_has_room(test, &test->parties[WEFT_FIRST], &one, &reason, error))
        verdict = weft_check_make(test, WEFT_FIRST, &one, unused, error);
    if (verdict != WEFT_CHECK_OK || (error && *error) || weft_check_given(test, found) != WEFT_CHECK_OK ||
        !check_data(test, found, error))
        return WEFT_CHECK_FAILED;
    guint swapped = count_swapped(test);
    g_autofree char *count = weft_cli_count(swapped, "function");
    if (!test->functions)
        return weft_verdict(found, WEFT_CHECK_OK, "created again with tenants exchanged");
    if (swapped == 0)
        return weft_verdict(found, WEFT_CHECK_SKIPPED, "created again, but no function is one that the other one had");
    return weft_verdict(found, WEFT_CHECK_OK, "%s that the other one had: nothing of it is left", count);
}

/* --- forks --- */

/* The only one that there was not before, or that is of this image and shape. NULL: there is none. */
static json_t *
find_template(WeftSelftest *test, json_t *node, GError **error)
{
    json_t *all = weft_client_list(test->cli->client, "/v1/templates", error), *template, *found = NULL;
    size_t i;
    json_array_foreach (all, i, template)
        if (json_equal(json_object_get(template, "image"), json_object_get(node, "image")) &&
            json_equal(json_object_get(template, "memory"), json_object_get(node, "memory")) &&
            json_equal(json_object_get(template, "cores"), json_object_get(node, "cores")) &&
            json_is_null(json_object_get(template, "source")))
            found = template;
    json_t *id = json_object_get(found, "id");
    if (found && !weft_list_contains(test->templates, id) && !weft_list_contains(test->made, id))
        json_array_append(test->made, id);
    json_incref(found);
    json_decref(all);
    return found;
}

static gboolean
template_ready(json_t *template, gboolean *ret_reached, GError **error)
{
    g_autofree char *state = weft_cli_field(template, "state");
    g_autofree char *reason = weft_cli_field(template, "reason");
    *ret_reached = strcmp(state, "ready") == 0;
    return template && strcmp(state, "failed") != 0 ? TRUE
                                                    : weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot be made: %s", reason);
}

static char *
describe_template(json_t *template)
{
    return weft_cli_field(template, "state");
}

static gboolean
await_template(WeftSelftest *test, json_t *template, GError **error)
{
    static const WeftGoal goal = { template_ready, describe_template };
    g_autofree char *path = weft_client_path("/v1/templates", json_string_value(json_object_get(template, "id")));
    WeftAwait await = { .goal = &goal,
                        .what = "template",
                        .path = path,
                        .events = "/v1/events",
                        .timeout = test->wish->timeout,
                        .after = "it goes on being made" };
    return weft_await(test->cli, &await, NULL, error);
}

/* The last message of these types of events of the cluster; NULL: there is none. */
static char *
find_event(const WeftParty *party, const char *const *types, GError **error)
{
    g_autofree char *path = weft_cli_cluster_path(&party->cli, party->name, "/events");
    json_t *events = weft_client_list(party->cli.client, path, error), *event;
    char *message = NULL;
    size_t i;
    json_array_foreach (events, i, event) {
        const char *type = json_string_value(json_object_get(event, "type"));
        if (!type || !g_strv_contains(types, type) ||
            !json_equal(json_object_get(event, "cluster"), json_object_get(party->cluster, "id")))
            continue;
        g_free(message);
        message = weft_cli_field(event, "message");
    }
    json_decref(events);
    return message;
}

static const char *const boots[] = { "cluster-boots", "node-boots", NULL };
static const char *const moved[] = { "node-moved", NULL };
static const char *const not_moved[] = { "node-move-failed", "node-lost", "node-failed", NULL };
static const char *const moving[] = { "node-moving", NULL };

static WeftVerdict
tell_fork(WeftSelftest *test, const WeftParty *party, GString *found, GError **error)
{
    json_t *template = find_template(test, json_array_get(party->nodes, 0), error);
    gboolean there = template != NULL;
    json_decref(template);
    if (!there) /* nobody said why it boots: nobody expected anything else */
        return weft_verdict(found, error && *error ? WEFT_CHECK_FAILED : WEFT_CHECK_SKIPPED,
                            "nodes are not forked here: templates are off, or nothing is known of the image");
    json_t *copied = json_object_get(json_array_get(party->nodes, 0), "copied");
    if (!json_is_object(copied))
        return weft_verdict(found, WEFT_CHECK_OK, "forked; it shares the memory of its template");
    g_autofree char *bytes = weft_cli_size_field(copied, "bytes");
    return weft_verdict(found, WEFT_CHECK_OK, "forked; its device took a copy of %s of memory, %.2f s", bytes,
                        json_number_value(json_object_get(copied, "seconds")));
}

/* The first one wants a template, unless there is one; the next one is forked from it. */
static WeftVerdict
fork_again(WeftSelftest *test, WeftParty *party, const WeftSiteOrder *order, const char *why, GString *found, GError **error)
{
    json_t *template = find_template(test, json_array_get(party->nodes, 0), error);
    if (!template)
        return error && *error ? WEFT_CHECK_FAILED : weft_verdict(found, WEFT_CHECK_SKIPPED, "%s", why);
    gboolean ok = await_template(test, template, error) && weft_site_remove(test, party, error) &&
                  weft_site_create(test, party, order, error);
    json_decref(template);
    g_autofree char *still = ok ? find_event(party, boots, error) : NULL;
    if (!ok || still)
        return weft_verdict(found, WEFT_CHECK_FAILED, "%s", still ? still : "");
    return tell_fork(test, party, found, error);
}

WeftVerdict
weft_check_fork(WeftSelftest *test, GString *found, GError **error)
{
    WeftParty *party = &test->parties[WEFT_FIRST];
    WeftSiteOrder order = { .count = 1, .forked = TRUE };
    if (!remove_both(test, error) || !weft_site_create(test, party, &order, error))
        return WEFT_CHECK_FAILED;
    g_autofree char *why = find_event(party, boots, error);
    WeftVerdict verdict = why ? fork_again(test, party, &order, why, found, error) : tell_fork(test, party, found, error);
    return verdict == WEFT_CHECK_OK && weft_check_given(test, found) != WEFT_CHECK_OK ? WEFT_CHECK_FAILED : verdict;
}

/* --- a move --- */

static gboolean
move_ended(json_t *move, gboolean *ret_reached, GError **error)
{
    *ret_reached = !move;
    return TRUE;
}

static char *
describe_move(json_t *move)
{
    return g_strdup(json_is_true(json_object_get(move, "begun")) ? "on its way" : "about to leave");
}

/* Where the node is not. */
static const char *
other_host(const WeftSelftest *test, const WeftParty *party)
{
    json_t *here = json_object_get(json_array_get(party->nodes, 0), "host"), *host;
    size_t i;
    json_array_foreach (test->hosts, i, host)
        if (!json_equal(json_object_get(host, "name"), here))
            return json_string_value(json_object_get(host, "name"));
    return NULL;
}

static gboolean
move_to(WeftSelftest *test, const WeftParty *party, const char *host, GError **error)
{
    static const WeftGoal goal = { move_ended, describe_move };
    WeftCli cli = party->cli;
    g_autofree char *path = weft_cli_cluster_path(&cli, party->name, "/nodes/0/move");
    g_autofree char *events = weft_cli_cluster_path(&cli, party->name, "/events");
    g_autofree char *what = g_strdup_printf("node %s[0]", party->name);
    WeftAwait await = { .goal = &goal,
                        .what = what,
                        .path = path,
                        .events = events,
                        .timeout = test->wish->timeout,
                        .after = "it goes on being moved" };
    json_t *body = json_pack("{s:s, s:b}", "to", host, "disrupt", TRUE);
    gboolean ok =
        weft_client_call(cli.client, &(WeftCall){ "POST", path, body }, NULL, error) && weft_await(&cli, &await, NULL, error);
    json_decref(body);
    return ok;
}

/* One node alone, so that a host which takes one at a time has room for it, too: the fork, or a new one. */
static gboolean
be_alone(WeftSelftest *test, WeftParty *party, GError **error)
{
    WeftSiteOrder order = { .count = 1 };
    if (json_array_size(party->nodes) == 1 && !test->parties[WEFT_SECOND].there)
        return TRUE;
    return remove_both(test, error) && weft_site_create(test, party, &order, error);
}

/* Its device is pulled here and plugged there, with the same GUID. What was refused before it began says that no host suits. */
WeftVerdict
weft_check_move(WeftSelftest *test, GString *found, GError **error)
{
    WeftParty *party = &test->parties[WEFT_FIRST];
    WeftAwait ready = { .goal = &weft_goal_ready, .timeout = test->wish->timeout, .after = "it is removed now" };
    const char *to = be_alone(test, party, error) ? other_host(test, party) : NULL;
    if (!to || !move_to(test, party, to, error))
        return WEFT_CHECK_FAILED;
    g_autofree char *how = find_event(party, moved, error);
    g_autofree char *why = how ? NULL : find_event(party, not_moved, error);
    g_autofree char *began = how ? NULL : find_event(party, moving, error);
    if (!how)
        return weft_verdict(found, began ? WEFT_CHECK_FAILED : WEFT_CHECK_SKIPPED, "%s", why ? why : "it was not moved");
    json_t *cluster = json_incref(party->cluster);
    gboolean ok = weft_await_cluster(&party->cli, cluster, &ready, NULL, error) && weft_site_look(party, error);
    json_decref(cluster);
    if (!ok || weft_check_given(test, found) != WEFT_CHECK_OK)
        return WEFT_CHECK_FAILED;
    g_autofree char *host = weft_cli_field(json_array_get(party->nodes, 0), "host");
    if (strcmp(host, to) != 0)
        return weft_verdict(found, WEFT_CHECK_FAILED, "it is on host %s, and should be on %s", host, to);
    return weft_verdict(found, WEFT_CHECK_OK, "%s", how);
}

/* --- the end --- */

WeftVerdict
weft_check_clean(WeftSelftest *test, GString *found, GError **error)
{
    if (!weft_site_end(test, error) || !weft_look_gone(test, error) || !weft_look_pages_back(test, error))
        return WEFT_CHECK_FAILED;
    return weft_verdict(found, WEFT_CHECK_OK, "clusters, partitions and tenants are gone, hosts are as before");
}
