#include "errors.h"
#include "id.h"
#include "seed.h"
#include "size.h"
#include "work.h"

/* --- a node boots after all --- */

void
weft_work_boot_cold(WeftWork *work, WeftNodeWork *item, const char *why, const char *detail)
{
    WeftNode *node = item->node;
    g_clear_pointer(&node->template, g_free);
    node->cold = TRUE;
    item->dirty = TRUE;
    g_free(item->unforked);
    g_free(item->unforked_detail);
    item->unforked = g_strdup(why);
    item->unforked_detail = g_strdup(detail);
    weft_work_wake(work);
}

/* Its file was brought to its host: then it can be read instead. */
static gboolean
may_read_all(const WeftWork *work, const WeftNodeWork *item)
{
    const WeftTemplate *template = weft_templates_find(work->control->templates, item->node->template);
    if (!template)
        return FALSE;
    WeftImageFile file = weft_template_file(template), disk = weft_template_disk(template);
    const WeftImage saved = { .name = (char *)"", .kernel = &file, .disk = disk.digest ? &disk : NULL };
    return !item->whole && template->state == WEFT_TEMPLATE_READY &&
           weft_images_are_on(work->control->images, item->node->host, &saved);
}

void
weft_work_unforked(WeftWork *work, WeftNodeWork *item, const char *why, const char *detail)
{
    if (!weft_work_is_cloning(work)) {
        weft_work_boot_cold(work, item, why, detail);
    } else if (item->node->phase == WEFT_NODE_CLAIMED && may_read_all(work, item)) {
        item->whole = TRUE;
        weft_work_wake(work);
    } else {
        weft_work_give_up(work, item->node, why, detail);
    }
}

void
weft_work_tell_cold(const WeftWork *work, WeftTxn *txn, WeftNodeWork *item)
{
    if (!item->unforked)
        return;
    weft_work_tell_event(work, txn, "node-boots", item->node, item->unforked_detail, " boots, and is not forked: %s",
                         item->unforked);
    g_clear_pointer(&item->unforked, g_free);
    g_clear_pointer(&item->unforked_detail, g_free);
}

/* --- memory to fork from --- */

gboolean
weft_work_is_primed(const WeftWork *work, const WeftNode *node)
{
    if (!node->template || weft_templates_primed(work->control->templates, node))
        return TRUE;
    const WeftNodeWork *item = weft_work_find(work, node->id);
    return item && item->whole;
}

void
weft_work_prime(WeftWork *work, WeftNodeWork *item)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *why = NULL, *detail = NULL;
    g_autofree char *xml = weft_work_definition(work, item->node, &error);
    if (!xml) {
        weft_work_unforked(work, item, "its definition cannot be made", error->message);
        return;
    }
    WeftPrimeOrder order = { item->node, work->key, xml };
    if (!weft_templates_prime(work->control->templates, &order, &why, &detail))
        weft_work_unforked(work, item, why, detail);
}

/* --- who it is --- */

static void
plugged(WeftWork *work, const char *node_id, const char *why, const GError *error)
{
    WeftNodeWork *item = weft_work_find(work, node_id);
    if (!item || item->node->phase != WEFT_NODE_CLAIMED)
        return;
    if (error)
        weft_work_start_failed(work, item, &(WeftMishap){ WEFT_DEED_PLUG, 0, error, why });
    else
        weft_work_come_up(work, item);
}

static void
linked(WeftJob *job, const GError *error)
{
    WeftWork *work = job->owner;
    WeftNodeWork *item = weft_work_step_ended(work, job->subject);
    if (!item || item->node->phase != WEFT_NODE_CLAIMED)
        return;
    if (error)
        weft_work_start_failed(work, item, &(WeftMishap){ WEFT_DEED_FORK, job->deadline, error });
    else
        weft_work_come_up(work, item);
}

/* A copy of a running node has that one's network device, with its link down until it is somebody else. */
static void
link_up(WeftWork *work, WeftNodeWork *item)
{
    g_autoptr(GError) error = NULL;
    const WeftHost *host = weft_fleet_host(work->control->fleet, item->node->host);
    g_autofree char *domain = weft_node_domain(item->node);
    g_autofree char *xml = weft_work_nic(work, item->node, &error);
    if (!xml) {
        weft_work_start_failed(work, item, &(WeftMishap){ WEFT_DEED_FORK, 0, error });
        return;
    }
    WeftJob *job = weft_job_new(WEFT_STEP_PLUG, host->name, host->uri, domain);
    job->xml = g_steal_pointer(&xml);
    job->deadline = work->control->options.start_deadline;
    job->done = linked;
    weft_work_submit(work, item, job);
}

static void
became(const WeftTalk *talk, const char *output, const GError *error)
{
    WeftWork *work = talk->work;
    WeftNodeWork *item = weft_work_step_ended(work, talk->node);
    if (!item || item->node->phase != WEFT_NODE_CLAIMED)
        return;
    if (error)
        weft_work_start_failed(work, item, &(WeftMishap){ WEFT_DEED_FORK, talk->deadline, error });
    else if (weft_templates_is_private(work->control->templates, item->node->template))
        link_up(work, item);
    else
        weft_work_plug_fork(work, item, plugged);
}

