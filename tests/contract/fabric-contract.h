/* What every fabric driver must do. A driver's program describes itself by a fixture and runs the suite. */
#pragma once

#include "fabric.h"

typedef struct WeftFabricFixture {
    const char *name;
    /* A fresh fabric without partitions of weft's; the text says where it is, also to another process. */
    char *(*create)(void);
    /* A driver on it: may be called again, as weftd does after it was killed. */
    WeftFabricDriver *(*open)(const char *world);
    void (*destroy)(gpointer world);

    /* Those that a driver lacks are NULL, and their cases are skipped. */
    void (*fault)(const char *world, const char *line); /* as in faults.h; NULL: none any more */
    void (*add_foreign)(const char *world, guint pkey, const char *name);
} WeftFabricFixture;

/* Registers the cases and runs them; also the main of the process that one of them starts only to kill it. */
int weft_fabric_contract_main(const WeftFabricFixture *fixture, int argc, char **argv);
