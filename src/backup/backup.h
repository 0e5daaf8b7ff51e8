/* Makes a site's backup while weftd runs, and brings a site back from one while it does not. See site-archive.h for what is in
 * it. thread: any. All of it blocks. */
#pragma once

#include "site-archive.h"

typedef struct WeftBackupSite {
    const char *store; /* path */
    const char *site;  /* id */
    const guint8 *secret;
    gsize secret_length;
} WeftBackupSite;

/* A descriptor of a file without a name in the store's folder, at its beginning; -1 and an error. BUSY: another one is being
 * made. */
int weft_backup_make(const WeftBackupSite *site, const char *passphrase, guint64 *ret_size, GError **error);

typedef struct WeftRestoreWish {
    const char *backup; /* paths */
    const char *store;
    const char *secret;
    const char *images; /* folder of blobs */
    gsize secret_length;
    const char *passphrase;
    gboolean force; /* what is there is moved aside; else the wish is refused where anything is */
} WeftRestoreWish;

/* Nothing that is there is changed unless all of the backup is in order. report: lines for the operator, also what blobs are
 * missing or differ. CONFLICT: weftd runs, or there is a store or another secret. */
gboolean weft_restore(const WeftRestoreWish *wish, GString *report, GError **error);
