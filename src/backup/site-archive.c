#include "site-archive.h"

#include "errors.h"
#include "file.h"
#include "id.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS 600000
#define ROUNDS_MIN 100000
#define ROUNDS_MAX 10000000
#define SALT 16
#define KEY 32
#define NONCE 12
#define TAG 16
#define SECRET_MAX 64
#define TEXT_MAX (64 * 1024 * 1024)
#define BLOCK (256 * 1024)

typedef enum { MANIFEST, SECRET, STORE, SUMS, MEMBERS } Member;
static const char *const names[MEMBERS] = { "manifest.json", "secret.json", "weft.db", "SHA256SUMS" };

/* --- the secret --- */

static char *
to_hex(const guint8 *bytes, gsize n)
{
    GString *text = g_string_new(NULL);
    for (gsize i = 0; i < n; i++)
        g_string_append_printf(text, "%02x", bytes[i]);
    return g_string_free(text, FALSE);
}

static gboolean
from_hex(const char *text, guint8 *bytes, gsize n)
{
    if (!text || strlen(text) != 2 * n)
        return FALSE;
    for (gsize i = 0; i < n; i++) {
        int high = g_ascii_xdigit_value(text[2 * i]), low = g_ascii_xdigit_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return FALSE;
        bytes[i] = (guint8)(high << 4 | low);
    }
    return TRUE;
}

static gboolean
open_cipher(const char *passphrase, const guint8 *salt, guint rounds, gnutls_aead_cipher_hd_t *ret_cipher, GError **error)
{
    guint8 bytes[KEY];
    gnutls_datum_t password = { (guint8 *)passphrase, (guint)strlen(passphrase) }, seasoning = { (guint8 *)salt, SALT };
    gnutls_datum_t key = { bytes, sizeof bytes };
    int failed = gnutls_pbkdf2(GNUTLS_MAC_SHA512, &password, &seasoning, rounds, bytes, sizeof bytes);
    if (failed == 0)
        failed = gnutls_aead_cipher_init(ret_cipher, GNUTLS_CIPHER_AES_256_GCM, &key);
    gnutls_memset(bytes, 0, sizeof bytes);
    return failed == 0 || weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot derive a key: %s", gnutls_strerror(failed));
}

static json_t *
seal(const WeftBackupContent *content, const char *manifest, GError **error)
{
    guint8 salt[SALT], nonce[NONCE], sealed[SECRET_MAX + TAG];
    gsize length = sizeof sealed;
    gnutls_aead_cipher_hd_t cipher = NULL;
    g_assert(content->secret_length <= SECRET_MAX);
    weft_random_bytes(salt, sizeof salt);
    weft_random_bytes(nonce, sizeof nonce);
    if (!open_cipher(content->passphrase, salt, ROUNDS, &cipher, error))
        return NULL;
    int failed = gnutls_aead_cipher_encrypt(cipher, nonce, sizeof nonce, manifest, strlen(manifest), TAG, content->secret,
                                            content->secret_length, sealed, &length);
    gnutls_aead_cipher_deinit(cipher);
    if (failed != 0) {
        weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot encrypt the secret: %s", gnutls_strerror(failed));
        return NULL;
    }
    g_autofree char *salt_text = to_hex(salt, sizeof salt), *nonce_text = to_hex(nonce, sizeof nonce);
    g_autofree char *text = to_hex(sealed, length);
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s}", "kdf", "pbkdf2-hmac-sha512", "rounds", ROUNDS, "salt", salt_text,
                     "cipher", "aes-256-gcm", "nonce", nonce_text, "data", text);
}

gboolean
weft_backup_open_secret(const WeftBackup *backup, const char *passphrase, guint8 *ret_secret, gsize length, GError **error)
{
    guint8 salt[SALT], nonce[NONCE], sealed[SECRET_MAX + TAG], opened[SECRET_MAX];
    gsize n = sizeof opened;
    json_int_t rounds = json_integer_value(json_object_get(backup->secret, "rounds"));
    g_assert(length <= SECRET_MAX);
    if (!from_hex(json_string_value(json_object_get(backup->secret, "salt")), salt, sizeof salt) ||
        !from_hex(json_string_value(json_object_get(backup->secret, "nonce")), nonce, sizeof nonce) ||
        !from_hex(json_string_value(json_object_get(backup->secret, "data")), sealed, length + TAG) || rounds < ROUNDS_MIN ||
        rounds > ROUNDS_MAX)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "its secret.json is not understood");
    gnutls_aead_cipher_hd_t cipher = NULL;
    if (!open_cipher(passphrase, salt, (guint)rounds, &cipher, error))
        return FALSE;
    int failed = gnutls_aead_cipher_decrypt(cipher, nonce, sizeof nonce, backup->manifest_text, strlen(backup->manifest_text),
                                            TAG, sealed, length + TAG, opened, &n);
    gnutls_aead_cipher_deinit(cipher);
    if (failed == 0 && n == length)
        memcpy(ret_secret, opened, length);
    gnutls_memset(opened, 0, sizeof opened);
    return (failed == 0 && n == length) ||
           weft_error_refuse(error, WEFT_ERROR_DENIED,
                             "the passphrase is not the one that it was made with, or somebody changed its manifest or secret");
}

