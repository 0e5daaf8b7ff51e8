/* hcafs DESCRIPTION MOUNTPOINT: a /sys with InfiniBand adapters that behave as Linux and their drivers do: values are refused,
 * normalised, or ignored, functions are bound and unbound. It has a line per adapter:
 *
 *     mlx5 NAME PCI FUNCTIONS vendor        the vendor's driver, with files for GUIDs and policy
 *     mlx5 NAME PCI FUNCTIONS               the kernel's own, with an IPoIB interface
 *     mlx4 NAME PCI FUNCTIONS KEY,KEY,…     with the keys in its port's table
 *
 * The file .control takes orders, a write each: "value PATH VALUE" sets any value, "link PATH TARGET" any link, "fail PATH
 * ERRNO" makes writing fail, "ignore PATH" lets it have no effect, "mend PATH" ends both, "drop PATH" removes, "forget" empties
 * the log. .control reads as the log of all writes: "PATH VALUE". Says "ready" when it is there, and ends with its mount. */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fuse.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#define PKEYS 128
#define DEVICES "/devices/pci0000:00"
#define DRIVERS "/bus/pci/drivers"

typedef struct Node Node;
typedef int (*Store)(Node *node, const char *value); /* 0 or a negative errno */

struct Node {
    mode_t type; /* S_IFDIR, S_IFREG, S_IFLNK */
    char *path;
    char *text;          /* a file's value, a link's target */
    Store store;         /* NULL: only to be read */
    GPtrArray *children; /* names */
    int fault;
    gboolean ignore;
};

static GHashTable *nodes; /* path to Node */
static GString *journal;

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

static Node *
find(const char *path)
{
    return g_hash_table_lookup(nodes, path);
}

