/* A domain's own disk, and the layer over it that the domain writes to from the moment that it was saved: what is below stays
 * as it was then, and nothing of it is copied while the domain stands still. */
#include "driver.h"
#include "errors.h"
#include "image-head.h"

#include <string.h>

#define LOOK (20 * 1000) /* microseconds, between looks whether all is below */

void
weft_own_disk_clear(WeftOwnDisk *disk)
{
    g_clear_pointer(&disk->target, g_free);
}

gboolean
weft_vir_own_disk(virDomain *domain, WeftOwnDisk *ret_disk, GError **error)
{
    static const char *const way[] = { "devices", "disk", NULL };
    char *live = virDomainGetXMLDesc(domain, 0);
    g_autoptr(xmlDoc) doc = live ? weft_xml_parse(live, "domain", error) : NULL;
    *ret_disk = (WeftOwnDisk){ 0 };
    if (!live)
        return weft_vir_fail(error, "asking for the definition of domain %s", virDomainGetName(domain));
    free(live);
    for (const xmlNode *disk = doc ? weft_xml_find(xmlDocGetRootElement(doc), way) : NULL; disk && !ret_disk->target;
         disk = weft_xml_next(disk, "disk")) {
        g_autofree char *file = weft_xml_get(weft_xml_child(disk, "source"), "file");
        ret_disk->layered = file && g_str_has_suffix(file, WEFT_LAYER_SUFFIX);
        if (ret_disk->layered || (file && g_str_has_suffix(file, WEFT_DISK_SUFFIX)))
            ret_disk->target = weft_xml_get(weft_xml_child(disk, "target"), "dev");
    }
    return doc != NULL;
}

static gboolean
size_of(virDomain *domain, const char *target, guint64 *ret_size, GError **error)
{
    virDomainBlockInfo info;
    if (virDomainGetBlockInfo(domain, target, &info, 0) < 0)
        return weft_vir_fail(error, "asking for the size of disk %s of domain %s", target, virDomainGetName(domain));
    *ret_size = info.capacity;
    return TRUE;
}

/* Its size is told: whoever makes it would else open the disk, which QEMU has locked. */
gboolean
weft_vir_layer_make(virStoragePool *pool, virDomain *domain, const WeftOwnDisk *disk, GError **error)
{
    g_autofree char *name = g_strconcat(virDomainGetName(domain), WEFT_LAYER_SUFFIX, NULL);
    g_autofree char *base = g_strconcat(virDomainGetName(domain), WEFT_DISK_SUFFIX, NULL);
    WeftVolume layer = { .name = name, .format = "qcow2", .base = base, .base_format = "qcow2" };
    if (!size_of(domain, disk->target, &layer.capacity, error) || !weft_vir_volume_remove(pool, name, error))
        return FALSE;
    g_autoptr(virStorageVol) volume = weft_vir_volume_create(pool, &layer, error);
    return volume != NULL;
}

/* One that a weftd before us began goes on by itself. */
static gboolean
begin_merge(virDomain *domain, const char *target, GError **error)
{
    virDomainBlockJobInfo info;
    g_autofree char *base = g_strconcat(WEFT_POOL_PATH "/", virDomainGetName(domain), WEFT_DISK_SUFFIX, NULL);
    if (virDomainGetBlockJobInfo(domain, target, &info, 0) > 0 ||
        virDomainBlockCommit(domain, target, base, NULL, 0, VIR_DOMAIN_BLOCK_COMMIT_ACTIVE) == 0)
        return TRUE;
    return weft_vir_fail(error, "merging the layer of disk %s of domain %s", target, virDomainGetName(domain));
}

