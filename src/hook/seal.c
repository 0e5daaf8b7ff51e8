#include "seal.h"

#include "errors.h"
#include "netlink.h"
#include "sysfs.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <sys/syscall.h>
#include <unistd.h>

gboolean
weft_seal_mute(const char *interface, GError **error)
{
    g_autofree char *path = g_strdup_printf("/proc/sys/net/ipv6/conf/%s/disable_ipv6", interface);
    /* A kernel without IPv6 cannot speak it either; IPv4 is silent where no address is. */
    return !g_file_test(path, G_FILE_TEST_EXISTS) || weft_sysfs_set(path, "1", NULL, error);
}

gboolean
weft_seal_port(const WeftHook *hook, int index, const char *interface, GError **error)
{
    g_autofree char *what = g_strdup_printf("keep the host out of interface %s", interface);
    struct nl_msg *request = nlmsg_alloc_simple(RTM_SETLINK, NLM_F_REQUEST);
    struct ifinfomsg header = { .ifi_family = AF_BRIDGE, .ifi_index = index };
    nlmsg_append(request, &header, sizeof header, NLMSG_ALIGNTO);
    struct nlattr *port = nla_nest_start(request, IFLA_PROTINFO | NLA_F_NESTED);
    nla_put_u16(request, IFLA_BRPORT_GROUP_FWD_MASK, WEFT_SEAL_PORT_GROUPS);
    nla_nest_end(request, port);
    return weft_netlink_do(hook->netlink, request, what, error);
}

/* A program for the kernel that drops every packet; its descriptor, or -1. */
static int
load_drop(void)
{
    const struct bpf_insn program[] = {
        { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_DROP },
        { .code = BPF_JMP | BPF_EXIT },
    };
    union bpf_attr attributes = {
        .prog_type = BPF_PROG_TYPE_XDP,
        .insns = (guint64)(gsize)program,
        .insn_cnt = G_N_ELEMENTS(program),
        .license = (guint64)(gsize) "LGPL",
    };
    return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes);
}

/* Not by address filters: the kernel takes in broadcasts without asking where they come from. Nor by the firewall, which
 * belongs to the host's operator. */
gboolean
weft_seal_bridge(const WeftHook *hook, int index, const char *interface, GError **error)
{
    g_autofree char *what = g_strdup_printf("keep the host out of interface %s", interface);
    int program = load_drop();
    if (program < 0)
        return weft_error_refuse(error, WEFT_ERROR_FAILED,
                                 "cannot %s: %s; use a kernel with BPF, and let libvirtd load programs", what,
                                 g_strerror(errno));
    struct nl_msg *request = nlmsg_alloc_simple(RTM_SETLINK, NLM_F_REQUEST);
    struct ifinfomsg header = { .ifi_family = AF_UNSPEC, .ifi_index = index };
    nlmsg_append(request, &header, sizeof header, NLMSG_ALIGNTO);
    struct nlattr *xdp = nla_nest_start(request, IFLA_XDP);
    nla_put_s32(request, IFLA_XDP_FD, program);
    nla_put_u32(request, IFLA_XDP_FLAGS, XDP_FLAGS_SKB_MODE | XDP_FLAGS_UPDATE_IF_NOEXIST);
    nla_nest_end(request, xdp);
    int status = hook->netlink->talk(hook->netlink, request, NULL, NULL);
    nlmsg_free(request);
    close(program);
    if (status == 0 || status == -EBUSY) /* it has one already */
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot %s: %s", what, g_strerror(-status));
}
