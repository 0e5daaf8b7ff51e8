#include "fake-world.h"

#include "errors.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define FILE_MAX (64 * 1024 * 1024)

static gboolean
fail_errno(GError **error, const char *doing, const char *path)
{
    int saved = errno;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_FAILED, "fake fabric: %s %s: %s", doing, path, g_strerror(saved));
    return FALSE;
}

static gboolean
fail_text(GError **error, const char *path, const char *line)
{
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_FAILED, "fake fabric: %s: \"%s\" is not understood; remove the file", path, line);
    return FALSE;
}

/* --- single files --- */

/* Whole or not at all. The temporary file lies apart, so that the folder of partitions holds nothing else; a killed process may
 * have left it, with more in it than comes now. */
static gboolean
replace(WeftFakeWorld *world, const char *path, const char *text, GError **error)
{
    int fd = open(world->fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    gboolean written = fd >= 0 && weft_file_write(fd, text, strlen(text));
    if (fd >= 0)
        close(fd);
    return (written && g_rename(world->fresh, path) == 0) || fail_errno(error, "writing", path);
}

static gboolean
remove_file(const char *path, GError **error)
{
    return g_unlink(path) == 0 || errno == ENOENT || fail_errno(error, "removing", path);
}

/* NULL without an error: there is no such file. */
static char *
read_optional(const char *path, GError **error)
{
    g_autoptr(GError) failed = NULL;
    char *text = weft_file_read(path, FILE_MAX, NULL, &failed);
    if (!text && !g_error_matches(failed, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
        g_propagate_error(error, g_steal_pointer(&failed));
    return text;
}

/* --- partitions as text --- */

static char *
partition_path(const WeftFakeWorld *world, guint pkey)
{
    return g_strdup_printf("%s/0x%04x", world->partitions, pkey);
}

static void
format_partition(GString *text, const WeftPartition *partition, const char *indent)
{
    g_string_append_printf(text, "%s%s\n", indent, partition->name);
    if (partition->ipoib || partition->sl || partition->rate || partition->mtu)
        g_string_append_printf(text, "%ssettings %d %u %u %u\n", indent, partition->ipoib, partition->sl, partition->rate,
                               partition->mtu);
    for (guint i = 0; i < partition->members->len; i++) {
        const WeftMember *member = &g_array_index(partition->members, WeftMember, i);
        g_string_append_printf(text, "%s0x%016" G_GINT64_MODIFIER "x 0x%016" G_GINT64_MODIFIER "x %s %d\n", indent,
                               member->port_guid, member->virtual_guid, weft_membership_words[member->membership],
                               member->index);
    }
}

static gboolean
parse_hex(const char *text, guint64 max, guint64 *ret_value)
{
    return g_str_has_prefix(text, "0x") && g_ascii_string_to_unsigned(text + 2, 16, 0, max, ret_value, NULL);
}

static gboolean
parse_member(const char *line, WeftMember *ret_member)
{
    g_auto(GStrv) words = g_strsplit(line, " ", 5);
    gint64 index;
    if (g_strv_length(words) != 4 || !parse_hex(words[0], G_MAXUINT64, &ret_member->port_guid) ||
        !parse_hex(words[1], G_MAXUINT64, &ret_member->virtual_guid) ||
        !g_ascii_string_to_signed(words[3], 10, -1, G_MAXUINT16, &index, NULL))
        return FALSE;
    ret_member->index = (int)index;
    for (guint i = 0; weft_membership_words[i]; i++) {
        ret_member->membership = i;
        if (g_str_equal(words[2], weft_membership_words[i]))
            return TRUE;
    }
    return FALSE;
}

static gboolean
parse_settings(const char *line, WeftPartition *partition)
{
    g_auto(GStrv) words = g_strsplit(line, " ", 6);
    guint64 values[4];
    if (g_strv_length(words) != 1 + G_N_ELEMENTS(values))
        return FALSE;
    for (guint i = 0; i < G_N_ELEMENTS(values); i++)
        if (!g_ascii_string_to_unsigned(words[1 + i], 10, 0, 63, &values[i], NULL))
            return FALSE;
    partition->ipoib = values[0] != 0;
    partition->sl = (guint)values[1];
    partition->rate = (guint)values[2];
    partition->mtu = (guint)values[3];
    return TRUE;
}

static gboolean
parse_line(const char *line, WeftPartition *partition)
{
    WeftMember member;
    if (g_str_has_prefix(line, "settings "))
        return parse_settings(line, partition);
    if (!parse_member(line, &member))
        return FALSE;
    g_array_append_val(partition->members, member);
    return TRUE;
}

static WeftPartition *
read_partition(WeftFakeWorld *world, guint pkey, GError **error)
{
    g_autofree char *path = partition_path(world, pkey);
    g_autofree char *text = read_optional(path, error);
    if (!text)
        return NULL;
    g_auto(GStrv) lines = g_strsplit(g_strchomp(text), "\n", -1);
    g_autoptr(WeftPartition) partition = weft_partition_new(pkey, lines[0] ? lines[0] : "");
    for (guint i = 1; lines[0] && lines[i]; i++) {
        if (!parse_line(lines[i], partition)) {
            fail_text(error, path, lines[i]);
            return NULL;
        }
    }
    return g_steal_pointer(&partition);
}

/* --- the change that is being made ---
 *
 *     generation 7
 *     remove 0x0003
 *     set 0x0001
 *      weft-4k2m…             the file's lines, indented
 *      0x… 0x… full 0
 */

static char *
format_pending(const WeftFabricChange *change)
{
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "generation %" G_GUINT64_FORMAT "\n", change->generation);
    for (guint i = 0; i < change->removed->len; i++)
        g_string_append_printf(text, "remove 0x%04x\n", g_array_index(change->removed, WeftPartitionRemoval, i).pkey);
    for (guint i = 0; i < change->set->len; i++) {
        const WeftPartition *partition = g_ptr_array_index(change->set, i);
        g_string_append_printf(text, "set 0x%04x\n", partition->pkey);
        format_partition(text, partition, " ");
    }
    return g_string_free(text, FALSE);
}

static gboolean
do_remove(WeftFakeWorld *world, const char *number, GError **error)
{
    g_autofree char *path = g_build_filename(world->partitions, number, NULL);
    return remove_file(path, error);
}

/* Takes the indented lines that follow. */
static gboolean
do_set(WeftFakeWorld *world, const char *number, char ***lines, GError **error)
{
    g_autofree char *path = g_build_filename(world->partitions, number, NULL);
    g_autoptr(GString) text = g_string_new(NULL);
    for (; **lines && ***lines == ' '; (*lines)++)
        g_string_append_printf(text, "%s\n", **lines + 1);
    return replace(world, path, text->str, error);
}

/* Does what the file says and forgets it: what a killed process or a full disk left undone is done before anything else. Doing
 * a part of it twice does no harm. The generation comes last: it says that all is done. */
static gboolean
complete(WeftFakeWorld *world, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autofree char *text = read_optional(world->pending, &failed);
    g_auto(GStrv) all = text ? g_strsplit(text, "\n", -1) : NULL;
    const char *generation = NULL;
    for (char **lines = all; !failed && lines && *lines && **lines;) {
        const char *line = *lines++;
        if (g_str_has_prefix(line, "generation "))
            generation = line + strlen("generation ");
        else if (g_str_has_prefix(line, "remove "))
            do_remove(world, line + strlen("remove "), &failed);
        else if (g_str_has_prefix(line, "set "))
            do_set(world, line + strlen("set "), &lines, &failed);
        else
            fail_text(&failed, world->pending, line);
    }
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    return !generation || (replace(world, world->generation, generation, error) && remove_file(world->pending, error));
}

/* --- ports --- */

static char *
table_path(const WeftFakeWorld *world, guint64 port_guid)
{
    return g_strdup_printf("%s/0x%016" G_GINT64_MODIFIER "x", world->tables, port_guid);
}

static gboolean
is_silent(const char *text)
{
    return text && g_str_has_prefix(text, "silent");
}

/* A port that was told a lie is told the truth again by the next change of a partition that it is in. */
static gboolean
write_ports(WeftFakeWorld *world, const WeftPartition *partition, GError **error)
{
    for (guint i = 0; i < partition->members->len; i++) {
        guint64 guid = g_array_index(partition->members, WeftMember, i).port_guid;
        g_autofree char *path = table_path(world, guid);
        g_autofree char *text = read_optional(path, NULL);
        if (is_silent(text))
            return weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "port 0x%016" G_GINT64_MODIFIER "x does not answer", guid);
        if (text && !remove_file(path, error))
            return FALSE;
    }
    return TRUE;
}

static void
add_key(WeftPortTable *table, const WeftFakeSeat *seat)
{
    guint16 keys[] = { (guint16)(seat->pkey | 0x8000), (guint16)seat->pkey };
    if (seat->member->membership == WEFT_MEMBER_LIMITED)
        keys[0] = keys[1];
    if (seat->member->index == 0 && !seat->member->virtual_guid)
        g_array_prepend_val(table->pkeys, keys[0]);
    else
        g_array_append_val(table->pkeys, keys[0]);
    if (seat->member->membership == WEFT_MEMBER_BOTH)
        g_array_append_val(table->pkeys, keys[1]);
}

static void
derive_table(WeftPortTable *table, const WeftFakePorts *ports)
{
    guint16 limited = 0x7fff;
    g_array_append_val(table->pkeys, limited);
    const GArray *seats = weft_fake_ports_seats(ports, table->port_guid);
    for (guint i = 0; seats && i < seats->len; i++)
        add_key(table, &g_array_index(seats, WeftFakeSeat, i));
}

static gboolean
parse_table(WeftPortTable *table, const char *path, char *text, GError **error)
{
    g_auto(GStrv) words = g_strsplit_set(g_strstrip(text), " \n", -1);
    for (guint i = 0; words[i]; i++) {
        guint64 value;
        if (!parse_hex(words[i], G_MAXUINT16, &value))
            return fail_text(error, path, words[i]);
        guint16 pkey = (guint16)value;
        g_array_append_val(table->pkeys, pkey);
    }
    return TRUE;
}

static gboolean
read_table(WeftFakeWorld *world, WeftPortTable *table, GError **error)
{
    g_autofree char *path = table_path(world, table->port_guid);
    g_autofree char *text = read_optional(path, NULL);
    if (is_silent(text)) {
        table->error = g_strdup("does not answer");
        return TRUE;
    }
    if (!text)
        derive_table(table, world->ports);
    else if (!parse_table(table, path, text, error))
        return FALSE;
    table->enforced = g_array_copy(table->pkeys);
    return TRUE;
}

/* --- the manager and its map --- */

WeftFabricMap *
weft_fake_world_map(WeftFakeWorld *world, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autofree char *text = read_optional(world->map, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return NULL;
    }
    if (!text)
        return weft_fabric_map_new();
    if (*text != '{')
        return weft_fabric_map_from_ibnetdiscover(text, error);
    json_error_t why;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!json)
        fail_text(error, world->map, why.text);
    WeftFabricMap *map = json ? weft_fabric_map_from_json(json, error) : NULL;
    json_decref(json);
    return map;
}

