/* The parts of schedule-bench: placement measured against the clock, the optimum, and somebody else's requests. */
#pragma once

#include "cases.h"
#include "shape.h"

/* Hosts that are all alike: n0, n1, … on leaf0, leaf1, …, as a fat tree of three levels. */
typedef struct BenchFleet {
    guint hosts;
    guint per_leaf;
    guint per_pod; /* leaves whose way to each other is two cables; to others it is four */
    CaseHost host;
    guint vfs; /* of the one HCA, on NUMA node 0; 0: there is none */
} BenchFleet;

#define BENCH_FLEET(n) ((BenchFleet){ (n), 32, 16, { .numa = 2, .cores = 16, .housekeeping = 1, .small = 32768 }, 8 })

WeftHost *bench_host(const BenchFleet *what, guint number);
/* All hosts are open. */
WeftFleet *bench_fleet(const BenchFleet *what);

/* Nanoseconds that only grow. */
gint64 bench_now(void);
/* Of sorted numbers. */
gint64 bench_percentile(const GArray *sorted, guint percent);
/* gint64, smallest first. */
void bench_sort(GArray *numbers);

/* How often malloc and its kin were called so far; G_MAXUINT64: nobody counts. */
guint64 bench_allocations(void);

/* Each prints what it found, and returns whether all that is to be reached was. */
gboolean bench_speed(int argc, char **argv);
gboolean bench_quality(int argc, char **argv);
gboolean bench_replay(int argc, char **argv);

/* --- the plain way --- */

/* What speaks for an index is what it costs to have none: a look at every host for each request, with the same code inside a
 * host and the same choice of leaves. */
typedef struct BenchScan BenchScan;

BenchScan *bench_scan_new(const WeftFleet *fleet, const BenchFleet *what);
void bench_scan_free(BenchScan *scan);
/* The same as in the fleet. */
void bench_scan_take(BenchScan *scan, const WeftSeat *seats, guint n, const char *cluster);
void bench_scan_give(BenchScan *scan, const WeftSeat *seats, guint n, const char *cluster);
/* Returns leaves that n nodes would be on; 0: no room. Nothing stays taken. */
guint bench_scan_place(BenchScan *scan, const WeftShape *shape, guint n);
