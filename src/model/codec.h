/* Records to JSON and back by table, for the model's own files: one line per field serves to read, write, copy and free it.
 *
 * What is optional and zero is not written, and an absent text is NULL; numbers are written as numbers (times too, in
 * microseconds), GUIDs and P_Keys as hexadecimal text. */
#pragma once

#include "fields.h"
#include "names.h"

#include <glib.h>
#include <jansson.h>

typedef enum {
    WEFT_CODEC_TEXT,    /* char * */
    WEFT_CODEC_UINT,    /* guint */
    WEFT_CODEC_INT,     /* gint, 0 unless told */
    WEFT_CODEC_UINT64,  /* guint64, or gint64 that is never negative */
    WEFT_CODEC_SIZE,    /* guint64; read from a text like "8G" as well */
    WEFT_CODEC_RATE,    /* guint64, bits a second; read from a text like "10G" as well */
    WEFT_CODEC_SECONDS, /* guint64; read from a text like "90m" as well */
    WEFT_CODEC_BOOL,    /* gboolean, FALSE unless told */
    WEFT_CODEC_WORD,    /* an enum */
    WEFT_CODEC_PKEY,    /* guint, "0x7fff" */
    WEFT_CODEC_GUID,    /* guint64, "0x0123456789abcdef" */
} WeftCodecKind;

typedef struct WeftCodecField {
    const char *name;
    gsize offset;
    WeftCodecKind kind;
    gboolean optional;
    const char *text;         /* of an optional text that is absent */
    guint64 fallback;         /* of an optional number or word that is absent */
    guint64 min;              /* of a number; of a gint as the compiler makes it of a negative one */
    guint64 max;              /* of a number; 0: what its type holds */
    const char *const *words; /* of a word */
    WeftGrammar grammar;      /* of a text */
    const char *what;         /* its name in messages about the grammar */
} WeftCodecField;

#define WEFT_FIELD_AS(as, type, member, codec, ...)                                                                            \
    {                                                                                                                          \
        .name = as, .offset = offsetof(type, member), .kind = WEFT_CODEC_##codec, ##__VA_ARGS__                                \
    }
#define WEFT_FIELD(type, member, codec, ...) WEFT_FIELD_AS(#member, type, member, codec, ##__VA_ARGS__)
#define WEFT_OPTIONAL .optional = TRUE

/* A table ends with an empty entry. Reading fills a zeroed object; what it holds after an error is only fit to be cleared. */
void weft_codec_read(WeftFields *fields, const WeftCodecField *table, gpointer object);
json_t *weft_codec_write(const WeftCodecField *table, gconstpointer object);
/* Makes the texts of a shallow copy its own. */
void weft_codec_own(const WeftCodecField *table, gpointer object);
void weft_codec_clear(const WeftCodecField *table, gpointer object);

/* A record of which the table tells everything. */
gpointer weft_codec_decode(const WeftCodecField *table, gsize size, json_t *json, const char *where, GError **error);
void weft_codec_free(const WeftCodecField *table, gpointer object);

/* Reads each object of an array. An absent array is an empty one. */
typedef void (*WeftCodecItem)(WeftFields *item, guint index, gpointer owner);
void weft_codec_read_items(WeftFields *fields, const char *name, guint max, WeftCodecItem read, gpointer owner);

/* An array of texts, each of which the grammar allows; read into an array that owns them. Absent is empty. */
void
weft_codec_read_texts(WeftFields *fields, const char *name, guint max, WeftGrammar grammar, const char *what, GPtrArray *texts);
json_t *weft_codec_write_texts(const GPtrArray *texts);

GHashTable *weft_labels_new(void);
void weft_labels_read(WeftFields *fields, GHashTable *labels);
json_t *weft_labels_write(GHashTable *labels);
/* Are all the wanted ones among them? */
gboolean weft_labels_match(GHashTable *wanted, GHashTable *labels);

/* "0x" and hexadecimal digits, as weft writes them. */
json_t *weft_guid_write(guint64 guid);
