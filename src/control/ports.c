#include "ports.h"

#include "call.h"
#include "failpoint.h"

#define BATCH 64 /* ports of one question to the manager */
#define PAUSE 20 /* milliseconds between two for which nobody waits */

#define FULL_MEMBER 0x8000
#define NUMBER 0x7fff

/* --- wishes --- */

void
weft_port_wishes_add(GArray *wishes, const WeftPartition *partition)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (guint i = 0; i < partition->members->len; i++) {
        const WeftMember *member = &g_array_index(partition->members, WeftMember, i);
        if (!g_hash_table_add(seen, (gpointer)&member->port_guid))
            continue;
        guint full = member->membership == WEFT_MEMBER_LIMITED ? 0 : FULL_MEMBER;
        gboolean first = member->index == 0 && !member->virtual_guid; /* a virtual port has a table of its own */
        WeftPortWish wish = { member->port_guid, partition->pkey, (guint16)(partition->pkey | full), first };
        g_array_append_val(wishes, wish);
    }
}

GArray *
weft_port_wishes_ports(const GArray *wishes)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_int64_hash, g_int64_equal);
    GArray *ports = g_array_new(FALSE, FALSE, sizeof(guint64));
    for (guint i = 0; i < wishes->len; i++) {
        const WeftPortWish *wish = &g_array_index(wishes, WeftPortWish, i);
        if (g_hash_table_add(seen, (gpointer)&wish->port_guid))
            g_array_append_val(ports, wish->port_guid);
    }
    return ports;
}

GHashTable *
weft_port_wishes_by_port(const GArray *wishes)
{
    GHashTable *by_port = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, (GDestroyNotify)g_array_unref);
    for (guint i = 0; i < wishes->len; i++) {
        const WeftPortWish *wish = &g_array_index(wishes, WeftPortWish, i);
        GArray *of_port = g_hash_table_lookup(by_port, &wish->port_guid);
        if (!of_port) {
            of_port = g_array_new(FALSE, FALSE, sizeof *wish);
            g_hash_table_insert(by_port, g_memdup2(&wish->port_guid, sizeof wish->port_guid), of_port);
        }
        g_array_append_val(of_port, *wish);
    }
    return by_port;
}

static int
find_key(const GArray *keys, guint16 key, guint16 mask)
{
    for (guint i = 0; i < keys->len; i++)
        if ((g_array_index(keys, guint16, i) & mask) == (key & mask))
            return (int)i;
    return -1;
}

char *
weft_port_wish_check(const WeftPortWish *wish, const WeftPortTable *table)
{
    if (table->error)
        return g_strdup(table->error);
    int index = find_key(table->pkeys, wish->key, G_MAXUINT16);
    if (index < 0)
        return g_strdup_printf("has no P_Key 0x%04x", wish->key);
    if (wish->first && index > 0)
        return g_strdup_printf("has P_Key 0x%04x at index %d, not 0", wish->key, index);
    if (table->enforced && find_key(table->enforced, wish->key, NUMBER) < 0)
        return g_strdup_printf("has P_Key 0x%04x, but its switch does not let it pass", wish->key);
    return NULL;
}

/* --- reading --- */

typedef struct Read {
    GArray *ports;
    guint next;        /* the first that was not asked for */
    GPtrArray *tables; /* of the first ports, as far as they were read */
    gboolean hurry;
    WeftPortsRead callback;
    gpointer data;
} Read;

struct WeftPorts {
    WeftFabricDriver *driver;
    gint64 deadline;
    GQueue waiting;     /* Read, those in a hurry first */
    GPtrArray *carried; /* Read, by the question under way; empty: none is */
    GHashTable *asked;  /* port GUID, borrowed from a Read that is carried, to its place in the question */
    guint pause;
    WeftCall call;
};

static void read_next(WeftPorts *ports);

static void
read_free(gpointer data)
{
    Read *read = data;
    g_array_unref(read->ports);
    g_ptr_array_unref(read->tables);
    g_free(read);
}

static gboolean
pause_over(gpointer data)
{
    WeftPorts *ports = data;
    ports->pause = 0;
    read_next(ports);
    return G_SOURCE_REMOVE;
}

static void
enqueue(WeftPorts *ports, Read *read, gboolean ahead)
{
    GList *at = ports->waiting.head;
    while (at && ((Read *)at->data)->hurry >= read->hurry + ahead)
        at = at->next;
    g_queue_insert_before(&ports->waiting, at, read);
}

