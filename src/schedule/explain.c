/* Why a placement is as it is, in words. Names of hosts and leaves are left to who shows it: not everybody may read them. */
#include "text.h"
#include "trial.h"

#include <string.h>

static void G_GNUC_PRINTF(2, 3) say(GPtrArray *lines, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_ptr_array_add(lines, g_strdup_vprintf(format, args));
    va_end(args);
}

/* The realm that it is in; NULL: a host has gone since. */
static WeftRealm *
realm_of(const WeftFleet *fleet, const WeftPlacement *placement)
{
    return g_array_index(fleet->places, WeftPlace, placement->seats[0].host).realm;
}

/* Leaves that could take all of one group's nodes, by the index that chose. */
static void
say_leaf(GPtrArray *lines, const WeftIndex *index, guint n)
{
    const WeftRealm *realm = index->realm;
    const WeftOffer *all = index->leaves[realm->n_levels - 1];
    guint could = realm->n_leaves - weft_offers_find(all, realm->n_leaves, n);
    g_autofree char *most = weft_text_count(all[realm->n_leaves - 1].key, "node");
    if (could > 1)
        say(lines,
            "%u leaf switches have room for all of it: this is the one where it needs fewest hosts and that has least to spare",
            could);
    else if (could == 1)
        say(lines, "it is the only leaf switch that has room for all of it");
    else
        say(lines, "no leaf switch has room for all of it; the roomiest takes %s", most);
}

static void
say_hops(GPtrArray *lines, const WeftPlacement *placement)
{
    if (placement->leaves < 2)
        return;
    if (placement->hops == G_MAXUINT)
        say(lines, "how far these are from each other is not known: the fabric has told no map");
    else
        say(lines, "two nodes are at most %u cables between switches apart, the nearest set of as few leaf switches",
            placement->hops);
}

static void
say_where(GPtrArray *lines, const WeftTrial *trial, const WeftPlacement *placement)
{
    const WeftCluster *cluster = trial->request->cluster;
    gboolean spread = cluster->layout == WEFT_LAYOUT_SPREAD;
    g_autofree char *nodes = weft_text_count(placement->n, "node"), *hosts = weft_text_count(placement->hosts, "host");
    say(lines, "%s on %s below %u leaf switch%s: %s", nodes, hosts, placement->leaves, placement->leaves == 1 ? "" : "es",
        spread ? "as many as can be (layout spread)" : "the fewest that have room (layout compact)");
    if (!spread && trial->n == 1)
        say_leaf(lines, weft_index_get(trial->fleet, trial->realm, &trial->groups[0].shape, cluster->labels), placement->n);
    if (!spread)
        say_hops(lines, placement);
    if (cluster->exclusive)
        say(lines, "the hosts take nodes of no other cluster (exclusive)");
}

static void
say_inside(GPtrArray *lines, const WeftPlacement *placement)
{
    g_autofree char *split = weft_text_count(placement->split, "node"), *remote = weft_text_count(placement->remote, "node");
    if (placement->split == 0 && placement->remote == 0)
        say(lines, "each node has its cores, memory and devices in one NUMA node");
    if (placement->split)
        say(lines, "%s lie%s over several NUMA nodes: there is room in no single one", split, placement->split == 1 ? "s" : "");
    if (placement->remote)
        say(lines, "%s %s a device of another NUMA node than the cores: none is free in their own", remote,
            placement->remote == 1 ? "has" : "have");
}

/* The first node whose path was chosen; NULL: there is none. */
static const WeftSeat *
find_chosen(const WeftCluster *cluster, const WeftPlacement *placement)
{
    for (guint i = 0; i < placement->n; i++) {
        const WeftGroup *group = cluster->groups->pdata[placement->seats[i].group];
        if (group->path == WEFT_PATH_AUTO && group->rails)
            return &placement->seats[i];
    }
    return NULL;
}

static void
say_path(GPtrArray *lines, const WeftTrial *trial, const WeftPlacement *placement)
{
    const WeftPlaceRequest *request = trial->request;
    const WeftPathRule *rule = request->rule ? request->rule : &weft_path_rule_published;
    const WeftSeat *chosen = find_chosen(request->cluster, placement);
    if (placement->between >= 0)
        say(lines, "pattern %s: ranks are ordered so that %d %% of the traffic leaves a host",
            weft_pattern_words[request->cluster->pattern], placement->between);
    if (!chosen)
        return;
    if (placement->between >= 0 && weft_realm_gives_functions(trial->fleet, trial->realm))
        say(lines, "path %s: below %u %% between hosts the bridge is faster, above it the virtual function",
            weft_path_words[chosen->path], rule->bridge_below);
    else
        say(lines, "path %s: the fabric's hosts have %svirtual functions to give", weft_path_words[chosen->path],
            chosen->path == WEFT_PATH_BRIDGE ? "no " : "");
}

GPtrArray *
weft_place_explain(WeftFleet *fleet, const WeftPlaceRequest *request, const WeftPlacement *placement)
{
    GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
    weft_fleet_sort(fleet);
    WeftTrial trial = { .fleet = fleet, .realm = realm_of(fleet, placement), .board = fleet->board, .request = request };
    if (!trial.realm)
        return lines;
    const WeftLane *lane = placement->seats[0].sl ? weft_lanes_find(&trial.realm->told->qos, placement->seats[0].sl) : NULL;
    trial.lane = lane;
    weft_trial_begin(&trial, placement->seats[0].path == WEFT_PATH_BRIDGE);
    say_where(lines, &trial, placement);
    say_inside(lines, placement);
    say_path(lines, &trial, placement);
    if (lane)
        say(lines, "the guaranteed bandwidth is in the lane of service level %u", lane->sl);
    return lines;
}
