/* Domains that are put aside, and memory to fork from, as files. */
#include "fake-private.h"

#include "domain-xml.h"
#include "errors.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK 65536
#define SAVED "saved " /* how such a file begins; then the domain, and its definition */
#define PLUGGED_MAX 65536
#define INTERFACE "<interface"
#define INTERFACES "interfaces "
#define UNLINKED "<link state=" /* a definition says so of one that is down only */

static const char *
world_of(WeftHypervisor *hv)
{
    return ((WeftFakeHypervisor *)hv)->world;
}

/* --- saving --- */

/* What was running; NULL: it is not. */
static char *
read_running(const WeftFakeFolder *host, const char *domain, GError **error)
{
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_RUNNING, NULL);
    GError *failed = NULL;
    char *text = weft_fake_read(host, file, WEFT_DOMAIN_XML_MAX, &failed);
    if (!text && !failed)
        g_set_error(&failed, WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "host %s: domain %s is not running", host->host, domain);
    if (failed)
        g_propagate_error(error, failed);
    return text;
}

static guint
count_interfaces(const char *text)
{
    guint n = 0;
    for (const char *at = text; (at = strstr(at, INTERFACE)); at += strlen(INTERFACE))
        n++;
    return n;
}

/* "interfaces 1": how many it has by now, beside those of its definition. */
static char *
devices_of(const WeftFakeFolder *host, const char *domain, const char *running)
{
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_PLUGGED, NULL);
    g_autofree char *plugged = weft_fake_read(host, file, PLUGGED_MAX, NULL);
    /* One whose link was down has got that. */
    gboolean more = plugged && strstr(plugged, "+" WEFT_FAKE_NIC) && !strstr(running, UNLINKED);
    return g_strdup_printf(INTERFACES "%u", count_interfaces(running) + (more ? 1 : 0));
}

gboolean
weft_fake_layer_drop(const WeftFakeFolder *pool, const char *domain, GError **error)
{
    g_autofree char *disk = g_strconcat(domain, WEFT_DISK_SUFFIX, NULL), *layer = g_strconcat(domain, WEFT_LAYER_SUFFIX, NULL);
    g_autofree char *below = weft_fake_read(pool, disk, WEFT_FAKE_DISK_MAX, NULL);
    g_autofree char *above = weft_fake_read(pool, layer, WEFT_FAKE_DISK_MAX, NULL);
    g_autofree char *whole = g_strconcat(below ? below : "", above, NULL);
    return !above || ((!below || !*above || weft_fake_replace(pool, disk, whole, strlen(whole), error)) &&
                      weft_fake_remove(pool, layer, "", error));
}

/* What its guest writes from now on is kept apart. */
static gboolean
lay_over(const WeftFakeFolder *pool, const char *domain, gboolean goes_on, GError **error)
{
    g_autofree char *layer = g_strconcat(domain, WEFT_LAYER_SUFFIX, NULL);
    if (!weft_fake_layer_drop(pool, domain, error))
        return FALSE;
    return !goes_on || !weft_fake_exists(pool, domain, WEFT_DISK_SUFFIX) || weft_fake_replace(pool, layer, "", 0, error);
}

/* A file that is there is the one that was asked for, unless its domain was to be gone and went on from it meanwhile. */
static gboolean
write_saved(const WeftFakeFolder *host, const WeftFakeFolder *pool, const char *domain, gboolean goes_on, guint64 *ret_size,
            GError **error)
{
    g_autofree char *file = g_strconcat(domain, WEFT_SAVED_SUFFIX, NULL);
    g_autofree char *before = weft_fake_read(pool, file, WEFT_DOMAIN_XML_MAX + PLUGGED_MAX, NULL);
    if (before && (goes_on || !weft_fake_exists(host, domain, WEFT_FAKE_RUNNING))) {
        *ret_size = strlen(before);
        return TRUE;
    }
    g_autofree char *running = read_running(host, domain, error);
    if (!running || !weft_fake_check_parted(host, domain, error))
        return FALSE;
    g_autofree char *now = devices_of(host, domain, running);
    g_autofree char *text = g_strdup_printf(SAVED "%s\n%s\n%s", domain, now, running);
    *ret_size = strlen(text);
    g_autoptr(WeftDomainFacts) facts = weft_fake_facts(domain, running);
    return (!facts || weft_fake_mark_make(pool, domain, facts->site, facts->placement, error)) &&
           lay_over(pool, domain, goes_on, error) && weft_fake_replace(pool, file, text, strlen(text), error);
}

