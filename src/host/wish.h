/* What a host is to be made ready with, as /etc/weft/host.yaml and the options of weft host prepare say. Pure.
 *
 *     adapters:
 *       - { name: mlx5_0, functions: 16 }
 *       - { name: 0000:5e:00.0, functions: 4, online: true }   # an NVMe device
 *     pages:
 *       2M: 30720          # of each NUMA node
 *       1G: 0:64,1:32      # of these, as the kernel's hugepages= has it
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#define WEFT_WISH_PATH "/etc/weft/host.yaml"
#define WEFT_WISH_EVERY_NODE (-1)

typedef struct WeftAdapterWish {
    char *name; /* of the adapter, or its PCI address */
    guint functions;
    gboolean online; /* NVMe: its functions are given queues and interrupts, and are switched on */
} WeftAdapterWish;

typedef struct WeftPageWish {
    guint64 size;
    int node; /* or WEFT_WISH_EVERY_NODE */
    guint64 count;
} WeftPageWish;

typedef struct WeftHostWish {
    GPtrArray *adapters; /* WeftAdapterWish */
    GArray *pages;       /* WeftPageWish */
} WeftHostWish;

/* json NULL: nothing is wished yet. Refuses what it does not know, and what is wished twice. */
WeftHostWish *weft_host_wish_new(json_t *json, GError **error);
void weft_host_wish_free(WeftHostWish *wish);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftHostWish, weft_host_wish_free)

/* "mlx5_0=16" or "nvme0=4,online"; instead of what was wished of it. */
gboolean weft_host_wish_adapter(WeftHostWish *wish, const char *text, GError **error);
/* "2M=30720" or "1G=0:64,1:32"; instead of what was wished of pages of that size. */
gboolean weft_host_wish_pages(WeftHostWish *wish, const char *text, GError **error);
