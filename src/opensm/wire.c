#include "wire.h"

#include "codec.h"
#include "errors.h"

#define HEADER 4
/* A value that holds others takes at least this many bytes on average, as we write them. Less is an attempt to make much of
 * little:
 * "[[],[],[]…" would become many times its size in memory. */
#define CONTAINER_BYTES 16

#define PARTITIONS_MAX 0x7fff
#define MEMBERS_MAX 65536
#define PKEYS_MAX 65536
#define PKEY_LAST 0x7ffe /* 0x7fff is the default partition: the site's */
#define NAME_MAX_IN_OPENSM 31
#define RATE_MAX 63
#define MTU_MAX 63

/* --- frames --- */

struct WeftWireReader {
    gsize frame_max;
    GByteArray *buffer;
    GQueue objects; /* json_t */
    gboolean broken;
};

WeftWireReader *
weft_wire_reader_new(gsize frame_max)
{
    WeftWireReader *reader = g_new0(WeftWireReader, 1);
    reader->frame_max = frame_max;
    reader->buffer = g_byte_array_new();
    return reader;
}

void
weft_wire_reader_free(WeftWireReader *reader)
{
    if (!reader)
        return;
    g_queue_clear_full(&reader->objects, (GDestroyNotify)json_decref);
    g_byte_array_unref(reader->buffer);
    g_free(reader);
}

static gsize
read_length(const guint8 *bytes)
{
    guint32 length;
    memcpy(&length, bytes, HEADER);
    return GUINT32_FROM_BE(length);
}

static json_t *
parse(const char *text, gsize length, GError **error)
{
    gsize containers = 0;
    for (gsize i = 0; i < length; i++)
        containers += text[i] == '{' || text[i] == '[';
    if (containers > 1 + length / CONTAINER_BYTES) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "a frame of %zu bytes holds %zu objects and lists: not one of ours",
                          length, containers);
        return NULL;
    }
    json_error_t why;
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    if (json_is_object(object))
        return object;
    if (object)
        weft_error_refuse(error, WEFT_ERROR_INVALID, "a frame must hold a JSON object, not a list");
    else
        weft_error_refuse(error, WEFT_ERROR_INVALID, "a frame holds no JSON: line %d, column %d", why.line, why.column);
    json_decref(object);
    return NULL;
}

/* The bytes of the first frame in the buffer with its header; 0: it is not whole yet. */
static gboolean
measure(const WeftWireReader *reader, gsize at, gsize *ret_bytes, GError **error)
{
    *ret_bytes = 0;
    gsize there = reader->buffer->len - at;
    if (there < HEADER)
        return TRUE;
    gsize length = read_length(reader->buffer->data + at);
    if (length == 0 || length > reader->frame_max)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "a frame of %zu bytes: must be 1 to %zu", length,
                                 reader->frame_max);
    if (there - HEADER >= length)
        *ret_bytes = HEADER + length;
    return TRUE;
}

static gboolean
take_frames(WeftWireReader *reader, GError **error)
{
    gsize at = 0, bytes;
    gboolean ok;
    while ((ok = measure(reader, at, &bytes, error)) && bytes > 0) {
        json_t *object = parse((const char *)reader->buffer->data + at + HEADER, bytes - HEADER, error);
        ok = object != NULL;
        if (!ok)
            break;
        g_queue_push_tail(&reader->objects, object);
        at += bytes;
    }
    if (at > 0)
        g_byte_array_remove_range(reader->buffer, 0, (guint)at);
    return ok;
}

gboolean
weft_wire_reader_feed(WeftWireReader *reader, const guint8 *bytes, gsize n, GError **error)
{
    if (reader->broken)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "what came before was no frame");
    /* The buffer grows with what comes, never by what a header promises. */
    g_byte_array_append(reader->buffer, bytes, (guint)n);
    reader->broken = !take_frames(reader, error);
    return !reader->broken;
}

json_t *
weft_wire_reader_next(WeftWireReader *reader)
{
    return g_queue_pop_head(&reader->objects);
}

