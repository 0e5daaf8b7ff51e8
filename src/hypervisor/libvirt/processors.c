#include "driver.h"
#include "errors.h"

/* --- pause and resume --- */

static gboolean
get_state(virDomain *domain, int *ret_state, int *ret_reason, GError **error)
{
    if (virDomainGetState(domain, ret_state, ret_reason, 0) == 0)
        return TRUE;
    return weft_vir_fail(error, "asking how domain %s is", virDomainGetName(domain));
}

#define WAITING_NAMESPACE "https://weft.example/waiting/1"

gboolean
weft_vir_set_waiting(virDomain *domain, gboolean waiting, GError **error)
{
    if (virDomainSetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, waiting ? "<waiting/>" : NULL, "waiting", WAITING_NAMESPACE,
                             VIR_DOMAIN_AFFECT_LIVE) == 0)
        return TRUE;
    return weft_vir_fail(error, "noting that domain %s %s", virDomainGetName(domain), waiting ? "waits" : "goes on");
}

static gboolean
is_waiting(virDomain *domain)
{
    g_autofree char *mark =
        virDomainGetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, WAITING_NAMESPACE, VIR_DOMAIN_AFFECT_LIVE);
    return mark != NULL;
}

WeftMoveEnd
weft_vir_end_of(virDomain *domain, int state, int reason)
{
    WeftMoveEnd end = weft_move_end(state, reason);
    return end == WEFT_END_HALTED && is_waiting(domain) ? WEFT_END_PAUSED : end;
}

static gboolean
run_pause(WeftCall *call, GError **error)
{
    int state, reason;
    g_autoptr(virDomain) domain = weft_vir_domain_running(call, call->args, error);
    if (!domain || !get_state(domain, &state, &reason, error))
        return FALSE;
    if (state == VIR_DOMAIN_PAUSED || virDomainSuspend(domain) == 0)
        return TRUE;
    return weft_vir_fail(error, "pausing domain %s", virDomainGetName(domain));
}

/* invariant: no domain runs twice. Of one that a migration has halted only move() knows where it goes on. */
static gboolean
run_resume(WeftCall *call, GError **error)
{
    int state, reason;
    g_autoptr(virDomain) domain = weft_vir_domain_running(call, call->args, error);
    if (!domain || !get_state(domain, &state, &reason, error))
        return FALSE;
    gboolean waiting = is_waiting(domain);
    if (state == VIR_DOMAIN_PAUSED && ((reason == VIR_DOMAIN_PAUSED_MIGRATION && !waiting) ||
                                       reason == VIR_DOMAIN_PAUSED_POSTCOPY || reason == VIR_DOMAIN_PAUSED_POSTCOPY_FAILED))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "domain %s is halted by a migration; end that first",
                                 virDomainGetName(domain));
    if (state == VIR_DOMAIN_RUNNING || virDomainResume(domain) == 0)
        return !waiting || weft_vir_set_waiting(domain, FALSE, error);
    return weft_vir_fail(error, "resuming domain %s", virDomainGetName(domain));
}

static gboolean
call_about(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, WeftCallRun run, GCancellable *cancellable,
           GError **error)
{
    g_autofree char *about = weft_vir_about_domain(domain);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run, g_strdup(domain), g_free);
    return weft_call_wait(call, about, cancellable, error);
}

gboolean
weft_vir_pause(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable, GError **error)
{
    return call_about(hv, host, domain, run_pause, cancellable, error);
}

gboolean
weft_vir_resume(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable, GError **error)
{
    return call_about(hv, host, domain, run_resume, cancellable, error);
}

/* --- what it writes to --- */

#define MEASURE_SECONDS 1
#define MEASURE_LOOK (50 * 1000)

typedef struct Measuring {
    char *domain;
    guint64 rate;
} Measuring;

static void
measuring_free(gpointer data)
{
    Measuring *measuring = data;
    g_free(measuring->domain);
    g_free(measuring);
}

/* -1: not measured yet. */
static gint64
rate_of(const virDomainStatsRecord *record)
{
    int status = VIR_DOMAIN_DIRTYRATE_UNSTARTED;
    long long megabytes = 0;
    if (virTypedParamsGetInt(record->params, record->nparams, "dirtyrate.calc_status", &status) < 1 ||
        status != VIR_DOMAIN_DIRTYRATE_MEASURED ||
        virTypedParamsGetLLong(record->params, record->nparams, "dirtyrate.megabytes_per_second", &megabytes) < 1)
        return -1;
    return (gint64)megabytes << 20;
}

static gboolean
read_rate(virDomain *domain, gint64 *ret_rate, GError **error)
{
    virDomainPtr wanted[] = { domain, NULL };
    virDomainStatsRecordPtr *records = NULL;
    if (virDomainListGetStats(wanted, VIR_DOMAIN_STATS_DIRTYRATE, &records, 0) < 1)
        return weft_vir_fail(error, "asking what domain %s writes to", virDomainGetName(domain));
    *ret_rate = rate_of(records[0]);
    virDomainStatsRecordListFree(records);
    return TRUE;
}

/* By samples of pages that are compared after a second. Exact counts of dirty pages would need the other modes: the ring is
 * KVM's alone, and the bitmap ends a QEMU 7.2 that emulates. */
static gboolean
run_measure(WeftCall *call, GError **error)
{
    Measuring *measuring = call->args;
    gint64 rate = -1;
    g_autoptr(virDomain) domain = weft_vir_domain_running(call, measuring->domain, error);
    if (!domain)
        return FALSE;
    if (virDomainStartDirtyRateCalc(domain, MEASURE_SECONDS, VIR_DOMAIN_DIRTYRATE_MODE_PAGE_SAMPLING) < 0)
        return weft_vir_fail(error, "measuring what domain %s writes to", measuring->domain);
    g_usleep(MEASURE_SECONDS * G_USEC_PER_SEC);
    while (rate < 0) {
        g_usleep(MEASURE_LOOK);
        if (!weft_call_go_on(call, 0, 0, error) || !read_rate(domain, &rate, error))
            return FALSE;
    }
    measuring->rate = (guint64)rate;
    return TRUE;
}

gboolean
weft_vir_measure(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, guint64 *ret_rate,
                 GCancellable *cancellable, GError **error)
{
    Measuring *measuring = g_new0(Measuring, 1);
    measuring->domain = g_strdup(domain);
    g_autofree char *about = weft_vir_about_domain(domain);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_measure, measuring, measuring_free);
    if (!weft_call_wait(call, about, cancellable, error))
        return FALSE;
    *ret_rate = measuring->rate;
    return TRUE;
}
