/* What nodes tell of themselves: scripts that any shell understands, as busybox has it, over the same way as weft run. */
#include "errors.h"
#include "selftest-private.h"
#include "session.h"

#include <string.h>

#define PATIENCE (2 * G_TIME_SPAN_MINUTE) /* of a script */
#define STEP_MS 500                       /* Ctrl-C is noticed */
#define ANSWER_MAX (256 << 10)

/* Files are read by the shell itself: a process for each of 128 P_Keys takes an emulated node seconds. Tests give it another
 * root. Devices of software (rxe) are no PCI devices, and nodes' own disks and networks are virtio's. */
static const char begin[] = "cd \"${WEFT_SELFTEST_ROOT:-/}\" || exit 1\n";

static const char look[] =
    "for p in sys/class/infiniband/*/ports/*; do\n"
    "  d=${p#sys/class/infiniband/}; d=${d%%/*}\n"
    "  [ -e sys/class/infiniband/$d/device ] || continue\n"
    "  read -r g 2>/dev/null < $p/gids/0 || continue; read -r s < $p/state\n"
    "  echo \"port $d/${p##*/} $g ${s##* }\"\n"
    "  for k in $p/pkeys/*; do read -r v < $k && [ \"$v\" != 0x0000 ] && echo \"pkey $d/${p##*/} ${k##*/} $v\"; done\n"
    "done\n"
    "for d in sys/bus/pci/devices/*; do\n"
    "  read -r c 2>/dev/null < $d/class || continue; read -r v < $d/vendor; read -r i < $d/device\n"
    "  case $c-$v in *-0x1af4) ;; 0x0207*|0x0200*|0x0108*) echo \"pci ${d##*/} $c ${v#0x}:${i#0x}\" ;; esac\n"
    "done\n"
    "for d in sys/class/nvme/nvme*; do\n"
    "  read -r s 2>/dev/null < $d/serial || continue; read -r c < $d/cntlid; echo \"controller $c/$s\"\n"
    "done\n"
    "for b in sys/block/nvme*; do [ -e dev/${b##*/} ] && echo \"block ${b##*/}\"; done\n"
    "n=0; for c in sys/devices/system/cpu/cpu[0-9]*; do n=$((n + 1)); done; echo \"cpus $n\"\n"
    "while read -r w k _; do [ $w = MemTotal: ] && echo \"memory $k\"; done < proc/meminfo\n"
    "ib=; for i in sys/class/net/*; do read -r t 2>/dev/null < $i/type && [ $t = 32 ] && ib=1; done\n" /* IPoIB is up */
    "while read -r a n _; do\n"
    "  case $n in \"$NODES\"-*-ib*) [ $ib ] && echo \"peer $a $n\" ;; \"$NODES\"-*) echo \"peer $a $n\" ;; esac\n"
    "done < etc/hosts\n"
    "true\n";

static const char ping[] =
    "command -v ping >/dev/null || { echo unable; exit 0; }\n"
    "for a in $ADDRESSES; do { ping -c 1 -W 2 $a || ping -c 1 -W 2 $a; } >/dev/null 2>&1 && echo \"answers $a\"; done\n"
    "true\n";

/* What is not empty may be the site's, which shares namespaces if it wants to. */
static const char mark[] = "for b in sys/block/nvme*; do\n"
                           "  n=dev/${b##*/}; [ -e $n ] || continue\n"
                           "  [ -z \"$(for s in 0 2048; do dd if=$n bs=512 skip=$s count=1; done 2>/dev/null)\" ] || continue\n"
                           "  echo \"$MARK\" | dd of=$n bs=512 conv=notrunc,fsync 2>/dev/null && echo \"block ${b##*/}\"\n"
                           "  echo \"$MARK\" | dd of=$n bs=512 seek=2048 conv=notrunc,fsync 2>/dev/null\n"
                           "done\n"
                           "true\n";

