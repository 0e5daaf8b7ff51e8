#include "errors.h"
#include "options.h"

#include <string.h>

static guint64
some_key(void)
{
    static guint64 last = 0x5eed000000000000;
    return ++last;
}

static guint64
poor_keys(void)
{
    static const guint64 keys[] = { 0, 1, G_MAXUINT64, 0x77, 0x1234567890 };
    static guint next;
    return keys[next++ % G_N_ELEMENTS(keys)];
}

static const WeftOptionsWant everything = {
    .plugin = TRUE, .qos = TRUE, .partitions = "/srv/partitions.conf", .random = some_key
};

static const WeftOption *
find(const GPtrArray *options, const char *name)
{
    for (guint i = 0; i < options->len; i++)
        if (g_str_equal(((const WeftOption *)options->pdata[i])->name, name))
            return options->pdata[i];
    g_error("%s is not looked at", name);
}

static guint
count_wrong(const GPtrArray *options)
{
    guint wrong = 0;
    for (guint i = 0; i < options->len; i++) {
        const WeftOption *option = options->pdata[i];
        g_assert_true(option->right == !option->value);
        g_assert_cmpstr(option->why, !=, NULL);
        wrong += !option->right;
    }
    return wrong;
}

typedef struct Case {
    const char *text;
    const char *name;
    gboolean right;
} Case;

/* As opensm 3.3 reads them: osm_subnet.c. */
static const Case cases[] = {
    { "", "m_key", FALSE },
    { "m_key 0x0000000000000000\n", "m_key", FALSE },
    { "m_key 0x5eed0000deadbeef\n", "m_key", TRUE },
    { "m_key 0x5eed0000deadbeef # ours\n", "m_key", TRUE },
    { "#m_key 0x5eed0000deadbeef\n", "m_key", FALSE },
    { "m_key 0x5eed0000deadbeef\nm_key 0\n", "m_key", FALSE },
    { "m_key words\n", "m_key", FALSE },
    { "m_key 0xffffffffffffffffff\n", "m_key", FALSE },
    { "", "m_key_lease_period", TRUE },
    { "m_key_lease_period 60\n", "m_key_lease_period", FALSE },
    { "", "m_key_protection_level", FALSE },
    { "m_key_protection_level 1", "m_key_protection_level", FALSE },
    { "m_key_protection_level 2", "m_key_protection_level", TRUE },
    { "m_key_protection_level 3", "m_key_protection_level", TRUE },
    { "m_key_protection_level 4", "m_key_protection_level", FALSE },
    { "", "sa_key", FALSE },
    { "sa_key 0x0000000000000001", "sa_key", FALSE },
    { "sm_key 0x0000000000000001", "sm_key", FALSE },
    { "", "sm_priority", FALSE },
    { "sm_priority 15", "sm_priority", TRUE },
    { "sm_priority 16", "sm_priority", FALSE },
    { "ignore_other_sm TRUE", "ignore_other_sm", FALSE },
    { "", "part_enforce", TRUE },
    { "part_enforce \"both\"", "part_enforce", TRUE },
    { "part_enforce off", "part_enforce", FALSE },
    { "part_enforce out", "part_enforce", FALSE },
    { "", "no_partition_enforcement", TRUE },
    { "no_partition_enforcement TRUE", "no_partition_enforcement", FALSE },
    { "", "keep_pkey_indexes", TRUE },
    { "keep_pkey_indexes FALSE", "keep_pkey_indexes", FALSE },
    { "keep_pkey_indexes true", "keep_pkey_indexes", FALSE },
    { "", "allow_both_pkeys", FALSE },
    { "", "event_plugin_name", FALSE },
    { "event_plugin_name (null)", "event_plugin_name", FALSE },
    { "event_plugin_name other,weftosm", "event_plugin_name", TRUE },
    { "event_plugin_name weftosm2", "event_plugin_name", FALSE },
    { "", "partition_config_file", FALSE },
    { "partition_config_file /srv/partitions.conf", "partition_config_file", TRUE },
    { "", "qos", FALSE },
    { "qos TRUE", "qos", TRUE },
};

static void
tells_right_from_wrong(void)
{
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(GPtrArray) options = weft_options_check(cases[i].text, &everything, &error);
        g_assert_no_error(error);
        if (find(options, cases[i].name)->right != cases[i].right)
            g_error("\"%s\": %s is taken for %s", cases[i].text, cases[i].name, cases[i].right ? "wrong" : "right");
    }
}

static void
puts_it_right(void)
{
    const char *text = "# the site's\nm_key 0x1 # old\nlmc 0\n\nm_key 0x2\npart_enforce off\nevent_plugin_name other\n";
    g_autoptr(GPtrArray) options = weft_options_check(text, &everything, NULL);
    g_assert_cmpstr(find(options, "m_key")->found, ==, "0x2");
    g_assert_cmpuint(count_wrong(options), >, 5);
    g_autofree char *hard = weft_options_harden(text, options);
    g_assert_true(g_str_has_prefix(hard, "# the site's\nm_key 0x5eed"));
    g_assert_nonnull(strstr(hard, "\nlmc 0\n\npart_enforce both\nevent_plugin_name other weftosm\n"));
    g_assert_null(strstr(hard, "0x2\n"));
    g_assert_nonnull(strstr(hard, "\npartition_config_file /srv/partitions.conf\n"));

    g_autoptr(GPtrArray) again = weft_options_check(hard, &everything, NULL);
    g_assert_cmpuint(count_wrong(again), ==, 0);
    g_autofree char *same = weft_options_harden(hard, again);
    g_assert_cmpstr(same, ==, hard);
}

static void
asks_only_for_what_is_used(void)
{
    WeftOptionsWant little = { .random = some_key };
    g_autoptr(GPtrArray) options = weft_options_check("", &little, NULL);
    g_assert_true(find(options, "qos")->right);
    g_assert_true(find(options, "event_plugin_name")->right);
    g_assert_true(find(options, "partition_config_file")->right);
    g_assert_false(find(options, "m_key")->right);
}

static void
makes_keys_that_are_secret(void)
{
    WeftOptionsWant poor = { .random = poor_keys };
    g_autoptr(GPtrArray) options = weft_options_check("", &poor, NULL);
    g_assert_cmpstr(find(options, "m_key")->value, ==, "0x0000001234567890");
    WeftOptionsWant none = { 0 };
    g_autoptr(GPtrArray) told = weft_options_check("", &none, NULL);
    g_assert_nonnull(strstr(find(told, "m_key")->value, "16 digits"));
}

static void
refuses_lines_that_opensm_cuts(void)
{
    g_autofree char *filler = g_strnfill(2000, 'x');
    g_autofree char *text = g_strdup_printf("lmc 0\n%s m_key 1\n", filler);
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_options_check(text, &everything, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_true(g_str_has_prefix(error->message, "line 2:"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/options/right", tells_right_from_wrong);
    g_test_add_func("/options/harden", puts_it_right);
    g_test_add_func("/options/want", asks_only_for_what_is_used);
    g_test_add_func("/options/keys", makes_keys_that_are_secret);
    g_test_add_func("/options/long", refuses_lines_that_opensm_cuts);
    return g_test_run();
}
