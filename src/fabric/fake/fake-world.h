/* The files of the fake subnet manager (see fake-fabric.h). Blocking, and used by one thread at a time. */
#pragma once

#include "fabric.h"
#include "fake-ports.h"

typedef struct WeftFakeWorld {
    char *fresh;   /* a file being written, before it is renamed to its place */
    char *pending; /* the change that is being made: it is done to its end, whoever was killed on the way */
    char *generation;
    char *partitions; /* folder */
    char *faults;
    char *tables; /* folder: what ports hold against the partitions */
    char *map;
    char *manager;
    WeftFakePorts *ports; /* as the folder of partitions was when watch last told of it; NULL: nobody asked for ports yet */
    int watch;            /* inotify of that folder; -1: none */
} WeftFakeWorld;

/* Makes the folder where there is none, and ends the change that a killed process began. */
gboolean weft_fake_world_open(WeftFakeWorld *world, const char *folder, GError **error);
void weft_fake_world_clear(WeftFakeWorld *world);

gboolean weft_fake_world_apply(WeftFakeWorld *world, const WeftFabricChange *change, GError **error);
GPtrArray *weft_fake_world_list(WeftFakeWorld *world, GError **error);
WeftManager *weft_fake_world_greet(WeftFakeWorld *world, GError **error);
WeftFabricMap *weft_fake_world_map(WeftFakeWorld *world, GError **error);
GPtrArray *weft_fake_world_verify(WeftFakeWorld *world, const GArray *port_guids, GError **error);
gboolean weft_fake_world_generation(WeftFakeWorld *world, guint64 *ret_generation, GError **error);