static gboolean
check_still(const WeftFakeFolder *host, const char *domain, WeftSaveMode mode, GError **error)
{
    gboolean runs = weft_fake_exists(host, domain, WEFT_FAKE_RUNNING) && !weft_fake_exists(host, domain, WEFT_FAKE_PAUSED);
    return mode != WEFT_SAVE_STILL || !runs ||
           weft_error_refuse(error, WEFT_ERROR_CONFLICT, "host %s: domain %s runs, and was to be saved while it stands still",
                             host->host, domain);
}

gboolean
weft_fake_save(WeftHypervisor *hv, const WeftHostAddress *address, const char *domain, WeftSaveMode mode, WeftSaved *ret_saved,
               GCancellable *cancellable, GError **error)
{
    WeftFakeFolder host, pool;
    gboolean goes_on = mode != WEFT_SAVE_AWAY;
    if (!weft_fake_pass(world_of(hv), address->name, "save", cancellable, error) || !weft_fake_check_name(domain, error) ||
        !weft_fake_folder_lock(world_of(hv), address->name, WEFT_FAKE_DOMAINS, &host, error))
        return FALSE;
    gboolean ok = weft_fake_folder_lock(world_of(hv), address->name, WEFT_FAKE_POOL, &pool, error);
    *ret_saved = (WeftSaved){ 0, goes_on ? 1 : 0 };
    if (ok) {
        ok = check_still(&host, domain, mode, error) && write_saved(&host, &pool, domain, goes_on, &ret_saved->size, error) &&
             (goes_on || weft_fake_remove(&host, domain, WEFT_FAKE_RUNNING, error));
        weft_fake_folder_close(&pool);
    }
    if (ok && !goes_on)
        weft_fake_guests_end(((WeftFakeHypervisor *)hv)->guests, address->name, domain);
    weft_fake_folder_close(&host);
    return ok;
}

/* --- fetching --- */

typedef struct Fetching {
    const WeftFetch *fetch;
    GCancellable *cancellable;
    int from;
    int to;
} Fetching;

/* Tells the digest, which is the caller's. */
static char *
copy_whole(const Fetching *fetching, guint64 *ret_size, GError **error)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    char bytes[CHUNK];
    gssize n;
    *ret_size = 0;
    while ((n = read(fetching->from, bytes, sizeof bytes)) > 0) {
        if (fetching->fetch->most && *ret_size + (guint64)n > fetching->fetch->most) {
            weft_error_refuse(error, WEFT_ERROR_INVALID,
                              "file %s has more than the %" G_GUINT64_FORMAT " bytes that it may have", fetching->fetch->name,
                              fetching->fetch->most);
            return NULL;
        }
        if (!weft_file_write(fetching->to, bytes, (gsize)n)) {
            gboolean full = errno == ENOSPC || errno == EDQUOT;
            weft_error_refuse(error, full ? WEFT_ERROR_EXHAUSTED : WEFT_ERROR_FAILED, "file %s: %s", fetching->fetch->path,
                              g_strerror(errno));
            return NULL;
        }
        if (g_cancellable_is_cancelled(fetching->cancellable)) {
            weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "fetching %s was cancelled", fetching->fetch->name);
            return NULL;
        }
        g_checksum_update(sum, (const guchar *)bytes, n);
        *ret_size += (guint64)n;
        if (fetching->fetch->progress)
            fetching->fetch->progress(*ret_size, *ret_size, fetching->fetch->data);
    }
    if (n < 0) {
        weft_fake_fail(error, "reading", fetching->fetch->name);
        return NULL;
    }
    return g_strdup(g_checksum_get_string(sum));
}

static gboolean
check_room(const Fetching *fetching, GError **error)
{
    struct stat info;
    g_autofree char *folder = g_path_get_dirname(fetching->fetch->path);
    if (fstat(fetching->from, &info) < 0)
        return weft_fake_fail(error, "reading", fetching->fetch->name);
    if (weft_file_check_room(folder, (guint64)info.st_size, fetching->fetch->reserve, error))
        return TRUE;
    g_prefix_error(error, "volume %s: ", fetching->fetch->name);
    return FALSE;
}

