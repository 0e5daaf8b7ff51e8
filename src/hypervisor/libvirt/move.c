#include "move.h"

#include "errors.h"

#include <libvirt/libvirt-qemu.h>
#include <string.h>

/* A live migration by weftd's two connections: hosts need no credentials for each other, and the memory goes from host to host.
 *
 * invariant: the domain never runs twice. libvirt's client tells the source to go on when it has not heard what came of the
 * target's last step, although the domain may run there by then (its own comment says so). So the connection to the target has
 * no keepalive, and whoever gives it up ends the source's first (WeftVirHost.before): then libvirt's client can tell the source
 * nothing, the domain stays halted here, and the next call looks at both ends. */

#define AWAIT_LOOK (50 * 1000) /* microseconds */
#define MIB (1u << 20)

static void
moving_free(gpointer data)
{
    WeftMoving *moving = data;
    weft_call_unref(moving->there);
    g_clear_object(&moving->peer);
    g_free(moving->domain);
    g_free(moving->xml);
    g_free(moving->rdma);
    g_free(moving->rdma_failed);
    g_mutex_clear(&moving->mutex);
    g_cond_clear(&moving->news);
    g_free(moving);
}

/* --- both ends --- */

typedef struct End {
    virDomain *domain; /* NULL: absent */
    WeftMoveEnd end;
} End;

