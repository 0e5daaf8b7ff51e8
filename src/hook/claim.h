/* Whose the host is: compared and set for a weftd that asks, on the host itself. */
#pragma once

#include "context.h"

#include <glib.h>

/* A question (see hook.h): the answer is the error. */
gboolean weft_claim_tell(const WeftHook *hook, const char *name, const char *xml, GError **error);
