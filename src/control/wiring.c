#include "wiring.h"

#include "call.h"
#include "clock.h"
#include "failpoint.h"

/* A wish that waits or is being applied. */
typedef struct Wish {
    guint pkey;
    WeftPartition *partition; /* NULL: to be removed */
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
    guint alone;           /* so many go one by one: a batch failed, and one bad wish must not hold up the others */
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
applied(const GError *error, gpointer data)
{
    WeftWiring *wiring = data;
    weft_failpoint_edge("apply", "after");

    weft_call_end(&wiring->apply);
    g_autoptr(GPtrArray) wishes = g_steal_pointer(&wiring->flying);
    if (error && wishes->len > 1)
        put_back(wiring, wishes);
    else
        for (guint i = 0; i < wishes->len; i++)
            answer(wishes->pdata[i], error);
    send(wiring);
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
            g_array_append_val(change->removed, (guint16){ (guint16)wish->pkey });
    }
    return change;
}

static void
send(WeftWiring *wiring)
{
    if (wiring->flying || g_queue_is_empty(&wiring->waiting))
        return;
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
    add(wiring, (Wish){ partition->pkey, partition, callback, data, NULL });
}

void
weft_wiring_remove(WeftWiring *wiring, guint pkey, WeftWired callback, gpointer data)
{
    add(wiring, (Wish){ pkey, NULL, callback, data, NULL });
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
weft_wiring_free(WeftWiring *wiring)
{
    if (!wiring)
        return;
    weft_call_end(&wiring->apply);
    weft_call_end(&wiring->survey);
    g_clear_pointer(&wiring->flying, g_ptr_array_unref);
    g_queue_clear_full(&wiring->waiting, wish_free);
    g_free(wiring->fabric);
    g_free(wiring);
}