static void
end_clear(End *end)
{
    g_clear_pointer(&end->domain, virDomainFree);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(End, end_clear)

static gboolean
look(WeftCall *call, const char *name, End *ret_end, GError **error)
{
    int state = 0, reason = 0;
    g_autoptr(GError) failed = NULL;
    g_autoptr(virDomain) domain = weft_vir_domain_find(call, name, &failed);
    *ret_end = (End){ .end = WEFT_END_ABSENT };
    if (!failed && domain && virDomainGetState(domain, &state, &reason, 0) < 0) {
        if (weft_vir_failed_with(VIR_ERR_NO_DOMAIN))
            return TRUE;
        weft_vir_fail(&failed, "asking how domain %s is", name);
    }
    if (failed) {
        g_propagate_prefixed_error(error, g_steal_pointer(&failed), "host %s: ", call->host->name);
        return FALSE;
    }
    if (domain)
        ret_end->end = weft_vir_end_of(domain, state, reason);
    ret_end->domain = g_steal_pointer(&domain);
    return TRUE;
}

/* --- one migration --- */

/* A domain that was forked has ignored memory that it shares ever since, and the other end does not know of that. */
static gboolean
forget_fork(virDomain *domain, const char *live, GError **error)
{
    char *answer = NULL;
    if (!strstr(live, "qemu:commandline"))
        return TRUE;
    int status = virDomainQemuMonitorCommand(domain,
                                             "{\"execute\":\"migrate-set-capabilities\",\"arguments\":{\"capabilities\":"
                                             "[{\"capability\":\"x-ignore-shared\",\"state\":false}]}}",
                                             &answer, 0);
    gboolean ok = status == 0 && answer && !strstr(answer, "\"error\"");
    free(answer);
    return ok || weft_vir_fail(error, "preparing domain %s, which was forked, for a migration", virDomainGetName(domain));
}

/* What a weftd before us began and nobody waits for. */
static void
abort_stale(virDomain *domain)
{
    virDomainJobInfo info;
    if (virDomainGetJobInfo(domain, &info) == 0 && info.type != VIR_DOMAIN_JOB_NONE)
        virDomainAbortJob(domain);
}

typedef struct Params {
    virTypedParameter *list;
    int n, size;
} Params;

static void
params_clear(Params *params)
{
    virTypedParamsFree(params->list, params->n);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Params, params_clear)

guint64
weft_move_share(guint64 bandwidth)
{
    return bandwidth / 10 * 9;
}

/* 0: as fast as can be. */
static gboolean
add_speed(Params *params, const char *name, guint64 speed)
{
    return speed == 0 || virTypedParamsAddULLong(&params->list, &params->n, &params->size, name, MAX(speed / MIB, 1)) == 0;
}

static gboolean
add_speeds(Params *params, const WeftMoving *moving)
{
    guint64 speed = weft_move_share(moving->bandwidth);
    return add_speed(params, VIR_MIGRATE_PARAM_BANDWIDTH, speed) &&
           add_speed(params, VIR_MIGRATE_PARAM_BANDWIDTH_POSTCOPY, speed);
}

static gboolean
add_text(Params *params, const char *name, const char *value)
{
    return virTypedParamsAddString(&params->list, &params->n, &params->size, name, value) == 0;
}

/* libvirt adds a port of its own. Any other address to listen on would be one of no RDMA device. */
static gboolean
add_address(Params *params, const WeftMoving *moving)
{
    if (!moving->rdma)
        return TRUE;
    g_autofree char *uri = g_strdup_printf(strchr(moving->rdma, ':') ? "rdma://[%s]" : "rdma://%s", moving->rdma);
    return add_text(params, VIR_MIGRATE_PARAM_URI, uri) && add_text(params, VIR_MIGRATE_PARAM_LISTEN_ADDRESS, moving->rdma);
}

/* libvirt's client does all of its steps in there. */
static gboolean
migrate(WeftCall *call, virDomain *domain, Params *params, unsigned flags, GError **error)
{
    WeftMoving *moving = call->args;
    WeftVirHost *to = moving->there->host;
    weft_move_watch(call, (flags & VIR_MIGRATE_POSTCOPY_RESUME) != 0);
    g_mutex_lock(&call->host->mutex);
    g_set_object(&moving->peer, call->host->peer);
    g_mutex_unlock(&call->host->mutex);
    if (moving->peer) {
        g_mutex_lock(&to->mutex);
        g_ptr_array_add(to->before, g_object_ref(moving->peer));
        g_mutex_unlock(&to->mutex);
    }
    WeftMoveEars ears = weft_move_listen(call);
    g_autoptr(virDomain) moved = virDomainMigrate3(domain, moving->there->conn, params->list, (unsigned)params->n, flags);
    gboolean ok = moved || weft_vir_fail(error, "moving domain %s to host %s", moving->domain, to->name);
    if (moving->peer) {
        g_mutex_lock(&to->mutex);
        g_ptr_array_remove(to->before, moving->peer);
        g_mutex_unlock(&to->mutex);
    }
    weft_move_unwatch(moving);
    weft_move_deafen(call, ears);
    return ok;
}

static gboolean
begin(WeftCall *call, virDomain *domain, GError **error)
{
    WeftMoving *moving = call->args;
    g_auto(Params) params = { NULL };
    g_autofree char *disk = NULL;
    /* libvirt wants to hear from the target, for which QEMU 7.2 makes no way over RDMA unless a post-copy is possible. */
    gboolean may_switch = moving->copy != WEFT_COPY_PRE || moving->rdma;
    unsigned flags = VIR_MIGRATE_LIVE | (may_switch ? VIR_MIGRATE_POSTCOPY : 0);
    abort_stale(domain);
    if (!weft_vir_layer_drop(call, domain, error))
        return FALSE;
    char *text = virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_MIGRATABLE);
    if (!text)
        return weft_vir_fail(error, "asking for the definition of domain %s", moving->domain);
    g_autofree char *live = g_strdup(text);
    free(text);
    guint64 limit = weft_move_limit(moving, domain);
    g_autofree char *xml = weft_move_definition(live, moving->xml, limit, error);
    if (!xml || !forget_fork(domain, live, error) || !weft_move_files(call, moving->there, moving, live, &disk, error))
        return FALSE;
    gboolean added =
        add_speeds(&params, moving) && add_address(&params, moving) && add_text(&params, VIR_MIGRATE_PARAM_DEST_XML, xml);
    if (disk) {
        flags |= VIR_MIGRATE_NON_SHARED_INC;
        added = added && add_text(&params, VIR_MIGRATE_PARAM_MIGRATE_DISKS, disk);
    }
    if (!added)
        return weft_vir_fail(error, "describing the move of domain %s", moving->domain);
    gboolean ok = (limit == 0 || weft_move_set_limit(domain, limit, error)) && weft_call_go_on(call, 0, 0, error) &&
                  migrate(call, domain, &params, flags, error);
    if (limit > 0)
        weft_move_unlimit(call);
    return ok;
}

