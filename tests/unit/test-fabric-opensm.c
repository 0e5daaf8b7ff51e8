/* The parts of opensm's driver that need no opensm: what ssh, a plugin and weft-discover that misbehave come to, and what a
 * table must hold. */
#include "errors.h"
#include "expectation.h"
#include "forward.h"
#include "mads.h"
#include "manager-process.h"
#include "opensm-fabric.h"
#include "plugin-link.h"

#include <gio/gunixsocketaddress.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND G_USEC_PER_SEC

typedef struct Scene {
    char *folder;
    char *program; /* what is started instead of ssh, or of weft-discover */
    WeftForward *forward;
} Scene;

static void
scene_up(Scene *scene, gconstpointer script)
{
    g_autoptr(GError) error = NULL;
    scene->folder = g_dir_make_tmp("weft-test-XXXXXX", NULL);
    scene->program = g_build_filename(scene->folder, "ssh", NULL);
    g_autofree char *text = g_strdup_printf("#!/bin/sh\ncd %s\n%s\n", scene->folder, script ? (const char *)script : "");
    g_assert_true(g_file_set_contents(scene->program, text, -1, NULL));
    g_assert_cmpint(g_chmod(scene->program, 0755), ==, 0);
    const WeftForwardOptions options = { .program = scene->program, .key = "/keys/weft" };
    scene->forward = weft_forward_new("ssh://weft@sm1:2222/run/weft-opensm.sock", &options, &error);
    g_assert_no_error(error);
}

static void
scene_down(Scene *scene, gconstpointer script)
{
    weft_forward_free(scene->forward);
    g_autoptr(GDir) dir = g_dir_open(scene->folder, 0, NULL);
    for (const char *name; (name = g_dir_read_name(dir));) {
        g_autofree char *path = g_build_filename(scene->folder, name, NULL);
        g_unlink(path);
    }
    g_assert_cmpint(g_rmdir(scene->folder), ==, 0);
    g_free(scene->program);
    g_free(scene->folder);
}

static char *
read_in(const Scene *scene, const char *file)
{
    g_autofree char *path = g_build_filename(scene->folder, file, NULL);
    char *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    return g_strchomp(text);
}

static void
expect_open(Scene *scene, gint64 limit, GCancellable *cancellable, int code, const char *says)
{
    g_autoptr(GError) error = NULL;
    gboolean ok = weft_forward_open(scene->forward, g_get_monotonic_time() + limit, cancellable, &error);
    if (code < 0) {
        g_assert_no_error(error);
        g_assert_true(ok);
        return;
    }
    g_assert_error(error, WEFT_ERROR, code);
    g_assert_nonnull(strstr(error->message, says));
}

/* --- ssh --- */

#define READY "echo \"$@\" >args; echo $$ >pid; echo run >>runs; echo weft-forward-ready; "

static void
test_forward(Scene *scene, gconstpointer script)
{
    expect_open(scene, 10 * SECOND, NULL, -1, NULL);
    expect_open(scene, 10 * SECOND, NULL, -1, NULL);
    g_autofree char *runs = read_in(scene, "runs");
    g_assert_cmpstr(runs, ==, "run");
    g_autofree char *args = read_in(scene, "args");
    g_autofree char *forward = g_strdup_printf(" -L %s:/run/weft-opensm.sock -- weft@sm1", weft_forward_path(scene->forward));
    g_assert_true(g_str_has_suffix(args, forward));
    g_assert_nonnull(strstr(args, "-o BatchMode=yes"));
    g_assert_nonnull(strstr(args, "-o ExitOnForwardFailure=yes"));
    g_assert_nonnull(strstr(args, " -i /keys/weft"));
    g_assert_nonnull(strstr(args, " -p 2222"));

    g_autofree char *pid = read_in(scene, "pid");
    g_clear_pointer(&scene->forward, weft_forward_free);
    while (kill((pid_t)g_ascii_strtoll(pid, NULL, 10), 0) == 0)
        g_usleep(1000);
}

