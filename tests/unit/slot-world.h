/* Random hosts for the tests of slots, books of what is taken there, and an exact solver: each by its own means, not the
 * slot's. */
#pragma once

#include "slot.h"

#define G (1ULL << 30)
#define M (1ULL << 20)
#define NUMA_MAX 4
#define GPUS_MAX 8
#define HCAS_MAX 5
#define SIZES 2
#define CLUSTERS 4
#define SHARE 50 /* of the only lane */
#define RATE 1000000000ULL

extern const guint64 world_sizes[SIZES];           /* of pages */
extern const char *const world_clusters[CLUSTERS]; /* the first: NULL, tried */

typedef struct World {
    GRand *dice;
    gboolean crowded; /* with devices, which are what nodes are about there */
    WeftHost *host;
    WeftFleetFabric told;
    guint64 rates[HCAS_MAX];
    WeftSlot *slot;
    GArray *seats;      /* WeftSeat that are taken */
    GPtrArray *keepers; /* and by which cluster; NULL: tried */
} World;

/* size: NUMA nodes, at most. */
World *world_new(guint32 seed, guint size);
void world_free(World *w);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(World, world_free)
guint world_pick(World *w, guint below);
WeftShape world_shape(World *w);
void world_take(World *w, const WeftSeat *seat, const char *cluster);
/* By its place in seats. */
void world_give(World *w, guint i);
const WeftHca *world_hca(const World *w, guint i);

typedef struct Books {
    gboolean cores[WEFT_CORES_MAX];
    guint64 pages[NUMA_MAX][WEFT_PAGE_SIZES_MAX];
    gboolean functions[HCAS_MAX][WEFT_VFS_MAX + 1]; /* the last: something of the HCA */
    guint64 bits[HCAS_MAX];
    gboolean keys[HCAS_MAX][CLUSTERS]; /* the first: tried */
    guint32 gpus;
} Books;

/* Asserts that nothing is taken twice, and nothing that is not there. */
Books world_balance(const World *w);

/* The most nodes of the shape that can be there at once. scale: 1, each part's memory may be rounded either way; as many as a
 * node has cores: memory is split to the byte. */
guint world_solve(const World *w, const WeftShape *shape, guint scale);
