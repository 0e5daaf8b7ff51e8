#include "errors.h"
#include "hypervisor-site.h"
#include "scratch.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

/* --- calls, as the cases want to read --- */

void
expect(gboolean ok, GError *error, int code)
{
    if (code < 0)
        g_assert_no_error(error);
    else
        g_assert_error(error, WEFT_ERROR, code);
    g_assert_cmpint(ok, ==, code < 0);
    g_clear_error(&error);
}

static void
start_on(Site *site, const WeftHostAddress *host, const char *node, guint memory, int code)
{
    GError *error = NULL;
    g_autofree char *xml = site->fixture->definition(node, memory);
    g_autoptr(GBytes) seed = g_bytes_new_static(SEED, strlen(SEED));
    gboolean ok = site->hv->ops->start(site->hv, host, &(WeftStart){ .xml = xml, .seed = seed }, NULL, &error);
    expect(ok, error, code);
}

void
start(Site *site, const char *node, guint memory, int code)
{
    start_on(site, site->host, node, memory, code);
}

void
stop(Site *site, const char *node, int code)
{
    GError *error = NULL;
    g_autofree char *domain = g_strdup_printf("weft-%s", node);
    gboolean ok = site->hv->ops->stop(site->hv, site->host, domain, NULL, &error);
    expect(ok, error, code);
}

/* The host's domains in a line: "db:- weft-…-1:…-1 weft-…-2:…-2(off)". */
static char *
listing_of(Site *site, const WeftHostAddress *host)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftContents) contents = site->hv->ops->list(site->hv, host, NULL, &error);
    g_assert_no_error(error);
    const GPtrArray *domains = contents->domains;
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < domains->len; i++) {
        const WeftDomain *domain = g_ptr_array_index(domains, i);
        g_string_append_printf(text, "%s%s:%s%s", i ? " " : "", domain->name, domain->node ? domain->node : "-",
                               domain->state == WEFT_DOMAIN_STOPPED ? "(off)" : "");
    }
    return g_string_free(text, FALSE);
}

void
expect_listing(Site *site, const char *expected)
{
    g_autofree char *listing = listing_of(site, site->host);
    g_assert_cmpstr(listing, ==, expected);
}

void
reopen(Site *site)
{
    weft_hypervisor_free(site->hv);
    site->hv = site->fixture->open(site->world);
}

static gboolean
lacks(gpointer function)
{
    if (!function)
        g_test_skip("the driver's fixture cannot do that");
    return !function;
}

/* --- cases --- */

static void
start_and_stop(Site *site)
{
    expect_listing(site, "");
    start(site, NODE, 256, OK);
    expect_listing(site, "weft-" NODE ":" NODE);
    g_autofree char *elsewhere = listing_of(site, &site->fixture->hosts[1]);
    g_assert_cmpstr(elsewhere, ==, "");
    stop(site, NODE, OK);
    expect_listing(site, "");
    stop(site, NODE, OK);
}

static void
same_definition_again(Site *site)
{
    start(site, NODE, 256, OK);
    start(site, NODE, 256, OK);
    expect_listing(site, "weft-" NODE ":" NODE);
}

static void
other_definition(Site *site)
{
    start(site, NODE, 256, OK);
    start(site, NODE, 512, WEFT_ERROR_CONFLICT);
    start(site, NODE, 256, OK);
    stop(site, NODE, OK);
    start(site, NODE, 512, OK);
}

static void
stop_absent(Site *site)
{
    stop(site, NODE, OK);
    start(site, OTHER, 256, OK);
    stop(site, NODE, OK);
    expect_listing(site, "weft-" OTHER ":" OTHER);
}

static void
bad_definition(Site *site)
{
    const char *const bad[] = { "", "rubbish", "<domain/>", "<network><name>weft-x</name></network>",
                                "<domain><name></name></domain>" };
    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        GError *error = NULL;
        gboolean ok = site->hv->ops->start(site->hv, site->host, &(WeftStart){ .xml = bad[i] }, NULL, &error);
        expect(ok, error, WEFT_ERROR_INVALID);
    }
    expect_listing(site, "");
}

