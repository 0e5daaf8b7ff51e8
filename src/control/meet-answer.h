/* What a node's guest program answers to "meet" (protocol.h). Who is root in a node answers what it likes, up to WEFT_WINDOW
 * bytes of it: the answer is read where it is, and what is kept of it is bounded by the cluster's size. Pure. */
#pragma once

#include <glib.h>

/* What follows the word and a space in the next line that begins with them, up to the line's end ('\n' or NUL); borrowed.
 * *rest: a line's beginning, or NULL; set to the line behind that one. NULL: no such line is left. */
const char *weft_meet_answer_next(const char **rest, const char *word);

/* How often each rank is named as one that did not answer, as bytes by rank, at most as often as it has addresses; ranks behind
 * the end are not named. addresses: how many each of n ranks has; 0: it is no member that this node could reach, and is
 * ignored. output: NULL: none. */
GByteArray *weft_meet_answer_unreached(const char *output, const guint8 *addresses, guint n);
