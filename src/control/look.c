#include "look.h"

#include "node-mark.h"

#include <string.h>

#define UNSAID "-"
#define KEY_MAX 120 /* bytes; marks are what somebody wrote on a host */

void
weft_found_free(WeftFound *found)
{
    if (!found)
        return;
    g_free(found->id);
    g_free(found->site);
    g_free(found->stay);
    g_free(found->key);
    g_free(found->name);
    g_free(found->record);
    g_free(found->number);
    g_free(found->there);
    g_free(found);
}

char *
weft_number_of_partition(const char *fabric, guint pkey)
{
    return g_strdup_printf("partition %s/0x%04x", fabric, pkey);
}

char *
weft_number_of_network(guint vxlan)
{
    return g_strdup_printf("network %u", vxlan);
}

/* --- what is looked at --- */

typedef enum { EXPLAINED, ENDED, UNPROVED } Verdict;

/* A host tells as many things as it likes: whatever is searched for has an index. All of it is borrowed. */
typedef struct Sight {
    const WeftLookInput *input;
    GHashTable *nodes;   /* id to WeftNode */
    GHashTable *domains; /* id of a node to the first WeftDomain of it */
    GHashTable *marks;   /* subject to GPtrArray of WeftFileMark */
    WeftLook *look;
} Sight;

static void
index_first(GHashTable *index, const char *key, gpointer value)
{
    if (key && !g_hash_table_contains(index, key))
        g_hash_table_insert(index, (gpointer)key, value);
}

static void
index_mark(GHashTable *index, WeftFileMark *mark)
{
    GPtrArray *marks = g_hash_table_lookup(index, mark->subject);
    if (!marks) {
        marks = g_ptr_array_new();
        g_hash_table_insert(index, mark->subject, marks);
    }
    g_ptr_array_add(marks, mark);
}

static void
sight_begin(Sight *sight, const WeftLookInput *input, WeftLook *look)
{
    const WeftContents *contents = input->contents;
    *sight = (Sight){ input, g_hash_table_new(g_str_hash, g_str_equal), g_hash_table_new(g_str_hash, g_str_equal),
                      g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)g_ptr_array_unref), look };
    for (guint i = 0; i < input->nodes->len; i++)
        index_first(sight->nodes, ((const WeftNode *)input->nodes->pdata[i])->id, input->nodes->pdata[i]);
    for (guint i = 0; i < contents->domains->len; i++)
        index_first(sight->domains, ((const WeftDomain *)contents->domains->pdata[i])->node, contents->domains->pdata[i]);
    for (guint i = 0; i < contents->marks->len; i++)
        index_mark(sight->marks, contents->marks->pdata[i]);
}

static void
sight_end(Sight *sight)
{
    g_hash_table_unref(sight->nodes);
    g_hash_table_unref(sight->domains);
    g_hash_table_unref(sight->marks);
}

/* --- verdicts --- */

static WeftFound *
found_new(WeftThing thing, const char *id, const char *site, const char *stay, const char *name)
{
    WeftFound *found = g_new0(WeftFound, 1);
    *found = (WeftFound){ thing, g_strdup(id), g_strdup(site), g_strdup(stay), NULL, g_strdup(name) };
    found->key =
        g_strdup_printf("%s/%s/%s%s%s", weft_thing_words[thing], site ? site : UNSAID, id, thing == WEFT_THING_NODE ? "/" : "",
                        thing != WEFT_THING_NODE ? ""
                        : stay                   ? stay
                                                 : UNSAID);
    if (strlen(found->key) > KEY_MAX) {
        g_autofree char *all = found->key, *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, all, -1);
        found->key = g_strdup_printf("%s/%s", weft_thing_words[thing], sum);
    }
    return found;
}

/* Of our site, and ended by this store; or confirmed by somebody who has seen it, which does not count for what this store
 * itself has elsewhere. */
static Verdict
judge(const Sight *sight, WeftFound *found)
{
    const WeftProof *proof = &sight->input->proof;
    gboolean ours = g_strcmp0(found->site, sight->input->site) == 0, node = found->thing == WEFT_THING_NODE;
    gboolean confirmed = proof->is_confirmed(found->key, proof->data);
    gboolean unknown = proof->is_unknown(found->key, proof->data);
    if (unknown && !confirmed)
        return UNPROVED;
    found->there = ours && node && found->stay && !unknown ? proof->find_stay(found->id, found->stay, proof->data) : NULL;
    if (found->there)
        return UNPROVED;
    found->confirmed = confirmed;
    if (confirmed)
        return ENDED;
    if (!ours || (node && !found->stay))
        return UNPROVED;
    g_autofree char *stay = node ? weft_placement_id(found->id, found->stay) : NULL;
    return proof->has_ended(found->thing, stay ? stay : found->id, proof->data) ? ENDED : UNPROVED;
}

/* Takes it over: it is kept where it is unproved, or was confirmed. */
static Verdict
settle(const Sight *sight, WeftFound *found)
{
    Verdict verdict = judge(sight, found);
    if (verdict == UNPROVED)
        g_ptr_array_add(sight->look->unproved, found);
    else if (found->confirmed)
        g_ptr_array_add(sight->look->confirmed, found);
    else
        weft_found_free(found);
    return verdict;
}