static void
survives_reopen(Site *site)
{
    start(site, NODE, 256, OK);
    reopen(site);
    expect_listing(site, "weft-" NODE ":" NODE);
    start(site, NODE, 256, OK);
    start(site, NODE, 512, WEFT_ERROR_CONFLICT);
}

static void
foreign_domain(Site *site)
{
    if (lacks(site->fixture->add_foreign))
        return;
    start(site, NODE, 256, OK);
    site->fixture->add_foreign(site->world, site->host->name, "db");
    expect_listing(site, "db:- weft-" NODE ":" NODE);
}

static void
stopped_domain(Site *site)
{
    if (lacks(site->fixture->end_domain))
        return;
    start(site, NODE, 256, OK);
    start(site, OTHER, 256, OK);
    site->fixture->end_domain(site->world, site->host->name, "weft-" NODE);
    site->fixture->end_domain(site->world, site->host->name, "weft-" OTHER);
    expect_listing(site, "weft-" NODE ":" NODE "(off) weft-" OTHER ":" OTHER "(off)");
    start(site, NODE, 512, OK); /* from the new definition: nothing runs that could contradict */
    stop(site, OTHER, OK);
    expect_listing(site, "weft-" NODE ":" NODE);
}

static void
lost_host(Site *site)
{
    if (lacks(site->fixture->fault))
        return;
    start(site, NODE, 256, OK);
    site->fixture->fault(site->world, site->host->name, "lost");
    start(site, OTHER, 256, WEFT_ERROR_UNAVAILABLE);
    stop(site, NODE, WEFT_ERROR_UNAVAILABLE);
    g_autoptr(GError) error = NULL;
    g_assert_null(site->hv->ops->list(site->hv, site->host, NULL, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    start_on(site, &site->fixture->hosts[1], OTHER, 256, OK);

    site->fixture->fault(site->world, site->host->name, NULL);
    expect_listing(site, "weft-" NODE ":" NODE);
}

/* A start on a thread of its own. */
typedef struct Call {
    Site *site;
    guint memory;
    GCancellable *cancellable;
    GError *error;
} Call;

static gpointer
run_call(gpointer data)
{
    Call *call = data;
    WeftHypervisor *hv = call->site->hv;
    g_autofree char *xml = call->site->fixture->definition(NODE, call->memory);
    hv->ops->start(hv, call->site->host, &(WeftStart){ .xml = xml }, call->cancellable, &call->error);
    return NULL;
}

/* Whether the cancellation comes before or during the call, it ends: that the join returns is the point. */
static void
cancel_hanging(Site *site)
{
    if (lacks(site->fixture->fault))
        return;
    site->fixture->fault(site->world, site->host->name, "hang start");
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    Call call = { .site = site, .memory = 256, .cancellable = cancellable };
    GThread *thread = g_thread_new("hanging", run_call, &call);
    g_cancellable_cancel(cancellable);
    g_thread_join(thread);
    g_assert_error(call.error, WEFT_ERROR, WEFT_ERROR_TIMEOUT);
    g_clear_error(&call.error);

    site->fixture->fault(site->world, site->host->name, NULL);
    start(site, NODE, 256, OK);
}

static void
cancelled_before(Site *site)
{
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    g_cancellable_cancel(cancellable);
    Call call = { .site = site, .memory = 256, .cancellable = cancellable };
    run_call(&call);
    g_assert_error(call.error, WEFT_ERROR, WEFT_ERROR_TIMEOUT);
    g_clear_error(&call.error);
    expect_listing(site, "");
}

#define THREADS 8

static gpointer
start_many(gpointer data)
{
    Site *site = data;
    for (guint i = 0; i < site->fixture->crowd; i++) {
        g_autofree char *node = g_strdup_printf("4k2m8w9x1a2b-%u", i);
        start(site, node, 256, OK);
    }
    return NULL;
}

/* All start the same domains: each must find its own or another's work done, and no domain may be there twice. */
static void
concurrent_starts(Site *site)
{
    GThread *threads[THREADS];
    for (guint i = 0; i < THREADS; i++)
        threads[i] = g_thread_new("starter", start_many, site);
    for (guint i = 0; i < THREADS; i++)
        g_thread_join(threads[i]);
    g_autoptr(WeftContents) contents = site->hv->ops->list(site->hv, site->host, NULL, NULL);
    const GPtrArray *domains = contents->domains;
    g_assert_nonnull(domains);
    g_assert_cmpuint(domains->len, ==, site->fixture->crowd);
}

/* Two definitions of one name at once: one wins. */
static void
racing_definitions(Site *site)
{
    Call calls[2] = { { .site = site, .memory = 256 }, { .site = site, .memory = 512 } };
    GThread *threads[2];
    for (guint i = 0; i < 2; i++)
        threads[i] = g_thread_new("racer", run_call, &calls[i]);
    for (guint i = 0; i < 2; i++)
        g_thread_join(threads[i]);
    g_assert_true((calls[0].error == NULL) != (calls[1].error == NULL));
    for (guint i = 0; i < 2; i++) {
        if (calls[i].error)
            g_assert_error(calls[i].error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
        g_clear_error(&calls[i].error);
    }
}

/* --- images --- */

#define IMAGE_SIZE (32u << 20)
#define IMAGE_SMALL (1u << 20) /* more than anybody sends at once */

/* A file of weftd's that is to go to a host, and what was told of its way. */
typedef struct Image {
    char *folder;
    char *path;
    WeftImageFile file;
    guint64 first, last;
    guint told;
    GCancellable *break_off; /* when half of it went; NULL: never */
} Image;

static void
image_fill(Image *image, char byte)
{
    g_autofree char *text = g_malloc(IMAGE_SIZE);
    for (guint i = 0; i < IMAGE_SIZE; i++)
        text[i] = (char)(byte + i / 4099);
    g_assert_true(g_file_set_contents(image->path, text, IMAGE_SIZE, NULL));
    if (!image->file.digest)
        image->file.digest = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)text, IMAGE_SIZE);
}

static void
image_init(Image *image)
{
    *image = (Image){ .folder = scratch_new(), .file = { .size = IMAGE_SIZE } };
    image->path = g_build_filename(image->folder, "file", NULL);
    image_fill(image, 'a');
}

static void
image_clear(Image *image)
{
    scratch_free(image->folder);
    g_free(image->path);
    g_free(image->file.digest);
}

static void
note_progress(guint64 done, guint64 total, gpointer data)
{
    Image *image = data;
    g_assert_cmpuint(total, ==, IMAGE_SIZE);
    g_assert_cmpuint(done, >=, image->last);
    if (image->told++ == 0)
        image->first = done;
    image->last = done;
    if (image->break_off && done >= IMAGE_SIZE / 2)
        g_cancellable_cancel(image->break_off);
}

static void
bring(Site *site, Image *image, int code)
{
    GError *error = NULL;
    image->told = 0;
    image->first = image->last = 0;
    const WeftBring wanted = { .file = &image->file, .path = image->path, .progress = note_progress, .data = image };
    gboolean ok = site->hv->ops->bring(site->hv, site->host, &wanted, image->break_off, &error);
    expect(ok, error, code);
}

static void
discard(Site *site, const Image *image)
{
    GError *error = NULL;
    gboolean ok = site->hv->ops->discard(site->hv, site->host, image->file.digest, NULL, &error);
    expect(ok, error, OK);
}

static void
expect_image(Site *site, const Image *image, gboolean there)
{
    g_autoptr(WeftContents) contents = site->hv->ops->list(site->hv, site->host, NULL, NULL);
    g_assert_nonnull(contents);
    g_assert_cmpuint(contents->images->len, ==, there ? 1 : 0);
    if (!there)
        return;
    g_assert_cmpstr(g_ptr_array_index(contents->images, 0), ==, image->file.digest);
    g_autofree char *sum = site->fixture->image_sum(site->world, site->host->name, image->file.digest);
    g_assert_cmpstr(sum, ==, image->file.digest);
}

static void
bring_whole(Site *site)
{
    Image image;
    image_init(&image);
    discard(site, &image);
    expect_image(site, &image, FALSE);
    bring(site, &image, OK);
    g_assert_cmpuint(image.last, ==, IMAGE_SIZE);
    expect_image(site, &image, TRUE);

    bring(site, &image, OK);
    g_assert_cmpuint(image.told, ==, 0);
    reopen(site);
    expect_image(site, &image, TRUE);
    g_assert_cmpint(unlink(image.path), ==, 0);
    bring(site, &image, OK); /* what is there need not be read again */

    discard(site, &image);
    expect_image(site, &image, FALSE);
    image_clear(&image);
}

static void
bring_resumed(Site *site)
{
    Image image;
    image_init(&image);
    image.break_off = g_cancellable_new();
    bring(site, &image, WEFT_ERROR_TIMEOUT);
    g_clear_object(&image.break_off);
    expect_image(site, &image, FALSE);

    reopen(site);
    bring(site, &image, OK);
    g_assert_cmpuint(image.first, >, IMAGE_SMALL);
    g_assert_cmpuint(image.last, ==, IMAGE_SIZE);
    expect_image(site, &image, TRUE);
    discard(site, &image);
    image_clear(&image);
}

static void
bring_wrong(Site *site)
{
    Image image;
    image_init(&image);
    image_fill(&image, 'b');
    bring(site, &image, WEFT_ERROR_INVALID);
    expect_image(site, &image, FALSE);
    image_fill(&image, 'a');
    bring(site, &image, OK);
    expect_image(site, &image, TRUE);
    discard(site, &image);
    image_clear(&image);
}

typedef struct Bringer {
    Site *site;
    Image *image;
    GError *error;
} Bringer;

static gpointer
run_bringer(gpointer data)
{
    Bringer *bringer = data;
    WeftHypervisor *hv = bringer->site->hv;
    const WeftBring wanted = { .file = &bringer->image->file, .path = bringer->image->path };
    hv->ops->bring(hv, bringer->site->host, &wanted, NULL, &bringer->error);
    return NULL;
}

static void
bring_twice_at_once(Site *site)
{
    Image image;
    image_init(&image);
    Bringer bringers[3];
    GThread *threads[G_N_ELEMENTS(bringers)];
    for (guint i = 0; i < G_N_ELEMENTS(bringers); i++) {
        bringers[i] = (Bringer){ site, &image, NULL };
        threads[i] = g_thread_new("bringer", run_bringer, &bringers[i]);
    }
    for (guint i = 0; i < G_N_ELEMENTS(bringers); i++) {
        g_thread_join(threads[i]);
        g_assert_no_error(bringers[i].error);
    }
    expect_image(site, &image, TRUE);
    discard(site, &image);
    image_clear(&image);
}

/* --- networks --- */

#define VXLAN 10001

static void
connect_by(Site *site, guint vxlan, const char *peers, const char *run, int code)
{
    GError *error = NULL;
    g_autoptr(WeftHostNetwork) network = weft_host_network_new(vxlan, "4k2m8w9x1a2b", "7site5of5all");
    g_auto(GStrv) names = g_strsplit(peers, " ", -1);
    for (guint i = 0; names[i]; i++)
        g_ptr_array_add(network->peers, g_strdup(names[i]));
    gboolean ok = site->hv->ops->connect(site->hv, site->host, network, run, NULL, &error);
    expect(ok, error, code);
}

static void
connect_to(Site *site, guint vxlan, const char *peers)
{
    connect_by(site, vxlan, peers, NULL, OK);
}

static void
disconnect_from(Site *site, guint vxlan)
{
    GError *error = NULL;
    gboolean ok = site->hv->ops->disconnect(site->hv, site->host, vxlan, NULL, &error);
    expect(ok, error, OK);
}

/* "10001:4k2m8w9x1a2b:10.9.0.1,10.9.0.2 …" */
static void
expect_networks(Site *site, const char *expected)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftContents) contents = site->hv->ops->list(site->hv, site->host, NULL, &error);
    g_assert_no_error(error);
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < contents->networks->len; i++) {
        const WeftHostNetwork *network = g_ptr_array_index(contents->networks, i);
        g_string_append_printf(text, "%s%u:%s:", i ? " " : "", network->vxlan, network->cluster);
        for (guint p = 0; p < network->peers->len; p++)
            g_string_append_printf(text, "%s%s", p ? "," : "", (char *)g_ptr_array_index(network->peers, p));
    }
    g_assert_cmpstr(text->str, ==, expected);
}

