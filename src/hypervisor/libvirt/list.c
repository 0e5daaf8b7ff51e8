#include "domain-xml.h"
#include "driver.h"
#include "hook.h"
#include "move-plan.h"
#include "node.h"

#include <string.h>

/* --- whose is it? --- */

/* The element as it was written; "": it has none. */
static char *
ask_mark(virDomain *domain)
{
    char *text = virDomainGetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, WEFT_DOMAIN_NAMESPACE, VIR_DOMAIN_AFFECT_CURRENT);
    char *mark = g_strdup(text ? text : "");
    free(text);
    return mark;
}

static gboolean
is_answered(const char *mark)
{
    return *mark || virGetLastErrorCode() == VIR_ERR_OK || weft_vir_failed_with(VIR_ERR_NO_DOMAIN_METADATA);
}

/* The mark of a domain never changes while it runs, so each is asked once for each connection. A node that left and came back
 * has the same UUID, but another number, unless the host has booted. */
static char *
run_of(virDomain *domain)
{
    char uuid[VIR_UUID_STRING_BUFLEN];
    return virDomainGetUUIDString(domain, uuid) < 0 ? NULL : g_strdup_printf("%s %u", uuid, virDomainGetID(domain));
}

/* ret_mark "": it is not weft's. FALSE: that is not known. */
static gboolean
mark_of(WeftCall *call, virDomain *domain, char **ret_mark)
{
    g_autofree char *run = run_of(domain);
    if (!run)
        return FALSE;
    g_mutex_lock(&call->host->mutex);
    g_autofree char *mark = g_strdup(g_hash_table_lookup(call->host->marks, run));
    guint forgotten = call->host->forgotten;
    g_mutex_unlock(&call->host->mutex);
    if (!mark) {
        virResetLastError();
        mark = ask_mark(domain);
        if (!is_answered(mark))
            return FALSE;
        g_mutex_lock(&call->host->mutex);
        if (call->host->forgotten == forgotten)
            g_hash_table_insert(call->host->marks, g_strdup(run), g_strdup(mark));
        g_mutex_unlock(&call->host->mutex);
    }
    *ret_mark = g_steal_pointer(&mark);
    return TRUE;
}

static void
read_mark(const char *text, WeftDomain *domain)
{
    g_autoptr(xmlDoc) doc = *text ? weft_xml_parse(text, "node", NULL) : NULL;
    const xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
    if (!root)
        return;
    domain->node = weft_xml_get(root, "id");
    domain->site = weft_xml_get(root, "site");
    domain->placement = weft_xml_get(root, "placement");
    const xmlNode *record = weft_xml_child(root, "record");
    xmlChar *content = record ? xmlNodeGetContent(record) : NULL;
    domain->record = g_strdup((const char *)content);
    xmlFree(content);
}

#define MARKS_MAX 4096

/* Nodes come and go for as long as weftd runs. */
static void
bound_marks(WeftVirHost *host)
{
    g_mutex_lock(&host->mutex);
    if (g_hash_table_size(host->marks) > MARKS_MAX)
        g_hash_table_remove_all(host->marks);
    g_mutex_unlock(&host->mutex);
}

/* --- domains --- */

static guint64
stat_of(const virDomainStatsRecord *record, const char *name)
{
    unsigned long long value = 0;
    virTypedParamsGetULLong(record->params, record->nparams, name, &value);
    return value;
}

static const WeftDomainState states[WEFT_ENDS] = {
    [WEFT_END_ABSENT] = WEFT_DOMAIN_STOPPED, [WEFT_END_RUNS] = WEFT_DOMAIN_RUNNING,  [WEFT_END_PAUSED] = WEFT_DOMAIN_RUNNING,
    [WEFT_END_HALTED] = WEFT_DOMAIN_HALTED,  [WEFT_END_COPIES] = WEFT_DOMAIN_HALTED, [WEFT_END_BROKEN] = WEFT_DOMAIN_HALTED,
};

