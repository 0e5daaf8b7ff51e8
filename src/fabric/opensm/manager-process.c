#include "manager-process.h"

#include "errors.h"
#include "file.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define NAME "opensm"
#define DEFAULT_CONFIG "/etc/opensm/opensm.conf"
#define COMMAND_MAX (128 * 1024)
#define CONFIG_MAX (1024 * 1024)
#define STATUS_MAX (64 * 1024)
#define CAUGHT "\nSigCgt:"

/* What the kernel calls the program that runs as this process; NULL: there is none. */
static char *
name_of(int pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/comm", pid);
    char *name = weft_file_read(path, 256, NULL, NULL);
    return name ? g_strchomp(name) : NULL;
}

static gboolean
read_pid(const char *pid_file, int *ret_pid, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autofree char *text = weft_file_read(pid_file, 64, NULL, &failed);
    guint64 pid;
    if (!text)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "%s; start opensm, or name its pid file", failed->message);
    if (!g_ascii_string_to_unsigned(g_strstrip(text), 10, 2, G_MAXINT, &pid, NULL))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: has no number of a process in it", pid_file);
    g_autofree char *name = name_of((int)pid);
    if (!name)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "%s: process %d does not run; start opensm", pid_file,
                                 (int)pid);
    if (!g_str_equal(name, NAME))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "%s: process %d is \"%s\" and not opensm; remove the file",
                                 pid_file, (int)pid, name);
    *ret_pid = (int)pid;
    return TRUE;
}

static gboolean
search(int *ret_pid, GError **error)
{
    int found = 0;
    g_autoptr(GDir) processes = g_dir_open("/proc", 0, error);
    if (!processes)
        return FALSE;
    for (const char *entry; (entry = g_dir_read_name(processes));) {
        guint64 pid;
        if (!g_ascii_string_to_unsigned(entry, 10, 2, G_MAXINT, &pid, NULL))
            continue;
        g_autofree char *name = name_of((int)pid);
        if (g_strcmp0(name, NAME) != 0)
            continue;
        if (found)
            return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                     "several opensm run here (%d and %d); name the pid file of the one that is meant", found,
                                     (int)pid);
        found = (int)pid;
    }
    *ret_pid = found;
    return found ||
           weft_error_refuse(
               error, WEFT_ERROR_UNAVAILABLE,
               "no opensm runs on this machine, or weftd.service hides it (docs/fabric.md, \"Without the plugin\"); start it");
}

gboolean
weft_manager_process_find(const char *pid_file, int *ret_pid, GError **error)
{
    int pid = 0;
    if (!(pid_file ? read_pid(pid_file, &pid, error) : search(&pid, error)))
        return FALSE;
    if (kill(pid, 0) < 0 && errno == EPERM)
        return weft_error_refuse(
            error, WEFT_ERROR_DENIED,
            "opensm (process %d) is another user's, and weft may not tell it anything; give weftd CAP_KILL "
            "(docs/fabric.md, \"Without the plugin\"), run it as the same user, or use weft's plugin",
            pid);
    *ret_pid = pid;
    return TRUE;
}

/* --- its options --- */

/* Of a command line, "-F file", "-Ffile", "--config file" and "--config=file"; NULL: this word names none. */
static const char *
config_in(const char *word, const char *next)
{
    if (g_str_equal(word, "-F") || g_str_equal(word, "--config"))
        return next;
    if (g_str_has_prefix(word, "--config="))
        return word + strlen("--config=");
    return g_str_has_prefix(word, "-F") ? word + strlen("-F") : NULL;
}

/* The file is relative to the folder where it runs. */
static char *
config_of(int pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/cmdline", pid);
    gsize length = 0;
    g_autofree char *words = weft_file_read(path, COMMAND_MAX, &length, NULL);
    const char *file = DEFAULT_CONFIG;
    for (gsize at = 0; words && at < length; at += strlen(words + at) + 1) {
        const char *next = words + at + strlen(words + at) + 1;
        const char *named = config_in(words + at, next < words + length ? next : NULL);
        file = named ? named : file;
    }
    return g_path_is_absolute(file) ? g_strdup(file) : g_strdup_printf("/proc/%d/cwd/%s", pid, file);
}

char *
weft_manager_process_option(int pid, const char *name)
{
    g_autofree char *path = config_of(pid);
    g_autofree char *text = weft_file_read(path, CONFIG_MAX, NULL, NULL);
    g_auto(GStrv) lines = text ? g_strsplit(text, "\n", -1) : NULL;
    char *value = NULL;
    for (guint i = 0; lines && lines[i]; i++) {
        g_auto(GStrv) words = g_strsplit_set(g_strstrip(lines[i]), " \t", 2);
        if (g_strv_length(words) == 2 && g_str_equal(words[0], name)) {
            g_free(value);
            value = g_strdup(g_strstrip(words[1]));
        }
    }
    return value;
}

/* --- telling it --- */

/* Whether it has come so far that SIGHUP does not end it. */
static gboolean
catches_hangup(int pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/status", pid);
    g_autofree char *text = weft_file_read(path, STATUS_MAX, NULL, NULL);
    const char *caught = text ? strstr(text, CAUGHT) : NULL;
    return caught && (g_ascii_strtoull(caught + strlen(CAUGHT), NULL, 16) >> (SIGHUP - 1) & 1);
}

gboolean
weft_manager_process_tell(const char *pid_file, GError **error)
{
    int pid = 0;
    if (!weft_manager_process_find(pid_file, &pid, error))
        return FALSE;
    if (!catches_hangup(pid))
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "opensm (process %d) is just being started", pid);
    return kill(pid, SIGHUP) == 0 ||
           weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "opensm (process %d) cannot be told: %s", pid, g_strerror(errno));
}
