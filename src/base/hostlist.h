/* Hostlists as HPC people write them: "cfd[0-3,7]", "node[001-128],login1". */
#pragma once

#include <glib.h>

/* The most names that one expression may expand to. */
#define WEFT_HOSTLIST_MAX 65536

/* Expands in order of writing; ranges keep their zero padding ("n[08-10]" is n08 n09 n10); several brackets in one name
 * multiply. Duplicates are kept. All of it is counted before anything is made of it. Returns an array of strings,
 * NULL-terminated, or NULL and WEFT_ERROR_INVALID. */
char **weft_hostlist_expand(const char *text, GError **error);

/* The inverse, as short as possible, of names in natural order. */
char *weft_hostlist_fold(const char *const *names);

/* "cfd[0-3,7]" as nodes of one cluster: the name "cfd" and the numbers. A text without brackets gives ret_ranks NULL. */
gboolean weft_hostlist_split(const char *text, char **ret_name, GArray **ret_ranks, GError **error);

/* A strcmp for names with numbers in them: n2 before n10. */
int weft_natural_compare(const char *a, const char *b);