/* One that has ended meanwhile is left out. Where it cannot be told whose it is, nothing is: it might be a node's, on a host
 * that would be taken for clean. */
static gboolean
add_domain(WeftCall *call, const virDomainStatsRecord *record, GPtrArray *domains, GError **error)
{
    g_autofree char *mark = NULL;
    if (!mark_of(call, record->dom, &mark))
        return weft_vir_failed_with(VIR_ERR_NO_DOMAIN) ||
               weft_vir_fail(error, "asking whose domain %s is", virDomainGetName(record->dom));
    int state = VIR_DOMAIN_NOSTATE, reason = 0;
    virTypedParamsGetInt(record->params, record->nparams, "state.state", &state);
    virTypedParamsGetInt(record->params, record->nparams, "state.reason", &reason);
    WeftDomain *domain = g_new0(WeftDomain, 1);
    domain->name = g_strdup(virDomainGetName(record->dom));
    read_mark(mark, domain);
    domain->state = states[weft_vir_end_of(record->dom, state, reason)];
    domain->cpu_time = stat_of(record, "cpu.time");
    domain->memory = stat_of(record, "balloon.rss") * 1024;
    g_ptr_array_add(domains, domain);
    return TRUE;
}

static gboolean
list_domains(WeftCall *call, GPtrArray *domains, GError **error)
{
    virDomainStatsRecord **records = NULL;
    int n =
        virConnectGetAllDomainStats(call->conn, VIR_DOMAIN_STATS_STATE | VIR_DOMAIN_STATS_CPU_TOTAL | VIR_DOMAIN_STATS_BALLOON,
                                    &records, VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT);
    if (n < 0)
        return weft_vir_fail(error, "listing domains");
    gboolean ok = TRUE;
    for (int i = 0; ok && i < n; i++)
        ok = add_domain(call, records[i], domains, error);
    virDomainStatsRecordListFree(records);
    bound_marks(call->host);
    return ok;
}

/* --- files --- */

static gboolean
has_name(const GPtrArray *names, const char *name)
{
    for (guint i = 0; i < names->len; i++) {
        if (g_str_equal(g_ptr_array_index(names, i), name))
            return TRUE;
    }
    return FALSE;
}

static void
add_image(const GPtrArray *names, const char *name, GPtrArray *images)
{
    const char *digest = name + strlen(WEFT_IMAGE_PREFIX);
    g_autofree char *whole = g_strconcat(name, WEFT_IMAGE_WHOLE, NULL);
    if (weft_digest_check(digest, NULL) && has_name(names, whole))
        g_ptr_array_add(images, g_strdup(digest));
}

static gboolean
has_domain(const GPtrArray *domains, const char *name)
{
    for (guint i = 0; i < domains->len; i++) {
        if (g_str_equal(((WeftDomain *)g_ptr_array_index(domains, i))->name, name))
            return TRUE;
    }
    return FALSE;
}

/* Is a call about it under way? Then its files are no leftovers. */
static gboolean
is_in_work(GHashTable *work, const char *domain)
{
    g_autofree char *about = weft_vir_about_domain(domain);
    return g_hash_table_contains(work, about);
}

/* Files that a domain left behind: one of ours, by its name. */
static void
add_leftover(const char *name, const char *suffix, GHashTable *work, GPtrArray *domains)
{
    g_autofree char *domain = g_strndup(name, strlen(name) - strlen(suffix));
    if (has_domain(domains, domain) || is_in_work(work, domain))
        return;
    WeftDomain *leftover = g_new0(WeftDomain, 1);
    leftover->node = g_strdup(domain + strlen(WEFT_DOMAIN_PREFIX));
    leftover->name = g_steal_pointer(&domain);
    leftover->state = WEFT_DOMAIN_STOPPED;
    g_ptr_array_add(domains, leftover);
}

