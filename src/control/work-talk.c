#include "errors.h"
#include "roster.h"
#include "work.h"

/* What is asked of a node. */
typedef struct Talk {
    WeftWork *work;
    char *node;         /* id */
    guint64 generation; /* of the members that it was told of */
    gint64 deadline;
} Talk;

static void
begin(WeftWork *work, const WeftNodeWork *item, const WeftLinkAsk *ask)
{
    const WeftNode *node = item->node;
    const WeftHost *host = weft_fleet_host(work->control->fleet, node->host);
    g_autofree char *domain = weft_node_domain(node);
    WeftLinkAddress address = { node->id, domain, host->name, host->uri };
    /* Whoever retires it drops its link: there is nothing to cancel. */
    g_hash_table_insert(work->jobs, g_strdup(node->id), NULL);
    weft_links_want(work->control->links, &address, ask);
}

static Talk *
talk_new(WeftWork *work, const WeftNode *node, gint64 deadline)
{
    Talk talk = { work, g_strdup(node->id), work->status->generation, deadline };
    return g_memdup2(&talk, sizeof talk);
}

static WeftNodeWork *
talk_ended(const Talk *talk)
{
    return weft_work_step_ended(talk->work, talk->node);
}

static void
talk_free(gpointer data)
{
    Talk *talk = data;
    g_free(talk->node);
    g_free(talk);
}

/* --- the first answer --- */

static void
come_up(WeftWork *work, WeftNodeWork *item)
{
    weft_work_set_phase(work, item, WEFT_NODE_UP, NULL, NULL);
    weft_rest_pass(&item->rest, WEFT_DEED_GREET);
}

static void
greeted(int fd, const char *output, const GError *error, gpointer data)
{
    const Talk *talk = data;
    WeftWork *work = talk->work;
    WeftNodeWork *item = talk_ended(talk);
    if (item && item->node->phase == WEFT_NODE_CLAIMED) {
        if (error)
            weft_work_start_failed(work, item, &(WeftMishap){ WEFT_DEED_GREET, talk->deadline, error });
        else
            come_up(work, item);
    }
}

void
weft_work_greet(WeftWork *work, WeftNodeWork *item)
{
    gint64 deadline = work->control->options.await_deadline;
    Talk *talk = talk_new(work, item->node, deadline);
    begin(work, item, &(WeftLinkAsk){ .deadline = deadline, .done = greeted, .data = talk, .free = talk_free });
}

/* --- reaching the others --- */

static int
compare_ranks(gconstpointer a, gconstpointer b)
{
    guint x = (*(WeftNode *const *)a)->rank, y = (*(WeftNode *const *)b)->rank;
    return x < y ? -1 : x > y;
}

static char *
list_members(const WeftWork *work)
{
    g_autoptr(GPtrArray) nodes = g_ptr_array_new(), leaves = g_ptr_array_new();
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNode *node = ((const WeftNodeWork *)work->nodes->pdata[i])->node;
        if (node->phase == WEFT_NODE_UP || node->phase == WEFT_NODE_READY)
            g_ptr_array_add(nodes, node);
    }
    g_ptr_array_sort(nodes, compare_ranks);
    for (guint i = 0; i < nodes->len; i++)
        g_ptr_array_add(leaves, (char *)weft_fleet_leaf(work->control->fleet, ((const WeftNode *)nodes->pdata[i])->host));
    return weft_roster_members(nodes, leaves);
}

/* A thousand nodes are told of a thousand: what is the same for all is made once. */
static char *
roster_for(WeftWork *work, const WeftNode *self)
{
    if (!work->members)
        work->members = list_members(work);
    g_autofree char *roster = weft_roster_format(work->status->generation, self->rank, work->members);
    /* The guest program must have given up before we do: it knows better who does not answer. */
    gint64 seconds = work->control->options.meet_deadline / G_USEC_PER_SEC;
    return g_strdup_printf("%swithin %" G_GINT64_FORMAT "\n", roster, MAX(seconds - seconds / 4, 1));
}

static void
met(WeftWork *work, WeftNodeWork *item, guint64 generation)
{
    WeftNode *node = item->node;
    weft_work_set_phase(work, item, WEFT_NODE_READY, NULL, NULL);
    g_clear_pointer(&node->reason, g_free);
    g_clear_pointer(&node->detail, g_free);
    node->met = generation;
    node->starts = 0;
    weft_rest_clear(&item->rest);
}

/* One that was ready goes on with what it does: only one that never was is started anew. */
static void
meeting_failed(WeftWork *work, WeftNodeWork *item, gint64 deadline, const GError *error)
{
    gboolean silent = !g_error_matches(error, WEFT_ERROR, WEFT_ERROR_FAILED);
    g_autofree char *words = weft_words(WEFT_DEED_MEET, error, deadline);
    /* What the tenant's own guest says of its own nodes is theirs to read. */
    g_autofree char *said = silent ? g_strdup(words) : g_strdup_printf("%s: %s", words, error->message);
    weft_work_node_rests(work, item, WEFT_DEED_MEET, said, error->message);
    if (silent)
        weft_hosts_hint(work->control->hosts, item->node->host);
    if (!silent || item->node->phase != WEFT_NODE_UP || item->rest.attempts < work->control->options.starts_max)
        return;
    g_autofree char *reason = g_strdup_printf("%s (try %u)", words, item->rest.attempts);
    weft_work_set_phase(work, item, WEFT_NODE_FAILED, reason, error->message);
    item->stopped = FALSE;
}

static void
answered(int fd, const char *output, const GError *error, gpointer data)
{
    const Talk *talk = data;
    WeftWork *work = talk->work;
    WeftNodeWork *item = talk_ended(talk);
    if (item && (item->node->phase == WEFT_NODE_UP || item->node->phase == WEFT_NODE_READY)) {
        /* Who does not answer may be one that has left meanwhile: those of now decide. */
        gboolean stale = talk->generation != work->status->generation;
        if (stale && g_error_matches(error, WEFT_ERROR, WEFT_ERROR_FAILED))
            return;
        if (error)
            meeting_failed(work, item, talk->deadline, error);
        else
            met(work, item, talk->generation);
    }
}

void
weft_work_meet(WeftWork *work, WeftNodeWork *item)
{
    g_autofree char *roster = roster_for(work, item->node);
    gint64 deadline = work->control->options.meet_deadline;
    begin(work, item,
          &(WeftLinkAsk){ .kind = "meet",
                          .input = roster,
                          .deadline = deadline,
                          .done = answered,
                          .data = talk_new(work, item->node, deadline),
                          .free = talk_free });
}
