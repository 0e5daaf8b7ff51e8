/* A load made up: the sizes and times that batch systems see, the same for the same options. */
#pragma once

#include "load.h"

typedef struct WeftGenerateOptions {
    guint64 seed;
    double days;   /* in which they are submitted; 0: as many as the load asks for */
    guint jobs;    /* 0: as many as the load asks for; not both 0 */
    double load;   /* core time that is asked for, of what the fleet has in these days */
    guint hosts;   /* of the fleet, and … */
    guint cores;   /* … of each host */
    guint largest; /* processors of the largest job; 0: a quarter of the fleet, as far as one cluster can have it */
    guint users;
    double gpu_share;         /* of the jobs */
    double preemptible_share; /* … that give way */
} WeftGenerateOptions;

#define WEFT_GENERATE_JOBS_MAX 2000000u

/* EXHAUSTED: it would be more than WEFT_GENERATE_JOBS_MAX jobs. */
WeftLoad *weft_generate(const WeftGenerateOptions *options, GError **error);
