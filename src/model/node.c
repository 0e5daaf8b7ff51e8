#include "node.h"

#include "codec.h"
#include "lane.h"

/* Decoded 100,000 at a time when weftd starts: what repeats is written as short arrays without names,
 *
 *     "cores": [4,5,6,7], "memory": [[numa,page size,pages],…], "devices": [[rail,"mlx5_0",vf,"0x…"],…], "gpus": ["…"] */
static const WeftCodecField node_fields[] = {
    WEFT_FIELD(WeftNode, id, TEXT),
    WEFT_FIELD(WeftNode, cluster, TEXT),
    WEFT_FIELD(WeftNode, cluster_name, TEXT),
    WEFT_FIELD(WeftNode, tenant, TEXT),
    WEFT_FIELD(WeftNode, rank, UINT),
    WEFT_FIELD(WeftNode, group, TEXT),
    WEFT_FIELD(WeftNode, host, TEXT),
    WEFT_FIELD(WeftNode, placement, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, mac, TEXT),
    WEFT_FIELD(WeftNode, hostname, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, host_key, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, image, TEXT),
    WEFT_FIELD(WeftNode, path, WORD, .words = weft_path_words),
    WEFT_FIELD(WeftNode, sl, UINT, WEFT_OPTIONAL, .max = WEFT_LANES_MAX),
    WEFT_FIELD(WeftNode, bandwidth, UINT64, WEFT_OPTIONAL, .max = WEFT_BANDWIDTH_MAX),
    WEFT_FIELD(WeftNode, shm, UINT64, WEFT_OPTIONAL, .max = WEFT_SHM_MAX),
    WEFT_FIELD(WeftNode, exclusive, BOOL),
    WEFT_FIELD(WeftNode, phase, WORD, .words = weft_node_phase_words),
    WEFT_FIELD(WeftNode, reason, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, detail, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, met, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, unverified, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, boot, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, cold, BOOL),
    WEFT_FIELD(WeftNode, template, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, primed, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, bereft, BOOL),
    WEFT_FIELD(WeftNode, still, BOOL),
    WEFT_FIELD(WeftNode, copied, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, copy_time, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, starts, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftNode, since, UINT64),
    {},
};

/* Where it is being moved to. */
static const WeftCodecField target_fields[] = {
    WEFT_FIELD(WeftNode, host, TEXT),
    WEFT_FIELD(WeftNode, placement, TEXT, WEFT_OPTIONAL),
    {},
};

static const WeftCodecField usage_fields[] = {
    WEFT_FIELD(WeftUsage, node, TEXT),
    WEFT_FIELD(WeftUsage, cluster, TEXT),
    WEFT_FIELD(WeftUsage, cluster_name, TEXT),
    WEFT_FIELD(WeftUsage, tenant, TEXT),
    WEFT_FIELD(WeftUsage, cores, UINT),
    WEFT_FIELD(WeftUsage, memory, UINT64),
    WEFT_FIELD(WeftUsage, gpus, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftUsage, vfs, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftUsage, start, UINT64),
    WEFT_FIELD(WeftUsage, end, UINT64),
    {},
};

WeftDevice *
weft_device_new(guint rail, const char *hca, int vf)
{
    WeftDevice *device = g_new0(WeftDevice, 1);
    device->rail = rail;
    device->hca = g_strdup(hca);
    device->vf = vf;
    return device;
}

void
weft_device_free(WeftDevice *device)
{
    if (!device)
        return;
    g_free(device->hca);
    g_free(device);
}

guint64
weft_device_port(const WeftDevice *device, const WeftHost *host)
{
    const WeftHca *hca = device->guid || !host ? NULL : weft_host_hca(host, device->hca);
    return hca ? hca->port_guid : device->guid;
}

GArray *
weft_node_ports(const WeftNode *node, const WeftHost *host)
{
    GArray *ports = g_array_new(FALSE, FALSE, sizeof(guint64));
    for (guint i = 0; i < node->devices->len; i++) {
        guint64 port = weft_device_port(node->devices->pdata[i], host);
        g_array_append_val(ports, port);
    }
    return ports;
}

WeftNode *
weft_node_new(void)
{
    WeftNode *node = g_new0(WeftNode, 1);
    node->cores = g_array_new(FALSE, FALSE, sizeof(guint16));
    node->memory = g_array_new(FALSE, FALSE, sizeof(WeftMemory));
    node->devices = g_ptr_array_new_with_free_func((GDestroyNotify)weft_device_free);
    node->gpus = g_ptr_array_new_with_free_func(g_free);
    return node;
}

static gboolean
read_core(const json_t *item, WeftNode *node)
{
    json_int_t id = json_integer_value(item);
    if (!json_is_integer(item) || id < 0 || id >= WEFT_CORES_MAX)
        return FALSE;
    guint16 core = (guint16)id;
    g_array_append_val(node->cores, core);
    return TRUE;
}

