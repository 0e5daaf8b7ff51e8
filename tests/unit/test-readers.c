/* Who gets a reader, in which order, and who pays. */
#include "readers.h"

#include "../contract/scratch.h"
#include "clock.h"
#include "request.h"
#include "sqlite.h"

#define READERS 8

typedef struct {
    char *folder;
    WeftStore *store;
    WeftShares *shares;
    WeftBudgets *budgets;
    WeftReaders *readers;
    GPtrArray *requests;
} Site;

static void
set_up(Site *site, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    site->folder = scratch_new();
    g_autofree char *path = g_build_filename(site->folder, "weft.db", NULL);
    site->store = weft_store_sqlite_open(path, 0, &error);
    g_assert_no_error(error);
    site->shares = weft_shares_new((const guint[WEFT_SHARE_KINDS]){ [WEFT_SHARE_READERS] = READERS });
    site->budgets = weft_budgets_new(&(WeftBudgetLimits){ 200, 400, 20 });
    site->readers = weft_readers_new(site->store, READERS, &error);
    g_assert_no_error(error);
    site->requests = g_ptr_array_new_with_free_func((GDestroyNotify)weft_request_unref);
}

static void
tear_down(Site *site, gconstpointer data)
{
    weft_readers_free(site->readers);
    g_ptr_array_unref(site->requests);
    weft_budgets_unref(site->budgets);
    weft_shares_unref(site->shares);
    weft_store_free(site->store);
    scratch_free(site->folder);
}

/* tenant NULL: an operator. */
static WeftRequest *
new_request(Site *site, const char *tenant, const char *name)
{
    WeftRequest *request = weft_request_new(NULL, "/");
    request->method = g_strdup("GET");
    request->principal = g_new0(WeftPrincipal, 1);
    request->principal->tenant = g_strdup(tenant);
    request->principal->name = g_strdup(name);
    request->account = g_strdup_printf("%s/%s", tenant ? tenant : "", name);
    request->store = site->store;
    request->shares = site->shares;
    request->budgets = weft_budgets_ref(site->budgets);
    request->readers = site->readers;
    g_ptr_array_add(site->requests, request);
    return request;
}

/* --- readings that end when they are let go --- */

static GMutex mutex;
static GCond changed;
static gboolean let_go; /* under the mutex, as the next two */
static guint started;
static GString *order;

static void
hold(WeftRequest *request, gpointer data)
{
    g_mutex_lock(&mutex);
    started++;
    g_cond_broadcast(&changed);
    while (!let_go)
        g_cond_wait(&changed, &mutex);
    g_string_append_printf(order, "%s%s", order->len ? " " : "", request->principal->name);
    g_mutex_unlock(&mutex);
    g_assert_true(request->store != NULL && request->reading);
}

static void
set_hold(gboolean held)
{
    g_mutex_lock(&mutex);
    let_go = !held;
    if (held) {
        g_string_truncate(order, 0);
        started = 0;
    }
    g_cond_broadcast(&changed);
    g_mutex_unlock(&mutex);
}

/* The readings that can begin have begun. */
static guint
count_reading(const Site *site)
{
    guint n = 0;
    while (g_main_context_iteration(NULL, FALSE))
        continue;
    for (guint i = 0; i < site->requests->len; i++)
        n += ((const WeftRequest *)site->requests->pdata[i])->reading;
    return n;
}

static void
finish(const Site *site)
{
    set_hold(FALSE);
    while (count_reading(site))
        g_main_context_iteration(NULL, TRUE);
}

static WeftRequest *
add(Site *site, const char *tenant, const char *name)
{
    WeftRequest *request = new_request(site, tenant, name);
    weft_readers_add(request, hold, NULL, NULL);
    return request;
}

