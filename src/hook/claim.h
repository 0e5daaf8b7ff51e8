/* Whose the host is: compared and set for a weftd that asks, on the host itself. */
#pragma once

#include "context.h"

#include <glib.h>

/* A question (see hook.h): the answer is the error. */
gboolean weft_claim_tell(const WeftHook *hook, const char *name, const char *xml, GError **error);

/* A definition names the run of weftd that made it: the host must be that one's. NULL: it names none, and nothing is asked. */
gboolean weft_claim_check(const WeftHook *hook, const char *run, GError **error);
