/* What only the SQLite store does: its file, its schema, and what happens when the disk or the process fails. */
#include "../contract/scratch.h"
#include "errors.h"
#include "sqlite-db.h"
#include "sqlite.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *program;

typedef struct Env {
    char *folder;
    char *path;
} Env;

static void
set_up(Env *env, gconstpointer data)
{
    env->folder = scratch_new();
    env->path = g_build_filename(env->folder, "weft.db", NULL);
}

static void
tear_down(Env *env, gconstpointer data)
{
    scratch_free(env->folder);
    g_free(env->path);
}

static WeftStore *
open_store(Env *env)
{
    GError *error = NULL;
    WeftStore *store = weft_store_sqlite_open(env->path, 0, &error);
    g_assert_no_error(error);
    return store;
}

/* The message tells what is wrong and what to do; the file stays as it is. */
static void
refuse_open(Env *env, WeftErrorCode code, const char *pattern)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_store_sqlite_open(env->path, 0, &error));
    g_assert_error(error, WEFT_ERROR, (int)code);
    g_test_message("%s", error->message);
    g_assert_true(g_str_has_prefix(error->message, "store "));
    g_assert_true(g_pattern_match_simple(pattern, error->message));
}

static WeftTxn *
put_node(const char *key, const char *claim)
{
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put(txn, WEFT_KIND_NODE, key, NULL, NULL, json_object(), WEFT_ANY);
    if (claim)
        weft_txn_claim(txn, "%s", claim);
    return txn;
}

static void
commit(WeftStore *store, WeftTxn *txn)
{
    GError *error = NULL;
    weft_store_commit_wait(store, txn, &error);
    g_assert_no_error(error);
}

/* A connection of the test's own, as a careless program would have. Returns SQLite's code. */
static int
run_sql(Env *env, const char *sql)
{
    sqlite3 *sqlite;
    g_assert_cmpint(sqlite3_open(env->path, &sqlite), ==, SQLITE_OK);
    sqlite3_busy_timeout(sqlite, 5000);
    int code = sqlite3_exec(sqlite, sql, NULL, NULL, NULL);
    sqlite3_close(sqlite);
    return code;
}

/* --- opening --- */

static void
test_private(Env *env, gconstpointer data)
{
    g_autoptr(WeftStore) store = open_store(env);
    commit(store, put_node("x", NULL));
    static const char *const suffixes[] = { "", "-wal", "-shm", ".lock" };
    for (gsize i = 0; i < G_N_ELEMENTS(suffixes); i++) {
        g_autofree char *path = g_strconcat(env->path, suffixes[i], NULL);
        struct stat status;
        g_assert_cmpint(stat(path, &status), ==, 0);
        g_assert_cmpint(status.st_mode & 0777, ==, 0600);
    }
}

static void
assert_setting(WeftDb *db, const char *pragma, const char *expected)
{
    GError *error = NULL;
    g_autoptr(WeftRows) rows = weft_db_query(db, &error, pragma, "");
    g_assert_true(rows && weft_db_next(db, rows, &error));
    g_test_message("%s", pragma);
    g_assert_cmpstr(weft_rows_text(rows, 0), ==, expected);
}

/* No test can cut the power: this asks for what makes an answered commit outlive that. */
static void
test_durable(Env *env, gconstpointer data)
{
    weft_store_free(open_store(env));
    GError *error = NULL;
    g_autoptr(WeftDb) writer = weft_db_open(env->path, TRUE, &error);
    g_assert_no_error(error);
    assert_setting(writer, "PRAGMA journal_mode", "wal");
    assert_setting(writer, "PRAGMA synchronous", "2"); /* FULL */
    assert_setting(writer, "PRAGMA foreign_keys", "1");
    g_autoptr(WeftDb) reader = weft_db_open(env->path, FALSE, &error);
    g_assert_no_error(error);
    assert_setting(reader, "PRAGMA query_only", "1");
}

