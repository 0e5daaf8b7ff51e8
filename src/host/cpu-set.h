/* Processors as Linux numbers them, in the two ways in which it writes sets of them. */
#pragma once

#include <glib.h>

#define WEFT_CPUS_MAX 8192

typedef struct WeftCpuSet {
    guint8 has[WEFT_CPUS_MAX];
} WeftCpuSet;

/* "0-3,16". What is no number, or beyond the last one, is left out: the text is a host's. */
void weft_cpu_set_add_list(WeftCpuSet *set, const char *text);
/* "ff,0000ffff". */
void weft_cpu_set_add_mask(WeftCpuSet *set, const char *text);
/* Keeps what the other has, too, or (others) what it has not. */
void weft_cpu_set_keep(WeftCpuSet *set, const WeftCpuSet *other, gboolean others);
gboolean weft_cpu_set_is_empty(const WeftCpuSet *set);
char *weft_cpu_set_format(const WeftCpuSet *set); /* a list */
