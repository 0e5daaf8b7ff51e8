#include "domain-xml.h"
#include "driver.h"
#include "errors.h"
#include "xml.h"

#include <string.h>

#define PIECE (256u << 10) /* what one message of libvirt's carries */

static const char pool_xml[] = "<pool type='dir'><name>" WEFT_POOL "</name><target><path>" WEFT_POOL_PATH "</path>"
                               "<permissions><mode>0711</mode></permissions></target></pool>";

/* --- the pool --- */

static virStoragePool *
define_pool(virConnect *conn, GError **error)
{
    g_autoptr(virStoragePool) pool = virStoragePoolDefineXML(conn, pool_xml, 0);
    if (!pool) /* somebody else was quicker? */
        pool = virStoragePoolLookupByName(conn, WEFT_POOL);
    if (!pool || virStoragePoolSetAutostart(pool, 1) < 0) {
        weft_vir_fail(error, "making storage pool " WEFT_POOL);
        return NULL;
    }
    return g_steal_pointer(&pool);
}

static gboolean
activate_pool(virStoragePool *pool, GError **error)
{
    if (virStoragePoolIsActive(pool) == 1 || virStoragePoolCreate(pool, VIR_STORAGE_POOL_CREATE_WITH_BUILD) == 0 ||
        virStoragePoolIsActive(pool) == 1)
        return TRUE;
    return weft_vir_fail(error, "starting storage pool " WEFT_POOL " at " WEFT_POOL_PATH);
}

/* Definitions of nodes, images and layers name their files by this folder: a pool of this name that somebody made elsewhere
 * takes them, and QEMU does not find them. */
static gboolean
check_pool(virStoragePool *pool, GError **error)
{
    static const char *const path[] = { "target", "path", NULL };
    char *xml = virStoragePoolGetXMLDesc(pool, 0);
    if (!xml)
        return weft_vir_fail(error, "reading storage pool " WEFT_POOL);
    g_autoptr(xmlDoc) doc = weft_xml_parse(xml, "pool", error);
    free(xml);
    g_autofree char *folder = doc ? weft_xml_content(weft_xml_find(xmlDocGetRootElement(doc), path)) : NULL;
    if (!doc || g_strcmp0(folder, WEFT_POOL_PATH) == 0)
        return doc != NULL;
    return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                             "storage pool " WEFT_POOL " has its files in %s, where weft has them in " WEFT_POOL_PATH
                             "; run on that host: virsh pool-destroy " WEFT_POOL "; virsh pool-undefine " WEFT_POOL
                             " (no file is removed), and weft makes it where it belongs; for another disk, mount it there",
                             folder ? folder : "no folder");
}

static virStoragePool *
find_pool(WeftCall *call, GError **error)
{
    g_autoptr(virStoragePool) pool = virStoragePoolLookupByName(call->conn, WEFT_POOL);
    if (!pool && !weft_vir_failed_with(VIR_ERR_NO_STORAGE_POOL)) {
        weft_vir_fail(error, "looking for storage pool " WEFT_POOL);
        return NULL;
    }
    g_mutex_lock(&call->host->mutex);
    gboolean seen = call->host->pool;
    g_mutex_unlock(&call->host->mutex);
    if (pool && seen)
        return g_steal_pointer(&pool);
    if (!pool && !(pool = define_pool(call->conn, error)))
        return NULL;
    if (!check_pool(pool, error) || !activate_pool(pool, error))
        return NULL;
    g_mutex_lock(&call->host->mutex);
    call->host->pool = call->host->conn != NULL;
    g_mutex_unlock(&call->host->mutex);
    return g_steal_pointer(&pool);
}

/* Asked for once in a call, whose steps each begin with it. */
virStoragePool *
weft_vir_pool(WeftCall *call, GError **error)
{
    if (!call->pool)
        call->pool = find_pool(call, error);
    if (call->pool)
        virStoragePoolRef(call->pool);
    return call->pool;
}

static int
compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

GPtrArray *
weft_vir_volume_names(WeftCall *call, const char *pool_name, GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(virStoragePool) pool = virStoragePoolLookupByName(call->conn, pool_name);
    virStorageVol **volumes = NULL;
    int n = pool ? virStoragePoolListAllVolumes(pool, &volumes, 0) : -1;
    if (n < 0) {
        if (weft_vir_failed_with(VIR_ERR_NO_STORAGE_POOL) || (pool && virStoragePoolIsActive(pool) == 0))
            return g_steal_pointer(&names);
        weft_vir_fail(error, "listing storage pool %s", pool_name);
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        g_ptr_array_add(names, g_strdup(virStorageVolGetName(volumes[i])));
        virStorageVolFree(volumes[i]);
    }
    free(volumes);
    g_ptr_array_sort(names, compare_names);
    return g_steal_pointer(&names);
}

/* --- volumes --- */

