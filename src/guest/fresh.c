#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define POOL_MAX 512           /* bytes at a time */
#define CLOCK_TOLERANCE 100000 /* microseconds */
#define BOOT_ID "run/weft/boot_id"
#define KERNEL_BOOT_ID "/proc/sys/kernel/random/boot_id"

static void
mix(int fd, const uint8_t *bytes, size_t count)
{
    struct {
        struct rand_pool_info info;
        uint8_t bytes[POOL_MAX];
    } pool;
    for (size_t n; count > 0; bytes += n, count -= n) {
        n = count < POOL_MAX ? count : POOL_MAX;
        pool.info.entropy_count = (int)n * 8;
        pool.info.buf_size = (int)n;
        memcpy(pool.info.buf, bytes, n);
        if (ioctl(fd, RNDADDENTROPY, &pool) < 0)
            say("no fresh entropy: %s", strerror(errno));
    }
    explicit_bzero(&pool, sizeof pool);
}

/* What the host's own generator has, if it is at hand without waiting. */
static void
mix_device(int fd)
{
    uint8_t bytes[64];
    int device = open("/dev/hwrng", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = device >= 0 ? read(device, bytes, sizeof bytes) : -1;
    if (n > 0)
        mix(fd, bytes, (size_t)n);
    if (device >= 0)
        close(device);
}

/* The pool alone would be used at the next reseeding, some minutes later: until then all forks would draw the same. */
void
entropy_add(const void *bytes, size_t count)
{
    int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        say("no fresh entropy: %s", strerror(errno));
        return;
    }
    mix(fd, bytes, count);
    mix_device(fd);
    if (ioctl(fd, RNDRESEEDCRNG) < 0)
        say("random numbers are not drawn anew: %s", strerror(errno));
    close(fd);
}

void
clock_set(int64_t microseconds)
{
    struct timespec time;
    if (microseconds <= 0 || clock_gettime(CLOCK_REALTIME, &time) < 0)
        return;
    int64_t here = (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
    if (llabs(here - microseconds) < CLOCK_TOLERANCE)
        return;
    time = (struct timespec){ .tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000 };
    if (clock_settime(CLOCK_REALTIME, &time) < 0)
        say("the clock cannot be set: %s", strerror(errno));
}

/* In place, as all are equally long: it may cover the kernel's own already, as in a fork of a template or a copy of one. */
static int
write_boot_id(const struct text *text)
{
    int fd = open("/" BOOT_ID, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    int ok = fd >= 0 && write(fd, text->data, text->length) == (ssize_t)text->length;
    if (fd >= 0)
        close(fd);
    return ok;
}

static int
shows_boot_id(const struct text *text)
{
    char *shown = file_read(KERNEL_BOOT_ID, NULL);
    int same = shown && strcmp(shown, text->data) == 0;
    free(shown);
    return same;
}

/* The kernel draws it once, and programs take two nodes with the same one for one machine: UCX would look for the other's
 * shared memory. It cannot be changed, but covered. */
void
boot_id_renew(void)
{
    static int covered;
    uint8_t b[16];
    struct text text = { 0 };
    if (getrandom(b, sizeof b, 0) != sizeof b)
        return;
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    for (unsigned i = 0; i < sizeof b; i++)
        text_add(&text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
    text_add(&text, "\n");
    int ok = write_boot_id(&text);
    covered = covered || shows_boot_id(&text) || mount("/" BOOT_ID, KERNEL_BOOT_ID, NULL, MS_BIND, NULL) == 0;
    if (!ok || !covered)
        say("the boot id is that of the template: %s", strerror(errno));
    text_free(&text);
}
