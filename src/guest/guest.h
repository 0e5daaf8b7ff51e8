/* weft's program inside a node: one static program, plain C, that an image need not have.
 *
 *     guest start MOUNTPOINT [aside]    sets the node up as the seed mounted there says, and serves weftd in the background.
 *                                       Again, at any time: nothing changes that is right already, and one serves. Where the
 *                                       seed has no identity it returns when weftd has given one to the node, or to a fork of
 *                                       it: what starts afterwards never sees a node without one. aside: for an image that
 *                                       starts nothing afterwards; then it returns at once, and forks need not end it. What
 *                                       nobody needs before a session waits for one.
 *     guest session PROGRAM [ARG...]    runs it as a session's: what waited is set up first. Such an image has this program
 *                                       as /run/weft/guest, and whatever lets people in runs by it
 *     guest serve FD [ROOT [alone]]     for tests: serves this descriptor until it ends, with files below ROOT; alone: meets
 *                                       without reaching the others
 *
 * One process serves, in one thread that never blocks; sessions are its children. What a file says of itself is in its first
 * lines; this header says what they share. */
#pragma once

#include "protocol.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- text.c: texts, files, the time. Paths are relative to the root: "etc/hosts". --- */

struct text {
    char *data; /* NUL-ended, NULL while empty */
    size_t length, room;
};
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_bytes(struct text *text, const void *bytes, size_t count);
void text_free(struct text *text);

/* The node's log: where the kernel's goes, or standard error for tests. A line without its end. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Milliseconds of a clock that is never set. */
int64_t now(void);

/* Paths are below this folder from now on, unless they are absolute. 0: it cannot be opened. */
int root_set(const char *folder);
/* The root is the node's own, and not a test's: only then is anything touched but files. */
int root_is_node(void);
/* The path as programs are called by; 0: it is too long. */
int root_path(const char *path, char *ret_path, size_t size);
/* All but the standard ones and the root. */
void descriptors_close(void);

#define FILE_MAX (4 * 1024 * 1024)
/* The file's text, at most FILE_MAX bytes; NULL: it is not there or cannot be read. The caller frees it. */
char *file_read(const char *path, size_t *ret_length);
/* Likewise, of what comes on standard input until its end. */
char *input_read(void);
int file_exists(const char *path);
void file_remove(const char *path);
/* Whole or not at all; its folder is made. What is the same already is left alone. 0: it failed, and the log says why.
 * 2: nothing changed. */
int file_write(const char *path, const void *bytes, size_t count, unsigned mode);
int file_write_text(const char *path, const struct text *text, unsigned mode);
/* Puts the text between weft's marks, and leaves the rest of the file as it is. first: before the rest, else after it. */
int file_write_part(const char *path, const struct text *text, int first, unsigned mode);
/* Adds a line unless it is there; removes it. */
int file_add_line(const char *path, const char *line, unsigned mode);
int file_remove_line(const char *path, const char *line, unsigned mode);
int folder_make(const char *path, unsigned mode);

/* Two digits; six pairs of them with colons between. 0: they are none. */
int read_hex(const char *digits, uint8_t *ret_byte);
int read_mac(const char *word, uint8_t ret_mac[6]);

/* Cuts the text's next line off; NULL: there is none. Then its words. */
char *next_line(char **text);
char *next_word(char **line);

/* --- node.c: what the seed says of this node --- */

#define RAILS_MAX 8
#define LOGINS_MAX 64
#define NAME_SIZE 256

struct address {
    struct in_addr ip;
    unsigned prefix;
};

struct node {
    int template; /* it has no identity: nothing of the rest is told */
    char hostname[NAME_SIZE];
    char cluster[NAME_SIZE];
    char id[NAME_SIZE];
    char machine_id[33];
    char path[16];
    unsigned rank, slots, pkey, sl, mtu;
    int slurm;
    uint8_t mac[6];
    struct address ethernet;
    struct {
        unsigned rail;
        uint64_t guid;
        struct address address;
    } rails[RAILS_MAX];
    unsigned n_rails;
    char *logins[LOGINS_MAX]; /* public keys, borrowed from text */
    unsigned n_logins;
    char *text;
};

