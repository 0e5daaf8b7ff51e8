#include "hostlist.h"

#include "errors.h"
#include "text.h"

#define TEXT_MAX 65536
#define NAME_MAX_LENGTH 255
#define DIGITS_MAX 18 /* so that no number overflows */

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

typedef struct {
    const char *text;
    const char *p;
    GError *error;
} Parser;

static gboolean fail(Parser *parser, const char *at, const char *format, ...) G_GNUC_PRINTF(3, 4);

static gboolean
fail(Parser *parser, const char *at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *message = g_strdup_vprintf(format, args);
    va_end(args);
    g_autofree char *quoted = weft_text_quote(parser->text);
    parser->error = g_error_new(WEFT_ERROR, WEFT_ERROR_INVALID, "hostlist %s, character %u: %s", quoted,
                                (guint)(at - parser->text) + 1, message);
    return FALSE;
}

typedef struct {
    const char *start;
    gsize length;
    guint64 value;
} Number;

static gboolean
take_number(Parser *parser, Number *number)
{
    *number = (Number){ .start = parser->p, .length = strspn(parser->p, DIGITS) };
    if (number->length == 0)
        return fail(parser, parser->p, "a number is missing; write ranges like [0-3,7]");
    if (number->length > DIGITS_MAX)
        return fail(parser, parser->p, "a number has %zu digits; at most %d are taken", number->length, DIGITS_MAX);
    number->value = g_ascii_strtoull(parser->p, NULL, 10);
    parser->p += number->length;
    return TRUE;
}

static gboolean
is_padded(const Number *number)
{
    return number->length > 1 && *number->start == '0';
}

static gboolean
check_range(Parser *parser, const Number *low, const Number *high)
{
    if (low->value > high->value)
        return fail(parser, low->start, "the range %.*s-%.*s runs backwards; write %.*s-%.*s", (int)low->length, low->start,
                    (int)high->length, high->start, (int)high->length, high->start, (int)low->length, low->start);
    if (low->length != high->length && (is_padded(high) || (is_padded(low) && high->length < low->length)))
        return fail(parser, low->start, "the range %.*s-%.*s mixes paddings; write both ends with as many digits",
                    (int)low->length, low->start, (int)high->length, high->start);
    if (high->value - low->value >= WEFT_HOSTLIST_MAX)
        return fail(parser, low->start, "the range %.*s-%.*s has more than %d numbers; write a shorter one", (int)low->length,
                    low->start, (int)high->length, high->start, WEFT_HOSTLIST_MAX);
    return TRUE;
}

static char *
format_number(guint64 value, gsize width)
{
    return g_strdup_printf("%0*" G_GUINT64_FORMAT, (int)width, value);
}

/* What may stand at one place of a name: a text, or the numbers of some ranges. Nothing is expanded before all of it has been
 * counted. */
typedef struct {
    guint64 low, high;
    gsize width;
} Range;

typedef struct {
    const char *literal; /* NULL: ranges */
    gsize length;
    GArray *ranges; /* Range */
    guint64 count;
    guint at; /* the range whose turn it is, and the number in it */
    guint64 value;
} Part;

static void
part_free(Part *part)
{
    g_clear_pointer(&part->ranges, g_array_unref);
    g_free(part);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Part, part_free)

/* "3" or "08-10". */
static gboolean
take_range(Parser *parser, Part *part)
{
    Number low, high;
    if (!take_number(parser, &low))
        return FALSE;
    high = low;
    if (*parser->p == '-') {
        parser->p++;
        if (!take_number(parser, &high) || !check_range(parser, &low, &high))
            return FALSE;
    }
    part->count += high.value - low.value + 1;
    if (part->count > WEFT_HOSTLIST_MAX)
        return fail(parser, low.start, "expands to more than %d names; split it", WEFT_HOSTLIST_MAX);
    Range range = { low.value, high.value, is_padded(&low) ? low.length : 1 };
    g_array_append_val(part->ranges, range);
    return TRUE;
}

static void
rewind_part(Part *part)
{
    part->at = 0;
    part->value = part->ranges ? g_array_index(part->ranges, Range, 0).low : 0;
}

/* The inside of brackets and the bracket that closes them, or NULL. */
static Part *
take_brackets(Parser *parser)
{
    g_autoptr(Part) part = g_new0(Part, 1);
    part->ranges = g_array_new(FALSE, FALSE, sizeof(Range));
    const char *open = parser->p;
    do {
        parser->p++;
        if (!take_range(parser, part))
            return NULL;
    } while (*parser->p == ',');
    if (*parser->p == '\0') {
        fail(parser, open, "the bracket is never closed; write \"]\"");
        return NULL;
    }
    if (*parser->p != ']') {
        g_autofree char *rest = weft_text_clip(parser->p);
        fail(parser, parser->p, "\"%s\" has no place in brackets; write ranges like [0-3,7]", rest);
        return NULL;
    }
    parser->p++;
    rewind_part(part);
    return g_steal_pointer(&part);
}