WeftManager *
weft_fake_world_greet(WeftFakeWorld *world, GError **error)
{
    WeftManager manager = { .master = TRUE, .virtualization = TRUE, .qos = TRUE, .enforces = TRUE, .keeps_indices = TRUE };
    const char *routing = "minhop";
    g_autofree char *text = read_optional(world->manager, error);
    json_t *json = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : json_object();
    gboolean ok = json_unpack(json, "{s?b s?b s?b s?b s?b s?b s?s !}", "master", &manager.master, "sweeping", &manager.sweeping,
                              "virtualization", &manager.virtualization, "qos", &manager.qos, "enforces", &manager.enforces,
                              "keeps_indices", &manager.keeps_indices, "routing", &routing) == 0;
    manager.routing = g_strdup(routing);
    json_decref(json);
    if (!ok) {
        fail_text(error, world->manager, text);
        g_free(manager.routing);
        return NULL;
    }
    manager.way = g_strdup("fake");
    manager.version = g_strdup("fake " WEFT_VERSION);
    manager.where = g_path_get_dirname(world->manager);
    return g_memdup2(&manager, sizeof manager);
}

/* --- the operations --- */

gboolean
weft_fake_world_generation(WeftFakeWorld *world, guint64 *ret_generation, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autofree char *text = read_optional(world->generation, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (text && !g_ascii_string_to_unsigned(g_strchomp(text), 10, 0, G_MAXUINT64, ret_generation, NULL))
        return fail_text(error, world->generation, text);
    if (!text)
        *ret_generation = 0;
    return TRUE;
}

static gboolean
check_name(WeftFakeWorld *world, guint pkey, const char *name, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autoptr(WeftPartition) there = read_partition(world, pkey, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (!there || g_str_equal(there->name, name))
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "P_Key 0x%04x is that of another partition, \"%s\", and is left alone",
                             pkey, there->name);
}

static gboolean
check_change(WeftFakeWorld *world, const WeftFabricChange *change, GError **error)
{
    guint64 last;
    if (!weft_fake_world_generation(world, &last, error))
        return FALSE;
    if (change->generation < last) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                    "generation %" G_GUINT64_FORMAT " is older than %" G_GUINT64_FORMAT ", which the fabric has already",
                    change->generation, last);
        return FALSE;
    }
    for (guint i = 0; i < change->set->len; i++) {
        const WeftPartition *partition = change->set->pdata[i];
        if (!check_name(world, partition->pkey, partition->name, error))
            return FALSE;
    }
    for (guint i = 0; i < change->removed->len; i++) {
        const WeftPartitionRemoval *removal = &g_array_index(change->removed, WeftPartitionRemoval, i);
        if (!check_name(world, removal->pkey, removal->name, error))
            return FALSE;
    }
    return TRUE;
}