static void
networks(Site *site)
{
    expect_networks(site, "");
    disconnect_from(site, VXLAN);
    connect_to(site, VXLAN, "10.9.0.1 10.9.0.2");
    connect_to(site, VXLAN, "10.9.0.1 10.9.0.2");
    connect_to(site, VXLAN - 1, "10.9.0.1");
    expect_networks(site, "10000:4k2m8w9x1a2b:10.9.0.1 10001:4k2m8w9x1a2b:10.9.0.1,10.9.0.2");
    connect_to(site, VXLAN, "10.9.0.3");
    reopen(site);
    expect_networks(site, "10000:4k2m8w9x1a2b:10.9.0.1 10001:4k2m8w9x1a2b:10.9.0.3");
    disconnect_from(site, VXLAN);
    expect_networks(site, "10000:4k2m8w9x1a2b:10.9.0.1");
    disconnect_from(site, VXLAN);
    disconnect_from(site, VXLAN - 1);
    expect_networks(site, "");
}

/* --- whose it is --- */

void
expect_claim(Site *site, const char *instance, const char *run, const char *former, gboolean take, WeftOwnerVerdict verdict)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftOwner) claim = weft_owner_new("0aaaaaaaaaaa", instance, 3, run);
    claim->former = former ? g_strsplit(former, " ", -1) : NULL;
    g_autoptr(WeftOwner) record = NULL;
    WeftOwnerVerdict said = WEFT_OWNER_GRANTED;
    gboolean ok = site->hv->ops->claim(site->hv, site->host, claim, take, &said, &record, NULL, &error);
    expect(ok, g_steal_pointer(&error), OK);
    g_assert_cmpint(said, ==, verdict);
}