/* Another process is told who has the store open. */
static void
assert_refused(const char *path)
{
    g_autofree char *expected = g_strdup_printf("*another weftd (process %d) has it open: stop that one first*", (int)getpid());
    pid_t other = fork();
    if (other == 0) {
        GError *error = NULL;
        int lock = weft_store_sqlite_lock(path, &error);
        _exit(lock < 0 && g_error_matches(error, WEFT_ERROR, WEFT_ERROR_CONFLICT) &&
                      g_pattern_match_simple(expected, error->message)
                  ? 0
                  : 1);
    }
    int status;
    g_assert_cmpint(waitpid(other, &status, 0), ==, other);
    g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void
test_second_opener(Env *env, gconstpointer data)
{
    WeftStore *store = open_store(env);
    g_autofree char *link = g_strconcat(env->path, ".link", NULL);
    assert_refused(env->path);
    g_assert_cmpint(symlink(env->path, link), ==, 0);
    assert_refused(link);
    g_assert_cmpint(g_unlink(link), ==, 0);
    commit(store, put_node("x", NULL));
    weft_store_free(store);
}

/* weftd is killed between the fork and the exec of a program: its child lives on with all descriptors, and the store is free.
 */
static void
test_a_child_keeps_no_lock(Env *env, gconstpointer data)
{
    int held[2];
    g_assert_cmpint(pipe(held), ==, 0);
    pid_t weftd = fork();
    if (weftd == 0) {
        if (weft_store_sqlite_lock(env->path, NULL) < 0)
            _exit(1);
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        _exit(write(held[1], &child, sizeof(child)) == sizeof(child) ? 0 : 1);
    }
    int status;
    g_assert_cmpint(waitpid(weftd, &status, 0), ==, weftd);
    g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pid_t child;
    g_assert_cmpint(read(held[0], &child, sizeof(child)), ==, sizeof(child));
    weft_store_free(open_store(env));
    kill(child, SIGKILL);
    close(held[0]);
    close(held[1]);
}

static void
test_no_folder(Env *env, gconstpointer data)
{
    Env missing = { .path = (char *)"/nonexistent/weft.db" };
    refuse_open(&missing, WEFT_ERROR_INVALID, "*No such file or directory: create its folder first*");
}

static void
test_foreign_file(Env *env, gconstpointer data)
{
    g_assert_cmpint(run_sql(env, "CREATE TABLE songs (title TEXT)"), ==, SQLITE_OK);
    g_autofree char *before = NULL, *after = NULL;
    gsize length, length_after;
    g_assert_true(g_file_get_contents(env->path, &before, &length, NULL));
    refuse_open(env, WEFT_ERROR_INVALID, "*of another program: name another file*");
    g_assert_true(g_file_get_contents(env->path, &after, &length_after, NULL));
    g_assert_cmpmem(before, length, after, length_after);

    g_assert_true(g_file_set_contents(env->path, "dear diary, today I set up a cluster of eight nodes", -1, NULL));
    refuse_open(env, WEFT_ERROR_UNAVAILABLE, "*not a store of weft: restore it from a backup, or name another file*");
}

static void
test_future_version(Env *env, gconstpointer data)
{
    weft_store_free(open_store(env));
    g_assert_cmpint(run_sql(env, "PRAGMA user_version = 99"), ==, SQLITE_OK);
    refuse_open(env, WEFT_ERROR_INVALID, "*written by a newer weft (schema version 99, this one knows up to 1)*");
}

static void
test_damaged(Env *env, gconstpointer data)
{
    WeftStore *store = open_store(env);
    for (guint i = 0; i < 200; i++) {
        g_autofree char *key = g_strdup_printf("node-%u", i);
        weft_store_commit(store, put_node(key, key), NULL, NULL);
    }
    weft_store_free(store);
    g_autofree char *bytes = NULL;
    gsize length;
    g_assert_true(g_file_get_contents(env->path, &bytes, &length, NULL));
    /* Everything after the first page, which holds the schema. */
    memset(bytes + 4096, 0x5a, length - 4096);
    g_assert_true(g_file_set_contents(env->path, bytes, length, NULL));
    refuse_open(env, WEFT_ERROR_UNAVAILABLE, "*the file is damaged*restore*from a backup*");
    g_assert_true(g_file_set_contents(env->path, bytes, length / 2, NULL));
    refuse_open(env, WEFT_ERROR_UNAVAILABLE, "*the file is damaged*restore*from a backup*");
}

/* --- migrations --- */

static int
migrate(Env *env, const char *const *migrations, GError **error)
{
    g_autoptr(WeftDb) db = weft_db_open(env->path, TRUE, error);
    return db && weft_db_migrate(db, migrations, error);
}

static void
test_migrations(Env *env, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    static const char one[] = "PRAGMA application_id = 0x77656674; CREATE TABLE a (x); INSERT INTO a VALUES (1)";
    static const char two[] = "CREATE TABLE b (x); INSERT INTO b SELECT x + 1 FROM a";
    static const char broken[] = "CREATE TABLE c (x); INSERT INTO nowhere VALUES (1)";
    g_assert_true(g_file_set_contents(env->path, "", 0, NULL));

    g_assert_true(migrate(env, (const char *const[]){ one, NULL }, &error));
    g_assert_no_error(error);
    /* Up to date: nothing runs again. */
    g_assert_true(migrate(env, (const char *const[]){ one, NULL }, &error));
    /* A step that fails leaves the file as the step before left it. */
    g_assert_false(migrate(env, (const char *const[]){ one, two, broken, NULL }, &error));
    g_assert_nonnull(error);
    g_assert_true(g_str_has_prefix(error->message, "schema version 3: "));
    g_clear_error(&error);
    g_assert_cmpint(run_sql(env, "SELECT * FROM c"), ==, SQLITE_ERROR);
    g_assert_cmpint(run_sql(env, "CREATE TEMP TABLE t (x CHECK (x = 2)); INSERT INTO t SELECT x FROM b"), ==, SQLITE_OK);
    g_assert_true(migrate(env, (const char *const[]){ one, two, NULL }, &error));
    g_assert_no_error(error);
    /* And one that knows less is too old. */
    g_assert_false(migrate(env, (const char *const[]){ one, NULL }, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
}

static void
test_version_1(Env *env, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_assert_true(g_file_set_contents(env->path, "", 0, NULL));
    g_assert_true(migrate(env, (const char *const[]){ weft_sqlite_migrations[0], NULL }, &error));
    g_assert_no_error(error);
    g_autoptr(WeftStore) store = open_store(env);
    commit(store, put_node("x", "host/n1/core/1"));
}

/* --- the schema holds whatever the code does --- */

static void
test_schema_refuses(Env *env, gconstpointer data)
{
    static const char *const resources[] = { "host/n1/core/3", "host/n1/vf/mlx5_0/1", "fabric/ib0/guid/0x0000000000000077",
                                             "fabric/ib0/pkey/17" };
    g_autoptr(WeftStore) store = open_store(env);
    for (gsize i = 0; i < G_N_ELEMENTS(resources); i++) {
        g_autofree char *key = g_strdup_printf("node-%zu", i);
        commit(store, put_node(key, resources[i]));
        g_autofree char *sql = g_strdup_printf("INSERT INTO claim SELECT '%s', id FROM record", resources[i]);
        g_assert_cmpint(run_sql(env, sql), ==, SQLITE_CONSTRAINT);
    }
}

static void
test_schema_limits(Env *env, gconstpointer data)
{
    g_autoptr(WeftStore) store = open_store(env);
    WeftTxn *txn = put_node("x", NULL);
    weft_txn_share(txn, 90, 100, "pages");
    commit(store, txn);
    commit(store, put_node("y", NULL));
    static const struct {
        const char *sql;
        int code;
    } tries[] = {
        { "INSERT INTO share SELECT 'pages', id, 11, 100 FROM record WHERE key = 'y'", SQLITE_CONSTRAINT },
        { "UPDATE share SET amount = 101", SQLITE_CONSTRAINT },
        { "UPDATE share SET amount = 0", SQLITE_CONSTRAINT },
        { "UPDATE share SET resource = 'others'", SQLITE_CONSTRAINT },
        { "UPDATE meter SET used = -1", SQLITE_CONSTRAINT },
        { "INSERT INTO share SELECT 'pages', id, 'many', 100 FROM record WHERE key = 'y'", SQLITE_CONSTRAINT },
        { "INSERT INTO share SELECT 'pages', id, 10, 100 FROM record WHERE key = 'y'", SQLITE_OK },
        { "UPDATE share SET amount = 80, bound = 1 WHERE amount = 90", SQLITE_OK },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(tries); i++)
        g_assert_cmpint(run_sql(env, tries[i].sql), ==, tries[i].code);
    guint64 used;
    g_assert_true(weft_store_used(store, "pages", &used, NULL));
    g_assert_cmpuint(used, ==, 90);
}

/* --- when things fail --- */

static void
limit_file_size(rlim_t limit)
{
    struct rlimit now;
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &now), ==, 0);
    now.rlim_cur = MIN(limit, now.rlim_max);
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &now), ==, 0);
}