gboolean
weft_fake_world_apply(WeftFakeWorld *world, const WeftFabricChange *change, GError **error)
{
    if (!complete(world, error) || !check_change(world, change, error))
        return FALSE;
    g_autofree char *text = format_pending(change);
    if (!replace(world, world->pending, text, error) || !complete(world, error))
        return FALSE;
    for (guint i = 0; i < change->set->len; i++)
        if (!write_ports(world, change->set->pdata[i], error))
            return FALSE;
    return TRUE;
}

static int
compare_partitions(gconstpointer a, gconstpointer b)
{
    guint x = (*(WeftPartition *const *)a)->pkey, y = (*(WeftPartition *const *)b)->pkey;
    return x < y ? -1 : x > y;
}

GPtrArray *
weft_fake_world_list(WeftFakeWorld *world, GError **error)
{
    if (!complete(world, error))
        return NULL;
    g_autoptr(GPtrArray) partitions = g_ptr_array_new_with_free_func((GDestroyNotify)weft_partition_free);
    g_autoptr(GDir) folder = g_dir_open(world->partitions, 0, error);
    if (!folder)
        return NULL;
    for (const char *name; (name = g_dir_read_name(folder));) {
        guint64 pkey;
        if (!parse_hex(name, G_MAXUINT16, &pkey))
            continue;
        g_autoptr(GError) failed = NULL;
        WeftPartition *partition = read_partition(world, (guint)pkey, &failed);
        if (failed) {
            g_propagate_error(error, g_steal_pointer(&failed));
            return NULL;
        }
        if (partition)
            g_ptr_array_add(partitions, partition);
    }
    g_ptr_array_sort(partitions, compare_partitions);
    return g_steal_pointer(&partitions);
}

