#include "waiting.h"

struct WeftWaiting {
    gsize size;
    gsize taken;
    GHashTable *shares; /* tenant to gsize */
};

WeftWaiting *
weft_waiting_new(gsize size)
{
    WeftWaiting *waiting = g_new0(WeftWaiting, 1);
    waiting->size = size;
    waiting->shares = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return waiting;
}

void
weft_waiting_free(WeftWaiting *waiting)
{
    g_hash_table_unref(waiting->shares);
    g_free(waiting);
}

/* Whose share an entry takes; NULL: it is an operator's, an admin's, or weftd's own. Strangers and sums have one together. */
static const char *
payer_of(const json_t *fields)
{
    const json_t *role = json_object_get(fields, "role");
    const char *tenant = json_string_value(json_object_get(fields, "tenant"));
    gboolean is_anybodys = json_is_null(role) || json_object_get(fields, "account");
    return tenant ? tenant : is_anybodys ? "" : NULL;
}

/* What a tenant has is at most as much as it leaves to others. */
gboolean
weft_waiting_take(WeftWaiting *waiting, const json_t *fields, gsize size)
{
    const char *tenant = payer_of(fields);
    gsize end = waiting->size - (tenant ? waiting->size / 8 : 0);
    gsize share = size + (tenant ? GPOINTER_TO_SIZE(g_hash_table_lookup(waiting->shares, tenant)) : 0);
    gsize taken = waiting->taken + size;
    if (taken > end || (tenant && share > end - taken))
        return FALSE;
    waiting->taken = taken;
    if (tenant)
        g_hash_table_insert(waiting->shares, g_strdup(tenant), GSIZE_TO_POINTER(share));
    return TRUE;
}

void
weft_waiting_clear(WeftWaiting *waiting)
{
    waiting->taken = 0;
    g_hash_table_remove_all(waiting->shares);
}
