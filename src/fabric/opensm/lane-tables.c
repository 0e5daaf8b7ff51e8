#include "lane-tables.h"

#include "errors.h"

#include <infiniband/ibnetdisc.h>
#include <infiniband/mad.h>
#include <string.h>

#define TIMEOUT_MS 100
#define RETRIES 3
#define LEVELS 16
#define ENTRIES 32 /* of an arbitration table in a datagram */
#define LOW 1
#define HIGH 3

typedef struct Check {
    struct ibmad_port *port;
    const char *sl2vl; /* as they should be, in opensm's words */
    const char *turns;
    guint lanes;
    GPtrArray *wrong;
    guint ports;
} Check;

/* A port whose tables are read, and how others are told of it. */
typedef struct Subject {
    ibnd_node_t *node;
    guint number; /* in modifiers: 0 for a host's own */
    ibnd_port_t *port;
} Subject;

static gboolean
query(const Check *check, const Subject *subject, guint attribute, guint modifier, guint8 data[IB_SMP_DATA_SIZE])
{
    ib_portid_t way = subject->node->path_portid;
    memset(data, 0, IB_SMP_DATA_SIZE);
    return smp_query_via(data, &way, attribute, modifier, 0, check->port) != NULL;
}

static void G_GNUC_PRINTF(3, 4) blame(const Check *check, const Subject *subject, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *what = g_strdup_vprintf(format, args);
    va_end(args);
    g_autofree char *name = g_utf8_make_valid(subject->node->nodedesc, -1);
    g_ptr_array_add(check->wrong, g_strdup_printf("%s port %d: %s", g_strchomp(name), subject->port->portnum, what));
}

/* "0:128,1:64", those of no weight left out. */
static char *
format_turns(const guint8 *data, guint n)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < MIN(n, ENTRIES); i++)
        if (data[2 * i + 1])
            g_string_append_printf(text, "%s%d:%d", text->len ? "," : "", data[2 * i] & 0xf, data[2 * i + 1]);
    return g_string_free(text, FALSE);
}

static char *
format_levels(const guint8 *data)
{
    GString *text = g_string_new(NULL);
    for (guint sl = 0; sl < LEVELS; sl++)
        g_string_append_printf(text, "%s%d", sl ? "," : "", sl % 2 ? data[sl / 2] & 0xf : data[sl / 2] >> 4);
    return g_string_free(text, FALSE);
}

/* PortInfo's code of what the link has: 1, 2, 4, 8 or 15 virtual lanes. */
static gboolean
check_count(const Check *check, const Subject *subject)
{
    guint code = mad_get_field(subject->port->info, 0, IB_PORT_OPER_VLS_F);
    guint has = code == 0 ? 1 : code >= 5 ? 15 : 1U << (code - 1);
    if (has > check->lanes)
        return TRUE;
    blame(check, subject, "has %u virtual lanes, and %u are needed: fewer lanes, or another cable end", has, check->lanes + 1);
    return FALSE;
}

static void
check_turns(const Check *check, const Subject *subject)
{
    guint8 low[IB_SMP_DATA_SIZE], high[IB_SMP_DATA_SIZE];
    if (!query(check, subject, IB_ATTR_VL_ARBITRATION, LOW << 16 | subject->number, low) ||
        !query(check, subject, IB_ATTR_VL_ARBITRATION, HIGH << 16 | subject->number, high)) {
        blame(check, subject, "does not answer");
        return;
    }
    g_autofree char *found = format_turns(low, mad_get_field(subject->port->info, 0, IB_PORT_VL_ARBITRATION_LOW_CAP_F));
    g_autofree char *first = format_turns(high, mad_get_field(subject->port->info, 0, IB_PORT_VL_ARBITRATION_HIGH_CAP_F));
    if (strcmp(found, check->turns) != 0)
        blame(check, subject, "takes turns %s instead of %s", *found ? found : "of none", check->turns);
    if (*first)
        blame(check, subject, "sends %s before all others", first);
}

static void
check_levels(const Check *check, const Subject *subject)
{
    guint8 data[IB_SMP_DATA_SIZE];
    guint last = subject->number ? (guint)subject->node->numports : 0;
    for (guint in = subject->number ? 1 : 0; in <= last; in++) {
        if (!query(check, subject, IB_ATTR_SLVL_TABLE, in << 8 | subject->number, data)) {
            blame(check, subject, "does not answer");
            return;
        }
        g_autofree char *found = format_levels(data);
        if (strcmp(found, check->sl2vl) == 0)
            continue;
        blame(check, subject, "sends service levels over virtual lanes %s instead of %s", found, check->sl2vl);
        return;
    }
}

static void
check_port(Check *check, Subject subject)
{
    if (!check_count(check, &subject))
        return;
    check_turns(check, &subject);
    check_levels(check, &subject);
}

static void
check_node(Check *check, ibnd_node_t *node)
{
    for (int i = 1; node->type == IB_NODE_CA && i <= node->numports; i++) {
        ibnd_port_t *port = node->ports[i];
        if (!port || !port->remoteport)
            continue;
        check->ports++;
        check_port(check, (Subject){ node, 0, port });
        ibnd_port_t *far = port->remoteport;
        if (far->node->type == IB_NODE_SWITCH)
            check_port(check, (Subject){ far->node, (guint)far->portnum, far });
    }
}

gboolean
weft_lane_tables_check(const WeftMadsOptions *options, const WeftLanes *lanes, GPtrArray *wrong, guint *ret_ports,
                       GError **error)
{
    int classes[] = { IB_SMI_CLASS, IB_SMI_DIRECT_CLASS };
    ibnd_config_t config = { .timeout_ms = TIMEOUT_MS, .retries = RETRIES, .mkey = options->m_key };
    ibnd_fabric_t *fabric = ibnd_discover_fabric((char *)options->device, (int)options->port, NULL, &config);
    madrpc_show_errors(0);
    /* Discovery opens a port of its own; umad2sim knows one at a time. */
    struct ibmad_port *port = fabric ? mad_rpc_open_port((char *)options->device, (int)options->port, classes, 2) : NULL;
    if (!port) {
        if (fabric)
            ibnd_destroy_fabric(fabric);
        return weft_error_refuse(
            error, WEFT_ERROR_UNAVAILABLE,
            "the fabric cannot be looked at from here; is an adapter there, ib_umad loaded, and may you open "
            "/dev/infiniband/umad*?");
    }
    mad_rpc_set_timeout(port, TIMEOUT_MS);
    mad_rpc_set_retries(port, RETRIES);
    smp_mkey_set(port, options->m_key);
    g_autofree char *sl2vl = weft_lanes_sl2vl(lanes), *turns = weft_lanes_vlarb(lanes);
    Check check = { port, sl2vl, turns, lanes->n, wrong, 0 };
    for (ibnd_node_t *node = fabric->nodes; node; node = node->next)
        check_node(&check, node);
    *ret_ports = check.ports;
    mad_rpc_close_port(port);
    ibnd_destroy_fabric(fabric);
    return TRUE;
}
