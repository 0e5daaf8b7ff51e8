#include "map.h"

#include "errors.h"
#include "text.h"

#include <string.h>

#define TEXT_MAX (64u << 20)
#define LINE_LENGTH_MAX 1024u
#define ADAPTER_GUIDS 0x100000u /* where ibsim begins to count when a file has no GUIDs */
#define SWITCH_GUIDS 0x200000u
#define ROUTER_GUIDS 0x300000u

/* Switch 36 "S-0002c90200000001" # "leaf1" base port 0 lid 3 lmc 0 */
#define NODE_LINE                                                                                                              \
    "^([A-Z][a-z]+)\\s+([0-9]{1,9})\\s*\"([^\"]{1,64})\"\\s*(?:#\\s*\"(.*)\")?(?:[^\"]*?\\blid ([0-9]{1,5}))?[^\"]*$"
/* [1](2c90300000011) "S-0002c90200000001"[2] # lid 5 lmc 0 "leaf1" lid 3 4xEDR */
#define PORT_LINE "^\\[([0-9]{1,9})\\](?:\\(([0-9a-fA-F]{1,16})\\))?\\s*\"([^\"]{1,64})\"\\s*(?:\\[([0-9]{1,9})\\])?(.*)$"
/* An adapter's own LID comes first; the link's width and speed are last. */
#define LINK "#(?:\\s*lid ([0-9]{1,5}))?.*\\blid [0-9]+ ([0-9]{1,2})x([A-Z]+[0-9]*)"

/* One end of a cable as a port's line tells it; nodes may be named before they are described. */
typedef struct Cable {
    guint line;
    guint node;
    guint port;
    char *peer;
    guint peer_port;
} Cable;

typedef struct Parser {
    WeftFabricMap *map;
    GHashTable *places; /* id of a node to its index */
    GArray *cables;     /* Cable */
    GRegex *node_line, *port_line, *link;
    guint64 next_guid[3];     /* of a node without one, by kind */
    gboolean guid_is_told[3]; /* the next node's GUID stood in a line of its own */
    int node;                 /* whose ports are listed; -1: none */
    guint n_ports;            /* that it may have */
    guint line;
} Parser;

static const struct {
    const char *word;
    WeftMapKind kind;
} node_words[] = { { "Switch", WEFT_MAP_SWITCH },
                   { "Ca", WEFT_MAP_ADAPTER },
                   { "Hca", WEFT_MAP_ADAPTER },
                   { "Rt", WEFT_MAP_ROUTER },
                   { "Router", WEFT_MAP_ROUTER } };

/* Lines NAME=VALUE. What has no kind says nothing about the shape of the fabric. */
static const struct {
    const char *name;
    int kind;
} settings[] = { { "switchguid", WEFT_MAP_SWITCH },
                 { "caguid", WEFT_MAP_ADAPTER },
                 { "hcaguids", WEFT_MAP_ADAPTER },
                 { "rtguid", WEFT_MAP_ROUTER },
                 { "vendid", -1 },
                 { "devid", -1 },
                 { "sysimgguid", -1 },
                 { "width", -1 },
                 { "speed", -1 },
                 { "speedext", -1 } };

/* Gbit/s of one lane, times ten, as Linux tells them. */
static const struct {
    const char *speed;
    guint rate;
} lanes[] = { { "SDR", 25 },  { "DDR", 50 },  { "QDR", 100 },  { "FDR10", 100 }, { "FDR", 140 },
              { "EDR", 250 }, { "HDR", 500 }, { "NDR", 1000 }, { "XDR", 2000 } };
static const guint widths[] = { 1, 2, 4, 8, 12 }; /* lanes that a link may have */

static gboolean
refuse(const Parser *p, const char *value, GError **error, const char *what)
{
    g_autofree char *quoted = weft_text_quote(value);
    return weft_error_refuse(error, WEFT_ERROR_INVALID, "line %u: %s %s", p->line, quoted, what);
}

static guint64
group_number(const GMatchInfo *match, int group, guint base)
{
    g_autofree char *text = g_match_info_fetch(match, group);
    return text ? g_ascii_strtoull(text, NULL, base) : 0;
}

static gboolean
read_lid(const Parser *p, const GMatchInfo *match, int group, guint *ret_lid, GError **error)
{
    guint64 lid = group_number(match, group, 10);
    if (lid > WEFT_MAP_LID_MAX) {
        g_autofree char *text = g_match_info_fetch(match, group);
        return refuse(p, text, error, "is above 65535, the highest LID that there is");
    }
    *ret_lid = (guint)lid;
    return TRUE;
}

/* --- lines --- */

static gboolean
read_setting(Parser *p, const char *line, GError **error)
{
    for (guint i = 0; i < G_N_ELEMENTS(settings); i++) {
        gsize length = strlen(settings[i].name);
        if (strncmp(line, settings[i].name, length) != 0 || line[length] != '=')
            continue;
        if (settings[i].kind < 0)
            return TRUE;
        char *end;
        guint64 guid = g_ascii_strtoull(line + length + 1, &end, 0);
        if (guid == 0 || guid == G_MAXUINT64 || (*end && !strchr(" \t(", *end)))
            return refuse(p, line, error, "has no GUID like 0x2c90200000001");
        p->next_guid[settings[i].kind] = guid;
        p->guid_is_told[settings[i].kind] = TRUE;
        return TRUE;
    }
    return refuse(p, line, error,
                  "is no line that ibnetdiscover writes; save its output without options: ibnetdiscover > FILE");
}

