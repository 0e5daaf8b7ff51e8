/* The certificate that weftd shows to clients, and its key: read at the start, and again when the files have changed. A pair
 * that cannot be used is logged and not taken; what is in use then stays. thread: main, where nothing else is said. */
#pragma once

#include <glib.h>
#include <gnutls/gnutls.h>

typedef struct WeftCertificates WeftCertificates;

/* What a handshake uses, as long as that has a reference. */
typedef struct WeftCredentials WeftCredentials;

/* Both in PEM. NULL with an error: they cannot be read, or do not belong together. */
WeftCertificates *weft_certificates_new(const char *certificate_path, const char *key_path, GError **error);
/* NULL is fine. */
void weft_certificates_free(WeftCertificates *certificates);

/* Reads both files whether they seem to have changed or not, and logs what came of it. */
void weft_certificates_reload(WeftCertificates *certificates);

/* A reference to those of now. */
WeftCredentials *weft_certificates_current(const WeftCertificates *certificates);
/* thread: any. */
gnutls_certificate_credentials_t weft_credentials_get(const WeftCredentials *credentials);
void weft_credentials_unref(WeftCredentials *credentials);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftCredentials, weft_credentials_unref)
