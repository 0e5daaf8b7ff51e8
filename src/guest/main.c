#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK "run/weft/lock"
#define SESSION_PROGRAM "run/weft/guest"
#define DEVICE_SECONDS 60

/* --- start: what must be there before anybody logs in --- */

static const char *const seed_files[] = {
    "ssh/id_ed25519", "ssh/id_ed25519.pub", "ssh/host_ed25519", "ssh/host_ed25519.pub", "ssh/host_dropbear", "munge.key",
};

/* A template's seed says nothing that a node which has become somebody does not know better. */
static int
is_known(const char *seed_node)
{
    struct node told, known;
    int both = node_read(seed_node, &told) && node_read(NODE_FILE, &known);
    int better = both && told.template && !known.template;
    node_free(&told);
    if (both)
        node_free(&known);
    return better;
}

/* The seed may be unmounted afterwards. */
static int
copy_seed(const char *seed)
{
    char from[512], to[128];
    size_t length;
    snprintf(from, sizeof from, "%s/weft/node", seed);
    if (is_known(from))
        return 1;
    char *content = file_read(from, &length);
    int ok = content && file_write(NODE_FILE, content, length, 0644);
    free(content);
    folder_make("run/weft/files", 0700);
    for (size_t i = 0; i < sizeof seed_files / sizeof *seed_files; i++) {
        snprintf(from, sizeof from, "%s/weft/files/%s", seed, seed_files[i]);
        snprintf(to, sizeof to, "run/weft/files/%s", seed_files[i]);
        content = file_read(from, &length);
        if (content)
            file_write(to, content, length, 0600);
        free(content);
    }
    return ok;
}

/* Runs on in a copy in memory, as this verb: the seed is not kept busy, and /run may not allow programs. Where that does not
 * work either, it goes on as it is. */
static void
move_into_memory(const char *verb)
{
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int copy = memfd_create("weft-guest", MFD_CLOEXEC);
    struct stat status;
    off_t offset = 0;
    if (self >= 0 && copy >= 0 && fstat(self, &status) == 0) {
        while (offset < status.st_size && sendfile(copy, self, &offset, (size_t)(status.st_size - offset)) > 0)
            continue;
        if (offset == status.st_size)
            fexecve(copy, (char *const[]){ "weft-guest", (char *)verb, NULL }, (char *const[]){ "PATH=" PROGRAM_PATH, NULL });
    }
    say("going on in the seed: %s", strerror(errno));
}

/* 0: in the background. Else what the foreground ends with. */
static pid_t
go_to_background(void)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    setsid();
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
    if (chdir("/") < 0)
        say("cannot leave the current folder");
    return 0;
}

/* --- await: until the node has an identity --- */

/* The file is replaced as a whole, and told of before it is looked at: nothing is missed, and nothing is done meanwhile. */
static int
await(void)
{
    char news[4096];
    struct node node;
    int fd = inotify_init1(IN_CLOEXEC), known = 0, ok = 1;
    if (fd < 0 || inotify_add_watch(fd, "/run/weft", IN_MOVED_TO) < 0)
        return 1;
    while (!known && ok) {
        known = node_read(NODE_FILE, &node) && !node.template;
        node_free(&node);
        ok = known || read(fd, news, sizeof news) > 0 || errno == EINTR;
    }
    close(fd);
    return !known;
}

/* --- run: in the background --- */

/* So that forks need not. */
static void
load_modules_aside(void)
{
    int lock = lock_take(SETUP_LOCK, LOCK_EX | LOCK_NB);
    if (fork() == 0) {
        rxe_load();
        _exit(0);
    }
    if (lock >= 0)
        close(lock);
}

static void
protect(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "-1000", 5) < 0)
        say("not protected when memory lacks");
    if (fd >= 0)
        close(fd);
    prctl(PR_SET_NAME, "weft-guest");
}

static int
run(void)
{
    static struct node node;
    if (lock_take(LOCK, LOCK_EX | LOCK_NB) < 0)
        return 0; /* another one serves */
    if (!node_read(NODE_FILE, &node))
        return 1;
    protect();
    if (node.template)
        load_modules_aside();
    else
        devices_set_up_aside(&node, DEVICE_SECONDS);
    struct server_options options = {
        .fd = port_open(), .virtio = 1, .node = node.template ? NULL : &node, .template = node.template
    };
    server_run(&options);
    return 0;
}

/* An image that lets sessions in by this program needs nothing before the first one. */
static void
offer_sessions(const char *seed)
{
    char from[512];
    size_t length;
    snprintf(from, sizeof from, "%s/weft/guest", seed);
    char *program = file_read(from, &length);
    if (program && file_write(SESSION_PROGRAM, program, length, 0755))
        rxe_defer();
    free(program);
}

/* Runs a program as a session's. */
static int
session(char **argv)
{
    rxe_set_up_for_session();
    execvp(argv[0], argv);
    int error = errno;
    say("%s: %s", argv[0], strerror(error));
    return error == ENOENT ? 127 : 126;
}

static int
start(const char *seed, int aside)
{
    struct node node;
    if (!copy_seed(seed) || !node_read(NODE_FILE, &node)) {
        say("%s holds no seed of weft's", seed);
        return 1;
    }
    net_up_loopback();
    if (aside)
        offer_sessions(seed);
    if (!node.template) {
        net_up_ethernet(&node);
        setup_files(&node);
    }
    if (go_to_background() == 0) {
        move_into_memory("run");
        return run();
    }
    if (!node.template || aside)
        return 0;
    move_into_memory("await");
    return await();
}

static int
serve(const char *fd, int alone)
{
    static struct node node;
    int known = node_read(NODE_FILE, &node);
    struct server_options options = {
        .fd = atoi(fd), .alone = alone, .node = known && !node.template ? &node : NULL, .template = known && node.template
    };
    fcntl(options.fd, F_SETFD, FD_CLOEXEC);
    fcntl(options.fd, F_SETFL, O_NONBLOCK);
    server_run(&options);
    return 0;
}

int
main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    int serves = strcmp(verb, "serve") == 0 && argc > 2;
    if (!root_set(serves && argc > 3 ? argv[3] : "/"))
        return 1;
    if (serves)
        return serve(argv[2], argc > 4 && strcmp(argv[4], "alone") == 0);
    int aside = argc == 4 && strcmp(argv[3], "aside") == 0;
    if (strcmp(verb, "start") == 0 && (argc == 3 || aside))
        return start(argv[2], aside);
    if (strcmp(verb, "session") == 0 && argc > 2)
        return session(argv + 2);
    if (strcmp(verb, "run") == 0)
        return run();
    if (strcmp(verb, "await") == 0)
        return await();
    fprintf(stderr, "usage: guest start MOUNTPOINT [aside]\n       guest session PROGRAM [ARGUMENT...]\n       guest serve FD "
                    "[ROOT [alone]]\n");
    return 2;
}
