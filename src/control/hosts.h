/* Hosts as the reconciler watches them: what hosts*.c share.
 *
 *     hosts.c            when to look, and what silence means
 *     hosts-look.c       what a look found there
 *     hosts-proof.c      what the store knows of it
 *     hosts-held.c       hosts with things that nobody can prove to have ended
 *     hosts-owner.c      hosts that are another weftd's
 *     hosts-silence.c    what is told of one that does not answer
 *     hosts-facts.c      which networks and images are known to be there
 *     hosts-guests.c     whether guests there have begun anew
 *     hosts-inspect.c    what a host is able to, and hardware that nobody described
 *     hosts-describe.c   their descriptions come, change and go */
#pragma once

#include "control-private.h"
#include "look.h"

typedef struct WeftWatch {
    WeftControl *control;
    char *name;
    gint64 revision; /* of its description */
    gboolean draining;
    gboolean moving; /* its nodes are to be moved away … */
    gboolean disrupting;
    gboolean evicting;
    gboolean described;        /* its hardware is known */
    char *barred;              /* why nothing goes there, for people: its URI is one that is not taken any more; NULL: it may */
    WeftHostState state;       /* as its status record says */
    gboolean unwritten;        /* … or should say: it could not be written */
    gint64 since;              /* of the state */
    char *reason;              /* … as its status record has it; NULL: none */
    GHashTable *quarantine;    /* set of devices of which was told that they are in it */
    GHashTable *told_before;   /* the same before the change of it that is being written; NULL: none is */
    gboolean looked_at;        /* it has answered a look since weftd started, or has not answered one */
    gboolean known;            /* it has answered one: what is there may be changed */
    GPtrArray *held;           /* WeftFound: what keeps it from being changed all the same */
    GPtrArray *confirmed;      /* WeftFound: what is to go from there, as an operator has confirmed */
    GHashTable *confirmations; /* set of keys, all that the store has of this run; NULL: not read yet */
    GHashTable *pinned;        /* set of keys of clusters that do not give way as long as it is held */
    GHashTable *domains;       /* set of ids of nodes that had a domain there at the last look */
    GHashTable *absent;        /* … of nodes that are recorded there, or on their way, and had none at the last two; where it,
                                * or something of their cluster, is held */
    guint adopting;            /* orders to adopt something there that are being written: nothing is removed meanwhile */
    gboolean granted;          /* it is this weftd's, as far as is known: the host says so before each change */
    char *passive;             /* why it is not, for people; NULL: it is, or is not known to be another's */
    gboolean rival;            /* … but another's of this very site: with a copy of this store, or a later one */
    gboolean gone_waits;       /* a node of it has no domain, and nobody knows yet whether it is elsewhere */
    gboolean answered;         /* the last look was answered */
    gboolean clean;            /* … and nothing stale was there */
    gboolean open;             /* it takes new nodes */
    gboolean queued;           /* to be looked at soon */
    gboolean scanning;
    gboolean doubted;     /* … as one that did not answer the last time */
    gboolean removed;     /* its description went; what runs there still has to end */
    gint64 looked;        /* when the look under way began, monotonic */
    guint stopping;       /* stale domains and networks that are being removed: until then it takes no nodes */
    guint errands;        /* other calls under way on our behalf */
    guint late;           /* timer while a look is under way */
    gint64 unanswered;    /* when the first look began that was not answered, or is late; monotonic, 0: it answers */
    gint64 silent_since;  /* when it failed, likewise: the grace time begins */
    char *excuse;         /* … and why */
    gboolean unsure;      /* most others do not answer either: its nodes are not given up */
    gboolean alone;       /* others answered when its last look ended, and it did not */
    guint released;       /* timer since nodes with devices have ended there, of which it may have put some into quarantine */
    guint recheck;        /* timer while it is silent, or did not tell what it is able to */
    GHashTable *suspects; /* what looked wrong the last time: a second look decides */
    GHashTable *reported; /* domains there that are not weft's, told already */
    GHashTable *networks; /* VXLAN id to Fact of a WeftHostNetwork */
    GHashTable *images;   /* digest to Fact */
    GHashTable *primed;   /* id of memory to fork from to Fact */

    WeftInventory *inventory; /* NULL: it has not told yet */
    WeftRest inspection;      /* why not */
    gboolean inspect;         /* to be asked */
    gboolean doubts_guests;   /* its ready nodes are to be asked whether their guests are the same still */
    gboolean kept_told;       /* that its hardware is less than its nodes hold */
    gboolean heard;           /* it has answered once and told what it is able to, or has not answered */
} WeftWatch;

