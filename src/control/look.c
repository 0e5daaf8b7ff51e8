#include "look.h"

static const WeftNode *
find_node(const GPtrArray *nodes, const char *id)
{
    for (guint i = 0; i < nodes->len; i++)
        if (g_strcmp0(((const WeftNode *)nodes->pdata[i])->id, id) == 0)
            return nodes->pdata[i];
    return NULL;
}

static gboolean
runs(const GPtrArray *domains, const char *node_id)
{
    for (guint i = 0; i < domains->len; i++) {
        const WeftDomain *domain = domains->pdata[i];
        if (g_strcmp0(domain->node, node_id) == 0)
            return domain->state == WEFT_DOMAIN_RUNNING;
    }
    return FALSE;
}

static void
look_at_domains(const GPtrArray *domains, const GPtrArray *nodes, WeftLook *look)
{
    for (guint i = 0; i < domains->len; i++) {
        const WeftDomain *domain = domains->pdata[i];
        const WeftNode *node = find_node(nodes, domain->node);
        if (!domain->node)
            g_ptr_array_add(look->foreign, domain->name);
        else if (!node || node->phase == WEFT_NODE_LOST)
            g_ptr_array_add(look->stale, domain->name);
    }
    for (guint i = 0; i < nodes->len; i++) {
        WeftNode *node = nodes->pdata[i];
        /* Of one on its way the call that moves it tells. */
        if ((node->phase == WEFT_NODE_UP || node->phase == WEFT_NODE_READY) && !node->target && !runs(domains, node->id))
            g_ptr_array_add(look->gone, node);
    }
}

static gboolean
is_explained(const WeftLookInput *input, const WeftHostNetwork *network)
{
    const char *holder = g_hash_table_lookup(input->holders, GUINT_TO_POINTER(network->vxlan));
    if (g_strcmp0(holder, network->cluster) != 0)
        return FALSE;
    for (guint i = 0; i < input->nodes->len; i++) {
        const WeftNode *node = input->nodes->pdata[i];
        if (g_strcmp0(node->cluster, network->cluster) == 0 && node->phase != WEFT_NODE_LOST)
            return TRUE;
    }
    return FALSE;
}

void
weft_look(const WeftLookInput *input, WeftLook *ret_look)
{
    const WeftContents *contents = input->contents;
    *ret_look = (WeftLook){ g_ptr_array_new(), g_ptr_array_new(), g_ptr_array_new(), g_ptr_array_new(), g_ptr_array_new() };
    look_at_domains(contents->domains, input->nodes, ret_look);
    for (guint i = 0; i < contents->networks->len; i++)
        if (!is_explained(input, contents->networks->pdata[i]))
            g_ptr_array_add(ret_look->networks, contents->networks->pdata[i]);
    for (guint i = 0; input->images && i < contents->images->len; i++)
        if (!g_hash_table_contains(input->images, contents->images->pdata[i]))
            g_ptr_array_add(ret_look->images, contents->images->pdata[i]);
}

void
weft_look_clear(WeftLook *look)
{
    GPtrArray **lists[] = { &look->stale, &look->foreign, &look->gone, &look->networks, &look->images };
    for (guint i = 0; i < G_N_ELEMENTS(lists); i++)
        g_clear_pointer(lists[i], g_ptr_array_unref);
}
