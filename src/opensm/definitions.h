/* The definitions in a text of opensm's partitions.conf, read as opensm reads them: comments end at the line's end, a
 * definition begins with a line that has its ':' and goes on over further lines up to its ';'. Pure. */
#pragma once

#include "partition.h"

typedef struct WeftDefinition {
    guint line;               /* where it begins; from 1 */
    WeftPartition *partition; /* its number is 0 where the text has none */
    gboolean is_whole;        /* all of it is what weft writes */
    gboolean is_ended;        /* by a ';' */
} WeftDefinition;

/* WeftDefinition, in order of the text. first_line: the number of the text's first line. What is not understood is left out, or
 * makes its definition one that is not whole; opensm itself would take nothing but its default partition then. */
GPtrArray *weft_definitions_parse(const char *text, guint first_line);

/* Appends it as opensm reads it: a member a line, those with index 0 in a definition of their own, since opensm's flag for that
 * is of all members. Virtual functions share their port's line; which they are is written behind it as a comment. */
void weft_definition_format(const WeftPartition *partition, GString *text);

/* port_guid of a member that stands for every port of every adapter. */
#define WEFT_EVERY_PORT 0
