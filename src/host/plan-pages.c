#include "errors.h"
#include "plan.h"
#include "size.h"
#include "sysfs.h"

#include <string.h>

/* What the kernel says of the pages of one size on one NUMA node. */
typedef struct Pool {
    char *item;
    char *path; /* of nr_hugepages */
    guint64 size;
    guint node;
    gint64 total, used;
    guint64 wanted;
} Pool;

static void
pool_free(gpointer data)
{
    Pool *pool = data;
    g_free(pool->item);
    g_free(pool->path);
    g_free(pool);
}

static gint64
number_in(const char *folder, const char *name, gint64 otherwise)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    return weft_sysfs_number(path, otherwise);
}

/* A kernel without NUMA has one place for all. */
static char *
folder_of(const WeftHook *hook, guint64 size, guint node)
{
    char *folder =
        weft_sysfs_path(hook, "/sys/devices/system/node/node%u/hugepages/hugepages-%" G_GUINT64_FORMAT "kB", node, size / 1024);
    g_autofree char *nodes = weft_sysfs_path(hook, "/sys/devices/system/node");
    if (node > 0 || g_file_test(nodes, G_FILE_TEST_EXISTS))
        return folder;
    g_free(folder);
    return weft_sysfs_path(hook, "/sys/kernel/mm/hugepages/hugepages-%" G_GUINT64_FORMAT "kB", size / 1024);
}

/* Promised pages are of no node yet: any of a node's may be among them. */
static Pool *
look(const WeftHook *hook, const WeftPageWish *wish, guint node)
{
    g_autofree char *folder = folder_of(hook, wish->size, node);
    g_autofree char *all =
        weft_sysfs_path(hook, "/sys/kernel/mm/hugepages/hugepages-%" G_GUINT64_FORMAT "kB", wish->size / 1024);
    Pool *pool = g_new0(Pool, 1);
    pool->item = weft_item_pages(wish->size, node);
    pool->path = g_build_filename(folder, "nr_hugepages", NULL);
    pool->size = wish->size;
    pool->node = node;
    pool->wanted = wish->count;
    pool->total = number_in(folder, "nr_hugepages", -1);
    pool->used = pool->total - number_in(folder, "free_hugepages", 0) + number_in(all, "resv_hugepages", 0);
    return pool;
}

/* NUMA nodes with memory: others have no folder for pages. */
static GArray *
nodes_of(const WeftHook *hook)
{
    GArray *nodes = g_array_new(FALSE, FALSE, sizeof(guint));
    g_autofree char *folder = weft_sysfs_path(hook, "/sys/devices/system/node");
    g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
    for (guint i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        g_autofree char *pages = g_build_filename(folder, name, "hugepages", NULL);
        guint64 node = 0;
        if (g_str_has_prefix(name, "node") &&
            g_ascii_string_to_unsigned(name + strlen("node"), 10, 0, G_MAXUINT, &node, NULL) &&
            g_file_test(pages, G_FILE_TEST_IS_DIR))
            g_array_append_val(nodes, (guint){ (guint)node });
    }
    if (nodes->len == 0)
        g_array_append_val(nodes, (guint){ 0 });
    return nodes;
}

static GPtrArray *
look_at_all(const WeftHook *hook, const WeftHostWish *wish)
{
    GPtrArray *pools = g_ptr_array_new_with_free_func(pool_free);
    g_autoptr(GArray) nodes = nodes_of(hook);
    for (guint i = 0; i < wish->pages->len; i++) {
        const WeftPageWish *pages = &g_array_index(wish->pages, WeftPageWish, i);
        for (guint n = 0; pages->node == WEFT_WISH_EVERY_NODE && n < nodes->len; n++)
            g_ptr_array_add(pools, look(hook, pages, g_array_index(nodes, guint, n)));
        if (pages->node != WEFT_WISH_EVERY_NODE)
            g_ptr_array_add(pools, look(hook, pages, (guint)pages->node));
    }
    return pools;
}

/* --- steps --- */

/* The kernel takes as many as it finds, and says nothing. */
static gboolean
act(const WeftHook *hook, const WeftStep *step, GError **error)
{
    gint64 wanted = g_ascii_strtoll(step->value, NULL, 10);
    if (!weft_sysfs_write(step->path, step->value, error))
        return FALSE;
    gint64 got = weft_sysfs_number(step->path, -1);
    if (got < wanted)
        return weft_error_refuse(error, WEFT_ERROR_EXHAUSTED,
                                 "only %" G_GINT64_FORMAT " were to be had: memory is used, or in pieces; try after echo 1 > "
                                 "/proc/sys/vm/compact_memory, or reserve them at boot with %s on the kernel's command line",
                                 got, step->hint);
    if (got > wanted)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "%" G_GINT64_FORMAT " stayed: nodes took them meanwhile; weft drain the host, then again",
                                 got);
    return TRUE;
}

static void
plan_pool(WeftPlan *plan, const Pool *pool)
{
    g_autofree char *size = weft_size_format(pool->size);
    if (pool->total < 0) {
        weft_plan_refuse(plan, pool->item,
                         "ls /sys/devices/system/node/node*/hugepages shows what there is; pages of 1G need a processor with "
                         "pdpe1gb",
                         "this host has no pages of %s on NUMA node %u", size, pool->node);
    } else if ((guint64)pool->total == pool->wanted) {
        weft_plan_add(plan, pool->item, WEFT_STEP_KEPT, "%" G_GUINT64_FORMAT " pages", pool->wanted);
    } else if ((gint64)pool->wanted < pool->used) {
        g_autofree char *remedy = g_strdup_printf("weft drain the host, or wish %" G_GINT64_FORMAT " at least", pool->used);
        weft_plan_refuse(plan, pool->item, remedy,
                         "%" G_GUINT64_FORMAT " pages of %" G_GINT64_FORMAT ", of which %" G_GINT64_FORMAT
                         " are in use or promised",
                         pool->wanted, pool->total, pool->used);
    } else {
        WeftStep *step =
            weft_plan_write(plan, pool->item, "prepare-pages",
                            g_strdup_printf("%s %" G_GUINT64_FORMAT " pages; there are %" G_GINT64_FORMAT,
                                            (gint64)pool->wanted < pool->total ? "keep" : "reserve", pool->wanted, pool->total),
                            g_strdup(pool->path), g_strdup_printf("%" G_GUINT64_FORMAT, pool->wanted));
        step->act = act;
        step->hint = g_strdup_printf("hugepagesz=%s hugepages=%u:%" G_GUINT64_FORMAT, size, pool->node, pool->wanted);
    }
}

/* What becomes less first: pages of another size may be made of it. */
void
weft_plan_pages(WeftPlan *plan, const WeftHostWish *wish)
{
    g_autoptr(GPtrArray) pools = look_at_all(plan->hook, wish);
    for (guint pass = 0; pass < 2; pass++)
        for (guint i = 0; i < pools->len; i++) {
            const Pool *pool = g_ptr_array_index(pools, i);
            if (((gint64)pool->wanted < pool->total) == (pass == 0))
                plan_pool(plan, pool);
        }
}