/* A GUID of its own line, else of its id ("S-0002c90200000001"), else the next one that ibsim would give. */
static guint64
node_guid(Parser *p, WeftMapKind kind, const char *id)
{
    guint64 guid = 0;
    if (!p->guid_is_told[kind] && strlen(id) == 18 && id[1] == '-' && strspn(id + 2, "0123456789abcdefABCDEF") == 16)
        guid = g_ascii_strtoull(id + 2, NULL, 16);
    if (guid == 0) {
        guid = p->next_guid[kind];
        p->next_guid[kind] += kind == WEFT_MAP_SWITCH ? 1 : p->n_ports + 1;
    }
    p->guid_is_told[kind] = FALSE;
    return guid;
}

/* What the fabric says, cut as InfiniBand would; a map of names may have put anything there. */
static char *
node_description(const GMatchInfo *match, const char *id)
{
    g_autofree char *text = g_match_info_fetch(match, 4);
    return g_utf8_make_valid(text && *text ? text : id, text && *text ? (gssize)MIN(strlen(text), WEFT_MAP_NAME_MAX) : -1);
}

static gboolean
add_node(Parser *p, WeftMapKind kind, const GMatchInfo *match, GError **error)
{
    g_autofree char *id = g_match_info_fetch(match, 3);
    g_autofree char *description = node_description(match, id);
    guint64 n_ports = group_number(match, 2, 10);
    if (n_ports < 1 || n_ports > WEFT_MAP_PORTS_MAX)
        return refuse(p, id, error, "must have 1 to 255 ports");
    if (p->map->nodes->len >= WEFT_MAP_NODES_MAX)
        return refuse(p, id, error, "is one node too many: a subnet holds at most 65536");
    if (g_hash_table_contains(p->places, id))
        return refuse(p, id, error, "is described twice");

    guint lid = 0;
    if (!read_lid(p, match, 5, &lid, error))
        return FALSE;

    p->n_ports = (guint)n_ports;
    p->node = (int)p->map->nodes->len;
    WeftMapNode *node = weft_fabric_map_add(p->map, kind, node_guid(p, kind, id), description);
    if (kind == WEFT_MAP_SWITCH) {
        WeftMapPort own = { .guid = node->guid, .lid = lid, .active = TRUE, .peer = -1 };
        g_array_append_val(node->ports, own);
    }
    g_hash_table_insert(p->places, g_steal_pointer(&id), GINT_TO_POINTER(p->node));
    return TRUE;
}

static gboolean
read_node(Parser *p, const char *line, const GMatchInfo *match, GError **error)
{
    g_autofree char *word = g_match_info_fetch(match, 1);
    for (guint i = 0; i < G_N_ELEMENTS(node_words); i++)
        if (strcmp(word, node_words[i].word) == 0)
            return add_node(p, node_words[i].kind, match, error);
    return refuse(p, word, error, "is no kind of node; there are Switch, Ca and Rt");
}

/* 0, which is «not known», for a width or a speed that is not in the tables. */
static guint64
link_rate(guint64 width, const char *speed)
{
    for (guint w = 0; w < G_N_ELEMENTS(widths); w++)
        for (guint i = 0; widths[w] == width && i < G_N_ELEMENTS(lanes); i++)
            if (g_strcmp0(speed, lanes[i].speed) == 0)
                return width * lanes[i].rate * 100000000u;
    return 0;
}

static gboolean
read_link(const Parser *p, const char *rest, WeftMapPort *port, GError **error)
{
    g_autoptr(GMatchInfo) match = NULL;
    if (!g_regex_match(p->link, rest, 0, &match))
        return TRUE;
    g_autofree char *speed = g_match_info_fetch(match, 3);
    port->rate = link_rate(group_number(match, 2, 10), speed);
    return read_lid(p, match, 1, &port->lid, error);
}

static gboolean
read_port(Parser *p, const char *line, const GMatchInfo *match, GError **error)
{
    if (p->node < 0)
        return refuse(p, line, error, "is a port of no node: the line \"Switch …\" or \"Ca …\" before it is missing");
    WeftMapNode *node = p->map->nodes->pdata[p->node];
    guint64 number = group_number(match, 1, 10);
    if (number < 1 || number > p->n_ports)
        return refuse(p, line, error, "has a number that its node does not have");
    WeftMapPort port = { .number = (guint)number, .active = TRUE, .peer = -1 };
    if (node->kind != WEFT_MAP_SWITCH) {
        guint64 told = group_number(match, 2, 16);
        port.guid = told ? told : node->guid + number; /* as ibsim counts */
    }
    g_autofree char *rest = g_match_info_fetch(match, 5);
    if (!read_link(p, rest, &port, error))
        return FALSE;
    g_array_append_val(node->ports, port);

    guint64 peer_port = group_number(match, 4, 10);
    Cable cable = { .line = p->line,
                    .node = (guint)p->node,
                    .port = port.number,
                    .peer = g_match_info_fetch(match, 3),
                    .peer_port = peer_port ? (guint)MIN(peer_port, G_MAXUINT16) : 1 };
    g_array_append_val(p->cables, cable);
    return TRUE;
}