static void
claims(Site *site)
{
    const char *here = "0bbbbbbbbbbb", *there = "0ccccccccccc";
    const char *first = "0rrrrrrrrrrr", *second = "0sssssssssss", *third = "0ttttttttttt";
    expect_claim(site, here, first, NULL, TRUE, WEFT_OWNER_GRANTED);
    expect_claim(site, here, first, NULL, FALSE, WEFT_OWNER_GRANTED);
    expect_claim(site, here, second, NULL, FALSE, WEFT_OWNER_STALE);
    expect_claim(site, there, second, third, FALSE, WEFT_OWNER_FOREIGN);
    reopen(site);
    expect_claim(site, here, second, "0qqqqqqqqqqq 0rrrrrrrrrrr", FALSE, WEFT_OWNER_GRANTED);
    expect_claim(site, here, first, NULL, FALSE, WEFT_OWNER_STALE);
    expect_claim(site, there, third, NULL, TRUE, WEFT_OWNER_GRANTED);
    expect_claim(site, here, second, first, FALSE, WEFT_OWNER_FOREIGN);
}

void
start_by(Site *site, const char *run, guint memory, const WeftDomainOrigin *origin, int code)
{
    GError *error = NULL;
    g_autofree char *xml = site->fixture->definition(NODE, memory);
    g_autoptr(GBytes) seed = g_bytes_new_static(SEED, strlen(SEED));
    const WeftStart start = { .xml = xml, .seed = seed, .origin = origin, .run = run };
    gboolean ok = site->hv->ops->start(site->hv, site->host, &start, NULL, &error);
    expect(ok, error, code);
}

