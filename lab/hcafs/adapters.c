#define FUSE_USE_VERSION 31
#include "adapters.h"

#include "functions.h"
#include "ports.h"
#include "real.h"
#include "tree.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define NO_OVERRIDE "(null)"
#define VFIO "vfio-pci"

static GPtrArray *adapters;

static void
adapter_free(gpointer data)
{
    Adapter *a = data;
    g_free(a->name);
    g_free(a->pf);
    g_free(a->folder);
    g_strfreev(a->keys);
    g_ptr_array_unref(a->functions);
    g_hash_table_unref(a->kept);
    g_free(a);
}

/* The adapter whose physical function, or any function of its, this is; NULL: none. */
static Adapter *
adapter_of(const char *pci)
{
    for (guint i = 0; i < adapters->len; i++) {
        Adapter *a = g_ptr_array_index(adapters, i);
        if (g_str_equal(a->pf, pci))
            return a;
        for (guint vf = 0; vf < a->vfs; vf++) {
            g_autofree char *own = function_address(a, vf);
            if (g_str_equal(own, pci))
                return a;
        }
    }
    return NULL;
}

static char *
driver_of(const char *pci)
{
    return tree_target(tree_find_format(DEVICES "/%s/driver", pci));
}

static const char *
own_driver(const Adapter *a)
{
    return a->mlx4 ? "mlx4_core" : "mlx5_core";
}

/* --- drivers --- */

static void adapter_start(Adapter *a);
static void adapter_stop(Adapter *a);

static void
attach(Adapter *a, const char *pci, const char *driver)
{
    g_autofree char *target = g_strdup_printf("../../.." DRIVERS "/%s", driver);
    tree_add_link(target, DEVICES "/%s/driver", pci);
    if (g_str_equal(pci, a->pf) && g_str_equal(driver, own_driver(a)))
        adapter_start(a);
}

/* vfio-pci takes only what it is told to take. */
static gboolean
belongs(const Adapter *a, const char *pci, const char *driver)
{
    const Node *override = tree_find_format(DEVICES "/%s/driver_override", pci);
    return g_str_equal(driver, g_str_equal(override->text, NO_OVERRIDE) ? own_driver(a) : override->text);
}

static char *
driver_of_file(const Node *node)
{
    g_autofree char *folder = g_path_get_dirname(node->path);
    return g_path_get_basename(folder);
}

static int
store_bind(Node *node, const char *value)
{
    g_autofree char *driver = driver_of_file(node);
    g_autofree char *now = driver_of(value);
    Adapter *a = adapter_of(value);
    if (!a || !belongs(a, value, driver))
        return -ENODEV;
    if (now)
        return -EBUSY;
    attach(a, value, driver);
    return 0;
}

static int
store_unbind(Node *node, const char *value)
{
    g_autofree char *driver = driver_of_file(node);
    g_autofree char *now = driver_of(value);
    Adapter *a = adapter_of(value);
    if (!a || g_strcmp0(now, driver) != 0)
        return -ENODEV;
    tree_drop_format(DEVICES "/%s/driver", value);
    if (g_str_equal(value, a->pf) && g_str_equal(driver, own_driver(a)))
        adapter_stop(a);
    return 0;
}

static int
store_probe(Node *node, const char *value)
{
    g_autofree char *now = driver_of(value);
    Adapter *a = adapter_of(value);
    const Node *override = a ? tree_find_format(DEVICES "/%s/driver_override", value) : NULL;
    if (!a)
        return -ENODEV;
    if (!now)
        attach(a, value, g_str_equal(override->text, NO_OVERRIDE) ? own_driver(a) : override->text);
    return 0;
}

static int
store_override(Node *node, const char *value)
{
    return tree_set(node, *value ? value : NO_OVERRIDE);
}

static void
add_driver(const char *name)
{
    tree_add_file(store_bind, NULL, DRIVERS "/%s/bind", name);
    tree_add_file(store_unbind, NULL, DRIVERS "/%s/unbind", name);
}

/* --- devices on the bus --- */

