/* Plugging, pausing, measuring and moving, as every hypervisor driver must do them. */
#include "hypervisor-moves.h"

#include "errors.h"

#include <string.h>

#define NODE "4k2m8w9x1a2b-1"
#define DOMAIN "weft-" NODE
#define SEED "what a node is told at its first boot"

typedef struct Site {
    const WeftHypervisorFixture *fixture;
    gpointer world;
    WeftHypervisor *hv;
    const WeftHostAddress *here, *there;
} Site;

typedef void (*Case)(Site *site);

/* --- calls, as the cases want to read --- */

static void
start(Site *site, const WeftHostAddress *host, guint memory, int code)
{
    GError *error = NULL;
    g_autofree char *xml = site->fixture->definition(NODE, memory);
    g_autoptr(GBytes) seed = g_bytes_new_static(SEED, strlen(SEED));
    gboolean ok = site->hv->ops->start(site->hv, host, &(WeftStart){ .xml = xml, .seed = seed }, NULL, &error);
    expect(ok, error, code);
}

static void
stop(Site *site, const WeftHostAddress *host)
{
    GError *error = NULL;
    gboolean ok = site->hv->ops->stop(site->hv, host, DOMAIN, NULL, &error);
    expect(ok, error, OK);
}

static gboolean
is_on(Site *site, const WeftHostAddress *host)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftContents) contents = site->hv->ops->list(site->hv, host, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(contents->domains->len, <=, 1);
    if (contents->domains->len == 0)
        return FALSE;
    const WeftDomain *domain = g_ptr_array_index(contents->domains, 0);
    g_assert_cmpstr(domain->name, ==, DOMAIN);
    g_assert_cmpint(domain->state, ==, WEFT_DOMAIN_RUNNING); /* and no files of one that has gone */
    return TRUE;
}

static void
expect_on(Site *site, const WeftHostAddress *host)
{
    g_assert_cmpint(is_on(site, site->here), ==, host == site->here);
    g_assert_cmpint(is_on(site, site->there), ==, host == site->there);
}

typedef struct Progress {
    guint64 last, total;
    guint told;
} Progress;

static void
note_progress(guint64 done, guint64 total, gpointer data)
{
    Progress *progress = data;
    g_assert_cmpuint(done, <=, total);
    progress->last = done;
    progress->total = total;
    progress->told++;
}

typedef struct Moving {
    Site *site;
    WeftCopy copy;
    const char *rdma;
    const WeftHostAddress *from, *to;
    GCancellable *cancellable;
    Progress progress;
    WeftMoved moved;
    gboolean ok;
    GError *error;
} Moving;

static gpointer
run_move(gpointer data)
{
    Moving *moving = data;
    WeftHypervisor *hv = moving->site->hv;
    g_autofree char *xml = moving->site->fixture->definition(NODE, 256);
    const WeftMove move = { .domain = DOMAIN,
                            .xml = xml,
                            .copy = moving->copy,
                            .stall = 300 * 1000,
                            .rdma = moving->rdma,
                            .progress = note_progress,
                            .data = &moving->progress };
    moving->ok = hv->ops->move(hv, moving->from, moving->to, &move, &moving->moved, moving->cancellable, &moving->error);
    return NULL;
}

static WeftMoved
move(Site *site, WeftCopy copy, const WeftHostAddress *from, const WeftHostAddress *to, int code)
{
    Moving moving = { .site = site, .copy = copy, .from = from, .to = to };
    run_move(&moving);
    expect(moving.ok, moving.error, code);
    return moving.moved;
}

static gboolean
lacks(gpointer function)
{
    if (!function)
        g_test_skip("the driver's fixture cannot do that");
    return !function;
}

/* --- devices --- */

static gboolean
cancel_soon(gpointer cancellable)
{
    g_cancellable_cancel(cancellable);
    return G_SOURCE_REMOVE;
}

