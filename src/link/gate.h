/* How the API reaches nodes and hosts without knowing the drivers. Implemented by control. thread: main, nothing blocks; each
 * callback runs once, later, unless it was cancelled before. Messages are for operators: the API tells tenants in
 * its own words. */
#pragma once

#include <gio/gio.h>
#include <glib.h>
#include <jansson.h>

typedef struct WeftGate WeftGate;
struct WeftCluster; /* of model/cluster.h */

typedef enum {
    WEFT_GATE_SESSION, /* frames, one session (weft_link_connect()) */
    WEFT_GATE_CONSOLE, /* the bytes of the serial console, as they are */
} WeftGateKind;

/* fd: the caller's from now on; -1 with an error (NOT_FOUND: no such node; CONFLICT: it is not running; UNAVAILABLE: its host
 * or the guest program does not answer; BUSY). */
typedef void (*WeftGateOpened)(int fd, const GError *error, gpointer data);
/* report: borrowed. */
typedef void (*WeftGateReported)(json_t *report, const GError *error, gpointer data);

typedef struct WeftGateOps {
    void (*open)(WeftGate *gate, const char *node_id, WeftGateKind kind, GCancellable *cancellable, WeftGateOpened opened,
                 gpointer data);
    /* What is there and what is missing on a host: { "host": …, "checks": [ { "check": "iommu", "state":
     * "ok|warn|fail|unknown", "found": "text", "remedy": "command or text" or null }, … ] }. host NULL: what belongs to no
     * host, the fabrics and weftd itself; "host" is null then. */
    void (*doctor)(WeftGate *gate, const char *host, GCancellable *cancellable, WeftGateReported reported, gpointer data);
    /* How busy the nodes of a cluster are: { "nodes": [ { "id": …, "cpu": seconds so far, "time": microseconds as of
     * weft_clock_now(), "memory": bytes }, … ] }; a node of which nothing is known is left out. */
    void (*load)(WeftGate *gate, const char *cluster_id, GCancellable *cancellable, WeftGateReported reported, gpointer data);
    /* A fabric with what hangs on its switches, as its manager knows it, else as a file that was imported:
     *
     *     { "fabric": "ib0", "manager": { "way", "version", "where", "master", … as WeftManager } or null,
     *       "source": "manager", "import" or null, "trouble": why the manager, or its map, was not to be had, or null,
     *       "switches": [ { "name", "guid", "description", "lid", "links": [ { "switch", "cables", "rate" }, … ],
     *           "adapters": [ { "port", "host" or null, "hca" or null, "guid", "description", "lid", "rate", "active",
     *                           "pkeys" }, … ] }, … ],
     *       "no_port": [ text, … ], "no_host": [ text, … ] }                              what could not be matched
     *
     * NOT_FOUND: no such fabric; here and below. */
    void (*fabric)(WeftGate *gate, const char *fabric, GCancellable *cancellable, WeftGateReported reported, gpointer data);
    /* Who is in what, the site's own as well; from the manager:
     *
     *     { "fabric", "partitions": [ { "pkey": "0x0001", "name", "ours": is it weft's, "tenant" or null, "cluster" or null,
     *       "shared": its name where clusters share it, or null, "ipoib", "sl", "members": [ { "guid", "virtual_guid" or null,
     * "membership", "host" or null, "node": "cfd[3]" or null }, … ] }, … ] } */
    void (*partitions)(WeftGate *gate, const char *fabric, GCancellable *cancellable, WeftGateReported reported, gpointer data);
    /* The P_Key tables as they are in the ports of hosts and of weft's partitions, beside what the manager says:
     *
     *     { "fabric", "ports": [ { "guid", "host" or null, "hca" or null, "pkeys": [ "0xffff", … ] by index, "enforced": the
     * same of its switch's port, or null, "differences": [ text, … ] }, … ] } */
    void (*tables)(WeftGate *gate, const char *fabric, GCancellable *cancellable, WeftGateReported reported, gpointer data);
    /* For placement and for Slurm: { "fabric", "source", "leaves": [ { "switch", "hosts": [ name, … ], "distances": [ cables to
     * each of the leaves ] }, … ], "slurm": the text of a topology.conf }. */
    void (*topology)(WeftGate *gate, const char *fabric, GCancellable *cancellable, WeftGateReported reported, gpointer data);
    /* Where a cluster would be placed now; nothing is taken. It is computed on a worker, and no more once it is cancelled.
     * cluster: taken over. operator: one asks, who does not wait for the tenant's.
     *
     *     { "fits", "never": not even if nothing else were there, "reason": why it does not fit, or null,
     *       "when": microseconds as of weft_clock_now() at which it would start by the queue, at the latest; null: now, or
     * nobody knows, "why": [ text, … ], "leaves", "hosts", "hops" or null, "split", "remote", "between" or null: as
     * WeftPlacement, "nodes": [ { "rank", "group", "path", "cores", "memory", "gpus", "numa_nodes": so many, "host_number",
     *         "leaf_number": from 1, equal where these are, "host", "leaf" or null, "core_ids": [ … ], "memory_nodes": [ {
     *         "numa", "page_size", "pages" }, … ], "devices": [ { "rail", "hca", "vf" or null, "guid": null }, … ], "gpu_ids":
     * [ … ] }, … ] }
     *
     * From leaves on only where it fits; and "spent": microseconds of a worker's processor time. */
    void (*place)(WeftGate *gate, struct WeftCluster *cluster, gboolean operator, GCancellable * cancellable,
                  WeftGateReported reported, gpointer data);
    /* Who waits for room, in their order; tenant NULL: of all, else of this one only, at the places that they have among all:
     *
     *     { "items": [ { "place": from 1, "id", "name", "tenant", "nodes", "cores", "priority", "preemptible", "since",
     * "points": by which they are ordered, "share": the part of these that its tenant's usage makes, "why": a word of
     *           weft_wait_words, "reason": in words for the tenant, "when": it is promised to start, or null }, … ],
     *       "waiting": of all, "statistics": { "runs", "started", "preempted", "microseconds" } since weftd started } */
    void (*queue)(WeftGate *gate, const char *tenant, GCancellable *cancellable, WeftGateReported reported, gpointer data);
    /* What is on hosts with weft's mark, and without a record that this store ended it:
     *
     *     { "items": [ { "host", "since": microseconds as of weft_clock_now(), "kind": "node", "network", "image" or "memory",
     * "id", "name", "key": all that its mark says, "site" or null, "placement" or null, "running", "tenant" or null, "cluster"
     * or null, "node" or null: by its mark }, … ], "next" or null }
     *
     * page: { "after": the "next" of the one before or null, "limit": so many at most } as text. */
    void (*held)(WeftGate *gate, const char *page, GCancellable *cancellable, WeftGateReported reported, gpointer data);
    /* Has things that are held removed, or nodes that are held adopted. order: { "host", "keys": [ … ], "who", "dry_run" } as
     * text. The report is {}. CONFLICT, INVALID or EXHAUSTED: one of them cannot be, and nothing happens. */
    void (*remove_held)(WeftGate *gate, const char *order, GCancellable *cancellable, WeftGateReported reported, gpointer data);
    void (*adopt_held)(WeftGate *gate, const char *order, GCancellable *cancellable, WeftGateReported reported, gpointer data);
    /* Whether the clock of weftd's machine is trusted; nothing is a NULL:
     *
     *     { "state": "trusted|jumped|held", "time": what weft goes by, "wall": what that clock says (microseconds),
     *       "hosts": { "wall", "time", "neither": so many hosts agree with either } } */
    void (*clock)(WeftGate *gate, const char *nothing, GCancellable *cancellable, WeftGateReported reported, gpointer data);
    /* It is right. word: { "who": a name, "wall": what they were shown (microseconds) } as text. Reports as clock does.
     * CONFLICT: it was set since. */
    void (*accept_clock)(WeftGate *gate, const char *word, GCancellable *cancellable, WeftGateReported reported, gpointer data);
} WeftGateOps;

struct WeftGate {
    const WeftGateOps *ops;
};
