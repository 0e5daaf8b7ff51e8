#include "fabric-contract.h"

#include "errors.h"

#include <string.h>
#include <unistd.h>

#define ALPHA "weft-0aaaaaaaaaaa"
#define BETA "weft-0bbbbbbbbbbb"
#define DEFAULT_PARTITION 0x7fff
#define FULL 0x8000

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
        WeftMember member = { .port_guid = fixture->ports[i], .index = -1 };
        if (fixture->virtualization)
            member.virtual_guid = (guint64)pkey << 16 | i;
        weft_partition_add(partition, &member);
    }
    g_ptr_array_add(change->set, partition);
}

static void
removes(WeftFabricChange *change, guint pkey, const char *name)
{
    weft_fabric_change_remove(change, pkey, name);
}

/* --- calls that wait --- */

typedef struct Answer {
    gboolean done;
    GError *error;
    char *listing;
    GPtrArray *tables;
} Answer;

static void
on_applied(const GError *error, gpointer data)
{
    Answer *answer = data;
    answer->done = TRUE;
    answer->error = error ? g_error_copy(error) : NULL;
}

/* "0x0001:weft-…:2" for each partition but the default one: its number, name and count of members; of the site's, of which a
 * driver may or may not tell the members, without it. */
static void
on_listed(GPtrArray *partitions, const GError *error, gpointer data)
{
    Answer *answer = data;
    answer->done = TRUE;
    answer->error = error ? g_error_copy(error) : NULL;
    GString *text = g_string_new(NULL);
    for (guint i = 0; partitions && i < partitions->len; i++) {
        const WeftPartition *partition = g_ptr_array_index(partitions, i);
        if (partition->pkey == DEFAULT_PARTITION)
            continue;
        g_string_append_printf(text, "%s0x%04x:%s", text->len ? " " : "", partition->pkey, partition->name);
        if (weft_partition_is_ours(partition->name))
            g_string_append_printf(text, ":%u", partition->members->len);
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
    removes(change, 2, BETA);
    apply(site, change, OK);
    expect_listing(site, "0x0001:" ALPHA ":1");
    expect_generation(site, 2);
}

static const WeftPartition *
first_of_ours(GPtrArray *partitions)
{
    for (guint i = 0; i < partitions->len; i++)
        if (weft_partition_is_ours(((WeftPartition *)partitions->pdata[i])->name))
            return partitions->pdata[i];
    g_assert_not_reached();
}

static void
on_listed_equal(GPtrArray *partitions, const GError *error, gpointer data)
{
    g_assert_no_error(error);
    g_assert_true(weft_partition_equal(first_of_ours(partitions), *(WeftPartition **)data));
    *(WeftPartition **)data = NULL;
}

static void
expect_exactly(Site *site, WeftPartition *wanted)
{
    site->driver->ops->list(site->driver, NULL, on_listed_equal, &wanted);
    while (wanted)
        g_main_context_iteration(NULL, TRUE);
}

/* Members come back as they were given, whatever they are; also one whose port is not there. */
static void
members_are_exact(Site *site)
{
    const WeftMember any[] = {
        { G_MAXUINT64, 0, WEFT_MEMBER_FULL, -1 },
        { fixture->ports[0], 0, WEFT_MEMBER_FULL, -1 },
    };
    const WeftMember special[] = {
        { fixture->ports[1], 0, WEFT_MEMBER_FULL, 0 },
        { fixture->ports[2], 0, WEFT_MEMBER_LIMITED, -1 },
    };
    const WeftMember virtual[] = {
        { fixture->ports[3], 0x0200000000000001, WEFT_MEMBER_LIMITED, -1 },
        { fixture->ports[3], 0x0200000000000002, WEFT_MEMBER_BOTH, 127 },
    };
    g_autoptr(WeftPartition) wanted = weft_partition_new(12, ALPHA);
    for (gsize i = 0; i < G_N_ELEMENTS(any); i++)
        weft_partition_add(wanted, &any[i]);
    for (gsize i = 0; i < G_N_ELEMENTS(special) && !fixture->is_pool; i++)
        weft_partition_add(wanted, &special[i]);
    for (gsize i = 0; i < G_N_ELEMENTS(virtual) && fixture->virtualization; i++)
        weft_partition_add(wanted, &virtual[i]);
    WeftFabricChange *change = weft_fabric_change_new(1);
    g_ptr_array_add(change->set, weft_partition_copy(wanted));
    apply(site, change, OK);
    expect_exactly(site, wanted);
}

/* A manager that knows no virtual ports refuses them, and says so. */
static void
virtual_ports(Site *site)
{
    g_autoptr(WeftPartition) wanted = weft_partition_new(1, ALPHA);
    weft_partition_add(wanted, &(WeftMember){ fixture->ports[0], 0x0200000000000001, WEFT_MEMBER_FULL, -1 });
    WeftFabricChange *change = weft_fabric_change_new(1);
    g_ptr_array_add(change->set, weft_partition_copy(wanted));
    apply(site, change, fixture->virtualization ? OK : WEFT_ERROR_UNAVAILABLE);
    expect_listing(site, fixture->virtualization ? "0x0001:" ALPHA ":1" : "");
}

static void
same_again(Site *site)
{
    for (guint i = 0; i < 2; i++) {
        WeftFabricChange *change = weft_fabric_change_new(5);
        set(change, 1, ALPHA, 2);
        removes(change, 2, BETA);
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
    removes(change, 9, ALPHA);
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
    removes(change, 2, BETA);
    apply(site, change, WEFT_ERROR_CONFLICT);
    expect_listing(site, "0x0002:storage");
    expect_generation(site, 0);
}

/* A number has a partition of another name already, be it one that carries weft's mark: nothing of the change happens. */
static void
another_name(Site *site)
{
    WeftFabricChange *change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 2);
    apply(site, change, OK);

    change = weft_fabric_change_new(2);
    set(change, 1, BETA, 3);
    set(change, 2, BETA, 1);
    apply(site, change, WEFT_ERROR_CONFLICT);
    change = weft_fabric_change_new(2);
    removes(change, 1, BETA);
    apply(site, change, WEFT_ERROR_CONFLICT);
    change = weft_fabric_change_new(2);
    removes(change, 1, "");
    apply(site, change, WEFT_ERROR_CONFLICT);
    expect_listing(site, "0x0001:" ALPHA ":2");
    expect_generation(site, 1);
}

/* Numbers that the driver was not given are others', whatever lies there. */
static void
outside_numbers(Site *site)
{
    WeftFabricChange *change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 2);
    set(change, WEFT_CONTRACT_PKEY_LAST + 1, BETA, 2);
    apply(site, change, WEFT_ERROR_INVALID);
    change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 2);
    removes(change, WEFT_CONTRACT_PKEY_LAST + 1, BETA);
    apply(site, change, WEFT_ERROR_INVALID);
    expect_listing(site, "");
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
    g_assert_cmpuint(first_of_ours(partitions)->members->len, ==, turn->number);
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
    reopen(site);
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
    /* Whether it happened nobody can tell: it is done again. */
    change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 2);
    apply(site, change, OK);
    expect_listing(site, "0x0001:" ALPHA ":2");
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

