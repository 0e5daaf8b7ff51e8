#include "nvme-device.h"

#include "errors.h"
#include "sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define IDENTIFY 0x06
#define IDENTIFY_PRIMARY 0x14
#define IDENTIFY_SECONDARIES 0x15
#define TIMEOUT_MS 10000
#define CLASS "0x0108"

enum { ENTRY_SIZE = 32 };

void
weft_nvme_free(WeftNvme *device)
{
    if (!device)
        return;
    g_free(device->path);
    g_free(device->reset);
    g_free(device->state);
    g_free(device);
}

guint16
weft_nvme_get16(const guint8 *data, guint at)
{
    return (guint16)(data[at] | data[at + 1] << 8);
}

guint32
weft_nvme_get32(const guint8 *data, guint at)
{
    return weft_nvme_get16(data, at) | (guint32)weft_nvme_get16(data, at + 2) << 16;
}

gboolean
weft_nvme_command(const char *path, struct nvme_passthru_cmd *order, GError **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (!order->timeout_ms)
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

gboolean
weft_nvme_identify(const char *path, guint32 what, guint32 namespace, gpointer page, GError **error)
{
    struct nvme_passthru_cmd order = {
        .opcode = IDENTIFY, .nsid = namespace, .addr = (guintptr)page, .data_len = WEFT_NVME_PAGE, .cdw10 = what
    };
    return weft_nvme_command(path, &order, error);
}

gboolean
weft_nvme_is(const WeftAdapter *adapter)
{
    g_autofree char *folder = g_build_filename(adapter->folder, "nvme", NULL);
    g_autofree char *path = g_build_filename(adapter->folder, "class", NULL);
    g_autofree char *class = weft_sysfs_read(path, NULL);
    return g_file_test(folder, G_FILE_TEST_IS_DIR) || (class && g_str_has_prefix(class, CLASS));
}

WeftNvme *
weft_nvme_look(const WeftHook *hook, const WeftAdapter *adapter, GError **error)
{
    g_autofree char *folder = g_build_filename(adapter->folder, "nvme", NULL);
    g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
    guint8 page[WEFT_NVME_PAGE] = { 0 };
    g_autoptr(WeftNvme) device = g_new0(WeftNvme, 1);
    if (names->len == 0) {
        weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "%s has no controller: dmesg | grep nvme tells why", adapter->pci);
        return NULL;
    }
    device->path = weft_sysfs_path(hook, "/dev/%s", (const char *)g_ptr_array_index(names, 0));
    device->reset = g_build_filename(adapter->folder, "reset", NULL);
    device->state = g_build_filename(folder, g_ptr_array_index(names, 0), "state", NULL);
    if (!weft_nvme_identify(device->path, IDENTIFY_PRIMARY, 0, page, error) ||
        !weft_nvme_identify(device->path, IDENTIFY_SECONDARIES, 0, device->secondaries, error))
        return NULL;
    device->id = weft_nvme_get16(page, 0);
    device->resources[WEFT_NVME_QUEUES] =
        (WeftNvmeResource){ weft_nvme_get32(page, 32), weft_nvme_get16(page, 40), weft_nvme_get16(page, 44) };
    device->resources[WEFT_NVME_INTERRUPTS] =
        (WeftNvmeResource){ weft_nvme_get32(page, 64), weft_nvme_get16(page, 72), weft_nvme_get16(page, 76) };
    return g_steal_pointer(&device);
}

const guint8 *
weft_nvme_secondary(const WeftNvme *device, guint function)
{
    for (guint i = 0; i < device->secondaries[0] && (i + 2) * ENTRY_SIZE <= WEFT_NVME_PAGE; i++) {
        const guint8 *entry = device->secondaries + (i + 1) * ENTRY_SIZE;
        if (weft_nvme_get16(entry, 8) == function + 1)
            return entry;
    }
    return NULL;
}
