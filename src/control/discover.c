#include "discover.h"

#include "bounds.h"
#include "checks.h"
#include "names.h"

#include <string.h>

/* --- making a description --- */

static guint64
reported_guid(const WeftInventory *inventory, const char *name)
{
    json_t *hcas = json_object_get(inventory->hook, "hcas");
    json_t *hca;
    gsize i;
    json_array_foreach (hcas, i, hca) {
        const char *text = json_string_value(json_object_get(hca, "port_guid"));
        if (text && g_strcmp0(json_string_value(json_object_get(hca, "name")), name) == 0)
            return g_ascii_strtoull(text, NULL, 16);
    }
    return 0;
}

static WeftHca *
hca_copy(const WeftHca *hca)
{
    WeftHca *copy = weft_hca_new();
    copy->name = g_strdup(hca->name);
    copy->driver = hca->driver;
    copy->numa = hca->numa;
    copy->vfs = hca->vfs;
    copy->pci = g_strdup(hca->pci);
    copy->root = g_strdup(hca->root);
    for (guint i = 0; i < hca->vf_pci->len; i++)
        g_ptr_array_add(copy->vf_pci, g_strdup(hca->vf_pci->pdata[i]));
    return copy;
}

/* What the description says of an HCA's place in the fabric outlives what is read of it. */
static void
take_hcas(WeftHost *host, const WeftHost *before, const WeftInventory *inventory)
{
    const GPtrArray *found = inventory->hardware->hcas;
    g_ptr_array_set_size(host->hcas, 0);
    for (guint i = 0; i < found->len && host->hcas->len < WEFT_HCAS_MAX; i++) {
        const WeftHca *seen = found->pdata[i], *known = weft_host_hca(before, seen->name);
        guint64 guid = seen->port_guid ? seen->port_guid : reported_guid(inventory, seen->name);
        if (!guid && known)
            guid = known->port_guid;
        if (!guid || seen->numa >= host->numa->len)
            continue;
        WeftHca *hca = hca_copy(seen);
        hca->port_guid = guid;
        hca->rail = known ? known->rail : MIN(host->hcas->len, WEFT_RAILS_MAX - 1);
        hca->leaf = g_strdup(known ? known->leaf : host->leaf);
        g_ptr_array_add(host->hcas, hca);
    }
}

static void
take_gpus(WeftHost *host, const WeftInventory *inventory)
{
    const GPtrArray *found = inventory->hardware->gpus;
    g_ptr_array_set_size(host->gpus, 0);
    for (guint i = 0; i < found->len && host->gpus->len < WEFT_GPUS_MAX; i++) {
        const WeftGpu *seen = found->pdata[i];
        if (seen->numa >= host->numa->len)
            continue;
        WeftGpu *gpu = g_new0(WeftGpu, 1);
        *gpu = (WeftGpu){ g_strdup(seen->name), seen->numa, g_strdup(seen->root) };
        g_ptr_array_add(host->gpus, gpu);
    }
}

static guint
cores_of(const WeftHost *host, guint numa)
{
    guint n = 0;
    for (guint i = 0; i < host->cores->len; i++)
        n += g_array_index(host->cores, WeftCore, i).numa == numa;
    return n;
}

static void
keep_house(WeftHost *host)
{
    gboolean kept[WEFT_NUMA_MAX] = { FALSE };
    for (guint i = 0; i < host->cores->len; i++) {
        WeftCore *core = &g_array_index(host->cores, WeftCore, i);
        core->housekeeping = !kept[core->numa] && cores_of(host, core->numa) > 1;
        kept[core->numa] = TRUE;
    }
}

#define SMALL_PAGE 4096
#define KEPT_SHARE 4 /* a quarter of the memory that is not in huge pages, */
#define KEPT_LEAST ((guint64)1 << 30)

