/* weft's part of partitions.conf, and the site's around it. */
#include "definitions.h"
#include "errors.h"
#include "managed.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALPHA "weft-0aaaaaaaaaaa"
#define BETA "weft-0bbbbbbbbbbb"
#define SITE                                                                                                                   \
    "# our own\nDefault=0x7fff, ipoib : ALL=limited, SELF=full ;\nstorage=0x7001 : 0x10=full, \n 0x11=limited ; # two\n"
#define BEGIN "# >>> weft: written by weft, changes between these marks are lost (generation 12) >>>\n"
#define END "# <<< weft <<<\n"

static WeftManagedFile *
parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    WeftManagedFile *file = weft_managed_file_parse(text, &error);
    g_assert_no_error(error);
    return file;
}

static WeftPartition *
partition(guint pkey, const char *name, guint members)
{
    WeftPartition *made = weft_partition_new(pkey, name);
    for (guint i = 0; i < members; i++)
        weft_partition_add(made, &(WeftMember){ .port_guid = 0x0002c90300000100 + i, .index = -1 });
    return made;
}

static void
change(WeftManagedFile *file, WeftFabricChange *wish, int code)
{
    g_autoptr(WeftFabricChange) owned = wish;
    g_autoptr(GError) error = NULL;
    gboolean ok = weft_managed_file_change(file, owned, &error);
    if (code < 0)
        g_assert_no_error(error);
    else
        g_assert_error(error, WEFT_ERROR, code);
    g_assert_cmpint(ok, ==, code < 0);
}

static void
set(WeftManagedFile *file, guint64 generation, WeftPartition *wanted, int code)
{
    WeftFabricChange *wish = weft_fabric_change_new(generation);
    g_ptr_array_add(wish->set, wanted);
    change(file, wish, code);
}

/* What opensm reads of it, line by line, as its parser has it in a buffer of 4,096 bytes. */
static void
expect_short_lines(const char *text)
{
    for (const char *end; *text; text = end + 1) {
        end = strchr(text, '\n');
        g_assert_nonnull(end);
        g_assert_cmpint(end - text, <, 4000);
    }
}

/* --- the text --- */

static void
test_format(void)
{
    g_autoptr(WeftManagedFile) file = parse(SITE);
    g_assert_cmpuint(file->generation, ==, 0);
    g_assert_cmpuint(file->partitions->len, ==, 0);
    WeftPartition *wanted = partition(1, ALPHA, 2);
    wanted->ipoib = TRUE;
    wanted->sl = 2;
    wanted->rate = 7;
    wanted->mtu = 5;
    weft_partition_add(wanted, &(WeftMember){ 0x0002c90300000200, 0x0200000000000002, WEFT_MEMBER_FULL, -1 });
    weft_partition_add(wanted, &(WeftMember){ 0x0002c90300000200, 0x0200000000000001, WEFT_MEMBER_FULL, -1 });
    weft_partition_add(wanted, &(WeftMember){ 0x0002c90300000300, 0, WEFT_MEMBER_LIMITED, 0 });
    set(file, 12, wanted, -1);
    set(file, 12, partition(2, BETA, 0), -1);
    g_autofree char *text = weft_managed_file_format(file);
    g_assert_cmpstr(text, ==,
                    SITE BEGIN ALPHA "=0x0001, ipoib, sl=2, rate=7, mtu=5 :\n"
                                     "    0x0002c90300000100=full,\n"
                                     "    0x0002c90300000101=full,\n"
                                     "    0x0002c90300000200=full ; # 0x0200000000000001 0x0200000000000002\n" ALPHA
                                     "=0x0001, ipoib, sl=2, rate=7, mtu=5, indx0 :\n"
                                     "    0x0002c90300000300=limited ;\n" BETA "=0x0002 : ;\n" END);
}

