#include "own.h"

#include "errors.h"
#include "hook.h"
#include "memory-files.h"
#include "node.h"
#include "sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SMALL_PAGE 4096
/* Bits of /proc/PID/pagemap. */
#define PRESENT (1ULL << 63)
#define OF_FILE (1ULL << 61)

/* A mapping, as /proc/PID/smaps has it. */
typedef struct Mapping {
    guint64 start, end;
    gboolean ours; /* of a memory to fork from */
    guint64 page;  /* bytes */
    guint64 anonymous;
} Mapping;

/* What is not the file's is its own. Huge pages are counted in no line of smaps that tells one from the other. */
static guint64
count_huge(int pagemap, const Mapping *mapping)
{
    guint64 own = 0;
    for (guint64 at = mapping->start; at < mapping->end; at += mapping->page) {
        guint64 entry = 0;
        gssize n = pread(pagemap, &entry, sizeof entry, (off_t)(at / SMALL_PAGE * sizeof entry));
        if (n == sizeof entry && (entry & PRESENT) && !(entry & OF_FILE))
            own += mapping->page;
    }
    return own;
}

static guint64
count(int pagemap, const Mapping *mapping)
{
    if (!mapping->ours)
        return 0;
    return mapping->page > SMALL_PAGE ? count_huge(pagemap, mapping) : mapping->anonymous;
}

/* Files of memory to fork from. A mapping does not tell their names any more: see memory.c. */
typedef struct FileId {
    guint64 device, inode;
} FileId;

static GArray *
list_files(const WeftHook *hook)
{
    GArray *files = g_array_new(FALSE, FALSE, sizeof(FileId));
    g_autoptr(GPtrArray) paths = weft_memory_list(hook);
    for (guint i = 0; i < paths->len; i++) {
        struct stat info;
        if (stat(paths->pdata[i], &info) < 0)
            continue;
        const FileId file = { info.st_dev, info.st_ino };
        g_array_append_val(files, file);
    }
    return files;
}

static gboolean
contains(const GArray *files, FileId file)
{
    for (guint i = 0; i < files->len; i++) {
        const FileId *other = &g_array_index(files, FileId, i);
        if (other->device == file.device && other->inode == file.inode)
            return TRUE;
    }
    return FALSE;
}

/* TRUE: the line begins another mapping. */
static gboolean
read_line(const char *line, const GArray *files, Mapping *mapping)
{
    guint64 start, end, inode, kib;
    unsigned major, minor;
    if (sscanf(line, "%" G_GINT64_MODIFIER "x-%" G_GINT64_MODIFIER "x %*s %*s %x:%x %" G_GINT64_MODIFIER "u", &start, &end,
               &major, &minor, &inode) == 5) {
        *mapping = (Mapping){ start, end, contains(files, (FileId){ makedev(major, minor), inode }), SMALL_PAGE, 0 };
        return TRUE;
    }
    if (sscanf(line, "KernelPageSize: %" G_GINT64_MODIFIER "u kB", &kib) == 1)
        mapping->page = kib * 1024;
    else if (sscanf(line, "Anonymous: %" G_GINT64_MODIFIER "u kB", &kib) == 1)
        mapping->anonymous = kib * 1024;
    return FALSE;
}

static guint64
count_all(FILE *smaps, int pagemap, const GArray *files)
{
    char line[4096];
    Mapping mapping = { 0 }, next = { 0 };
    guint64 own = 0;
    while (fgets(line, sizeof line, smaps)) {
        if (!read_line(line, files, &next)) {
            mapping = next;
            continue;
        }
        own += count(pagemap, &mapping);
        mapping = next;
    }
    return own + count(pagemap, &mapping);
}

gboolean
weft_own_count(const WeftHook *hook, const char *folder, guint64 *ret_bytes, GError **error)
{
    g_autofree char *smaps_path = g_build_filename(folder, "smaps", NULL);
    g_autofree char *pagemap_path = g_build_filename(folder, "pagemap", NULL);
    FILE *smaps = fopen(smaps_path, "re");
    int pagemap = open(pagemap_path, O_RDONLY | O_CLOEXEC);
    gboolean ok = smaps && pagemap >= 0;
    g_autoptr(GArray) files = list_files(hook);
    if (ok)
        *ret_bytes = count_all(smaps, pagemap, files);
    else
        weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot read the memory of %s: %s", folder, g_strerror(errno));
    if (smaps)
        fclose(smaps);
    if (pagemap >= 0)
        close(pagemap);
    return ok;
}

/* "weft-own-<node id>-<anything>" */
gboolean
weft_own_tell(const WeftHook *hook, const char *name, const char *xml, GError **error)
{
    const char *id = name + strlen(WEFT_NETWORK_OWN), *end = strrchr(id, '-');
    g_autofree char *domain = g_strdup_printf(WEFT_DOMAIN_PREFIX "%.*s", end ? (int)(end - id) : 0, id);
    g_autofree char *file = weft_sysfs_path(hook, "/run/libvirt/qemu/%s.pid", domain);
    gint64 pid = weft_sysfs_number(file, 0);
    if (pid <= 0)
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "there is no domain %s on this host", domain);
    g_autofree char *folder = g_strdup_printf("/proc/%" G_GINT64_FORMAT, pid);
    guint64 bytes;
    return weft_own_count(hook, folder, &bytes, error) &&
           weft_error_refuse(error, WEFT_ERROR_FAILED, "own %" G_GUINT64_FORMAT, bytes);
}
