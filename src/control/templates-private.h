/* What templates*.c share. */
#pragma once

#include "control-private.h"
#include "templates.h"

typedef struct WeftTemplateItem {
    WeftTemplate *record;
    gint64 revision;  /* 0: its first commit is under way */
    gboolean writing; /* a commit of it is under way */
    gboolean forked;  /* from, since that was written */
} WeftTemplateItem;

struct WeftTemplates {
    WeftControl *control;
    char *guest;        /* digest of the guest program; NULL: there is none, and so no template */
    GHashTable *by_id;  /* WeftTemplateItem */
    GHashTable *primed; /* id to WeftPrimedItem */
    GHashTable *spoilt; /* "TEMPLATE HOST NUMA" to WeftRest: what failed there */
    guint timer;
};

/* templates-primed.c */
void weft_primed_item_free(gpointer data);
gboolean weft_primed_load(WeftTemplates *templates, GError **error);
/* Gives back what nobody needs, or others need more. */
void weft_primed_tend(WeftTemplates *templates);
