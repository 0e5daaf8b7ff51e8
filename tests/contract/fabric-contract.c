#include "fabric-contract.h"

#include "errors.h"

#include <string.h>
#include <unistd.h>

#define ALPHA "weft-0aaaaaaaaaaa"
#define BETA "weft-0bbbbbbbbbbb"

static const WeftFabricFixture *fixture;
static const char *program;

/* A fabric with a driver on it. */
typedef struct Site {
    char *world;
    WeftFabricDriver *driver;
} Site;

typedef void (*Case)(Site *site);

#define OK (-1)

static void
reopen(Site *site)
{
    weft_fabric_driver_free(site->driver);
    site->driver = fixture->open(site->world);
}

static gboolean
lacks(gpointer function)
{
    if (!function)
        g_test_skip("the driver's fixture cannot do that");
    return !function;
}

/* --- changes --- */

static void
set(WeftFabricChange *change, guint pkey, const char *name, guint members)
{
    WeftPartition *partition = weft_partition_new(pkey, name);
    for (guint i = 0; i < members; i++) {
        WeftMember member = { .port_guid = 0x0002c90300000100 + i, .virtual_guid = (guint64)pkey << 16 | i, .index = -1 };
        weft_partition_add(partition, &member);
    }
    g_ptr_array_add(change->set, partition);
}

static void
removes(WeftFabricChange *change, guint16 pkey)
{
    g_array_append_val(change->removed, pkey);
}

/* --- calls that wait --- */

typedef struct Answer {
    gboolean done;
    GError *error;
    char *listing;
} Answer;

static void
on_applied(const GError *error, gpointer data)
{
    Answer *answer = data;
    answer->done = TRUE;
    answer->error = error ? g_error_copy(error) : NULL;
}

/* "0x0001:weft-…:2" for each partition: its number, name and count of members. */
static void
on_listed(GPtrArray *partitions, const GError *error, gpointer data)
{
    Answer *answer = data;
    answer->done = TRUE;
    answer->error = error ? g_error_copy(error) : NULL;
    GString *text = g_string_new(NULL);
    for (guint i = 0; partitions && i < partitions->len; i++) {
        const WeftPartition *partition = g_ptr_array_index(partitions, i);
        g_string_append_printf(text, "%s0x%04x:%s:%u", i ? " " : "", partition->pkey, partition->name, partition->members->len);
    }
    answer->listing = g_string_free(text, FALSE);
}

static void
wait_for(Answer *answer, int code)
{
    while (!answer->done)
        g_main_context_iteration(NULL, TRUE);
    if (code == OK)
        g_assert_no_error(answer->error);
    else
        g_assert_error(answer->error, WEFT_ERROR, code);
    g_clear_error(&answer->error);
}

static void
apply(Site *site, WeftFabricChange *change, int code)
{
    Answer answer = { 0 };
    site->driver->ops->apply(site->driver, change, NULL, on_applied, &answer);
    wait_for(&answer, code);
}

static char *
listing_of(Site *site)
{
    Answer answer = { 0 };
    site->driver->ops->list(site->driver, NULL, on_listed, &answer);
    wait_for(&answer, OK);
    return answer.listing;
}

static void
expect_listing(Site *site, const char *expected)
{
    g_autofree char *listing = listing_of(site);
    g_assert_cmpstr(listing, ==, expected);
}

static void
expect_generation(Site *site, guint64 expected)
{
    guint64 generation;
    g_autoptr(GError) error = NULL;
    gboolean ok = site->driver->ops->generation(site->driver, &generation, &error);
    g_assert_no_error(error);
    g_assert_true(ok);
    g_assert_cmpuint(generation, ==, expected);
}

/* --- cases --- */

static void
set_and_remove(Site *site)
{
    expect_listing(site, "");
    expect_generation(site, 0);
    WeftFabricChange *change = weft_fabric_change_new(1);
    set(change, 2, BETA, 3);
    set(change, 1, ALPHA, 2);
    apply(site, change, OK);
    expect_listing(site, "0x0001:" ALPHA ":2 0x0002:" BETA ":3");
    expect_generation(site, 1);

    change = weft_fabric_change_new(2);
    set(change, 1, ALPHA, 1);
    removes(change, 2);
    apply(site, change, OK);
    expect_listing(site, "0x0001:" ALPHA ":1");
    expect_generation(site, 2);
}

static void
on_listed_equal(GPtrArray *partitions, const GError *error, gpointer data)
{
    g_assert_no_error(error);
    g_assert_cmpuint(partitions->len, ==, 1);
    g_assert_true(weft_partition_equal(g_ptr_array_index(partitions, 0), *(WeftPartition **)data));
    *(WeftPartition **)data = NULL;
}

