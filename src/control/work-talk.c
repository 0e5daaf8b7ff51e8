#include "errors.h"
#include "keys.h"
#include "meet-answer.h"
#include "outcasts.h"
#include "promises.h"
#include "protocol.h"
#include "roster.h"
#include "work.h"

#include <string.h>

#define DOUBLINGS_MAX 5 /* of the tries before the next node is moved */
#define KEYS_AT_ONCE 32 /* host keys that a step derives, each in some 0.1 ms */

static void
begin(WeftWork *work, const WeftNodeWork *item, const WeftLinkAsk *ask)
{
    const WeftNode *node = item->node;
    const WeftHost *host = weft_fleet_host(work->control->fleet, node->host);
    g_autofree char *domain = weft_node_domain(node);
    WeftLinkAddress address = { node->id, domain, host->name, host->uri, node->boot };
    /* Whoever retires it drops its link: there is nothing to cancel. */
    g_hash_table_insert(work->jobs, g_strdup(node->id), NULL);
    weft_links_want(work->control->links, &address, ask);
}

static WeftTalk *
talk_new(WeftWork *work, const WeftNode *node, gint64 deadline)
{
    WeftTalk talk = { work, g_strdup(node->id), work->status->generation, deadline };
    return g_memdup2(&talk, sizeof talk);
}

static WeftNodeWork *
talk_ended(const WeftTalk *talk)
{
    return weft_work_step_ended(talk->work, talk->node);
}

static void
talk_free(gpointer data)
{
    WeftTalk *talk = data;
    g_free(talk->node);
    g_free(talk);
}

static void
told(int fd, const char *output, const GError *error, gpointer data)
{
    const WeftTalk *talk = data;
    talk->answered(talk, output, error);
}

void
weft_work_ask(WeftWork *work, WeftNodeWork *item, const WeftWorkAsk *ask)
{
    WeftTalk *talk = talk_new(work, item->node, ask->deadline);
    talk->answered = ask->answered;
    begin(
        work, item,
        &(WeftLinkAsk){
            .kind = ask->kind, .input = ask->input, .deadline = ask->deadline, .done = told, .data = talk, .free = talk_free });
}

/* --- the first answer --- */

void
weft_work_come_up(WeftWork *work, WeftNodeWork *item)
{
    weft_work_set_phase(work, item, WEFT_NODE_UP, NULL, NULL);
    item->node->bereft = FALSE;
    if (item->node->template)
        weft_templates_worked(work->control->templates, item->node);
    weft_rest_pass(&item->rest, WEFT_DEED_GREET);
}

static void
greeted(int fd, const char *output, const GError *error, gpointer data)
{
    const WeftTalk *talk = data;
    WeftWork *work = talk->work;
    WeftNodeWork *item = talk_ended(talk);
    if (item && item->node->phase == WEFT_NODE_CLAIMED) {
        if (error)
            weft_work_start_failed(work, item, &(WeftMishap){ WEFT_DEED_GREET, talk->deadline, error });
        else
            weft_work_come_up(work, item);
    }
}

void
weft_work_greet(WeftWork *work, WeftNodeWork *item)
{
    if (item->node->template) {
        weft_work_become(work, item);
        return;
    }
    if (weft_work_saved_node(work, item->node)) {
        weft_work_let_go(work, item);
        return;
    }
    gint64 deadline = work->control->options.await_deadline;
    WeftTalk *talk = talk_new(work, item->node, deadline);
    begin(work, item, &(WeftLinkAsk){ .deadline = deadline, .done = greeted, .data = talk, .free = talk_free });
}

/* --- reaching the others --- */

static int
compare_ranks(gconstpointer a, gconstpointer b)
{
    guint x = (*(WeftNodeWork *const *)a)->node->rank, y = (*(WeftNodeWork *const *)b)->node->rank;
    return x < y ? -1 : x > y;
}

