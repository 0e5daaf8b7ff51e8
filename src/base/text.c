#include "text.h"

#define CLIP_CHARS 64
#define WORD_MAX 32 /* longer words are not compared: the work is quadratic */

char *
weft_text_clip(const char *text)
{
    /* Four bytes hold any character, and a cut character becomes a valid replacement below. */
    g_autofree char *valid = g_utf8_make_valid(text, (gssize)strnlen(text, CLIP_CHARS * 4));
    GString *clip = g_string_new(NULL);
    guint chars = 0;
    const char *p = valid;
    for (; *p && chars < CLIP_CHARS; p = g_utf8_next_char(p), chars++) {
        gunichar c = g_utf8_get_char(p);
        if (c == '"' || c == '\\')
            g_string_append_printf(clip, "\\%c", (char)c);
        else if (g_unichar_isprint(c))
            g_string_append_unichar(clip, c);
        else
            g_string_append_printf(clip, c < 0x80 ? "\\x%02x" : "\\u%04x", c);
    }
    if (*p)
        g_string_append(clip, "…");
    return g_string_free(clip, FALSE);
}

char *
weft_text_quote(const char *text)
{
    g_autofree char *clip = weft_text_clip(text);
    return g_strdup_printf("\"%s\"", clip);
}

char *
weft_text_line(const char *text, gsize max)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    GString *line = g_string_new(NULL);
    const char *p = valid;
    for (gsize chars = 0; *p && chars < max; p = g_utf8_next_char(p), chars++) {
        gunichar c = g_utf8_get_char(p);
        g_string_append_unichar(line, g_unichar_iscntrl(c) ? ' ' : c);
    }
    return g_strchomp(g_string_free(line, FALSE));
}

/* Levenshtein's distance, one row at a time. */
static guint
distance(const char *a, gsize a_length, const char *b, gsize b_length)
{
    guint row[WORD_MAX + 1];
    for (guint j = 0; j <= b_length; j++)
        row[j] = j;
    for (guint i = 1; i <= a_length; i++) {
        guint diagonal = row[0];
        row[0] = i;
        for (guint j = 1; j <= b_length; j++) {
            guint above = row[j];
            row[j] = MIN(MIN(above, row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_length];
}

const char *
weft_text_nearest(const char *word, const char *const *words, gsize n)
{
    gsize length = strnlen(word, WORD_MAX + 1);
    const char *nearest = NULL;
    guint least = 1 + MIN(2, (guint)length / 2);
    for (gsize i = 0; length <= WORD_MAX && i < n; i++) {
        gsize other = strnlen(words[i], WORD_MAX + 1);
        guint d = other <= WORD_MAX ? distance(word, length, words[i], other) : least;
        if (d < least) {
            least = d;
            nearest = words[i];
        }
    }
    return nearest;
}

char *
weft_text_count(guint64 count, const char *thing)
{
    return g_strdup_printf("%" G_GUINT64_FORMAT " %s%s", count, thing, count == 1 ? "" : "s");
}
