#include "release.h"

#include "adapter.h"
#include "errors.h"
#include "failpoint.h"
#include "firmware.h"
#include "nvme-device.h"
#include "quarantine.h"
#include "scrub.h"
#include "state.h"
#include "sysfs.h"
#include "vf.h"

#define STEPS_MAX 4
#define DISPLAY "0x03" /* how the class of GPUs begins */

static char *
path_of(const WeftHook *hook, const WeftTaken *taken, const char *name)
{
    return weft_sysfs_path(hook, "/sys/bus/pci/devices/%s/%s", taken->pci, name);
}

/* --- steps --- */

static gboolean
was_given(const WeftHook *hook, const WeftTaken *taken)
{
    return taken->device != NULL;
}

static gboolean
forget(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    return weft_vf_forget(hook, taken->device, error);
}

static gboolean
can_reset(const WeftHook *hook, const WeftTaken *taken)
{
    g_autofree char *path = path_of(hook, taken, "reset");
    return g_file_test(path, G_FILE_TEST_EXISTS);
}

/* The kernel uses the first that it names in reset_method (since Linux 5.15; before, nothing tells). Power management takes a
 * device to D3hot and back, in which it may keep what it has. */
static gboolean
can_reset_whole(const WeftHook *hook, const WeftTaken *taken)
{
    static const char *const thorough[] = { "device_specific", "flr", "af_flr", "bus", NULL };
    g_autofree char *path = path_of(hook, taken, "reset_method");
    if (!can_reset(hook, taken) || !g_file_test(path, G_FILE_TEST_EXISTS))
        return can_reset(hook, taken);
    g_autofree char *methods = weft_sysfs_read(path, NULL);
    g_auto(GStrv) words = g_strsplit(methods ? methods : "", " ", 2);
    return words[0] && g_strv_contains(thorough, words[0]);
}

static gboolean
reset(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    return weft_scrub_reset(hook, taken->pci, error);
}

/* A record says that it had a driver, and how many functions, until it has them again. */
static gboolean
unbind(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    g_autofree char *path = path_of(hook, taken, "driver/unbind"), *count = path_of(hook, taken, "sriov_numvfs");
    g_autofree char *functions = g_strdup_printf("%" G_GINT64_FORMAT, weft_sysfs_number(count, 0));
    g_autoptr(WeftRecord) before = weft_state_get(hook, WEFT_RECORD_UNBOUND, taken->pci);
    return (before || weft_state_put(hook, WEFT_RECORD_UNBOUND, taken->pci, functions, TRUE, error)) &&
           weft_sysfs_write(path, taken->pci, error);
}

static gboolean
rebind(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    g_autofree char *probe = weft_sysfs_path(hook, "/sys/bus/pci/drivers_probe");
    g_autofree char *count = path_of(hook, taken, "sriov_numvfs");
    g_autoptr(WeftRecord) before = weft_state_get(hook, WEFT_RECORD_UNBOUND, taken->pci);
    gint64 functions = before ? g_ascii_strtoll(before->text, NULL, 10) : 0;
    if (!weft_sysfs_write(probe, taken->pci, error) ||
        (functions > 0 && weft_sysfs_number(count, -1) != functions && !weft_sysfs_write(count, before->text, error)))
        return FALSE;
    weft_state_drop(hook, WEFT_RECORD_UNBOUND, taken->pci);
    return TRUE;
}

/* Did it lose its driver to a hook that was killed in between? An adapter has one whenever no node has it. */
static gboolean
has_lost_driver(const WeftHook *hook, const WeftTaken *taken)
{
    g_autoptr(WeftRecord) before = weft_state_get(hook, WEFT_RECORD_UNBOUND, taken->pci);
    return taken->device || before;
}

/* libvirt has given it back to the host's driver by now, which must not have it reset under its feet; its functions go with the
 * driver, and come again. */
static gboolean
reset_whole(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    g_autofree char *driver = weft_device_driver(hook, taken->pci);
    if (driver ? !weft_driver_is_hosts(driver) : !has_lost_driver(hook, taken))
        return reset(hook, taken, error);
    if (driver && !unbind(hook, taken, error))
        return FALSE;
    weft_failpoint("hook-unbound");
    gboolean ok = reset(hook, taken, error);
    return rebind(hook, taken, ok ? error : NULL) && ok;
}

static gboolean
always(const WeftHook *hook, const WeftTaken *taken)
{
    return TRUE;
}

static gboolean
erase(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    return weft_scrub_namespaces(hook, taken->pf, taken->vf, error);
}

static gboolean
is_adapter_noted(const WeftHook *hook, const WeftTaken *taken)
{
    return weft_firmware_is_noted(hook, WEFT_FIRMWARE_ADAPTER, taken->pci);
}

static gboolean
is_gpu_noted(const WeftHook *hook, const WeftTaken *taken)
{
    return weft_firmware_is_noted(hook, WEFT_FIRMWARE_GPU, taken->pci);
}