static void
add_device(const Adapter *a, const char *pci, guint group)
{
    g_autofree char *device = g_strdup_printf("../../.." DEVICES "/%s", pci);
    g_autofree char *iommu = g_strdup_printf("../../../kernel/iommu_groups/%u", group);
    g_autofree char *numa = g_strdup_printf("%d", a->numa);
    tree_add_link(device, "/bus/pci/devices/%s", pci);
    tree_add_link(iommu, DEVICES "/%s/iommu_group", pci);
    tree_add_link(device, "/kernel/iommu_groups/%u/devices/%s", group, pci);
    tree_add_file(NULL, numa, DEVICES "/%s/numa_node", pci);
    tree_add_file(NULL, "0x15b3", DEVICES "/%s/vendor", pci);
    tree_add_file(NULL, a->mlx4 ? "0x1003" : "0x1013", DEVICES "/%s/device", pci);
    tree_add_file(NULL, "0x020700", DEVICES "/%s/class", pci);
    tree_add_file(store_override, NO_OVERRIDE, DEVICES "/%s/driver_override", pci);
}

static guint
group_of(const Adapter *a, guint vf)
{
    return a->number * 100 + vf + 1;
}

static void
add_function(Adapter *a, guint vf)
{
    g_autofree char *pci = function_address(a, vf);
    g_autofree char *to_vf = g_strdup_printf("../%s", pci);
    g_autofree char *to_pf = g_strdup_printf("../%s", a->pf);
    add_device(a, pci, group_of(a, vf));
    tree_add_link(to_vf, DEVICES "/%s/virtfn%u", a->pf, vf);
    tree_add_link(to_pf, DEVICES "/%s/physfn", pci);
    if (g_str_equal(tree_find_format(DEVICES "/%s/sriov_drivers_autoprobe", a->pf)->text, "1"))
        attach(a, pci, own_driver(a));
    function_add(a, vf);
}

static void
remove_function(Adapter *a, guint vf)
{
    g_autofree char *pci = function_address(a, vf);
    function_remove(a, vf);
    tree_drop_format(DEVICES "/%s/virtfn%u", a->pf, vf);
    tree_drop_format("/bus/pci/devices/%s", pci);
    tree_drop_format("/kernel/iommu_groups/%u", group_of(a, vf));
    tree_drop_format(DEVICES "/%s", pci);
}

/* --- how many there are --- */

static void
set_functions(Adapter *a, guint n)
{
    g_autofree char *text = g_strdup_printf("%u", n);
    for (; a->vfs > n; a->vfs--)
        remove_function(a, a->vfs - 1);
    for (; a->vfs < n; a->vfs++)
        add_function(a, a->vfs);
    tree_set(tree_find_format(DEVICES "/%s/sriov_numvfs", a->pf), text);
}

static int
store_numvfs(Node *node, const char *value)
{
    Adapter *a = node->owner;
    g_autofree char *driver = driver_of(a->pf);
    char *end = NULL;
    guint64 n = g_ascii_isdigit(*value) ? g_ascii_strtoull(value, &end, 0) : 0;
    if (!end || *end)
        return -EINVAL;
    if (n > a->total)
        return -ERANGE;
    if (n == a->vfs)
        return 0;
    if (a->mlx4 || g_strcmp0(driver, own_driver(a)) != 0)
        return -ENOENT;
    if (n > 0 && a->vfs > 0)
        return -EBUSY;
    set_functions(a, (guint)n);
    return 0;
}

static int
store_autoprobe(Node *node, const char *value)
{
    gboolean yes = strchr("yY1tT", *value) || g_ascii_strcasecmp(value, "on") == 0;
    gboolean no = strchr("nN0fF", *value) || g_ascii_strcasecmp(value, "off") == 0;
    return *value && (yes || no) ? tree_set(node, yes ? "1" : "0") : -EINVAL;
}

/* --- the HCA that its driver makes of it --- */

