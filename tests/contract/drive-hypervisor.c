/* One operation of the libvirt driver, for tests and benchmarks that have hosts and guests of their own:
 *
 *     drive-hypervisor 'NAME=URI NAME=URI' move FROM TO DOMAIN METHOD STALL-MS BYTES-A-SECOND [RDMA-ADDRESS] < DEFINITION
 *     drive-hypervisor 'NAME=URI …' plug|unplug HOST DOMAIN < DEVICE
 *     drive-hypervisor 'NAME=URI …' pause|resume|measure HOST DOMAIN
 *     drive-hypervisor 'NAME=URI …' choose MEMORY RATE BYTES-A-SECOND STALL-MS kvm|tcg    which method suits
 *     drive-hypervisor 'NAME=URI …' connect HOST VXLAN CLUSTER [PEER…]
 *
 * It prints one line of JSON: { "ok": true, "seconds": … } with what came out, or { "ok": false, "error": …, "message": … }. An
 * operation that tells nothing for WEFT_DRIVE_PATIENCE seconds (30 unless told) is cancelled, as weftd does. */
#include "copy-choice.h"
#include "errors.h"
#include "file.h"
#include "libvirt-hypervisor.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFINITION_MAX (1u << 20)

typedef struct Drive {
    WeftHypervisor *hv;
    char **hosts; /* "NAME=URI" */
    char **args;  /* the verb first */
    int n;
    char *text; /* standard input */
    GCancellable *cancellable;
    gint64 began, patience, alive; /* monotonic; the last is atomic */
    json_t *answer;
    GMainLoop *loop;
    int status;
} Drive;

static WeftHostAddress
host_of(const Drive *drive, int arg)
{
    const char *name = arg < drive->n ? drive->args[arg] : "";
    for (guint i = 0; drive->hosts[i]; i++) {
        const char *equals = strchr(drive->hosts[i], '=');
        if (equals && strlen(name) == (gsize)(equals - drive->hosts[i]) && g_str_has_prefix(drive->hosts[i], name))
            return (WeftHostAddress){ name, equals + 1 };
    }
    fprintf(stderr, "no host is called \"%s\"\n", name);
    exit(2);
}

static void
note_alive(guint64 done, guint64 total, gpointer data)
{
    Drive *drive = data;
    __atomic_store_n(&drive->alive, g_get_monotonic_time(), __ATOMIC_RELAXED);
    fprintf(stderr, "%.3f: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT "\n",
            (double)(drive->alive - drive->began) / G_USEC_PER_SEC, done, total);
}

static WeftCopy
copy_of(const char *word)
{
    for (guint i = 0; i < WEFT_COPIES; i++) {
        if (g_str_equal(weft_copy_words[i], word))
            return (WeftCopy)i;
    }
    fprintf(stderr, "no method is called \"%s\"\n", word);
    exit(2);
}

static gboolean
drive_move(Drive *drive, GError **error)
{
    g_auto(WeftMoved) moved = { 0 };
    const WeftHostAddress from = host_of(drive, 1), to = host_of(drive, 2);
    const WeftMove move = {
        .domain = drive->args[3],
        .xml = drive->text,
        .copy = copy_of(drive->args[4]),
        .stall = g_ascii_strtoll(drive->args[5], NULL, 10) * 1000,
        .bandwidth = g_ascii_strtoull(drive->args[6], NULL, 10),
        .patience = 60 * G_USEC_PER_SEC,
        .rdma = drive->n > 7 ? drive->args[7] : NULL,
        .progress = note_alive,
        .data = drive,
    };
    if (!drive->hv->ops->move(drive->hv, &from, &to, &move, &moved, drive->cancellable, error))
        return FALSE;
    json_object_set_new(drive->answer, "took", json_real((double)moved.took / G_USEC_PER_SEC));
    json_object_set_new(drive->answer, "stall", json_real((double)moved.stall / G_USEC_PER_SEC));
    json_object_set_new(drive->answer, "sent", json_integer((json_int_t)moved.sent));
    json_object_set_new(drive->answer, "passes", json_integer(moved.passes));
    json_object_set_new(drive->answer, "rdma", json_boolean(moved.rdma));
    json_object_set_new(drive->answer, "rdma_failed", moved.rdma_failed ? json_string(moved.rdma_failed) : json_null());
    return TRUE;
}

static gboolean
drive_plug(Drive *drive, GError **error)
{
    const WeftHostAddress host = host_of(drive, 1);
    const WeftHypervisorOps *ops = drive->hv->ops;
    WeftPlugged plugged;
    if (!g_str_equal(drive->args[0], "plug"))
        return ops->unplug(drive->hv, &host, drive->args[2], drive->text, drive->cancellable, error);
    if (!ops->plug(drive->hv, &host, drive->args[2], drive->text, &plugged, drive->cancellable, error))
        return FALSE;
    json_object_set_new(drive->answer, "copied", json_integer((json_int_t)plugged.copied));
    return TRUE;
}

static gboolean
drive_processors(Drive *drive, GError **error)
{
    const WeftHostAddress host = host_of(drive, 1);
    const WeftHypervisorOps *ops = drive->hv->ops;
    return (g_str_equal(drive->args[0], "pause") ? ops->pause : ops->resume)(drive->hv, &host, drive->args[2],
                                                                             drive->cancellable, error);
}

