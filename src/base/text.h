/* Small text helpers for messages. */
#pragma once

#include <glib.h>

/* A printable copy of text that came from outside: valid UTF-8, control characters escaped, cut after some 64 characters
 * ("…"). weft_text_quote() also puts it between double quotes. */
char *weft_text_clip(const char *text);
char *weft_text_quote(const char *text);
/* All of it up to so many characters, in one line: valid UTF-8, control characters as blanks, none at its end. For texts of
 * others' programs that become part of a message. */
char *weft_text_line(const char *text, gsize max);

/* The one of n words that the given one is most likely a misspelling of, or NULL. Borrowed from words. */
const char *weft_text_nearest(const char *word, const char *const *words, gsize n);

/* "1 node", "8 nodes" */
char *weft_text_count(guint64 count, const char *thing);
