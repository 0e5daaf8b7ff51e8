/* Keys of weft's own numbers in ports that no partition gives them: somebody wrote them, or a port has kept them. */
#include "subnet-private.h"

#define FULL_MEMBER 0x8000
#define NUMBER 0x7fff
#define MOST 64 /* of one patrol; the rest comes with the next */

typedef struct Search {
    WeftSubnet *subnet;
    GHashTable *given;   /* weft_port_wishes_by_port() */
    GHashTable *found;   /* as WeftSubnet has it */
    GHashTable *written; /* numbers of which the manager was told */
    gboolean unsure;
} Search;

/* --- whose is it? --- */

static gboolean
is_weft_number(const WeftSubnet *subnet, guint number)
{
    const char *holder = weft_subnet_holder(subnet, number);
    return weft_subnet_may_write(subnet, number) && !weft_holder_is_foreign(holder);
}

/* What is being changed is looked at by whoever changes it, and until all partitions were seen a number that nobody has may be
 * the site's. */
static gboolean
is_settled(const WeftSubnet *subnet, guint number)
{
    const char *holder = weft_subnet_holder(subnet, number);
    if (!holder)
        return subnet->surveyed && !subnet->trouble;
    return !weft_holder_is_cluster(holder) || g_hash_table_contains(subnet->expected, GUINT_TO_POINTER(number));
}

/* A full member may also hold the limited key: it opens nothing more. */
static gboolean
is_given(const GArray *wishes, guint16 key)
{
    for (guint i = 0; wishes && i < wishes->len; i++) {
        guint16 given = g_array_index(wishes, WeftPortWish, i).key;
        if (given == key || given == (key | FULL_MEMBER))
            return TRUE;
    }
    return FALSE;
}

/* --- away with it --- */

static void
written(const GError *error, gpointer data)
{
    const WeftSubnet *subnet = data;
    if (error)
        g_warning("fabric %s: P_Keys that no partition gives were not removed, the next patrol tries again: %s",
                  subnet->fabric->name, error->message);
}

/* The manager has it as it is wished already. But with any change it writes the tables again that a look at them showed to be
 * others. */
static void
write_again(WeftSubnet *subnet, guint number)
{
    const WeftSharing *sharing = weft_subnet_sharing(subnet, number);
    const WeftPartition *expected = g_hash_table_lookup(subnet->expected, GUINT_TO_POINTER(number));
    if (sharing)
        weft_subnet_share_again(subnet, sharing);
    else if (expected && !weft_subnet_has_stranger(subnet, number))
        weft_wiring_set(subnet->wiring, weft_partition_copy(expected), written, subnet);
    else if (!expected && !g_hash_table_contains(subnet->present, GUINT_TO_POINTER(number)))
        weft_wiring_remove(subnet->wiring, number, "", written, subnet);
}

/* --- looking --- */

static void
note(Search *search, const WeftPortTable *table, guint16 key, const char *how)
{
    WeftSubnet *subnet = search->subnet;
    guint number = key & NUMBER;
    g_autofree char *port = weft_subnet_name_port(subnet, table->port_guid);
    g_autofree char *what = g_strdup_printf("%s %s 0x%04x, which no partition gives it", port, how, key);
    gboolean settled = is_settled(subnet, number);
    guint times = GPOINTER_TO_UINT(g_hash_table_lookup(subnet->surplus, what)) + settled;
    if (times == 0)
        return;
    search->unsure |= times == 1 && settled;
    if (times > 1 && settled && g_hash_table_add(search->written, GUINT_TO_POINTER(number)))
        write_again(subnet, number);
    if (times == 2 && settled) {
        g_autofree char *message = g_strconcat(what, "; its table is written again", NULL);
        weft_subnet_tell_repair(subnet, message);
    }
    g_hash_table_insert(search->found, g_steal_pointer(&what), GUINT_TO_POINTER(times));
}

static void
look_at(Search *search, const WeftPortTable *table, const GArray *keys, const char *how)
{
    const GArray *given = g_hash_table_lookup(search->given, &table->port_guid);
    for (guint i = 0; i < keys->len && g_hash_table_size(search->found) < MOST; i++) {
        guint16 key = g_array_index(keys, guint16, i);
        if (is_weft_number(search->subnet, key & NUMBER) && !is_given(given, key))
            note(search, table, key, how);
    }
}

gboolean
weft_subnet_look_for_surplus(WeftSubnet *subnet, GHashTable *given, const GPtrArray *tables)
{
    /* The keys of a pool are on every port. */
    if (!subnet->manager || g_str_equal(subnet->manager->way, "pool") || !weft_subnet_may_change(subnet))
        return FALSE;
    Search search = { .subnet = subnet, .given = given };
    search.found = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    search.written = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < tables->len; i++) {
        const WeftPortTable *table = tables->pdata[i];
        look_at(&search, table, table->pkeys, "has P_Key");
        if (table->enforced)
            look_at(&search, table, table->enforced, "is let through by its switch with P_Key");
    }
    g_hash_table_unref(search.written);
    g_hash_table_unref(subnet->surplus);
    subnet->surplus = search.found;
    return search.unsure;
}

GPtrArray *
weft_subnet_surplus(const WeftSubnet *subnet)
{
    GPtrArray *sure = g_ptr_array_new();
    GHashTableIter iter;
    gpointer what, times;
    g_hash_table_iter_init(&iter, subnet->surplus);
    while (g_hash_table_iter_next(&iter, &what, &times))
        if (GPOINTER_TO_UINT(times) > 1)
            g_ptr_array_add(sure, what);
    return sure;
}
