#include "errors.h"
#include "hook.h"
#include "metadata.h"
#include "netlink.h"
#include "own.h"
#include "peers.h"
#include "sysfs.h"
#include "vf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPACE "xmlns:weft='https://weft.dev/xmlns/domain/1'"
#define OWNER "<weft:owner run='0rrrrrrrrrrr'/>"
#define PARTITION "<weft:partition pkey='0x0001' vxlan='10001'/>"
#define DEVICE "<weft:device rail='0' hca='mlx5_0' driver='mlx5' vf='2' pci='0000:41:00.3' pf='0000:41:00.0' "
#define GUID "guid='0x0277650000000001' "
#define WHOLE "<weft:device rail='1' hca='mlx5_1' driver='mlx5' pci='0000:81:00.0' pf='0000:81:00.0' pkey='0x0001'/>"

static char *
domain(const char *inside)
{
    return g_strdup_printf("<domain><metadata><weft:node " SPACE " id='a-1'>%s</weft:node></metadata></domain>", inside);
}

/* --- metadata --- */

static void
reads_a_node(void)
{
    g_autofree char *xml = g_strdup(
        "<domain><name>weft-a-1</name><metadata><other xmlns='urn:x'/><weft:node " SPACE
        " id='a-1' tenant='&lt;t&gt;' rank='3'><weft:cluster id='c'/><weft:record>{}</weft:record>" PARTITION DEVICE GUID
        "pkey='0x7ffe' plugged='later'/>" WHOLE "<weft:gpu name='0000:42:00.0'/>" OWNER "</weft:node></metadata>"
        "<devices><hostdev type='usb'/><hostdev type='pci'><source><address domain='0x0000' bus='0x81' "
        "slot='0x1f' function='0x7'/></source></hostdev></devices></domain>");
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftHookNode) node = weft_hook_node_read("weft-a-1", xml, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(node->id, ==, "a-1");
    g_assert_cmpstr(node->run, ==, "0rrrrrrrrrrr");
    g_assert_cmpuint(node->vxlan, ==, 10001);
    g_assert_cmpuint(node->devices->len, ==, 2);
    const WeftHookDevice *device = g_ptr_array_index(node->devices, 0);
    g_assert_cmpint(device->vf, ==, 2);
    g_assert_cmphex(device->guid, ==, 0x0277650000000001);
    g_assert_cmphex(device->pkey, ==, 0x7ffe);
    g_assert_cmpint(((WeftHookDevice *)g_ptr_array_index(node->devices, 1))->vf, ==, -1);
    g_assert_cmpuint(node->hostdevs->len, ==, 1);
    g_assert_cmpstr(g_ptr_array_index(node->hostdevs, 0), ==, "0000:81:1f.7");
}