static Node *
add(const char *path, mode_t type, const char *text, Store store)
{
    if (!find(path) && !g_str_equal(path, "/")) {
        g_autofree char *folder = g_path_get_dirname(path);
        Node *parent = find(folder);
        if (!parent)
            parent = add(folder, S_IFDIR, NULL, NULL);
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

static void
drop(const char *path)
{
    g_autofree char *folder = g_path_get_dirname(path);
    g_autofree char *name = g_path_get_basename(path);
    Node *parent = find(folder);
    guint index;
    if (parent && g_ptr_array_find_with_equal_func(parent->children, name, g_str_equal, &index))
        g_ptr_array_remove_index(parent->children, index);
    g_hash_table_remove(nodes, path);
}

static void G_GNUC_PRINTF(3, 4) file(Store store, const char *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *path = g_strdup_vprintf(format, args);
    va_end(args);
    add(path, S_IFREG, text, store);
}

/* --- how values are taken --- */

static int
set_text(Node *node, char *text)
{
    g_free(node->text);
    node->text = text;
    return 0;
}

static int
store_colons(Node *node, const char *value)
{
    unsigned b[8];
    char rest;
    if (sscanf(value, "%02x:%02x:%02x:%02x:%02x:%02x:%02x:%02x%c", b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7, &rest) !=
        8)
        return -EINVAL;
    return set_text(node, g_ascii_strdown(value, -1));
}

static int
store_policy(Node *node, const char *value)
{
    if (!g_str_equal(value, "Up") && !g_str_equal(value, "Down") && !g_str_equal(value, "Follow"))
        return -EINVAL;
    return set_text(node, g_strdup(value));
}

static int
store_admin_guid(Node *node, const char *value)
{
    unsigned long long guid = 0;
    if (g_str_has_suffix(node->path, "/admin_guids/0")) /* the driver says so in its log only */
        return 0;
    sscanf(value, "%llx", &guid);
    return set_text(node, g_strdup_printf("%llx", guid));
}

static int
store_pkey_index(Node *node, const char *value)
{
    int index;
    if (g_ascii_strncasecmp(value, "no", 2) == 0)
        index = PKEYS - 1;
    else if (sscanf(value, "%i", &index) != 1 || index < 0 || index >= PKEYS - 1)
        return -EINVAL;
    return set_text(node, g_strdup_printf("%d", index));
}

static int
store_flag(Node *node, const char *value)
{
    if (!g_str_equal(value, "0") && !g_str_equal(value, "1"))
        return -EINVAL;
    return set_text(node, g_strdup(value));
}

static int
store_unbind(Node *node, const char *value)
{
    g_autofree char *link = g_strdup_printf(DEVICES "/%s/driver", value);
    g_autofree char *folder = g_path_get_dirname(node->path);
    g_autofree char *name = g_path_get_basename(folder);
    Node *driver = find(link);
    if (!driver || !g_str_has_suffix(driver->text, name))
        return -ENODEV;
    drop(link);
    return 0;
}

static int
store_bind(Node *node, const char *value)
{
    g_autofree char *device = g_strdup_printf(DEVICES "/%s", value);
    g_autofree char *link = g_strdup_printf("%s/driver", device);
    g_autofree char *folder = g_path_get_dirname(node->path);
    g_autofree char *target = g_strdup_printf("../../..%s", folder);
    if (!find(device) || find(link))
        return -ENODEV;
    add(link, S_IFLNK, target, NULL);
    return 0;
}

/* --- adapters --- */

static void
make_driver(const char *name)
{
    file(store_bind, NULL, DRIVERS "/%s/bind", name);
    file(store_unbind, NULL, DRIVERS "/%s/unbind", name);
}

static void G_GNUC_PRINTF(2, 3) link_to(const char *target, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *path = g_strdup_vprintf(format, args);
    va_end(args);
    add(path, S_IFLNK, target, NULL);
}

static void
make_device(const char *pci, const char *driver, guint group)
{
    g_autofree char *device = g_strdup_printf("../../.." DEVICES "/%s", pci);
    g_autofree char *target = g_strdup_printf("../../.." DRIVERS "/%s", driver);
    g_autofree char *iommu = g_strdup_printf("../../../kernel/iommu_groups/%u", group);
    link_to(device, "/bus/pci/devices/%s", pci);
    link_to(target, DEVICES "/%s/driver", pci);
    link_to(iommu, DEVICES "/%s/iommu_group", pci);
    file(NULL, "0", DEVICES "/%s/numa_node", pci);
    link_to(device, "/kernel/iommu_groups/%u/devices/%s", group, pci);
}

static char *
function_address(const char *pf, guint vf)
{
    return g_strdup_printf("%.8s%02x.%x", pf, (vf + 1) / 8, (vf + 1) % 8);
}

typedef struct Adapter {
    const char *driver, *name, *pf, *keys;
    guint vfs, number;
} Adapter;

static void
make_functions(const Adapter *a, const char *driver)
{
    make_device(a->pf, driver, a->number * 100);
    for (guint vf = 0; vf < a->vfs; vf++) {
        g_autofree char *pci = function_address(a->pf, vf);
        g_autofree char *to_vf = g_strdup_printf("../%s", pci);
        g_autofree char *to_pf = g_strdup_printf("../%s", a->pf);
        make_device(pci, driver, a->number * 100 + vf + 1);
        link_to(to_vf, DEVICES "/%s/virtfn%u", a->pf, vf);
        link_to(to_pf, DEVICES "/%s/physfn", pci);
    }
    g_autofree char *total = g_strdup_printf("%u", a->vfs);
    file(NULL, total, DEVICES "/%s/sriov_totalvfs", a->pf);
}

static void
make_hca(const Adapter *a)
{
    g_autofree char *target = g_strdup_printf("../.." DEVICES "/%s/infiniband/%s", a->pf, a->name);
    g_autofree char *device = g_strdup_printf("../../../%s", a->pf);
    g_autofree char *gid = g_strdup_printf("fe80:0000:0000:0000:0002:c903:0000:%04x", a->number);
    link_to(target, "/class/infiniband/%s", a->name);
    link_to(device, DEVICES "/%s/infiniband/%s/device", a->pf, a->name);
    file(NULL, "4: ACTIVE", DEVICES "/%s/infiniband/%s/ports/1/state", a->pf, a->name);
    file(NULL, gid, DEVICES "/%s/infiniband/%s/ports/1/gids/0", a->pf, a->name);
}

static void
make_mlx5(const Adapter *a)
{
    g_autofree char *numvfs = g_strdup_printf("%u", a->vfs);
    file(NULL, numvfs, DEVICES "/%s/sriov_numvfs", a->pf);
    for (guint vf = 0; a->keys && vf < a->vfs; vf++) {
        file(store_colons, "00:00:00:00:00:00:00:00", DEVICES "/%s/sriov/%u/node", a->pf, vf);
        file(store_colons, "00:00:00:00:00:00:00:00", DEVICES "/%s/sriov/%u/port", a->pf, vf);
        file(store_policy, "Down", DEVICES "/%s/sriov/%u/policy", a->pf, vf);
    }
    if (!a->keys) {
        file(NULL, "7", DEVICES "/%s/net/ib%u/ifindex", a->pf, a->number);
        file(NULL, "32", DEVICES "/%s/net/ib%u/type", a->pf, a->number);
    }
}

/* Before anybody set it, a function's map is that of the port itself. */
static void
make_mlx4_map(const Adapter *a, guint vf, guint port)
{
    g_autofree char *pci = function_address(a->pf, vf);
    g_autofree char *base = g_strdup_printf(DEVICES "/%s/infiniband/%s/iov/%s/ports/%u", a->pf, a->name, pci, port);
    g_autofree char *slave = g_strdup_printf("%u", vf + 1);
    file(NULL, slave, "%s/gid_idx/0", base);
    file(store_flag, "0", "%s/enable_smi_admin", base);
    for (guint i = 0; i < PKEYS - 1; i++) {
        g_autofree char *index = g_strdup_printf("%u", i);
        file(store_pkey_index, index, "%s/pkey_idx/%u", base, i);
    }
}

static void
make_mlx4_port(const Adapter *a, guint port)
{
    g_autofree char *base = g_strdup_printf(DEVICES "/%s/infiniband/%s/iov/ports/%u", a->pf, a->name, port);
    g_auto(GStrv) keys = g_strsplit(a->keys ? a->keys : "", ",", -1);
    for (guint i = 0, n = g_strv_length(keys); i < PKEYS; i++)
        file(NULL, i < n && port == 1 ? keys[i] : "0x0000", "%s/pkeys/%u", base, i);
    for (guint i = 0; i < PKEYS; i++)
        file(store_admin_guid, i ? "0" : "2c9030000000001", "%s/admin_guids/%u", base, i);
    for (guint vf = 0; vf < a->vfs; vf++)
        make_mlx4_map(a, vf, port);
}

static gboolean
make_adapter(const char *line, guint number)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);
    if (g_strv_length(words) < 4)
        return FALSE;
    Adapter a = { words[0], words[1], words[2], words[4], (guint)g_ascii_strtoull(words[3], NULL, 10), number };
    g_autofree char *driver = g_strconcat(a.driver, "_core", NULL);
    make_driver(driver);
    make_functions(&a, driver);
    make_hca(&a);
    if (g_str_equal(a.driver, "mlx5")) {
        make_mlx5(&a);
    } else {
        make_mlx4_port(&a, 1);
        make_mlx4_port(&a, 2);
    }
    return TRUE;
}