/* All partitions change at once, between one member and two, and each change is told to the parent when it is done. */
static int
churn(const char *world)
{
    Site site = { .driver = fixture->open(world) };
    guint64 generation;
    g_assert_true(site.driver->ops->generation(site.driver, &generation, NULL));
    for (;;) {
        WeftFabricChange *change = weft_fabric_change_new(++generation);
        for (guint pkey = 1; pkey <= fixture->churn; pkey++)
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
        g_subprocess_new(G_SUBPROCESS_FLAGS_STDOUT_PIPE, &error, program, fixture->way, "--churn", site->world, NULL);
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
    for (guint pkey = 1; pkey <= fixture->churn; pkey++)
        g_string_append_printf(text, "%s0x%04x:" ALPHA ":%u", pkey > 1 ? " " : "", pkey, members);
    return g_string_free(text, FALSE);
}

/* What a killed one asked for may still be under way: until nothing changes any more. */
static char *
settled(Site *site, guint64 *ret_generation)
{
    for (;;) {
        guint64 before;
        reopen(site);
        g_assert_true(site->driver->ops->generation(site->driver, &before, NULL));
        g_autofree char *listing = listing_of(site);
        reopen(site);
        g_assert_true(site->driver->ops->generation(site->driver, ret_generation, NULL));
        if (before == *ret_generation)
            return g_steal_pointer(&listing);
    }
}

static void
on_told(const WeftManager *manager, const GError *error, gpointer data)
{
    g_assert_no_error(error);
    *(guint64 *)data = manager->generation;
}

/* Another process has changed the fabric since, and the last of what it asked for may still be under way. Who is refused for
 * that learns where to go on. */
static void
overtaken(Site *site)
{
    WeftFabricChange *change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 2);
    apply(site, change, OK);
    kill_churn(site, 3);
    change = weft_fabric_change_new(2);
    set(change, 1, ALPHA, 2);
    apply(site, change, WEFT_ERROR_CONFLICT);
    guint64 generation = 0;
    site->driver->ops->greet(site->driver, NULL, on_told, &generation);
    while (generation == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(generation, >=, 4);
    change = weft_fabric_change_new(generation + 100);
    set(change, 1, ALPHA, 2);
    apply(site, change, OK);
    expect_generation(site, generation + 100);
}

/* Wherever the kill fell, all partitions are of the same change, and it is the one that the generation names. */
static void
killed_in_the_middle(Site *site)
{
    for (guint i = 0; i < fixture->kills; i++) {
        g_clear_pointer(&site->driver, weft_fabric_driver_free);
        kill_churn(site, 1 + i % 3);
        guint64 generation;
        g_autofree char *listing = settled(site, &generation);
        g_autofree char *expected = churned_listing(1 + generation % 2);
        g_assert_cmpstr(listing, ==, expected);
    }
}

/* --- the ports --- */

static void
on_verified(GPtrArray *tables, const GError *error, gpointer data)
{
    Answer *answer = data;
    answer->done = TRUE;
    answer->error = error ? g_error_copy(error) : NULL;
    answer->tables = tables ? g_ptr_array_ref(tables) : NULL;
}

/* Of the first ports. */
static GPtrArray *
read_ports(Site *site, guint n)
{
    Answer answer = { 0 };
    GArray *guids = g_array_new(FALSE, FALSE, sizeof(guint64));
    g_array_append_vals(guids, fixture->ports, n);
    site->driver->ops->verify(site->driver, guids, NULL, on_verified, &answer);
    wait_for(&answer, OK);
    g_assert_cmpuint(answer.tables->len, ==, n);
    return answer.tables;
}

static gboolean
has(const GArray *pkeys, guint16 pkey)
{
    for (guint i = 0; pkeys && i < pkeys->len; i++)
        if (g_array_index(pkeys, guint16, i) == pkey)
            return TRUE;
    return FALSE;
}

/* Full, limited or no member: the port's own table and its switch's agree. */
static void
expect_port(GPtrArray *tables, guint i, guint pkey, gboolean full, gboolean limited)
{
    const WeftPortTable *table = tables->pdata[i];
    g_assert_cmphex(table->port_guid, ==, fixture->ports[i]);
    g_assert_cmpstr(table->error, ==, NULL);
    g_assert_cmpint(has(table->pkeys, (guint16)(pkey | FULL)), ==, full);
    g_assert_cmpint(has(table->pkeys, (guint16)pkey), ==, limited);
    g_assert_cmpint(has(table->enforced, (guint16)(pkey | FULL)), ==, full);
    g_assert_cmpint(has(table->enforced, (guint16)pkey), ==, limited);
}

/* When a change is answered, the ports have it. */
static void
ports_have_it(Site *site)
{
    WeftFabricChange *change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 2);
    if (!fixture->is_pool)
        weft_partition_add(change->set->pdata[0], &(WeftMember){ fixture->ports[2], 0, WEFT_MEMBER_LIMITED, -1 });
    apply(site, change, OK);
    g_autoptr(GPtrArray) tables = read_ports(site, 4);
    expect_port(tables, 0, 1, TRUE, FALSE);
    expect_port(tables, 1, 1, TRUE, FALSE);
    if (fixture->is_pool)
        return;
    expect_port(tables, 2, 1, FALSE, TRUE);
    expect_port(tables, 3, 1, FALSE, FALSE);

    change = weft_fabric_change_new(2);
    removes(change, 1, ALPHA);
    set(change, 2, BETA, 1);
    apply(site, change, OK);
    g_autoptr(GPtrArray) after = read_ports(site, 3);
    for (guint i = 0; i < 3; i++)
        expect_port(after, i, 1, FALSE, FALSE);
    expect_port(after, 0, 2, TRUE, FALSE);
    expect_port(after, 1, 2, FALSE, FALSE);
}

