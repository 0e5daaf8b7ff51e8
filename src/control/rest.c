#include "rest.h"

#include "clock.h"

static gint64
back_off(WeftRest *rest, const WeftBackoff *backoff)
{
    gint64 delay = weft_backoff_delay(backoff, ++rest->attempts);
    rest->not_before = g_get_monotonic_time() + delay;
    return delay;
}

void
weft_rest_wait(WeftRest *rest, const WeftBackoff *backoff)
{
    back_off(rest, backoff);
}

void
weft_rest_say(WeftRest *rest, WeftDeed deed, const char *what, const char *detail)
{
    char *copies[] = { g_strdup(what), g_strdup(detail) };
    g_free(rest->what);
    g_free(rest->detail);
    rest->deed = deed;
    rest->delay = 0;
    rest->what = copies[0];
    rest->detail = copies[1];
}

void
weft_rest_fail(WeftRest *rest, const WeftBackoff *backoff, WeftDeed deed, const char *what, const char *detail)
{
    gint64 delay = back_off(rest, backoff);
    weft_rest_say(rest, deed, what, detail);
    rest->delay = delay;
}

char *
weft_rest_text(const WeftRest *rest)
{
    if (!rest->delay)
        return g_strdup(rest->what);
    g_autofree char *delay = weft_duration_format(rest->delay);
    return g_strdup_printf("%s; try %u in %s", rest->what, rest->attempts + 1, delay);
}

void
weft_rest_pass(WeftRest *rest, WeftDeed deed)
{
    if (rest->deed <= deed)
        weft_rest_say(rest, deed, NULL, NULL);
}

void
weft_rest_clear(WeftRest *rest)
{
    weft_rest_say(rest, 0, NULL, NULL);
    *rest = (WeftRest){ 0 };
}
