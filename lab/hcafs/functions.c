#include "functions.h"

#include "tree.h"

#include <errno.h>
#include <stdio.h>

#define NOWHERE (PORT_PKEYS - 1) /* the port's index that stands for none */
#define MAP HCA "/iov/%s/ports/%u"
#define NO_GUID "00:00:00:00:00:00:00:00"

char *
function_address(const Adapter *a, guint vf)
{
    if (a->real)
        return g_strdup(g_ptr_array_index(a->functions, vf));
    return g_strdup_printf("%.8s%02x.%x", a->pf, (vf + 1) / 8, (vf + 1) % 8);
}

/* --- how values are taken --- */

static int
store_colons(Node *node, const char *value)
{
    unsigned b[8];
    if (sscanf(value, "%02x:%02x:%02x:%02x:%02x:%02x:%02x:%02x", b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7) != 8)
        return -EINVAL;
    g_autofree char *text =
        g_strdup_printf("%02x:%02x:%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]);
    return tree_set(node, text);
}

static int
store_policy(Node *node, const char *value)
{
    static const char *const policies[] = { "Up", "Down", "Follow", NULL };
    return g_strv_contains(policies, value) ? tree_set(node, value) : -EINVAL;
}

static int
store_admin_guid(Node *node, const char *value)
{
    unsigned long long guid = 0;
    if (node->number == 0) /* the driver says so in its log only */
        return 0;
    sscanf(value, "%llx", &guid);
    g_autofree char *text = g_strdup_printf("%llx", guid);
    return tree_set(node, text);
}

static int
store_pkey_index(Node *node, const char *value)
{
    int index;
    if (g_ascii_strncasecmp(value, "no", 2) == 0)
        index = NOWHERE;
    else if (sscanf(value, "%i", &index) != 1 || index < 0 || index >= NOWHERE)
        return -EINVAL;
    g_autofree char *text = g_strdup_printf("%d", index);
    return tree_set(node, text);
}

static int
store_own_index(Node *node, const char *value)
{
    return -EINVAL;
}

static int
store_flag(Node *node, const char *value)
{
    return g_str_equal(value, "0") || g_str_equal(value, "1") ? tree_set(node, value) : -EINVAL;
}

/* --- mlx4: the port's table, and a map of each function --- */

/* Whoever looks for a key begins with the first, and then sees one state of the table. */
static char *
show_pkey(const Node *node)
{
    Adapter *a = node->owner;
    if ((node->number == 0 || a->table.n == 0) && !ports_ask(a->guid, &a->table))
        return NULL;
    return g_strdup_printf("0x%04x", a->table.pkeys[node->number]);
}

static void
add_pkeys(Adapter *a, guint port)
{
    guint n = a->keys && port == 1 ? g_strv_length(a->keys) : 0;
    for (guint i = 0; i < PORT_PKEYS; i++) {
        Node *node =
            tree_add_file(NULL, i < n ? a->keys[i] : "0x0000", HCA "/iov/ports/%u/pkeys/%u", a->folder, a->name, port, i);
        node->owner = a;
        node->number = i;
        node->show = port == 1 && ports_are_known() ? show_pkey : NULL;
    }
}

static void
add_map(const Adapter *a, const char *pci, guint slave, guint port)
{
    g_autofree char *number = g_strdup_printf("%u", slave);
    tree_add_file(NULL, number, MAP "/gid_idx/0", a->folder, a->name, pci, port);
    tree_add_file(store_flag, "0", MAP "/enable_smi_admin", a->folder, a->name, pci, port);
    for (guint i = 0; i < NOWHERE; i++) {
        g_autofree char *index = g_strdup_printf("%u", slave == 0 || i == 0 ? i : NOWHERE);
        tree_add_file(slave ? store_pkey_index : store_own_index, index, MAP "/pkey_idx/%u", a->folder, a->name, pci, port, i);
    }
}

void
function_add_ports(Adapter *a)
{
    for (guint port = 1; port <= a->ports; port++) {
        add_pkeys(a, port);
        add_map(a, a->pf, 0, port);
        for (guint i = 0; i < PORT_PKEYS; i++)
            tree_add_file(store_admin_guid, i ? "0" : "2c9030000000001", HCA "/iov/ports/%u/admin_guids/%u", a->folder, a->name,
                          port, i)
                ->number = i;
    }
}

/* --- mlx5: the vendor's files --- */

static void
add_vendor_file(const Adapter *a, guint vf, const char *name, Store store, const char *otherwise)
{
    g_autofree char *key = g_strdup_printf("%u/%s", vf, name);
    const char *kept = g_hash_table_lookup(a->kept, key);
    tree_add_file(store, kept ? kept : otherwise, DEVICES "/%s/sriov/%s", a->pf, key);
}

static void
keep_vendor_file(const Adapter *a, guint vf, const char *name)
{
    g_autofree char *key = g_strdup_printf("%u/%s", vf, name);
    g_autofree char *value = tree_text(tree_find_format(DEVICES "/%s/sriov/%s", a->pf, key));
    g_hash_table_insert(a->kept, g_steal_pointer(&key), g_steal_pointer(&value));
}

/* --- what a function can do on the fabric --- */

static void
tell_mlx4(const Adapter *a, guint vf, const char *pci, GString *text)
{
    const Node *guid = tree_find_format(HCA "/iov/ports/1/admin_guids/%u", a->folder, a->name, vf + 1);
    g_string_append_printf(text, "guid 0x%016" G_GINT64_MODIFIER "x\nlink up", g_ascii_strtoull(guid->text, NULL, 16));
    for (guint i = 0; i < NOWHERE; i++) {
        const Node *map = tree_find_format(MAP "/pkey_idx/%u", a->folder, a->name, pci, 1u, i);
        const Node *key = tree_find_format(HCA "/iov/ports/1/pkeys/%s", a->folder, a->name, map->text);
        guint pkey = key->show ? a->table.pkeys[key->number] : (guint)g_ascii_strtoull(key->text, NULL, 16);
        if (pkey || key->number != NOWHERE)
            g_string_append_printf(text, "\n%u 0x%04x", i, pkey);
    }
}

/* A virtual port's keys are the manager's alone: without one that knows it, it stays down. */
static void
tell_mlx5(const Adapter *a, guint vf, GString *text)
{
    const Node *policy = tree_find_format(DEVICES "/%s/sriov/%u/policy", a->pf, vf);
    g_auto(GStrv) bytes = g_strsplit(tree_find_format(DEVICES "/%s/sriov/%u/port", a->pf, vf)->text, ":", -1);
    g_autofree char *hex = g_strjoinv("", bytes);
    guint64 guid = g_ascii_strtoull(hex, NULL, 16);
    PortTable table = { 0 };
    gboolean up = !g_str_equal(policy->text, "Down") && ports_ask(guid, &table) && table.n > 0;
    g_string_append_printf(text, "guid 0x%016" G_GINT64_MODIFIER "x\nlink %s", guid, up ? "up" : "down");
    for (guint i = 0; up && i < table.n; i++)
        if (table.pkeys[i])
            g_string_append_printf(text, "\n%u 0x%04x", i, table.pkeys[i]);
}

static char *
show_function(const Node *node)
{
    Adapter *a = node->owner;
    g_autofree char *pci = function_address(a, node->number);
    GString *text = g_string_new(NULL);
    if (a->mlx4 && (!ports_are_known() || ports_ask(a->guid, &a->table)))
        tell_mlx4(a, node->number, pci, text);
    else if (!a->mlx4)
        tell_mlx5(a, node->number, text);
    return g_string_free(text, text->len == 0);
}

/* --- */

void
function_add(Adapter *a, guint vf)
{
    g_autofree char *pci = function_address(a, vf);
    if (a->mlx4) {
        for (guint port = 1; port <= a->ports; port++)
            add_map(a, pci, vf + 1, port);
    } else if (a->vendor) {
        add_vendor_file(a, vf, "node", store_colons, NO_GUID);
        add_vendor_file(a, vf, "port", store_colons, NO_GUID);
        add_vendor_file(a, vf, "policy", store_policy, "Down");
    }
    if (a->mlx4 || a->vendor) {
        Node *node = tree_add_file(NULL, NULL, FUNCTIONS "/%s", pci);
        node->owner = a;
        node->number = vf;
        node->show = show_function;
    }
}

void
function_remove(Adapter *a, guint vf)
{
    g_autofree char *pci = function_address(a, vf);
    tree_drop_format(FUNCTIONS "/%s", pci);
    tree_drop_format(HCA "/iov/%s", a->folder, a->name, pci);
    for (const char *const *name = (const char *const[]){ "node", "port", "policy", NULL }; a->vendor && *name; name++)
        keep_vendor_file(a, vf, *name);
    tree_drop_format(DEVICES "/%s/sriov/%u", a->pf, vf);
}
