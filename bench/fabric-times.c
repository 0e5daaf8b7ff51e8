/* fabric-times SOCKET FILE PID GUID…: how long a partition of these ports takes until it is right in the ports' own tables and
 * in those of the switches at their other ends, whoever changes it. Reads lines, answers each by a line of JSON:
 *
 *     plugin add|remove     by the plugin's socket
 *     file add|remove       by the partitions file and SIGHUP to the manager
 *     floor add|remove      the same blocks written by a bare loop over libibmad, one after another
 *
 *     { "micros": 2100, "answer": { as the plugin said } } */
#include "ports.h"

#include <errno.h>
#include <gio/gio.h>
#include <gio/gunixsocketaddress.h>
#include <jansson.h>
#include <signal.h>
#include <sys/prctl.h>

#define NUMBER 0x6000 /* away from what a site or weft would choose */
#define NAME "weft-bench"
#define POLL_MICROS 100
#define PATIENCE_MICROS (120 * G_USEC_PER_SEC)
#define MEMBERS_MAX 64
#define FRAME_MAX (1u << 20)

typedef struct Watched {
    const PortsTable *table;
    guint block; /* that has room for one more key: opensm and the floor put it there */
} Watched;

typedef struct Times {
    Ports *ports;
    const char *socket;
    const char *file;
    pid_t manager;
    char *site; /* the file as it was */
    char **guids;
    Watched watched[2 * MEMBERS_MAX];
    guint n_watched;
    GSocketConnection *plugin;
    guint64 generation;
} Times;

/* --- what is in the tables --- */

static gboolean
holds(const guint16 *pkeys, guint n, guint *ret_index)
{
    for (guint i = 0; i < n; i++)
        if ((pkeys[i] & 0x7fff) == NUMBER) {
            *ret_index = i;
            return TRUE;
        }
    return FALSE;
}

static void
read_all(const Times *times, PortsRead *reads, guint n)
{
    ports_read_blocks(times->ports, reads, n);
    for (guint i = 0; i < n; i++)
        if (!reads[i].answered)
            g_error("a port does not answer");
}

/* How many from the first on are right, reading no more than most of them. */
static guint
count_right(const Times *times, guint first, guint most, gboolean wanted)
{
    PortsRead reads[2 * MEMBERS_MAX];
    guint index = 0, right = 0;
    for (guint i = 0; i < most; i++)
        reads[i] = (PortsRead){ .table = times->watched[first + i].table, .block = times->watched[first + i].block };
    read_all(times, reads, most);
    while (right < most && holds(reads[right].pkeys, PORTS_BLOCK, &index) == wanted)
        right++;
    return right;
}

/* Looks at one table until it is right, then at the others at once: whoever looks at all of them all the time slows down what
 * it wants to measure. */
static void
await(const Times *times, gboolean wanted, gint64 began)
{
    guint done = 0;
    while (done < times->n_watched) {
        guint right = count_right(times, done, 1, wanted);
        done += right;
        if (right > 0 && done < times->n_watched)
            done += count_right(times, done, times->n_watched - done, wanted);
        if (g_get_monotonic_time() - began > PATIENCE_MICROS)
            g_error("not within %d s", (int)(PATIENCE_MICROS / G_USEC_PER_SEC));
        if (done < times->n_watched)
            g_usleep(POLL_MICROS);
    }
}

/* Not timed: a key in a place where await() did not look. */
static void
check(const Times *times, gboolean wanted)
{
    guint16 pkeys[PORTS_TABLE_MAX];
    guint index = 0;
    for (guint i = 0; i < times->n_watched; i++) {
        const PortsTable *table = times->watched[i].table;
        if (!ports_read(times->ports, table, pkeys) || holds(pkeys, table->capacity, &index) != wanted)
            g_error("table %u is not right any more", i);
    }
}

/* --- the plugin --- */

