#include "prepare.h"

#include "checks.h"
#include "errors.h"
#include "file.h"
#include "memory-folders.h"
#include "plan.h"
#include "report.h"
#include "state.h"
#include "sysfs.h"
#include "wish.h"
#include "yaml.h"

#include <unistd.h>

static struct {
    char *file;
    char **adapters, **pages;
    gboolean dry_run, modprobe;
} flags;

/* clang-format off */
const GOptionEntry weft_prepare_options[] = {
    { "file", 'f', 0, G_OPTION_ARG_FILENAME, &flags.file, "what is wished (" WEFT_WISH_PATH ")", "FILE" },
    { "adapter", 0, 0, G_OPTION_ARG_STRING_ARRAY, &flags.adapters,
      "virtual functions of an adapter: mlx5_0=16; may be repeated", "NAME=COUNT" },
    { "pages", 0, 0, G_OPTION_ARG_STRING_ARRAY, &flags.pages,
      "huge pages of each NUMA node, or by node: 2M=1024, 1G=0:64,1:32; may be repeated", "SIZE=COUNT" },
    { "modprobe", 0, 0, G_OPTION_ARG_NONE, &flags.modprobe, "write options of modules that need it to /etc/modprobe.d", NULL },
    { "dry-run", 0, 0, G_OPTION_ARG_NONE, &flags.dry_run, "tell what would be done, and change nothing", NULL },
    { NULL },
};
/* clang-format on */

/* --- the wish --- */

/* Options may do without a file, but not without one that they name. */
static json_t *
read_file(const WeftHook *hook, GError **error)
{
    gsize length = 0;
    g_autofree char *path = flags.file ? g_strdup(flags.file) : weft_sysfs_path(hook, WEFT_WISH_PATH);
    if (!flags.file && (flags.adapters || flags.pages) && !g_file_test(path, G_FILE_TEST_EXISTS))
        return json_object();
    g_autoptr(GError) unread = NULL;
    g_autofree char *text = weft_file_read(path, WEFT_TEXT_BYTES_MAX, &length, &unread);
    if (!text) {
        weft_error_refuse(error, WEFT_ERROR_INVALID,
                          "write what the host is to have into %s, or say it with --adapter and --pages: %s", path,
                          unread->message);
        return NULL;
    }
    return weft_yaml_parse(text, length, path, error);
}

static WeftHostWish *
read_wish(const WeftHook *hook, GError **error)
{
    json_t *json = read_file(hook, error);
    g_autoptr(WeftHostWish) wish = json ? weft_host_wish_new(json, error) : NULL;
    json_decref(json);
    if (json && !wish)
        g_prefix_error(error, "%s: ", flags.file ? flags.file : WEFT_WISH_PATH);
    gboolean ok = wish != NULL;
    for (guint i = 0; ok && flags.adapters && flags.adapters[i]; i++)
        ok = weft_host_wish_adapter(wish, flags.adapters[i], error);
    for (guint i = 0; ok && flags.pages && flags.pages[i]; i++)
        ok = weft_host_wish_pages(wish, flags.pages[i], error);
    return ok ? g_steal_pointer(&wish) : NULL;
}

/* --- how the host is then --- */

/* What is not done yet, or could not be, was told already. */
static gboolean
is_settled(const WeftPlan *plan, const char *item)
{
    WeftStepState state = weft_plan_state(plan, item);
    return state == WEFT_STEP_KEPT || state == WEFT_STEP_DONE;
}

static void
check_adapter(const WeftPlan *plan, const WeftAdapterWish *wished, json_t *report, json_t *checks)
{
    g_autofree char *item = weft_item_adapter(wished->name);
    g_autoptr(WeftAdapter) adapter = weft_adapter_find(plan->hook, wished->name, NULL);
    if (!adapter || !is_settled(plan, item))
        return;
    json_auto_t *json = weft_adapter_to_json(plan->hook, adapter);
    WeftFunctionsWish wish = { .check = item,
                               .name = wished->name,
                               .driver = json_string_value(json_object_get(json, "driver")),
                               .wanted = wished->functions };
    weft_check_functions(checks, report, json, &wish);
}

