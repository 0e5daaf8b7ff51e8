#include "wiring.h"

#include "call.h"
#include "clock.h"
#include "errors.h"
#include "failpoint.h"

/* A wish that waits or is being applied. */
typedef struct Wish {
    guint pkey;
    WeftPartition *partition; /* NULL: to be removed */
    char *name;               /* of the one to be removed */
    WeftWired callback;
    gpointer data;
    struct Wish *older; /* replaced by this one before it was sent */
} Wish;

struct WeftWiring {
    char *fabric;
    WeftFabricDriver *driver;
    gint64 deadline;
    guint64 generation;
    GQueue waiting;    /* Wish, one for each number */
    GPtrArray *flying; /* Wish, being applied; NULL: none */
    WeftCall apply;
    guint alone;       /* so many go one by one: a batch failed, and one bad wish must not hold up the others */
    WeftWiringMay may; /* NULL: always */
    WeftWiringOvertaken overtaken;
    gpointer guard_data;
    GError *conflict;      /* the change under way is in conflict: with another's partition, or a later generation? */
    WeftSurveyed surveyed; /* NULL: no survey is under way */
    gpointer survey_data;
    WeftCall survey;
};

static void send(WeftWiring *wiring);

static void
wish_free(gpointer data)
{
    Wish *wish = data;
    if (wish->older)
        wish_free(wish->older);
    weft_partition_free(wish->partition);
    g_free(wish->name);
    g_free(wish);
}

static void
answer(const Wish *wish, const GError *error)
{
    if (wish->older)
        answer(wish->older, error);
    wish->callback(error, wish->data);
}

/* --- one change at a time --- */

static void
put_back(WeftWiring *wiring, GPtrArray *wishes)
{
    wiring->alone = wishes->len;
    g_ptr_array_set_free_func(wishes, NULL);
    for (guint i = wishes->len; i-- > 0;)
        g_queue_push_head(&wiring->waiting, wishes->pdata[i]);
}

static void
answer_all(const GPtrArray *wishes, const GError *error)
{
    for (guint i = 0; i < wishes->len; i++)
        answer(wishes->pdata[i], error);
}

/* one_by_one: it may have failed because of one of its wishes. */
static void
finish(WeftWiring *wiring, const GError *error, gboolean one_by_one)
{
    g_autoptr(GPtrArray) wishes = g_steal_pointer(&wiring->flying);
    if (error && wishes->len > 1 && one_by_one)
        put_back(wiring, wishes);
    else
        answer_all(wishes, error);
    send(wiring);
}

/* Another weftd on this fabric, of a site with numbers of its own, or one that has no right to be there: whoever still has its
 * hosts goes on after it. */
static void
asked_generation(const WeftManager *manager, const GError *error, gpointer data)
{
    WeftWiring *wiring = data;
    weft_failpoint_edge("greet", "after");
    weft_call_end(&wiring->apply);
    g_autoptr(GError) conflict = g_steal_pointer(&wiring->conflict);
    gboolean late = manager && manager->generation > wiring->generation;
    if (late) {
        wiring->generation = manager->generation;
        conflict->code = WEFT_ERROR_BUSY;
        g_prefix_error(
            &conflict,
            "somebody else has changed fabric %s; hosts are asked whose they are, then it is tried again: ", wiring->fabric);
        if (wiring->overtaken)
            wiring->overtaken(wiring->guard_data);
    }
    finish(wiring, conflict, !late);
}

static void
applied(const GError *error, gpointer data)
{
    WeftWiring *wiring = data;
    weft_failpoint_edge("apply", "after");

    weft_call_end(&wiring->apply);
    if (!g_error_matches(error, WEFT_ERROR, WEFT_ERROR_CONFLICT)) {
        finish(wiring, error, TRUE);
        return;
    }
    wiring->conflict = g_error_copy(error);
    weft_call_begin(&wiring->apply, wiring->deadline);
    weft_failpoint_edge("greet", "before");
    wiring->driver->ops->greet(wiring->driver, wiring->apply.cancellable, asked_generation, wiring);
}

static WeftFabricChange *
gather(WeftWiring *wiring)
{
    WeftFabricChange *change = weft_fabric_change_new(++wiring->generation);
    guint most = wiring->alone ? 1 : G_MAXUINT;
    wiring->alone -= wiring->alone > 0;
    wiring->flying = g_ptr_array_new_with_free_func(wish_free);

    Wish *wish;
    while (wiring->flying->len < most && (wish = g_queue_pop_head(&wiring->waiting))) {
        g_ptr_array_add(wiring->flying, wish);
        if (wish->partition)
            g_ptr_array_add(change->set, weft_partition_copy(wish->partition));
        else
            weft_fabric_change_remove(change, wish->pkey, wish->name);
    }
    return change;
}

