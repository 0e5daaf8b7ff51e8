#include "hypervisor.h"

const char *const weft_copy_words[WEFT_COPIES + 1] = {
    [WEFT_COPY_PRE] = "pre-copy", [WEFT_COPY_POST] = "post-copy", [WEFT_COPY_HYBRID] = "hybrid"
};

void
weft_domain_free(WeftDomain *domain)
{
    if (!domain)
        return;
    g_free(domain->name);
    g_free(domain->node);
    g_free(domain);
}

void
weft_moved_clear(WeftMoved *moved)
{
    g_clear_pointer(&moved->rdma_failed, g_free);
}

void
weft_hypervisor_free(WeftHypervisor *hv)
{
    if (hv)
        hv->ops->free(hv);
}

WeftContents *
weft_contents_new(void)
{
    WeftContents *contents = g_new0(WeftContents, 1);
    contents->domains = g_ptr_array_new_with_free_func((GDestroyNotify)weft_domain_free);
    contents->images = g_ptr_array_new_with_free_func(g_free);
    contents->networks = g_ptr_array_new_with_free_func((GDestroyNotify)weft_host_network_free);
    contents->primed = g_ptr_array_new_with_free_func(g_free);
    return contents;
}

void
weft_contents_free(WeftContents *contents)
{
    if (!contents)
        return;
    g_ptr_array_unref(contents->domains);
    g_ptr_array_unref(contents->images);
    g_ptr_array_unref(contents->networks);
    g_ptr_array_unref(contents->primed);
    g_free(contents);
}