/* Derived once for each node, and a few of a thousand in each step. FALSE: it is the next step's turn. */
static gboolean
know_host_key(WeftWork *work, WeftNodeWork *item)
{
    const guint8 *secret = work->control->options.secret;
    if (item->node->host_key || item->host_key || !secret)
        return TRUE;
    if (work->derived == KEYS_AT_ONCE)
        return FALSE;
    g_autoptr(GError) error = NULL;
    work->derived++;
    item->host_key = weft_host_key_derive(secret, item->node->id, &error);
    if (error) {
        g_warning("node %s: %s", item->node->id, error->message);
        item->host_key = g_strdup(""); /* once is enough */
    }
    return TRUE;
}

gboolean
weft_work_know_host_keys(WeftWork *work)
{
    for (guint i = 0; i < work->nodes->len; i++)
        if (!know_host_key(work, work->nodes->pdata[i])) {
            weft_work_wake(work);
            return FALSE;
        }
    return TRUE;
}

const char *
weft_work_host_key(const WeftNodeWork *item)
{
    const char *key = item->node->host_key ? item->node->host_key : item->host_key;
    return key && *key ? key : NULL;
}

/* A member is one that the others are to reach. */
static gboolean
is_member(const WeftNodeWork *item)
{
    return item->node->phase == WEFT_NODE_UP || item->node->phase == WEFT_NODE_READY;
}

/* NULL: not all host keys are known yet. */
static GBytes *
list_members(WeftWork *work)
{
    g_autoptr(GPtrArray) items = g_ptr_array_new(), nodes = g_ptr_array_new(), leaves = g_ptr_array_new();
    g_autoptr(GPtrArray) host_keys = g_ptr_array_new(), hosts = g_ptr_array_new();
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        if (!is_member(item))
            continue;
        if (!know_host_key(work, item))
            return NULL;
        g_ptr_array_add(items, item);
    }
    g_ptr_array_sort(items, compare_ranks);
    for (guint i = 0; i < items->len; i++) {
        const WeftNodeWork *item = items->pdata[i];
        g_ptr_array_add(nodes, item->node);
        g_ptr_array_add(hosts, (WeftHost *)weft_fleet_host(work->control->fleet, item->node->host));
        g_ptr_array_add(leaves, (char *)weft_fleet_leaf(work->control->fleet, item->node->host));
        g_ptr_array_add(host_keys, (char *)weft_work_host_key(item));
    }
    char *text = weft_roster_members(&(WeftRoster){ nodes, hosts, leaves, host_keys });
    return g_bytes_new_take(text, strlen(text));
}

/* The guest program must have given up before we do: it knows better who does not answer. */
static char *
head_for(const WeftWork *work, const WeftNode *self)
{
    gint64 seconds = work->control->options.meet_deadline / G_USEC_PER_SEC;
    const WeftHost *host = weft_fleet_host(work->control->fleet, self->host);
    g_autoptr(GArray) promises = weft_roster_promises(self, host, work->status->pkey);
    return weft_roster_head(work->status->generation, self->rank, (guint)MAX(seconds - seconds / 4, 1), promises);
}

/* The guest program of one that goes on from saved memory is the one that was saved: no other start gives it a newer one.
 * Clones go on so as well, but have no devices of their hosts. */
static gboolean
is_saved(const WeftWork *work, const WeftNode *node)
{
    return node->boot || weft_work_saved_node(work, node);
}

static WeftPromised
promised_to(const WeftWork *work, const WeftNode *node, const char *manager)
{
    return (WeftPromised){ node, weft_fleet_host(work->control->fleet, node->host), work->status->pkey, manager,
                           is_saved(work, node) };
}

