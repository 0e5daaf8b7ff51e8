/* A folder whose disk fails when a test says so, and which remembers what a power cut could have left of it.
 *
 *     faultfs REAL MOUNT LOG RULES
 *
 * shows the folder REAL at MOUNT, in the foreground until it is unmounted. What changes it is written to LOG, in order (disk.py
 * reads it):
 *
 *     create PATH FILE | write FILE OFFSET LENGTH + bytes | truncate FILE SIZE | sync FILE
 *     rename PATH PATH | link PATH PATH | unlink PATH | mkdir PATH | rmdir PATH | sync-folder PATH | cut
 *
 * a line each, fields separated by tabs. FILE numbers a file for as long as it lives, whatever its name; "file PATH FILE"
 * introduces one that was there before. RULES is a file that may come and go, a rule in each line; a change of it takes effect
 * with the next call:
 *
 *     fail KIND N ERRNO     the Nth call from now of that kind (write, sync, name, any) fails with that number, once
 *     lie                   syncs succeed, and nothing is synced
 *     full                  every call that needs room fails: ENOSPC
 *     cut N                 the power goes before the Nth changing call from now: who makes it is killed, nothing changes any
 * more
 *
 * No rule is for the calls of the process that started it. Files that end in "-shm" are SQLite's shared memory, which it
 * rebuilds: they are neither logged nor failed. */
#define FUSE_USE_VERSION 31

#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum { CALL_WRITE, CALL_SYNC, CALL_NAME, CALLS } CallKind;

static const char *const kinds[] = { "write", "sync", "name", "any" };

typedef struct Rules {
    ino_t read; /* the file that was read: each change is another one */
    guint fail_in[CALLS + 1];
    int fail_with[CALLS + 1];
    guint cut_in;
    gboolean full, lie;
} Rules;

static struct {
    pid_t tester; /* who started this: no rule is for its calls */
    const char *real, *rules_path;
    FILE *log;
    GHashTable *files; /* path to number */
    guint last_file;
    Rules rules;
    gboolean cut;
} disk;

/* A file that somebody has open; its name may be gone. */
typedef struct Handle {
    int fd;
    guint file; /* 0: private */
} Handle;

static Handle *
handle(const struct fuse_file_info *info)
{
    return (Handle *)(uintptr_t)info->fh; /* NOLINT(performance-no-int-to-ptr): libfuse has no other place for it */
}

static char *
real_path(const char *path)
{
    return g_strconcat(disk.real, path, NULL);
}

static gboolean
is_private(const char *path)
{
    return g_str_has_suffix(path, "-shm");
}

static void
read_rules(void)
{
    struct stat st;
    ino_t now = stat(disk.rules_path, &st) == 0 ? st.st_ino : 0;
    if (now == disk.rules.read)
        return;
    disk.rules = (Rules){ .read = now };
    g_autofree char *text = NULL;
    if (!g_file_get_contents(disk.rules_path, &text, NULL, NULL))
        return;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (guint i = 0; lines[i]; i++) {
        char kind[16];
        guint n = 0;
        int number = 0;
        if (sscanf(lines[i], "fail %15s %u %d", kind, &n, &number) == 3) {
            for (guint k = 0; k < G_N_ELEMENTS(kinds); k++)
                if (g_str_equal(kinds[k], kind)) {
                    disk.rules.fail_in[k] = n;
                    disk.rules.fail_with[k] = number;
                }
        } else if (sscanf(lines[i], "cut %u", &n) == 1)
            disk.rules.cut_in = n;
        else if (g_str_equal(lines[i], "full"))
            disk.rules.full = TRUE;
        else if (g_str_equal(lines[i], "lie"))
            disk.rules.lie = TRUE;
    }
}

/* Whether it is this call's turn. */
static gboolean
counts_down(guint *rest)
{
    return *rest > 0 && --*rest == 0;
}

