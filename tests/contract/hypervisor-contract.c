#include "hypervisor-contract.h"

#include "errors.h"

#define NODE "4k2m8w9x1a2b-1"
#define OTHER "4k2m8w9x1a2b-2"

/* A world with a driver on it. */
typedef struct Site {
    const WeftHypervisorFixture *fixture;
    gpointer world;
    WeftHypervisor *hv;
    const WeftHostAddress *host;
} Site;

typedef void (*Case)(Site *site);

/* --- calls, as the cases want to read --- */

static void
expect(gboolean ok, GError *error, int code)
{
    if (code < 0)
        g_assert_no_error(error);
    else
        g_assert_error(error, WEFT_ERROR, code);
    g_assert_cmpint(ok, ==, code < 0);
    g_clear_error(&error);
}

#define OK (-1)

static void
start_on(Site *site, const WeftHostAddress *host, const char *node, guint memory, int code)
{
    GError *error = NULL;
    g_autofree char *xml = site->fixture->definition(node, memory);
    gboolean ok = site->hv->ops->start(site->hv, host, &(WeftStart){ .xml = xml }, NULL, &error);
    expect(ok, error, code);
}

static void
start(Site *site, const char *node, guint memory, int code)
{
    start_on(site, site->host, node, memory, code);
}

static void
await(Site *site, const char *node, int code)
{
    GError *error = NULL;
    g_autofree char *domain = g_strdup_printf("weft-%s", node);
    gboolean ok = site->hv->ops->await(site->hv, site->host, domain, NULL, &error);
    expect(ok, error, code);
}

static void
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

static void
expect_listing(Site *site, const char *expected)
{
    g_autofree char *listing = listing_of(site, site->host);
    g_assert_cmpstr(listing, ==, expected);
}

static void
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
    await(site, NODE, WEFT_ERROR_NOT_FOUND);
    start(site, NODE, 256, OK);
    await(site, NODE, OK);
    expect_listing(site, "weft-" NODE ":" NODE);
    g_autofree char *elsewhere = listing_of(site, &site->fixture->hosts[1]);
    g_assert_cmpstr(elsewhere, ==, "");
    stop(site, NODE, OK);
    await(site, NODE, WEFT_ERROR_NOT_FOUND);
    expect_listing(site, "");
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
    await(site, NODE, OK);
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
    await(site, NODE, WEFT_ERROR_NOT_FOUND);
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
    await(site, NODE, WEFT_ERROR_UNAVAILABLE);
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
    await(site, NODE, OK);
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
#define ROUNDS 10

static gpointer
start_many(gpointer data)
{
    Site *site = data;
    for (guint i = 0; i < ROUNDS; i++) {
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
    g_assert_cmpuint(domains->len, ==, ROUNDS);
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

/* clang-format off */
static const struct {
    const char *name;
    Case run;
} cases[] = {
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

void
weft_hypervisor_contract_add(const WeftHypervisorFixture *fixture)
{
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = g_strdup_printf("/hypervisor/%s/%s", fixture->name, cases[i].name);
        Planned *planned = g_new(Planned, 1);
        *planned = (Planned){ fixture, cases[i].run };
        g_test_add_data_func_full(path, planned, run_case, g_free);
    }
}