static void
test_round_trip(void)
{
    static const WeftMember members[] = {
        { G_MAXUINT64, 0, WEFT_MEMBER_FULL, 0 },
        { 0x0002c90300000100, 0x0200000000000001, WEFT_MEMBER_LIMITED, -1 },
        { 0x0002c90300000100, 0x0200000000000002, WEFT_MEMBER_BOTH, -1 },
        { 0x0002c90300000100, 0, WEFT_MEMBER_BOTH, -1 },
        { WEFT_EVERY_PORT, 0, WEFT_MEMBER_FULL, -1 },
    };
    g_autoptr(WeftPartition) wanted = partition(0x7ffe, ALPHA, 3);
    wanted->sl = 15;
    for (gsize i = 0; i < G_N_ELEMENTS(members); i++)
        weft_partition_add(wanted, &members[i]);
    g_autoptr(WeftManagedFile) file = parse(SITE);
    set(file, G_MAXUINT64, weft_partition_copy(wanted), -1);
    g_autofree char *text = weft_managed_file_format(file);
    g_autoptr(WeftManagedFile) again = parse(text);
    g_assert_false(again->was_edited);
    g_assert_true(again->generation == G_MAXUINT64);
    g_assert_cmpuint(again->partitions->len, ==, 1);
    g_assert_true(weft_partition_equal(wanted, again->partitions->pdata[0]));
    g_autofree char *same = weft_managed_file_format(again);
    g_assert_cmpstr(same, ==, text);
}

/* Texts are kept from change to change: in the end the file must be what one who reads it anew would write. */
static void
test_changes_in_place(void)
{
    g_autoptr(WeftManagedFile) file = parse(SITE BEGIN "foreign=0x0009 : ;\n" END);
    g_autoptr(GRand) chance = g_rand_new_with_seed(4);
    for (guint64 generation = 13; generation < 213; generation++) {
        guint16 number = (guint16)g_rand_int_range(chance, 1, 12);
        WeftFabricChange *wish = weft_fabric_change_new(generation);
        if (g_rand_boolean(chance))
            g_ptr_array_add(wish->set, partition(number, ALPHA, (guint)g_rand_int_range(chance, 0, 5)));
        else
            weft_fabric_change_remove(wish, number, ALPHA);
        change(file, wish, -1);
        g_autofree char *text = weft_managed_file_format(file);
        g_autoptr(WeftManagedFile) anew = parse(text);
        g_autofree char *same = weft_managed_file_format(anew);
        g_assert_cmpstr(text, ==, same);
        g_assert_false(anew->was_edited);
        g_assert_cmpuint(anew->partitions->len, ==, file->partitions->len);
        for (guint i = 0; i < anew->partitions->len; i++)
            g_assert_true(weft_partition_equal(anew->partitions->pdata[i], file->partitions->pdata[i]));
    }
}

/* Whatever is around the marks, and however strange: it stays as it is, byte for byte. */
static void
test_site_is_kept(void)
{
    static const char before[] = "\r\n\t# >> weft is not its mark\nDefault=0x7fff:ALL;\n\n";
    static const char after[] = "  # behind\nlast=0x7002 : ALL_CAS=full;x=0x7003:; # no newline";
    g_autofree char *text = g_strconcat(before, BEGIN, END, after, NULL);
    g_autoptr(WeftManagedFile) file = parse(text);
    set(file, 13, partition(1, ALPHA, 1), -1);
    g_autofree char *changed = weft_managed_file_format(file);
    g_assert_true(g_str_has_prefix(changed, before));
    g_assert_true(g_str_has_suffix(changed, after));
    WeftFabricChange *wish = weft_fabric_change_new(12);
    weft_fabric_change_remove(wish, 1, ALPHA);
    file->generation = 12;
    change(file, wish, -1);
    g_autofree char *back = weft_managed_file_format(file);
    g_assert_cmpstr(back, ==, text);
}

static void
test_site_without_newline(void)
{
    g_autoptr(WeftManagedFile) file = parse("Default=0x7fff : ALL ;");
    g_autofree char *text = weft_managed_file_format(file);
    g_assert_true(g_str_has_prefix(text, "Default=0x7fff : ALL ;\n# >>> weft"));
}

