#include "domain-xml-private.h"
#include "errors.h"
#include "size.h"
#include "topology.h"

#include <stdio.h>
#include <string.h>

#define MIB (1ULL << 20)
#define VXLAN_LAST 0xffffff
/* More need an emulated IOMMU with extended interrupts, which would slow down every device that is passed through. */
#define VCPUS_MAX 255
#define ELSEWHERE "correct the host's description, or place the node elsewhere"

static gboolean refuse(const WeftDomainSpec *spec, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);

static gboolean
refuse(const WeftDomainSpec *spec, GError **error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *what = g_strdup_vprintf(format, args);
    va_end(args);
    return weft_error_refuse(error, WEFT_ERROR_INVALID, "node %s on host %s: %s", spec->node->id, spec->host->name, what);
}

/* --- cores and memory --- */

static gboolean
check_place(const WeftDomainSpec *spec, GError **error)
{
    if (g_str_equal(spec->node->host, spec->host->name))
        return TRUE;
    return refuse(spec, error, "it was placed on host %s; describe it for that one", spec->node->host);
}

static gboolean
check_core(const WeftDomainSpec *spec, guint index, GError **error)
{
    const guint16 *ids = (const guint16 *)(gpointer)spec->node->cores->data;
    guint16 id = ids[index];
    if (id >= spec->host->cores->len)
        return refuse(spec, error, "there is no core %u; " ELSEWHERE, id);
    if (index > 0 && id <= ids[index - 1])
        return refuse(spec, error, "core %u stands there twice or out of order; name each once, ascending", id);
    if (g_array_index(spec->host->cores, WeftCore, id).housekeeping)
        return refuse(spec, error, "core %u is kept for the host; " ELSEWHERE, id);
    return TRUE;
}

static gboolean
check_cores(const WeftDomainSpec *spec, GError **error)
{
    if (spec->node->cores->len == 0)
        return refuse(spec, error, "it has no core; a domain needs one");
    for (guint i = 0; i < spec->node->cores->len; i++) {
        if (!check_core(spec, i, error))
            return FALSE;
    }
    guint vcpus = weft_domain_vcpus(spec);
    if (vcpus > VCPUS_MAX)
        return refuse(spec, error, "its cores have %u hardware threads, and a node at most %u; ask for fewer cores", vcpus,
                      VCPUS_MAX);
    return TRUE;
}

static guint64
pages_of_host(const WeftNuma *numa, guint64 size)
{
    for (guint i = 0; i < numa->n_pages; i++) {
        if (numa->pages[i].size == size)
            return numa->pages[i].count;
    }
    return 0;
}

static gboolean
check_pages(const WeftDomainSpec *spec, const WeftMemory *memory, GError **error)
{
    g_autoptr(GError) wrong = NULL;
    if (!weft_page_size_check(memory->page_size, &wrong))
        return refuse(spec, error, "%s", wrong->message);
    if (memory->numa >= spec->host->numa->len)
        return refuse(spec, error, "there is no NUMA node %u; " ELSEWHERE, memory->numa);

    g_autofree char *size = weft_size_format(memory->page_size);
    guint64 there = pages_of_host(&g_array_index(spec->host->numa, WeftNuma, memory->numa), memory->page_size);
    if (memory->pages == 0)
        return refuse(spec, error, "no pages of %s on NUMA node %u; leave that NUMA node out", size, memory->numa);
    if (memory->pages > there)
        return refuse(spec, error,
                      "%" G_GUINT64_FORMAT " pages of %s on NUMA node %u, which has %" G_GUINT64_FORMAT "; " ELSEWHERE,
                      memory->pages, size, memory->numa, there);
    /* libvirt would round it up, to more than the node holds. */
    if (memory->pages * memory->page_size % MIB != 0)
        return refuse(spec, error, "%" G_GUINT64_FORMAT " pages of %s on NUMA node %u are not whole MiB; ask for whole ones",
                      memory->pages, size, memory->numa);
    return TRUE;
}

