/* Software RDMA over the partition's Ethernet, and kernel modules. */
#include "guest.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE "rxe0"
#define MODULES_MAX 8
#define LOADED "run/weft/rxe-modules"
#define LATER "run/weft/rxe-later" /* nobody needs it before the first session */
#define ADDED "run/weft/rxe-added"

void
modules_load(const char *const *names)
{
    pid_t pid = fork();
    if (pid == 0) {
        static const char *const places[] = { "/sbin/modprobe", "/usr/sbin/modprobe", "/bin/modprobe", "/usr/bin/modprobe" };
        const char *argv[MODULES_MAX + 3] = { "modprobe", "-qa" };
        for (size_t i = 0; i < MODULES_MAX && names[i]; i++)
            argv[i + 2] = names[i];
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            execv(places[i], (char *const *)argv);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

int
rxe_is_loaded(void)
{
    return file_exists(LOADED);
}

/* In this order: rxe does not load without the checksum. The last two are for programs that use it. */
void
rxe_load(void)
{
    if (rxe_is_loaded())
        return;
    modules_load((const char *const[]){ "crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm", NULL });
    file_write(LOADED, "", 0, 0644);
}

static int added; /* by this process; it goes with its interface */

static int
is_there(void)
{
    return access("/sys/class/infiniband/" DEVICE, F_OK) == 0;
}

int
rxe_is_offered(void)
{
    return added || is_there() || (file_exists(LATER) && file_exists("sys/module/rdma_rxe"));
}

void
rxe_defer(void)
{
    file_write(LATER, "", 0, 0644);
}

struct request {
    struct nlmsghdr header;
    char attributes[128];
};

static void
add_text(struct request *request, uint16_t type, const char *text)
{
    struct nlattr *attribute = (struct nlattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));
    size_t length = strlen(text) + 1;
    attribute->nla_type = type;
    attribute->nla_len = (uint16_t)(NLA_HDRLEN + length);
    memcpy((char *)attribute + NLA_HDRLEN, text, length);
    request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + (uint32_t)NLA_ALIGN(attribute->nla_len);
}

static int
add(const char *interface)
{
    struct request request = { .header = { .nlmsg_len = NLMSG_HDRLEN,
                                           .nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK) } };
    if (added && is_there())
        return 1;
    rxe_load();
    add_text(&request, RDMA_NLDEV_ATTR_DEV_NAME, DEVICE);
    add_text(&request, RDMA_NLDEV_ATTR_LINK_TYPE, "rxe");
    add_text(&request, RDMA_NLDEV_ATTR_NDEV_NAME, interface);
    int error = netlink_tell(NETLINK_RDMA, &request, request.header.nlmsg_len, &request.header);
    if (error && error != EEXIST)
        say("no software RDMA on %s: %s", interface, strerror(error));
    added = !error || error == EEXIST;
    return added;
}

/* Its port has a thousand GIDs with three files each in sysfs: a node that waits for work does without. One that had it before
 * it was put aside or copied has it again. */
void
rxe_set_up(const char *interface)
{
    if (!file_exists(LATER) || file_exists(ADDED))
        add(interface);
    else
        rxe_load();
}

void
rxe_set_up_for_session(void)
{
    struct node node;
    char interface[16];
    if (!file_exists(LATER) || is_there() || !rxe_is_offered())
        return;
    if (node_read(NODE_FILE, &node) && !node.template && node.n_rails == 0 && net_ethernet_name(&node, interface) &&
        add(interface))
        file_write(ADDED, "", 0, 0644);
    node_free(&node);
}