static void
sort_file(const GPtrArray *names, const char *name, GHashTable *work, WeftContents *contents)
{
    static const char *const suffixes[] = { WEFT_SEED_SUFFIX,  WEFT_DISK_SUFFIX, WEFT_LAYER_SUFFIX,
                                            WEFT_SAVED_SUFFIX, WEFT_FORK_TAIL,   WEFT_FORK_STATE };
    if (g_str_has_prefix(name, WEFT_IMAGE_PREFIX))
        add_image(names, name, contents->images);
    for (gsize i = 0; i < G_N_ELEMENTS(suffixes); i++) {
        if (g_str_has_prefix(name, WEFT_DOMAIN_PREFIX) && g_str_has_suffix(name, suffixes[i]))
            add_leftover(name, suffixes[i], work, contents->domains);
    }
    WeftFileMark *mark = weft_file_mark_read(name);
    if (!mark)
        return;
    g_ptr_array_add(contents->marks, mark);
    if (g_str_has_prefix(name, WEFT_DOMAIN_PREFIX))
        add_leftover(name, name + strlen(mark->subject), work, contents->domains);
}

/* What forks need: a memory's mark, or what a domain that began as one left behind. */
static void
sort_fork_file(const char *name, GHashTable *work, WeftContents *contents)
{
    if (g_str_has_suffix(name, WEFT_FORK_WHOLE))
        g_ptr_array_add(contents->primed, g_strndup(name, strlen(name) - strlen(WEFT_FORK_WHOLE)));
    else if (g_str_has_prefix(name, WEFT_DOMAIN_PREFIX) && g_str_has_suffix(name, WEFT_FORK_TAIL))
        add_leftover(name, WEFT_FORK_TAIL, work, contents->domains);
}

static GHashTable *
work_of(WeftVirHost *host)
{
    GHashTable *work = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GHashTableIter iter;
    gpointer about;
    g_mutex_lock(&host->mutex);
    g_hash_table_iter_init(&iter, host->busy);
    while (g_hash_table_iter_next(&iter, &about, NULL))
        g_hash_table_add(work, g_strdup(about));
    g_mutex_unlock(&host->mutex);
    return work;
}

/* --- all of it --- */

static int
compare_domains(gconstpointer a, gconstpointer b)
{
    return strcmp((*(WeftDomain *const *)a)->name, (*(WeftDomain *const *)b)->name);
}

static int
compare_networks(gconstpointer a, gconstpointer b)
{
    guint x = (*(WeftHostNetwork *const *)a)->vxlan, y = (*(WeftHostNetwork *const *)b)->vxlan;
    return x < y ? -1 : x > y;
}

/* The order matters, so that a domain that is being started is not taken for one that left its files behind: those that have
 * files by now are in work still, or run when the domains are listed. */
static gboolean
run_list(WeftCall *call, GError **error)
{
    WeftContents *contents = call->args;
    g_autoptr(GPtrArray) names = weft_vir_volume_names(call, WEFT_POOL, error);
    g_autoptr(GPtrArray) forks = names ? weft_vir_volume_names(call, WEFT_FORK_POOL, error) : NULL;
    g_autoptr(GHashTable) work = work_of(call->host);
    if (!forks || !list_domains(call, contents->domains, error) || !weft_vir_networks_list(call, contents->networks, error))
        return FALSE;
    for (guint i = 0; i < names->len; i++)
        sort_file(names, g_ptr_array_index(names, i), work, contents);
    for (guint i = 0; i < forks->len; i++)
        sort_fork_file(g_ptr_array_index(forks, i), work, contents);
    g_ptr_array_sort(contents->domains, compare_domains);
    g_ptr_array_sort(contents->networks, compare_networks);
    return TRUE;
}

WeftContents *
weft_vir_list(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error)
{
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_list, weft_contents_new(), (GDestroyNotify)weft_contents_free);
    if (!weft_call_wait(call, NULL, cancellable, error))
        return NULL;
    call->args_free = NULL;
    return call->args;
}
