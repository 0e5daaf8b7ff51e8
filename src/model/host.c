#include "host.h"

#include "codec.h"
#include "host-numa.h"
#include "host-uri.h"

const char *const weft_origin_words[] = { "api", "config", NULL };
const char *const weft_verify_words[] = { "fabric", "ethernet", NULL };
const char *const weft_hca_driver_words[] = { "mlx4", "mlx5", NULL };
const char *const weft_host_state_words[] = { "unknown", "up", "lost", "held", NULL };

static const WeftCodecField host_fields[] = {
    WEFT_FIELD(WeftHost, name, TEXT, .grammar = WEFT_GRAMMAR_HOST, .what = "host name"),
    WEFT_FIELD(WeftHost, uri, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_TEXT, .what = "URI"),
    WEFT_FIELD(WeftHost, address, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_DEVICE, .what = "address"),
    WEFT_FIELD(WeftHost, rdma_address, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_DEVICE, .what = "address"),
    WEFT_FIELD(WeftHost, fabric, TEXT, .grammar = WEFT_GRAMMAR_NAME, .what = "fabric name"),
    WEFT_FIELD(WeftHost, leaf, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_TEXT, .what = "leaf switch"),
    WEFT_FIELD(WeftHost, verify, WORD, WEFT_OPTIONAL, .fallback = WEFT_VERIFY_FABRIC, .words = weft_verify_words),
    WEFT_FIELD(WeftHost, origin, WORD, WEFT_OPTIONAL, .fallback = WEFT_ORIGIN_API, .words = weft_origin_words),
    WEFT_FIELD(WeftHost, discovered, BOOL),
    WEFT_FIELD(WeftHost, draining, BOOL),
    WEFT_FIELD(WeftHost, moving, BOOL),
    WEFT_FIELD(WeftHost, disrupting, BOOL),
    WEFT_FIELD(WeftHost, evicting, BOOL),
    {},
};

static const WeftCodecField hca_fields[] = {
    WEFT_FIELD(WeftHca, name, TEXT, .grammar = WEFT_GRAMMAR_DEVICE, .what = "HCA name"),
    WEFT_FIELD(WeftHca, driver, WORD, WEFT_OPTIONAL, .fallback = WEFT_HCA_MLX5, .words = weft_hca_driver_words),
    WEFT_FIELD(WeftHca, numa, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftHca, port_guid, GUID, WEFT_OPTIONAL),
    WEFT_FIELD(WeftHca, vfs, UINT, WEFT_OPTIONAL, .max = WEFT_VFS_MAX),
    WEFT_FIELD(WeftHca, leaf, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_TEXT, .what = "leaf switch"),
    WEFT_FIELD(WeftHca, pci, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_DEVICE, .what = "PCI address"),
    WEFT_FIELD(WeftHca, root, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_TEXT, .what = "PCIe root"),
    {},
};

static const WeftCodecField gpu_fields[] = {
    WEFT_FIELD(WeftGpu, name, TEXT, .grammar = WEFT_GRAMMAR_DEVICE, .what = "GPU name"),
    WEFT_FIELD(WeftGpu, numa, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftGpu, root, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_TEXT, .what = "PCIe root"),
    {},
};

static const WeftCodecField status_fields[] = {
    WEFT_FIELD(WeftHostStatus, host, TEXT),
    WEFT_FIELD(WeftHostStatus, state, WORD, .words = weft_host_state_words),
    WEFT_FIELD(WeftHostStatus, since, UINT64),
    WEFT_FIELD(WeftHostStatus, reason, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftHostStatus, quarantine, TEXT, WEFT_OPTIONAL),
    {},
};

static void
hca_free(WeftHca *hca)
{
    g_clear_pointer(&hca->vf_pci, g_ptr_array_unref);
    weft_codec_free(hca_fields, hca);
}

WeftHca *
weft_hca_new(void)
{
    WeftHca *hca = g_new0(WeftHca, 1);
    hca->vf_pci = g_ptr_array_new_with_free_func(g_free);
    return hca;
}

static void
gpu_free(WeftGpu *gpu)
{
    weft_codec_free(gpu_fields, gpu);
}

WeftHost *
weft_host_new(void)
{
    WeftHost *host = g_new0(WeftHost, 1);
    host->labels = weft_labels_new();
    host->cores = g_array_new(FALSE, FALSE, sizeof(WeftCore));
    host->numa = g_array_new(FALSE, FALSE, sizeof(WeftNuma));
    host->hcas = g_ptr_array_new_with_free_func((GDestroyNotify)hca_free);
    host->gpus = g_ptr_array_new_with_free_func((GDestroyNotify)gpu_free);
    return host;
}

