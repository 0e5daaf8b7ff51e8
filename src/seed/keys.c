#include "keys.h"

#include "errors.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>

#define ED25519_LENGTH 32 /* of a seed and of a public key */
#define KEY_TYPE "ssh-ed25519"
#define PEM_WIDTH 70
#define PADDING_BLOCK 8

static gboolean
check(int rc, GError **error)
{
    return rc >= 0 || weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot derive keys: %s", gnutls_strerror(rc));
}

/* HKDF-SHA256: the id as salt, the purpose as info, so that no two secrets of a site are related. */
static gboolean
expand(const guint8 *secret, const char *id, const char *purpose, gpointer output, gsize length, GError **error)
{
    guint8 pseudorandom[32];
    gnutls_datum_t key = { (guint8 *)secret, WEFT_SECRET_LENGTH };
    gnutls_datum_t salt = { (guint8 *)id, (unsigned)strlen(id) };
    gnutls_datum_t info = { (guint8 *)purpose, (unsigned)strlen(purpose) };
    gboolean ok = check(gnutls_hkdf_extract(GNUTLS_MAC_SHA256, &key, &salt, pseudorandom), error);
    key = (gnutls_datum_t){ pseudorandom, sizeof pseudorandom };
    ok = ok && check(gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &key, &info, output, length), error);
    gnutls_memset(pseudorandom, 0, sizeof pseudorandom);
    return ok;
}

/* An ed25519 seed as PKCS #8 (RFC 8410): the only form in which GnuTLS takes one without its public half. */
static gboolean
import_seed(gnutls_privkey_t key, const guint8 seed[ED25519_LENGTH], GError **error)
{
    guint8 der[] = { 0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20, [47] = 0 };
    memcpy(der + sizeof der - ED25519_LENGTH, seed, ED25519_LENGTH);
    gnutls_datum_t document = { der, sizeof der };
    gboolean ok = check(gnutls_privkey_import_x509_raw(key, &document, GNUTLS_X509_FMT_DER, NULL, 0), error);
    gnutls_memset(der, 0, sizeof der);
    return ok;
}

static gboolean
public_of(const guint8 seed[ED25519_LENGTH], guint8 ret_public[ED25519_LENGTH], GError **error)
{
    gnutls_privkey_t key;
    if (!check(gnutls_privkey_init(&key), error))
        return FALSE;
    gnutls_datum_t x = {};
    gboolean ok = import_seed(key, seed, error) && check(gnutls_privkey_export_ecc_raw(key, NULL, &x, NULL, NULL), error);
    if (ok && x.size == ED25519_LENGTH)
        memcpy(ret_public, x.data, ED25519_LENGTH);
    else if (ok)
        ok = weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot derive keys: a public key of %u bytes", x.size);
    gnutls_free(x.data);
    gnutls_privkey_deinit(key);
    return ok;
}

/* OpenSSH's encoding of a text: its length in four bytes, then its bytes (RFC 4251). */
static void
put_number(GByteArray *out, guint32 number)
{
    guint32 big = GUINT32_TO_BE(number);
    g_byte_array_append(out, (const guint8 *)&big, sizeof big);
}

static void
put_bytes(GByteArray *out, gconstpointer data, gsize length)
{
    put_number(out, (guint32)length);
    g_byte_array_append(out, data, (guint)length);
}