static void
met(WeftWork *work, WeftNodeWork *item, const WeftPromised *promised, const char *output, guint64 generation)
{
    WeftNode *node = item->node;
    weft_work_set_phase(work, item, WEFT_NODE_READY, NULL, NULL);
    g_clear_pointer(&node->reason, g_free);
    g_clear_pointer(&node->detail, g_free);
    node->met = generation;
    g_free(node->unverified);
    node->unverified = weft_promises_unverified(promised, output);
    const char *boot = weft_links_boot(work->control->links, node->id);
    g_free(node->boot);
    node->boot = g_strdup(boot ? boot : WEFT_BOOT_UNTOLD);
    node->starts = 0;
    item->tries = 0;
    g_clear_pointer(&item->unreached, g_byte_array_unref);
    weft_rest_clear(&item->rest);
}

/* An answer may name each address of each other member. */
static GByteArray *
read_unreached(const WeftWork *work, const WeftNodeWork *self, const char *output)
{
    guint8 addresses[WEFT_NODES_MAX] = { 0 };
    for (guint i = 0; i < work->nodes->len; i++) {
        const WeftNodeWork *item = work->nodes->pdata[i];
        if (item != self && is_member(item) && item->node->rank < WEFT_NODES_MAX)
            addresses[item->node->rank] = (guint8)(1 + item->node->devices->len);
    }
    return weft_meet_answer_unreached(output, addresses, WEFT_NODES_MAX);
}

/* All nodes of now and what they said. NULL: some are still to come up, and what was said is about others. */
static GPtrArray *
list_candidates(const WeftWork *work)
{
    g_autoptr(GPtrArray) items = g_ptr_array_new();
    for (guint i = 0; i < work->nodes->len; i++) {
        WeftNodeWork *item = work->nodes->pdata[i];
        if (item->node->phase == WEFT_NODE_CLAIMED || item->node->phase == WEFT_NODE_FAILED)
            return NULL;
        if (is_member(item))
            g_ptr_array_add(items, item);
    }
    return g_steal_pointer(&items);
}

/* … as the planner wants it. What was said so far is considered now: the next decision needs as many tries again. */
static WeftMeeting *
hear_meetings(const WeftWork *work, const GPtrArray *items)
{
    WeftMeeting *meetings = g_new0(WeftMeeting, items->len);
    for (guint i = 0; i < items->len; i++) {
        WeftNodeWork *item = items->pdata[i];
        const WeftNode *node = item->node;
        gboolean failed = item->tries > 0 && item->tried == work->status->generation;
        meetings[i] = (WeftMeeting){ node->rank, node->host, item->moved, node->boot != NULL, failed, item->unreached };
        item->tries = 0;
    }
    return meetings;
}

static void
cast_out(WeftWork *work, WeftNodeWork *item, const char *reason, const char *detail)
{
    g_autofree char *label = weft_node_label(item->node);
    g_autofree char *what = g_strdup_printf("%s: %s", label, reason);
    item->moved++;
    weft_rest_say(&item->rest, WEFT_DEED_MEET, what, detail);
    weft_work_host_failed(work, item, reason, detail);
}

/* Each time after more tries: should it be no host's fault, moving helps nobody. */
static gboolean
was_tried_enough(const WeftWork *work, const WeftNodeWork *item)
{
    return item->tries >= work->control->options.starts_max << MIN(work->moves, DOUBLINGS_MAX);
}

static void
move_outcasts(WeftWork *work, const WeftNodeWork *witness, const char *said)
{
    guint tries = witness->tries;
    g_autoptr(GPtrArray) items = was_tried_enough(work, witness) ? list_candidates(work) : NULL;
    if (!items)
        return;
    g_autofree WeftMeeting *meetings = hear_meetings(work, items);
    g_autofree gboolean *outcasts = g_new0(gboolean, items->len);
    g_autofree char *label = weft_node_label(witness->node);
    g_autofree char *reason =
        g_strdup_printf("it and others do not reach each other on the partition (try %u); %s says: %s", tries, label, said);
    work->moves += weft_plan_outcasts(meetings, items->len, outcasts) > 0;
    for (guint i = 0; i < items->len; i++)
        if (outcasts[i])
            cast_out(work, items->pdata[i], reason, NULL);
}

