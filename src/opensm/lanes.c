#include "lanes.h"

#include "errors.h"

#include <string.h>

#define LEVELS 16
#define PACKET_WEIGHT 64 /* of 4 KiB, in units of 64 bytes */
#define WEIGHT_MAX 255
/* Nothing goes before the rest. Not "0:0": opensm takes a table of zeros for what ports have already, does not send it, and
 * leaves what they came with, which puts best effort first. */
#define NONE_HIGH "1:0"

char *
weft_lanes_vlarb(const WeftLanes *lanes)
{
    WeftTurn turns[WEFT_TURNS_MAX];
    guint n = weft_lanes_arbitrate(lanes, weft_lanes_places(lanes), turns);
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < n; i++)
        g_string_append_printf(text, "%s%u:%u", i ? "," : "", turns[i].vl, MIN(turns[i].packets * PACKET_WEIGHT, WEIGHT_MAX));
    return g_string_free(text, FALSE);
}

char *
weft_lanes_sl2vl(const WeftLanes *lanes)
{
    guint vl[LEVELS] = { 0 };
    for (guint i = 0; i < lanes->n; i++)
        vl[lanes->lanes[i].sl] = i + 1;
    GString *text = g_string_new(NULL);
    for (guint sl = 0; sl < LEVELS; sl++)
        g_string_append_printf(text, "%s%u", sl ? "," : "", vl[sl]);
    return g_string_free(text, FALSE);
}

/* --- options --- */

static void
add(GPtrArray *options, GHashTable *found, const char *name, char *value, const char *why)
{
    const char *is = g_hash_table_lookup(found, name);
    WeftOption *option = weft_option_new(name);
    option->found = g_strdup(is);
    option->right = g_strcmp0(is, value) == 0;
    option->why = why;
    if (option->right)
        g_free(value);
    else
        option->value = value;
    g_ptr_array_add(options, option);
}

/* PortInfo's code for so many virtual lanes. */
static guint
vls_code(guint vls)
{
    guint code = 1;
    while (code < 5 && vls > 1U << (code - 1))
        code++;
    return code;
}

static void
add_max_vls(GPtrArray *options, GHashTable *found, const WeftLanes *lanes)
{
    const char *is = g_hash_table_lookup(found, "max_op_vls");
    if (is && g_ascii_strtoull(is, NULL, 0) < vls_code(lanes->n + 1))
        add(options, found, "max_op_vls", g_strdup_printf("%u", vls_code(lanes->n + 1)),
            "ports would fold several lanes into one");
}

/* Each kind of port has its own; the interned names live as long as the program. */
static void
add_tables(GPtrArray *options, GHashTable *found, const WeftLanes *lanes, const char *ports, const char *why)
{
    g_autofree char *prefix = g_strdup_printf("qos_%s_", ports);
    struct {
        const char *name;
        char *value;
    } rows[] = {
        { "max_vls", g_strdup_printf("%u", lanes->n + 1) },
        { "high_limit", g_strdup("0") },
        { "vlarb_high", g_strdup(NONE_HIGH) },
        { "vlarb_low", weft_lanes_vlarb(lanes) },
        { "sl2vl", weft_lanes_sl2vl(lanes) },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *name = g_strconcat(prefix, rows[i].name, NULL);
        add(options, found, g_intern_string(name), rows[i].value, why);
    }
}

GPtrArray *
weft_lanes_check(const char *text, const WeftLanes *lanes, GError **error)
{
    static const struct {
        const char *ports, *why;
    } sets[] = {
        { "ca", "what hosts send" },
        { "swe", "what switches send, to hosts and to each other" },
        { "sw0", "what switches send themselves" },
        { "rtr", "what routers send" },
    };
    g_autoptr(GHashTable) found = weft_options_read(text, error);
    if (!found)
        return NULL;
    g_autofree char *rival = weft_lanes_rival(g_hash_table_lookup(found, "routing_engine"));
    if (rival) {
        weft_error_refuse(
            error, WEFT_ERROR_INVALID,
            "routing_engine %s keeps the service levels for itself; choose one that does not (ftree, updn, minhop), "
            "or give no guarantees on this fabric",
            rival);
        return NULL;
    }
    GPtrArray *options = weft_options_new();
    add(options, found, "qos", g_strdup("TRUE"), "service levels mean nothing to the ports without it");
    add_max_vls(options, found, lanes);
    for (gsize i = 0; i < G_N_ELEMENTS(sets); i++)
        add_tables(options, found, lanes, sets[i].ports, sets[i].why);
    return options;
}

/* --- typed by hand --- */

gboolean
weft_lanes_parse(const char *text, WeftLanes *ret_lanes, GError **error)
{
    json_auto_t *items = json_array();
    g_auto(GStrv) words = g_strsplit(*text ? text : "-", ",", -1);
    for (guint i = 0; words[i]; i++) {
        guint64 sl, share;
        char *colon = strchr(words[i], ':');
        if (colon)
            *colon++ = '\0';
        if (!colon || !g_ascii_string_to_unsigned(words[i], 10, 1, WEFT_LANES_MAX, &sl, NULL) ||
            !g_ascii_string_to_unsigned(colon, 10, 1, 100, &share, NULL))
            return weft_error_refuse(
                error, WEFT_ERROR_INVALID,
                "lanes \"%s\" are not understood; write service levels 1 to 14 and percent, like 1:40,2:20", text);
        json_array_append_new(items, json_pack("{s:i, s:i}", "sl", (int)sl, "share", (int)share));
    }
    json_auto_t *json = json_pack("{s:{s:O}}", "qos", "lanes", items);
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "");
    weft_lanes_read(&f, "qos", ret_lanes);
    return weft_fields_end(&f, error);
}
