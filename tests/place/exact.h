/* What is possible at all, and what is best, by an exact solver (GLPK): integer linear programs over the books of a fleet.
 * Knows nothing of the scheduler's code, only what its headers promise. Slow: for small fleets.
 *
 * A node has pages of one size. With locality required it sits in one NUMA node with its functions and GPUs, each GPU below the
 * root of one of its functions where both roots are known. With locality preferred it may be split over NUMA nodes, memory
 * exactly as the cores are; of equal nodes only such are split that fit into no NUMA node beside the others. With none its
 * cores and its pages are anywhere. */
#pragma once

#include "books.h"
#include "program.h"

typedef struct ExactAsk {
    const Books *books;
    const WeftPlaceRequest *request;
    const char *fabric; /* the one that is looked at; never NULL */
    guint sl;           /* the lane that is looked at; 0: best effort */
    int patience;       /* milliseconds for each program */
} ExactAsk;

/* Is there a place for all nodes in that fabric and lane? */
ExactVerdict exact_fits(const ExactAsk *ask);
/* Is there in any fabric and lane that the request may have? Fabric and sl of the ask are not looked at. */
ExactVerdict exact_fits_anywhere(const ExactAsk *ask);
/* The fewest leaves. */
ExactVerdict exact_fewest_leaves(const ExactAsk *ask, guint *ret_leaves);
/* Cables between the two that are farthest from each other, of so many leaves that are as near as can be. */
ExactVerdict exact_nearest(const ExactAsk *ask, guint leaves, guint *ret_hops);
/* The fewest hosts on so many leaves that are no farther from each other. hops: G_MAXUINT, wherever they are. */
ExactVerdict exact_fewest_hosts(const ExactAsk *ask, guint leaves, guint hops, guint *ret_hosts);
/* How many nodes of one of the groups that host has room for; 0 where it may take none. */
guint exact_most(const ExactAsk *ask, const BookHost *host, guint group);
