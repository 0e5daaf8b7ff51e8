/* Answers the other nodes of the cluster on the partition's addresses, and nobody else. */
#include "guest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AT_ONCE 64 /* answers: then weftd has its turn, however many ask */

/* The address may come later. */
static int
open_at(struct in_addr ip)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(WEFT_MEET_PORT), .sin_addr = ip };
    int yes = 1;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof yes);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        say("the other nodes get no answer: %s", strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

unsigned
responder_open(const struct node *node, int *ret_fds)
{
    unsigned n = 0;
    if ((ret_fds[n] = open_at(node->ethernet.ip)) >= 0)
        n++;
    for (unsigned i = 0; i < node->n_rails; i++)
        if ((ret_fds[n] = open_at(node->rails[i].address.ip)) >= 0)
            n++;
    return n;
}

void
responder_answer(int fd, const struct node *node)
{
    static struct meeting meeting;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(fd, &meeting, sizeof meeting, 0, (struct sockaddr *)&from, &length);
        if (n < 0)
            return;
        if (n != (ssize_t)sizeof meeting || memcmp(meeting.magic, MEET_ASK, sizeof meeting.magic) != 0)
            continue;
        memcpy(meeting.magic, MEET_TELL, sizeof meeting.magic);
        meeting.rank = htonl(node->rank);
        sendto(fd, &meeting, sizeof meeting, 0, (struct sockaddr *)&from, length);
    }
}