static gboolean
fetch_file(Fetching *fetching, WeftImageFile *ret_file, GError **error)
{
    if (!check_room(fetching, error))
        return FALSE;
    fetching->to = open(fetching->fetch->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    if (fetching->to < 0)
        return weft_fake_fail(error, "writing", fetching->fetch->path);
    guint64 size;
    char *digest = copy_whole(fetching, &size, error);
    if (digest && fsync(fetching->to) < 0) {
        weft_fake_fail(error, "writing", fetching->fetch->path);
        g_clear_pointer(&digest, g_free);
    }
    close(fetching->to);
    if (!digest) {
        unlink(fetching->fetch->path);
        return FALSE;
    }
    *ret_file = (WeftImageFile){ .digest = digest, .size = size, .format = WEFT_DISK_RAW };
    return TRUE;
}

gboolean
weft_fake_fetch(WeftHypervisor *hv, const WeftHostAddress *host, const WeftFetch *fetch, WeftImageFile *ret_file,
                GCancellable *cancellable, GError **error)
{
    WeftFakeFolder pool;
    if (!weft_fake_pass(world_of(hv), host->name, "fetch", cancellable, error) || !weft_fake_check_name(fetch->name, error) ||
        !weft_fake_folder_open(world_of(hv), host->name, WEFT_FAKE_POOL, &pool, error))
        return FALSE;
    Fetching fetching = { fetch, cancellable, pool.fd < 0 ? -1 : openat(pool.fd, fetch->name, O_RDONLY | O_CLOEXEC), -1 };
    gboolean ok = fetching.from >= 0 ? fetch_file(&fetching, ret_file, error)
                                     : weft_error_refuse(error, WEFT_ERROR_NOT_FOUND,
                                                         "host %s: there is no file %s in its pool", host->name, fetch->name);
    if (fetching.from >= 0)
        close(fetching.from);
    weft_fake_folder_close(&pool);
    return ok;
}

/* --- memory to fork from --- */

/* "<memory unit='KiB'>4096", as it was written; NULL: nothing. */
static char *
memory_in(const char *text)
{
    const char *from = strstr(text, "<memory "), *to = from ? strstr(from, "</memory>") : NULL;
    return to ? g_strndup(from, (gsize)(to - from)) : NULL;
}

static gboolean
check_text(const char *host, const char *name, const char *saved, const char *xml, GError **error)
{
    g_autofree char *theirs = memory_in(saved);
    g_autofree char *ours = memory_in(xml);
    if (!g_str_has_prefix(saved, SAVED))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "host %s: %s is not a saved domain; save it again", host, name);
    const char *had = strstr(saved, "\n" INTERFACES);
    guint64 interfaces = had ? g_ascii_strtoull(had + 1 + strlen(INTERFACES), NULL, 10) : 0;
    if (interfaces != count_interfaces(xml))
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "host %s: a domain with %u interface cannot go on from a saved one with %" G_GUINT64_FORMAT
                                 "; let it boot",
                                 host, count_interfaces(xml), interfaces);
    return g_strcmp0(theirs, ours) == 0 ||
           weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "host %s: a domain with %s cannot go on from a saved one with %s; let it boot", host,
                             ours ? ours : "no memory", theirs ? theirs : "no memory");
}

/* The saved file is there, or NOT_FOUND, and is one of a domain of this size. */
static gboolean
check_saved(const char *world, const char *host, const char *name, const char *xml, GError **error)
{
    WeftFakeFolder pool;
    if (!weft_fake_folder_open(world, host, WEFT_FAKE_POOL, &pool, error))
        return FALSE;
    g_autofree char *text = pool.fd < 0 ? NULL : weft_fake_read(&pool, name, WEFT_DOMAIN_XML_MAX + PLUGGED_MAX, NULL);
    weft_fake_folder_close(&pool);
    return text ? check_text(host, name, text, xml, error)
                : weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "host %s: there is no %s; bring it first", host, name);
}

static gboolean
prime_locked(const char *world, const WeftFakeFolder *primed, const WeftPrime *prime, GError **error)
{
    const char *digest = prime->saved->digest;
    g_autofree char *name = weft_image_file_name(digest);
    return weft_fake_exists(primed, prime->id, "") || (check_saved(world, primed->host, name, prime->xml, error) &&
                                                       weft_fake_replace(primed, prime->id, digest, strlen(digest), error));
}

gboolean
weft_fake_prime(WeftHypervisor *hv, const WeftHostAddress *host, const WeftPrime *prime, GCancellable *cancellable,
                GError **error)
{
    WeftFakeFolder primed;
    if (!weft_fake_pass(world_of(hv), host->name, "prime", cancellable, error) || !weft_fake_check_name(prime->id, error) ||
        !weft_fake_folder_lock(world_of(hv), host->name, WEFT_FAKE_PRIMED, &primed, error))
        return FALSE;
    gboolean ok = prime_locked(world_of(hv), &primed, prime, error);
    weft_fake_folder_close(&primed);
    return ok;
}