/* --- ports by what the folder of partitions tells of its changes, ours and others' --- */

static void
forget_ports(WeftFakeWorld *world)
{
    g_clear_pointer(&world->ports, weft_fake_ports_free);
    if (world->watch >= 0)
        close(world->watch);
    world->watch = -1;
}

/* Watched before it is read: what changes meanwhile is read again. */
static gboolean
read_ports(WeftFakeWorld *world, GError **error)
{
    world->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (world->watch < 0 || inotify_add_watch(world->watch, world->partitions, IN_CREATE | IN_MODIFY | IN_MOVE | IN_DELETE) < 0)
        return fail_errno(error, "watching", world->partitions);
    g_autoptr(GPtrArray) partitions = weft_fake_world_list(world, error);
    if (!partitions)
        return FALSE;
    g_ptr_array_set_free_func(partitions, NULL);
    world->ports = weft_fake_ports_new();
    for (guint i = 0; i < partitions->len; i++)
        weft_fake_ports_set(world->ports, partitions->pdata[i]);
    return TRUE;
}

static gboolean
read_again(WeftFakeWorld *world, const char *name, GError **error)
{
    guint64 pkey;
    if (!parse_hex(name, G_MAXUINT16, &pkey))
        return TRUE;
    g_autoptr(GError) failed = NULL;
    WeftPartition *partition = read_partition(world, (guint)pkey, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (partition)
        weft_fake_ports_set(world->ports, partition);
    else
        weft_fake_ports_remove(world->ports, (guint)pkey);
    return TRUE;
}

/* An event without a name tells that some were lost, or that the folder is another one. */
static gboolean
follow(WeftFakeWorld *world, GError **error)
{
    _Alignas(struct inotify_event) char buffer[16384];
    const struct inotify_event *event;
    for (ssize_t n; (n = read(world->watch, buffer, sizeof buffer)) > 0;)
        for (char *at = buffer; at < buffer + n; at += sizeof *event + event->len) {
            event = (const struct inotify_event *)at;
            if (event->len == 0) {
                forget_ports(world);
                return read_ports(world, error);
            }
            if (!read_again(world, event->name, error))
                return FALSE;
        }
    return TRUE;
}

GPtrArray *
weft_fake_world_verify(WeftFakeWorld *world, const GArray *port_guids, GError **error)
{
    if (!complete(world, error))
        return NULL;
    if (!(world->ports ? follow(world, error) : read_ports(world, error))) {
        forget_ports(world);
        return NULL;
    }
    g_autoptr(GPtrArray) tables = g_ptr_array_new_with_free_func((GDestroyNotify)weft_port_table_free);
    for (guint i = 0; i < port_guids->len; i++) {
        g_ptr_array_add(tables, weft_port_table_new(g_array_index(port_guids, guint64, i)));
        if (!read_table(world, tables->pdata[i], error))
            return NULL;
    }
    return g_steal_pointer(&tables);
}

gboolean
weft_fake_world_open(WeftFakeWorld *world, const char *folder, GError **error)
{
    *world = (WeftFakeWorld){
        .fresh = g_build_filename(folder, "fresh", NULL),
        .pending = g_build_filename(folder, "pending", NULL),
        .generation = g_build_filename(folder, "generation", NULL),
        .partitions = g_build_filename(folder, "partitions", NULL),
        .faults = g_build_filename(folder, "faults", NULL),
        .tables = g_build_filename(folder, "tables", NULL),
        .map = g_build_filename(folder, "map", NULL),
        .manager = g_build_filename(folder, "manager", NULL),
        .watch = -1,
    };
    if (g_mkdir_with_parents(world->partitions, 0755) < 0)
        return fail_errno(error, "making", world->partitions);
    return complete(world, error);
}

void
weft_fake_world_clear(WeftFakeWorld *world)
{
    forget_ports(world);
    g_free(world->fresh);
    g_free(world->pending);
    g_free(world->generation);
    g_free(world->partitions);
    g_free(world->faults);
    g_free(world->tables);
    g_free(world->map);
    g_free(world->manager);
}
