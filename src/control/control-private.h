/* What the parts of the reconciler share. thread: all of it on the main thread. */
#pragma once

#include "checkpoints.h"
#include "clock-watch.h"
#include "control.h"
#include "expiry.h"
#include "fleet.h"
#include "images.h"
#include "jobs.h"
#include "links.h"
#include "plan.h"
#include "ports.h"
#include "records.h"
#include "rest.h"
#include "templates.h"
#include "wiring.h"

typedef struct WeftHosts WeftHosts;
typedef struct WeftSubnets WeftSubnets;
typedef struct WeftTrials WeftTrials;
typedef struct WeftTurns WeftTurns;
typedef struct WeftWork WeftWork;

struct WeftControl {
    WeftStore *store;
    WeftHypervisor *hv;
    WeftControlOptions options;
    WeftFleet *fleet;
    WeftJobs *jobs;
    WeftHosts *hosts;
    WeftSubnets *subnets;
    WeftLinks *links;
    WeftImages *images;
    WeftTemplates *templates;
    WeftCheckpoints *checkpoints;
    WeftGate *gate;
    WeftTurns *turns;
    WeftTrials *trials;
    WeftExpiry *expiry;
    WeftClockWatch *clock;
    struct WeftPruner *pruner;
    GHashTable *works;   /* cluster key to WeftWork: those with something to do */
    GHashTable *waiting; /* set of WeftWork: those with nodes that should be elsewhere, and wait for room */
    GHashTable *moves;   /* host to how many nodes leave it, or are on their way to it (GUINT_TO_POINTER) */
    gboolean room_made;  /* … and are to be woken */
    GQueue awake;        /* WeftWork, each once */
    GSource *pump;       /* steps the awake */
    guint watch;
    guint commits;    /* under way */
    gboolean closing; /* nothing new is begun */
};

/* Of weftd, to which wishes are bound that must not count in a copy of the store; NULL: it has none. */
static inline const char *
weft_control_run(const WeftControl *control)
{
    return control->options.owner ? control->options.owner->run : NULL;
}

/* Commits, and counts it as under way; the callback is as for weft_store_commit(). */
void weft_control_commit(WeftControl *control, WeftTxn *txn, WeftCommitted callback, gpointer data);
/* For changes that nobody waits for: a failure is logged, and the next look at the world tries again. */
void weft_control_commit_quietly(WeftControl *control, WeftTxn *txn);