static void
refuse_waiting(WeftWiring *wiring, const GError *error)
{
    g_autoptr(GPtrArray) wishes = g_ptr_array_new_with_free_func(wish_free);
    Wish *wish;
    while ((wish = g_queue_pop_head(&wiring->waiting)))
        g_ptr_array_add(wishes, wish);
    wiring->alone = 0;
    answer_all(wishes, error);
}

static void
send(WeftWiring *wiring)
{
    g_autoptr(GError) error = NULL;
    if (wiring->flying || g_queue_is_empty(&wiring->waiting))
        return;
    if (wiring->may && !wiring->may(wiring->guard_data, &error)) {
        refuse_waiting(wiring, error);
        return;
    }
    WeftFabricChange *change = gather(wiring);
    weft_call_begin(&wiring->apply, wiring->deadline);
    weft_failpoint_edge("apply", "before");
    wiring->driver->ops->apply(wiring->driver, change, wiring->apply.cancellable, applied, wiring);
}

/* --- wishes --- */

static Wish *
take_waiting(WeftWiring *wiring, guint pkey)
{
    for (GList *link = wiring->waiting.head; link; link = link->next)
        if (((Wish *)link->data)->pkey == pkey) {
            Wish *wish = link->data;
            g_queue_delete_link(&wiring->waiting, link);
            return wish;
        }
    return NULL;
}

static void
add(WeftWiring *wiring, Wish wish)
{
    wish.older = take_waiting(wiring, wish.pkey);
    g_queue_push_tail(&wiring->waiting, g_memdup2(&wish, sizeof wish));
    send(wiring);
}

void
weft_wiring_set(WeftWiring *wiring, WeftPartition *partition, WeftWired callback, gpointer data)
{
    add(wiring, (Wish){ .pkey = partition->pkey, .partition = partition, .callback = callback, .data = data });
}

void
weft_wiring_remove(WeftWiring *wiring, guint pkey, const char *name, WeftWired callback, gpointer data)
{
    add(wiring, (Wish){ .pkey = pkey, .name = g_strdup(name), .callback = callback, .data = data });
}

/* --- looking --- */

static void
listed(GPtrArray *partitions, const GError *error, gpointer data)
{
    WeftWiring *wiring = data;
    weft_failpoint_edge("survey", "after");
    weft_call_end(&wiring->survey);
    WeftSurveyed surveyed = g_steal_pointer(&wiring->surveyed);
    surveyed(wiring->fabric, partitions, error, wiring->survey_data);
}

void
weft_wiring_survey(WeftWiring *wiring, WeftSurveyed callback, gpointer data)
{
    if (wiring->surveyed)
        return;
    wiring->surveyed = callback;
    wiring->survey_data = data;
    weft_call_begin(&wiring->survey, wiring->deadline);
    weft_failpoint_edge("survey", "before");
    wiring->driver->ops->list(wiring->driver, wiring->survey.cancellable, listed, wiring);
}

/* Generations are times: they grow also where the manager cannot be asked for the last one, and weft starts all the same. */
static guint64
first_generation(const char *fabric, WeftFabricDriver *driver)
{
    guint64 generation = 0;
    g_autoptr(GError) error = NULL;
    if (!driver->ops->generation(driver, &generation, &error))
        g_warning("fabric %s: %s", fabric, error->message);
    return MAX(generation, (guint64)weft_clock_now());
}

WeftWiring *
weft_wiring_new(const char *fabric, WeftFabricDriver *driver, gint64 deadline)
{
    WeftWiring *wiring = g_new0(WeftWiring, 1);
    wiring->fabric = g_strdup(fabric);
    wiring->driver = driver;
    wiring->deadline = deadline;
    wiring->generation = first_generation(fabric, driver);
    g_queue_init(&wiring->waiting);
    return wiring;
}

void
weft_wiring_guard(WeftWiring *wiring, WeftWiringMay may, WeftWiringOvertaken overtaken, gpointer data)
{
    wiring->may = may;
    wiring->overtaken = overtaken;
    wiring->guard_data = data;
}

void
weft_wiring_free(WeftWiring *wiring)
{
    if (!wiring)
        return;
    weft_call_end(&wiring->apply);
    weft_call_end(&wiring->survey);
    g_clear_pointer(&wiring->flying, g_ptr_array_unref);
    g_queue_clear_full(&wiring->waiting, wish_free);
    g_clear_error(&wiring->conflict);
    g_free(wiring->fabric);
    g_free(wiring);
}