static void
check_pages(const WeftPlan *plan, const WeftHostWish *wish, json_t *report, json_t *checks)
{
    g_autoptr(GArray) pools = g_array_new(FALSE, TRUE, sizeof(WeftPagesWish));
    json_t *told;
    gsize n;
    for (guint i = 0; i < wish->pages->len; i++) {
        const WeftPageWish *wished = &g_array_index(wish->pages, WeftPageWish, i);
        json_array_foreach (json_object_get(report, "hugepages"), n, told) {
            guint node = (guint)json_integer_value(json_object_get(told, "node"));
            WeftPagesWish pool = { .node = node, .size = wished->size, .wanted = wished->count };
            g_autofree char *item = weft_item_pages(wished->size, node);
            if ((json_int_t)wished->size == json_integer_value(json_object_get(told, "size")) &&
                (wished->node == WEFT_WISH_EVERY_NODE || wished->node == (int)node) && is_settled(plan, item) &&
                weft_pages_reported(report, &pool))
                g_array_append_val(pools, pool);
        }
    }
    if (pools->len > 0)
        weft_check_pages(checks, pools);
}

static json_t *
check_host(const WeftPlan *plan, const WeftHostWish *wish)
{
    json_t *checks = json_array();
    json_auto_t *report = weft_report_new(plan->hook);
    gboolean needed = FALSE;
    for (guint i = 0; i < wish->adapters->len; i++)
        needed |= ((const WeftAdapterWish *)g_ptr_array_index(wish->adapters, i))->functions > 0;
    weft_check_iommu(checks, report, FALSE, needed);
    weft_check_interrupts(checks, report, needed);
    check_pages(plan, wish, report, checks);
    for (guint i = 0; i < wish->adapters->len; i++)
        check_adapter(plan, g_ptr_array_index(wish->adapters, i), report, checks);
    weft_check_unclean(checks, report);
    weft_check_settings(checks, report, NULL);
    weft_check_folders(checks, report);
    weft_check_volatile(checks, report);
    weft_check_quarantine(checks, report);
    return checks;
}

/* --- telling it --- */

static gboolean
has_state(json_t *list, const char *const *states)
{
    json_t *item;
    gsize i;
    json_array_foreach (list, i, item)
        if (g_strv_contains(states, json_string_value(json_object_get(item, "state"))))
            return TRUE;
    return FALSE;
}

static int
status_of(json_t *result)
{
    static const char *const bad_steps[] = { "refused", "failed", "left", NULL };
    static const char *const bad_checks[] = { "fail", NULL };
    return has_state(json_object_get(result, "steps"), bad_steps) || has_state(json_object_get(result, "checks"), bad_checks);
}

static void
print_list(json_t *list, const char *what, const char *found)
{
    json_t *item;
    gsize i;
    json_array_foreach (list, i, item) {
        const char *remedy = json_string_value(json_object_get(item, "remedy"));
        g_print("%-20s %-8s %s\n", json_string_value(json_object_get(item, what)),
                json_string_value(json_object_get(item, "state")), json_string_value(json_object_get(item, found)));
        const char *why = json_string_value(json_object_get(item, "why"));
        if (why)
            g_print("%-29s why: %s\n", "", why);
        if (remedy)
            g_print("%-29s remedy: %s\n", "", remedy);
    }
}

static void
print_result(json_t *result, gboolean json)
{
    if (json) {
        char *text = json_dumps(result, JSON_INDENT(2));
        g_print("%s\n", text);
        free(text);
        return;
    }
    print_list(json_object_get(result, "steps"), "item", "what");
    print_list(json_object_get(result, "checks"), "check", "found");
}

/* At boot, before anybody else could: what is wrong with one is told by the checks. */
static void
make_memory_folders(const WeftHook *hook)
{
    g_autoptr(GPtrArray) folders = weft_memory_folders(hook, 0);
    for (guint i = 0; i < folders->len; i++)
        weft_memory_folder_make(folders->pdata[i], NULL);
}

gboolean
weft_prepare_run(gboolean json, int *ret_status, GError **error)
{
    const char *root = g_getenv("WEFT_HOOK_ROOT");
    WeftHook hook = { .root = root ? root : "" };
    g_autoptr(WeftHostWish) wish = read_wish(&hook, error);
    if (!wish)
        return FALSE;
    if (!flags.dry_run && geteuid() != 0)
        return weft_error_refuse(error, WEFT_ERROR_DENIED, "only root can prepare a host; --dry-run tells what would be done");
    if (!flags.dry_run && !weft_state_lock(&hook, error)) /* no node is started meanwhile */
        return FALSE;
    g_autoptr(WeftPlan) plan = weft_plan_new(&hook, wish, flags.modprobe);
    if (!flags.dry_run) {
        make_memory_folders(&hook);
        weft_plan_run(plan);
    }
    json_auto_t *result = json_pack("{s:o, s:o}", "steps", weft_plan_to_json(plan), "checks", check_host(plan, wish));
    print_result(result, json);
    *ret_status = status_of(result);
    return TRUE;
}
