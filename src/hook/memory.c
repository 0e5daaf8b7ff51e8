#include "memory.h"

#include "errors.h"
#include "file.h"
#include "hook.h"
#include "memory-files.h"
#include "memory-folders.h"
#include "state.h"
#include "sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHORT_NAME 20 /* so much of a domain's name libvirt uses for its folder */
#define BACKING_PATH "/var/lib/libvirt/qemu/ram"
#define BACKING_SETTING "memory_backing_dir"
#define CONF_MAX (1u << 20)
#define SUM ".sum"
#define FEED ".in"
#define FEED_ANSWERS ".out"
#define PLACE ".place" /* what names the folder that libvirt made for the domain */
#define PLACE_MAX 4096
#define RAM "pc.ram"

/* To have the state read without memory, and to leave memory that is there as it is; and not to announce five times an address
 * that nobody is to know. */
static const char feed[] = "{\"execute\":\"qmp_capabilities\"}\n"
                           "{\"execute\":\"migrate-set-capabilities\",\"arguments\":{\"capabilities\":"
                           "[{\"capability\":\"x-ignore-shared\",\"state\":true}]}}\n"
                           "{\"execute\":\"migrate-set-parameters\",\"arguments\":{\"announce-rounds\":0}}\n";

static gboolean
fail(GError **error, const char *doing, const char *path)
{
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot %s %s: %s", doing, path, g_strerror(errno));
}

/* --- where libvirt has QEMU look for it --- */

/* The host's own choice in qemu.conf, which libvirt appends its folders to; NULL: it made none. */
static char *
backing_setting(const WeftHook *hook)
{
    g_autofree char *path = weft_sysfs_path(hook, "/etc/libvirt/qemu.conf");
    g_autofree char *text = weft_file_read(path, CONF_MAX, NULL, NULL);
    g_auto(GStrv) lines = g_strsplit(text ? text : "", "\n", -1);
    for (char **line = lines; *line; line++) {
        g_auto(GStrv) parts = g_strsplit(g_strstrip(*line), "\"", 3);
        if (g_str_has_prefix(*line, BACKING_SETTING) && g_strv_length(parts) == 3)
            return g_build_filename(parts[1], "libvirt", "qemu", NULL);
    }
    return NULL;
}

static char *
backing_folder(const WeftHook *hook, const WeftHookNode *node)
{
    g_autofree char *chosen = backing_setting(hook);
    return weft_sysfs_path(hook, "%s/%u-%.*s", chosen ? chosen : BACKING_PATH, node->number, SHORT_NAME, node->domain);
}

/* --- files beside it --- */

static char *
fork_path(const WeftHook *hook, const char *name, const char *suffix)
{
    return weft_sysfs_path(hook, WEFT_FORK_PATH "/%s%s", name, suffix);
}

static gboolean
fork_has(const WeftHook *hook, const char *name, const char *suffix)
{
    g_autofree char *path = fork_path(hook, name, suffix);
    return g_file_test(path, G_FILE_TEST_EXISTS);
}

static void
fork_remove(const WeftHook *hook, const char *name, const char *suffix)
{
    g_autofree char *path = fork_path(hook, name, suffix);
    unlink(path);
}

/* Nobody but root may list it, and each finds what it was told the name of. */
static gboolean
make_fork_folder(const WeftHook *hook, GError **error)
{
    g_autofree char *path = weft_sysfs_path(hook, WEFT_FORK_PATH);
    return g_mkdir_with_parents(path, 0711) == 0 || fail(error, "make the folder", path);
}

/* A new file of the domain's folder. That folder is QEMU's, so what root does there it does to what it has made itself, and to
 * nothing that was put there since. */