static void
plug(Site *site, const char *xml, int code)
{
    GError *error = NULL;
    WeftPlugged plugged;
    gboolean ok = site->hv->ops->plug(site->hv, site->here, DOMAIN, xml, &plugged, NULL, &error);
    expect(ok, error, code);
}

/* A guest that does not let go is awaited for as long as the caller likes. */
static void
unplug(Site *site, const char *xml)
{
    GError *error = NULL;
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    if (!site->fixture->lets_go)
        g_timeout_add(500, cancel_soon, cancellable);
    gboolean ok = site->hv->ops->unplug(site->hv, site->here, DOMAIN, xml, cancellable, &error);
    expect(ok, error, site->fixture->lets_go ? OK : WEFT_ERROR_TIMEOUT);
}

static void
plug_and_unplug(Site *site)
{
    g_autofree char *xml = site->fixture->device();
    plug(site, xml, WEFT_ERROR_NOT_FOUND);
    start(site, site->here, 256, OK);
    plug(site, xml, OK);
    plug(site, xml, OK);
    unplug(site, xml);
    if (site->fixture->lets_go)
        unplug(site, xml);
    stop(site, site->here);
    expect_on(site, NULL);
}

/* --- processors --- */

static void
set_paused(Site *site, gboolean paused, int code)
{
    GError *error = NULL;
    const WeftHypervisorOps *ops = site->hv->ops;
    gboolean ok = (paused ? ops->pause : ops->resume)(site->hv, site->here, DOMAIN, NULL, &error);
    expect(ok, error, code);
}

static void
pause_and_resume(Site *site)
{
    set_paused(site, TRUE, WEFT_ERROR_NOT_FOUND);
    set_paused(site, FALSE, WEFT_ERROR_NOT_FOUND);
    start(site, site->here, 256, OK);
    set_paused(site, FALSE, OK);
    set_paused(site, TRUE, OK);
    set_paused(site, TRUE, OK);
    expect_on(site, site->here);
    move(site, WEFT_COPY_PRE, site->here, site->there, WEFT_ERROR_INVALID);
    expect_on(site, site->here);
    set_paused(site, FALSE, OK);
}

static void
save(Site *site, WeftSaveMode mode, int code)
{
    GError *error = NULL;
    WeftSaved saved;
    gboolean ok = site->hv->ops->save(site->hv, site->here, DOMAIN, mode, &saved, NULL, &error);
    expect(ok, error, code);
}

/* That it is paused is told by what then cannot be done. */
static void
expect_paused(Site *site)
{
    move(site, WEFT_COPY_PRE, site->here, site->there, WEFT_ERROR_INVALID);
    expect_on(site, site->here);
}

static void
save_paused(Site *site)
{
    GError *error = NULL;
    start(site, site->here, 256, OK);
    save(site, WEFT_SAVE_STILL, WEFT_ERROR_CONFLICT);
    set_paused(site, TRUE, OK);
    save(site, WEFT_SAVE_STILL, OK);
    expect_paused(site);
    save(site, WEFT_SAVE_RUNNING, OK);
    expect_paused(site);
    set_paused(site, FALSE, OK);
    save(site, WEFT_SAVE_STILL, WEFT_ERROR_CONFLICT);
    gboolean ok = site->hv->ops->discard(site->hv, site->here, DOMAIN ".saved", NULL, &error);
    expect(ok, error, OK);
    move(site, WEFT_COPY_PRE, site->here, site->there, OK);
    expect_on(site, site->there);
}

static void
go_on_paused(Site *site)
{
    GError *error = NULL;
    g_autofree char *xml = site->fixture->definition(NODE, 256);
    g_autoptr(GBytes) seed = g_bytes_new_static(SEED, strlen(SEED));
    const WeftDomainOrigin waits = { .paused = TRUE };
    start(site, site->here, 256, OK);
    save(site, WEFT_SAVE_AWAY, OK);
    for (guint i = 0; i < 2; i++) { /* the same call again leaves it so */
        const WeftStart again = { .xml = xml, .seed = seed, .origin = &waits };
        gboolean ok = site->hv->ops->start(site->hv, site->here, &again, NULL, &error);
        expect(ok, error, OK);
        expect_paused(site);
    }
    set_paused(site, FALSE, OK);
    move(site, WEFT_COPY_PRE, site->here, site->there, OK);
    expect_on(site, site->there);
}