static gboolean
check_memory(const WeftDomainSpec *spec, GError **error)
{
    const GArray *memory = spec->node->memory;
    if (memory->len == 0)
        return refuse(spec, error, "it has no memory; a domain needs some");
    for (guint i = 0; i < memory->len; i++) {
        const WeftMemory *part = &g_array_index(memory, WeftMemory, i);
        if (!check_pages(spec, part, error))
            return FALSE;
        for (guint j = 0; j < i; j++) {
            if (g_array_index(memory, WeftMemory, j).numa == part->numa)
                return refuse(spec, error, "memory of NUMA node %u twice; a guest's cell has pages of one size", part->numa);
        }
    }
    return TRUE;
}

int
weft_domain_cell(const WeftDomainSpec *spec, guint numa)
{
    const GArray *memory = spec->node->memory;
    for (guint i = 0; memory->len > 1 && i < memory->len; i++) {
        if (g_array_index(memory, WeftMemory, i).numa == numa)
            return (int)i;
    }
    return -1;
}

/* --- network --- */

static gboolean
is_unicast(const char *mac)
{
    static const char form[] = "xx:xx:xx:xx:xx:xx";
    if (strlen(mac) != strlen(form) || g_str_equal(mac, "00:00:00:00:00:00"))
        return FALSE;
    for (gsize i = 0; form[i]; i++) {
        if (form[i] == ':' ? mac[i] != ':' : !g_ascii_isxdigit(mac[i]))
            return FALSE;
    }
    return g_ascii_xdigit_value(mac[1]) % 2 == 0;
}

static gboolean
check_network(const WeftDomainSpec *spec, GError **error)
{
    if (!is_unicast(spec->node->mac))
        return refuse(spec, error, "\"%s\" is no MAC address of one interface; write it like 02:00:00:00:00:01",
                      spec->node->mac);
    if (spec->pkey == 0 || spec->pkey > WEFT_PKEY_LAST)
        return refuse(spec, error, "%u is no partition of a cluster; they are 1 to %u", spec->pkey, WEFT_PKEY_LAST);
    if (spec->vxlan == 0 || spec->vxlan > VXLAN_LAST)
        return refuse(spec, error, "%u is no VXLAN id; they are 1 to %u", spec->vxlan, VXLAN_LAST);
    return TRUE;
}

/* --- fabric devices --- */

static gboolean
check_path(const WeftDomainSpec *spec, GError **error)
{
    WeftPath path = spec->node->path;
    guint devices = spec->node->devices->len;
    if (path == WEFT_PATH_AUTO)
        return refuse(spec, error, "its path is auto; placement must have chosen one");
    if ((path == WEFT_PATH_BRIDGE) != (devices == 0))
        return refuse(spec, error, "path %s with %u fabric devices; bridge takes none, the others at least one",
                      weft_path_words[path], devices);
    return TRUE;
}

static gboolean
check_function(const WeftDomainSpec *spec, const WeftDevice *device, const WeftHca *hca, GError **error)
{
    if (device->vf < 0)
        return spec->node->path == WEFT_PATH_PASSTHROUGH ||
               refuse(spec, error, "the whole of %s with path %s; only passthrough takes that", device->hca,
                      weft_path_words[spec->node->path]);
    if (spec->node->path != WEFT_PATH_SRIOV)
        return refuse(spec, error, "a virtual function of %s with path %s; only sriov takes that", device->hca,
                      weft_path_words[spec->node->path]);
    if ((guint)device->vf >= hca->vfs)
        return refuse(spec, error, "there is no virtual function %d of %s; " ELSEWHERE, device->vf, device->hca);
    if (device->guid == 0)
        return refuse(spec, error, "virtual function %d of %s has no GUID; give it one", device->vf, device->hca);
    return TRUE;
}

