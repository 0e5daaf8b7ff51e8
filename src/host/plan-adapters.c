#include "errors.h"
#include "file.h"
#include "plan.h"
#include "sysfs.h"

#include <errno.h>
#include <string.h>

#define MODPROBE "/etc/modprobe.d/weft-mlx4.conf"
#define MODPROBE_MAX 65536
#define AGAIN "weft drain the host (--evict where nodes cannot move), then weft host prepare"

/* --- the number of functions --- */

/* A number other than 0 is taken by the kernel only where there are none. */
static gboolean
act_functions(const WeftHook *hook, const WeftStep *step, GError **error)
{
    if (!weft_sysfs_set(step->path, step->value, NULL, error))
        return FALSE;
    g_autoptr(WeftAdapter) adapter = weft_adapter_at(hook, step->hint);
    if (adapter->functions->len != g_ascii_strtoull(step->value, NULL, 10))
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "%u came of it: look into the kernel's log",
                                 adapter->functions->len);
    return TRUE;
}

static void
plan_number(WeftPlan *plan, const char *item, const WeftAdapter *adapter, guint number)
{
    char *path = g_build_filename(adapter->folder, "sriov_numvfs", NULL);
    char *what = number ? g_strdup_printf("make %u virtual functions", number)
                        : g_strdup_printf("remove its %u virtual functions", adapter->functions->len);
    WeftStep *step = weft_plan_write(plan, item, number ? "prepare-functions" : "prepare-no-functions", what, path,
                                     g_strdup_printf("%u", number));
    step->act = act_functions;
    step->hint = g_strdup(adapter->pci);
}

static gboolean
check_unused(WeftPlan *plan, const char *item, const WeftAdapter *adapter)
{
    for (guint i = 0; i < adapter->functions->len; i++) {
        const char *pci = g_ptr_array_index(adapter->functions, i);
        g_autofree char *user = pci ? weft_device_user(plan->hook, pci) : NULL;
        if (user) {
            weft_plan_refuse(plan, item, AGAIN, "%s is in use by %s: no function may be taken away now", pci, user);
            return FALSE;
        }
    }
    return TRUE;
}

/* --- the host's drivers --- */

static gboolean
act_unbind(const WeftHook *hook, const WeftStep *step, GError **error)
{
    return weft_sysfs_write(step->path, step->value, error);
}

static void
plan_unbind(WeftPlan *plan, const char *item, const WeftAdapter *adapter)
{
    for (guint i = 0; i < adapter->functions->len; i++) {
        const char *pci = g_ptr_array_index(adapter->functions, i);
        g_autofree char *driver = pci ? weft_device_driver(plan->hook, pci) : NULL;
        if (!weft_driver_is_hosts(driver))
            continue;
        weft_plan_write(plan, item, "prepare-unbind", g_strdup_printf("take %s off %s", driver, pci),
                        weft_sysfs_path(plan->hook, "/sys/bus/pci/devices/%s/driver/unbind", pci), g_strdup(pci))
            ->act = act_unbind;
    }
}

static void
plan_autoprobe(WeftPlan *plan, const char *item, const WeftAdapter *adapter, guint wanted)
{
    g_autofree char *path = g_build_filename(adapter->folder, "sriov_drivers_autoprobe", NULL);
    if (!wanted || weft_sysfs_number(path, 0) == 0)
        return;
    weft_plan_write(plan, item, "prepare-autoprobe", g_strdup("keep drivers of the host off its virtual functions"),
                    g_steal_pointer(&path), g_strdup("0"));
}

static gboolean
are_removed(const WeftAdapter *adapter, guint wanted, gboolean anew)
{
    return adapter->functions->len > 0 && (adapter->functions->len != wanted || anew);
}

gboolean
weft_plan_remove(WeftPlan *plan, const char *item, const WeftAdapter *adapter, guint wanted, gboolean anew)
{
    gboolean removed = are_removed(adapter, wanted, anew);
    if (removed && !check_unused(plan, item, adapter))
        return FALSE;
    plan_autoprobe(plan, item, adapter, wanted);
    if (removed)
        plan_number(plan, item, adapter, 0);
    else
        plan_unbind(plan, item, adapter);
    return TRUE;
}

void
weft_plan_make(WeftPlan *plan, const char *item, const WeftAdapter *adapter, guint wanted, gboolean anew)
{
    if (wanted > 0 && (adapter->functions->len == 0 || are_removed(adapter, wanted, anew)))
        plan_number(plan, item, adapter, wanted);
}

/* --- mlx4: functions come with the module --- */

static gboolean
act_modprobe(const WeftHook *hook, const WeftStep *step, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(step->path);
    if (g_mkdir_with_parents(folder, 0755) != 0)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot make the folder %s: %s", folder, g_strerror(errno));
    return weft_file_replace(step->path, step->value, strlen(step->value), TRUE, error);
}

