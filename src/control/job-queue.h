/* Jobs that wait for a worker. Tenants take turns, whoever has asked for more, and so do the hosts of each tenant; at most so
 * many jobs run at a time, and so many on one host. Where jobs last, a tenant has at most as many running as it leaves free:
 * the first that takes what it can gets half, and another need not wait for it. weft itself may have all. thread: main. */
#pragma once

#include "jobs.h"

typedef struct WeftJobQueue WeftJobQueue;

/* lasting: a job may take as long as a tenant likes, by the memory of its nodes for instance. */
WeftJobQueue *weft_job_queue_new(guint workers, guint per_host, gboolean lasting);
/* What waits there stays the caller's. */
void weft_job_queue_free(WeftJobQueue *queue);

void weft_job_queue_add(WeftJobQueue *queue, WeftJob *job);
/* This tenant waits for it as well: from now on it comes in whichever turn is first. */
void weft_job_queue_join(WeftJobQueue *queue, WeftJob *job, const char *tenant);
/* The next that may run: it does from now on, until weft_job_queue_end(). NULL: none may. */
WeftJob *weft_job_queue_begin(WeftJobQueue *queue);
void weft_job_queue_end(WeftJobQueue *queue, const WeftJob *job);
/* FALSE: it does not wait there. */
gboolean weft_job_queue_remove(WeftJobQueue *queue, WeftJob *job);