static gboolean
check_device(const WeftDomainSpec *spec, guint index, GError **error)
{
    const WeftDevice *device = spec->node->devices->pdata[index];
    const WeftHca *hca = weft_host_hca(spec->host, device->hca);
    if (!hca)
        return refuse(spec, error, "there is no HCA %s; " ELSEWHERE, device->hca);
    if (hca->rail != device->rail)
        return refuse(spec, error, "%s is on rail %u, not on %u; " ELSEWHERE, device->hca, hca->rail, device->rail);
    for (guint i = 0; i < index; i++) {
        const WeftDevice *other = spec->node->devices->pdata[i];
        if (other->rail == device->rail)
            return refuse(spec, error, "%s and %s are both on rail %u; a node has one device on each", other->hca, device->hca,
                          device->rail);
    }
    return check_function(spec, device, hca, error);
}

static gboolean
check_devices(const WeftDomainSpec *spec, GError **error)
{
    for (guint i = 0; i < spec->node->devices->len; i++) {
        if (!check_device(spec, i, error))
            return FALSE;
    }
    return TRUE;
}

/* --- image --- */

static gboolean
check_file(const WeftDomainSpec *spec, const WeftImageFile *file, GError **error)
{
    g_autoptr(GError) wrong = NULL;
    if (!file || weft_digest_check(file->digest, &wrong))
        return TRUE;
    return refuse(spec, error, "image %s: %s", spec->image->name, wrong->message);
}

static gboolean
check_image(const WeftDomainSpec *spec, GError **error)
{
    const WeftImage *image = spec->image;
    if (!image)
        return TRUE;
    if (!image->disk && !image->kernel)
        return refuse(spec, error, "image %s has neither disk nor kernel; add it anew with one", image->name);
    if (!image->kernel && (image->initrd || image->cmdline))
        return refuse(spec, error, "image %s has no kernel; only a kernel takes an initrd and a command line", image->name);
    if (image->disk && (guint)image->disk->format >= WEFT_DISK_FORMATS)
        return refuse(spec, error, "image %s has a disk of unknown format %d; add it anew as qcow2, raw or readonly",
                      image->name, (int)image->disk->format);
    return check_file(spec, image->disk, error) && check_file(spec, image->kernel, error) &&
           check_file(spec, image->initrd, error);
}

static gboolean
check_shm(const WeftDomainSpec *spec, GError **error)
{
    if (!spec->shm || (spec->shm_size >= MIB && (spec->shm_size & (spec->shm_size - 1)) == 0))
        return TRUE;
    g_autofree char *size = weft_size_format(spec->shm_size);
    return refuse(spec, error, "%s of memory shared with other nodes; its size must be a power of two, 1M at least", size);
}

/* --- devices that are passed through --- */

gboolean
weft_pci_parse(const char *text, WeftPci *ret_pci)
{
    static const char form[] = "xxxx:xx:xx.x";
    for (gsize i = 0; i < sizeof form; i++) {
        if (form[i] == 'x' ? !g_ascii_isxdigit(text[i]) : text[i] != form[i])
            return FALSE;
    }
    WeftPci pci = {
        .domain = (guint)strtoul(text, NULL, 16),
        .bus = (guint)strtoul(text + 5, NULL, 16),
        .slot = (guint)strtoul(text + 8, NULL, 16),
        .function = (guint)strtoul(text + 11, NULL, 16),
    };
    if (pci.slot > 0x1f || pci.function > 7)
        return FALSE;
    *ret_pci = pci;
    return TRUE;
}

char *
weft_pci_format(const WeftPci *pci)
{
    return g_strdup_printf("%04x:%02x:%02x.%x", pci->domain, pci->bus, pci->slot, pci->function);
}

typedef struct Collection {
    const WeftDomainSpec *spec;
    GArray *passthroughs;
} Collection;