/* What is written is in both from the moment that all was copied down; then the domain changes over. */
static gboolean
merge(WeftCall *call, virDomain *domain, const char *target, GError **error)
{
    virDomainBlockJobInfo info = { 0 };
    if (!begin_merge(domain, target, error))
        return FALSE;
    while (virDomainBlockJobAbort(domain, target, VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT) < 0) {
        if (!weft_vir_failed_with(VIR_ERR_BLOCK_COPY_ACTIVE))
            return weft_vir_fail(error, "merging the layer of disk %s of domain %s, which had no room or was broken off",
                                 target, virDomainGetName(domain));
        g_usleep(LOOK);
        virDomainGetBlockJobInfo(domain, target, &info, 0);
        if (!weft_call_go_on(call, info.cur, info.end, error))
            return FALSE;
    }
    return TRUE;
}

gboolean
weft_vir_layer_drop(WeftCall *call, virDomain *domain, GError **error)
{
    g_autofree char *name = g_strconcat(virDomainGetName(domain), WEFT_LAYER_SUFFIX, NULL);
    g_auto(WeftOwnDisk) disk = { 0 };
    g_autoptr(virStoragePool) pool = NULL;
    if (!weft_vir_own_disk(domain, &disk, error) || (disk.layered && !merge(call, domain, disk.target, error)))
        return FALSE;
    if (!disk.target)
        return TRUE;
    pool = weft_vir_pool(call, error);
    return pool && weft_vir_volume_remove(pool, name, error);
}

/* --- one that is a copy --- */

/* What was sent to a volume libvirt looks at later, by itself or when asked. */
static gboolean
is_layer(virStorageVol *volume)
{
    static const char *const way[] = { "target", "format", NULL };
    char *text = virStorageVolGetXMLDesc(volume, 0);
    g_autoptr(xmlDoc) doc = text ? weft_xml_parse(text, "volume", NULL) : NULL;
    free(text);
    g_autofree char *format = doc ? weft_xml_get(weft_xml_find(xmlDocGetRootElement(doc), way), "type") : NULL;
    return g_strcmp0(format, "qcow2") == 0;
}

/* NULL without an error: there is none. */
static virStorageVol *
find_layer(virStoragePool *pool, const char *name, GError **error)
{
    g_autoptr(virStorageVol) volume = weft_vir_volume(pool, name, error);
    if (!volume || is_layer(volume))
        return g_steal_pointer(&volume);
    if (virStoragePoolRefresh(pool, 0) < 0) {
        weft_vir_fail(error, "looking at storage pool " WEFT_POOL " again");
        return NULL;
    }
    virStorageVolFree(g_steal_pointer(&volume));
    volume = weft_vir_volume(pool, name, error);
    if (!volume || is_layer(volume))
        return g_steal_pointer(&volume);
    weft_error_refuse(error, WEFT_ERROR_INVALID, "%s is not a domain's own disk; save it again", name);
    return NULL;
}

/* Whoever opens it opens what it leads to: that may be the image alone. */
static gboolean
check_head(WeftCall *call, virStorageVol *volume, const char *base, GError **error)
{
    gsize length = 0;
    guint64 size = 0;
    g_autofree char *path = g_build_filename(WEFT_POOL_PATH, base, NULL);
    if (!weft_vir_volume_size(volume, &size, error))
        return FALSE;
    size = MIN(size, WEFT_LAYER_HEAD_LENGTH);
    g_autoptr(GBytes) head = weft_vir_volume_read(call, volume, size, size, error);
    const guint8 *bytes = head ? g_bytes_get_data(head, &length) : NULL;
    return bytes && weft_image_layer_check(path, bytes, length, error);
}

gboolean
weft_vir_disk_copy(WeftCall *call, virStoragePool *pool, const WeftVolume *volume, const char *from, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autofree char *xml = weft_vir_volume_xml(volume);
    g_autoptr(virStorageVol) origin = find_layer(pool, from, &failed);
    if (!origin && !failed)
        weft_error_refuse(&failed, WEFT_ERROR_NOT_FOUND, "there is no %s; bring it first", from);
    if (failed || !check_head(call, origin, volume->base, &failed)) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    g_autoptr(virStorageVol) copy = virStorageVolCreateXMLFrom(pool, xml, origin, 0);
    return copy || weft_vir_fail(error, "copying %s to %s", from, volume->name);
}
