#include "driver.h"
#include "errors.h"
#include "inventory.h"

#include <stdlib.h>

#define CPU_MAX 65535

/* --- cores --- */

/* "0,32" or "0-1" in the order of numbers. FALSE: it is no such list, or one of too many. */
static gboolean
read_siblings(const char *text, WeftCore *core)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", WEFT_CORE_CPUS_MAX + 1);
    for (guint i = 0; parts[i]; i++) {
        g_auto(GStrv) range = g_strsplit(parts[i], "-", 2);
        guint64 first, last;
        if (!weft_xml_number(range[0], 10, CPU_MAX, &first) ||
            !weft_xml_number(range[1] ? range[1] : range[0], 10, CPU_MAX, &last))
            return FALSE;
        for (guint64 cpu = first; cpu <= last; cpu++) {
            if (core->n_cpus == WEFT_CORE_CPUS_MAX)
                return FALSE;
            core->cpus[core->n_cpus++] = (guint16)cpu;
        }
    }
    return core->n_cpus > 0;
}

/* The core that this CPU is the first thread of. */
static gboolean
read_core(const xmlNode *cpu, WeftCore *ret_core)
{
    guint64 id;
    g_autofree char *number = weft_xml_get(cpu, "id");
    g_autofree char *siblings = weft_xml_get(cpu, "siblings");
    *ret_core = (WeftCore){ 0 };
    if (!weft_xml_number(number, 10, CPU_MAX, &id))
        return FALSE;
    return read_siblings(siblings ? siblings : number, ret_core) && ret_core->cpus[0] == id;
}

static void
read_cores(WeftHost *host, const xmlNode *cell, guint numa)
{
    const xmlNode *cpus = weft_xml_child(cell, "cpus");
    for (const xmlNode *cpu = weft_xml_child(cpus, "cpu"); cpu; cpu = weft_xml_next(cpu, "cpu")) {
        WeftCore core;
        if (host->cores->len >= WEFT_CORES_MAX || !read_core(cpu, &core))
            continue;
        core.id = (guint16)host->cores->len;
        core.numa = (guint8)numa;
        g_array_append_val(host->cores, core);
    }
}

/* --- memory --- */

static int
compare_pages(const void *a, const void *b)
{
    guint64 x = ((const WeftPages *)a)->size, y = ((const WeftPages *)b)->size;
    return x > y ? -1 : x < y;
}

static gboolean
read_page_size(const xmlNode *pages, WeftPages *ret_pages)
{
    g_autofree char *size = weft_xml_get(pages, "size");
    g_autofree char *unit = weft_xml_get(pages, "unit");
    g_autofree char *count = weft_xml_content(pages);
    guint64 kib;
    if (g_strcmp0(unit, "KiB") != 0 || !weft_xml_number(size, 10, G_MAXUINT32, &kib) ||
        !weft_xml_number(count, 10, G_MAXINT64, &ret_pages->count))
        return FALSE;
    ret_pages->size = kib * 1024;
    return ret_pages->count > 0 && weft_page_size_check(ret_pages->size, NULL);
}

static void
read_pages(WeftNuma *numa, const xmlNode *cell)
{
    for (const xmlNode *pages = weft_xml_child(cell, "pages"); pages; pages = weft_xml_next(pages, "pages")) {
        if (numa->n_pages < WEFT_PAGE_SIZES_MAX && read_page_size(pages, &numa->pages[numa->n_pages]))
            numa->n_pages++;
    }
    qsort(numa->pages, numa->n_pages, sizeof *numa->pages, compare_pages);
}

/* --- NUMA --- */