static void
expect_unavailable(gint64 revision, const GError *error, gpointer data)
{
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    g_assert_true(g_str_has_prefix(error->message, "store "));
    ++*(guint *)data;
}

/* Files that cannot grow are what a full disk looks like. All fail, none is half written, and afterwards it works again. */
static void
test_disk_full(Env *env, gconstpointer data)
{
    g_autoptr(WeftStore) store = open_store(env);
    commit(store, put_node("before", "core/1"));
    json_auto_t *before = weft_store_dump(store, NULL);

    guint failed = 0;
    signal(SIGXFSZ, SIG_IGN);
    limit_file_size(96 << 10);
    for (guint i = 0; i < 4; i++) {
        WeftTxn *txn = put_node("before", NULL);
        for (guint node = 0; node < 500; node++) {
            g_autofree char *key = g_strdup_printf("full-%u-%u", i, node);
            weft_txn_put(txn, WEFT_KIND_NODE, key, NULL, NULL, json_object(), WEFT_ABSENT);
            weft_txn_claim(txn, "%s", key);
        }
        weft_store_commit(store, txn, expect_unavailable, &failed);
    }
    while (failed < 4)
        g_main_context_iteration(NULL, TRUE);
    limit_file_size(RLIM_INFINITY);

    json_auto_t *after = weft_store_dump(store, NULL);
    g_assert_true(json_equal(before, after));
    commit(store, put_node("after", "core/2"));
    g_assert_false(weft_store_commit_wait(store, put_node("thief", "core/1"), NULL));
}

