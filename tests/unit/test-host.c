#include "acs.h"
#include "errors.h"
#include "wish.h"

#include <string.h>

/* --- ACS --- */

/* A port of PCI Express: its capability at 0x50, and extended ones at 0x100. */
static void
make_port(guint8 *config, guint type)
{
    memset(config, 0, 4096);
    config[0x06] = 0x10;
    config[0x34] = 0x40;
    config[0x40] = 0x01; /* power management before it */
    config[0x41] = 0x50;
    config[0x50] = 0x10;
    config[0x52] = (guint8)(type << 4 | 2);
}

static void
put_extended(guint8 *config, guint at, guint id, guint next)
{
    config[at] = (guint8)id;
    config[at + 1] = (guint8)(id >> 8);
    config[at + 2] = (guint8)(1 | (next & 0xf) << 4);
    config[at + 3] = (guint8)(next >> 4);
}

static void
put_acs(guint8 *config, guint able, guint on)
{
    put_extended(config, 0x100, 0x0001, 0x148);
    put_extended(config, 0x148, 0x000d, 0);
    config[0x14c] = (guint8)able;
    config[0x14e] = (guint8)on;
}

enum { ENDPOINT = 0, ROOT = 4, UPSTREAM = 5, DOWNSTREAM = 6 };

static void
test_acs(void)
{
    guint8 config[4096];
    make_port(config, ROOT);
    g_assert_cmpint(weft_acs_read(config, sizeof config), ==, WEFT_ACS_LACKING);
    put_acs(config, 0x5f, 0x1d);
    g_assert_cmpint(weft_acs_read(config, sizeof config), ==, WEFT_ACS_ON);
    put_acs(config, 0x5f, 0x1c); /* no source validation */
    g_assert_cmpint(weft_acs_read(config, sizeof config), ==, WEFT_ACS_OFF);
    put_acs(config, 0x01, 0x01); /* what it cannot it need not */
    g_assert_cmpint(weft_acs_read(config, sizeof config), ==, WEFT_ACS_ON);
    make_port(config, DOWNSTREAM);
    g_assert_cmpint(weft_acs_read(config, sizeof config), ==, WEFT_ACS_LACKING);
    make_port(config, UPSTREAM);
    g_assert_cmpint(weft_acs_read(config, sizeof config), ==, WEFT_ACS_NEEDLESS);
    make_port(config, ENDPOINT);
    g_assert_cmpint(weft_acs_read(config, sizeof config), ==, WEFT_ACS_NEEDLESS);
}

/* Who is not root sees 64 bytes of it; and what a device says may be nonsense. */
static void
test_acs_unreadable(void)
{
    guint8 config[4096];
    make_port(config, ROOT);
    g_assert_cmpint(weft_acs_read(config, 0), ==, WEFT_ACS_UNKNOWN);
    g_assert_cmpint(weft_acs_read(config, 64), ==, WEFT_ACS_UNKNOWN);
    g_assert_cmpint(weft_acs_read(config, 256), ==, WEFT_ACS_UNKNOWN);
    put_extended(config, 0x100, 0x0001, 0x100); /* in circles */
    g_assert_cmpint(weft_acs_read(config, sizeof config), ==, WEFT_ACS_LACKING);
    config[0x41] = 0x40;
    g_assert_cmpint(weft_acs_read(config, sizeof config), ==, WEFT_ACS_NEEDLESS);
    memset(config, 0xff, sizeof config); /* a device that is gone */
    g_assert_cmpint(weft_acs_read(config, sizeof config), !=, WEFT_ACS_ON);
    for (guint seed = 0; seed < 1000; seed++) {
        for (guint i = 0; i < sizeof config; i++)
            config[i] = (guint8)(g_test_rand_int() >> 8);
        weft_acs_read(config, sizeof config);
    }
}

/* --- wishes --- */

static char *
pages_of(const char *text)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftHostWish) wish = weft_host_wish_new(NULL, &error);
    if (!weft_host_wish_pages(wish, text, &error))
        return g_strdup(error->message);
    GString *said = g_string_new(NULL);
    for (guint i = 0; i < wish->pages->len; i++) {
        const WeftPageWish *pages = &g_array_index(wish->pages, WeftPageWish, i);
        g_string_append_printf(said, "%" G_GUINT64_FORMAT "k node %d: %" G_GUINT64_FORMAT ";", pages->size / 1024, pages->node,
                               pages->count);
    }
    return g_string_free(said, FALSE);
}

static const char *const pages_cases[][2] = {
    { "2M=1024", "2048k node -1: 1024;" },
    { "2M=0", "2048k node -1: 0;" },
    { "1G=0:64,3:32", "1048576k node 0: 64;1048576k node 3: 32;" },
    { "2M=64:1", "--pages 2M=64:1: \"64:1\" is no number of pages; write 1024 for each NUMA node, or 0:1024,1:512" },
    { "2M=1:2:3", "--pages 2M=1:2:3: \"1:2:3\" is no number of pages; write 1024 for each NUMA node, or 0:1024,1:512" },
    { "2M=-1", "--pages 2M=-1: \"-1\" is no number of pages; write 1024 for each NUMA node, or 0:1024,1:512" },
    { "4K=1", "--pages 4K=1: 4K is no size of huge pages; write 2M or 1G" },
    { "2M", "--pages 2M: write SIZE=COUNT, such as 2M=1024 or 1G=0:64,1:32" },
};

static void
test_pages(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(pages_cases); i++) {
        g_autofree char *said = pages_of(pages_cases[i][0]);
        g_assert_cmpstr(said, ==, pages_cases[i][1]);
    }
}

static void
test_override(void)
{
    g_autoptr(GError) error = NULL;
    json_auto_t *json = json_pack("{s:[{s:s, s:i, s:b}, {s:s, s:i}], s:{s:i, s:s}}", "adapters", "name", "nvme0", "functions",
                                  4, "online", TRUE, "name", "mlx5_0", "functions", 8, "pages", "2M", 10, "1G", "0:1,1:2");
    g_autoptr(WeftHostWish) wish = weft_host_wish_new(json, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(wish->adapters->len, ==, 2);
    g_assert_cmpuint(wish->pages->len, ==, 3);
    g_assert_true(weft_host_wish_adapter(wish, "nvme0=2", &error) && weft_host_wish_pages(wish, "1G=4", &error));
    g_assert_cmpuint(wish->adapters->len, ==, 2);
    const WeftAdapterWish *last = g_ptr_array_index(wish->adapters, 1);
    g_assert_cmpstr(last->name, ==, "nvme0");
    g_assert_true(last->functions == 2 && !last->online);
    g_assert_cmpuint(wish->pages->len, ==, 2);
    g_assert_cmpint(g_array_index(wish->pages, WeftPageWish, 1).node, ==, WEFT_WISH_EVERY_NODE);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/host/acs", test_acs);
    g_test_add_func("/host/acs-unreadable", test_acs_unreadable);
    g_test_add_func("/host/pages", test_pages);
    g_test_add_func("/host/override", test_override);
    return g_test_run();
}
