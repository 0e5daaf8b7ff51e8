#include "expectation.h"

#define FULL 0x8000
#define NUMBER(pkey) ((guint)((pkey)&0x7fff))

/* Of one partition on one port. */
typedef struct Wish {
    guint number;
    gboolean is_member;
    WeftMembership membership;
    gboolean index0;
} Wish;

struct WeftExpectation {
    GHashTable *ports; /* GArray of Wish by port GUID */
};

WeftExpectation *
weft_expectation_new(void)
{
    WeftExpectation *expectation = g_new0(WeftExpectation, 1);
    expectation->ports = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, (GDestroyNotify)g_array_unref);
    return expectation;
}

void
weft_expectation_free(WeftExpectation *expectation)
{
    if (!expectation)
        return;
    g_hash_table_unref(expectation->ports);
    g_free(expectation);
}

/* Replaces what was wished of the same number. */
static void
wish(WeftExpectation *expectation, guint64 guid, Wish wanted)
{
    GArray *wishes = g_hash_table_lookup(expectation->ports, &guid);
    if (!wishes) {
        wishes = g_array_new(FALSE, FALSE, sizeof(Wish));
        g_hash_table_insert(expectation->ports, g_memdup2(&guid, sizeof guid), wishes);
    }
    for (guint i = 0; i < wishes->len; i++)
        if (g_array_index(wishes, Wish, i).number == wanted.number) {
            g_array_index(wishes, Wish, i) = wanted;
            return;
        }
    g_array_append_val(wishes, wanted);
}

void
weft_expectation_add(WeftExpectation *expectation, const WeftPartition *old, const WeftPartition *wanted)
{
    for (guint i = 0; old && i < old->members->len; i++)
        wish(expectation, g_array_index(old->members, WeftMember, i).port_guid, (Wish){ .number = old->pkey });
    for (guint i = 0; wanted && i < wanted->members->len; i++) {
        const WeftMember *member = &g_array_index(wanted->members, WeftMember, i);
        wish(expectation, member->port_guid, (Wish){ wanted->pkey, TRUE, member->membership, member->index == 0 });
    }
}

GArray *
weft_expectation_ports(const WeftExpectation *expectation)
{
    GArray *ports = g_array_new(FALSE, FALSE, sizeof(guint64));
    GHashTableIter iter;
    gpointer guid;
    g_hash_table_iter_init(&iter, expectation->ports);
    while (g_hash_table_iter_next(&iter, &guid, NULL))
        g_array_append_val(ports, *(guint64 *)guid);
    return ports;
}

static gboolean
holds(const GArray *pkeys, const Wish *wanted)
{
    gboolean full = FALSE, limited = FALSE;
    for (guint i = 0; i < pkeys->len; i++) {
        guint16 pkey = g_array_index(pkeys, guint16, i);
        if (NUMBER(pkey) != wanted->number)
            continue;
        full |= (pkey & FULL) != 0;
        limited |= (pkey & FULL) == 0;
    }
    if (!wanted->is_member)
        return !full && !limited;
    if (wanted->membership == WEFT_MEMBER_LIMITED)
        return limited && !full;
    /* A manager that does not allow both makes it full. */
    return full && (!limited || wanted->membership == WEFT_MEMBER_BOTH);
}

static gboolean
is_first(const GArray *pkeys, const Wish *wanted)
{
    return pkeys->len > 0 && NUMBER(g_array_index(pkeys, guint16, 0)) == wanted->number;
}

static gboolean
is_right(const WeftPortTable *table, const Wish *wanted)
{
    return !table->error && holds(table->pkeys, wanted) && (!wanted->index0 || is_first(table->pkeys, wanted)) &&
           (!table->enforced || holds(table->enforced, wanted));
}

guint
weft_expectation_missed(const WeftExpectation *expectation, const WeftPortTable *table)
{
    const GArray *wishes = g_hash_table_lookup(expectation->ports, &table->port_guid);
    for (guint i = 0; wishes && i < wishes->len; i++) {
        const Wish *wanted = &g_array_index(wishes, Wish, i);
        if (!is_right(table, wanted))
            return wanted->number;
    }
    return 0;
}

static guint
count(const GArray *pkeys, guint number)
{
    guint found = 0;
    for (guint i = 0; i < pkeys->len; i++)
        found += NUMBER(g_array_index(pkeys, guint16, i)) == number;
    return found;
}

/* Who changes from full to limited keeps the place. */
static gboolean
fits(const GArray *pkeys, const GArray *wishes)
{
    guint free_places = count(pkeys, 0), lacking = 0;
    for (guint i = 0; i < wishes->len; i++) {
        const Wish *wanted = &g_array_index(wishes, Wish, i);
        guint there = count(pkeys, wanted->number);
        if (wanted->is_member)
            lacking += there == 0;
        else
            free_places += there;
    }
    return lacking <= free_places;
}

gboolean
weft_expectation_fits(const WeftExpectation *expectation, const WeftPortTable *table)
{
    const GArray *wishes = g_hash_table_lookup(expectation->ports, &table->port_guid);
    return !wishes || table->error || (fits(table->pkeys, wishes) && (!table->enforced || fits(table->enforced, wishes)));
}