static void
test_broken(void)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { SITE BEGIN, "line 5: " },
        { SITE END, "line 5: " },
        { END BEGIN, "line 1: " },
        { BEGIN END BEGIN END, "line 3: " },
        { BEGIN BEGIN END, "line 2: " },
        { BEGIN END "\n" END, "line 4: " },
        { "# >>> weft >>>\n" END, "line 1: " },
        { "# >>> weft (generation x) >>>\n" END, "line 1: " },
        { "# >>> weft (generation 99999999999999999999) >>>\n" END, "line 1: " },
        { "\nDefault=0x7fff : ALL\n" BEGIN END, "line 2: " },
        { "Default=0x7fff : ALL ;\nmine : ALL ;\n", "line 2: the partition \"mine\" has no number" },
        { BEGIN END "mine : ALL ;\n", "line 3: the partition \"mine\"" },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(weft_managed_file_parse(cases[i].text, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
        g_assert_true(g_str_has_prefix(error->message, cases[i].says));
    }
}

static void
test_site_numbers(void)
{
    g_autoptr(WeftManagedFile) file =
        parse("Default : ALL ;\nDefault=0x7fff : SELF=full ;\nstorage=0x8010 : 0x10=full,\n 17=both;"
              "0x20, ipoib:ALL;\nstorage : 0x12;\nx=33:mgid=ff12:401b::1 ;\n");
    g_autoptr(GPtrArray) site = weft_managed_file_site(file);
    static const guint numbers[] = { 0x10, 0x20, 33, 0x7fff };
    g_assert_cmpuint(site->len, ==, G_N_ELEMENTS(numbers));
    for (guint i = 0; i < site->len; i++)
        g_assert_cmpuint(((WeftPartition *)site->pdata[i])->pkey, ==, numbers[i]);
    const WeftPartition *storage = site->pdata[0];
    g_assert_cmpstr(storage->name, ==, "storage");
    g_assert_cmpuint(storage->members->len, ==, 2);
    g_assert_cmphex(g_array_index(storage->members, WeftMember, 1).port_guid, ==, 17);
    g_assert_cmpint(g_array_index(storage->members, WeftMember, 1).membership, ==, WEFT_MEMBER_BOTH);
}

/* --- edited by hand --- */

static void
test_edited(void)
{
    static const char *const inside[] = {
        ALPHA "=0x0001 : 0x100=full ;\n", /* a number of other length */
        ALPHA "=0x0001 :\n    0x0000000000000100=full ;\n# a remark\n",
        "mine=0x0003 :\n    0x0000000000000100=full ;\n" ALPHA "=0x0001 : ;\n",
        ALPHA "=0x0001 : ;\n;;; : , = garbage\n",
        ALPHA "=0x0001 : ;\n" BETA "=0x0002 : 0x1=full\n",
        ALPHA "=0x0001, defmember=full : ;\n",
    };
    for (gsize i = 0; i < G_N_ELEMENTS(inside); i++) {
        g_autofree char *text = g_strconcat(SITE, BEGIN, inside[i], END, NULL);
        g_autoptr(WeftManagedFile) file = parse(text);
        g_assert_true(file->was_edited);
        g_assert_cmpstr(((WeftPartition *)file->partitions->pdata[0])->name, ==, ALPHA);

        WeftFabricChange *wish = weft_fabric_change_new(12);
        g_ptr_array_add(wish->set, partition(1, ALPHA, 1));
        weft_fabric_change_remove(wish, 2, BETA);
        change(file, wish, -1);
        g_autofree char *mended = weft_managed_file_format(file);
        g_assert_cmpstr(mended, ==, SITE BEGIN ALPHA "=0x0001 :\n    0x0002c90300000100=full ;\n" END);
    }
}

/* --- changes --- */

