#include "yaml.h"

#include "errors.h"
#include "text.h"

#include <yaml.h> /* libyaml's. NOLINT(readability-duplicate-include) */

static gboolean
check_length(gsize length, const char *name, GError **error)
{
    if (length <= WEFT_TEXT_BYTES_MAX)
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s: has %" G_GSIZE_FORMAT " bytes, the limit is %u", name, length,
                WEFT_TEXT_BYTES_MAX);
    return FALSE;
}

typedef struct {
    json_t *container; /* borrowed from root */
    char *key;         /* the key whose value comes next, in a mapping */
} Level;

typedef struct {
    const char *name;
    GError *error;
    json_t *root;
    Level levels[WEFT_TEXT_DEPTH_MAX];
    guint depth;
    guint documents;
} Reader;

static gboolean fail_at(Reader *reader, const yaml_mark_t *mark, const char *format, ...) G_GNUC_PRINTF(3, 4);

static gboolean
fail_at(Reader *reader, const yaml_mark_t *mark, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *message = g_strdup_vprintf(format, args);
    va_end(args);
    reader->error = g_error_new(WEFT_ERROR, WEFT_ERROR_INVALID, "%s:%zu: %s", reader->name, mark->line + 1, message);
    return FALSE;
}

/* Decimal, without a sign +, leading zeros or anything that YAML 1.1 reads in other bases: "0700" and "12:30" stay text. */
static gboolean
is_integer(const char *text, gint64 *ret)
{
    const char *digits = text + (*text == '-');
    if (!g_ascii_isdigit(*digits) || (*digits == '0' && digits[1]))
        return FALSE;
    return g_ascii_string_to_signed(text, 10, G_MININT64, G_MAXINT64, ret, NULL);
}

static json_t *
plain_value(const char *text)
{
    gint64 number;
    if (*text == '\0' || strcmp(text, "null") == 0)
        return json_null();
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return json_boolean(*text == 't');
    return is_integer(text, &number) ? json_integer(number) : json_string(text);
}

/* Takes the value, which becomes the root, the next entry of a list, or the value of the key that came before. */
static gboolean
attach(Reader *reader, const yaml_event_t *event, json_t *value)
{
    Level *level = reader->depth > 0 ? &reader->levels[reader->depth - 1] : NULL;
    gboolean ok = value != NULL;
    if (!level)
        reader->root = value;
    else if (json_is_array(level->container))
        ok = json_array_append_new(level->container, value) == 0;
    else
        ok = json_object_set_new(level->container, level->key, value) == 0;
    if (level)
        g_clear_pointer(&level->key, g_free);
    return ok || fail_at(reader, &event->start_mark, "a text is not valid UTF-8; save the file as UTF-8");
}

static gboolean
wants_key(const Reader *reader)
{
    const Level *level = reader->depth > 0 ? &reader->levels[reader->depth - 1] : NULL;
    return level && json_is_object(level->container) && !level->key;
}

static gboolean
take_key(Reader *reader, const yaml_event_t *event)
{
    Level *level = &reader->levels[reader->depth - 1];
    const char *key = (const char *)event->data.scalar.value;
    if (*key == '\0')
        return fail_at(reader, &event->start_mark, "a key is empty; write it before the colon");
    if (json_object_get(level->container, key)) {
        g_autofree char *quoted = weft_text_quote(key);
        return fail_at(reader, &event->start_mark, "the key %s is there twice; keep one of them", quoted);
    }
    level->key = g_strdup(key);
    return TRUE;
}

static gboolean
take_scalar(Reader *reader, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length)
        return fail_at(reader, &event->start_mark, "a text has a NUL character in it; leave it out");
    if (wants_key(reader))
        return take_key(reader, event);
    return attach(reader, event, event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? plain_value(text) : json_string(text));
}

static gboolean
take_container(Reader *reader, const yaml_event_t *event, json_t *container)
{
    gboolean is_key = wants_key(reader);
    if (is_key || reader->depth == WEFT_TEXT_DEPTH_MAX) {
        json_decref(container);
        return is_key ? fail_at(reader, &event->start_mark, "a key must be a plain text, not a list or a mapping")
                      : fail_at(reader, &event->start_mark, "nested deeper than %d", WEFT_TEXT_DEPTH_MAX);
    }
    gboolean ok = attach(reader, event, container);
    reader->levels[reader->depth++] = (Level){ .container = container };
    return ok;
}