static void
measures(Site *site)
{
    guint64 rate = G_MAXUINT64;
    GError *error = NULL;
    gboolean ok = site->hv->ops->measure(site->hv, site->here, DOMAIN, &rate, NULL, &error);
    expect(ok, error, WEFT_ERROR_NOT_FOUND);
    start(site, site->here, 256, OK);
    error = NULL;
    ok = site->hv->ops->measure(site->hv, site->here, DOMAIN, &rate, NULL, &error);
    expect(ok, error, OK);
    g_assert_cmpuint(rate, <, (guint64)1 << 40);
}

/* --- moves --- */

static void
move_by(Site *site, WeftCopy copy)
{
    start(site, site->here, 256, OK);
    move(site, copy, site->here, site->there, OK);
    expect_on(site, site->there);
    move(site, copy, site->here, site->there, OK); /* it is there */
    start(site, site->there, 256, OK);             /* and is what it would have been if it had started there */
    start(site, site->there, 512, WEFT_ERROR_CONFLICT);
    move(site, copy, site->there, site->here, OK);
    expect_on(site, site->here);
}

static void
move_pre(Site *site)
{
    move_by(site, WEFT_COPY_PRE);
}

static void
move_post(Site *site)
{
    move_by(site, WEFT_COPY_POST);
}

static void
move_hybrid(Site *site)
{
    move_by(site, WEFT_COPY_HYBRID);
}

/* Where there is no RDMA device, or it fails, it goes over TCP and tells why. */
static void
move_rdma(Site *site)
{
    start(site, site->here, 256, OK);
    Moving moving = { .site = site, .copy = WEFT_COPY_PRE, .rdma = "192.0.2.1", .from = site->here, .to = site->there };
    run_move(&moving);
    expect(moving.ok, moving.error, OK);
    expect_on(site, site->there);
    g_assert_cmpint(moving.moved.rdma, ==, moving.moved.rdma_failed == NULL);
    g_test_message("%s", moving.moved.rdma ? "over RDMA" : moving.moved.rdma_failed);
    weft_moved_clear(&moving.moved);
}

static void
move_absent(Site *site)
{
    move(site, WEFT_COPY_PRE, site->here, site->there, WEFT_ERROR_NOT_FOUND);
    expect_on(site, NULL);
}

static void
move_to_lost(Site *site)
{
    if (lacks((gpointer)site->fixture->fault))
        return;
    start(site, site->here, 256, OK);
    site->fixture->fault(site->world, site->there->name, "lost");
    move(site, WEFT_COPY_PRE, site->here, site->there, WEFT_ERROR_UNAVAILABLE);
    g_assert_true(is_on(site, site->here));
    site->fixture->fault(site->world, site->there->name, NULL);
    expect_on(site, site->here);
}

/* Wherever it was by then: the next call ends what was begun, and it is in one place. */
static void
move_cancelled(Site *site)
{
    if (lacks((gpointer)site->fixture->fault))
        return;
    start(site, site->here, 256, OK);
    site->fixture->fault(site->world, site->there->name, "hang move");
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    Moving moving = { .site = site, .from = site->here, .to = site->there, .cancellable = cancellable };
    GThread *thread = g_thread_new("hanging", run_move, &moving);
    g_cancellable_cancel(cancellable);
    g_thread_join(thread);
    expect(moving.ok, moving.error, WEFT_ERROR_TIMEOUT);
    site->fixture->fault(site->world, site->there->name, NULL);
    Moving again = { .site = site, .from = site->here, .to = site->there };
    do { /* a host that was cut off is not found again at once */
        g_clear_error(&again.error);
        run_move(&again);
    } while (again.error && again.error->code == WEFT_ERROR_UNAVAILABLE);
    expect(again.ok, again.error, OK);
    expect_on(site, site->there);
}

