#include "apply.h"

#include "errors.h"
#include "managed.h"
#include "partitions.h"
#include "plan.h"
#include "wire.h"

#define NAMED_MAX 4    /* ports in a message */
#define NUMBERS 0x8000 /* of partitions */

struct WeftApplier {
    GHashTable *lagging;    /* guint64 * → set of pkeys: what these ports did not acknowledge */
    WeftManagedFile *file;  /* as we wrote it last; NULL: it must be read */
    WeftManagedStamp stamp; /* of what we wrote */
    GMutex writing;         /* while opensm has a change that its file has not */
    GMutex mutex;
    GHashTable *drifted; /* guint64 * → empty set; mutex */
};

typedef enum { NOBODY, SITE, WEFT } Owner;

typedef struct {
    WeftOsm *weft;
    WeftFabricChange *change;
    WeftManagedFile *file; /* until it is written */
    WeftManagedStamp stamp;
    guint8 *owners;        /* by number: Owner, in the file as it was */
    WeftManagedSave *save; /* the new file, that nobody sees yet; NULL: it is as it was */
    GHashTable *ports;     /* guint64 * → set of pkeys: those that were looked at, to be looked at again */
    GArray *gone;          /* guint16 */
    WeftRound *round;
    WeftPlan *plan;
    guint blocks; /* sent */
    gboolean lacks_group;
} Job;

static GHashTable *
new_ports(void)
{
    return g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, (GDestroyNotify)g_hash_table_unref);
}

WeftApplier *
weft_applier_new(void)
{
    WeftApplier *applier = g_new0(WeftApplier, 1);
    applier->lagging = new_ports();
    applier->drifted = new_ports();
    g_mutex_init(&applier->writing);
    g_mutex_init(&applier->mutex);
    return applier;
}

void
weft_applier_free(WeftApplier *applier)
{
    if (!applier)
        return;
    g_hash_table_unref(applier->lagging);
    g_hash_table_unref(applier->drifted);
    weft_managed_file_free(applier->file);
    g_mutex_clear(&applier->mutex);
    g_mutex_clear(&applier->writing);
    g_free(applier);
}

GMutex *
weft_applier_writing(WeftApplier *applier)
{
    return &applier->writing;
}

void
weft_applier_note_drift(WeftApplier *applier, guint64 port_guid)
{
    g_mutex_lock(&applier->mutex);
    g_hash_table_replace(applier->drifted, g_memdup2(&port_guid, sizeof port_guid), g_hash_table_new(NULL, NULL));
    g_mutex_unlock(&applier->mutex);
}

static GHashTable *
take_drifted(WeftApplier *applier)
{
    g_mutex_lock(&applier->mutex);
    GHashTable *drifted = g_steal_pointer(&applier->drifted);
    applier->drifted = new_ports();
    g_mutex_unlock(&applier->mutex);
    return drifted;
}

static void
clear_job(Job *job)
{
    weft_plan_free(job->plan);
    weft_round_free(job->round);
    g_clear_pointer(&job->gone, g_array_unref);
    g_clear_pointer(&job->ports, g_hash_table_unref);
    weft_managed_save_cancel(job->save);
    g_free(job->owners);
    weft_managed_file_free(job->file);
    weft_fabric_change_free(job->change);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Job, clear_job)

/* --- may it be? --- */

/* Whoever asks, and whatever it believes to own. */
static gboolean
check_numbers(const Job *job, GError **error)
{
    if (weft_fabric_change_check(job->change, &job->weft->pkeys, error))
        return TRUE;
    g_prefix_error(error, "event_plugin_options pkeys= of this opensm: ");
    return FALSE;
}

static gboolean
check_manager(const WeftOsm *weft, GError **error)
{
    if (!weft_osm_is_ruling(weft))
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                                 "this opensm does not rule the fabric, or has not swept it yet; ask the master, or later");
    if (!weft->osm->subn.opt.keep_pkey_indexes)
        return weft_error_refuse(
            error, WEFT_ERROR_UNAVAILABLE,
            "keep_pkey_indexes is FALSE in opensm's options: its next sweep would move P_Keys that virtual "
            "functions are mapped to; set it to TRUE");
    return TRUE;
}

