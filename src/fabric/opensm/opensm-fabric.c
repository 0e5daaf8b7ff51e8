#include "opensm-fabric.h"

#include "ways.h"

const char *const weft_opensm_way_words[] = {
    [WEFT_OPENSM_PLUGIN] = "plugin",
    [WEFT_OPENSM_FILE] = "file",
    [WEFT_OPENSM_POOL] = "pool",
    NULL,
};

static const WeftWay *const ways[] = {
    [WEFT_OPENSM_PLUGIN] = &weft_way_plugin,
    [WEFT_OPENSM_FILE] = &weft_way_file,
    [WEFT_OPENSM_POOL] = &weft_way_pool,
};

WeftFabricDriver *
weft_fabric_opensm_new(const WeftOpensmOptions *options, GError **error)
{
    const WeftWay *way = ways[options->way];
    WeftOpensmOptions filled = *options;
    if (filled.deadline == 0)
        filled.deadline = WEFT_OPENSM_DEADLINE;
    gpointer self = way->create(&filled, error);
    if (!self) {
        g_prefix_error(error, "opensm by %s: ", weft_opensm_way_words[options->way]);
        return NULL;
    }
    WeftFabricDriver *driver = weft_blocking_new(way->ops, self, &options->pkeys);
    way->attach(self, driver);
    return driver;
}