/* --- orders --- */

static int
obey(Node *control, const char *line)
{
    g_auto(GStrv) words = g_strsplit(line, " ", 3);
    guint n = g_strv_length(words);
    Node *node = n > 1 ? find(words[1]) : NULL;
    if (n == 1 && g_str_equal(words[0], "forget"))
        g_string_truncate(journal, 0);
    else if (n == 3 && g_str_equal(words[0], "link"))
        add(words[1], S_IFLNK, words[2], NULL);
    else if (n == 2 && g_str_equal(words[0], "drop") && node)
        drop(words[1]);
    else if (!node)
        return -ENOENT;
    else if (n == 3 && g_str_equal(words[0], "value"))
        set_text(node, g_strdup(words[2]));
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

static int
fs_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
    const Node *node = find(path);
    if (!node)
        return -ENOENT;
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
        return -EINVAL;
    g_strlcpy(buffer, node->text, size);
    return 0;
}

static int
fs_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *info,
           enum fuse_readdir_flags flags)
{
    const Node *node = find(path);
    if (!node || !node->children)
        return -ENOTDIR;
    for (guint i = 0; i < node->children->len; i++)
        fill(buffer, g_ptr_array_index(node->children, i), NULL, 0, 0);
    return 0;
}

static int
fs_open(const char *path, struct fuse_file_info *info)
{
    const Node *node = find(path);
    if (!node)
        return -ENOENT;
    info->direct_io = 1;
    return (info->flags & O_ACCMODE) != O_RDONLY && !node->store ? -EACCES : 0;
}

static int
fs_read(const char *path, char *buffer, size_t size, off_t offset, struct fuse_file_info *info)
{
    const Node *node = find(path);
    if (!node || !node->text)
        return node ? -EIO : -ENOENT;
    g_autofree char *text = node->store == obey ? g_strdup(journal->str) : g_strconcat(node->text, "\n", NULL);
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
    if (!node || !node->store)
        return -EACCES;
    if (node->store != obey)
        g_string_append_printf(journal, "%s %s\n", path, value);
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
    config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
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
    nodes = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, node_free);
    journal = g_string_new(NULL);
    add("/", S_IFDIR, NULL, NULL);
    add("/.control", S_IFREG, "", obey);
    add("/class/infiniband", S_IFDIR, NULL, NULL);
    make_driver("vfio-pci");
    g_auto(GStrv) lines = g_strsplit(g_strchomp(description), "\n", -1);
    for (guint i = 0; lines[i]; i++) {
        if (!make_adapter(lines[i], i + 1)) {
            fprintf(stderr, "hcafs: not an adapter: %s\n", lines[i]);
            return 2;
        }
    }
    char *arguments[] = { argv[0], "-f", "-s", argv[2], NULL };
    int status = fuse_main(4, arguments, &operations, NULL);
    g_hash_table_destroy(nodes);
    g_string_free(journal, TRUE);
    return status;
}
