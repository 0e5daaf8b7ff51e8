#include "options.h"

#include "errors.h"

#include <errno.h>
#include <string.h>

#define LINE_LENGTH_MAX 1021 /* opensm reads longer ones in pieces */
#define BLANKS " \t\r\n"

/* --- what is right --- */

typedef struct Context {
    const WeftOptionsWant *want;
    const char *value; /* that holds */
} Context;

static guint64
number(const char *text)
{
    char *end;
    errno = 0;
    guint64 value = g_ascii_strtoull(text, &end, 0);
    return errno || *end || end == text ? G_MAXUINT64 : value;
}

/* opensm takes any other word for FALSE. */
static gboolean
is_true(const Context *c)
{
    return strcmp(c->value, "TRUE") == 0;
}

static gboolean
is_false(const Context *c)
{
    return !is_true(c);
}

static gboolean
is_zero(const Context *c)
{
    return number(c->value) == 0;
}

static gboolean
is_secret(const Context *c)
{
    guint64 value = number(c->value);
    return value > G_MAXUINT32 && value != G_MAXUINT64;
}

static gboolean
is_protecting(const Context *c)
{
    guint64 level = number(c->value);
    return level == 2 || level == 3;
}

static gboolean
is_high(const Context *c)
{
    guint64 priority = number(c->value);
    return priority >= 8 && priority <= 15;
}

static gboolean
is_both(const Context *c)
{
    return strcmp(c->value, "both") == 0;
}

static gboolean
has_plugin(const Context *c)
{
    g_auto(GStrv) words = g_strsplit_set(c->value, " \t,", -1);
    return !c->want->plugin || g_strv_contains((const char *const *)words, "weftosm");
}

static gboolean
has_qos(const Context *c)
{
    return !c->want->qos || is_true(c);
}

static gboolean
has_partitions(const Context *c)
{
    return !c->want->partitions || strcmp(c->value, c->want->partitions) == 0;
}

/* --- what to write --- */

static char *
make_key(const Context *c)
{
    if (!c->want->random)
        return g_strdup("0x and 16 digits that nobody guesses");
    guint64 key;
    do
        key = c->want->random();
    while (key <= G_MAXUINT32 || key == G_MAXUINT64);
    return g_strdup_printf("0x%016" G_GINT64_MODIFIER "x", key);
}

/* Others that are loaded stay. */
static char *
add_plugin(const Context *c)
{
    gboolean none = !*c->value || strcmp(c->value, "(null)") == 0;
    return none ? g_strdup("weftosm") : g_strconcat(c->value, " weftosm", NULL);
}

static char *
name_partitions(const Context *c)
{
    return g_strdup(c->want->partitions);
}

typedef struct Rule {
    const char *name;
    const char *standard; /* what holds where the file is silent */
    gboolean (*is_right)(const Context *c);
    const char *value; /* what to write; NULL: make() tells */
    char *(*make)(const Context *c);
    gboolean severe;
    const char *why;
} Rule;

static const Rule rules[] = {
    { "m_key", "0", is_secret, NULL, make_key, TRUE, "without a secret M_Key any host with QP0 may change ports and routes" },
    { "m_key_lease_period", "0", is_zero, "0", NULL, TRUE,
      "a lease that ends gives the M_Key up: whoever keeps the manager from renewing it takes the port" },
    { "m_key_protection_level", "0", is_protecting, "2", NULL, TRUE,
      "below 2 everybody may read the M_Key from the ports, and then use it" },
    { "sm_key", "1", is_secret, NULL, make_key, TRUE, "with the key that all have, a foreign manager passes for one of ours" },
    { "sa_key", "1", is_secret, NULL, make_key, TRUE,
      "with the key that all have, anybody is trusted by the SA and sees what other tenants have" },
    { "sm_priority", "0", is_high, "14", NULL, TRUE,
      "a manager of higher priority takes the fabric over; those of 0 are what people start by accident" },
    { "ignore_other_sm", "FALSE", is_false, "FALSE", NULL, TRUE, "two managers would rule at once, each undoing the other" },
    { "part_enforce", "both", is_both, "both", NULL, TRUE,
      "switches must drop what comes from, and what goes to, a port that is not in the partition" },
    { "no_partition_enforcement", "FALSE", is_false, "FALSE", NULL, TRUE, "it switches part_enforce off" },
    { "keep_pkey_indexes", "TRUE", is_true, "TRUE", NULL, TRUE,
      "a P_Key that moves in a port's table is another tenant's under the index map of a virtual function" },
    { "allow_both_pkeys", "FALSE", is_true, "TRUE", NULL, FALSE,
      "a host whose nodes are in a shared partition as full and as limited members needs both keys on its port" },
    { "event_plugin_name", "(null)", has_plugin, NULL, add_plugin, FALSE, "weftd reaches opensm through its plugin" },
    { "partition_config_file", "/etc/opensm/partitions.conf", has_partitions, NULL, name_partitions, FALSE,
      "a restart of opensm would not find weft's partitions" },
    { "qos", "FALSE", has_qos, "TRUE", NULL, FALSE, "service levels mean nothing to the ports without it" },
};