static gboolean
check_member(const osm_opensm_t *osm, const WeftPartition *partition, const WeftMember *member, GError **error)
{
    if (member->virtual_guid)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                                 "partition 0x%04x, virtual port 0x%016" G_GINT64_MODIFIER "x: %s programs no virtual ports; "
                                 "mlx5's virtual functions need a subnet manager with virtualization",
                                 partition->pkey, member->virtual_guid, OSM_VERSION);
    if (member->membership == WEFT_MEMBER_BOTH && !osm->subn.opt.allow_both_pkeys)
        return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                                 "partition 0x%04x, port 0x%016" G_GINT64_MODIFIER
                                 "x: to be both full and limited member needs "
                                 "allow_both_pkeys TRUE in opensm's options",
                                 partition->pkey, member->port_guid);
    return TRUE;
}

/* A port is there once, but for what is said twice. */
static gboolean
check_members(const osm_opensm_t *osm, WeftPartition *partition, GError **error)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (guint i = 0; i < partition->members->len; i++) {
        WeftMember *member = &g_array_index(partition->members, WeftMember, i);
        if (!check_member(osm, partition, member, error))
            return FALSE;
        const WeftMember *other = g_hash_table_lookup(seen, &member->port_guid);
        if (other && (other->membership != member->membership || other->index != member->index))
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "partition 0x%04x: port 0x%016" G_GINT64_MODIFIER "x is there twice, and differently; say "
                                     "\"both\" for a full and limited member",
                                     partition->pkey, member->port_guid);
        g_hash_table_insert(seen, &member->port_guid, member);
    }
    return TRUE;
}

/* By the file as it was, or by its name where the file does not have it: it may have been edited, and opensm not have read it
 * since. */
static gboolean
is_ours(const Job *job, const osm_prtn_t *partition)
{
    Owner owner = job->owners[cl_ntoh16(partition->pkey) % NUMBERS];
    return owner == WEFT || (owner == NOBODY && weft_partition_is_ours(partition->name));
}

/* A number that opensm has from elsewhere: the site's partition may have no number in the file, and got one; or one of weft's
 * that this file does not have. */
static gboolean
check_owner(const Job *job, guint pkey, const char *name, GError **error)
{
    const osm_prtn_t *there = weft_partitions_find(job->weft->osm, pkey);
    if (!there || g_str_equal(there->name, name) || job->owners[pkey] == WEFT)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                             "P_Key 0x%04x is that of another partition, \"%s\", in opensm; take another", pkey, there->name);
}

/* lock: held. */
static gboolean
check_job(const Job *job, GError **error)
{
    const osm_opensm_t *osm = job->weft->osm;
    if (!check_manager(job->weft, error))
        return FALSE;
    for (guint i = 0; i < job->change->set->len; i++) {
        WeftPartition *wish = job->change->set->pdata[i];
        if (!check_members(osm, wish, error) || !check_owner(job, wish->pkey, wish->name, error))
            return FALSE;
    }
    return TRUE;
}

/* --- what goes --- */

static void
note_gone(GArray *gone, GHashTable *seen, guint pkey)
{
    guint16 number = (guint16)pkey;
    if (g_hash_table_add(seen, GUINT_TO_POINTER(pkey)))
        g_array_append_val(gone, number);
}

/* Of what opensm has. lock: held. */
static GArray *
find_gone(const Job *job)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    GArray *gone = g_array_new(FALSE, FALSE, sizeof(guint16));
    for (guint i = 0; i < job->change->set->len; i++)
        g_hash_table_add(seen, GUINT_TO_POINTER(((WeftPartition *)job->change->set->pdata[i])->pkey));
    for (guint i = 0; i < job->change->removed->len; i++) {
        const WeftPartitionRemoval *removal = &g_array_index(job->change->removed, WeftPartitionRemoval, i);
        const osm_prtn_t *there = weft_partitions_find(job->weft->osm, removal->pkey);
        if (there && is_ours(job, there) && check_owner(job, removal->pkey, removal->name, NULL))
            note_gone(gone, seen, removal->pkey);
    }
    return gone;
}

static WeftPlan *
make_plan(Job *job, GError **error)
{
    const WeftPlanInput input = {
        .osm = job->weft->osm,
        .change = job->change,
        .gone = job->gone,
        .lagging = job->weft->applier->lagging,
        .also = job->ports,
    };
    return weft_plan_new(&input, error);
}

/* --- the steps --- */

