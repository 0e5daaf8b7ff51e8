/* Aligned tables of text, by the width that a terminal gives each character. */
#pragma once

#include <glib.h>
#include <stdio.h>

typedef struct WeftTable WeftTable;

/* Column titles, separated by '|'; a title that begins with '>' makes its column flush right, '!' colours its words by their
 * meaning ("ready" green, "failed" red). */
WeftTable *weft_table_new(const char *titles);
void weft_table_free(WeftTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftTable, weft_table_free)

/* Takes over the next cell; a row is full after as many as there are columns. */
void weft_table_take(WeftTable *table, char *cell);

/* With colour where the stream is a terminal that has it. There the last column is filled where it is too wide; a cell of it
 * may have several lines everywhere. */
void weft_table_print(const WeftTable *table, FILE *out);
/* The same of what came since the last time, for what takes long: titles once, and columns as wide as these, blanks counted. */
void weft_table_flush(WeftTable *table, FILE *out);

/* Columns that a text takes. */
gsize weft_text_width(const char *text);
/* Cuts the text to at most that many columns; "…" ends one that was cut. */
char *weft_text_fit(const char *text, gsize columns);
/* Columns of the terminal that the stream is; 0: it is none. */
gsize weft_text_columns(FILE *stream);
/* Writes the text from the column indent on, and begins a new line there at each '\n' and before each word that would not fit
 * into so many columns; 0: any number. */
void weft_text_fill(const char *text, gsize indent, gsize columns, FILE *out);
/* May this stream have colours and cursor movements? Not in a file, nor with NO_COLOR or TERM=dumb. */
gboolean weft_text_is_live(FILE *stream);