/* It ends, and is started again, but not at once. */
static void
test_forward_refused(Scene *scene, gconstpointer script)
{
    expect_open(scene, 10 * SECOND, NULL, WEFT_ERROR_UNAVAILABLE, "Permission denied");
    expect_open(scene, 10 * SECOND, NULL, WEFT_ERROR_UNAVAILABLE, "Permission denied");
    g_autofree char *once = read_in(scene, "runs");
    g_assert_cmpstr(once, ==, "run");
    for (g_autofree char *runs = NULL; g_strcmp0(runs, "run\nrun") != 0; runs = (g_free(runs), read_in(scene, "runs"))) {
        expect_open(scene, 10 * SECOND, NULL, WEFT_ERROR_UNAVAILABLE, "Permission denied");
        g_usleep(10000);
    }
}

/* A machine may greet with pages; what matters comes last. */
#define BANNER "head -c 20000 /dev/zero | tr '\\0' '*'; "

static void
test_forward_greeted(Scene *scene, gconstpointer script)
{
    expect_open(scene, 10 * SECOND, NULL, -1, NULL);
}

static void
test_forward_greeted_and_refused(Scene *scene, gconstpointer script)
{
    expect_open(scene, 10 * SECOND, NULL, WEFT_ERROR_UNAVAILABLE, "Permission denied");
}

static void
test_forward_hangs(Scene *scene, gconstpointer script)
{
    expect_open(scene, SECOND / 20, NULL, WEFT_ERROR_TIMEOUT, "ssh");
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    g_cancellable_cancel(cancellable);
    expect_open(scene, 1000 * SECOND, cancellable, WEFT_ERROR_TIMEOUT, "ssh");
}