static WeftPortTable *
copy_table(const WeftPortTable *table)
{
    WeftPortTable *copy = weft_port_table_new(table->port_guid);
    g_array_append_vals(copy->pkeys, table->pkeys->data, table->pkeys->len);
    copy->enforced = table->enforced ? g_array_copy(table->enforced) : NULL;
    copy->error = g_strdup(table->error);
    return copy;
}

static void
take_tables(const WeftPorts *ports, Read *read, const GPtrArray *tables)
{
    for (guint i = read->tables->len; i < read->next; i++) {
        gpointer at = g_hash_table_lookup(ports->asked, &g_array_index(read->ports, guint64, i));
        g_ptr_array_add(read->tables, copy_table(tables->pdata[GPOINTER_TO_UINT(at)]));
    }
}

static void
end_or_go_on(WeftPorts *ports, Read *read, const GError *error)
{
    if (!error && read->next < read->ports->len) {
        enqueue(ports, read, TRUE);
        return;
    }
    read->callback(error ? NULL : read->tables, error, read->data);
    read_free(read);
}

static void
verified(GPtrArray *tables, const GError *error, gpointer data)
{
    WeftPorts *ports = data;
    weft_failpoint_edge("verify", "after");
    weft_call_end(&ports->call);
    gboolean hurry = ((const Read *)ports->carried->pdata[0])->hurry;
    for (guint i = 0; tables && i < ports->carried->len; i++)
        take_tables(ports, ports->carried->pdata[i], tables);
    g_hash_table_remove_all(ports->asked);
    for (guint i = 0; i < ports->carried->len; i++)
        end_or_go_on(ports, ports->carried->pdata[i], error);
    g_ptr_array_set_size(ports->carried, 0);
    if (!hurry && !ports->pause)
        ports->pause = g_timeout_add(PAUSE, pause_over, ports);
    read_next(ports);
}

/* Its next ports, as many as there is room for; one that another asks for as well needs none. */
static void
carry(WeftPorts *ports, Read *read, GArray *guids)
{
    g_ptr_array_add(ports->carried, read);
    for (; read->next < read->ports->len; read->next++) {
        guint64 *guid = &g_array_index(read->ports, guint64, read->next);
        if (g_hash_table_contains(ports->asked, guid))
            continue;
        if (guids->len == BATCH)
            return;
        g_hash_table_insert(ports->asked, guid, GUINT_TO_POINTER(guids->len));
        g_array_append_val(guids, *guid);
    }
}

/* Those in a hurry go without the others, whose ports may be slow to answer. */
static GArray *
gather(WeftPorts *ports)
{
    GArray *guids = g_array_new(FALSE, FALSE, sizeof(guint64));
    const Read *next = g_queue_peek_head(&ports->waiting);
    gboolean hurry = next->hurry;
    while (guids->len < BATCH && (next = g_queue_peek_head(&ports->waiting)) && next->hurry == hurry)
        carry(ports, g_queue_pop_head(&ports->waiting), guids);
    return guids;
}

static void
read_next(WeftPorts *ports)
{
    const Read *first = g_queue_peek_head(&ports->waiting);
    if (ports->carried->len > 0 || !first || (ports->pause && !first->hurry))
        return;
    GArray *guids = gather(ports);
    weft_call_begin(&ports->call, ports->deadline);
    weft_failpoint_edge("verify", "before");
    ports->driver->ops->verify(ports->driver, guids, ports->call.cancellable, verified, ports);
}

void
weft_ports_read(WeftPorts *ports, GArray *port_guids, gboolean hurry, WeftPortsRead callback, gpointer data)
{
    Read *read = g_new0(Read, 1);
    *read = (Read){ .ports = port_guids, .hurry = hurry, .callback = callback, .data = data };
    read->tables = g_ptr_array_new_with_free_func((GDestroyNotify)weft_port_table_free);
    enqueue(ports, read, FALSE);
    read_next(ports);
}

WeftPorts *
weft_ports_new(WeftFabricDriver *driver, gint64 deadline)
{
    WeftPorts *ports = g_new0(WeftPorts, 1);
    ports->driver = driver;
    ports->deadline = deadline;
    g_queue_init(&ports->waiting);
    ports->carried = g_ptr_array_new();
    ports->asked = g_hash_table_new(g_int64_hash, g_int64_equal);
    return ports;
}

void
weft_ports_free(WeftPorts *ports)
{
    if (!ports)
        return;
    weft_call_end(&ports->call);
    g_clear_handle_id(&ports->pause, g_source_remove);
    g_hash_table_unref(ports->asked);
    g_ptr_array_set_free_func(ports->carried, read_free);
    g_ptr_array_unref(ports->carried);
    g_queue_clear_full(&ports->waiting, read_free);
    g_free(ports);
}
