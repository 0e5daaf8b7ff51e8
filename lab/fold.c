/* libweftfold.so: preloaded into the libvirtd of a lab host and its QEMUs, and nothing else. A lab host describes processors,
 * NUMA nodes and huge pages that the machine does not have; libvirt shall run the same domains there as in production. So
 *
 * - a pin to described processors lets the thread run on all that there really are,
 * - a policy for described NUMA nodes is accepted and does nothing,
 * - the tmpfs on /dev/hugepages says that it is a hugetlbfs with pages of 2M, which are not allocated before they are used.
 *
 * What the host does not describe is refused as the kernel would. The description is read from the host's /sys. An emulated
 * host (lab/metal) has huge pages and NUMA nodes of its own: there only the first of these holds. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define HUGEPAGES "/dev/hugepages"
#define HUGEPAGE_SIZE (2L << 20)
#define NODES_MAX 1024 /* as the kernel's */

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define EXPORT __attribute__((visibility("default")))

static cpu_set_t real_cpus;
static size_t described_cpus;
static size_t described_nodes;
static bool has_memory; /* real huge pages on real nodes */

static long (*real_syscall)(long number, ...);
static int (*real_statfs64)(const char *path, struct statfs64 *ret);
static int (*real_fstatfs64)(int fd, struct statfs64 *ret);
static int (*real_madvise)(void *address, size_t length, int advice);
static void *(*real_mmap64)(void *address, size_t length, int protection, int flags, int fd, off64_t offset);

/* How many there are in a file such as "0-31". */
static size_t
read_count(const char *path)
{
    char text[64] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        abort();
    close(fd);
    const char *last = strrchr(text, '-');
    return strtoul(last ? last + 1 : text, NULL, 10) + 1;
}

static bool
is_tmpfs(const char *path)
{
    struct statfs64 fs;
    return real_statfs64(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static void
read_all(void)
{
    real_syscall = REAL(syscall);
    real_statfs64 = REAL(statfs64);
    real_fstatfs64 = REAL(fstatfs64);
    real_madvise = REAL(madvise);
    real_mmap64 = REAL(mmap64);
    real_syscall(SYS_sched_getaffinity, 0, sizeof real_cpus, &real_cpus);
    described_cpus = read_count("/sys/devices/system/cpu/present");
    has_memory = !is_tmpfs(HUGEPAGES);
    described_nodes = read_count("/sys/devices/system/node/online");
}

/* Not a constructor: those of other libraries, such as libnuma's, may come before it. */
static void
know(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_all);
}

/* --- processors --- */

static bool
any_bit(const unsigned char *mask, size_t bits)
{
    for (size_t i = 0; i < bits; i++)
        if (mask[i / 8] & 1u << i % 8)
            return true;
    return false;
}

static size_t
smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* As the system call: 0, or -1 and errno. */
static long
set_affinity(pid_t pid, size_t size, const void *mask)
{
    know();
    if (!any_bit(mask, smaller(size * 8, described_cpus))) {
        errno = EINVAL;
        return -1;
    }
    return real_syscall(SYS_sched_setaffinity, pid, sizeof real_cpus, &real_cpus);
}

/* As the system call: the number of bytes that the mask takes. */
static long
get_affinity(pid_t pid, size_t size, void *mask)
{
    know();
    cpu_set_t ignored;
    if (real_syscall(SYS_sched_getaffinity, pid, sizeof ignored, &ignored) < 0)
        return -1;
    size_t bytes = (described_cpus + 63) / 64 * 8;
    if (size < bytes) {
        errno = EINVAL;
        return -1;
    }
    memset(mask, 0, bytes);
    for (size_t i = 0; i < described_cpus; i++)
        ((unsigned char *)mask)[i / 8] |= 1u << i % 8;
    return (long)bytes;
}

EXPORT int
sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
    return (int)set_affinity(pid, size, mask);
}

