#include "host-numa.h"

#include "codec.h"
#include "errors.h"
#include "size.h"

#define CPUS_MAX (WEFT_CORES_MAX * WEFT_CORE_CPUS_MAX)

static const guint64 page_sizes[] = { 4ULL << 10, 64ULL << 10, 2ULL << 20, 512ULL << 20, 1ULL << 30, 16ULL << 30 };

gboolean
weft_page_size_check(guint64 size, GError **error)
{
    for (guint i = 0; i < G_N_ELEMENTS(page_sizes); i++)
        if (page_sizes[i] == size)
            return TRUE;
    g_autofree char *text = weft_size_format(size);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s is no page size; use 4K, 64K, 2M, 512M, 1G or 16G", text);
    return FALSE;
}

static void
insert_pages(WeftNuma *numa, WeftPages pages)
{
    guint i = numa->n_pages++;
    for (; i > 0 && numa->pages[i - 1].size < pages.size; i--)
        numa->pages[i] = numa->pages[i - 1];
    numa->pages[i] = pages;
}

static gboolean
add_pages(WeftNuma *numa, const char *key, const json_t *value, GError **error)
{
    guint64 size;
    if (!weft_size_parse(key, &size, error) || !weft_page_size_check(size, error))
        return FALSE;
    for (guint i = 0; i < numa->n_pages; i++) {
        if (numa->pages[i].size == size) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s stands there twice; name each page size once", key);
            return FALSE;
        }
    }
    guint64 max = WEFT_MEMORY_MAX / size;
    json_int_t count = json_integer_value(value);
    if (!json_is_integer(value) || count < 0 || (guint64)count > max) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "the number of %s pages must be 0 to %" G_GUINT64_FORMAT, key, max);
        return FALSE;
    }
    insert_pages(numa, (WeftPages){ size, (guint64)count });
    return TRUE;
}

static void
read_pages(WeftFields *f, WeftNuma *numa)
{
    json_t *object = weft_fields_object(f, "pages");
    if (!object)
        return;
    if (json_object_size(object) > WEFT_PAGE_SIZES_MAX) {
        weft_fields_fail(f, "pages", "%zu page sizes; at most %d are allowed", json_object_size(object), WEFT_PAGE_SIZES_MAX);
        return;
    }
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        g_autoptr(GError) error = NULL;
        if (!add_pages(numa, key, value, &error))
            weft_fields_fail(f, "pages", "%s", error->message);
    }
}

/* Linux on x86 numbers all first threads, then all second ones. Cores of NUMA nodes that are numbered already keep theirs. */
static void
number_cpus(GArray *cores, const gboolean *numbered)
{
    guint16 next = 0;
    for (guint thread = 0; thread < WEFT_CORE_CPUS_MAX; thread++) {
        for (guint i = 0; i < cores->len; i++) {
            WeftCore *core = &g_array_index(cores, WeftCore, i);
            if (thread >= core->n_cpus)
                continue;
            if (!numbered[core->numa])
                core->cpus[thread] = next;
            next++;
        }
    }
}

static gboolean
read_core_cpus(WeftCore *core, const json_t *threads)
{
    if (json_array_size(threads) != core->n_cpus)
        return FALSE;
    for (guint i = 0; i < core->n_cpus; i++) {
        const json_t *cpu = json_array_get(threads, i);
        json_int_t number = json_integer_value(cpu);
        if (!json_is_integer(cpu) || number < 0 || number >= CPUS_MAX)
            return FALSE;
        core->cpus[i] = (guint16)number;
    }
    return TRUE;
}

static gboolean
read_cpus(WeftFields *f, WeftCore *cores, guint n, guint threads)
{
    json_t *array = weft_fields_array(f, "cpus", WEFT_CORES_MAX);
    if (!array)
        return FALSE;
    if (json_array_size(array) != n)
        weft_fields_fail(f, "cpus", "describes %zu cores, but cores is %u; list each core's threads", json_array_size(array),
                         n);
    for (guint i = 0; !f->error && i < n; i++)
        if (!read_core_cpus(&cores[i], json_array_get(array, i)))
            weft_fields_fail(f, "cpus", "entry %u must have a CPU number, 0 to %d, for each of %u threads", i, CPUS_MAX - 1,
                             threads);
    return TRUE;
}

typedef struct {
    WeftHost *host;
    gboolean numbered[WEFT_NUMA_MAX]; /* has "cpus" */
} Reader;

static void
read_numa(WeftFields *f, guint index, gpointer owner)
{
    Reader *reader = owner;
    GArray *cores = reader->host->cores;
    WeftNuma numa = { 0 };
    guint first = cores->len;
    guint n = (guint)weft_fields_uint(f, "cores", 0, WEFT_CORES_MAX, WEFT_REQUIRED);
    guint threads = (guint)weft_fields_uint(f, "threads", 1, WEFT_CORE_CPUS_MAX, 1);
    read_pages(f, &numa);
    g_array_append_val(reader->host->numa, numa);
    if (first + n > WEFT_CORES_MAX)
        weft_fields_fail(f, "cores", "%u cores in all; a host has at most %d", first + n, WEFT_CORES_MAX);
    if (f->error)
        return;
    g_array_set_size(cores, first + n);
    for (guint i = first; i < cores->len; i++)
        g_array_index(cores, WeftCore, i) = (WeftCore){ .id = (guint16)i, .numa = (guint8)index, .n_cpus = (guint8)threads };
    reader->numbered[index] = read_cpus(f, n ? &g_array_index(cores, WeftCore, first) : NULL, n, threads);
}

