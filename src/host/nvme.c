#include "errors.h"
#include "nvme-device.h"
#include "plan.h"
#include "sysfs.h"

/* The virtual functions of an NVMe device are secondary controllers: offline until they were given queues and interrupts out
 * of those that the primary one has let go, which it does when its function is reset. See NVM Express Base
 * Specification 2.0: 5.17.2.15 and 5.17.2.16 (identify), 5.27 (virtualization management). */

#define MANAGE 0x1c
#define RESET_SECONDS 60

enum { PRIMARY_ALLOCATE = 1, ASSIGN = 8, ONLINE = 9 }; /* actions */
enum { QUEUES_LEAST = 2, INTERRUPTS_LEAST = 1 };       /* one queue is for the device's administration */

static const char *const kinds[] = { [WEFT_NVME_QUEUES] = "queues", [WEFT_NVME_INTERRUPTS] = "interrupts" };

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
    return weft_nvme_command(step->path, &order, error);
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
manage(WeftPlan *plan, const char *item, const WeftNvme *device, const Order *order, char *what)
{
    WeftStep *step = weft_plan_write(plan, item, order->point, what, g_strdup(device->path), NULL);
    step->act = act_manage;
    step->words[0] = order->action | order->kind << 8 | order->controller << 16;
    step->words[1] = order->number;
}

/* What the primary keeps nobody else can have. */
static void
plan_release(WeftPlan *plan, const char *item, const WeftNvme *device)
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
share_of(const WeftNvmeResource *resource, guint functions)
{
    guint share = resource->total / functions;
    return resource->most ? MIN(share, resource->most) : MIN(share, G_MAXUINT16);
}

static void
plan_online(WeftPlan *plan, const char *item, const WeftNvme *device, guint function, guint wanted)
{
    guint controller = weft_nvme_get16(weft_nvme_secondary(device, function), 0);
    for (guint kind = WEFT_NVME_QUEUES; kind <= WEFT_NVME_INTERRUPTS; kind++) {
        guint share = share_of(&device->resources[kind], wanted);
        manage(plan, item, device, &(Order){ "prepare-nvme-assign", ASSIGN, kind, controller, share },
               g_strdup_printf("give function %u %u %s", function, share, kinds[kind]));
    }
    manage(plan, item, device, &(Order){ "prepare-nvme-online", ONLINE, 0, controller, 0 },
           g_strdup_printf("switch function %u on", function));
}

/* What functions had when there was another number of them is dealt out anew. */
static void
plan_collect(WeftPlan *plan, const char *item, const WeftNvme *device, guint wanted, gboolean anew)
{
    for (guint i = 0; weft_nvme_secondary(device, i); i++) {
        const guint8 *entry = weft_nvme_secondary(device, i);
        for (guint kind = WEFT_NVME_QUEUES; (anew || !is_online(entry)) && kind <= WEFT_NVME_INTERRUPTS; kind++) {
            guint has = weft_nvme_get16(entry, kind == WEFT_NVME_QUEUES ? 10 : 12);
            if (has > 0 && (i >= wanted || has != share_of(&device->resources[kind], wanted)))
                manage(plan, item, device, &(Order){ "prepare-nvme-collect", ASSIGN, kind, weft_nvme_get16(entry, 0), 0 },
                       g_strdup_printf("take %u %s from function %u", has, kinds[kind], i));
        }
    }
}

static gboolean
check_shares(WeftPlan *plan, const char *item, const WeftNvme *device, guint wanted)
{
    guint queues = share_of(&device->resources[WEFT_NVME_QUEUES], wanted),
          interrupts = share_of(&device->resources[WEFT_NVME_INTERRUPTS], wanted);
    for (guint i = 0; i < wanted; i++)
        if (!weft_nvme_secondary(device, i)) {
            weft_plan_refuse(plan, item, "wish fewer", "the device knows of no virtual function %u", i);
            return FALSE;
        }
    if (queues >= QUEUES_LEAST && interrupts >= INTERRUPTS_LEAST)
        return TRUE;
    weft_plan_refuse(plan, item, "wish fewer", "%u queues and %u interrupts are too few for %u functions: each needs %d and %d",
                     device->resources[WEFT_NVME_QUEUES].total, device->resources[WEFT_NVME_INTERRUPTS].total, wanted,
                     QUEUES_LEAST, INTERRUPTS_LEAST);
    return FALSE;
}

void
weft_plan_nvme(WeftPlan *plan, const char *item, const WeftAdapter *adapter, guint wanted)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftNvme) device = weft_nvme_look(plan->hook, adapter, &error);
    if (!device) {
        weft_plan_refuse(plan, item, NULL, "its controller cannot be asked: %s", error->message);
        return;
    }
    if (wanted && !check_shares(plan, item, device, wanted))
        return;
    gboolean keeps = wanted && (device->resources[WEFT_NVME_QUEUES].primary || device->resources[WEFT_NVME_INTERRUPTS].primary);
    gboolean anew = keeps || adapter->functions->len != wanted;
    if (!weft_plan_remove(plan, item, adapter, wanted, keeps))
        return;
    if (keeps)
        plan_release(plan, item, device);
    weft_plan_make(plan, item, adapter, wanted, keeps);
    plan_collect(plan, item, device, wanted, anew);
    for (guint i = 0; i < wanted; i++)
        if (anew || !is_online(weft_nvme_secondary(device, i)))
            plan_online(plan, item, device, i, wanted);
}
