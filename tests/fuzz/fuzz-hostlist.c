/* Hostlists: what expands also folds, and what was folded expands to the same names. */
#include "fuzz.h"

#include "hostlist.h"

#define TEXT_MAX 65536 /* of an expression */

static int
compare(const void *a, const void *b)
{
    return weft_natural_compare(*(const char *const *)a, *(const char *const *)b);
}

static void
check_fold(char **names)
{
    guint n = g_strv_length(names);
    fuzz_promise(n > 0 && n <= WEFT_HOSTLIST_MAX);
    g_autofree char *folded = weft_hostlist_fold((const char *const *)names);
    g_auto(GStrv) again = weft_hostlist_expand(folded, NULL);
    if (!again) {
        fuzz_promise(strlen(folded) > TEXT_MAX); /* folding looks at the last number only, and so may write more than it read */
        return;
    }
    qsort(names, n, sizeof *names, compare);
    qsort(again, g_strv_length(again), sizeof *again, compare);
    fuzz_promise(g_strv_equal((const char *const *)names, (const char *const *)again));
}

static void
check_split(const char *text)
{
    GError *error = NULL;
    g_autofree char *name = NULL;
    g_autoptr(GArray) ranks = NULL;
    if (!weft_hostlist_split(text, &name, &ranks, &error)) {
        fuzz_check_refusal(error);
        return;
    }
    fuzz_promise(*name && g_str_has_prefix(text, name));
    fuzz_promise((ranks != NULL) == (strchr(text, '[') != NULL));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GError *error = NULL;
    g_autofree char *text = g_strndup((const char *)data, size);
    g_auto(GStrv) names = weft_hostlist_expand(text, &error);
    if (names)
        check_fold(names);
    else
        fuzz_check_refusal(error);
    check_split(text);
    return 0;
}