static void
add_hca(const Adapter *a)
{
    g_autofree char *target = g_strdup_printf("../..%s/infiniband/%s", a->folder, a->name);
    g_autofree char *device = g_strdup_printf("../../../%s", a->pf);
    g_autofree char *gid =
        g_strdup_printf("fe80:0000:0000:0000:%04x:%04x:%04x:%04x", (guint)(a->guid >> 48), (guint)(a->guid >> 32) & 0xffff,
                        (guint)(a->guid >> 16) & 0xffff, (guint)a->guid & 0xffff);
    tree_add_link(target, "/class/infiniband/%s", a->name);
    tree_add_link(device, HCA "/device", a->folder, a->name);
    tree_add_file(NULL, "4: ACTIVE", HCA "/ports/1/state", a->folder, a->name);
    tree_add_file(NULL, gid, HCA "/ports/1/gids/0", a->folder, a->name);
}

static void
add_ipoib(const Adapter *a)
{
    tree_add_file(NULL, "7", DEVICES "/%s/net/ib%u/ifindex", a->pf, a->number);
    tree_add_file(NULL, "32", DEVICES "/%s/net/ib%u/type", a->pf, a->number);
}

static void
adapter_start(Adapter *a)
{
    add_hca(a);
    if (a->mlx4)
        function_add_ports(a);
    else if (!a->vendor)
        add_ipoib(a);
    if (a->mlx4)
        set_functions(a, a->born);
}

static void
adapter_stop(Adapter *a)
{
    set_functions(a, 0);
    tree_drop_format("/class/infiniband/%s", a->name);
    tree_drop_format(DEVICES "/%s/infiniband", a->pf);
    tree_drop_format(DEVICES "/%s/net", a->pf);
}

/* --- a real device in an HCA's clothes --- */

static void
real_start(Adapter *a)
{
    GString *target = g_string_new(NULL);
    for (const char *c = a->folder + 1; (c = strchr(c, '/')); c++)
        g_string_append(target, "../");
    g_string_append_printf(target, "..%s/%s", DRIVERS, own_driver(a));
    tree_add_link(target->str, "%s/driver", a->folder);
    g_string_free(target, TRUE);
    add_hca(a);
    function_add_ports(a);
}

static void
real_stop(Adapter *a)
{
    tree_drop_format("%s/driver", a->folder);
    tree_drop_format("/class/infiniband/%s", a->name);
    tree_drop_format("%s/infiniband", a->folder);
}

static void
follow_function(Adapter *a, guint vf, gboolean on)
{
    gpointer *known = &g_ptr_array_index(a->functions, vf);
    g_autofree char *pci = on ? real_target("%s/virtfn%u", a->folder, vf) : NULL;
    if (g_strcmp0(pci, *known) == 0)
        return;
    if (*known)
        function_remove(a, vf);
    g_free(*known);
    *known = g_steal_pointer(&pci);
    if (*known)
        function_add(a, vf);
}

static void
follow(Adapter *a)
{
    g_autofree char *driver = real_target("%s/driver", a->folder);
    gboolean on = driver && !g_str_equal(driver, VFIO);
    if (on && !a->on)
        real_start(a);
    for (guint vf = 0; vf < a->functions->len; vf++)
        follow_function(a, vf, on);
    if (!on && a->on)
        real_stop(a);
    a->on = on;
}

void
adapters_follow(void)
{
    for (guint i = 0; i < adapters->len; i++) {
        Adapter *a = g_ptr_array_index(adapters, i);
        if (a->real)
            follow(a);
    }
}

/* "../../../devices/pci0000:00/0000:00:02.0/0000:01:00.0" of the bus's folder leads there. */
static gboolean
add_real(Adapter *a)
{
    char target[PATH_MAX], total[16] = { 0 };
    g_autofree char *link = g_strconcat("/bus/pci/devices/", a->pf, NULL);
    const char *folder = real_readlink(link, target, sizeof target) == 0 ? strstr(target, "/devices/") : NULL;
    if (!folder)
        return FALSE;
    g_free(a->folder);
    a->folder = g_strdup(folder);
    a->real = a->mlx4 = TRUE;
    g_autofree char *file = g_strconcat(a->folder, "/sriov_totalvfs", NULL);
    if (real_read(file, total, sizeof total - 1, 0) < 0)
        return FALSE;
    g_ptr_array_set_size(a->functions, (int)MIN(g_ascii_strtoull(total, NULL, 10), PORT_PKEYS - 1));
    tree_add(DRIVERS "/mlx4_core", S_IFDIR, NULL, NULL);
    return TRUE;
}