gboolean
weft_fake_unprime(WeftHypervisor *hv, const WeftHostAddress *host, const char *id, GCancellable *cancellable, GError **error)
{
    WeftFakeFolder primed;
    if (!weft_fake_pass(world_of(hv), host->name, "unprime", cancellable, error) || !weft_fake_check_name(id, error) ||
        !weft_fake_folder_open(world_of(hv), host->name, WEFT_FAKE_PRIMED, &primed, error))
        return FALSE;
    gboolean ok = weft_fake_remove(&primed, id, "", error);
    weft_fake_folder_close(&primed);
    return ok;
}

gboolean
weft_fake_list_primed(const char *world, const char *host, GPtrArray *primed, GError **error)
{
    WeftFakeFolder folder;
    if (!weft_fake_folder_open(world, host, WEFT_FAKE_PRIMED, &folder, error))
        return FALSE;
    g_autoptr(GPtrArray) files = weft_fake_files(&folder, error);
    for (guint i = 0; files && i < files->len; i++)
        g_ptr_array_add(primed, g_strdup(files->pdata[i]));
    weft_fake_folder_close(&folder);
    return files != NULL;
}

/* Memory of another saved file would make a guest of nonsense. */
static gboolean
check_primed(const char *world, const char *host, const WeftDomainOrigin *origin, GError **error)
{
    WeftFakeFolder folder;
    if (!weft_fake_folder_open(world, host, WEFT_FAKE_PRIMED, &folder, error))
        return FALSE;
    g_autofree char *digest = folder.fd < 0 ? NULL : weft_fake_read(&folder, origin->primed, CHUNK, NULL);
    weft_fake_folder_close(&folder);
    if (!digest)
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "host %s: there is no memory %s to fork from", host,
                                 origin->primed);
    if (origin->saved && !g_str_equal(digest, origin->saved->digest))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "host %s: the memory %s is of another saved file", host,
                                 origin->primed);
    return TRUE;
}

gboolean
weft_fake_check_origin(const char *world, const char *host, const char *domain, const WeftStart *start, GError **error)
{
    const WeftDomainOrigin *origin = start->origin;
    g_autofree char *name =
        origin->saved ? weft_image_file_name(origin->saved->digest) : g_strconcat(domain, WEFT_SAVED_SUFFIX, NULL);
    return check_saved(world, host, name, start->xml, error) && (!origin->primed || check_primed(world, host, origin, error));
}

/* --- what the guest knows --- */

const char *
weft_fake_lacks(const char *world, const char *host, const char *domain)
{
    WeftFakeFolder folder;
    if (!weft_fake_folder_open(world, host, WEFT_FAKE_DOMAINS, &folder, NULL))
        return NULL;
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_RUNNING, NULL);
    g_autofree char *text = folder.fd < 0 ? NULL : weft_fake_read(&folder, file, WEFT_DOMAIN_XML_MAX, NULL);
    const char *lacks = NULL;
    if (text && weft_fake_exists(&folder, domain, WEFT_FAKE_BLANK))
        lacks = "it does not know yet who it is";
    else if (text && strstr(text, UNLINKED) && !weft_fake_has_plugged(&folder, domain, WEFT_FAKE_NIC))
        lacks = "its network device has no link";
    else if (text && strstr(text, "pcie-root-port") && !strstr(text, INTERFACE) &&
             !weft_fake_has_plugged(&folder, domain, WEFT_FAKE_NIC))
        lacks = "it has no network device";
    weft_fake_folder_close(&folder);
    return lacks;
}

gboolean
weft_fake_is_paused(const char *world, const char *host, const char *domain)
{
    WeftFakeFolder folder;
    if (!weft_fake_folder_open(world, host, WEFT_FAKE_DOMAINS, &folder, NULL))
        return FALSE;
    gboolean paused = folder.fd >= 0 && weft_fake_exists(&folder, domain, WEFT_FAKE_PAUSED);
    weft_fake_folder_close(&folder);
    return paused;
}

void
weft_fake_become(const char *world, const char *host, const char *domain)
{
    WeftFakeFolder folder;
    if (!weft_fake_folder_open(world, host, WEFT_FAKE_DOMAINS, &folder, NULL))
        return;
    if (folder.fd >= 0)
        weft_fake_remove(&folder, domain, WEFT_FAKE_BLANK, NULL);
    weft_fake_folder_close(&folder);
}
