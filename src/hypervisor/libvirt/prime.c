/* Memory to fork from: made by a domain that never runs. */
#include "domain-xml.h"
#include "driver.h"
#include "errors.h"
#include "hook.h"
#include "saved.h"

#include <libvirt/libvirt-qemu.h>
#include <string.h>

#define CACHED_MAX 32 /* states of half a MiB each */
#define WORD_MAX 64
#define MARK_MAX 4096
#define SEED_SIZE 4096 /* of a seed that nobody reads */

/* --- states that were read once --- */

WeftVirPrimed *
weft_vir_primed_ref(WeftVirPrimed *primed)
{
    return g_atomic_rc_box_acquire(primed);
}

static void
primed_clear(gpointer data)
{
    WeftVirPrimed *primed = data;
    g_free(primed->generation);
    g_free(primed->saved);
    g_bytes_unref(primed->state);
}

void
weft_vir_primed_unref(WeftVirPrimed *primed)
{
    g_atomic_rc_box_release_full(primed, primed_clear);
}

/* primed NULL: it is not known any more. */
static void
remember(WeftVirHost *host, const char *id, WeftVirPrimed *primed)
{
    g_mutex_lock(&host->mutex);
    if (g_hash_table_size(host->primed) >= CACHED_MAX)
        g_hash_table_remove_all(host->primed);
    g_hash_table_remove(host->primed, id);
    if (primed)
        g_hash_table_insert(host->primed, g_strdup(id), weft_vir_primed_ref(primed));
    g_mutex_unlock(&host->mutex);
}

static WeftVirPrimed *
recall(WeftVirHost *host, const char *id)
{
    g_mutex_lock(&host->mutex);
    WeftVirPrimed *primed = g_hash_table_lookup(host->primed, id);
    if (primed)
        weft_vir_primed_ref(primed);
    g_mutex_unlock(&host->mutex);
    return primed;
}

/* --- the mark that all of it is there: generation, digest of the saved file, checksum of the state --- */

static char *
mark_text(const WeftVirPrimed *primed)
{
    g_autofree char *sum = g_compute_checksum_for_bytes(G_CHECKSUM_SHA256, primed->state);
    return g_strdup_printf("%s %s %s\n", primed->generation, primed->saved, sum);
}

static WeftVirPrimed *
primed_new(const char *generation, const char *saved, GBytes *state)
{
    WeftVirPrimed *primed = g_atomic_rc_box_new0(WeftVirPrimed);
    *primed = (WeftVirPrimed){ g_strdup(generation), g_strdup(saved), g_bytes_ref(state) };
    return primed;
}

/* NULL without an error: there is none. */
static GBytes *
read_volume(WeftCall *call, const char *id, const char *suffix, guint64 max, GError **error)
{
    g_autofree char *name = g_strconcat(id, suffix, NULL);
    g_autoptr(virStoragePool) pool = weft_vir_fork_pool(call, error);
    g_autoptr(virStorageVol) volume = pool ? weft_vir_volume(pool, name, error) : NULL;
    return volume ? weft_vir_volume_read(call, volume, 0, max, error) : NULL;
}

static WeftVirPrimed *
read_primed(WeftCall *call, const char *id, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(GBytes) mark = read_volume(call, id, WEFT_FORK_WHOLE, MARK_MAX, &failed);
    g_autoptr(GBytes) state = mark ? read_volume(call, id, WEFT_FORK_STATE, WEFT_SAVED_STATE_MAX, &failed) : NULL;
    if (!state && !failed)
        weft_error_refuse(&failed, WEFT_ERROR_NOT_FOUND, "there is no memory %s to fork from; prime it first", id);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return NULL;
    }
    g_autofree char *text = g_strndup(g_bytes_get_data(mark, NULL), g_bytes_get_size(mark));
    g_auto(GStrv) words = g_strsplit(text, " ", 3);
    g_autoptr(WeftVirPrimed) primed = g_strv_length(words) == 3 ? primed_new(words[0], words[1], state) : NULL;
    g_autofree char *expected = primed ? mark_text(primed) : NULL;
    if (g_strcmp0(expected, text) == 0)
        return g_steal_pointer(&primed);
    weft_error_refuse(error, WEFT_ERROR_INVALID, "the state of memory %s to fork from is damaged; prime it again", id);
    return NULL;
}