static int
make_place(const char *folder, const char *name, GError **error)
{
    g_autofree char *place = g_build_filename(folder, name, NULL);
    int fd = -1;
    if (unlink(place) < 0 && errno != ENOENT)
        fail(error, "remove", place);
    else if ((fd = open(place, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0)
        fail(error, "make", place);
    return fd;
}

static gboolean
mount_memory(const char *path, const char *folder, GError **error)
{
    char made[32];
    int fd = make_place(folder, RAM, error);
    if (fd < 0)
        return FALSE;
    snprintf(made, sizeof made, "/proc/self/fd/%d", fd);
    gboolean ok = mount(path, made, NULL, MS_BIND, NULL) == 0 || fail(error, "show to QEMU the memory", path);
    close(fd);
    return ok;
}

/* Shows the memory where libvirt has QEMU look for it. It is mounted there, and is no link: security drivers judge a file by
 * its path, and what libvirt allows a domain is its own folder. */
static gboolean
show_memory(const WeftHook *hook, const char *domain, const char *path, const char *folder, GError **error)
{
    g_autofree char *note = fork_path(hook, domain, PLACE);
    return make_fork_folder(hook, error) && weft_file_replace(note, folder, strlen(folder), FALSE, error) &&
           mount_memory(path, folder, error);
}

/* QEMU has it open; and libvirt removes its folder, which it could not with a mount in it. */
static void
hide_memory(const WeftHook *hook, const char *domain)
{
    g_autofree char *note = fork_path(hook, domain, PLACE);
    g_autofree char *folder = weft_file_read(note, PLACE_MAX, NULL, NULL);
    if (!folder)
        return;
    g_autofree char *place = g_build_filename(folder, RAM, NULL);
    g_autofree char *feed_place = g_build_filename(folder, FEED, NULL);
    umount2(place, MNT_DETACH | UMOUNT_NOFOLLOW);
    unlink(place);
    unlink(feed_place);
    rmdir(folder); /* libvirt could not, where it had failed to remove what was mounted */
    unlink(note);
}

/* What a memory's sum file must say. */
static char *
sum_text(const WeftHookNode *node, const char *path, GError **error)
{
    guint64 size = 0;
    g_autofree char *sum = weft_memory_sum(path, &size, error);
    return sum ? g_strdup_printf("generation %s\nsize %" G_GUINT64_FORMAT "\nsum %s\n", node->memory->generation, size, sum)
               : NULL;
}

/* --- those that share --- */

static gboolean
check_memory(const WeftHook *hook, const WeftHookNode *node, const char *path, GError **error)
{
    const WeftHookMemory *memory = node->memory;
    struct stat info;
    g_autofree char *sum_path = fork_path(hook, memory->id, SUM);
    g_autofree char *sealed = weft_file_read(sum_path, 1024, NULL, NULL);
    if (!sealed || stat(path, &info) < 0)
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND,
                                 "memory %s to fork from is not on this host any more; prime it again", memory->id);
    if ((guint64)info.st_size != node->size)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "memory %s to fork from has %jd bytes and the node %" G_GUINT64_FORMAT "; prime it again",
                                 memory->id, (intmax_t)info.st_size, node->size);
    g_autofree char *found = sum_text(node, path, error);
    return found && (g_str_equal(found, sealed) ||
                     weft_error_refuse(error, WEFT_ERROR_INVALID,
                                       "memory %s to fork from is damaged, or not of generation %s; prime it again", memory->id,
                                       memory->generation));
}

static gboolean
make_link(const char *path, const char *target, GError **error)
{
    unlink(path);
    return symlink(target, path) == 0 || fail(error, "make", path);
}

/* It lies in the domain's own folder, for the same reason as the memory. owner: of that folder, QEMU's user. */
static gboolean
write_feed(const WeftHook *hook, const char *domain, const char *folder, const struct stat *owner, GError **error)
{
    g_autofree char *place = g_build_filename(folder, FEED, NULL);
    g_autofree char *path = fork_path(hook, domain, FEED);
    g_autofree char *answers = fork_path(hook, domain, FEED_ANSWERS);
    int fd = make_place(folder, FEED, error);
    if (fd < 0)
        return FALSE;
    gboolean ok = (weft_file_write(fd, feed, strlen(feed)) && fchown(fd, owner->st_uid, owner->st_gid) == 0) ||
                  fail(error, "give QEMU", place);
    close(fd);
    return ok && make_fork_folder(hook, error) && make_link(path, place, error) && make_link(answers, "/dev/null", error);
}

