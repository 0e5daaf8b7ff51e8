#include "clock.h"
#include "hosts.h"

/* Longer than a host that is well takes, and shorter than a person looks twice: from then on it is told that it does not
 * answer. */
#define LATE_MILLISECONDS 2000

#define WITNESSES 5         /* others that are asked before one is given up */
#define WITNESS_STRIDE 7919 /* a prime: neighbours in the list are often neighbours in a rack */

/* A monotonic time as a clock on the wall shows it: what is told must not change while it is so. */
static char *
clock_text(gint64 time)
{
    gint64 wall = weft_clock_now() - g_get_monotonic_time() + time;
    g_autoptr(GDateTime) date = g_date_time_new_from_unix_utc(wall / G_USEC_PER_SEC);
    return g_date_time_format(date, "%H:%M:%S UTC");
}

/* Of one that answers no look: as is told of its state, which stays the same until the grace time is over. */
static char *
silence_text(const WeftWatch *host)
{
    g_autofree char *since = clock_text(host->unanswered);
    g_autofree char *end = clock_text(host->silent_since + host->control->options.host_grace);
    g_autofree char *why = host->excuse ? g_strdup_printf(" (%s)", host->excuse) : g_strdup("");
    if (host->state == WEFT_HOST_UNKNOWN)
        return g_strdup_printf("connecting to %s since %s%s", weft_fleet_host(host->control->fleet, host->name)->uri, since,
                               why);
    if (host->unsure)
        return g_strdup_printf("does not answer since %s%s, and neither do most others: weftd may be cut off from them, so its "
                               "nodes are not given up; to give them up: weft drain %s --evict",
                               since, why, host->name);
    return host->silent_since ? g_strdup_printf("does not answer since %s%s; its nodes are given up at %s", since, why, end)
                              : g_strdup_printf("does not answer since %s", since);
}

static void
tell(WeftWatch *host)
{
    g_autofree char *text = silence_text(host);
    g_autoptr(GPtrArray) nodes = weft_watch_nodes(host);
    weft_watch_tell_state(host, text, NULL);
    weft_watch_wake_clusters(host, nodes, TRUE);
}

static gboolean
look_is_late(gpointer data)
{
    WeftWatch *host = data;
    host->late = 0;
    if (host->unanswered || host->removed || host->state == WEFT_HOST_LOST)
        return G_SOURCE_REMOVE;
    host->unanswered = host->looked;
    tell(host);
    return G_SOURCE_REMOVE;
}

void
weft_watch_look_begins(WeftWatch *host)
{
    host->looked = g_get_monotonic_time();
    host->late = g_timeout_add(LATE_MILLISECONDS, look_is_late, host);
}

void
weft_watch_look_failed(WeftWatch *host, const char *excuse)
{
    gboolean first = !host->silent_since;
    if (first) {
        host->silent_since = g_get_monotonic_time();
        host->unanswered = host->unanswered ? host->unanswered : host->looked;
        g_free(host->excuse);
        host->excuse = g_strdup(excuse);
    }
    if (host->state == WEFT_HOST_LOST || (!first && !host->unwritten))
        return;
    tell(host);
}

/* Nothing is lost with it, and it says nothing of others: it is lost already, or has never answered. */
static gboolean
is_given_up(const WeftWatch *host)
{
    return host->state == WEFT_HOST_LOST || host->state == WEFT_HOST_UNKNOWN;
}

/* Do most of the others that were asked since it fell silent not answer either, or are all of them lost? FALSE where there is
 * no other. Those that were not asked since are asked now: ret_pending. */
static gboolean
are_witnesses_silent(const WeftWatch *host, gboolean *ret_pending)
{
    const GPtrArray *all = host->control->hosts->round;
    guint64 step = all->len % WITNESS_STRIDE ? WITNESS_STRIDE : 1, at = g_str_hash(host->name);
    guint answer = 0, silent = 0, pending = 0;
    for (guint i = 0; i < all->len && answer + silent + pending < WITNESSES; i++, at += step) {
        const WeftWatch *other = all->pdata[at % all->len];
        if (other == host || other->removed || other->barred || is_given_up(other))
            continue;
        if (other->silent_since) {
            silent++;
        } else if (other->answered && other->looked > host->silent_since && !other->scanning) {
            answer++;
        } else {
            pending++;
            weft_hosts_hint(host->control->hosts, other->name);
        }
    }
    *ret_pending = pending > 0;
    return silent > answer + pending || (all->len > 1 && answer + pending == 0);
}

gboolean
weft_watch_is_lost(WeftWatch *host)
{
    gboolean pending, unsure = are_witnesses_silent(host, &pending), was_unsure = host->unsure, alone = host->alone;
    host->alone = !unsure && !pending;
    if (host->state == WEFT_HOST_LOST)
        return TRUE;
    if (g_get_monotonic_time() - host->silent_since < host->control->options.host_grace)
        return FALSE;
    if (host->evicting || is_given_up(host))
        return TRUE;
    host->unsure = unsure || (was_unsure && pending);
    if (host->unsure && !was_unsure) {
        g_warning("host %s and most others that were asked do not answer: weftd may be cut off; nothing is given up",
                  host->name);
        tell(host);
    }
    /* The look that has just failed may have begun before the others answered again: then the next one tells. */
    return !host->unsure && !pending && alone;
}

gboolean
weft_watch_end_silence(WeftWatch *host)
{
    gboolean told = host->unanswered != 0;
    host->unsure = host->alone = FALSE;
    host->unanswered = host->silent_since = 0;
    g_clear_pointer(&host->excuse, g_free);
    return told;
}

gboolean
weft_hosts_is_silent(const WeftHosts *hosts, const char *name)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    return host && host->unanswered && host->state != WEFT_HOST_LOST;
}

char *
weft_hosts_silence(const WeftHosts *hosts, const char *name, char **ret_detail)
{
    const WeftWatch *host = weft_hosts_find(hosts, name);
    g_autofree char *since = clock_text(host->unanswered);
    g_autofree char *end = clock_text(host->silent_since + host->control->options.host_grace);
    *ret_detail = g_strdup(host->excuse);
    if (host->unsure)
        return g_strdup_printf("does not answer since %s, as most hosts; the nodes there are replaced once others answer",
                               since);
    return host->silent_since
               ? g_strdup_printf("does not answer since %s; unless it does, the nodes there are replaced from %s on", since,
                                 end)
               : g_strdup_printf("does not answer since %s", since);
}
