#include "definitions.h"

#include <string.h>

#define PER_LINE 128 /* virtual functions in the comment of a line: keeps it below opensm's 4,096 bytes */
#define SPACE " \t\r\n"
#define EVERY_PORT "ALL_CAS"

/* --- reading --- */

typedef struct Parser {
    GPtrArray *definitions;
    WeftDefinition *current; /* NULL: between two definitions */
    gboolean index0;         /* of the current one */
    guint line;
} Parser;

static void
definition_free(gpointer data)
{
    WeftDefinition *definition = data;
    weft_partition_free(definition->partition);
    g_free(definition);
}

static gboolean
parse_number(const char *text, int base, guint64 max, guint64 *ret_value)
{
    gboolean hex = g_str_has_prefix(text, "0x") || g_str_has_prefix(text, "0X");
    return g_ascii_string_to_unsigned(hex ? text + 2 : text, hex ? 16 : (guint)base, 0, max, ret_value, NULL);
}

/* "name=value" in place; the value is NULL where there is none. */
static char *
split_value(char *token, char **ret_value)
{
    char *equals = strchr(token, '=');
    *ret_value = equals ? g_strstrip(equals + 1) : NULL;
    if (equals)
        *equals = '\0';
    return g_strstrip(token);
}

static gboolean
parse_setting(const char *value, guint max, guint *setting)
{
    guint64 number;
    if (!value || !parse_number(value, 10, max, &number))
        return FALSE;
    *setting = (guint)number;
    return TRUE;
}

static gboolean
parse_flag(Parser *parser, char *token)
{
    WeftPartition *partition = parser->current->partition;
    char *value, *flag = split_value(token, &value);
    const struct {
        const char *name;
        guint max;
        guint *setting;
    } settings[] = { { "sl", 15, &partition->sl }, { "rate", 63, &partition->rate }, { "mtu", 63, &partition->mtu } };
    for (guint i = 0; i < G_N_ELEMENTS(settings); i++)
        if (g_str_equal(flag, settings[i].name))
            return parse_setting(value, settings[i].max, settings[i].setting);
    gboolean ipoib = g_str_equal(flag, "ipoib"), index0 = g_str_equal(flag, "indx0");
    partition->ipoib |= ipoib;
    parser->index0 |= index0;
    return (ipoib || index0) && !value;
}

/* "name=0x0001, ipoib, sl=2". A name that begins with a digit and has no value is the number, as opensm has it. */
static gboolean
parse_header(Parser *parser, char *header)
{
    WeftPartition *partition = parser->current->partition;
    g_auto(GStrv) tokens = g_strsplit(header, ",", -1);
    if (!tokens[0])
        return FALSE;
    char *number, *name = split_value(tokens[0], &number);
    if (!number && g_ascii_isdigit(*name))
        number = name;
    guint64 pkey = 0;
    gboolean ok = number && parse_number(number, 10, G_MAXUINT16, &pkey) && name != number;
    partition->pkey = (guint)pkey & 0x7fff;
    partition->name = g_strdup(name == number ? "" : name);
    for (guint i = 1; tokens[i]; i++)
        ok = parse_flag(parser, tokens[i]) && ok;
    return ok;
}

static gboolean
parse_membership(const char *word, WeftMembership *ret_membership)
{
    for (guint i = 0; word && weft_membership_words[i]; i++)
        if (g_str_equal(word, weft_membership_words[i])) {
            *ret_membership = i;
            return TRUE;
        }
    return FALSE;
}

/* The virtual functions that the member stands for. */
static gboolean
parse_virtuals(WeftPartition *partition, WeftMember member, const char *comment)
{
    g_auto(GStrv) words = g_strsplit_set(comment, SPACE, -1);
    guint found = 0;
    for (guint i = 0; words[i]; i++) {
        if (!*words[i])
            continue;
        if (!g_str_has_prefix(words[i], "0x") || !parse_number(words[i], 16, G_MAXUINT64, &member.virtual_guid))
            return FALSE;
        g_array_append_val(partition->members, member);
        found++;
    }
    return found > 0;
}

static gboolean
parse_member(Parser *parser, char *token, const char *comment)
{
    WeftPartition *partition = parser->current->partition;
    char *word, *name = split_value(token, &word);
    WeftMember member = { .port_guid = WEFT_EVERY_PORT, .membership = WEFT_MEMBER_LIMITED, .index = parser->index0 ? 0 : -1 };
    if (!*name)
        return TRUE;
    gboolean known = parse_membership(word, &member.membership);
    if (!g_str_equal(name, EVERY_PORT) &&
        (!parse_number(name, 10, G_MAXUINT64, &member.port_guid) || member.port_guid == WEFT_EVERY_PORT))
        return FALSE;
    if (comment && parse_virtuals(partition, member, comment))
        return known;
    g_array_append_val(partition->members, member);
    return known && !comment;
}

/* The comment belongs to the last member before it. */
static gboolean
parse_members(Parser *parser, char *text, const char *comment)
{
    g_auto(GStrv) tokens = g_strsplit(text, ",", -1);
    int last = -1;
    for (int i = 0; tokens[i]; i++)
        if (*g_strstrip(tokens[i]))
            last = i;
    gboolean ok = last >= 0 || !comment;
    for (int i = 0; tokens[i]; i++)
        ok = parse_member(parser, tokens[i], i == last ? comment : NULL) && ok;
    return ok;
}

