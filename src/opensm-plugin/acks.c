#include "acks.h"

/* Not in any header of opensm's, but exported by it. */
extern void osm_pkey_rcv_process(void *context, void *data);

/* opensm reports each MAD that is not answered; this is for the case that it does not. */
#define WAIT_SECONDS 120
/* A sweep that fails half-way does not tell. */
#define LOOK_MICROS (G_TIME_SPAN_SECOND / 50)

struct WeftAcks {
    osm_opensm_t *osm;
    GMutex mutex;
    GCond cond;
    GHashTable *tickets; /* int → Ticket */
    int last;            /* ticket */
    gboolean stopping;
    gboolean swept; /* a sweep's writes may be on their way */
    guint sweeps;   /* that wrote */
};

struct WeftRound {
    WeftAcks *acks;
    GPtrArray *asks;
    GHashTable *mine; /* tickets that are not answered yet */
};

typedef struct {
    WeftRound *round;
    WeftAsk *ask;
} Ticket;

static void
free_ask(gpointer data)
{
    WeftAsk *ask = data;
    g_free(ask->node);
    g_free(ask->error);
    g_free(ask);
}

/* --- answers --- */

static char *
judge(const osm_madw_t *madw, const ib_smp_t *smp)
{
    if (!ib_smp_is_response(smp))
        return g_strdup(madw->status == IB_TIMEOUT ? "does not answer" : "could not be sent to");
    guint status = cl_ntoh16(ib_smp_get_status(smp));
    return status ? g_strdup_printf("refuses its P_Key table with status 0x%04x", status) : NULL;
}

static void
settle(WeftAsk *ask, const osm_madw_t *madw)
{
    const ib_smp_t *smp = osm_madw_get_smp_ptr(madw);
    const ib_pkey_table_t *table = ib_smp_get_payload_ptr(smp);
    ask->error = judge(madw, smp);
    for (guint i = 0; i < WEFT_BLOCK_KEYS && !ask->error; i++)
        ask->keys[i] = cl_ntoh16(table->pkey_entry[i]);
    ask->answered = TRUE;
}

static void
note(WeftAcks *acks, int number, const osm_madw_t *madw)
{
    g_mutex_lock(&acks->mutex);
    Ticket *ticket = g_hash_table_lookup(acks->tickets, GINT_TO_POINTER(number));
    if (ticket) {
        settle(ticket->ask, madw);
        g_hash_table_remove(ticket->round->mine, GINT_TO_POINTER(number));
        /* Not for each: whoever waits would take the processor from those who receive. */
        if (g_hash_table_size(ticket->round->mine) == 0)
            g_cond_broadcast(&acks->cond);
        g_hash_table_remove(acks->tickets, GINT_TO_POINTER(number));
    }
    g_mutex_unlock(&acks->mutex);
}

/* thread: one of opensm's dispatcher. Also gets our own requests back that were not answered. */
static void
receive(void *context, void *data)
{
    WeftAcks *acks = context;
    osm_madw_t *madw = data;
    int number = osm_madw_get_pkey_context_ptr(madw)->set_method;
    if (ib_smp_is_response(osm_madw_get_smp_ptr(madw)))
        osm_pkey_rcv_process(&acks->osm->sm, madw);
    if (number > TRUE)
        note(acks, number, madw);
}

WeftAcks *
weft_acks_new(osm_opensm_t *osm)
{
    WeftAcks *acks = g_new0(WeftAcks, 1);
    acks->osm = osm;
    acks->last = TRUE;
    g_mutex_init(&acks->mutex);
    g_cond_init(&acks->cond);
    acks->tickets = g_hash_table_new_full(NULL, NULL, NULL, g_free);

    /* opensm has sent nothing yet when it loads its plugins: no answer can come in between. */
    cl_disp_unregister(osm->sm.pkey_disp_h);
    osm->sm.pkey_disp_h = cl_disp_register(&osm->disp, OSM_MSG_MAD_PKEY, receive, acks);
    if (osm->sm.pkey_disp_h)
        return acks;
    osm->sm.pkey_disp_h = cl_disp_register(&osm->disp, OSM_MSG_MAD_PKEY, osm_pkey_rcv_process, &osm->sm);
    weft_acks_free(acks);
    return NULL;
}

