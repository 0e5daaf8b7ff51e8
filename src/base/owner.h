/* Who may start and remove things on a host. Each host has one record of it, compared and set on the host itself, under a lock:
 * a second weftd for that host finds another's name there, and stays passive. Nothing is renewed: the record is asked before
 * each act. */
#pragma once

#include <glib.h>

typedef struct WeftOwner {
    char *site;     /* of the store */
    char *instance; /* where the store lies: a copy of it elsewhere is another */
    guint64 epoch;  /* counted in the store, one more with each start of weftd; for people */
    char *run;      /* of this start alone: two that began from copies of one store have the same epoch */
    GStrv former;   /* of a claim: earlier runs that its store knows to be its own; NULL: none */
} WeftOwner;

typedef enum {
    WEFT_OWNER_GRANTED, /* it is the claimant's from now on */
    WEFT_OWNER_STALE,   /* it is of a run of the same site and instance that the claimant's store does not know: that is older,
                           or a copy */
    WEFT_OWNER_FOREIGN, /* it is somebody else's */
} WeftOwnerVerdict;
extern const char *const weft_owner_verdict_words[]; /* "granted", "stale", "foreign" */

WeftOwner *weft_owner_new(const char *site, const char *instance, guint64 epoch, const char *run);
void weft_owner_free(WeftOwner *owner);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftOwner, weft_owner_free)

/* record: NULL: nobody's yet. Granted to the run that has it, and to a later one of the store that this run has written itself
 * into before it claimed anything: a copy, or an older state, does not know the runs since. */
WeftOwnerVerdict weft_owner_judge(const WeftOwner *record, const WeftOwner *claim);

/* "granted RECORD", as the hook answers; RECORD is "-" where there is none. FALSE: it is not that. */
gboolean weft_owner_parse_answer(const char *text, WeftOwnerVerdict *ret_verdict, WeftOwner **ret_record);

/* "SITE INSTANCE EPOCH RUN"; NULL: it is not that. */
char *weft_owner_format(const WeftOwner *owner);
WeftOwner *weft_owner_parse(const char *text);

/* One at a time of all processes of the machine: reads the record in the file, and puts the claim there, synced, where it is
 * granted or taken. ret_record: who had it before; NULL: nobody. A file that is damaged is nobody's word for it: FAILED, unless
 * it is taken. */
gboolean weft_owner_claim(const char *path, const WeftOwner *claim, gboolean take, WeftOwnerVerdict *ret_verdict,
                          WeftOwner **ret_record, GError **error);

/* Is the record of this run, as the last claim that was granted left it? Changes nothing, under the same lock. DENIED: it is of
 * another one, or nobody's yet; a claim tells whether it may become this one's. */
gboolean weft_owner_check(const char *path, const char *run, GError **error);