gboolean
weft_wire_reader_is_inside(const WeftWireReader *reader)
{
    return reader->buffer->len > 0;
}

GBytes *
weft_wire_frame(const json_t *object)
{
    g_autofree char *text = json_dumps(object, JSON_COMPACT);
    gsize length = strlen(text);
    guint32 header = GUINT32_TO_BE((guint32)length);
    GByteArray *frame = g_byte_array_sized_new((guint)(HEADER + length));
    g_byte_array_append(frame, (const guint8 *)&header, HEADER);
    g_byte_array_append(frame, (const guint8 *)text, (guint)length);
    return g_byte_array_free_to_bytes(frame);
}

/* --- partitions --- */

static const WeftCodecField partition_fields[] = {
    WEFT_FIELD(WeftPartition, pkey, PKEY),
    WEFT_FIELD(WeftPartition, name, TEXT, .grammar = WEFT_GRAMMAR_TEXT, .what = "partition name"),
    WEFT_FIELD(WeftPartition, ipoib, BOOL),
    WEFT_FIELD(WeftPartition, sl, UINT, WEFT_OPTIONAL, .max = 15),
    WEFT_FIELD(WeftPartition, rate, UINT, WEFT_OPTIONAL, .max = RATE_MAX),
    WEFT_FIELD(WeftPartition, mtu, UINT, WEFT_OPTIONAL, .max = MTU_MAX),
    { 0 },
};

static const WeftCodecField member_fields[] = {
    WEFT_FIELD_AS("guid", WeftMember, port_guid, GUID),
    WEFT_FIELD_AS("virtual", WeftMember, virtual_guid, GUID, WEFT_OPTIONAL),
    WEFT_FIELD(WeftMember, membership, WORD, .words = weft_membership_words),
    { 0 },
};

static json_t *
member_to_json(const WeftMember *member)
{
    json_t *json = weft_codec_write(member_fields, member);
    if (member->index == 0)
        json_object_set_new(json, "index0", json_true());
    return json;
}

json_t *
weft_wire_partition_to_json(const WeftPartition *partition)
{
    json_t *json = weft_codec_write(partition_fields, partition);
    json_t *members = json_array();
    for (guint i = 0; i < partition->members->len; i++)
        json_array_append_new(members, member_to_json(&g_array_index(partition->members, WeftMember, i)));
    json_object_set_new(json, "members", members);
    return json;
}

static void
read_member(WeftFields *fields, guint index, gpointer owner)
{
    WeftPartition *partition = owner;
    WeftMember member = { 0 };
    weft_codec_read(fields, member_fields, &member);
    member.index = weft_fields_bool(fields, "index0", FALSE) ? 0 : -1;
    if (!fields->error && member.port_guid == 0)
        weft_fields_fail(fields, "guid", "must not be 0; give the GUID of the host's port");
    g_array_append_val(partition->members, member);
}

static WeftPartition *
read_partition(WeftFields *fields)
{
    WeftPartition *partition = weft_partition_new(0, NULL);
    weft_codec_read(fields, partition_fields, partition);
    weft_codec_read_items(fields, "members", MEMBERS_MAX, read_member, partition);
    return partition;
}

WeftPartition *
weft_wire_partition_from_json(json_t *json, const char *where, GError **error)
{
    WeftFields fields;
    weft_fields_begin(&fields, json, "%s", where);
    g_autoptr(WeftPartition) partition = read_partition(&fields);
    return weft_fields_end(&fields, error) ? g_steal_pointer(&partition) : NULL;
}

/* --- changes --- */

static json_t *
pkey_to_json(guint pkey)
{
    return json_sprintf("0x%04x", pkey);
}

static json_t *
removal_to_json(const WeftPartitionRemoval *removal)
{
    return json_pack("{so ss}", "pkey", pkey_to_json(removal->pkey), "name", removal->name);
}

