#include "certificates.h"

#include "errors.h"
#include "file.h"

#include <glib-unix.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#define PEM_MAX (256 * 1024)
#define SETTLE_MS 500 /* after the first sign of a change: the other file is usually written right after */

/* A file is often replaced by renaming another one, or a link to a folder beside it, so it is the folder that is watched.
 * Writing ends with IN_CLOSE_WRITE; IN_ATTRIB is for a key that was made readable. */
#define SIGNS (IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ATTRIB)

struct WeftCredentials {
    gnutls_certificate_credentials_t gnutls;
};

struct WeftCertificates {
    char *paths[2];       /* certificate, key */
    WeftCredentials *now; /* in use */
    char *tried;          /* the sum of what was read last, in use or refused; NULL: it could not be read */
    int watch;            /* inotify's descriptor; -1: none */
    guint source;         /* … in the main loop */
    guint timer;          /* until the files are read again; 0: nothing was noticed */
};

/* --- credentials --- */

static void
credentials_clear(gpointer data)
{
    gnutls_certificate_free_credentials(((WeftCredentials *)data)->gnutls);
}

void
weft_credentials_unref(WeftCredentials *credentials)
{
    g_atomic_rc_box_release_full(credentials, credentials_clear);
}

gnutls_certificate_credentials_t
weft_credentials_get(const WeftCredentials *credentials)
{
    return credentials->gnutls;
}

WeftCredentials *
weft_certificates_current(const WeftCertificates *certificates)
{
    return g_atomic_rc_box_acquire(certificates->now);
}

static WeftCredentials *
make_credentials(const char *const texts[2], GError **error)
{
    const gnutls_datum_t certificate = { (guchar *)texts[0], (guint)strlen(texts[0]) };
    const gnutls_datum_t key = { (guchar *)texts[1], (guint)strlen(texts[1]) };
    g_autoptr(WeftCredentials) made = g_atomic_rc_box_new0(WeftCredentials);
    gnutls_certificate_allocate_credentials(&made->gnutls);
    int result = gnutls_certificate_set_x509_key_mem(made->gnutls, &certificate, &key, GNUTLS_X509_FMT_PEM);
    if (result >= 0)
        return g_steal_pointer(&made);
    weft_error_refuse(error, WEFT_ERROR_FAILED,
                      "cannot serve HTTPS: are the certificate and its key in PEM, and do they belong together? (%s)",
                      gnutls_strerror(result));
    return NULL;
}

/* --- reading --- */

static char *
sum_of(char *const texts[2])
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    for (guint i = 0; i < 2; i++)
        g_checksum_update(sum, (const guchar *)texts[i], (gssize)strlen(texts[i]) + 1);
    return g_strdup(g_checksum_get_string(sum));
}

/* changed_only: nothing is to be done, nor said again, where the files are those that were read last. */
static gboolean
read_files(WeftCertificates *certificates, gboolean changed_only, GError **error)
{
    g_autoptr(GError) unread = NULL;
    g_autofree char *certificate = weft_file_read(certificates->paths[0], PEM_MAX, NULL, &unread);
    g_autofree char *key = certificate ? weft_file_read(certificates->paths[1], PEM_MAX, NULL, &unread) : NULL;
    char *texts[] = { certificate, key };
    g_autofree char *sum = key ? sum_of(texts) : NULL;
    gboolean same = g_strcmp0(sum, certificates->tried) == 0;
    g_free(certificates->tried);
    certificates->tried = g_steal_pointer(&sum);
    if (same && changed_only)
        return TRUE;
    if (!key) {
        g_propagate_error(error, g_steal_pointer(&unread));
        return FALSE;
    }
    WeftCredentials *made = make_credentials((const char *const *)texts, error);
    if (!made)
        return FALSE;
    gboolean again = certificates->now != NULL;
    g_clear_pointer(&certificates->now, weft_credentials_unref);
    certificates->now = made;
    if (again)
        g_message("TLS: %s and its key were read again, and new connections get them", certificates->paths[0]);
    return TRUE;
}

static void
read_again(WeftCertificates *certificates, gboolean changed_only)
{
    g_autoptr(GError) error = NULL;
    if (!read_files(certificates, changed_only, &error))
        g_warning("TLS: %s and %s are not taken, and those that were read before stay in use: %s", certificates->paths[0],
                  certificates->paths[1], error->message);
}

void
weft_certificates_reload(WeftCertificates *certificates)
{
    read_again(certificates, FALSE);
}

/* --- noticing --- */

static gboolean
on_settled(gpointer data)
{
    WeftCertificates *certificates = data;
    certificates->timer = 0;
    read_again(certificates, TRUE);
    return G_SOURCE_REMOVE;
}

static gboolean
on_sign(int fd, GIOCondition condition, gpointer data)
{
    WeftCertificates *certificates = data;
    char events[4096];
    while (read(fd, events, sizeof events) > 0)
        continue;
    if (!certificates->timer)
        certificates->timer = g_timeout_add(SETTLE_MS, on_settled, certificates);
    return G_SOURCE_CONTINUE;
}

/* Where this fails SIGHUP still works, and nothing else is the worse for it. */
static void
watch(WeftCertificates *certificates)
{
    certificates->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    for (guint i = 0; certificates->watch >= 0 && i < 2; i++) {
        g_autofree char *folder = g_path_get_dirname(certificates->paths[i]);
        if (inotify_add_watch(certificates->watch, folder, SIGNS | IN_ONLYDIR) < 0)
            g_message("TLS: %s cannot be watched for a new certificate or key; after a change send weftd SIGHUP", folder);
    }
    if (certificates->watch >= 0)
        certificates->source = g_unix_fd_add(certificates->watch, G_IO_IN, on_sign, certificates);
}

/* --- life --- */

WeftCertificates *
weft_certificates_new(const char *certificate_path, const char *key_path, GError **error)
{
    WeftCertificates *certificates = g_new0(WeftCertificates, 1);
    certificates->paths[0] = g_strdup(certificate_path);
    certificates->paths[1] = g_strdup(key_path);
    watch(certificates); /* before they are read: no change is missed */
    if (read_files(certificates, FALSE, error))
        return certificates;
    weft_certificates_free(certificates);
    return NULL;
}

void
weft_certificates_free(WeftCertificates *certificates)
{
    if (!certificates)
        return;
    g_clear_handle_id(&certificates->timer, g_source_remove);
    g_clear_handle_id(&certificates->source, g_source_remove);
    if (certificates->watch >= 0)
        close(certificates->watch);
    g_clear_pointer(&certificates->now, weft_credentials_unref);
    g_free(certificates->tried);
    for (guint i = 0; i < 2; i++)
        g_free(certificates->paths[i]);
    g_free(certificates);
}
