/* Who this store is: the id of the site, which every mark that weft leaves on a host carries. A store that is not the one that
 * left a mark, because it is empty, of another site, or older, has no right to remove what carries it. */
#pragma once

#include "store.h"

#include <glib.h>

typedef struct WeftSiteRecord {
    char *id;        /* weft_id_new(), made once for each store */
    gint64 created;  /* microseconds */
    guint64 epoch;   /* one more with each start of weftd */
    char *instance;  /* where the store lies by an operator's word, or since it was made; NULL: weftd has not started yet */
    GPtrArray *runs; /* char *, "INSTANCE RUN" of the last starts of weftd, the newest last */
} WeftSiteRecord;

/* Loads it; a store that has none yet is given one. */
WeftSiteRecord *weft_store_site(WeftStore *store, GError **error);
/* weftd starts: the next epoch begins, and its run is written before any host is told of it. */
gboolean weft_store_begin_epoch(WeftStore *store, WeftSiteRecord *site, const char *instance, const char *run, GError **error);
/* Earlier runs whose hosts are this one's: those of this instance. Those of another one, too, after an operator has had a host
 * taken here: until then a store that was moved is not to be told from a copy. */
GStrv weft_site_record_former(const WeftSiteRecord *site, const char *instance);
/* An operator has the host taken from whoever has it (key: its name) by this run of weftd, and by none that has only a copy of
 * the record; whether one has, and that it is done. */
#define WEFT_TAKE_PREFIX "take/"
void weft_txn_ask_to_take(WeftTxn *txn, const char *host, const char *run);
gboolean weft_store_is_to_take(WeftStore *store, const char *host, const char *run);
void weft_txn_forget_take(WeftTxn *txn, const char *host);
void weft_txn_taken(WeftTxn *txn, WeftStore *store, const char *host, const char *instance);
/* The store may be older than the site, as a backup that was restored: hosts and nodes may be missing in it. */
#define WEFT_AGED_KEY "aged"
void weft_txn_set_aged(WeftTxn *txn);
void weft_txn_forget_aged(WeftTxn *txn);
gboolean weft_store_is_aged(WeftStore *store);
/* An operator says that ports in the partition that are of no host are strangers' (key: fabric and name of the partition). */
#define WEFT_RELEASE_PREFIX "release/"
void weft_txn_release_ports(WeftTxn *txn, const char *fabric, const char *partition);
void weft_site_record_free(WeftSiteRecord *site);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftSiteRecord, weft_site_record_free)