static gboolean
read_memory(const json_t *item, WeftNode *node)
{
    json_int_t numa, page_size, pages;
    if (json_unpack((json_t *)item, "[I,I,I!]", &numa, &page_size, &pages) != 0 || numa < 0 || numa >= WEFT_NUMA_MAX ||
        page_size <= 0 || pages < 0)
        return FALSE;
    WeftMemory memory = { (guint)numa, (guint64)page_size, (guint64)pages };
    g_array_append_val(node->memory, memory);
    return TRUE;
}

static gboolean
read_device(const json_t *item, WeftNode *node)
{
    const char *hca, *guid;
    json_int_t rail, vf;
    guint64 value;
    if (json_unpack((json_t *)item, "[I,s,I,s!]", &rail, &hca, &vf, &guid) != 0 || rail < 0 || rail >= WEFT_RAILS_MAX ||
        vf < -1 || vf >= WEFT_VFS_MAX || !g_str_has_prefix(guid, "0x") ||
        !g_ascii_string_to_unsigned(guid + 2, 16, 0, G_MAXUINT64, &value, NULL))
        return FALSE;
    WeftDevice *device = weft_device_new((guint)rail, hca, (int)vf);
    device->guid = value;
    g_ptr_array_add(node->devices, device);
    return TRUE;
}

static gboolean
read_gpu(const json_t *item, WeftNode *node)
{
    if (!json_is_string(item))
        return FALSE;
    g_ptr_array_add(node->gpus, g_strdup(json_string_value(item)));
    return TRUE;
}

typedef struct {
    const char *name;
    guint max;
    gboolean (*read)(const json_t *item, WeftNode *node);
    const char *form;
} List;

static const List lists[] = {
    { "cores", WEFT_CORES_MAX, read_core, "a core's number" },
    { "memory", WEFT_NUMA_MAX *WEFT_PAGE_SIZES_MAX, read_memory, "[numa, page size, pages]" },
    { "devices", WEFT_RAILS_MAX, read_device, "[rail, HCA, virtual function, GUID]" },
    { "gpus", WEFT_GPUS_MAX, read_gpu, "a GPU's name" },
};

static void
read_list(WeftFields *f, const List *list, WeftNode *node)
{
    json_t *array = weft_fields_array(f, list->name, list->max);
    if (!array)
        return;
    json_t *item;
    gsize i;
    json_array_foreach (array, i, item) {
        if (!list->read(item, node)) {
            weft_fields_fail(f, list->name, "item %zu must be %s", i, list->form);
            return;
        }
    }
}

static WeftNode *
read_target(WeftFields *fields)
{
    json_t *object = weft_fields_object(fields, "target");
    if (!object || fields->error)
        return NULL;
    g_autofree char *where = weft_fields_path(fields, "target");
    WeftNode *target = weft_node_new();
    WeftFields f;
    weft_fields_begin(&f, object, "%s", where);
    weft_codec_read(&f, target_fields, target);
    for (guint i = 0; i < G_N_ELEMENTS(lists); i++)
        read_list(&f, &lists[i], target);
    weft_fields_end(&f, &fields->error);
    return target;
}

WeftNode *
weft_node_from_json(json_t *json, GError **error)
{
    g_autoptr(WeftNode) node = weft_node_new();
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "");
    weft_codec_read(&f, node_fields, node);
    for (guint i = 0; i < G_N_ELEMENTS(lists); i++)
        read_list(&f, &lists[i], node);
    node->target = read_target(&f);
    return weft_fields_end(&f, error) ? g_steal_pointer(&node) : NULL;
}

static json_t *
write_cores(const WeftNode *node)
{
    json_t *array = json_array();
    for (guint i = 0; i < node->cores->len; i++)
        json_array_append_new(array, json_integer(g_array_index(node->cores, guint16, i)));
    return array;
}

static json_t *
write_memory(const WeftNode *node)
{
    json_t *array = json_array();
    for (guint i = 0; i < node->memory->len; i++) {
        const WeftMemory *m = &g_array_index(node->memory, WeftMemory, i);
        json_array_append_new(array, json_pack("[I,I,I]", (json_int_t)m->numa, (json_int_t)m->page_size, (json_int_t)m->pages));
    }
    return array;
}

static json_t *
write_devices(const WeftNode *node)
{
    json_t *array = json_array();
    for (guint i = 0; i < node->devices->len; i++) {
        const WeftDevice *d = g_ptr_array_index(node->devices, i);
        json_array_append_new(array,
                              json_pack("[I,s,I,o]", (json_int_t)d->rail, d->hca, (json_int_t)d->vf, weft_guid_write(d->guid)));
    }
    return array;
}

static json_t *
write_gpus(const WeftNode *node)
{
    json_t *array = json_array();
    for (guint i = 0; i < node->gpus->len; i++)
        json_array_append_new(array, json_string(g_ptr_array_index(node->gpus, i)));
    return array;
}

static void
write_lists(const WeftNode *node, json_t *json)
{
    json_object_set_new_nocheck(json, "cores", write_cores(node));
    json_object_set_new_nocheck(json, "memory", write_memory(node));
    if (node->devices->len)
        json_object_set_new_nocheck(json, "devices", write_devices(node));
    if (node->gpus->len)
        json_object_set_new_nocheck(json, "gpus", write_gpus(node));
}

