/* The images' files on their way to hosts: once to each, whoever waits, and again after a failure; on the fake hypervisor. */
#include "../contract/scratch.h"
#include "control-private.h"
#include "errors.h"
#include "fake-hypervisor.h"
#include "hosts.h"
#include "prune.h"
#include "sqlite.h"

#include <glib/gstdio.h>
#include <string.h>

#define DISK "a disk that two images share"
#define KERNEL "a kernel"

typedef struct Env {
    char *folder;
    WeftStore *store;
    WeftHypervisor *hv;
    GHashTable *fabrics;
    WeftControl *control;
    WeftImages *images;
} Env;

/* The fake's, but for a count of what is brought. */
static WeftHypervisorOps ops;
static gboolean (*fake_bring)(WeftHypervisor *, const WeftHostAddress *, const WeftBring *, GCancellable *, GError **);
static gint brings; /* atomic */

static gboolean
counting_bring(WeftHypervisor *hv, const WeftHostAddress *host, const WeftBring *bring, GCancellable *cancellable,
               GError **error)
{
    g_atomic_int_inc(&brings);
    return fake_bring(hv, host, bring, cancellable, error);
}

static void
count_brings(WeftHypervisor *hv)
{
    brings = 0;
    fake_bring = hv->ops->bring;
    ops = *hv->ops;
    ops.bring = counting_bring;
    hv->ops = &ops;
}

static void
commit(Env *env, WeftTxn *txn)
{
    g_autoptr(GError) error = NULL;
    weft_store_commit_wait(env->store, txn, &error);
    g_assert_no_error(error);
}

static void
put_host(Env *env, const char *name)
{
    g_autoptr(GError) error = NULL;
    json_auto_t *json = json_pack("{s:s, s:s, s:s, s:s, s:[{s:i}]}", "name", name, "fabric", "ib0", "leaf", "leaf1", "uri",
                                  "fake://n1/", "numa", "cores", 4);
    g_autoptr(WeftHost) host = weft_host_from_json(json, "host", &error);
    g_assert_no_error(error);
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_host(txn, host, WEFT_ABSENT);
    commit(env, txn);
}

/* A file as weftd has it, and what a record says of it. */
static json_t *
put_file(Env *env, const char *content)
{
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, content, -1);
    g_autofree char *path = g_build_filename("images", digest, NULL);
    scratch_write(env->folder, path, content);
    return json_pack("{s:s, s:I}", "digest", digest, "size", (json_int_t)strlen(content));
}

static void
put_image(Env *env, const char *name, const char *disk, const char *kernel)
{
    g_autoptr(GError) error = NULL;
    json_auto_t *json = json_pack("{s:s, s:o}", "name", name, "disk", put_file(env, disk));
    if (kernel)
        json_object_set_new(json, "kernel", put_file(env, kernel));
    g_autoptr(WeftImage) image = weft_image_from_json(json, "image", &error);
    g_assert_no_error(error);
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_put_image(txn, image, WEFT_ABSENT);
    commit(env, txn);
    weft_images_changed(env->images);
}

static void
set_up(Env *env, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    env->folder = scratch_new();
    g_autofree char *db = g_build_filename(env->folder, "weft.db", NULL);
    g_autofree char *world = g_build_filename(env->folder, "world", NULL);
    g_autofree char *images = g_build_filename(env->folder, "images", NULL);
    env->store = weft_store_sqlite_open(db, 0, &error);
    g_assert_no_error(error);
    env->hv = weft_hypervisor_fake_new(world, &error);
    g_assert_no_error(error);
    count_brings(env->hv);
    put_host(env, "n1");
    put_host(env, "n2");
    env->fabrics = g_hash_table_new(g_str_hash, g_str_equal);
    WeftControlOptions options = weft_control_defaults;
    options.queue = weft_queue_defaults;
    options.site = "7site5of5all";
    options.images = g_intern_string(images);
    options.backoff = (WeftBackoff){ 20 * 1000, 20 * 1000 };
    env->control = weft_control_new(env->store, env->hv, env->fabrics, &options, &error);
    g_assert_no_error(error);
    env->images = env->control->images;
    while (weft_hosts_seen(env->control->hosts, "n1") == WEFT_SEEN_HELD ||
           weft_hosts_seen(env->control->hosts, "n2") == WEFT_SEEN_HELD)
        g_main_context_iteration(NULL, TRUE);
    put_image(env, "mpi", DISK, KERNEL);
    put_image(env, "plain", DISK, NULL);
}

static void
tear_down(Env *env, gconstpointer data)
{
    weft_control_free(env->control);
    g_hash_table_unref(env->fabrics);
    weft_hypervisor_free(env->hv);
    weft_store_free(env->store);
    scratch_free(env->folder);
}

static const WeftImage *
find(Env *env, const char *name)
{
    const WeftImage *image = weft_images_find(env->images, name);
    g_assert_nonnull(image);
    return image;
}