static void
index_0(Site *site)
{
    if (fixture->is_pool) {
        g_test_skip("a pool has no index 0");
        return;
    }
    WeftFabricChange *change = weft_fabric_change_new(1);
    g_ptr_array_add(change->set, weft_partition_new(1, ALPHA));
    weft_partition_add(change->set->pdata[0], &(WeftMember){ fixture->ports[0], 0, WEFT_MEMBER_FULL, 0 });
    apply(site, change, OK);
    g_autoptr(GPtrArray) tables = read_ports(site, 1);
    g_assert_cmphex(g_array_index(((WeftPortTable *)tables->pdata[0])->pkeys, guint16, 0), ==, 1 | FULL);
}

static void
silent_port(Site *site)
{
    if (lacks(fixture->silence))
        return;
    fixture->silence(site->world, 1, TRUE);
    WeftFabricChange *change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 3);
    apply(site, change, WEFT_ERROR_TIMEOUT);
    g_autoptr(GPtrArray) tables = read_ports(site, 2);
    g_assert_null(((WeftPortTable *)tables->pdata[0])->error);
    g_assert_nonnull(((WeftPortTable *)tables->pdata[1])->error);

    fixture->silence(site->world, 1, FALSE);
    change = weft_fabric_change_new(2);
    set(change, 1, ALPHA, 3);
    apply(site, change, OK);
    g_autoptr(GPtrArray) after = read_ports(site, 3);
    for (guint i = 0; i < 3; i++)
        expect_port(after, i, 1, TRUE, FALSE);
}