/* --- domains --- */

static gboolean
runs(const Sight *sight, const char *node_id)
{
    const WeftDomain *domain = g_hash_table_lookup(sight->domains, node_id);
    return domain && domain->state == WEFT_DOMAIN_RUNNING;
}

/* Is that the stay here that a record tells of? */
static gboolean
is_stay(const Sight *sight, const char *node_id, const char *site, const char *stay)
{
    const WeftNode *node = g_hash_table_lookup(sight->nodes, node_id);
    if (!node || !stay || g_strcmp0(site, sight->input->site) != 0)
        return FALSE;
    const char *here = g_strcmp0(node->host, sight->input->host) == 0 ? node->placement
                       : node->target                                 ? node->target->placement
                                                                      : NULL;
    return g_strcmp0(here, stay) == 0;
}

/* Is it on its way here, or to be started? Whatever has its name by then is the node itself. */
static gboolean
is_coming(const Sight *sight, const char *node_id)
{
    const WeftNode *node = g_hash_table_lookup(sight->nodes, node_id);
    return node &&
           (node->phase == WEFT_NODE_CLAIMED || (node->target && g_strcmp0(node->target->host, sight->input->host) == 0));
}

static char *
read_number(const WeftDomain *domain)
{
    g_autoptr(WeftNodeMark) mark = domain->record ? weft_node_mark_read(domain->record, NULL) : NULL;
    return mark ? weft_number_of_partition(mark->fabric, mark->pkey) : NULL;
}

static char *
number_of(const WeftDomain *domain)
{
    const char *known = domain->number;
    return !known ? read_number(domain) : known[0] ? g_strdup(known) : NULL;
}

static Verdict
judge_stay(const Sight *sight, const WeftDomain *domain, const char *site, const char *stay)
{
    if (is_stay(sight, domain->node, site, stay))
        return EXPLAINED;
    WeftFound *found = found_new(WEFT_THING_NODE, domain->node, site, stay, domain->name);
    found->runs = domain->state != WEFT_DOMAIN_STOPPED;
    found->record = g_strdup(domain->record);
    found->number = number_of(domain);
    return settle(sight, found);
}

/* It has a mark of its own, and its files have some: all of them must have ended before it may go, since its files go with it.
 * What is left of an earlier stay is removed by whoever begins the next one: an order to stop it might come after that. */
static Verdict
judge_domain(const Sight *sight, const WeftDomain *domain)
{
    const GPtrArray *marks = g_hash_table_lookup(sight->marks, domain->name);
    gboolean seen[UNPROVED + 1] = { FALSE };
    gboolean any = FALSE;
    for (guint i = 0; marks && i < marks->len; i++) {
        const WeftFileMark *mark = marks->pdata[i];
        if (g_strcmp0(mark->placement, domain->placement) == 0)
            continue;
        any = TRUE;
        seen[judge_stay(sight, domain, mark->site, mark->placement)] = TRUE;
    }
    if (domain->site || domain->state != WEFT_DOMAIN_STOPPED || !any)
        seen[judge_stay(sight, domain, domain->site, domain->placement)] = TRUE;
    return seen[UNPROVED] ? UNPROVED : seen[EXPLAINED] || is_coming(sight, domain->node) ? EXPLAINED : ENDED;
}

static void
look_at_domains(const Sight *sight)
{
    const GPtrArray *domains = sight->input->contents->domains;
    for (guint i = 0; i < domains->len; i++) {
        const WeftDomain *domain = domains->pdata[i];
        if (!domain->node)
            g_ptr_array_add(sight->look->foreign, domain->name);
        else if (judge_domain(sight, domain) == ENDED)
            g_ptr_array_add(sight->look->stale, domain->name);
    }
    for (guint i = 0; i < sight->input->nodes->len; i++) {
        WeftNode *node = sight->input->nodes->pdata[i];
        /* Of one on its way the call that moves it tells. */
        if ((node->phase == WEFT_NODE_UP || node->phase == WEFT_NODE_READY) && !node->target && !runs(sight, node->id))
            g_ptr_array_add(sight->look->gone, node);
    }
}

/* --- networks --- */

static gboolean
is_explained(const Sight *sight, const WeftHostNetwork *network)
{
    const char *holder = g_hash_table_lookup(sight->input->holders, GUINT_TO_POINTER(network->vxlan));
    if (g_strcmp0(holder, network->cluster) != 0 || g_strcmp0(network->site, sight->input->site) != 0)
        return FALSE;
    for (guint i = 0; i < sight->input->nodes->len; i++) {
        const WeftNode *node = sight->input->nodes->pdata[i];
        if (g_strcmp0(node->cluster, network->cluster) == 0 && node->phase != WEFT_NODE_LOST)
            return TRUE;
    }
    return FALSE;
}

/* Of a cluster that this store has, the store knows where it has nodes: a node that it does not know of here is unproved
 * itself. */
