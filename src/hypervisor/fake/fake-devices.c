/* What was plugged into domains, or unplugged: NAME.plugged, a line each. */
#include "fake-private.h"

#include "domain-xml.h"
#include "errors.h"
#include "xml.h"

#include <string.h>

#define TEXT_MAX 65536
#define SHARED " " WEFT_FAKE_SHARED /* the line of a fork, until it shares nothing any more */

static const char *
world_of(WeftHypervisor *hv)
{
    return ((WeftFakeHypervisor *)hv)->world;
}

/* --- the lines: "+ALIAS", "-ALIAS" --- */

static GPtrArray *
read_lines(const WeftFakeFolder *host, const char *domain)
{
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_PLUGGED, NULL);
    g_autofree char *text = weft_fake_read(host, file, TEXT_MAX, NULL);
    g_auto(GStrv) words = g_strsplit_set(text ? text : "", "\n", -1);
    GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; words[i]; i++)
        if (*words[i])
            g_ptr_array_add(lines, g_strdup(words[i]));
    return lines;
}

static gboolean
write_lines(const WeftFakeFolder *host, const char *domain, const GPtrArray *lines, GError **error)
{
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_PLUGGED, NULL);
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < lines->len; i++)
        g_string_append_printf(text, "%s\n", (const char *)lines->pdata[i]);
    return lines->len ? weft_fake_replace(host, file, text->str, text->len, error)
                      : weft_fake_remove(host, domain, WEFT_FAKE_PLUGGED, error);
}

static gboolean
has_line(const GPtrArray *lines, char sign, const char *alias)
{
    for (guint i = 0; i < lines->len; i++) {
        const char *line = lines->pdata[i];
        if (line[0] == sign && g_str_equal(line + 1, alias))
            return TRUE;
    }
    return FALSE;
}

static void
set_line(GPtrArray *lines, char sign, const char *alias)
{
    for (guint i = lines->len; i-- > 0;)
        if (g_str_equal((const char *)lines->pdata[i] + 1, alias))
            g_ptr_array_remove_index(lines, i);
    g_ptr_array_add(lines, g_strdup_printf("%c%s", sign, alias));
}

/* --- what it has of its host --- */

static gboolean
is_in(const xmlNode *mark, const char *alias, const GPtrArray *lines)
{
    g_autofree char *plugged = weft_xml_get(mark, "plugged");
    return has_line(lines, '+', alias) || (!plugged && !has_line(lines, '-', alias));
}

static char *
alias_of(const xmlNode *mark, guint *gpus)
{
    g_autofree char *rail = weft_xml_get(mark, "rail");
    if (weft_xml_is(mark, "device"))
        return g_strdup_printf("ua-rail%s", rail ? rail : "0");
    return weft_xml_is(mark, "gpu") ? g_strdup_printf("ua-gpu%u", (*gpus)++) : NULL;
}

/* The alias of one of them that is in it: this one, or any where it is NULL. NULL: there is none. */
static char *
find_part(const char *definition, const char *wanted, const GPtrArray *lines)
{
    g_autoptr(xmlDoc) doc = weft_xml_load(definition);
    const xmlNode *metadata = weft_xml_child(doc ? xmlDocGetRootElement(doc) : NULL, "metadata");
    const xmlNode *node = weft_xml_child_ns(metadata, "node", WEFT_DOMAIN_NAMESPACE);
    guint gpus = 0;
    for (const xmlNode *mark = node ? node->children : NULL; mark; mark = mark->next) {
        g_autofree char *alias = alias_of(mark, &gpus);
        if (alias && (!wanted || g_str_equal(alias, wanted)) && is_in(mark, alias, lines))
            return g_steal_pointer(&alias);
    }
    return NULL;
}

gboolean
weft_fake_check_parted(const WeftFakeFolder *host, const char *domain, GError **error)
{
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_RUNNING, NULL);
    g_autofree char *definition = weft_fake_read(host, file, WEFT_DOMAIN_XML_MAX, NULL);
    g_autoptr(GPtrArray) lines = read_lines(host, domain);
    g_autofree char *part = definition ? find_part(definition, NULL, lines) : NULL;
    return !part || weft_error_refuse(error, WEFT_ERROR_INVALID,
                                      "host %s: domain %s has the host's device %s, which cannot go along; unplug it first",
                                      host->host, domain, part);
}