/* Whatever is there is touched by nobody who has only named his run. */
static void
starts_by_run(Site *site)
{
    const char *here = "0bbbbbbbbbbb", *first = "0rrrrrrrrrrr", *second = "0sssssssssss";
    expect_claim(site, here, first, NULL, TRUE, WEFT_OWNER_GRANTED);
    start_by(site, second, 256, NULL, WEFT_ERROR_DENIED);
    expect_listing(site, "");
    start_by(site, first, 256, NULL, OK);
    expect_listing(site, "weft-" NODE ":" NODE);
    expect_claim(site, here, second, first, FALSE, WEFT_OWNER_GRANTED);
    start_by(site, first, 256, NULL, WEFT_ERROR_DENIED);
    start_by(site, second, 256, NULL, WEFT_ERROR_DENIED);
    expect_listing(site, "weft-" NODE ":" NODE);
    start_by(site, NULL, 256, NULL, OK); /* the same definition, whoever started it */
    stop(site, NODE, OK);
    start_by(site, first, 256, NULL, WEFT_ERROR_DENIED);
    start_by(site, second, 256, NULL, OK);
}

/* … nor its files, which may be all that another weftd has made so far. */
static void
files_by_run(Site *site)
{
    const char *const suffixes[] = { ".seed", ".disk", ".layer" };
    const char *here = "0bbbbbbbbbbb", *first = "0rrrrrrrrrrr", *second = "0sssssssssss";
    expect_claim(site, here, first, NULL, TRUE, WEFT_OWNER_GRANTED);
    start_by(site, second, 256, NULL, WEFT_ERROR_DENIED); /* there is a pool from here on */
    for (gsize i = 0; i < G_N_ELEMENTS(suffixes); i++) {
        g_autofree char *name = g_strconcat("weft-" NODE, suffixes[i], NULL);
        site->fixture->put_file(site->world, site->host->name, name, "another's");
        start_by(site, first, 256, NULL, WEFT_ERROR_DENIED);
        start_by(site, second, 256, NULL, WEFT_ERROR_DENIED);
        g_autofree char *text = site->fixture->file_text(site->world, site->host->name, name);
        g_assert_cmpstr(text, ==, "another's");
        stop(site, NODE, OK);
        expect_listing(site, "");
    }
    start_by(site, first, 256, NULL, OK);
}