static void
test_shared(Site *site, gconstpointer data)
{
    set_hold(TRUE);
    for (guint i = 0; i < 10; i++)
        add(site, "acme", i % 2 ? "alice" : "adam");
    g_assert_cmpuint(count_reading(site), ==, 4);
    add(site, "umbrella", "bob");
    add(site, "umbrella", "bert");
    add(site, "initech", "carol");
    g_assert_cmpuint(count_reading(site), ==, READERS - 1);
    WeftRequest *dave = add(site, "hooli", "dave"), *ada = add(site, NULL, "ada");
    g_assert_cmpuint(count_reading(site), ==, READERS);
    g_assert_true(ada->reading && !dave->reading);
    finish(site);
    g_autofree char *read = g_string_free(g_steal_pointer(&order), FALSE);
    order = g_string_new(NULL);
    g_auto(GStrv) names = g_strsplit(read, " ", -1);
    g_assert_cmpuint(g_strv_length(names), ==, 15);
    g_assert_true(g_strv_contains((const char *const *)names, "dave"));
    for (guint i = 0; i < site->requests->len; i++)
        g_assert_true(((const WeftRequest *)site->requests->pdata[i])->store == site->store);
}

static void
note_freed(gpointer freed)
{
    g_atomic_int_inc((gint *)freed);
}

/* What waits for a client that is gone is not read, and what was found out for it so far is freed. */
static void
test_gone(Site *site, gconstpointer data)
{
    gint freed = 0;
    set_hold(TRUE);
    for (guint i = 0; i < 4; i++)
        add(site, "acme", "alice");
    WeftRequest *waiting = new_request(site, "acme", "gone"), *read = site->requests->pdata[0];
    weft_readers_add(waiting, hold, &freed, note_freed);
    g_assert_cmpuint(count_reading(site), ==, 4);
    g_assert_false(waiting->reading);
    weft_request_abandon(waiting);
    weft_request_abandon(read);
    g_assert_true(weft_request_is_gone(read));
    g_assert_cmpint(g_atomic_int_get(&freed), ==, 1);
    finish(site);
    g_assert_cmpstr(order->str, ==, "alice alice alice alice");
}

/* Burns processor time, however busy the machine is. */
static void
burn(WeftRequest *request, gpointer data)
{
    gint64 until = weft_clock_thread() + 300 * 1000;
    while (weft_clock_thread() < until)
        continue;
}

/* What a reader used is charged; those of the same tenant that wait meanwhile are refused, unless they have begun. */
static void
test_charged(Site *site, gconstpointer data)
{
    static char begun[] = "begun";
    set_hold(FALSE);
    for (guint i = 0; i < 4; i++)
        weft_readers_add(new_request(site, "acme", "alice"), burn, NULL, NULL);
    WeftRequest *late = add(site, "acme", "late"), *old = new_request(site, "acme", "old");
    weft_readers_add(old, hold, begun, NULL);
    set_hold(TRUE);
    WeftRequest *other = add(site, "umbrella", "bob");
    while (!late->reply || !old->reading)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(late->reply->status, ==, 429);
    g_assert_null(other->reply);
    finish(site);
    g_autoptr(GError) error = NULL;
    g_assert_false(weft_request_check_debt(old, WEFT_BUDGET_PROCESSOR, &error));
    g_assert_true(weft_request_check_debt(other, WEFT_BUDGET_PROCESSOR, NULL));
}

/* A server that ends waits for those that read, and forgets what they found. */
static void
test_end(Site *site, gconstpointer data)
{
    set_hold(TRUE);
    for (guint i = 0; i < 3; i++)
        add(site, "acme", "alice");
    g_assert_cmpuint(count_reading(site), ==, 3);
    g_mutex_lock(&mutex);
    while (started < 3)
        g_cond_wait(&changed, &mutex);
    g_mutex_unlock(&mutex);
    set_hold(FALSE);
    g_clear_pointer(&site->readers, weft_readers_free);
    g_assert_cmpstr(order->str, ==, "alice alice alice");
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *path;
        void (*run)(Site *, gconstpointer);
    } tests[] = {
        { "/readers/shared", test_shared },
        { "/readers/gone", test_gone },
        { "/readers/charged", test_charged },
        { "/readers/end", test_end },
    };
    order = g_string_new(NULL);
    g_test_init(&argc, &argv, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(tests); i++)
        g_test_add(tests[i].path, Site, NULL, set_up, tests[i].run, tear_down);
    return g_test_run();
}
