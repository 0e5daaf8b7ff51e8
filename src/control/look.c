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

void
weft_look(const GPtrArray *domains, const GPtrArray *nodes, WeftLook *ret_look)
{
    *ret_look = (WeftLook){ g_ptr_array_new(), g_ptr_array_new(), g_ptr_array_new() };
    for (guint i = 0; i < domains->len; i++) {
        const WeftDomain *domain = domains->pdata[i];
        const WeftNode *node = find_node(nodes, domain->node);
        if (!domain->node)
            g_ptr_array_add(ret_look->foreign, domain->name);
        else if (!node || node->phase == WEFT_NODE_LOST)
            g_ptr_array_add(ret_look->stale, domain->name);
    }
    for (guint i = 0; i < nodes->len; i++) {
        WeftNode *node = nodes->pdata[i];
        if (node->phase == WEFT_NODE_READY && !runs(domains, node->id))
            g_ptr_array_add(ret_look->gone, node);
    }
}

void
weft_look_clear(WeftLook *look)
{
    g_clear_pointer(&look->stale, g_ptr_array_unref);
    g_clear_pointer(&look->foreign, g_ptr_array_unref);
    g_clear_pointer(&look->gone, g_ptr_array_unref);
}
