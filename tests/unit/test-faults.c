/* What src/base does to files and processes: replacing files, failpoints, and the faults of the fakes. */
#include "errors.h"
#include "failpoint.h"
#include "faults.h"
#include "file.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void
assert_error(GError *error, WeftErrorCode code, const char *message)
{
    g_assert_error(error, WEFT_ERROR, (int)code);
    g_assert_cmpstr(error->message, ==, message);
    g_error_free(error);
}

static char *
scratch_folder(void)
{
    char *folder = g_dir_make_tmp("weft-base-XXXXXX", NULL);
    g_assert_nonnull(folder);
    return folder;
}

static void
assert_remove_folder(const char *folder)
{
    g_assert_cmpint(g_rmdir(folder), ==, 0); /* and so shows that nothing was left in it */
}

/* ---- file ---- */

static void
test_file_replace(void)
{
    g_autofree char *folder = scratch_folder();
    g_autofree char *path = g_build_filename(folder, "file", NULL);
    static const char *const contents[] = { "one", "", "a longer text than the one before" };
    for (guint i = 0; i < G_N_ELEMENTS(contents); i++)
        for (gboolean durable = FALSE; durable <= TRUE; durable++) {
            GError *error = NULL;
            gsize length;
            weft_file_replace(path, contents[i], strlen(contents[i]), durable, &error);
            g_assert_no_error(error);
            g_autofree char *back = weft_file_read(path, 100, &length, &error);
            g_assert_no_error(error);
            g_assert_cmpmem(back, length, contents[i], strlen(contents[i]));
        }
    g_assert_cmpint(g_unlink(path), ==, 0);
    assert_remove_folder(folder);
}

/* A reader that opened the old file goes on reading the old text: nothing is written in place. */
static void
test_file_replace_is_atomic(void)
{
    g_autofree char *folder = scratch_folder();
    g_autofree char *path = g_build_filename(folder, "file", NULL);
    g_assert_true(weft_file_replace(path, "old", 3, FALSE, NULL));
    g_autoptr(GMappedFile) old = g_mapped_file_new(path, FALSE, NULL);
    g_assert_true(weft_file_replace(path, "new", 3, FALSE, NULL));
    g_assert_cmpmem(g_mapped_file_get_contents(old), 3, "old", 3);
    g_assert_cmpint(g_unlink(path), ==, 0);
    assert_remove_folder(folder);
}

static void
test_file_replace_fails(void)
{
    g_autofree char *folder = scratch_folder();
    g_autofree char *missing = g_build_filename(folder, "no", "file", NULL);
    g_autoptr(GError) error = NULL;
    g_assert_false(weft_file_replace(missing, "x", 1, FALSE, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND);
    g_clear_error(&error);

    g_autofree char *inner = g_build_filename(folder, "folder", NULL);
    g_assert_cmpint(g_mkdir(inner, 0700), ==, 0);
    g_assert_false(weft_file_replace(inner, "x", 1, FALSE, &error)); /* a file cannot take a folder's place */
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_FAILED);
    assert_remove_folder(inner);
    assert_remove_folder(folder);
}

