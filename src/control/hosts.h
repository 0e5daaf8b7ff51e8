/* Hosts as the reconciler watches them: what hosts*.c share.
 *
 *     hosts.c            when to look, and what silence means
 *     hosts-look.c       what a look found there
 *     hosts-silence.c    what is told of one that does not answer
 *     hosts-facts.c      which networks and images are known to be there
 *     hosts-guests.c     whether guests there have begun anew
 *     hosts-inspect.c    what a host is able to, and hardware that nobody described
 *     hosts-describe.c   their descriptions come, change and go */
#pragma once

#include "control-private.h"

typedef struct WeftWatch {
    WeftControl *control;
    char *name;
    gint64 revision; /* of its description */
    gboolean draining;
    gboolean moving; /* its nodes are to be moved away … */
    gboolean disrupting;
    gboolean evicting;
    gboolean described;  /* its hardware is known */
    WeftHostState state; /* as its status record says */
    gboolean unwritten;  /* … or should say: it could not be written */
    gint64 since;        /* of the state */
    gboolean answered;   /* the last look was answered */
    gboolean clean;      /* … and nothing stale was there */
    gboolean open;       /* it takes new nodes */
    gboolean queued;     /* to be looked at soon */
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
    guint recheck;        /* timer while it is silent, or did not tell what it is able to */
    GHashTable *suspects; /* what looked wrong the last time: a second look decides */
    GHashTable *reported; /* domains there that are not weft's, told already */
    GHashTable *networks; /* VXLAN id to Fact of a WeftHostNetwork */
    GHashTable *images;   /* digest to Fact */
    GHashTable *primed;   /* id of memory to fork from to Fact */
    GHashTable *no_rdma;  /* hosts from which RDMA did not get here */

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
    guint questions; /* to guests, under way */
    guint unheard;   /* of which nothing was heard yet */
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
/* Looks again after a while. */
void weft_watch_recheck(WeftWatch *host, gint64 delay);

/* hosts-look.c: TRUE when a second look is wanted. clean: nothing stale is there. */
gboolean weft_watch_act(WeftWatch *host, const WeftContents *contents, const GPtrArray *nodes, gboolean *ret_clean);

/* hosts-silence.c */

void weft_watch_look_begins(WeftWatch *host);
/* The first time in a row its status tells, and so do the clusters that have nodes there; as when it is late. */
void weft_watch_look_failed(WeftWatch *host, const char *excuse);
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
char *weft_watch_mute_text(const WeftWatch *host);

/* hosts-guests.c: asks them when that is wanted. */
void weft_watch_ask_guests(WeftWatch *host, const GPtrArray *nodes);

/* hosts-describe.c */
gboolean weft_hosts_load(WeftHosts *hosts, GError **error);
void weft_watch_free(gpointer data);
/* A step there has ended. Once all have, perhaps there is a new one of its name. */
void weft_hosts_end_removal(WeftHosts *hosts, WeftWatch *host);
