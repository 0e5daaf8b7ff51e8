/* GPUs below the PCIe roots of functions, within one NUMA node. A device whose root is not known goes with any.
 *
 * With one rail, and where each rail has functions below one root only, the count is arithmetic. Else it is a search for how
 * many nodes can be had at once: over the ways to choose a root for each rail, node by node, GPUs being matched to nodes by
 * augmenting paths. It ends as soon as it has as many as there are functions and GPUs for, which it nearly always has at once,
 * and in any case after STEPS_MAX steps with what it found: then there might have been one more. */
#include "slot-private.h"

#define WAYS_MAX 256
#define STEPS_MAX 1000

/* Functions of a rail below one root. */
typedef struct Branch {
    guint8 root;
    guint8 hca; /* of those with that root, the one that has most to spare */
    guint16 functions;
    guint16 own;  /* GPUs below the same root */
    guint16 gpus; /* GPUs that its node may have */
} Branch;

typedef struct Tree {
    guint gpus_each;
    guint rails;
    guint16 gpus;     /* free in the NUMA node */
    guint16 rootless; /* of these */
    guint n[WEFT_RAILS_MAX];
    Branch branches[WEFT_RAILS_MAX][WEFT_HCAS_MAX];
} Tree;

static guint
popcount(guint bits)
{
    return (guint)__builtin_popcount(bits);
}

static void
add_branch(Tree *tree, const WeftSlotHca *hca, guint8 h, guint8 functions, const WeftSpare *spare)
{
    Branch *branches = tree->branches[hca->rail];
    guint i = 0;
    while (i < tree->n[hca->rail] && branches[i].root != hca->root)
        i++;
    Branch *branch = &branches[i];
    if (i == tree->n[hca->rail]) {
        guint16 own = tree->gpus & hca->gpus;
        guint16 all = hca->root == WEFT_SLOT_UNKNOWN ? tree->gpus : own | tree->rootless;
        *branch = (Branch){ .root = hca->root, .hca = h, .own = own, .gpus = all };
        tree->n[hca->rail]++;
    }
    if (functions > spare->functions[branch->hca])
        branch->hca = h;
    branch->functions = (guint16)(branch->functions + functions);
}

/* Returns for how many nodes there are functions, and GPUs below the root of any of them. */
static guint
make_tree(Tree *tree, const WeftSlot *slot, const WeftShape *shape, const WeftSpare *spare, guint numa)
{
    memset(tree, 0, sizeof *tree);
    tree->gpus_each = shape->gpus;
    tree->rails = shape->rails;
    tree->gpus = spare->gpus & slot->numa[numa].gpus;
    tree->rootless = tree->gpus & slot->gpus_rootless;
    guint most = popcount(tree->gpus) / shape->gpus;
    for (guint8 h = 0; most && h < slot->n_hcas; h++) {
        const WeftSlotHca *hca = &weft_slot_hcas(slot)[h];
        if (hca->rail < shape->rails && hca->numa == numa && spare->functions[h])
            add_branch(tree, hca, h, spare->functions[h], spare);
    }
    guint16 gpus = 0;
    for (guint rail = 0; rail < shape->rails; rail++) {
        guint functions = 0;
        for (guint i = 0; i < tree->n[rail]; i++) {
            functions += tree->branches[rail][i].functions;
            gpus |= tree->branches[rail][i].gpus;
        }
        most = MIN(most, functions);
    }
    return MIN(most, popcount(gpus) / shape->gpus);
}

/* --- one rail --- */

/* GPUs of unknown root that a root's next node needs. */
static guint
cost_of(const Branch *branch, guint gpus_each, guint nodes)
{
    guint own = popcount(branch->own);
    return own >= (nodes + 1) * gpus_each ? 0 : MIN(gpus_each, (nodes + 1) * gpus_each - own);
}

/* The root whose next node needs fewest of the GPUs of unknown root: each further node of a root needs as many or more, so
 * that taking the cheapest first gives most. Of equal ones, the root with fewest GPUs, which leaves the others whole. Returns
 * G_MAXUINT: none. */
