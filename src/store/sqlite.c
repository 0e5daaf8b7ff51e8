#include "sqlite.h"

#include "errors.h"
#include "sqlite-db.h"
#include "sqlite-room.h"
#include "txn.h"
#include "wakeup.h"
#include "watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOK G_USEC_PER_SEC /* between looks whether a full disk has room again */
#define SOME (1 << 20)      /* bytes that one transaction may always have: one for each commit would be slow */
#define OP_PAGES 4          /* of a record and of its indices, at most, about */

/* Commits wait in a queue. The writer takes all that wait, writes them in one SQLite transaction, and hands them back: so the
 * disk is asked to be sure once for all of them, and the busier it is the more share that cost. */
typedef struct WeftSqlite {
    WeftStore base;
    int lock;
    WeftDb *reader; /* thread: main */
    WeftDb *writer; /* thread: the writer's once it runs, with revision */
    gint64 revision;
    WeftRoom room; /* thread: likewise */
    GThread *thread;

    GMutex mutex;
    GCond changed;
    GQueue waiting; /* WeftCommit; under mutex, as the next two */
    GQueue written;
    gboolean stop;

    GSource *wakeup; /* runs tell_ended() on the main thread */
    GQueue ended;    /* thread: main, as the next: taken from written, not yet told */
    guint pending;   /* commits that were not yet told */
    gboolean told_full;
} WeftSqlite;

/* --- the writer's thread --- */

static void
move_all(GQueue *from, GQueue *to)
{
    for (GList *link; (link = g_queue_pop_head_link(from));)
        g_queue_push_tail_link(to, link);
}

static gboolean
is_full(WeftSqlite *self)
{
    return g_atomic_int_get(&self->base.full);
}

static void
set_full(WeftSqlite *self, gboolean full)
{
    g_atomic_int_set(&self->base.full, full);
    weft_wakeup_ask(self->wakeup);
}

static guint64
guess_size(WeftSqlite *self, const WeftTxn *txn)
{
    guint64 size = txn->ops->len * OP_PAGES * self->room.page;
    for (guint i = 0; i < txn->ops->len; i++) {
        const char *value = g_array_index(txn->ops, WeftOp, i).value;
        size += value ? strlen(value) : 0;
    }
    return size;
}

/* Half of what the log keeps: so those who wait behind them find that the store is full before they have filled it. */
static void
take_some(WeftSqlite *self, GQueue *from, GQueue *to)
{
    guint64 size = 0, bound = self->room.reserve ? MAX(self->room.reserve / 4, SOME) : G_MAXUINT64;
    while (from->head && size < bound) {
        WeftCommit *commit = from->head->data;
        weft_txn_make_values(commit->txn);
        size += guess_size(self, commit->txn);
        g_queue_push_tail_link(to, g_queue_pop_head_link(from));
    }
}

static void
write_all(WeftSqlite *self, GQueue *commits)
{
    if (!weft_db_write(self->writer, &self->revision, commits, is_full(self)))
        weft_room_fold(&self->room);
    for (GList *link = commits->head; link; link = link->next)
        weft_txn_drop_values(((WeftCommit *)link->data)->txn);
}

/* A disk that was full has to have as much again free for others, lest it be full the next moment. */
static void
look_for_room(WeftSqlite *self)
{
    gboolean full = is_full(self);
    if (weft_room_keep(&self->room, full ? self->room.reserve : 0) == full)
        set_full(self, !full);
}

/* FALSE: nothing came, and it is time for a look. */
static gboolean
wait_for_commits(WeftSqlite *self)
{
    if (is_full(self))
        return g_cond_wait_until(&self->changed, &self->mutex, g_get_monotonic_time() + LOOK);
    g_cond_wait(&self->changed, &self->mutex);
    return TRUE;
}

static void
write_taken(WeftSqlite *self, GQueue *taken)
{
    while (taken->head) {
        GQueue commits = G_QUEUE_INIT;
        take_some(self, taken, &commits);
        write_all(self, &commits);
        look_for_room(self);
        g_mutex_lock(&self->mutex);
        move_all(&commits, &self->written);
        g_cond_broadcast(&self->changed);
        g_mutex_unlock(&self->mutex);
        weft_wakeup_ask(self->wakeup);
    }
}

