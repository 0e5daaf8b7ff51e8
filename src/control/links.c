#include "links.h"

#include "clock.h"
#include "errors.h"
#include "rest.h"
#include "wakeup.h"
#include "watchdog.h"

#define BOOT_MAX 64        /* characters */
#define DELIVER_SLICE 2000 /* microseconds of wishes before the main loop looks at others */

typedef struct Entry {
    WeftLinks *links;
    char *node;
    char *host;
    GCancellable *opening; /* of the job under way, borrowed; NULL: none */
    WeftLink *link;
    gboolean greeted;
    char *boot;     /* of the guest that greeted */
    char *expected; /* … that should have; NULL: any */
    gboolean dead;  /* only the job's end is waited for */
    GQueue wishes;  /* Wish */
    gint64 used_at; /* monotonic */
    GList at;       /* its place among those that rest */
    gboolean resting;
} Entry;

typedef struct Wish {
    Entry *entry;
    WeftLinkAsk ask;
    char *input;               /* the ask's: a copy … */
    GBytes *more;              /* … and a reference */
    GCancellable *cancellable; /* of the question to the node */
    gboolean asking;
    gboolean late;
    guint timer;
    GList at; /* its place among those that are due */
    gboolean due;
} Wish;

struct WeftLinks {
    WeftJobs *jobs;
    WeftLinkLimits limits;
    WeftLinkListener listener;
    GHashTable *by_node; /* Entry */
    GHashTable *dying;   /* set of Entry whose job has not ended yet */
    GHashTable *breaks;  /* node to WeftRest: those whose links were lost lately */
    GQueue resting;      /* Entry, open and without wishes, longest unused first */
    GQueue due;          /* Wish, of links that have greeted, in their order */
    GSource *deliverer;
    guint sweeper;
};

static void close_entry(Entry *entry, const GError *error);

static void
entry_free(gpointer data)
{
    Entry *entry = data;
    weft_link_free(entry->link);
    g_free(entry->node);
    g_free(entry->host);
    g_free(entry->boot);
    g_free(entry->expected);
    g_free(entry);
}

/* --- those that nobody wants anything of just now --- */

static void
rest(Entry *entry)
{
    entry->used_at = g_get_monotonic_time();
    entry->at = (GList){ .data = entry };
    entry->resting = TRUE;
    g_queue_push_tail_link(&entry->links->resting, &entry->at);
}

static void
stir(Entry *entry)
{
    if (entry->resting)
        g_queue_unlink(&entry->links->resting, &entry->at);
    entry->resting = FALSE;
}

/* Ends the one that was not used for longest, unless there is a session on it. FALSE: it was used after that time. */
static gboolean
end_oldest(WeftLinks *links, gint64 since)
{
    Entry *oldest = g_queue_peek_head(&links->resting);
    if (!oldest || oldest->used_at > since)
        return FALSE;
    stir(oldest);
    if (weft_link_sessions(oldest->link)) {
        rest(oldest);
    } else {
        g_hash_table_remove(links->by_node, oldest->node);
        close_entry(oldest, NULL);
    }
    return TRUE;
}

/* --- wishes --- */

/* It is delivered soon: not at once, since whoever asked is in the middle of something. */
static void
make_due(Wish *wish)
{
    WeftLinks *links = wish->entry->links;
    wish->at = (GList){ .data = wish };
    wish->due = TRUE;
    g_queue_push_tail_link(&links->due, &wish->at);
    weft_wakeup_ask(links->deliverer);
}

static void
leave_due(Wish *wish)
{
    if (wish->due)
        g_queue_unlink(&wish->entry->links->due, &wish->at);
    wish->due = FALSE;
}

static void
wish_free(Wish *wish)
{
    g_clear_handle_id(&wish->timer, g_source_remove);
    leave_due(wish);
    g_object_unref(wish->cancellable);
    g_free(wish->input);
    g_clear_pointer(&wish->more, g_bytes_unref);
    g_free(wish);
}