json_t *
weft_wire_change_to_json(const WeftFabricChange *change)
{
    json_t *set = json_array();
    json_t *removed = json_array();
    for (guint i = 0; i < change->set->len; i++)
        json_array_append_new(set, weft_wire_partition_to_json(change->set->pdata[i]));
    for (guint i = 0; i < change->removed->len; i++)
        json_array_append_new(removed, removal_to_json(&g_array_index(change->removed, WeftPartitionRemoval, i)));
    return json_pack("{sI so so}", "generation", (json_int_t)change->generation, "set", set, "removed", removed);
}

static void
check_pkey(WeftFields *fields, guint pkey)
{
    if (pkey < 1 || pkey > PKEY_LAST)
        weft_fields_fail(fields, "pkey", "must be 0x0001 to 0x%04x, is 0x%04x", PKEY_LAST, pkey);
}

/* It goes into a file of opensm's, and into 32 bytes of its memory. */
static void
check_name(WeftFields *fields, const char *name)
{
    gsize length = strspn(name, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "._-");
    if (length == 0 || name[length] || length > NAME_MAX_IN_OPENSM)
        weft_fields_fail(fields, "name", "must be 1 to %d letters, digits, '.', '_' and '-'", NAME_MAX_IN_OPENSM);
}

static void
read_set(WeftFields *fields, guint index, gpointer owner)
{
    WeftFabricChange *change = owner;
    WeftPartition *partition = read_partition(fields);
    g_ptr_array_add(change->set, partition);
    if (fields->error)
        return;
    check_pkey(fields, partition->pkey);
    check_name(fields, partition->name);
}

static void
read_removal(WeftFields *fields, guint index, gpointer owner)
{
    guint pkey = (guint)weft_fields_hex(fields, "pkey", PKEY_LAST, WEFT_REQUIRED);
    const char *name = weft_fields_string(fields, "name", NULL);
    if (fields->error)
        return;
    check_pkey(fields, pkey);
    if (name && *name)
        check_name(fields, name);
    weft_fabric_change_remove(owner, pkey, name ? name : "");
}

static void
check_twice(WeftFields *fields, const WeftFabricChange *change)
{
    g_autofree guint8 *seen = g_new0(guint8, PARTITIONS_MAX + 1);
    for (guint i = 0; i < change->set->len && !fields->error; i++) {
        const WeftPartition *partition = change->set->pdata[i];
        if (seen[partition->pkey]++)
            weft_fields_fail(fields, "set", "0x%04x is there twice", partition->pkey);
    }
    for (guint i = 0; i < change->removed->len && !fields->error; i++)
        if (seen[g_array_index(change->removed, WeftPartitionRemoval, i).pkey])
            weft_fields_fail(fields, "removed", "0x%04x is in set as well",
                             g_array_index(change->removed, WeftPartitionRemoval, i).pkey);
}

WeftFabricChange *
weft_wire_change_from_json(json_t *json, GError **error)
{
    g_autoptr(WeftFabricChange) change = weft_fabric_change_new(0);
    WeftFields fields;
    weft_fields_begin(&fields, json, "%s", "");
    /* The envelope may still be around it. */
    weft_fields_has(&fields, "id");
    weft_fields_has(&fields, "do");
    change->generation = weft_fields_uint(&fields, "generation", 0, G_MAXINT64, WEFT_REQUIRED);
    weft_codec_read_items(&fields, "set", PARTITIONS_MAX, read_set, change);
    weft_codec_read_items(&fields, "removed", PARTITIONS_MAX, read_removal, change);
    check_twice(&fields, change);
    return weft_fields_end(&fields, error) ? g_steal_pointer(&change) : NULL;
}

/* --- the manager --- */

static const WeftCodecField manager_fields[] = {
    WEFT_FIELD(WeftManager, way, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftManager, version, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftManager, where, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftManager, master, BOOL),
    WEFT_FIELD(WeftManager, sweeping, BOOL),
    WEFT_FIELD(WeftManager, virtualization, BOOL),
    WEFT_FIELD(WeftManager, qos, BOOL),
    WEFT_FIELD(WeftManager, enforces, BOOL),
    WEFT_FIELD(WeftManager, keeps_indices, BOOL),
    WEFT_FIELD(WeftManager, routing, TEXT, WEFT_OPTIONAL),
    { 0 },
};