void
weft_work_become(WeftWork *work, WeftNodeWork *item)
{
    g_autoptr(GError) error = NULL;
    const WeftControlOptions *options = &work->control->options;
    if (!weft_hosts_inventory(work->control->hosts, item->node->host, NULL)) /* its first word wakes the cluster */
        return;
    guint8 random[WEFT_SEED_RANDOM];
    const WeftKeyOwner owner = { weft_cluster_keys(work->cluster), work->cluster->name, item->node->id };
    g_autoptr(WeftKeys) keys = weft_keys_derive(options->secret, &owner, &error);
    if (!keys) {
        weft_work_start_failed(work, item, &(WeftMishap){ WEFT_DEED_FORK, 0, error });
        return;
    }
    g_autoptr(GArray) shared = weft_work_shared_keys(work);
    g_autoptr(GArray) ports = weft_node_ports(item->node, weft_fleet_host(work->control->fleet, item->node->host));
    WeftSeedSpec spec = { item->node, ports, work->cluster, work->status->pkey, keys, options->guest, shared };
    weft_random_bytes(random, sizeof random);
    const WeftTemplate *template = weft_templates_find(work->control->templates, item->node->template);
    g_autofree char *input = weft_seed_become(&spec, template ? template->source : NULL, random);
    weft_work_ask(work, item, &(WeftWorkAsk){ "become", input, options->await_deadline, became });
}

/* --- the node that becomes a template --- */

/* It rests, and after a few times it is given up. */
static void
capture_failed(WeftWork *work, WeftNodeWork *item, const char *words, const GError *error, gboolean hopeless)
{
    weft_work_node_rests(work, item, WEFT_DEED_CAPTURE, words, error ? error->message : NULL);
    if (hopeless || item->rest.attempts >= work->control->options.starts_max) {
        item->captured = TRUE;
        weft_templates_failed(work->control->templates, work->cluster->capture, words, error ? error->message : NULL);
    }
}

static void
capture_step_failed(WeftWork *work, WeftNodeWork *item, const GError *error, gint64 deadline)
{
    g_autofree char *words = weft_words(WEFT_DEED_CAPTURE, error, deadline);
    capture_failed(work, item, words, error, g_error_matches(error, WEFT_ERROR, WEFT_ERROR_INVALID));
}

/* The item of a step that has ended; NULL: nobody wants the template any more. */
static WeftNodeWork *
capture_step_ended(WeftWork *work, const char *node_id)
{
    WeftNodeWork *item = weft_work_step_ended(work, node_id);
    return item && item->node->phase == WEFT_NODE_UP && !work->cluster->deleted ? item : NULL;
}

static void
fetched(WeftJob *job, const GError *error)
{
    WeftWork *work = job->owner;
    WeftNodeWork *item = capture_step_ended(work, job->subject);
    if (!item) {
        weft_images_drop(work->control->images, job);
    } else if (error) {
        capture_step_failed(work, item, error, job->deadline);
    } else {
        item->captured = TRUE;
        weft_templates_captured(work->control->templates, work->cluster->capture, job->host, job->fetched);
    }
}

static WeftJob *
capture_job(WeftWork *work, WeftNodeWork *item, WeftStepType step, const char *text, WeftJobDone done)
{
    const WeftHost *host = weft_fleet_host(work->control->fleet, item->node->host);
    WeftJob *job = weft_job_new(step, host->name, host->uri, text);
    job->deadline = weft_images_deadline(work->control, weft_node_memory(item->node));
    job->done = done;
    return job;
}

static void
saved(WeftJob *job, const GError *error)
{
    WeftWork *work = job->owner;
    WeftNodeWork *item = capture_step_ended(work, job->subject);
    if (!item)
        return;
    if (error) {
        capture_step_failed(work, item, error, job->deadline);
        return;
    }
    g_autofree char *domain = weft_node_domain(item->node);
    g_autofree char *file = g_strconcat(domain, WEFT_SAVED_SUFFIX, NULL);
    WeftJob *next = capture_job(work, item, WEFT_STEP_FETCH, file, fetched);
    weft_images_fetch(work->control, next, weft_images_path(work->control, file),
                      WEFT_SAVED_LIVE_MAX(weft_node_memory(item->node)));
    weft_work_submit(work, item, next);
}

static void
settled(const WeftTalk *talk, const char *output, const GError *error)
{
    WeftWork *work = talk->work;
    WeftNodeWork *item = capture_step_ended(work, talk->node);
    if (!item)
        return;
    if (error) {
        g_autofree char *words = weft_words(WEFT_DEED_CAPTURE, error, talk->deadline);
        g_autofree char *said = g_strdup_printf("%s: %s", words, error->message);
        capture_failed(work, item, said, error, g_error_matches(error, WEFT_ERROR, WEFT_ERROR_INVALID));
        return;
    }
    /* It runs on: whatever happens now, it can be saved again. */
    g_autofree char *domain = weft_node_domain(item->node);
    WeftJob *job = capture_job(work, item, WEFT_STEP_SAVE, domain, saved);
    job->mode = WEFT_SAVE_RUNNING;
    weft_work_submit(work, item, job);
}

void
weft_work_capture(WeftWork *work, WeftNodeWork *item)
{
    /* A host that has not told what it is able to wakes the cluster when it has. */
    if (item->captured || !weft_hosts_inventory(work->control->hosts, item->node->host, NULL))
        return;
    if (!weft_templates_fits(work->control->templates, work->cluster->capture, item->node)) {
        capture_failed(work, item, "no host of its kind was free, or its image has changed", NULL, TRUE);
        return;
    }
    weft_work_ask(work, item, &(WeftWorkAsk){ "settle", "", work->control->options.await_deadline, settled });
}