static void
test_file_read_fails(void)
{
    g_autofree char *folder = scratch_folder();
    g_autofree char *path = g_build_filename(folder, "file", NULL);
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_file_read(path, 10, NULL, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND);
    g_assert_nonnull(strstr(error->message, path));
    g_clear_error(&error);
    g_assert_null(weft_file_read(folder, 10, NULL, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_FAILED);
    g_clear_error(&error);

    g_assert_true(weft_file_replace(path, "12345", 5, FALSE, NULL));
    g_autofree char *whole = weft_file_read(path, 5, NULL, NULL);
    g_assert_cmpstr(whole, ==, "12345");
    g_assert_null(weft_file_read(path, 4, NULL, &error));
    g_autofree char *message = g_strdup_printf("%s: is longer than 4 bytes, which is the limit", path);
    assert_error(g_steal_pointer(&error), WEFT_ERROR_INVALID, message);
    g_assert_cmpint(g_unlink(path), ==, 0);
    assert_remove_folder(folder);
}

/* ---- failpoint ---- */

typedef struct {
    const char *armed; /* WEFT_FAILPOINT */
    const char *log;   /* what the log must hold then */
    gboolean dies;
} FailpointCase;

/* The environment is read once, so each case is a process of its own; this one never reaches a failpoint itself. */
static int
run_child(const char *armed, const char *log)
{
    pid_t child = fork();
    g_assert_cmpint(child, >=, 0);
    if (child == 0) {
        if (armed)
            g_setenv("WEFT_FAILPOINT", armed, TRUE);
        g_setenv("WEFT_FAILPOINT_LOG", log, TRUE);
        weft_failpoint("one");
        weft_failpoint_edge("two", "before");
        weft_failpoint_edge("two", "after");
        weft_failpoint("one");
        _exit(0);
    }
    int status;
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    return status;
}

#define ALL "one\ntwo-before\ntwo-after\none\n"

static void
test_failpoint(void)
{
    static const FailpointCase cases[] = {
        { NULL, ALL, FALSE },
        { "", ALL, FALSE },
        { "one", "one\n", TRUE },
        { "one:1", "one\n", TRUE },
        { "one:2", ALL, TRUE },
        { "one:3", ALL, FALSE },
        { "two-before", "one\ntwo-before\n", TRUE },
        { "two-after", "one\ntwo-before\ntwo-after\n", TRUE },
        { "two", ALL, FALSE },
    };
    g_autofree char *folder = scratch_folder();
    g_autofree char *log = g_build_filename(folder, "log", NULL);
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        int status = run_child(cases[i].armed, log);
        g_assert_true(cases[i].dies ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                    : WIFEXITED(status) && WEXITSTATUS(status) == 0);
        g_autofree char *text = weft_file_read(log, 1000, NULL, NULL);
        g_assert_cmpstr(text, ==, cases[i].log);
        g_assert_cmpint(g_unlink(log), ==, 0);
    }
    assert_remove_folder(folder);
}

/* ---- faults ---- */

typedef struct {
    char *folder;
    char *general; /* asked last */
    char *host;    /* asked first */
    const char *files[3];
} Faults;

static void
faults_set_up(Faults *faults, gconstpointer data)
{
    faults->folder = scratch_folder();
    faults->general = g_build_filename(faults->folder, "general", NULL);
    faults->host = g_build_filename(faults->folder, "host", NULL);
    faults->files[0] = faults->general;
    faults->files[1] = faults->host;
}

static void
faults_tear_down(Faults *faults, gconstpointer data)
{
    g_unlink(faults->general);
    g_unlink(faults->host);
    assert_remove_folder(faults->folder);
    g_free(faults->general);
    g_free(faults->host);
    g_free(faults->folder);
}

static void
write_faults(const char *path, const char *text)
{
    GError *error = NULL;
    weft_file_replace(path, text, strlen(text), FALSE, &error);
    g_assert_no_error(error);
}

static void
assert_faults(const char *path, const char *text)
{
    g_autofree char *is = weft_file_read(path, 1000, NULL, NULL);
    g_assert_cmpstr(is, ==, text);
}

static void
assert_pass(Faults *faults, const char *op)
{
    GError *error = NULL;
    g_assert_true(weft_faults_pass(op, faults->files, NULL, &error));
    g_assert_no_error(error);
}

static void
assert_fault(Faults *faults, const char *op, WeftErrorCode code, const char *message)
{
    GError *error = NULL;
    g_assert_false(weft_faults_pass(op, faults->files, NULL, &error));
    assert_error(error, code, message);
}