static Part *
take_literal(Parser *parser)
{
    gsize length = strspn(parser->p, LETTERS DIGITS "-_.");
    if (length == 0) {
        g_autofree char *rest = weft_text_clip(parser->p);
        fail(parser, parser->p, "\"%s\" is not part of a name; use letters, digits, \"-\", \"_\", \".\" and ranges like [0-3]",
             rest);
        return NULL;
    }
    Part *part = g_new0(Part, 1);
    part->literal = parser->p;
    part->length = length;
    part->count = 1;
    parser->p += length;
    return part;
}

/* The parts of one name up to the comma behind it, which make at most so many names. */
static GPtrArray *
take_parts(Parser *parser, guint most)
{
    g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func((GDestroyNotify)part_free);
    const char *start = parser->p;
    guint64 total = 1;
    while (*parser->p && *parser->p != ',') {
        Part *part = *parser->p == '[' ? take_brackets(parser) : take_literal(parser);
        if (!part)
            return NULL;
        g_ptr_array_add(parts, part);
        total *= part->count;
        if (total > most) {
            fail(parser, start, "expands to more than %d names; split it", WEFT_HOSTLIST_MAX);
            return NULL;
        }
        if (parts->len > NAME_MAX_LENGTH) {
            fail(parser, start, "a name is longer than %d characters", NAME_MAX_LENGTH);
            return NULL;
        }
    }
    if (parts->len > 0)
        return g_steal_pointer(&parts);
    fail(parser, start, "a name is missing; write names like cfd[0-3] with single commas between them");
    return NULL;
}

static char *
format_name(const GPtrArray *parts)
{
    GString *name = g_string_new(NULL);
    for (guint i = 0; i < parts->len; i++) {
        const Part *part = parts->pdata[i];
        if (part->literal)
            g_string_append_len(name, part->literal, (gssize)part->length);
        else
            g_string_append_printf(name, "%0*" G_GUINT64_FORMAT, (int)g_array_index(part->ranges, Range, part->at).width,
                                   part->value);
    }
    return g_string_free(name, FALSE);
}

/* FALSE: it was the last one, and stands at its first again. */
static gboolean
advance(Part *part)
{
    if (!part->ranges)
        return FALSE;
    if (part->value < g_array_index(part->ranges, Range, part->at).high) {
        part->value++;
        return TRUE;
    }
    if (++part->at < part->ranges->len) {
        part->value = g_array_index(part->ranges, Range, part->at).low;
        return TRUE;
    }
    rewind_part(part);
    return FALSE;
}

/* The product of all parts, in order: the last one changes fastest. */
static gboolean
multiply(Parser *parser, const char *start, GPtrArray *parts, GPtrArray *names)
{
    guint turning;
    do {
        char *name = format_name(parts);
        g_ptr_array_add(names, name);
        if (strlen(name) > NAME_MAX_LENGTH)
            return fail(parser, start, "a name is longer than %d characters", NAME_MAX_LENGTH);
        for (turning = parts->len; turning > 0 && !advance(parts->pdata[turning - 1]); turning--) {
        }
    } while (turning > 0);
    return TRUE;
}

static gboolean
take_list(Parser *parser, GPtrArray *names)
{
    if (strnlen(parser->text, TEXT_MAX + 1) > TEXT_MAX)
        return fail(parser, parser->text, "is longer than %d characters; split it", TEXT_MAX);
    for (;;) {
        const char *start = parser->p;
        g_autoptr(GPtrArray) parts = take_parts(parser, WEFT_HOSTLIST_MAX - names->len);
        if (!parts || !multiply(parser, start, parts, names))
            return FALSE;
        if (*parser->p == '\0')
            return TRUE;
        parser->p++;
    }
}

char **
weft_hostlist_expand(const char *text, GError **error)
{
    Parser parser = { .text = text, .p = text };
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    if (!take_list(&parser, names)) {
        g_propagate_error(error, parser.error);
        return NULL;
    }
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&names), FALSE);
}

static GArray *
take_ranks(Parser *parser)
{
    g_autoptr(Part) part = take_brackets(parser);
    if (!part)
        return NULL;
    g_autoptr(GArray) ranks = g_array_sized_new(FALSE, FALSE, sizeof(guint), (guint)part->count);
    do {
        guint rank = (guint)part->value;
        if (part->value > G_MAXUINT) {
            fail(parser, parser->text, "the number %" G_GUINT64_FORMAT " is too large for a node", part->value);
            return NULL;
        }
        g_array_append_val(ranks, rank);
    } while (advance(part));
    return g_steal_pointer(&ranks);
}

gboolean
weft_hostlist_split(const char *text, char **ret_name, GArray **ret_ranks, GError **error)
{
    Parser parser = { .text = text, .p = text };
    g_autoptr(Part) name = NULL;
    g_autoptr(GArray) ranks = NULL;
    if (strnlen(text, TEXT_MAX + 1) > TEXT_MAX)
        fail(&parser, text, "is longer than %d characters; split it", TEXT_MAX);
    else
        name = take_literal(&parser);
    if (name && *parser.p == '[')
        ranks = take_ranks(&parser);
    if (!parser.error && *parser.p)
        fail(&parser, parser.p, "goes on behind the name; write one cluster and its nodes, like cfd or cfd[0-3,7]");
    if (!name || parser.error) {
        g_propagate_error(error, parser.error);
        return FALSE;
    }
    *ret_name = g_strndup(name->literal, name->length);
    *ret_ranks = g_steal_pointer(&ranks);
    return TRUE;
}

