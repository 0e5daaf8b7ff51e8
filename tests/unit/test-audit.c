/* The audit trail: what a chain is, and what becomes of its files. */
#include "audit.h"
#include "chain.h"
#include "errors.h"
#include "reads.h"
#include "search.h"
#include "trail.h"
#include "waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* --- lines --- */

static char *
make_line(WeftAuditHead *head, int n)
{
    json_auto_t *fields = json_pack("{s:s, s:i}", "kind", "request", "n", n);
    return weft_audit_line(head, fields);
}

static GPtrArray *
make_lines(guint n)
{
    WeftAuditHead head = { 0 };
    GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < n; i++)
        g_ptr_array_add(lines, make_line(&head, (int)i));
    return lines;
}

/* What is wrong with them, or NULL. */
static char *
check(const GPtrArray *lines)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftAuditCheck) check = weft_audit_check_new();
    gboolean ok = TRUE;
    for (guint i = 0; ok && i < lines->len; i++)
        ok = weft_audit_check_line(check, lines->pdata[i], strlen(lines->pdata[i]), &error);
    if (ok && weft_audit_check_end(check, &error))
        return NULL;
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
    return g_strdup(error->message);
}

static void
replace(GPtrArray *lines, guint i, const char *from, const char *to)
{
    g_auto(GStrv) parts = g_strsplit(lines->pdata[i], from, 2);
    g_assert_nonnull(parts[1]);
    g_free(lines->pdata[i]);
    lines->pdata[i] = g_strconcat(parts[0], to, parts[1], NULL);
}

static void
test_chain(void)
{
    g_autoptr(GPtrArray) lines = make_lines(5);
    g_assert_null(check(lines));
    g_ptr_array_remove_index(lines, 0); /* older files need not be there */
    g_assert_null(check(lines));
}

static void
test_changed(void)
{
    for (guint i = 0; i < 5; i++) {
        g_autoptr(GPtrArray) lines = make_lines(5);
        g_autofree char *wanted = g_strdup_printf("line %u: is no entry, or one that was changed*", i + 1);
        replace(lines, i, "\"request\"", "\"Request\"");
        g_autofree char *what = check(lines);
        g_assert_nonnull(what);
        g_assert_true(g_pattern_match_simple(wanted, what));
    }
}

/* Somebody who knows how a hash is made makes a new one: the next line gives it away. */
static void
test_rehashed(void)
{
    g_autoptr(GPtrArray) lines = make_lines(5);
    WeftAuditHead head;
    json_auto_t *second = weft_audit_parse(lines->pdata[1], strlen(lines->pdata[1]), &head);
    g_assert_nonnull(second);
    g_free(lines->pdata[2]);
    lines->pdata[2] = make_line(&head, 77);
    g_autofree char *what = check(lines);
    g_assert_cmpstr(what, ==, "line 4: entry 4 was written after another entry 3 than the one before it");
}

static void
test_removed(void)
{
    g_autoptr(GPtrArray) lines = make_lines(5);
    g_ptr_array_remove_index(lines, 2);
    g_autofree char *what = check(lines);
    g_assert_true(g_str_has_prefix(what, "line 3: entry 4 comes after entry 2: "));
}

static void
test_reordered(void)
{
    g_autoptr(GPtrArray) lines = make_lines(5);
    gpointer third = lines->pdata[2];
    lines->pdata[2] = lines->pdata[3];
    lines->pdata[3] = third;
    g_autofree char *what = check(lines);
    g_assert_true(g_str_has_prefix(what, "line 3: entry 4 comes after entry 2: "));
}

static void
test_cut(void)
{
    g_autoptr(GPtrArray) lines = make_lines(5);
    ((char *)lines->pdata[4])[30] = 0;
    g_autofree char *what = check(lines);
    g_assert_true(g_str_has_prefix(what, "line 5: is no entry"));
}

/* --- files --- */

typedef struct {
    char *folder;
    char *path;
} Place;

static Place
make_place(void)
{
    char *folder = g_dir_make_tmp("weft-audit-XXXXXX", NULL);
    return (Place){ folder, g_build_filename(folder, "audit.log", NULL) };
}

static void
place_clear(Place *place)
{
    g_autofree char *head = g_strconcat(place->path, "-head", NULL);
    g_unlink(head);
    g_auto(GStrv) files = weft_trail_files(place->path);
    for (guint i = 0; files[i]; i++)
        g_unlink(files[i]);
    g_assert_cmpint(g_rmdir(place->folder), ==, 0);
    g_free(place->path);
    g_free(place->folder);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Place, place_clear)

