#include "matrix.h"

#include "cli.h"
#include "errors.h"
#include "text.h"
#include "yaml.h"

#include <math.h>

#define WHOLE_MAX 1e15
#define MATRIX_MAX (8 << 20) /* bytes of a file; weftd takes less */

/* NULL: it is no number. */
static json_t *
parse_number(const char *word)
{
    char *end = NULL;
    double number = g_ascii_strtod(word, &end);
    if (*end || !isfinite(number))
        return NULL;
    gboolean whole = number > -WHOLE_MAX && number < WHOLE_MAX && number == (double)(json_int_t)number;
    return whole ? json_integer((json_int_t)number) : json_real(number);
}

static gboolean
add_row(json_t *rows, const char *line, const char *name, guint number, GError **error)
{
    json_t *row = json_array();
    json_array_append_new(rows, row);
    g_auto(GStrv) words = g_strsplit_set(line, " \t,", -1);
    for (guint i = 0; words[i]; i++) {
        if (!*words[i])
            continue;
        json_t *item = parse_number(words[i]);
        if (!item) {
            g_autofree char *quoted = weft_text_quote(words[i]);
            return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: line %u: %s is no number", name, number, quoted);
        }
        json_array_append_new(row, item);
    }
    return TRUE;
}

json_t *
weft_matrix_parse(const char *text, const char *name, GError **error)
{
    const char *start = text + strspn(text, " \t\r\n");
    if (*start == '[') {
        json_t *rows = weft_json_parse(text, strlen(text), error);
        if (!rows)
            g_prefix_error(error, "%s: ", name);
        return rows;
    }
    json_t *rows = json_array();
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (guint i = 0; lines[i]; i++) {
        const char *line = g_strstrip(lines[i]);
        if (*line && *line != '#' && !add_row(rows, line, name, i + 1, error)) {
            json_decref(rows);
            return NULL;
        }
    }
    return rows;
}

json_t *
weft_matrix_read(const char *path, GError **error)
{
    g_autofree char *text = weft_cli_read_text(path, MATRIX_MAX, NULL, error);
    return text ? weft_matrix_parse(text, weft_cli_file_name(path), error) : NULL;
}