#define NODE_FILE "run/weft/node"
/* 0: there is no such file, or it makes no sense. */
int node_read(const char *path, struct node *ret_node);
/* Takes the text over, also when it makes no sense. */
int node_parse(const char *path, char *text, struct node *ret_node);
void node_free(struct node *node);

/* --- setup.c, users.c --- */

#define ENVIRONMENT_FILE "run/weft/environment"
#define HOSTFILE "etc/weft/hostfile"
#define KNOWN_HOSTS "etc/ssh/ssh_known_hosts"
/* What does not wait: names, limits, environment, keys. */
void setup_files(const struct node *node);
void setup_environment(const struct node *node);
void setup_machine_id(const struct node *node);
/* For everybody who has a home by now: it is done again when more may have one. */
void setup_users(const struct node *node);
/* Takes back what setup_users() gave, before the node becomes another one. */
void users_forget(const struct node *node);

/* --- net.c --- */

/* 0: there is no such interface. One that has an address is left alone. */
int net_up_ethernet(const struct node *node);
void net_up_loopback(void);
/* The name of the partition's Ethernet; 0: there is none. Its number likewise. */
int net_ethernet_name(const struct node *node, char ret_name[16]);
int net_ethernet_number(const struct node *node);
/* What does not depend on who the node is, once before it is somebody. */
void net_prepare(const struct node *before);
/* Waits until the devices of the awaited rails (a bit for each, by their order in the node) are there, or the time (of now())
 * has come; others are set up if they are there. 0: some that are awaited are not, though the image knows such. */
int net_up_rails(const struct node *node, unsigned awaited, int64_t end);
/* The rails whose devices were there at any time since the node booted: not every function is a port of InfiniBand. */
unsigned net_rails_seen(void);
/* The interface of the port with this GUID, whatever it is called; 0: there is none. */
int net_rail_name(uint64_t guid, char ret_name[16]);
#define RAIL_PORTS "run/weft/ports"
/* The ports of its rails by now, a line "RAIL GUID" each: a whole adapter is another one after a move. None: as before. */
void net_learn_ports(const struct text *ports);
/* This interface has this address. */
int net_has_address(const char *interface, struct in_addr ip);
/* Every address of the node is there. */
int net_is_up(const struct node *node);
/* Waits until an interface has this address, or the time has come. */
void net_await(struct in_addr ip, int64_t end);
/* Takes the interface of this node down, if it is there still. */
void net_down_ethernet(const struct node *node);
/* Gives the interface of the one, which is down, the hardware address of the other, unless that one has its own. */
void net_hand_over(const struct node *before, const struct node *node);
/* Waits until what was sent is acknowledged, or the time has come. Returns how many connections still wait for that. */
unsigned net_drain(int64_t end);

/* --- netlink.c --- */

struct nlmsghdr;
/* Sends messages, and waits for the kernel's verdict on the last of them: 0, or an errno. The ones before are not waited for.
 */
int netlink_tell(int protocol, const void *messages, size_t length, struct nlmsghdr *last);

/* --- route.c --- */

struct roster;
/* The address, with its network, to the interface of this number. 0, or an errno. */
int route_add_address(int interface, const struct address *address);
/* The other nodes' hardware addresses, as far as the roster tells: otherwise each node asks all others for each of them. */
void route_add_neighbours(int interface, const struct roster *roster);

/* --- rxe.c --- */

/* A few at once, NULL last. A kernel may have them built in, or not at all: whoever needs one finds out. */
void modules_load(const char *const *names);
/* Those of software RDMA, once since the node booted. */
void rxe_load(void);
int rxe_is_loaded(void);
/* From now on it is added when the first session begins, and not before. */
void rxe_defer(void);
/* Software RDMA on this interface, unless it is deferred. */
void rxe_set_up(const char *interface);
/* What was deferred, on the partition's Ethernet. */
void rxe_set_up_for_session(void);
/* It is there, or will be when somebody can use it. */
int rxe_is_offered(void);

/* --- port.c --- */

