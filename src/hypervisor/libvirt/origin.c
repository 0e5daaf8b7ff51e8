/* Domains that go on from a saved file, or are forked from memory that was primed. */
#include "driver.h"
#include "errors.h"
#include "hook.h"
#include "saved.h"

#include <libvirt/libvirt-qemu.h>
#include <stdlib.h>
#include <string.h>

#define COPY_SUFFIX ".state"       /* … of a domain's name: a saved file with its definition, while it is restored */
#define FORK_SUFFIX WEFT_FORK_TAIL /* the same in the pool for forks, without memory */

/* --- links that are to be down ---
 *
 * QEMU takes the state of a link from what was saved, and not from libvirt, which has said before that it is down, and will not
 * say so again. So it is said once more before the guest runs. */

static gboolean
unlink_device(virDomain *domain, const char *alias, GError **error)
{
    char *answer = NULL;
    g_autofree char *command =
        g_strdup_printf("{\"execute\":\"set_link\",\"arguments\":{\"name\":\"%s\",\"up\":false}}", alias);
    int status = virDomainQemuMonitorCommand(domain, command, &answer, 0);
    gboolean refused = status == 0 && answer && strstr(answer, "\"error\"");
    free(answer);
    if (refused)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "QEMU does not take down the link of device %s of domain %s", alias,
                                 virDomainGetName(domain));
    return status == 0 || weft_vir_fail(error, "asking QEMU of domain %s", virDomainGetName(domain));
}

/* It stands still. */
static gboolean
unlink_devices(WeftCall *call, const WeftRestore *wanted, const GPtrArray *aliases, GError **error)
{
    g_autoptr(virDomain) domain = weft_vir_domain_running(call, wanted->domain, error);
    gboolean ok = domain != NULL;
    for (guint i = 0; ok && i < aliases->len; i++)
        ok = unlink_device(domain, aliases->pdata[i], error);
    if (ok && !wanted->paused && virDomainResume(domain) < 0)
        ok = weft_vir_fail(error, "resuming domain %s", wanted->domain);
    if (domain && !ok)
        weft_vir_domain_end(domain, NULL);
    return ok;
}

static gboolean
unlink_waiting(WeftCall *call, const WeftRestore *wanted, GError **error)
{
    int state = 0;
    g_autoptr(GPtrArray) unlinked = weft_saved_unlinked(wanted->xml);
    g_autoptr(virDomain) domain = unlinked->len ? weft_vir_domain_running(call, wanted->domain, error) : NULL;
    if (!unlinked->len)
        return TRUE;
    if (!domain || virDomainGetState(domain, &state, NULL, 0) < 0)
        return domain ? weft_vir_fail(error, "asking for the state of domain %s", wanted->domain) : FALSE;
    return state != VIR_DOMAIN_PAUSED || unlink_devices(call, wanted, unlinked, error);
}

static gboolean
restore(WeftCall *call, const char *folder, const char *name, const WeftRestore *wanted, GError **error)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_autoptr(GPtrArray) unlinked = weft_saved_unlinked(wanted->xml);
    gboolean paused = wanted->paused || unlinked->len;
    if (!weft_call_go_on(call, 0, 0, error))
        return FALSE;
    if (virDomainRestoreFlags(call->conn, path, NULL, paused ? VIR_DOMAIN_SAVE_PAUSED : VIR_DOMAIN_SAVE_RUNNING) < 0)
        return weft_vir_fail(error, "going on from %s", name);
    return unlink_waiting(call, wanted, error);
}

/* --- from a file that holds its memory --- */

/* Gives the saved file in a volume another definition, in the room that the old one has. */
static gboolean
redefine(WeftCall *call, virStorageVol *volume, const char *xml, const WeftSavedMemory *memory, GError **error)
{
    WeftSavedHead head;
    g_autoptr(GBytes) front = weft_vir_saved_front(call, volume, &head, error);
    const guint8 *data = front ? (const guint8 *)g_bytes_get_data(front, NULL) + WEFT_SAVED_HEAD : NULL;
    g_autofree char *saved = front ? weft_saved_xml(&head, data, error) : NULL;
    g_autofree char *definition = saved ? weft_saved_definition(saved, xml, memory, error) : NULL;
    g_autoptr(GBytes) fresh = definition ? weft_saved_front(&head, data, definition, head.length, error) : NULL;
    return fresh && weft_vir_volume_write(call, volume, fresh, error);
}

/* Whoever has the file under its digest must find it unchanged: so it is copied on the host, where the file system can without
 * copying its bytes. */
static virStorageVol *
copy_saved(virStoragePool *pool, const char *digest, const char *name, GError **error)
{
    g_autofree char *from = weft_image_file_name(digest);
    g_autofree char *xml = weft_vir_volume_xml(&(WeftVolume){ .name = name, .format = "raw" });
    if (!weft_vir_volume_remove(pool, name, error))
        return NULL;
    g_autoptr(virStorageVol) origin = weft_vir_volume(pool, from, error);
    if (!origin)
        return NULL;
    virStorageVol *copy = virStorageVolCreateXMLFrom(pool, xml, origin, VIR_STORAGE_VOL_CREATE_REFLINK);
    if (!copy)
        copy = virStorageVolCreateXMLFrom(pool, xml, origin, 0);
    if (!copy)
        weft_vir_fail(error, "copying %s to %s", from, name);
    return copy;
}