static void
plan_mlx4(WeftPlan *plan, const char *item, const WeftAdapter *adapter, guint wanted)
{
    if (adapter->functions->len == wanted) {
        plan_unbind(plan, item, adapter);
        return;
    }
    g_autofree char *line = g_strdup_printf("options mlx4_core num_vfs=%u probe_vf=0 port_type_array=1,1", wanted);
    g_autofree char *text = g_strconcat(line, "\n", NULL);
    g_autofree char *path = weft_sysfs_path(plan->hook, MODPROBE);
    g_autofree char *there = weft_file_read(path, MODPROBE_MAX, NULL, NULL);
    const char *reboot = "update-initramfs -u (Debian) or dracut -f (RHEL), then reboot";
    g_autofree char *remedy = g_strdup_printf("echo '%s' > " MODPROBE " (or weft host prepare --modprobe), %s", line, reboot);
    gboolean written = g_strcmp0(there, text) == 0;
    if (!written && plan->modprobe) {
        WeftStep *step = weft_plan_write(plan, item, "prepare-modprobe", g_strdup_printf("write %s to " MODPROBE, line),
                                         g_steal_pointer(&path), g_steal_pointer(&text));
        step->act = act_modprobe;
        written = TRUE;
    }
    weft_plan_refuse(plan, item, written ? reboot : remedy,
                     "there are %u virtual functions, and mlx4_core makes %u only when it is loaded", adapter->functions->len,
                     wanted);
}

/* --- which way --- */

static gboolean
check_driver(WeftPlan *plan, const char *item, const WeftAdapter *adapter)
{
    g_autofree char *user = weft_device_user(plan->hook, adapter->pci);
    if (!adapter->driver)
        weft_plan_refuse(plan, item, "modprobe mlx5_core, mlx4_core or nvme; dmesg tells why it has none",
                         "%s has no driver, which would make its virtual functions", adapter->pci);
    else if (!weft_driver_is_hosts(adapter->driver))
        weft_plan_refuse(plan, item, AGAIN, "%s is given away whole (%s), to %s", adapter->pci, adapter->driver,
                         user ? user : "nobody now");
    else
        return TRUE;
    return FALSE;
}

static gboolean
check_total(WeftPlan *plan, const char *item, const WeftAdapter *adapter, guint wanted)
{
    if (wanted == 0 || adapter->total >= (gint64)wanted)
        return TRUE;
    g_autofree char *firmware =
        g_strdup_printf("mstconfig -d %s set SRIOV_EN=1 NUM_OF_VFS=%u, and SR-IOV on in the machine's firmware; then power it "
                        "off and on",
                        adapter->pci, wanted);
    const char *remedy =
        g_str_equal(adapter->driver, "mlx5_core") ? firmware : "wish fewer, or switch SR-IOV on in its firmware";
    if (adapter->total <= 0)
        weft_plan_refuse(plan, item, remedy, "%s has no virtual functions: SR-IOV is off", adapter->pci);
    else
        weft_plan_refuse(plan, item, remedy, "%s can have %" G_GINT64_FORMAT " virtual functions, not %u", adapter->pci,
                         adapter->total, wanted);
    return FALSE;
}

static void
plan_adapter(WeftPlan *plan, const char *item, const WeftAdapter *adapter, const WeftAdapterWish *wish)
{
    guint before = plan->steps->len;
    if (!check_driver(plan, item, adapter))
        return;
    if (g_str_equal(adapter->driver, "mlx4_core"))
        plan_mlx4(plan, item, adapter, wish->functions);
    else if (!check_total(plan, item, adapter, wish->functions))
        return;
    else if (!wish->online && weft_plan_remove(plan, item, adapter, wish->functions, FALSE))
        weft_plan_make(plan, item, adapter, wish->functions, FALSE);
    else if (!wish->online)
        return;
    else if (g_str_equal(adapter->driver, "nvme"))
        weft_plan_nvme(plan, item, adapter, wish->functions);
    else
        weft_plan_refuse(plan, item, "leave out online", "%s has the driver %s: only NVMe's functions are switched on",
                         adapter->pci, adapter->driver);
    if (plan->steps->len == before)
        weft_plan_add(plan, item, WEFT_STEP_KEPT, "%u virtual functions, without a driver of the host", wish->functions);
}

/* All adapters of mlx4_core have as many functions: its option is one number. */
static gboolean
check_others(WeftPlan *plan, const char *item, GHashTable *seen, const WeftAdapter *adapter, guint wanted)
{
    const char *key = g_strcmp0(adapter->driver, "mlx4_core") == 0 ? adapter->driver : NULL;
    gpointer number = NULL;
    if (!g_hash_table_add(seen, g_strdup(adapter->pci))) {
        weft_plan_refuse(plan, item, "keep one of its names", "%s is wished for by another name already", adapter->pci);
        return FALSE;
    }
    if (key && g_hash_table_lookup_extended(seen, key, NULL, &number) && GPOINTER_TO_UINT(number) != wanted) {
        weft_plan_refuse(plan, item, "wish as many of each adapter of mlx4_core",
                         "another adapter of mlx4_core is to have %u virtual functions, and its option is one number",
                         GPOINTER_TO_UINT(number));
        return FALSE;
    }
    if (key)
        g_hash_table_replace(seen, g_strdup(key), GUINT_TO_POINTER(wanted));
    return TRUE;
}

void
weft_plan_adapters(WeftPlan *plan, const WeftHostWish *wish)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < wish->adapters->len; i++) {
        const WeftAdapterWish *wished = g_ptr_array_index(wish->adapters, i);
        g_autofree char *item = weft_item_adapter(wished->name);
        g_autoptr(GError) error = NULL;
        g_autoptr(WeftAdapter) adapter = weft_adapter_find(plan->hook, wished->name, &error);
        if (!adapter)
            weft_plan_refuse(plan, item, NULL, "%s", error->message);
        else if (check_others(plan, item, seen, adapter, wished->functions))
            plan_adapter(plan, item, adapter, wished);
    }
}
