/* hcafs DESCRIPTION MOUNTPOINT: a /sys with InfiniBand adapters that behave as Linux and their drivers do: values are refused,
 * normalised, or ignored, functions come and go, are bound and unbound. DESCRIPTION has a line per adapter (see adapters.h).
 *
 * The file .control takes orders, a write each: "value PATH VALUE" sets any value, "link PATH TARGET" any link, "file PATH
 * VALUE" makes one that keeps what is written, "fail PATH ERRNO" makes writing fail, "ignore PATH" lets it have no effect,
 * "mend PATH" ends both, "drop PATH" removes, "forget" empties the log. .control reads as the log of all writes: "PATH VALUE".
 * Says "ready" when it is there, and ends with its mount. */
#define FUSE_USE_VERSION 31
#include "adapters.h"
#include "real.h"
#include "tree.h"

#include <errno.h>
#include <fuse.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>

static GString *journal;

/* --- orders --- */

static int
obey(Node *control, const char *line)
{
    g_auto(GStrv) words = g_strsplit(line, " ", 3);
    guint n = g_strv_length(words);
    Node *node = n > 1 ? tree_find(words[1]) : NULL;
    if (n == 1 && g_str_equal(words[0], "forget"))
        g_string_truncate(journal, 0);
    else if (n == 3 && g_str_equal(words[0], "link"))
        tree_add_link(words[2], "%s", words[1]);
    else if (n == 3 && g_str_equal(words[0], "file"))
        tree_add_file(tree_set, words[2], "%s", words[1]);
    else if (n == 2 && g_str_equal(words[0], "drop") && node)
        tree_drop(words[1]);
    else if (!node)
        return -ENOENT;
    else if (n == 3 && g_str_equal(words[0], "value"))
        tree_set(node, words[2]);
    else if (n == 3 && g_str_equal(words[0], "fail"))
        node->fault = (int)g_ascii_strtoull(words[2], NULL, 10);
    else if (n == 2 && g_str_equal(words[0], "ignore"))
        node->ignore = TRUE;
    else if (n == 2 && g_str_equal(words[0], "mend"))
        node->fault = node->ignore = 0;
    else
        return -EINVAL;
    return 0;
}

/* --- the file system --- */

/* NULL: where there is a real /sys, it is asked. Functions that came or went there are known from here on. */
static Node *
find(const char *path)
{
    adapters_follow();
    return tree_find(path);
}

static int
fs_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
    const Node *node = find(path);
    if (!node)
        return real_stat(path, st);
    *st = (struct stat){ .st_mode = node->type | (node->type == S_IFREG ? (node->store ? 0644 : 0444) : 0755),
                         .st_nlink = 1,
                         .st_size = node->type == S_IFREG ? 4096 : 0 };
    return 0;
}

static int
fs_readlink(const char *path, char *buffer, size_t size)
{
    const Node *node = find(path);
    if (!node || node->type != S_IFLNK)
        return node ? -EINVAL : real_readlink(path, buffer, size);
    g_strlcpy(buffer, node->text, size);
    return 0;
}

static int
fs_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *info,
           enum fuse_readdir_flags flags)
{
    const Node *node = find(path);
    if (node && !node->children)
        return -ENOTDIR;
    for (guint i = 0; node && i < node->children->len; i++)
        fill(buffer, g_ptr_array_index(node->children, i), NULL, 0, 0);
    int status = real_list(path, buffer, fill);
    return node ? 0 : status;
}

static int
fs_open(const char *path, struct fuse_file_info *info)
{
    const Node *node = find(path);
    info->direct_io = 1;
    if (!node)
        return real_check(path, info->flags);
    return (info->flags & O_ACCMODE) != O_RDONLY && !node->store ? -EACCES : 0;
}

static int
fs_read(const char *path, char *buffer, size_t size, off_t offset, struct fuse_file_info *info)
{
    const Node *node = find(path);
    g_autofree char *value = node ? tree_text(node) : NULL;
    if (!value)
        return node ? -EIO : real_read(path, buffer, size, offset);
    g_autofree char *text = node->store == obey ? g_strdup(journal->str) : g_strconcat(value, "\n", NULL);
    size_t length = strlen(text);
    size_t n = (size_t)offset >= length ? 0 : MIN(size, length - (size_t)offset);
    memcpy(buffer, text + offset, n);
    return (int)n;
}

static int
fs_write(const char *path, const char *data, size_t size, off_t offset, struct fuse_file_info *info)
{
    Node *node = find(path);
    g_autofree char *text = g_strndup(data, size);
    const char *value = g_strchomp(text);
    if (node && !node->store)
        return -EACCES;
    if (!node || node->store != obey)
        g_string_append_printf(journal, "%s %s\n", path, value);
    if (!node)
        return real_write(path, data, size, offset);
    int status = node->fault ? -node->fault : node->ignore ? 0 : node->store(node, value);
    return status < 0 ? status : (int)size;
}

static int
fs_truncate(const char *path, off_t size, struct fuse_file_info *info)
{
    return 0;
}

static void *
fs_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    /* A name may stay known: whatever is done with it asks here, and finds out that it is gone. */
    config->entry_timeout = 3600;
    config->attr_timeout = config->negative_timeout = 0;
    puts("ready");
    fflush(stdout);
    return NULL;
}

static const struct fuse_operations operations = {
    .init = fs_init,
    .getattr = fs_getattr,
    .readlink = fs_readlink,
    .readdir = fs_readdir,
    .open = fs_open,
    .read = fs_read,
    .write = fs_write,
    .truncate = fs_truncate,
};

int
main(int argc, char **argv)
{
    g_autofree char *description = NULL;
    if (argc != 3 || !g_file_get_contents(argv[1], &description, NULL, NULL)) {
        fprintf(stderr, "usage: hcafs DESCRIPTION MOUNTPOINT\n");
        return 2;
    }
    journal = g_string_new(NULL);
    tree_init();
    tree_add("/.control", S_IFREG, "", obey);
    adapters_init();
    g_auto(GStrv) lines = g_strsplit(g_strchomp(description), "\n", -1);
    for (guint i = 0; lines[i]; i++) {
        if (!adapters_add(lines[i])) {
            fprintf(stderr, "hcafs: not an adapter: %s\n", lines[i]);
            return 2;
        }
    }
    char *arguments[] = { argv[0], "-f", "-s", argv[2], NULL };
    int status = fuse_main(4, arguments, &operations, NULL);
    tree_free();
    adapters_free();
    g_string_free(journal, TRUE);
    return status;
}
