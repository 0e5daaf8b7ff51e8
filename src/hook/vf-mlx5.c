#include "errors.h"
#include "netlink.h"
#include "sysfs.h"
#include "vf.h"

#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>

/* ConnectX-4 and later: a function is a virtual port whose P_Keys only the subnet manager sets. The vendor's driver has files
 * for GUIDs and policy; the kernel's takes netlink messages to the IPoIB interface of the physical function. */

typedef struct Setting {
    guint64 guid;
    guint32 state;      /* IFLA_VF_LINK_STATE_… */
    const char *policy; /* the same in the vendor's words */
} Setting;

/* --- by the vendor's files --- */

static char *
vendor_path(const WeftHook *hook, const WeftHookDevice *device, const char *name)
{
    return weft_sysfs_path(hook, "/sys/class/infiniband/%s/device/sriov/%d/%s", device->hca, device->vf, name);
}

static gboolean
has_vendor_files(const WeftHook *hook, const WeftHookDevice *device)
{
    g_autofree char *path = vendor_path(hook, device, "policy");
    return g_file_test(path, G_FILE_TEST_EXISTS);
}

static char *
colons(guint64 guid)
{
    GString *text = g_string_new(NULL);
    for (int shift = 56; shift >= 0; shift -= 8)
        g_string_append_printf(text, "%s%02x", shift < 56 ? ":" : "", (guint)(guid >> shift) & 0xff);
    return g_string_free(text, FALSE);
}

static gboolean
set_vendor_value(const WeftHook *hook, const WeftHookDevice *device, const char *name, const char *value, GError **error)
{
    g_autofree char *path = vendor_path(hook, device, name);
    return weft_sysfs_set(path, value, NULL, error);
}

/* The port is down while its GUIDs change. */
static gboolean
apply_by_files(const WeftHook *hook, const WeftHookDevice *device, const Setting *setting, GError **error)
{
    g_autofree char *guid = colons(setting->guid);
    return set_vendor_value(hook, device, "policy", "Down", error) && set_vendor_value(hook, device, "node", guid, error) &&
           set_vendor_value(hook, device, "port", guid, error) &&
           set_vendor_value(hook, device, "policy", setting->policy, error);
}

/* --- by netlink --- */

/* The interface of the physical function: not one that was made upon it, and not Ethernet. */
static gboolean
is_ipoib(const WeftHook *hook, const WeftHookDevice *device, const char *name, int *ret_index)
{
    g_autofree char *folder = weft_sysfs_path(hook, "/sys/bus/pci/devices/%s/net/%s", device->pf, name);
    g_autofree char *parent = g_build_filename(folder, "parent", NULL);
    g_autofree char *type = g_build_filename(folder, "type", NULL);
    g_autofree char *index = g_build_filename(folder, "ifindex", NULL);
    *ret_index = (int)weft_sysfs_number(index, 0);
    return *ret_index > 0 && weft_sysfs_number(type, 0) == ARPHRD_INFINIBAND && !g_file_test(parent, G_FILE_TEST_EXISTS);
}

static int
find_ipoib(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    g_autofree char *folder = weft_sysfs_path(hook, "/sys/bus/pci/devices/%s/net", device->pf);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    for (const char *name; dir && (name = g_dir_read_name(dir));) {
        int index;
        if (is_ipoib(hook, device, name, &index))
            return index;
    }
    weft_error_refuse(error, WEFT_ERROR_FAILED, "HCA %s has no IPoIB interface, through which a GUID is set: modprobe ib_ipoib",
                      device->hca);
    return 0;
}

static void
put_guid(struct nl_msg *message, int attribute, guint32 vf, guint64 value)
{
    struct ifla_vf_guid guid = { .vf = vf, .guid = value };
    nla_put(message, attribute, sizeof guid, &guid);
}

static void
put_state(struct nl_msg *message, guint32 vf, guint32 value)
{
    struct ifla_vf_link_state state = { .vf = vf, .link_state = value };
    nla_put(message, IFLA_VF_LINK_STATE, sizeof state, &state);
}

static struct nl_msg *
new_request(int type, int interface)
{
    struct nl_msg *message = nlmsg_alloc_simple(type, NLM_F_REQUEST);
    struct ifinfomsg header = { .ifi_family = AF_UNSPEC, .ifi_index = interface };
    nlmsg_append(message, &header, sizeof header, NLMSG_ALIGNTO);
    return message;
}

/* The kernel sets the link's state before the GUIDs of the same message: so a port is down while they change, and comes up with
 * a message of its own. */
static gboolean
send_setting(const WeftHook *hook, const WeftHookDevice *device, int interface, const Setting *setting, GError **error)
{
    g_autofree char *what = g_strdup_printf("set up virtual function %d of HCA %s", device->vf, device->hca);
    struct nl_msg *message = new_request(RTM_SETLINK, interface);
    struct nlattr *list = nla_nest_start(message, IFLA_VFINFO_LIST);
    struct nlattr *info = nla_nest_start(message, IFLA_VF_INFO);
    put_state(message, (guint32)device->vf, setting->state);
    if (setting->guid) {
        put_guid(message, IFLA_VF_IB_NODE_GUID, (guint32)device->vf, setting->guid);
        put_guid(message, IFLA_VF_IB_PORT_GUID, (guint32)device->vf, setting->guid);
    }
    nla_nest_end(message, info);
    nla_nest_end(message, list);
    return weft_netlink_do(hook->netlink, message, what, error);
}