/* --- the file --- */

static void
option_free(gpointer data)
{
    WeftOption *option = data;
    g_free(option->found);
    g_free(option->value);
    g_free(option);
}

/* "name value # comment" as opensm splits it; FALSE: there is nothing in the line. */
static gboolean
split(const char *line, char **ret_name, char **ret_value)
{
    g_autofree char *text = g_strndup(line, strcspn(line, "#"));
    const char *name = text + strspn(text, BLANKS);
    gsize length = strcspn(name, BLANKS);
    if (length == 0)
        return FALSE;
    *ret_name = g_strndup(name, length);
    char *value = g_strstrip(g_strdup(name + length));
    gsize n = strlen(value);
    if (n >= 2 && (*value == '"' || *value == '\'') && value[n - 1] == *value) {
        value[n - 1] = '\0';
        memmove(value, value + 1, n - 1);
    }
    *ret_value = value;
    return TRUE;
}

GPtrArray *
weft_options_new(void)
{
    return g_ptr_array_new_with_free_func(option_free);
}

WeftOption *
weft_option_new(const char *name)
{
    WeftOption *option = g_new0(WeftOption, 1);
    option->name = name;
    return option;
}

GHashTable *
weft_options_read(const char *text, GError **error)
{
    g_autoptr(GHashTable) values = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (guint i = 0; lines[i]; i++) {
        char *name, *value;
        if (strlen(lines[i]) > LINE_LENGTH_MAX) {
            weft_error_refuse(error, WEFT_ERROR_INVALID, "line %u: is longer than the %u characters that opensm reads", i + 1,
                              LINE_LENGTH_MAX);
            return NULL;
        }
        if (split(lines[i], &name, &value))
            g_hash_table_insert(values, name, value);
    }
    return g_steal_pointer(&values);
}

static WeftOption *
look_at(const Rule *rule, const char *found, const WeftOptionsWant *want)
{
    Context context = { .want = want, .value = found ? found : rule->standard };
    WeftOption *option = g_new0(WeftOption, 1);
    *option = (WeftOption){ .name = rule->name,
                            .found = g_strdup(found),
                            .right = rule->is_right(&context),
                            .secret = rule->make == make_key,
                            .severe = rule->severe,
                            .why = rule->why };
    if (!option->right)
        option->value = rule->value ? g_strdup(rule->value) : rule->make(&context);
    return option;
}

GPtrArray *
weft_options_check(const char *text, const WeftOptionsWant *want, GError **error)
{
    g_autoptr(GHashTable) values = weft_options_read(text, error);
    if (!values)
        return NULL;
    GPtrArray *options = weft_options_new();
    for (guint i = 0; i < G_N_ELEMENTS(rules); i++)
        g_ptr_array_add(options, look_at(&rules[i], g_hash_table_lookup(values, rules[i].name), want));
    return options;
}

/* --- putting it right --- */

static const WeftOption *
find(const GPtrArray *options, const char *name)
{
    for (guint i = 0; i < options->len; i++)
        if (strcmp(((const WeftOption *)options->pdata[i])->name, name) == 0)
            return options->pdata[i];
    return NULL;
}

/* Where a wrong option stands first, the right one goes; its other lines go away. */
static void
copy_line(const char *line, const GPtrArray *options, GHashTable *written, GString *text)
{
    g_autofree char *name = NULL, *value = NULL;
    const WeftOption *option = split(line, &name, &value) ? find(options, name) : NULL;
    if (!option || option->right)
        g_string_append_printf(text, "%s\n", line);
    else if (g_hash_table_add(written, (char *)option->name))
        g_string_append_printf(text, "%s %s\n", option->name, option->value);
}

char *
weft_options_harden(const char *text, const GPtrArray *options)
{
    g_autoptr(GHashTable) written = g_hash_table_new(g_str_hash, g_str_equal);
    GString *out = g_string_new(NULL);
    const char *why = NULL; /* told already */
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (guint i = 0; lines[i]; i++)
        if (*lines[i] || lines[i + 1]) /* what is behind the last line's end is no line */
            copy_line(lines[i], options, written, out);
    for (guint i = 0; i < options->len; i++) {
        const WeftOption *option = options->pdata[i];
        if (option->right || g_hash_table_contains(written, option->name))
            continue;
        if (option->why != why)
            g_string_append_printf(out, "\n# %s\n", option->why);
        why = option->why;
        g_string_append_printf(out, "%s %s\n", option->name, option->value);
    }
    return g_string_free(out, FALSE);
}
