/* The words between weftd and opensm's plugin. */
#include "errors.h"
#include "wire.h"

/* --- frames --- */

static void
append_frame(GByteArray *bytes, const char *text)
{
    guint32 length = GUINT32_TO_BE((guint32)strlen(text));
    g_byte_array_append(bytes, (const guint8 *)&length, sizeof length);
    g_byte_array_append(bytes, (const guint8 *)text, (guint)strlen(text));
}

static GByteArray *
frame(const char *text)
{
    GByteArray *bytes = g_byte_array_new();
    append_frame(bytes, text);
    return bytes;
}

static void
test_frames_in_any_pieces(void)
{
    g_autoptr(GByteArray) bytes = frame("{\"id\":1}");
    append_frame(bytes, "{\"id\":2}");
    append_frame(bytes, "{\"id\":3}");
    for (gsize piece = 1; piece <= bytes->len; piece++) {
        g_autoptr(WeftWireReader) reader = weft_wire_reader_new(100);
        g_autoptr(GError) error = NULL;
        for (gsize at = 0; at < bytes->len; at += piece)
            g_assert_true(weft_wire_reader_feed(reader, bytes->data + at, MIN(piece, bytes->len - at), &error));
        for (int i = 1; i <= 3; i++) {
            json_t *object = weft_wire_reader_next(reader);
            g_assert_cmpint(json_integer_value(json_object_get(object, "id")), ==, i);
            json_decref(object);
        }
        g_assert_null(weft_wire_reader_next(reader));
        g_assert_false(weft_wire_reader_is_inside(reader));
    }
}

static void
test_frame_inside(void)
{
    g_autoptr(WeftWireReader) reader = weft_wire_reader_new(100);
    g_autoptr(GByteArray) bytes = frame("{}");
    g_assert_true(weft_wire_reader_feed(reader, bytes->data, bytes->len - 1, NULL));
    g_assert_true(weft_wire_reader_is_inside(reader));
    g_assert_null(weft_wire_reader_next(reader));
    g_assert_true(weft_wire_reader_feed(reader, bytes->data + bytes->len - 1, 1, NULL));
    g_assert_false(weft_wire_reader_is_inside(reader));
    json_decref(weft_wire_reader_next(reader));
}

static void
check_broken(GByteArray *bytes, const char *says)
{
    g_autoptr(WeftWireReader) reader = weft_wire_reader_new(100);
    g_autoptr(GError) error = NULL;
    g_assert_false(weft_wire_reader_feed(reader, bytes->data, bytes->len, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, says));
    g_assert_null(weft_wire_reader_next(reader));
    /* It stays broken: nobody can tell where the next frame begins. */
    g_autoptr(GByteArray) good = frame("{}");
    g_assert_false(weft_wire_reader_feed(reader, good->data, good->len, NULL));
    g_byte_array_unref(bytes);
}

static void
test_frames_broken(void)
{
    static const guint8 long_one[] = { 0, 0, 0, 101 }, empty[] = { 0, 0, 0, 0 };
    check_broken(g_byte_array_append(g_byte_array_new(), long_one, 4), "101 bytes");
    check_broken(g_byte_array_append(g_byte_array_new(), empty, 4), "0 bytes");
    check_broken(frame("GET / HTTP/1.1"), "no JSON");
    check_broken(frame("[]"), "not a list");
    check_broken(frame("{\"a\":1,\"a\":2}"), "no JSON");
    check_broken(frame("{\"a\":[[],[],[],[],[],[],[],[],[]]}"), "objects and lists");
}

static void
test_frame_written_is_read(void)
{
    json_t *object = json_pack("{ss}", "text", "ö\n\"");
    g_autoptr(GBytes) written = weft_wire_frame(object);
    g_autoptr(WeftWireReader) reader = weft_wire_reader_new(100);
    gsize size;
    const guint8 *bytes = g_bytes_get_data(written, &size);
    g_assert_true(weft_wire_reader_feed(reader, bytes, size, NULL));
    json_t *read = weft_wire_reader_next(reader);
    g_assert_true(json_equal(object, read));
    json_decref(read);
    json_decref(object);
}

/* --- what is in them --- */