static void
add(WeftTrail *trail, int n)
{
    json_auto_t *fields = json_pack("{s:s, s:i}", "kind", "request", "n", n);
    g_assert_nonnull(weft_trail_add(trail, fields));
    g_assert_true(weft_trail_flush(trail, NULL));
}

static WeftTrail *
open_trail(const char *path, guint64 size)
{
    g_autoptr(GError) error = NULL;
    WeftTrail *trail = weft_trail_open(path, size, &error);
    g_assert_no_error(error);
    return trail;
}

static void
read_file(GPtrArray *lines, const char *file)
{
    g_autofree char *text = NULL;
    if (!g_file_get_contents(file, &text, NULL, NULL))
        return;
    g_auto(GStrv) split = g_strsplit(text, "\n", -1);
    for (guint i = 0; split[i] && split[i + 1]; i++)
        g_ptr_array_add(lines, g_strdup(split[i]));
}

/* The lines of all files, the oldest first. */
static GPtrArray *
read_lines(const char *path)
{
    g_auto(GStrv) files = weft_trail_files(path);
    GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
    for (guint i = g_strv_length(files); i > 0; i--)
        read_file(lines, files[i - 1]);
    return lines;
}

static void
assert_chain(const char *path, guint entries)
{
    g_autoptr(GPtrArray) lines = read_lines(path);
    g_autofree char *what = check(lines);
    g_assert_cmpstr(what, ==, NULL);
    g_assert_cmpuint(lines->len, ==, entries);
}

