#include "discover.h"
#include "domain-xml.h"
#include "errors.h"
#include "node-mark.h"
#include "seed.h"
#include "work.h"

/* --- trouble --- */

void
weft_work_node_rests(WeftWork *work, WeftNodeWork *item, WeftDeed deed, const char *words, const char *detail)
{
    g_autofree char *label = weft_node_label(item->node);
    g_autofree char *what = g_strdup_printf("%s: %s", label, words);
    weft_rest_fail(&item->rest, &work->control->options.backoff, deed, what, detail);
}

void
weft_work_give_up(WeftWork *work, const WeftNode *node, const char *words, const char *detail)
{
    g_autofree char *label = weft_node_label(node);
    g_autofree char *text = g_strdup_printf("%s cannot start: %s", label, words);
    work->fatal = TRUE;
    weft_rest_say(&work->doom, WEFT_DEED_START, text, detail);
}

void
weft_work_host_failed(WeftWork *work, WeftNodeWork *item, const char *reason, const char *detail)
{
    item->node->starts = work->control->options.starts_max;
    weft_work_set_phase(work, item, WEFT_NODE_FAILED, reason, detail);
    item->stopped = FALSE;
}

/* It is stopped, and boots then: where forks fail, nodes must come up all the same. */
static void
fork_failed(WeftWork *work, WeftNodeWork *item, const WeftMishap *mishap)
{
    g_autofree char *words =
        mishap->words ? g_strdup(mishap->words) : weft_words(WEFT_DEED_FORK, mishap->error, mishap->deadline);
    if (weft_templates_is_private(work->control->templates, item->node->template)) {
        gboolean again =
            weft_error_code(mishap->error) != WEFT_ERROR_INVALID && item->rest.attempts < work->control->options.starts_max;
        weft_work_set_phase(work, item, WEFT_NODE_FAILED, words, mishap->error->message);
        item->stopped = FALSE;
        if (!again)
            weft_work_unforked(work, item, words, mishap->error->message);
        return;
    }
    weft_templates_spoilt(work->control->templates, item->node, mishap->deed, words);
    weft_work_boot_cold(work, item, words, mishap->error->message);
    weft_work_set_phase(work, item, WEFT_NODE_FAILED, words, mishap->error->message);
    item->stopped = FALSE;
    weft_rest_clear(&item->rest);
}

static gboolean
has_devices(const WeftNode *node)
{
    return node->gpus->len + node->devices->len > 0;
}

/* A host that cannot be reached gets a few tries before its node looks for another; so does a stream that somebody else has.
 * One that cannot run it as it is gets no other, nor one whose disk is full: what other hosts are able to, and have, may
 * differ. */
void
weft_work_start_failed(WeftWork *work, WeftNodeWork *item, const WeftMishap *mishap)
{
    WeftErrorCode code = weft_error_code(mishap->error);
    const char *detail = mishap->error->message;
    g_autofree char *words =
        mishap->words ? g_strdup(mishap->words) : weft_words(mishap->deed, mishap->error, mishap->deadline);
    weft_work_node_rests(work, item, mishap->deed, words, detail);
    item->started = FALSE;
    if (item->node->template && code != WEFT_ERROR_UNAVAILABLE) {
        fork_failed(work, item, mishap);
        return;
    }
    gboolean unreached = code == WEFT_ERROR_UNAVAILABLE || code == WEFT_ERROR_BUSY;
    if (unreached)
        weft_hosts_hint(work->control->hosts, item->node->host);
    else if (has_devices(item->node))
        weft_hosts_hardware_changed(work->control->hosts, item->node->host);
    if (unreached && item->rest.attempts < work->control->options.starts_max)
        return;
    g_autofree char *reason = g_strdup_printf("%s (try %u)", words, item->rest.attempts);
    item->refused = code == WEFT_ERROR_INVALID;
    if (unreached || item->refused || code == WEFT_ERROR_EXHAUSTED) {
        weft_work_host_failed(work, item, item->refused ? words : reason, detail);
        return;
    }
    weft_work_set_phase(work, item, WEFT_NODE_FAILED, reason, detail);
    item->stopped = FALSE;
}

/* --- steps --- */

void
weft_work_submit(WeftWork *work, WeftNodeWork *item, WeftJob *job)
{
    job->owner = work;
    job->tenant = g_strdup(item->node->tenant);
    job->subject = g_strdup(item->node->id);
    g_hash_table_insert(work->jobs, g_strdup(item->node->id), job->cancellable);
    weft_jobs_submit(work->control->jobs, job);
}

WeftNodeWork *
weft_work_step_ended(WeftWork *work, const char *node_id)
{
    g_hash_table_remove(work->jobs, node_id);
    weft_work_wake(work);
    return weft_work_find(work, node_id);
}

/* --- what a start needs --- */