/* Who is taken out and does not answer may still be in: that is not forgotten when it is told again. */
static void
silent_port_leaves(Site *site)
{
    if (lacks(fixture->silence))
        return;
    if (fixture->capacity == 0) {
        g_test_skip("its ports have no memory of their own");
        return;
    }
    WeftFabricChange *change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 3);
    apply(site, change, OK);
    fixture->silence(site->world, 1, TRUE);
    for (guint64 generation = 2; generation < 4; generation++) {
        change = weft_fabric_change_new(generation);
        set(change, 1, ALPHA, 1);
        apply(site, change, WEFT_ERROR_TIMEOUT);
    }
    fixture->silence(site->world, 1, FALSE);
    change = weft_fabric_change_new(4);
    set(change, 1, ALPHA, 1);
    apply(site, change, OK);
    g_autoptr(GPtrArray) after = read_ports(site, 3);
    for (guint i = 0; i < 3; i++)
        expect_port(after, i, 1, i == 0, FALSE);
}

/* Too many partitions for a port: nothing of the change happens. */
static void
table_full(Site *site)
{
    if (fixture->capacity == 0 || fixture->is_pool) {
        g_test_skip("its ports are never full");
        return;
    }
    guint most = fixture->capacity - 2; /* the default partition has a place, and opensm keeps another free in switches */
    WeftFabricChange *change = weft_fabric_change_new(1);
    for (guint pkey = 1; pkey <= most; pkey++)
        set(change, pkey, ALPHA, 1);
    apply(site, change, OK);
    g_autofree char *listing = listing_of(site);

    change = weft_fabric_change_new(2);
    set(change, most + 1, BETA, 2);
    set(change, most + 2, BETA, 2);
    removes(change, 1000, ALPHA);
    apply(site, change, WEFT_ERROR_EXHAUSTED);
    expect_listing(site, listing);
    expect_generation(site, 1);

    /* With one less for each there is room. */
    change = weft_fabric_change_new(2);
    set(change, most + 1, BETA, 2);
    removes(change, 1, ALPHA);
    apply(site, change, OK);
    g_autoptr(GPtrArray) tables = read_ports(site, 1);
    expect_port(tables, 0, most + 1, TRUE, FALSE);
}