/* What is within the node, and a word of why it is refused. */
static const struct {
    const char *inside;
    const char *why;
} wrong_nodes[] = {
    { "", "partition" },
    { "<weft:partition pkey='0x0001'/>", "nothing as vxlan" },
    { "<weft:partition vxlan='0'/>", "vxlan" },
    { "<weft:partition vxlan='16777216'/>", "16777215" },
    { "<weft:partition vxlan='-1'/>", "vxlan" },
    { "<weft:partition vxlan=' 5'/>", "vxlan" },
    { "<weft:partition vxlan='5;reboot'/>", "vxlan" },
    { PARTITION "<weft:rocket/>", "rocket is not known" },
    { PARTITION OWNER OWNER, "one run of weftd" },
    { PARTITION "<weft:owner/>", "nothing as run" },
    { PARTITION "<weft:owner run='../run'/>", "one run of weftd" },
    { PARTITION "<weft:device/>", "nothing as hca" },
    { PARTITION DEVICE "pkey='0x0001'/>", "nothing as guid" },
    { PARTITION DEVICE GUID "/>", "nothing as pkey" },
    { PARTITION DEVICE GUID "pkey='0x0001' shared='7001'/>", "shared" },
    { PARTITION DEVICE GUID "pkey='0x0001' shared='0x7001 0x0'/>", "shared" },
    { PARTITION DEVICE GUID "pkey='0x0001' shared='0x8000'/>", "shared" },
    { PARTITION DEVICE GUID "pkey='0x0001' shared='0xffff'/>", "other partitions" },
    { PARTITION DEVICE GUID "pkey='0x0001' shared='0x8001'/>", "other partitions" },
    { PARTITION DEVICE GUID "pkey='0x0001' shared='0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8 0x9 0xa 0xb 0xc 0xd 0xe 0xf 0x10 0x11'/>",
      "shared" },
    { PARTITION DEVICE GUID "pkey='0x0000'/>", "pkey" },
    { PARTITION DEVICE GUID "pkey='0x7fff'/>", "pkey" },
    { PARTITION DEVICE GUID "pkey='1'/>", "\"1\" as pkey" },
    { PARTITION DEVICE "guid='0x0' pkey='0x0001'/>", "guid" },
    { PARTITION DEVICE "guid='0xffffffffffffffff' pkey='0x0001'/>", "guid" },
    { PARTITION DEVICE "guid='0x10000000000000000' pkey='0x0001'/>", "guid" },
    { PARTITION DEVICE GUID "pkey='0x0001'/>" DEVICE GUID "pkey='0x0001'/>", "no other device's" },
    { PARTITION "<weft:device rail='8' hca='m' driver='mlx5' pci='0000:41:00.3' pf='0000:41:00.0' pkey='0x1'/>", "rail" },
    { PARTITION "<weft:device rail='0' hca='m' driver='hfi1' pci='0000:41:00.3' pf='0000:41:00.0' pkey='0x1'/>",
      "mlx4 or mlx5" },
    { PARTITION "<weft:device rail='0' hca='../m' driver='mlx5' pci='0000:41:00.3' pf='0000:41:00.0' pkey='0x1'/>", "HCA" },
    { PARTITION "<weft:device rail='0' hca='m' driver='mlx5' pci='0000:41:00.8' pf='0000:41:00.0' pkey='0x1'/>",
      "PCI address" },
    { PARTITION "<weft:device rail='0' hca='m' driver='mlx5' pci='0000:4G:00.0' pf='0000:41:00.0' pkey='0x1'/>",
      "PCI address" },
    { PARTITION "<weft:device rail='0' hca='m' driver='mlx5' pci='0000:41:00.0/' pf='0000:41:00.0' pkey='0x1'/>",
      "PCI address" },
    { PARTITION "<weft:device rail='0' hca='m' driver='mlx5' pf='0000:41:00.0' pkey='0x1'/>", "nothing as pci" },
    { PARTITION "<weft:device rail='0' hca='m' driver='mlx5' pci='0000:41:00.1' pf='0000:41:00.0' pkey='0x1'/>", "its pf" },
};

static void
check_refusal(const char *name, const char *xml, const char *why)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftHookNode) node = weft_hook_node_read(name, xml, &error);
    g_assert_null(node);
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    if (!strstr(error->message, why) || strchr(error->message, '\n'))
        g_error("\"%s\" does not say \"%s\" in one line", error->message, why);
}

static void
refuses_wrong_nodes(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(wrong_nodes); i++) {
        g_autofree char *xml = domain(wrong_nodes[i].inside);
        check_refusal("weft-a-1", xml, wrong_nodes[i].why);
    }
}

static void
refuses_wrong_documents(void)
{
    g_autofree char *right = domain(PARTITION);
    check_refusal("weft-a-2", right, "id");
    check_refusal("a-1", right, "id");
    check_refusal("weft-a-1", "", "not XML");
    check_refusal("weft-a-1", "<domain>", "not XML");
    check_refusal("weft-a-1", "<domain/>", "lacks weft's element node");
    check_refusal("weft-a-1", "<domain><metadata><node id='a-1'/></metadata></domain>", "lacks weft's element node");
    g_autofree char *typed = g_strconcat("<!DOCTYPE d [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>", right, NULL);
    check_refusal("weft-a-1", typed, "document type");
    check_refusal("weft-a-1",
                  "<domain><metadata><weft:node " SPACE " id='a-1'>" PARTITION "</weft:node><weft:node " SPACE
                  " id='a-1'>" PARTITION "</weft:node></metadata></domain>",
                  "beside weft's node");
    GString *many = g_string_new(PARTITION);
    for (int i = 0; i <= WEFT_RAILS_MAX; i++)
        g_string_append_printf(
            many, "<weft:device rail='%d' hca='m' driver='mlx5' pci='0000:4%d:00.0' pf='0000:4%d:00.0' pkey='0x1'/>",
            i % WEFT_RAILS_MAX, i, i);
    g_autofree char *xml = domain(many->str);
    check_refusal("weft-a-1", xml, "more than 8 devices");
    g_string_free(many, TRUE);
}

