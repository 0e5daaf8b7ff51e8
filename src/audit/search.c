#include "search.h"

#include "errors.h"
#include "trail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK (256 * 1024)
#define BYTES_MAX (64 * 1024 * 1024) /* that one search parses */
#define SEQUENCE "{\"sequence\":"

typedef struct {
    const WeftAuditQuery *query;
    GPtrArray *found;
    guint64 parsed;
    guint64 last; /* the entry that was looked at last */
    gboolean full;
} Search;

static gboolean
fits(const json_t *entry, const char *name, const char *wanted)
{
    return !wanted || g_strcmp0(json_string_value(json_object_get(entry, name)), wanted) == 0;
}

/* Numbers are read without a parser: what was shown on pages before this one is passed over fast. */
static void
look_at(Search *search, const char *line, gsize length)
{
    const WeftAuditQuery *query = search->query;
    gsize prefix = strlen(SEQUENCE);
    guint64 number = length > prefix && memcmp(line, SEQUENCE, prefix) == 0 ? g_ascii_strtoull(line + prefix, NULL, 10) : 0;
    if (!number || (query->before && number >= query->before))
        return;
    search->full = search->found->len == query->limit || search->parsed > BYTES_MAX;
    if (search->full)
        return;
    search->parsed += length;
    json_auto_t *entry = weft_audit_parse(line, length, NULL);
    gboolean is_tenants = fits(entry, "tenant", query->tenant) || fits(entry, "for", query->tenant);
    if (entry && is_tenants && fits(entry, "principal", query->principal))
        g_ptr_array_add(search->found, g_strndup(line, length));
    search->last = number;
}

/* Lines of the text from its end on; what stands before the first line's end is left for the block before: its length. */
static gsize
look_backward(Search *search, const char *text, gsize length, gboolean is_first)
{
    gsize end = length;
    while (end && !search->full) {
        const char *before = memrchr(text, '\n', end - 1);
        if (!before && !is_first)
            return end;
        gsize begin = before ? (gsize)(before - text) + 1 : 0;
        look_at(search, text + begin, end - 1 - begin);
        end = begin;
    }
    return 0;
}

static gboolean
read_block(int fd, char *text, gsize length, guint64 offset)
{
    for (gsize got = 0; got < length;) {
        ssize_t n = pread(fd, text + got, length - got, (off_t)(offset + got));
        if (n <= 0)
            return FALSE;
        got += (gsize)n;
    }
    return TRUE;
}

/* Whatever stands behind the last line's end is being written. */
static gboolean
search_file(Search *search, int fd, guint64 size)
{
    g_autofree char *text = g_malloc(BLOCK + WEFT_AUDIT_LINE_MAX);
    gsize kept = 0;
    gboolean is_last = TRUE;
    for (guint64 offset = size; offset && !search->full;) {
        gsize length = (gsize)MIN(offset, BLOCK);
        if (kept > WEFT_AUDIT_LINE_MAX)
            return FALSE;
        memmove(text + length, text, kept);
        if (!read_block(fd, text, length, offset - length))
            return FALSE;
        offset -= length;
        gsize whole = length + kept;
        const char *end = is_last ? memrchr(text, '\n', whole) : text + whole - 1;
        kept = end ? look_backward(search, text, (gsize)(end - text) + 1, offset == 0) : 0;
        is_last = is_last && !end;
    }
    return TRUE;
}

static gboolean
open_and_search(Search *search, const char *file, GError **error)
{
    struct stat info = { 0 };
    errno = 0;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return TRUE; /* it has another name since */
    gboolean ok = fd >= 0 && fstat(fd, &info) == 0 && search_file(search, fd, (guint64)info.st_size);
    if (!ok)
        weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot read the audit trail %s: %s", file,
                          errno ? g_strerror(errno) : "it has a line that is none");
    if (fd >= 0)
        close(fd);
    return ok;
}

GPtrArray *
weft_audit_search(const char *path, const WeftAuditQuery *query, guint64 *ret_next, GError **error)
{
    g_auto(GStrv) files = weft_trail_files(path);
    g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func(g_free);
    Search search = { .query = query, .found = found };
    for (guint i = 0; files[i] && !search.full; i++) {
        guint64 older = files[i + 1] ? weft_trail_last(path, files[i + 1]) : 0;
        if (query->before && older && query->before <= older + 1)
            continue; /* all that is in it is newer */
        if (!open_and_search(&search, files[i], error))
            return NULL;
    }
    *ret_next = search.full ? search.last : 0;
    return g_steal_pointer(&found);
}