json_t *
weft_wire_manager_to_json(const WeftManager *manager)
{
    return weft_codec_write(manager_fields, manager);
}

WeftManager *
weft_wire_manager_from_json(json_t *json, GError **error)
{
    return weft_codec_decode(manager_fields, sizeof(WeftManager), json, "manager", error);
}

/* --- tables --- */

static json_t *
pkeys_to_json(const GArray *pkeys)
{
    json_t *json = json_array();
    for (guint i = 0; i < pkeys->len; i++)
        json_array_append_new(json, json_integer(g_array_index(pkeys, guint16, i)));
    return json;
}

json_t *
weft_wire_table_to_json(const WeftPortTable *table)
{
    json_t *json = json_pack("{so so}", "guid", weft_guid_write(table->port_guid), "pkeys", pkeys_to_json(table->pkeys));
    if (table->enforced)
        json_object_set_new(json, "enforced", pkeys_to_json(table->enforced));
    if (table->error)
        json_object_set_new(json, "error", json_string(table->error));
    return json;
}

static void
read_pkeys(WeftFields *fields, const char *name, GArray *pkeys)
{
    json_t *array = weft_fields_array(fields, name, PKEYS_MAX);
    for (gsize i = 0; i < json_array_size(array); i++) {
        json_t *value = json_array_get(array, i);
        json_int_t number = json_integer_value(value);
        if (!json_is_integer(value) || number < 0 || number > G_MAXUINT16) {
            weft_fields_fail(fields, name, "entry %zu must be a number from 0 to 65535", i);
            return;
        }
        guint16 pkey = (guint16)number;
        g_array_append_val(pkeys, pkey);
    }
}

WeftPortTable *
weft_wire_table_from_json(json_t *json, const char *where, GError **error)
{
    WeftFields fields;
    weft_fields_begin(&fields, json, "%s", where);
    g_autoptr(WeftPortTable) table = weft_port_table_new(weft_fields_hex(&fields, "guid", G_MAXUINT64, WEFT_REQUIRED));
    read_pkeys(&fields, "pkeys", table->pkeys);
    if (weft_fields_has(&fields, "enforced")) {
        table->enforced = g_array_new(FALSE, FALSE, sizeof(guint16));
        read_pkeys(&fields, "enforced", table->enforced);
    }
    table->error = g_strdup(weft_fields_string(&fields, "error", NULL));
    return weft_fields_end(&fields, error) ? g_steal_pointer(&table) : NULL;
}

/* --- failures --- */

/* A file that cannot be written and the like are none of the asker's doing, and may be over later. */
static WeftErrorCode
find_kind(const GError *error)
{
    static const WeftErrorCode kinds[] = { WEFT_ERROR_INVALID, WEFT_ERROR_CONFLICT, WEFT_ERROR_EXHAUSTED, WEFT_ERROR_TIMEOUT };
    WeftErrorCode code = weft_error_code(error);
    for (guint i = 0; i < G_N_ELEMENTS(kinds); i++)
        if (kinds[i] == code)
            return code;
    return WEFT_ERROR_UNAVAILABLE;
}

json_t *
weft_wire_error_to_json(const GError *error)
{
    g_autofree char *text = g_utf8_make_valid(error->message, -1);
    return json_pack("{ss ss}", "kind", weft_error_name(find_kind(error)), "text", text);
}

gboolean
weft_wire_check_answer(json_t *answer, GError **error)
{
    json_t *failure = json_object_get(answer, "error");
    if (!failure)
        return TRUE;
    const char *text = json_string_value(json_object_get(failure, "text"));
    WeftErrorCode code = weft_error_from_name(json_string_value(json_object_get(failure, "kind")));
    return weft_error_refuse(error, code, "%s", text ? text : "the subnet manager's plugin failed without a word");
}