static void
begin(Parser *parser)
{
    WeftDefinition *definition = g_new0(WeftDefinition, 1);
    definition->line = parser->line;
    definition->partition = weft_partition_new(0, NULL);
    definition->is_whole = TRUE;
    g_ptr_array_add(parser->definitions, definition);
    parser->current = definition;
    parser->index0 = FALSE;
}

/* Up to a ';' or the line's end. */
static void
parse_segment(Parser *parser, char *text, const char *comment)
{
    if (!parser->current) {
        begin(parser);
        char *colon = strchr(text, ':');
        if (colon)
            *colon = '\0';
        gboolean ok = parse_header(parser, text) && colon;
        parser->current->is_whole &= ok;
        text = colon ? colon + 1 : text + strlen(text);
    }
    gboolean ok = parse_members(parser, text, comment);
    parser->current->is_whole &= ok;
}

static void
parse_line(Parser *parser, char *line)
{
    char *comment = strchr(line, '#');
    if (comment)
        *comment++ = '\0';
    for (char *end; line; line = end) {
        end = strchr(line, ';');
        if (end)
            *end++ = '\0';
        gboolean blank = line[strspn(line, SPACE)] == '\0';
        if (!blank)
            parse_segment(parser, line, end && end[strspn(end, SPACE)] ? NULL : comment);
        if (!end || (blank && !parser->current))
            continue;
        parser->current->is_ended = TRUE;
        parser->current = NULL;
    }
}

GPtrArray *
weft_definitions_parse(const char *text, guint first_line)
{
    Parser parser = { g_ptr_array_new_with_free_func(definition_free), NULL, FALSE, first_line };
    while (*text) {
        const char *end = strchrnul(text, '\n');
        g_autofree char *line = g_strndup(text, (gsize)(end - text));
        parse_line(&parser, line);
        text = *end ? end + 1 : end;
        parser.line++;
    }
    return parser.definitions;
}

/* --- writing --- */

static void
format_header(const WeftPartition *partition, gboolean index0, GString *text)
{
    g_string_append_printf(text, "%s=0x%04x", partition->name, partition->pkey);
    if (partition->ipoib)
        g_string_append(text, ", ipoib");
    if (partition->sl)
        g_string_append_printf(text, ", sl=%u", partition->sl);
    if (partition->rate)
        g_string_append_printf(text, ", rate=%u", partition->rate);
    if (partition->mtu)
        g_string_append_printf(text, ", mtu=%u", partition->mtu);
    g_string_append(text, index0 ? ", indx0 :" : " :");
}

static void
format_port(const WeftMember *member, GString *text)
{
    if (member->port_guid == WEFT_EVERY_PORT)
        g_string_append(text, "    " EVERY_PORT);
    else
        g_string_append_printf(text, "    0x%016" G_GINT64_MODIFIER "x", member->port_guid);
    g_string_append_printf(text, "=%s", weft_membership_words[member->membership]);
}

static int
compare_members(gconstpointer a, gconstpointer b)
{
    const WeftMember *x = *(WeftMember *const *)a, *y = *(WeftMember *const *)b;
    if (x->port_guid != y->port_guid)
        return x->port_guid < y->port_guid ? -1 : 1;
    if (x->membership != y->membership)
        return x->membership < y->membership ? -1 : 1;
    return x->virtual_guid < y->virtual_guid ? -1 : x->virtual_guid > y->virtual_guid;
}

/* One line for those of the same port and membership; returns where the next one begins. The ';' is on the last one: opensm's
 * parser reads on behind the end of a line that has nothing else. */
static guint
format_line(GPtrArray *members, guint from, GString *text)
{
    const WeftMember *first = members->pdata[from];
    guint end = from + 1;
    while (end < members->len && end - from < PER_LINE &&
           ((const WeftMember *)members->pdata[end])->port_guid == first->port_guid &&
           ((const WeftMember *)members->pdata[end])->membership == first->membership)
        end++;
    format_port(first, text);
    g_string_append(text, end == members->len ? " ;" : ",");
    gboolean plain = end - from == 1 && first->virtual_guid == 0;
    g_string_append(text, plain ? "" : " #");
    for (guint i = from; i < end && !plain; i++)
        g_string_append_printf(text, " 0x%016" G_GINT64_MODIFIER "x", ((const WeftMember *)members->pdata[i])->virtual_guid);
    g_string_append_c(text, '\n');
    return end;
}

static void
format_some(const WeftPartition *partition, GPtrArray *members, gboolean index0, GString *text)
{
    g_ptr_array_sort(members, compare_members);
    format_header(partition, index0, text);
    g_string_append(text, members->len ? "\n" : " ;\n");
    for (guint i = 0; i < members->len;)
        i = format_line(members, i, text);
}

void
weft_definition_format(const WeftPartition *partition, GString *text)
{
    g_autoptr(GPtrArray) any = g_ptr_array_new();
    g_autoptr(GPtrArray) index0 = g_ptr_array_new();
    for (guint i = 0; i < partition->members->len; i++) {
        WeftMember *member = &g_array_index(partition->members, WeftMember, i);
        g_ptr_array_add(member->index == 0 ? index0 : any, member);
    }
    if (any->len || !index0->len)
        format_some(partition, any, FALSE, text);
    if (index0->len)
        format_some(partition, index0, TRUE, text);
}