static WeftPartition *
make_partition(void)
{
    WeftPartition *partition = weft_partition_new(0x7ffe, "weft-0abcdefghijk");
    partition->ipoib = TRUE;
    partition->sl = 15;
    partition->rate = 12;
    partition->mtu = 5;
    const WeftMember members[] = {
        { .port_guid = 0x0002c903000e0001, .membership = WEFT_MEMBER_FULL, .index = 0 },
        { .port_guid = G_MAXUINT64, .virtual_guid = 7, .membership = WEFT_MEMBER_LIMITED, .index = -1 },
        { .port_guid = 1, .membership = WEFT_MEMBER_BOTH, .index = -1 },
    };
    for (guint i = 0; i < G_N_ELEMENTS(members); i++)
        weft_partition_add(partition, &members[i]);
    return partition;
}

static void
test_change_there_and_back(void)
{
    g_autoptr(WeftFabricChange) change = weft_fabric_change_new(G_MAXINT64);
    g_ptr_array_add(change->set, make_partition());
    weft_fabric_change_remove(change, 0x0102, "weft-gone");
    json_t *json = weft_wire_change_to_json(change);
    json_object_set_new(json, "id", json_integer(7));
    json_object_set_new(json, "do", json_string("apply"));
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftFabricChange) read = weft_wire_change_from_json(json, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(read->generation, ==, G_MAXINT64);
    g_assert_cmpuint(read->set->len, ==, 1);
    g_assert_true(weft_partition_equal(read->set->pdata[0], change->set->pdata[0]));
    g_assert_cmpuint(read->removed->len, ==, 1);
    const WeftPartitionRemoval *gone = &g_array_index(read->removed, WeftPartitionRemoval, 0);
    g_assert_cmphex(gone->pkey, ==, 0x0102);
    g_assert_cmpstr(gone->name, ==, "weft-gone");
    json_decref(json);
}

