/* Reads a JSON object field by field, strictly.
 *
 * The first error sticks: later reads return their fallback, and weft_fields_end() reports it. Fields that nobody asked for
 * are refused there too, so a misspelt name never passes silently. Messages carry the path: "groups[1].cores: …".
 *
 *     WeftFields f;
 *     weft_fields_begin(&f, object, "groups[%u]", i);
 *     group->count = weft_fields_uint(&f, "count", 1, WEFT_NODES_MAX, WEFT_REQUIRED);
 *     return weft_fields_end(&f, error);
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#define WEFT_REQUIRED G_MAXUINT64 /* as fallback of a number: the field must be there */

typedef struct WeftFields {
    json_t *object;  /* borrowed */
    char *where;     /* "" at the top */
    GPtrArray *seen; /* names that were asked for, borrowed */
    GError *error;
} WeftFields;

void weft_fields_begin(WeftFields *fields, json_t *object, const char *where_format, ...) G_GNUC_PRINTF(3, 4);
gboolean weft_fields_end(WeftFields *fields, GError **error);

gboolean weft_fields_has(WeftFields *fields, const char *name);

/* Borrowed from the object. fallback NULL makes an optional text; WEFT_REQUIRED_TEXT one that must be there. */
extern const char weft_required_text[];
#define WEFT_REQUIRED_TEXT weft_required_text
const char *weft_fields_string(WeftFields *fields, const char *name, const char *fallback);

guint64 weft_fields_uint(WeftFields *fields, const char *name, guint64 min, guint64 max, guint64 fallback);
gint64 weft_fields_int(WeftFields *fields, const char *name, gint64 min, gint64 max, gint64 fallback);
/* A number, or a text of one: YAML has only whole numbers here. */
double weft_fields_real(WeftFields *fields, const char *name, double min, double max, double fallback);
/* A number of bytes or a text as weft_size_parse() takes it. */
guint64 weft_fields_size(WeftFields *fields, const char *name, guint64 min, guint64 max, guint64 fallback);
/* Bits a second or a text as weft_rate_parse() takes it. */
guint64 weft_fields_rate(WeftFields *fields, const char *name, guint64 min, guint64 max, guint64 fallback);
/* A number of seconds or a text as weft_duration_parse() takes it, of whole seconds. */
guint64 weft_fields_seconds(WeftFields *fields, const char *name, guint64 min, guint64 max, guint64 fallback);
/* A text as weft_duration_parse() takes it. fallback -1: required. */
gint64 weft_fields_duration(WeftFields *fields, const char *name, gint64 fallback);
/* A time in RFC 3339. fallback -1: required. */
gint64 weft_fields_time(WeftFields *fields, const char *name, gint64 fallback);
/* A text of hexadecimal digits with 0x before it. */
guint64 weft_fields_hex(WeftFields *fields, const char *name, guint64 max, guint64 fallback);
gboolean weft_fields_bool(WeftFields *fields, const char *name, gboolean fallback);
/* One of the words; returns its index, or fallback (-1: required). */
int weft_fields_word(WeftFields *fields, const char *name, const char *const *words, int fallback);
/* NULL when absent. Borrowed. */
json_t *weft_fields_array(WeftFields *fields, const char *name, gsize max);
json_t *weft_fields_object(WeftFields *fields, const char *name);

/* For a check that the caller makes itself: records "WHERE.NAME: message". */
void weft_fields_fail(WeftFields *fields, const char *name, const char *format, ...) G_GNUC_PRINTF(3, 4);
/* The path of a field, for messages about what is inside it. */
char *weft_fields_path(const WeftFields *fields, const char *name);
