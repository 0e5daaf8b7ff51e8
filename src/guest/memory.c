/* Memory for one thread, which keeps what it had: the C library's own allocator maps and unmaps for most of what is asked for
 * here, and a fork, which runs each piece of the kernel's code for the first time, would do little else. Pieces are powers of
 * two. */
#include "guest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALLEST 5 /* its logarithm */
#define LARGEST 31 /* likewise */
#define ARENA 18   /* mapped at once, and cut up; larger pieces are mapped each for itself */

struct piece {
    _Alignas(16) struct piece *next; /* while it is free */
    unsigned size;                   /* logarithm, with this head */
};

static struct piece *unused[LARGEST + 1];
static char *arena, *arena_end;

static unsigned
size_for(size_t count)
{
    unsigned size = SMALLEST;
    while (size <= LARGEST && (size_t)1 << size < count + sizeof(struct piece))
        size++;
    return size;
}

static void *
map(size_t count)
{
    void *there = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return there == MAP_FAILED ? NULL : there;
}

/* What is left of an arena is lost: less than one in a hundred of what was cut off. */
static struct piece *
cut(unsigned size)
{
    size_t count = (size_t)1 << size;
    if (size >= ARENA)
        return map(count);
    if ((size_t)(arena_end - arena) < count) {
        arena = map((size_t)1 << ARENA);
        arena_end = arena ? arena + ((size_t)1 << ARENA) : NULL;
    }
    struct piece *piece = (struct piece *)arena;
    arena += arena ? count : 0;
    return piece;
}

void *
malloc(size_t size)
{
    unsigned log = size <= (size_t)1 << (LARGEST - 1) ? size_for(size) : LARGEST + 1;
    struct piece *piece = log <= LARGEST ? unused[log] : NULL;
    if (piece)
        unused[log] = piece->next;
    else if (log <= LARGEST && (piece = cut(log)))
        piece->size = log;
    if (!piece)
        errno = ENOMEM;
    return piece ? piece + 1 : NULL;
}

void
free(void *ptr)
{
    if (!ptr)
        return;
    struct piece *piece = (struct piece *)ptr - 1;
    piece->next = unused[piece->size];
    unused[piece->size] = piece;
}

void *
calloc(size_t nmemb, size_t size)
{
    size_t count;
    void *memory = __builtin_mul_overflow(nmemb, size, &count) ? NULL : malloc(count);
    return memory ? memset(memory, 0, count) : NULL;
}

void *
realloc(void *ptr, size_t size)
{
    if (!ptr)
        return malloc(size);
    size_t room = ((size_t)1 << ((struct piece *)ptr - 1)->size) - sizeof(struct piece);
    if (size <= room)
        return ptr;
    void *fresh = malloc(size);
    if (!fresh)
        return NULL;
    memcpy(fresh, ptr, room);
    free(ptr);
    return fresh;
}
