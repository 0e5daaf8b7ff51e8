/* Indexes and the order of hosts that are kept up while gangs come and go and hosts change, beside those of a fleet that is
 * made anew, and of one that follows by snapshots: fleets large enough that an index is mended and not made again. */
#include "checks.h"

#define FLEETS 6
#define HOSTS 400
#define WISHES 12 /* that are asked for again and again: each has an index of its own */
#define STEPS 240
#define COMPARED 12 /* every so many steps */

enum { FOR_STEPS = 200 };

typedef struct Life {
    guint32 seed;
    Books *books;
    WeftFleet *fleet;
    WeftFleet *follower;
    GPtrArray *wishes; /* Case */
    GPtrArray *gangs;  /* char *, ids of clusters */
    guint placed;
} Life;

static guint
pick(GRand *dice, guint n)
{
    return (guint)g_rand_int_range(dice, 0, (gint32)n);
}

static void
come(Life *life, Case *it, guint step)
{
    WeftPlacement placement;
    g_free(it->cluster->id);
    it->cluster->id = g_strdup_printf("%012u", step + 1);
    if (!weft_place(life->fleet, &it->request, &placement))
        return;
    books_take(life->books, life->fleet, placement.seats, placement.n, it->cluster->id);
    weft_fleet_take_seats(life->fleet, placement.seats, placement.n, it->cluster->id);
    g_ptr_array_add(life->gangs, g_strdup(it->cluster->id));
    life->placed++;
}

static void
go(Life *life, guint which)
{
    const char *cluster = life->gangs->pdata[which];
    for (guint h = 0; h < life->books->hosts->len; h++) {
        const BookHost *host = life->books->hosts->pdata[h];
        for (guint i = 0; i < host->seats->len; i++) {
            BookSeat seat = g_array_index(host->seats, BookSeat, i);
            seat.seat.host = weft_fleet_number(life->fleet, host->host->name);
            if (strcmp(seat.cluster, cluster) == 0)
                weft_fleet_give_seats(life->fleet, &seat.seat, 1, cluster);
        }
    }
    books_give(life->books, cluster);
    g_ptr_array_remove_index_fast(life->gangs, which);
}

/* --- hosts change --- */

/* Described on another leaf, where another host is; or nobody says where. */
static void
move(Life *life, BookHost *host, GRand *dice)
{
    const BookHost *other = life->books->hosts->pdata[pick(dice, life->books->hosts->len)];
    g_free(host->host->leaf);
    host->host->leaf = pick(dice, 4) ? g_strdup(other->host->leaf) : NULL;
    books_put(life->books, life->fleet, host);
}

/* Described on the fabric of another one. */
static void
change_fabric(Life *life, BookHost *host, GRand *dice)
{
    const BookHost *other = life->books->hosts->pdata[pick(dice, life->books->hosts->len)];
    char *old = host->host->fabric;
    host->host->fabric = g_strdup(other->host->fabric); /* the other may be the same one */
    g_free(old);
    books_put(life->books, life->fleet, host);
}

static void
label(Life *life, BookHost *host, GRand *dice)
{
    g_hash_table_insert(host->host->labels, g_strdup("rack"), g_strdup_printf("r%u", pick(dice, 3)));
    books_put(life->books, life->fleet, host);
}

/* It goes, others are placed without it, and it comes back. */
static void
go_and_return(Life *life, BookHost *host, GRand *dice)
{
    const Case *it = life->wishes->pdata[pick(dice, WISHES)];
    WeftPlacement placement;
    weft_fleet_remove_host(life->fleet, host->host->name);
    if (pick(dice, 2) && weft_place(life->fleet, &it->request, &placement))
        for (guint i = 0; i < placement.n; i++)
            g_assert_cmpstr(weft_fleet_name(life->fleet, placement.seats[i].host), !=, host->host->name);
    books_bring(life->books, life->fleet, host);
}

/* A port hangs on another switch than it did, by the word of the fabric, and the map is told as a whole. */
static void
tell_map(Life *life, BookHost *host, GRand *dice)
{
    WeftFleetFabric *told = g_hash_table_lookup(life->books->fabrics, host->host->fabric);
    const WeftHca *hca = host->host->hcas->len ? host->host->hcas->pdata[0] : NULL;
    if (!told)
        return;
    if (told->leaves && hca)
        g_hash_table_insert(told->leaves, g_memdup2(&hca->port_guid, sizeof hca->port_guid),
                            g_strdup_printf("leaf%u", pick(dice, 40)));
    if (told->hops && pick(dice, 4) == 0)
        g_array_index(told->hops, guint8, 1) = g_array_index(told->hops, guint8, g_hash_table_size(told->switches)) =
            (guint8)(1 + pick(dice, 6));
    books_tell(life->books, life->fleet, host->host->fabric);
}

