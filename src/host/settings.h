/* Settings of a host that a site should have looked at: what keeps tenants apart and what makes nodes slow. The table names for
 * each where it is read, what is right, why it matters and what to type; nothing of it keeps a node from being started. Reading
 * is for the host itself, by weft_report_new(); the judgement on what was read is weft_check_settings() in checks.h. */
#pragma once

#include "context.h"

#include <jansson.h>

/* { "smt": "on", … }, by the names of the checks, as the kernel has it; what it does not have is absent. */
json_t *weft_settings_read(const WeftHook *hook);
