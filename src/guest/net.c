#include "guest.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NETS "sys/class/net"
#define FIRST_MAX 8     /* interfaces that a node has from the beginning are among them */
#define HARDWARE_MAX 20 /* an InfiniBand address; its last eight bytes are the port GUID */
#define RAILS_SEEN "run/weft/rails"

/* The interface's hardware address; its length, or 0. */
static int
hardware_address(const char *interface, uint8_t ret_address[HARDWARE_MAX])
{
    char path[sizeof NETS + 2 * IFNAMSIZ];
    int n = 0;
    snprintf(path, sizeof path, NETS "/%.15s/address", interface);
    char *text = file_read(path, NULL);
    for (char *p = text; p && n < HARDWARE_MAX && sscanf(p, "%2hhx", &ret_address[n]) == 1; n++) {
        p = strchr(p, ':');
        p = p ? p + 1 : NULL;
    }
    free(text);
    return n;
}

typedef int (*Match)(const uint8_t *hardware, int length, const void *wanted);

static int
match_mac(const uint8_t *hardware, int length, const void *mac)
{
    return length == 6 && memcmp(hardware, mac, 6) == 0;
}

static int
match_guid(const uint8_t *hardware, int length, const void *wanted)
{
    uint64_t guid = 0;
    for (int i = 12; length == HARDWARE_MAX && i < HARDWARE_MAX; i++)
        guid = guid << 8 | hardware[i];
    return guid != 0 && guid == *(const uint64_t *)wanted;
}

/* One that somebody made in the node, of a second P_Key or of several ports, says that it has the port's GUID, too. */
static int
is_made_of_others(const char *interface)
{
    char parent[sizeof NETS + 2 * IFNAMSIZ], bond[sizeof NETS + 2 * IFNAMSIZ];
    snprintf(parent, sizeof parent, NETS "/%.15s/parent", interface);
    snprintf(bond, sizeof bond, NETS "/%.15s/bonding", interface);
    return file_exists(parent) || file_exists(bond);
}

static int
find(Match match, const void *wanted, char ret_name[IFNAMSIZ])
{
    char path[256];
    DIR *folder = root_path(NETS, path, sizeof path) ? opendir(path) : NULL;
    int found = 0;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        uint8_t hardware[HARDWARE_MAX];
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= IFNAMSIZ)
            continue;
        found = match(hardware, hardware_address(entry->d_name, hardware), wanted) && !is_made_of_others(entry->d_name);
        if (found)
            memcpy(ret_name, entry->d_name, strlen(entry->d_name) + 1);
    }
    if (folder)
        closedir(folder);
    return found;
}

/* Where weftd does not know the GUID of a whole adapter's port, the rails are the interfaces in the kernel's order. */
static int
find_nth_infiniband(unsigned nth, char ret_name[IFNAMSIZ])
{
    struct if_nameindex *all = if_nameindex();
    int found = 0;
    for (unsigned i = 0, seen = 0; all && !found && all[i].if_index; i++) {
        uint8_t hardware[HARDWARE_MAX];
        found = hardware_address(all[i].if_name, hardware) == HARDWARE_MAX && seen++ == nth;
        if (found)
            snprintf(ret_name, IFNAMSIZ, "%s", all[i].if_name);
    }
    if_freenameindex(all);
    return found;
}

int
net_rail_name(uint64_t guid, char ret_name[IFNAMSIZ])
{
    return find(match_guid, &guid, ret_name);
}

static int
raise_up(int fd, struct ifreq *request)
{
    if (ioctl(fd, SIOCGIFFLAGS, request) < 0)
        return 0;
    request->ifr_flags |= IFF_UP;
    return ioctl(fd, SIOCSIFFLAGS, request) == 0;
}

static void
set_option(const char *interface, const char *option, const char *value)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/sys/net/ipv4/conf/%.15s/%s", interface, option);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, value, strlen(value)) < 0)
        say("%s of %s cannot be set: %s", option, interface, strerror(errno));
    if (fd >= 0)
        close(fd);
}

/* The others may know the address from a node that was here before: the kernel announces it when the interface comes up. */
static void
announce(const char *interface, int number)
{
    static int known;
    if (number == known)
        return;
    set_option(interface, "arp_notify", "1");
    known = number;
}

/* All rails of a cluster are one broadcast domain, and the kernel answers for each of its addresses on every interface: what is
 * sent to one rail would arrive on another. */
static void
keep_apart(const char *rail)
{
    set_option(rail, "arp_ignore", "1");   /* it answers for its own address alone */
    set_option(rail, "arp_announce", "2"); /* … and asks in the name of that */
    set_option(rail, "rp_filter", "2");    /* what comes by another rail than the answer takes is no forgery */
}

