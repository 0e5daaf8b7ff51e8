#include "scrub.h"

#include "adapter.h"
#include "errors.h"
#include "failpoint.h"
#include "nvme-device.h"
#include "state.h"
#include "sysfs.h"

gboolean
weft_scrub_reset(const WeftHook *hook, const char *pci, GError **error)
{
    g_autofree char *path = weft_sysfs_path(hook, "/sys/bus/pci/devices/%s/reset", pci);
    g_autofree char *driver = weft_device_driver(hook, pci);
    if (weft_driver_is_hosts(driver) || !g_file_test(path, G_FILE_TEST_EXISTS) || weft_sysfs_write(path, "1", error))
        return TRUE;
    g_prefix_error(error, "%s cannot be reset, and may go on with what its last node told it: ", pci);
    return FALSE;
}

/* --- NVMe --- */

/* A function's controller cannot be spoken with from here, and its physical function erases only what it has itself. So it
 * takes the function's namespaces over, erases them and gives them back; one that is not shared can be had by one of them at a
 * time. A note says which they are until then. See NVM Express Base Specification 2.0: 5.14 (format), 5.20 (attachment). */

#define IDENTIFY_NAMESPACE 0x00
#define IDENTIFY_CONTROLLER 0x01
#define IDENTIFY_ALLOCATED 0x10 /* numbers above that which it is asked with */
#define IDENTIFY_ATTACHED 0x12  /* controllers that have a namespace */
#define ATTACHMENT 0x15
#define FORMAT 0x80
#define FORMAT_TIMEOUT_MS (10 * 60 * 1000)

enum { ATTACH, DETACH };
enum { CAN_FORMAT = 1 << 1, CAN_ATTACH = 1 << 3 };                         /* of a controller's commands */
enum { FORMATS_ALL = 1 << 0, ERASES_ALL = 1 << 1, FORGETS_KEYS = 1 << 2 }; /* how it formats */
enum { ERASE_DATA = 1, ERASE_KEY = 2 };                                    /* the latter takes no time */
enum { AT_COMMANDS = 256, AT_FORMATS = 524, AT_LAYOUT = 26, AT_PROTECTION = 29 };

typedef struct Scrub {
    const WeftHook *hook;
    const WeftNvme *device;
    char *name;         /* of its note */
    guint16 controller; /* of the function */
    guint erase;
} Scrub;

static gboolean
attach(const Scrub *scrub, guint32 namespace, guint16 controller, guint how, GError **error)
{
    guint16 list[WEFT_NVME_PAGE / sizeof(guint16)] = { GUINT16_TO_LE(1), GUINT16_TO_LE(controller) };
    struct nvme_passthru_cmd order = {
        .opcode = ATTACHMENT, .nsid = namespace, .addr = (guintptr)list, .data_len = sizeof list, .cdw10 = how
    };
    return weft_nvme_command(scrub->device->path, &order, error);
}

/* Who has a namespace. */
typedef struct Holders {
    gboolean function, primary, others;
} Holders;

static gboolean
find_holders(const Scrub *scrub, guint32 namespace, Holders *ret_holders, GError **error)
{
    guint8 list[WEFT_NVME_PAGE] = { 0 };
    if (!weft_nvme_identify(scrub->device->path, IDENTIFY_ATTACHED, namespace, list, error))
        return FALSE;
    *ret_holders = (Holders){ 0 };
    for (guint i = 1; i <= weft_nvme_get16(list, 0) && i < WEFT_NVME_PAGE / 2; i++) {
        guint16 id = weft_nvme_get16(list, 2 * i);
        ret_holders->function |= id == scrub->controller;
        ret_holders->primary |= id == scrub->device->id;
        ret_holders->others |= id != scrub->controller && id != scrub->device->id;
    }
    return TRUE;
}

/* --- one namespace --- */

/* In the layout that it has. */
static gboolean
format(const Scrub *scrub, guint32 namespace, GError **error)
{
    guint8 page[WEFT_NVME_PAGE] = { 0 };
    if (!weft_nvme_identify(scrub->device->path, IDENTIFY_NAMESPACE, namespace, page, error))
        return FALSE;
    guint layout = page[AT_LAYOUT], protection = page[AT_PROTECTION];
    struct nvme_passthru_cmd order = { .opcode = FORMAT, .nsid = namespace, .timeout_ms = FORMAT_TIMEOUT_MS };
    order.cdw10 =
        (layout & 0x1f) | (layout >> 5 & 3) << 12 | (protection & 7) << 5 | (protection >> 3 & 1) << 8 | scrub->erase << 9;
    return weft_nvme_command(scrub->device->path, &order, error);
}

static gboolean
take_over(const Scrub *scrub, guint32 namespace, const Holders *holders, GError **error)
{
    return (!holders->function || attach(scrub, namespace, scrub->controller, DETACH, error)) &&
           (holders->primary || attach(scrub, namespace, scrub->device->id, ATTACH, error));
}

static gboolean
give_back(const Scrub *scrub, guint32 namespace, GError **error)
{
    return attach(scrub, namespace, scrub->device->id, DETACH, error) &&
           attach(scrub, namespace, scrub->controller, ATTACH, error);
}