static void
reads_a_network(void)
{
    const char *form = "<hookData><network><name>weft-5</name><metadata><weft:network xmlns:weft='" WEFT_NETWORK_NAMESPACE
                       "' cluster='c' vxlan='5'>%s</weft:network></metadata></network></hookData>";
    static const struct {
        const char *name, *peers, *why; /* without why it is right */
    } cases[] = {
        { "weft-5", OWNER "<weft:peer address='10.0.0.1'/><weft:peer address='n2.example.org'/>", NULL },
        { "weft-5", "<weft:peer address='10.0.0.1'/><weft:peer address='n2.example.org'/>", NULL },
        { "weft-5", "", NULL },
        { "weft-6", "", "vxlan" },
        { "weft-5", "<weft:peer/>", "address" },
        { "weft-5", "<weft:peer address='-oProxy'/>", "-oProxy" },
        { "weft-5", "<weft:peer address='10.0.0.1; x'/>", "10.0.0.1; x" },
        { "weft-5", "<weft:gateway address='10.0.0.1'/>", "gateway" },
        { "weft-5", "<weft:owner/>", "nothing as run" },
        { "weft-5", OWNER OWNER, "one run of weftd" },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_auto(GStrv) parts = g_strsplit(form, "%s", 2);
        g_autofree char *xml = g_strconcat(parts[0], cases[i].peers, parts[1], NULL);
        g_autoptr(GError) error = NULL;
        g_autofree char *run = NULL;
        g_autoptr(WeftHostNetwork) network = weft_hook_network_read(cases[i].name, xml, &run, &error);
        if (cases[i].why) {
            g_assert_null(network);
            g_assert_nonnull(strstr(error->message, cases[i].why));
            continue;
        }
        g_assert_no_error(error);
        g_assert_cmpuint(network->vxlan, ==, 5);
        g_assert_cmpuint(network->peers->len, ==, i < 2 ? 2 : 0);
        g_assert_cmpstr(run, ==, i == 0 ? "0rrrrrrrrrrr" : NULL);
    }
}

static void
knows_its_own(void)
{
    g_assert_false(weft_hook_is_domain("<domain><metadata/></domain>"));
    g_assert_true(weft_hook_is_domain("<domain><metadata><weft:node " SPACE "/></metadata></domain>"));
    g_assert_false(weft_hook_is_network("<domain><metadata><weft:node " SPACE "/></metadata></domain>"));
}

/* --- peers --- */

static void
peers_go_through_text(void)
{
    g_autoptr(GArray) peers = weft_peers_parse("10.0.0.1\nrubbish\n\n192.168.255.254\n");
    g_autofree char *text = weft_peers_format(peers);
    g_assert_cmpstr(text, ==, "10.0.0.1\n192.168.255.254\n");
    g_assert_cmphex(g_array_index(peers, in_addr_t, 0), ==, htonl(0x0a000001));
}

/* --- mlx5 by netlink: a kernel that keeps what it is told --- */

#define FUNCTIONS 4
#define INTERFACE 7

typedef struct Kernel {
    WeftNetlink base;
    struct {
        guint64 node, port;
        guint32 state;
    } functions[FUNCTIONS];
    GString *seen;
    int refuse;      /* errno for every change; 0: none */
    gboolean silent; /* an old one, which does not tell GUIDs */
    gboolean deaf;   /* changes have no effect */
} Kernel;