static void
test_addresses(void)
{
    static const char *const wrong[] = {
        "run/weft.sock",
        "ssh://",
        "ssh://sm1",
        "ssh://sm1/",
        "ssh://-oProxyCommand=x/s",
        "ssh://-u@sm1/s",
        "ssh://a b@sm1/s",
        "ssh://sm1/a:b",
        "ssh://sm1/s?x",
        "http://sm1/s",
        "",
    };
    const WeftForwardOptions options = { 0 };
    for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(weft_plugin_manager_new(wrong[i], &options, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    }
    g_autoptr(WeftPluginManager) local = weft_plugin_manager_new("/run/weft-opensm.sock", &options, NULL);
    g_assert_cmpstr(local->path, ==, "/run/weft-opensm.sock");
}

static void
test_options(void)
{
    const char *const none[] = { NULL };
    const WeftOpensmOptions wrong[] = {
        { .way = WEFT_OPENSM_PLUGIN },
        { .way = WEFT_OPENSM_PLUGIN, .managers = none },
        { .way = WEFT_OPENSM_POOL },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(weft_fabric_opensm_new(&wrong[i], &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    }
}

/* --- a plugin that misbehaves --- */

typedef struct Server {
    GSocket *socket;
    const char *says; /* NULL: nothing, and it stays */
    gsize length;
    GThread *thread;
} Server;

static gpointer
serve(gpointer data)
{
    Server *server = data;
    g_autoptr(GSocket) client = g_socket_accept(server->socket, NULL, NULL);
    char request[4096];
    g_socket_receive(client, request, sizeof request, NULL, NULL);
    if (server->says)
        g_socket_send(client, server->says, server->length, NULL, NULL);
    else
        while (g_socket_receive(client, request, sizeof request, NULL, NULL) > 0)
            ;
    return NULL;
}

static void
expect_greeting(Scene *scene, const char *says, gsize length, int code)
{
    g_autofree char *path = g_build_filename(scene->folder, "sock", NULL);
    g_autoptr(GSocketAddress) address = g_unix_socket_address_new(path);
    Server server = { g_socket_new(G_SOCKET_FAMILY_UNIX, G_SOCKET_TYPE_STREAM, 0, NULL), says, length, NULL };
    g_unlink(path);
    g_assert_true(g_socket_bind(server.socket, address, FALSE, NULL) && g_socket_listen(server.socket, NULL));
    server.thread = g_thread_new("server", serve, &server);

    g_autoptr(GError) error = NULL;
    gint64 deadline = g_get_monotonic_time() + (says ? 10 * SECOND : SECOND / 20);
    g_autoptr(WeftPluginManager) manager = weft_plugin_manager_new(path, &(WeftForwardOptions){ 0 }, NULL);
    WeftPluginLink *link = weft_plugin_link_new(manager, deadline, NULL, &error);
    g_assert_no_error(error);
    g_autoptr(WeftManager) greeting = weft_plugin_link_greet(link, deadline, NULL, &error);
    weft_plugin_link_free(link);
    g_thread_join(server.thread);
    g_object_unref(server.socket);
    if (code < 0)
        g_assert_true(greeting && greeting->master);
    else
        g_assert_error(error, WEFT_ERROR, code);
}

static void
expect_answer(Scene *scene, const char *json, int code)
{
    g_autoptr(GByteArray) frame = g_byte_array_new();
    guint32 length = GUINT32_TO_BE((guint32)strlen(json));
    g_byte_array_append(frame, (const guint8 *)&length, sizeof length);
    g_byte_array_append(frame, (const guint8 *)json, (guint)strlen(json));
    expect_greeting(scene, (const char *)frame->data, frame->len, code);
}

static void
test_plugin_misbehaves(Scene *scene, gconstpointer script)
{
    expect_greeting(scene, "", 0, WEFT_ERROR_UNAVAILABLE);
    expect_greeting(scene, NULL, 0, WEFT_ERROR_TIMEOUT);
    expect_greeting(scene, "HTTP/1.1 400 Bad Request\r\n", 26, WEFT_ERROR_UNAVAILABLE);
    expect_greeting(scene, "\0\0\0\x10{", 5, WEFT_ERROR_UNAVAILABLE);
    expect_answer(scene, "{\"id\":1,\"protocol\":99}", WEFT_ERROR_UNAVAILABLE);
    expect_answer(scene, "{\"id\":9,\"protocol\":2}", WEFT_ERROR_UNAVAILABLE);
    expect_answer(scene, "{\"id\":1,\"error\":{\"kind\":\"exhausted\",\"text\":\"x\"}}", WEFT_ERROR_EXHAUSTED);
    expect_answer(scene,
                  "{\"id\":1,\"protocol\":2,\"manager\":{\"master\":true,\"sweeping\":false,\"virtualization\":false,"
                  "\"qos\":false,\"enforces\":true,\"keeps_indices\":true}}",
                  -1);
}

/* --- weft-discover --- */

#define KEY 0x5eedULL
/* A host on a switch. */
#define FOUND                                                                                                                  \
    "{\"map\":{\"nodes\":[{\"kind\":\"switch\",\"guid\":\"0x10\",\"ports\":[{\"number\":1,\"peer\":\"0x20\",\"peer_port\":1}]" \
    "},"                                                                                                                       \
    "{\"kind\":\"adapter\",\"guid\":\"0x20\",\"ports\":[{\"number\":1,\"guid\":\"0x21\",\"peer\":\"0x10\",\"peer_port\":1}]}]" \
    "},"                                                                                                                       \
    "\"places\":[{\"guid\":\"0x21\",\"way\":[1,7],\"pkeys\":64,\"enforced\":32}]}"
#define PLACES(place) "echo '{\"map\":{\"nodes\":[]},\"places\":[" place "]}'"

static WeftMads *
discoverer(const Scene *scene, gint64 deadline)
{
    return weft_mads_new(
        &(WeftMadsOptions){ .device = "mlx5_0", .port = 2, .m_key = KEY, .deadline = deadline, .program = scene->program });
}

static void
test_discovery(Scene *scene, gconstpointer script)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftMads) mads = discoverer(scene, 10 * SECOND);
    g_autoptr(WeftFabricMap) map = weft_mads_map(mads, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpint(weft_fabric_map_leaf(map, 0x21), ==, 0);
    /* Others see command lines. */
    g_autofree char *args = read_in(scene, "args"), *key = read_in(scene, "key");
    g_assert_cmpstr(args, ==, "mlx5_0 2");
    g_assert_cmpuint(g_ascii_strtoull(key, NULL, 0), ==, KEY);
}

/* A script, and what the message names. */
static const struct {
    const char *script, *says;
} discoveries[] = {
    { "kill -ABRT $$", "signal 6" },
    { "kill -KILL $$", "signal 9" },
    { "echo '" FOUND "'; kill -ABRT $$", "signal 6" },
    { "exit 2", "mlx5_0, port 2" },
    { "exit 0", "no JSON" },
    { "echo hello", "no JSON" },
    { "echo '{\"map\":{\"nodes\":[{\"kind\":'", "no JSON" },
    { "echo '" FOUND "' x", "no JSON" },
    { "cat /dev/zero", "more than 128 MiB" },
    { "exec >&-; exec sleep 1000", "signal 9" },
    { "echo []", "must be an object" },
    { "echo '{}'", "places: is missing" },
    { "echo '{\"places\":[]}'", "map: must be an object, is missing" },
    { "echo '{\"map\":{\"nodes\":[{\"kind\":\"hub\"}]},\"places\":[]}'", "hub" },
    { "echo '{\"map\":{\"nodes\":[]},\"places\":[],\"more\":1}'", "more" },
    { PLACES("{\"guid\":\"0x1\",\"pkeys\":1}"), "places[0].way: is missing" },
    { PLACES("{\"guid\":\"0x1\",\"way\":[],\"pkeys\":1,\"enforced\":1}"), "places[0].enforced" },
    { PLACES("{\"guid\":\"0x1\",\"way\":[0],\"pkeys\":1}"), "places[0].way" },
    { PLACES("{\"guid\":\"0x1\",\"way\":[256],\"pkeys\":1}"), "places[0].way" },
    { PLACES("{\"guid\":\"0x1\",\"way\":[\"1\"],\"pkeys\":1}"), "places[0].way" },
    { PLACES("{\"guid\":\"0x1\",\"way\":['$(seq -s, 64)'],\"pkeys\":1}"), "places[0].way" },
    { PLACES("{\"guid\":\"0x1\",\"way\":[1],\"pkeys\":65536}"), "places[0].pkeys" },
};

/* However it ends, weft goes on and says so. */
static void
test_discovery_misbehaves(Scene *scene, gconstpointer none)
{
    for (gsize i = 0; i < G_N_ELEMENTS(discoveries); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *text = g_strdup_printf("#!/bin/sh\n%s\n", discoveries[i].script);
        g_assert_true(g_file_set_contents(scene->program, text, -1, NULL));
        g_assert_cmpint(g_chmod(scene->program, 0755), ==, 0);
        g_autoptr(WeftMads) mads = discoverer(scene, 60 * SECOND);
        g_assert_null(weft_mads_map(mads, NULL, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
        if (!strstr(error->message, discoveries[i].says))
            g_error("%s: \"%s\" does not tell of \"%s\"", discoveries[i].script, error->message, discoveries[i].says);
    }
}

static gpointer
cancel_soon(gpointer cancellable)
{
    g_usleep(SECOND / 20);
    g_cancellable_cancel(cancellable);
    return NULL;
}

static void
test_discovery_hangs(Scene *scene, gconstpointer script)
{
    g_autoptr(GError) late = NULL, cancelled = NULL, read = NULL;
    g_autoptr(WeftMads) hasty = discoverer(scene, SECOND / 20), patient = discoverer(scene, 600 * SECOND);
    g_assert_null(weft_mads_map(hasty, NULL, &late));
    g_assert_error(late, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    g_assert_nonnull(strstr(late->message, "deadline"));
    g_autoptr(WeftPortTable) table = weft_port_table_new(0x21);
    g_assert_false(weft_mads_read(hasty, table, FALSE, NULL, &read));
    g_assert_error(read, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);

    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    GThread *thread = g_thread_new("cancel", cancel_soon, cancellable);
    g_assert_null(weft_mads_map(patient, cancellable, &cancelled));
    g_assert_error(cancelled, WEFT_ERROR, WEFT_ERROR_TIMEOUT);
    g_thread_join(thread);
}

static void
test_discovery_is_not_there(Scene *scene, gconstpointer script)
{
    g_autoptr(GError) error = NULL;
    g_unlink(scene->program);
    g_autoptr(WeftMads) mads = discoverer(scene, 10 * SECOND);
    g_assert_null(weft_mads_map(mads, NULL, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    g_assert_nonnull(strstr(error->message, "cannot be started"));
}

/* --- what ports must hold --- */

static WeftPortTable *
table_of(guint64 guid, guint16 first, guint16 second)
{
    WeftPortTable *table = weft_port_table_new(guid);
    g_array_append_val(table->pkeys, first);
    g_array_append_val(table->pkeys, second);
    return table;
}

static void
test_expectation(void)
{
    g_autoptr(WeftPartition) old = weft_partition_new(1, "weft-0aaaaaaaaaaa");
    g_autoptr(WeftPartition) wanted = weft_partition_new(1, "weft-0aaaaaaaaaaa");
    weft_partition_add(old, &(WeftMember){ 10, 0, WEFT_MEMBER_FULL, -1 });
    weft_partition_add(old, &(WeftMember){ 11, 0, WEFT_MEMBER_FULL, -1 });
    weft_partition_add(wanted, &(WeftMember){ 11, 0, WEFT_MEMBER_LIMITED, -1 });
    weft_partition_add(wanted, &(WeftMember){ 12, 0, WEFT_MEMBER_BOTH, -1 });
    g_autoptr(WeftExpectation) expectation = weft_expectation_new();
    weft_expectation_add(expectation, old, wanted);
    g_autoptr(GArray) ports = weft_expectation_ports(expectation);
    g_assert_cmpuint(ports->len, ==, 3);

    static const struct {
        guint64 guid;
        guint16 first, second;
        gboolean right, fits;
    } cases[] = {
        { 10, 0xffff, 0, TRUE, TRUE },      { 10, 0x8001, 0, FALSE, TRUE },      { 11, 0x8001, 0, FALSE, TRUE },
        { 11, 0x0001, 0, TRUE, TRUE },      { 11, 0x8001, 0x0001, FALSE, TRUE }, { 11, 0xffff, 0x8002, FALSE, FALSE },
        { 12, 0x8001, 0, TRUE, TRUE },      { 12, 0x8001, 0x0001, TRUE, TRUE },  { 12, 0x0001, 0, FALSE, TRUE },
        { 13, 0x8001, 0x8002, TRUE, TRUE },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(WeftPortTable) table = table_of(cases[i].guid, cases[i].first, cases[i].second);
        g_assert_cmpuint(weft_expectation_missed(expectation, table), ==, cases[i].right ? 0 : 1);
        g_assert_cmpint(weft_expectation_fits(expectation, table), ==, cases[i].fits);
    }
    g_autoptr(WeftPortTable) half = table_of(12, 0x8001, 0);
    half->enforced = g_array_new(FALSE, TRUE, sizeof(guint16));
    g_assert_cmpuint(weft_expectation_missed(expectation, half), ==, 1);
    g_assert_false(weft_expectation_fits(expectation, half));
}

/* For a whole adapter it must be the first. */
static void
test_expectation_of_index_0(void)
{
    g_autoptr(WeftPartition) wanted = weft_partition_new(1, "weft-0aaaaaaaaaaa");
    weft_partition_add(wanted, &(WeftMember){ 10, 0, WEFT_MEMBER_FULL, 0 });
    g_autoptr(WeftExpectation) expectation = weft_expectation_new();
    weft_expectation_add(expectation, NULL, wanted);
    g_autoptr(WeftPortTable) second = table_of(10, 0xffff, 0x8001);
    g_assert_cmpuint(weft_expectation_missed(expectation, second), ==, 1);
    g_autoptr(WeftPortTable) first = table_of(10, 0x8001, 0xffff);
    first->enforced = g_array_new(FALSE, TRUE, sizeof(guint16));
    const guint16 enforced[] = { 0xffff, 0x8001 };
    g_array_append_vals(first->enforced, enforced, G_N_ELEMENTS(enforced));
    g_assert_cmpuint(weft_expectation_missed(expectation, first), ==, 0);
}

/* --- the manager's process --- */

static void
hung_up(int number)
{
    _exit(0);
}

/* An opensm that takes SIGHUP only once it was told to go on. */
static pid_t
start_manager(int go[2], int said[2])
{
    g_assert_true(pipe(go) == 0 && pipe(said) == 0);
    pid_t pid = fork();
    if (pid > 0)
        return pid;
    char word = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "opensm");
    if (write(said[1], "n", 1) != 1 || read(go[0], &word, 1) != 1)
        _exit(1);
    signal(SIGHUP, hung_up);
    if (write(said[1], "c", 1) == 1)
        sleep(60);
    _exit(1);
}

static void
expect_word(int fd, char wanted)
{
    char word = 0;
    g_assert_cmpint(read(fd, &word, 1), ==, 1);
    g_assert_true(word == wanted);
}

static void
test_manager_is_not_ended_while_it_starts(Scene *scene, gconstpointer script)
{
    g_autoptr(GError) error = NULL;
    int go[2], said[2], status = -1;
    pid_t pid = start_manager(go, said);
    g_autofree char *file = g_build_filename(scene->folder, "pid", NULL);
    g_autofree char *text = g_strdup_printf("%d\n", pid);
    g_assert_true(g_file_set_contents(file, text, -1, NULL));
    expect_word(said[0], 'n');
    g_assert_false(weft_manager_process_tell(file, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    g_clear_error(&error);

    g_assert_cmpint(write(go[1], "g", 1), ==, 1);
    expect_word(said[0], 'c');
    g_assert_true(weft_manager_process_tell(file, &error));
    g_assert_no_error(error);
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (guint i = 0; i < 2; i++) {
        close(go[i]);
        close(said[i]);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    /* Before others start threads: under ThreadSanitizer a child of a program that has some takes no signals. */
    g_test_add("/fabric-opensm/manager-starts", Scene, NULL, scene_up, test_manager_is_not_ended_while_it_starts, scene_down);
    g_test_add("/fabric-opensm/forward", Scene, READY "exec sleep 1000", scene_up, test_forward, scene_down);
    g_test_add("/fabric-opensm/forward-refused", Scene, "echo run >>runs; echo 'Permission denied (publickey)' >&2; exit 255",
               scene_up, test_forward_refused, scene_down);
    g_test_add("/fabric-opensm/forward-greeted", Scene, BANNER READY "exec sleep 1000", scene_up, test_forward_greeted,
               scene_down);
    g_test_add("/fabric-opensm/forward-greeted-and-refused", Scene, BANNER "echo 'Permission denied (publickey)' >&2; exit 255",
               scene_up, test_forward_greeted_and_refused, scene_down);
    g_test_add("/fabric-opensm/forward-hangs", Scene, "exec sleep 1000", scene_up, test_forward_hangs, scene_down);
    g_test_add_func("/fabric-opensm/addresses", test_addresses);
    g_test_add_func("/fabric-opensm/options", test_options);
    g_test_add("/fabric-opensm/plugin-misbehaves", Scene, NULL, scene_up, test_plugin_misbehaves, scene_down);
    g_test_add("/fabric-opensm/discovery", Scene, "echo \"$@\" >args; echo $WEFT_M_KEY >key; echo '" FOUND "'", scene_up,
               test_discovery, scene_down);
    g_test_add("/fabric-opensm/discovery-misbehaves", Scene, NULL, scene_up, test_discovery_misbehaves, scene_down);
    g_test_add("/fabric-opensm/discovery-hangs", Scene, "exec sleep 1000", scene_up, test_discovery_hangs, scene_down);
    g_test_add("/fabric-opensm/discovery-is-not-there", Scene, NULL, scene_up, test_discovery_is_not_there, scene_down);
    g_test_add_func("/fabric-opensm/expectation", test_expectation);
    g_test_add_func("/fabric-opensm/expectation-of-index-0", test_expectation_of_index_0);
    return g_test_run();
}
