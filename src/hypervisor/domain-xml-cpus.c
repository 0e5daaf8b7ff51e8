#include "domain-xml-private.h"

#define SMALL_PAGE 4096

static const WeftCore *
core_of(const WeftDomainSpec *spec, guint index)
{
    return &g_array_index(spec->host->cores, WeftCore, g_array_index(spec->node->cores, guint16, index));
}

static const WeftMemory *
memory_of(const WeftDomainSpec *spec, guint index)
{
    return &g_array_index(spec->node->memory, WeftMemory, index);
}

static GArray *
numbers_new(void)
{
    return g_array_new(FALSE, FALSE, sizeof(guint));
}

/* --- memory --- */

static void
write_amount(WeftXml *xml, const char *element, guint64 bytes)
{
    g_autofree char *kib = g_strdup_printf("%" G_GUINT64_FORMAT, bytes / 1024);
    weft_xml_begin(xml, element);
    weft_xml_attribute(xml, "unit", "KiB");
    weft_xml_text(xml, kib);
    weft_xml_end(xml);
}

/* The guest's cells whose pages have this size; NULL where an earlier one has it too and has said so. */
static GArray *
cells_with_pages(const WeftDomainSpec *spec, guint first)
{
    guint64 size = memory_of(spec, first)->page_size;
    g_autoptr(GArray) cells = numbers_new();
    for (guint i = 0; i < spec->node->memory->len; i++) {
        if (memory_of(spec, i)->page_size != size)
            continue;
        if (i < first)
            return NULL;
        g_array_append_val(cells, i);
    }
    return g_steal_pointer(&cells);
}

static void
write_pages(WeftXml *xml, const WeftDomainSpec *spec, guint index)
{
    g_autoptr(GArray) cells = cells_with_pages(spec, index);
    if (!cells || memory_of(spec, index)->page_size <= SMALL_PAGE)
        return;
    g_autofree char *set = weft_xml_set(cells);
    weft_xml_begin(xml, "page");
    weft_xml_attribute_format(xml, "size", "%" G_GUINT64_FORMAT, memory_of(spec, index)->page_size / 1024);
    weft_xml_attribute(xml, "unit", "KiB");
    if (spec->node->memory->len > 1)
        weft_xml_attribute(xml, "nodeset", set);
    weft_xml_end(xml);
}

static gboolean
has_huge_pages(const WeftDomainSpec *spec)
{
    for (guint i = 0; i < spec->node->memory->len; i++) {
        if (memory_of(spec, i)->page_size > SMALL_PAGE)
            return TRUE;
    }
    return FALSE;
}

void
weft_domain_write_memory(WeftXml *xml, const WeftDomainSpec *spec)
{
    write_amount(xml, "memory", weft_node_memory(spec->node));
    weft_xml_begin(xml, "memoryBacking");
    /* Small pages become huge where and when the kernel sees fit: nothing is to be said. What VFIO pins needs no <locked/>
     * either: libvirt raises the limit by itself. */
    if (has_huge_pages(spec)) {
        weft_xml_begin(xml, "hugepages");
        for (guint i = 0; i < spec->node->memory->len; i++)
            write_pages(xml, spec, i);
        weft_xml_end(xml);
    }
    /* Merging equal pages of different tenants would tell one what the other has, and makes noise. */
    weft_xml_empty(xml, "nosharepages");
    weft_xml_end(xml);
}

static char *
host_nodes(const WeftDomainSpec *spec)
{
    g_autoptr(GArray) nodes = numbers_new();
    for (guint i = 0; i < spec->node->memory->len; i++)
        g_array_append_val(nodes, memory_of(spec, i)->numa);
    return weft_xml_set(nodes);
}

void
weft_domain_write_numatune(WeftXml *xml, const WeftDomainSpec *spec)
{
    g_autofree char *all = host_nodes(spec);
    weft_xml_begin(xml, "numatune");
    weft_xml_empty(xml, "memory", "mode", "strict", "nodeset", all);
    for (guint i = 0; spec->node->memory->len > 1 && i < spec->node->memory->len; i++) {
        weft_xml_begin(xml, "memnode");
        weft_xml_attribute_format(xml, "cellid", "%u", i);
        weft_xml_attribute(xml, "mode", "strict");
        weft_xml_attribute_format(xml, "nodeset", "%u", memory_of(spec, i)->numa);
        weft_xml_end(xml);
    }
    weft_xml_end(xml);
}

/* --- virtual CPUs --- */

guint
weft_domain_vcpus(const WeftDomainSpec *spec)
{
    guint count = 0;
    for (guint i = 0; i < spec->node->cores->len; i++)
        count += core_of(spec, i)->n_cpus;
    return count;
}

static gboolean
has_core_on(const WeftDomainSpec *spec, guint numa)
{
    for (guint i = 0; i < spec->node->cores->len; i++) {
        if (core_of(spec, i)->numa == numa)
            return TRUE;
    }
    return FALSE;
}

/* The hardware threads that the host keeps for itself: all, or those near the node. NULL: none. */
static char *
housekeeping(const WeftDomainSpec *spec, gboolean near)
{
    g_autoptr(GArray) cpus = numbers_new();
    for (guint i = 0; i < spec->host->cores->len; i++) {
        const WeftCore *core = &g_array_index(spec->host->cores, WeftCore, i);
        if (!core->housekeeping || (near && !has_core_on(spec, core->numa)))
            continue;
        for (guint t = 0; t < core->n_cpus; t++) {
            guint cpu = core->cpus[t];
            g_array_append_val(cpus, cpu);
        }
    }
    return weft_xml_set(cpus);
}

