/* What every fabric driver must do. A driver's program describes itself by a fixture and runs the suite. */
#pragma once

#include "fabric.h"

#define WEFT_CONTRACT_PKEY_LAST 0x0fff /* drivers are given 0x0001 up to it */

typedef struct WeftFabricFixture {
    const char *name;
    /* A fresh fabric without partitions of weft's; the text says where it is, also to another process. */
    char *(*create)(void);
    /* A driver on it: may be called again, as weftd does after it was killed. */
    WeftFabricDriver *(*open)(const char *world);
    void (*destroy)(gpointer world);

    const guint64 *ports; /* of hosts in the fabric; 16 at least */
    const char *way;      /* as the manager says */
    guint churn, kills;   /* partitions that change at once, and how often that is killed */
    guint capacity;       /* P_Keys of a port; 0: without end */
    gboolean virtualization;
    gboolean is_pool; /* every port has every key, and is a full member */

    /* Those that a driver lacks are NULL, and their cases are skipped. */
    void (*fault)(const char *world, const char *line); /* "lost" or "hang apply", as in faults.h; NULL: none any more */
    void (*add_foreign)(const char *world, guint pkey, const char *name);
    void (*silence)(const char *world, guint port, gboolean on); /* one of the ports does not answer */
    void (*sweep)(const char *world);                            /* the manager looks at the whole fabric */
    char *(*site)(const char *world);                            /* what is not weft's in the manager's files */
    void (*depose)(const char *world); /* the manager that rules ends, for good; another is there. The last case of all */
} WeftFabricFixture;

/* Registers the cases and runs them; also the main of the process that one of them starts only to kill it. */
int weft_fabric_contract_main(const WeftFabricFixture *fixture, int argc, char **argv);