static void
site_is_kept(Site *site)
{
    if (lacks(fixture->site))
        return;
    g_autofree char *before = fixture->site(site->world);
    WeftFabricChange *change = weft_fabric_change_new(1);
    set(change, 1, ALPHA, 2);
    apply(site, change, OK);
    g_autofree char *during = fixture->site(site->world);
    g_assert_cmpstr(during, ==, before);
    change = weft_fabric_change_new(2);
    removes(change, 1, ALPHA);
    apply(site, change, OK);
    g_autofree char *after = fixture->site(site->world);
    g_assert_cmpstr(after, ==, before);
}

/* --- the manager and the map --- */

static void
on_greeted(const WeftManager *manager, const GError *error, gpointer data)
{
    g_assert_no_error(error);
    g_assert_cmpstr(manager->way, ==, fixture->way);
    g_assert_nonnull(manager->version);
    g_assert_nonnull(manager->where);
    g_assert_true(manager->master);
    g_assert_true(manager->enforces);
    g_assert_true(manager->keeps_indices);
    g_assert_cmpint(manager->virtualization, ==, fixture->virtualization);
    *(gboolean *)data = TRUE;
}

static void
greets(Site *site)
{
    gboolean done = FALSE;
    site->driver->ops->greet(site->driver, NULL, on_greeted, &done);
    while (!done)
        g_main_context_iteration(NULL, TRUE);
}

static void
on_mapped(const WeftFabricMap *map, const GError *error, gpointer data)
{
    g_assert_no_error(error);
    for (guint i = 0; i < 16; i++) {
        WeftMapPlace place = weft_fabric_map_find_port(map, fixture->ports[i]);
        g_assert_cmpint(place.node, >=, 0);
        const WeftMapPort *port = weft_map_node_port(map->nodes->pdata[place.node], place.port);
        g_assert_true(port->active);
        g_assert_cmpuint(port->pkeys, ==, fixture->capacity);
        g_assert_cmpuint(port->rate, >, 0);
        int leaf = weft_fabric_map_leaf(map, fixture->ports[i]);
        g_assert_cmpint(leaf, >=, 0);
        g_assert_cmpint(((WeftMapNode *)map->nodes->pdata[leaf])->kind, ==, WEFT_MAP_SWITCH);
    }
    *(json_t **)data = weft_fabric_map_to_json(map);
}

static void
maps(Site *site)
{
    json_t *first = NULL, *second = NULL;
    site->driver->ops->map(site->driver, NULL, on_mapped, &first);
    site->driver->ops->map(site->driver, NULL, on_mapped, &second);
    while (!second)
        g_main_context_iteration(NULL, TRUE);
    g_assert_true(json_equal(first, second));
    json_decref(first);
    json_decref(second);
}

