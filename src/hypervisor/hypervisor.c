#include "hypervisor.h"

#include "errors.h"

#include <string.h>

const char *const weft_copy_words[WEFT_COPIES + 1] = {
    [WEFT_COPY_PRE] = "pre-copy", [WEFT_COPY_POST] = "post-copy", [WEFT_COPY_HYBRID] = "hybrid"
};

void
weft_domain_free(WeftDomain *domain)
{
    if (!domain)
        return;
    g_free(domain->name);
    g_free(domain->node);
    g_free(domain->site);
    g_free(domain->placement);
    g_free(domain->record);
    g_free(domain->number);
    g_free(domain);
}

gboolean
weft_hypervisor_refuse_unclaimed(GError **error, const char *what)
{
    return weft_error_refuse(error, WEFT_ERROR_DENIED,
                             "%s: the host cannot compare whose it is before this is changed; claim it", what);
}

/* --- whose files these are --- */

char *
weft_file_mark_name(const char *subject, const char *site, const char *placement)
{
    return g_strconcat(subject, ".", site, placement ? "." : WEFT_MARK_SUFFIX, placement, placement ? WEFT_MARK_SUFFIX : NULL,
                       NULL);
}

WeftFileMark *
weft_file_mark_read(const char *name)
{
    if (!g_str_has_suffix(name, WEFT_MARK_SUFFIX))
        return NULL;
    g_autofree char *stem = g_strndup(name, strlen(name) - strlen(WEFT_MARK_SUFFIX));
    g_auto(GStrv) words = g_strsplit(stem, ".", -1);
    guint n = g_strv_length(words);
    if (n < 2 || n > 3 || !*words[0] || !*words[1])
        return NULL;
    WeftFileMark *mark = g_new0(WeftFileMark, 1);
    *mark = (WeftFileMark){ g_strdup(words[0]), g_strdup(words[1]), g_strdup(n == 3 ? words[2] : NULL) };
    return mark;
}

void
weft_file_mark_free(WeftFileMark *mark)
{
    if (!mark)
        return;
    g_free(mark->subject);
    g_free(mark->site);
    g_free(mark->placement);
    g_free(mark);
}

void
weft_moved_clear(WeftMoved *moved)
{
    g_clear_pointer(&moved->rdma_failed, g_free);
}

void
weft_hypervisor_free(WeftHypervisor *hv)
{
    if (hv)
        hv->ops->free(hv);
}

WeftContents *
weft_contents_new(void)
{
    WeftContents *contents = g_new0(WeftContents, 1);
    contents->domains = g_ptr_array_new_with_free_func((GDestroyNotify)weft_domain_free);
    contents->images = g_ptr_array_new_with_free_func(g_free);
    contents->networks = g_ptr_array_new_with_free_func((GDestroyNotify)weft_host_network_free);
    contents->primed = g_ptr_array_new_with_free_func(g_free);
    contents->marks = g_ptr_array_new_with_free_func((GDestroyNotify)weft_file_mark_free);
    return contents;
}

void
weft_contents_free(WeftContents *contents)
{
    if (!contents)
        return;
    g_ptr_array_unref(contents->domains);
    g_ptr_array_unref(contents->images);
    g_ptr_array_unref(contents->networks);
    g_ptr_array_unref(contents->primed);
    g_ptr_array_unref(contents->marks);
    g_free(contents);
}

/* --- what hosts call things --- */

static gboolean
is_text(const char *text)
{
    return !text || g_utf8_validate(text, -1, NULL);
}

static void
disown(WeftDomain *domain)
{
    char *name = g_utf8_make_valid(domain->name, -1);
    g_free(domain->name);
    domain->name = name;
    g_clear_pointer(&domain->node, g_free);
    g_clear_pointer(&domain->site, g_free);
    g_clear_pointer(&domain->placement, g_free);
    g_clear_pointer(&domain->record, g_free);
}

void
weft_contents_tidy(WeftContents *contents)
{
    for (guint i = 0; i < contents->domains->len; i++) {
        WeftDomain *domain = contents->domains->pdata[i];
        if (!is_text(domain->name) || !is_text(domain->node) || !is_text(domain->site) || !is_text(domain->placement) ||
            !is_text(domain->record))
            disown(domain);
    }
    for (guint i = contents->primed->len; i-- > 0;)
        if (!is_text(contents->primed->pdata[i]))
            g_ptr_array_remove_index(contents->primed, i);
    for (guint i = contents->marks->len; i-- > 0;) {
        const WeftFileMark *mark = contents->marks->pdata[i];
        if (!is_text(mark->subject) || !is_text(mark->site) || !is_text(mark->placement))
            g_ptr_array_remove_index(contents->marks, i);
    }
}
