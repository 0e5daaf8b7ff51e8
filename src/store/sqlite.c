#include "sqlite.h"

#include "errors.h"
#include "sqlite-db.h"
#include "txn.h"
#include "wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/file.h>
#include <unistd.h>

/* Commits wait in a queue. The writer takes all that wait, writes them in one SQLite transaction, and hands them back: so the
 * disk is asked to be sure once for all of them, and the busier it is the more share that cost. */
typedef struct WeftSqlite {
    WeftStore base;
    int lock;
    WeftDb *reader; /* thread: main */
    WeftDb *writer; /* thread: the writer's once it runs, with revision */
    gint64 revision;
    GThread *thread;

    GMutex mutex;
    GCond changed;
    GQueue waiting; /* WeftCommit; under mutex, as the next two */
    GQueue written;
    gboolean stop;

    GSource *wakeup; /* runs tell_ended() on the main thread */
    GQueue ended;    /* thread: main, as the next: taken from written, not yet told */
    guint pending;   /* commits that were not yet told */
} WeftSqlite;

/* --- the writer's thread --- */

static void
move_all(GQueue *from, GQueue *to)
{
    for (GList *link; (link = g_queue_pop_head_link(from));)
        g_queue_push_tail_link(to, link);
}

static gpointer
write_commits(gpointer data)
{
    WeftSqlite *self = data;
    g_mutex_lock(&self->mutex);
    while (!self->stop) {
        if (g_queue_is_empty(&self->waiting)) {
            g_cond_wait(&self->changed, &self->mutex);
            continue;
        }
        GQueue commits = G_QUEUE_INIT;
        move_all(&self->waiting, &commits);
        g_mutex_unlock(&self->mutex);
        weft_db_write(self->writer, &self->revision, &commits);
        g_mutex_lock(&self->mutex);
        move_all(&commits, &self->written);
        g_cond_broadcast(&self->changed);
        weft_wakeup_ask(self->wakeup);
    }
    g_mutex_unlock(&self->mutex);
    return NULL;
}

/* --- back on the main thread --- */

static void
notify_changes(WeftSqlite *self, const WeftCommit *commit)
{
    if (self->base.watchers->len == 0)
        return;
    g_autoptr(GArray) changes = g_array_new(FALSE, FALSE, sizeof(WeftChange));
    for (guint i = 0; i < commit->txn->ops->len; i++) {
        const WeftOp *op = &g_array_index(commit->txn->ops, WeftOp, i);
        /* A delete that found nothing has no scope. */
        if (op->type == WEFT_OP_EXPECT || !op->scope)
            continue;
        WeftChange change = { op->kind, op->key, op->scope, op->place, commit->revision, op->type == WEFT_OP_DELETE };
        g_array_append_val(changes, change);
    }
    weft_store_notify(&self->base, (const WeftChange *)changes->data, changes->len);
}

/* A callback may run the main loop: then the inner call goes on with the next commit, and the order holds. */
static void
tell_ended(gpointer data)
{
    WeftSqlite *self = data;
    g_mutex_lock(&self->mutex);
    move_all(&self->written, &self->ended);
    g_mutex_unlock(&self->mutex);
    for (WeftCommit *commit; (commit = g_queue_pop_head(&self->ended));) {
        self->pending--;
        if (commit->callback)
            commit->callback(commit->error ? 0 : commit->revision, commit->error, commit->data);
        if (!commit->error)
            notify_changes(self, commit);
        weft_txn_free(commit->txn);
        g_clear_error(&commit->error);
        g_free(commit);
    }
}

/* --- the operations of store.h --- */

static WeftRecord *
sqlite_get(WeftStore *store, WeftKind kind, const char *key, GError **error)
{
    return weft_db_get(((WeftSqlite *)store)->reader, kind, key, error);
}

static GPtrArray *
sqlite_list(WeftStore *store, const WeftQuery *query, GError **error)
{
    return weft_db_list(((WeftSqlite *)store)->reader, query, error);
}

static WeftRecord *
sqlite_holder(WeftStore *store, const char *resource, GError **error)
{
    return weft_db_holder(((WeftSqlite *)store)->reader, resource, error);
}

static gboolean
sqlite_used(WeftStore *store, const char *resource, guint64 *ret_used, GError **error)
{
    return weft_db_used(((WeftSqlite *)store)->reader, resource, ret_used, error);
}