/* weftd dies while it moves one; another weftd goes on. */
static void
move_survives_reopen(Site *site)
{
    start(site, site->here, 256, OK);
    move(site, WEFT_COPY_HYBRID, site->here, site->there, OK);
    weft_hypervisor_free(site->hv);
    site->hv = site->fixture->open(site->world);
    move(site, WEFT_COPY_HYBRID, site->here, site->there, OK);
    expect_on(site, site->there);
}

static void
claim(Site *site, const WeftHostAddress *host, const char *run, const char *former)
{
    GError *error = NULL;
    g_autoptr(WeftOwner) claim = weft_owner_new("0aaaaaaaaaaa", "0bbbbbbbbbbb", 3, run);
    claim->former = former ? g_strsplit(former, " ", -1) : NULL;
    g_autoptr(WeftOwner) record = NULL;
    WeftOwnerVerdict verdict = WEFT_OWNER_STALE;
    gboolean ok = site->hv->ops->claim(site->hv, host, claim, !former, &verdict, &record, NULL, &error);
    expect(ok, error, OK);
    g_assert_cmpint(verdict, ==, WEFT_OWNER_GRANTED);
}

/* What runs names the run that had it started: its hosts are another's by now. */
static void
move_by_another_run(Site *site)
{
    const char *first = "0rrrrrrrrrrr", *second = "0sssssssssss";
    const WeftHostAddress *const hosts[] = { site->here, site->there };
    GError *error = NULL;
    g_autofree char *xml = site->fixture->definition(NODE, 256);
    g_autoptr(GBytes) seed = g_bytes_new_static(SEED, strlen(SEED));
    for (gsize i = 0; i < G_N_ELEMENTS(hosts); i++)
        claim(site, hosts[i], first, NULL);
    gboolean ok =
        site->hv->ops->start(site->hv, site->here, &(WeftStart){ .xml = xml, .seed = seed, .run = first }, NULL, &error);
    expect(ok, error, OK);
    for (gsize i = 0; i < G_N_ELEMENTS(hosts); i++)
        claim(site, hosts[i], second, first);
    move(site, WEFT_COPY_HYBRID, site->here, site->there, OK);
    expect_on(site, site->there);
    move(site, WEFT_COPY_HYBRID, site->there, site->here, OK);
    expect_on(site, site->here);
}

/* clang-format off */
static const struct {
    const char *name;
    Case run;
} cases[] = {
    { "plug-and-unplug",      plug_and_unplug },
    { "pause-and-resume",     pause_and_resume },
    { "save-paused",          save_paused },
    { "go-on-paused",         go_on_paused },
    { "measures",             measures },
    { "move-pre-copy",        move_pre },
    { "move-post-copy",       move_post },
    { "move-hybrid",          move_hybrid },
    { "move-over-rdma",       move_rdma },
    { "move-absent",          move_absent },
    { "move-to-lost",         move_to_lost },
    { "move-cancelled",       move_cancelled },
    { "move-survives-reopen", move_survives_reopen },
    { "move-by-another-run",  move_by_another_run },
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
    const WeftHypervisorFixture *fixture = planned->fixture;
    Site site = { .fixture = fixture, .world = fixture->create(), .here = &fixture->hosts[0], .there = &fixture->hosts[1] };
    site.hv = fixture->open(site.world);
    planned->run(&site);
    weft_hypervisor_free(site.hv);
    fixture->destroy(site.world);
}

void
weft_hypervisor_moves_add(const WeftHypervisorFixture *fixture)
{
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = g_strdup_printf("/hypervisor/%s/%s", fixture->name, cases[i].name);
        Planned *planned = g_new(Planned, 1);
        *planned = (Planned){ fixture, cases[i].run };
        g_test_add_data_func_full(path, planned, run_case, g_free);
    }
}