/* Members come back as they were given, whatever they are. */
static void
members_are_exact(Site *site)
{
    static const WeftMember members[] = {
        { G_MAXUINT64, 0, WEFT_MEMBER_FULL, 0 },
        { 0x0002c90300000100, 0x0200000000000001, WEFT_MEMBER_LIMITED, -1 },
        { 0x0002c90300000100, 0x0200000000000002, WEFT_MEMBER_BOTH, 127 },
    };
    g_autoptr(WeftPartition) wanted = weft_partition_new(0x7ffe, ALPHA);
    WeftFabricChange *change = weft_fabric_change_new(1);
    WeftPartition *given = weft_partition_new(0x7ffe, ALPHA);
    for (gsize i = 0; i < G_N_ELEMENTS(members); i++) {
        weft_partition_add(wanted, &members[i]);
        weft_partition_add(given, &members[i]);
    }
    g_ptr_array_add(change->set, given);
    apply(site, change, OK);

    WeftPartition *unseen = wanted;
    site->driver->ops->list(site->driver, NULL, on_listed_equal, &unseen);
    while (unseen)
        g_main_context_iteration(NULL, TRUE);
}

static void
same_again(Site *site)
{
    for (guint i = 0; i < 2; i++) {
        WeftFabricChange *change = weft_fabric_change_new(5);
        set(change, 1, ALPHA, 2);
        removes(change, 2);
        apply(site, change, OK);
        expect_listing(site, "0x0001:" ALPHA ":2");
        expect_generation(site, 5);
    }
}

static void
older_generation(Site *site)
{
    WeftFabricChange *change = weft_fabric_change_new(7);
    set(change, 1, ALPHA, 2);
    apply(site, change, OK);

    change = weft_fabric_change_new(6);
    set(change, 1, ALPHA, 9);
    set(change, 2, BETA, 1);
    apply(site, change, WEFT_ERROR_CONFLICT);
    expect_listing(site, "0x0001:" ALPHA ":2");
    expect_generation(site, 7);
}

static void
remove_absent(Site *site)
{
    WeftFabricChange *change = weft_fabric_change_new(1);
    removes(change, 9);
    apply(site, change, OK);
    expect_listing(site, "");
    expect_generation(site, 1);
}

/* One partition of the change is the site's own: nothing of the change happens. */
static void
foreign_partition(Site *site)
{
    if (lacks(fixture->add_foreign))
        return;
    fixture->add_foreign(site->world, 2, "storage");
    WeftFabricChange *change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 2);
    set(change, 2, BETA, 2);
    apply(site, change, WEFT_ERROR_CONFLICT);

    change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 2);
    removes(change, 2);
    apply(site, change, WEFT_ERROR_CONFLICT);
    expect_listing(site, "0x0002:storage:0");
    expect_generation(site, 0);
}

static void
survives_reopen(Site *site)
{
    WeftFabricChange *change = weft_fabric_change_new(3);
    set(change, 1, ALPHA, 2);
    apply(site, change, OK);
    reopen(site);
    expect_listing(site, "0x0001:" ALPHA ":2");
    expect_generation(site, 3);
    change = weft_fabric_change_new(2);
    apply(site, change, WEFT_ERROR_CONFLICT);
}

#define CALLS 12

typedef struct Turn {
    guint number;
    guint *next;
} Turn;

static void
on_turn(const GError *error, gpointer data)
{
    Turn *turn = data;
    g_assert_no_error(error);
    g_assert_cmpuint(turn->number, ==, *turn->next);
    (*turn->next)++;
}

static void
on_list_turn(GPtrArray *partitions, const GError *error, gpointer data)
{
    const Turn *turn = data;
    g_assert_no_error(error);
    g_assert_cmpuint(partitions->len, ==, 1);
    g_assert_cmpuint(((WeftPartition *)g_ptr_array_index(partitions, 0))->members->len, ==, turn->number);
    on_turn(error, data);
}

/* No call answers before it returned; answers come in the order of the calls; a list sees the changes before it and none after.
 */
static void
answers_in_order(Site *site)
{
    guint next = 0;
    Turn turns[CALLS];
    for (guint i = 0; i < CALLS; i++) {
        turns[i] = (Turn){ i, &next };
        if (i % 4 == 3) {
            site->driver->ops->list(site->driver, NULL, on_list_turn, &turns[i]);
            continue;
        }
        WeftFabricChange *change = weft_fabric_change_new(i + 1);
        set(change, 1, ALPHA, i + 1);
        site->driver->ops->apply(site->driver, change, NULL, on_turn, &turns[i]);
        g_assert_cmpuint(next, ==, 0);
    }
    while (next < CALLS)
        g_main_context_iteration(NULL, TRUE);
}

static void
lost_manager(Site *site)
{
    if (lacks(fixture->fault))
        return;
    fixture->fault(site->world, "lost");
    WeftFabricChange *change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 2);
    apply(site, change, WEFT_ERROR_UNAVAILABLE);
    Answer answer = { 0 };
    site->driver->ops->list(site->driver, NULL, on_listed, &answer);
    wait_for(&answer, WEFT_ERROR_UNAVAILABLE);
    g_assert_cmpstr(answer.listing, ==, "");
    g_free(answer.listing);
    fixture->fault(site->world, NULL);
    expect_listing(site, "");
}

