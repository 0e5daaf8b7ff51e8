/* A node is ready when it has reached every other one, seen from inside. */
#include "guest.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define BATCH 32    /* questions before answers are looked at: they must fit into the socket */
#define AGAIN 200   /* milliseconds after which whoever did not answer is asked again */
#define NAMED_MAX 5 /* in the last line */

/* One address of another node. */
struct target {
    const struct member *member;
    unsigned network; /* index into addresses */
    int answered;
};

struct probe {
    int sockets[RAILS_MAX + 1]; /* bound to this node's own address of that network; -1: it has none */
    uint8_t nonce[8];
    struct target *targets;
    unsigned n_targets, missing;
};

/* --- asking --- */

static int
open_socket(struct in_addr own)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = own };
    int whole = IP_PMTUDISC_DO;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof whole);
    return fd;
}

static const struct member *
find_self(const struct roster *roster)
{
    for (unsigned i = 0; i < roster->n_members; i++)
        if (roster->members[i].rank == roster->self)
            return &roster->members[i];
    return NULL;
}

/* The Ethernet is always there, or nobody answers; a rail counts where this node has it up. */
static void
prepare(struct probe *probe, const struct roster *roster, const struct member *self)
{
    *probe = (struct probe){ .targets = calloc(roster->n_members * (RAILS_MAX + 1u), sizeof(struct target)) };
    if (!probe->targets || getrandom(probe->nonce, sizeof probe->nonce, 0) < 0)
        abort();
    for (unsigned network = 0; network <= RAILS_MAX; network++) {
        probe->sockets[network] = self->addresses[network].s_addr ? open_socket(self->addresses[network]) : -1;
        for (unsigned i = 0; i < roster->n_members; i++) {
            const struct member *other = &roster->members[i];
            int wanted = network == 0 || probe->sockets[network] >= 0;
            if (wanted && other != self && other->addresses[network].s_addr)
                probe->targets[probe->n_targets++] = (struct target){ .member = other, .network = network };
        }
    }
    probe->missing = probe->n_targets;
}

static void
ask(const struct probe *probe, const struct target *target)
{
    static struct meeting question;
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(WEFT_MEET_PORT) };
    memcpy(question.magic, MEET_ASK, sizeof question.magic);
    memcpy(question.nonce, probe->nonce, sizeof question.nonce);
    to.sin_addr = target->member->addresses[target->network];
    sendto(probe->sockets[target->network], &question, sizeof question, 0, (struct sockaddr *)&to, sizeof to);
}

static void
take_answer(struct probe *probe, unsigned network, const struct meeting *answer, struct in_addr from)
{
    if (memcmp(answer->magic, MEET_TELL, sizeof answer->magic) != 0 ||
        memcmp(answer->nonce, probe->nonce, sizeof answer->nonce) != 0)
        return;
    for (unsigned i = 0; i < probe->n_targets; i++) {
        struct target *target = &probe->targets[i];
        if (target->network != network || target->answered || target->member->rank != ntohl(answer->rank) ||
            target->member->addresses[network].s_addr != from.s_addr)
            continue;
        target->answered = 1;
        probe->missing--;
    }
}

static void
take_answers(struct probe *probe, int milliseconds)
{
    static struct meeting answer;
    struct pollfd polls[RAILS_MAX + 1];
    for (unsigned i = 0; i <= RAILS_MAX; i++)
        polls[i] = (struct pollfd){ .fd = probe->sockets[i], .events = POLLIN };
    if (poll(polls, RAILS_MAX + 1, milliseconds) <= 0)
        return;
    for (unsigned i = 0; i <= RAILS_MAX; i++) {
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        while (polls[i].revents &&
               recvfrom(polls[i].fd, &answer, sizeof answer, 0, (struct sockaddr *)&from, &length) == (ssize_t)sizeof answer)
            take_answer(probe, i, &answer, from.sin_addr);
    }
}

static void
reach_all(struct probe *probe, int64_t end)
{
    while (probe->missing > 0 && now() < end) {
        int64_t again = now() + AGAIN < end ? now() + AGAIN : end;
        for (unsigned i = 0, asked = 0; i < probe->n_targets; i++) {
            if (probe->targets[i].answered)
                continue;
            ask(probe, &probe->targets[i]);
            if (++asked % BATCH == 0)
                take_answers(probe, 1);
        }
        while (probe->missing > 0 && now() < again)
            take_answers(probe, (int)(again - now()));
    }
}

/* --- telling --- */

static void
tell_missing(const struct probe *probe, unsigned seconds)
{
    struct text names = { 0 };
    char ip[INET_ADDRSTRLEN];
    unsigned named = 0;
    printf(WEFT_MEET_UNREACHED);
    for (unsigned i = 0; i < probe->n_targets; i++) {
        const struct target *target = &probe->targets[i];
        if (target->answered)
            continue;
        inet_ntop(AF_INET, &target->member->addresses[target->network], ip, sizeof ip);
        printf(" %u", target->member->rank);
        if (named++ < NAMED_MAX)
            text_add(&names, "%s%s (%s)", named > 1 ? ", " : "", target->member->name, ip);
    }
    if (named > NAMED_MAX)
        text_add(&names, " and %u more", named - NAMED_MAX);
    printf("\nno answer on the partition within %u s from %s\n", seconds, names.data);
}

static int
meet(const struct node *node, const struct roster *roster, int alone)
{
    const struct member *self = find_self(roster);
    struct probe probe;
    if (!self || !roster_write(node, roster)) {
        printf(self ? "this node knows a newer roster than generation %llu\n"
                    : "this node is not in the roster, generation %llu\n",
               roster->generation);
        return 1;
    }
    if (alone) {
        printf("not looking for others\n");
        return 0;
    }
    int64_t end = now() + (int64_t)roster->within * 1000;
    net_await(self->addresses[0], end);
    if (!lock_await(SETUP_LOCK, roster->within))
        printf("the node is not set up yet\n");
    prepare(&probe, roster, self);
    reach_all(&probe, end);
    if (probe.missing > 0) {
        tell_missing(&probe, roster->within);
        return 1;
    }
    printf("reached %u addresses of %u other nodes\n", probe.n_targets, roster->n_members - 1);
    slurm_setup(node, roster);
    return 0;
}

void
meet_run(const struct question *question)
{
    struct roster roster;
    char *text = input_read();
    int result = 1;
    if (!text || !roster_parse(text, &roster))
        printf("the roster makes no sense\n");
    else
        result = meet(server_options()->node, &roster, server_options()->alone);
    fflush(stdout);
    _exit(result);
}
