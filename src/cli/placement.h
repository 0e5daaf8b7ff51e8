/* What weft create --dry-run prints. */
#pragma once

#include "cli.h"

/* Where the cluster of that name would be, as the API says; releases nothing. Where it would not be now, the exit status is
 * that of what is used up. Returns TRUE. */
gboolean weft_placement_print(WeftCli *cli, const char *name, json_t *placement);
/* "0-3,8" of numbers in ascending order. */
char *weft_placement_ranges(json_t *numbers);
