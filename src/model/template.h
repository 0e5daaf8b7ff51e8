/* A template: a booted, settled node of an image, put aside once, that nodes of the same shape are forked from on hosts of the
 * same kind. And primed memory: a template made ready on one NUMA node of a host. */
#pragma once

#include "host.h"
#include "image.h"
#include "node.h"

#include <glib.h>
#include <jansson.h>

typedef enum {
    WEFT_TEMPLATE_CAPTURING, /* a cluster of the system's own boots a node for it */
    WEFT_TEMPLATE_READY,
    WEFT_TEMPLATE_FAILED, /* the reason tells why; it is tried again after a while */
    WEFT_TEMPLATE_STATES
} WeftTemplateState;
extern const char *const weft_template_state_words[WEFT_TEMPLATE_STATES + 1];

typedef struct WeftTemplate {
    char *id;           /* follows from all that nodes must have in common with it: weft_template_id() */
    guint64 generation; /* counts the captures of its image and shape: what was primed from an older one is of no use */
    char *image;        /* name */
    GPtrArray *files;   /* char *, digests of the image's files */
    char *cmdline;      /* of its kernel; NULL: none */
    guint cores;        /* shape: of each node */
    guint cpus;         /* … its virtual processors, that the host's threads per core make of them */
    guint64 memory;
    guint64 page_size;
    char *guest; /* digest of the guest program that runs in it */
    char *kind;  /* of hosts: weft_inventory_kind() */
    WeftTemplateState state;
    gint64 since; /* of the state */
    char *reason; /* why it failed, in weft's own words; NULL: it did not */
    char *detail; /* the driver's words, for operators; NULL: none */
    guint failed; /* so often since a node was forked from it, or in a row: it failed, or was damaged */
    char *digest; /* of its saved file; NULL: it has none */
    guint64 size; /* bytes of that file; while it is captured, the most that they may be */
    char *host;   /* where it was captured; NULL: it was not */
    gint64 captured;
    gint64 used;  /* when a node was last forked from it, or it was captured */
    char *tenant; /* whose node wanted it, and who pays for its bytes; NULL: nobody */
    /* One that was made of a running node, for its clones alone: */
    char *source;      /* the node's id; NULL: it is an image's, and for all */
    guint rank;        /* … and rank */
    char *cluster;     /* id of the cluster that is cloned from it */
    gint64 paused;     /* microseconds that the source stood still */
    char *disk;        /* digest of its own disk of the same moment, a layer over its image; NULL: it has none */
    guint64 disk_size; /* as size */
} WeftTemplate;

WeftTemplate *weft_template_from_json(json_t *json, GError **error);
json_t *weft_template_to_json(const WeftTemplate *template);
WeftTemplate *weft_template_copy(const WeftTemplate *template);
void weft_template_free(WeftTemplate *template);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftTemplate, weft_template_free)

/* What the id of a template follows from, all borrowed. */
typedef struct WeftTemplateNeed {
    const WeftNode *node;
    const WeftHost *host;   /* where the node is */
    const WeftImage *image; /* NULL: not known */
    const char *kind;       /* of the host; NULL: not known */
    const char *guest;      /* digest of the guest program */
    gboolean running;       /* it is a node that runs: the disk that it writes to is copied, too */
} WeftTemplateNeed;

/* What a node would be forked from: image, shape and kind of host, with its id; nothing is known of it yet. NULL: the node
 * cannot be forked from any template; why is told for its tenant. */
WeftTemplate *weft_template_for(const WeftTemplateNeed *need, const char **ret_why);
/* Bytes that are kept for it, or may be. */
guint64 weft_template_storage(const WeftTemplate *template);
/* Is its image still what it was captured from? */
gboolean weft_template_is_of(const WeftTemplate *template, const WeftImage *image);
/* What a node of that rank is put aside as for a clone, "<cluster id>-<rank>". */
char *weft_template_private_id(const char *cluster, guint rank);
/* Its saved file, and its disk, as hosts are brought them; borrows the digest. */
WeftImageFile weft_template_file(const WeftTemplate *template);
WeftImageFile weft_template_disk(const WeftTemplate *template);

/* What must be the same for a saved node to go on elsewhere: QEMU's version, the machine type, the processor, and whether it is
 * emulated; NULL: the host does not tell. */
char *weft_inventory_kind(const WeftInventory *inventory);

/* Memory of a host that nodes of one tenant are forked from; the record claims its pages, as a node's does. QEMU opens the
 * memory for writing even to map it privately, and one that was broken out of could change what running forks read: so no two
 * tenants ever have the same. */
typedef struct WeftPrimed {
    char *id; /* weft_id_new(): the driver's name for it */
    char *template;
    guint64 generation;
    char *tenant; /* NULL: an older weftd made it for all, and nobody is forked from it any more */
    char *host;
    guint numa;
    guint64 page_size;
    guint64 pages;
    gint64 since;
} WeftPrimed;

WeftPrimed *weft_primed_from_json(json_t *json, GError **error);
json_t *weft_primed_to_json(const WeftPrimed *primed);
void weft_primed_free(WeftPrimed *primed);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftPrimed, weft_primed_free)
WeftMemory weft_primed_memory(const WeftPrimed *primed);

/* The tenant of the system's own clusters: no name that a person may give, so that none of theirs is among them. */
#define WEFT_SYSTEM_TENANT "-system"
/* "template-<id>": the cluster that captures it. */
char *weft_template_cluster(const char *id);
