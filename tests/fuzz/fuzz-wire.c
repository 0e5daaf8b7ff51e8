/* What comes on the plugin's socket, and what weftd gets from it. The input is a byte that says in which pieces the rest comes.
 * Frames do not depend on the pieces; what is accepted as a change, manager or table is written as the same again. */
#include "fuzz.h"

#include "wire.h"

#define FRAME_MAX 65536

/* Objects one after the other, and whether the reader gave up. */
static json_t *
read_in_pieces(const uint8_t *data, size_t size, size_t piece)
{
    json_t *objects = json_array();
    gboolean ok = TRUE;
    g_autoptr(WeftWireReader) reader = weft_wire_reader_new(FRAME_MAX);
    for (size_t at = 0; at < size && ok; at += piece) {
        /* A copy of the exact size, so that a sanitizer sees a read past its end. */
        size_t count = MIN(piece, size - at);
        g_autofree uint8_t *copy = g_memdup2(data + at, count);
        GError *error = NULL;
        ok = weft_wire_reader_feed(reader, copy, count, &error);
        if (!ok)
            fuzz_check_refusal(error);
        for (json_t *object; (object = weft_wire_reader_next(reader));)
            json_array_append_new(objects, object);
    }
    json_array_append_new(objects, json_boolean(ok));
    return objects;
}

static void
check_change(json_t *object)
{
    GError *error = NULL;
    g_autoptr(WeftFabricChange) change = weft_wire_change_from_json(object, &error);
    if (!change) {
        fuzz_check_refusal(error);
        return;
    }
    json_t *written = weft_wire_change_to_json(change);
    g_autoptr(WeftFabricChange) read = weft_wire_change_from_json(written, NULL);
    fuzz_promise(read && read->generation == change->generation && read->set->len == change->set->len &&
                 read->removed->len == change->removed->len);
    for (guint i = 0; i < read->set->len; i++)
        fuzz_promise(weft_partition_equal(read->set->pdata[i], change->set->pdata[i]));
    json_decref(written);
}

static void
check_manager(json_t *object)
{
    GError *error = NULL;
    g_autoptr(WeftManager) manager = weft_wire_manager_from_json(object, &error);
    if (!manager) {
        fuzz_check_refusal(error);
        return;
    }
    json_t *written = weft_wire_manager_to_json(manager);
    g_autoptr(WeftManager) read = weft_wire_manager_from_json(written, NULL);
    fuzz_promise(read && g_strcmp0(read->version, manager->version) == 0 && read->master == manager->master);
    json_decref(written);
}

static void
check_table(json_t *object)
{
    GError *error = NULL;
    g_autoptr(WeftPortTable) table = weft_wire_table_from_json(object, "tables[0]", &error);
    if (!table) {
        fuzz_check_refusal(error);
        return;
    }
    json_t *written = weft_wire_table_to_json(table);
    g_autoptr(WeftPortTable) read = weft_wire_table_from_json(written, "tables[0]", NULL);
    fuzz_promise(read && read->port_guid == table->port_guid && read->pkeys->len == table->pkeys->len);
    json_decref(written);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    json_t *whole = read_in_pieces(data + 1, size - 1, size - 1);
    json_t *pieces = read_in_pieces(data + 1, size - 1, (size_t)data[0] + 1);
    fuzz_promise(json_equal(whole, pieces));
    for (gsize i = 0; i < json_array_size(whole); i++) {
        json_t *object = json_array_get(whole, i);
        check_change(object);
        check_manager(object);
        check_table(object);
        GError *error = NULL;
        if (!weft_wire_check_answer(object, &error))
            fuzz_check_refusal(error);
    }
    json_decref(pieces);
    json_decref(whole);
    return 0;
}