virStorageVol *
weft_vir_volume(virStoragePool *pool, const char *name, GError **error)
{
    virStorageVol *volume = virStorageVolLookupByName(pool, name);
    if (!volume && !weft_vir_failed_with(VIR_ERR_NO_STORAGE_VOL))
        weft_vir_fail(error, "looking for volume %s", name);
    return volume;
}

gboolean
weft_vir_volume_remove(virStoragePool *pool, const char *name, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(virStorageVol) volume = weft_vir_volume(pool, name, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (volume && virStorageVolDelete(volume, 0) < 0 && !weft_vir_failed_with(VIR_ERR_NO_STORAGE_VOL))
        return weft_vir_fail(error, "removing volume %s", name);
    return TRUE;
}

gboolean
weft_vir_volume_size(virStorageVol *volume, guint64 *ret_size, GError **error)
{
    virStorageVolInfo info;
    if (virStorageVolGetInfoFlags(volume, &info, VIR_STORAGE_VOL_GET_PHYSICAL) < 0)
        return weft_vir_fail(error, "asking for the size of volume %s", virStorageVolGetName(volume));
    *ret_size = info.allocation;
    return TRUE;
}

char *
weft_vir_volume_xml(const WeftVolume *volume)
{
    g_autofree char *name = weft_xml_escape(volume->name);
    g_autoptr(GString) xml = g_string_new(NULL);
    g_string_append_printf(xml, "<volume><name>%s</name>", name);
    if (volume->capacity || !volume->base)
        g_string_append_printf(xml, "<capacity>%" G_GUINT64_FORMAT "</capacity>", volume->capacity);
    g_string_append_printf(xml,
                           "<allocation>0</allocation><target><format type='%s'/>"
                           "<permissions><mode>0600</mode></permissions></target>",
                           volume->format);
    if (volume->base)
        g_string_append_printf(xml, "<backingStore><path>" WEFT_POOL_PATH "/%s</path><format type='%s'/></backingStore>",
                               volume->base, volume->base_format);
    g_string_append(xml, "</volume>");
    return g_string_free(g_steal_pointer(&xml), FALSE);
}

virStorageVol *
weft_vir_volume_create(virStoragePool *pool, const WeftVolume *volume, GError **error)
{
    g_autofree char *xml = weft_vir_volume_xml(volume);
    virStorageVol *created = virStorageVolCreateXML(pool, xml, 0);
    if (!created)
        weft_vir_fail(error, "making volume %s", volume->name);
    return created;
}

/* --- what is in them --- */

static gboolean
send_piece(virStream *stream, const char *data, gsize length, GError **error)
{
    while (length > 0) {
        int n = virStreamSend(stream, data, length);
        if (n < 0)
            return weft_vir_fail(error, "sending");
        data += n;
        length -= (gsize)n;
    }
    return TRUE;
}

static gboolean
send_all(WeftCall *call, virStream *stream, const WeftFill *fill, GError **error)
{
    g_autofree char *buffer = g_malloc(PIECE);
    for (guint64 at = fill->offset; at < fill->total;) {
        gssize n = fill->source(fill->data, buffer, (gsize)MIN(PIECE, fill->total - at), error);
        if (n < 0 || !send_piece(stream, buffer, (gsize)n, error))
            return FALSE;
        at += (guint64)n;
        if (!weft_call_go_on(call, at, fill->total, error))
            return FALSE;
    }
    return TRUE;
}

gboolean
weft_vir_volume_fill(WeftCall *call, virStorageVol *volume, const WeftFill *fill, GError **error)
{
    const char *name = virStorageVolGetName(volume);
    g_autoptr(virStream) stream = virStreamNew(call->conn, 0);
    if (!stream || virStorageVolUpload(volume, stream, fill->offset, fill->total - fill->offset, 0) < 0)
        return weft_vir_fail(error, "writing volume %s", name);
    if (!send_all(call, stream, fill, error)) {
        g_prefix_error(error, "writing volume %s: ", name);
        virStreamAbort(stream);
        return FALSE;
    }
    if (virStreamFinish(stream) < 0)
        return weft_vir_fail(error, "writing volume %s", name);
    return TRUE;
}

/* --- whose they are --- */

static void
note_made(WeftCall *call, const char *name)
{
    if (!call->made)
        call->made = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(call->made, g_strdup(name));
}

gboolean
weft_vir_mark_make(WeftCall *call, const WeftFileMark *mark, GError **error)
{
    if (!mark->site)
        return TRUE;
    g_autofree char *name = weft_file_mark_name(mark->subject, mark->site, mark->placement);
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    g_autoptr(GError) failed = NULL;
    g_autoptr(virStorageVol) volume = pool ? weft_vir_volume(pool, name, &failed) : NULL;
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (!pool || volume)
        return volume != NULL;
    volume = weft_vir_volume_create(pool, &(WeftVolume){ .name = name, .format = "raw" }, error);
    if (volume)
        note_made(call, name);
    return volume != NULL;
}

gboolean
weft_vir_domain_mark(WeftCall *call, const char *xml, GError **error)
{
    g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(xml, error);
    return facts && weft_vir_mark_make(call, &(WeftFileMark){ facts->name, facts->site, facts->placement }, error);
}

gboolean
weft_vir_marks_remove(WeftCall *call, const char *subject, GError **error)
{
    g_autoptr(GPtrArray) names = weft_vir_volume_names(call, WEFT_POOL, error);
    g_autoptr(virStoragePool) pool = names ? weft_vir_pool(call, error) : NULL;
    gboolean ok = pool != NULL;
    for (guint i = 0; ok && i < names->len; i++) {
        g_autoptr(WeftFileMark) mark = weft_file_mark_read(names->pdata[i]);
        if (mark && g_str_equal(mark->subject, subject))
            ok = weft_vir_volume_remove(pool, names->pdata[i], error);
    }
    return ok;
}

/* --- the files of a domain --- */

static gboolean
make_seed(WeftCall *call, virStoragePool *pool, const char *domain, GBytes *seed, GError **error)
{
    g_autofree char *name = g_strconcat(domain, WEFT_SEED_SUFFIX, NULL);
    g_autoptr(virStorageVol) volume =
        weft_vir_volume_create(pool, &(WeftVolume){ .name = name, .format = "raw", .capacity = g_bytes_get_size(seed) }, error);
    if (!volume)
        return FALSE;
    note_made(call, name);
    return weft_vir_volume_write(call, volume, seed, error);
}

static gboolean
make_disk(WeftCall *call, virStoragePool *pool, const char *domain, const WeftStart *start, GError **error)
{
    g_autofree char *name = g_strconcat(domain, WEFT_DISK_SUFFIX, NULL);
    g_autofree char *base = weft_image_file_name(start->base->digest);
    const WeftVolume disk = {
        .name = name,
        .format = "qcow2",
        .capacity = start->disk_size,
        .base = base,
        .base_format = start->base->format == WEFT_DISK_QCOW2 ? "qcow2" : "raw",
    };
    gboolean ok;
    if (start->origin && start->origin->disk) {
        g_autofree char *from = weft_image_file_name(start->origin->disk->digest);
        ok = weft_vir_disk_copy(call, pool, &disk, from, error);
    } else {
        g_autoptr(virStorageVol) volume = weft_vir_volume_create(pool, &disk, error);
        ok = volume != NULL;
    }
    if (ok)
        note_made(call, name);
    return ok;
}

/* It goes on from its own saved file, and so with its own disk. */
static gboolean
keeps_disk(const WeftStart *start)
{
    return start->origin && !start->origin->saved;
}

static const char *const suffixes[] = { WEFT_SEED_SUFFIX, WEFT_DISK_SUFFIX, WEFT_LAYER_SUFFIX };

gboolean
weft_vir_files_check_none(WeftCall *call, const char *domain, GError **error)
{
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    for (gsize i = 0; pool && i < G_N_ELEMENTS(suffixes); i++) {
        g_autoptr(GError) failed = NULL;
        g_autofree char *name = g_strconcat(domain, suffixes[i], NULL);
        g_autoptr(virStorageVol) volume = weft_vir_volume(pool, name, &failed);
        if (volume)
            return weft_hypervisor_refuse_unclaimed(error, name);
        if (failed) {
            g_propagate_error(error, g_steal_pointer(&failed));
            return FALSE;
        }
    }
    return pool != NULL;
}

static gboolean
remove_files(virStoragePool *pool, const char *domain, gboolean disk_too, GError **error)
{
    for (gsize i = 0; i < (disk_too ? G_N_ELEMENTS(suffixes) : 1); i++) {
        g_autofree char *name = g_strconcat(domain, suffixes[i], NULL);
        if (!weft_vir_volume_remove(pool, name, error))
            return FALSE;
    }
    return TRUE;
}

gboolean
weft_vir_files_make(WeftCall *call, const char *domain, const WeftStart *start, GError **error)
{
    if (!start->seed && !start->base)
        return TRUE;
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    if (!pool || (!start->run && !remove_files(pool, domain, !keeps_disk(start), error)))
        return FALSE; /* with a run there are none, and none may go */
    return (!start->seed || make_seed(call, pool, domain, start->seed, error)) &&
           (!start->base || keeps_disk(start) || make_disk(call, pool, domain, start, error));
}

void
weft_vir_files_unmake(WeftCall *call)
{
    g_autoptr(virStoragePool) pool = call->made ? weft_vir_pool(call, NULL) : NULL;
    for (guint i = pool ? call->made->len : 0; i-- > 0;) /* the mark last: it says whose the others are */
        weft_vir_volume_remove(pool, call->made->pdata[i], NULL);
}

gboolean
weft_vir_files_remove(WeftCall *call, const char *domain, GError **error)
{
    g_autoptr(virStoragePool) pool = weft_vir_pool(call, error);
    return pool && remove_files(pool, domain, TRUE, error);
}
