/* What is there and what is missing on a host, and the command that mends it. Pure.
 *
 * A report is { "host": name or null, "checks": [ … ] }, see checks.h. */
#pragma once

#include "checks.h"
#include "host.h"

#include <jansson.h>

/* host: its description, with which what it has is compared. */
json_t *weft_doctor(const WeftHost *host, const WeftInventory *inventory);
