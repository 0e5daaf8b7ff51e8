/* weft-lanes LANES: do all hosts' links hold these lanes? For weft fabric qos --check, which finds the M_Key for it. Exit
 * status 1: some do not. */
#include "lane-tables.h"

#include <stdio.h>

static int
fail(const GError *error)
{
    fprintf(stderr, "weft: %s\n", error->message);
    return 2;
}

int
main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    WeftLanes lanes;
    guint ports = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: weft-lanes SL:SHARE,…\n");
        return 2;
    }
    const char *key = g_getenv("WEFT_M_KEY");
    WeftMadsOptions options = { .m_key = key ? g_ascii_strtoull(key, NULL, 0) : 0 };
    g_autoptr(GPtrArray) wrong = g_ptr_array_new_with_free_func(g_free);
    if (!weft_lanes_parse(argv[1], &lanes, &error) || !weft_lane_tables_check(&options, &lanes, wrong, &ports, &error))
        return fail(error);
    for (guint i = 0; i < wrong->len; i++)
        printf("%s\n", (const char *)wrong->pdata[i]);
    if (wrong->len == 0)
        printf("all %u links of hosts hold the lanes, at both ends\n", ports);
    return wrong->len > 0;
}
