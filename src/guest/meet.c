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
#define AGAIN 200   /* milliseconds after which whoever did not answer is asked again; then twice as long, */
#define RARELY 1600 /* and so on, as nodes that all start at once have other things to do */
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
    int64_t again; /* when the missing are asked again */
    int pause;
};

/* --- asking --- */

/* interface: the only one through which it sends and receives; NULL: any. */
static int
open_socket(struct in_addr own, const char *interface)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = own };
    int whole = IP_PMTUDISC_DO;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (bound && interface)
        bound = setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, (socklen_t)strlen(interface)) == 0;
    if (fd >= 0 && !bound) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof whole);
    return fd;
}

static const struct promise *
find_promise(const struct roster *roster, unsigned rail)
{
    for (unsigned i = 0; i < roster->n_promises; i++)
        if (roster->promises[i].rail == rail)
            return &roster->promises[i];
    return NULL;
}

/* The Ethernet is always there, or nobody answers. A rail counts where it was promised; others where this node has them up. */
static void
prepare(struct probe *probe, const struct roster *roster, const struct member *self)
{
    *probe = (struct probe){ .targets = calloc(roster->n_members * (RAILS_MAX + 1u), sizeof(struct target)) };
    if (!probe->targets || getrandom(probe->nonce, sizeof probe->nonce, 0) < 0)
        abort();
    if (root_is_node())
        route_add_neighbours(net_ethernet_number(server_options()->node), roster);
    for (unsigned network = 0; network <= RAILS_MAX; network++) {
        const struct promise *promise = network > 0 ? find_promise(roster, network - 1) : NULL;
        const char *interface = promise ? promise->interface : NULL;
        probe->sockets[network] = self->addresses[network].s_addr ? open_socket(self->addresses[network], interface) : -1;
        for (unsigned i = 0; i < roster->n_members; i++) {
            const struct member *other = &roster->members[i];
            int wanted = network == 0 || promise || probe->sockets[network] >= 0;
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
ask_missing(struct probe *probe, int64_t end)
{
    probe->pause = probe->pause == 0 ? AGAIN : probe->pause < RARELY ? 2 * probe->pause : RARELY;
    probe->again = now() + probe->pause < end ? now() + probe->pause : end;
    for (unsigned i = 0, asked = 0; i < probe->n_targets; i++) {
        if (probe->targets[i].answered)
            continue;
        ask(probe, &probe->targets[i]);
        if (++asked % BATCH == 0)
            take_answers(probe, 1);
    }
}

static void
reach_all(struct probe *probe, int64_t end)
{
    while (probe->missing > 0 && now() < end) {
        ask_missing(probe, end);
        while (probe->missing > 0 && now() < probe->again)
            take_answers(probe, (int)(probe->again - now()));
    }
}

static void
probe_free(struct probe *probe)
{
    for (unsigned i = 0; i <= RAILS_MAX; i++)
        if (probe->sockets[i] >= 0)
            close(probe->sockets[i]);
    free(probe->targets);
}

/* --- telling --- */

static void
tell_missing(const struct probe *probe, unsigned seconds, struct text *said)
{
    struct text names = { 0 };
    char ip[INET_ADDRSTRLEN];
    unsigned named = 0;
    text_add(said, WEFT_MEET_UNREACHED);
    for (unsigned i = 0; i < probe->n_targets; i++) {
        const struct target *target = &probe->targets[i];
        if (target->answered)
            continue;
        inet_ntop(AF_INET, &target->member->addresses[target->network], ip, sizeof ip);
        text_add(said, " %u", target->member->rank);
        if (named++ < NAMED_MAX)
            text_add(&names, "%s%s (%s)", named > 1 ? ", " : "", target->member->name, ip);
    }
    if (named > NAMED_MAX)
        text_add(&names, " and %u more", named - NAMED_MAX);
    text_add(said, "\nno answer on the partition within %u s from %s\n", seconds, names.data);
    text_free(&names);
}

/* What works of the fabric is told port by port; what to do about it is for those who know the fabric. */
static int
has_ports(struct roster *roster, int64_t end, struct text *said)
{
    int well = fabric_await(roster, end, said);
    if (!well)
        text_add(said, "not all ports that this node was promised work\n");
    return well;
}

/* NULL: this node is not to look for others. ret_status: then it is known. */
static const struct member *
take_roster(struct roster *roster, int *ret_status, struct text *said)
{
    const struct member *self = roster_self(roster);
    *ret_status = 1;
    if (!self || !roster_write(server_options()->node, roster)) {
        text_add(said,
                 self ? "this node knows a newer roster than generation %llu\n"
                      : "this node is not in the roster, generation %llu\n",
                 roster->generation);
        return NULL;
    }
    if (!server_options()->alone)
        return self;
    text_add(said, "not looking for others\n");
    *ret_status = !has_ports(roster, 0, said);
    return NULL;
}

static int
conclude(const struct probe *probe, const struct roster *roster, struct text *said)
{
    if (probe->missing > 0)
        tell_missing(probe, roster->within, said);
    else
        text_add(said, "reached %u addresses of %u other nodes\n", probe->n_targets, roster->n_members - 1);
    return probe->missing > 0;
}

/* --- in a process of its own, which may wait --- */

static int
meet(struct roster *roster, struct text *said)
{
    struct probe probe;
    int status;
    const struct member *self = take_roster(roster, &status, said);
    if (!self)
        return status;
    int64_t end = now() + (int64_t)roster->within * 1000;
    net_await(self->addresses[0], end);
    if (!lock_await(SETUP_LOCK, roster->within))
        text_add(said, "the node is not set up yet\n");
    if (!has_ports(roster, end, said))
        return 1;
    prepare(&probe, roster, self);
    reach_all(&probe, end);
    status = conclude(&probe, roster, said);
    if (status == 0)
        slurm_setup(server_options()->node, roster);
    return status;
}

void
meet_run(const struct question *question)
{
    struct roster roster;
    struct text said = { 0 };
    char *text = input_read();
    int result = 1;
    if (!text || !roster_parse(text, &roster))
        text_add(&said, "the roster makes no sense\n");
    else
        result = meet(&roster, &said);
    fwrite(said.data, 1, said.length, stdout);
    fflush(stdout);
    _exit(result);
}

/* --- in the process that serves, which waits for nothing: the ports of a node with rails may take their time --- */

static struct {
    int begun;
    struct roster roster;
    struct probe probe;
    int64_t end;
} here;

int
meet_is_at_hand(void)
{
    const struct node *node = server_options()->node;
    return !here.begun && node && !node->slurm && node->n_rails == 0 && net_is_up(node) && lock_is_free(SETUP_LOCK);
}

int
meet_here(const struct question *question, char *input, struct text *ret_said)
{
    int status = 1;
    const struct member *self = NULL;
    int sense = input && roster_parse(input, &here.roster);
    if (sense)
        self = take_roster(&here.roster, &status, ret_said);
    else
        text_add(ret_said, "the roster makes no sense\n");
    if (!self || !has_ports(&here.roster, 0, ret_said)) {
        free(here.roster.members);
        return status;
    }
    here.begun = 1;
    here.end = now() + (int64_t)here.roster.within * 1000;
    prepare(&here.probe, &here.roster, self);
    ask_missing(&here.probe, here.end);
    return meet_go_on(ret_said);
}

void
meet_drop(void)
{
    if (!here.begun)
        return;
    here.begun = 0;
    probe_free(&here.probe);
    free(here.roster.members);
}

int
meet_go_on(struct text *ret_said)
{
    struct probe *probe = &here.probe;
    if (probe->missing > 0)
        take_answers(probe, 0);
    if (probe->missing > 0 && now() < here.end) {
        if (now() >= probe->again)
            ask_missing(probe, here.end);
        return ANSWER_LATER;
    }
    int status = conclude(probe, &here.roster, ret_said);
    meet_drop();
    return status;
}

unsigned
meet_want(struct pollfd *ret_polls, int64_t *ret_when)
{
    unsigned n = 0;
    for (unsigned i = 0; i <= RAILS_MAX; i++)
        if (here.probe.sockets[i] >= 0)
            ret_polls[n++] = (struct pollfd){ .fd = here.probe.sockets[i], .events = POLLIN };
    *ret_when = here.probe.again;
    return n;
}