/* --- the one that makes it --- */

static gboolean
make_memory(const char *path, const struct stat *owner, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(path);
    if (!weft_memory_folder_make(folder, error))
        return FALSE;
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    gboolean ok = fd >= 0 && fchown(fd, owner->st_uid, owner->st_gid) == 0;
    if (!ok)
        fail(error, "make", path);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* --- what the operations ask for --- */

gboolean
weft_memory_place(const WeftHook *hook, const WeftHookNode *node, GError **error)
{
    struct stat owner;
    g_autofree char *folder = backing_folder(hook, node);
    g_autofree char *path = weft_memory_path(hook, node->memory->id, node->memory->page, error);
    if (!path)
        return FALSE;
    if (stat(folder, &owner) < 0)
        return fail(error, "find libvirt's folder for the node's memory,", folder);
    if (node->memory->made ? !make_memory(path, &owner, error)
                           : !check_memory(hook, node, path, error) || !write_feed(hook, node->domain, folder, &owner, error))
        return FALSE;
    return show_memory(hook, node->domain, path, folder, error);
}

void
weft_memory_started(const WeftHook *hook, const WeftHookNode *node)
{
    if (!node->memory)
        return;
    fork_remove(hook, node->domain, FEED);
    fork_remove(hook, node->domain, FEED_ANSWERS);
    hide_memory(hook, node->domain);
}

/* Sealed only beside a state: else it was broken off, and the next sweep removes it. */
void
weft_memory_end(const WeftHook *hook, const WeftHookNode *node)
{
    if (!node->memory)
        return;
    weft_memory_started(hook, node);
    if (!node->memory->made || !fork_has(hook, node->memory->id, WEFT_FORK_STATE))
        return;
    g_autofree char *path = weft_memory_path(hook, node->memory->id, node->memory->page, NULL);
    g_autofree char *text = path ? sum_text(node, path, NULL) : NULL;
    g_autofree char *sum = fork_path(hook, node->memory->id, SUM);
    if (text && weft_file_replace(sum, text, strlen(text), FALSE, NULL))
        chmod(sum, 0600);
}

/* --- what others left behind --- */

#define UNFINISHED_SECONDS 600 /* from the state of a memory to its mark: weftd does nothing but look at it meanwhile */

/* It has no state, or one whose maker was killed before it could say that it is whole. */
static gboolean
was_given_up(const WeftHook *hook, const char *id)
{
    struct stat info;
    g_autofree char *path = fork_path(hook, id, WEFT_FORK_STATE);
    return stat(path, &info) < 0 || g_get_real_time() / G_USEC_PER_SEC - info.st_mtime > UNFINISHED_SECONDS;
}

static gboolean
is_being_made(const WeftHook *hook, GPtrArray *records, const char *id)
{
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = g_ptr_array_index(records, i);
        g_autoptr(WeftHookNode) node = weft_hook_node_read(record->name, record->text, NULL);
        if (node && node->memory && node->memory->made && g_str_equal(node->memory->id, id) &&
            weft_state_is_alive(hook, WEFT_RECORD_DOMAIN, record))
            return TRUE;
    }
    return FALSE;
}

void
weft_memory_sweep(const WeftHook *hook)
{
    g_autoptr(GPtrArray) paths = weft_memory_list(hook);
    g_autoptr(GPtrArray) records = paths->len ? weft_state_list(hook, WEFT_RECORD_DOMAIN) : NULL;
    for (guint i = 0; i < paths->len; i++) {
        g_autofree char *id = g_path_get_basename(paths->pdata[i]);
        if (fork_has(hook, id, WEFT_FORK_WHOLE) || !was_given_up(hook, id) || is_being_made(hook, records, id))
            continue;
        unlink(paths->pdata[i]);
        fork_remove(hook, id, SUM);
        fork_remove(hook, id, WEFT_FORK_STATE);
    }
}