static void
put_text(GByteArray *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

static GByteArray *
public_blob(const guint8 public[ED25519_LENGTH])
{
    GByteArray *blob = g_byte_array_new();
    put_text(blob, KEY_TYPE);
    put_bytes(blob, public, ED25519_LENGTH);
    return blob;
}

/* The part that a passphrase would encrypt. Its two check numbers only have to be equal. */
static GByteArray *
private_blob(const guint8 seed[ED25519_LENGTH], const guint8 public[ED25519_LENGTH], const char *comment)
{
    GByteArray *blob = g_byte_array_new();
    g_byte_array_append(blob, public, 4);
    g_byte_array_append(blob, public, 4);
    put_text(blob, KEY_TYPE);
    put_bytes(blob, public, ED25519_LENGTH);
    put_number(blob, 2 * ED25519_LENGTH);
    g_byte_array_append(blob, seed, ED25519_LENGTH);
    g_byte_array_append(blob, public, ED25519_LENGTH);
    put_text(blob, comment);
    for (guint8 i = 1; blob->len % PADDING_BLOCK; i++)
        g_byte_array_append(blob, &i, 1);
    return blob;
}

static char *
armour(const GByteArray *bytes)
{
    g_autofree char *base64 = g_base64_encode(bytes->data, bytes->len);
    GString *text = g_string_new("-----BEGIN OPENSSH PRIVATE KEY-----\n");
    for (gsize at = 0, length = strlen(base64); at < length; at += PEM_WIDTH) {
        g_string_append_len(text, base64 + at, (gssize)MIN(PEM_WIDTH, length - at));
        g_string_append_c(text, '\n');
    }
    g_string_append(text, "-----END OPENSSH PRIVATE KEY-----\n");
    return g_string_free(text, FALSE);
}

/* "openssh-key-v1", as OpenSSH's PROTOCOL.key describes it, without a passphrase. */
static char *
format_private(const guint8 seed[ED25519_LENGTH], const guint8 public[ED25519_LENGTH], const char *comment)
{
    g_autoptr(GByteArray) open = public_blob(public);
    g_autoptr(GByteArray) hidden = private_blob(seed, public, comment);
    g_autoptr(GByteArray) file = g_byte_array_new();
    g_byte_array_append(file, (const guint8 *)"openssh-key-v1", sizeof "openssh-key-v1");
    put_text(file, "none");
    put_text(file, "none");
    put_text(file, "");
    put_number(file, 1);
    put_bytes(file, open->data, open->len);
    put_bytes(file, hidden->data, hidden->len);
    return armour(file);
}

static char *
format_public(const guint8 public[ED25519_LENGTH])
{
    g_autoptr(GByteArray) blob = public_blob(public);
    g_autofree char *base64 = g_base64_encode(blob->data, blob->len);
    return g_strconcat(KEY_TYPE " ", base64, NULL);
}

/* Where a pair comes from. */
typedef struct {
    const guint8 *secret;
    const char *id, *purpose;
} Origin;

#define HOST_KEY "weft ssh host of node"

static gboolean
derive_public(const Origin *origin, guint8 ret_seed[ED25519_LENGTH], guint8 ret_public[ED25519_LENGTH], GError **error)
{
    return expand(origin->secret, origin->id, origin->purpose, ret_seed, ED25519_LENGTH, error) &&
           public_of(ret_seed, ret_public, error);
}

static gboolean
derive_pair(const Origin *origin, const char *comment, char **ret_private, char **ret_public, GError **error)
{
    guint8 seed[ED25519_LENGTH], public[ED25519_LENGTH];
    if (!derive_public(origin, seed, public, error))
        return FALSE;
    g_autofree char *text = format_public(public);
    *ret_private = format_private(seed, public, comment);
    *ret_public = g_strconcat(text, " ", comment, NULL);
    gnutls_memset(seed, 0, sizeof seed);
    return TRUE;
}

/* dropbear's file: the key's type, then both halves as one. */
static GBytes *
derive_dropbear(const Origin *origin, GError **error)
{
    guint8 halves[2 * ED25519_LENGTH];
    if (!derive_public(origin, halves, halves + ED25519_LENGTH, error))
        return NULL;
    GByteArray *file = g_byte_array_new();
    put_text(file, KEY_TYPE);
    put_bytes(file, halves, sizeof halves);
    gnutls_memset(halves, 0, sizeof halves);
    return g_byte_array_free_to_bytes(file);
}

/* As systemd makes them: a random UUID of version 4, without its hyphens. */
static gboolean
derive_machine_id(const guint8 *secret, const char *node_id, char ret_text[33], GError **error)
{
    guint8 bytes[16];
    if (!expand(secret, node_id, "weft machine id", bytes, sizeof bytes, error))
        return FALSE;
    bytes[6] = (guint8)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (guint8)((bytes[8] & 0x3f) | 0x80);
    for (guint i = 0; i < sizeof bytes; i++)
        g_snprintf(ret_text + 2 * i, 3, "%02x", bytes[i]);
    return TRUE;
}

WeftKeys *
weft_keys_derive(const guint8 secret[WEFT_SECRET_LENGTH], const WeftKeyOwner *owner, GError **error)
{
    g_autoptr(WeftKeys) keys = g_new0(WeftKeys, 1);
    const Origin user = { secret, owner->cluster_id, "weft ssh user" }, host = { secret, owner->node_id, HOST_KEY };
    if (!derive_pair(&user, owner->cluster, &keys->user_private, &keys->user_public, error) ||
        !derive_pair(&host, owner->cluster, &keys->host_private, &keys->host_public, error) ||
        !(keys->host_dropbear = derive_dropbear(&host, error)) ||
        !expand(secret, owner->cluster_id, "weft munge", keys->munge, sizeof keys->munge, error) ||
        !derive_machine_id(secret, owner->node_id, keys->machine_id, error))
        return NULL;
    return g_steal_pointer(&keys);
}

char *
weft_host_key_derive(const guint8 secret[WEFT_SECRET_LENGTH], const char *node_id, GError **error)
{
    guint8 seed[ED25519_LENGTH], public[ED25519_LENGTH];
    if (!derive_public(&(Origin){ secret, node_id, HOST_KEY }, seed, public, error))
        return NULL;
    gnutls_memset(seed, 0, sizeof seed);
    return format_public(public);
}

void
weft_keys_free(WeftKeys *keys)
{
    if (!keys)
        return;
    g_free(keys->user_private);
    g_free(keys->user_public);
    g_free(keys->host_private);
    g_free(keys->host_public);
    g_clear_pointer(&keys->host_dropbear, g_bytes_unref);
    g_free(keys);
}