static gboolean
compare_adapter(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    return weft_firmware_compare(hook, WEFT_FIRMWARE_ADAPTER, taken->pci, error);
}

static gboolean
compare_gpu(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    return weft_firmware_compare(hook, WEFT_FIRMWARE_GPU, taken->pci, error);
}

typedef struct Step {
    const char *name;
    gboolean (*able)(const WeftHook *hook, const WeftTaken *taken); /* is there a way to do it? */
    gboolean (*run)(const WeftHook *hook, const WeftTaken *taken, GError **error);
} Step;

static const Step step_forget = { "its identity be taken away", was_given, forget };
static const Step step_reset = { "it be reset", can_reset, reset };
static const Step step_reset_whole = { "it be reset as a whole (flr or bus first in its reset_method)", can_reset_whole,
                                       reset_whole };
static const Step step_erase = { "its memory be erased", always, erase };
static const Step step_compare_adapter = { "its firmware be compared", is_adapter_noted, compare_adapter };
static const Step step_compare_gpu = { "its firmware be compared", is_gpu_noted, compare_gpu };

/* --- the table --- */

/* REQUIRED: without a way to do it no node gets such a device. IF_ABLE: it is done where there is a way, and must succeed then.
 */
typedef enum { IF_ABLE, REQUIRED } Need;

typedef struct Kind {
    const char *name;
    int firmware; /* what is asked for it: a WeftFirmwareKind; -1: it is another device's */
    struct {
        const Step *step;
        Need need;
    } steps[STEPS_MAX]; /* in this order */
} Kind;

enum { KIND_MLX4, KIND_MLX5, KIND_NVME, KIND_ADAPTER, KIND_GPU };

static const Kind kinds[] = {
    [KIND_MLX4] = { "virtual function of mlx4", -1, { { &step_forget, IF_ABLE }, { &step_reset, IF_ABLE } } },
    [KIND_MLX5] = { "virtual function of mlx5", -1, { { &step_forget, IF_ABLE }, { &step_reset, IF_ABLE } } },
    [KIND_NVME] = { "function of an NVMe device",
                    -1,
                    { { &step_forget, IF_ABLE }, { &step_reset, IF_ABLE }, { &step_erase, REQUIRED } } },
    [KIND_ADAPTER] = { "whole adapter",
                       WEFT_FIRMWARE_ADAPTER,
                       { { &step_reset_whole, REQUIRED }, { &step_compare_adapter, IF_ABLE } } },
    [KIND_GPU] = { "GPU", WEFT_FIRMWARE_GPU, { { &step_reset_whole, REQUIRED }, { &step_compare_gpu, IF_ABLE } } },
};

static const Kind *
kind_of(const WeftHook *hook, const WeftTaken *taken)
{
    g_autofree char *path = path_of(hook, taken, "class");
    g_autofree char *class = weft_sysfs_read(path, NULL);
    if (!taken->pf)
        return &kinds[taken->device || !class || !g_str_has_prefix(class, DISPLAY) ? KIND_ADAPTER : KIND_GPU];
    g_autoptr(WeftAdapter) adapter = weft_adapter_at(hook, taken->pf);
    if (weft_nvme_is(adapter))
        return &kinds[KIND_NVME];
    return &kinds[g_strcmp0(adapter->driver, "mlx4_core") == 0 ? KIND_MLX4 : KIND_MLX5];
}

/* --- quarantine --- */

/* Takes the trouble. Where it cannot be put into quarantine, its node's record still keeps it from others, until the next
 * reboot. */
static void
seclude(const WeftHook *hook, const char *pci, GError *trouble, GError **error)
{
    g_autoptr(GError) unwritten = NULL;
    if (!weft_quarantine_put(hook, pci, trouble->message, &unwritten)) {
        g_autofree char *why = g_steal_pointer(&trouble->message);
        trouble->message = g_strdup_printf("%s; nor can it be put into quarantine: %s", why, unwritten->message);
    }
    g_propagate_error(error, trouble);
}

static gboolean
check_quarantine(const WeftHook *hook, const char *pci, GError **error)
{
    g_autofree char *why = weft_quarantine_why(hook, pci);
    return !why ||
           weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                             "%s is in quarantine %s; repair it, then type on this host: weft-hook readmit %s", pci, why, pci);
}

/* Its firmware is that of all functions of its slot. */
static gboolean
check_slot(const WeftHook *hook, const char *pci, GError **error)
{
    g_autofree char *other = weft_quarantine_of_slot(hook, pci);
    if (!other || check_quarantine(hook, other, error))
        return TRUE;
    if (!g_str_equal(other, pci))
        g_prefix_error(error, "%s has its firmware in common with another function: ", pci);
    return FALSE;
}

/* --- before and after a node has it --- */

WeftTaken
weft_taken_device(const WeftHookDevice *device)
{
    gboolean whole = device->vf < 0;
    return (WeftTaken){
        .pci = device->pci, .pf = whole ? NULL : device->pf, .vf = whole ? 0 : (guint)device->vf, .device = device
    };
}

