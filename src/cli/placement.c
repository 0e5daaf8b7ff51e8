#include "placement.h"

#include "errors.h"
#include "size.h"
#include "table.h"

#include <stdio.h>

char *
weft_placement_ranges(json_t *numbers)
{
    GString *text = g_string_new(NULL);
    gsize n = json_array_size(numbers);
    for (gsize i = 0; i < n;) {
        json_int_t first = json_integer_value(json_array_get(numbers, i)), last = first;
        while (++i < n && json_integer_value(json_array_get(numbers, i)) == last + 1)
            last++;
        g_string_append_printf(text, "%s%" JSON_INTEGER_FORMAT, text->len ? "," : "", first);
        if (last > first)
            g_string_append_printf(text, "-%" JSON_INTEGER_FORMAT, last);
    }
    return g_string_free(text, FALSE);
}

/* What a list holds, each as text, with commas between; "-" for nothing. */
typedef char *(*Word)(json_t *item);

static char *
join(json_t *list, Word word)
{
    GString *text = g_string_new(NULL);
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item) {
        g_autofree char *part = word(item);
        g_string_append_printf(text, "%s%s", i ? ", " : "", part);
    }
    return text->len ? g_string_free(text, FALSE) : (g_string_free(text, TRUE), g_strdup("-"));
}

static char *
numa_word(json_t *part)
{
    return weft_cli_field(part, "numa");
}

static char *
pages_word(json_t *part)
{
    g_autofree char *pages = weft_cli_field(part, "pages");
    g_autofree char *size = weft_cli_size_field(part, "page_size");
    return g_strdup_printf("%s × %s", pages, size);
}

static char *
device_word(json_t *device)
{
    g_autofree char *hca = weft_cli_field(device, "hca");
    g_autofree char *vf = weft_cli_field(device, "vf");
    gboolean whole = json_is_null(json_object_get(device, "vf"));
    return whole ? g_steal_pointer(&hca) : g_strdup_printf("%s/%s", hca, vf);
}

static char *
text_word(json_t *text)
{
    return weft_cli_clean(json_string_value(text));
}

/* Operators see the hosts and what there is of them; others which nodes are together. */
static void
take_places(WeftTable *table, json_t *node, gboolean all)
{
    if (!all) {
        weft_table_take(table, weft_cli_field(node, "host_number"));
        weft_table_take(table, weft_cli_field(node, "leaf_number"));
        weft_table_take(table, weft_cli_field(node, "numa_nodes"));
        weft_table_take(table, weft_cli_field(node, "cores"));
        weft_table_take(table, weft_cli_size_field(node, "memory"));
        weft_table_take(table, weft_cli_field(node, "gpus"));
        return;
    }
    json_t *memory = json_object_get(node, "memory_nodes");
    weft_table_take(table, weft_cli_field(node, "host"));
    weft_table_take(table, weft_cli_field(node, "leaf"));
    weft_table_take(table, join(memory, numa_word));
    weft_table_take(table, weft_placement_ranges(json_object_get(node, "core_ids")));
    weft_table_take(table, join(memory, pages_word));
    weft_table_take(table, join(json_object_get(node, "devices"), device_word));
    weft_table_take(table, join(json_object_get(node, "gpu_ids"), text_word));
}

static void
print_nodes(const char *name, json_t *nodes)
{
    gboolean all = json_object_get(json_array_get(nodes, 0), "host") != NULL;
    g_autoptr(WeftTable) table = weft_table_new(all ? "NODE|GROUP|HOST|LEAF|NUMA|CORES|MEMORY|DEVICES|GPUS|PATH"
                                                    : "NODE|GROUP|>HOST|>LEAF|>NUMA|>CORES|>MEMORY|>GPUS|PATH");
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        weft_table_take(table, g_strdup_printf("%s[%" G_GINT64_FORMAT "]", name, weft_cli_number(node, "rank")));
        weft_table_take(table, weft_cli_field(node, "group"));
        take_places(table, node, all);
        weft_table_take(table, weft_cli_field(node, "path"));
    }
    weft_table_print(table, stdout);
}

static void
print_why(json_t *lines)
{
    size_t i;
    json_t *line;
    json_array_foreach (lines, i, line) {
        g_autofree char *text = weft_cli_clean(json_string_value(line));
        printf("- %s\n", text);
    }
}

static void
print_fit(const char *name, json_t *placement)
{
    printf("cluster %s would be placed now\n", name);
    print_why(json_object_get(placement, "why"));
    print_nodes(name, json_object_get(placement, "nodes"));
}

static void
print_refusal(const char *name, json_t *placement)
{
    g_autofree char *reason = weft_cli_field(placement, "reason");
    gboolean never = json_is_true(json_object_get(placement, "never"));
    printf("cluster %s %s: %s\n", name, never ? "would never start" : "would wait", reason);
    print_why(json_object_get(placement, "why"));
}

static void
print_start(json_t *placement)
{
    g_autofree char *when = weft_cli_field(placement, "when");
    if (json_is_string(json_object_get(placement, "when")))
        printf("by the queue it would start at %s at the latest\n", when);
}

gboolean
weft_placement_print(WeftCli *cli, const char *name, json_t *placement)
{
    gboolean fits = json_is_true(json_object_get(placement, "fits"));
    if (!fits)
        cli->status = weft_error_exit_code(WEFT_ERROR_EXHAUSTED);
    if (cli->json) {
        weft_cli_print_json(json_incref(placement));
        return TRUE;
    }
    if (fits)
        print_fit(name, placement);
    else
        print_refusal(name, placement);
    print_start(placement);
    return TRUE;
}