static void
test_change(void)
{
    g_autoptr(WeftManagedFile) file = parse(SITE);
    set(file, 3, partition(2, BETA, 3), -1);
    set(file, 4, partition(1, ALPHA, 2), -1);
    g_assert_cmpuint(file->partitions->len, ==, 2);
    g_assert_cmpuint(((WeftPartition *)file->partitions->pdata[0])->pkey, ==, 1);
    WeftFabricChange *wish = weft_fabric_change_new(4);
    g_ptr_array_add(wish->set, partition(3, BETA, 1));
    weft_fabric_change_remove(wish, 1, ALPHA);
    weft_fabric_change_remove(wish, 2, BETA);
    change(file, wish, -1);
    g_assert_cmpuint(file->partitions->len, ==, 1);
    g_assert_cmpuint(((WeftPartition *)file->partitions->pdata[0])->pkey, ==, 3);
}

static void
test_refused(void)
{
    static const struct {
        guint64 generation;
        guint pkey;
        const char *name;
        int code;
    } cases[] = {
        { 11, 1, ALPHA, WEFT_ERROR_CONFLICT },
        { 12, 0x7001, ALPHA, WEFT_ERROR_CONFLICT },
        { 12, 0x7fff, ALPHA, WEFT_ERROR_INVALID },
        { 12, 0, ALPHA, WEFT_ERROR_INVALID },
        { 12, 0x8001, ALPHA, WEFT_ERROR_INVALID },
        { 12, 1, "mine", WEFT_ERROR_INVALID },
        { 12, 2, ALPHA, WEFT_ERROR_CONFLICT },
        { 12, 1, "weft-a;b=1:", WEFT_ERROR_INVALID },
        { 12, 1, "weft-0aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", WEFT_ERROR_INVALID },
    };
    g_autoptr(WeftManagedFile) file = parse(SITE BEGIN BETA "=0x0002 : ;\n" END);
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        WeftFabricChange *wish = weft_fabric_change_new(cases[i].generation);
        g_ptr_array_add(wish->set, partition(3, ALPHA, 1));
        g_ptr_array_add(wish->set, partition(cases[i].pkey, cases[i].name, 1));
        change(file, wish, cases[i].code);
    }
    WeftFabricChange *wish = weft_fabric_change_new(12);
    weft_fabric_change_remove(wish, 0x7001, ALPHA);
    change(file, wish, WEFT_ERROR_CONFLICT);
    wish = weft_fabric_change_new(12);
    weft_fabric_change_remove(wish, 2, ALPHA);
    change(file, wish, WEFT_ERROR_CONFLICT);
    g_autofree char *text = weft_managed_file_format(file);
    g_assert_cmpstr(text, ==, SITE BEGIN BETA "=0x0002 : ;\n" END);
}

#define MANY 32000

static void
test_many(void)
{
    g_autoptr(WeftManagedFile) file = parse(SITE);
    WeftFabricChange *wish = weft_fabric_change_new(1);
    for (guint pkey = 1, made = 0; made < MANY; pkey++)
        if (pkey != 0x7001) {
            g_ptr_array_add(wish->set, partition(pkey, ALPHA, 8));
            made++;
        }
    change(file, wish, -1);
    g_autofree char *text = weft_managed_file_format(file);
    g_autoptr(WeftManagedFile) again = parse(text);
    g_assert_cmpuint(again->partitions->len, ==, MANY);
    g_assert_false(again->was_edited);
    for (guint i = 0; i < MANY; i += 997)
        g_assert_true(weft_partition_equal(file->partitions->pdata[i], again->partitions->pdata[i]));
    set(again, 1, partition(0x7001, ALPHA, 1), WEFT_ERROR_CONFLICT);
}

/* Many members, and many virtual functions of one port: no line is longer than opensm's parser takes. */
static void
test_long_lines(void)
{
    WeftPartition *wanted = partition(1, ALPHA, 2000);
    for (guint i = 0; i < 1000; i++)
        weft_partition_add(wanted, &(WeftMember){ 0x0002c90300000100, 0x0200000000000001 + i, WEFT_MEMBER_FULL, -1 });
    g_autoptr(WeftPartition) same = weft_partition_copy(wanted);
    g_autoptr(WeftManagedFile) file = parse(SITE);
    set(file, 1, wanted, -1);
    g_autofree char *text = weft_managed_file_format(file);
    expect_short_lines(text);
    g_autoptr(WeftManagedFile) again = parse(text);
    g_assert_true(weft_partition_equal(same, again->partitions->pdata[0]));
}

