#include "cpu-set.h"

#include <string.h>

void
weft_cpu_set_add_list(WeftCpuSet *set, const char *text)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", -1);
    for (guint i = 0; parts[i]; i++) {
        g_auto(GStrv) range = g_strsplit(parts[i], "-", 2);
        guint64 first, last;
        if (!range[0] || !g_ascii_string_to_unsigned(range[0], 10, 0, WEFT_CPUS_MAX - 1, &first, NULL) ||
            !g_ascii_string_to_unsigned(range[1] ? range[1] : range[0], 10, 0, WEFT_CPUS_MAX - 1, &last, NULL))
            continue;
        for (guint64 cpu = first; cpu <= last; cpu++)
            set->has[cpu] = TRUE;
    }
}

void
weft_cpu_set_add_mask(WeftCpuSet *set, const char *text)
{
    guint cpu = 0;
    for (gsize i = strlen(text); i-- > 0 && cpu < WEFT_CPUS_MAX;) {
        int digit = g_ascii_xdigit_value(text[i]);
        for (guint bit = 0; digit >= 0 && bit < 4; bit++, cpu++)
            set->has[cpu] |= digit >> bit & 1;
    }
}

void
weft_cpu_set_keep(WeftCpuSet *set, const WeftCpuSet *other, gboolean others)
{
    for (guint cpu = 0; cpu < WEFT_CPUS_MAX; cpu++)
        set->has[cpu] &= (other->has[cpu] != 0) != others;
}

gboolean
weft_cpu_set_is_empty(const WeftCpuSet *set)
{
    return memchr(set->has, TRUE, sizeof set->has) == NULL;
}

char *
weft_cpu_set_format(const WeftCpuSet *set)
{
    GString *text = g_string_new(NULL);
    for (guint cpu = 0, last; cpu < WEFT_CPUS_MAX; cpu = last + 1) {
        last = cpu;
        if (!set->has[cpu])
            continue;
        while (last + 1 < WEFT_CPUS_MAX && set->has[last + 1])
            last++;
        g_string_append_printf(text, last > cpu ? "%s%u-%u" : "%s%u", text->len ? "," : "", cpu, last);
    }
    return g_string_free(text, FALSE);
}