static void
check_numa(WeftFields *f, const WeftHost *host, guint numa)
{
    if (host->numa->len == 0)
        weft_fields_fail(f, "numa",
                         "the host's NUMA nodes are not described; describe them too, or leave this out: then all of "
                         "it is read from the host");
    else if (numa >= host->numa->len)
        weft_fields_fail(f, "numa", "%u is out of range; NUMA nodes count from 0, and the host has %u", numa, host->numa->len);
}

static void
check_hca(WeftFields *f, const WeftHost *host, const WeftHca *hca)
{
    check_numa(f, host, hca->numa);
    if (hca->vf_pci->len && hca->vf_pci->len != hca->vfs)
        weft_fields_fail(f, "vf_pci", "%u addresses for %u virtual functions; name each, or none", hca->vf_pci->len, hca->vfs);
    if (hca->port_guid == 0 && weft_fields_has(f, "port_guid"))
        weft_fields_fail(f, "port_guid", "0 is no GUID; ibstat shows the port's");
    for (guint i = 0; i + 1 < host->hcas->len; i++) {
        const WeftHca *other = g_ptr_array_index(host->hcas, i);
        if (g_str_equal(other->name, hca->name))
            weft_fields_fail(f, "name", "\"%s\" stands there twice; name each HCA once", hca->name);
        if (hca->port_guid && other->port_guid == hca->port_guid)
            weft_fields_fail(f, "port_guid", "is that of %s too; each port has its own, which ibstat shows", other->name);
    }
}

static void
read_hca(WeftFields *f, guint index, gpointer owner)
{
    WeftHost *host = owner;
    WeftHca *hca = weft_hca_new();
    g_ptr_array_add(host->hcas, hca);
    weft_codec_read(f, hca_fields, hca);
    weft_codec_read_texts(f, "vf_pci", WEFT_VFS_MAX, WEFT_GRAMMAR_DEVICE, "PCI address", hca->vf_pci);
    hca->rail = weft_fields_uint(f, "rail", 0, WEFT_RAILS_MAX - 1, index < WEFT_RAILS_MAX ? index : WEFT_REQUIRED);
    if (!hca->leaf)
        hca->leaf = g_strdup(host->leaf);
    if (!f->error)
        check_hca(f, host, hca);
}

static void
read_gpu(WeftFields *f, guint index, gpointer owner)
{
    WeftHost *host = owner;
    WeftGpu *gpu = g_new0(WeftGpu, 1);
    g_ptr_array_add(host->gpus, gpu);
    weft_codec_read(f, gpu_fields, gpu);
    if (f->error)
        return;
    check_numa(f, host, gpu->numa);
    for (guint i = 0; i < index; i++)
        if (g_str_equal(((const WeftGpu *)g_ptr_array_index(host->gpus, i))->name, gpu->name))
            weft_fields_fail(f, "name", "\"%s\" stands there twice; name each GPU once", gpu->name);
}

static void
finish_host(WeftFields *f, WeftHost *host)
{
    if (!host->uri)
        host->uri = g_strdup_printf("qemu+tls://%s/system", host->name);
    if (host->evicting && !host->draining)
        weft_fields_fail(f, "evicting", "true without draining; set draining too, or evicting to false");
    if (host->moving && !host->draining)
        weft_fields_fail(f, "moving", "true without draining; set draining too, or moving to false");
    if (host->disrupting && !host->moving)
        weft_fields_fail(f, "disrupting", "true without moving; set moving too, or disrupting to false");
}

static void
check_uri(WeftFields *f, const WeftHost *host)
{
    g_autoptr(GError) unfit = NULL;
    if (!weft_host_uri_check(host->uri, &unfit))
        weft_fields_fail(f, "uri", "%s", unfit->message);
}

static void
read_host(WeftFields *f, WeftHost *host)
{
    weft_codec_read(f, host_fields, host);
    weft_labels_read(f, host->labels);
    weft_host_numa_read(f, host);
    weft_codec_read_items(f, "hcas", WEFT_HCAS_MAX, read_hca, host);
    weft_codec_read_items(f, "gpus", WEFT_GPUS_MAX, read_gpu, host);
    if (!f->error)
        finish_host(f, host);
}

WeftHost *
weft_host_from_json(json_t *json, const char *where, GError **error)
{
    g_autoptr(WeftHost) host = weft_host_new();
    WeftFields f;
    weft_fields_begin(&f, json, "%s", where);
    read_host(&f, host);
    if (!f.error)
        check_uri(&f, host);
    return weft_fields_end(&f, error) ? g_steal_pointer(&host) : NULL;
}

WeftHost *
weft_host_from_record(json_t *json, GError **error)
{
    g_autoptr(WeftHost) host = weft_host_new();
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "");
    read_host(&f, host);
    return weft_fields_end(&f, error) ? g_steal_pointer(&host) : NULL;
}