static json_t *
sqlite_dump(WeftStore *store, GError **error)
{
    return weft_db_dump(((WeftSqlite *)store)->reader, error);
}

static void
sqlite_commit(WeftStore *store, WeftTxn *txn, WeftCommitted callback, gpointer data)
{
    WeftSqlite *self = (WeftSqlite *)store;
    WeftCommit *commit = g_new0(WeftCommit, 1);
    *commit = (WeftCommit){ .txn = txn, .callback = callback, .data = data };
    self->pending++;
    g_mutex_lock(&self->mutex);
    g_queue_push_tail(&self->waiting, commit);
    g_cond_broadcast(&self->changed);
    g_mutex_unlock(&self->mutex);
}

static void
stop_writer(WeftSqlite *self)
{
    while (self->pending > 0) {
        g_mutex_lock(&self->mutex);
        while (g_queue_is_empty(&self->written))
            g_cond_wait(&self->changed, &self->mutex);
        g_mutex_unlock(&self->mutex);
        tell_ended(self);
    }
    g_mutex_lock(&self->mutex);
    self->stop = TRUE;
    g_cond_broadcast(&self->changed);
    g_mutex_unlock(&self->mutex);
    g_thread_join(self->thread);
    g_source_destroy(self->wakeup);
    g_source_unref(self->wakeup);
}

static void
sqlite_free(WeftStore *store)
{
    WeftSqlite *self = (WeftSqlite *)store;
    if (self->thread)
        stop_writer(self);
    /* The last connection to be closed folds the log into the file. */
    weft_db_free(self->reader);
    weft_db_free(self->writer);
    if (self->lock >= 0)
        g_close(self->lock, NULL);
    g_mutex_clear(&self->mutex);
    g_cond_clear(&self->changed);
    weft_store_clear(store);
    g_free(self);
}

static const WeftStoreOps sqlite_ops = {
    .name = "sqlite",
    .get = sqlite_get,
    .list = sqlite_list,
    .holder = sqlite_holder,
    .used = sqlite_used,
    .commit = sqlite_commit,
    .dump = sqlite_dump,
    .free = sqlite_free,
};

/* --- opening --- */

static int
open_file(const char *path, GError **error)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    int reason = errno;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "store %s: %s: %s", path, g_strerror(reason),
                reason == ENOENT ? "create its folder first, or name another file"
                                 : "check the owner and mode of it and its folder");
    return -1;
}

static gboolean
take_lock(WeftSqlite *self, const char *path, GError **error)
{
    g_autofree char *lock = g_strconcat(path, ".lock", NULL);
    self->lock = open_file(lock, error);
    if (self->lock < 0)
        return FALSE;
    if (flock(self->lock, LOCK_EX | LOCK_NB) == 0)
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                "store %s: another weftd has it open: stop that one first, or name another file", path);
    return FALSE;
}

/* SQLite gives its log the mode of the file, so the file is made first, for nobody else to read. */
static gboolean
create_file(const char *path, GError **error)
{
    int fd = open_file(path, error);
    return fd >= 0 && g_close(fd, error);
}

static gboolean
open_databases(WeftSqlite *self, const char *path, GError **error)
{
    self->writer = weft_db_open(path, TRUE, error);
    if (!self->writer || !weft_db_migrate(self->writer, weft_sqlite_migrations, error) ||
        !weft_db_number(self->writer, "SELECT value FROM meta WHERE name = 'revision'", &self->revision, error))
        return FALSE;
    self->reader = weft_db_open(path, FALSE, error);
    return self->reader != NULL;
}

WeftStore *
weft_store_sqlite_open(const char *path, GError **error)
{
    WeftSqlite *self = g_new0(WeftSqlite, 1);
    weft_store_init(&self->base, &sqlite_ops);
    g_mutex_init(&self->mutex);
    g_cond_init(&self->changed);
    if (!take_lock(self, path, error) || !create_file(path, error) || !open_databases(self, path, error)) {
        sqlite_free(&self->base);
        return NULL;
    }
    self->wakeup = weft_wakeup_new(tell_ended, self);
    g_source_set_can_recurse(self->wakeup, TRUE);
    self->thread = g_thread_new("store", write_commits, self);
    return &self->base;
}

json_t *
weft_store_sqlite_dump(const char *path, GError **error)
{
    g_autoptr(WeftDb) db = weft_db_open(path, FALSE, error);
    return db ? weft_db_dump(db, error) : NULL;
}