static gboolean
change_file(Job *job, GError **error)
{
    /* Only a change that is told again can leave it as it was. */
    gboolean again = job->file->generation == job->change->generation && !job->file->was_edited;
    g_autofree char *before = again ? weft_managed_file_format(job->file) : NULL;
    if (!weft_managed_file_change(job->file, job->change, error))
        return FALSE;
    g_autofree char *after = again ? weft_managed_file_format(job->file) : NULL;
    if (again && g_str_equal(before, after))
        return TRUE;
    job->save = weft_managed_save_begin(job->file, job->weft->partitions, error);
    if (job->save && !weft_managed_save_stamp(job->save, &job->stamp))
        job->stamp = (WeftManagedStamp){ 0 };
    return job->save != NULL;
}

/* Reading thousands of partitions takes long, and mostly they are those that we wrote. */
static WeftManagedFile *
take_file(Job *job, GError **error)
{
    WeftApplier *applier = job->weft->applier;
    WeftManagedFile *kept = g_steal_pointer(&applier->file);
    if (kept && weft_managed_stamp_holds(&applier->stamp, job->weft->partitions)) {
        job->stamp = applier->stamp;
        return kept;
    }
    weft_managed_file_free(kept);
    return weft_managed_file_load(job->weft->partitions, error);
}

static void
keep_file(Job *job)
{
    job->weft->applier->file = g_steal_pointer(&job->file);
    job->weft->applier->stamp = job->stamp;
}

static void
note_owner(Job *job, const GPtrArray *partitions, Owner owner)
{
    for (guint i = 0; i < partitions->len; i++)
        job->owners[((WeftPartition *)partitions->pdata[i])->pkey] = owner;
}

static gboolean
prepare_file(Job *job, GError **error)
{
    job->file = take_file(job, error);
    if (!job->file)
        return FALSE;
    job->owners = g_new0(guint8, NUMBERS);
    note_owner(job, job->file->site, SITE);
    note_owner(job, job->file->partitions, WEFT);
    return change_file(job, error);
}

/* lock: held. */
static gboolean
plan(Job *job, GError **error)
{
    g_clear_pointer(&job->gone, g_array_unref);
    g_clear_pointer(&job->plan, weft_plan_free);
    g_clear_pointer(&job->round, weft_round_free);
    if (!check_job(job, error))
        return FALSE;
    job->gone = find_gone(job);
    job->plan = make_plan(job, error);
    job->round = weft_round_new(job->weft->acks);
    return job->plan != NULL;
}

/* All of it, or nothing. lock: exclusive. */
static gboolean
change_memory(Job *job, GError **error)
{
    osm_opensm_t *osm = job->weft->osm;
    if (!plan(job, error))
        return FALSE;
    weft_plan_collect(job->plan, job->ports);
    weft_plan_commit(job->plan, job->round);
    job->lacks_group = FALSE;
    for (guint i = 0; i < job->gone->len; i++)
        weft_partitions_remove(osm, g_array_index(job->gone, guint16, i));
    for (guint i = 0; i < job->change->set->len; i++)
        job->lacks_group |= !weft_partitions_set(osm, job->change->set->pdata[i]);
    return TRUE;
}

/* MADs are on their way when it returns. */
static gboolean
change_fabric(Job *job, GError **error)
{
    CL_PLOCK_EXCL_ACQUIRE(&job->weft->osm->lock);
    gboolean ok = change_memory(job, error);
    CL_PLOCK_RELEASE(&job->weft->osm->lock);
    if (ok)
        job->blocks += weft_round_asks(job->round)->len;
    return ok;
}

/* --- how it ended --- */

static void
note_lag(Job *job)
{
    GHashTable *lagging = job->weft->applier->lagging;
    GPtrArray *asks = weft_round_asks(job->round);
    for (guint i = 0; i < asks->len; i++)
        g_hash_table_remove(lagging, &((WeftAsk *)asks->pdata[i])->port_guid);
    for (guint i = 0; i < asks->len; i++) {
        WeftAsk *ask = asks->pdata[i];
        if (ask->error)
            g_hash_table_replace(lagging, g_memdup2(&ask->port_guid, sizeof ask->port_guid),
                                 g_hash_table_ref(g_hash_table_lookup(job->ports, &ask->port_guid)));
    }
}