/* Ends a wish. The callback may do anything, also drop the link. */
static void
finish(Wish *wish, int fd, const char *output, const GError *error)
{
    WeftLinkAsk ask = wish->ask;
    Entry *entry = wish->entry;
    WeftLinks *links = entry->links;
    g_queue_remove(&entry->wishes, wish);
    wish_free(wish);
    if (entry->link && entry->greeted && !entry->wishes.length) {
        rest(entry);
        if (links->resting.length > links->limits.resting)
            end_oldest(links, G_MAXINT64);
    }
    if (ask.done)
        ask.done(fd, output, error, ask.data);
    if (ask.free)
        ask.free(ask.data);
}

static void
fail_late(Wish *wish)
{
    g_autofree char *limit = weft_duration_format(wish->ask.deadline);
    g_autoptr(GError) error = g_error_new(WEFT_ERROR, WEFT_ERROR_TIMEOUT, "no answer from inside within %s", limit);
    finish(wish, -1, NULL, error);
}

static void
answered(const char *output, const GError *error, gpointer data)
{
    Wish *wish = data;
    if (wish->late)
        fail_late(wish);
    else
        finish(wish, -1, output, error);
}

static void
deliver(Wish *wish)
{
    g_autoptr(GError) error = NULL;
    if (wish->ask.connect) {
        int fd = weft_link_connect(wish->entry->link, &error);
        finish(wish, fd, NULL, error);
    } else if (wish->ask.kind) {
        wish->asking = TRUE;
        const WeftQuestion question = { wish->ask.kind, wish->input, wish->more };
        weft_link_ask(wish->entry->link, &question, wish->cancellable, answered, wish);
    } else {
        finish(wish, -1, NULL, NULL);
    }
}

/* A thousand nodes are told of a thousand at the same time: a few in each turn of the main loop. */
static void
deliver_due(gpointer data)
{
    WeftLinks *links = data;
    gint64 end = g_get_monotonic_time() + DELIVER_SLICE;
    for (Wish *wish; (wish = g_queue_peek_head(&links->due));) {
        weft_watchdog_mark("what is asked of node", wish->entry->node);
        leave_due(wish);
        deliver(wish);
        if (g_get_monotonic_time() > end) {
            weft_wakeup_ask(links->deliverer);
            return;
        }
    }
}

static gboolean
deadline_passed(gpointer data)
{
    Wish *wish = data;
    Entry *entry = wish->entry;
    wish->timer = 0;
    wish->late = TRUE;
    if (wish->asking) {
        g_cancellable_cancel(wish->cancellable); /* the node is told, and its answer ends the wish */
        return G_SOURCE_REMOVE;
    }
    /* Nobody waits any more for one that has not even greeted. Whoever is told may drop it: then it is gone already. */
    gboolean last = entry->wishes.length == 1 && !entry->greeted;
    if (last)
        g_hash_table_remove(entry->links->by_node, entry->node);
    fail_late(wish);
    if (last)
        close_entry(entry, NULL);
    return G_SOURCE_REMOVE;
}

/* --- links --- */

/* Out of the table already, or never in it again. error NULL: nobody waits. */
static void
close_entry(Entry *entry, const GError *error)
{
    Wish *wish;
    stir(entry);
    entry->dead = TRUE;
    g_clear_pointer(&entry->link, weft_link_free);
    while ((wish = g_queue_peek_head(&entry->wishes)))
        finish(wish, -1, NULL, error);
    if (!entry->opening) {
        entry_free(entry);
        return;
    }
    g_cancellable_cancel(entry->opening);
    g_hash_table_add(entry->links->dying, entry);
}

/* Fit for a record, whatever the guest said. */
static const char *
boot_of(GHashTable *facts)
{
    const char *boot = g_hash_table_lookup(facts, "boot");
    gsize n = 0;
    while (boot && n <= BOOT_MAX && g_ascii_isgraph(boot[n]))
        n++;
    return n > 0 && n <= BOOT_MAX && !boot[n] ? boot : WEFT_BOOT_UNTOLD;
}