/* Waits for the port and opens it, non-blocking. */
int port_open(void);
/* A socket on which the kernel tells of devices that come; -1: it does not. */
int uevent_open(void);
void uevent_wait(int fd, int milliseconds);
/* Takes what has been told so far; 1: a network interface has come. */
int uevent_take(int fd);

/* --- devices.c: the network, which may come late or again --- */

/* Held by whoever sets the node up: its devices may be missing until then. */
#define SETUP_LOCK "run/weft/setup.lock"
/* Waits for them so long. 0: some are missing. */
int devices_set_up(const struct node *node, int seconds);
/* The same, after they were away: rails that it never had are not waited for. */
int devices_bring_back(const struct node *node, int seconds);
/* Would that take no time? */
int devices_are_at_hand(const struct node *node);
/* In a process of its own, which holds the lock; nothing happens where one does that already. */
void devices_set_up_aside(const struct node *node, int seconds);
/* An absolute path's; -1: somebody else has it. It ends with the last copy of the descriptor. */
int lock_take(const char *path, int flags);
int lock_is_free(const char *path);
/* Waits until nobody sets the node up; 0: not within so many seconds. */
int lock_await(const char *path, unsigned seconds);

/* --- exec.c --- */

#define PROGRAM_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define ARGS_MAX 1024

/* What OPEN asks for; texts are borrowed from its payload. */
struct exec_request {
    char *args[ARGS_MAX + 1], *env[ARGS_MAX + 1];
    unsigned n_args, n_env;
    const char *dir, *user;
    int tty;
    uint16_t rows, cols;
};
/* NULL, or why not. The payload must end with NUL. */
const char *exec_parse(char *payload, size_t length, struct exec_request *ret_request);

/* A child and what its standard descriptors are connected to; a terminal is both in and out, and err is -1. Non-blocking. */
struct child {
    pid_t pid;
    int in, out, err;
};
/* NULL, or why not. run: what the child does; it does not return. */
const char *child_start(int tty, void (*run)(const void *data), const void *data, struct child *ret_child);
/* NULL, or why not: no such user. */
const char *exec_start(const struct exec_request *request, struct child *ret_child);
void child_resize(const struct child *child, uint16_t rows, uint16_t cols);

/* --- sessions.c --- */

/* Frames for weftd. */
void server_send(uint32_t session, enum weft_frame_type type, const void *payload, size_t length);
int server_has_room(void);

struct pollfd;
/* At most this many entries of a poll() belong to sessions. */
#define SESSION_POLLS (3 * 2 * WEFT_SESSIONS_MAX + RAILS_MAX + 1)

/* What weftd alone asks for (protocol.h). Each runs as a child, reads its standard input, and exits; what takes no time is
 * answered without one, as a child is most of its work. */
struct question {
    int64_t time; /* as weftd knows it, microseconds since 1970; 0: it does not tell */
};
#define ANSWER_LATER (-1)

void sessions_take(const struct weft_frame *frame, uint8_t *payload);
/* Tells what to wait for, and how long at most in milliseconds; -1: until something happens. */
unsigned sessions_want(struct pollfd *ret_polls, int *ret_timeout);
/* Moves what can be moved. */
void sessions_pump(void);
void sessions_exited(pid_t pid, int status);
void sessions_hang_up(void);
/* How many have a child still. */
unsigned sessions_left(void);

/* --- server.c --- */

struct server_options {
    int fd;
    int virtio;              /* the other end may close and come back: wait. Else its end is the end. */
    int alone;               /* meet() reaches for nobody */
    const struct node *node; /* NULL: not known, and nobody is answered */
    int template;            /* … yet */
};
/* Serves until the end. */
void server_run(const struct server_options *given);
const struct server_options *server_options(void);
/* The node has become somebody. */
void server_learn(void);

/* --- roster.c: who is in the cluster (see roster.h of src/seed) --- */

#define GENERATION "run/weft/generation" /* of the roster that was written; absent: none was yet */
#define LEAF_SIZE 64
#define MEMBERS_MAX 65536

struct member {
    unsigned rank, slots;
    char name[NAME_SIZE];
    char leaf[LEAF_SIZE];
    const char *host_key;                    /* borrowed from the text; NULL: not known */
    struct in_addr addresses[RAILS_MAX + 1]; /* Ethernet, then IPoIB by rail; 0: none */
    uint8_t mac[6];                          /* zeros: not known */
};