static void
lose_devices(Life *life, BookHost *host, GRand *dice)
{
    if (!host->found)
        host->found = weft_host_copy(host->host);
    if (host->found->hcas->len)
        g_ptr_array_remove_index(host->found->hcas, pick(dice, host->found->hcas->len));
    weft_fleet_set_devices(life->fleet, host->host->name, host->found);
}

/* Nobody waits. */
static void
prepare(Life *life, BookHost *host, GRand *dice)
{
    weft_fleet_prepare(life->fleet);
}

static void (*const changes[])(Life *, BookHost *, GRand *) = { move,          move,     change_fabric, label,
                                                                go_and_return, tell_map, lose_devices,  prepare };

static char *
place_text(WeftFleet *fleet, const Case *it)
{
    WeftPlacement placement;
    return weft_place(fleet, &it->request, &placement) ? checks_text(fleet, &placement) : g_strdup("no place");
}

static void
compare(const Life *life, guint step)
{
    g_autoptr(WeftFleet) anew = books_fleet(life->books, NULL);
    g_autoptr(WeftFleetSnapshot) snapshot = weft_fleet_snapshot(life->fleet);
    weft_fleet_follow(life->follower, snapshot);
    for (guint i = 0; i < life->wishes->len; i++) {
        g_autofree char *kept = place_text(life->fleet, life->wishes->pdata[i]);
        g_autofree char *made = place_text(anew, life->wishes->pdata[i]);
        g_autofree char *followed = place_text(life->follower, life->wishes->pdata[i]);
        if (strcmp(kept, made) != 0)
            g_test_fail_printf("fleet %u, step %u, wish %u: %s\nmade anew: %s", life->seed, step, i, kept, made);
        if (strcmp(kept, followed) != 0)
            g_test_fail_printf("fleet %u, step %u, wish %u: %s\nfollowed: %s", life->seed, step, i, kept, followed);
    }
}

/* Wishes that say where they may not be, or whose cluster is there, are for test-place: they hide what hosts have. */
static void
make_wishes(Life *life)
{
    const CaseLimits limits = { HOSTS, 24, 0 };
    for (guint i = 0; i < WISHES; i++) {
        Case *it = case_request(life->seed, i, limits, life->books);
        g_clear_pointer(&it->avoid, g_hash_table_unref);
        it->request.avoid = NULL;
        g_ptr_array_add(life->wishes, it);
    }
}

static void
live(Life *life)
{
    g_autoptr(GRand) dice = case_rand(life->seed, FOR_STEPS, 0);
    for (guint step = 0; step < STEPS && !g_test_failed(); step++) {
        if (pick(dice, 4) == 0)
            changes[pick(dice, G_N_ELEMENTS(changes))](life, life->books->hosts->pdata[pick(dice, HOSTS)], dice);
        if (life->gangs->len && pick(dice, 4) == 0)
            go(life, pick(dice, life->gangs->len));
        else
            come(life, life->wishes->pdata[pick(dice, WISHES)], step);
        if (step % COMPARED == COMPARED - 1)
            compare(life, step);
    }
}

static void
test_kept(void)
{
    for (guint32 seed = 1; seed <= FLEETS && !g_test_failed(); seed++) {
        Life life = { .seed = seed,
                      .books = case_fleet(seed, (CaseLimits){ HOSTS, 0, 0 }),
                      .wishes = g_ptr_array_new_with_free_func((GDestroyNotify)case_free),
                      .gangs = g_ptr_array_new_with_free_func(g_free) };
        life.fleet = books_fleet(life.books, NULL);
        life.follower = weft_fleet_new();
        make_wishes(&life);
        live(&life);
        g_autofree char *wrong = books_check(life.books);
        g_assert_cmpstr(wrong, ==, NULL);
        g_test_message("fleet %u: %u gangs came, %u are there", seed, life.placed, life.gangs->len);
        g_assert_cmpuint(life.placed, >, STEPS / 8);
        g_ptr_array_unref(life.wishes);
        g_ptr_array_unref(life.gangs);
        weft_fleet_free(life.follower);
        weft_fleet_free(life.fleet);
        books_free(life.books);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/place/index/kept", test_kept);
    return g_test_run();
}
