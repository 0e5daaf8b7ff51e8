#include "fields.h"

#include "clock.h"
#include "errors.h"
#include "size.h"
#include "text.h"

#include <math.h>

const char weft_required_text[] = "";

static const char *
type_word(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return "null";
    }
}

char *
weft_fields_path(const WeftFields *fields, const char *name)
{
    return g_strconcat(fields->where, *fields->where ? "." : "", name, NULL);
}

void
weft_fields_fail(WeftFields *fields, const char *name, const char *format, ...)
{
    if (fields->error)
        return;
    va_list args;
    va_start(args, format);
    g_autofree char *message = g_strdup_vprintf(format, args);
    va_end(args);
    g_autofree char *path = weft_fields_path(fields, name);
    fields->error = g_error_new(WEFT_ERROR, WEFT_ERROR_INVALID, "%s: %s", path, message);
}

void
weft_fields_begin(WeftFields *fields, json_t *object, const char *where_format, ...)
{
    va_list args;
    va_start(args, where_format);
    *fields = (WeftFields){ .object = object, .where = g_strdup_vprintf(where_format, args), .seen = g_ptr_array_new() };
    va_end(args);
    if (!json_is_object(object))
        fields->error = g_error_new(WEFT_ERROR, WEFT_ERROR_INVALID, "%s: must be an object, is %s",
                                    *fields->where ? fields->where : "the whole text", object ? type_word(object) : "missing");
}

static gboolean
was_asked_for(const WeftFields *fields, const char *name)
{
    for (guint i = 0; i < fields->seen->len; i++)
        if (strcmp(fields->seen->pdata[i], name) == 0)
            return TRUE;
    return FALSE;
}

static void
refuse_unknown(WeftFields *fields, const char *name)
{
    g_autofree char *clipped = weft_text_clip(name);
    const char *nearest = weft_text_nearest(name, (const char *const *)fields->seen->pdata, fields->seen->len);
    if (nearest) {
        weft_fields_fail(fields, clipped, "no such field; did you mean \"%s\"?", nearest);
        return;
    }
    g_ptr_array_add(fields->seen, NULL);
    g_autofree char *known = g_strjoinv(", ", (char **)fields->seen->pdata);
    weft_fields_fail(fields, clipped, "no such field; known are: %s", *known ? known : "none");
}

gboolean
weft_fields_end(WeftFields *fields, GError **error)
{
    const char *name;
    json_t *value;
    if (!fields->error) {
        json_object_foreach (fields->object, name, value) {
            if (!was_asked_for(fields, name)) {
                refuse_unknown(fields, name);
                break;
            }
        }
    }
    gboolean ok = !fields->error;
    if (!ok)
        g_propagate_error(error, g_steal_pointer(&fields->error));
    g_ptr_array_unref(fields->seen);
    g_free(fields->where);
    *fields = (WeftFields){ 0 };
    return ok;
}

/* The value of a field, NULL when it is absent, null, or when there was an error before. */
static json_t *
look_up(WeftFields *fields, const char *name, gboolean required)
{
    if (!was_asked_for(fields, name))
        g_ptr_array_add(fields->seen, (char *)name);
    if (fields->error)
        return NULL;
    json_t *value = json_object_get(fields->object, name);
    if (value && !json_is_null(value))
        return value;
    if (required)
        weft_fields_fail(fields, name, "is missing");
    return NULL;
}

static void
fail_type(WeftFields *fields, const char *name, const char *wanted, const json_t *value)
{
    weft_fields_fail(fields, name, "must be %s, is %s", wanted, type_word(value));
}

gboolean
weft_fields_has(WeftFields *fields, const char *name)
{
    look_up(fields, name, FALSE);
    return !fields->error && json_object_get(fields->object, name);
}

/* The text of a field; NULL when there is none or it is something else. */
static const char *
look_up_text(WeftFields *fields, const char *name, const char *wanted, gboolean required)
{
    json_t *value = look_up(fields, name, required);
    if (value && !json_is_string(value))
        fail_type(fields, name, wanted, value);
    return json_string_value(value);
}

const char *
weft_fields_string(WeftFields *fields, const char *name, const char *fallback)
{
    const char *text = look_up_text(fields, name, "a text", fallback == WEFT_REQUIRED_TEXT);
    return text ? text : fallback;
}