static void
cancel_hanging(Site *site)
{
    if (lacks(fixture->fault))
        return;
    fixture->fault(site->world, "hang apply");
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    Answer answer = { 0 };
    WeftFabricChange *change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 2);
    site->driver->ops->apply(site->driver, change, cancellable, on_applied, &answer);
    g_cancellable_cancel(cancellable);
    g_assert_false(answer.done);
    wait_for(&answer, WEFT_ERROR_TIMEOUT);
    fixture->fault(site->world, NULL);
    expect_listing(site, "");
}

static void
cancelled_before(Site *site)
{
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    g_cancellable_cancel(cancellable);
    Answer answer = { 0 };
    site->driver->ops->apply(site->driver, weft_fabric_change_new(4), cancellable, on_applied, &answer);
    wait_for(&answer, WEFT_ERROR_TIMEOUT);
    expect_generation(site, 0);
}

static void
on_applied_too_late(const GError *error, gpointer data)
{
    g_assert_not_reached();
}

/* Freed with calls pending, one of them hanging: it returns, and none of them answers. */
static void
free_while_pending(Site *site)
{
    if (fixture->fault)
        fixture->fault(site->world, "hang apply");
    for (guint i = 0; i < 3; i++)
        site->driver->ops->apply(site->driver, weft_fabric_change_new(i + 1), NULL, on_applied_too_late, NULL);
    g_clear_pointer(&site->driver, weft_fabric_driver_free);
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

/* --- killed in the middle --- */

#define CHURN 64
#define KILLS 20

/* All partitions change at once, between one member and two, and each change is told to the parent when it is done. */
static int
churn(const char *world)
{
    Site site = { .driver = fixture->open(world) };
    guint64 generation;
    g_assert_true(site.driver->ops->generation(site.driver, &generation, NULL));
    for (;;) {
        WeftFabricChange *change = weft_fabric_change_new(++generation);
        for (guint pkey = 1; pkey <= CHURN; pkey++)
            set(change, pkey, ALPHA, 1 + generation % 2);
        apply(&site, change, OK);
        if (write(STDOUT_FILENO, "+", 1) != 1)
            return 1;
    }
}

static void
kill_churn(const Site *site, gsize after)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GSubprocess) child =
        g_subprocess_new(G_SUBPROCESS_FLAGS_STDOUT_PIPE, &error, program, "--churn", site->world, NULL);
    g_assert_no_error(error);
    char told[64];
    gsize n;
    g_assert_true(g_input_stream_read_all(g_subprocess_get_stdout_pipe(child), told, after, &n, NULL, NULL));
    g_assert_cmpuint(n, ==, after);
    g_subprocess_force_exit(child);
    g_assert_true(g_subprocess_wait(child, NULL, NULL));
    g_assert_true(g_subprocess_get_if_signaled(child));
}

static char *
churned_listing(guint members)
{
    GString *text = g_string_new(NULL);
    for (guint pkey = 1; pkey <= CHURN; pkey++)
        g_string_append_printf(text, "%s0x%04x:" ALPHA ":%u", pkey > 1 ? " " : "", pkey, members);
    return g_string_free(text, FALSE);
}

/* Wherever the kill fell, all partitions are of the same change, and it is the one that the generation names. */
static void
killed_in_the_middle(Site *site)
{
    for (guint i = 0; i < KILLS; i++) {
        g_clear_pointer(&site->driver, weft_fabric_driver_free);
        kill_churn(site, 1 + i % 3);
        reopen(site);
        guint64 generation;
        g_assert_true(site->driver->ops->generation(site->driver, &generation, NULL));
        g_autofree char *expected = churned_listing(1 + generation % 2);
        expect_listing(site, expected);
    }
}

/* clang-format off */
static const struct {
    const char *name;
    Case run;
} cases[] = {
    { "set-and-remove",      set_and_remove },
    { "members-are-exact",   members_are_exact },
    { "same-again",          same_again },
    { "older-generation",    older_generation },
    { "remove-absent",       remove_absent },
    { "foreign-partition",   foreign_partition },
    { "survives-reopen",     survives_reopen },
    { "answers-in-order",    answers_in_order },
    { "lost-manager",        lost_manager },
    { "cancel-hanging",      cancel_hanging },
    { "cancelled-before",    cancelled_before },
    { "free-while-pending",  free_while_pending },
    { "killed-in-the-middle", killed_in_the_middle },
};
/* clang-format on */

static void
run_case(gconstpointer run)
{
    Site site = { .world = fixture->create() };
    reopen(&site);
    (*(const Case *)run)(&site);
    weft_fabric_driver_free(site.driver);
    fixture->destroy(site.world);
}

int
weft_fabric_contract_main(const WeftFabricFixture *the_fixture, int argc, char **argv)
{
    fixture = the_fixture;
    program = argv[0];
    if (argc == 3 && g_str_equal(argv[1], "--churn"))
        return churn(argv[2]);

    g_test_init(&argc, &argv, NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = g_strdup_printf("/fabric/%s/%s", fixture->name, cases[i].name);
        g_test_add_data_func(path, &cases[i].run, run_case);
    }
    return g_test_run();
}