static void
compare_boots(const Entry *entry)
{
    const WeftLinkListener *listener = &entry->links->listener;
    if (entry->expected && !g_str_equal(entry->expected, entry->boot))
        listener->rebooted(entry->node, entry->boot, listener->data);
}

static void
greeted(WeftLink *link, GHashTable *facts, const GError *error, gpointer data)
{
    Entry *entry = data;
    if (error) {
        g_hash_table_remove(entry->links->by_node, entry->node);
        close_entry(entry, error);
        return;
    }
    entry->greeted = TRUE;
    entry->boot = g_strdup(boot_of(facts));
    compare_boots(entry);
    for (GList *item = entry->wishes.head; item; item = item->next)
        make_due(item->data);
}

/* Has the node's link broken a moment ago? Such a moment is the longer the more of them there were in a row. */
static gboolean
breaks_again(WeftLinks *links, const char *node)
{
    WeftRest *rest = g_hash_table_lookup(links->breaks, node);
    if (rest && !weft_rest_is_over(rest, g_get_monotonic_time()))
        return TRUE;
    if (!rest) {
        rest = g_new0(WeftRest, 1);
        g_hash_table_insert(links->breaks, g_strdup(node), rest);
    }
    weft_rest_wait(rest, &links->limits.breaks);
    return FALSE;
}

/* A node that kept its link for the longest such moment begins a new row. */
static gboolean
is_forgiven(gpointer node, gpointer rest, gpointer data)
{
    const WeftLinks *links = data;
    return weft_rest_is_over(rest, g_get_monotonic_time() - links->limits.breaks.max);
}

static void
lost(WeftLink *link, const GError *error, gpointer data)
{
    Entry *entry = data;
    WeftLinks *links = entry->links;
    g_autofree char *host = g_strdup(entry->host);
    gboolean again = breaks_again(links, entry->node);
    g_hash_table_remove(links->by_node, entry->node);
    close_entry(entry, error);
    links->listener.lost(host, again, links->listener.data);
}

static void
opened(WeftJob *job, const GError *error)
{
    Entry *entry = job->owner;
    entry->opening = NULL;
    if (entry->dead) {
        g_hash_table_remove(entry->links->dying, entry);
        return;
    }
    if (error) {
        /* FAILED is the guest's own word, which its tenant may read: what a driver says is for operators. */
        g_autoptr(GError) unreached = g_error_copy(error);
        if (g_error_matches(error, WEFT_ERROR, WEFT_ERROR_FAILED))
            unreached->code = WEFT_ERROR_UNAVAILABLE;
        g_hash_table_remove(entry->links->by_node, entry->node);
        close_entry(entry, unreached);
        return;
    }
    entry->link = weft_link_new(job->fd, greeted, lost, entry);
    job->fd = -1;
}

static Entry *
open_entry(WeftLinks *links, const WeftLinkAddress *address)
{
    Entry *entry = g_new0(Entry, 1);
    entry->links = links;
    entry->node = g_strdup(address->node);
    entry->host = g_strdup(address->host);
    g_hash_table_insert(links->by_node, entry->node, entry);
    WeftJob *job = weft_job_new(WEFT_STEP_OPEN, address->host, address->uri, address->domain);
    job->channel = WEFT_CHANNEL_GUEST;
    job->deadline = links->limits.open_deadline;
    job->owner = entry;
    job->done = opened;
    entry->opening = job->cancellable;
    weft_jobs_submit(links->jobs, job);
    return entry;
}

