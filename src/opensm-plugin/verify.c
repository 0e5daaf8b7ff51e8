#include "look.h"

#include "acks.h"
#include "apply.h"
#include "check.h"
#include "errors.h"
#include "fields.h"
#include "table.h"
#include "wire.h"

#define PORTS_MAX 4096

static GPtrArray *
read_request(json_t *request, GError **error)
{
    g_autoptr(GPtrArray) tables = g_ptr_array_new_with_free_func((GDestroyNotify)weft_port_table_free);
    WeftFields fields;
    weft_fields_begin(&fields, request, "%s", "");
    weft_fields_has(&fields, "id");
    weft_fields_has(&fields, "do");
    json_t *ports = weft_fields_array(&fields, "ports", PORTS_MAX);
    for (gsize i = 0; i < json_array_size(ports); i++) {
        const char *text = json_string_value(json_array_get(ports, i));
        guint64 guid;
        if (!text || !g_str_has_prefix(text, "0x") || !g_ascii_string_to_unsigned(text + 2, 16, 1, G_MAXUINT64, &guid, NULL)) {
            weft_fields_fail(&fields, "ports", "entry %zu must be a text like \"0x0002c903000e0001\"", i);
            break;
        }
        g_ptr_array_add(tables, weft_port_table_new(guid));
    }
    return weft_fields_end(&fields, error) ? g_steal_pointer(&tables) : NULL;
}

/* lock: held. */
static void
ask_port(osm_opensm_t *osm, WeftPortTable *table, WeftRound *round)
{
    const osm_port_t *port = osm_get_port_by_guid(&osm->subn, cl_hton64(table->port_guid));
    g_autoptr(GError) error = NULL;
    if (!port || !port->p_physp) {
        table->error = g_strdup("is not in the fabric");
        return;
    }
    if (!weft_check_port(port, &error)) {
        table->error = g_strdup(error->message);
        return;
    }
    g_array_set_size(table->pkeys, weft_table_capacity(port->p_physp));
    weft_table_read(port->p_physp, weft_osm_enforces(osm), round);
    osm_physp_t *peer = weft_osm_enforces(osm) ? weft_table_peer(port->p_physp) : NULL;
    if (!peer)
        return;
    table->enforced = g_array_new(FALSE, TRUE, sizeof(guint16));
    g_array_set_size(table->enforced, weft_table_capacity(peer));
}

static void
fill(WeftPortTable *table, const WeftAsk *ask)
{
    GArray *keys = ask->enforced ? table->enforced : table->pkeys;
    if (ask->error && !table->error)
        table->error = g_strdup(ask->error);
    for (guint i = 0, at = ask->block * WEFT_BLOCK_KEYS; i < WEFT_BLOCK_KEYS && at < keys->len; i++, at++)
        g_array_index(keys, guint16, at) = ask->keys[i];
}

/* Half of a table says nothing. */
static void
empty_failed(WeftPortTable *table)
{
    if (!table->error)
        return;
    g_array_set_size(table->pkeys, 0);
    g_clear_pointer(&table->enforced, g_array_unref);
}

/* opensm does not look at tables again that it knows: the next change repairs what somebody else wrote. */
static void
note_drift(WeftOsm *weft, const WeftPortTable *table)
{
    osm_opensm_t *osm = weft->osm;
    CL_PLOCK_ACQUIRE(&osm->lock);
    const osm_port_t *port = osm_get_port_by_guid(&osm->subn, cl_hton64(table->port_guid));
    gboolean known = port && port->p_physp && weft_table_is_known(port->p_physp) && weft_check_port(port, NULL);
    gboolean drifted = known && !weft_table_is_as_wished(port->p_physp, weft_osm_enforces(osm));
    CL_PLOCK_RELEASE(&osm->lock);
    if (drifted)
        weft_applier_note_drift(weft->applier, table->port_guid);
}

static void
read_tables(WeftOsm *weft, GPtrArray *tables)
{
    g_autoptr(WeftRound) round = weft_round_new(weft->acks);
    GPtrArray *asks = weft_round_asks(round);
    g_autofree guint *ends = g_new(guint, tables->len + 1); /* of each table's questions */
    CL_PLOCK_ACQUIRE(&weft->osm->lock);
    for (guint i = 0; i < tables->len; i++) {
        ask_port(weft->osm, tables->pdata[i], round);
        ends[i] = asks->len;
    }
    CL_PLOCK_RELEASE(&weft->osm->lock);
    weft_round_wait(round);
    for (guint t = 0, i = 0; t < tables->len; t++) {
        for (; i < ends[t]; i++)
            fill(tables->pdata[t], asks->pdata[i]);
        empty_failed(tables->pdata[t]);
        note_drift(weft, tables->pdata[t]);
    }
}

json_t *
weft_look_verify(WeftOsm *weft, json_t *request, GError **error)
{
    g_autoptr(GPtrArray) tables = read_request(request, error);
    if (!tables)
        return NULL;
    if (!weft_osm_is_ruling(weft)) {
        weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "this opensm does not rule the fabric, or has not swept it yet");
        return NULL;
    }
    read_tables(weft, tables);
    json_t *array = json_array();
    for (guint i = 0; i < tables->len; i++)
        json_array_append_new(array, weft_wire_table_to_json(tables->pdata[i]));
    return json_pack("{so}", "tables", array);
}