static void
test_faults(Faults *faults, gconstpointer data)
{
    assert_pass(faults, "start");
    write_faults(faults->general, "# a comment\n\nfail start 2 no power today\nslow * 1\n");
    assert_pass(faults, "stop");
    assert_fault(faults, "start", WEFT_ERROR_UNAVAILABLE, "start: no power today");
    assert_faults(faults->general, "# a comment\n\nfail start 1 no power today\nslow * 1\n");
    assert_fault(faults, "start", WEFT_ERROR_UNAVAILABLE, "start: no power today");
    assert_faults(faults->general, "# a comment\n\nslow * 1\n");
    assert_pass(faults, "start");

    write_faults(faults->general, "fail start");
    write_faults(faults->host, "invalid start 1\n");
    assert_fault(faults, "start", WEFT_ERROR_INVALID, "start: told to fail");
    assert_fault(faults, "start", WEFT_ERROR_UNAVAILABLE, "start: told to fail");
    assert_fault(faults, "start", WEFT_ERROR_UNAVAILABLE, "start: told to fail");
    assert_faults(faults->general, "fail start");

    write_faults(faults->host, "lost\n");
    assert_fault(faults, "list", WEFT_ERROR_UNAVAILABLE, "list: no answer");
    g_assert_cmpint(g_unlink(faults->host), ==, 0);
    assert_pass(faults, "list");
}

static void
test_faults_malformed(Faults *faults, gconstpointer data)
{
    static const char *const bad[] = { "explode start",   "fail",     "slow start", "slow start soon", "hang start 1 message",
                                       "hang start once", "lost host" };
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
        write_faults(faults->host, bad[i]);
        g_autofree char *message = g_strdup_printf(
            "fault file %s: line 1 is not understood: %s; write fail, invalid, broken, slow, hang or lost as in faults.h",
            faults->host, bad[i]);
        assert_fault(faults, "start", WEFT_ERROR_INVALID, message);
    }
}

typedef struct {
    Faults *faults;
    GCancellable *cancellable;
    gint failures;
} Caller;

static gpointer
call_once(gpointer data)
{
    Caller *caller = data;
    GError *error = NULL;
    g_assert_false(weft_faults_pass("start", caller->faults->files, caller->cancellable, &error));
    return error;
}

/* Whether the cancellation comes before or during the wait, it ends it. */
static void
test_faults_cancelled(Faults *faults, gconstpointer data)
{
    static const char *const texts[] = { "hang start 1\n", "hang *\n", "slow start 3600000\n",
                                         "slow start 3600000\nhang start\n" };
    for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(GCancellable) cancellable = g_cancellable_new();
        write_faults(faults->host, texts[i]);
        Caller caller = { .faults = faults, .cancellable = cancellable };
        GThread *thread = g_thread_new("caller", call_once, &caller);
        g_cancellable_cancel(cancellable);
        assert_error(g_thread_join(thread), WEFT_ERROR_TIMEOUT, "start was given up before it ended");
        assert_faults(faults->host, i == 0 ? "" : texts[i]);
    }
}

static gpointer
call_often(gpointer data)
{
    Caller *caller = data;
    for (guint i = 0; i < 25; i++)
        if (!weft_faults_pass("start", caller->faults->files, NULL, NULL))
            g_atomic_int_inc(&caller->failures);
    return NULL;
}

static void
test_faults_counted_together(Faults *faults, gconstpointer data)
{
    write_faults(faults->general, "fail start 40\n");
    Caller caller = { .faults = faults };
    GThread *threads[4];
    for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
        threads[i] = g_thread_new("caller", call_often, &caller);
    for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
        g_thread_join(threads[i]);
    g_assert_cmpint(caller.failures, ==, 40);
    assert_faults(faults->general, "");
}

#define ADD_FAULTS(name, function) g_test_add("/faults/" name, Faults, NULL, faults_set_up, function, faults_tear_down)

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/failpoint", test_failpoint);
    g_test_add_func("/file/replace", test_file_replace);
    g_test_add_func("/file/atomic", test_file_replace_is_atomic);
    g_test_add_func("/file/replace-fails", test_file_replace_fails);
    g_test_add_func("/file/read-fails", test_file_read_fails);
    ADD_FAULTS("count", test_faults);
    ADD_FAULTS("malformed", test_faults_malformed);
    ADD_FAULTS("cancelled", test_faults_cancelled);
    ADD_FAULTS("counted-together", test_faults_counted_together);
    return g_test_run();
}