/* What the kernel says of one function. */
typedef struct Seen {
    guint32 vf;
    gboolean complete;
    guint64 node, port;
    guint32 state;
} Seen;

static gboolean
is_vf(struct nlattr *attribute, gsize size, guint32 vf)
{
    return attribute && (gsize)nla_len(attribute) >= size && nla_get_u32(attribute) == vf;
}

static guint64
get_guid(struct nlattr *attribute)
{
    struct ifla_vf_guid guid;
    nla_memcpy(&guid, attribute, sizeof guid);
    return guid.guid;
}

static void
see_function(Seen *seen, struct nlattr *info)
{
    struct nlattr *parts[IFLA_VF_MAX + 1];
    if (nla_parse_nested(parts, IFLA_VF_MAX, info, NULL) < 0 ||
        !is_vf(parts[IFLA_VF_LINK_STATE], sizeof(struct ifla_vf_link_state), seen->vf) ||
        !is_vf(parts[IFLA_VF_IB_NODE_GUID], sizeof(struct ifla_vf_guid), seen->vf) ||
        !is_vf(parts[IFLA_VF_IB_PORT_GUID], sizeof(struct ifla_vf_guid), seen->vf))
        return;
    struct ifla_vf_link_state state;
    nla_memcpy(&state, parts[IFLA_VF_LINK_STATE], sizeof state);
    seen->state = state.link_state;
    seen->node = get_guid(parts[IFLA_VF_IB_NODE_GUID]);
    seen->port = get_guid(parts[IFLA_VF_IB_PORT_GUID]);
    seen->complete = TRUE;
}

static void
see_interface(struct nl_msg *message, gpointer data)
{
    struct nlattr *list = nlmsg_find_attr(nlmsg_hdr(message), sizeof(struct ifinfomsg), IFLA_VFINFO_LIST);
    if (!list)
        return;
    struct nlattr *info;
    int rest;
    nla_for_each_nested(info, list, rest) see_function(data, info);
}

static gboolean
verify_setting(const WeftHook *hook, const WeftHookDevice *device, int interface, const Setting *setting, GError **error)
{
    Seen seen = { .vf = (guint32)device->vf };
    struct nl_msg *message = new_request(RTM_GETLINK, interface);
    nla_put_u32(message, IFLA_EXT_MASK, RTEXT_FILTER_VF);
    if (!weft_netlink_ask(hook->netlink, message, see_interface, &seen, error))
        return FALSE;
    if (!seen.complete)
        return weft_error_refuse(error, WEFT_ERROR_FAILED,
                                 "the kernel does not tell the GUID of virtual function %d of HCA %s: install Linux 5.5 or "
                                 "later, or the vendor's driver",
                                 device->vf, device->hca);
    if (seen.node != setting->guid || seen.port != setting->guid || seen.state != setting->state)
        return weft_error_refuse(error, WEFT_ERROR_FAILED,
                                 "virtual function %d of HCA %s reads back with GUIDs 0x%016" G_GINT64_MODIFIER
                                 "x and 0x%016" G_GINT64_MODIFIER "x and link state %u after 0x%016" G_GINT64_MODIFIER
                                 "x and %u were set: look into the kernel's log",
                                 device->vf, device->hca, seen.node, seen.port, seen.state, setting->guid, setting->state);
    return TRUE;
}

static gboolean
apply_by_netlink(const WeftHook *hook, const WeftHookDevice *device, const Setting *setting, GError **error)
{
    int interface = find_ipoib(hook, device, error);
    Setting down = { .guid = setting->guid, .state = IFLA_VF_LINK_STATE_DISABLE };
    Setting state = { .state = setting->state };
    return interface && send_setting(hook, device, interface, &down, error) &&
           send_setting(hook, device, interface, &state, error) && verify_setting(hook, device, interface, setting, error);
}

/* --- */

static gboolean
apply(const WeftHook *hook, const WeftHookDevice *device, const Setting *setting, GError **error)
{
    return has_vendor_files(hook, device) ? apply_by_files(hook, device, setting, error)
                                          : apply_by_netlink(hook, device, setting, error);
}

static gboolean
check(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    return has_vendor_files(hook, device) || find_ipoib(hook, device, error) > 0;
}

static gboolean
prepare(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    Setting setting = { .guid = device->guid, .state = IFLA_VF_LINK_STATE_AUTO, .policy = "Follow" };
    return apply(hook, device, &setting, error);
}

static gboolean
clear(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    Setting setting = { .guid = WEFT_GUID_NONE, .state = IFLA_VF_LINK_STATE_DISABLE, .policy = "Down" };
    return apply(hook, device, &setting, error);
}

const WeftVfOps weft_vf_mlx5 = { .driver = "mlx5_core", .check = check, .prepare = prepare, .clear = clear };
