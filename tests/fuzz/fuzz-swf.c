/* What somebody gives as a trace. A load that is accepted is in order and within its bounds, and the same again after it was
 * written and read. */
#include "fuzz.h"

#include "bounds.h"
#include "swf.h"

static void
check_job(const WeftLoadJob *job, const WeftLoadJob *before)
{
    fuzz_promise(job->submit >= (before ? before->submit : 0));
    fuzz_promise(job->submit / G_USEC_PER_SEC <= WEFT_LOAD_TIME_MAX);
    fuzz_promise(job->run >= 0 && job->run / G_USEC_PER_SEC <= (gint64)WEFT_WALLTIME_MAX);
    fuzz_promise(job->walltime > 0 && job->walltime / G_USEC_PER_SEC <= (gint64)WEFT_WALLTIME_MAX);
    fuzz_promise(job->processors > 0 && job->processors <= WEFT_LOAD_PROCESSORS_MAX);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GError *error = NULL;
    g_autoptr(WeftLoad) load = weft_swf_parse((const char *)data, size, &error);
    if (!load) {
        fuzz_check_refusal(error);
        return 0;
    }
    const WeftLoadJob *jobs = (const WeftLoadJob *)load->jobs->data;
    for (guint i = 0; i < load->jobs->len; i++)
        check_job(&jobs[i], i ? &jobs[i - 1] : NULL);
    g_autofree char *text = weft_swf_format(load, "fuzzed");
    g_autoptr(WeftLoad) again = weft_swf_parse(text, strlen(text), NULL);
    fuzz_promise(again && again->jobs->len == load->jobs->len && again->incomplete == 0 && again->partial == 0);
    fuzz_promise(again->hosts == load->hosts && again->processors == load->processors);
    g_autofree char *same = weft_swf_format(again, "fuzzed");
    fuzz_promise(strcmp(same, text) == 0);
    return 0;
}