WeftTaken
weft_taken_gpu(const char *pci)
{
    return (WeftTaken){ .pci = pci };
}

static gboolean
check_unused(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    g_autofree char *user = weft_device_process(hook, taken->pci);
    return !user || weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                      "%s is in use by process %s: end it, or keep this device from weft", taken->pci, user);
}

gboolean
weft_release_check(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    const Kind *kind = kind_of(hook, taken);
    if (!weft_device_is_there(hook, taken->pci))
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND,
                                 "there is no device %s on this host: have weftd read the host's hardware again, or correct "
                                 "its description",
                                 taken->pci);
    if (!check_quarantine(hook, taken->pci, error) || !check_slot(hook, taken->pf ? taken->pf : taken->pci, error))
        return FALSE;
    for (guint i = 0; i < STEPS_MAX && kind->steps[i].step; i++)
        if (kind->steps[i].need == REQUIRED && !kind->steps[i].step->able(hook, taken))
            return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                                     "%s (%s) may not be given to a node: nothing lets %s when the node is gone", taken->pci,
                                     kind->name, kind->steps[i].step->name);
    return taken->device || check_unused(hook, taken, error);
}

gboolean
weft_release_note(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    const Kind *kind = kind_of(hook, taken);
    g_autoptr(GError) trouble = NULL;
    if (kind->firmware < 0 || weft_firmware_note(hook, (WeftFirmwareKind)kind->firmware, taken->pci, &trouble))
        return TRUE;
    seclude(hook, taken->pci, g_steal_pointer(&trouble), error);
    return FALSE;
}

static gboolean
run_steps(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    const Kind *kind = kind_of(hook, taken);
    for (guint i = 0; i < STEPS_MAX && kind->steps[i].step; i++) {
        const Step *step = kind->steps[i].step;
        gboolean able = step->able(hook, taken);
        if (!able && kind->steps[i].need == REQUIRED)
            return weft_error_refuse(error, WEFT_ERROR_FAILED, "%s (%s): nothing lets %s", taken->pci, kind->name, step->name);
        if (able && !step->run(hook, taken, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
finish(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    g_autoptr(GError) trouble = NULL;
    if (run_steps(hook, taken, &trouble)) {
        weft_failpoint("hook-released");
        weft_quarantine_drop(hook, taken->pci);
        return TRUE;
    }
    seclude(hook, taken->pci, g_steal_pointer(&trouble), error);
    weft_failpoint("hook-quarantined");
    return FALSE;
}

gboolean
weft_release(const WeftHook *hook, const WeftTaken *taken, GError **error)
{
    if (!weft_device_is_there(hook, taken->pci) || (taken->pf && weft_vf_is_gone(hook, taken->device)))
        return TRUE;
    if (!check_quarantine(hook, taken->pci, error))
        return FALSE;
    if (taken->pf ? !weft_vf_check_mine(hook, taken->device, error) : !check_unused(hook, taken, error))
        return FALSE;
    return finish(hook, taken, error);
}

/* --- by hand --- */

/* The number of a virtual function, as its physical one counts. */
static gboolean
find_number(const WeftHook *hook, const char *pf, const char *pci, guint *ret_vf, GError **error)
{
    g_autoptr(WeftAdapter) adapter = weft_adapter_at(hook, pf);
    for (*ret_vf = 0; *ret_vf < adapter->functions->len; ++*ret_vf)
        if (g_strcmp0(adapter->functions->pdata[*ret_vf], pci) == 0)
            return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "%s is no virtual function of %s any more: look at the host's dmesg",
                             pci, pf);
}

static gboolean
check_readmit(const WeftHook *hook, WeftTaken *taken, GError **error)
{
    if (taken->pf && !find_number(hook, taken->pf, taken->pci, &taken->vf, error))
        return FALSE;
    return taken->pf && taken->device ? weft_vf_check_mine(hook, taken->device, error) : check_unused(hook, taken, error);
}

gboolean
weft_release_readmit(const WeftHook *hook, const char *pci, const WeftHookDevice *device, GError **error)
{
    WeftTaken taken = { .pci = pci, .device = device };
    g_autofree char *path = path_of(hook, &taken, "physfn"), *pf = weft_sysfs_link(path);
    g_autofree char *why = weft_quarantine_why(hook, pci);
    if (!why)
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND,
                                 "%s is not in quarantine; ls " WEFT_QUARANTINE_PATH " shows what is", pci);
    if (weft_device_is_there(hook, pci)) {
        taken.pf = pf;
        if (!check_readmit(hook, &taken, error))
            return FALSE;
        int firmware = kind_of(hook, &taken)->firmware;
        if (firmware >= 0)
            weft_firmware_accept(hook, (WeftFirmwareKind)firmware, pci);
        return finish(hook, &taken, error);
    }
    weft_firmware_forget(hook, pci); /* it was taken out: what comes in its place is another one */
    weft_quarantine_drop(hook, pci);
    return TRUE;
}