static void
check_cpus(WeftFields *f, const WeftHost *host)
{
    gboolean seen[CPUS_MAX] = { 0 };
    for (guint i = 0; i < host->cores->len; i++) {
        const WeftCore *core = &g_array_index(host->cores, WeftCore, i);
        for (guint j = 0; j < core->n_cpus; j++) {
            if (seen[core->cpus[j]])
                weft_fields_fail(f, "numa", "CPU %u belongs to two cores; give \"cpus\" for every NUMA node", core->cpus[j]);
            seen[core->cpus[j]] = TRUE;
        }
    }
}

/* The first cores of each NUMA node are the host's. */
static void
keep_house(WeftFields *f, WeftHost *host, guint housekeeping)
{
    guint kept[WEFT_NUMA_MAX] = { 0 }, left = 0;
    for (guint i = 0; i < host->cores->len; i++) {
        WeftCore *core = &g_array_index(host->cores, WeftCore, i);
        core->housekeeping = kept[core->numa] < housekeeping;
        kept[core->numa] += core->housekeeping;
        left += !core->housekeeping;
    }
    if (left == 0)
        weft_fields_fail(f, "numa", "none of %u cores is left for nodes; describe more, or lower housekeeping",
                         host->cores->len);
}

void
weft_host_numa_read(WeftFields *fields, WeftHost *host)
{
    Reader reader = { .host = host };
    weft_codec_read_items(fields, "numa", WEFT_NUMA_MAX, read_numa, &reader);
    guint housekeeping = (guint)weft_fields_uint(fields, "housekeeping", 0, WEFT_CORES_MAX, 0);
    /* Nobody described it: it is read from the host. */
    if (fields->error || host->numa->len == 0)
        return;
    number_cpus(host->cores, reader.numbered);
    check_cpus(fields, host);
    keep_house(fields, host, housekeeping);
}

static json_t *
write_pages(const WeftNuma *numa)
{
    json_t *pages = json_object();
    for (guint i = 0; i < numa->n_pages; i++) {
        g_autofree char *size = weft_size_format(numa->pages[i].size);
        json_object_set_new_nocheck(pages, size, json_integer((json_int_t)numa->pages[i].count));
    }
    return pages;
}

static json_t *
write_cpus(const WeftCore *cores, guint n)
{
    json_t *array = json_array();
    for (guint i = 0; i < n; i++) {
        json_t *threads = json_array();
        for (guint j = 0; j < cores[i].n_cpus; j++)
            json_array_append_new(threads, json_integer(cores[i].cpus[j]));
        json_array_append_new(array, threads);
    }
    return array;
}

static gboolean
same_cpus(const WeftCore *a, const WeftCore *b, guint n)
{
    for (guint i = 0; i < n; i++)
        if (memcmp(a[i].cpus, b[i].cpus, a[i].n_cpus * sizeof a[i].cpus[0]) != 0)
            return FALSE;
    return TRUE;
}

static json_t *
write_numa(const WeftNuma *numa, const WeftCore *cores, const WeftCore *usual, guint n)
{
    json_t *json = json_pack("{s:i}", "cores", (int)n);
    if (n && cores[0].n_cpus != 1)
        json_object_set_new_nocheck(json, "threads", json_integer(cores[0].n_cpus));
    if (numa->n_pages)
        json_object_set_new_nocheck(json, "pages", write_pages(numa));
    if (!same_cpus(cores, usual, n))
        json_object_set_new_nocheck(json, "cpus", write_cpus(cores, n));
    return json;
}

void
weft_host_numa_write(const WeftHost *host, json_t *json)
{
    static const gboolean none[WEFT_NUMA_MAX];
    g_autoptr(GArray) usual = g_array_copy(host->cores);
    number_cpus(usual, none);

    json_t *array = json_array();
    guint housekeeping = 0;
    const WeftCore *cores = (const WeftCore *)(gpointer)host->cores->data;
    for (guint i = 0, first = 0; i < host->numa->len; i++) {
        guint n = 0, kept = 0;
        for (; first + n < host->cores->len && cores[first + n].numa == i; n++)
            kept += cores[first + n].housekeeping;
        const WeftNuma *numa = &g_array_index(host->numa, WeftNuma, i);
        json_array_append_new(array, write_numa(numa, cores + first, (const WeftCore *)(gpointer)usual->data + first, n));
        /* A smaller NUMA node may have given all it has; one that has cores left gave as many as were asked for. */
        housekeeping = MAX(housekeeping, kept);
        first += n;
    }
    if (host->numa->len)
        json_object_set_new_nocheck(json, "numa", array);
    else
        json_decref(array);
    if (housekeeping)
        json_object_set_new_nocheck(json, "housekeeping", json_integer(housekeeping));
}
