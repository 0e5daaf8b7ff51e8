/* What a fabric's manager lacks, and what to write to mend it, for weft doctor. Pure. */
#pragma once

#include "fabric-report.h"

/* Appends a check for each thing that the manager is not able to and should be. facts: manager, trouble and hosts. */
void weft_doctor_manager(json_t *checks, const WeftFabricFacts *facts);
/* … and whether placement knows where each host hangs. facts: map, hosts and trouble. */
void weft_doctor_map(json_t *checks, const WeftFabricFacts *facts);
/* … and for each option of its opensm.conf that is not right (see options.h). facts: options, options_path, options_error,
 * guarantees and manager. */
void weft_doctor_options(json_t *checks, const WeftFabricFacts *facts);