static const WeftImage *
image_of(const WeftWork *work, const WeftNode *node)
{
    return node->image ? weft_images_find(work->control->images, node->image) : NULL;
}

gboolean
weft_work_is_prepared(const WeftWork *work, const WeftNode *node)
{
    const WeftImage *image = image_of(work, node);
    if (!weft_hosts_inventory(work->control->hosts, node->host, NULL))
        return FALSE;
    if (!image)
        return work->control->options.bare && weft_work_is_recalled(work, node);
    return weft_images_are_on(work->control->images, node->host, image) && weft_work_is_primed(work, node) &&
           weft_work_is_recalled(work, node);
}

/* What its host lacks for long is looked for on another. One that stays for want of room answers for new failures only. */
static void
answer_for(WeftWork *work, WeftNodeWork *item, const WeftRest *trouble)
{
    if (trouble->attempts < work->control->options.starts_max || trouble->attempts <= item->brought)
        return;
    item->brought = trouble->attempts;
    weft_work_node_rests(work, item, trouble->deed, trouble->what, trouble->detail);
    weft_work_host_failed(work, item, trouble->what, trouble->detail);
}

void
weft_work_bring(WeftWork *work, WeftNodeWork *item, const WeftImage *image)
{
    WeftImages *images = work->control->images;
    const char *host = item->node->host;
    weft_images_bring(images, host, image, work->key);
    if (weft_images_progress(images, host, image))
        weft_rest_pass(&item->rest, WEFT_DEED_BRING);
    answer_for(work, item, weft_images_trouble(images, host, image));
}

void
weft_work_prepare(WeftWork *work, WeftNodeWork *item)
{
    WeftControl *control = work->control;
    const WeftNode *node = item->node;
    const WeftRest *trouble;
    if (!weft_hosts_inventory(control->hosts, node->host, &trouble)) {
        answer_for(work, item, trouble);
        return;
    }
    const WeftImage *image = image_of(work, node);
    if (weft_work_bring_saved(work, item))
        return;
    if (image && node->template && weft_images_are_on(control->images, node->host, image)) {
        weft_work_prime(work, item);
    } else if (image) {
        weft_work_bring(work, item, image);
    } else if (!weft_images_wanted(control->images)) {
        weft_work_wake_at(work, g_get_monotonic_time() + G_USEC_PER_SEC); /* they cannot be read just now */
    } else {
        weft_work_give_up(work, node,
                          "there is no image of its name any more; create the cluster anew from one that weft image ls shows",
                          node->image);
    }
}

/* How far those are that are not prepared, or why they are no further. */
void
weft_work_tell_preparing(const WeftWork *work, char **ret_text, char **ret_detail)
{
    WeftControl *control = work->control;
    g_autoptr(WeftBringing) bringing = weft_bringing_new();
    for (guint i = 0; i < work->nodes->len && !*ret_text; i++) {
        const WeftNode *node = ((const WeftNodeWork *)work->nodes->pdata[i])->node;
        if (node->phase != WEFT_NODE_CLAIMED || weft_work_is_prepared(work, node))
            continue;
        const WeftRest *trouble;
        const WeftImage *image = image_of(work, node);
        if (!weft_hosts_inventory(control->hosts, node->host, &trouble) && trouble->what) {
            g_autofree char *label = weft_node_label(node);
            g_autofree char *text = weft_rest_text(trouble);
            *ret_text = g_strdup_printf("%s: %s", label, text);
            *ret_detail = g_strdup(trouble->detail);
        } else if (image) {
            weft_images_add(control->images, node->host, image, bringing);
            weft_work_add_saved(work, node, bringing);
        }
    }
    if (!*ret_text)
        weft_bringing_tell(bringing, ret_text, ret_detail);
}

/* --- starting --- */

/* What a seed is made of, apart from the records that live on the main thread. */
typedef struct Birth {
    WeftNode *node;
    GArray *ports;
    WeftCluster *cluster;
    guint pkey;
    const WeftControlOptions *options;
    GArray *shared;
} Birth;

static void
birth_free(gpointer data)
{
    Birth *birth = data;
    weft_node_free(birth->node);
    g_array_unref(birth->ports);
    weft_cluster_free(birth->cluster);
    g_array_unref(birth->shared);
    g_free(birth);
}

static gboolean
make_seed(WeftJob *job, GError **error)
{
    const Birth *birth = job->prepare_data;
    const WeftControlOptions *options = birth->options;
    const WeftKeyOwner owner = { weft_cluster_keys(birth->cluster), birth->cluster->name, birth->node->id };
    g_autoptr(WeftKeys) keys = weft_keys_derive(options->secret, &owner, error);
    if (!keys)
        return FALSE;
    if (birth->cluster->capture) {
        job->seed = weft_seed_make_blank(birth->node, options->guest, error);
        return job->seed != NULL;
    }
    WeftSeedSpec spec = { birth->node, birth->ports, birth->cluster, birth->pkey, keys, options->guest, birth->shared };
    job->seed = weft_seed_make(&spec, error);
    return job->seed != NULL;
}

