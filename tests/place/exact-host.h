/* One host in a program: rows for what it has, columns for how nodes could have it. */
#pragma once

#include "exact.h"
#include "program.h"

typedef struct GpuClass { /* GPUs that are as good as each other */
    guint numa;
    const char *root;
    guint free;
    int row;
} GpuClass;

typedef struct Spot {
    Model *model;
    const ExactAsk *ask;
    const BookHost *host;
    BookRoom room;
    gboolean alone;           /* only one group is placed there */
    int cores[WEFT_NUMA_MAX]; /* rows */
    int pages[WEFT_NUMA_MAX][WEFT_PAGE_SIZES_MAX];
    int hcas[WEFT_HCAS_MAX];
    int lanes[WEFT_HCAS_MAX];
    GpuClass classes[WEFT_GPUS_MAX];
    guint n_classes;
} Spot;

/* Nodes of a group on a host. */
typedef struct Wish {
    const WeftGroup *group;
    WeftPath path;
    guint rails;
    guint most; /* counting each resource by itself */
    int n;      /* column: how many */
} Wish;

/* A row for each resource: together the groups have no more of it than there is. */
void spot_init(Spot *spot, Model *model, const ExactAsk *ask, const BookHost *host);
/* Columns for every way in which nodes of the group could sit there. */
Wish spot_add(const Spot *spot, guint group);