static gboolean
drive_measure(Drive *drive, GError **error)
{
    guint64 rate;
    const WeftHostAddress host = host_of(drive, 1);
    if (!drive->hv->ops->measure(drive->hv, &host, drive->args[2], &rate, drive->cancellable, error))
        return FALSE;
    json_object_set_new(drive->answer, "rate", json_integer((json_int_t)rate));
    return TRUE;
}

static gboolean
drive_choose(Drive *drive, GError **error)
{
    const WeftCopyFacts facts = {
        .memory = g_ascii_strtoull(drive->args[1], NULL, 10),
        .rate = g_ascii_strtoull(drive->args[2], NULL, 10),
        .bandwidth = g_ascii_strtoull(drive->args[3], NULL, 10),
        .stall = g_ascii_strtoll(drive->args[4], NULL, 10) * 1000,
        .emulated = g_str_equal(drive->args[5], "tcg"),
    };
    json_object_set_new(drive->answer, "method", json_string(weft_copy_words[weft_copy_choose(&facts)]));
    return TRUE;
}

static gboolean
drive_connect(Drive *drive, GError **error)
{
    const WeftHostAddress host = host_of(drive, 1);
    g_autoptr(WeftHostNetwork) network =
        weft_host_network_new((guint)g_ascii_strtoull(drive->args[2], NULL, 10), drive->args[3], NULL);
    for (int i = 4; i < drive->n; i++)
        g_ptr_array_add(network->peers, g_strdup(drive->args[i]));
    return drive->hv->ops->connect(drive->hv, &host, network, NULL, drive->cancellable, error);
}

/* clang-format off */
static const struct {
    const char *name;
    int args;
    gboolean reads;
    gboolean (*run)(Drive *drive, GError **error);
} verbs[] = {
    { "move",    7, TRUE,  drive_move },
    { "plug",    3, TRUE,  drive_plug },
    { "unplug",  3, TRUE,  drive_plug },
    { "pause",   3, FALSE, drive_processors },
    { "resume",  3, FALSE, drive_processors },
    { "measure", 3, FALSE, drive_measure },
    { "choose",  6, FALSE, drive_choose },
    { "connect", 4, FALSE, drive_connect },
};
/* clang-format on */

static gboolean
quit(gpointer loop)
{
    g_main_loop_quit(loop);
    return G_SOURCE_REMOVE;
}

static gpointer
run(gpointer data)
{
    Drive *drive = data;
    g_autoptr(GError) error = NULL;
    gsize verb = 0;
    while (!g_str_equal(verbs[verb].name, drive->args[0]))
        verb++;
    gint64 began = g_get_monotonic_time();
    gboolean ok = verbs[verb].run(drive, &error);
    json_object_set_new(drive->answer, "ok", json_boolean(ok));
    json_object_set_new(drive->answer, "seconds", json_real((double)(g_get_monotonic_time() - began) / G_USEC_PER_SEC));
    if (!ok) {
        json_object_set_new(drive->answer, "error", json_string(weft_error_name((WeftErrorCode)error->code)));
        json_object_set_new(drive->answer, "message", json_string(error->message));
    }
    drive->status = ok ? 0 : 1;
    g_idle_add(quit, drive->loop); /* which may not run yet */
    return NULL;
}

static gboolean
check_alive(gpointer data)
{
    Drive *drive = data;
    gint64 alive = __atomic_load_n(&drive->alive, __ATOMIC_RELAXED);
    if (g_get_monotonic_time() - alive > drive->patience)
        g_cancellable_cancel(drive->cancellable);
    return G_SOURCE_CONTINUE;
}

static void
check_usage(int argc, char **argv)
{
    for (gsize i = 0; argc > 2 && i < G_N_ELEMENTS(verbs); i++) {
        if (g_str_equal(verbs[i].name, argv[2]) && argc - 2 >= verbs[i].args)
            return;
    }
    fprintf(stderr, "usage: as the source tells\n");
    exit(2);
}

static gboolean
reads_text(const char *verb)
{
    gsize i = 0;
    while (!g_str_equal(verbs[i].name, verb))
        i++;
    return verbs[i].reads;
}

int
main(int argc, char **argv)
{
    check_usage(argc, argv);
    g_autoptr(GError) error = NULL;
    const char *patience = g_getenv("WEFT_DRIVE_PATIENCE");
    Drive drive = { .hosts = g_strsplit(argv[1], " ", -1), .args = argv + 2, .n = argc - 2, .answer = json_object() };
    drive.patience = (patience ? g_ascii_strtoll(patience, NULL, 10) : 30) * G_USEC_PER_SEC;
    drive.began = drive.alive = g_get_monotonic_time();
    drive.text = reads_text(argv[2]) ? weft_file_read("-", DEFINITION_MAX, NULL, &error) : NULL;
    drive.hv = error ? NULL : weft_hypervisor_libvirt_new(NULL, &error);
    g_assert_no_error(error);
    drive.cancellable = g_cancellable_new();
    drive.loop = g_main_loop_new(NULL, FALSE);
    g_timeout_add(100, check_alive, &drive);
    g_autoptr(GThread) thread = g_thread_new("drive", run, &drive);
    g_main_loop_run(drive.loop);
    g_thread_join(g_steal_pointer(&thread));
    char *text = json_dumps(drive.answer, JSON_COMPACT);
    puts(text);
    fflush(stdout);
    _Exit(drive.status); /* as weftd may: whatever was left behind ends with the process */
}