static const char find[] =
    "for b in sys/block/nvme*; do\n"
    "  [ -e dev/${b##*/} ] || continue\n"
    "  dd if=dev/${b##*/} bs=1048576 count=16 2>/dev/null | grep -q \"$MARK\" && echo \"block ${b##*/}\"\n"
    "done\n"
    "true\n";

/* --- running them --- */

static gboolean
take(WeftSession *session, GString *answer, GError **error)
{
    const GByteArray *came = weft_session_has(session, WEFT_SESSION_OUTPUT);
    g_string_append_len(answer, (const char *)came->data, came->len);
    weft_session_take(session, WEFT_SESSION_OUTPUT, came->len);
    weft_session_take(session, WEFT_SESSION_ERRORS, weft_session_has(session, WEFT_SESSION_ERRORS)->len);
    return answer->len < ANSWER_MAX ||
           weft_error_refuse(error, WEFT_ERROR_FAILED, "node %s tells more than there can be", weft_session_label(session));
}

static gboolean
listen_to(WeftSession *session, GString *answer, GError **error)
{
    gint64 end = g_get_monotonic_time() + PATIENCE;
    int status = 0;
    while (!weft_session_has_ended(session, &status)) {
        struct pollfd fd;
        int limit = weft_session_prepare(session, &fd);
        GPollFD polled = { fd.fd, (gushort)fd.events, 0 };
        g_poll(&polled, 1, limit < 0 ? STEP_MS : limit);
        if (weft_client_interrupted(error) || !weft_session_move(session, error) || !take(session, answer, error))
            return FALSE;
        if (g_get_monotonic_time() > end)
            return weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "node %s: a look from inside takes longer than 2 m",
                                     weft_session_label(session));
    }
    return take(session, answer, error) &&
           (status == 0 ||
            weft_error_refuse(error, WEFT_ERROR_FAILED, "node %s: its shell ended with %d; the image needs sh, dd and grep",
                              weft_session_label(session), status));
}

/* Its words, a line each. variable: "NAME=VALUE". */
static char **
run(const WeftParty *party, guint rank, const char *script, const char *variable, GError **error)
{
    g_autofree char *text = g_strconcat(begin, script, NULL);
    g_autoptr(GString) answer = g_string_new(NULL);
    WeftSessionSpec spec = { .command = (char *[]){ "sh", "-c", text, NULL },
                             .variables = (char *[]){ (char *)variable, NULL } };
    WeftCli cli = party->cli;
    g_autoptr(WeftSession) session = weft_session_open(&cli, party->name, rank, &spec, error);
    if (!session)
        return NULL;
    weft_session_send_end(session);
    return listen_to(session, answer, error) ? g_strsplit(answer->str, "\n", -1) : NULL;
}

/* --- reading what they say --- */

/* "fe80:0000:0000:0000:0002:c903:0010:0001" as "0x0002c90300100001". */
static char *
guid_of(const char *gid)
{
    g_auto(GStrv) parts = g_strsplit(gid, ":", -1);
    if (g_strv_length(parts) != 8)
        return g_strdup(gid);
    return g_strconcat("0x", parts[4], parts[5], parts[6], parts[7], NULL);
}

static void
take_port(json_t *told, char **words)
{
    g_autofree char *guid = guid_of(words[2]);
    json_array_append_new(json_object_get(told, "ports"),
                          json_pack("{s:s, s:s, s:s, s:[]}", "port", words[1], "guid", guid, "state", words[3], "pkeys"));
}

/* Of the port that was told before. */
static void
take_pkey(json_t *told, char **words)
{
    json_t *ports = json_object_get(told, "ports");
    json_t *port = json_array_get(ports, json_array_size(ports) - 1);
    json_array_append_new(json_object_get(port, "pkeys"),
                          json_pack("{s:I, s:I}", "index", (json_int_t)g_ascii_strtoull(words[2], NULL, 10), "value",
                                    (json_int_t)g_ascii_strtoull(words[3], NULL, 16)));
}

