#include "users.h"

#include <errno.h>
#include <pwd.h>
#include <unistd.h>

#define THREADS 2
#define BUFFER (64 * 1024)
#define USERS_MAX 4096              /* … that are remembered */
#define RESTED (5 * G_USEC_PER_SEC) /* after a failure, before it is asked for again */

struct WeftUsers {
    WeftUserResolver resolve;
    gint64 patience;
    gint64 memory;
    GThreadPool *pool;
    GHashTable *all; /* uid → User */
    gboolean closed; /* it was freed, and an answer came later */
    grefcount references;
};

/* One question, on its way to a thread and back. */
typedef struct {
    WeftUsers *users;
    guint uid;
    gint dropped; /* atomic: nobody waits for it any more */
    char *name;
    gboolean failed;
} Question;

typedef struct {
    WeftUserFound found;
    gpointer data;
} Waiter;

typedef struct {
    WeftUsers *users;
    guint uid;
    char *name;      /* NULL: not known */
    gboolean named;  /* … by the user database: what is only a number is forgotten first */
    gint64 until;    /* what is known is not asked for again */
    Question *asked; /* NULL: it is not being asked for */
    gint64 rested;   /* until then nobody waits for the answer: it has not come in time */
    guint deadline;  /* for those who wait */
    GArray *waiters; /* Waiter */
} User;

static char *
ask_system(guint uid, gboolean *ret_failed)
{
    g_autofree char *buffer = g_malloc(BUFFER);
    struct passwd entry, *found = NULL;
    int number = getpwuid_r(uid, &entry, buffer, BUFFER, &found);
    *ret_failed = !found && number != 0 && number != ENOENT && number != ESRCH;
    return found ? g_strdup(found->pw_name) : NULL;
}

static void
user_free(gpointer data)
{
    User *user = data;
    g_clear_handle_id(&user->deadline, g_source_remove);
    g_array_unref(user->waiters);
    g_free(user->name);
    g_free(user);
}

static void
users_unref(WeftUsers *users)
{
    if (g_ref_count_dec(&users->references))
        g_free(users);
}

/* --- answers --- */

static void
answer_waiters(User *user)
{
    g_clear_handle_id(&user->deadline, g_source_remove);
    g_autoptr(GArray) waiters = g_steal_pointer(&user->waiters);
    g_autofree char *name = g_strdup(user->name);
    user->waiters = g_array_new(FALSE, FALSE, sizeof(Waiter));
    for (guint i = 0; i < waiters->len; i++) {
        const Waiter *waiter = &g_array_index(waiters, Waiter, i);
        waiter->found(name, waiter->data);
    }
}

/* A question that a thread has begun goes on: its answer still is of use for the next. Those that wait for a thread are
 * dropped, else one person with many numbers would have the threads busy for everybody. */
static gboolean
on_deadline(gpointer data)
{
    User *user = data;
    user->deadline = 0;
    g_atomic_int_set(&user->asked->dropped, TRUE);
    user->rested = g_get_monotonic_time() + RESTED;
    g_warning("user %u: the system's user database does not answer", user->uid);
    answer_waiters(user);
    return G_SOURCE_REMOVE;
}

static void
learn(User *user, char *name, gboolean failed)
{
    user->until = g_get_monotonic_time() + (failed ? RESTED : user->users->memory);
    if (failed)
        return; /* what was known is better than nothing */
    g_free(user->name);
    user->named = name != NULL;
    user->name = name ? name : g_strdup_printf("%u", user->uid);
}

static gboolean
on_answer(gpointer data)
{
    Question *question = data;
    WeftUsers *users = question->users;
    User *user = users->closed ? NULL : g_hash_table_lookup(users->all, GUINT_TO_POINTER(question->uid));
    if (user && user->asked == question) {
        user->asked = NULL;
        learn(user, g_steal_pointer(&question->name), question->failed);
        answer_waiters(user);
    }
    g_free(question->name);
    g_free(question);
    users_unref(users);
    return G_SOURCE_REMOVE;
}

