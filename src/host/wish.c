#include "wish.h"

#include "bounds.h"
#include "errors.h"
#include "fields.h"
#include "size.h"
#include "text.h"

#include <string.h>

#define ADAPTERS_MAX 64
#define FUNCTIONS_MAX 65535
#define PAGES_MAX (G_GUINT64_CONSTANT(1) << 32)
#define PAGE_SMALLEST (G_GUINT64_CONSTANT(64) << 10)
#define PAGE_LARGEST (G_GUINT64_CONSTANT(64) << 30)

static void
adapter_free(gpointer data)
{
    WeftAdapterWish *adapter = data;
    g_free(adapter->name);
    g_free(adapter);
}

void
weft_host_wish_free(WeftHostWish *wish)
{
    if (!wish)
        return;
    g_ptr_array_unref(wish->adapters);
    g_array_unref(wish->pages);
    g_free(wish);
}

/* --- adapters --- */

/* TRUE: it was wished for. */
static gboolean
drop_adapter(WeftHostWish *wish, const char *name)
{
    guint before = wish->adapters->len;
    for (guint i = before; i > 0; i--)
        if (g_str_equal(((WeftAdapterWish *)g_ptr_array_index(wish->adapters, i - 1))->name, name))
            g_ptr_array_remove_index(wish->adapters, i - 1);
    return wish->adapters->len < before;
}

static void
add_adapter(WeftHostWish *wish, const char *name, guint functions, gboolean online)
{
    WeftAdapterWish *adapter = g_new0(WeftAdapterWish, 1);
    adapter->name = g_strdup(name);
    adapter->functions = functions;
    adapter->online = online;
    g_ptr_array_add(wish->adapters, adapter);
}

/* A folder of sysfs is looked up by it. */
static gboolean
is_name(const char *name)
{
    for (const char *p = name; *p; p++)
        if (!g_ascii_isalnum(*p) && !strchr("_-:.", *p))
            return FALSE;
    return *name && *name != '.' && strlen(name) <= 64;
}

static gboolean
check_name(const char *name, GError **error)
{
    g_autofree char *quoted = weft_text_quote(name);
    return is_name(name) ||
           weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "%s is no name of an adapter; write mlx5_0, for instance, or 0000:41:00.0", quoted);
}

gboolean
weft_host_wish_adapter(WeftHostWish *wish, const char *text, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, "=", 2);
    g_auto(GStrv) words = g_strsplit(parts[0] && parts[1] ? parts[1] : "", ",", 2);
    guint64 functions = 0;
    gboolean online = words[0] && g_strcmp0(words[1], "online") == 0;
    if (!words[0] || !g_ascii_string_to_unsigned(words[0], 10, 0, FUNCTIONS_MAX, &functions, NULL) || (words[1] && !online)) {
        g_autofree char *quoted = weft_text_quote(text);
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "--adapter %s: write NAME=FUNCTIONS, such as mlx5_0=16, or nvme0=4,online", quoted);
    }
    if (!check_name(parts[0], error))
        return FALSE;
    drop_adapter(wish, parts[0]);
    add_adapter(wish, parts[0], (guint)functions, online);
    return TRUE;
}

static gboolean
read_adapter(WeftHostWish *wish, json_t *item, gsize i, GError **error)
{
    WeftFields f;
    weft_fields_begin(&f, item, "adapters[%zu]", i);
    const char *name = weft_fields_string(&f, "name", WEFT_REQUIRED_TEXT);
    guint functions = (guint)weft_fields_uint(&f, "functions", 0, FUNCTIONS_MAX, WEFT_REQUIRED);
    gboolean online = weft_fields_bool(&f, "online", FALSE);
    g_autoptr(GError) wrong = NULL;
    if (!f.error && !check_name(name, &wrong))
        weft_fields_fail(&f, "name", "%s", wrong->message);
    if (!f.error && drop_adapter(wish, name))
        weft_fields_fail(&f, "name", "\"%s\" is there twice; keep one of them", name);
    if (!f.error)
        add_adapter(wish, name, functions, online);
    return weft_fields_end(&f, error);
}

/* --- pages --- */

static gboolean
drop_pages(WeftHostWish *wish, guint64 size)
{
    guint before = wish->pages->len;
    for (guint i = before; i > 0; i--)
        if (g_array_index(wish->pages, WeftPageWish, i - 1).size == size)
            g_array_remove_index(wish->pages, i - 1);
    return wish->pages->len < before;
}