void
weft_links_want(WeftLinks *links, const WeftLinkAddress *address, const WeftLinkAsk *ask)
{
    Entry *entry = g_hash_table_lookup(links->by_node, address->node);
    if (!entry)
        entry = open_entry(links, address);
    stir(entry);
    g_free(entry->expected);
    entry->expected = g_strdup(address->boot);
    if (entry->greeted)
        compare_boots(entry);
    Wish *wish = g_new0(Wish, 1);
    wish->entry = entry;
    wish->ask = *ask;
    wish->input = g_strdup(ask->input);
    wish->more = ask->more ? g_bytes_ref(ask->more) : NULL;
    wish->cancellable = g_cancellable_new();
    wish->timer = g_timeout_add((guint)(ask->deadline / 1000), deadline_passed, wish);
    if (entry->greeted)
        make_due(wish);
    g_queue_push_tail(&entry->wishes, wish);
}

/* The last wish of a link that has not greeted stays, without anybody: the link is opened to its end, or to that wish's
 * deadline, and whoever asks next joins in. Hanging up again and again opens no more than one. */
void
weft_links_forget(WeftLinks *links, const char *node, gconstpointer data)
{
    Entry *entry = g_hash_table_lookup(links->by_node, node);
    for (GList *item = entry ? entry->wishes.head : NULL; item; item = item->next) {
        Wish *wish = item->data;
        if (wish->ask.data != data)
            continue;
        wish->ask = (WeftLinkAsk){ .deadline = wish->ask.deadline };
        if (!wish->asking && (entry->greeted || entry->wishes.length > 1))
            finish(wish, -1, NULL, NULL);
        return;
    }
}

const char *
weft_links_boot(const WeftLinks *links, const char *node)
{
    const Entry *entry = g_hash_table_lookup(links->by_node, node);
    return entry ? entry->boot : NULL;
}

void
weft_links_drop(WeftLinks *links, const char *node)
{
    Entry *entry = g_hash_table_lookup(links->by_node, node);
    if (!entry)
        return;
    g_hash_table_remove(links->by_node, node);
    g_autoptr(GError) error = g_error_new(WEFT_ERROR, WEFT_ERROR_UNAVAILABLE, "the node was stopped");
    close_entry(entry, error);
}

/* --- life --- */

static gboolean
sweep(gpointer data)
{
    WeftLinks *links = data;
    gint64 since = g_get_monotonic_time() - links->limits.idle;
    while (end_oldest(links, since)) {
    }
    g_hash_table_foreach_remove(links->breaks, is_forgiven, links);
    return G_SOURCE_CONTINUE;
}

WeftLinks *
weft_links_new(WeftJobs *jobs, const WeftLinkLimits *limits, const WeftLinkListener *listener)
{
    WeftLinks *links = g_new0(WeftLinks, 1);
    *links = (WeftLinks){ .jobs = jobs, .limits = *limits, .listener = *listener };
    links->by_node = g_hash_table_new(g_str_hash, g_str_equal);
    links->dying = g_hash_table_new_full(NULL, NULL, entry_free, NULL);
    links->breaks = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    links->deliverer = weft_wakeup_new(deliver_due, links);
    links->sweeper = g_timeout_add((guint)MAX(limits->idle / 2000, 10), sweep, links);
    return links;
}

static void
entry_bury(Entry *entry)
{
    Wish *wish;
    g_clear_pointer(&entry->link, weft_link_free);
    while ((wish = g_queue_peek_head(&entry->wishes))) {
        wish->ask.done = NULL;
        finish(wish, -1, NULL, NULL);
    }
    entry_free(entry);
}

void
weft_links_free(WeftLinks *links)
{
    if (!links)
        return;
    g_clear_handle_id(&links->sweeper, g_source_remove);
    GHashTableIter iter;
    gpointer entry;
    g_hash_table_iter_init(&iter, links->by_node);
    while (g_hash_table_iter_next(&iter, NULL, &entry))
        entry_bury(entry);
    g_hash_table_unref(links->by_node);
    g_hash_table_unref(links->dying);
    g_hash_table_unref(links->breaks);
    g_source_destroy(links->deliverer);
    g_source_unref(links->deliverer);
    g_free(links);
}
