#include "fabric.h"

#include "errors.h"

WeftFabricChange *
weft_fabric_change_new(guint64 generation)
{
    WeftFabricChange *change = g_new0(WeftFabricChange, 1);
    change->generation = generation;
    change->set = g_ptr_array_new_with_free_func((GDestroyNotify)weft_partition_free);
    change->removed = g_array_new(FALSE, FALSE, sizeof(WeftPartitionRemoval));
    return change;
}

void
weft_fabric_change_free(WeftFabricChange *change)
{
    if (!change)
        return;
    g_clear_pointer(&change->set, g_ptr_array_unref);
    g_clear_pointer(&change->removed, g_array_unref);
    g_free(change);
}

void
weft_fabric_change_remove(WeftFabricChange *change, guint pkey, const char *name)
{
    WeftPartitionRemoval removal = { .pkey = pkey };
    g_strlcpy(removal.name, name, sizeof removal.name);
    g_array_append_val(change->removed, removal);
}

static gboolean
check_number(const WeftPkeys *pkeys, guint pkey, GError **error)
{
    if (weft_pkeys_contain(pkeys, pkey))
        return TRUE;
    g_autofree char *own = weft_pkeys_format(pkeys);
    return weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "P_Key 0x%04x is not one of weft's own on this fabric, %s, and is left alone", pkey, own);
}

gboolean
weft_fabric_change_check(const WeftFabricChange *change, const WeftPkeys *pkeys, GError **error)
{
    for (guint i = 0; i < change->set->len; i++)
        if (!check_number(pkeys, ((const WeftPartition *)change->set->pdata[i])->pkey, error))
            return FALSE;
    for (guint i = 0; i < change->removed->len; i++)
        if (!check_number(pkeys, g_array_index(change->removed, WeftPartitionRemoval, i).pkey, error))
            return FALSE;
    return TRUE;
}

WeftPortTable *
weft_port_table_new(guint64 port_guid)
{
    WeftPortTable *table = g_new0(WeftPortTable, 1);
    table->port_guid = port_guid;
    table->pkeys = g_array_new(FALSE, FALSE, sizeof(guint16));
    return table;
}

void
weft_port_table_free(WeftPortTable *table)
{
    if (!table)
        return;
    g_clear_pointer(&table->pkeys, g_array_unref);
    g_clear_pointer(&table->enforced, g_array_unref);
    g_free(table->error);
    g_free(table);
}

void
weft_manager_free(WeftManager *manager)
{
    if (!manager)
        return;
    g_free(manager->way);
    g_free(manager->version);
    g_free(manager->where);
    g_free(manager->routing);
    g_free(manager);
}

void
weft_fabric_driver_free(WeftFabricDriver *fabric)
{
    if (fabric)
        fabric->ops->free(fabric);
}