static void
count_refused(gint64 revision, const GError *error, gpointer data)
{
    guint *ended = data;
    ended[0]++;
    if (error)
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    ended[1] += error != NULL;
}

/* Given all at once, when nothing tells yet that the store is about to be full: they leave enough for those who may use it. */
static void
test_reserve(Env *env, gconstpointer data)
{
    g_autoptr(WeftStore) store = weft_store_sqlite_open(env->path, 8 << 20, NULL);
    commit(store, put_node("old", NULL));
    g_autofree char *log = g_strconcat(env->path, "-wal", NULL);
    g_autofree char *text = g_strnfill(30000, 'x');
    struct stat status;
    g_assert_cmpint(stat(log, &status), ==, 0);
    signal(SIGXFSZ, SIG_IGN);
    limit_file_size((rlim_t)status.st_size);

    WeftTxn *flood[400];
    for (guint i = 0; i < G_N_ELEMENTS(flood); i++) {
        g_autofree char *key = g_strdup_printf("flood-%u", i);
        flood[i] = weft_txn_new("test");
        weft_txn_put(flood[i], WEFT_KIND_NODE, key, NULL, NULL, json_string(text), WEFT_ABSENT);
        weft_txn_leave_reserve(flood[i]);
    }
    guint ended[2] = { 0 };
    for (guint i = 0; i < G_N_ELEMENTS(flood); i++)
        weft_store_commit(store, flood[i], count_refused, ended);
    while (ended[0] < G_N_ELEMENTS(flood))
        g_main_context_iteration(NULL, TRUE);
    g_assert_true(weft_store_is_full(store));
    g_assert_cmpuint(ended[1], >, 0);
    for (guint i = 0; i < 100; i++) {
        WeftTxn *txn = put_node("admin", NULL);
        weft_txn_delete(txn, WEFT_KIND_NODE, "old", WEFT_ANY);
        commit(store, txn);
    }
    limit_file_size(RLIM_INFINITY);
}

#define PARTS 3

typedef struct Round {
    WeftStore *store;
    guint number;
} Round;

