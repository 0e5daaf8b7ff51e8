/* What is there and what is missing on a host, and the command that mends it. Pure.
 *
 * A report is { "host": name or null, "checks": [ { "check", "state": "ok|warn|fail|unknown", "found", "remedy": text or null
 * }, … ] }: fail where nodes cannot start or would not be what they are said to be, warn where they could be better. */
#pragma once

#include "host.h"

#include <jansson.h>

/* host: its description, with which what it has is compared. */
json_t *weft_doctor(const WeftHost *host, const WeftInventory *inventory);

typedef enum { WEFT_HEALTH_OK, WEFT_HEALTH_WARN, WEFT_HEALTH_FAIL, WEFT_HEALTH_UNKNOWN } WeftHealth;

/* Appends a check. remedy: NULL with OK. */
void weft_doctor_add(json_t *checks, const char *check, WeftHealth health, const char *remedy, const char *format, ...)
    G_GNUC_PRINTF(5, 6);
