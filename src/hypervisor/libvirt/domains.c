#include "domain-xml.h"
#include "driver.h"
#include "errors.h"
#include "hook.h"

#include <string.h>

/* The driver's own element of <metadata>, beside weft's: libvirt allows one of each namespace. */
#define DEFINITION_NAMESPACE "https://weft.dev/xmlns/definition/1"
#define DEFINITION "definition"
#define DIGEST "sha256"

/* --- start --- */

typedef struct Starting {
    char *domain;
    char *xml;
    char *digest; /* of the definition that we were given */
    WeftStart start;
    char *run;
    GBytes *seed;
    WeftImageFile base;
    WeftDomainOrigin origin;
    WeftImageFile saved;
    WeftImageFile disk;
    char *primed;
} Starting;

static void
starting_free(gpointer data)
{
    Starting *starting = data;
    g_free(starting->domain);
    g_free(starting->xml);
    g_free(starting->digest);
    g_free(starting->run);
    g_clear_pointer(&starting->seed, g_bytes_unref);
    g_free(starting->base.digest);
    g_free(starting->saved.digest);
    g_free(starting->disk.digest);
    g_free(starting->primed);
    g_free(starting);
}

void
weft_vir_definition_mark(xmlNode *root, const char *xml)
{
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, xml, -1);
    xmlNode *metadata = (xmlNode *)weft_xml_child(root, "metadata");
    if (!metadata)
        metadata = xmlNewChild(root, NULL, BAD_CAST "metadata", NULL);
    xmlNode *mark = xmlNewChild(metadata, NULL, BAD_CAST DEFINITION, NULL);
    xmlSetNs(mark, xmlNewNs(mark, BAD_CAST DEFINITION_NAMESPACE, BAD_CAST "driver"));
    xmlNewProp(mark, BAD_CAST DIGEST, BAD_CAST digest);
}

char *
weft_vir_xml_text(xmlDoc *doc)
{
    xmlChar *text = NULL;
    int length = 0;
    xmlDocDumpMemory(doc, &text, &length);
    char *copy = g_strndup((const char *)text, (gsize)length);
    xmlFree(text);
    return copy;
}

/* The hook looks at nothing in a definition without weft's mark. */
static gboolean
mark_run(xmlNode *root, const char *run, GError **error)
{
    xmlNode *node = (xmlNode *)weft_xml_child_ns(weft_xml_child(root, "metadata"), "node", WEFT_DOMAIN_NAMESPACE);
    if (!node)
        return weft_hypervisor_refuse_unclaimed(error, "a domain without weft's mark");
    xmlNewProp(xmlNewChild(node, node->ns, BAD_CAST "owner", NULL), BAD_CAST "run", BAD_CAST run);
    return TRUE;
}

/* The definition with the driver's mark in it, and the run that the hook is to compare. */
static char *
mark_definition(const WeftStart *start, GError **error)
{
    g_autoptr(xmlDoc) doc = weft_xml_parse(start->xml, "domain", error);
    if (!doc || (start->run && !mark_run(xmlDocGetRootElement(doc), start->run, error)))
        return NULL;
    weft_vir_definition_mark(xmlDocGetRootElement(doc), start->xml);
    weft_saved_start_quickly(xmlDocGetRootElement(doc));
    return weft_vir_xml_text(doc);
}

static void
copy_origin(Starting *starting, const WeftDomainOrigin *origin)
{
    starting->origin = *origin;
    starting->start.origin = &starting->origin;
    starting->origin.primed = starting->primed = g_strdup(origin->primed);
    if (origin->saved) {
        starting->saved = *origin->saved;
        starting->saved.digest = g_strdup(origin->saved->digest);
        starting->origin.saved = &starting->saved;
    }
    if (origin->disk) {
        starting->disk = *origin->disk;
        starting->disk.digest = g_strdup(origin->disk->digest);
        starting->origin.disk = &starting->disk;
    }
}

