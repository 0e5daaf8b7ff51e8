#include "size.h"

#include "errors.h"
#include "text.h"

#define FRACTION_DIGITS_MAX 18

static const char units[] = "KMGTP"; /* each 1024 times the one before */

static gboolean
refuse(const char *text, const char *why, GError **error)
{
    g_autofree char *quoted = weft_text_quote(text);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "size %s %s; write it like 512M, 8G or 1T", quoted, why);
    return FALSE;
}

/* The shift of the suffix, or -1. */
static int
suffix_shift(const char *suffix)
{
    if (!*suffix)
        return 0;
    const char *unit = strchr(units, g_ascii_toupper(*suffix));
    const char *rest = suffix + 1;
    if (!unit || (*rest && strcmp(rest, "i") != 0 && strcmp(rest, "iB") != 0))
        return -1;
    return 10 * (int)(unit - units + 1);
}

/* Adds what is behind the decimal point, which must come to whole bytes: so it ends within 18 digits, or in zeros. */
static gboolean
add_fraction(const char *digits, gsize n, int shift, guint64 *bytes)
{
    while (n > 0 && digits[n - 1] == '0')
        n--;
    if (n > FRACTION_DIGITS_MAX)
        return FALSE;
    guint64 fraction = 0, scale = 1;
    for (gsize i = 0; i < n; i++, scale *= 10)
        fraction = fraction * 10 + (guint64)(digits[i] - '0');
    unsigned __int128 product = (unsigned __int128)fraction << shift;
    *bytes = (guint64)(product / scale);
    return product % scale == 0;
}

gboolean
weft_size_parse(const char *text, guint64 *ret_bytes, GError **error)
{
    static const char decimal[] = "0123456789";
    gsize whole = strspn(text, decimal);
    gboolean pointed = text[whole] == '.';
    const char *fraction = text + whole + pointed;
    gsize fraction_digits = pointed ? strspn(fraction, decimal) : 0;
    int shift = suffix_shift(fraction + fraction_digits);
    if (whole == 0 || shift < 0 || (pointed && fraction_digits == 0))
        return refuse(text, *text ? "is not understood" : "is empty", error);

    guint64 bytes = 0, part;
    for (gsize i = 0; i < whole; i++)
        if (__builtin_mul_overflow(bytes, 10, &bytes) || __builtin_add_overflow(bytes, text[i] - '0', &bytes))
            return refuse(text, "is too large", error);
    if (__builtin_mul_overflow(bytes, G_GUINT64_CONSTANT(1) << shift, &bytes))
        return refuse(text, "is too large", error);
    if (!add_fraction(fraction, fraction_digits, shift, &part))
        return refuse(text, "is not a whole number of bytes", error);
    if (__builtin_add_overflow(bytes, part, &bytes))
        return refuse(text, "is too large", error);
    *ret_bytes = bytes;
    return TRUE;
}

/* "1.5" for 1536 with shift 10; NULL where three decimals cannot hold it. */
static char *
in_unit(guint64 bytes, int shift)
{
    unsigned __int128 thousandths = (unsigned __int128)bytes * 1000;
    if (thousandths & (((unsigned __int128)1 << shift) - 1))
        return NULL;
    guint64 decimals = (guint64)((thousandths >> shift) % 1000);
    if (decimals == 0)
        return g_strdup_printf("%" G_GUINT64_FORMAT, bytes >> shift);
    int width = 3;
    for (; decimals % 10 == 0; decimals /= 10)
        width--;
    return g_strdup_printf("%" G_GUINT64_FORMAT ".%0*" G_GUINT64_FORMAT, bytes >> shift, width, decimals);
}

char *
weft_size_format(guint64 bytes)
{
    char *best = g_strdup_printf("%" G_GUINT64_FORMAT, bytes);
    for (guint i = 0; units[i]; i++) {
        g_autofree char *number = in_unit(bytes, 10 * (int)(i + 1));
        if (number && strlen(number) + 1 < strlen(best)) {
            g_free(best);
            best = g_strdup_printf("%s%c", number, units[i]);
        }
    }
    return best;
}