/* what: as messages call it; remedy: where its address can be told. */
static gboolean
collect(Collection *to, const char *text, WeftPassthrough device, const char *const what[2], GError **error)
{
    if (!text || !weft_pci_parse(text, &device.pci)) {
        if (!to->spec->image)
            return TRUE;
        if (!text)
            return refuse(to->spec, error, "nobody knows the PCI address of %s; %s", what[0], what[1]);
        return refuse(to->spec, error, "\"%s\" of %s is no PCI address; write it like 0000:41:00.0", text, what[0]);
    }
    for (guint i = 0; i < to->passthroughs->len; i++) {
        const WeftPci *other = &g_array_index(to->passthroughs, WeftPassthrough, i).pci;
        if (memcmp(other, &device.pci, sizeof *other) == 0)
            return refuse(to->spec, error, "%s at %s is there already for another device; " ELSEWHERE, what[0], text);
    }
    g_array_append_val(to->passthroughs, device);
    return TRUE;
}

static gboolean
collect_device(Collection *to, guint part, GError **error)
{
    const WeftDevice *device = to->spec->node->devices->pdata[part];
    const WeftHca *hca = weft_host_hca(to->spec->host, device->hca);
    WeftPassthrough passthrough = { .numa = hca->numa, .root = hca->root, .adapter = TRUE, .part = part };
    g_autofree char *what = device->vf < 0 ? g_strdup_printf("HCA %s", device->hca)
                                           : g_strdup_printf("virtual function %d of %s", device->vf, device->hca);
    if (device->vf < 0)
        return collect(to, hca->pci, passthrough,
                       (const char *const[]){ what, "describe it as \"pci\" of the HCA, or have the host inspected" }, error);
    const char *address = (guint)device->vf < hca->vf_pci->len ? hca->vf_pci->pdata[device->vf] : NULL;
    return collect(to, address, passthrough,
                   (const char *const[]){ what, "describe it in \"vf_pci\" of the HCA, or have the host inspected" }, error);
}

static const WeftGpu *
find_gpu(const WeftHost *host, const char *name)
{
    for (guint i = 0; i < host->gpus->len; i++) {
        const WeftGpu *gpu = host->gpus->pdata[i];
        if (g_str_equal(gpu->name, name))
            return gpu;
    }
    return NULL;
}

static gboolean
collect_gpu(Collection *to, guint index, GError **error)
{
    const WeftNode *node = to->spec->node;
    const char *name = node->gpus->pdata[index];
    const WeftGpu *gpu = find_gpu(to->spec->host, name);
    if (!gpu)
        return refuse(to->spec, error, "there is no GPU %s; " ELSEWHERE, name);
    WeftPassthrough passthrough = { .numa = gpu->numa, .root = gpu->root, .part = node->devices->len + index };
    return collect(to, name, passthrough, (const char *const[]){ "a GPU", "" }, error);
}

static GArray *
collect_all(const WeftDomainSpec *spec, GError **error)
{
    g_autoptr(GArray) passthroughs = g_array_new(FALSE, TRUE, sizeof(WeftPassthrough));
    Collection to = { spec, passthroughs };
    for (guint i = 0; i < spec->node->devices->len; i++) {
        if (!collect_device(&to, i, error))
            return NULL;
    }
    for (guint i = 0; i < spec->node->gpus->len; i++) {
        if (!collect_gpu(&to, i, error))
            return NULL;
    }
    return g_steal_pointer(&passthroughs);
}

GArray *
weft_domain_check(const WeftDomainSpec *spec, GError **error)
{
    static gboolean (*const checks[])(const WeftDomainSpec *spec, GError **error) = {
        check_place, check_cores, check_memory, check_network, check_path, check_devices, check_image, check_shm,
    };
    for (gsize i = 0; i < G_N_ELEMENTS(checks); i++) {
        if (!checks[i](spec, error))
            return NULL;
    }
    return collect_all(spec, error);
}
