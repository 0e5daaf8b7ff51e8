#include "libvirt-hypervisor.h"

#include "driver.h"

#include <libvirt-glib/libvirt-glib.h>

const WeftLibvirtOptions weft_libvirt_defaults = {
    .dial_limit = 5 * G_USEC_PER_SEC,
    .keepalive = 5,
    .keepalive_count = 3,
    .abandoned_max = 16,
    .backoff = { .base = G_USEC_PER_SEC / 2, .max = 15 * G_USEC_PER_SEC },
};

static void
retire_host(gpointer data)
{
    weft_vir_host_close(data);
    weft_vir_host_unref(data);
}

static void
vir_watch(WeftHypervisor *hv, WeftHostChanged changed, gpointer data)
{
    WeftShared *shared = ((WeftLibvirt *)hv)->shared;
    g_mutex_lock(&shared->mutex);
    shared->changed = changed;
    shared->changed_data = data;
    g_mutex_unlock(&shared->mutex);
}

static void
vir_free(WeftHypervisor *hv)
{
    WeftLibvirt *driver = (WeftLibvirt *)hv;
    vir_watch(hv, NULL, NULL);
    g_hash_table_unref(driver->hosts);
    g_mutex_clear(&driver->mutex);
    weft_shared_unref(driver->shared);
    g_free(driver);
}

static const WeftHypervisorOps vir_ops = {
    .name = "libvirt",
    .start = weft_vir_start,
    .stop = weft_vir_stop,
    .list = weft_vir_list,
    .bring = weft_vir_bring,
    .discard = weft_vir_discard,
    .connect = weft_vir_connect,
    .disconnect = weft_vir_disconnect,
    .claim = weft_vir_claim,
    .inspect = weft_vir_inspect,
    .open = weft_vir_open,
    .save = weft_vir_save,
    .fetch = weft_vir_fetch,
    .prime = weft_vir_prime,
    .unprime = weft_vir_unprime,
    .plug = weft_vir_plug,
    .unplug = weft_vir_unplug,
    .pause = weft_vir_pause,
    .resume = weft_vir_resume,
    .measure = weft_vir_measure,
    .move = weft_vir_move,
    .watch = vir_watch,
    .free = vir_free,
};

WeftHypervisor *
weft_hypervisor_libvirt_new(const WeftLibvirtOptions *options, GError **error)
{
    gvir_event_register();
    weft_vir_be_silent();
    if (virInitialize() < 0) {
        weft_vir_fail(error, "beginning to use libvirt");
        return NULL;
    }
    WeftShared *shared = g_atomic_rc_box_new0(WeftShared);
    shared->options = options ? *options : weft_libvirt_defaults;
    shared->hashed = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    g_mutex_init(&shared->mutex);

    WeftLibvirt *driver = g_new0(WeftLibvirt, 1);
    driver->base.ops = &vir_ops;
    driver->shared = shared;
    driver->hosts = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, retire_host);
    g_mutex_init(&driver->mutex);
    return &driver->base;
}
