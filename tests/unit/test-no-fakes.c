/* A weftd that was built with -Dfakes=false: a configuration that names a fake is refused as it is read. */
#include "config.h"
#include "errors.h"
#include "fakes.h"

#include <glib/gstdio.h>

static void
expect_refused(const char *text, const char *option)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = NULL;
    int fd = g_file_open_tmp("weft-XXXXXX.yaml", &path, NULL);
    g_assert_cmpint(fd, >=, 0);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    g_assert_null(weft_config_load(path, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, option));
    g_assert_nonnull(strstr(error->message, "built without the drivers for tests"));
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_assert_true(g_close(fd, NULL));
}

static void
test_hosts(void)
{
    expect_refused("hypervisor:\n  driver: fake\n", "hypervisor.driver");
}

static void
test_manager(void)
{
    expect_refused("fabrics:\n- name: ib0\n  manager:\n    driver: fake\n", "manager.driver");
}

static void
test_neither_is_made(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_fakes_hypervisor(NULL, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_null(weft_fakes_fabric("/nowhere", NULL, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/no-fakes/hosts", test_hosts);
    g_test_add_func("/no-fakes/manager", test_manager);
    g_test_add_func("/no-fakes/neither-is-made", test_neither_is_made);
    return g_test_run();
}
