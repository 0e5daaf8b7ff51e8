#include "state.h"

#include "errors.h"
#include "file.h"
#include "sysfs.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LOCK_SECONDS 60
#define DONE "-"
#define WHY_MAX 1000

static const char *const folders[] = { [WEFT_RECORD_DOMAIN] = "domains",
                                       [WEFT_RECORD_NETWORK] = "networks",
                                       [WEFT_RECORD_SCRUB] = "scrubs",
                                       [WEFT_RECORD_UNBOUND] = "unbound" };

void
weft_record_free(WeftRecord *record)
{
    if (!record)
        return;
    g_free(record->name);
    g_free(record->holder);
    g_free(record->text);
    g_free(record);
}

static gboolean
make_folder(const char *path, GError **error)
{
    if (g_mkdir_with_parents(path, 0700) == 0)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot make the folder %s: %s", path, g_strerror(errno));
}

static void
on_alarm(int signal)
{
}

gboolean
weft_state_lock(const WeftHook *hook, GError **error)
{
    g_autofree char *folder = weft_sysfs_path(hook, WEFT_HOOK_RUN);
    g_autofree char *path = g_build_filename(folder, "lock", NULL);
    if (!make_folder(folder, error))
        return FALSE;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    /* Without SA_RESTART the alarm ends the wait. */
    struct sigaction action = { .sa_handler = on_alarm };
    sigaction(SIGALRM, &action, NULL);
    alarm(LOCK_SECONDS);
    gboolean ok = fd >= 0 && flock(fd, LOCK_EX) == 0;
    int saved = errno;
    alarm(0);
    if (ok)
        return TRUE;
    if (fd >= 0)
        close(fd);
    return weft_error_refuse(error, WEFT_ERROR_BUSY, "cannot lock %s: %s; see whether another weft-hook hangs", path,
                             saved == EINTR ? "another holds it for a minute already" : g_strerror(saved));
}

/* --- who holds a record --- */

/* When a process began, in the kernel's ticks since boot, so that a number used again is not taken for it. 0: there is none. */
static guint64
start_of(gint64 pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%" G_GINT64_FORMAT "/stat", pid);
    g_autofree char *stat = weft_sysfs_read(path, NULL);
    const char *rest = stat ? strrchr(stat, ')') : NULL; /* its name may hold anything */
    g_auto(GStrv) fields = rest ? g_strsplit(rest + 1, " ", -1) : NULL;
    /* state is field 3 and fields[1]; the start time is field 22; a zombie is gone */
    if (!fields || g_strv_length(fields) < 21 || fields[1][0] == 'Z')
        return 0;
    return g_ascii_strtoull(fields[20], NULL, 10);
}

static gboolean
is_running(const char *holder)
{
    gint64 pid = g_ascii_strtoll(holder, NULL, 10);
    const char *start = strchr(holder, ' ');
    return pid > 0 && start && start_of(pid) == g_ascii_strtoull(start + 1, NULL, 10);
}

static char *
new_holder(void)
{
    gint64 parent = getppid();
    return g_strdup_printf("%" G_GINT64_FORMAT " %" G_GUINT64_FORMAT, parent, start_of(parent));
}

/* Nobody has the other end of the pipe. */
static gboolean
is_broken(int pipe)
{
    struct pollfd end = { .fd = pipe };
    return poll(&end, 1, 0) == 1 && (end.revents & POLLERR);
}