static void
transfer(Times *times, void *bytes, gsize n, gboolean out)
{
    GError *error = NULL;
    GIOStream *stream = G_IO_STREAM(times->plugin);
    gboolean ok = out ? g_output_stream_write_all(g_io_stream_get_output_stream(stream), bytes, n, NULL, NULL, &error)
                      : g_input_stream_read_all(g_io_stream_get_input_stream(stream), bytes, n, &(gsize){ 0 }, NULL, &error);
    if (!ok)
        g_error("the plugin: %s", error->message);
}

static void
send_frame(Times *times, json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT);
    guint32 length = GUINT32_TO_BE((guint32)strlen(text));
    g_autoptr(GByteArray) frame = g_byte_array_new();
    g_byte_array_append(frame, (const guint8 *)&length, sizeof length);
    g_byte_array_append(frame, (const guint8 *)text, (guint)strlen(text));
    transfer(times, frame->data, frame->len, TRUE);
    free(text);
    json_decref(object);
}

static json_t *
read_frame(Times *times)
{
    guint32 length = 0;
    transfer(times, &length, sizeof length, FALSE);
    length = GUINT32_FROM_BE(length);
    if (length == 0 || length > FRAME_MAX)
        g_error("the plugin: a frame of %u bytes", length);
    g_autofree char *text = g_malloc(length);
    transfer(times, text, length, FALSE);
    json_t *answer = json_loadb(text, length, 0, NULL);
    json_t *refused = json_object_get(answer, "error");
    if (!answer || refused)
        g_error("the plugin: %.*s", (int)length, text);
    return answer;
}

static void
greet_plugin(Times *times)
{
    g_autoptr(GSocketClient) client = g_socket_client_new();
    g_autoptr(GSocketAddress) address = g_unix_socket_address_new(times->socket);
    GError *error = NULL;
    times->plugin = g_socket_client_connect(client, G_SOCKET_CONNECTABLE(address), NULL, &error);
    if (!times->plugin)
        g_error("%s: %s", times->socket, error->message);
    send_frame(times, json_pack("{s:i, s:s}", "id", 1, "do", "list"));
    json_t *answer = read_frame(times);
    times->generation = (guint64)json_integer_value(json_object_get(answer, "generation"));
    json_decref(answer);
}

static json_t *
members_to_json(const Times *times)
{
    json_t *members = json_array();
    for (char **guid = times->guids; *guid; guid++)
        json_array_append_new(members, json_pack("{s:s, s:s}", "guid", *guid, "membership", "full"));
    return members;
}

static json_t *
change_to_json(Times *times, gboolean wanted)
{
    g_autofree char *number = g_strdup_printf("0x%04x", NUMBER);
    json_t *set = json_array(), *removed = json_array();
    if (wanted)
        json_array_append_new(set,
                              json_pack("{s:s, s:s, s:o}", "pkey", number, "name", NAME, "members", members_to_json(times)));
    else
        json_array_append_new(removed, json_pack("{s:s, s:s}", "pkey", number, "name", NAME));
    return json_pack("{s:i, s:s, s:I, s:o, s:o}", "id", 2, "do", "apply", "generation", (json_int_t)++times->generation, "set",
                     set, "removed", removed);
}

static gint64
by_plugin(Times *times, gboolean wanted, json_t **ret_answer)
{
    if (!times->plugin)
        greet_plugin(times);
    gint64 began = g_get_monotonic_time();
    send_frame(times, change_to_json(times, wanted));
    await(times, wanted, began);
    gint64 took = g_get_monotonic_time() - began;
    *ret_answer = read_frame(times);
    return took;
}

/* --- the file --- */

static gint64
by_file(Times *times, gboolean wanted, json_t **ret_answer)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GString) text = g_string_new(times->site);
    if (wanted) {
        g_string_append_printf(text, "%s=0x%04x :", NAME, NUMBER);
        for (char **guid = times->guids; *guid; guid++)
            g_string_append_printf(text, "%s%s=full", guid == times->guids ? " " : ", ", *guid);
        g_string_append(text, " ;\n");
    }
    gint64 began = g_get_monotonic_time();
    if (!g_file_set_contents(times->file, text->str, (gssize)text->len, &error))
        g_error("%s", error->message);
    if (kill(times->manager, SIGHUP) < 0)
        g_error("process %d: %s", (int)times->manager, g_strerror(errno));
    await(times, wanted, began);
    return g_get_monotonic_time() - began;
}

