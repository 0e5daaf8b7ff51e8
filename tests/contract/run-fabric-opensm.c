/* The suite on real opensm and ibsim, by one of its ways: contract-fabric-opensm plugin|file|pool. It runs inside a fabric of
 * tests/harness/fabric.py, with two leaves of eight hosts, which it may change as it likes. Without WEFT_FABRIC everything is
 * skipped. */
#include "errors.h"
#include "fabric-contract.h"
#include "opensm-fabric.h"
#include "scratch.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define SITE "# the site's own\nDefault=0x7fff, ipoib : ALL=limited, SELF=full ;\n"
#define MARK "# >>> weft"
#define MARK_END "# <<< weft <<<\n"
#define POOL_LAST 32

static WeftOpensmWay way;
static const char *folder;
static guint64 ports[16];

static char *
path_of(const char *manager, const char *file)
{
    return g_build_filename(folder, manager, file, NULL);
}

static gboolean
has_standby(void)
{
    g_autofree char *path = path_of("sm2", "pid");
    return g_file_test(path, G_FILE_TEST_EXISTS);
}

static void
signal_manager(const char *name, int number)
{
    g_autofree char *path = path_of(name, "pid");
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    /* One that was deposed is gone. */
    g_assert_true(kill((pid_t)g_ascii_strtoll(text, NULL, 10), number) == 0 || errno == ESRCH);
}

/* --- the driver --- */

/* Long enough for a machine that does other things; cases that wait for it to be over are given a shorter one. */
static gint64
deadline(void)
{
    const char *seconds = g_getenv("WEFT_CONTRACT_DEADLINE");
    return (seconds ? g_ascii_strtoll(seconds, NULL, 10) : 30) * G_USEC_PER_SEC;
}

static WeftFabricDriver *
opensm_open(const char *world)
{
    g_autofree char *socket = path_of("sm", "weft.sock");
    g_autofree char *standby = path_of("sm2", "weft.sock");
    g_autofree char *partitions = path_of("sm", "etc/partitions.conf");
    g_autofree char *pid = path_of("sm", "pid");
    const char *managers[] = { socket, has_standby() ? standby : NULL, NULL };
    WeftOpensmOptions options = {
        .way = way,
        .deadline = deadline(),
        .managers = managers,
        .partitions_file = partitions,
        .pid_file = pid,
        .discover = WEFT_DISCOVER,
    };
    weft_pkeys_add(&options.pkeys, 1, WEFT_CONTRACT_PKEY_LAST);
    weft_pkeys_add(&options.pool, 1, POOL_LAST);
    g_autoptr(GError) error = NULL;
    WeftFabricDriver *driver = weft_fabric_opensm_new(&options, &error);
    g_assert_no_error(error);
    return driver;
}

/* --- a fresh fabric --- */

/* One that cannot be looked at just now, as a busy machine does not run the simulator, is looked at again. */
static void
on_verified(GPtrArray *tables, const GError *error, gpointer data)
{
    guint keys = 0;
    if (error)
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    for (guint i = 0; tables && i < tables->len; i++) {
        const GArray *pkeys = ((WeftPortTable *)tables->pdata[i])->pkeys;
        for (guint k = 0; k < pkeys->len; k++)
            keys += g_array_index(pkeys, guint16, k) != 0;
    }
    *(int *)data = (int)keys;
}

static gboolean
is_clean(WeftFabricDriver *driver)
{
    int keys = -1;
    GArray *guids = g_array_new(FALSE, FALSE, sizeof(guint64));
    g_array_append_vals(guids, ports, G_N_ELEMENTS(ports));
    driver->ops->verify(driver, guids, NULL, on_verified, &keys);
    while (keys < 0)
        g_main_context_iteration(NULL, TRUE);
    return keys == G_N_ELEMENTS(ports);
}

static void
on_listed(GPtrArray *partitions, const GError *error, gpointer data)
{
    g_assert_no_error(error);
    *(int *)data = (int)partitions->len;
}

static gboolean
knows_one(WeftFabricDriver *driver)
{
    int known = -1;
    driver->ops->list(driver, NULL, on_listed, &known);
    while (known < 0)
        g_main_context_iteration(NULL, TRUE);
    return known == 1;
}

static void
reset_manager(const char *name)
{
    g_autofree char *partitions = path_of(name, "etc/partitions.conf");
    g_autofree char *ledger = g_strconcat(partitions, ".pool", NULL);
    g_assert_true(g_file_set_contents(partitions, SITE, -1, NULL));
    g_unlink(ledger);
    signal_manager(name, SIGHUP);
}

static char *
opensm_create(void)
{
    reset_manager("sm");
    if (has_standby())
        reset_manager("sm2");
    WeftFabricDriver *driver = opensm_open(folder);
    for (gint64 told = g_get_monotonic_time(); !is_clean(driver) || !knows_one(driver);) {
        if (g_get_monotonic_time() - told < G_USEC_PER_SEC)
            continue;
        signal_manager("sm", SIGHUP); /* one that comes while opensm begins a sweep for another reason is forgotten */
        told = g_get_monotonic_time();
    }
    weft_fabric_driver_free(driver);
    return g_strdup(folder);
}