/* mtu 0: as it is. An address that somebody gave it already, such as cloud-init, stays. */
static int
bring_up(const char *interface, const struct address *address, unsigned mtu)
{
    struct ifreq request = { 0 };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    if (ioctl(fd, SIOCGIFADDR, &request) == 0) {
        close(fd);
        return 1;
    }
    int number = ioctl(fd, SIOCGIFINDEX, &request) == 0 ? request.ifr_ifindex : 0;
    announce(interface, number);
    request.ifr_mtu = (int)mtu;
    int ok = mtu == 0 || ioctl(fd, SIOCSIFMTU, &request) == 0;
    ok = route_add_address(number, address) == 0 && ok;
    ok = raise_up(fd, &request) && ok;
    if (!ok)
        say("%s could not be brought up", interface);
    close(fd);
    return ok;
}

void
net_up_loopback(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    raise_up(fd, &request);
    close(fd);
}

/* By their numbers, as reading sysfs takes longer. Its number, or 0. */
static int
find_first(const uint8_t mac[6], char ret_name[IFNAMSIZ])
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), found = 0, number = 0;
    while (!found && number < FIRST_MAX) {
        struct ifreq request = { .ifr_ifindex = ++number };
        found = ioctl(fd, SIOCGIFNAME, &request) == 0 && ioctl(fd, SIOCGIFHWADDR, &request) == 0 &&
                request.ifr_hwaddr.sa_family == ARPHRD_ETHER && memcmp(request.ifr_hwaddr.sa_data, mac, 6) == 0;
        if (found)
            memcpy(ret_name, request.ifr_name, IFNAMSIZ);
    }
    close(fd);
    return found ? number : 0;
}

int
net_ethernet_name(const struct node *node, char ret_name[IFNAMSIZ])
{
    return find_first(node->mac, ret_name) || find(match_mac, node->mac, ret_name);
}

int
net_ethernet_number(const struct node *node)
{
    char name[IFNAMSIZ];
    int number = find_first(node->mac, name);
    return number ? number : find(match_mac, node->mac, name) ? (int)if_nametoindex(name) : 0;
}

void
net_prepare(const struct node *before)
{
    char name[IFNAMSIZ];
    if (net_ethernet_name(before, name))
        announce(name, (int)if_nametoindex(name));
}

int
net_up_ethernet(const struct node *node)
{
    char name[IFNAMSIZ];
    return net_ethernet_name(node, name) && bring_up(name, &node->ethernet, node->mtu);
}

/* Whether the image has the module of their interfaces: otherwise none ever comes, and nobody need wait for it. What is too
 * long to be read may have it. */
static int
knows_ipoib(void)
{
    struct utsname system;
    char path[sizeof system.release + 64];
    if (file_exists("sys/module/ib_ipoib") || uname(&system) < 0)
        return 1;
    snprintf(path, sizeof path, "lib/modules/%s/modules.dep", system.release);
    char *modules = file_read(path, NULL);
    int known = modules ? strstr(modules, "/ib_ipoib.ko") != NULL : file_exists(path);
    free(modules);
    return known;
}

void
net_learn_ports(const struct text *ports)
{
    if (ports->length > 0)
        file_write_text(RAIL_PORTS, ports, 0644);
}

/* What the seed says may have been so on another host. */
static uint64_t
rail_guid(const struct node *node, unsigned i)
{
    char *text = file_read(RAIL_PORTS, NULL), *rest = text;
    uint64_t guid = node->rails[i].guid;
    for (char *line; (line = next_line(&rest));) {
        unsigned rail;
        unsigned long long told;
        if (sscanf(line, "%u %llx", &rail, &told) == 2 && rail == node->rails[i].rail)
            guid = told;
    }
    free(text);
    return guid;
}

static int
up_rail(const struct node *node, unsigned i)
{
    char name[IFNAMSIZ];
    uint64_t guid = rail_guid(node, i);
    int found = guid ? net_rail_name(guid, name) : find_nth_infiniband(node->rails[i].rail, name);
    if (found)
        keep_apart(name);
    return found && bring_up(name, &node->rails[i].address, 0);
}

unsigned
net_rails_seen(void)
{
    char *text = file_read(RAILS_SEEN, NULL);
    unsigned seen = text ? (unsigned)strtoul(text, NULL, 16) : 0;
    free(text);
    return seen;
}