static void
take_device(json_t *told, char **words)
{
    json_array_append_new(json_object_get(told, "devices"),
                          json_pack("{s:s, s:s, s:s}", "pci", words[1], "class", words[2], "kind", words[3]));
}

static void
take_controller(json_t *told, char **words)
{
    json_array_append_new(json_object_get(told, "controllers"), json_string(words[1]));
}

static void
take_block(json_t *told, char **words)
{
    json_array_append_new(json_object_get(told, "blocks"), json_string(words[1]));
}

static void
take_number(json_t *told, char **words)
{
    json_object_set_new(told, words[0], json_integer((json_int_t)g_ascii_strtoull(words[1], NULL, 10)));
}

static void
take_peer(json_t *told, char **words)
{
    json_object_set_new(json_object_get(told, "peers"), words[1], json_string(words[2]));
}

static const struct {
    const char *word;
    guint words;
    void (*take)(json_t *told, char **words);
} lines_known[] = {
    { "port", 4, take_port },   { "pkey", 4, take_pkey },   { "pci", 4, take_device },    { "controller", 2, take_controller },
    { "block", 2, take_block }, { "cpus", 2, take_number }, { "memory", 2, take_number }, { "peer", 3, take_peer },
};

/* What nobody knows is nothing: a shell may have its own to say. */
static void
take_line(json_t *told, const char *line)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);
    for (gsize i = 0; g_utf8_validate(line, -1, NULL) && words[0] && i < G_N_ELEMENTS(lines_known); i++)
        if (strcmp(words[0], lines_known[i].word) == 0 && g_strv_length(words) >= lines_known[i].words)
            lines_known[i].take(told, words);
}

json_t *
weft_inside_look(const WeftParty *party, guint rank, GError **error)
{
    g_autofree char *nodes = g_strconcat("NODES=", party->name, NULL);
    g_auto(GStrv) lines = run(party, rank, look, nodes, error);
    if (!lines)
        return NULL;
    json_t *told = json_pack("{s:[], s:[], s:[], s:[], s:i, s:i, s:{}}", "ports", "devices", "controllers", "blocks", "cpus", 0,
                             "memory", 0, "peers");
    for (guint i = 0; lines[i]; i++)
        take_line(told, lines[i]);
    return told;
}

/* Second words of lines that begin so. */
static json_t *
collect(char **lines, const char *word)
{
    json_t *list = json_array();
    for (guint i = 0; lines[i]; i++)
        if (g_str_has_prefix(lines[i], word) && lines[i][strlen(word)] == ' ')
            json_array_append_new(list, json_string(lines[i] + strlen(word) + 1));
    return list;
}

json_t *
weft_inside_ping(const WeftParty *party, guint rank, json_t *addresses, gboolean *ret_able, GError **error)
{
    g_autoptr(GString) variable = g_string_new("ADDRESSES=");
    size_t i;
    json_t *address;
    json_array_foreach (addresses, i, address)
        g_string_append_printf(variable, "%s%s", i ? " " : "", json_string_value(address));
    g_auto(GStrv) lines = run(party, rank, ping, variable->str, error);
    *ret_able = lines && g_strcmp0(lines[0], "unable") != 0;
    return lines ? collect(lines, "answers") : NULL;
}

json_t *
weft_inside_mark(const WeftParty *party, guint rank, const char *text, GError **error)
{
    g_autofree char *variable = g_strdup_printf("MARK=%s-%s", text, party->cli.tenant);
    g_auto(GStrv) lines = run(party, rank, mark, variable, error);
    return lines ? collect(lines, "block") : NULL;
}

json_t *
weft_inside_find(const WeftParty *party, guint rank, const char *text, GError **error)
{
    g_autofree char *variable = g_strconcat("MARK=", text, NULL);
    g_auto(GStrv) lines = run(party, rank, find, variable, error);
    return lines ? collect(lines, "block") : NULL;
}
