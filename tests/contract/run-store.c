#include "sqlite.h"
#include "store-contract.h"

#include <glib/gstdio.h>

static gpointer
create(void)
{
    GError *error = NULL;
    char *folder = g_dir_make_tmp("weft-store-XXXXXX", &error);
    g_assert_no_error(error);
    return folder;
}

static WeftStore *
open_store(gpointer folder)
{
    GError *error = NULL;
    g_autofree char *path = g_build_filename(folder, "weft.db", NULL);
    WeftStore *store = weft_store_sqlite_open(path, 0, &error);
    g_assert_no_error(error);
    return store;
}

static void
destroy(gpointer folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    for (const char *name; (name = g_dir_read_name(dir));) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        g_unlink(path);
    }
    g_rmdir(folder);
    g_free(folder);
}

int
main(int argc, char **argv)
{
    static const WeftStoreFixture sqlite = { "sqlite", create, open_store, destroy };
    g_test_init(&argc, &argv, NULL);
    weft_store_contract_add(&sqlite);
    return g_test_run();
}