gboolean
weft_fake_has_plugged(const WeftFakeFolder *host, const char *domain, const char *alias)
{
    g_autoptr(GPtrArray) lines = read_lines(host, domain);
    return has_line(lines, '+', alias);
}

gboolean
weft_fake_note_move(const WeftFakeFolder *host, const char *domain, GError **error)
{
    g_autoptr(GPtrArray) lines = read_lines(host, domain);
    guint at;
    if (!g_ptr_array_find_with_equal_func(lines, "+" WEFT_FAKE_NIC, g_str_equal, &at))
        return TRUE;
    g_ptr_array_remove_index(lines, at);
    return write_lines(host, domain, lines, error);
}

gboolean
weft_fake_note_fork(const WeftFakeFolder *host, const char *domain, GError **error)
{
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_PLUGGED, NULL);
    return weft_fake_replace(host, file, SHARED "\n", strlen(SHARED "\n"), error);
}

/* --- plug and unplug --- */

/* A device of the host pins all memory: what a fork shares it has for itself then. */
static WeftPlugged
note_copy(const char *xml, GPtrArray *lines)
{
    guint at;
    if (!strstr(xml, "<hostdev") || !g_ptr_array_find_with_equal_func(lines, SHARED, g_str_equal, &at))
        return (WeftPlugged){ .took = 1 };
    g_ptr_array_remove_index(lines, at);
    return (WeftPlugged){ .took = 1000, .copied = WEFT_FAKE_MEMORY };
}

static gboolean
change(const WeftFakeFolder *host, const char *domain, const char *xml, WeftPlugged *ret_plugged, GError **error)
{
    g_autoptr(xmlDoc) doc = weft_xml_load(xml);
    g_autofree char *alias = weft_xml_get(weft_xml_child(doc ? xmlDocGetRootElement(doc) : NULL, "alias"), "name");
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_RUNNING, NULL);
    g_autofree char *definition = weft_fake_read(host, file, WEFT_DOMAIN_XML_MAX, NULL);
    g_autoptr(GPtrArray) lines = read_lines(host, domain);
    char sign = ret_plugged ? '+' : '-';
    if (!definition)
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "host %s: domain %s is not running", host->host, domain);
    if (!alias)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "a device to plug has an alias");
    g_autofree char *part = find_part(definition, alias, lines);
    if (has_line(lines, sign, alias) || (ret_plugged && part))
        return TRUE;
    set_line(lines, sign, alias);
    if (ret_plugged)
        *ret_plugged = note_copy(xml, lines);
    return write_lines(host, domain, lines, error);
}

static gboolean
change_locked(WeftHypervisor *hv, const WeftHostAddress *address, const char *domain, const char *xml, WeftPlugged *ret_plugged,
              GError **error)
{
    WeftFakeFolder host;
    if (!weft_fake_check_name(domain, error) ||
        !weft_fake_folder_lock(world_of(hv), address->name, WEFT_FAKE_DOMAINS, &host, error))
        return FALSE;
    gboolean ok = change(&host, domain, xml, ret_plugged, error);
    weft_fake_folder_close(&host);
    return ok;
}

/* Faults tell a device of the host from others: "plug-hostdev" is of the former alone. */
gboolean
weft_fake_plug(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, const char *xml, WeftPlugged *ret_plugged,
               GCancellable *cancellable, GError **error)
{
    *ret_plugged = (WeftPlugged){ 0 };
    return weft_fake_pass(world_of(hv), host->name, "plug", cancellable, error) &&
           (!strstr(xml, "<hostdev") || weft_fake_pass(world_of(hv), host->name, "plug-hostdev", cancellable, error)) &&
           change_locked(hv, host, domain, xml, ret_plugged, error);
}

gboolean
weft_fake_unplug(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, const char *xml,
                 GCancellable *cancellable, GError **error)
{
    return weft_fake_pass(world_of(hv), host->name, "unplug", cancellable, error) &&
           change_locked(hv, host, domain, xml, NULL, error);
}