/* One that others have by now is the site's. */
static gboolean
erase(const Scrub *scrub, guint32 namespace, GError **error)
{
    Holders holders;
    if (!find_holders(scrub, namespace, &holders, error))
        return FALSE;
    if (holders.others)
        return TRUE;
    if (!take_over(scrub, namespace, &holders, error))
        return FALSE;
    weft_failpoint("scrub-taken");
    if (!format(scrub, namespace, error))
        return FALSE;
    weft_failpoint("scrub-formatted");
    return give_back(scrub, namespace, error);
}

/* --- all of them --- */

static gboolean
is_noted(const WeftRecord *note, guint32 namespace)
{
    g_autofree char *word = g_strdup_printf("%u", namespace);
    g_auto(GStrv) words = note ? g_strsplit(note->text, " ", -1) : NULL;
    return words && g_strv_contains((const char *const *)words, word);
}

/* Those that it has alone, and those that were taken over from it and not given back. */
static GArray *
find_own(const Scrub *scrub, GError **error)
{
    g_autoptr(WeftRecord) note = weft_state_get(scrub->hook, WEFT_RECORD_SCRUB, scrub->name);
    g_autoptr(GArray) own = g_array_new(FALSE, FALSE, sizeof(guint32));
    guint8 list[WEFT_NVME_PAGE] = { 0 };
    guint32 last = 0;
    do {
        if (!weft_nvme_identify(scrub->device->path, IDENTIFY_ALLOCATED, last, list, error))
            return NULL;
        for (guint at = 0; at < sizeof list && weft_nvme_get32(list, at); at += 4) {
            Holders holders;
            last = weft_nvme_get32(list, at);
            if (!find_holders(scrub, last, &holders, error))
                return NULL;
            if (is_noted(note, last) || (holders.function && !holders.primary && !holders.others))
                g_array_append_val(own, last);
        }
    } while (weft_nvme_get32(list, sizeof list - 4));
    return g_steal_pointer(&own);
}

static gboolean
put_note(const Scrub *scrub, const GArray *own, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < own->len; i++)
        g_string_append_printf(text, "%s%u", i ? " " : "", g_array_index(own, guint32, i));
    return weft_state_put(scrub->hook, WEFT_RECORD_SCRUB, scrub->name, text->str, TRUE, error);
}

static gboolean
erase_all(const Scrub *scrub, const GArray *own, GError **error)
{
    if (!put_note(scrub, own, error))
        return FALSE;
    weft_failpoint("scrub-noted");
    for (guint i = 0; i < own->len; i++) {
        guint32 namespace = g_array_index(own, guint32, i);
        if (!erase(scrub, namespace, error)) {
            g_prefix_error(error, "what was left in namespace %u cannot be erased: ", namespace);
            return FALSE;
        }
    }
    weft_failpoint("scrub-erased");
    weft_state_drop(scrub->hook, WEFT_RECORD_SCRUB, scrub->name);
    return TRUE;
}

/* One that erases all namespaces at once would take those of other nodes along. */
static gboolean
find_way(Scrub *scrub, GError **error)
{
    guint8 page[WEFT_NVME_PAGE] = { 0 };
    if (!weft_nvme_identify(scrub->device->path, IDENTIFY_CONTROLLER, 0, page, error))
        return FALSE;
    guint commands = weft_nvme_get16(page, AT_COMMANDS), formats = page[AT_FORMATS];
    if ((commands & (CAN_FORMAT | CAN_ATTACH)) != (CAN_FORMAT | CAN_ATTACH) || (formats & (FORMATS_ALL | ERASES_ALL)))
        return weft_error_refuse(error, WEFT_ERROR_FAILED,
                                 "%s cannot erase one namespace alone (nvme id-ctrl: oacs 0x%x, fna 0x%x): no node can have a "
                                 "function of it",
                                 scrub->device->path, commands, formats);
    scrub->erase = formats & FORGETS_KEYS ? ERASE_KEY : ERASE_DATA;
    return TRUE;
}

static gboolean
run(Scrub *scrub, GError **error)
{
    g_autoptr(GArray) own = find_own(scrub, error);
    return own && (own->len == 0 || (find_way(scrub, error) && erase_all(scrub, own, error)));
}

gboolean
weft_scrub_namespaces(const WeftHook *hook, const char *pf, guint vf, GError **error)
{
    g_autoptr(WeftAdapter) adapter = weft_adapter_at(hook, pf);
    if (!weft_nvme_is(adapter))
        return TRUE;
    g_autoptr(WeftNvme) device = weft_nvme_look(hook, adapter, error);
    const guint8 *entry = device ? weft_nvme_secondary(device, vf) : NULL;
    if (device && !entry)
        weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "%s knows of no such controller: nvme list-secondary %s", device->path,
                          device->path);
    g_autofree char *name = g_strdup_printf("%s-%u", pf, vf);
    Scrub scrub = { .hook = hook, .device = device, .name = name, .controller = entry ? weft_nvme_get16(entry, 0) : 0 };
    if (entry && run(&scrub, error))
        return TRUE;
    g_prefix_error(error, "virtual function %u of %s: ", vf, pf);
    return FALSE;
}