static gboolean
resume_copy(WeftCall *call, virDomain *domain, GError **error)
{
    const WeftMoving *moving = call->args;
    g_auto(Params) params = { NULL };
    if (!add_speeds(&params, moving))
        return weft_vir_fail(error, "describing the move of domain %s", moving->domain);
    return migrate(call, domain, &params, VIR_MIGRATE_LIVE | VIR_MIGRATE_POSTCOPY | VIR_MIGRATE_POSTCOPY_RESUME, error);
}

/* The error of a migration that failed, by what it left behind. TRUE: it is none, and another one is to be begun. */
static gboolean
explain(WeftCall *call, GError **error)
{
    WeftMoving *moving = call->args;
    g_auto(End) here = { NULL };
    g_mutex_lock(&moving->mutex);
    gboolean endless = moving->endless;
    g_mutex_unlock(&moving->mutex);
    if (!error || !*error || !look(call, moving->domain, &here, NULL))
        return FALSE;
    if (!endless && weft_move_falls_back(call, here.end, error))
        return TRUE;
    if (here.end == WEFT_END_COPIES || here.end == WEFT_END_BROKEN)
        (*error)->code = WEFT_ERROR_CONFLICT;
    else if (endless)
        g_prefix_error(error, "it writes to its memory faster than the rest gets small enough by pre-copy: ");
    return FALSE;
}

/* --- step by step --- */

static gboolean
clear_there(WeftCall *call, virDomain *there, GError **error)
{
    const WeftMoving *moving = call->args;
    if (weft_vir_domain_end(there, error) && weft_vir_files_remove(moving->there, moving->domain, error) &&
        weft_vir_marks_remove(moving->there, moving->domain, error))
        return TRUE;
    g_prefix_error(error, "host %s: ", moving->there->host->name);
    return FALSE;
}

static gboolean
wake(virDomain *domain, GError **error)
{
    return virDomainResume(domain) == 0 || weft_vir_fail(error, "letting domain %s go on", virDomainGetName(domain));
}

static gboolean
take_step(WeftCall *call, WeftMoveStep step, const End *here, const End *there, GError **error)
{
    const WeftMoving *moving = call->args;
    gboolean ok;
    switch (step) {
    case WEFT_MOVE_BEGIN:
    case WEFT_MOVE_RESUME:
        ok = step == WEFT_MOVE_BEGIN ? begin(call, here->domain, error) : resume_copy(call, here->domain, error);
        return ok || explain(call, error);
    case WEFT_MOVE_BREAK:
        return virDomainAbortJobFlags(here->domain, VIR_DOMAIN_ABORT_JOB_POSTCOPY) == 0 ||
               weft_vir_fail(error, "breaking off the post-copy of domain %s", moving->domain);
    case WEFT_MOVE_AWAIT:
        g_usleep(AWAIT_LOOK);
        return TRUE;
    case WEFT_MOVE_WAKE:
        return wake(here->domain, error);
    case WEFT_MOVE_CLEAR:
        return clear_there(call, there->domain, error);
    case WEFT_MOVE_END:
        return weft_vir_domain_end(here->domain, error);
    case WEFT_MOVE_LOST:
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND,
                                 here->domain
                                     ? "host %2$s has lost domain %1$s in the middle of a post-copy: it is nowhere whole"
                                     : "domain %s is not running, nor is it on host %s",
                                 moving->domain, moving->there->host->name);
    case WEFT_MOVE_REFUSE:
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "domain %s is paused; resume it first", moving->domain);
    case WEFT_MOVE_DONE:
        return weft_vir_files_remove(call, moving->domain, error) && weft_vir_marks_remove(call, moving->domain, error);
    }
    g_assert_not_reached();
}

