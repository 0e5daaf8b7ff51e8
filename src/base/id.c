#include "id.h"

#include <errno.h>
#include <sys/random.h>

static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyz";

void
weft_random_bytes(void *buffer, gsize n)
{
    char *p = buffer;
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno != EINTR)
            g_error("getrandom: %s", g_strerror(errno));
        if (got > 0) {
            p += got;
            n -= (gsize)got;
        }
    }
}

guint64
weft_random_u64(void)
{
    guint64 value;
    weft_random_bytes(&value, sizeof value);
    return value;
}

char *
weft_id_new(void)
{
    char *id = g_malloc(WEFT_ID_LENGTH + 1);
    guint64 random = weft_random_u64();
    id[0] = (char)('0' + random % 10);
    random /= 10;
    for (guint i = 1; i < WEFT_ID_LENGTH; i++, random /= 36)
        id[i] = alphabet[random % 36];
    id[WEFT_ID_LENGTH] = '\0';
    return id;
}

gboolean
weft_id_is_valid(const char *text)
{
    return strlen(text) == WEFT_ID_LENGTH && g_ascii_isdigit(text[0]) && strspn(text, alphabet) == WEFT_ID_LENGTH;
}
