#include "claim.h"

#include "errors.h"
#include "hook.h"
#include "owner.h"
#include "xml.h"

static WeftOwner *
read_claim(const char *xml, gboolean *ret_take, GError **error)
{
    g_autoptr(xmlDoc) doc = weft_xml_load(xml);
    const xmlNode *root = doc && !doc->intSubset ? xmlDocGetRootElement(doc) : NULL;
    if (root && weft_xml_is(root, "hookData"))
        root = weft_xml_child(root, "network");
    const xmlNode *element = weft_xml_child_ns(weft_xml_child(root, "metadata"), "owner", WEFT_NETWORK_NAMESPACE);
    g_autofree char *text = weft_xml_get(element, "claim");
    g_autofree char *take = weft_xml_get(element, "take");
    g_autofree char *former = weft_xml_get(element, "former");
    WeftOwner *claim = text ? weft_owner_parse(text) : NULL;
    if (!claim)
        weft_error_refuse(error, WEFT_ERROR_INVALID, "the metadata has no owner with a claim \"SITE INSTANCE EPOCH RUN\"");
    else if (former)
        claim->former = g_strsplit(former, " ", -1);
    *ret_take = g_strcmp0(take, "yes") == 0;
    return claim;
}

static char *
record_path(const WeftHook *hook)
{
    return g_strconcat(hook->root, WEFT_OWNER_PATH, NULL);
}

gboolean
weft_claim_tell(const WeftHook *hook, const char *name, const char *xml, GError **error)
{
    gboolean take;
    WeftOwnerVerdict verdict;
    g_autoptr(WeftOwner) claim = read_claim(xml, &take, error);
    g_autoptr(WeftOwner) record = NULL;
    g_autofree char *path = record_path(hook);
    if (!claim || !weft_owner_claim(path, claim, take, &verdict, &record, error))
        return FALSE;
    g_autofree char *text = record ? weft_owner_format(record) : g_strdup("-");
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "owner %s %s", weft_owner_verdict_words[verdict], text);
}

gboolean
weft_claim_check(const WeftHook *hook, const char *run, GError **error)
{
    g_autofree char *path = record_path(hook);
    return !run || weft_owner_check(path, run, error);
}
