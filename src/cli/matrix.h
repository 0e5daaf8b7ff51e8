/* A matrix of numbers in a file, for weft create --matrix. */
#pragma once

#include <glib.h>
#include <jansson.h>

/* Rows of numbers, a line each, with blanks or commas between them; a line that begins with '#' and an empty one count for
 * nothing. Or a JSON list of lists. */
json_t *weft_matrix_parse(const char *text, const char *name, GError **error);
/* The same of a file; "-" is the standard input. */
json_t *weft_matrix_read(const char *path, GError **error);
