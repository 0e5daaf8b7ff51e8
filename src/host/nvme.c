#include "errors.h"
#include "plan.h"
#include "sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The virtual functions of an NVMe device are secondary controllers: offline until they were given queues and interrupts out
 * of those that the primary one has let go, which it does when its function is reset. See NVM Express Base
 * Specification 2.0: 5.17.2.15 and 5.17.2.16 (identify), 5.27 (virtualization management). */

#define IDENTIFY 0x06
#define IDENTIFY_PRIMARY 0x14
#define IDENTIFY_SECONDARIES 0x15
#define MANAGE 0x1c
#define PAGE 4096
#define TIMEOUT_MS 10000
#define RESET_SECONDS 60

enum { QUEUES, INTERRUPTS };                                      /* kinds of resources */
enum { PRIMARY_ALLOCATE = 1, ASSIGN = 8, ONLINE = 9 };            /* actions */
enum { QUEUES_LEAST = 2, INTERRUPTS_LEAST = 1, ENTRY_SIZE = 32 }; /* one queue is for the device's administration */

static const char *const kinds[] = { [QUEUES] = "queues", [INTERRUPTS] = "interrupts" };

typedef struct Resource {
    guint32 total;   /* that can be dealt out */
    guint16 primary; /* of which the primary has */
    guint16 most;    /* for one secondary; 0: no limit */
} Resource;

typedef struct Device {
    char *path;  /* of /dev/nvme0 */
    char *reset; /* of its function's file in sysfs */
    char *state; /* of its controller's */
    guint16 id;
    Resource resources[2];
    guint8 secondaries[PAGE];
} Device;

static void
device_free(Device *device)
{
    g_free(device->path);
    g_free(device->reset);
    g_free(device->state);
    g_free(device);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Device, device_free)

static guint16
get16(const guint8 *data, guint at)
{
    return (guint16)(data[at] | data[at + 1] << 8);
}

static guint32
get32(const guint8 *data, guint at)
{
    return get16(data, at) | (guint32)get16(data, at + 2) << 16;
}

static gboolean
command(const char *path, struct nvme_passthru_cmd *order, GError **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    order->timeout_ms = TIMEOUT_MS;
    int status = fd < 0 ? -1 : ioctl(fd, NVME_IOCTL_ADMIN_CMD, order);
    int saved = errno;
    if (fd >= 0)
        close(fd);
    if (status > 0)
        return weft_error_refuse(error, WEFT_ERROR_FAILED,
                                 "%s refuses command 0x%02x (0x%08x, 0x%x) with status 0x%x: nvme list-secondary and nvme "
                                 "primary-ctrl-caps of nvme-cli show its state",
                                 path, order->opcode, order->cdw10, order->cdw11, (guint)status);
    return status == 0 || weft_error_refuse(error, WEFT_ERROR_FAILED, "%s: %s", path, g_strerror(saved));
}

static gboolean
identify(const char *path, guint32 what, gpointer page, GError **error)
{
    struct nvme_passthru_cmd order = { .opcode = IDENTIFY, .addr = (guintptr)page, .data_len = PAGE, .cdw10 = what };
    return command(path, &order, error);
}

static Device *
look(const WeftHook *hook, const WeftAdapter *adapter, GError **error)
{
    g_autofree char *folder = g_build_filename(adapter->folder, "nvme", NULL);
    g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
    guint8 page[PAGE] = { 0 };
    g_autoptr(Device) device = g_new0(Device, 1);
    if (names->len == 0) {
        weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "%s has no controller: dmesg | grep nvme tells why", adapter->pci);
        return NULL;
    }
    device->path = weft_sysfs_path(hook, "/dev/%s", (const char *)g_ptr_array_index(names, 0));
    device->reset = g_build_filename(adapter->folder, "reset", NULL);
    device->state = g_build_filename(folder, g_ptr_array_index(names, 0), "state", NULL);
    if (!identify(device->path, IDENTIFY_PRIMARY, page, error) ||
        !identify(device->path, IDENTIFY_SECONDARIES, device->secondaries, error))
        return NULL;
    device->id = get16(page, 0);
    device->resources[QUEUES] = (Resource){ get32(page, 32), get16(page, 40), get16(page, 44) };
    device->resources[INTERRUPTS] = (Resource){ get32(page, 64), get16(page, 72), get16(page, 76) };
    return g_steal_pointer(&device);
}

/* The entry of a virtual function, counted from 0. */
static const guint8 *
secondary(const Device *device, guint function)
{
    for (guint i = 0; i < device->secondaries[0] && (i + 2) * ENTRY_SIZE <= PAGE; i++) {
        const guint8 *entry = device->secondaries + (i + 1) * ENTRY_SIZE;
        if (get16(entry, 8) == function + 1)
            return entry;
    }
    return NULL;
}

static gboolean
is_online(const guint8 *entry)
{
    return entry[4] & 1;
}

/* --- steps --- */

static gboolean
act_manage(const WeftHook *hook, const WeftStep *step, GError **error)
{
    struct nvme_passthru_cmd order = { .opcode = MANAGE, .cdw10 = step->words[0], .cdw11 = step->words[1] };
    return command(step->path, &order, error);
}

/* The kernel brings the controller back after the reset of its function has returned, and refuses commands until then: nothing
 * but its state tells when. */