WeftVirPrimed *
weft_vir_primed_get(WeftCall *call, const char *id, const char *saved, GError **error)
{
    g_autoptr(WeftVirPrimed) primed = recall(call->host, id);
    if (!primed) {
        primed = read_primed(call, id, error);
        if (!primed)
            return NULL;
        remember(call->host, id, primed);
    }
    if (!saved || g_str_equal(primed->saved, saved))
        return g_steal_pointer(&primed);
    weft_error_refuse(error, WEFT_ERROR_INVALID, "memory %s to fork from was made of %s, not of %s; prime it again", id,
                      primed->saved, saved);
    return NULL;
}

/* --- prime --- */

typedef struct Priming {
    char *id;
    char *domain;
    char *xml;
    char *generation;
    WeftImageFile saved;
} Priming;

static void
priming_free(gpointer data)
{
    Priming *priming = data;
    g_free(priming->id);
    g_free(priming->domain);
    g_free(priming->xml);
    g_free(priming->generation);
    g_free(priming->saved.digest);
    g_free(priming);
}

static gboolean
check_id(const char *id, GError **error)
{
    gsize length = strspn(id, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-");
    return (length > 0 && length <= WORD_MAX && !id[length]) ||
           weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "memory to fork from cannot be called \"%s\"; use up to %d letters, digits and \"-\"", id,
                             WORD_MAX);
}

static gboolean
share_memory(virDomain *domain, gboolean ignored, GError **error)
{
    char *answer = NULL;
    g_autofree char *command = g_strdup_printf("{\"execute\":\"migrate-set-capabilities\",\"arguments\":{\"capabilities\":"
                                               "[{\"capability\":\"x-ignore-shared\",\"state\":%s}]}}",
                                               ignored ? "true" : "false");
    int status = virDomainQemuMonitorCommand(domain, command, &answer, 0);
    gboolean refused = status == 0 && answer && strstr(answer, "\"error\"");
    free(answer);
    if (refused)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "QEMU of domain %s has no x-ignore-shared: let nodes boot",
                                 virDomainGetName(domain));
    return status == 0 || weft_vir_fail(error, "asking QEMU of domain %s", virDomainGetName(domain));
}

gboolean
weft_vir_share_nothing(virDomain *domain, GError **error)
{
    char *live = virDomainGetXMLDesc(domain, 0);
    gboolean forked = live && strstr(live, WEFT_MEMORY_NAMESPACE);
    free(live);
    return !forked || share_memory(domain, FALSE, error);
}

/* The domain stands still with its memory in the file: all else of it goes into the state, and it ends. */
static gboolean
save_state(WeftCall *call, const Priming *priming, GError **error)
{
    g_autofree char *name = g_strconcat(priming->id, WEFT_FORK_STATE, NULL);
    g_autofree char *path = g_build_filename(WEFT_FORK_PATH, name, NULL);
    g_autoptr(virStoragePool) pool = weft_vir_fork_pool(call, error);
    g_autoptr(virDomain) domain = pool ? weft_vir_domain_running(call, priming->domain, error) : NULL;
    if (!domain || !share_memory(domain, TRUE, error) || !weft_vir_volume_make(call, pool, name, NULL, error))
        return FALSE;
    return virDomainSaveFlags(domain, path, NULL, VIR_DOMAIN_SAVE_RUNNING) == 0 ||
           weft_vir_fail(error, "saving domain %s", priming->domain);
}

static gboolean
mark_whole(WeftCall *call, const Priming *priming, GError **error)
{
    g_autofree char *name = g_strconcat(priming->id, WEFT_FORK_WHOLE, NULL);
    g_autoptr(GBytes) state = read_volume(call, priming->id, WEFT_FORK_STATE, WEFT_SAVED_STATE_MAX, error);
    g_autoptr(virStoragePool) pool = state ? weft_vir_fork_pool(call, error) : NULL;
    if (!pool)
        return FALSE;
    g_autoptr(WeftVirPrimed) primed = primed_new(priming->generation, priming->saved.digest, state);
    char *text = mark_text(primed);
    g_autoptr(GBytes) mark = g_bytes_new_take(text, strlen(text));
    if (!weft_vir_volume_make(call, pool, name, mark, error))
        return FALSE;
    remember(call->host, priming->id, primed);
    return TRUE;
}

