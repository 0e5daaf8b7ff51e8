#include "none-fabric.h"

#include "blocking.h"
#include "errors.h"

typedef struct NoFabric {
    char *refusal; /* of every call; NULL: calls are answered */
} NoFabric;

static gboolean
may_answer(const NoFabric *none, GError **error)
{
    return !none->refusal || weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "%s", none->refusal);
}

/* Members would be ports that nobody keeps apart. */
static gboolean
none_apply(gpointer self, const WeftFabricChange *change, GCancellable *cancellable, GError **error)
{
    if (!may_answer(self, error))
        return FALSE;
    for (guint i = 0; i < change->set->len; i++) {
        const WeftPartition *partition = change->set->pdata[i];
        if (partition->members->len > 0)
            return weft_error_refuse(
                error, WEFT_ERROR_UNAVAILABLE,
                "partition 0x%04x (%s) has ports of hosts, and nobody programs them: remove the cluster, or "
                "name a manager of the fabric in weft.yaml",
                partition->pkey, partition->name);
    }
    return TRUE;
}

static GPtrArray *
none_list(gpointer self, GCancellable *cancellable, GError **error)
{
    return may_answer(self, error) ? g_ptr_array_new_with_free_func((GDestroyNotify)weft_partition_free) : NULL;
}

static WeftManager *
none_greet(gpointer self, GCancellable *cancellable, GError **error)
{
    WeftManager manager = { .way = g_strdup("none") };
    if (may_answer(self, error))
        return g_memdup2(&manager, sizeof manager);
    g_free(manager.way);
    return NULL;
}

static WeftFabricMap *
none_map(gpointer self, GCancellable *cancellable, GError **error)
{
    return may_answer(self, error) ? weft_fabric_map_new() : NULL;
}

static GPtrArray *
none_verify(gpointer self, const GArray *port_guids, GCancellable *cancellable, GError **error)
{
    if (!may_answer(self, error))
        return NULL;
    GPtrArray *tables = g_ptr_array_new_with_free_func((GDestroyNotify)weft_port_table_free);
    for (guint i = 0; i < port_guids->len; i++) {
        WeftPortTable *table = weft_port_table_new(g_array_index(port_guids, guint64, i));
        table->error = g_strdup("was not read: the fabric has no manager");
        g_ptr_array_add(tables, table);
    }
    return tables;
}

static gboolean
none_generation(gpointer self, guint64 *ret_generation, GCancellable *cancellable, GError **error)
{
    *ret_generation = 0;
    return may_answer(self, error);
}

static void
none_listen(gpointer self, gboolean on)
{
}

static void
none_free(gpointer self)
{
    NoFabric *none = self;
    g_free(none->refusal);
    g_free(none);
}

#define OPS(word, how)                                                                                                         \
    {                                                                                                                          \
        .name = word, .management = how, .apply = none_apply, .list = none_list, .greet = none_greet, .map = none_map,         \
        .verify = none_verify, .generation = none_generation, .listen = none_listen, .free = none_free,                        \
    }

static const WeftBlockingOps unmanaged = OPS("none", WEFT_FABRIC_UNMANAGED);
static const WeftBlockingOps unnamed = OPS("unnamed", WEFT_FABRIC_UNNAMED);

WeftFabricDriver *
weft_fabric_none_new(const char *name, WeftFabricManagement management, const WeftPkeys *pkeys)
{
    NoFabric *none = g_new0(NoFabric, 1);
    if (management == WEFT_FABRIC_UNMANAGED)
        return weft_blocking_new(&unmanaged, none, pkeys);
    none->refusal = g_strdup_printf("weft.yaml names no manager of fabric %s: " WEFT_FABRIC_NAME_MANAGER, name);
    return weft_blocking_new(&unnamed, none, pkeys);
}
