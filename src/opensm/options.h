/* opensm's options as far as they keep tenants apart and out of the management of the fabric: what is right, why, and what to
 * write. Pure: the text of an opensm.conf in, the text of one out. Names and defaults are those of opensm 3.3. */
#pragma once

#include <glib.h>

#define WEFT_OPTIONS_PATH "/etc/opensm/opensm.conf"
#define WEFT_OPTIONS_MAX (1u << 20) /* bytes of such a file */

/* What depends on how the site uses weft. */
typedef struct WeftOptionsWant {
    gboolean plugin;         /* partitions go through weft's plugin */
    gboolean qos;            /* guarantees of bandwidth are given */
    const char *partitions;  /* file that weft writes its partitions into; NULL: whichever it is */
    guint64 (*random)(void); /* makes keys; NULL: what to write only tells that one is needed */
} WeftOptionsWant;

/* One option, looked at. */
typedef struct WeftOption {
    const char *name;
    char *found;     /* NULL: not in the file, opensm's default holds */
    gboolean right;  /* what holds is right */
    gboolean secret; /* its values are not for everybody's eyes */
    gboolean severe; /* while it is wrong, tenants may reach what is not theirs */
    char *value;     /* to be written; NULL: it is right */
    const char *why;
} WeftOption;

/* All that matter, in order of the table (WeftOption). INVALID names a line that opensm would not read as it stands. */
GPtrArray *weft_options_check(const char *text, const WeftOptionsWant *want, GError **error);
/* The text with all that is wrong put right; the rest stays as it is, comments too. */
char *weft_options_harden(const char *text, const GPtrArray *options);

/* --- for other checks of the same file --- */

/* Name to value, as opensm reads the text; of an option that is there twice it takes the last. */
GHashTable *weft_options_read(const char *text, GError **error);
/* An array that owns its options. */
GPtrArray *weft_options_new(void);
WeftOption *weft_option_new(const char *name); /* borrowed */
