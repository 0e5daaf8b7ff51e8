#include "fabric.h"

WeftFabricChange *
weft_fabric_change_new(guint64 generation)
{
    WeftFabricChange *change = g_new0(WeftFabricChange, 1);
    change->generation = generation;
    change->set = g_ptr_array_new_with_free_func((GDestroyNotify)weft_partition_free);
    change->removed = g_array_new(FALSE, FALSE, sizeof(guint16));
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
weft_fabric_driver_free(WeftFabricDriver *fabric)
{
    if (fabric)
        fabric->ops->free(fabric);
}
