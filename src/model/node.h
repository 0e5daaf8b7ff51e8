/* A node: one virtual machine of a cluster, with everything that it holds. What is in use is what the nodes say. */
#pragma once

#include "cluster.h"
#include "host.h"
#include "phase.h"

#include <glib.h>
#include <jansson.h>

typedef struct WeftMemory {
    guint numa;
    guint64 page_size;
    guint64 pages;
} WeftMemory;

typedef struct WeftDevice {
    guint rail;
    char *hca;
    int vf;       /* -1: the whole HCA */
    guint64 guid; /* of the virtual function; 0 with a whole HCA */
} WeftDevice;

typedef struct WeftNode {
    char *id;      /* "<cluster id>-<serial>"; its domain is "weft-<id>" */
    char *cluster; /* id */
    char *cluster_name;
    char *tenant;
    guint rank; /* unique among the cluster's nodes that are not stopping */
    char *group;
    char *host;
    char *placement;    /* weft_id_new(): of this stay on this host, which its mark there carries; NULL: unknown */
    GArray *cores;      /* guint16, ids of the host's cores, ascending */
    GArray *memory;     /* WeftMemory */
    GPtrArray *devices; /* WeftDevice, by rail */
    GPtrArray *gpus;    /* char *, names of the host's GPUs */
    char *mac;
    char *hostname; /* that its guest has, which is a restored one's; NULL: "<cluster name>-<rank>" */
    char *host_key; /* … and the public key of its ssh server; NULL: the one that follows from its id */
    char *image;
    WeftPath path;      /* never auto */
    guint sl;           /* service level of its cluster's lane; 0: best effort */
    guint64 bandwidth;  /* bits a second that it is guaranteed there, on each of its devices; 0: none */
    guint64 shm;        /* bytes that it shares with others on its host by the rule for paths; 0: what its cluster asked for */
    gboolean exclusive; /* its host takes nodes of no other cluster */
    WeftNodePhase phase;
    char *reason;            /* in weft's own words; NULL: none */
    char *detail;            /* the driver's words, for operators only; NULL: none */
    guint64 met;             /* the generation of the cluster's members that it has met; 0: none */
    char *unverified;        /* what it did not prove when it became ready, and why; NULL: nothing */
    char *boot;              /* of its guest, that was ready; NULL: none was yet, or it does not tell */
    gboolean cold;           /* it boots for itself, since being forked failed */
    char *template;          /* it is forked from, and is told then who it is: id; NULL: it boots */
    char *primed;            /* … and the memory that it shares then: id */
    guint64 copied;          /* … bytes of it that became its own when devices of its host were plugged */
    guint64 copy_time;       /* … and how long that took, microseconds */
    struct WeftNode *target; /* where it is being moved to: host, cores, memory, devices and GPUs, which it holds as well; NULL:
                                it is not being moved */
    gboolean bereft;         /* a device was taken from under it, which is not its host's fault: until it is up again */
    gboolean still;          /* it is brought to rest, without the devices of its host, and has to go on */
    guint starts;            /* how often it was started anew after a failure, in a row */
    gint64 since;            /* when its resources were claimed: the start of its usage interval */
} WeftNode;

/* Its arrays are there and empty, and own what they hold. */
WeftNode *weft_node_new(void);
/* Without GUID. */
WeftDevice *weft_device_new(guint rail, const char *hca, int vf);
void weft_device_free(WeftDevice *device);
/* The GUID of its port, as the node sees it; 0: not known. */
guint64 weft_device_port(const WeftDevice *device, const WeftHost *host);
/* guint64, that of each of its devices. host NULL: those of whole adapters are not known. */
GArray *weft_node_ports(const WeftNode *node, const WeftHost *host);

WeftNode *weft_node_from_json(json_t *json, GError **error);
json_t *weft_node_to_json(const WeftNode *node);
WeftNode *weft_node_copy(const WeftNode *node);
void weft_node_free(WeftNode *node);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftNode, weft_node_free)

char *weft_node_id(const char *cluster_id, guint serial);
#define WEFT_DOMAIN_PREFIX "weft-"
char *weft_node_domain(const WeftNode *node);          /* "weft-<id>" */
char *weft_node_hostname(const WeftNode *node);        /* "<cluster name>-<rank>" */
char *weft_node_label(const WeftNode *node);           /* "cfd[3]", for messages */
gboolean weft_node_has_rebooted(const WeftNode *node); /* … by itself, and has not met the others since */
guint64 weft_node_memory(const WeftNode *node);        /* bytes */
guint weft_node_parts(const WeftNode *node);           /* what it has of its host's devices: of the fabric, then GPUs */
/* Which of its cluster's groups it is of, by index: groups never go. */
guint weft_node_group(const WeftNode *node, const WeftCluster *cluster);

/* As it will be when its move has ended: with what it holds there, and without a target. It must have one. */
WeftNode *weft_node_moved(const WeftNode *node);

/* An interval in which a node held resources. */
typedef struct WeftUsage {
    char *node; /* id */
    char *cluster;
    char *cluster_name;
    char *tenant;
    guint cores;
    guint64 memory;
    guint gpus;
    guint vfs;
    gint64 start;
    gint64 end;
} WeftUsage;

WeftUsage *weft_usage_from_json(json_t *json, GError **error);
json_t *weft_usage_to_json(const WeftUsage *usage);
void weft_usage_free(WeftUsage *usage);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftUsage, weft_usage_free)

/* The interval that ends now (or at its start, should the clock have stepped back). */
WeftUsage *weft_usage_of(const WeftNode *node, gint64 end);
