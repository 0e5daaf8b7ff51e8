/* The virtio port through which weftd speaks. It is found without udev. */
#include "guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PORTS "/sys/class/virtio-ports"

int
uevent_open(void)
{
    struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = 1 };
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

void
uevent_wait(int fd, int milliseconds)
{
    char event[4096];
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    poll(&wait, 1, milliseconds);
    while (fd >= 0 && recv(fd, event, sizeof event, 0) > 0)
        continue;
}

/* An event is its name and its texts, each ended by NUL. */
static int
is_new_interface(const char *event, size_t length)
{
    static const char net[] = "SUBSYSTEM=net";
    if (strncmp(event, "add@", 4) != 0)
        return 0;
    for (const char *text = event; text < event + length; text += strlen(text) + 1)
        if (strcmp(text, net) == 0)
            return 1;
    return 0;
}

/* Where more came than the kernel keeps, it may have been among them. */
int
uevent_take(int fd)
{
    char event[4096 + 1];
    int found = 0;
    for (;;) {
        ssize_t n = recv(fd, event, sizeof event - 1, 0);
        if (n > 0) {
            event[n] = '\0';
            found |= is_new_interface(event, (size_t)n);
        } else if (n < 0 && errno == ENOBUFS) {
            found = 1;
        } else if (n == 0 || errno != EINTR) {
            return found;
        }
    }
}

static int
has_name(const char *port)
{
    char path[320];
    snprintf(path, sizeof path, PORTS "/%s/name", port);
    char *name = file_read(path, NULL);
    int same = name && strcmp(name, WEFT_PORT_NAME "\n") == 0;
    free(name);
    return same;
}

static int
find(char ret_port[256])
{
    DIR *folder = opendir(PORTS);
    int found = 0;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && (found = has_name(entry->d_name)))
            snprintf(ret_port, 256, "%s", entry->d_name);
    if (folder)
        closedir(folder);
    return found;
}

/* Where nobody keeps /dev, the number in sysfs is enough. */
static int
open_port(const char *port)
{
    char path[320];
    unsigned major, minor;
    snprintf(path, sizeof path, "/dev/%s", port);
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    snprintf(path, sizeof path, PORTS "/%s/dev", port);
    char *number = file_read(path, NULL);
    int known = number && sscanf(number, "%u:%u", &major, &minor) == 2;
    free(number);
    if (!known || mknod("/run/weft/port", S_IFCHR | 0600, makedev(major, minor)) < 0)
        return -1;
    fd = open("/run/weft/port", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    unlink("/run/weft/port");
    return fd;
}

int
port_open(void)
{
    char port[256];
    int events = uevent_open();
    int fd = -1, told = 0;
    if (access(PORTS, F_OK) < 0)
        modules_load((const char *const[]){ "virtio_console", NULL });
    for (;;) {
        if (find(port) && (fd = open_port(port)) >= 0)
            break;
        if (!told++)
            say("waiting for the port " WEFT_PORT_NAME);
        uevent_wait(events, 1000);
    }
    if (events >= 0)
        close(events);
    return fd;
}