/* The process of the thread that makes the call; 0: the kernel itself. */
static pid_t
caller(void)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/status", fuse_get_context()->pid);
    g_autofree char *text = NULL;
    if (!g_file_get_contents(path, &text, NULL, NULL))
        return 0;
    const char *line = strstr(text, "\nTgid:");
    return line ? (pid_t)g_ascii_strtoll(line + strlen("\nTgid:"), NULL, 10) : 0;
}

/* 0, or with which number a call that changes something is to fail. */
static int
meet_rules(CallKind kind, gboolean needs_room)
{
    if (disk.cut)
        return EIO;
    pid_t who = caller();
    if (who == disk.tester)
        return 0;
    read_rules();
    if (counts_down(&disk.rules.cut_in)) {
        disk.cut = TRUE;
        fputs("cut\n", disk.log);
        fflush(disk.log);
        if (who > 0)
            kill(who, SIGKILL);
        return EIO;
    }
    int failure = counts_down(&disk.rules.fail_in[kind]) ? disk.rules.fail_with[kind] : 0;
    if (counts_down(&disk.rules.fail_in[CALLS]))
        failure = disk.rules.fail_with[CALLS];
    return failure ? failure : disk.rules.full && needs_room ? ENOSPC : 0;
}

static guint
file_number(const char *path)
{
    gpointer number = g_hash_table_lookup(disk.files, path);
    if (!number) {
        number = GUINT_TO_POINTER(++disk.last_file);
        g_hash_table_insert(disk.files, g_strdup(path), number);
        fprintf(disk.log, "file\t%s\t%u\n", path, disk.last_file);
    }
    return GPOINTER_TO_UINT(number);
}

static int
result(int value)
{
    return value < 0 ? -errno : 0;
}

/* --- what only looks --- */

static int
fs_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
    g_autofree char *real = real_path(path);
    return info ? result(fstat(handle(info)->fd, st)) : result(lstat(real, st));
}

static int
fs_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *info,
           enum fuse_readdir_flags flags)
{
    (void)offset, (void)info, (void)flags;
    g_autofree char *real = real_path(path);
    GDir *folder = g_dir_open(real, 0, NULL);
    if (!folder)
        return -ENOENT;
    fill(buffer, ".", NULL, 0, 0);
    fill(buffer, "..", NULL, 0, 0);
    for (const char *name; (name = g_dir_read_name(folder));)
        fill(buffer, name, NULL, 0, 0);
    g_dir_close(folder);
    return 0;
}

static int
fs_read(const char *path, char *buffer, size_t size, off_t offset, struct fuse_file_info *info)
{
    (void)path;
    ssize_t got = pread(handle(info)->fd, buffer, size, offset);
    return got < 0 ? -errno : (int)got;
}

static int
fs_statfs(const char *path, struct statvfs *st)
{
    g_autofree char *real = real_path(path);
    if (statvfs(real, st) < 0)
        return -errno;
    read_rules();
    if (disk.rules.full)
        st->f_bfree = st->f_bavail = 0;
    return 0;
}

static int
fs_release(const char *path, struct fuse_file_info *info)
{
    (void)path;
    int got = result(close(handle(info)->fd));
    g_free(handle(info));
    return got;
}

/* --- what changes files --- */

static int
truncate_file(const Handle *file, off_t size)
{
    if (!file->file)
        return result(ftruncate(file->fd, size));
    int failure = meet_rules(CALL_WRITE, FALSE);
    int got = failure ? -failure : result(ftruncate(file->fd, size));
    if (got == 0)
        fprintf(disk.log, "truncate\t%u\t%lld\n", file->file, (long long)size);
    return got;
}

static int
open_file(const char *path, int flags, Handle *ret_file)
{
    g_autofree char *real = real_path(path);
    ret_file->fd = open(real, (flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_APPEND)) | O_CLOEXEC);
    if (ret_file->fd < 0)
        return -errno;
    ret_file->file = is_private(path) ? 0 : file_number(path);
    return 0;
}

