#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK "run/weft/lock"
#define RAIL_SECONDS 60

/* --- start: what must be there before anybody logs in --- */

static const char *const seed_files[] = {
    "ssh/id_ed25519", "ssh/id_ed25519.pub", "ssh/host_ed25519", "ssh/host_ed25519.pub", "munge.key",
};

/* The seed may be unmounted afterwards. */
static int
copy_seed(const char *seed)
{
    char from[512], to[128];
    size_t length;
    snprintf(from, sizeof from, "%s/weft/node", seed);
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

/* Runs on in a copy in memory: the seed is not kept busy, and /run may not allow programs. Where that does not work either, it
 * goes on as it is. */
static void
move_into_memory(void)
{
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int copy = memfd_create("weft-guest", MFD_CLOEXEC);
    struct stat status;
    off_t offset = 0;
    if (self >= 0 && copy >= 0 && fstat(self, &status) == 0) {
        while (offset < status.st_size && sendfile(copy, self, &offset, (size_t)(status.st_size - offset)) > 0)
            continue;
        if (offset == status.st_size)
            fexecve(copy, (char *const[]){ "weft-guest", "run", NULL }, (char *const[]){ "PATH=" PROGRAM_PATH, NULL });
    }
    say("going on in the seed: %s", strerror(errno));
}

static void
go_to_background(void)
{
    if (fork() != 0)
        _exit(0);
    setsid();
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
    if (chdir("/") < 0)
        say("cannot leave the current folder");
}

/* --- run: in the background --- */

/* What may take long: devices that appear late, and modules. */
static void
set_up_rest(const struct node *node)
{
    char interface[16];
    int events = uevent_open();
    for (int tries = 0; !net_up_ethernet(node) && tries < RAIL_SECONDS; tries++)
        uevent_wait(events, 1000);
    if (events >= 0)
        close(events);
    if (node->n_rails > 0)
        net_up_rails(node, RAIL_SECONDS);
    else if (net_ethernet_name(node, interface))
        rxe_add(interface);
    setup_environment(node);
}

static int
lock_file(const char *path, int flags)
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

/* The lock passes to the child, and ends with it. */
static void
set_up_rest_aside(const struct node *node)
{
    int lock = lock_file(SETUP_LOCK, LOCK_EX);
    if (fork() == 0) {
        set_up_rest(node);
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
    if (lock_file(LOCK, LOCK_EX | LOCK_NB) < 0)
        return 0; /* another one serves */
    if (!node_read(NODE_FILE, &node))
        return 1;
    protect();
    set_up_rest_aside(&node);
    struct server_options options = { .fd = port_open(), .virtio = 1, .node = &node };
    server_run(&options);
    return 0;
}

static int
start(const char *seed)
{
    struct node node;
    if (!copy_seed(seed) || !node_read(NODE_FILE, &node)) {
        say("%s holds no seed of weft's", seed);
        return 1;
    }
    net_up_loopback();
    net_up_ethernet(&node);
    setup_files(&node);
    go_to_background();
    move_into_memory();
    return run();
}

static int
serve(const char *fd, int alone)
{
    static struct node node;
    int known = node_read(NODE_FILE, &node);
    struct server_options options = { .fd = atoi(fd), .alone = alone, .node = known ? &node : NULL };
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
    if (strcmp(verb, "start") == 0 && argc == 3)
        return start(argv[2]);
    if (strcmp(verb, "run") == 0)
        return run();
    fprintf(stderr, "usage: guest start MOUNTPOINT\n       guest serve FD [ROOT [alone]]\n");
    return 2;
}
