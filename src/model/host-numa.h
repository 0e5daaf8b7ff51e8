/* The NUMA nodes of a host, with their cores and pages: a part of host.c. */
#pragma once

#include "fields.h"
#include "host.h"

/* "numa" and "housekeeping". */
void weft_host_numa_read(WeftFields *fields, WeftHost *host);
void weft_host_numa_write(const WeftHost *host, json_t *json);