void
weft_acks_stop(WeftAcks *acks)
{
    g_mutex_lock(&acks->mutex);
    acks->stopping = TRUE;
    g_cond_broadcast(&acks->cond);
    g_mutex_unlock(&acks->mutex);
}

void
weft_acks_free(WeftAcks *acks)
{
    if (!acks)
        return;
    g_hash_table_unref(acks->tickets);
    g_cond_clear(&acks->cond);
    g_mutex_clear(&acks->mutex);
    g_free(acks);
}

/* --- what sweeps write --- */

void
weft_acks_note_sweep(WeftAcks *acks, gboolean writes)
{
    g_mutex_lock(&acks->mutex);
    if (writes && !acks->swept)
        acks->sweeps++;
    acks->swept = writes;
    g_cond_broadcast(&acks->cond);
    g_mutex_unlock(&acks->mutex);
}

guint
weft_acks_mark(WeftAcks *acks)
{
    g_mutex_lock(&acks->mutex);
    guint mark = acks->swept ? acks->sweeps - 1 : acks->sweeps;
    g_mutex_unlock(&acks->mutex);
    return mark;
}

gboolean
weft_acks_was_swept(WeftAcks *acks, guint mark)
{
    g_mutex_lock(&acks->mutex);
    gboolean swept = acks->sweeps != mark;
    g_mutex_unlock(&acks->mutex);
    return swept;
}

gboolean
weft_acks_await_sweep(WeftAcks *acks)
{
    const osm_stats_t *stats = &acks->osm->stats;
    gint64 deadline = g_get_monotonic_time() + WAIT_SECONDS * G_TIME_SPAN_SECOND;
    g_mutex_lock(&acks->mutex);
    while (acks->swept && stats->qp0_mads_outstanding > 0 && !acks->stopping && g_get_monotonic_time() < deadline)
        g_cond_wait_until(&acks->cond, &acks->mutex, g_get_monotonic_time() + LOOK_MICROS);
    gboolean done = !acks->swept || stats->qp0_mads_outstanding == 0;
    g_mutex_unlock(&acks->mutex);
    return done;
}

/* --- rounds --- */

WeftRound *
weft_round_new(WeftAcks *acks)
{
    WeftRound *round = g_new0(WeftRound, 1);
    round->acks = acks;
    round->asks = g_ptr_array_new_with_free_func(free_ask);
    round->mine = g_hash_table_new(NULL, NULL);
    return round;
}

/* What still comes for it is not noted any more. */
static void
forget(WeftRound *round)
{
    GHashTableIter iter;
    gpointer number;
    g_hash_table_iter_init(&iter, round->mine);
    while (g_hash_table_iter_next(&iter, &number, NULL))
        g_hash_table_remove(round->acks->tickets, number);
    g_hash_table_remove_all(round->mine);
}

void
weft_round_free(WeftRound *round)
{
    if (!round)
        return;
    g_mutex_lock(&round->acks->mutex);
    forget(round);
    g_mutex_unlock(&round->acks->mutex);
    g_hash_table_unref(round->mine);
    g_ptr_array_unref(round->asks);
    g_free(round);
}

GPtrArray *
weft_round_asks(WeftRound *round)
{
    return round->asks;
}

char *
weft_ask_place(const WeftAsk *ask)
{
    g_autofree char *name = g_utf8_make_valid(ask->node, -1);
    if (ask->enforced)
        return g_strdup_printf("switch port %u of %s, at port 0x%016" G_GINT64_MODIFIER "x", ask->port_num, name,
                               ask->port_guid);
    return g_strdup_printf("port 0x%016" G_GINT64_MODIFIER "x (%s)", ask->port_guid, name);
}