static void
take_function(Kernel *kernel, struct nlattr *info)
{
    struct nlattr *part;
    int rest;
    nla_for_each_nested(part, info, rest)
    {
        struct ifla_vf_guid guid;
        struct ifla_vf_link_state state;
        if (nla_type(part) == IFLA_VF_LINK_STATE) {
            g_assert_cmpint(nla_len(part), ==, sizeof state);
            memcpy(&state, nla_data(part), sizeof state);
            g_assert_cmpuint(state.vf, <, FUNCTIONS);
            g_string_append_printf(kernel->seen, "vf %u state %u\n", state.vf, state.link_state);
            if (!kernel->deaf)
                kernel->functions[state.vf].state = state.link_state;
            continue;
        }
        g_assert_cmpint(nla_len(part), ==, sizeof guid);
        memcpy(&guid, nla_data(part), sizeof guid);
        g_assert_cmpuint(guid.vf, <, FUNCTIONS);
        gboolean node = nla_type(part) == IFLA_VF_IB_NODE_GUID;
        g_assert_true(node || nla_type(part) == IFLA_VF_IB_PORT_GUID);
        g_string_append_printf(kernel->seen, "vf %u %s 0x%016" G_GINT64_MODIFIER "x\n", guid.vf, node ? "node" : "port",
                               (guint64)guid.guid);
        if (!kernel->deaf)
            *(node ? &kernel->functions[guid.vf].node : &kernel->functions[guid.vf].port) = guid.guid;
    }
}

static void
put_function(const Kernel *kernel, struct nl_msg *message, guint32 vf)
{
    struct ifla_vf_link_state state = { .vf = vf, .link_state = kernel->functions[vf].state };
    struct ifla_vf_guid node = { .vf = vf, .guid = kernel->functions[vf].node };
    struct ifla_vf_guid port = { .vf = vf, .guid = kernel->functions[vf].port };
    struct nlattr *info = nla_nest_start(message, IFLA_VF_INFO);
    nla_put(message, IFLA_VF_LINK_STATE, sizeof state, &state);
    if (!kernel->silent) {
        nla_put(message, IFLA_VF_IB_NODE_GUID, sizeof node, &node);
        nla_put(message, IFLA_VF_IB_PORT_GUID, sizeof port, &port);
    }
    nla_nest_end(message, info);
}

static void
answer(const Kernel *kernel, WeftNetlinkReply reply, gpointer data)
{
    struct nl_msg *message = nlmsg_alloc_simple(RTM_NEWLINK, 0);
    struct ifinfomsg header = { .ifi_index = INTERFACE };
    nlmsg_append(message, &header, sizeof header, NLMSG_ALIGNTO);
    struct nlattr *list = nla_nest_start(message, IFLA_VFINFO_LIST);
    for (guint32 vf = 0; vf < FUNCTIONS; vf++)
        put_function(kernel, message, vf);
    nla_nest_end(message, list);
    reply(message, data);
    nlmsg_free(message);
}

static int
kernel_talk(WeftNetlink *netlink, struct nl_msg *request, WeftNetlinkReply reply, gpointer data)
{
    Kernel *kernel = (Kernel *)netlink;
    struct nlmsghdr *header = nlmsg_hdr(request);
    struct ifinfomsg *interface = nlmsg_data(header);
    g_assert_cmpint(interface->ifi_index, ==, INTERFACE);
    if (header->nlmsg_type == RTM_GETLINK) {
        g_assert_cmpuint(nla_get_u32(nlmsg_find_attr(header, sizeof *interface, IFLA_EXT_MASK)), ==, RTEXT_FILTER_VF);
        g_string_append(kernel->seen, "get\n");
        answer(kernel, reply, data);
        return 0;
    }
    g_assert_cmpint(header->nlmsg_type, ==, RTM_SETLINK);
    g_string_append(kernel->seen, "set\n");
    if (kernel->refuse)
        return -kernel->refuse;
    struct nlattr *list = nlmsg_find_attr(header, sizeof *interface, IFLA_VFINFO_LIST), *info;
    int rest;
    nla_for_each_nested(info, list, rest) take_function(kernel, info);
    return 0;
}

/* A /sys with the IPoIB interface of an HCA, one that was made upon it, and one of another kind. */
typedef struct World {
    Kernel kernel;
    WeftHook hook;
    char *root;
} World;

static void
put(const World *world, const char *path, const char *value)
{
    g_autofree char *full = g_strconcat(world->root, path, NULL);
    g_autofree char *folder = g_path_get_dirname(full);
    g_assert_cmpint(g_mkdir_with_parents(folder, 0700), ==, 0);
    g_assert_true(g_file_set_contents(full, value, -1, NULL));
}

