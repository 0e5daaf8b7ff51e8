/* The three ways to opensm, each a table of blocking calls and a constructor of what they work on. */
#pragma once

#include "blocking.h"
#include "opensm-fabric.h"

#define WEFT_OPENSM_DEADLINE (30 * G_USEC_PER_SEC)

typedef struct WeftWay {
    const WeftBlockingOps *ops;
    gpointer (*create)(const WeftOpensmOptions *options, GError **error);
    /* Whom to tell of events; once, before anything else. */
    void (*attach)(gpointer self, WeftFabricDriver *driver);
} WeftWay;

extern const WeftWay weft_way_plugin, weft_way_file, weft_way_pool;