/* Each round takes it nearer to its end; a migration that failed is the caller's to try again. */
static gboolean
take_steps(WeftCall *call, GError **error)
{
    WeftMoving *moving = call->args;
    WeftMoveStep step = WEFT_MOVE_BEGIN, before;
    do {
        before = step;
        g_auto(End) here = { NULL }, there = { NULL };
        if (!weft_call_go_on(call, 0, 0, error) || !look(call, moving->domain, &here, error) ||
            !look(moving->there, moving->domain, &there, error))
            return FALSE;
        step = weft_move_step(here.end, there.end);
        if (step == WEFT_MOVE_AWAIT && before != WEFT_MOVE_AWAIT && here.domain)
            weft_move_watch(call, TRUE); /* whoever began it may be gone, and nobody else would break it off */
        if (!take_step(call, step, &here, &there, error))
            return FALSE;
    } while (step != WEFT_MOVE_DONE);
    return TRUE;
}

static gboolean
run_move(WeftCall *call, GError **error)
{
    WeftMoving *moving = call->args;
    moving->there->conn = weft_vir_dial(moving->there->host, error);
    if (!moving->there->conn) {
        g_prefix_error(error, "host %s: ", moving->there->host->name);
        return FALSE;
    }
    gboolean ok = take_steps(call, error);
    weft_move_unwatch(moving);
    g_clear_pointer(&moving->there->pool, virStoragePoolFree);
    g_clear_pointer(&moving->there->conn, virConnectClose); /* here: whoever is the last to know of the call must not block */
    return ok;
}

static WeftMoving *
moving_new(WeftHypervisor *hv, const WeftHostAddress *to, const WeftMove *move)
{
    WeftMoving *moving = g_new0(WeftMoving, 1);
    g_mutex_init(&moving->mutex);
    g_cond_init(&moving->news);
    moving->domain = g_strdup(move->domain);
    moving->xml = g_strdup(move->xml);
    moving->copy = move->copy;
    moving->stall = move->stall;
    moving->bandwidth = move->bandwidth;
    moving->patience = move->patience;
    moving->rdma = g_strdup(move->rdma);
    moving->there = weft_call_new(hv, to, NULL, NULL, NULL);
    moving->began = g_get_monotonic_time();
    return moving;
}

gboolean
weft_vir_move(WeftHypervisor *hv, const WeftHostAddress *from, const WeftHostAddress *to, const WeftMove *move,
              WeftMoved *ret_moved, GCancellable *cancellable, GError **error)
{
    WeftMoving *moving = moving_new(hv, to, move);
    g_autofree char *about = weft_vir_about_domain(move->domain);
    g_autoptr(WeftCall) call = weft_call_new(hv, from, run_move, moving, moving_free);
    call->progress = move->progress;
    call->progress_data = move->data;
    if (!weft_call_wait(call, about, cancellable, error))
        return FALSE;
    g_mutex_lock(&moving->mutex);
    if (moving->stopped == 0)
        moving->went_on = 0;
    *ret_moved = (WeftMoved){
        .took = g_get_monotonic_time() - moving->began,
        .stall = MAX(moving->went_on - moving->stopped, 0),
        .sent = moving->sent,
        .passes = moving->passes,
        .rdma = moving->rdma != NULL,
        .rdma_failed = g_steal_pointer(&moving->rdma_failed),
    };
    g_mutex_unlock(&moving->mutex);
    return TRUE;
}
