#include "hypervisor.h"

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
weft_hypervisor_free(WeftHypervisor *hv)
{
    if (hv)
        hv->ops->free(hv);
}