static void
test_goes_on(void)
{
    g_auto(Place) place = make_place();
    for (int i = 0; i < 3; i++) {
        g_autoptr(WeftTrail) trail = open_trail(place.path, 1 << 20);
        add(trail, i);
    }
    GStatBuf info;
    g_assert_cmpint(g_stat(place.path, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 07777, ==, 0600);
    assert_chain(place.path, 3);
}

static void
test_one_writer(void)
{
    g_auto(Place) place = make_place();
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftTrail) trail = open_trail(place.path, 1 << 20);
    add(trail, 1);
    g_assert_null(weft_trail_open(place.path, 1 << 20, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
}

static void
test_open_to_others(void)
{
    g_auto(Place) place = make_place();
    g_autoptr(GError) error = NULL;
    g_assert_true(g_file_set_contents(place.path, "", 0, NULL));
    g_assert_cmpint(g_chmod(place.path, 0620), ==, 0);
    g_assert_null(weft_trail_open(place.path, 1 << 20, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
}

static void
append_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_APPEND);
    g_assert_cmpint(write(fd, text, strlen(text)), ==, (ssize_t)strlen(text));
    close(fd);
}

static void
remove_head(const char *path)
{
    g_autofree char *head = g_strconcat(path, "-head", NULL);
    g_assert_cmpint(g_unlink(head), ==, 0);
}

/* However much of the line was written, before it was synced. */
static void
test_torn(void)
{
    for (off_t kept = 0; kept < 400; kept += 13) {
        g_auto(Place) place = make_place();
        g_autoptr(WeftTrail) first = open_trail(place.path, 1 << 20);
        add(first, 1);
        GStatBuf info;
        g_assert_cmpint(g_stat(place.path, &info), ==, 0);
        add(first, 2);
        g_clear_pointer(&first, weft_trail_free);
        GStatBuf whole;
        g_assert_cmpint(g_stat(place.path, &whole), ==, 0);
        off_t size = MIN(info.st_size + kept, whole.st_size);
        g_assert_cmpint(truncate(place.path, size), ==, 0);
        remove_head(place.path);
        g_autoptr(WeftTrail) second = open_trail(place.path, 1 << 20);
        add(second, 3);
        gboolean is_torn = size != info.st_size && size < whole.st_size;
        gboolean has_second = size == whole.st_size;
        assert_chain(place.path, is_torn ? 4 : has_second ? 3 : 2);
    }
}

/* Torn again and again, and lines that are none. */
static void
test_torn_often(void)
{
    g_auto(Place) place = make_place();
    const char *const remains[] = { "x", "{\"sequence\":", "\n", "\n\n", "one\ntwo", "one\ntwo\n", "\xff\xfe" };
    for (guint i = 0; i < G_N_ELEMENTS(remains); i++) {
        g_autoptr(WeftTrail) trail = open_trail(place.path, 1 << 20);
        add(trail, (int)i);
        g_clear_pointer(&trail, weft_trail_free);
        append_text(place.path, remains[i]);
    }
    g_autoptr(WeftTrail) trail = open_trail(place.path, 1 << 20);
    add(trail, 9);
    g_autoptr(GPtrArray) lines = read_lines(place.path);
    g_autofree char *what = check(lines);
    g_assert_cmpstr(what, ==, NULL);
    for (guint i = 0; i + 1 < lines->len; i++) /* each of them matters */
        if (!strstr(lines->pdata[i], "\"kind\"")) {
            g_ptr_array_remove_index(lines, i);
            break;
        }
    g_autofree char *without = check(lines);
    g_assert_nonnull(without);
}

static void
test_rotates(void)
{
    g_auto(Place) place = make_place();
    for (int start = 0; start < 3; start++) {
        g_autoptr(WeftTrail) trail = open_trail(place.path, 1000);
        for (int i = 0; i < 20; i++)
            add(trail, i);
    }
    g_auto(GStrv) files = weft_trail_files(place.path);
    g_assert_cmpuint(g_strv_length(files), >, 10);
    g_assert_cmpuint(weft_trail_last(place.path, files[1]), >, weft_trail_last(place.path, files[2]));
    g_autoptr(GPtrArray) lines = read_lines(place.path);
    g_autofree char *what = check(lines);
    g_assert_cmpstr(what, ==, NULL);
    g_assert_cmpuint(lines->len, ==, 60 + g_strv_length(files) - 1);
}

/* Killed between the new name and the new file. */
static void
test_rotation_interrupted(void)
{
    g_auto(Place) place = make_place();
    g_autoptr(WeftTrail) trail = open_trail(place.path, 1 << 20);
    add(trail, 1);
    g_clear_pointer(&trail, weft_trail_free);
    g_autofree char *former = g_strconcat(place.path, ".000000000001", NULL);
    g_assert_cmpint(g_rename(place.path, former), ==, 0);
    trail = open_trail(place.path, 1 << 20);
    add(trail, 2);
    assert_chain(place.path, 2);
}

static void
add_once(const char *path, int n)
{
    g_autoptr(WeftTrail) trail = open_trail(path, 1 << 20);
    add(trail, n);
}

/* The files are one chain, and the entry says what the trail found when it was opened. */
static void
assert_resumed(const char *const *files, guint entry, const char *found)
{
    g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; files[i]; i++)
        read_file(lines, files[i]);
    g_autofree char *what = check(lines);
    g_assert_cmpstr(what, ==, NULL);
    g_assert_nonnull(strstr(lines->pdata[entry - 1], found));
}

/* Under a name that is none of ours, and weftd starts before anybody tells it. */
static void
test_renamed_meanwhile(void)
{
    g_auto(Place) place = make_place();
    g_autofree char *former = g_strconcat(place.path, ".1", NULL);
    add_once(place.path, 1);
    add_once(place.path, 2);
    g_assert_cmpint(g_rename(place.path, former), ==, 0);
    add_once(place.path, 3);
    const char *files[] = { former, place.path, NULL };
    assert_resumed(files, 3, "\"kind\":\"resume\",\"found\":0");
    g_unlink(former);
}

/* The newest of the files that were full has another name, and the one in use is empty yet. */
static void
test_former_is_packed(void)
{
    g_auto(Place) place = make_place();
    g_autofree char *older = g_strconcat(place.path, ".000000000001", NULL);
    g_autofree char *packed = g_strconcat(place.path, ".000000000002.gz", NULL);
    add_once(place.path, 1);
    g_assert_cmpint(g_rename(place.path, older), ==, 0);
    add_once(place.path, 2);
    g_assert_cmpint(g_rename(place.path, packed), ==, 0);
    add_once(place.path, 3);
    const char *files[] = { older, packed, place.path, NULL };
    assert_resumed(files, 3, "\"kind\":\"resume\",\"found\":1");
    g_unlink(packed);
}

/* Whoever cuts off the end is found out, and the chain does not go on as if nothing were missing. */
static void
test_end_is_cut_off(void)
{
    g_auto(Place) place = make_place();
    GStatBuf info;
    add_once(place.path, 1);
    g_assert_cmpint(g_stat(place.path, &info), ==, 0);
    add_once(place.path, 2);
    g_assert_cmpint(truncate(place.path, info.st_size), ==, 0);
    add_once(place.path, 3);
    g_autoptr(GPtrArray) lines = read_lines(place.path);
    g_autofree char *what = check(lines);
    g_assert_true(g_str_has_prefix(what, "line 2: entry 3 comes after entry 1: "));
    g_assert_nonnull(strstr(lines->pdata[1], "\"kind\":\"resume\",\"found\":1"));
}

static void
test_written_in_another_way(void)
{
    g_auto(Place) place = make_place();
    g_autofree char *path = g_strdup_printf("%s//audit.log", place.folder);
    g_autofree char *former = g_strconcat(place.path, ".000000000001", NULL);
    add_once(path, 1);
    g_assert_cmpint(g_rename(place.path, former), ==, 0);
    remove_head(path);
    add_once(path, 2);
    assert_chain(place.path, 2);
}

/* --- a disk that fails --- */

static int failures; /* of the syncs that come next */

/* In place of libc's. As with a disk that fails once: what was written is gone, and the next call knows nothing of it. */
int
fdatasync(int fd) /* NOLINT(readability-inconsistent-declaration-parameter-name): libc's is a reserved one */
{
    if (!failures)
        return fsync(fd);
    failures--;
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
    int other = open(path, O_WRONLY | O_CLOEXEC);
    struct stat info;
    g_assert_cmpint(fstat(fd, &info), ==, 0);
    g_assert_cmpint(pwrite(other, "\0\0\0\0\0\0\0\0", 8, info.st_size - 8), ==, 8);
    close(other);
    errno = EIO;
    return -1;
}

static void
test_sync_fails(void)
{
    g_auto(Place) place = make_place();
    g_autoptr(WeftTrail) trail = open_trail(place.path, 1 << 20);
    add(trail, 1);
    failures = 2;
    for (int i = 2; i < 4; i++) {
        g_autoptr(GError) error = NULL;
        json_auto_t *fields = json_pack("{s:s, s:i}", "kind", "request", "n", i);
        g_assert_nonnull(weft_trail_add(trail, fields));
        g_assert_false(weft_trail_flush(trail, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_FAILED);
        g_assert_false(weft_trail_reopen(trail, NULL));
    }
    add(trail, 4);
    assert_chain(place.path, 4);
}

/* The file is not left behind before it is on the disk. */
static void
test_sync_fails_in_a_full_file(void)
{
    g_auto(Place) place = make_place();
    g_autoptr(WeftTrail) trail = open_trail(place.path, 1);
    json_auto_t *fields = json_pack("{s:s}", "kind", "request");
    failures = 1;
    g_assert_nonnull(weft_trail_add(trail, fields));
    g_assert_false(weft_trail_flush(trail, NULL));
    add(trail, 2);
    add(trail, 3);
    assert_chain(place.path, 4);
    g_auto(GStrv) files = weft_trail_files(place.path);
    g_assert_cmpuint(g_strv_length(files), ==, 2);
}

static void
test_reopens(void)
{
    g_auto(Place) place = make_place();
    g_autoptr(WeftTrail) trail = open_trail(place.path, 1 << 20);
    add(trail, 1);
    g_assert_true(weft_trail_reopen(trail, NULL)); /* nobody has renamed it */
    g_autofree char *former = g_strconcat(place.path, ".000000000001", NULL);
    g_assert_cmpint(g_rename(place.path, former), ==, 0);
    g_assert_true(weft_trail_reopen(trail, NULL));
    add(trail, 2);
    assert_chain(place.path, 3);
}

/* --- searching --- */

static WeftAuditQuery
query_of(guint64 before, guint limit)
{
    return (WeftAuditQuery){ .before = before, .limit = limit };
}

static void
test_search(void)
{
    g_auto(Place) place = make_place();
    g_autoptr(WeftTrail) trail = open_trail(place.path, 2000);
    for (int i = 0; i < 100; i++)
        add(trail, i);
    g_autoptr(GPtrArray) all = read_lines(place.path);
    append_text(place.path, "{\"sequence\":99999,half"); /* one that is being written */
    guint64 before = 0;
    guint left = all->len;
    do {
        WeftAuditQuery query = query_of(before, 7);
        g_autoptr(GPtrArray) page = weft_audit_search(place.path, &query, &before, NULL);
        g_assert_nonnull(page);
        g_assert_cmpuint(page->len, <=, 7);
        for (guint i = 0; i < page->len; i++, left--)
            g_assert_cmpstr(page->pdata[i], ==, all->pdata[left - 1]);
    } while (before);
    g_assert_cmpuint(left, ==, 0);
}

/* Lines that lie across the blocks that are read. */
static void
test_search_long(void)
{
    g_auto(Place) place = make_place();
    g_autoptr(WeftTrail) trail = open_trail(place.path, 1 << 30);
    for (int i = 0; i < 5000; i++) {
        json_auto_t *fields = json_pack("{s:s, s:s}", "kind", "request", "principal", i % 1000 ? "ada" : "bob");
        g_assert_nonnull(weft_trail_add(trail, fields));
    }
    g_assert_true(weft_trail_flush(trail, NULL));
    guint64 next;
    WeftAuditQuery bobs = { .principal = "bob", .limit = 100 }, all = { .limit = 5000 };
    g_autoptr(GPtrArray) found = weft_audit_search(place.path, &bobs, &next, NULL);
    g_assert_cmpuint(found->len, ==, 5);
    g_assert_cmpuint(next, ==, 0);
    g_autoptr(GPtrArray) whole = weft_audit_search(place.path, &all, &next, NULL);
    g_assert_cmpuint(whole->len, ==, 5000);
}

/* --- who is refused --- */

static void
test_refusals(void)
{
    WeftRefusals *refusals = weft_refusals_new();
    guint strangers = 0, members = 0;
    for (guint i = 0; i < 100000; i++) {
        char from[32];
        g_snprintf(from, sizeof from, "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
        strangers += weft_refusals_admit(refusals, &(WeftRefused){ NULL, from, 401 }, 0);
        members += weft_refusals_admit(refusals, &(WeftRefused){ "acme/alice", "uid 7", 403 }, 0);
    }
    g_assert_cmpuint(strangers, ==, 100);
    g_assert_cmpuint(members, ==, 20);
    g_assert_true(weft_refusals_admit(refusals, &(WeftRefused){ "acme/bob", "uid 8", 403 }, 0)); /* nobody takes another's */
    json_auto_t *sums = weft_refusals_take_sums(refusals);
    g_assert_cmpuint(json_array_size(sums), ==, 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *sum = json_array_get(sums, i);
        gboolean is_member = json_is_string(json_object_get(sum, "account"));
        g_assert_cmpint(json_integer_value(json_object_get(sum, "count")), ==, is_member ? 99980 : 99900);
        g_assert_cmpuint(json_object_size(json_object_get(sum, "from")), ==, is_member ? 1 : 33);
    }
    g_assert_false(weft_refusals_has_sums(refusals));
    g_assert_true(weft_refusals_admit(refusals, &(WeftRefused){ "acme/alice", "uid 7", 403 }, 3 * G_USEC_PER_SEC));
    weft_refusals_free(refusals);
}

static void
test_reads(void)
{
    WeftReads *reads = weft_reads_new();
    g_assert_true(weft_reads_is_first(reads, "alice file", 0));
    g_assert_false(weft_reads_is_first(reads, "alice file", G_TIME_SPAN_HOUR - 1));
    g_assert_true(weft_reads_is_first(reads, "bob file", 1));
    g_assert_true(weft_reads_is_first(reads, "alice file", G_TIME_SPAN_HOUR));
    g_assert_false(weft_reads_is_first(reads, "bob file", G_TIME_SPAN_HOUR));
    for (guint i = 0; i < 100000; i++) { /* too many are known, and none is missed */
        char key[32];
        g_snprintf(key, sizeof key, "carol %u", i);
        g_assert_true(weft_reads_is_first(reads, key, G_TIME_SPAN_HOUR));
    }
    weft_reads_free(reads);
}

/* --- what waits --- */

static guint
take_all(WeftWaiting *waiting, const char *role, const char *tenant)
{
    json_auto_t *fields = json_pack("{s:s, s:s?, s:s?}", "kind", "request", "role", role, "tenant", tenant);
    guint n = 0;
    while (weft_waiting_take(waiting, fields, 1))
        n++;
    return n;
}

static void
test_waiting(void)
{
    WeftWaiting *waiting = weft_waiting_new(800);
    json_auto_t *sum = json_pack("{s:s, s:n}", "kind", "refusals", "account");
    g_assert_cmpuint(take_all(waiting, "member", "acme"), ==, 350);
    g_assert_cmpuint(take_all(waiting, "member", "umbrella"), ==, 175);
    g_assert_cmpuint(take_all(waiting, NULL, NULL), ==, 87);
    g_assert_false(weft_waiting_take(waiting, sum, 1)); /* strangers have one share with it */
    g_assert_cmpuint(take_all(waiting, "viewer", "third"), ==, 44);
    g_assert_cmpuint(take_all(waiting, "member", "acme"), ==, 0);
    g_assert_cmpuint(take_all(waiting, "operator", NULL), ==, 144);
    g_assert_cmpuint(take_all(waiting, "admin", NULL), ==, 0);
    weft_waiting_clear(waiting);
    g_assert_cmpuint(take_all(waiting, "admin", NULL), ==, 800);
    weft_waiting_free(waiting);
}

/* --- the whole --- */

static void
on_written(gboolean kept, gpointer data)
{
    *(int *)data = kept;
}

static int
write_kind_and_wait(WeftAudit *audit, const char *kind)
{
    int kept = -1;
    weft_audit_write(audit, weft_audit_entry(kind), on_written, &kept);
    while (kept < 0)
        g_main_context_iteration(NULL, TRUE);
    return kept;
}

static int
write_and_wait(WeftAudit *audit)
{
    return write_kind_and_wait(audit, "request");
}

static struct rlimit
forbid_writing(void)
{
    struct rlimit limit, none = { 0 };
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    none.rlim_max = limit.rlim_max;
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &none), ==, 0);
    return limit;
}

/* An entry that cannot be written waits in memory, and comes later; whoever waits for it is told. */
static void
test_full(void)
{
    g_auto(Place) place = make_place();
    g_autoptr(GError) error = NULL;
    WeftAuditOptions options = { .path = place.path, .size = 1 << 20, .required = TRUE };
    WeftAudit *audit = weft_audit_open(&options, "secret", 6, &error);
    g_assert_no_error(error);
    g_assert_true(write_and_wait(audit));
    g_assert_true(weft_audit_takes(audit, WEFT_AUDIT_ANYTHING));

    struct rlimit limit = forbid_writing();
    g_test_expect_message(NULL, G_LOG_LEVEL_WARNING, "cannot write the audit trail *; entries wait in memory");
    g_assert_false(write_and_wait(audit));
    g_assert_false(weft_audit_takes(audit, WEFT_AUDIT_OPERATORS));
    g_assert_false(write_and_wait(audit));
    g_test_assert_expected_messages();
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    g_assert_true(write_and_wait(audit));
    g_assert_true(weft_audit_takes(audit, WEFT_AUDIT_ANYTHING));
    weft_audit_free(audit);
    assert_chain(place.path, 4);
}

/* One for which there was no room in memory is not written by a disk that takes the others again. */
static void
test_lost(void)
{
    g_auto(Place) place = make_place();
    WeftAuditOptions options = { .path = place.path, .size = 1 << 30 };
    WeftAudit *audit = weft_audit_open(&options, "secret", 6, NULL);
    g_autofree char *large = g_strnfill(60000, 'x');
    g_assert_true(write_and_wait(audit));
    struct rlimit limit = forbid_writing();
    g_test_expect_message(NULL, G_LOG_LEVEL_WARNING, "cannot write the audit trail *; entries wait in memory");
    for (int i = 0; i < 80; i++)
        g_assert_false(write_kind_and_wait(audit, large));
    g_test_assert_expected_messages();
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    int kept = write_kind_and_wait(audit, "late");
    g_assert_true(write_and_wait(audit));
    weft_audit_free(audit);
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(place.path, &text, NULL, NULL));
    g_assert_nonnull(strstr(text, "\"kind\":\"lost\""));
    g_assert_cmpint(kept, ==, strstr(text, "\"kind\":\"late\"") != NULL);
}