/* --- writing --- */

static gboolean
fail_archive(struct archive *archive, const char *what, GError **error)
{
    const char *why = archive_error_string(archive);
    return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "%s: %s", what, why ? why : "unknown error");
}

static gboolean
begin_member(struct archive *archive, Member member, guint64 size, GError **error)
{
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, names[member]);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0600);
    int result = archive_write_header(archive, entry);
    archive_entry_free(entry);
    return result == ARCHIVE_OK || fail_archive(archive, "writing the backup", error);
}

static gboolean
write_text(struct archive *archive, Member member, const char *text, GError **error)
{
    gsize length = strlen(text);
    return begin_member(archive, member, length, error) && (archive_write_data(archive, text, length) == (la_ssize_t)length ||
                                                            fail_archive(archive, "writing the backup", error));
}

/* Sums a file up and, unless archive is NULL, writes it. */
static char *
pass_file(const char *path, struct archive *archive, guint64 *ret_size, GError **error)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    g_autofree char *buffer = g_malloc(BLOCK);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 0;
    gboolean ok = fd >= 0;
    *ret_size = 0;
    while (ok && (n = read(fd, buffer, BLOCK)) > 0) {
        g_checksum_update(sum, (const guint8 *)buffer, n);
        *ret_size += (guint64)n;
        ok = !archive || archive_write_data(archive, buffer, (gsize)n) == n ||
             fail_archive(archive, "writing the backup", error);
    }
    if (n < 0)
        weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "%s: %s", path, g_strerror(errno));
    if (fd >= 0)
        close(fd);
    return ok && n == 0 ? g_strdup(g_checksum_get_string(sum)) : NULL;
}

static char *
describe(const WeftBackupContent *content, const char *sum, guint64 size)
{
    json_t *manifest = json_copy(content->manifest);
    json_object_set_new(manifest, "format", json_integer(WEFT_BACKUP_FORMAT));
    json_object_set_new(manifest, "weft", json_string(WEFT_VERSION));
    json_object_set_new(manifest, "store", json_pack("{s:I, s:s}", "size", (json_int_t)size, "sha256", sum));
    char *text = json_dumps(manifest, JSON_INDENT(1) | JSON_SORT_KEYS);
    json_decref(manifest);
    return text;
}

static char *
sums_of(const char *manifest, const char *secret, const char *store_sum)
{
    g_autofree char *first = g_compute_checksum_for_string(G_CHECKSUM_SHA256, manifest, -1);
    g_autofree char *second = g_compute_checksum_for_string(G_CHECKSUM_SHA256, secret, -1);
    return g_strdup_printf("%s  %s\n%s  %s\n%s  %s\n", first, names[MANIFEST], second, names[SECRET], store_sum, names[STORE]);
}

static gboolean
write_members(struct archive *archive, const WeftBackupContent *content, GError **error)
{
    guint64 size = 0, written = 0;
    g_autofree char *sum = pass_file(content->store, NULL, &size, error);
    if (!sum)
        return FALSE;
    g_autofree char *manifest = describe(content, sum, size);
    json_t *sealed = seal(content, manifest, error);
    if (!sealed)
        return FALSE;
    g_autofree char *secret = json_dumps(sealed, JSON_INDENT(1) | JSON_SORT_KEYS);
    json_decref(sealed);
    g_autofree char *sums = sums_of(manifest, secret, sum);
    if (!write_text(archive, MANIFEST, manifest, error) || !write_text(archive, SECRET, secret, error) ||
        !begin_member(archive, STORE, size, error))
        return FALSE;
    g_autofree char *again = pass_file(content->store, archive, &written, error);
    return again && write_text(archive, SUMS, sums, error);
}

gboolean
weft_backup_write(int fd, const WeftBackupContent *content, GError **error)
{
    struct archive *archive = archive_write_new();
    archive_write_set_format_pax_restricted(archive);
    gboolean ok = archive_write_open_fd(archive, fd) == ARCHIVE_OK || fail_archive(archive, "writing the backup", error);
    ok = ok && write_members(archive, content, error);
    if (archive_write_close(archive) != ARCHIVE_OK && ok)
        ok = fail_archive(archive, "writing the backup", error);
    archive_write_free(archive);
    return ok;
}

/* --- reading --- */

void
weft_backup_free(WeftBackup *backup)
{
    if (!backup)
        return;
    json_decref(backup->manifest);
    json_decref(backup->secret);
    g_free(backup->manifest_text);
    g_free(backup);
}

static gboolean
refuse_damaged(const char *why, GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_INVALID, "it is truncated, damaged or no backup of weft's: %s", why);
}

