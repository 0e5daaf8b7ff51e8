#include "pkeys.h"

#include "errors.h"

void
weft_pkeys_add(WeftPkeys *pkeys, guint first, guint last)
{
    if (pkeys->n == G_N_ELEMENTS(pkeys->ranges))
        return;
    pkeys->ranges[pkeys->n].first = first;
    pkeys->ranges[pkeys->n].last = last;
    pkeys->n++;
}

gboolean
weft_pkeys_contain(const WeftPkeys *pkeys, guint pkey)
{
    for (guint i = 0; i < pkeys->n; i++)
        if (pkey >= pkeys->ranges[i].first && pkey <= pkeys->ranges[i].last)
            return TRUE;
    return FALSE;
}

static guint
common_divisor(guint a, guint b)
{
    while (b > 0) {
        guint rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

WeftPkeyOrder
weft_pkey_order(guint first, guint last, guint64 random)
{
    guint n = last - first + 1;
    WeftPkeyOrder order = { first, n, (guint)(random % n), 1 + (guint)((random >> 32) % n) };
    while (common_divisor(order.step, n) != 1)
        order.step++;
    return order;
}

guint
weft_pkey_at(const WeftPkeyOrder *order, guint place)
{
    return order->first + (guint)((order->start + (guint64)place * order->step) % order->n);
}

char *
weft_pkeys_format(const WeftPkeys *pkeys)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < pkeys->n; i++) {
        guint first = pkeys->ranges[i].first, last = pkeys->ranges[i].last;
        g_string_append_printf(text, "%s0x%04x", i ? "+" : "", first);
        if (last != first)
            g_string_append_printf(text, "-0x%04x", last);
    }
    return g_string_free(text, FALSE);
}

static gboolean
parse_number(const char *text, guint *ret_number)
{
    guint64 number;
    if (!g_str_has_prefix(text, "0x") ||
        !g_ascii_string_to_unsigned(text + 2, 16, WEFT_PKEY_FIRST, WEFT_PKEY_LAST, &number, NULL))
        return FALSE;
    *ret_number = (guint)number;
    return TRUE;
}

static gboolean
parse_range(const char *text, guint *ret_first, guint *ret_last)
{
    g_auto(GStrv) ends = g_strsplit(text, "-", 2);
    if (!ends[0] || !parse_number(ends[0], ret_first))
        return FALSE;
    *ret_last = *ret_first;
    return !ends[1] || (parse_number(ends[1], ret_last) && *ret_last >= *ret_first);
}

gboolean
weft_pkeys_parse(const char *text, WeftPkeys *ret_pkeys, GError **error)
{
    WeftPkeys pkeys = { 0 };
    g_auto(GStrv) words = g_strsplit(text, "+", -1);
    for (guint i = 0; words[i]; i++) {
        guint first, last;
        if (!parse_range(words[i], &first, &last))
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "\"%s\" is not a range of P_Keys; write it like 0x%04x-0x%04x, between 0x%04x and 0x%04x",
                                     words[i], WEFT_PKEYS_FIRST, WEFT_PKEYS_LAST, WEFT_PKEY_FIRST, WEFT_PKEY_LAST);
        if (pkeys.n == G_N_ELEMENTS(pkeys.ranges))
            return weft_error_refuse(error, WEFT_ERROR_INVALID, "more than %zu ranges of P_Keys; join some of them",
                                     G_N_ELEMENTS(pkeys.ranges));
        weft_pkeys_add(&pkeys, first, last);
    }
    if (pkeys.n == 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "no P_Key is given; write a range like 0x%04x-0x%04x",
                                 WEFT_PKEYS_FIRST, WEFT_PKEYS_LAST);
    *ret_pkeys = pkeys;
    return TRUE;
}