EXPORT int
sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask)
{
    long bytes = get_affinity(pid, size, mask);
    if (bytes < 0)
        return -1;
    memset((char *)mask + bytes, 0, size - (size_t)bytes);
    return 0;
}

EXPORT int
pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *mask)
{
    know();
    return any_bit((const void *)mask, smaller(size * 8, described_cpus)) ? 0 : EINVAL;
}

EXPORT int
pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *mask)
{
    return sched_getaffinity(0, size, mask) == 0 ? 0 : errno;
}

/* --- NUMA nodes --- */

/* A policy for no node at all is the kernel's own matter. */
static bool
names_nodes(const void *mask, size_t bits)
{
    return !has_memory && mask && bits > 0 && any_bit(mask, smaller(bits, NODES_MAX));
}

static long
accept_nodes(const void *mask, size_t bits)
{
    if (any_bit(mask, smaller(bits, described_nodes)))
        return 0;
    errno = EINVAL;
    return -1;
}

/* libnuma makes all its system calls through here. */
EXPORT long
syscall(long number, ...)
{
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (size_t i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    know();

    switch (number) {
    case SYS_sched_setaffinity:
        return set_affinity((pid_t)a[0], (size_t)a[1], (const void *)a[2]);
    case SYS_sched_getaffinity:
        return get_affinity((pid_t)a[0], (size_t)a[1], (void *)a[2]);
    case SYS_set_mempolicy:
        if (names_nodes((const void *)a[1], (size_t)a[2]))
            return accept_nodes((const void *)a[1], (size_t)a[2]);
        break;
    case SYS_mbind:
        if (names_nodes((const void *)a[3], (size_t)a[4]))
            return accept_nodes((const void *)a[3], (size_t)a[4]);
        break;
    default:
        break;
    }
    return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* --- huge pages --- */

static bool
is_huge(const struct stat *file)
{
    struct stat huge;
    return stat(HUGEPAGES, &huge) == 0 && huge.st_dev == file->st_dev;
}

static void
pretend_hugetlbfs(const struct stat *file, struct statfs64 *fs)
{
    if (fs->f_type != TMPFS_MAGIC || !is_huge(file))
        return;
    unsigned long scale = (unsigned long)(HUGEPAGE_SIZE / fs->f_bsize);
    fs->f_type = HUGETLBFS_MAGIC;
    fs->f_bsize = fs->f_frsize = HUGEPAGE_SIZE;
    fs->f_blocks /= scale;
    fs->f_bfree /= scale;
    fs->f_bavail /= scale;
}

EXPORT int
statfs64(const char *path, struct statfs64 *ret)
{
    struct stat file;
    know();
    if (real_statfs64(path, ret) < 0)
        return -1;
    if (stat(path, &file) == 0)
        pretend_hugetlbfs(&file, ret);
    return 0;
}

EXPORT int
fstatfs64(int fd, struct statfs64 *ret)
{
    struct stat file;
    know();
    if (real_fstatfs64(fd, ret) < 0)
        return -1;
    if (fstat(fd, &file) == 0)
        pretend_hugetlbfs(&file, ret);
    return 0;
}

/* Nor are there large pages for what QEMU translates: nodes of a lab run little, and each would clear 2M for each piece of
 * that. */
EXPORT int
madvise(void *address, size_t length, int advice)
{
    know();
    bool skip = !has_memory && (advice == MADV_POPULATE_WRITE || advice == MADV_HUGEPAGE);
    return skip ? 0 : real_madvise(address, length, advice);
}

/* A private page of a tmpfs would be there twice, in the file and as the copy. A file without a name has no other reader, so
 * that sharing it makes no difference. */
EXPORT void *
mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
    struct stat file;
    know();
    if (!has_memory && fd >= 0 && flags & MAP_PRIVATE && fstat(fd, &file) == 0 && file.st_nlink == 0 && is_huge(&file))
        flags = (flags & ~MAP_PRIVATE) | MAP_SHARED;
    return real_mmap64(address, length, protection, flags, fd, offset);
}
