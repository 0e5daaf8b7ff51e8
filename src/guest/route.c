/* Addresses and neighbours, told to the kernel by its routing socket: in one message what takes several calls otherwise. */
#include "guest.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>

#define NEIGHBOURS_MAX 512 /* the kernel keeps twice as many at most */
#define NEIGHBOUR_ROOM 48

static struct {
    _Alignas(NLMSG_ALIGNTO) char bytes[NEIGHBOURS_MAX * NEIGHBOUR_ROOM];
    size_t length;
    struct nlmsghdr *last;
} request;

/* Another message after those that are there. */
static void
add_message(uint16_t type, uint16_t flags, const void *body, size_t count)
{
    request.last = (struct nlmsghdr *)(request.bytes + request.length);
    *request.last = (struct nlmsghdr){ .nlmsg_len = (uint32_t)NLMSG_LENGTH(count), .nlmsg_type = type, .nlmsg_flags = flags };
    memcpy(NLMSG_DATA(request.last), body, count);
    request.length += NLMSG_SPACE(count);
}

static void
add_attribute(uint16_t type, const void *value, size_t count)
{
    struct rtattr *attribute = (struct rtattr *)(request.bytes + request.length);
    *attribute = (struct rtattr){ .rta_len = (unsigned short)RTA_LENGTH(count), .rta_type = type };
    memcpy(RTA_DATA(attribute), value, count);
    request.length += RTA_SPACE(count);
    request.last->nlmsg_len = (uint32_t)(request.bytes + request.length - (char *)request.last);
}

int
route_add_address(int interface, const struct address *address)
{
    struct ifaddrmsg body = { .ifa_family = AF_INET,
                              .ifa_prefixlen = (uint8_t)address->prefix,
                              .ifa_index = (unsigned)interface };
    struct in_addr everybody = { address->ip.s_addr | htonl(address->prefix ? (1u << (32 - address->prefix)) - 1 : ~0u) };
    request.length = 0;
    add_message(RTM_NEWADDR, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof body);
    add_attribute(IFA_LOCAL, &address->ip, sizeof address->ip);
    add_attribute(IFA_ADDRESS, &address->ip, sizeof address->ip);
    if (address->prefix < 31)
        add_attribute(IFA_BROADCAST, &everybody, sizeof everybody);
    return netlink_tell(NETLINK_ROUTE, request.bytes, request.length, request.last);
}

/* As if they had just answered: an address that is another node's by now is found out by the kernel as ever. */
void
route_add_neighbours(int interface, const struct roster *roster)
{
    static const uint8_t unknown[6];
    unsigned n = 0;
    request.length = 0;
    for (unsigned i = 0; i < roster->n_members && n < NEIGHBOURS_MAX; i++) {
        const struct member *member = &roster->members[i];
        struct ndmsg body = { .ndm_family = AF_INET, .ndm_ifindex = interface, .ndm_state = NUD_REACHABLE };
        if (member->rank == roster->self || memcmp(member->mac, unknown, sizeof unknown) == 0)
            continue;
        add_message(RTM_NEWNEIGH, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof body);
        add_attribute(NDA_DST, &member->addresses[0], sizeof member->addresses[0]);
        add_attribute(NDA_LLADDR, member->mac, sizeof member->mac);
        n++;
    }
    if (n > 0 && netlink_tell(NETLINK_ROUTE, request.bytes, request.length, request.last) != 0)
        say("the other nodes' hardware addresses are asked for");
}
