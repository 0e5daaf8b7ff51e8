#include "codec.h"

#include "bounds.h"
#include "errors.h"

static inline gpointer
at(gpointer object, const WeftCodecField *field)
{
    return (char *)object + field->offset;
}

static void
read_text(WeftFields *fields, const WeftCodecField *field, char **ret_text)
{
    const char *text = weft_fields_string(fields, field->name, field->optional ? field->text : WEFT_REQUIRED_TEXT);
    g_autoptr(GError) error = NULL;
    if (text && !fields->error && !weft_grammar_check(field->grammar, text, field->what, &error))
        weft_fields_fail(fields, field->name, "%s", error->message);
    *ret_text = g_strdup(text);
}

void
weft_codec_read(WeftFields *fields, const WeftCodecField *table, gpointer object)
{
    for (const WeftCodecField *f = table; f->name; f++) {
        guint64 fallback = f->optional ? f->fallback : WEFT_REQUIRED;
        gpointer to = at(object, f);
        switch (f->kind) {
        case WEFT_CODEC_TEXT:
            read_text(fields, f, to);
            break;
        case WEFT_CODEC_UINT:
            *(guint *)to = weft_fields_uint(fields, f->name, f->min, f->max ? f->max : G_MAXUINT, fallback);
            break;
        case WEFT_CODEC_INT:
            *(gint *)to = (gint)weft_fields_int(fields, f->name, (gint64)f->min, (gint64)f->max, 0);
            break;
        case WEFT_CODEC_UINT64:
            *(guint64 *)to = weft_fields_uint(fields, f->name, f->min, f->max ? f->max : G_MAXINT64, fallback);
            break;
        case WEFT_CODEC_SIZE:
            *(guint64 *)to = weft_fields_size(fields, f->name, f->min, f->max ? f->max : G_MAXINT64, fallback);
            break;
        case WEFT_CODEC_RATE:
            *(guint64 *)to = weft_fields_rate(fields, f->name, f->min, f->max ? f->max : G_MAXINT64, fallback);
            break;
        case WEFT_CODEC_SECONDS:
            *(guint64 *)to = weft_fields_seconds(fields, f->name, f->min, f->max ? f->max : G_MAXINT64, fallback);
            break;
        case WEFT_CODEC_BOOL:
            *(gboolean *)to = weft_fields_bool(fields, f->name, FALSE);
            break;
        case WEFT_CODEC_WORD:
            *(int *)to = weft_fields_word(fields, f->name, f->words, f->optional ? (int)f->fallback : -1);
            break;
        case WEFT_CODEC_PKEY:
            *(guint *)to = weft_fields_hex(fields, f->name, f->max ? f->max : 0xffff, fallback);
            break;
        case WEFT_CODEC_GUID:
            *(guint64 *)to = weft_fields_hex(fields, f->name, G_MAXUINT64, fallback);
            break;
        }
    }
}

json_t *
weft_guid_write(guint64 guid)
{
    return json_sprintf("0x%016" G_GINT64_MODIFIER "x", guid);
}

static guint64
number(const WeftCodecField *field, gconstpointer value)
{
    switch (field->kind) {
    case WEFT_CODEC_UINT64:
    case WEFT_CODEC_SIZE:
    case WEFT_CODEC_RATE:
    case WEFT_CODEC_SECONDS:
    case WEFT_CODEC_GUID:
        return *(const guint64 *)value;
    default:
        return *(const guint *)value;
    }
}

/* Reasons are told in words of hosts and drivers, which may be anything: a record is written all the same. */
static json_t *
write_text(const char *text)
{
    if (!text)
        return NULL;
    if (g_utf8_validate(text, -1, NULL))
        return json_string_nocheck(text);
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    return json_string_nocheck(valid);
}

static json_t *
write_field(const WeftCodecField *field, gconstpointer value)
{
    switch (field->kind) {
    case WEFT_CODEC_TEXT:
        return write_text(*(char *const *)value);
    case WEFT_CODEC_BOOL:
        return *(const gboolean *)value ? json_true() : NULL;
    case WEFT_CODEC_INT:
        return *(const gint *)value ? json_integer(*(const gint *)value) : NULL;
    case WEFT_CODEC_WORD:
        return json_string_nocheck(field->words[*(const int *)value]);
    default:
        break;
    }
    guint64 n = number(field, value);
    if (field->optional && field->fallback == 0 && n == 0)
        return NULL;
    if (field->kind == WEFT_CODEC_GUID)
        return weft_guid_write(n);
    return field->kind == WEFT_CODEC_PKEY ? json_sprintf("0x%04x", (guint)n) : json_integer((json_int_t)n);
}

json_t *
weft_codec_write(const WeftCodecField *table, gconstpointer object)
{
    json_t *json = json_object();
    for (const WeftCodecField *f = table; f->name; f++) {
        json_t *value = write_field(f, at((gpointer)object, f));
        if (value)
            json_object_set_new_nocheck(json, f->name, value);
    }
    return json;
}

