#include "table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#define GAP 2          /* blanks between columns */
#define LAST_COLUMN 24 /* narrower is harder to read than what the terminal makes of it */

typedef struct Column {
    char *title;
    gboolean right;
    gboolean coloured;
} Column;

struct WeftTable {
    GArray *columns; /* Column */
    GPtrArray *cells;
    gboolean begun; /* the titles were printed */
};

typedef struct WordColour {
    const char *word;
    const char *code;
} WordColour;

/* All other words of a coloured column are on their way: yellow. */
static const WordColour word_colours[] = {
    { "ready", "\033[32m" },  { "up", "\033[32m" },   { "ok", "\033[32m" }, { "fail", "\033[31m" },
    { "failed", "\033[31m" }, { "lost", "\033[31m" }, { "-", "" },
};

static void
column_clear(gpointer data)
{
    g_free(((Column *)data)->title);
}

WeftTable *
weft_table_new(const char *titles)
{
    WeftTable *table = g_new0(WeftTable, 1);
    table->columns = g_array_new(FALSE, FALSE, sizeof(Column));
    g_array_set_clear_func(table->columns, column_clear);
    table->cells = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) list = g_strsplit(titles, "|", -1);
    for (guint i = 0; list[i]; i++) {
        gboolean marked = list[i][0] == '>' || list[i][0] == '!';
        Column column = { g_strdup(list[i] + marked), list[i][0] == '>', list[i][0] == '!' };
        g_array_append_val(table->columns, column);
    }
    return table;
}

void
weft_table_free(WeftTable *table)
{
    if (!table)
        return;
    g_array_unref(table->columns);
    g_ptr_array_unref(table->cells);
    g_free(table);
}

void
weft_table_take(WeftTable *table, char *cell)
{
    g_ptr_array_add(table->cells, cell);
}

static gsize
char_width(gunichar c)
{
    if (g_unichar_iszerowidth(c))
        return 0;
    return g_unichar_iswide(c) ? 2 : 1;
}

gsize
weft_text_width(const char *text)
{
    gsize width = 0;
    for (const char *p = text; *p; p = g_utf8_next_char(p))
        width += char_width(g_utf8_get_char(p));
    return width;
}

char *
weft_text_fit(const char *text, gsize columns)
{
    if (weft_text_width(text) <= columns)
        return g_strdup(text);
    gsize width = 0;
    const char *p = text;
    for (; width + char_width(g_utf8_get_char(p)) < columns; p = g_utf8_next_char(p))
        width += char_width(g_utf8_get_char(p));
    g_autofree char *head = g_strndup(text, (gsize)(p - text));
    return g_strconcat(head, columns > 0 ? "…" : "", NULL);
}

gsize
weft_text_columns(FILE *stream)
{
    struct winsize size = { 0 };
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static void
fill_line(const char *line, gsize indent, gsize columns, FILE *out)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);
    gsize column = indent;
    for (guint i = 0; words[i]; i++) {
        gsize blank = i > 0, width = weft_text_width(words[i]);
        if (blank && columns && column + blank + width > columns) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            blank = 0;
        }
        fprintf(out, "%*s%s", (int)blank, "", words[i]);
        column += blank + width;
    }
}

void
weft_text_fill(const char *text, gsize indent, gsize columns, FILE *out)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (guint i = 0; lines[i]; i++) {
        if (i > 0)
            fprintf(out, "\n%*s", (int)indent, "");
        fill_line(lines[i], indent, columns, out);
    }
}

gboolean
weft_text_is_live(FILE *stream)
{
    const char *terminal = g_getenv("TERM");
    return isatty(fileno(stream)) && terminal && terminal[0] && strcmp(terminal, "dumb") != 0;
}

static gboolean
has_colour(FILE *stream)
{
    const char *no_colour = g_getenv("NO_COLOR");
    return weft_text_is_live(stream) && !(no_colour && no_colour[0]);
}

static const char *
colour_of(const char *word)
{
    for (guint i = 0; i < G_N_ELEMENTS(word_colours); i++)
        if (strcmp(word, word_colours[i].word) == 0)
            return word_colours[i].code;
    return "\033[33m";
}

static gsize *
measure(const WeftTable *table)
{
    guint n = table->columns->len;
    gsize *widths = g_new0(gsize, n);
    for (guint i = 0; i < n; i++)
        widths[i] = weft_text_width(g_array_index(table->columns, Column, i).title);
    for (guint i = 0; i < table->cells->len; i++)
        widths[i % n] = MAX(widths[i % n], weft_text_width(table->cells->pdata[i]));
    return widths;
}

static void
print_cell(const char *text, const char *colour, gsize indent, gsize columns, FILE *out)
{
    fputs(colour, out);
    weft_text_fill(text, indent, columns, out);
    fputs(colour[0] ? "\033[0m" : "", out);
}

/* The last column is not padded: no blanks at the ends of lines. */
static void
print_row(const WeftTable *table, char **cells, const gsize *widths, FILE *out)
{
    guint n = table->columns->len;
    gsize indent = 0, columns = weft_text_columns(out);
    for (guint i = 0; i < n; i++) {
        const Column *column = &g_array_index(table->columns, Column, i);
        const char *text = cells ? cells[i] : column->title;
        const char *colour = cells && column->coloured && has_colour(out) ? colour_of(text) : "";
        int pad = (int)(widths[i] - weft_text_width(text));
        fprintf(out, "%*s", column->right ? pad : 0, "");
        print_cell(text, colour, indent, i == n - 1 && columns >= indent + LAST_COLUMN ? columns : 0, out);
        if (i < n - 1)
            fprintf(out, "%*s", (column->right ? 0 : pad) + GAP, "");
        indent += widths[i] + GAP;
    }
    fputc('\n', out);
}

void
weft_table_print(const WeftTable *table, FILE *out)
{
    g_autofree gsize *widths = measure(table);
    print_row(table, NULL, widths, out);
    for (guint i = 0; i + table->columns->len <= table->cells->len; i += table->columns->len)
        print_row(table, (char **)&table->cells->pdata[i], widths, out);
}

void
weft_table_flush(WeftTable *table, FILE *out)
{
    g_autofree gsize *widths = measure(table);
    if (!table->begun)
        print_row(table, NULL, widths, out);
    table->begun = TRUE;
    for (guint i = 0; i + table->columns->len <= table->cells->len; i += table->columns->len)
        print_row(table, (char **)&table->cells->pdata[i], widths, out);
    g_ptr_array_set_size(table->cells, 0);
    fflush(out);
}
