/* opensm behind fabric.h, in one of three ways:
 *
 *     plugin  weft's plugin inside opensm, on a Unix socket: changes take milliseconds, and events come by themselves
 *     file    no plugin: weft's part of partitions.conf is written, opensm is told by SIGHUP, and the ports are read
 *     pool    a range of P_Keys is on every port already, and only the index maps on the hosts change
 */
#pragma once

#include "fabric.h"

typedef enum { WEFT_OPENSM_PLUGIN, WEFT_OPENSM_FILE, WEFT_OPENSM_POOL } WeftOpensmWay;
extern const char *const weft_opensm_way_words[]; /* "plugin", "file", "pool" */

/* All of it is copied. */
typedef struct WeftOpensmOptions {
    WeftOpensmWay way;
    gint64 deadline; /* microseconds for one call; 0: 30 seconds */
    WeftPkeys pkeys; /* the numbers that it may write */

    /* plugin: the machines of the subnet manager, master and standby in whatever order. Each is the path of its socket on this
     * machine, or "ssh://user@machine[:port]/run/weft-opensm.sock": weft then runs ssh, and forwards that socket through it. */
    const char *const *managers;
    const char *ssh_key; /* private, and good for nothing but this forward; NULL: as ssh is configured */
    const char *ssh;     /* the program; NULL: "ssh" */

    /* file and pool: opensm runs on this machine. */
    const char *partitions_file; /* NULL: /etc/opensm/partitions.conf */
    const char *pid_file;        /* opensm's; NULL: the one process of that name is looked for */
    const char *map_file;        /* a saved ibnetdiscover instead of a look at the fabric; NULL: none */
    const char *device;          /* of the machine's adapters, "mlx4_0"; NULL: the first with an active port */
    guint port;                  /* of it; 0: the first that is active */
    guint64 m_key;               /* that ports want to see; 0: none */
    const char *discover;        /* the program; NULL: "weft-discover" */

    /* pool: its P_Keys, those of what is shared among them. What they are used for is kept in "<partitions_file>.pool". */
    WeftPkeys pool;
} WeftOpensmOptions;

/* INVALID: an option lacks or makes no sense. Nothing is asked yet: a manager that is away is found out by the first call. */
WeftFabricDriver *weft_fabric_opensm_new(const WeftOpensmOptions *options, GError **error);