/* --- the file --- */

typedef struct Folder {
    char *path;
    char *file;
} Folder;

static void
folder_up(Folder *folder, gconstpointer data)
{
    folder->path = g_dir_make_tmp("weft-test-XXXXXX", NULL);
    folder->file = g_build_filename(folder->path, "partitions.conf", NULL);
    g_assert_nonnull(folder->path);
}

static void
folder_down(Folder *folder, gconstpointer data)
{
    g_autoptr(GDir) dir = g_dir_open(folder->path, 0, NULL);
    for (const char *name; (name = g_dir_read_name(dir));) {
        g_autofree char *path = g_build_filename(folder->path, name, NULL);
        g_assert_cmpint(g_remove(path), ==, 0);
    }
    g_assert_cmpint(g_rmdir(folder->path), ==, 0);
    g_free(folder->path);
    g_free(folder->file);
}

static void
save(const WeftManagedFile *file, const char *path, gboolean expected)
{
    g_autoptr(GError) error = NULL;
    gboolean ok = weft_managed_file_save(file, path, &error);
    if (expected)
        g_assert_no_error(error);
    g_assert_cmpint(ok, ==, expected);
    if (!expected)
        g_assert_nonnull(strstr(error->message, path));
}

static void
expect_text(const char *path, const char *expected)
{
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, expected);
}

static guint
count_files(const char *folder)
{
    guint count = 0;
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    while (g_dir_read_name(dir))
        count++;
    return count;
}

static void
test_absent(Folder *folder, gconstpointer data)
{
    g_autoptr(WeftManagedFile) file = weft_managed_file_load(folder->file, NULL);
    g_assert_nonnull(file);
    file->generation = 12;
    save(file, folder->file, TRUE);
    expect_text(folder->file, BEGIN END);
    g_assert_cmpuint(count_files(folder->path), ==, 1);
}