struct WeftHosts {
    WeftControl *control;
    GHashTable *by_name; /* WeftWatch */
    GQueue urgent;       /* WeftWatch: to be looked at as soon as a worker is free */
    GQueue doubtful;     /* … that did not answer the last time: they may take long, and others must not wait for them */
    GPtrArray *round;    /* WeftWatch, borrowed: looked at in turn */
    guint next;          /* in the round */
    guint64 due;         /* looks, each of a scan_interval's milliseconds */
    guint flying;        /* looks under way */
    guint flying_doubted;
    guint timer;
    guint questions;     /* to guests, under way */
    guint unheard;       /* of which nothing was heard yet */
    guint unlooked;      /* that were not looked at yet */
    GHashTable *waiting; /* set of keys of clusters that wait until all were */
    GHashTable *held;    /* id of a node or cluster of which something is held → how often */
    guint n_rivals;      /* that another weftd of this site has */
    gboolean owned;      /* one at least has said that it is this run's, since that was last in doubt */
    GHashTable *no_rdma; /* set of "from to": hosts between which RDMA did not get through */
};

/* hosts.c */
WeftWatch *weft_hosts_find(const WeftHosts *hosts, const char *name);
/* Something was heard of it, be it that it does not answer. */
void weft_watch_heard(WeftWatch *host);
/* Is it open to new nodes? Tells the fleet. */
void weft_watch_update_open(WeftWatch *host);
/* Those there, and those on their way to it: these are on another host by their word. */
GPtrArray *weft_watch_nodes(const WeftWatch *host);
void weft_watch_wake_clusters(const WeftWatch *host, const GPtrArray *nodes, gboolean ready_too);
void weft_hosts_enqueue(WeftHosts *hosts, WeftWatch *host);
void weft_hosts_dequeue(WeftHosts *hosts, WeftWatch *host);
void weft_hosts_launch(WeftHosts *hosts);
/* A job for it whose callback finds the control as its owner. */
WeftJob *weft_watch_job(const WeftWatch *host, WeftStepType step, const char *text, gint64 deadline, WeftJobDone done);
/* Writes its state anew. reason: what is wrong with it all the same; NULL: nothing. event: that tells it, too; NULL: none. */
void weft_watch_tell_state(WeftWatch *host, const char *reason, const char *event);
/* … in a transaction that tells what has changed in its quarantine. told: the set of devices of which was told then that they
 * are in it, taken over; what was told before counts again if that cannot be written. One at a time. */
void weft_watch_commit_quarantine(WeftWatch *host, WeftTxn *txn, GHashTable *told);
/* Looks again after a while. */
void weft_watch_recheck(WeftWatch *host, gint64 delay);

/* Writes that it is held, or what it is held for. */
void weft_watch_set_held(WeftWatch *host, const char *reason);

/* hosts-held.c: it is held for these from now on, which are taken over; none: it is not. */
void weft_watch_hold(WeftWatch *host, GPtrArray *found);
/* It is lost, or an operator had something removed from it: once both are so nobody waits for that, as the machine may never
 * answer. It goes when the host is back. */
void weft_watch_forgive_held(WeftWatch *host);
/* Clusters of these nodes could be stopped, but not be saved there: none of them gives way. NULL: it is not held any more. */
void weft_watch_pin_clusters(WeftWatch *host, const GPtrArray *nodes);
/* It was looked at, for the first time perhaps. */
void weft_watch_looked_at(WeftWatch *host);
/* May the host's node be given up, or could it be on one that is held or was not looked at yet? */
gboolean weft_hosts_may_miss(const WeftHosts *hosts, const char *name, const char *node_id);
/* A step that changes a host waits until that was looked at, claims it, and is refused where it is held; one by which a node of
 * ours goes on is refused only where the host is another weftd's. This is the last of the gates: whoever submits jobs knows
 * before that there is no point in it. */
