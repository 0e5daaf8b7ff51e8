#include "load.h"

WeftLoad *
weft_load_new(void)
{
    WeftLoad *load = g_new0(WeftLoad, 1);
    load->jobs = g_array_new(FALSE, FALSE, sizeof(WeftLoadJob));
    return load;
}

void
weft_load_free(WeftLoad *load)
{
    if (!load)
        return;
    g_array_unref(load->jobs);
    g_free(load);
}

static int
compare_jobs(gconstpointer a, gconstpointer b, gpointer data)
{
    const WeftLoadJob *x = a, *y = b;
    return x->submit < y->submit ? -1 : x->submit > y->submit;
}

/* g_qsort_with_data() is stable. */
void
weft_load_sort(WeftLoad *load)
{
    g_qsort_with_data(load->jobs->data, (int)load->jobs->len, sizeof(WeftLoadJob), compare_jobs, NULL);
}