/* --- what happens to it --- */

static void
rename_file(const char *from, const char *to)
{
    g_autofree char *old = path_of("sm", from);
    g_autofree char *new = path_of("sm", to);
    if (g_file_test(old, G_FILE_TEST_EXISTS))
        g_assert_cmpint(g_rename(old, new), ==, 0);
}

static void
opensm_fault(const char *world, const char *line)
{
    const char *door = way == WEFT_OPENSM_PLUGIN ? "weft.sock" : "pid";
    rename_file("away", door);
    if (g_strcmp0(line, "lost") == 0)
        rename_file(door, "away");
    else
        signal_manager("sm", line ? SIGSTOP : SIGCONT);
}

static void
opensm_destroy(gpointer world)
{
    opensm_fault(world, NULL);
    g_free(world);
}

static void
opensm_sweep(const char *world)
{
    signal_manager("sm", SIGHUP);
}

static void
opensm_add_foreign(const char *world, guint pkey, const char *name)
{
    g_autofree char *path = path_of("sm", "etc/partitions.conf");
    g_autofree char *text = g_strdup_printf(SITE "%s=0x%04x : ALL=limited ;\n", name, pkey);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    opensm_sweep(world);
    WeftFabricDriver *driver = opensm_open(folder);
    while (knows_one(driver))
        ;
    weft_fabric_driver_free(driver);
}

/* Tells ibsim, and waits until it has done it: it repeats a remark. */
static void
tell_ibsim(const char *line)
{
    g_autofree char *path = g_build_filename(folder, "console", NULL);
    g_autofree char *log = g_build_filename(folder, "ibsim.log", NULL);
    g_autofree char *mark = g_strdup_printf("# contract %d %" G_GINT64_FORMAT, getpid(), g_get_monotonic_time());
    FILE *console = fopen(path, "we");
    g_assert_nonnull(console);
    g_assert_cmpint(fprintf(console, "%s\n%s\n", line, mark), >, 0);
    g_assert_cmpint(fclose(console), ==, 0);
    for (gboolean done = FALSE; !done; g_usleep(1000)) {
        g_autofree char *text = NULL;
        done = g_file_get_contents(log, &text, NULL, NULL) && strstr(text, mark);
    }
}

static void
opensm_silence(const char *world, guint port, gboolean on)
{
    g_autofree char *line = g_strdup_printf("Error \"h%u\" %d 0x16", port + 1, on ? 100 : 0);
    tell_ibsim(line);
}

static char *
opensm_site(const char *world)
{
    g_autofree char *path = path_of("sm", "etc/partitions.conf");
    char *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    char *begin = strstr(text, MARK), *end = begin ? strstr(begin, MARK_END) : NULL;
    if (begin)
        memmove(begin, end + strlen(MARK_END), strlen(end + strlen(MARK_END)) + 1);
    return text;
}

/* tests/fabric/test_driver.py kills it: at a moment at which the standby waits for no answer of it, which would never come. */
static void
opensm_depose(const char *world)
{
    g_autofree char *path = g_build_filename(folder, "depose", NULL);
    g_assert_true(g_file_set_contents(path, "", 0, NULL));
    while (g_file_test(path, G_FILE_TEST_EXISTS))
        g_usleep(1000);
}

/* --- main --- */

static WeftFabricFixture opensm = {
    .name = "opensm",
    .ports = ports,
    .create = opensm_create,
    .open = opensm_open,
    .destroy = opensm_destroy,
    .churn = 16,
    .kills = 4,
    .capacity = 64,
    .fault = opensm_fault,
    .add_foreign = opensm_add_foreign,
    .site = opensm_site,
};

static void
describe_way(void)
{
    opensm.way = weft_opensm_way_words[way];
    opensm.is_pool = way == WEFT_OPENSM_POOL;
    if (way == WEFT_OPENSM_PLUGIN)
        opensm.sweep = opensm_sweep;
    if (way != WEFT_OPENSM_POOL)
        opensm.silence = opensm_silence;
    if (way == WEFT_OPENSM_PLUGIN && has_standby())
        opensm.depose = opensm_depose;
}

int
main(int argc, char **argv)
{
    folder = g_getenv("WEFT_FABRIC");
    if (!folder || argc < 2) {
        g_print("1..0 # SKIP WEFT_FABRIC names no fabric, or no way is given\n");
        return 0;
    }
    while (!g_str_equal(argv[1], weft_opensm_way_words[way]))
        way++;
    for (guint i = 0; i < G_N_ELEMENTS(ports); i++)
        ports[i] = 0x0002c90300100001 + 0x10 * i;
    describe_way();
    return weft_fabric_contract_main(&opensm, argc, argv);
}
