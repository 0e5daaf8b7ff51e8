#include "guest.h"

#include <errno.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#define VERDICT 1 /* the number of the message whose verdict is waited for */

/* Kernels also tell of messages that fail before the last one: those have another number. */
static int
hear_verdict(int fd)
{
    struct {
        struct nlmsghdr header;
        struct nlmsgerr verdict;
    } reply;
    while (recv(fd, &reply, sizeof reply, 0) >= (ssize_t)sizeof reply.header)
        if (reply.header.nlmsg_type == NLMSG_ERROR && reply.header.nlmsg_seq == VERDICT)
            return -reply.verdict.error;
    return EPROTO;
}

int
netlink_tell(int protocol, const void *messages, size_t length, struct nlmsghdr *last)
{
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    if (fd < 0)
        return errno;
    last->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
    last->nlmsg_seq = VERDICT;
    int sent = sendto(fd, messages, length, 0, (struct sockaddr *)&kernel, sizeof kernel) >= 0;
    int error = sent ? hear_verdict(fd) : errno;
    close(fd);
    return error;
}