guint64
weft_fields_uint(WeftFields *fields, const char *name, guint64 min, guint64 max, guint64 fallback)
{
    /* After an error a required number is its least value, so that no caller counts to WEFT_REQUIRED. */
    guint64 otherwise = fallback == WEFT_REQUIRED ? min : fallback;
    json_t *value = look_up(fields, name, fallback == WEFT_REQUIRED);
    if (!value)
        return otherwise;
    if (!json_is_integer(value)) {
        fail_type(fields, name, "a whole number", value);
        return otherwise;
    }
    json_int_t number = json_integer_value(value);
    if (number >= 0 && (guint64)number >= min && (guint64)number <= max)
        return (guint64)number;
    weft_fields_fail(fields, name, "must be %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT ", is %" JSON_INTEGER_FORMAT, min, max,
                     number);
    return otherwise;
}

gint64
weft_fields_int(WeftFields *fields, const char *name, gint64 min, gint64 max, gint64 fallback)
{
    json_t *value = look_up(fields, name, FALSE);
    if (!value)
        return fallback;
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value))
        fail_type(fields, name, "a whole number", value);
    else if (number < min || number > max)
        weft_fields_fail(fields, name, "must be %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT ", is %" JSON_INTEGER_FORMAT, min,
                         max, number);
    return fields->error ? fallback : number;
}

/* In YAML what is no whole number is a text. */
static gboolean
read_real(const json_t *value, double *ret_number)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    *ret_number = text ? g_ascii_strtod(text, &end) : json_number_value(value);
    return text ? end != text && *end == '\0' && isfinite(*ret_number) : json_is_number(value);
}

double
weft_fields_real(WeftFields *fields, const char *name, double min, double max, double fallback)
{
    double number;
    json_t *value = look_up(fields, name, FALSE);
    if (!value)
        return fallback;
    if (!read_real(value, &number))
        fail_type(fields, name, "a number", value);
    else if (number < min || number > max)
        weft_fields_fail(fields, name, "must be %g to %g, is %g", min, max, number);
    return fields->error ? fallback : number;
}

/* Records what a parser said about the text of a field. */
static void
fail_with(WeftFields *fields, const char *name, GError *error)
{
    weft_fields_fail(fields, name, "%s", error->message);
    g_error_free(error);
}

/* Something that is measured: a number, or a text with a unit. */
typedef struct Measure {
    const char *wanted;
    gboolean (*parse)(const char *text, guint64 *ret_number, GError **error);
    char *(*format)(guint64 number);
} Measure;

static gboolean
read_measure(WeftFields *fields, const char *name, const Measure *measure, json_t *value, guint64 *ret_number)
{
    GError *error = NULL;
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *ret_number = (guint64)json_integer_value(value);
        return TRUE;
    }
    if (json_is_integer(value))
        weft_fields_fail(fields, name, "must not be negative, is %" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (!json_is_string(value))
        fail_type(fields, name, measure->wanted, value);
    else if (!measure->parse(json_string_value(value), ret_number, &error))
        fail_with(fields, name, error);
    return !fields->error;
}

/* A measure and the range in which it must be. */
typedef struct Range {
    const Measure *measure;
    guint64 min, max;
} Range;

static guint64
read_in_range(WeftFields *fields, const char *name, Range range, guint64 fallback)
{
    guint64 number = 0, otherwise = fallback == WEFT_REQUIRED ? range.min : fallback;
    json_t *value = look_up(fields, name, fallback == WEFT_REQUIRED);
    if (!value || !read_measure(fields, name, range.measure, value, &number))
        return otherwise;
    if (number >= range.min && number <= range.max)
        return number;
    g_autofree char *least = range.measure->format(range.min);
    g_autofree char *most = range.measure->format(range.max);
    g_autofree char *is = range.measure->format(number);
    weft_fields_fail(fields, name, "must be %s to %s, is %s", least, most, is);
    return otherwise;
}

guint64
weft_fields_size(WeftFields *fields, const char *name, guint64 min, guint64 max, guint64 fallback)
{
    static const Measure size = { "a size like \"8G\" or a number of bytes", weft_size_parse, weft_size_format };
    return read_in_range(fields, name, (Range){ &size, min, max }, fallback);
}