/* The disks of a domain that never runs need only be there. */
static gboolean
make_memory(WeftCall *call, const Priming *priming, GError **error)
{
    g_autoptr(GBytes) seed = g_bytes_new_take(g_malloc0(SEED_SIZE), SEED_SIZE);
    const WeftSavedMemory memory = { priming->id, priming->generation, TRUE };
    const WeftRestore restore = {
        .domain = priming->domain, .xml = priming->xml, .digest = priming->saved.digest, .memory = &memory, .paused = TRUE
    };
    return weft_vir_domain_mark(call, priming->xml, error) &&
           weft_vir_files_make(call, priming->domain, &(WeftStart){ .seed = seed }, error) &&
           weft_vir_restore_copy(call, &restore, error) && save_state(call, priming, error) && mark_whole(call, priming, error);
}

static gboolean
end_maker(WeftCall *call, const Priming *priming, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(virDomain) domain = weft_vir_domain_find(call, priming->domain, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    return (!domain || weft_vir_domain_end(domain, error)) && weft_vir_files_remove(call, priming->domain, error) &&
           weft_vir_saved_remove(call, priming->domain, error) && weft_vir_marks_remove(call, priming->domain, error);
}

/* First what says that it is whole. */
static gboolean
remove_primed(WeftCall *call, const char *id, GError **error)
{
    g_autofree char *mark = g_strconcat(id, WEFT_FORK_WHOLE, NULL);
    g_autofree char *state = g_strconcat(id, WEFT_FORK_STATE, NULL);
    g_autoptr(virStoragePool) pool = weft_vir_fork_pool(call, error);
    remember(call->host, id, NULL);
    return pool && weft_vir_volume_remove(pool, mark, error) && weft_vir_volume_remove(pool, state, error);
}

static gboolean
is_primed(WeftCall *call, const char *id, gboolean *ret_is, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(GBytes) mark = read_volume(call, id, WEFT_FORK_WHOLE, MARK_MAX, &failed);
    *ret_is = mark != NULL;
    if (failed)
        g_propagate_error(error, g_steal_pointer(&failed));
    return *ret_is || !*error;
}

static gboolean
run_prime(WeftCall *call, GError **error)
{
    const Priming *priming = call->args;
    gboolean there;
    if (!is_primed(call, priming->id, &there, error))
        return FALSE;
    if (there)
        return TRUE;
    if (!weft_vir_images_check(call, priming->xml, &priming->saved, error) || !end_maker(call, priming, error) ||
        !remove_primed(call, priming->id, error))
        return FALSE;
    if (make_memory(call, priming, error))
        return end_maker(call, priming, error);
    remove_primed(call, priming->id, NULL);
    end_maker(call, priming, NULL);
    return FALSE;
}

gboolean
weft_vir_prime(WeftHypervisor *hv, const WeftHostAddress *host, const WeftPrime *prime, GCancellable *cancellable,
               GError **error)
{
    g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(prime->xml, error);
    if (!facts || !check_id(prime->id, error) || !weft_digest_check(prime->saved->digest, error)) {
        g_prefix_error(error, "host %s: ", host->name);
        return FALSE;
    }
    Priming *priming = g_new0(Priming, 1);
    *priming = (Priming){ g_strdup(prime->id), g_steal_pointer(&facts->name), g_strdup(prime->xml), g_uuid_string_random(),
                          *prime->saved };
    priming->saved.digest = g_strdup(prime->saved->digest);
    g_autofree char *about = weft_vir_about_domain(priming->domain);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_prime, priming, priming_free);
    return weft_call_wait(call, about, cancellable, error);
}

/* --- unprime --- */

/* The hook removes the memory when it is next run: asked for a report, it is at once. */
static gboolean
run_unprime(WeftCall *call, GError **error)
{
    if (!remove_primed(call, call->args, error))
        return FALSE;
    weft_vir_tidy(call);
    return TRUE;
}

gboolean
weft_vir_unprime(WeftHypervisor *hv, const WeftHostAddress *host, const char *id, GCancellable *cancellable, GError **error)
{
    if (!check_id(id, error)) {
        g_prefix_error(error, "host %s: ", host->name);
        return FALSE;
    }
    g_autofree char *about = g_strdup_printf("memory %s", id);
    g_autoptr(WeftCall) call = weft_call_new(hv, host, run_unprime, g_strdup(id), g_free);
    return weft_call_wait(call, about, cancellable, error);
}