/* Asks for it again and again, as a cluster does that is woken, until it is there. */
static void
bring_to_the_end(Env *env, const char *host, const char *name)
{
    while (!weft_images_are_on(env->images, host, find(env, name))) {
        weft_images_bring(env->images, host, find(env, name), "acme/cfd");
        g_main_context_iteration(NULL, FALSE);
    }
}

static void
await_trouble(Env *env, const char *host, const char *name, guint attempts)
{
    while (weft_images_trouble(env->images, host, find(env, name))->attempts < attempts) {
        weft_images_bring(env->images, host, find(env, name), "acme/cfd");
        g_main_context_iteration(NULL, FALSE);
    }
}

/* What there is to say of an image on its way to both hosts. */
static char *
tell(Env *env, const char *name, char **ret_detail)
{
    char *text = NULL;
    g_autoptr(WeftBringing) bringing = weft_bringing_new();
    weft_images_add(env->images, "n1", find(env, name), bringing);
    weft_images_add(env->images, "n2", find(env, name), bringing);
    weft_images_add(env->images, "n2", find(env, name), bringing); /* a second node of that host */
    *ret_detail = NULL;
    weft_bringing_tell(bringing, &text, ret_detail);
    return text;
}

static void
test_records(Env *env, gconstpointer data)
{
    g_assert_cmpuint(g_hash_table_size(weft_images_wanted(env->images)), ==, 2); /* one is shared */
    g_assert_null(weft_images_find(env->images, "own"));
    put_image(env, "own", "another disk", NULL);
    g_assert_cmpuint(strlen(find(env, "own")->disk->digest), ==, 64);
    g_assert_cmpuint(g_hash_table_size(weft_images_wanted(env->images)), ==, 3);
}

static void
test_each_once(Env *env, gconstpointer data)
{
    g_assert_false(weft_images_are_on(env->images, "n1", find(env, "mpi")));
    weft_images_bring(env->images, "n1", find(env, "mpi"), "acme/a");
    weft_images_bring(env->images, "n1", find(env, "mpi"), "acme/b");
    weft_images_bring(env->images, "n1", find(env, "plain"), "acme/b");
    bring_to_the_end(env, "n1", "mpi");
    g_assert_true(weft_images_are_on(env->images, "n1", find(env, "plain")));
    g_assert_false(weft_images_are_on(env->images, "n2", find(env, "plain")));
    weft_images_bring(env->images, "n1", find(env, "mpi"), "acme/c");
    g_assert_cmpint(g_atomic_int_get(&brings), ==, 2); /* a disk and a kernel */
    bring_to_the_end(env, "n2", "plain");
    g_assert_cmpint(g_atomic_int_get(&brings), ==, 3);
}

static void
test_told(Env *env, gconstpointer data)
{
    g_autofree char *detail = NULL;
    g_assert_null(tell(env, "mpi", &detail));
    scratch_write(env->folder, "world/faults", "hang bring\n");
    weft_images_bring(env->images, "n1", find(env, "mpi"), "acme/cfd");
    g_autofree char *one = tell(env, "mpi", &detail);
    g_assert_cmpstr(one, ==, "bringing image mpi to 1 host: 0 %");
    weft_images_bring(env->images, "n2", find(env, "mpi"), "acme/cfd");
    g_autofree char *two = tell(env, "mpi", &detail);
    g_assert_cmpstr(two, ==, "bringing image mpi to 2 hosts: 0 %");
    g_assert_null(detail);
}

static void
test_failure(Env *env, gconstpointer data)
{
    g_autofree char *detail = NULL, *over = NULL;
    scratch_write(env->folder, "world/n1/faults", "fail bring 2 no space left\n");
    await_trouble(env, "n1", "plain", 1);
    g_autofree char *text = tell(env, "plain", &detail);
    g_assert_nonnull(strstr(text, "image plain: "));
    g_assert_nonnull(strstr(text, "; try 2 in "));
    g_assert_null(strstr(text, "no space left")); /* a driver's words are for operators */
    g_assert_nonnull(strstr(detail, "no space left"));
    await_trouble(env, "n1", "plain", 2);
    bring_to_the_end(env, "n1", "plain");
    g_assert_cmpint(g_atomic_int_get(&brings), ==, 3);
    g_assert_cmpuint(weft_images_trouble(env->images, "n1", find(env, "plain"))->attempts, ==, 0);
    g_assert_null(tell(env, "plain", &over));
}

/* --- when it is forgotten that they have ended --- */

static gboolean
has_ended(Env *env, const char *digest)
{
    return weft_store_has_ended(env->store, WEFT_THING_IMAGE, digest);
}

/* In the store, while nobody has been told of it yet. Returns the digest of its disk. */
static char *
remove_untold(Env *env, const char *name)
{
    gint64 revision;
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftImage) image = weft_store_load_image(env->store, name, &revision, &error);
    g_assert_no_error(error);
    find(env, name); /* all were read by now */
    WeftTxn *txn = weft_txn_new("test");
    weft_txn_remove_image(txn, image, revision);
    weft_store_commit(env->store, txn, NULL, NULL);
    while (!has_ended(env, image->disk->digest))
        g_usleep(100);
    return g_strdup(image->disk->digest);
}

