#include "errors.h"
#include "fakes.h"

gboolean
weft_fakes_are_built(GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "this weftd was built without the drivers for tests; name a real one, or build it with meson's "
                             "-Dfakes=true");
}

WeftHypervisor *
weft_fakes_hypervisor(const WeftConfig *config, GError **error)
{
    weft_fakes_are_built(error);
    return NULL;
}

WeftFabricDriver *
weft_fakes_fabric(const char *world, const WeftPkeys *pkeys, GError **error)
{
    weft_fakes_are_built(error);
    return NULL;
}