static Verdict
judge_network(const Sight *sight, const WeftHostNetwork *network)
{
    if (is_explained(sight, network))
        return EXPLAINED;
    const WeftProof *proof = &sight->input->proof;
    g_autofree char *name = weft_number_of_network(network->vxlan);
    g_autoptr(WeftFound) found = found_new(WEFT_THING_NETWORK, network->cluster, network->site, NULL, name);
    if (g_strcmp0(network->site, sight->input->site) == 0 && !proof->is_unknown(found->key, proof->data) &&
        proof->has_cluster(network->cluster, proof->data))
        return ENDED;
    found->number = g_steal_pointer(&name);
    return settle(sight, g_steal_pointer(&found));
}

/* --- files and memory --- */

/* Whoever brought it has left a mark; all of them must be ours. */
static const char *
site_of_image(const Sight *sight, const char *digest)
{
    g_autofree char *name = weft_image_file_name(digest);
    const GPtrArray *marks = g_hash_table_lookup(sight->marks, name);
    const char *site = NULL;
    for (guint i = 0; marks && i < marks->len; i++) {
        const WeftFileMark *mark = marks->pdata[i];
        if (!site || g_strcmp0(mark->site, sight->input->site) != 0)
            site = mark->site;
    }
    return site;
}

/* Of a file that a record names the store knows whether hosts are to have it. */
static Verdict
judge_image(const Sight *sight, const char *digest)
{
    const char *site = site_of_image(sight, digest);
    if (g_hash_table_contains(sight->input->images, digest))
        return EXPLAINED;
    if (g_strcmp0(site, sight->input->site) == 0 && sight->input->proof.has_file(digest, sight->input->proof.data))
        return ENDED;
    return settle(sight, found_new(WEFT_THING_IMAGE, digest, site, NULL, digest));
}

static void
look_at_images(const Sight *sight)
{
    const GPtrArray *images = sight->input->contents->images;
    for (guint i = 0; sight->input->images && i < images->len; i++)
        if (judge_image(sight, images->pdata[i]) == ENDED)
            g_ptr_array_add(sight->look->images, images->pdata[i]);
}

/* Its id begins with its site. */
static void
look_at_memory(const Sight *sight)
{
    const GPtrArray *primed = sight->input->contents->primed;
    for (guint i = 0; i < primed->len; i++) {
        char *id = primed->pdata[i];
        const char *rest = strchr(id, '-');
        g_autofree char *site = rest ? g_strndup(id, (gsize)(rest - id)) : NULL;
        if (!sight->input->proof.has_memory(id, sight->input->proof.data) &&
            settle(sight, found_new(WEFT_THING_MEMORY, id, site, NULL, id)) == ENDED)
            g_ptr_array_add(sight->look->memory, id);
    }
}

void
weft_look(const WeftLookInput *input, WeftLook *ret_look)
{
    const WeftContents *contents = input->contents;
    *ret_look = (WeftLook){ g_ptr_array_new(),
                            g_ptr_array_new(),
                            g_ptr_array_new(),
                            g_ptr_array_new(),
                            g_ptr_array_new(),
                            g_ptr_array_new(),
                            g_ptr_array_new_with_free_func((GDestroyNotify)weft_found_free),
                            g_ptr_array_new_with_free_func((GDestroyNotify)weft_found_free) };
    Sight sight;
    sight_begin(&sight, input, ret_look);
    look_at_domains(&sight);
    for (guint i = 0; i < contents->networks->len; i++)
        if (judge_network(&sight, contents->networks->pdata[i]) == ENDED)
            g_ptr_array_add(ret_look->networks, contents->networks->pdata[i]);
    look_at_images(&sight);
    look_at_memory(&sight);
    sight_end(&sight);
}

static void
add_unknown(GHashTable *unknown, const GPtrArray *all)
{
    for (guint i = 0; i < all->len; i++) {
        WeftFound *found = all->pdata[i];
        if (!found->there)
            g_hash_table_add(unknown, g_steal_pointer(&found->key));
    }
}

/* Without any record of what is to be there, so that all of it is asked about. */
GHashTable *
weft_look_unknown(const char *site, const char *host, WeftContents *contents, const WeftProof *proof)
{
    g_auto(WeftLook) look = { 0 };
    g_autoptr(GPtrArray) nodes = g_ptr_array_new();
    g_autoptr(GHashTable) holders = g_hash_table_new(NULL, NULL), images = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < contents->domains->len; i++) {
        WeftDomain *domain = contents->domains->pdata[i];
        char *number = domain->node ? read_number(domain) : NULL;
        g_free(domain->number);
        domain->number = number ? number : g_strdup("");
    }
    weft_look(&(WeftLookInput){ site, host, contents, nodes, holders, images, *proof }, &look);
    GHashTable *unknown = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    add_unknown(unknown, look.unproved);
    add_unknown(unknown, look.confirmed);
    return unknown;
}

void
weft_look_clear(WeftLook *look)
{
    GPtrArray **lists[] = { &look->stale,  &look->foreign, &look->gone,     &look->networks,
                            &look->images, &look->memory,  &look->unproved, &look->confirmed };
    for (guint i = 0; i < G_N_ELEMENTS(lists); i++)
        g_clear_pointer(lists[i], g_ptr_array_unref);
}