/* A copy of all that the helper thread needs: it may outlive the caller. */
static Starting *
starting_new(const WeftStart *start, GError **error)
{
    g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(start->xml, error);
    if (!facts)
        return NULL;
    if (!*facts->name || strlen(facts->name) > 200 || strpbrk(facts->name, "/ \n")) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "a domain cannot be named \"%s\"", facts->name);
        return NULL;
    }
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, start->xml, -1);
    g_autofree char *xml = mark_definition(start, error);
    if (!xml)
        return NULL;
    Starting *starting = g_new0(Starting, 1);
    starting->domain = g_steal_pointer(&facts->name);
    starting->xml = g_steal_pointer(&xml);
    starting->digest = g_steal_pointer(&digest);
    starting->start.disk_size = start->disk_size;
    starting->start.run = starting->run = g_strdup(start->run);
    if (start->seed)
        starting->start.seed = starting->seed = g_bytes_ref(start->seed);
    if (start->base) {
        starting->base = *start->base;
        starting->base.digest = g_strdup(start->base->digest);
        starting->start.base = &starting->base;
    }
    if (start->origin)
        copy_origin(starting, start->origin);
    return starting;
}

virDomain *
weft_vir_domain_find(WeftCall *call, const char *name, GError **error)
{
    virDomain *domain = virDomainLookupByName(call->conn, name);
    if (!domain && !weft_vir_failed_with(VIR_ERR_NO_DOMAIN))
        weft_vir_fail(error, "looking for domain %s", name);
    return domain;
}

virDomain *
weft_vir_domain_running(WeftCall *call, const char *name, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(virDomain) domain = weft_vir_domain_find(call, name, &failed);
    if (!failed && (!domain || virDomainIsActive(domain) != 1))
        weft_error_refuse(&failed, WEFT_ERROR_NOT_FOUND, "domain %s is not running", name);
    if (!failed)
        return g_steal_pointer(&domain);
    g_propagate_error(error, g_steal_pointer(&failed));
    return NULL;
}

static char *
definition_digest(virDomain *domain)
{
    char *text = virDomainGetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, DEFINITION_NAMESPACE, VIR_DOMAIN_AFFECT_LIVE);
    g_autoptr(xmlDoc) doc = text ? weft_xml_parse(text, DEFINITION, NULL) : NULL;
    free(text);
    return doc ? weft_xml_get(xmlDocGetRootElement(doc), DIGEST) : NULL;
}

static gboolean
undefine(virDomain *domain, GError **error)
{
    if (virDomainIsPersistent(domain) != 1)
        return TRUE;
    if (virDomainUndefineFlags(domain, VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA |
                                           VIR_DOMAIN_UNDEFINE_NVRAM | VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA) < 0 &&
        !weft_vir_failed_with(VIR_ERR_NO_DOMAIN))
        return weft_vir_fail(error, "forgetting domain %s", virDomainGetName(domain));
    return TRUE;
}

/* All that comes before the hook is asked may be another weftd's, unless it is made now. */
static gboolean
check_claimed(WeftCall *call, const Starting *starting, const virDomain *there, GError **error)
{
    if (!starting->run)
        return TRUE;
    if (there || (starting->start.origin && !starting->origin.saved))
        return weft_hypervisor_refuse_unclaimed(error, starting->domain);
    return weft_vir_files_check_none(call, starting->domain, error);
}

/* What of that name is there already: ret_runs with the same definition, an error with another one. */
static gboolean
check_present(WeftCall *call, const Starting *starting, gboolean *ret_runs, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(virDomain) domain = weft_vir_domain_find(call, starting->domain, &failed);
    *ret_runs = FALSE;
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (!check_claimed(call, starting, domain, error))
        return FALSE;
    if (!domain)
        return TRUE;
    if (virDomainIsActive(domain) != 1)
        return undefine(domain, error);
    g_autofree char *digest = definition_digest(domain);
    if (g_strcmp0(digest, starting->digest) != 0)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "domain %s runs already with another definition; stop it first",
                                 starting->domain);
    *ret_runs = TRUE;
    return TRUE;
}

static WeftRestore
restore_of(const Starting *starting)
{
    const WeftImageFile *saved = starting->origin.saved;
    return (WeftRestore){
        .domain = starting->domain,
        .xml = starting->xml,
        .digest = saved ? saved->digest : NULL,
        .primed = starting->primed,
        .paused = starting->origin.paused,
    };
}

static gboolean
go_on(WeftCall *call, const Starting *starting, GError **error)
{
    const WeftImageFile *saved = starting->origin.saved;
    const WeftRestore restore = restore_of(starting);
    /* Memory that was primed is all that is left of a saved file. */
    return (!saved || starting->primed || weft_vir_images_check(call, starting->xml, saved, error)) &&
           weft_vir_go_on(call, &restore, error);
}