static guint
cheapest(const Tree *tree, const guint nodes[WEFT_HCAS_MAX], guint rootless)
{
    guint best = G_MAXUINT, least = G_MAXUINT;
    for (guint i = 0; i < tree->n[0]; i++) {
        const Branch *branch = &tree->branches[0][i];
        guint cost = cost_of(branch, tree->gpus_each, nodes[i]);
        if (branch->root == WEFT_SLOT_UNKNOWN || nodes[i] == branch->functions || cost > rootless || cost > least)
            continue;
        if (cost == least && popcount(tree->branches[0][best].own) <= popcount(branch->own))
            continue;
        best = i;
        least = cost;
    }
    return best;
}

/* Functions of unknown root have what GPUs the others leave. */
static guint
count_one_rail(const Tree *tree, guint most)
{
    guint nodes[WEFT_HCAS_MAX] = { 0 };
    guint rootless = popcount(tree->rootless), n = 0, any = 0;
    for (guint i; n < most && (i = cheapest(tree, nodes, rootless)) != G_MAXUINT; n++)
        rootless -= cost_of(&tree->branches[0][i], tree->gpus_each, nodes[i]++);
    for (guint i = 0; i < tree->n[0]; i++)
        any += tree->branches[0][i].root == WEFT_SLOT_UNKNOWN ? tree->branches[0][i].functions : 0;
    return MIN(n + any, most);
}

/* --- several --- */

/* A root for each rail. */
typedef struct Way {
    guint8 branch[WEFT_RAILS_MAX];
    guint16 gpus; /* that a node with functions below these may have */
} Way;

typedef struct Search {
    Tree *tree;
    guint n_ways;
    Way ways[WAYS_MAX];
    guint steps;
    guint most;
    guint best;                   /* nodes at once */
    guint way[WEFT_GPUS_MAX + 1]; /* of each node so far */
    guint8 owner[WEFT_GPUS_MAX];  /* node of each GPU, from 1 */
    Way first;                    /* of the best: its first node */
    guint16 first_gpus;
} Search;

static void
list_ways(Search *search)
{
    const Tree *tree = search->tree;
    Way way = { 0 };
    guint rail = 0;
    while (rail < tree->rails && search->n_ways < WAYS_MAX) {
        way.gpus = 0;
        for (guint k = 0; k < tree->rails; k++)
            way.gpus |= tree->branches[k][way.branch[k]].gpus;
        search->ways[search->n_ways++] = way;
        for (rail = 0; rail < tree->rails && ++way.branch[rail] == tree->n[rail]; rail++)
            way.branch[rail] = 0;
    }
}

/* One more GPU for a node (from 1); others may change theirs for it. */
static gboolean
augment(Search *search, guint node, guint16 *seen)
{
    guint gpus = search->ways[search->way[node]].gpus;
    for (guint gpu = 0; gpu < WEFT_GPUS_MAX; gpu++) {
        if (!(gpus >> gpu & 1) || *seen >> gpu & 1 || search->owner[gpu] == node)
            continue;
        *seen |= (guint16)(1U << gpu);
        if (search->owner[gpu] == 0 || augment(search, search->owner[gpu], seen)) {
            search->owner[gpu] = (guint8)node;
            return TRUE;
        }
    }
    return FALSE;
}

static void
note_best(Search *search, guint nodes)
{
    if (nodes <= search->best)
        return;
    search->best = nodes;
    search->first = search->ways[search->way[1]];
    search->first_gpus = 0;
    for (guint gpu = 0; gpu < WEFT_GPUS_MAX; gpu++)
        search->first_gpus |= (guint16)((search->owner[gpu] == 1) << gpu);
}

