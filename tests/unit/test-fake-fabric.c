#include "fake-world.h"

#include "../contract/scratch.h"
#include "errors.h"

#include <glib/gstdio.h>

#define OURS "weft-0aaaaaaaaaaa"
#define PORT 0x0002c90300000101
#define OTHER 0x0002c90300000102
#define MEMBER "0x0002c90300000101 0x0000000000000000 full -1\n"
#define EVENTS_MAX "/proc/sys/fs/inotify/max_queued_events"

typedef struct Site {
    char *folder;
    WeftFakeWorld world;
    guint64 generation;
} Site;

static void
open_world(WeftFakeWorld *world, const char *folder)
{
    g_autoptr(GError) error = NULL;
    weft_fake_world_open(world, folder, &error);
    g_assert_no_error(error);
}

static void
site_open(Site *site)
{
    *site = (Site){ .folder = scratch_new() };
    open_world(&site->world, site->folder);
}

static void
site_close(Site *site)
{
    weft_fake_world_clear(&site->world);
    scratch_free(site->folder);
}

/* One partition gets this member beside others; NULL: it goes. */
static void
apply(Site *site, WeftFakeWorld *world, guint pkey, const WeftMember *member)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFabricChange) change = weft_fabric_change_new(++site->generation);
    if (member) {
        g_ptr_array_add(change->set, weft_partition_new(pkey, OURS));
        weft_partition_add(change->set->pdata[0], &(WeftMember){ .port_guid = OTHER, .index = -1 });
        weft_partition_add(change->set->pdata[0], member);
    } else {
        weft_fabric_change_remove(change, pkey, OURS);
    }
    weft_fake_world_apply(world, change, &error);
    g_assert_no_error(error);
}

static GPtrArray *
verify(Site *site, GError **error)
{
    g_autoptr(GArray) guids = g_array_new(FALSE, FALSE, sizeof(guint64));
    g_array_append_val(guids, (guint64){ PORT });
    return weft_fake_world_verify(&site->world, guids, error);
}

static void
expect(Site *site, const char *expected)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) tables = verify(site, &error);
    g_assert_no_error(error);
    const WeftPortTable *table = tables->pdata[0];
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < table->pkeys->len; i++)
        g_string_append_printf(text, "%s%04x", i ? " " : "", g_array_index(table->pkeys, guint16, i));
    g_assert_cmpstr(text->str, ==, expected);
}

static void
test_own_changes(void)
{
    Site site;
    site_open(&site);
    apply(&site, &site.world, 3, &(WeftMember){ PORT, 0, WEFT_MEMBER_FULL, -1 });
    expect(&site, "7fff 8003");
    apply(&site, &site.world, 2, &(WeftMember){ PORT, 7, WEFT_MEMBER_LIMITED, -1 });
    apply(&site, &site.world, 4, &(WeftMember){ PORT, 0, WEFT_MEMBER_BOTH, 0 });
    expect(&site, "8004 7fff 0002 8003 0004");
    apply(&site, &site.world, 4, &(WeftMember){ PORT, 8, WEFT_MEMBER_BOTH, 0 }); /* at index 0 of a table of its own */
    expect(&site, "7fff 0002 8003 8004 0004");
    apply(&site, &site.world, 4, &(WeftMember){ OTHER, 8, WEFT_MEMBER_FULL, -1 });
    apply(&site, &site.world, 3, NULL);
    expect(&site, "7fff 0002");
    apply(&site, &site.world, 2, NULL);
    expect(&site, "7fff");
    site_close(&site);
}

/* Two functions of a port are in it, and one of them leaves. */
static void
test_functions(void)
{
    Site site;
    site_open(&site);
    scratch_write(site.folder, "partitions/0x0001", OURS "\n" MEMBER MEMBER);
    expect(&site, "7fff 8001");
    scratch_write(site.folder, "partitions/0x0001", OURS "\n" MEMBER);
    expect(&site, "7fff 8001");
    scratch_write(site.folder, "partitions/0x0001", OURS "\n");
    expect(&site, "7fff");
    site_close(&site);
}

static void
append(const char *folder, const char *file, const char *text)
{
    g_autofree char *path = g_build_filename(folder, file, NULL);
    FILE *stream = g_fopen(path, "ae");
    g_assert_nonnull(stream);
    g_assert_cmpint(fputs(text, stream), >=, 0);
    g_assert_cmpint(fclose(stream), ==, 0);
}