/* Spreads a number over all 64 bits: sums of these tell sets apart (splitmix64). */
static inline guint64
weft_mix(guint64 x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

/* --- the API's way in (gate.c) --- */

WeftGate *weft_control_gate_new(WeftControl *control);
/* Nobody is answered any more. */
void weft_control_gate_free(WeftGate *gate);

/* --- clusters (work.c) --- */

void weft_work_free(WeftWork *work);
/* Something may have changed for this cluster: look at it soon. */
void weft_control_wake(WeftControl *control, const char *cluster_key);
/* … for all: those in memory. What was put away waits for nothing. */
void weft_control_wake_all(WeftControl *control);
void weft_control_wake_tenant(WeftControl *control, const char *tenant); /* its clusters that have something to do */
/* … because the record of its wish changed. */
void weft_control_wish_changed(WeftControl *control, const char *cluster_key);
/* Its status was written by others than its work: another end of its walltime. */
void weft_control_end_changed(WeftControl *control, const char *cluster_key, const WeftClusterStatus *status, gint64 revision);
/* Nodes went: wakes those that wait for room. */
void weft_control_room_made(WeftControl *control);
/* Hosts or fabrics changed, for better or worse. */
void weft_control_room_changed(WeftControl *control);
/* Its nodes are to be stopped and released; it waits again then. Nothing happens unless it is one that gives way. why: in words
 * for its tenant, static. */
void weft_control_preempt(WeftControl *control, const char *cluster_key, const char *why);
/* A node that was ready has no running domain any more. */
void weft_control_node_gone(WeftControl *control, const WeftNode *node, const char *reason);
/* A device of its host was taken from under it: it is placed anew, there or elsewhere. detail: for operators. */
void weft_control_node_bereft(WeftControl *control, const WeftNode *node, const char *detail);
/* Its guest began anew, and knows nothing of the others. boot: which it is now; NULL: another. */
void weft_control_node_rebooted(WeftControl *control, const char *node_id, const char *boot);
/* A wish to move one of its nodes came, changed or went. */
void weft_control_moves_changed(WeftControl *control, const char *cluster_id);
/* One of its hosts is emptied in another way than before, or no more. */
void weft_control_drain_changed(WeftControl *control, const char *cluster_key);
/* What a node holds where it is being moved to (work-leave.c). */
void weft_control_take_target(WeftControl *control, const WeftNode *node);
void weft_control_give_target(WeftControl *control, const WeftNode *node);
/* Its partition is not in the fabric as it should be: tell the manager again. */
void weft_control_rewire(WeftControl *control, const char *cluster_key);
/* The site has a partition of the cluster's number: it needs another one. */
void weft_control_pkey_taken(WeftControl *control, const char *cluster_key);
/* Its records were changed by somebody else: they are read again. */
void weft_control_reload(WeftControl *control, const char *cluster_key);
/* Is a call to a host under way for that node? */
gboolean weft_control_is_calling(const WeftControl *control, const WeftNode *node);
/* Is anything under way for it just now? */
gboolean weft_control_is_working(WeftControl *control, const char *cluster_key);
/* The ports through which a node, should it be a member, is in its cluster's partition (work-wire.c). */
void weft_control_add_members(WeftControl *control, const WeftNode *node, WeftPartition *partition);
/* Adds names of hosts where a cluster cannot be at all to a set that owns them: what serves a partition that it asks for, and
 * what has nodes of clusters that it must be apart from (work-place.c). */
void weft_control_add_barred(WeftControl *control, const WeftCluster *cluster, GHashTable *hosts);
/* When the cluster of one that waits for room was created. */
gint64 weft_work_created(const WeftWork *work);
/* Looks for room at once, whenever it meant to try again. */
void weft_work_try_room(WeftWork *work);
/* Are nodes of it being saved for a clone? Then it must not be moved, nor put aside (work-clone.c). */
gboolean weft_control_is_cloned(const WeftControl *control, const char *cluster_id);
/* It is ready: those that are to be cloned from it may have waited for that. */
void weft_control_wake_clones(WeftControl *control, const char *cluster_id);
/* One look at a cluster, and the next step for it. */
void weft_work_step(WeftWork *work);

/* --- hosts (hosts.c) --- */

WeftHosts *weft_hosts_new(WeftControl *control, GError **error);
void weft_hosts_free(WeftHosts *hosts);
/* The record of a host appeared, changed or went. deleted: it went; should one be there, it is another. */
void weft_hosts_changed(WeftHosts *hosts, const char *name, gboolean deleted);
/* Has every host answered once, or not answered? */
gboolean weft_hosts_are_heard(const WeftHosts *hosts);
/* Does one of the fabric not take nodes only because it did not answer the last look, or is being cleaned? It will in a moment,
 * or be lost. */
gboolean weft_hosts_may_open(const WeftHosts *hosts, const char *fabric);
/* LOST only where this weftd is known to be the owner of hosts. */
WeftSeen weft_hosts_seen(const WeftHosts *hosts, const char *name);
/* … of the node's host; HELD also where the node may run elsewhere, on a host that is held or was not looked at yet, and would
 * be started a second time. */
WeftSeen weft_hosts_seen_of(const WeftHosts *hosts, const WeftNode *node);
/* Has each host answered a look since weftd started, or failed to? */
gboolean weft_hosts_are_looked_at(const WeftHosts *hosts);
/* Is anything of the cluster held, or may it be as hosts were not looked at yet? Then its partition and its networks are left
 * as they are: they may serve nodes that this store does not know of. So is asked through weft_subnets_may_wire(). */
gboolean weft_hosts_hold_cluster(const WeftHosts *hosts, const char *cluster_id);
/* Is the node known not to be on that host, which is its own or the one that it is being moved to, nor on any that is held?
 * Where that host is not held, this is asked only while something of the node's cluster is, or while it moves. */
gboolean weft_hosts_lack(const WeftHosts *hosts, const char *name, const char *node_id);
/* Wakes the cluster once all hosts were looked at; FALSE: they were. */
gboolean weft_hosts_await_looks(WeftHosts *hosts, const char *cluster_key);
/* Was a domain of the node there at the last look? */
gboolean weft_hosts_runs(const WeftHosts *hosts, const char *name, const char *node_id);
/* Wakes the cluster when something that keeps its partition or its networks as they are may have ended. */
void weft_hosts_await_free(WeftHosts *hosts, const char *cluster_key);
void weft_hosts_wake_waiting(WeftHosts *hosts);
/* All that waited until it is known where nodes may run. */
void weft_hosts_wake_doubtful(WeftHosts *hosts);
/* Port GUIDs (guint64 *, borrowed from the fleet) of all hosts of the fabric. */
GHashTable *weft_hosts_ports(const WeftHosts *hosts, const char *fabric);
/* Has one that answers, of this fabric, said that it is this run's of weftd? A weftd without any may have the wrong store. */
gboolean weft_hosts_own(const WeftHosts *hosts, const char *fabric);
/* May partitions of the fabric be changed? Not where another weftd of this site has a host, of whatever fabric: it may know
 * clusters better than this store. And not where nobody says that this one is the right one. */
gboolean weft_hosts_may_wire(const WeftHosts *hosts, const char *fabric);
/* … then why not, for people; NULL: they may, or hosts were not looked at yet. */
char *weft_hosts_why_not_wire(const WeftHosts *hosts, const char *fabric);
/* Somebody else has changed the fabric: hosts say again whose they are. */
void weft_hosts_doubt_owner(WeftHosts *hosts, const char *fabric);
/* Port GUIDs of hosts of the fabric that have not answered since weftd started, or are held (to WeftWatch, borrowed). */
GHashTable *weft_hosts_unknown_ports(const WeftHosts *hosts, const char *fabric);
/* Is the port one of these, of a host where the store has no node of the cluster (NULL: of any)? Then its name: a node may be
 * there that an older store does not know of. NULL: it is not. */
const char *weft_hosts_stranger(GHashTable *unknown_ports, guint64 port_guid, const char *cluster_id);
/* An operator has it taken from whoever has it. */
void weft_hosts_take(WeftHosts *hosts, const char *name);
/* Something was confirmed to be removed from a host in this run, or that is not so any more. */
void weft_hosts_confirmation_changed(WeftHosts *hosts, const WeftChange *change);
/* Is it held? Then what to tell of it, and what to type; NULL: it is not. */
char *weft_hosts_held(const WeftHosts *hosts, const char *name, const char **ret_remedy);
/* Is it another weftd's? Nothing is submitted for a node there, nor is its guest asked to do anything: that would be refused,
 * or disturb what the other one does with it. Its clusters are woken when it is ours. */
gboolean weft_hosts_is_passive(const WeftHosts *hosts, const char *name);
/* Did a job that claims its host fail there because that is another weftd's? */
gboolean weft_hosts_has_disowned(const WeftHosts *hosts, const WeftJob *job);
/* Are its nodes to be moved elsewhere while they run? ret_disrupt: also where connections break; NULL: of no interest. */
gboolean weft_hosts_is_moving(const WeftHosts *hosts, const char *name, gboolean *ret_disrupt);
/* Is a look late, or did it fail, and is it not lost yet? */
gboolean weft_hosts_is_silent(const WeftHosts *hosts, const char *name);
/* … then what to tell those who have nodes there, and for operators what a driver said, NULL: nothing. */
char *weft_hosts_silence(const WeftHosts *hosts, const char *name, char **ret_detail);
/* For transactions that must not race with a change of the host; -1 for one that is not there. */
gint64 weft_hosts_revision(const WeftHosts *hosts, const char *name);
/* Derives again from the nodes what is in use there. */
void weft_hosts_recount(WeftHosts *hosts, const char *name);
/* Something is odd there: look now. */
void weft_hosts_hint(WeftHosts *hosts, const char *name);
/* … and its devices are not what they were. */
void weft_hosts_hardware_changed(WeftHosts *hosts, const char *name);
/* A node with devices has ended there. Only the host knows whether one of them is in quarantine by now: it is asked a little
 * later. */
void weft_hosts_devices_released(WeftHosts *hosts, const char *name);
/* … and any guest there may have begun anew: each is asked once. */
void weft_hosts_doubt_guests(WeftHosts *hosts, const char *name);
/* What it is able to; NULL: it has not told yet, and what is known of that (NULL: of no interest). */
const WeftInventory *weft_hosts_inventory(const WeftHosts *hosts, const char *name, const WeftRest **ret_trouble);
/* The address by which a node goes from one host to another over RDMA; NULL: not at all, or it failed since they last told what
 * they are able to. */
const char *weft_hosts_rdma(const WeftHosts *hosts, const char *from, const char *to);
void weft_hosts_rdma_failed(WeftHosts *hosts, const char *from, const char *to);
/* What it has of a partition's network, as far as is known; NULL: nothing. serial: the same number is the same text. */
const WeftHostNetwork *weft_hosts_network(const WeftHosts *hosts, const char *name, guint vxlan, guint64 *ret_serial);
/* It has been told; NULL: it has nothing any more. */
void weft_hosts_set_network(WeftHosts *hosts, const char *name, guint vxlan, const WeftHostNetwork *network);
/* Adds the names of hosts of which it is not known that they are of that kind to a set that owns them. */
void weft_hosts_add_of_other_kind(const WeftHosts *hosts, const char *kind, GHashTable *names);
/* Memory to fork from. */
gboolean weft_hosts_has_primed(const WeftHosts *hosts, const char *name, const char *id);
void weft_hosts_set_primed(WeftHosts *hosts, const char *name, const char *id, gboolean there);
gboolean weft_hosts_has_image(const WeftHosts *hosts, const char *name, const char *digest);
void weft_hosts_image_came(WeftHosts *hosts, const char *name, const char *digest);

/* --- fabrics (subnets.c and subnet-*.c) --- */

/* drivers: fabric name to WeftFabricDriver. */
WeftSubnets *weft_subnets_new(WeftControl *control, GHashTable *drivers, GError **error);
/* Looks at the fabrics, now that all nodes are known. */
gboolean weft_subnets_begin(WeftSubnets *subnets, GError **error);
void weft_subnets_free(WeftSubnets *subnets);
const WeftFabric *weft_subnets_fabric(const WeftSubnets *subnets, const char *name);
/* Has its subnet manager answered since weftd started? Until then it takes no nodes. */
gboolean weft_subnets_has_manager(const WeftSubnets *subnets, const char *name);
/* Who programs partitions there. */
WeftFabricManagement weft_subnets_management(const WeftSubnets *subnets, const char *name);
/* Which manager has the fabric, for operators: "opensm 3.3.23 by its plugin at h1", or why nobody knows. */
char *weft_subnets_manager_words(const WeftSubnets *subnets, const char *name);
/* To ask the manager; NULL: no such fabric. */
WeftFabricDriver *weft_subnets_driver(const WeftSubnets *subnets, const char *name);
/* The key of the cluster whose partition has this VXLAN id; NULL: none. */
const char *weft_subnets_holder(const WeftSubnets *subnets, guint vxlan);
/* What there is to say about each fabric, for weft doctor. */
void weft_subnets_examine(const WeftSubnets *subnets, json_t *checks);
/* Reads tables as weft_ports_read() does, for nobody in a hurry. */
void
weft_subnets_read_ports(WeftSubnets *subnets, const char *fabric, GArray *port_guids, WeftPortsRead callback, gpointer data);
/* Looks at the fabric now: something is odd there. */
void weft_subnets_hint(WeftSubnets *subnets, const char *fabric);
/* Somebody gave it another map, or it has a host of which the ports are not known yet. No such fabric: nothing happens. */
void weft_subnets_map_changed(WeftSubnets *subnets, const char *fabric);

/* A free partition number that has rested, held for the cluster; 0 and EXHAUSTED: none is left. Nor does a cluster that has
 * none yet get one while more of its tenant's rest than are left, so that nobody puts them all to rest by making clusters and
 * deleting them; again: it has lost its own. */
guint weft_subnets_take_pkey(WeftSubnets *subnets, const char *fabric, const char *cluster_key, const WeftCluster *cluster,
                             gboolean again, GError **error);
/* It is the cluster's, by its record. */
void
weft_subnets_adopt_pkey(WeftSubnets *subnets, const char *fabric, guint pkey, const char *cluster_key, const char *cluster_id);
/* It was never used: the next may have it at once. */
void weft_subnets_return_pkey(WeftSubnets *subnets, const char *fabric, guint pkey);
/* Somebody has said that a partition has ended. key: of the record. */
void weft_subnets_rest_changed(WeftSubnets *subnets, const char *fabric, const char *key);
/* Whether the partition of that number is left alone, though it carries weft's mark: no record says that it has ended. */
gboolean weft_subnets_is_unproved(const WeftSubnets *subnets, const char *fabric, guint pkey);
/* It was in use until now, and the store knows that it rests (weft_txn_rest_pkey()). */
void weft_subnets_free_pkey(WeftSubnets *subnets, const char *fabric, guint pkey, const char *tenant);
/* The cluster has another number now, since somebody else's partition has this one: its own has ended there. */
void weft_subnets_leave_pkey(WeftSubnets *subnets, const char *fabric, guint pkey, const WeftCluster *cluster);
/* Deletes what is written of numbers that have rested, of so many at most. */
void weft_subnets_prune(WeftSubnets *subnets, WeftTxn *txn, guint most);
/* Is the number known to be the site's own? */
gboolean weft_subnets_is_foreign(const WeftSubnets *subnets, const char *fabric, guint pkey);

/* What a cluster wants of its fabric. */
typedef struct WeftWireOrder {
    const char *fabric;
    const WeftCluster *cluster;
    guint pkey;
    WeftPartition *partition; /* its own, taken over; NULL: it is to go */
} WeftWireOrder;
/* deed: WIRE, or VERIFY where the manager did it and the ports tell otherwise. */
typedef void (*WeftSubnetWired)(WeftDeed deed, const GError *error, gpointer data);
/* Its own partition, and what it shares with others; then its ports are read back: success is what they hold. */
void weft_subnets_wire(WeftSubnets *subnets, const WeftWireOrder *order, WeftSubnetWired callback, gpointer data);
/* May the partition of a cluster be changed, and its networks? */
gboolean weft_subnets_may_wire(const WeftSubnets *subnets, const char *fabric, guint pkey, const char *cluster_id);
/* … then why not, for people; NULL: it may, or there is nothing to tell. */
char *weft_subnets_why_not_wire(const WeftSubnets *subnets, const char *fabric, guint pkey);
/* Tells in the transaction that the store may be older than the site, and looks for ports of hosts that it does not know. */
void weft_subnets_doubt_store(WeftSubnets *subnets, WeftTxn *txn);
/* Partitions may be changed, perhaps: what is in them now is looked at, if the store is in doubt. */
void weft_subnets_take_stock(WeftSubnets *subnets);
/* May a node of the cluster, which is on this fabric as far as is known, be on a host that the store is too old to know? */
gboolean weft_subnets_may_hide(const WeftSubnets *subnets, const char *cluster_id, const char *fabric);
/* An operator says that ports of no host in a partition are to go; key: WEFT_RELEASE_PREFIX, fabric and name. */
void weft_subnets_release_asked(WeftSubnets *subnets, const char *key);
/* Reads back what its members' ports hold, and changes nothing. deed: VERIFY. There is one member at least. */
void weft_subnets_verify(WeftSubnets *subnets, const char *fabric, const WeftPartition *partition, WeftSubnetWired callback,
                         gpointer data);
/* What the cluster has in its own partition it brings into those that it shares; nobody is told yet. */
void weft_subnets_share(WeftSubnets *subnets, const char *fabric, const WeftCluster *cluster, const WeftPartition *own);
/* The P_Keys (guint16, with the bit of full membership) that its nodes have of shared partitions, in order of its wish. */
void weft_subnets_shared_keys(const WeftSubnets *subnets, const char *fabric, const WeftCluster *cluster, GArray *keys);
/* Adds the names (borrowed from the fleet) of hosts that serve a partition in which its nodes would be less than that. */
void weft_subnets_add_servers(const WeftSubnets *subnets, const WeftCluster *cluster, GHashTable *names);
/* So the fabric should have it until it is wired again: what is found otherwise is repaired. Takes it over. */
void weft_subnets_expect(WeftSubnets *subnets, const char *fabric, WeftPartition *partition);
/* It is being changed. */
void weft_subnets_expect_nothing(WeftSubnets *subnets, const char *fabric, guint pkey);