static void
world_set_up(World *world, gconstpointer data)
{
    *world = (World){ .root = g_dir_make_tmp("weft-hook-XXXXXX", NULL) };
    world->kernel = (Kernel){ .base = { .talk = kernel_talk }, .seen = g_string_new(NULL) };
    world->hook = (WeftHook){ .root = world->root, .netlink = &world->kernel.base };
    put(world, "/sys/bus/pci/devices/0000:41:00.0/net/eth9/ifindex", "3\n");
    put(world, "/sys/bus/pci/devices/0000:41:00.0/net/eth9/type", "1\n");
    put(world, "/sys/bus/pci/devices/0000:41:00.0/net/ib0/ifindex", "7\n");
    put(world, "/sys/bus/pci/devices/0000:41:00.0/net/ib0/type", "32\n");
    put(world, "/sys/bus/pci/devices/0000:41:00.0/net/ib0.8001/ifindex", "8\n");
    put(world, "/sys/bus/pci/devices/0000:41:00.0/net/ib0.8001/type", "32\n");
    put(world, "/sys/bus/pci/devices/0000:41:00.0/net/ib0.8001/parent", "ib0\n");
}

static void
remove_tree(const char *path)
{
    g_autoptr(GDir) dir = g_file_test(path, G_FILE_TEST_IS_SYMLINK) ? NULL : g_dir_open(path, 0, NULL);
    for (const char *name; dir && (name = g_dir_read_name(dir));) {
        g_autofree char *child = g_build_filename(path, name, NULL);
        remove_tree(child);
    }
    g_assert_cmpint(g_remove(path), ==, 0);
}

static void
world_tear_down(World *world, gconstpointer data)
{
    remove_tree(world->root);
    g_free(world->root);
    g_string_free(world->kernel.seen, TRUE);
}

static WeftHookDevice function = {
    .hca = (char *)"mlx5_0",
    .driver = WEFT_HCA_MLX5,
    .vf = 2,
    .pci = (char *)"0000:41:00.3",
    .pf = (char *)"0000:41:00.0",
    .guid = 0x0277650000000001,
    .pkey = 1,
};

static void
sends_exactly_this(World *world, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    world->kernel.functions[2].state = IFLA_VF_LINK_STATE_ENABLE;
    g_assert_true(weft_vf_mlx5.prepare(&world->hook, &function, &error));
    g_assert_no_error(error);
    g_assert_cmpstr(world->kernel.seen->str, ==,
                    "set\nvf 2 state 2\nvf 2 node 0x0277650000000001\nvf 2 port 0x0277650000000001\nset\nvf 2 state 0\nget\n");

    g_string_truncate(world->kernel.seen, 0);
    g_assert_true(weft_vf_mlx5.clear(&world->hook, &function, &error));
    g_assert_no_error(error);
    g_assert_cmpstr(world->kernel.seen->str, ==,
                    "set\nvf 2 state 2\nvf 2 node 0xffffffffffffffff\nvf 2 port 0xffffffffffffffff\nset\nvf 2 state 2\nget\n");
    g_assert_cmphex(world->kernel.functions[1].node, ==, 0);
}

static void
check_failure(World *world, const char *why)
{
    g_autoptr(GError) error = NULL;
    g_assert_false(weft_vf_mlx5.prepare(&world->hook, &function, &error));
    if (!strstr(error->message, why))
        g_error("\"%s\" does not say \"%s\"", error->message, why);
}

static void
believes_only_what_reads_back(World *world, gconstpointer data)
{
    world->kernel.refuse = EPERM;
    check_failure(world, "cannot set up virtual function 2 of HCA mlx5_0: Operation not permitted");
    world->kernel.refuse = 0;
    world->kernel.silent = TRUE;
    check_failure(world, "Linux 5.5");
    world->kernel.silent = FALSE;
    world->kernel.deaf = TRUE;
    memset(world->kernel.functions, 0, sizeof world->kernel.functions);
    check_failure(world, "reads back with GUIDs 0x0000000000000000");
}