/* In the process that will be killed: each commit is PARTS records with a claim each; it says so once it is told. */
static void
commit_next(gint64 revision, const GError *error, gpointer data)
{
    Round *round = data;
    g_assert_no_error(error);
    if (revision > 0 && write(STDOUT_FILENO, &round->number, sizeof round->number) != sizeof round->number)
        _exit(1);
    static guint next;
    round->number = next++;
    WeftTxn *txn = weft_txn_new("test");
    for (guint part = 0; part < PARTS; part++) {
        g_autofree char *key = g_strdup_printf("%06u-%u", round->number, part);
        weft_txn_put(txn, WEFT_KIND_NODE, key, NULL, NULL, json_object(), WEFT_ABSENT);
        weft_txn_claim(txn, "core/%s", key);
    }
    weft_store_commit(round->store, txn, commit_next, round);
}

static int
commit_until_killed(const char *path)
{
    Round rounds[16] = { 0 };
    WeftStore *store = weft_store_sqlite_open(path, 0, NULL);
    for (guint i = 0; store && i < G_N_ELEMENTS(rounds); i++) {
        rounds[i].store = store;
        commit_next(0, NULL, &rounds[i]);
    }
    while (store)
        g_main_context_iteration(NULL, TRUE);
    return 1;
}

static void
assert_whole(WeftStore *store, GHashTable *acknowledged)
{
    GError *error = NULL;
    g_autoptr(GPtrArray) records = weft_store_list(store, &(WeftQuery){ WEFT_KIND_NODE }, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(records->len % PARTS, ==, 0);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = records->pdata[i], *first = records->pdata[i - i % PARTS];
        g_assert_cmpint(record->revision, ==, first->revision);
        g_autofree char *core = g_strdup_printf("core/%s", record->key);
        g_autoptr(WeftRecord) holder = weft_store_holder(store, core, &error);
        g_assert_no_error(error);
        g_assert_cmpstr(holder ? holder->key : NULL, ==, record->key);
        if (i % PARTS == 0)
            g_hash_table_remove(acknowledged, GUINT_TO_POINTER(g_ascii_strtoull(record->key, NULL, 10)));
    }
    g_assert_cmpuint(g_hash_table_size(acknowledged), ==, 0);
}

static void
test_kill(Env *env, gconstpointer data)
{
    GError *error = NULL;
    GPid pid;
    int pipe;
    char *argv[] = { (char *)program, (char *)"commit-until-killed", env->path, NULL };
    g_spawn_async_with_pipes(NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &pid, NULL, &pipe, NULL, &error);
    g_assert_no_error(error);

    g_autoptr(GHashTable) acknowledged = g_hash_table_new(NULL, NULL);
    guint number, wanted = (guint)g_test_rand_int_range(200, 400);
    while (read(pipe, &number, sizeof number) == sizeof number) {
        g_hash_table_add(acknowledged, GUINT_TO_POINTER(number));
        if (g_hash_table_size(acknowledged) == wanted)
            kill(pid, SIGKILL);
    }
    int status;
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(pipe);
    g_assert_cmpuint(g_hash_table_size(acknowledged), >=, wanted);

    g_autoptr(WeftStore) store = open_store(env);
    assert_whole(store, acknowledged);
    commit(store, put_node("alive", NULL));
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *path;
        void (*run)(Env *env, gconstpointer data);
    } tests[] = {
        { "/store/private", test_private },
        { "/store/durable", test_durable },
        { "/store/second-opener", test_second_opener },
        { "/store/a-child-keeps-no-lock", test_a_child_keeps_no_lock },
        { "/store/no-folder", test_no_folder },
        { "/store/foreign-file", test_foreign_file },
        { "/store/future-version", test_future_version },
        { "/store/damaged", test_damaged },
        { "/store/migrations", test_migrations },
        { "/store/version-1", test_version_1 },
        { "/store/schema-refuses", test_schema_refuses },
        { "/store/schema-limits", test_schema_limits },
        { "/store/disk-full", test_disk_full },
        { "/store/reserve", test_reserve },
        { "/store/kill", test_kill },
    };
    if (argc == 3 && g_str_equal(argv[1], "commit-until-killed"))
        return commit_until_killed(argv[2]);
    program = argv[0];
    g_test_init(&argc, &argv, NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(tests); i++)
        g_test_add(tests[i].path, Env, NULL, set_up, tests[i].run, tear_down);
    return g_test_run();
}
