#include "size.h"

#include "errors.h"
#include "text.h"

#define FRACTION_DIGITS_MAX 18

static const char units[] = "KMGTP";

/* What is counted, and how. */
typedef struct Measure {
    const char *name;
    guint64 step; /* each unit is so many times the one before */
    const char *examples;
    const char *whole;
} Measure;

static const Measure size = { "size", 1024, "512M, 8G or 1T", "bytes" };
static const Measure rate = { "rate", 1000, "500M, 10G or 2.5G", "bits" };

static gboolean
refuse(const Measure *measure, const char *text, const char *why, GError **error)
{
    g_autofree char *quoted = weft_text_quote(text);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s %s %s; write it like %s", measure->name, quoted, why,
                measure->examples);
    return FALSE;
}

static guint64
scale_of(const Measure *measure, guint unit)
{
    guint64 scale = 1;
    while (unit-- > 0)
        scale *= measure->step;
    return scale;
}

/* What the suffix stands for; 0: nothing. */
static guint64
suffix_scale(const Measure *measure, const char *suffix)
{
    if (!*suffix)
        return 1;
    const char *unit = strchr(units, g_ascii_toupper(*suffix));
    const char *rest = suffix + 1;
    gboolean binary = measure == &size && (strcmp(rest, "i") == 0 || strcmp(rest, "iB") == 0);
    return unit && (!*rest || binary) ? scale_of(measure, (guint)(unit - units) + 1) : 0;
}

/* What is behind the decimal point, which must come to a whole number: so it ends within 18 digits, or in zeros. */
static gboolean
read_fraction(const char *digits, gsize n, guint64 unit, guint64 *ret_part)
{
    while (n > 0 && digits[n - 1] == '0')
        n--;
    if (n > FRACTION_DIGITS_MAX)
        return FALSE;
    guint64 fraction = 0, scale = 1;
    for (gsize i = 0; i < n; i++, scale *= 10)
        fraction = fraction * 10 + (guint64)(digits[i] - '0');
    unsigned __int128 product = (unsigned __int128)fraction * unit;
    *ret_part = (guint64)(product / scale);
    return product % scale == 0;
}

static gboolean
parse(const Measure *measure, const char *text, guint64 *ret_number, GError **error)
{
    static const char decimal[] = "0123456789";
    gsize whole = strspn(text, decimal);
    gboolean pointed = text[whole] == '.';
    const char *fraction = text + whole + pointed;
    gsize fraction_digits = pointed ? strspn(fraction, decimal) : 0;
    guint64 unit = suffix_scale(measure, fraction + fraction_digits);
    if (whole == 0 || unit == 0 || (pointed && fraction_digits == 0))
        return refuse(measure, text, *text ? "is not understood" : "is empty", error);

    guint64 number = 0, part;
    g_autofree char *uneven = g_strdup_printf("is not a whole number of %s", measure->whole);
    for (gsize i = 0; i < whole; i++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, text[i] - '0', &number))
            return refuse(measure, text, "is too large", error);
    if (__builtin_mul_overflow(number, unit, &number))
        return refuse(measure, text, "is too large", error);
    if (!read_fraction(fraction, fraction_digits, unit, &part))
        return refuse(measure, text, uneven, error);
    if (__builtin_add_overflow(number, part, &number))
        return refuse(measure, text, "is too large", error);
    *ret_number = number;
    return TRUE;
}

/* "1.5" for 1536 in units of 1024; NULL where three decimals cannot hold it. */
static char *
in_unit(guint64 number, guint64 unit)
{
    unsigned __int128 thousandths = (unsigned __int128)number * 1000;
    if (thousandths % unit)
        return NULL;
    guint64 decimals = (guint64)(thousandths / unit % 1000);
    if (decimals == 0)
        return g_strdup_printf("%" G_GUINT64_FORMAT, number / unit);
    int width = 3;
    for (; decimals % 10 == 0; decimals /= 10)
        width--;
    return g_strdup_printf("%" G_GUINT64_FORMAT ".%0*" G_GUINT64_FORMAT, number / unit, width, decimals);
}

static char *
format(const Measure *measure, guint64 number)
{
    char *best = g_strdup_printf("%" G_GUINT64_FORMAT, number);
    for (guint i = 0; units[i]; i++) {
        g_autofree char *text = in_unit(number, scale_of(measure, i + 1));
        if (text && strlen(text) + 1 < strlen(best)) {
            g_free(best);
            best = g_strdup_printf("%s%c", text, units[i]);
        }
    }
    return best;
}

gboolean
weft_size_parse(const char *text, guint64 *ret_bytes, GError **error)
{
    return parse(&size, text, ret_bytes, error);
}

char *
weft_size_format(guint64 bytes)
{
    return format(&size, bytes);
}

char *
weft_size_about(guint64 bytes)
{
    guint unit = 0;
    while (units[unit] && scale_of(&size, unit + 1) <= bytes / 10)
        unit++;
    guint64 scale = scale_of(&size, unit), rounded = bytes / scale + (bytes % scale >= (scale + 1) / 2);
    return g_strdup_printf("%" G_GUINT64_FORMAT "%c", rounded, unit ? units[unit - 1] : 'B');
}

gboolean
weft_rate_parse(const char *text, guint64 *ret_bits, GError **error)
{
    return parse(&rate, text, ret_bits, error);
}

char *
weft_rate_format(guint64 bits)
{
    return format(&rate, bits);
}