static void
networks_by_run(Site *site)
{
    const char *here = "0bbbbbbbbbbb", *first = "0rrrrrrrrrrr", *second = "0sssssssssss";
    expect_claim(site, here, first, NULL, TRUE, WEFT_OWNER_GRANTED);
    connect_by(site, VXLAN, "10.9.0.1", second, WEFT_ERROR_DENIED);
    expect_networks(site, "");
    connect_by(site, VXLAN, "10.9.0.1", first, OK);
    connect_by(site, VXLAN, "10.9.0.2", first, WEFT_ERROR_DENIED);
    expect_networks(site, "10001:4k2m8w9x1a2b:10.9.0.1");
    connect_to(site, VXLAN, "10.9.0.2");
    expect_networks(site, "10001:4k2m8w9x1a2b:10.9.0.2");
    disconnect_from(site, VXLAN);
}

/* --- streams --- */

#define PATIENCE 20000 /* milliseconds for what comes by itself */

static int
open_stream(Site *site, WeftChannel channel, int code)
{
    GError *error = NULL;
    int fd = site->hv->ops->open(site->hv, site->host, "weft-" NODE, channel, NULL, &error);
    expect(fd >= 0, error, code);
    return fd;
}

static void
expect_end(int fd)
{
    char byte[256];
    struct pollfd waiting = { .fd = fd, .events = POLLIN };
    gssize n;
    do {
        g_assert_cmpint(poll(&waiting, 1, PATIENCE), ==, 1);
        n = read(fd, byte, sizeof byte);
    } while (n > 0);
    g_assert_cmpint(n, ==, 0);
    close(fd);
}

/* Whoever had it has just closed it: that may take a moment to get around. */
static int
open_stream_soon(Site *site, WeftChannel channel)
{
    gint64 end = g_get_monotonic_time() + PATIENCE * 1000;
    for (;;) {
        g_autoptr(GError) error = NULL;
        int fd = site->hv->ops->open(site->hv, site->host, "weft-" NODE, channel, NULL, &error);
        if (fd >= 0)
            return fd;
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_BUSY);
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_thread_yield();
    }
}

static void
streams(Site *site)
{
    const WeftChannel channels[] = { WEFT_CHANNEL_GUEST, WEFT_CHANNEL_CONSOLE };
    for (guint i = 0; i < G_N_ELEMENTS(channels); i++) {
        open_stream(site, channels[i], WEFT_ERROR_NOT_FOUND);
        start(site, NODE, 256, OK);
        int fd = open_stream(site, channels[i], OK);
        open_stream(site, channels[i], WEFT_ERROR_BUSY);
        close(fd);
        fd = open_stream_soon(site, channels[i]);
        stop(site, NODE, OK);
        expect_end(fd);
        open_stream(site, channels[i], WEFT_ERROR_NOT_FOUND);
    }
}