static int
fs_truncate(const char *path, off_t size, struct fuse_file_info *info)
{
    if (info)
        return truncate_file(handle(info), size);
    Handle file = { -1, 0 };
    int got = open_file(path, O_WRONLY, &file);
    if (got < 0)
        return got;
    got = truncate_file(&file, size);
    close(file.fd);
    return got;
}

static int
fs_open(const char *path, struct fuse_file_info *info)
{
    Handle file = { -1, 0 };
    int got = open_file(path, info->flags, &file);
    if (got < 0)
        return got;
    got = info->flags & O_TRUNC ? truncate_file(&file, 0) : 0;
    if (got < 0)
        close(file.fd);
    else
        info->fh = (uintptr_t)g_memdup2(&file, sizeof file);
    return got;
}

static int
fs_write(const char *path, const char *data, size_t size, off_t offset, struct fuse_file_info *info)
{
    (void)path;
    const Handle *file = handle(info);
    int failure = file->file ? meet_rules(CALL_WRITE, TRUE) : 0;
    ssize_t got = failure ? -failure : pwrite(file->fd, data, size, offset);
    if (!failure && got < 0)
        got = -errno;
    if (got > 0 && file->file) {
        fprintf(disk.log, "write\t%u\t%lld\t%zd\n", file->file, (long long)offset, got);
        fwrite(data, 1, (size_t)got, disk.log);
    }
    return (int)got;
}

/* What a power cut can leave of it is how long the file is. */
static int
fs_fallocate(const char *path, int mode, off_t offset, off_t length, struct fuse_file_info *info)
{
    (void)path;
    struct stat st;
    const Handle *file = handle(info);
    long long end = (long long)offset + length;
    int failure = mode ? EOPNOTSUPP : file->file ? meet_rules(CALL_WRITE, TRUE) : 0;
    if (!failure && fstat(file->fd, &st) < 0)
        failure = errno;
    if (!failure)
        failure = posix_fallocate(file->fd, offset, length);
    if (!failure && file->file && st.st_size < end)
        fprintf(disk.log, "truncate\t%u\t%lld\n", file->file, end);
    return -failure;
}

static int
fs_fsync(const char *path, int data_only, struct fuse_file_info *info)
{
    (void)path, (void)data_only;
    if (!handle(info)->file)
        return 0;
    int failure = meet_rules(CALL_SYNC, FALSE);
    if (!failure && !disk.rules.lie)
        fprintf(disk.log, "sync\t%u\n", handle(info)->file);
    return -failure;
}

static int
fs_fsyncdir(const char *path, int data_only, struct fuse_file_info *info)
{
    (void)data_only, (void)info;
    int failure = meet_rules(CALL_SYNC, FALSE);
    if (!failure && !disk.rules.lie)
        fprintf(disk.log, "sync-folder\t%s\n", path);
    return -failure;
}

/* --- what changes names --- */

static int
fs_create(const char *path, mode_t mode, struct fuse_file_info *info)
{
    g_autofree char *real = real_path(path);
    gboolean private = is_private(path);
    int failure = private ? 0 : meet_rules(CALL_NAME, TRUE);
    int fd = failure ? -1 : open(real, (info->flags & ~O_APPEND) | O_CREAT | O_CLOEXEC, mode);
    int got = failure ? -failure : fd < 0 ? -errno : 0;
    Handle file = { fd, 0 };
    if (got == 0 && !private) {
        file.file = ++disk.last_file;
        g_hash_table_insert(disk.files, g_strdup(path), GUINT_TO_POINTER(file.file));
        fprintf(disk.log, "create\t%s\t%u\n", path, file.file);
    }
    if (got == 0)
        info->fh = (uintptr_t)g_memdup2(&file, sizeof file);
    return got;
}