guint64
weft_fields_rate(WeftFields *fields, const char *name, guint64 min, guint64 max, guint64 fallback)
{
    static const Measure rate = { "a rate like \"10G\" or a number of bits a second", weft_rate_parse, weft_rate_format };
    return read_in_range(fields, name, (Range){ &rate, min, max }, fallback);
}

static gboolean
parse_seconds(const char *text, guint64 *ret_seconds, GError **error)
{
    gint64 duration;
    if (!weft_duration_parse(text, &duration, error))
        return FALSE;
    *ret_seconds = (guint64)(duration / G_USEC_PER_SEC);
    return duration % G_USEC_PER_SEC == 0 ||
           weft_error_refuse(error, WEFT_ERROR_INVALID, "duration \"%s\" is no whole number of seconds", text);
}

static char *
format_seconds(guint64 seconds)
{
    return weft_duration_format((gint64)MIN(seconds, G_MAXINT64 / G_USEC_PER_SEC) * G_USEC_PER_SEC);
}

guint64
weft_fields_seconds(WeftFields *fields, const char *name, guint64 min, guint64 max, guint64 fallback)
{
    static const Measure seconds = { "a duration like \"90m\" or a number of seconds", parse_seconds, format_seconds };
    return read_in_range(fields, name, (Range){ &seconds, min, max }, fallback);
}

typedef gboolean (*ParseTime)(const char *text, gint64 *ret, GError **error);

static gint64
read_time(WeftFields *fields, const char *name, const char *wanted, ParseTime parse, gint64 fallback)
{
    GError *error = NULL;
    gint64 time;
    const char *text = look_up_text(fields, name, wanted, fallback == -1);
    if (text && parse(text, &time, &error))
        return time;
    if (error)
        fail_with(fields, name, error);
    return fallback == -1 ? 0 : fallback;
}

gint64
weft_fields_duration(WeftFields *fields, const char *name, gint64 fallback)
{
    return read_time(fields, name, "a duration like \"90s\" or \"5m\"", weft_duration_parse, fallback);
}

gint64
weft_fields_time(WeftFields *fields, const char *name, gint64 fallback)
{
    return read_time(fields, name, "a time like \"2026-01-31T12:00:00Z\"", weft_clock_parse, fallback);
}

guint64
weft_fields_hex(WeftFields *fields, const char *name, guint64 max, guint64 fallback)
{
    guint64 number;
    const char *text = look_up_text(fields, name, "a hexadecimal text like \"0x1f\"", fallback == WEFT_REQUIRED);
    if (text && g_str_has_prefix(text, "0x") && g_ascii_string_to_unsigned(text + 2, 16, 0, max, &number, NULL))
        return number;
    if (text) {
        g_autofree char *quoted = weft_text_quote(text);
        weft_fields_fail(fields, name, "must be 0x0 to 0x%" G_GINT64_MODIFIER "x in hexadecimal, is %s", max, quoted);
    }
    return fallback == WEFT_REQUIRED ? 0 : fallback;
}

gboolean
weft_fields_bool(WeftFields *fields, const char *name, gboolean fallback)
{
    json_t *value = look_up(fields, name, FALSE);
    if (value && !json_is_boolean(value))
        fail_type(fields, name, "true or false", value);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

int
weft_fields_word(WeftFields *fields, const char *name, const char *const *words, int fallback)
{
    const char *text = look_up_text(fields, name, "a text", fallback < 0);
    for (int i = 0; text && words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    if (text) {
        g_autofree char *quoted = weft_text_quote(text);
        g_autofree char *known = g_strjoinv(", ", (char **)words);
        weft_fields_fail(fields, name, "must be one of %s; is %s", known, quoted);
    }
    return MAX(fallback, 0);
}

json_t *
weft_fields_array(WeftFields *fields, const char *name, gsize max)
{
    json_t *value = look_up(fields, name, FALSE);
    if (value && !json_is_array(value))
        fail_type(fields, name, "a list", value);
    else if (json_array_size(value) > max)
        weft_fields_fail(fields, name, "must have at most %" G_GSIZE_FORMAT " entries, has %" G_GSIZE_FORMAT, max,
                         json_array_size(value));
    return fields->error ? NULL : value;
}

json_t *
weft_fields_object(WeftFields *fields, const char *name)
{
    json_t *value = look_up(fields, name, FALSE);
    if (value && !json_is_object(value))
        fail_type(fields, name, "an object", value);
    return fields->error ? NULL : value;
}