/* A link stays a link, and what it names keeps its mode and owner. */
static void
test_link(Folder *folder, gconstpointer data)
{
    g_autofree char *real = g_build_filename(folder->path, "real.conf", NULL);
    g_assert_true(g_file_set_contents(real, SITE, -1, NULL));
    g_assert_cmpint(g_chmod(real, 0640), ==, 0);
    gboolean root = geteuid() == 0;
    if (root)
        g_assert_cmpint(chown(real, 65534, 65534), ==, 0);
    g_assert_cmpint(symlink("real.conf", folder->file), ==, 0);

    g_autoptr(WeftManagedFile) file = weft_managed_file_load(folder->file, NULL);
    g_assert_nonnull(file);
    file->generation = 12;
    save(file, folder->file, TRUE);
    expect_text(real, SITE BEGIN END);
    g_assert_true(g_file_test(folder->file, G_FILE_TEST_IS_SYMLINK));
    GStatBuf info;
    g_assert_cmpint(g_stat(real, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 07777, ==, 0640);
    g_assert_cmpint(info.st_uid, ==, root ? 65534 : geteuid());
    g_assert_cmpuint(count_files(folder->path), ==, 2);
}

/* A process that was killed while it wrote leaves half a file behind; the next one takes it away, and nothing of the site's. */
static void
test_left_over(Folder *folder, gconstpointer data)
{
    g_autoptr(WeftManagedFile) file = parse(SITE);
    WeftManagedSave *killed = weft_managed_save_begin(file, folder->file, NULL);
    g_assert_nonnull(killed);
    g_assert_cmpuint(count_files(folder->path), ==, 1);
    g_autofree char *other = g_strconcat(folder->file, ".backup", NULL);
    g_assert_true(g_file_set_contents(other, SITE, -1, NULL));
    save(file, folder->file, TRUE);
    g_assert_cmpuint(count_files(folder->path), ==, 2);
    expect_text(other, SITE);
    weft_managed_save_cancel(killed);
}

/* Somebody who may not write: the file stays as it is, and nothing lies beside it. */
static void
test_stamp(Folder *folder, gconstpointer data)
{
    g_autoptr(WeftManagedFile) file = parse(SITE);
    WeftManagedStamp stamp;
    WeftManagedSave *begun = weft_managed_save_begin(file, folder->file, NULL);
    g_assert_nonnull(begun);
    g_assert_true(weft_managed_save_stamp(begun, &stamp));
    g_assert_false(weft_managed_stamp_holds(&stamp, folder->file));
    g_assert_true(weft_managed_save_end(begun, NULL));
    g_assert_true(weft_managed_stamp_holds(&stamp, folder->file));

    int fd = g_open(folder->file, O_WRONLY | O_APPEND, 0);
    g_assert_cmpint(write(fd, "#\n", 2), ==, 2);
    close(fd);
    g_assert_false(weft_managed_stamp_holds(&stamp, folder->file));
    save(file, folder->file, TRUE);
    g_assert_false(weft_managed_stamp_holds(&stamp, folder->file));
}

static void
test_not_writable(Folder *folder, gconstpointer data)
{
    if (geteuid() != 0) {
        g_test_skip("only root can become somebody else");
        return;
    }
    g_assert_true(g_file_set_contents(folder->file, SITE, -1, NULL));
    g_autoptr(WeftManagedFile) file = weft_managed_file_load(folder->file, NULL);
    g_assert_cmpint(g_chmod(folder->path, 0755), ==, 0);
    g_assert_cmpint(seteuid(65534), ==, 0);
    save(file, folder->file, FALSE);
    g_assert_cmpint(seteuid(0), ==, 0);
    expect_text(folder->file, SITE);

    /* The folder may be written, the file not. */
    g_assert_cmpint(g_chmod(folder->path, 0777), ==, 0);
    g_assert_cmpint(g_chmod(folder->file, 0644), ==, 0);
    g_assert_cmpint(seteuid(65534), ==, 0);
    save(file, folder->file, FALSE);
    g_assert_cmpint(seteuid(0), ==, 0);
    expect_text(folder->file, SITE);
    g_assert_cmpuint(count_files(folder->path), ==, 1);
}

static void
test_unreadable(Folder *folder, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_managed_file_load(folder->path, &error));
    g_assert_nonnull(error);
    g_clear_error(&error);
    g_assert_true(g_file_set_contents(folder->file, SITE BEGIN, -1, NULL));
    g_assert_null(weft_managed_file_load(folder->file, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_true(g_str_has_prefix(error->message, folder->file));
    g_clear_error(&error);

    /* As it may be after a power failure. */
    static const char half[] = SITE "\0\0\0" SITE;
    g_assert_true(g_file_set_contents(folder->file, half, sizeof half - 1, NULL));
    g_assert_null(weft_managed_file_load(folder->file, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
}

#define FILE_TEST(name, run) g_test_add("/managed/file/" name, Folder, NULL, folder_up, run, folder_down)

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/managed/format", test_format);
    g_test_add_func("/managed/round-trip", test_round_trip);
    g_test_add_func("/managed/changes-in-place", test_changes_in_place);
    g_test_add_func("/managed/site-is-kept", test_site_is_kept);
    g_test_add_func("/managed/site-without-newline", test_site_without_newline);
    g_test_add_func("/managed/broken", test_broken);
    g_test_add_func("/managed/site-numbers", test_site_numbers);
    g_test_add_func("/managed/edited", test_edited);
    g_test_add_func("/managed/change", test_change);
    g_test_add_func("/managed/refused", test_refused);
    g_test_add_func("/managed/many", test_many);
    g_test_add_func("/managed/long-lines", test_long_lines);
    FILE_TEST("absent", test_absent);
    FILE_TEST("link", test_link);
    FILE_TEST("left-over", test_left_over);
    FILE_TEST("stamp", test_stamp);
    FILE_TEST("not-writable", test_not_writable);
    FILE_TEST("unreadable", test_unreadable);
    return g_test_run();
}