static int
take_ticket(WeftRound *round, WeftAsk *ask)
{
    WeftAcks *acks = round->acks;
    g_mutex_lock(&acks->mutex);
    acks->last = acks->last == G_MAXINT ? TRUE + 1 : acks->last + 1;
    Ticket *ticket = g_new(Ticket, 1);
    *ticket = (Ticket){ .round = round, .ask = ask };
    g_hash_table_insert(acks->tickets, GINT_TO_POINTER(acks->last), ticket);
    g_hash_table_add(round->mine, GINT_TO_POINTER(acks->last));
    int number = acks->last;
    g_mutex_unlock(&acks->mutex);
    return number;
}

static void
fail_unsent(WeftRound *round, WeftAsk *ask, int number)
{
    g_mutex_lock(&round->acks->mutex);
    g_hash_table_remove(round->mine, GINT_TO_POINTER(number));
    g_hash_table_remove(round->acks->tickets, GINT_TO_POINTER(number));
    ask->error = g_strdup("could not be sent to: opensm has no MADs left, or ends");
    ask->answered = TRUE;
    g_mutex_unlock(&round->acks->mutex);
}

static WeftAsk *
add_ask(WeftRound *round, const WeftAskWhere *where)
{
    WeftAsk *ask = g_new0(WeftAsk, 1);
    ask->port_guid = where->port_guid;
    ask->enforced = where->enforced;
    ask->block = where->block;
    ask->port_num = where->physp->port_num;
    ask->node = g_strdup(where->physp->p_node->print_desc);
    g_ptr_array_add(round->asks, ask);
    return ask;
}

/* The one that opensm itself would use: a switch has one for all its ports. */
static ib_net64_t
management_key(const osm_physp_t *physp)
{
    gboolean of_switch = osm_node_get_type(physp->p_node) == IB_NODE_TYPE_SWITCH;
    const osm_physp_t *holder = of_switch ? osm_node_get_physp_ptr(physp->p_node, 0) : physp;
    return ib_port_info_get_m_key(&holder->port_info);
}

void
weft_round_ask(WeftRound *round, const WeftAskWhere *where, const ib_pkey_table_t *keys)
{
    osm_sm_t *sm = &round->acks->osm->sm;
    osm_physp_t *physp = where->physp;
    WeftAsk *ask = add_ask(round, where);
    int number = take_ticket(round, ask);
    osm_madw_context_t context = { 0 };
    context.pkey_context.node_guid = osm_node_get_node_guid(physp->p_node);
    context.pkey_context.port_guid = osm_physp_get_port_guid(physp);
    /* opensm only looks whether it is zero (then an answer counts as one of its sweep's); we find our own by its value. */
    context.pkey_context.set_method = number;
    guint32 modifier = where->block;
    if (osm_node_get_type(physp->p_node) == IB_NODE_TYPE_SWITCH)
        modifier |= (guint32)physp->port_num << 16;
    const osm_dr_path_t *path = osm_physp_get_dr_path_ptr(physp);
    ib_net64_t key = management_key(physp);
    ib_api_status_t status =
        keys ? osm_req_set(sm, path, (const uint8_t *)keys, sizeof *keys, IB_MAD_ATTR_P_KEY_TABLE, cl_hton32(modifier), FALSE,
                           key, 0, OSM_MSG_MAD_PKEY, &context)
             : osm_req_get(sm, path, IB_MAD_ATTR_P_KEY_TABLE, cl_hton32(modifier), FALSE, key, 0, OSM_MSG_MAD_PKEY, &context);
    if (status != IB_SUCCESS)
        fail_unsent(round, ask, number);
}

void
weft_round_wait(WeftRound *round)
{
    WeftAcks *acks = round->acks;
    gint64 deadline = g_get_monotonic_time() + WAIT_SECONDS * G_TIME_SPAN_SECOND;
    g_mutex_lock(&acks->mutex);
    while (g_hash_table_size(round->mine) > 0 && !acks->stopping)
        if (!g_cond_wait_until(&acks->cond, &acks->mutex, deadline))
            break;
    forget(round);
    const char *why = acks->stopping ? "was not asked to the end: opensm ends" : "does not answer";
    g_mutex_unlock(&acks->mutex);
    for (guint i = 0; i < round->asks->len; i++) {
        WeftAsk *ask = round->asks->pdata[i];
        if (!ask->answered)
            ask->error = g_strdup(why);
        ask->answered = TRUE;
    }
}
