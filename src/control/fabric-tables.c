#include "fabric-tables.h"

#include "codec.h"
#include "host.h"
#include "ports.h"

#define NUMBER 0x7fff

typedef struct Owner {
    const char *host, *hca;
} Owner;

/* GUID of a port to whose it is. */
static GHashTable *
find_owners(const GPtrArray *hosts)
{
    GHashTable *owners = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
    for (guint i = 0; i < hosts->len; i++) {
        const WeftHost *host = hosts->pdata[i];
        for (guint h = 0; h < host->hcas->len; h++) {
            WeftHca *hca = host->hcas->pdata[h];
            Owner owner = { host->name, hca->name };
            if (hca->port_guid)
                g_hash_table_insert(owners, &hca->port_guid, g_memdup2(&owner, sizeof owner));
        }
    }
    return owners;
}

GArray *
weft_tables_ports(const GPtrArray *hosts, const GArray *wishes)
{
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(WeftPortWish));
    for (guint i = 0; i < hosts->len; i++) {
        const WeftHost *host = hosts->pdata[i];
        for (guint h = 0; h < host->hcas->len; h++) {
            WeftPortWish wish = { .port_guid = ((const WeftHca *)host->hcas->pdata[h])->port_guid };
            if (wish.port_guid)
                g_array_append_val(all, wish);
        }
    }
    g_array_append_vals(all, wishes->data, wishes->len);
    return weft_port_wishes_ports(all);
}

/* --- one table --- */

typedef struct Expected {
    GHashTable *wishes;     /* weft_port_wishes_by_port() */
    GHashTable *partitions; /* number to WeftPartition */
    gboolean exact;
} Expected;

static void
expect(Expected *expected, const GPtrArray *partitions)
{
    expected->partitions = g_hash_table_new(NULL, NULL);
    g_autoptr(GArray) wishes = g_array_new(FALSE, FALSE, sizeof(WeftPortWish));
    for (guint i = 0; i < partitions->len; i++) {
        WeftPartition *partition = partitions->pdata[i];
        g_hash_table_insert(expected->partitions, GUINT_TO_POINTER(partition->pkey), partition);
        weft_port_wishes_add(wishes, partition);
    }
    expected->wishes = weft_port_wishes_by_port(wishes);
}

static gboolean
is_wished(const GArray *wishes, guint number)
{
    for (guint i = 0; wishes && i < wishes->len; i++)
        if (g_array_index(wishes, WeftPortWish, i).pkey == number)
            return TRUE;
    return FALSE;
}

/* The members of the site's own partitions are not always known by GUID ("ALL"): such a key may be there. */
static void
add_strays(const Expected *expected, const GArray *wishes, const WeftPortTable *table, json_t *differences)
{
    for (guint i = 0; i < table->pkeys->len; i++) {
        guint16 key = g_array_index(table->pkeys, guint16, i);
        guint number = key & NUMBER;
        const WeftPartition *partition = g_hash_table_lookup(expected->partitions, GUINT_TO_POINTER(number));
        if (number == 0 || number == NUMBER || is_wished(wishes, number))
            continue;
        if (!partition)
            json_array_append_new(differences, json_sprintf("has P_Key 0x%04x, which the manager does not know", key));
        else if (expected->exact && weft_partition_is_ours(partition->name))
            json_array_append_new(differences,
                                  json_sprintf("has P_Key 0x%04x of %s, in which it is not", key, partition->name));
    }
}

static json_t *
compare(const Expected *expected, const WeftPortTable *table)
{
    json_t *differences = json_array();
    const GArray *wishes = g_hash_table_lookup(expected->wishes, &table->port_guid);
    for (guint i = 0; !table->error && wishes && i < wishes->len; i++) {
        g_autofree char *wrong = weft_port_wish_check(&g_array_index(wishes, WeftPortWish, i), table);
        if (wrong)
            json_array_append_new(differences, json_string(wrong));
    }
    if (table->error)
        json_array_append_new(differences, json_string(table->error));
    else
        add_strays(expected, wishes, table, differences);
    return differences;
}

/* By index, as far as something is in it. */
static json_t *
keys_view(const GArray *keys)
{
    if (!keys)
        return json_null();
    json_t *view = json_array();
    guint n = keys->len;
    while (n && !(g_array_index(keys, guint16, n - 1) & NUMBER))
        n--;
    for (guint i = 0; i < n; i++)
        json_array_append_new(view, json_sprintf("0x%04x", g_array_index(keys, guint16, i)));
    return view;
}

json_t *
weft_report_tables(const GPtrArray *hosts, const GPtrArray *partitions, const GPtrArray *tables, gboolean exact)
{
    g_autoptr(GHashTable) owners = find_owners(hosts);
    Expected expected = { .exact = exact };
    expect(&expected, partitions);
    json_t *ports = json_array();
    for (guint i = 0; i < tables->len; i++) {
        const WeftPortTable *table = tables->pdata[i];
        const Owner *owner = g_hash_table_lookup(owners, &table->port_guid);
        json_array_append_new(ports, json_pack("{s:o, s:s?, s:s?, s:o, s:o, s:o}", "guid", weft_guid_write(table->port_guid),
                                               "host", owner ? owner->host : NULL, "hca", owner ? owner->hca : NULL, "pkeys",
                                               keys_view(table->pkeys), "enforced", keys_view(table->enforced), "differences",
                                               compare(&expected, table)));
    }
    g_hash_table_unref(expected.wishes);
    g_hash_table_unref(expected.partitions);
    return ports;
}