/* --- events --- */

static void
on_heard(WeftFabricEvent event, const char *detail, gpointer data)
{
    ((guint *)data)[event]++;
}

static void
on_heard_too_late(WeftFabricEvent event, const char *detail, gpointer data)
{
    g_assert_not_reached();
}

/* That it listens by now nobody tells: it is swept until it hears. */
static void
listen_and_hear(Site *site, guint *heard)
{
    site->driver->ops->listen(site->driver, on_heard, heard);
    for (gint64 last = 0; !heard[WEFT_FABRIC_EVENT_SWEPT]; g_main_context_iteration(NULL, FALSE)) {
        if (g_get_monotonic_time() - last > G_USEC_PER_SEC / 2) {
            fixture->sweep(site->world);
            last = g_get_monotonic_time();
        }
        g_usleep(1000);
    }
}

static void
tells_events(Site *site)
{
    if (lacks(fixture->sweep))
        return;
    guint heard[4] = { 0 };
    listen_and_hear(site, heard);
    g_assert_cmpuint(heard[WEFT_FABRIC_EVENT_LOST], ==, 0);
    site->driver->ops->listen(site->driver, on_heard_too_late, NULL);
    site->driver->ops->listen(site->driver, NULL, NULL);
    fixture->sweep(site->world);
    expect_listing(site, "");
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

/* Another manager takes over, with a file that has nothing of weft's: weft follows, and all is there again. */
static void
another_manager(Site *site)
{
    if (lacks(fixture->depose))
        return;
    guint heard[4] = { 0 };
    listen_and_hear(site, heard);
    WeftFabricChange *change = weft_fabric_change_new(7);
    set(change, 1, ALPHA, 2);
    set(change, 2, BETA, 3);
    apply(site, change, OK);
    fixture->depose(site->world);
    while (!heard[WEFT_FABRIC_EVENT_MANAGER])
        g_main_context_iteration(NULL, TRUE);
    expect_listing(site, "0x0001:" ALPHA ":2 0x0002:" BETA ":3");
    g_autoptr(GPtrArray) tables = read_ports(site, 3);
    expect_port(tables, 0, 1, TRUE, FALSE);
    expect_port(tables, 2, 2, TRUE, FALSE);

    change = weft_fabric_change_new(6);
    apply(site, change, WEFT_ERROR_CONFLICT);
    change = weft_fabric_change_new(8);
    removes(change, 1, ALPHA);
    apply(site, change, OK);
    expect_listing(site, "0x0002:" BETA ":3");
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
    { "overtaken",           overtaken },
    { "remove-absent",       remove_absent },
    { "foreign-partition",   foreign_partition },
    { "another-name",        another_name },
    { "outside-numbers",     outside_numbers },
    { "survives-reopen",     survives_reopen },
    { "answers-in-order",    answers_in_order },
    { "lost-manager",        lost_manager },
    { "cancel-hanging",      cancel_hanging },
    { "cancelled-before",    cancelled_before },
    { "free-while-pending",  free_while_pending },
    { "killed-in-the-middle", killed_in_the_middle },
    { "virtual-ports",       virtual_ports },
    { "ports-have-it",       ports_have_it },
    { "index-0",             index_0 },
    { "silent-port",         silent_port },
    { "silent-port-leaves",  silent_port_leaves },
    { "table-full",          table_full },
    { "site-is-kept",        site_is_kept },
    { "greets",              greets },
    { "maps",                maps },
    { "tells-events",        tells_events },
    { "another-manager",     another_manager },
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
    if (argc >= 3 && g_str_equal(argv[argc - 2], "--churn"))
        return churn(argv[argc - 1]);

    g_test_init(&argc, &argv, NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = g_strdup_printf("/fabric/%s/%s", fixture->name, cases[i].name);
        g_test_add_data_func(path, &cases[i].run, run_case);
    }
    return g_test_run();
}