static gboolean
act_reset(const WeftHook *hook, const WeftStep *step, GError **error)
{
    if (!weft_sysfs_write(step->path, step->value, error))
        return FALSE;
    g_autofree char *state = NULL;
    for (gint64 end = g_get_monotonic_time() + RESET_SECONDS * G_USEC_PER_SEC; g_get_monotonic_time() < end;) {
        g_free(state);
        state = weft_sysfs_read(step->hint, error);
        if (!state || g_str_equal(state, "live"))
            return state != NULL;
        g_usleep(20 * 1000);
    }
    return weft_error_refuse(error, WEFT_ERROR_TIMEOUT,
                             "its controller is %s still after %d seconds: dmesg | grep nvme tells why", state, RESET_SECONDS);
}

typedef struct Order {
    const char *point;
    guint action, kind, controller, number;
} Order;

static void
manage(WeftPlan *plan, const char *item, const Device *device, const Order *order, char *what)
{
    WeftStep *step = weft_plan_write(plan, item, order->point, what, g_strdup(device->path), NULL);
    step->act = act_manage;
    step->words[0] = order->action | order->kind << 8 | order->controller << 16;
    step->words[1] = order->number;
}

/* What the primary keeps nobody else can have. */
static void
plan_release(WeftPlan *plan, const char *item, const Device *device)
{
    for (guint kind = 0; kind < G_N_ELEMENTS(kinds); kind++)
        manage(plan, item, device, &(Order){ "prepare-nvme-release", PRIMARY_ALLOCATE, kind, device->id, 0 },
               g_strdup_printf("have it let go %u %s for its functions", device->resources[kind].primary, kinds[kind]));
    WeftStep *step =
        weft_plan_write(plan, item, "prepare-nvme-reset", g_strdup("reset it"), g_strdup(device->reset), g_strdup("1"));
    step->act = act_reset;
    step->hint = g_strdup(device->state);
}

static guint
share_of(const Resource *resource, guint functions)
{
    guint share = resource->total / functions;
    return resource->most ? MIN(share, resource->most) : MIN(share, G_MAXUINT16);
}

static void
plan_online(WeftPlan *plan, const char *item, const Device *device, guint function, guint wanted)
{
    guint controller = get16(secondary(device, function), 0);
    for (guint kind = QUEUES; kind <= INTERRUPTS; kind++) {
        guint share = share_of(&device->resources[kind], wanted);
        manage(plan, item, device, &(Order){ "prepare-nvme-assign", ASSIGN, kind, controller, share },
               g_strdup_printf("give function %u %u %s", function, share, kinds[kind]));
    }
    manage(plan, item, device, &(Order){ "prepare-nvme-online", ONLINE, 0, controller, 0 },
           g_strdup_printf("switch function %u on", function));
}

/* What functions had when there was another number of them is dealt out anew. */
static void
plan_collect(WeftPlan *plan, const char *item, const Device *device, guint wanted, gboolean anew)
{
    for (guint i = 0; secondary(device, i); i++) {
        const guint8 *entry = secondary(device, i);
        for (guint kind = QUEUES; (anew || !is_online(entry)) && kind <= INTERRUPTS; kind++) {
            guint has = get16(entry, kind == QUEUES ? 10 : 12);
            if (has > 0 && (i >= wanted || has != share_of(&device->resources[kind], wanted)))
                manage(plan, item, device, &(Order){ "prepare-nvme-collect", ASSIGN, kind, get16(entry, 0), 0 },
                       g_strdup_printf("take %u %s from function %u", has, kinds[kind], i));
        }
    }
}

static gboolean
check_shares(WeftPlan *plan, const char *item, const Device *device, guint wanted)
{
    guint queues = share_of(&device->resources[QUEUES], wanted), interrupts = share_of(&device->resources[INTERRUPTS], wanted);
    for (guint i = 0; i < wanted; i++)
        if (!secondary(device, i)) {
            weft_plan_refuse(plan, item, "wish fewer", "the device knows of no virtual function %u", i);
            return FALSE;
        }
    if (queues >= QUEUES_LEAST && interrupts >= INTERRUPTS_LEAST)
        return TRUE;
    weft_plan_refuse(plan, item, "wish fewer", "%u queues and %u interrupts are too few for %u functions: each needs %d and %d",
                     device->resources[QUEUES].total, device->resources[INTERRUPTS].total, wanted, QUEUES_LEAST,
                     INTERRUPTS_LEAST);
    return FALSE;
}

void
weft_plan_nvme(WeftPlan *plan, const char *item, const WeftAdapter *adapter, guint wanted)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Device) device = look(plan->hook, adapter, &error);
    if (!device) {
        weft_plan_refuse(plan, item, NULL, "its controller cannot be asked: %s", error->message);
        return;
    }
    if (wanted && !check_shares(plan, item, device, wanted))
        return;
    gboolean keeps = wanted && (device->resources[QUEUES].primary || device->resources[INTERRUPTS].primary);
    gboolean anew = keeps || adapter->functions->len != wanted;
    if (!weft_plan_remove(plan, item, adapter, wanted, keeps))
        return;
    if (keeps)
        plan_release(plan, item, device);
    weft_plan_make(plan, item, adapter, wanted, keeps);
    plan_collect(plan, item, device, wanted, anew);
    for (guint i = 0; i < wanted; i++)
        if (anew || !is_online(secondary(device, i)))
            plan_online(plan, item, device, i, wanted);
}