/* A port of the fabric that this node must have. */
struct promise {
    unsigned rail, pkey;
    uint64_t guid;
    char interface[16]; /* … and its IPoIB interface, once that was found */
};

struct roster {
    unsigned long long generation;
    unsigned self;   /* rank */
    unsigned within; /* seconds to reach the others in */
    struct promise promises[RAILS_MAX];
    unsigned n_promises;
    struct member *members;
    unsigned n_members;
};
/* 0: it makes no sense. Takes the text apart. */
int roster_parse(char *text, struct roster *ret_roster);
/* This node; NULL: it is not in it. */
const struct member *roster_self(const struct roster *roster);
/* Hosts and hostfile. 0: a newer one has been written already. */
int roster_write(const struct node *node, const struct roster *roster);

/* --- fabric.c: the ports that this node was promised --- */

/* Waits until all of them are as they should be, or the time has come, and adds what each is like. 0: one is not. */
int fabric_await(struct roster *roster, int64_t end, struct text *said);

/* --- meet.c, responder.c --- */

/* The roster comes on standard input. */
void meet_run(const struct question *question) __attribute__((noreturn));
/* The same without a process of its own, where there is nothing to wait for but the others: one at a time. The input stays the
 * caller's until it has ended. */
int meet_is_at_hand(void);
int meet_here(const struct question *question, char *input, struct text *ret_said);
int meet_go_on(struct text *ret_said);
unsigned meet_want(struct pollfd *ret_polls, int64_t *ret_when);
void meet_drop(void);
/* The question and the answer are equally long, and as long as a packet of the partition may be. */
#define MEET_SIZE 1400
struct meeting {
    char magic[8];
    uint8_t nonce[8];
    uint32_t rank; /* whose answer it is, in network order */
    char padding[MEET_SIZE - 20];
};
#define MEET_ASK "weft-ask"
#define MEET_TELL "weft-tel"

/* Sockets on which the others reach this node; at most RAILS_MAX + 1. */
unsigned responder_open(const struct node *node, int *ret_fds);
void responder_answer(int fd, const struct node *node);

/* --- slurm.c --- */

/* Where it is wanted and installed. Takes its time, in a process of its own. */
void slurm_setup(const struct node *node, const struct roster *roster);
void slurm_forget(void);

/* --- fresh.c: what a node that did not boot for itself must not share with others --- */

void entropy_add(const void *bytes, size_t count);
/* Unless it is right already, but for what a message may take. */
void clock_set(int64_t microseconds);
void boot_id_renew(void);

/* --- settle.c, become.c --- */

/* Does once what becoming somebody does, in the process that serves, and leaves nothing of it: forks find folders, files and
 * memory prepared. */
void become_rehearse(void);

/* NULL, or why such a node cannot be captured. */
const char *settle_refusal(void);
void settle_run(const struct question *question) __attribute__((noreturn));
void become_run(const struct question *question) __attribute__((noreturn));
/* Whose the node is from now on, without being changed: only who was this can become another. 0: not written. */
int become_claim(const char *id);
/* The same in this process, where it takes no time: in a template. Takes the input apart; 0: it is somebody. */
int become_is_at_hand(void);
int become_here(const struct question *question, char *input, struct text *ret_said);
#define BECOME_FOLDER "etc/weft/become.d"

/* --- hooks.c, quiesce.c --- */

#define HOOKS_MAX 64
struct hooks {
    char *names[HOOKS_MAX]; /* sorted */
    unsigned n;
};
/* The programs of this folder. */
void hooks_list(const char *folder, struct hooks *ret_hooks);
void hooks_free(struct hooks *hooks);
/* Runs one with this word as its argument. 0: it failed, or the time has come; ret_why: in a line, the caller frees it. */
int hook_run(const char *folder, const char *name, const char *word, int64_t end, char **ret_why);

void quiesce_run(const struct question *question) __attribute__((noreturn));
void resume_run(const struct question *question) __attribute__((noreturn));