/* thread: of the pool */
static void
ask(gpointer data, gpointer unused)
{
    Question *question = data;
    question->failed = g_atomic_int_get(&question->dropped);
    if (!question->failed)
        question->name = question->users->resolve(question->uid, &question->failed);
    g_idle_add_full(G_PRIORITY_DEFAULT, on_answer, question, NULL);
}

/* --- questions --- */

static gboolean
can_be_forgotten(gpointer key, gpointer value, gpointer named)
{
    const User *user = value;
    return !user->asked && user->until != G_MAXINT64 && (!user->named || named);
}

static void
forget_some(WeftUsers *users)
{
    g_hash_table_foreach_remove(users->all, can_be_forgotten, NULL);
    if (g_hash_table_size(users->all) >= USERS_MAX)
        g_hash_table_foreach_remove(users->all, can_be_forgotten, users);
}

static User *
user_of(WeftUsers *users, guint uid)
{
    User *user = g_hash_table_lookup(users->all, GUINT_TO_POINTER(uid));
    if (user)
        return user;
    if (g_hash_table_size(users->all) >= USERS_MAX)
        forget_some(users);
    user = g_new0(User, 1);
    user->users = users;
    user->uid = uid;
    user->waiters = g_array_new(FALSE, FALSE, sizeof(Waiter));
    g_hash_table_insert(users->all, GUINT_TO_POINTER(uid), user);
    return user;
}

static void
begin_question(User *user)
{
    Question *question = g_new0(Question, 1);
    question->users = user->users;
    question->uid = user->uid;
    g_ref_count_inc(&user->users->references);
    user->asked = question;
    g_thread_pool_push(user->users->pool, question, NULL);
}

/* A name that was known counts until another one is: those who have one do not wait for a directory that is slow. */
void
weft_users_find(WeftUsers *users, guint uid, WeftUserFound found, gpointer data)
{
    User *user = user_of(users, uid);
    gint64 now = g_get_monotonic_time();
    gboolean waits = user->until <= now && !user->named && !(user->asked && user->rested > now);
    if (!user->asked && user->until <= now)
        begin_question(user);
    if (!waits) {
        found(user->name, data);
        return;
    }
    Waiter waiter = { found, data };
    g_array_append_val(user->waiters, waiter);
    if (!user->deadline)
        user->deadline = g_timeout_add((guint)(users->patience / 1000), on_deadline, user);
}

/* --- life --- */

static void
learn_now(WeftUsers *users, guint uid)
{
    gboolean failed = FALSE;
    User *user = user_of(users, uid);
    learn(user, users->resolve(uid, &failed), FALSE);
    user->until = G_MAXINT64;
}

WeftUsers *
weft_users_new(WeftUserResolver resolve, gint64 patience, gint64 memory)
{
    WeftUsers *users = g_new0(WeftUsers, 1);
    g_ref_count_init(&users->references);
    users->resolve = resolve ? resolve : ask_system;
    users->patience = patience;
    users->memory = memory;
    users->pool = g_thread_pool_new(ask, NULL, THREADS, FALSE, NULL);
    users->all = g_hash_table_new_full(NULL, NULL, NULL, user_free);
    learn_now(users, 0);
    learn_now(users, geteuid());
    return users;
}

/* A thread that still waits for an answer is left to itself. */
void
weft_users_free(WeftUsers *users)
{
    if (!users)
        return;
    users->closed = TRUE;
    GHashTableIter iter;
    gpointer user;
    g_hash_table_iter_init(&iter, users->all);
    while (g_hash_table_iter_next(&iter, NULL, &user))
        answer_waiters(user);
    g_thread_pool_free(users->pool, FALSE, FALSE);
    g_hash_table_unref(users->all);
    users_unref(users);
}
