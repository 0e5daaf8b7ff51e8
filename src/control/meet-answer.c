#include "meet-answer.h"

#include "protocol.h"

#include <string.h>

const char *
weft_meet_answer_next(const char **rest, const char *word)
{
    gsize length = strlen(word);
    for (const char *line = *rest; line && *line; line = *rest) {
        const char *end = strchr(line, '\n');
        *rest = end ? end + 1 : NULL;
        if (strncmp(line, word, length) == 0 && line[length] == ' ')
            return line + length + 1;
    }
    return NULL;
}

/* The number at *p, or n where it is larger. */
static guint
read_rank(const char **p, guint n)
{
    guint64 rank = 0;
    for (; g_ascii_isdigit(**p); ++*p)
        rank = MIN(rank * 10 + (guint64)(**p - '0'), n);
    return (guint)rank;
}

static void
count_rank(GByteArray *counts, guint rank, const guint8 *addresses, guint n)
{
    if (rank >= n || addresses[rank] == 0)
        return;
    guint before = counts->len;
    if (rank >= before) {
        g_byte_array_set_size(counts, rank + 1);
        memset(counts->data + before, 0, rank + 1 - before);
    }
    if (counts->data[rank] < addresses[rank])
        counts->data[rank]++;
}

GByteArray *
weft_meet_answer_unreached(const char *output, const guint8 *addresses, guint n)
{
    GByteArray *counts = g_byte_array_new();
    const char *rest = output, *p;
    while ((p = weft_meet_answer_next(&rest, WEFT_MEET_UNREACHED))) {
        while (g_ascii_isdigit(*p)) {
            count_rank(counts, read_rank(&p, n), addresses, n);
            if (*p == ' ')
                p++;
        }
    }
    return counts;
}