json_t *
weft_node_to_json(const WeftNode *node)
{
    json_t *json = weft_codec_write(node_fields, node);
    write_lists(node, json);
    if (node->target) {
        json_t *target = weft_codec_write(target_fields, node->target);
        write_lists(node->target, target);
        json_object_set_new_nocheck(json, "target", target);
    }
    return json;
}

static gpointer
copy_device(gconstpointer source, gpointer data)
{
    const WeftDevice *device = source;
    WeftDevice *copy = g_memdup2(device, sizeof *device);
    copy->hca = g_strdup(device->hca);
    return copy;
}

static gpointer
copy_text(gconstpointer text, gpointer data)
{
    return g_strdup(text);
}

WeftNode *
weft_node_copy(const WeftNode *node)
{
    if (!node)
        return NULL;
    WeftNode *copy = g_memdup2(node, sizeof *node);
    weft_codec_own(node_fields, copy);
    copy->cores = g_array_copy(node->cores);
    copy->memory = g_array_copy(node->memory);
    copy->devices = g_ptr_array_copy(node->devices, copy_device, NULL);
    copy->gpus = g_ptr_array_copy(node->gpus, copy_text, NULL);
    copy->target = weft_node_copy(node->target);
    return copy;
}

void
weft_node_free(WeftNode *node)
{
    if (!node)
        return;
    g_clear_pointer(&node->cores, g_array_unref);
    g_clear_pointer(&node->memory, g_array_unref);
    g_clear_pointer(&node->devices, g_ptr_array_unref);
    g_clear_pointer(&node->gpus, g_ptr_array_unref);
    g_clear_pointer(&node->target, weft_node_free);
    weft_codec_free(node_fields, node);
}

static void
swap_places(WeftNode *a, WeftNode *b)
{
    WeftNode first = *a;
    a->host = b->host, b->host = first.host;
    a->placement = b->placement, b->placement = first.placement;
    a->cores = b->cores, b->cores = first.cores;
    a->memory = b->memory, b->memory = first.memory;
    a->devices = b->devices, b->devices = first.devices;
    a->gpus = b->gpus, b->gpus = first.gpus;
}

WeftNode *
weft_node_moved(const WeftNode *node)
{
    WeftNode *moved = weft_node_copy(node);
    g_autoptr(WeftNode) left = g_steal_pointer(&moved->target);
    swap_places(moved, left);
    return moved;
}

char *
weft_node_id(const char *cluster_id, guint serial)
{
    return g_strdup_printf("%s-%u", cluster_id, serial);
}

char *
weft_node_domain(const WeftNode *node)
{
    return g_strconcat(WEFT_DOMAIN_PREFIX, node->id, NULL);
}

char *
weft_node_hostname(const WeftNode *node)
{
    return node->hostname ? g_strdup(node->hostname) : g_strdup_printf("%s-%u", node->cluster_name, node->rank);
}

char *
weft_node_label(const WeftNode *node)
{
    return g_strdup_printf("%s[%u]", node->cluster_name, node->rank);
}

gboolean
weft_node_has_rebooted(const WeftNode *node)
{
    return node->phase == WEFT_NODE_UP && node->boot;
}

guint
weft_node_parts(const WeftNode *node)
{
    return node->devices->len + node->gpus->len;
}

guint64
weft_node_memory(const WeftNode *node)
{
    guint64 bytes = 0;
    for (guint i = 0; i < node->memory->len; i++) {
        const WeftMemory *m = &g_array_index(node->memory, WeftMemory, i);
        bytes += m->page_size * m->pages;
    }
    return bytes;
}

guint
weft_node_group(const WeftNode *node, const WeftCluster *cluster)
{
    for (guint i = 0; i < cluster->groups->len; i++)
        if (g_str_equal(((const WeftGroup *)g_ptr_array_index(cluster->groups, i))->name, node->group))
            return i;
    g_assert_not_reached();
}

WeftUsage *
weft_usage_from_json(json_t *json, GError **error)
{
    return weft_codec_decode(usage_fields, sizeof(WeftUsage), json, "", error);
}

json_t *
weft_usage_to_json(const WeftUsage *usage)
{
    return weft_codec_write(usage_fields, usage);
}

void
weft_usage_free(WeftUsage *usage)
{
    weft_codec_free(usage_fields, usage);
}

WeftUsage *
weft_usage_of(const WeftNode *node, gint64 end)
{
    WeftUsage *usage = g_new0(WeftUsage, 1);
    usage->node = g_strdup(node->id);
    usage->cluster = g_strdup(node->cluster);
    usage->cluster_name = g_strdup(node->cluster_name);
    usage->tenant = g_strdup(node->tenant);
    usage->cores = node->cores->len;
    usage->memory = weft_node_memory(node);
    usage->gpus = node->gpus->len;
    usage->vfs = node->devices->len;
    usage->start = node->since;
    usage->end = MAX(end, node->since);
    return usage;
}