static gboolean
find_member(struct archive *archive, Member member, GError **error)
{
    struct archive_entry *entry;
    int result = archive_read_next_header(archive, &entry);
    if (result == ARCHIVE_EOF)
        return refuse_damaged("it ends before its last part", error);
    if (result != ARCHIVE_OK)
        return refuse_damaged(archive_error_string(archive), error);
    if (g_strcmp0(archive_entry_pathname(entry), names[member]) == 0 && archive_entry_filetype(entry) == AE_IFREG)
        return TRUE;
    g_autofree char *why = g_strdup_printf("%s is not where it should be", names[member]);
    return refuse_damaged(why, error);
}

static char *
read_text(struct archive *archive, Member member, GError **error)
{
    if (!find_member(archive, member, error))
        return NULL;
    g_autoptr(GString) text = g_string_new(NULL);
    char buffer[8192];
    la_ssize_t n;
    while ((n = archive_read_data(archive, buffer, sizeof buffer)) > 0 && text->len < TEXT_MAX)
        g_string_append_len(text, buffer, n);
    if (n == 0 && !memchr(text->str, '\0', text->len))
        return g_string_free(g_steal_pointer(&text), FALSE);
    refuse_damaged(n < 0 ? archive_error_string(archive) : "a part is too long, or not a text", error);
    return NULL;
}

/* Its sum; NULL: an error. */
static char *
read_store(struct archive *archive, int fd, guint64 *ret_size, GError **error)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    g_autofree char *buffer = g_malloc(BLOCK);
    la_ssize_t n;
    *ret_size = 0;
    if (!find_member(archive, STORE, error))
        return NULL;
    while ((n = archive_read_data(archive, buffer, BLOCK)) > 0) {
        g_checksum_update(sum, (const guint8 *)buffer, n);
        *ret_size += (guint64)n;
        if (fd >= 0 && !weft_file_write(fd, buffer, (gsize)n)) {
            weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "cannot write the store: %s", g_strerror(errno));
            return NULL;
        }
    }
    if (n == 0)
        return g_strdup(g_checksum_get_string(sum));
    refuse_damaged(archive_error_string(archive), error);
    return NULL;
}

static gboolean
check_manifest(WeftBackup *backup, GError **error)
{
    json_t *format = json_object_get(backup->manifest, "format");
    if (!json_is_object(backup->manifest) || !json_is_integer(format))
        return refuse_damaged("its manifest is not understood", error);
    if (json_integer_value(format) > WEFT_BACKUP_FORMAT)
        return weft_error_refuse(
            error, WEFT_ERROR_INVALID,
            "it was made by a newer weft (%s, format %" JSON_INTEGER_FORMAT "; this one knows %d): use that one",
            json_string_value(json_object_get(backup->manifest, "weft")), json_integer_value(format), WEFT_BACKUP_FORMAT);
    return TRUE;
}

static gboolean
check_sums(const WeftBackup *backup, const char *secret, const char *sum, guint64 size, const char *sums, GError **error)
{
    json_t *store = json_object_get(backup->manifest, "store");
    g_autofree char *expected = sums_of(backup->manifest_text, secret, sum);
    if (!g_str_equal(expected, sums) || (guint64)json_integer_value(json_object_get(store, "size")) != size ||
        g_strcmp0(json_string_value(json_object_get(store, "sha256")), sum) != 0)
        return refuse_damaged("its sums do not match", error);
    return TRUE;
}

static gboolean
read_members(struct archive *archive, WeftBackup *backup, int store, GError **error)
{
    struct archive_entry *entry;
    guint64 size;
    backup->manifest_text = read_text(archive, MANIFEST, error);
    if (!backup->manifest_text)
        return FALSE;
    backup->manifest = json_loads(backup->manifest_text, 0, NULL);
    if (!check_manifest(backup, error))
        return FALSE;
    g_autofree char *secret = read_text(archive, SECRET, error);
    g_autofree char *sum = secret ? read_store(archive, store, &size, error) : NULL;
    g_autofree char *sums = sum ? read_text(archive, SUMS, error) : NULL;
    if (!sums || !check_sums(backup, secret, sum, size, sums, error))
        return FALSE;
    backup->secret = json_loads(secret, 0, NULL);
    return archive_read_next_header(archive, &entry) == ARCHIVE_EOF || refuse_damaged("something follows its last part", error);
}

WeftBackup *
weft_backup_read(const char *path, int store, GError **error)
{
    struct archive *archive = archive_read_new();
    g_autoptr(WeftBackup) backup = g_new0(WeftBackup, 1);
    archive_read_support_format_tar(archive);
    gboolean ok = archive_read_open_filename(archive, path, BLOCK) == ARCHIVE_OK;
    if (!ok && g_access(path, R_OK) < 0)
        weft_error_refuse(error, WEFT_ERROR_INVALID, "%s", g_strerror(errno));
    else if (!ok)
        refuse_damaged(archive_error_string(archive), error);
    ok = ok && read_members(archive, backup, store, error);
    archive_read_free(archive);
    if (ok)
        return g_steal_pointer(&backup);
    g_prefix_error(error, "backup %s: ", path);
    return NULL;
}
