/* A node without identity that is about to be captured: nothing is under way any more, and it holds nothing that forks must not
 * share. Whatever is in its memory is theirs together, as long as they only read it: so the cache of files is kept. */
#include "guest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define SETUP_SECONDS 60
#define WARM_FILE "etc/weft/warm" /* a path in each line */

const char *
settle_refusal(void)
{
    if (!server_options()->template)
        return "the node has an identity already";
    if (file_exists("run/cloud-init"))
        return "the image sets itself up by cloud-init, which runs once in each node";
    if (file_exists("run/systemd/system"))
        return "the image runs systemd, which keeps the machine-id of its first moments";
    return NULL;
}

/* The device behind it is another in each fork: nothing of it may stay in memory. */
static int
unmount_seed(void)
{
    char *mounts = file_read("/proc/mounts", NULL), *rest = mounts;
    int ok = 1;
    for (char *line; (line = next_line(&rest));) {
        char path[512];
        next_word(&line);
        const char *where = next_word(&line), *type = next_word(&line);
        if (!type || strcmp(type, "iso9660") != 0 || snprintf(path, sizeof path, "%s/weft/node", where) >= (int)sizeof path)
            continue;
        if (access(path, F_OK) == 0 && umount(where) < 0) {
            printf("the seed at %s cannot be unmounted\n", where);
            ok = 0;
        }
    }
    free(mounts);
    return ok;
}

/* What the image says forks will read first: they find it in the memory that they share. */
static void
warm(void)
{
    char *list = file_read(WARM_FILE, NULL), *rest = list;
    for (char *line; (line = next_line(&rest));) {
        static char bytes[65536];
        int fd = *line == '/' ? open(line, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
        while (fd >= 0 && read(fd, bytes, sizeof bytes) > 0)
            continue;
        if (fd >= 0)
            close(fd);
    }
    free(list);
}

void
settle_run(const struct question *question)
{
    int ok = lock_await(SETUP_LOCK, SETUP_SECONDS);
    if (!ok)
        printf("the node is not set up yet\n");
    if (ok && root_is_node())
        ok = unmount_seed();
    if (ok && root_is_node())
        warm();
    if (root_is_node())
        sync();
    if (ok)
        printf("settled\n");
    fflush(stdout);
    _exit(!ok);
}
