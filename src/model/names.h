/* Names and labels. */
#pragma once

#include <glib.h>

/* What the texts that people choose may look like. All but WEFT_GRAMMAR_TEXT are safe in paths, URLs and keys. */
typedef enum {
    WEFT_GRAMMAR_NONE,        /* not checked */
    WEFT_GRAMMAR_NAME,        /* a lower-case letter, then lower-case letters, digits and single '-' */
    WEFT_GRAMMAR_HOST,        /* RFC 1123, with dots */
    WEFT_GRAMMAR_IMAGE,       /* a name with '.' and '_' inside */
    WEFT_GRAMMAR_LABEL,       /* the name of a label: a name with '.', '_' and '/' inside */
    WEFT_GRAMMAR_LABEL_VALUE, /* printable or empty */
    WEFT_GRAMMAR_DEVICE,      /* what Linux calls a device: "mlx5_0", "0000:41:00.0" */
    WEFT_GRAMMAR_TEXT,        /* printable, not empty */
    WEFT_GRAMMARS
} WeftGrammar;

/* what is for the message ("cluster name"), which tells the rule that was broken. */
gboolean weft_grammar_check(WeftGrammar grammar, const char *text, const char *what, GError **error);

/* Clusters, tenants, groups, principals, fabrics: a lower-case letter, then lower-case letters, digits and single '-',
 * not '-' at the end, at most WEFT_NAME_MAX. what is for the message ("cluster name"). */
gboolean weft_name_check(const char *name, const char *what, GError **error);
/* Hosts: as RFC 1123 host names, dots allowed, at most WEFT_HOST_NAME_MAX. */
gboolean weft_host_name_check(const char *name, GError **error);
