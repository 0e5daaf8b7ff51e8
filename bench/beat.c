/* What a node does while it is moved: it writes to memory, and sends a datagram every 10 ms in between, so that whoever hears
 * it from outside knows for how long it stood still. A guest's own clock stands still with it.
 *
 *     beat ADDRESS MIB RATE    writes to MIB of memory in turn, RATE MiB a second of it (0: as fast as it can)
 *
 * A datagram carries two numbers: how many were sent, and how many pages were written to. */
#include <arpa/inet.h>
#include <err.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 7777
#define PAGE 4096u
#define PERIOD 0.01
#define AT_ONCE 16 /* pages between two looks at the clock */

static double
now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Of pages that do not compress: a migration sends no page that is all zeros. */
static char *
fill(size_t pages)
{
    char *memory = mmap(NULL, pages * PAGE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        err(1, "memory");
    for (size_t i = 0; i < pages * PAGE; i += sizeof(uint64_t))
        *(uint64_t *)(memory + i) = (uint64_t)random();
    return memory;
}

int
main(int argc, char **argv)
{
    if (argc != 4)
        errx(2, "usage: beat ADDRESS MIB RATE");
    size_t pages = strtoul(argv[2], NULL, 10) * (1024 * 1024 / PAGE), at = 0;
    double rate = strtod(argv[3], NULL) * (1024.0 * 1024 / PAGE);
    char *memory = fill(pages);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes);

    uint64_t beat[2] = { 0, 0 }; /* sent, written */
    double began = now(), next = began;
    for (;;) {
        double time = now();
        if (time >= next) {
            beat[0]++;
            sendto(fd, beat, sizeof beat, 0, (struct sockaddr *)&to, sizeof to);
            next = next + PERIOD < time ? time + PERIOD : next + PERIOD;
        }
        if (pages == 0 || (rate > 0 && (double)beat[1] >= (time - began) * rate)) {
            usleep(500);
            continue;
        }
        for (unsigned i = 0; i < AT_ONCE; i++, at = (at + 1) % pages, beat[1]++)
            ++*(uint64_t *)(memory + at * PAGE);
    }
}