GArray *
weft_work_shared_keys(const WeftWork *work)
{
    GArray *keys = g_array_new(FALSE, FALSE, sizeof(guint16));
    weft_subnets_shared_keys(work->control->subnets, work->status->fabric, work->cluster, keys);
    return keys;
}

static Birth *
birth_new(const WeftWork *work, const WeftNode *node)
{
    const WeftHost *host = weft_fleet_host(work->control->fleet, node->host);
    Birth birth = { weft_node_copy(node), weft_node_ports(node, host), weft_cluster_copy(work->cluster),
                    work->status->pkey,   &work->control->options,     weft_work_shared_keys(work) };
    return g_memdup2(&birth, sizeof birth);
}

static void
run(WeftNodeWork *item)
{
    item->started = TRUE;
    weft_rest_pass(&item->rest, WEFT_DEED_START);
}

static void
started(WeftJob *job, const GError *error)
{
    WeftWork *work = job->owner;
    WeftNodeWork *item = weft_work_step_ended(work, job->subject);
    if (!item || item->node->phase != WEFT_NODE_CLAIMED)
        return;
    WeftDeed deed = job->paused ? WEFT_DEED_THAW : WEFT_DEED_START;
    if (error)
        weft_work_start_failed(work, item, &(WeftMishap){ deed, job->deadline, error });
    else
        run(item);
}

/* Writes what it is to be, all of it or a part. */
typedef struct Definition {
    enum { WHOLE, NIC, DEVICE } what;
    guint device;
    gboolean parted; /* it has gone on without what it has of its host */
} Definition;

static char *
write_definition(const WeftDomainSpec *spec, const Definition *definition, GError **error)
{
    if (definition->what == NIC)
        return weft_domain_nic_format(spec, error);
    if (definition->what == DEVICE)
        return weft_domain_device_format(spec, definition->device, error);
    return weft_domain_xml_format(spec, error);
}

static char *
define(WeftWork *work, const WeftNode *node, const Definition *definition, GError **error)
{
    WeftControl *control = work->control;
    const WeftHost *host = weft_fleet_host(control->fleet, node->host);
    const WeftImage *image = image_of(work, node);
    const WeftInventory *inventory = weft_hosts_inventory(control->hosts, node->host, NULL);
    if (!inventory) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE, "host %s has not told yet what it is able to", node->host);
        return NULL;
    }
    g_autoptr(WeftHost) complete = image ? weft_discover_addresses(host, inventory) : NULL;
    WeftDomainSpec spec = {
        .node = node, .host = complete ? complete : host, .pkey = work->status->pkey, .vxlan = work->status->vxlan
    };
    g_autofree char *record = definition->what == WHOLE ? weft_node_mark_write(node, work->cluster, work->status, image) : NULL;
    spec.site = control->options.site;
    spec.record = record;
    g_autoptr(GArray) shared = weft_work_shared_keys(work);
    spec.shared = shared;
    spec.image = image;
    spec.shm_size = work->cluster->shm ? work->cluster->shm : node->shm;
    spec.shm = spec.shm_size != 0;
    spec.tcg = !inventory->kvm;
    spec.later = node->template || work->cluster->capture;
    spec.copied = weft_templates_is_private(control->templates, node->template);
    spec.parted = node->template || definition->parted || weft_work_saved_node(work, node);
    return write_definition(&spec, definition, error);
}

char *
weft_work_definition(WeftWork *work, const WeftNode *node, GError **error)
{
    return define(work, node, &(Definition){ WHOLE }, error);
}

char *
weft_work_definition_parted(WeftWork *work, const WeftNode *node, GError **error)
{
    return define(work, node, &(Definition){ WHOLE, .parted = TRUE }, error);
}

char *
weft_work_nic(WeftWork *work, const WeftNode *node, GError **error)
{
    return define(work, node, &(Definition){ NIC }, error);
}

char *
weft_work_device(WeftWork *work, const WeftNode *node, guint index, GError **error)
{
    return define(work, node, &(Definition){ DEVICE, .device = index }, error);
}

/* What it goes on from, which was there a moment ago. */
static gboolean
add_origin(const WeftWork *work, const WeftNodeWork *item, WeftJob *job, GError **error)
{
    const WeftNode *node = item->node;
    WeftTemplates *templates = work->control->templates;
    const WeftTemplate *template = weft_templates_find(templates, node->template);
    const char *primed = item->whole ? NULL : weft_templates_primed(templates, node);
    if (!template || (!primed && !item->whole))
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "its template is gone");
    const WeftImageFile file = weft_template_file(template), disk = weft_template_disk(template);
    job->saved = weft_job_file_copy(&file);
    job->disk = disk.digest ? weft_job_file_copy(&disk) : NULL;
    job->primed = g_strdup(primed);
    weft_templates_used(templates, node);
    return TRUE;
}

