#include "fake-ports.h"

struct WeftFakePorts {
    GHashTable *partitions; /* number to WeftPartition */
    GHashTable *seats;      /* GUID of a port to GArray of WeftFakeSeat, by number */
};

WeftFakePorts *
weft_fake_ports_new(void)
{
    WeftFakePorts *ports = g_new0(WeftFakePorts, 1);
    ports->partitions = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)weft_partition_free);
    ports->seats = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, (GDestroyNotify)g_array_unref);
    return ports;
}

void
weft_fake_ports_free(WeftFakePorts *ports)
{
    if (!ports)
        return;
    g_hash_table_unref(ports->seats);
    g_hash_table_unref(ports->partitions);
    g_free(ports);
}

/* Where its seat is; TRUE: it has one, else it would be there. */
static gboolean
find_seat(const GArray *seats, guint pkey, guint *ret_at)
{
    guint at = 0;
    while (at < seats->len && g_array_index(seats, WeftFakeSeat, at).pkey < pkey)
        at++;
    *ret_at = at;
    return at < seats->len && g_array_index(seats, WeftFakeSeat, at).pkey == pkey;
}

static void
seat(WeftFakePorts *ports, guint pkey, const WeftMember *member)
{
    GArray *seats = g_hash_table_lookup(ports->seats, &member->port_guid);
    if (!seats) {
        seats = g_array_new(FALSE, FALSE, sizeof(WeftFakeSeat));
        g_hash_table_insert(ports->seats, g_memdup2(&member->port_guid, sizeof member->port_guid), seats);
    }
    guint at;
    if (!find_seat(seats, pkey, &at))
        g_array_insert_val(seats, at, ((WeftFakeSeat){ pkey, member }));
}

static void
unseat(WeftFakePorts *ports, guint pkey, guint64 port_guid)
{
    GArray *seats = g_hash_table_lookup(ports->seats, &port_guid);
    guint at;
    if (seats && find_seat(seats, pkey, &at))
        g_array_remove_index(seats, at);
    if (seats && seats->len == 0)
        g_hash_table_remove(ports->seats, &port_guid);
}

void
weft_fake_ports_set(WeftFakePorts *ports, WeftPartition *partition)
{
    weft_fake_ports_remove(ports, partition->pkey);
    g_hash_table_insert(ports->partitions, GUINT_TO_POINTER(partition->pkey), partition);
    for (guint i = 0; i < partition->members->len; i++)
        seat(ports, partition->pkey, &g_array_index(partition->members, WeftMember, i));
}

void
weft_fake_ports_remove(WeftFakePorts *ports, guint pkey)
{
    const WeftPartition *partition = g_hash_table_lookup(ports->partitions, GUINT_TO_POINTER(pkey));
    for (guint i = 0; partition && i < partition->members->len; i++)
        unseat(ports, pkey, g_array_index(partition->members, WeftMember, i).port_guid);
    g_hash_table_remove(ports->partitions, GUINT_TO_POINTER(pkey));
}

const GArray *
weft_fake_ports_seats(const WeftFakePorts *ports, guint64 port_guid)
{
    return g_hash_table_lookup(ports->seats, &port_guid);
}
