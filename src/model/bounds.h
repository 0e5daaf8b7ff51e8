/* Every limit on what a user or a file may ask for, in one place. (Not limits.h: that is the C library's.) */
#pragma once

#define WEFT_NAME_MAX 40 /* of clusters and tenants: "<name>-<rank>" must stay a DNS label */
#define WEFT_HOST_NAME_MAX 63
#define WEFT_LABEL_MAX 63   /* name or value of a label, image, device */
#define WEFT_TEXT_MAX 256   /* any other short text: URI, leaf switch */
#define WEFT_NODES_MAX 1024 /* nodes of one cluster */
#define WEFT_GROUPS_MAX 8   /* groups of one cluster */
#define WEFT_CORES_MAX 1024 /* cores of one node, and of one host */
#define WEFT_MEMORY_MAX (1ULL << 46)
#define WEFT_MEMORY_MIN (64ULL << 20)
#define WEFT_GPUS_MAX 16 /* of a node, and of a host */
#define WEFT_RAILS_MAX 8 /* fabric devices of one node */
#define WEFT_HCAS_MAX 16
#define WEFT_VFS_MAX 127                                                         /* of one HCA */
#define WEFT_QUARANTINE_MAX (WEFT_HCAS_MAX * (1 + WEFT_VFS_MAX) + WEFT_GPUS_MAX) /* devices of a host that nobody gets */
#define WEFT_NUMA_MAX 64
#define WEFT_PAGE_SIZES_MAX 4
#define WEFT_CORE_CPUS_MAX 8 /* hardware threads of one core */
#define WEFT_SSH_KEYS_MAX 32
#define WEFT_SITE_KEYS_MAX 256 /* things that one order to adopt or remove names; each is read on the main thread */
#define WEFT_SSH_KEY_MAX 2048
#define WEFT_USER_DATA_MAX (64 << 10)
#define WEFT_IMAGE_SIZE_MAX (1ULL << 42)
#define WEFT_DISK_MIN (1ULL << 20) /* a node's own disk */
#define WEFT_SHM_MIN (1ULL << 20)
#define WEFT_SHM_MAX (256ULL << 20)
/* What saving a node takes: memory that stands still, or a disk's layer, with heads and tables; memory of a node that runs on,
 * of which pages that it writes to are saved again. A host that says that there is more is not believed. */
#define WEFT_SAVED_MAX(bytes) ((bytes) + (bytes) / 64 + (64ULL << 20))
#define WEFT_SAVED_LIVE_MAX(bytes) WEFT_SAVED_MAX(2 * (bytes))
#define WEFT_LABELS_MAX 16
#define WEFT_APART_MAX 16 /* clusters with which one shares no host */
#define WEFT_PRIORITY_MIN (-1000)
#define WEFT_PRIORITY_MAX 1000
#define WEFT_SHARE_MIN 0.001 /* a tenant's weight in the queue */
#define WEFT_SHARE_MAX 1000.0
#define WEFT_WALLTIME_MIN 1 /* seconds */
#define WEFT_WALLTIME_MAX (10ULL * 366 * 24 * 3600)
#define WEFT_TRAFFIC_MAX 65536 /* pairs of ranks of one cluster that talk */
#define WEFT_RESERVATIONS_MAX 1000
#define WEFT_HOSTS_MAX 100000
#define WEFT_TENANTS_MAX 10000
#define WEFT_ANSWERS_MAX (64ULL << 20) /* bytes of a tenant's answers that are kept under idempotency keys */
#define WEFT_TEMPLATES_MAX 16          /* that one tenant's nodes have made */
#define WEFT_SHARED_MAX 16             /* shared partitions of a fabric, and of a cluster */
#define WEFT_SERVERS_MAX 4096          /* ports of one shared partition that are the site's own */
#define WEFT_PORT_PKEYS_MAX 65535      /* places in a port's table of P_Keys */
#define WEFT_QUOTA_MAX (1ULL << 60)