static gboolean
would_prune(Env *env)
{
    g_autoptr(WeftTxn) txn = weft_txn_new("test");
    weft_pruner_drop_images(env->control->pruner, txn);
    return !weft_txn_is_empty(txn);
}

/* What is known of the images is older than the record that one has ended: it would be taken for one that is named again. */
static void
test_end_that_nobody_was_told_of(Env *env, gconstpointer data)
{
    put_image(env, "own", "another disk", NULL);
    bring_to_the_end(env, "n1", "own");
    g_autofree char *digest = remove_untold(env, "own");
    g_assert_true(g_hash_table_contains(weft_images_wanted(env->images), digest));
    g_assert_false(would_prune(env));
    while (g_hash_table_contains(weft_images_wanted(env->images), digest))
        g_main_context_iteration(NULL, TRUE);
    g_assert_false(would_prune(env)); /* it is on a host */
    put_image(env, "again", "another disk", NULL);
    g_assert_true(would_prune(env) || !has_ended(env, digest)); /* or the timer was faster */
}

/* A look that began while the file was there tells of it after the file has been removed: its end must be proved until then. */
static void
test_end_that_a_look_may_ask_for(Env *env, gconstpointer data)
{
    WeftHosts *hosts = env->control->hosts;
    put_image(env, "own", "another disk", NULL);
    g_autofree char *digest = remove_untold(env, "own");
    g_autofree char *path = weft_images_path(env->control, digest);
    g_assert_cmpint(g_unlink(path), ==, 0);
    while (g_hash_table_contains(weft_images_wanted(env->images), digest))
        g_main_context_iteration(NULL, TRUE);
    weft_watch_set_image(weft_hosts_find(hosts, "n1"), digest, FALSE); /* as the end of its removal does */
    g_assert_false(would_prune(env));
    weft_hosts_hint(hosts, "n1");
    while (!would_prune(env) && has_ended(env, digest))
        g_main_context_iteration(NULL, TRUE);
}

/* A failure of one host is none of the others'. */
static void
test_failure_elsewhere(Env *env, gconstpointer data)
{
    scratch_write(env->folder, "world/n1/faults", "fail bring 0 no space left\n");
    await_trouble(env, "n1", "plain", 1);
    bring_to_the_end(env, "n2", "plain");
    g_assert_cmpuint(weft_images_trouble(env->images, "n2", find(env, "plain"))->attempts, ==, 0);
    g_assert_false(weft_images_are_on(env->images, "n1", find(env, "plain")));
}

static void
discarded(WeftJob *job, const GError *error)
{
    *(int *)job->owner = error ? error->code : 0;
}

/* The error that it ended with; 0: it was done. */
static int
discard(Env *env, const char *host, const char *name)
{
    int outcome = -1;
    WeftJob *job = weft_job_new(WEFT_STEP_DISCARD, host, NULL, name);
    job->deadline = 60 * G_USEC_PER_SEC;
    job->done = discarded;
    job->owner = &outcome;
    weft_jobs_submit(env->control->jobs, job);
    while (outcome < 0)
        g_main_context_iteration(NULL, TRUE);
    return outcome;
}

static gboolean
is_on_disk(Env *env, const char *host, const char *digest)
{
    g_autofree char *name = weft_image_file_name(digest);
    g_autofree char *path = g_build_filename(env->folder, "world", host, "pool", name, NULL);
    return g_file_test(path, G_FILE_TEST_EXISTS);
}

/* An order to remove a file may have waited: by now an image of the same digest may be there again, and whoever brings it has
 * found the file. */
static void
test_wanted_again(Env *env, gconstpointer data)
{
    g_autofree char *digest = g_strdup(find(env, "plain")->disk->digest);
    bring_to_the_end(env, "n1", "plain");
    g_assert_cmpint(discard(env, "n1", digest), ==, WEFT_ERROR_CONFLICT);
    g_assert_true(is_on_disk(env, "n1", digest));
    g_assert_cmpint(discard(env, "n1", "weft-c-0.saved"), ==, 0);

    WeftTxn *txn = weft_txn_new("test");
    weft_txn_delete(txn, WEFT_KIND_IMAGE, "plain", WEFT_ANY);
    weft_txn_delete(txn, WEFT_KIND_IMAGE, "mpi", WEFT_ANY);
    commit(env, txn);
    weft_images_changed(env->images);
    g_assert_cmpint(discard(env, "n1", digest), ==, 0);
    g_assert_false(is_on_disk(env, "n1", digest));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(path, test) g_test_add(path, Env, NULL, set_up, test, tear_down)
    ADD("/images/records", test_records);
    ADD("/images/each-once", test_each_once);
    ADD("/images/told", test_told);
    ADD("/images/failure", test_failure);
    ADD("/images/failure-elsewhere", test_failure_elsewhere);
    ADD("/images/end-that-nobody-was-told-of", test_end_that_nobody_was_told_of);
    ADD("/images/end-that-a-look-may-ask-for", test_end_that_a_look_may_ask_for);
    ADD("/images/wanted-again", test_wanted_again);
    return g_test_run();
}