/* The guest's channel is nobody's but weft's: a weftd before us may have died with it open. */
static void
stream_of_before(Site *site)
{
    start(site, NODE, 256, OK);
    int before = open_stream(site, WEFT_CHANNEL_GUEST, OK);
    WeftHypervisor *dead = site->hv;
    site->hv = site->fixture->open(site->world);
    int fd = open_stream(site, WEFT_CHANNEL_GUEST, OK);
    close(before);
    stop(site, NODE, OK);
    expect_end(fd);
    weft_hypervisor_free(dead);
}

static void
expect_text(int fd, const char *text, gsize length)
{
    g_autofree char *seen = g_malloc(length);
    for (gsize at = 0; at < length;) {
        struct pollfd waiting = { .fd = fd, .events = POLLIN };
        g_assert_cmpint(poll(&waiting, 1, PATIENCE), ==, 1);
        gssize n = read(fd, seen + at, length - at);
        g_assert_cmpint(n, >, 0);
        at += (gsize)n;
    }
    g_assert_cmpmem(seen, length, text, length);
}

/* A driver's guests say something by themselves, or answer what its fixture asks. */
static void
stream_speaks(Site *site)
{
    if (lacks((gpointer)site->fixture->hello))
        return;
    start(site, NODE, 256, OK);
    int fd = open_stream(site, site->fixture->hello_channel, OK);
    const char *ask = site->fixture->ask;
    gsize n = site->fixture->ask_length;
    if (n)
        g_assert_cmpint(write(fd, ask, n), ==, n);
    expect_text(fd, site->fixture->hello, site->fixture->hello_length);
    close(fd);
}

/* --- hardware --- */

static void
inspect(Site *site)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftInventory) inventory = site->hv->ops->inspect(site->hv, site->host, NULL, &error);
    g_assert_no_error(error);
    const WeftHost *hardware = inventory->hardware;
    g_assert_cmpuint(hardware->numa->len, >, 0);
    g_assert_cmpuint(hardware->cores->len, >, 0);
    g_autoptr(GHashTable) cpus = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < hardware->cores->len; i++) {
        const WeftCore *core = &g_array_index(hardware->cores, WeftCore, i);
        g_assert_cmpuint(core->id, ==, i);
        g_assert_cmpuint(core->numa, <, hardware->numa->len);
        g_assert_cmpuint(core->n_cpus, >, 0);
        for (guint t = 0; t < core->n_cpus; t++)
            g_assert_true(g_hash_table_add(cpus, GUINT_TO_POINTER(core->cpus[t])));
    }
    g_assert_true(inventory->hook || inventory->hook_error || !site->fixture->has_hook);
}

/* --- events --- */

typedef struct Told {
    GMutex mutex;
    GCond cond;
    guint n;
    char *rebooted; /* NULL: none */
} Told;

static void
note_change(const char *host, WeftNews news, const char *domain, gpointer data)
{
    Told *told = data;
    g_mutex_lock(&told->mutex);
    told->n++;
    g_assert_true((news == WEFT_NEWS_REBOOTED) == (domain != NULL));
    if (domain) {
        g_free(told->rebooted);
        told->rebooted = g_strdup_printf("%s of %s", domain, host);
    }
    g_cond_broadcast(&told->cond);
    g_mutex_unlock(&told->mutex);
}

typedef struct Watching {
    Site *site;
    Told *told; /* NULL: nobody listens any more */
    gint done;  /* atomic */
} Watching;

static gboolean
watch_now(gpointer data)
{
    Watching *watching = data;
    WeftHypervisor *hv = watching->site->hv;
    hv->ops->watch(hv, watching->told ? note_change : NULL, watching->told);
    g_atomic_int_set(&watching->done, 1);
    return G_SOURCE_REMOVE;
}

/* On the thread of the main loop. */
static void
watch(Site *site, Told *told)
{
    Watching watching = { site, told, 0 };
    g_idle_add(watch_now, &watching);
    while (!g_atomic_int_get(&watching.done))
        g_thread_yield();
}

static void
await_change(Told *told)
{
    gint64 end = g_get_monotonic_time() + PATIENCE * 1000;
    g_mutex_lock(&told->mutex);
    while (told->n == 0)
        g_assert_true(g_cond_wait_until(&told->cond, &told->mutex, end));
    told->n = 0;
    g_mutex_unlock(&told->mutex);
}