/* --- from their lines --- */

static gboolean
read_word(Adapter *a, const char *word)
{
    const char *value = strchr(word, '=');
    if (!value && a->mlx4)
        a->keys = g_strsplit(word, ",", -1);
    else if (!value)
        a->vendor = g_str_equal(word, "vendor");
    else if (g_str_has_prefix(word, "total="))
        a->total = (guint)g_ascii_strtoull(value + 1, NULL, 10);
    else if (g_str_has_prefix(word, "guid="))
        a->guid = g_ascii_strtoull(value + 1, NULL, 16);
    else if (g_str_has_prefix(word, "ports="))
        a->ports = (guint)g_ascii_strtoull(value + 1, NULL, 10);
    else if (g_str_has_prefix(word, "numa="))
        a->numa = (int)g_ascii_strtoll(value + 1, NULL, 10);
    return value || a->keys || a->vendor;
}

static Adapter *
adapter_new(char **words)
{
    Adapter *a = g_new0(Adapter, 1);
    a->mlx4 = g_str_equal(words[0], "mlx4");
    a->name = g_strdup(words[1]);
    a->pf = g_strdup(words[2]);
    a->folder = g_strconcat(DEVICES "/", a->pf, NULL);
    a->functions = g_ptr_array_new_with_free_func(g_free);
    a->born = a->total = words[3] ? (guint)g_ascii_strtoull(words[3], NULL, 10) : 0;
    a->number = adapters->len + 1;
    a->ports = 2;
    a->guid = 0x0002c90300000000 + a->number;
    a->kept = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    return a;
}

static void
add_adapter(Adapter *a)
{
    g_autofree char *total = g_strdup_printf("%u", a->total);
    tree_add_file(store_probe, NULL, "/bus/pci/drivers_probe");
    add_driver(VFIO);
    add_driver(own_driver(a));
    add_device(a, a->pf, a->number * 100);
    tree_add_file(NULL, total, DEVICES "/%s/sriov_totalvfs", a->pf);
    tree_add_file(store_numvfs, "0", DEVICES "/%s/sriov_numvfs", a->pf)->owner = a;
    tree_add_file(store_autoprobe, "1", DEVICES "/%s/sriov_drivers_autoprobe", a->pf);
    tree_add_file(tree_set, "0", DEVICES "/%s/reset", a->pf);
    attach(a, a->pf, own_driver(a));
    set_functions(a, a->born);
}

gboolean
adapters_add(const char *line)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);
    guint n = g_strv_length(words);
    if (n == 2 && g_str_equal(words[0], "fabric")) {
        ports_use(g_intern_string(words[1]));
        return TRUE;
    }
    if (n == 2 && g_str_equal(words[0], "sys"))
        return real_use(words[1]);
    gboolean real = g_str_equal(words[0], "real");
    if (n < (real ? 3 : 4) || (!real && !g_str_equal(words[0], "mlx4") && !g_str_equal(words[0], "mlx5")))
        return FALSE;
    Adapter *a = adapter_new(words);
    g_ptr_array_add(adapters, a);
    if (real && !add_real(a))
        return FALSE;
    for (guint i = real ? 3 : 4; i < n; i++)
        if (!read_word(a, words[i]))
            return FALSE;
    if (!real)
        add_adapter(a);
    return TRUE;
}

void
adapters_init(void)
{
    adapters = g_ptr_array_new_with_free_func(adapter_free);
    tree_add("/class/infiniband", S_IFDIR, NULL, NULL);
    tree_add(FUNCTIONS, S_IFDIR, NULL, NULL);
}

void
adapters_free(void)
{
    g_ptr_array_unref(adapters);
}