WeftJobVerdict weft_hosts_guard(WeftJob *job, gpointer hosts, GError **error);
/* The host said that it is another's. */
void weft_hosts_disowned(const WeftJob *job, gpointer hosts);

static inline gboolean
weft_watch_is_held(const WeftWatch *host)
{
    return host->held->len > 0 || host->passive;
}

/* hosts-owner.c */
/* A look claims the host where it is not known to be ours, and this is what came of it. */
void weft_watch_claim(const WeftWatch *host, WeftJob *look);
void weft_watch_claimed(WeftWatch *host, const WeftJob *look);
/* May what runs on hosts that are lost be given up? Whoever ends a stay says that he was the owner of its host: its domain is
 * destroyed when the host is back. */
gboolean weft_hosts_may_give_up(const WeftHosts *hosts);
/* It is lost, or an operator had it taken: another weftd that had it counts no longer once both are so. */
void weft_watch_forgive_lost(WeftWatch *host);
/* It is not watched any more. */
void weft_watch_forget_owner(WeftWatch *host);

/* hosts-look.c: a look has seen what is there. TRUE when a second one is wanted. clean: nothing stale is there. */
gboolean weft_watch_act(WeftWatch *host, const WeftJob *seen, const GPtrArray *nodes, gboolean *ret_clean);

/* hosts-proof.c: what is asked for, once for each look. */
typedef struct WeftHostProof {
    WeftStore *store;
    const char *host;
    const char *run;       /* of weftd: what an operator has confirmed to another does not count; NULL: it has none */
    WeftControl *control;  /* NULL: it is asked on another thread, and knows neither memory nor files */
    GHashTable *unknown;   /* borrowed; NULL: none are known to be */
    GHashTable *confirmed; /* set of keys of what an operator has confirmed; NULL: to be read */
} WeftHostProof;
void weft_host_proof_clear(WeftHostProof *proof);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(WeftHostProof, weft_host_proof_clear)
WeftProof weft_host_proof(WeftHostProof *proof);
/* The keys of what was confirmed there to this run, a reference; NULL: they cannot be read now. */
GHashTable *weft_watch_confirmations(WeftWatch *host);
/* Asks the store about what a look has seen where that is much, so that the main thread need not.
 * thread: a worker's; the job's owner is the control. */
void weft_watch_ponder(WeftJob *look);

/* hosts-silence.c */

void weft_watch_look_begins(WeftWatch *host);
/* The first time in a row its status tells, and so do the clusters that have nodes there; as when it is late. */
void weft_watch_look_failed(WeftWatch *host, const char *excuse);
/* Its grace time is over, and others answered since it fell silent. Else it is asked again: most of those who were asked do not
 * answer either, and it is likelier that weftd is cut off from all of them. An operator who evicts it gives it up. */
gboolean weft_watch_is_lost(WeftWatch *host);
/* It answers. TRUE: something else was told. */
gboolean weft_watch_end_silence(WeftWatch *host);

/* hosts-facts.c */
void weft_watch_facts_new(WeftWatch *host);
void weft_watch_facts_free(WeftWatch *host);
/* Takes over what the look under way has seen, but for what changed since it began. Clusters whose network is not what it was
 * known to be are woken. */
void weft_watch_learn(WeftWatch *host, const WeftContents *contents, const GPtrArray *nodes);
/* Nothing is known any more. */
void weft_watch_forget(WeftWatch *host);
void weft_watch_set_image(WeftWatch *host, const char *digest, gboolean there);

/* hosts-inspect.c: asks it when that is wanted. */
void weft_watch_inspect(WeftWatch *host);
/* Tells the fleet what of its devices nodes can have. */
void weft_watch_tell_devices(WeftWatch *host);
/* Why it takes no nodes although it is up; NULL: nothing is known. */
char *weft_watch_trouble_text(const WeftWatch *host);

/* hosts-guests.c: asks them when that is wanted. */
void weft_watch_ask_guests(WeftWatch *host, const GPtrArray *nodes);

/* hosts-describe.c */
gboolean weft_hosts_load(WeftHosts *hosts, GError **error);
void weft_watch_free(gpointer data);
/* A step there has ended. Once all have, perhaps there is a new one of its name. */
void weft_hosts_end_removal(WeftHosts *hosts, WeftWatch *host);