static void
note_rails(unsigned up)
{
    struct text text = { 0 };
    unsigned seen = net_rails_seen();
    if ((seen | up) == seen)
        return;
    text_add(&text, "%x\n", seen | up);
    file_write_text(RAILS_SEEN, &text, 0644);
    text_free(&text);
}

int
net_up_rails(const struct node *node, unsigned awaited, int64_t end)
{
    int events = uevent_open();
    unsigned up = 0;
    awaited &= knows_ipoib() ? (1u << node->n_rails) - 1 : 0;
    for (;;) {
        unsigned before = up;
        for (unsigned i = 0; i < node->n_rails; i++)
            if (!(up & 1u << i) && up_rail(node, i))
                up |= 1u << i;
        if ((up & awaited) == awaited || now() >= end)
            break;
        if (up == before)
            uevent_wait(events, 1000);
    }
    if (events >= 0)
        close(events);
    note_rails(up);
    for (unsigned i = 0; i < node->n_rails; i++)
        if (awaited & ~up & 1u << i)
            say("rail %u: there is no IPoIB interface with port GUID 0x%016llx", node->rails[i].rail,
                (unsigned long long)rail_guid(node, i));
    return (up & awaited) == awaited;
}

void
net_down_ethernet(const struct node *node)
{
    struct ifreq request = { 0 };
    if (!net_ethernet_name(node, request.ifr_name))
        return;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request.ifr_addr.sa_family = AF_INET; /* no address: takes away the one that it has */
    ioctl(fd, SIOCSIFADDR, &request);
    if (ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
        request.ifr_flags &= ~IFF_UP;
        ioctl(fd, SIOCSIFFLAGS, &request);
    }
    close(fd);
}

void
net_hand_over(const struct node *before, const struct node *node)
{
    struct ifreq request = { 0 };
    char there[IFNAMSIZ];
    if (!net_ethernet_name(before, request.ifr_name) || find_first(node->mac, there))
        return;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    memcpy(request.ifr_hwaddr.sa_data, node->mac, sizeof node->mac);
    if (ioctl(fd, SIOCSIFHWADDR, &request) < 0)
        say("%s keeps its address: %s", request.ifr_name, strerror(errno));
    close(fd);
}

/* --- waiting --- */

/* Does any interface have it? The kernel lets nobody have an address that is not there: asked so, it need not list all of them.
 */
static int
is_own(struct in_addr ip)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = ip };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int own = ip.s_addr && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return own;
}

int
net_has_address(const char *interface, struct in_addr ip)
{
    struct ifaddrs *all = NULL;
    int found = 0;
    if (getifaddrs(&all) < 0)
        return 0;
    for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next)
        found = one->ifa_addr && one->ifa_addr->sa_family == AF_INET && strcmp(one->ifa_name, interface) == 0 &&
                ((const struct sockaddr_in *)one->ifa_addr)->sin_addr.s_addr == ip.s_addr;
    freeifaddrs(all);
    return found;
}

int
net_is_up(const struct node *node)
{
    int up = is_own(node->ethernet.ip);
    for (unsigned i = 0; i < node->n_rails; i++)
        up = up && is_own(node->rails[i].address.ip);
    return up;
}

void
net_await(struct in_addr ip, int64_t end)
{
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV4_IFADDR };
    char news[4096];
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&kernel, sizeof kernel) < 0)
        say("nobody tells of addresses");
    while (!is_own(ip) && now() < end) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        int64_t left = end - now();
        poll(&wait, 1, left < 1000 ? (int)left : 1000);
        while (fd >= 0 && recv(fd, news, sizeof news, 0) > 0)
            continue;
    }
    if (fd >= 0)
        close(fd);
}

#define LISTENS 0x0a  /* the kernel's state of a socket that waits for connections: its queue is another */
#define DRAIN_WAIT 10 /* milliseconds */

/* Of a table of the kernel's: connections of which the other end has not acknowledged everything. */
static unsigned
count_unacknowledged(const char *path)
{
    char *table = file_read(path, NULL), *rest = table;
    unsigned n = 0;
    next_line(&rest);
    for (char *line; (line = next_line(&rest));) {
        unsigned state, queued;
        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%*x %*[0-9A-Fa-f]:%*x %x %x:", &state, &queued) == 2)
            n += state != LISTENS && queued > 0;
    }
    free(table);
    return n;
}

unsigned
net_drain(int64_t end)
{
    unsigned waiting;
    while ((waiting = count_unacknowledged("/proc/net/tcp") + count_unacknowledged("/proc/net/tcp6")) > 0 && now() < end)
        poll(NULL, 0, DRAIN_WAIT);
    return waiting;
}