const WeftImageFile *
weft_work_own_disk(const WeftWork *work, const WeftNode *node)
{
    const WeftImage *image = image_of(work, node);
    return image && image->disk && image->disk->format != WEFT_DISK_READONLY ? image->disk : NULL;
}

/* Memory without what the guest knows to be on its disk is of no use, nor is the reverse. */
static gboolean
check_saved_disk(const WeftWork *work, const WeftNode *node, GError **error)
{
    const WeftCheckpointNode *saved = weft_work_saved_node(work, node);
    return !saved || !saved->disk == !weft_work_own_disk(work, node) ||
           weft_error_refuse(error, WEFT_ERROR_INVALID, "image %s is not what it was when the checkpoint was made",
                             node->image);
}

static WeftJob *
start_job(WeftWork *work, const WeftNode *node, GError **error)
{
    WeftControl *control = work->control;
    const WeftHost *host = weft_fleet_host(control->fleet, node->host);
    const WeftImage *image = image_of(work, node);
    const WeftImageFile *disk = weft_work_own_disk(work, node);
    g_autofree char *xml = check_saved_disk(work, node, error) ? weft_work_definition(work, node, error) : NULL;
    if (!xml)
        return NULL;
    WeftJob *job = weft_job_new(WEFT_STEP_START, host->name, host->uri, xml);
    if (disk) {
        const WeftGroup *group = work->cluster->groups->pdata[weft_node_group(node, work->cluster)];
        job->file = weft_job_file_copy(disk);
        job->disk_size = group->disk;
    }
    if (image && control->options.guest) {
        job->prepare = make_seed;
        job->prepare_data = birth_new(work, node);
        job->prepare_free = birth_free;
    }
    return job;
}

void
weft_work_start(WeftWork *work, WeftNodeWork *item)
{
    g_autoptr(GError) error = NULL;
    WeftJob *job = start_job(work, item->node, &error);
    if (job && item->node->template && !add_origin(work, item, job, &error))
        g_clear_pointer(&job, weft_job_free);
    if (!job) {
        weft_work_start_failed(work, item, &(WeftMishap){ WEFT_DEED_START, 0, error });
        return;
    }
    item->stopped = FALSE;
    job->deadline = weft_images_deadline(work->control, job->disk ? job->saved->size + job->disk->size : 0);
    weft_work_add_origin(work, item, job);
    job->done = started;
    weft_work_submit(work, item, job);
}

/* --- stopping --- */

static void stop_on(WeftWork *work, WeftNodeWork *item, const char *name);

/* One on its way may be at both ends. */
static gboolean
is_to_stop_there(const WeftWork *work, const WeftNodeWork *item, const char *stopped)
{
    const WeftNode *target = item->node->target;
    return target && strcmp(stopped, target->host) != 0 &&
           weft_hosts_seen(work->control->hosts, target->host) != WEFT_SEEN_LOST;
}

static void
stopped(WeftJob *job, const GError *error)
{
    WeftWork *work = job->owner;
    WeftNodeWork *item = weft_work_step_ended(work, job->subject);
    if (!item)
        return;
    if (!error && is_to_stop_there(work, item, job->host)) {
        stop_on(work, item, item->node->target->host);
        return;
    }
    if (!error) {
        item->stopped = TRUE;
        weft_rest_pass(&item->rest, WEFT_DEED_STOP);
        if (has_devices(item->node))
            weft_hosts_devices_released(work->control->hosts, job->host);
        return;
    }
    g_autofree char *words = weft_words(WEFT_DEED_STOP, error, job->deadline);
    weft_work_node_rests(work, item, WEFT_DEED_STOP, words, error->message);
    if (weft_error_code(error) == WEFT_ERROR_UNAVAILABLE)
        weft_hosts_hint(work->control->hosts, job->host);
}

static void
stop_on(WeftWork *work, WeftNodeWork *item, const char *name)
{
    const WeftHost *host = weft_fleet_host(work->control->fleet, name);
    g_autofree char *domain = weft_node_domain(item->node);
    WeftJob *job = weft_job_new(WEFT_STEP_STOP, name, host ? host->uri : NULL, domain);
    job->deadline = work->control->options.stop_deadline;
    job->done = stopped;
    weft_work_submit(work, item, job);
}

void
weft_work_stop(WeftWork *work, WeftNodeWork *item)
{
    gboolean lost = weft_hosts_seen(work->control->hosts, item->node->host) == WEFT_SEEN_LOST;
    stop_on(work, item, lost && item->node->target ? item->node->target->host : item->node->host);
}
