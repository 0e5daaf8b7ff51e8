/* What the hook says of its host: see hook.h. */
#pragma once

#include "context.h"

#include <jansson.h>

json_t *weft_report_new(const WeftHook *hook);