/* --- the floor --- */

static void
prepare_block(guint16 *pkeys, gboolean wanted)
{
    guint index = 0;
    if (holds(pkeys, PORTS_BLOCK, &index)) {
        pkeys[index] = wanted ? pkeys[index] : 0;
        return;
    }
    for (index = 0; wanted && index < PORTS_BLOCK; index++)
        if (!pkeys[index]) {
            pkeys[index] = 0x8000 | NUMBER;
            return;
        }
}

static gint64
by_loop(Times *times, gboolean wanted, json_t **ret_answer)
{
    PortsRead reads[2 * MEMBERS_MAX];
    for (guint i = 0; i < times->n_watched; i++)
        reads[i] = (PortsRead){ .table = times->watched[i].table, .block = times->watched[i].block };
    read_all(times, reads, times->n_watched);
    for (guint i = 0; i < times->n_watched; i++)
        prepare_block(reads[i].pkeys, wanted);
    gint64 began = g_get_monotonic_time();
    for (guint i = 0; i < times->n_watched; i++)
        if (!ports_write_block(times->ports, reads[i].table, reads[i].block, reads[i].pkeys))
            g_error("a port does not take its block");
    return g_get_monotonic_time() - began;
}

/* --- lines --- */

static const struct {
    const char *name;
    gint64 (*change)(Times *times, gboolean wanted, json_t **ret_answer);
} ways[] = { { "plugin", by_plugin }, { "file", by_file }, { "floor", by_loop } };

static void
serve(Times *times, const char *line)
{
    g_auto(GStrv) words = g_strsplit(line, " ", 2);
    for (gsize i = 0; words[0] && words[1] && i < G_N_ELEMENTS(ways); i++) {
        if (!g_str_equal(words[0], ways[i].name))
            continue;
        gboolean wanted = g_str_equal(words[1], "add");
        json_t *answer = NULL;
        gint64 took = ways[i].change(times, wanted, &answer);
        check(times, wanted);
        json_t *said = json_pack("{s:I, s:o*}", "micros", (json_int_t)took, "answer", answer);
        json_dumpf(said, stdout, JSON_COMPACT);
        json_decref(said);
        printf("\n");
        return;
    }
    g_error("'%s' is not to be done here", line);
}

static guint
block_with_room(const Ports *ports, const PortsTable *table)
{
    guint16 pkeys[PORTS_TABLE_MAX];
    if (!ports_read(ports, table, pkeys))
        g_error("a port does not answer");
    for (guint i = 0; i < table->capacity; i++)
        if (!pkeys[i])
            return i / PORTS_BLOCK;
    g_error("a table is full");
}

static void
watch(Times *times)
{
    for (char **guid = times->guids; *guid; guid++) {
        const PortsPort *port = ports_get(times->ports, ports_parse_guid(*guid));
        const PortsTable *tables[] = { &port->own, &port->enforced };
        for (guint i = 0; i < G_N_ELEMENTS(tables); i++)
            times->watched[times->n_watched++] = (Watched){ tables[i], block_with_room(times->ports, tables[i]) };
    }
}

int
main(int argc, char **argv)
{
    if (argc < 5 || argc > 4 + MEMBERS_MAX)
        g_error("fabric-times SOCKET FILE PID GUID…");
    Times times = { .socket = argv[1], .file = argv[2], .guids = argv + 4 };
    times.manager = (pid_t)g_ascii_strtoull(argv[3], NULL, 10);
    if (!g_file_get_contents(times.file, &times.site, NULL, NULL))
        g_error("%s cannot be read", times.file);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    times.ports = ports_discover();
    watch(&times);
    printf("{}\n");
    fflush(stdout);

    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        serve(&times, g_strchomp(line));
        fflush(stdout);
    }
    g_clear_object(&times.plugin);
    ports_free(times.ports);
    g_free(times.site);
    return 0;
}