static json_t *
write_hcas(const WeftHost *host)
{
    json_t *array = json_array();
    for (guint i = 0; i < host->hcas->len; i++) {
        const WeftHca *hca = g_ptr_array_index(host->hcas, i);
        json_t *item = weft_codec_write(hca_fields, hca);
        json_object_set_new_nocheck(item, "rail", json_integer(hca->rail));
        if (hca->vf_pci->len)
            json_object_set_new_nocheck(item, "vf_pci", weft_codec_write_texts(hca->vf_pci));
        if (g_strcmp0(hca->leaf, host->leaf) == 0)
            json_object_del(item, "leaf");
        json_array_append_new(array, item);
    }
    return array;
}

static json_t *
write_gpus(const WeftHost *host)
{
    json_t *array = json_array();
    for (guint i = 0; i < host->gpus->len; i++)
        json_array_append_new(array, weft_codec_write(gpu_fields, g_ptr_array_index(host->gpus, i)));
    return array;
}

json_t *
weft_host_to_json(const WeftHost *host)
{
    json_t *json = weft_codec_write(host_fields, host);
    if (host->verify == WEFT_VERIFY_FABRIC)
        json_object_del(json, "verify");
    if (g_hash_table_size(host->labels))
        json_object_set_new_nocheck(json, "labels", weft_labels_write(host->labels));
    weft_host_numa_write(host, json);
    if (host->hcas->len)
        json_object_set_new_nocheck(json, "hcas", write_hcas(host));
    if (host->gpus->len)
        json_object_set_new_nocheck(json, "gpus", write_gpus(host));
    return json;
}

WeftHost *
weft_host_share(WeftHost *host)
{
    g_atomic_int_inc(&host->shares);
    return host;
}

void
weft_host_free(WeftHost *host)
{
    if (!host || g_atomic_int_add(&host->shares, -1) > 0)
        return;
    g_clear_pointer(&host->labels, g_hash_table_unref);
    g_clear_pointer(&host->cores, g_array_unref);
    g_clear_pointer(&host->numa, g_array_unref);
    g_clear_pointer(&host->hcas, g_ptr_array_unref);
    g_clear_pointer(&host->gpus, g_ptr_array_unref);
    weft_codec_free(host_fields, host);
}

char *
weft_host_address(const WeftHost *host)
{
    if (host->address)
        return g_strdup(host->address);
    g_autoptr(GUri) uri = host->uri ? g_uri_parse(host->uri, G_URI_FLAGS_NONE, NULL) : NULL;
    const char *name = uri ? g_uri_get_host(uri) : NULL;
    return g_strdup(name && *name ? name : host->name);
}

gboolean
weft_host_lacks_ports(const WeftHost *host)
{
    for (guint i = 0; i < host->hcas->len; i++)
        if (!((const WeftHca *)host->hcas->pdata[i])->port_guid)
            return TRUE;
    return FALSE;
}

WeftHost *
weft_host_copy(const WeftHost *host)
{
    json_auto_t *json = weft_host_to_json(host);
    return weft_host_from_record(json, NULL);
}

const WeftHca *
weft_host_hca(const WeftHost *host, const char *name)
{
    for (guint i = 0; i < host->hcas->len; i++) {
        const WeftHca *hca = g_ptr_array_index(host->hcas, i);
        if (g_str_equal(hca->name, name))
            return hca;
    }
    return NULL;
}

WeftHostStatus *
weft_host_status_from_json(json_t *json, GError **error)
{
    return weft_codec_decode(status_fields, sizeof(WeftHostStatus), json, "", error);
}

json_t *
weft_host_status_to_json(const WeftHostStatus *status)
{
    return weft_codec_write(status_fields, status);
}

void
weft_host_status_free(WeftHostStatus *status)
{
    weft_codec_free(status_fields, status);
}

WeftInventory *
weft_inventory_new(void)
{
    WeftInventory *inventory = g_new0(WeftInventory, 1);
    inventory->hardware = weft_host_new();
    return inventory;
}

void
weft_inventory_free(WeftInventory *inventory)
{
    if (!inventory)
        return;
    weft_host_free(inventory->hardware);
    g_free(inventory->cpu_model);
    g_free(inventory->rdma_address);
    g_free(inventory->libvirt);
    g_free(inventory->qemu);
    g_free(inventory->machine);
    g_free(inventory->hook_error);
    json_decref(inventory->hook);
    g_free(inventory);
}

const char *
weft_host_rdma_address(const WeftHost *host, const WeftInventory *inventory)
{
    const char *address = host->rdma_address ? host->rdma_address : inventory ? inventory->rdma_address : NULL;
    return g_strcmp0(address, WEFT_RDMA_NONE) == 0 ? NULL : address;
}