/* Takes or gives back a function of each of the way's branches. */
static gboolean
use_way(Search *search, guint way, int by)
{
    for (guint rail = 0; rail < search->tree->rails; rail++) {
        Branch *branch = &search->tree->branches[rail][search->ways[way].branch[rail]];
        if (by < 0 && branch->functions == 0) {
            while (rail-- > 0)
                search->tree->branches[rail][search->ways[way].branch[rail]].functions++;
            return FALSE;
        }
        branch->functions = (guint16)(branch->functions + by);
    }
    return TRUE;
}

static void
look(Search *search, guint nodes, guint from)
{
    note_best(search, nodes);
    for (guint way = from; way < search->n_ways && search->best < search->most && search->steps < STEPS_MAX; way++) {
        if (!use_way(search, way, -1))
            continue;
        guint8 owner[WEFT_GPUS_MAX];
        memcpy(owner, search->owner, sizeof owner);
        search->steps++;
        search->way[nodes + 1] = way;
        gboolean found = TRUE;
        for (guint i = 0; found && i < search->tree->gpus_each; i++) {
            guint16 seen = 0;
            found = augment(search, nodes + 1, &seen);
        }
        if (found)
            look(search, nodes + 1, way);
        memcpy(search->owner, owner, sizeof owner);
        use_way(search, way, 1);
    }
}

static void
search_ways(Search *search, Tree *tree, guint most)
{
    search->tree = tree;
    search->most = most;
    search->n_ways = search->steps = search->best = 0;
    search->first = (Way){ 0 };
    search->first_gpus = 0;
    memset(search->owner, 0, sizeof search->owner);
    list_ways(search);
    look(search, 0, 0);
}

static gboolean
has_one_way(const Tree *tree)
{
    for (guint rail = 0; rail < tree->rails; rail++)
        if (tree->n[rail] > 1)
            return FALSE;
    return TRUE;
}

static guint
count_ways(Tree *tree, guint most)
{
    Search search;
    if (has_one_way(tree))
        return most;
    search_ways(&search, tree, most);
    return search.best;
}

/* --- both --- */

guint
weft_roots_count(const WeftSlot *slot, const WeftShape *shape, const WeftSpare *spare, guint numa)
{
    Tree tree;
    guint most = make_tree(&tree, slot, shape, spare, numa);
    if (most == 0)
        return 0;
    return tree.rails == 1 ? count_one_rail(&tree, most) : count_ways(&tree, most);
}

/* The first ones of these. */
static guint16
some_of(guint16 gpus, guint n)
{
    guint16 some = 0;
    for (; n && gpus; n--) {
        some |= gpus & (guint16)-gpus;
        gpus &= (guint16)(gpus - 1);
    }
    return some;
}

static gboolean
pick_one_rail(const Tree *tree, WeftSeat *seat)
{
    const guint nodes[WEFT_HCAS_MAX] = { 0 };
    guint i = cheapest(tree, nodes, popcount(tree->rootless));
    for (guint j = 0; i == G_MAXUINT && j < tree->n[0]; j++)
        if (tree->branches[0][j].root == WEFT_SLOT_UNKNOWN)
            i = j;
    if (i == G_MAXUINT)
        return FALSE;
    const Branch *branch = &tree->branches[0][i];
    guint own = MIN(popcount(branch->own), tree->gpus_each);
    seat->hca[0] = branch->hca;
    seat->gpus = some_of(branch->own, own) | some_of(branch->gpus & (guint16)~branch->own, tree->gpus_each - own);
    return TRUE;
}

gboolean
weft_roots_pick(const WeftSlot *slot, const WeftShape *shape, const WeftSpare *spare, guint numa, WeftSeat *seat)
{
    Tree tree;
    Search search;
    guint most = make_tree(&tree, slot, shape, spare, numa);
    if (most == 0)
        return FALSE;
    if (tree.rails == 1)
        return pick_one_rail(&tree, seat);
    search_ways(&search, &tree, most);
    for (guint rail = 0; search.best && rail < tree.rails; rail++)
        seat->hca[rail] = tree.branches[rail][search.first.branch[rail]].hca;
    seat->gpus = search.first_gpus;
    return search.best > 0;
}