/* The host itself, and what QEMU needs beside its guests' memory, live in small pages, which are the last. */
static void
keep_memory(WeftHost *host)
{
    for (guint n = 0; n < host->numa->len; n++) {
        WeftNuma *numa = &g_array_index(host->numa, WeftNuma, n);
        WeftPages *last = numa->n_pages ? &numa->pages[numa->n_pages - 1] : NULL;
        if (!last || last->size != SMALL_PAGE)
            continue;
        guint64 kept = MAX(last->count / KEPT_SHARE, KEPT_LEAST / SMALL_PAGE);
        if (kept < last->count)
            last->count -= kept;
        else
            numa->n_pages--;
    }
}

static void
fill_in(char **text, const char *found)
{
    if (!*text)
        *text = g_strdup(found);
}

WeftHost *
weft_discover_addresses(const WeftHost *description, const WeftInventory *inventory)
{
    WeftHost *host = weft_host_copy(description);
    for (guint i = 0; i < host->hcas->len; i++) {
        WeftHca *hca = host->hcas->pdata[i];
        const WeftHca *found = weft_host_hca(inventory->hardware, hca->name);
        if (!found)
            continue;
        fill_in(&hca->pci, found->pci);
        fill_in(&hca->root, found->root);
        for (guint vf = hca->vf_pci->len; vf < MIN(found->vf_pci->len, hca->vfs); vf++)
            g_ptr_array_add(hca->vf_pci, g_strdup(found->vf_pci->pdata[vf]));
    }
    for (guint i = 0; i < host->gpus->len; i++) {
        WeftGpu *gpu = host->gpus->pdata[i];
        for (guint g = 0; g < inventory->hardware->gpus->len; g++) {
            const WeftGpu *found = inventory->hardware->gpus->pdata[g];
            if (strcmp(found->name, gpu->name) == 0)
                fill_in(&gpu->root, found->root);
        }
    }
    return host;
}

WeftHost *
weft_discover(const WeftHost *description, const WeftInventory *inventory)
{
    WeftHost *host = weft_host_copy(description);
    const WeftHost *found = inventory->hardware;
    g_array_set_size(host->cores, 0);
    g_array_append_vals(host->cores, found->cores->data, found->cores->len);
    g_array_set_size(host->numa, 0);
    g_array_append_vals(host->numa, found->numa->data, found->numa->len);
    keep_house(host);
    keep_memory(host);
    take_hcas(host, description, inventory);
    take_gpus(host, inventory);
    host->discovered = TRUE;
    return host;
}

/* --- what can be given --- */

GHashTable *
weft_discover_quarantine(json_t *report)
{
    GHashTable *devices = g_hash_table_new(g_str_hash, g_str_equal);
    json_t *item;
    gsize i;
    json_array_foreach (json_object_get(report, "quarantine"), i, item) {
        const char *pci = json_string_value(json_object_get(item, "pci"));
        const char *why = json_string_value(json_object_get(item, "why"));
        if (g_hash_table_size(devices) == WEFT_QUARANTINE_MAX)
            break;
        if (pci && weft_grammar_check(WEFT_GRAMMAR_DEVICE, pci, "device", NULL))
            g_hash_table_insert(devices, (char *)pci, (char *)(why ? why : "its report does not tell why"));
    }
    return devices;
}

/* "0000:41:00."; NULL: it is no address. */
static char *
slot_of(const char *pci)
{
    const char *function = pci ? strrchr(pci, '.') : NULL;
    return function ? g_strndup(pci, (gsize)(function + 1 - pci)) : NULL;
}

/* Those devices; and of a whole one its slot, whose other functions have the same firmware. */
static GHashTable *
list_away(json_t *report)
{
    GHashTable *away = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GHashTable) devices = weft_discover_quarantine(report);
    json_t *item;
    gsize i;
    json_array_foreach (json_object_get(report, "quarantine"), i, item) {
        const char *pci = json_string_value(json_object_get(item, "pci"));
        if (!pci || !g_hash_table_contains(devices, pci))
            continue;
        g_hash_table_add(away, g_strdup(pci));
        char *slot = json_is_true(json_object_get(item, "whole")) ? slot_of(pci) : NULL;
        if (slot)
            g_hash_table_add(away, slot);
    }
    return away;
}

