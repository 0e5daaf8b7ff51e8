/* What templates*.c share. */
#pragma once

#include "control-private.h"
#include "templates.h"

typedef struct WeftTemplateItem {
    WeftTemplate *record;
    gint64 revision;  /* 0: its first commit is under way */
    gboolean writing; /* a commit of it is under way */
    gboolean forked;  /* from, since that was written */
    char *ending;     /* digest of the file that it had, until the store can prove that this one ended; NULL: none */
} WeftTemplateItem;

struct WeftTemplates {
    WeftControl *control;
    char *guest;               /* digest of the guest program; NULL: there is none, and so no template */
    GHashTable *by_id;         /* WeftTemplateItem */
    GHashTable *primed;        /* id to WeftPrimedItem */
    GHashTable *primed_places; /* "TEMPLATE TENANT HOST NUMA" to the same */
    GHashTable *spoilt;        /* such a place, and " devices" where a node has some, to WeftRest: what failed there */
    guint timer;
};

/* templates-primed.c */
void weft_primed_item_free(gpointer data);
gboolean weft_primed_load(WeftTemplates *templates, GError **error);
/* What failed with an earlier capture need not fail with this one. */
void weft_primed_forgive(const WeftTemplates *templates, const char *id);
/* Whoever gets its name is forked from nothing that it had. */
void weft_primed_tenant_gone(const WeftTemplates *templates, const char *tenant);
/* Gives back what nobody needs, or others need more. */
void weft_primed_tend(WeftTemplates *templates);
