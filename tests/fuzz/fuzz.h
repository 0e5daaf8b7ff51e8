/* What the targets share. A target aborts where a promise is broken; a crash or a leak is found by the sanitizers. */
#pragma once

#include <glib.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_MESSAGE_MAX 8192

/* The entry that libFuzzer, or replay.c, calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unlike g_assert() it needs no GLib test, and it stops a fuzzer as a crash does. */
#define fuzz_promise(condition)                                                                                                \
    do {                                                                                                                       \
        if (!(condition))                                                                                                      \
            g_error("broken promise: %s", #condition);                                                                         \
    } while (0)

static void
abort_on_trap(int number)
{
    abort();
}

/* GLib goes on after a call with wrong arguments; here it is a finding. Its fatal messages raise SIGTRAP, of which libFuzzer
 * does not know: it saves the input on SIGABRT. */
__attribute__((constructor)) static void
make_criticals_fatal(void)
{
    signal(SIGTRAP, abort_on_trap);
    g_log_set_always_fatal((GLogLevelFlags)(G_LOG_FATAL_MASK | G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_WARNING));
}

/* Whatever comes in, a refusal is a message that can be shown: there, of bounded length, and valid UTF-8. Takes the error. */
static inline void
fuzz_check_refusal(GError *error)
{
    fuzz_promise(error && *error->message);
    fuzz_promise(strlen(error->message) < FUZZ_MESSAGE_MAX);
    fuzz_promise(g_utf8_validate(error->message, -1, NULL));
    g_error_free(error);
}
