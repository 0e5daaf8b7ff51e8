/* What a node does while it is moved: it writes to memory, looks at the clock in between, and sends a datagram every few
 * milliseconds, so that whoever hears it knows for how long it stood still: its own clock stands still with it. Each page that
 * it comes to must be as it was left: what a move lost is counted.
 *
 *     beat ADDRESS MIB RATE    writes to MIB of memory in turn, RATE MiB a second of it (0: as fast as it can)
 *
 * tests/harness/hear.py hears it. */
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
#define WORDS (PAGE / sizeof(uint64_t))
#define PERIOD_NS 5000000u
#define NAP_US 500
#define AT_ONCE 16 /* pages between two looks at the clock */

typedef struct Beat {
    uint64_t sent, written, wrong; /* datagrams, this one included; pages; pages that were not as they were left */
    uint64_t time, longest; /* nanoseconds of this clock: now, and the longest between two looks since the last one sent */
} Beat;

static uint64_t
now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Of pages that do not compress: a migration sends no page that is all zeros. The first word of each says how often it was
 * written to, the last one never changes. */
static uint64_t *
fill(size_t pages)
{
    uint64_t *memory = mmap(NULL, (pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        err(1, "memory");
    for (size_t i = 0; i < pages * WORDS; i++)
        memory[i] = i % WORDS == 0 ? 0 : i % WORDS == WORDS - 1 ? i / WORDS : (uint64_t)random();
    return memory;
}

static void
write_page(uint64_t *memory, size_t pages, Beat *beat)
{
    size_t at = beat->written % pages;
    uint64_t *page = memory + at * WORDS, times = beat->written / pages;
    beat->wrong += page[0] != times || page[WORDS - 1] != at;
    page[0] = times + 1;
    beat->written++;
}

int
main(int argc, char **argv)
{
    if (argc != 4)
        errx(2, "usage: beat ADDRESS MIB RATE");
    size_t pages = strtoul(argv[2], NULL, 10) * (1024 * 1024 / PAGE);
    double rate = strtod(argv[3], NULL) * (1024.0 * 1024 / PAGE) / 1e9;
    uint64_t *memory = fill(pages);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes);

    Beat beat = { .time = now() };
    uint64_t began = beat.time, next = began;
    for (;;) {
        uint64_t time = now();
        beat.longest = time - beat.time > beat.longest ? time - beat.time : beat.longest;
        beat.time = time;
        if (time >= next) {
            beat.sent++;
            sendto(fd, &beat, sizeof beat, 0, (struct sockaddr *)&to, sizeof to);
            beat.longest = 0;
            next = next + PERIOD_NS < time ? time + PERIOD_NS : next + PERIOD_NS;
        }
        if (pages == 0 || (rate > 0 && (double)beat.written >= (double)(time - began) * rate)) {
            usleep(NAP_US);
            continue;
        }
        for (unsigned i = 0; i < AT_ONCE; i++)
            write_page(memory, pages, &beat);
    }
}