static gboolean
is_kept_away(GHashTable *away, const char *pci)
{
    g_autofree char *slot = slot_of(pci);
    return pci && (g_hash_table_contains(away, pci) || (slot && g_hash_table_contains(away, slot)));
}

/* An adapter of which all is in quarantine has no functions either. */
static WeftHca *
usable_hca(const WeftHca *hca, GHashTable *away)
{
    if (is_kept_away(away, hca->pci))
        return NULL;
    WeftHca *copy = hca_copy(hca);
    for (guint vf = 0; vf < copy->vf_pci->len; vf++) {
        char **address = (char **)&copy->vf_pci->pdata[vf];
        if (*address && g_hash_table_contains(away, *address))
            **address = '\0';
    }
    return copy;
}

WeftHost *
weft_discover_usable(const WeftInventory *inventory)
{
    WeftHost *usable = weft_host_new();
    const WeftHost *found = inventory->hardware;
    if (weft_report_lacks_iommu(inventory->hook, inventory->iommu))
        return usable;
    g_autoptr(GHashTable) away = list_away(inventory->hook);
    for (guint i = 0; i < found->hcas->len; i++) {
        WeftHca *hca = usable_hca(found->hcas->pdata[i], away);
        if (hca)
            g_ptr_array_add(usable->hcas, hca);
    }
    for (guint i = 0; i < found->gpus->len; i++) {
        const WeftGpu *gpu = found->gpus->pdata[i];
        if (is_kept_away(away, gpu->name))
            continue;
        WeftGpu *copy = g_new0(WeftGpu, 1);
        copy->name = g_strdup(gpu->name);
        g_ptr_array_add(usable->gpus, copy);
    }
    return usable;
}

/* --- what nodes hold --- */

static gboolean
has_cores(const WeftHost *host, const WeftNode *node)
{
    for (guint i = 0; i < node->cores->len; i++) {
        guint id = g_array_index(node->cores, guint16, i);
        if (id >= host->cores->len || g_array_index(host->cores, WeftCore, id).housekeeping)
            return FALSE;
    }
    return TRUE;
}

static gboolean
has_devices(const WeftHost *host, const WeftNode *node)
{
    for (guint i = 0; i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        const WeftHca *hca = weft_host_hca(host, device->hca);
        if (!hca || device->vf >= (int)hca->vfs)
            return FALSE;
    }
    for (guint i = 0; i < node->gpus->len; i++) {
        gboolean found = FALSE;
        for (guint g = 0; g < host->gpus->len; g++)
            found |= strcmp(((const WeftGpu *)host->gpus->pdata[g])->name, node->gpus->pdata[i]) == 0;
        if (!found)
            return FALSE;
    }
    return TRUE;
}

static guint64
pages_held(const GPtrArray *nodes, guint numa, guint64 size)
{
    guint64 held = 0;
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        for (guint m = 0; m < node->memory->len; m++) {
            const WeftMemory *memory = &g_array_index(node->memory, WeftMemory, m);
            if (memory->numa == numa && memory->page_size == size)
                held += memory->pages;
        }
    }
    return held;
}

static gboolean
has_pages(const WeftHost *host, const WeftMemory *memory, const GPtrArray *nodes)
{
    if (memory->numa >= host->numa->len)
        return FALSE;
    const WeftNuma *numa = &g_array_index(host->numa, WeftNuma, memory->numa);
    for (guint i = 0; i < numa->n_pages; i++)
        if (numa->pages[i].size == memory->page_size)
            return numa->pages[i].count >= pages_held(nodes, memory->numa, memory->page_size);
    return FALSE;
}

gboolean
weft_discover_holds(const WeftHost *host, const GPtrArray *nodes)
{
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        if (!has_cores(host, node) || !has_devices(host, node))
            return FALSE;
        for (guint m = 0; m < node->memory->len; m++)
            if (!has_pages(host, &g_array_index(node->memory, WeftMemory, m), nodes))
                return FALSE;
    }
    return TRUE;
}