static gboolean
read_cell(WeftHost *host, const xmlNode *cell, GError **error)
{
    g_autofree char *id = weft_xml_get(cell, "id");
    guint64 number;
    if (!weft_xml_number(id, 10, WEFT_NUMA_MAX - 1, &number))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "capabilities: NUMA node \"%s\" is none from 0 to %d", id ? id : "",
                                 WEFT_NUMA_MAX - 1);
    const WeftNuma empty = { 0 };
    while (host->numa->len <= number)
        g_array_append_val(host->numa, empty);
    read_pages(&g_array_index(host->numa, WeftNuma, number), cell);
    guint first = host->cores->len;
    read_cores(host, cell, (guint)number);
    if (host->cores->len > first + 1)
        g_array_index(host->cores, WeftCore, first).housekeeping = TRUE;
    return TRUE;
}

static gboolean
read_topology(WeftHost *host, const xmlNode *root, GError **error)
{
    static const char *const path[] = { "host", "topology", "cells", NULL };
    const xmlNode *cells = weft_xml_find(root, path);
    for (const xmlNode *cell = weft_xml_child(cells, "cell"); cell; cell = weft_xml_next(cell, "cell")) {
        if (!read_cell(host, cell, error))
            return FALSE;
    }
    return TRUE;
}

/* --- what it is able to --- */

static gboolean
offers_kvm(const xmlNode *root)
{
    for (const xmlNode *guest = weft_xml_child(root, "guest"); guest; guest = weft_xml_next(guest, "guest")) {
        const xmlNode *arch = weft_xml_child(guest, "arch");
        for (const xmlNode *domain = weft_xml_child(arch, "domain"); domain; domain = weft_xml_next(domain, "domain")) {
            g_autofree char *type = weft_xml_get(domain, "type");
            if (g_strcmp0(type, "kvm") == 0)
                return TRUE;
        }
    }
    return FALSE;
}

/* What nodes ask for as "q35": <machine canonical="pc-q35-7.2">q35</machine>. */
static char *
find_machine(const xmlNode *root)
{
    for (const xmlNode *guest = weft_xml_child(root, "guest"); guest; guest = weft_xml_next(guest, "guest")) {
        const xmlNode *arch = weft_xml_child(guest, "arch");
        for (const xmlNode *machine = weft_xml_child(arch, "machine"); machine; machine = weft_xml_next(machine, "machine")) {
            g_autofree char *name = weft_xml_content(machine);
            if (g_strcmp0(name, "q35") == 0)
                return weft_xml_get(machine, "canonical");
        }
    }
    return NULL;
}

static gboolean
has_flag(const xmlNode *cpu)
{
    for (const xmlNode *feature = weft_xml_child(cpu, "feature"); feature; feature = weft_xml_next(feature, "feature")) {
        g_autofree char *name = weft_xml_get(feature, "name");
        if (g_strcmp0(name, "vmx") == 0 || g_strcmp0(name, "svm") == 0)
            return TRUE;
    }
    return FALSE;
}

gboolean
weft_inventory_read_capabilities(WeftInventory *inventory, const char *xml, gboolean *ret_offers_kvm, gboolean *ret_flag,
                                 GError **error)
{
    static const char *const cpu_path[] = { "host", "cpu", NULL };
    static const char *const iommu_path[] = { "host", "iommu", NULL };
    g_autoptr(xmlDoc) doc = weft_xml_parse(xml, "capabilities", error);
    if (!doc)
        return FALSE;
    const xmlNode *root = xmlDocGetRootElement(doc);
    if (!read_topology(inventory->hardware, root, error))
        return FALSE;
    const xmlNode *cpu = weft_xml_find(root, cpu_path);
    g_autofree char *iommu = weft_xml_get(weft_xml_find(root, iommu_path), "support");
    g_free(inventory->cpu_model);
    inventory->cpu_model = weft_xml_content(weft_xml_child(cpu, "model"));
    g_free(inventory->machine);
    inventory->machine = find_machine(root);
    inventory->iommu = g_strcmp0(iommu, "yes") == 0;
    *ret_offers_kvm = offers_kvm(root);
    *ret_flag = has_flag(cpu);
    return TRUE;
}
