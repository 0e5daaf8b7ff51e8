/* Counts calls of malloc and its kin by standing in for them. The sanitizers do so themselves: beside them nothing is counted.
 */
#include "schedule-bench.h"

#include <errno.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

#if defined(SANITIZED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

guint64
bench_allocations(void)
{
    return G_MAXUINT64;
}

#else

/* glibc's own, under the names that it keeps for this. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static guint64 calls;

void *
malloc(size_t size)
{
    calls++;
    return __libc_malloc(size);
}

void *
calloc(size_t nmemb, size_t size)
{
    calls++;
    return __libc_calloc(nmemb, size);
}

void *
realloc(void *ptr, size_t size)
{
    calls++;
    return __libc_realloc(ptr, size);
}

int
posix_memalign(void **memptr, size_t alignment, size_t size)
{
    calls++;
    *memptr = __libc_memalign(alignment, size);
    return *memptr ? 0 : ENOMEM;
}

guint64
bench_allocations(void)
{
    return calls;
}

#endif