/* Nothing was there before: what is there by now is another weftd's. */
static gboolean
make_files(WeftCall *call, const Starting *starting, GError **error)
{
    GError *failed = NULL;
    if (((starting->seed || starting->start.base) && !weft_vir_domain_mark(call, starting->xml, &failed)) ||
        !weft_vir_files_make(call, starting->domain, &starting->start, &failed)) {
        if (starting->run && weft_error_forgive(&failed, WEFT_ERROR_CONFLICT))
            return weft_hypervisor_refuse_unclaimed(error, starting->domain);
        g_propagate_error(error, failed);
        return FALSE;
    }
    return TRUE;
}

static gboolean
create(WeftCall *call, const Starting *starting, GError **error)
{
    const WeftImageFile *disk = starting->origin.disk;
    if (!weft_vir_images_check(call, starting->xml, starting->start.base, error) ||
        (disk && !weft_vir_images_check(call, starting->xml, disk, error)) || !make_files(call, starting, error) ||
        !weft_call_go_on(call, 0, 0, error))
        return FALSE;
    if (starting->start.origin)
        return go_on(call, starting, error);
    g_autoptr(virDomain) domain = virDomainCreateXML(call->conn, starting->xml, VIR_DOMAIN_NONE);
    return domain || weft_vir_fail(error, "starting domain %s", starting->domain);
}

/* Where there is such a domain by now, another weftd has started it, and what was made may have become its files. */
static gboolean
end_start(WeftCall *call, const Starting *starting, GError **error)
{
    g_autoptr(GError) unknown = NULL;
    g_autoptr(virDomain) there = weft_vir_domain_find(call, starting->domain, &unknown);
    if (!there && !unknown)
        weft_vir_files_unmake(call);
    if (!there || !starting->run)
        return FALSE;
    g_clear_error(error);
    return weft_hypervisor_refuse_unclaimed(error, starting->domain);
}

static gboolean
run_start(WeftCall *call, GError **error)
{
    const Starting *starting = call->args;
    gboolean runs;
    if (!check_present(call, starting, &runs, error))
        return FALSE;
    const WeftRestore restore = restore_of(starting);
    if (runs)
        return !starting->start.origin || weft_vir_gone_on(call, &restore, error);
    return create(call, starting, error) || end_start(call, starting, error);
}

char *
weft_vir_about_domain(const char *domain)
{
    return g_strdup_printf("domain %s", domain);
}

gboolean
weft_vir_start(WeftHypervisor *hv, const WeftHostAddress *host, const WeftStart *start, GCancellable *cancellable,
               GError **error)
{
    Starting *starting = starting_new(start, error);
    if (!starting) {
        g_prefix_error(error, "host %s: ", host->name);
        return FALSE;
    }
    g_autofree char *about = weft_vir_about_domain(starting->domain);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_start, starting, starting_free);
    return weft_call_wait(call, about, cancellable, error);
}

/* --- stop --- */

gboolean
weft_vir_domain_end(virDomain *domain, GError **error)
{
    if (virDomainDestroy(domain) == 0 || weft_vir_failed_with(VIR_ERR_OPERATION_INVALID) ||
        weft_vir_failed_with(VIR_ERR_NO_DOMAIN))
        return undefine(domain, error);
    return weft_vir_fail(error, "ending domain %s", virDomainGetName(domain));
}

static gboolean
run_stop(WeftCall *call, GError **error)
{
    const char *name = call->args;
    g_autoptr(GError) failed = NULL;
    g_autoptr(virDomain) domain = weft_vir_domain_find(call, name, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (domain && !weft_vir_domain_end(domain, error))
        return FALSE;
    /* libvirt does not mind a hook that was killed at release, and nobody else may come to this host for long. */
    if (domain)
        weft_vir_tidy(call);
    return weft_vir_files_remove(call, name, error) && weft_vir_saved_remove(call, name, error) &&
           weft_vir_marks_remove(call, name, error);
}

gboolean
weft_vir_stop(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable, GError **error)
{
    g_autofree char *about = weft_vir_about_domain(domain);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_stop, g_strdup(domain), g_free);
    return weft_call_wait(call, about, cancellable, error);
}
