#include "tree.h"

static GHashTable *nodes; /* path to Node */

static void
node_free(gpointer data)
{
    Node *node = data;
    g_free(node->path);
    g_free(node->text);
    if (node->children)
        g_ptr_array_unref(node->children);
    g_free(node);
}

void
tree_init(void)
{
    nodes = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, node_free);
    tree_add("/", S_IFDIR, NULL, NULL);
}

void
tree_free(void)
{
    g_hash_table_destroy(nodes);
}

Node *
tree_find(const char *path)
{
    return g_hash_table_lookup(nodes, path);
}

Node *
tree_find_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *path = g_strdup_vprintf(format, args);
    va_end(args);
    return tree_find(path);
}

Node *
tree_add(const char *path, mode_t type, const char *text, Store store)
{
    if (!tree_find(path) && !g_str_equal(path, "/")) {
        g_autofree char *folder = g_path_get_dirname(path);
        Node *parent = tree_find(folder);
        if (!parent)
            parent = tree_add(folder, S_IFDIR, NULL, NULL);
        g_ptr_array_add(parent->children, g_path_get_basename(path));
    }
    Node *node = g_new0(Node, 1);
    node->type = type;
    node->path = g_strdup(path);
    node->text = g_strdup(text);
    node->store = store;
    node->children = type == S_IFDIR ? g_ptr_array_new_with_free_func(g_free) : NULL;
    g_hash_table_replace(nodes, node->path, node);
    return node;
}

Node *
tree_add_file(Store store, const char *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *path = g_strdup_vprintf(format, args);
    va_end(args);
    return tree_add(path, S_IFREG, text, store);
}

Node *
tree_add_link(const char *target, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *path = g_strdup_vprintf(format, args);
    va_end(args);
    return tree_add(path, S_IFLNK, target, NULL);
}

static void
drop_below(const char *path)
{
    Node *node = tree_find(path);
    for (guint i = 0; node && node->children && i < node->children->len; i++) {
        g_autofree char *child = g_build_filename(path, g_ptr_array_index(node->children, i), NULL);
        drop_below(child);
    }
    g_hash_table_remove(nodes, path);
}

void
tree_drop(const char *path)
{
    g_autofree char *folder = g_path_get_dirname(path);
    g_autofree char *name = g_path_get_basename(path);
    Node *parent = tree_find(folder);
    guint index;
    if (parent && g_ptr_array_find_with_equal_func(parent->children, name, g_str_equal, &index))
        g_ptr_array_remove_index(parent->children, index);
    drop_below(path);
}

void
tree_drop_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *path = g_strdup_vprintf(format, args);
    va_end(args);
    tree_drop(path);
}

int
tree_set(Node *node, const char *value)
{
    char *text = g_strdup(value); /* which may be its own */
    g_free(node->text);
    node->text = text;
    return 0;
}

char *
tree_text(const Node *node)
{
    return node->show ? node->show(node) : g_strdup(node->text);
}

char *
tree_target(const Node *node)
{
    return node && node->type == S_IFLNK ? g_path_get_basename(node->text) : NULL;
}