static void
test_changes_refused(void)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "{}", "generation: is missing" },
        { "{\"generation\":-1}", "generation" },
        { "{\"generation\":1,\"sets\":[]}", "sets: no such field" },
        { "{\"generation\":1,\"set\":[{\"pkey\":\"0x7fff\",\"name\":\"a\"}]}", "set[0].pkey: must be 0x0001 to 0x7ffe" },
        { "{\"generation\":1,\"set\":[{\"pkey\":\"0x0000\",\"name\":\"a\"}]}", "set[0].pkey" },
        { "{\"generation\":1,\"set\":[{\"pkey\":\"0x1\",\"name\":\"a b\"}]}", "set[0].name" },
        { "{\"generation\":1,\"set\":[{\"pkey\":\"0x1\",\"name\":\"a;\"}]}", "set[0].name" },
        { "{\"generation\":1,\"set\":[{\"pkey\":\"0x1\",\"name\":\"a12345678901234567890123456789012\"}]}", "1 to 31" },
        { "{\"generation\":1,\"set\":[{\"pkey\":\"0x1\",\"name\":\"a\",\"sl\":16}]}", "set[0].sl" },
        { "{\"generation\":1,\"set\":[{\"pkey\":\"0x1\",\"name\":\"a\",\"members\":[{\"guid\":\"0x0\",\"membership\":\"full\"}]"
          "}]}",
          "set[0].members[0].guid" },
        { "{\"generation\":1,\"set\":[{\"pkey\":\"0x1\",\"name\":\"a\",\"members\":[{\"guid\":\"0x1\",\"membership\":\"owner\"}"
          "]}]}",
          "set[0].members[0].membership" },
        { "{\"generation\":1,\"set\":[{\"pkey\":\"0x1\",\"name\":\"a\"},{\"pkey\":\"0x1\",\"name\":\"b\"}]}",
          "0x0001 is there twice" },
        { "{\"generation\":1,\"set\":[{\"pkey\":\"0x1\",\"name\":\"a\"}],\"removed\":[{\"pkey\":\"0x1\"}]}",
          "0x0001 is in set as well" },
        { "{\"generation\":1,\"removed\":[1]}", "removed[0]" },
        { "{\"generation\":1,\"removed\":[{\"pkey\":\"0x7fff\"}]}", "removed[0].pkey" },
        { "{\"generation\":1,\"removed\":[{\"pkey\":\"0x1\",\"name\":\"a;b\"}]}", "removed[0].name" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        json_t *json = json_loads(cases[i].text, 0, NULL);
        g_autoptr(GError) error = NULL;
        g_assert_null(weft_wire_change_from_json(json, &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
        if (!strstr(error->message, cases[i].says))
            g_error("\"%s\" does not say \"%s\"", error->message, cases[i].says);
        json_decref(json);
    }
}

static void
test_manager_there_and_back(void)
{
    const WeftManager manager = { .way = (char *)"plugin", .version = (char *)"OpenSM 3.3.23", .master = TRUE, .qos = TRUE };
    json_t *json = weft_wire_manager_to_json(&manager);
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftManager) read = weft_wire_manager_from_json(json, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(read->version, ==, manager.version);
    g_assert_true(read->master && read->qos && !read->sweeping && !read->virtualization);
    g_assert_null(read->routing);
    json_decref(json);
}

static void
test_table_there_and_back(void)
{
    g_autoptr(WeftPortTable) table = weft_port_table_new(0x1234);
    const guint16 keys[] = { 0xffff, 0, 0x8001 };
    g_array_append_vals(table->pkeys, keys, 3);
    for (int enforced = 0; enforced < 2; enforced++) {
        if (enforced) {
            table->enforced = g_array_new(FALSE, FALSE, sizeof(guint16));
            table->error = g_strdup("does not answer");
        }
        json_t *json = weft_wire_table_to_json(table);
        g_autoptr(GError) error = NULL;
        g_autoptr(WeftPortTable) read = weft_wire_table_from_json(json, "tables[0]", &error);
        g_assert_no_error(error);
        g_assert_cmphex(read->port_guid, ==, 0x1234);
        g_assert_cmpmem(read->pkeys->data, read->pkeys->len * 2, keys, sizeof keys);
        g_assert_true((read->enforced != NULL) == enforced);
        g_assert_cmpstr(read->error, ==, table->error);
        json_decref(json);
    }
}

static void
test_table_refused(void)
{
    json_t *json = json_pack("{ss s[i]}", "guid", "0x1", "pkeys", 65536);
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_wire_table_from_json(json, "tables[3]", &error));
    g_assert_nonnull(strstr(error->message, "tables[3].pkeys: entry 0"));
    json_decref(json);
}

static void
test_errors_there_and_back(void)
{
    g_autoptr(GError) sent = g_error_new(WEFT_ERROR, WEFT_ERROR_EXHAUSTED, "port 0x1 is full");
    json_t *answer = json_pack("{si so}", "id", 1, "error", weft_wire_error_to_json(sent));
    g_autoptr(GError) error = NULL;
    g_assert_false(weft_wire_check_answer(answer, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED);
    g_assert_cmpstr(error->message, ==, sent->message);
    json_object_del(answer, "error");
    g_assert_true(weft_wire_check_answer(answer, NULL));
    /* Other kinds are not spoken of. */
    sent->code = WEFT_ERROR_FAILED;
    json_object_set_new(answer, "error", weft_wire_error_to_json(sent));
    g_clear_error(&error);
    g_assert_false(weft_wire_check_answer(answer, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    /* Whatever it is, it is a failure with a text. */
    json_object_set_new(answer, "error", json_integer(3));
    g_clear_error(&error);
    g_assert_false(weft_wire_check_answer(answer, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_FAILED);
    json_decref(answer);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/wire/frames/any-pieces", test_frames_in_any_pieces);
    g_test_add_func("/wire/frames/inside", test_frame_inside);
    g_test_add_func("/wire/frames/broken", test_frames_broken);
    g_test_add_func("/wire/frames/written", test_frame_written_is_read);
    g_test_add_func("/wire/change/there-and-back", test_change_there_and_back);
    g_test_add_func("/wire/change/refused", test_changes_refused);
    g_test_add_func("/wire/manager", test_manager_there_and_back);
    g_test_add_func("/wire/table/there-and-back", test_table_there_and_back);
    g_test_add_func("/wire/table/refused", test_table_refused);
    g_test_add_func("/wire/errors", test_errors_there_and_back);
    return g_test_run();
}
