/* Random fleets and requests. The same seed gives the same; with lower limits, the same but for what is beyond them. */
#pragma once

#include "books.h"

typedef struct CaseLimits {
    guint hosts;    /* at most; more than 24: so many */
    guint nodes;    /* of a request's group, at most */
    guint64 absent; /* hosts that are left out, by bits */
} CaseLimits;

/* A request, with all that it points to. */
typedef struct Case {
    WeftCluster *cluster;
    guint counts[WEFT_GROUPS_MAX];
    GHashTable *avoid;
    WeftPlaceRequest request;
} Case;

void case_free(Case *it);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Case, case_free)

/* Nothing is taken there. */
Books *case_fleet(guint32 seed, CaseLimits limits);
/* The step-th request to that fleet, whose free cores say how large it is. */
Case *case_request(guint32 seed, guint step, CaseLimits limits, const Books *books);
/* More nodes for a cluster that has some: the same wish once more, where it is. */
Case *case_growth(const Case *first, guint32 seed, guint step, const Books *books);
/* All of it, as JSON and words, for who has to find out what went wrong. */
char *case_text(const Case *it);
char *case_fleet_text(const Books *books);

/* Numbers that depend on nothing but these three. */
GRand *case_rand(guint32 seed, guint32 what, guint32 number);

/* --- parts that benchmarks need too --- */

typedef struct CaseHost {
    guint numa;
    guint cores; /* of each NUMA node */
    guint housekeeping;
    guint small, large; /* pages of 2M and 1G in each NUMA node; 0: none of that size */
} CaseHost;

/* Without devices and leaf. */
WeftHost *case_host(const char *name, const char *fabric, const CaseHost *what);
WeftHca *case_add_hca(WeftHost *host, guint numa, guint rail, guint vfs, guint64 port);
/* One group of these; more can be added by case_add_group(). */
WeftCluster *case_cluster(const char *id);
WeftGroup *case_add_group(WeftCluster *cluster, guint count, guint cores, guint64 memory);
/* Distances between switches from cables (guint pairs). */
GArray *case_hops(guint switches, const GArray *cables);