/* The threads of a core side by side. */
static void
write_vcpupins(WeftXml *xml, const WeftDomainSpec *spec)
{
    guint vcpu = 0;
    for (guint i = 0; i < spec->node->cores->len; i++) {
        const WeftCore *core = core_of(spec, i);
        for (guint t = 0; t < core->n_cpus; t++) {
            weft_xml_begin(xml, "vcpupin");
            weft_xml_attribute_format(xml, "vcpu", "%u", vcpu++);
            weft_xml_attribute_format(xml, "cpuset", "%u", core->cpus[t]);
            weft_xml_end(xml);
        }
    }
}

void
weft_domain_write_vcpus(WeftXml *xml, const WeftDomainSpec *spec)
{
    g_autofree char *count = g_strdup_printf("%u", weft_domain_vcpus(spec));
    weft_xml_begin(xml, "vcpu");
    weft_xml_attribute(xml, "placement", "static");
    weft_xml_text(xml, count);
    weft_xml_end(xml);
    weft_xml_element(xml, "iothreads", G_STRINGIFY(WEFT_DOMAIN_IOTHREAD));

    g_autofree char *near = housekeeping(spec, TRUE);
    g_autofree char *any = housekeeping(spec, FALSE);
    const char *others = near ? near : any;
    weft_xml_begin(xml, "cputune");
    write_vcpupins(xml, spec);
    /* A host that keeps no core for itself leaves these threads to its scheduler: every set would hold some node's core. */
    if (others) {
        weft_xml_empty(xml, "emulatorpin", "cpuset", others);
        weft_xml_empty(xml, "iothreadpin", "iothread", G_STRINGIFY(WEFT_DOMAIN_IOTHREAD), "cpuset", others);
    }
    weft_xml_end(xml);
}

/* --- what the guest sees --- */

typedef struct Topology {
    guint sockets, cores, threads;
} Topology;

static guint
cores_on(const WeftDomainSpec *spec, guint numa)
{
    guint count = 0;
    for (guint i = 0; i < spec->node->cores->len; i++)
        count += core_of(spec, i)->numa == numa;
    return count;
}

/* A socket for each NUMA node with cores, as long as they are all alike; what is uneven is shown as one socket. */
static Topology
topology_of(const WeftDomainSpec *spec)
{
    const WeftCore *first = core_of(spec, 0);
    Topology topology = { 1, cores_on(spec, first->numa), first->n_cpus };
    gboolean even = TRUE;
    for (guint i = 1; i < spec->node->cores->len; i++) {
        const WeftCore *core = core_of(spec, i);
        if (core->n_cpus != topology.threads)
            return (Topology){ 1, weft_domain_vcpus(spec), 1 };
        topology.sockets += core->numa != core_of(spec, i - 1)->numa;
        even = even && cores_on(spec, core->numa) == topology.cores;
    }
    return even ? topology : (Topology){ 1, spec->node->cores->len, topology.threads };
}

/* Its own cell, or the first where the node has cores but no memory. */
static guint
cell_of(const WeftDomainSpec *spec, const WeftCore *core)
{
    int cell = weft_domain_cell(spec, core->numa);
    return cell < 0 ? 0 : (guint)cell;
}

/* The virtual CPUs of a cell; NULL: it has memory only. */
static char *
cell_cpus(const WeftDomainSpec *spec, guint cell)
{
    g_autoptr(GArray) vcpus = numbers_new();
    guint vcpu = 0;
    for (guint i = 0; i < spec->node->cores->len; i++) {
        const WeftCore *core = core_of(spec, i);
        for (guint t = 0; t < core->n_cpus; t++, vcpu++) {
            if (cell_of(spec, core) == cell)
                g_array_append_val(vcpus, vcpu);
        }
    }
    return weft_xml_set(vcpus);
}

static void
write_cells(WeftXml *xml, const WeftDomainSpec *spec)
{
    weft_xml_begin(xml, "numa");
    for (guint i = 0; i < spec->node->memory->len; i++) {
        const WeftMemory *memory = memory_of(spec, i);
        g_autofree char *cpus = cell_cpus(spec, i);
        weft_xml_begin(xml, "cell");
        weft_xml_attribute_format(xml, "id", "%u", i);
        if (cpus)
            weft_xml_attribute(xml, "cpus", cpus);
        weft_xml_attribute_format(xml, "memory", "%" G_GUINT64_FORMAT, memory->pages * memory->page_size / 1024);
        weft_xml_attribute(xml, "unit", "KiB");
        weft_xml_end(xml);
    }
    weft_xml_end(xml);
}

void
weft_domain_write_cpu(WeftXml *xml, const WeftDomainSpec *spec)
{
    Topology topology = topology_of(spec);
    weft_xml_begin(xml, "cpu");
    weft_xml_attribute(xml, "mode", spec->tcg ? "maximum" : "host-passthrough");
    weft_xml_begin(xml, "topology");
    weft_xml_attribute_format(xml, "sockets", "%u", topology.sockets);
    weft_xml_attribute_format(xml, "cores", "%u", topology.cores);
    weft_xml_attribute_format(xml, "threads", "%u", topology.threads);
    weft_xml_end(xml);
    if (spec->node->memory->len > 1)
        write_cells(xml, spec);
    weft_xml_end(xml);
}