static gboolean
wishes_node(const WeftHostWish *wish, guint64 size, int node)
{
    for (guint i = 0; i < wish->pages->len; i++) {
        const WeftPageWish *pages = &g_array_index(wish->pages, WeftPageWish, i);
        if (pages->size == size && pages->node == node)
            return TRUE;
    }
    return FALSE;
}

/* "64" or "0:64". */
static gboolean
read_count(const char *text, gboolean alone, WeftPageWish *ret_pages)
{
    const char *colon = strchr(text, ':');
    g_autofree char *left = colon ? g_strndup(text, (gsize)(colon - text)) : NULL;
    guint64 node = 0;
    if (!g_ascii_string_to_unsigned(colon ? colon + 1 : text, 10, 0, PAGES_MAX, &ret_pages->count, NULL) ||
        (!colon && !alone) || (left && !g_ascii_string_to_unsigned(left, 10, 0, WEFT_NUMA_MAX - 1, &node, NULL)))
        return FALSE;
    ret_pages->node = colon ? (int)node : WEFT_WISH_EVERY_NODE;
    return TRUE;
}

static gboolean
check_size(const char *text, guint64 *ret_size, GError **error)
{
    if (!weft_size_parse(text, ret_size, error))
        return FALSE;
    if (*ret_size < PAGE_SMALLEST || *ret_size > PAGE_LARGEST || (*ret_size & (*ret_size - 1)))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s is no size of huge pages; write 2M or 1G", text);
    return TRUE;
}

static gboolean
add_pages(WeftHostWish *wish, const char *size, const char *counts, GError **error)
{
    WeftPageWish pages = { 0 };
    if (!check_size(size, &pages.size, error))
        return FALSE;
    drop_pages(wish, pages.size);
    g_auto(GStrv) parts = g_strsplit(counts, ",", -1);
    for (guint i = 0, n = g_strv_length(parts); i < MAX(n, 1); i++) {
        g_autofree char *quoted = weft_text_quote(counts);
        if (!n || !read_count(parts[i], n == 1, &pages))
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "%s is no number of pages; write 1024 for each NUMA node, or 0:1024,1:512", quoted);
        if (wishes_node(wish, pages.size, pages.node))
            return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s names NUMA node %d twice; keep one of them", quoted,
                                     pages.node);
        g_array_append_val(wish->pages, pages);
    }
    return TRUE;
}

gboolean
weft_host_wish_pages(WeftHostWish *wish, const char *text, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, "=", 2);
    gboolean ok = g_strv_length(parts) == 2
                      ? add_pages(wish, parts[0], parts[1], error)
                      : weft_error_refuse(error, WEFT_ERROR_INVALID, "write SIZE=COUNT, such as 2M=1024 or 1G=0:64,1:32");
    if (!ok)
        g_prefix_error(error, "--pages %s: ", text);
    return ok;
}

static gboolean
read_pages(WeftHostWish *wish, json_t *object, GError **error)
{
    const char *size;
    json_t *value;
    json_object_foreach (object, size, value) {
        g_autofree char *number = json_is_integer(value) ? g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(value))
                                                         : g_strdup(json_is_string(value) ? json_string_value(value) : "");
        guint64 bytes = 0;
        g_autofree char *quoted = weft_text_clip(size);
        gboolean ok = check_size(size, &bytes, error);
        if (ok && drop_pages(wish, bytes))
            ok = weft_error_refuse(error, WEFT_ERROR_INVALID, "this size is there twice; keep one of them");
        if (ok && add_pages(wish, size, number, error))
            continue;
        g_prefix_error(error, "pages.%s: ", quoted);
        return FALSE;
    }
    return TRUE;
}

/* --- */

WeftHostWish *
weft_host_wish_new(json_t *json, GError **error)
{
    g_autoptr(WeftHostWish) wish = g_new0(WeftHostWish, 1);
    wish->adapters = g_ptr_array_new_with_free_func(adapter_free);
    wish->pages = g_array_new(FALSE, TRUE, sizeof(WeftPageWish));
    if (!json)
        return g_steal_pointer(&wish);
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "");
    json_t *adapters = weft_fields_array(&f, "adapters", ADAPTERS_MAX), *item;
    json_t *pages = weft_fields_object(&f, "pages");
    gsize i;
    json_array_foreach (adapters, i, item)
        if (!f.error)
            read_adapter(wish, item, i, &f.error);
    if (!f.error && pages)
        read_pages(wish, pages, &f.error);
    return weft_fields_end(&f, error) ? g_steal_pointer(&wish) : NULL;
}