/* One of rename, link: what gives a file another name. */
static int
give_name(const char *from, const char *to, int (*act)(const char *, const char *), const char *word)
{
    g_autofree char *real_from = real_path(from), *real_to = real_path(to);
    int failure = meet_rules(CALL_NAME, FALSE);
    guint number = failure ? 0 : file_number(from);
    int got = failure ? -failure : result(act(real_from, real_to));
    if (got == 0) {
        if (act == rename)
            g_hash_table_remove(disk.files, from);
        g_hash_table_insert(disk.files, g_strdup(to), GUINT_TO_POINTER(number));
        fprintf(disk.log, "%s\t%s\t%s\n", word, from, to);
    }
    return got;
}

static int
fs_rename(const char *from, const char *to, unsigned flags)
{
    return flags ? -EINVAL : give_name(from, to, rename, "rename");
}

static int
fs_link(const char *from, const char *to)
{
    return give_name(from, to, link, "link");
}

/* One of unlink, rmdir: what takes a name away. */
static int
take_name(const char *path, int (*act)(const char *), const char *word)
{
    g_autofree char *real = real_path(path);
    gboolean private = is_private(path);
    int failure = private ? 0 : meet_rules(CALL_NAME, FALSE);
    int got = failure ? -failure : result(act(real));
    if (got == 0 && !private) {
        g_hash_table_remove(disk.files, path);
        fprintf(disk.log, "%s\t%s\n", word, path);
    }
    return got;
}

static int
fs_unlink(const char *path)
{
    return take_name(path, unlink, "unlink");
}

static int
fs_rmdir(const char *path)
{
    return take_name(path, rmdir, "rmdir");
}

static int
fs_mkdir(const char *path, mode_t mode)
{
    g_autofree char *real = real_path(path);
    int failure = meet_rules(CALL_NAME, TRUE);
    int got = failure ? -failure : result(mkdir(real, mode));
    if (got == 0)
        fprintf(disk.log, "mkdir\t%s\n", path);
    return got;
}

/* Modes, owners and times are not what is tested here. */
static int
fs_chmod(const char *path, mode_t mode, struct fuse_file_info *info)
{
    (void)info;
    g_autofree char *real = real_path(path);
    return result(chmod(real, mode));
}

static int
fs_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *info)
{
    (void)info;
    g_autofree char *real = real_path(path);
    return result(lchown(real, uid, gid));
}

static int
fs_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *info)
{
    (void)info;
    g_autofree char *real = real_path(path);
    return result(utimensat(AT_FDCWD, real, times, AT_SYMLINK_NOFOLLOW));
}

static void *
fs_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    (void)connection;
    config->hard_remove = 1; /* a file that is open when its name goes must not appear under another */
    config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
    puts("ready");
    fflush(stdout);
    return NULL;
}

static const struct fuse_operations operations = {
    .init = fs_init,
    .getattr = fs_getattr,
    .readdir = fs_readdir,
    .open = fs_open,
    .create = fs_create,
    .read = fs_read,
    .write = fs_write,
    .truncate = fs_truncate,
    .fallocate = fs_fallocate,
    .fsync = fs_fsync,
    .fsyncdir = fs_fsyncdir,
    .release = fs_release,
    .rename = fs_rename,
    .link = fs_link,
    .unlink = fs_unlink,
    .mkdir = fs_mkdir,
    .rmdir = fs_rmdir,
    .chmod = fs_chmod,
    .chown = fs_chown,
    .utimens = fs_utimens,
    .statfs = fs_statfs,
};

int
main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: faultfs REAL MOUNT LOG RULES\n");
        return 2;
    }
    disk.tester = getppid();
    disk.real = argv[1];
    disk.rules_path = argv[4];
    disk.log = fopen(argv[3], "we");
    if (!disk.log) {
        perror(argv[3]);
        return 1;
    }
    setvbuf(disk.log, NULL, _IOFBF, 1 << 20);
    disk.files = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    umask(0);
    char *arguments[] = { argv[0], "-f", "-s", "-odefault_permissions,allow_other", argv[2], NULL };
    int status = fuse_main(G_N_ELEMENTS(arguments) - 1, arguments, &operations, NULL);
    fclose(disk.log);
    return status;
}