static void
tells_of_changes(Site *site)
{
    if (lacks((gpointer)site->fixture->end_domain) || !site->fixture->tells) {
        g_test_skip("the driver tells nothing");
        return;
    }
    static Told told;
    watch(site, &told);
    start(site, NODE, 256, OK);
    await_change(&told);
    site->fixture->end_domain(site->world, site->host->name, "weft-" NODE);
    await_change(&told);
    watch(site, NULL);
}

/* Whoever talks to the guest program is told at once, and so is the listener. */
static void
tells_of_reboots(Site *site)
{
    if (lacks((gpointer)site->fixture->reboot))
        return;
    static Told told;
    g_autofree char *expected = g_strdup_printf("weft-" NODE " of %s", site->host->name);
    watch(site, &told);
    start(site, NODE, 256, OK);
    int fd = open_stream(site, WEFT_CHANNEL_GUEST, OK);
    site->fixture->reboot(site->world, site->host->name, "weft-" NODE);
    do
        await_change(&told);
    while (!told.rebooted);
    g_assert_cmpstr(told.rebooted, ==, expected);
    expect_end(fd);
    close(open_stream_soon(site, WEFT_CHANNEL_GUEST));
    watch(site, NULL);
    g_clear_pointer(&told.rebooted, g_free);
}

/* clang-format off */
static const NamedCase cases[] = {
    { "start-and-stop",        start_and_stop },
    { "same-definition-again", same_definition_again },
    { "other-definition",      other_definition },
    { "stop-absent",           stop_absent },
    { "bad-definition",        bad_definition },
    { "survives-reopen",       survives_reopen },
    { "foreign-domain",        foreign_domain },
    { "stopped-domain",        stopped_domain },
    { "lost-host",             lost_host },
    { "cancel-hanging",        cancel_hanging },
    { "cancelled-before",      cancelled_before },
    { "concurrent-starts",     concurrent_starts },
    { "racing-definitions",    racing_definitions },
    { "bring-whole",           bring_whole },
    { "bring-resumed",         bring_resumed },
    { "bring-wrong",           bring_wrong },
    { "bring-twice-at-once",   bring_twice_at_once },
    { "networks",              networks },
    { "claims",                claims },
    { "starts-by-run",         starts_by_run },
    { "files-by-run",          files_by_run },
    { "networks-by-run",       networks_by_run },
    { "streams",               streams },
    { "stream-of-before",      stream_of_before },
    { "stream-speaks",         stream_speaks },
    { "inspect",               inspect },
    { "tells-of-changes",      tells_of_changes },
    { "tells-of-reboots",      tells_of_reboots },
    { NULL },
};
/* clang-format on */

typedef struct Planned {
    const WeftHypervisorFixture *fixture;
    Case run;
} Planned;

static void
run_case(gconstpointer data)
{
    const Planned *planned = data;
    Site site = { .fixture = planned->fixture, .world = planned->fixture->create(), .host = &planned->fixture->hosts[0] };
    site.hv = planned->fixture->open(site.world);
    planned->run(&site);
    weft_hypervisor_free(site.hv);
    planned->fixture->destroy(site.world);
}

static void
add_cases(const WeftHypervisorFixture *fixture, const NamedCase *some)
{
    for (; some->name; some++) {
        g_autofree char *path = g_strdup_printf("/hypervisor/%s/%s", fixture->name, some->name);
        Planned *planned = g_new(Planned, 1);
        *planned = (Planned){ fixture, some->run };
        g_test_add_data_func_full(path, planned, run_case, g_free);
    }
}

void
weft_hypervisor_contract_add(const WeftHypervisorFixture *fixture)
{
    add_cases(fixture, cases);
    add_cases(fixture, saved_cases);
}

static gpointer
run_main_loop(gpointer loop)
{
    g_main_loop_run(loop);
    return NULL;
}

static gboolean
end_main_loop(gpointer loop)
{
    g_main_loop_quit(loop);
    return G_SOURCE_REMOVE;
}

int
weft_hypervisor_contract_run(void)
{
    g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
    GThread *thread = g_thread_new("main-loop", run_main_loop, loop);
    int failed = g_test_run();
    g_idle_add(end_main_loop, loop);
    g_thread_join(thread);
    return failed;
}