int
weft_natural_compare(const char *a, const char *b)
{
    const char *p = a, *q = b;
    while (*p && *q) {
        if (!g_ascii_isdigit(*p) || !g_ascii_isdigit(*q)) {
            if (*p != *q)
                return (guchar)*p < (guchar)*q ? -1 : 1;
            p++;
            q++;
            continue;
        }
        p += strspn(p, "0");
        q += strspn(q, "0");
        gsize n = strspn(p, DIGITS), m = strspn(q, DIGITS);
        int order = n != m ? (n < m ? -1 : 1) : strncmp(p, q, n);
        if (order != 0)
            return order;
        p += n;
        q += m;
    }
    /* Equal but for zeros before the numbers, or one is the beginning of the other. */
    return *p || *q ? (*p ? 1 : -1) : strcmp(a, b);
}

/* Names that differ only in their last number. */
typedef struct {
    char *prefix;
    char *suffix;
    GString *ranges;
    guint64 last;
    gsize width;       /* of the range that is being written; 1: not padded */
    gboolean in_range; /* more than one number is in it */
    guint ranges_count;
} Fold;

static void
fold_free(Fold *fold)
{
    g_free(fold->prefix);
    g_free(fold->suffix);
    g_string_free(fold->ranges, TRUE);
    g_free(fold);
}

static void
fold_close_range(Fold *fold)
{
    if (!fold->in_range)
        return;
    g_autofree char *last = format_number(fold->last, fold->width);
    g_string_append_printf(fold->ranges, "-%s", last);
    fold->in_range = FALSE;
}

static void
fold_add(Fold *fold, const Number *number)
{
    gboolean fits = number->length == fold->width || (!is_padded(number) && number->length > fold->width);
    if (fold->ranges_count > 0 && number->value == fold->last + 1 && fits) {
        fold->in_range = TRUE;
    } else {
        fold_close_range(fold);
        g_string_append_printf(fold->ranges, "%s%.*s", fold->ranges_count++ ? "," : "", (int)number->length, number->start);
        fold->width = is_padded(number) ? number->length : 1;
    }
    fold->last = number->value;
}

static void
fold_write(Fold *fold, GString *text)
{
    if (text->len)
        g_string_append_c(text, ',');
    gboolean alone = fold->ranges_count <= 1 && !fold->in_range;
    fold_close_range(fold);
    g_string_append_printf(text, alone ? "%s%s%s" : "%s[%s]%s", fold->prefix, fold->ranges->str, fold->suffix);
}

/* The last number in a name; of length 0 (at the end) where it has none that can be counted. */
static Number
last_number(const char *name)
{
    const char *end = name + strlen(name);
    const char *stop = end;
    while (stop > name && !g_ascii_isdigit(stop[-1]))
        stop--;
    const char *start = stop;
    while (start > name && g_ascii_isdigit(start[-1]))
        start--;
    if (start == stop || stop - start > DIGITS_MAX)
        return (Number){ .start = end };
    return (Number){ .start = start, .length = (gsize)(stop - start), .value = g_ascii_strtoull(start, NULL, 10) };
}

static Fold *
fold_new(const char *name, const Number *number)
{
    Fold *fold = g_new0(Fold, 1);
    fold->prefix = g_strndup(name, (gsize)(number->start - name));
    fold->suffix = g_strdup(number->start + number->length);
    fold->ranges = g_string_new(NULL);
    return fold;
}

/* A name without a number stands alone, however often it comes. */
static Fold *
find_fold(GHashTable *by_key, GPtrArray *folds, const char *name, const Number *number)
{
    g_autofree char *key = g_strdup_printf("%.*s\n%s", (int)(number->start - name), name, number->start + number->length);
    Fold *fold = number->length ? g_hash_table_lookup(by_key, key) : NULL;
    if (fold)
        return fold;
    fold = fold_new(name, number);
    g_ptr_array_add(folds, fold);
    if (number->length)
        g_hash_table_insert(by_key, g_steal_pointer(&key), fold);
    return fold;
}

static int
compare_names(gconstpointer a, gconstpointer b)
{
    return weft_natural_compare(*(const char *const *)a, *(const char *const *)b);
}

char *
weft_hostlist_fold(const char *const *names)
{
    g_autoptr(GPtrArray) sorted = g_ptr_array_new();
    for (; *names; names++)
        g_ptr_array_add(sorted, (char *)*names);
    g_ptr_array_sort(sorted, compare_names);

    g_autoptr(GPtrArray) folds = g_ptr_array_new_with_free_func((GDestroyNotify)fold_free);
    g_autoptr(GHashTable) by_key = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < sorted->len; i++) {
        Number number = last_number(sorted->pdata[i]);
        fold_add(find_fold(by_key, folds, sorted->pdata[i], &number), &number);
    }
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < folds->len; i++)
        fold_write(folds->pdata[i], text);
    return g_string_free(text, FALSE);
}
