#include "config-hosts.h"

#include "errors.h"
#include "host.h"
#include "hostlist.h"

#include <string.h>

#define NAME_MARK "{name}"

/* An entry of the file, and what its hosts share. */
typedef struct Template {
    json_t *entry;
    const char *where;
    const char *fabric;
    char **names;
    guint count;
    GHashTable *lists; /* text of a leaf to the switches (GStrv) that it stands for */
} Template;

static gboolean
refuse(const Template *template, GError **error, const char *field, const char *format, ...) G_GNUC_PRINTF(4, 5);

static gboolean
refuse(const Template *template, GError **error, const char *field, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *message = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s.%s: %s", template->where, field, message);
    return FALSE;
}

static void
set_text(json_t *object, const char *field, const char *text)
{
    json_object_set_new(object, field, json_string(text));
}

/* "leaf[01-64]": the switches are dealt out to the hosts in equal blocks, in order. */
static gboolean
deal_leaf(Template *template, json_t *object, guint index, GError **error)
{
    const char *text = json_string_value(json_object_get(object, "leaf"));
    if (!text || !strchr(text, '['))
        return TRUE;
    char **leaves = g_hash_table_lookup(template->lists, text);
    if (!leaves) {
        leaves = weft_hostlist_expand(text, error);
        if (!leaves) {
            g_prefix_error(error, "%s.leaf: ", template->where);
            return FALSE;
        }
        g_hash_table_insert(template->lists, g_strdup(text), leaves);
    }
    guint count = g_strv_length(leaves);
    if (count > template->count)
        return refuse(template, error, "leaf", "%u switches for %u hosts; name as many or fewer", count, template->count);
    set_text(object, "leaf", leaves[(guint64)index * count / template->count]);
    return TRUE;
}

static void
count_up_guid(json_t *hca, guint index)
{
    const char *text = json_string_value(json_object_get(hca, "port_guid"));
    guint64 guid;
    /* What is no GUID is left as it is: the reader of the host knows what to say of it. */
    if (!text || !g_str_has_prefix(text, "0x") || !g_ascii_string_to_unsigned(text + 2, 16, 1, G_MAXUINT64, &guid, NULL))
        return;
    g_autofree char *next = g_strdup_printf("0x%016" G_GINT64_MODIFIER "x", guid + (guint64)index * WEFT_GUID_STRIDE);
    set_text(hca, "port_guid", next);
}

static gboolean
fill_hcas(Template *template, json_t *object, guint index, GError **error)
{
    json_t *hcas = json_deep_copy(json_object_get(object, "hcas"));
    json_t *hca;
    gsize i;
    if (!hcas)
        return TRUE;
    json_object_set_new(object, "hcas", hcas);
    json_array_foreach (hcas, i, hca) {
        count_up_guid(hca, index);
        if (!deal_leaf(template, hca, index, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
fill_uri(const Template *template, json_t *object, const char *name, GError **error)
{
    const char *text = json_string_value(json_object_get(object, "uri"));
    if (!text)
        return TRUE;
    if (template->count > 1 && !strstr(text, NAME_MARK))
        return refuse(template, error, "uri", "\"%s\" is that of one host, but there are %u; write " NAME_MARK " for the name",
                      text, template->count);
    g_autoptr(GString) uri = g_string_new(text);
    g_string_replace(uri, NAME_MARK, name, 0);
    set_text(object, "uri", uri->str);
    return TRUE;
}

static gboolean
add_host(Template *template, GPtrArray *hosts, guint index, GError **error)
{
    json_auto_t *object = json_copy(template->entry);
    const char *name = template->names[index];
    set_text(object, "name", name);
    if (!json_object_get(object, "fabric"))
        set_text(object, "fabric", template->fabric);
    if (!fill_uri(template, object, name, error) || !deal_leaf(template, object, index, error) ||
        !fill_hcas(template, object, index, error))
        return FALSE;
    WeftHost *host = weft_host_from_json(object, template->where, error);
    if (!host)
        return FALSE;
    host->origin = WEFT_ORIGIN_CONFIG;
    g_ptr_array_add(hosts, host);
    return TRUE;
}

/* The store's own fields of a host, which the same codec would read. */
static gboolean
check_fields(const Template *template, GError **error)
{
    static const char *const not_ours[] = { "origin", "draining", "moving", "disrupting", "evicting" };
    for (gsize i = 0; i < G_N_ELEMENTS(not_ours); i++) {
        if (json_object_get(template->entry, not_ours[i]))
            return refuse(template, error, not_ours[i], "is not for the file; drain a host with \"weft host drain\"");
    }
    return TRUE;
}

static gboolean
add_all(Template *template, GPtrArray *hosts, GError **error)
{
    template->count = g_strv_length(template->names);
    if (hosts->len + template->count > WEFT_HOSTS_MAX)
        return refuse(template, error, "name", "%u hosts in all; at most %d are taken", hosts->len + template->count,
                      WEFT_HOSTS_MAX);
    for (guint i = 0; i < template->count; i++) {
        if (!add_host(template, hosts, i, error))
            return FALSE;
    }
    return TRUE;
}

gboolean
weft_config_add_hosts(GPtrArray *hosts, json_t *entry, const char *where, const char *fabric, GError **error)
{
    Template template = { .entry = entry, .where = where, .fabric = fabric };
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (!name) {
        /* The reader of a single host says what is wrong. */
        g_autoptr(WeftHost) host = weft_host_from_json(entry, where, error);
        return host != NULL;
    }
    if (!check_fields(&template, error))
        return FALSE;
    g_auto(GStrv) names = weft_hostlist_expand(name, error);
    if (!names) {
        g_prefix_error(error, "%s.name: ", where);
        return FALSE;
    }
    template.names = names;
    template.lists = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_strfreev);
    gboolean ok = add_all(&template, hosts, error);
    g_hash_table_unref(template.lists);
    return ok;
}
