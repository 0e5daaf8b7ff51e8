#include "fakes.h"
#include "fake-fabric.h"
#include "fake-hypervisor.h"

gboolean
weft_fakes_are_built(GError **error)
{
    return TRUE;
}

WeftHypervisor *
weft_fakes_hypervisor(const WeftConfig *config, GError **error)
{
    WeftHypervisor *hv = weft_hypervisor_fake_new(config->hypervisor_world, error);
    if (hv && config->run_guests)
        weft_hypervisor_fake_use_guest(hv, config->guest);
    if (hv && config->hook)
        weft_hypervisor_fake_use_hook(hv, config->hook);
    return hv;
}

WeftFabricDriver *
weft_fakes_fabric(const char *world, const WeftPkeys *pkeys, GError **error)
{
    return weft_fabric_fake_new(world, pkeys, error);
}