static gpointer
write_commits(gpointer data)
{
    WeftSqlite *self = data;
    g_mutex_lock(&self->mutex);
    while (!self->stop) {
        if (g_queue_is_empty(&self->waiting)) {
            if (wait_for_commits(self))
                continue;
            g_mutex_unlock(&self->mutex);
            look_for_room(self);
            g_mutex_lock(&self->mutex);
            continue;
        }
        GQueue taken = G_QUEUE_INIT;
        move_all(&self->waiting, &taken);
        g_mutex_unlock(&self->mutex);
        write_taken(self, &taken);
        g_mutex_lock(&self->mutex);
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
        WeftChange change = { op->kind,
                              op->key,
                              op->scope,
                              op->place,
                              commit->revision,
                              op->type == WEFT_OP_DELETE,
                              op->late.told ? op->late.data : NULL };
        g_array_append_val(changes, change);
    }
    weft_store_notify(&self->base, (const WeftChange *)changes->data, changes->len);
}

static void
tell_room(WeftSqlite *self)
{
    gboolean full = is_full(self);
    if (full == self->told_full)
        return;
    self->told_full = full;
    if (self->base.room_changed)
        self->base.room_changed(full, self->base.room_data);
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
        weft_watchdog_mark("the end of transaction", commit->txn->name);
        if (commit->callback)
            commit->callback(commit->error ? 0 : commit->revision, commit->error, commit->data);
        if (!commit->error) {
            notify_changes(self, commit);
            self->base.told = MAX(self->base.told, commit->revision);
        }
        weft_txn_free(commit->txn);
        g_clear_error(&commit->error);
        g_free(commit);
    }
    tell_room(self);
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
    weft_room_clear(&self->room);
    g_mutex_clear(&self->mutex);
    g_cond_clear(&self->changed);
    weft_store_clear(store);
    g_free(self);
}

static WeftStore *sqlite_reader(WeftStore *store, GError **error);

static const WeftStoreOps sqlite_ops = {
    .name = "sqlite",
    .get = sqlite_get,
    .list = sqlite_list,
    .holder = sqlite_holder,
    .used = sqlite_used,
    .commit = sqlite_commit,
    .dump = sqlite_dump,
    .reader = sqlite_reader,
    .free = sqlite_free,
};

/* --- opening --- */

static WeftSqlite *
sqlite_new(void)
{
    WeftSqlite *self = g_new0(WeftSqlite, 1);
    weft_store_init(&self->base, &sqlite_ops);
    g_mutex_init(&self->mutex);
    g_cond_init(&self->changed);
    self->lock = -1;
    weft_room_prepare(&self->room);
    return self;
}

/* There are several: each may keep less of the file in memory than the main thread's. */
static WeftStore *
sqlite_reader(WeftStore *store, GError **error)
{
    WeftSqlite *self = sqlite_new();
    self->reader = weft_db_open(((WeftSqlite *)store)->reader->path, FALSE, error);
    if (self->reader && weft_db_script(self->reader, "PRAGMA cache_size = -8192", error))
        return &self->base;
    sqlite_free(&self->base);
    return NULL;
}

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

/* A lock of the process, not of the descriptor: what weftd has forked and not yet executed when it is killed would keep the
 * latter, and the next weftd could not start. It lies beside the file itself, whatever links lead there. */
int
weft_store_sqlite_lock(const char *path, GError **error)
{
    g_autofree char *file = realpath(path, NULL);
    g_autofree char *lock = g_strconcat(file ? file : path, ".lock", NULL);
    int fd = open_file(lock, error);
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    if (fd < 0 || fcntl(fd, F_SETLK, &whole) == 0)
        return fd;
    g_autofree char *holder =
        fcntl(fd, F_GETLK, &whole) == 0 && whole.l_pid > 0 ? g_strdup_printf(" (process %d)", (int)whole.l_pid) : g_strdup("");
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                "store %s: another weftd%s has it open: stop that one first, or name another file", path, holder);
    g_close(fd, NULL);
    return -1;
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
    self->base.told = self->revision;
    self->reader = weft_db_open(path, FALSE, error);
    return self->reader != NULL;
}

WeftStore *
weft_store_sqlite_open(const char *path, guint64 reserve, GError **error)
{
    WeftSqlite *self = sqlite_new();
    self->lock = weft_store_sqlite_lock(path, error);
    if (self->lock < 0 || !create_file(path, error) || !open_databases(self, path, error) ||
        !weft_room_init(&self->room, self->writer, reserve, error)) {
        sqlite_free(&self->base);
        return NULL;
    }
    self->base.full = self->told_full = !weft_room_keep(&self->room, 0);
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
