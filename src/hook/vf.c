#include "vf.h"

#include "adapter.h"
#include "errors.h"
#include "scrub.h"
#include "sysfs.h"

#define REREAD "have weftd read the host's hardware again, or correct its description"

static const WeftVfOps *const drivers[] = {
    [WEFT_HCA_MLX4] = &weft_vf_mlx4,
    [WEFT_HCA_MLX5] = &weft_vf_mlx5,
};

static char *
link_of(const WeftHook *hook, const char *pci, const char *name)
{
    g_autofree char *path = weft_sysfs_path(hook, "/sys/bus/pci/devices/%s/%s", pci, name);
    return weft_sysfs_link(path);
}

/* Where a whole HCA is given away already, its name is gone with its driver. */
static gboolean
check_hca(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    g_autofree char *path = weft_sysfs_path(hook, "/sys/class/infiniband/%s/device", device->hca);
    g_autofree char *pf = weft_sysfs_link(path);
    g_autofree char *driver = link_of(hook, device->pf, "driver");
    if (!pf)
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND,
                                 "there is no HCA %s on this host: load its driver (%s), or " REREAD, device->hca,
                                 drivers[device->driver]->driver);
    if (!g_str_equal(pf, device->pf))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "HCA %s is %s on this host, not %s: " REREAD, device->hca, pf,
                                 device->pf);
    if (g_strcmp0(driver, drivers[device->driver]->driver) != 0)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "HCA %s has the driver %s, not %s: " REREAD, device->hca,
                                 driver ? driver : "none", drivers[device->driver]->driver);
    return TRUE;
}

static gboolean
check_function(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    g_autofree char *name = g_strdup_printf("virtfn%d", device->vf);
    g_autofree char *pci = link_of(hook, device->pf, name);
    g_autofree char *pf = link_of(hook, device->pci, "physfn");
    if (!pci)
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND,
                                 "HCA %s has no virtual function %d: enable more (weft doctor tells how), or " REREAD,
                                 device->hca, device->vf);
    if (!g_str_equal(pci, device->pci))
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "virtual function %d of HCA %s is %s on this host, not %s: " REREAD, device->vf, device->hca,
                                 pci, device->pci);
    if (g_strcmp0(pf, device->pf) != 0)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "%s is a virtual function of %s, not of %s: " REREAD, device->pci,
                                 pf ? pf : "nothing", device->pf);
    return TRUE;
}

/* --- who uses it now --- */

/* libvirt tells only later whether another domain, weft's or not, has the device: here nothing may be changed under its feet.
 */
static gboolean
check_unused(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    g_autofree char *user = weft_device_process(hook, device->pci);
    if (user)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "%s of HCA %s is in use by process %s: end it, or keep this device from weft", device->pci,
                                 device->hca, user);
    return TRUE;
}

/* A driver of this host that has the function must let it go: it took over the GUID that was there when it began. libvirt
 * gives the function to vfio, and back to a driver when the node is gone. */
static gboolean
unbind(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    g_autofree char *driver = link_of(hook, device->pci, "driver");
    if (!driver || g_str_equal(driver, "vfio-pci"))
        return TRUE;
    g_autofree char *path = weft_sysfs_path(hook, "/sys/bus/pci/devices/%s/driver/unbind", device->pci);
    return weft_sysfs_write(path, device->pci, error);
}

gboolean
weft_vf_check(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    if (!check_hca(hook, device, error))
        return FALSE;
    if (device->vf < 0)
        return check_unused(hook, device, error);
    return check_function(hook, device, error) && check_unused(hook, device, error) &&
           drivers[device->driver]->check(hook, device, error);
}

static gboolean
scrub(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    return weft_scrub_namespaces(hook, device->pf, (guint)device->vf, error);
}

/* A whole HCA has its own GUID, and its P_Keys from the subnet manager. What the last node left was erased when it went, unless
 * the host lost its power with it: nobody knows of that one any more. */
gboolean
weft_vf_prepare(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    return device->vf < 0 ||
           (unbind(hook, device, error) && scrub(hook, device, error) && drivers[device->driver]->prepare(hook, device, error));
}

gboolean
weft_vf_is_gone(const WeftHook *hook, const WeftHookDevice *device)
{
    g_autofree char *path = weft_sysfs_path(hook, "/sys/class/infiniband/%s", device->hca);
    return !g_file_test(path, G_FILE_TEST_EXISTS) || !weft_device_is_there(hook, device->pci);
}

gboolean
weft_vf_check_mine(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    return check_hca(hook, device, error) && check_function(hook, device, error) && check_unused(hook, device, error);
}

gboolean
weft_vf_forget(const WeftHook *hook, const WeftHookDevice *device, GError **error)
{
    return drivers[device->driver]->clear(hook, device, error);
}

/* --- devices that no metadata names --- */

static gboolean
is_hca(const WeftHook *hook, const char *pci)
{
    g_autofree char *own = weft_sysfs_path(hook, "/sys/bus/pci/devices/%s/infiniband", pci);
    g_autofree char *physical = weft_sysfs_path(hook, "/sys/bus/pci/devices/%s/physfn/infiniband", pci);
    return g_file_test(own, G_FILE_TEST_EXISTS) || g_file_test(physical, G_FILE_TEST_EXISTS);
}

static gboolean
is_named(const WeftHookNode *node, const char *pci)
{
    for (guint i = 0; i < node->devices->len; i++) {
        const WeftHookDevice *device = g_ptr_array_index(node->devices, i);
        if (g_str_equal(device->pci, pci))
            return TRUE;
    }
    return FALSE;
}

gboolean
weft_vf_check_hostdevs(const WeftHook *hook, const WeftHookNode *node, GError **error)
{
    for (guint i = 0; i < node->hostdevs->len; i++) {
        const char *pci = g_ptr_array_index(node->hostdevs, i);
        if (is_hca(hook, pci) && !is_named(node, pci))
            return weft_error_refuse(error, WEFT_ERROR_DENIED,
                                     "node %s may not have %s: it is an HCA or a function of one that its metadata does not "
                                     "name; let weftd start the node",
                                     node->id, pci);
    }
    return TRUE;
}
