#include "owner.h"

#include "errors.h"
#include "file.h"
#include "id.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define RECORD_MAX 256

const char *const weft_owner_verdict_words[] = {
    [WEFT_OWNER_GRANTED] = "granted",
    [WEFT_OWNER_STALE] = "stale",
    [WEFT_OWNER_FOREIGN] = "foreign",
    NULL,
};

WeftOwner *
weft_owner_new(const char *site, const char *instance, guint64 epoch, const char *run)
{
    WeftOwner owner = { g_strdup(site), g_strdup(instance), epoch, g_strdup(run), NULL };
    return g_memdup2(&owner, sizeof owner);
}

void
weft_owner_free(WeftOwner *owner)
{
    if (!owner)
        return;
    g_free(owner->site);
    g_free(owner->instance);
    g_free(owner->run);
    g_strfreev(owner->former);
    g_free(owner);
}

static gboolean
is_of(const WeftOwner *record, const char *run)
{
    return record && g_str_equal(record->run, run);
}

WeftOwnerVerdict
weft_owner_judge(const WeftOwner *record, const WeftOwner *claim)
{
    if (!record)
        return WEFT_OWNER_GRANTED;
    if (!g_str_equal(record->site, claim->site))
        return WEFT_OWNER_FOREIGN;
    if (is_of(record, claim->run) || (claim->former && g_strv_contains((const char *const *)claim->former, record->run)))
        return WEFT_OWNER_GRANTED;
    return g_str_equal(record->instance, claim->instance) ? WEFT_OWNER_STALE : WEFT_OWNER_FOREIGN;
}

char *
weft_owner_format(const WeftOwner *owner)
{
    return g_strdup_printf("%s %s %" G_GUINT64_FORMAT " %s", owner->site, owner->instance, owner->epoch, owner->run);
}

WeftOwner *
weft_owner_parse(const char *text)
{
    g_auto(GStrv) words = g_strsplit(text, " ", 5);
    guint64 epoch;
    if (g_strv_length(words) != 4 || !weft_id_is_valid(words[0]) || !weft_id_is_valid(words[1]) ||
        !weft_id_is_valid(words[3]) || !g_ascii_string_to_unsigned(words[2], 10, 1, G_MAXINT64, &epoch, NULL))
        return NULL;
    return weft_owner_new(words[0], words[1], epoch, words[3]);
}

gboolean
weft_owner_parse_answer(const char *text, WeftOwnerVerdict *ret_verdict, WeftOwner **ret_record)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", 2);
    g_auto(GStrv) words = g_strsplit(lines[0] ? g_strchomp(lines[0]) : "", " ", 2);
    for (guint i = 0; words[0] && words[1] && weft_owner_verdict_words[i]; i++) {
        if (!g_str_equal(words[0], weft_owner_verdict_words[i]))
            continue;
        *ret_verdict = i;
        *ret_record = weft_owner_parse(words[1]);
        return *ret_record || (i == WEFT_OWNER_GRANTED && g_str_equal(words[1], "-"));
    }
    return FALSE;
}

/* --- the file --- */

/* It is never removed: who waits for a file that is gone would have a lock that nobody else sees. */
static int
lock_beside(const char *path, GError **error)
{
    g_autofree char *lock = g_strconcat(path, ".lock", NULL);
    g_autofree char *folder = g_path_get_dirname(path);
    int made = g_mkdir_with_parents(folder, 0700);
    int fd = made < 0 ? -1 : open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX) == 0)
        return fd;
    weft_error_refuse(error, WEFT_ERROR_FAILED, "the owner's record: %s: %s", lock, g_strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static gboolean
read_record(const char *path, gboolean take, WeftOwner **ret_record, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autofree char *text = weft_file_read(path, RECORD_MAX, NULL, &failed);
    *ret_record = text ? weft_owner_parse(g_strchomp(text)) : NULL;
    if (*ret_record || take || g_error_matches(failed, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
        return TRUE;
    if (failed)
        g_propagate_error(error, g_steal_pointer(&failed));
    else
        weft_error_refuse(error, WEFT_ERROR_FAILED,
                          "the owner's record %s is damaged; have the host taken: weft site take HOST", path);
    return FALSE;
}

static gboolean
write_record(const char *path, const WeftOwner *claim, GError **error)
{
    g_autofree char *text = weft_owner_format(claim);
    g_autofree char *line = g_strconcat(text, "\n", NULL);
    return weft_file_replace(path, line, strlen(line), TRUE, error);
}

gboolean
weft_owner_claim(const char *path, const WeftOwner *claim, gboolean take, WeftOwnerVerdict *ret_verdict, WeftOwner **ret_record,
                 GError **error)
{
    g_autoptr(WeftOwner) record = NULL;
    int fd = lock_beside(path, error);
    if (fd < 0)
        return FALSE;
    gboolean ok = read_record(path, take, &record, error);
    *ret_verdict = ok && !take ? weft_owner_judge(record, claim) : WEFT_OWNER_GRANTED;
    gboolean same = record && g_str_equal(record->site, claim->site) && g_str_equal(record->instance, claim->instance) &&
                    record->epoch == claim->epoch && g_str_equal(record->run, claim->run);
    if (ok && *ret_verdict == WEFT_OWNER_GRANTED && !same)
        ok = write_record(path, claim, error);
    close(fd);
    *ret_record = ok ? g_steal_pointer(&record) : NULL;
    return ok;
}

gboolean
weft_owner_check(const char *path, const char *run, GError **error)
{
    g_autoptr(WeftOwner) record = NULL;
    int fd = lock_beside(path, error);
    if (fd < 0)
        return FALSE;
    gboolean ok = read_record(path, FALSE, &record, error);
    close(fd);
    if (!ok || is_of(record, run))
        return ok;
    g_autofree char *text = record ? weft_owner_format(record) : g_strdup("-");
    return weft_error_refuse(error, WEFT_ERROR_DENIED, "owner other %s: run %s of weftd does not have this host", text, run);
}