static void
needs_an_ipoib_interface(World *world, gconstpointer data)
{
    g_autofree char *type = weft_sysfs_path(&world->hook, "/sys/bus/pci/devices/0000:41:00.0/net/ib0/type");
    g_autoptr(GError) error = NULL;
    g_assert_true(weft_vf_mlx5.check(&world->hook, &function, &error));
    g_assert_no_error(error);
    g_assert_true(g_file_set_contents(type, "1", -1, NULL));
    check_failure(world, "modprobe ib_ipoib");
    g_assert_false(weft_vf_mlx5.check(&world->hook, &function, NULL));
    g_assert_cmpstr(world->kernel.seen->str, ==, "");
}

/* --- small files --- */

static void
reads_back_what_it_wrote(World *world, gconstpointer data)
{
    g_autofree char *path = weft_sysfs_path(&world->hook, "/value");
    g_autoptr(GError) error = NULL;
    put(world, "/value", "  127\n");
    g_assert_true(weft_sysfs_set(path, "none", "127", &error)); /* nothing is written where it is so already */
    g_assert_cmpint(weft_sysfs_number(path, -1), ==, 127);
    put(world, "/value", "5 and more\n");
    g_assert_cmpint(weft_sysfs_number(path, -1), ==, -1);
    g_autofree char *gone = weft_sysfs_path(&world->hook, "/gone");
    g_assert_false(weft_sysfs_set(gone, "1", NULL, &error));
    g_assert_nonnull(strstr(error->message, "/gone"));
    g_assert_false(g_file_test(gone, G_FILE_TEST_EXISTS));
    g_assert_null(weft_sysfs_link(path));
}

/* --- memory that is a fork's own --- */

#define PAGE 4096
#define PAGES 256

static guint64
own_bytes(const WeftHook *hook)
{
    guint64 bytes = 0;
    g_autoptr(GError) error = NULL;
    g_assert_true(weft_own_count(hook, "/proc/self", &bytes, &error));
    g_assert_no_error(error);
    return bytes;
}

/* Pages that were only read are still shared. */
static void
counts_what_was_copied(void)
{
    g_autofree char *root = g_dir_make_tmp("weft-own-XXXXXX", NULL),
                    *folder = g_build_filename(root, "dev/shm/weft-memory", NULL);
    const WeftHook hook = { .root = root };
    g_autofree char *path = g_build_filename(folder, "1a", NULL), *zeros = g_malloc0(PAGE * PAGES);
    g_assert_cmpint(g_mkdir_with_parents(folder, 0700), ==, 0);
    g_assert_true(g_file_set_contents(path, zeros, PAGE * PAGES, NULL));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    volatile char *memory = mmap(NULL, PAGE * PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    g_assert_true(memory != MAP_FAILED);
    g_assert_cmpuint(own_bytes(&hook), ==, 0);
    for (guint i = 0; i < PAGES; i++)
        g_assert_true(memory[i * PAGE] == 0);
    g_assert_cmpuint(own_bytes(&hook), ==, 0);
    for (guint i = 0; i < 3; i++)
        memory[i * 7 * PAGE] = 1;
    g_assert_cmpuint(own_bytes(&hook), ==, 3 * PAGE);
    munmap((void *)memory, PAGE * PAGES);
    close(fd);
    g_unlink(path);
    for (const char *const *part = (const char *const[]){ "dev/shm/weft-memory", "dev/shm", "dev", "", NULL }; *part; part++) {
        g_autofree char *made = g_build_filename(root, *part, NULL);
        g_rmdir(made);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/hook/metadata/node", reads_a_node);
    g_test_add_func("/hook/metadata/wrong-nodes", refuses_wrong_nodes);
    g_test_add_func("/hook/metadata/wrong-documents", refuses_wrong_documents);
    g_test_add_func("/hook/metadata/network", reads_a_network);
    g_test_add_func("/hook/metadata/mark", knows_its_own);
    g_test_add_func("/hook/peers/text", peers_go_through_text);
    g_test_add_func("/hook/own", counts_what_was_copied);
    g_test_add("/hook/mlx5/messages", World, NULL, world_set_up, sends_exactly_this, world_tear_down);
    g_test_add("/hook/mlx5/read-back", World, NULL, world_set_up, believes_only_what_reads_back, world_tear_down);
    g_test_add("/hook/mlx5/ipoib", World, NULL, world_set_up, needs_an_ipoib_interface, world_tear_down);
    g_test_add("/hook/sysfs", World, NULL, world_set_up, reads_back_what_it_wrote, world_tear_down);
    return g_test_run();
}
