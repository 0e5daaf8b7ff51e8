#include "errors.h"
#include "move.h"

/* What a move over RDMA needs beside its address. Its limit is one of the domain's cgroup, too, and a domain that came to it
 * would be killed: so it is far above what QEMU has ever been seen to take, and there for no longer than the move. */

#define REST_KIB (1u << 20)

guint64
weft_move_limit(const WeftMoving *moving, virDomain *domain)
{
    return moving->rdma ? 2 * (guint64)virDomainGetMaxMemory(domain) + REST_KIB : 0;
}

gboolean
weft_move_set_limit(virDomain *domain, guint64 limit, GError **error)
{
    virTypedParameter *params = NULL;
    int n = 0, size = 0;
    gboolean ok = virTypedParamsAddULLong(&params, &n, &size, VIR_DOMAIN_MEMORY_HARD_LIMIT,
                                          limit > 0 ? limit : VIR_DOMAIN_MEMORY_PARAM_UNLIMITED) == 0 &&
                  virDomainSetMemoryParameters(domain, params, n, VIR_DOMAIN_AFFECT_LIVE) == 0;
    if (!ok)
        weft_vir_fail(error, "bounding what domain %s may lock, which RDMA needs", virDomainGetName(domain));
    virTypedParamsFree(params, n);
    return ok;
}

/* One that stays is no harm; the next move takes it away. */
void
weft_move_unlimit(WeftCall *call)
{
    const WeftMoving *moving = call->args;
    WeftCall *const ends[] = { call, moving->there };
    for (gsize i = 0; i < G_N_ELEMENTS(ends); i++) {
        g_autoptr(virDomain) domain = weft_vir_domain_find(ends[i], moving->domain, NULL);
        if (domain)
            weft_move_set_limit(domain, 0, NULL);
    }
}

gboolean
weft_move_falls_back(WeftCall *call, WeftMoveEnd here, GError **error)
{
    WeftMoving *moving = call->args;
    if (!moving->rdma || here != WEFT_END_RUNS || !weft_call_go_on(call, 0, 0, NULL))
        return FALSE;
    g_clear_pointer(&moving->rdma, g_free);
    moving->rdma_failed = g_strdup((*error)->message);
    g_clear_error(error);
    g_mutex_lock(&moving->mutex);
    moving->sent = 0;
    moving->passes = 0;
    moving->told = moving->stopped = moving->went_on = 0;
    g_mutex_unlock(&moving->mutex);
    return TRUE;
}