gboolean
weft_vir_restore_copy(WeftCall *call, const WeftRestore *wanted, GError **error)
{
    g_autofree char *name = g_strconcat(wanted->domain, COPY_SUFFIX, NULL);
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    g_autoptr(virStorageVol) copy = pool ? copy_saved(pool, wanted->digest, name, error) : NULL;
    gboolean ok =
        copy && redefine(call, copy, wanted->xml, wanted->memory, error) && restore(call, WEFT_POOL_PATH, name, wanted, error);
    if (pool)
        weft_vir_volume_remove(pool, name, NULL);
    return ok;
}

static gboolean
restore_own(WeftCall *call, const WeftRestore *wanted, GError **error)
{
    g_autofree char *name = g_strconcat(wanted->domain, WEFT_SAVED_SUFFIX, NULL);
    g_autoptr(GError) failed = NULL;
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, &failed);
    g_autoptr(virStorageVol) own = pool ? weft_vir_volume(pool, name, &failed) : NULL;
    if (!own && !failed)
        weft_error_refuse(&failed, WEFT_ERROR_NOT_FOUND, "there is no %s; save the domain first", name);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    return redefine(call, own, wanted->xml, NULL, error) && restore(call, WEFT_POOL_PATH, name, wanted, error) &&
           weft_vir_volume_remove(pool, name, error);
}

/* --- from primed memory --- */

/* The primed state with the definition of a fork. */
static GBytes *
fork_state(const WeftVirPrimed *primed, const WeftRestore *wanted, GError **error)
{
    gsize length;
    const guint8 *bytes = g_bytes_get_data(primed->state, &length);
    const WeftSavedMemory memory = { wanted->primed, primed->generation, FALSE };
    WeftSavedHead head;
    if (!weft_saved_head_read(bytes, length, &head, error))
        return NULL;
    const guint8 *data = bytes + WEFT_SAVED_HEAD, *rest = data + head.length;
    g_autofree char *saved = rest <= bytes + length ? weft_saved_xml(&head, data, error) : NULL;
    g_autofree char *definition = saved ? weft_saved_definition(saved, wanted->xml, &memory, error) : NULL;
    g_autoptr(GBytes) front = definition ? weft_saved_front(&head, data, definition, 0, error) : NULL;
    if (!front)
        return NULL;
    GByteArray *whole = g_bytes_unref_to_array(g_steal_pointer(&front));
    g_byte_array_append(whole, rest, (guint)(bytes + length - rest));
    return g_byte_array_free_to_bytes(whole);
}

static gboolean
fork_domain(WeftCall *call, const WeftRestore *wanted, GError **error)
{
    g_autofree char *name = g_strconcat(wanted->domain, FORK_SUFFIX, NULL);
    g_autoptr(WeftVirPrimed) primed = weft_vir_primed_get(call, wanted->primed, wanted->digest, error);
    g_autoptr(GBytes) state = primed ? fork_state(primed, wanted, error) : NULL;
    g_autoptr(virStoragePool) pool = state ? weft_vir_fork_pool(call, error) : NULL;
    if (!pool)
        return FALSE;
    gboolean ok = weft_vir_volume_make(call, pool, name, state, error) && restore(call, WEFT_FORK_PATH, name, wanted, error);
    weft_vir_volume_remove(pool, name, NULL);
    return ok;
}

/* libvirt says of one that was restored standing still that a migration has halted it, as of one that is being moved. */
static gboolean
mark_waiting(WeftCall *call, const WeftRestore *wanted, GError **error)
{
    int state = 0;
    g_autoptr(virDomain) domain = wanted->paused ? weft_vir_domain_running(call, wanted->domain, error) : NULL;
    if (!wanted->paused || !domain)
        return !wanted->paused;
    if (virDomainGetState(domain, &state, NULL, 0) < 0)
        return weft_vir_fail(error, "asking for the state of domain %s", wanted->domain);
    return state != VIR_DOMAIN_PAUSED || weft_vir_set_waiting(domain, TRUE, error);
}

gboolean
weft_vir_go_on(WeftCall *call, const WeftRestore *wanted, GError **error)
{
    gboolean ok = wanted->primed   ? fork_domain(call, wanted, error)
                  : wanted->digest ? weft_vir_restore_copy(call, wanted, error)
                                   : restore_own(call, wanted, error);
    return ok && mark_waiting(call, wanted, error);
}

gboolean
weft_vir_gone_on(WeftCall *call, const WeftRestore *wanted, GError **error)
{
    return unlink_waiting(call, wanted, error) && mark_waiting(call, wanted, error);
}

/* --- what is left of them --- */

gboolean
weft_vir_saved_remove(WeftCall *call, const char *domain, GError **error)
{
    g_autofree char *saved = g_strconcat(domain, WEFT_SAVED_SUFFIX, NULL);
    g_autofree char *copy = g_strconcat(domain, COPY_SUFFIX, NULL);
    g_autofree char *fork = g_strconcat(domain, FORK_SUFFIX, NULL);
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    g_autoptr(virStoragePool) forks = pool ? weft_vir_fork_pool(call, error) : NULL;
    return forks && weft_vir_volume_remove(pool, saved, error) && weft_vir_volume_remove(pool, copy, error) &&
           weft_vir_volume_remove(forks, fork, error);
}