/* TRUE also where that cannot be told; but a first process that is hidden from us is not the one who ran us. */
static gboolean
has_pipe(gint64 pid, int pipe)
{
    g_autofree char *own = g_strdup_printf("/proc/self/fd/%d", pipe),
                    *folder = g_strdup_printf("/proc/%" G_GINT64_FORMAT "/fd", pid);
    g_autofree char *name = g_file_read_link(own, NULL);
    g_autoptr(GDir) dir = name && g_str_has_prefix(name, "pipe:") ? g_dir_open(folder, 0, NULL) : NULL;
    gboolean found = !dir;
    for (const char *file; !found && (file = g_dir_read_name(dir));) {
        g_autoptr(GError) error = NULL;
        g_autofree char *path = g_build_filename(folder, file, NULL);
        g_autofree char *theirs = g_file_read_link(path, &error);
        found = theirs ? g_str_equal(theirs, name) : pid != 1 && !g_error_matches(error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
    }
    return found;
}

/* What a parent that was killed had forked and not yet executed has its end of the pipe for a moment: that is not the one who
 * listens. */
gboolean
weft_state_check_asked(const char *name, GError **error)
{
    gboolean forsaken = is_broken(STDERR_FILENO) || !has_pipe(getppid(), STDERR_FILENO);
    return !forsaken || weft_error_refuse(error, WEFT_ERROR_FAILED, "%s: whoever asked for it is gone", name);
}

gboolean
weft_state_is_alive(const WeftHook *hook, WeftRecordKind kind, const WeftRecord *record)
{
    if (is_running(record->holder))
        return TRUE;
    if (kind == WEFT_RECORD_NETWORK) {
        g_autofree char *status = weft_sysfs_path(hook, "/run/libvirt/network/%s.xml", record->name);
        return g_file_test(status, G_FILE_TEST_EXISTS);
    }
    g_autofree char *file = weft_sysfs_path(hook, "/run/libvirt/qemu/%s.pid", record->name);
    gint64 pid = weft_sysfs_number(file, 0);
    return pid > 0 && start_of(pid) > 0;
}

/* --- records --- */

static char *
record_path(const WeftHook *hook, WeftRecordKind kind, const char *name)
{
    return weft_sysfs_path(hook, WEFT_HOOK_RUN "/%s/%s", folders[kind], name);
}

static gboolean
write_record(const WeftHook *hook, WeftRecordKind kind, const char *name, const char *holder, const char *text, GError **error)
{
    g_autofree char *folder = record_path(hook, kind, "");
    g_autofree char *path = record_path(hook, kind, name);
    g_autofree char *whole = g_strconcat(holder, "\n", text, NULL);
    return make_folder(folder, error) && weft_file_replace(path, whole, strlen(whole), FALSE, error);
}

gboolean
weft_state_put(const WeftHook *hook, WeftRecordKind kind, const char *name, const char *text, gboolean done, GError **error)
{
    g_autofree char *holder = done ? g_strdup(DONE) : new_holder();
    /* After the parent was looked up, so that it was the right one. */
    return (done || weft_state_check_asked(name, error)) && write_record(hook, kind, name, holder, text, error);
}

void
weft_state_keep(const WeftHook *hook, WeftRecordKind kind, const WeftRecord *record, const char *released, const char *why)
{
    g_autofree char *line = why ? weft_text_line(why, WHY_MAX) : NULL;
    g_autofree char *holder = g_strconcat(DONE, released, line ? " " : NULL, line, NULL);
    write_record(hook, kind, record->name, holder, record->text, NULL);
}

const char *
weft_record_trouble(const WeftRecord *record)
{
    const char *space = g_str_has_prefix(record->holder, DONE) ? strchr(record->holder, ' ') : NULL;
    return space ? space + 1 : NULL;
}

gboolean
weft_record_is_released(const WeftRecord *record, const char *pci)
{
    gboolean done = g_str_has_prefix(record->holder, DONE);
    g_autofree char *list = done ? g_strndup(record->holder + strlen(DONE), strcspn(record->holder + strlen(DONE), " ")) : NULL;
    g_auto(GStrv) released = list ? g_strsplit(list, ",", -1) : NULL;
    return released && g_strv_contains((const char *const *)released, pci);
}

WeftRecord *
weft_state_get(const WeftHook *hook, WeftRecordKind kind, const char *name)
{
    g_autofree char *path = record_path(hook, kind, name);
    g_autofree char *whole = weft_file_read(path, WEFT_RECORD_MAX + 64, NULL, NULL);
    char *end = whole ? strchr(whole, '\n') : NULL;
    if (!end)
        return NULL;
    WeftRecord *record = g_new0(WeftRecord, 1);
    record->name = g_strdup(name);
    record->holder = g_strndup(whole, (gsize)(end - whole));
    record->text = g_strdup(end + 1);
    return record;
}

void
weft_state_drop(const WeftHook *hook, WeftRecordKind kind, const char *name)
{
    g_autofree char *path = record_path(hook, kind, name);
    g_unlink(path);
}

/* What was not yet renamed when its writer was killed ("NAME.xxxxxx") is no record. */
static WeftRecord *
read_listed(const WeftHook *hook, WeftRecordKind kind, const char *name)
{
    return strchr(name, '.') ? NULL : weft_state_get(hook, kind, name);
}

GPtrArray *
weft_state_list(const WeftHook *hook, WeftRecordKind kind)
{
    GPtrArray *records = g_ptr_array_new_with_free_func((GDestroyNotify)weft_record_free);
    g_autofree char *folder = record_path(hook, kind, "");
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    for (const char *name; dir && (name = g_dir_read_name(dir));) {
        WeftRecord *record = read_listed(hook, kind, name);
        if (record)
            g_ptr_array_add(records, record);
    }
    return records;
}

void
weft_state_tidy(const WeftHook *hook, WeftRecordKind kind)
{
    g_autofree char *folder = record_path(hook, kind, "");
    g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
    for (guint i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        g_autoptr(WeftRecord) record = read_listed(hook, kind, name);
        if (!record)
            weft_state_drop(hook, kind, name);
    }
}