static gboolean
read_line(Parser *p, const char *line, GError **error)
{
    if (strlen(line) > LINE_LENGTH_MAX)
        return refuse(p, line, error, "is longer than the 1024 characters that a line may have");
    if (*line == '\0') {
        p->node = -1;
        return TRUE;
    }
    if (*line == '#')
        return TRUE;
    g_autoptr(GMatchInfo) port = NULL, node = NULL;
    if (g_regex_match(p->port_line, line, 0, &port))
        return read_port(p, line, port, error);
    if (g_regex_match(p->node_line, line, 0, &node))
        return read_node(p, line, node, error);
    return read_setting(p, line, error);
}

/* --- cables --- */

static WeftMapPort *
find_port(const WeftMapNode *node, guint number)
{
    for (guint i = 0; i < node->ports->len; i++) {
        WeftMapPort *port = &g_array_index(node->ports, WeftMapPort, i);
        if (port->number == number)
            return port;
    }
    return NULL;
}

static gboolean
connect_cables(Parser *p, GError **error)
{
    for (guint i = 0; i < p->cables->len; i++) {
        const Cable *cable = &g_array_index(p->cables, Cable, i);
        p->line = cable->line;
        gpointer index;
        if (!g_hash_table_lookup_extended(p->places, cable->peer, NULL, &index))
            return refuse(p, cable->peer, error, "is at the end of a cable, but not in the file: was it cut?");
        WeftMapPort *port = find_port(p->map->nodes->pdata[cable->node], cable->port);
        if (port->peer >= 0)
            return refuse(p, cable->peer, error, "is at a port that has a cable already");
        port->peer = GPOINTER_TO_INT(index);
        port->peer_port = cable->peer_port;
    }
    return TRUE;
}

/* Both ends must tell of each other; found here, since here the line is known. */
static gboolean
check_ends(Parser *p, GError **error)
{
    for (guint i = 0; i < p->cables->len; i++) {
        const Cable *cable = &g_array_index(p->cables, Cable, i);
        p->line = cable->line;
        const WeftMapPort *port = find_port(p->map->nodes->pdata[cable->node], cable->port);
        const WeftMapPort *far = find_port(p->map->nodes->pdata[port->peer], cable->peer_port);
        if (!far || far->peer != (int)cable->node || far->peer_port != cable->port)
            return refuse(p, cable->peer, error, "has no port with the other end of this cable");
    }
    return TRUE;
}

/* --- all of it --- */

static void
cable_clear(gpointer cable)
{
    g_free(((Cable *)cable)->peer);
}

static gboolean
read_lines(Parser *p, const char *text, GError **error)
{
    for (const char *at = text; *at;) {
        gsize length = strcspn(at, "\n");
        g_autofree char *line = g_strndup(at, length);
        p->line++;
        if (!read_line(p, g_strchomp(line), error))
            return FALSE;
        at += length + (at[length] == '\n');
    }
    return TRUE;
}

static gboolean
parse(Parser *p, const char *text, GError **error)
{
    if (strlen(text) > TEXT_MAX)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "a map of %zu bytes; at most %u are read", strlen(text), TEXT_MAX);
    if (!read_lines(p, text, error) || !connect_cables(p, error) || !check_ends(p, error))
        return FALSE;
    if (p->map->nodes->len == 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "there is no line \"Switch …\" or \"Ca …\"; give a file that ibnetdiscover wrote");
    return weft_fabric_map_seal(p->map, error);
}

WeftFabricMap *
weft_fabric_map_from_ibnetdiscover(const char *text, GError **error)
{
    Parser p = { .map = weft_fabric_map_new(),
                 .places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
                 .cables = g_array_new(FALSE, FALSE, sizeof(Cable)),
                 .next_guid = { SWITCH_GUIDS, ADAPTER_GUIDS, ROUTER_GUIDS },
                 .node = -1 };
    g_array_set_clear_func(p.cables, cable_clear);
    p.node_line = g_regex_new(NODE_LINE, G_REGEX_RAW | G_REGEX_OPTIMIZE, 0, NULL);
    p.port_line = g_regex_new(PORT_LINE, G_REGEX_RAW | G_REGEX_OPTIMIZE, 0, NULL);
    p.link = g_regex_new(LINK, G_REGEX_RAW | G_REGEX_OPTIMIZE, 0, NULL);
    if (!parse(&p, text, error))
        g_clear_pointer(&p.map, weft_fabric_map_free);
    g_hash_table_unref(p.places);
    g_array_unref(p.cables);
    g_regex_unref(p.node_line);
    g_regex_unref(p.port_line);
    g_regex_unref(p.link);
    return p.map;
}