static gboolean
check_answers(Job *job, GError **error)
{
    GPtrArray *asks = weft_round_asks(job->round);
    g_autoptr(GString) text = g_string_new(NULL);
    guint failed = 0;
    for (guint i = 0; i < asks->len; i++) {
        const WeftAsk *ask = asks->pdata[i];
        if (!ask->error || failed++ >= NAMED_MAX)
            continue;
        g_autofree char *place = weft_ask_place(ask);
        g_string_append_printf(text, "%s%s %s", text->len ? "; " : "", place, ask->error);
    }
    if (failed > NAMED_MAX)
        g_string_append_printf(text, "; and %u more", failed - NAMED_MAX);
    if (failed == 0)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_TIMEOUT,
                             "%s. The change stands in %s; the next sweep or the same change again completes it", text->str,
                             job->weft->partitions);
}

static json_t *
make_answer(const Job *job, gint64 since)
{
    json_t *absent = json_array();
    const GArray *guids = weft_plan_absent(job->plan);
    for (guint i = 0; i < guids->len; i++)
        json_array_append_new(absent, json_sprintf("0x%016" G_GINT64_MODIFIER "x", g_array_index(guids, guint64, i)));
    return json_pack("{sI sI sI so}", "generation", (json_int_t)job->change->generation, "blocks", (json_int_t)job->blocks,
                     "micros", (json_int_t)(g_get_monotonic_time() - since), "absent", absent);
}

static gboolean
await(Job *job, GError **error)
{
    weft_round_wait(job->round);
    note_lag(job);
    return check_answers(job, error);
}

/* --- from beginning to end --- */

static gboolean
begin(Job *job, json_t *request, GError **error)
{
    job->change = weft_wire_change_from_json(request, error);
    if (!job->change || !check_numbers(job, error) || !prepare_file(job, error))
        return FALSE;
    job->ports = take_drifted(job->weft->applier);
    if (change_fabric(job, error))
        return TRUE;
    GHashTableIter iter;
    gpointer guid;
    g_hash_table_iter_init(&iter, job->ports);
    while (g_hash_table_iter_next(&iter, &guid, NULL))
        weft_applier_note_drift(job->weft->applier, *(guint64 *)guid);
    return FALSE;
}

static gboolean
change_again(Job *job, GError **error)
{
    return change_fabric(job, error) && await(job, error);
}

static gboolean
read_back(Job *job, GError **error)
{
    if (!weft_acks_await_sweep(job->weft->acks))
        return weft_error_refuse(error, WEFT_ERROR_TIMEOUT,
                                 "opensm's sweep does not end, and may still write to the ports. The change stands in %s; the "
                                 "same change again completes it",
                                 job->weft->partitions);
    CL_PLOCK_ACQUIRE(&job->weft->osm->lock);
    gboolean ok = plan(job, error);
    if (ok) {
        weft_plan_collect(job->plan, job->ports);
        weft_plan_read(job->plan, job->round);
    }
    CL_PLOCK_RELEASE(&job->weft->osm->lock);
    return ok && await(job, error);
}

/* The disk takes its time while the MADs take theirs. */
static gboolean
change_both(Job *job, json_t *request, GError **error)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&job->weft->applier->writing);
    if (!begin(job, request, error))
        return FALSE;
    if (job->save && !weft_managed_save_end(g_steal_pointer(&job->save), error)) {
        g_prefix_error(error, "opensm has the change until its next sweep: ");
        return FALSE;
    }
    keep_file(job);
    return TRUE;
}

static gboolean
run(Job *job, json_t *request, GError **error)
{
    WeftAcks *acks = job->weft->acks;
    guint mark = weft_acks_mark(acks);
    if (!change_both(job, request, error))
        return FALSE;
    /* A sweep that read the file just before it was replaced has taken all back. From now on it cannot; mostly there is nothing
     * to do. */
    if (!await(job, error) || !change_again(job, error))
        return FALSE;
    /* But what it wrote may be lost and sent again, and come behind ours. */
    if (weft_acks_was_swept(acks, mark) && (!read_back(job, error) || !change_again(job, error)))
        return FALSE;
    if (job->lacks_group)
        return weft_error_refuse(
            error, WEFT_ERROR_EXHAUSTED,
            "opensm could not make a broadcast group: no multicast LID is left, or its rate or MTU does not "
            "fit; the P_Keys are on the ports");
    return TRUE;
}

json_t *
weft_apply(WeftOsm *weft, json_t *request, GError **error)
{
    gint64 since = g_get_monotonic_time();
    g_auto(Job) job = { .weft = weft };
    return run(&job, request, error) ? make_answer(&job, since) : NULL;
}