/* Whoever must know waits for it. */
static void
test_synced(void)
{
    g_auto(Place) place = make_place();
    WeftAuditOptions options = { .path = place.path, .size = 1 << 20 };
    WeftAudit *audit = weft_audit_open(&options, "secret", 6, NULL);
    g_assert_true(weft_audit_sync(audit)); /* there is nothing to wait for */
    weft_audit_write(audit, weft_audit_entry("request"), NULL, NULL);
    g_assert_true(weft_audit_sync(audit));
    assert_chain(place.path, 1);
    struct rlimit limit = forbid_writing();
    g_test_expect_message(NULL, G_LOG_LEVEL_WARNING, "cannot write the audit trail *; entries wait in memory");
    weft_audit_write(audit, weft_audit_entry("request"), NULL, NULL);
    g_assert_false(weft_audit_sync(audit));
    g_test_assert_expected_messages();
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    weft_audit_free(audit);
    assert_chain(place.path, 2);
}

/* The system's log has each line, and nobody waits for it. */
static void
test_outlet(void)
{
    g_auto(Place) place = make_place();
    g_autofree char *log = g_build_filename(place.folder, "log", NULL);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    g_strlcpy(address.sun_path, log, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    g_assert_cmpint(bind(fd, (struct sockaddr *)&address, sizeof address), ==, 0);
    WeftAuditOptions options = { .path = place.path, .syslog = log, .size = 1 << 20 };
    WeftAudit *audit = weft_audit_open(&options, "secret", 6, NULL);
    write_and_wait(audit);
    char told[4096];
    ssize_t n = recv(fd, told, sizeof told - 1, 0);
    g_assert_cmpint(n, >, 0);
    told[n] = 0;
    g_autoptr(GPtrArray) lines = read_lines(place.path);
    g_assert_true(g_str_has_prefix(told, "<85>weftd-audit["));
    g_assert_true(g_str_has_suffix(told, lines->pdata[0]));
    for (guint i = 0; i < 1000; i++) /* it takes no more, and the file has all */
        write_and_wait(audit);
    weft_audit_free(audit);
    assert_chain(place.path, 1001);
    close(fd);
    g_unlink(log);
}

static void
test_digest(void)
{
    g_auto(Place) place = make_place();
    WeftAuditOptions options = { .path = place.path, .size = 1 << 20 };
    g_autoptr(WeftAudit) audit = weft_audit_open(&options, "secret", 6, NULL);
    g_autofree char *digest = weft_audit_digest(audit, "{}", 2);
    g_autofree char *wanted =
        g_compute_hmac_for_string(G_CHECKSUM_SHA256, (const guchar *)"secret", 6, "weft audit body\n{}", -1);
    g_assert_cmpstr(digest, ==, wanted);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    signal(SIGXFSZ, SIG_IGN);
    g_test_add_func("/audit/chain", test_chain);
    g_test_add_func("/audit/changed", test_changed);
    g_test_add_func("/audit/rehashed", test_rehashed);
    g_test_add_func("/audit/removed", test_removed);
    g_test_add_func("/audit/reordered", test_reordered);
    g_test_add_func("/audit/cut", test_cut);
    g_test_add_func("/audit/goes-on", test_goes_on);
    g_test_add_func("/audit/one-writer", test_one_writer);
    g_test_add_func("/audit/open-to-others", test_open_to_others);
    g_test_add_func("/audit/torn", test_torn);
    g_test_add_func("/audit/torn-often", test_torn_often);
    g_test_add_func("/audit/rotates", test_rotates);
    g_test_add_func("/audit/rotation-interrupted", test_rotation_interrupted);
    g_test_add_func("/audit/reopens", test_reopens);
    g_test_add_func("/audit/renamed-meanwhile", test_renamed_meanwhile);
    g_test_add_func("/audit/former-is-packed", test_former_is_packed);
    g_test_add_func("/audit/end-is-cut-off", test_end_is_cut_off);
    g_test_add_func("/audit/written-in-another-way", test_written_in_another_way);
    g_test_add_func("/audit/sync-fails", test_sync_fails);
    g_test_add_func("/audit/sync-fails-in-a-full-file", test_sync_fails_in_a_full_file);
    g_test_add_func("/audit/search", test_search);
    g_test_add_func("/audit/search-long", test_search_long);
    g_test_add_func("/audit/refusals", test_refusals);
    g_test_add_func("/audit/reads", test_reads);
    g_test_add_func("/audit/waiting", test_waiting);
    g_test_add_func("/audit/full", test_full);
    g_test_add_func("/audit/lost", test_lost);
    g_test_add_func("/audit/synced", test_synced);
    g_test_add_func("/audit/outlet", test_outlet);
    g_test_add_func("/audit/digest", test_digest);
    return g_test_run();
}
