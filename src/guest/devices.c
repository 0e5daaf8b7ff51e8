#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

int
lock_take(const char *path, int flags)
{
    char absolute[64];
    snprintf(absolute, sizeof absolute, "/%s", path);
    int fd = open(absolute, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && flock(fd, flags) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int
lock_is_free(const char *path)
{
    int fd = lock_take(path, LOCK_SH | LOCK_NB);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void
give_up(int signal_number)
{
    (void)signal_number;
}

/* The alarm ends the wait. */
int
lock_await(const char *path, unsigned seconds)
{
    struct sigaction action = { .sa_handler = give_up };
    char absolute[64];
    snprintf(absolute, sizeof absolute, "/%s", path);
    int fd = open(absolute, O_RDONLY | O_CLOEXEC);
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
    int ok = fd < 0 || flock(fd, LOCK_SH) == 0;
    alarm(0);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Devices may appear late, and modules take their time. Whoever looks has asked to be told first: nothing is missed. */
static int
set_up(const struct node *node, unsigned rails, int seconds)
{
    char interface[16];
    int64_t end = now() + (int64_t)seconds * 1000;
    int found = net_up_ethernet(node);
    int events = found ? -1 : uevent_open();
    while (!found && !(found = net_up_ethernet(node)) && now() < end)
        uevent_wait(events, 1000);
    if (events >= 0)
        close(events);
    if (node->n_rails > 0)
        found = net_up_rails(node, rails, end) && found;
    else if (net_ethernet_name(node, interface))
        rxe_set_up(interface);
    setup_environment(node);
    return found;
}

int
devices_set_up(const struct node *node, int seconds)
{
    return set_up(node, ~0u, seconds);
}

int
devices_bring_back(const struct node *node, int seconds)
{
    return set_up(node, net_rails_seen(), seconds);
}

int
devices_are_at_hand(const struct node *node)
{
    char interface[16];
    return node->n_rails == 0 && rxe_is_loaded() && net_ethernet_name(node, interface);
}

/* The lock passes to the child, and ends with it. The child is nobody's: whoever started it may end before. */
void
devices_set_up_aside(const struct node *node, int seconds)
{
    int lock = lock_take(SETUP_LOCK, LOCK_EX | LOCK_NB);
    if (lock < 0)
        return;
    if (fork() == 0) {
        setsid();
        int null = open("/dev/null", O_RDWR);
        for (int fd = 0; null >= 0 && fd <= 2; fd++)
            dup2(null, fd);
        devices_set_up(node, seconds);
        _exit(0);
    }
    close(lock);
}
