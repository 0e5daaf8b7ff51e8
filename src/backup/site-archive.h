/* A site's backup: one file that tar(1) lists and whose sums sha256sum(1) checks.
 *
 *     manifest.json   { "format", "weft": its version, "schema", "site", "created": microseconds, "blobs": [ { "digest",
 * "size", "of" }, … ], "store": { "size", "sha256" } }. The files of images, templates and checkpoints are not in the backup:
 * these digests tell which they are. secret.json     the site's secret, encrypted by the passphrase (PBKDF2 with HMAC-SHA-512,
 * AES-256-GCM). The manifest's bytes are authenticated with it: whoever has the passphrase knows that nobody changed either,
 * nor the store. weft.db         the store SHA256SUMS      of the three
 *
 * thread: any. All of it blocks. */
#pragma once

#include <glib.h>
#include <jansson.h>

#define WEFT_BACKUP_FORMAT 1

typedef struct WeftBackupContent {
    json_t *manifest;  /* without "format", "weft" and "store", which are added; borrowed */
    const char *store; /* path of a store that nobody writes to */
    const guint8 *secret;
    gsize secret_length;
    const char *passphrase;
} WeftBackupContent;

gboolean weft_backup_write(int fd, const WeftBackupContent *content, GError **error);

typedef struct WeftBackup {
    json_t *manifest;
    char *manifest_text;
    json_t *secret;
} WeftBackup;

/* Checks all that can be checked without the passphrase, and writes the store to a descriptor (-1: nowhere). INVALID: it is no
 * backup, damaged, or of a newer weft. */
WeftBackup *weft_backup_read(const char *path, int store, GError **error);
void weft_backup_free(WeftBackup *backup);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftBackup, weft_backup_free)

/* The site's secret. DENIED: another passphrase, or somebody changed the manifest or the secret. */
gboolean
weft_backup_open_secret(const WeftBackup *backup, const char *passphrase, guint8 *ret_secret, gsize length, GError **error);

/* --- passphrase.c --- */

/* The first line of a file ("-": standard input), or, where there is none, what is typed on the terminal, twice where it is a
 * new one. INVALID: it is too short or too long. */
char *weft_passphrase_get(const char *file, gboolean is_new, GError **error);
#define WEFT_PASSPHRASE_MIN 8
#define WEFT_PASSPHRASE_MAX 1024
gboolean weft_passphrase_check(const char *passphrase, GError **error);
/* Overwrites it before it is freed. NULL is fine. */
void weft_passphrase_free(char *passphrase);