/* It answers, but not as it should. */
static void
note_unreached(WeftWork *work, WeftNodeWork *item, const char *output)
{
    guint64 generation = work->status->generation;
    g_clear_pointer(&item->unreached, g_byte_array_unref);
    item->unreached = read_unreached(work, item, output);
    item->tries = item->tried == generation ? item->tries + 1 : 1;
    item->tried = generation;
}

/* What its own host was to give it is missing: no other is to blame. One that was ready goes on with what it does. */
static void
ports_failed(WeftWork *work, WeftNodeWork *item, const char *missing, const char *detail)
{
    weft_work_node_rests(work, item, WEFT_DEED_MEET, missing, detail);
    note_unreached(work, item, NULL);
    if (item->node->boot || !was_tried_enough(work, item))
        return;
    g_autofree char *reason = g_strdup_printf("%s (try %u)", missing, item->tries);
    work->moves++;
    cast_out(work, item, reason, detail);
}

/* One that was ready goes on with what it does: only one that never was is started anew. */
static void
meeting_failed(WeftWork *work, WeftNodeWork *item, const WeftTalk *talk, const char *output, const GError *error)
{
    gboolean silent = !g_error_matches(error, WEFT_ERROR, WEFT_ERROR_FAILED);
    g_autofree char *words = weft_words(WEFT_DEED_MEET, error, talk->deadline);
    /* What the tenant's own guest says of its own nodes is theirs to read. */
    g_autofree char *said = silent ? g_strdup(words) : g_strdup_printf("%s: %s", words, error->message);
    weft_work_node_rests(work, item, WEFT_DEED_MEET, said, error->message);
    if (!silent) {
        note_unreached(work, item, output);
        move_outcasts(work, item, error->message);
        return;
    }
    weft_hosts_hint(work->control->hosts, item->node->host);
    if (item->node->boot || item->rest.attempts < work->control->options.starts_max)
        return;
    g_autofree char *reason = g_strdup_printf("%s (try %u)", words, item->rest.attempts);
    weft_work_set_phase(work, item, WEFT_NODE_FAILED, reason, error->message);
    item->stopped = FALSE;
}

static void
answered(int fd, const char *output, const GError *error, gpointer data)
{
    const WeftTalk *talk = data;
    WeftWork *work = talk->work;
    WeftNodeWork *item = talk_ended(talk);
    if (item && is_member(item)) {
        /* Who does not answer may be one that has left meanwhile: those of now decide. */
        gboolean stale = talk->generation != work->status->generation;
        if (stale && g_error_matches(error, WEFT_ERROR, WEFT_ERROR_FAILED))
            return;
        g_autofree char *manager = weft_subnets_manager_words(work->control->subnets, work->status->fabric);
        g_autofree char *detail = NULL;
        WeftPromised promised = promised_to(work, item->node, manager);
        g_autofree char *missing = weft_promises_missing(&promised, output, !error, &detail);
        if (missing)
            ports_failed(work, item, missing, detail);
        else if (error)
            meeting_failed(work, item, talk, output, error);
        else
            met(work, item, &promised, output, talk->generation);
    }
}

void
weft_work_meet(WeftWork *work, WeftNodeWork *item)
{
    if (work->cluster->capture) {
        weft_work_capture(work, item);
        return;
    }
    /* A thousand nodes are told of a thousand: what is the same for all is made once. */
    if (!work->members && work->derived < KEYS_AT_ONCE)
        work->members = list_members(work);
    if (!work->members) {
        weft_work_wake(work);
        return;
    }
    g_autofree char *head = head_for(work, item->node);
    gint64 deadline = work->control->options.meet_deadline;
    begin(work, item,
          &(WeftLinkAsk){ .kind = "meet",
                          .input = head,
                          .more = work->members,
                          .deadline = deadline,
                          .done = answered,
                          .data = talk_new(work, item->node, deadline),
                          .free = talk_free });
}