/* However others change the folder, the next look sees it. */
static void
test_changes_of_others(void)
{
    Site site;
    WeftFakeWorld another;
    site_open(&site);
    expect(&site, "7fff");
    scratch_write(site.folder, "partitions/0x0001", "storage\n" MEMBER);
    expect(&site, "7fff 8001");
    append(site.folder, "partitions/0x0002", "storage\n");
    expect(&site, "7fff 8001");
    append(site.folder, "partitions/0x0002", MEMBER);
    expect(&site, "7fff 8001 8002");
    scratch_write(site.folder, "partitions/0x0001", NULL);
    expect(&site, "7fff 8002");

    open_world(&another, site.folder);
    apply(&site, &another, 5, &(WeftMember){ PORT, 0, WEFT_MEMBER_FULL, -1 });
    weft_fake_world_clear(&another);
    expect(&site, "7fff 8002 8005");
    site_close(&site);
}

/* A killed process left more in the file than this change takes. */
static void
test_what_a_killed_one_wrote_is_no_part_of_it(void)
{
    Site site;
    site_open(&site);
    g_autoptr(GString) longer = g_string_new(NULL);
    while (longer->len < 4096)
        g_string_append(longer, OURS "\n");
    scratch_write(site.folder, "fresh", longer->str);
    apply(&site, &site.world, 1, &(WeftMember){ PORT, 0, WEFT_MEMBER_FULL, -1 });
    expect(&site, "7fff 8001");
    site_close(&site);
}

static void
test_folder_made_anew(void)
{
    Site site;
    site_open(&site);
    apply(&site, &site.world, 1, &(WeftMember){ PORT, 0, WEFT_MEMBER_FULL, -1 });
    expect(&site, "7fff 8001");
    scratch_write(site.folder, "partitions/0x0001", NULL);
    g_assert_cmpint(g_rmdir(site.world.partitions), ==, 0);
    scratch_write(site.folder, "partitions/0x0002", OURS "\n" MEMBER);
    expect(&site, "7fff 8002");
    scratch_write(site.folder, "partitions/0x0002", NULL);
    expect(&site, "7fff");
    site_close(&site);
}

/* It fails until somebody mends it, not only when it is new. */
static void
test_nonsense(void)
{
    Site site;
    site_open(&site);
    expect(&site, "7fff");
    scratch_write(site.folder, "partitions/0x0001", OURS "\nnonsense\n");
    for (guint i = 0; i < 2; i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(verify(&site, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_FAILED);
    }
    scratch_write(site.folder, "partitions/0x0001", OURS "\n" MEMBER);
    expect(&site, "7fff 8001");
    site_close(&site);
}

/* More changes than the kernel remembers: the last ones are seen all the same. */
static void
test_many_changes(void)
{
    g_autofree char *text = NULL;
    guint64 most = g_file_get_contents(EVENTS_MAX, &text, NULL, NULL) ? g_ascii_strtoull(text, NULL, 10) : 0;
    if (most == 0 || most > 100000) {
        g_test_skip("the kernel remembers too many");
        return;
    }
    Site site;
    site_open(&site);
    expect(&site, "7fff");
    for (guint64 i = 0; i < most / 2; i++) {
        append(site.folder, "partitions/0x0001", "\n");
        append(site.folder, "partitions/0x0002", "\n");
    }
    scratch_write(site.folder, "partitions/0x0001", NULL);
    scratch_write(site.folder, "partitions/0x0002", NULL);
    scratch_write(site.folder, "partitions/0x0003", OURS "\n" MEMBER);
    expect(&site, "7fff 8003");
    site_close(&site);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/fake-fabric/ports/own-changes", test_own_changes);
    g_test_add_func("/fake-fabric/ports/functions", test_functions);
    g_test_add_func("/fake-fabric/ports/changes-of-others", test_changes_of_others);
    g_test_add_func("/fake-fabric/ports/killed", test_what_a_killed_one_wrote_is_no_part_of_it);
    g_test_add_func("/fake-fabric/ports/folder-made-anew", test_folder_made_anew);
    g_test_add_func("/fake-fabric/ports/nonsense", test_nonsense);
    g_test_add_func("/fake-fabric/ports/many-changes", test_many_changes);
    return g_test_run();
}
