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

/* "3" or "08-10"; appends each number as text. */
static gboolean
take_range(Parser *parser, GPtrArray *numbers)
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
    if (numbers->len + (high.value - low.value) >= WEFT_HOSTLIST_MAX)
        return fail(parser, low.start, "expands to more than %d names; split it", WEFT_HOSTLIST_MAX);
    gsize width = is_padded(&low) ? low.length : 1;
    for (guint64 value = low.value; value <= high.value; value++)
        g_ptr_array_add(numbers, format_number(value, width));
    return TRUE;
}

/* The inside of brackets and the bracket that closes them. Returns the numbers as texts, or NULL. */
static GPtrArray *
take_brackets(Parser *parser)
{
    g_autoptr(GPtrArray) numbers = g_ptr_array_new_with_free_func(g_free);
    const char *open = parser->p;
    do {
        parser->p++;
        if (!take_range(parser, numbers))
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
    return g_steal_pointer(&numbers);
}

static GPtrArray *
take_literal(Parser *parser)
{
    gsize length = strspn(parser->p, LETTERS DIGITS "-_.");
    if (length == 0) {
        g_autofree char *rest = weft_text_clip(parser->p);
        fail(parser, parser->p, "\"%s\" is not part of a name; use letters, digits, \"-\", \"_\", \".\" and ranges like [0-3]",
             rest);
        return NULL;
    }
    GPtrArray *alone = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(alone, g_strndup(parser->p, length));
    parser->p += length;
    return alone;
}

/* The parts of one name up to the comma behind it: each is the list of texts that may stand there. */
static GPtrArray *
take_parts(Parser *parser)
{
    g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
    const char *start = parser->p;
    while (*parser->p && *parser->p != ',') {
        GPtrArray *part = *parser->p == '[' ? take_brackets(parser) : take_literal(parser);
        if (!part)
            return NULL;
        g_ptr_array_add(parts, part);
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

/* The product of all parts, in order: the last one changes fastest. */
static gboolean
multiply(Parser *parser, const char *start, GPtrArray *parts, GPtrArray *names)
{
    guint64 total = 1;
    for (guint i = 0; i < parts->len; i++) {
        total *= ((GPtrArray *)parts->pdata[i])->len;
        if (names->len + total > WEFT_HOSTLIST_MAX)
            return fail(parser, start, "expands to more than %d names; split it", WEFT_HOSTLIST_MAX);
    }
    for (guint64 n = 0; n < total; n++) {
        GString *name = g_string_new(NULL);
        guint64 stride = total;
        for (guint i = 0; i < parts->len; i++) {
            GPtrArray *part = parts->pdata[i];
            stride /= part->len;
            g_string_append(name, part->pdata[n / stride % part->len]);
        }
        gsize length = name->len;
        g_ptr_array_add(names, g_string_free(name, FALSE));
        if (length > NAME_MAX_LENGTH)
            return fail(parser, start, "a name is longer than %d characters", NAME_MAX_LENGTH);
    }
    return TRUE;
}

static gboolean
take_list(Parser *parser, GPtrArray *names)
{
    if (strnlen(parser->text, TEXT_MAX + 1) > TEXT_MAX)
        return fail(parser, parser->text, "is longer than %d characters; split it", TEXT_MAX);
    for (;;) {
        const char *start = parser->p;
        g_autoptr(GPtrArray) parts = take_parts(parser);
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
    g_autoptr(GPtrArray) numbers = take_brackets(parser);
    if (!numbers)
        return NULL;
    g_autoptr(GArray) ranks = g_array_sized_new(FALSE, FALSE, sizeof(guint), numbers->len);
    for (guint i = 0; i < numbers->len; i++) {
        guint64 number = g_ascii_strtoull(numbers->pdata[i], NULL, 10);
        if (number > G_MAXUINT) {
            fail(parser, parser->text, "the number %" G_GUINT64_FORMAT " is too large for a node", number);
            return NULL;
        }
        guint rank = (guint)number;
        g_array_append_val(ranks, rank);
    }
    return g_steal_pointer(&ranks);
}

gboolean
weft_hostlist_split(const char *text, char **ret_name, GArray **ret_ranks, GError **error)
{
    Parser parser = { .text = text, .p = text };
    g_autoptr(GPtrArray) name = NULL;
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
    *ret_name = g_strdup(name->pdata[0]);
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