/* Tags and anchors are where YAML hides types and bombs; nothing that weft reads needs them. */
static gboolean
check_plain(Reader *reader, const yaml_event_t *event)
{
    const yaml_char_t *tag = NULL, *anchor = NULL;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        tag = event->data.scalar.tag;
        anchor = event->data.scalar.anchor;
        break;
    case YAML_SEQUENCE_START_EVENT:
        tag = event->data.sequence_start.tag;
        anchor = event->data.sequence_start.anchor;
        break;
    case YAML_MAPPING_START_EVENT:
        tag = event->data.mapping_start.tag;
        anchor = event->data.mapping_start.anchor;
        break;
    default:
        return TRUE;
    }
    if (tag)
        return fail_at(reader, &event->start_mark, "tags (\"!…\") are not taken; put a text in quotes");
    if (anchor)
        return fail_at(reader, &event->start_mark, "anchors (\"&…\") are not taken; write the value out at each place");
    return TRUE;
}

static gboolean
take_event(Reader *reader, const yaml_event_t *event)
{
    if (!check_plain(reader, event))
        return FALSE;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return reader->documents++ == 0 ||
               fail_at(reader, &event->start_mark, "a second document begins; one file holds one document");
    case YAML_ALIAS_EVENT:
        return fail_at(reader, &event->start_mark, "aliases (\"*…\") are not taken; write the value out at each place");
    case YAML_SCALAR_EVENT:
        return take_scalar(reader, event);
    case YAML_SEQUENCE_START_EVENT:
        return take_container(reader, event, json_array());
    case YAML_MAPPING_START_EVENT:
        return take_container(reader, event, json_object());
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        reader->depth--;
        return TRUE;
    default:
        return TRUE;
    }
}

static gboolean
read_events(Reader *reader, yaml_parser_t *parser)
{
    for (gboolean ended = FALSE; !ended;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            g_autofree char *problem = weft_text_clip(parser->problem ? parser->problem : "is not YAML");
            return fail_at(reader, &parser->problem_mark, "%s", problem);
        }
        gboolean ok = take_event(reader, &event);
        ended = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
        if (!ok)
            return FALSE;
    }
    return reader->root || fail_at(reader, &parser->mark, "is empty");
}

json_t *
weft_yaml_parse(const char *text, gsize length, const char *name, GError **error)
{
    if (length == 0)
        text = ""; /* it may be NULL then, which the parsers do not take */
    if (!check_length(length, name, error))
        return NULL;
    Reader reader = { .name = name };
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        g_error("yaml_parser_initialize: no memory");
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    gboolean ok = read_events(&reader, &parser);
    yaml_parser_delete(&parser);
    for (guint i = 0; i < G_N_ELEMENTS(reader.levels); i++)
        g_free(reader.levels[i].key);
    if (ok)
        return reader.root;
    json_decref(reader.root);
    g_propagate_error(error, reader.error);
    return NULL;
}

/* jansson takes a NUL behind the value for the end of the text. */
static gboolean
check_no_nul(const char *text, gsize length, GError **error)
{
    const char *nul = memchr(text, '\0', length);
    if (nul)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "byte %zu is NUL; leave it out", (gsize)(nul - text) + 1);
    return !nul;
}

/* jansson recurses as deep as the text says, so the depth is counted before it sees the text. */
static gboolean
check_depth(const char *text, gsize length, GError **error)
{
    guint depth = 0, line = 1;
    gboolean quoted = FALSE;
    for (gsize i = 0; i < length; i++) {
        char c = text[i];
        line += c == '\n';
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == ']' || c == '}'))
            depth -= depth > 0;
        else if (!quoted && (c == '[' || c == '{') && ++depth > WEFT_TEXT_DEPTH_MAX) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "line %u: nested deeper than %d", line, WEFT_TEXT_DEPTH_MAX);
            return FALSE;
        }
    }
    return TRUE;
}

json_t *
weft_json_parse(const char *text, gsize length, GError **error)
{
    if (length == 0)
        text = "";
    if (!check_length(length, "JSON", error) || !check_no_nul(text, length, error) || !check_depth(text, length, error))
        return NULL;
    json_error_t problem;
    json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
    if (!value) {
        g_autofree char *valid = g_utf8_make_valid(problem.text, -1);
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "line %d: %s", MAX(problem.line, 1), valid);
    }
    return value;
}
