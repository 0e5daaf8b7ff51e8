/* Traces in the Standard Workload Format of the Parallel Workloads Archive, version 2.2: a line of 18 numbers for each job, -1
 * where something is not told, and comments that begin with ';'. Pure: texts go in and come out. */
#pragma once

#include "load.h"

/* Processors are those that were asked for, else those that it got; the walltime is the time that was asked for, else the run
 * time. A job whose run time or processors are not told was never run and is left out, and so are the lines of a job's parts
 * (status 2 to 4), which has one for the whole beside them. Waiting times, memory, and jobs that wait for others (fields 17 and
 * 18) are not looked at. Comments say on what it ran ("MaxNodes: 128", "MaxProcs: 2048"), which partitions have GPUs
 * ("Partition: 2 gpus") and whose jobs give way ("Queue: 2 preemptible").
 * INVALID names the line, the field and the value. */
WeftLoad *weft_swf_parse(const char *text, gsize length, GError **error);

/* A load as such a text; parsed again it is the same, but for what was left out. note: a line for its header. */
char *weft_swf_format(const WeftLoad *load, const char *note);