void
weft_codec_own(const WeftCodecField *table, gpointer object)
{
    for (const WeftCodecField *f = table; f->name; f++)
        if (f->kind == WEFT_CODEC_TEXT)
            *(char **)at(object, f) = g_strdup(*(char **)at(object, f));
}

void
weft_codec_clear(const WeftCodecField *table, gpointer object)
{
    for (const WeftCodecField *f = table; f->name; f++)
        if (f->kind == WEFT_CODEC_TEXT)
            g_clear_pointer((char **)at(object, f), g_free);
}

gpointer
weft_codec_decode(const WeftCodecField *table, gsize size, json_t *json, const char *where, GError **error)
{
    gpointer object = g_malloc0(size);
    WeftFields fields;
    weft_fields_begin(&fields, json, "%s", where);
    weft_codec_read(&fields, table, object);
    if (weft_fields_end(&fields, error))
        return object;
    weft_codec_free(table, object);
    return NULL;
}

void
weft_codec_free(const WeftCodecField *table, gpointer object)
{
    if (!object)
        return;
    weft_codec_clear(table, object);
    g_free(object);
}

void
weft_codec_read_items(WeftFields *fields, const char *name, guint max, WeftCodecItem read, gpointer owner)
{
    json_t *array = weft_fields_array(fields, name, max);
    if (!array)
        return;
    g_autofree char *path = weft_fields_path(fields, name);
    json_t *item;
    gsize i;
    json_array_foreach (array, i, item) {
        WeftFields inner;
        weft_fields_begin(&inner, item, "%s[%zu]", path, i);
        read(&inner, (guint)i, owner);
        if (!weft_fields_end(&inner, &fields->error))
            return;
    }
}

GHashTable *
weft_labels_new(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
}

static gboolean
check_label(const char *name, const json_t *value, GError **error)
{
    if (!weft_grammar_check(WEFT_GRAMMAR_LABEL, name, "label", error))
        return FALSE;
    if (!json_is_string(value)) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "the value of label \"%s\" must be a text", name);
        return FALSE;
    }
    g_autofree char *what = g_strdup_printf("the value of label \"%s\":", name);
    return weft_grammar_check(WEFT_GRAMMAR_LABEL_VALUE, json_string_value(value), what, error);
}

void
weft_labels_read(WeftFields *fields, GHashTable *labels)
{
    json_t *object = weft_fields_object(fields, "labels");
    if (!object)
        return;
    if (json_object_size(object) > WEFT_LABELS_MAX) {
        weft_fields_fail(fields, "labels", "%zu labels; at most %d are allowed", json_object_size(object), WEFT_LABELS_MAX);
        return;
    }
    const char *name;
    json_t *value;
    json_object_foreach (object, name, value) {
        g_autoptr(GError) error = NULL;
        if (!check_label(name, value, &error)) {
            weft_fields_fail(fields, "labels", "%s", error->message);
            return;
        }
        g_hash_table_insert(labels, g_strdup(name), g_strdup(json_string_value(value)));
    }
}

json_t *
weft_labels_write(GHashTable *labels)
{
    g_autoptr(GList) names = g_list_sort(g_hash_table_get_keys(labels), (GCompareFunc)strcmp);
    json_t *object = json_object();
    for (GList *l = names; l; l = l->next)
        json_object_set_new_nocheck(object, l->data, json_string_nocheck(g_hash_table_lookup(labels, l->data)));
    return object;
}

gboolean
weft_labels_match(GHashTable *wanted, GHashTable *labels)
{
    GHashTableIter iter;
    gpointer name, value;
    g_hash_table_iter_init(&iter, wanted);
    while (g_hash_table_iter_next(&iter, &name, &value))
        if (g_strcmp0(g_hash_table_lookup(labels, name), value) != 0)
            return FALSE;
    return TRUE;
}

static gboolean
read_text_item(WeftFields *fields, const char *name, const json_t *item, WeftGrammar grammar, const char *what,
               GPtrArray *texts)
{
    g_autoptr(GError) error = NULL;
    if (!json_is_string(item)) {
        weft_fields_fail(fields, name, "must be a list of texts");
        return FALSE;
    }
    if (!weft_grammar_check(grammar, json_string_value(item), what, &error)) {
        weft_fields_fail(fields, name, "%s", error->message);
        return FALSE;
    }
    g_ptr_array_add(texts, g_strdup(json_string_value(item)));
    return TRUE;
}

void
weft_codec_read_texts(WeftFields *fields, const char *name, guint max, WeftGrammar grammar, const char *what, GPtrArray *texts)
{
    json_t *array = weft_fields_array(fields, name, max), *item;
    gsize i;
    json_array_foreach (array, i, item)
        if (!read_text_item(fields, name, item, grammar, what, texts))
            return;
}

json_t *
weft_codec_write_texts(const GPtrArray *texts)
{
    json_t *array = json_array();
    for (guint i = 0; i < texts->len; i++)
        json_array_append_new(array, json_string(g_ptr_array_index(texts, i)));
    return array;
}
