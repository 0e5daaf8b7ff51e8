/* Domains that are put aside, go on elsewhere, and are forked. */
#include "errors.h"
#include "hypervisor-site.h"
#include "scratch.h"

#include <string.h>
#include <sys/stat.h>

#define THIRD "4k2m8w9x1a2b-3"
#define MAKER "4k2m8w9x1a2b-9"
#define MEMORY 128u
#define PRIMED "4k2m8w9x1a2c"
#define FORKS 3u

/* A saved file at weftd. */
typedef struct Aside {
    char *folder;
    char *path;
    WeftImageFile file;
} Aside;

static void
aside_init(Aside *aside)
{
    *aside = (Aside){ .folder = scratch_new() };
    aside->path = g_build_filename(aside->folder, "saved", NULL);
}

static void
aside_clear(Aside *aside)
{
    scratch_free(aside->folder);
    g_free(aside->path);
    g_free(aside->file.digest);
}

/* --- calls --- */

static WeftSaved
save(Site *site, const char *node, WeftSaveMode mode, int code)
{
    GError *error = NULL;
    WeftSaved saved = { 0 };
    g_autofree char *domain = g_strdup_printf("weft-%s", node);
    gboolean ok = site->hv->ops->save(site->hv, site->host, domain, mode, &saved, NULL, &error);
    expect(ok, error, code);
    return saved;
}

static void
go_on_as(Site *site, const char *xml, const WeftDomainOrigin *origin, int code)
{
    GError *error = NULL;
    g_autoptr(GBytes) seed = g_bytes_new_static(SEED, strlen(SEED));
    const WeftStart start = { .xml = xml, .seed = seed, .origin = origin };
    gboolean ok = site->hv->ops->start(site->hv, site->host, &start, NULL, &error);
    expect(ok, error, code);
}

static void
go_on(Site *site, const char *node, guint memory, const WeftDomainOrigin *origin, int code)
{
    g_autofree char *xml = site->fixture->definition(node, memory);
    go_on_as(site, xml, origin, code);
}

static void
fetch(Site *site, const char *name, Aside *aside, int code)
{
    GError *error = NULL;
    const WeftFetch wanted = { .name = name, .path = aside->path };
    gboolean ok = site->hv->ops->fetch(site->hv, site->host, &wanted, &aside->file, NULL, &error);
    expect(ok, error, code);
}

/* What does not fit leaves nothing behind. */
static void
fetch_refused(Site *site, const WeftFetch *fetch, int code)
{
    GError *error = NULL;
    WeftImageFile file = { 0 };
    gboolean ok = site->hv->ops->fetch(site->hv, site->host, fetch, &file, NULL, &error);
    expect(ok, error, code);
    g_assert_false(g_file_test(fetch->path, G_FILE_TEST_EXISTS));
}

static void
bring(Site *site, const Aside *aside)
{
    GError *error = NULL;
    const WeftBring wanted = { .file = &aside->file, .path = aside->path };
    gboolean ok = site->hv->ops->bring(site->hv, site->host, &wanted, NULL, &error);
    expect(ok, error, OK);
}

static void
prime_as(Site *site, const Aside *aside, const char *xml, int code)
{
    GError *error = NULL;
    const WeftPrime wanted = { .id = PRIMED, .xml = xml, .saved = &aside->file };
    gboolean ok = site->hv->ops->prime(site->hv, site->host, &wanted, NULL, &error);
    expect(ok, error, code);
}

static void
prime(Site *site, const Aside *aside, guint memory, int code)
{
    g_autofree char *xml = site->fixture->definition(MAKER, memory);
    prime_as(site, aside, xml, code);
}

static void
unprime(Site *site)
{
    GError *error = NULL;
    gboolean ok = site->hv->ops->unprime(site->hv, site->host, PRIMED, NULL, &error);
    expect(ok, error, OK);
}

static void
discard_saved(Site *site, const char *name)
{
    GError *error = NULL;
    gboolean ok = site->hv->ops->discard(site->hv, site->host, name, NULL, &error);
    expect(ok, error, OK);
}

static void
expect_primed(Site *site, gboolean there)
{
    g_autoptr(WeftContents) contents = site->hv->ops->list(site->hv, site->host, NULL, NULL);
    g_assert_nonnull(contents);
    g_assert_cmpuint(contents->primed->len, ==, there ? 1 : 0);
    if (there)
        g_assert_cmpstr(contents->primed->pdata[0], ==, PRIMED);
}

/* A domain of the first host put aside, brought to weftd, and to the host of the site. */
static void
put_aside(Site *site, Aside *aside)
{
    aside_init(aside);
    start(site, NODE, MEMORY, OK);
    save(site, NODE, WEFT_SAVE_AWAY, OK);
    fetch(site, "weft-" NODE ".saved", aside, OK);
    stop(site, NODE, OK);
    bring(site, aside);
}

/* --- cases --- */

static void
save_and_go_on(Site *site)
{
    const WeftDomainOrigin own = { 0 };
    save(site, NODE, WEFT_SAVE_AWAY, WEFT_ERROR_NOT_FOUND);
    go_on(site, NODE, MEMORY, &own, WEFT_ERROR_NOT_FOUND);
    start(site, NODE, MEMORY, OK);
    WeftSaved saved = save(site, NODE, WEFT_SAVE_AWAY, OK);
    g_assert_cmpuint(saved.size, >, 0);
    expect_listing(site, "weft-" NODE ":" NODE "(off)");
    reopen(site);
    WeftSaved again = save(site, NODE, WEFT_SAVE_AWAY, OK);
    g_assert_cmpuint(again.size, ==, saved.size);
    go_on(site, NODE, MEMORY * 2, &own, WEFT_ERROR_INVALID); /* what it goes on from is still there */
    go_on(site, NODE, MEMORY, &own, OK);
    go_on(site, NODE, MEMORY, &own, OK);
    expect_listing(site, "weft-" NODE ":" NODE);
    save(site, NODE, WEFT_SAVE_AWAY, OK);
    stop(site, NODE, OK);
    expect_listing(site, "");
    go_on(site, NODE, MEMORY, &own, WEFT_ERROR_NOT_FOUND);
}

static void
save_running(Site *site)
{
    Aside aside;
    aside_init(&aside);
    fetch(site, "weft-" NODE ".saved", &aside, WEFT_ERROR_NOT_FOUND);
    start(site, NODE, MEMORY, OK);
    WeftSaved saved = save(site, NODE, WEFT_SAVE_RUNNING, OK);
    g_assert_cmpuint(saved.size, >, 0);
    g_assert_cmpint(saved.paused, >, 0);
    expect_listing(site, "weft-" NODE ":" NODE);
    const char *file = "weft-" NODE ".saved";
    fetch_refused(site, &(WeftFetch){ .name = file, .path = aside.path, .most = saved.size - 1 }, WEFT_ERROR_INVALID);
    fetch_refused(site, &(WeftFetch){ .name = file, .path = aside.path, .reserve = 1ULL << 60 }, WEFT_ERROR_EXHAUSTED);
    fetch(site, file, &aside, OK);
    struct stat info;
    g_assert_cmpint(stat(aside.path, &info), ==, 0);
    g_assert_cmpuint((guint64)info.st_size, ==, aside.file.size);
    g_assert_cmpuint(saved.size, ==, aside.file.size);

    discard_saved(site, "weft-" NODE ".saved");
    discard_saved(site, "weft-" NODE ".saved");
    save(site, NODE, WEFT_SAVE_RUNNING, OK);
    stop(site, NODE, OK);
    expect_listing(site, "");
    aside_clear(&aside);
}

static void
go_on_elsewhere(Site *site)
{
    Aside aside;
    put_aside(site, &aside);
    const WeftDomainOrigin origin = { .saved = &aside.file };
    site->host = &site->fixture->hosts[1];
    go_on(site, OTHER, MEMORY, &origin, WEFT_ERROR_NOT_FOUND);
    expect_listing(site, "");
    bring(site, &aside);
    go_on(site, OTHER, MEMORY * 2, &origin, WEFT_ERROR_INVALID);
    go_on(site, OTHER, MEMORY, &origin, OK);
    go_on(site, THIRD, MEMORY, &origin, OK);
    expect_listing(site, "weft-" OTHER ":" OTHER " weft-" THIRD ":" THIRD);
    stop(site, OTHER, OK);
    stop(site, THIRD, OK);
    expect_listing(site, "");
    aside_clear(&aside);
}

static void
forks(Site *site)
{
    Aside aside;
    put_aside(site, &aside);
    const WeftDomainOrigin origin = { .saved = &aside.file, .primed = PRIMED };
    unprime(site);
    go_on(site, OTHER, MEMORY, &origin, WEFT_ERROR_NOT_FOUND);
    prime(site, &aside, MEMORY, OK);
    expect_primed(site, TRUE);
    expect_listing(site, "");
    prime(site, &aside, MEMORY, OK);
    for (guint i = 0; i < FORKS; i++) {
        g_autofree char *node = g_strdup_printf("4k2m8w9x1a2b-%u", i);
        go_on(site, node, MEMORY, &origin, OK);
        go_on(site, node, MEMORY, &origin, OK);
    }
    reopen(site);
    go_on(site, THIRD, MEMORY, &origin, OK);
    go_on(site, "4k2m8w9x1a2b-5", MEMORY * 2, &origin, WEFT_ERROR_INVALID);
    expect_listing(site,
                   "weft-4k2m8w9x1a2b-0:4k2m8w9x1a2b-0 weft-" NODE ":" NODE " weft-" OTHER ":" OTHER " weft-" THIRD ":" THIRD);
    unprime(site);
    expect_primed(site, FALSE);
    save(site, THIRD, WEFT_SAVE_RUNNING, OK); /* a fork is a domain like any other */
    expect_listing(site,
                   "weft-4k2m8w9x1a2b-0:4k2m8w9x1a2b-0 weft-" NODE ":" NODE " weft-" OTHER ":" OTHER " weft-" THIRD ":" THIRD);
    go_on(site, "4k2m8w9x1a2b-5", MEMORY, &origin, WEFT_ERROR_NOT_FOUND);
    aside_clear(&aside);
}

/* What was saved was made by another run than the one that has the host now. */
static void
goes_on_by_another_run(Site *site)
{
    const char *here = "0bbbbbbbbbbb", *first = "0rrrrrrrrrrr", *second = "0sssssssssss";
    const WeftDomainOrigin own = { 0 };
    Aside aside;
    aside_init(&aside);
    expect_claim(site, here, first, NULL, TRUE, WEFT_OWNER_GRANTED);
    start_by(site, first, MEMORY, NULL, OK);
    save(site, NODE, WEFT_SAVE_AWAY, OK);
    expect_claim(site, here, second, first, FALSE, WEFT_OWNER_GRANTED);
    start_by(site, first, MEMORY, &own, WEFT_ERROR_DENIED);
    start_by(site, second, MEMORY, &own, WEFT_ERROR_DENIED); /* it would change the file before */
    start_by(site, NULL, MEMORY, &own, OK);
    stop(site, NODE, OK);

    start_by(site, second, MEMORY, NULL, OK);
    save(site, NODE, WEFT_SAVE_AWAY, OK);
    fetch(site, "weft-" NODE ".saved", &aside, OK);
    stop(site, NODE, OK);
    bring(site, &aside);
    expect_claim(site, here, first, second, FALSE, WEFT_OWNER_GRANTED);
    prime(site, &aside, MEMORY, OK);
    const WeftDomainOrigin saved = { .saved = &aside.file }, forked = { .saved = &aside.file, .primed = PRIMED };
    const WeftDomainOrigin *const origins[] = { &saved, &forked };
    for (gsize i = 0; i < G_N_ELEMENTS(origins); i++) {
        start_by(site, second, MEMORY, origins[i], WEFT_ERROR_DENIED);
        expect_listing(site, "");
        start_by(site, first, MEMORY, origins[i], OK);
        stop(site, NODE, OK);
    }
    unprime(site);
    aside_clear(&aside);
}

static void
damaged(Site *site)
{
    Aside aside;
    put_aside(site, &aside);
    prime(site, &aside, MEMORY * 2, WEFT_ERROR_INVALID);
    g_autofree char *text = g_strnfill(1 << 16, 'x');
    g_assert_true(g_file_set_contents(aside.path, text, 1 << 16, NULL));
    g_free(aside.file.digest);
    aside.file.digest = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)text, 1 << 16);
    aside.file.size = 1 << 16;
    const WeftDomainOrigin origin = { .saved = &aside.file };
    prime(site, &aside, MEMORY, WEFT_ERROR_NOT_FOUND);
    bring(site, &aside);
    prime(site, &aside, MEMORY, WEFT_ERROR_INVALID);
    go_on(site, OTHER, MEMORY, &origin, WEFT_ERROR_INVALID);
    expect_primed(site, FALSE);
    expect_listing(site, "");
    aside_clear(&aside);
}

/* --- copies of one that runs --- */

/* A definition with the network device that the saved one has, and its link down. */
static char *
unlinked(Site *site, const char *node)
{
    g_autofree char *xml = site->fixture->definition(node, MEMORY), *device = site->fixture->device();
    const char *end = strstr(xml, "</devices>"), *inner = strstr(device, "</interface>");
    end = end ? end : strstr(xml, "</domain>");
    return g_strdup_printf("%.*s%.*s<link state='down'/></interface>%s", (int)(end - xml), xml, (int)(inner - device), device,
                           end);
}

static void
copy(Site *site, const char *node, const WeftDomainOrigin *origin, int code)
{
    g_autofree char *xml = unlinked(site, node);
    go_on_as(site, xml, origin, code);
}

static void
plug(Site *site, const char *domain)
{
    GError *error = NULL;
    g_autofree char *xml = site->fixture->device();
    WeftPlugged plugged;
    gboolean ok = site->hv->ops->plug(site->hv, site->host, domain, xml, &plugged, NULL, &error);
    expect(ok, error, OK);
}

/* The source has a network device, and runs on; its copies have the same one, and no link until it is plugged. */
static void
copies(Site *site)
{
    Aside aside;
    aside_init(&aside);
    start(site, NODE, MEMORY, OK);
    plug(site, "weft-" NODE);
    g_assert_cmpint(save(site, NODE, WEFT_SAVE_RUNNING, OK).paused, >, 0);
    fetch(site, "weft-" NODE ".saved", &aside, OK);
    discard_saved(site, "weft-" NODE ".saved");
    expect_listing(site, "weft-" NODE ":" NODE);

    site->host = &site->fixture->hosts[1];
    bring(site, &aside);
    const WeftDomainOrigin whole = { .saved = &aside.file }, shared = { .saved = &aside.file, .primed = PRIMED };
    prime(site, &aside, MEMORY, WEFT_ERROR_INVALID);
    go_on(site, OTHER, MEMORY, &whole, WEFT_ERROR_INVALID);
    g_autofree char *maker = unlinked(site, MAKER);
    prime_as(site, &aside, maker, OK);
    copy(site, OTHER, &shared, OK);
    copy(site, OTHER, &shared, OK);
    plug(site, "weft-" OTHER);
    plug(site, "weft-" OTHER);
    stop(site, OTHER, OK);
    copy(site, THIRD, &whole, OK);
    plug(site, "weft-" THIRD);
    expect_listing(site, "weft-" THIRD ":" THIRD);
    unprime(site);
    aside_clear(&aside);
}

/* --- disks of their own --- */

#define BASE 65536u

typedef struct Disks {
    Aside base, saved, disk;
} Disks;

static void
disks_init(Disks *disks)
{
    g_autofree char *text = g_strnfill(BASE * 4, 'x');
    aside_init(&disks->base);
    aside_init(&disks->saved);
    aside_init(&disks->disk);
    g_assert_true(g_file_set_contents(disks->base.path, text, BASE * 4, NULL));
    disks->base.file = (WeftImageFile){ .size = BASE * 4, .format = WEFT_DISK_RAW };
    disks->base.file.digest = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)text, BASE * 4);
}

static void
disks_clear(Disks *disks)
{
    aside_clear(&disks->base);
    aside_clear(&disks->saved);
    aside_clear(&disks->disk);
}

static void
start_on(Site *site, const Disks *disks, const char *node, const WeftDomainOrigin *origin, int code)
{
    GError *error = NULL;
    g_autofree char *plain = site->fixture->definition(node, MEMORY);
    g_autofree char *disk = site->fixture->disk(node, disks->base.file.digest);
    const char *end = strstr(plain, "</devices>");
    end = end ? end : strstr(plain, "</domain>");
    g_autofree char *xml = g_strdup_printf("%.*s%s%s", (int)(end - plain), plain, disk, end);
    const WeftStart start = { .xml = xml, .base = &disks->base.file, .origin = origin };
    gboolean ok = site->hv->ops->start(site->hv, site->host, &start, NULL, &error);
    expect(ok, error, code);
}

static void
writes(Site *site, const char *domain, char byte)
{
    site->fixture->write(site->world, site->host->name, domain, byte);
}

static void
expect_disk(Site *site, const char *domain, char byte)
{
    g_assert_true(site->fixture->has(site->world, site->host->name, domain, byte));
}

/* Memory and disk are of the same moment; it writes on, and has one disk again afterwards. */
static void
save_with_disk(Site *site, Disks *disks)
{
    bring(site, &disks->base);
    start_on(site, disks, NODE, NULL, OK);
    writes(site, "weft-" NODE, 'a');
    save(site, NODE, WEFT_SAVE_RUNNING, OK);
    writes(site, "weft-" NODE, 'b');
    save(site, NODE, WEFT_SAVE_RUNNING, OK);
    fetch(site, "weft-" NODE ".saved", &disks->saved, OK);
    fetch(site, "weft-" NODE ".disk", &disks->disk, OK);
    expect_disk(site, "weft-" NODE, 'b');
    reopen(site);
    discard_saved(site, "weft-" NODE ".saved");
    discard_saved(site, "weft-" NODE ".saved");
    expect_disk(site, "weft-" NODE, 'b');
    expect_listing(site, "weft-" NODE ":" NODE);
}

static void
own_disk(Site *site)
{
    Disks disks;
    disks_init(&disks);
    save_with_disk(site, &disks);

    const WeftDomainOrigin origin = { .saved = &disks.saved.file, .disk = &disks.disk.file }, own = { 0 };
    site->host = &site->fixture->hosts[1];
    bring(site, &disks.base);
    bring(site, &disks.saved);
    start_on(site, &disks, OTHER, &origin, WEFT_ERROR_NOT_FOUND);
    expect_listing(site, "");
    bring(site, &disks.disk);
    const WeftDomainOrigin other = { .saved = &disks.saved.file, .disk = &disks.base.file };
    start_on(site, &disks, OTHER, &other, WEFT_ERROR_INVALID);
    start_on(site, &disks, OTHER, &origin, OK);
    start_on(site, &disks, THIRD, &origin, OK);
    expect_disk(site, "weft-" OTHER, 'a');
    writes(site, "weft-" OTHER, 'c');
    expect_disk(site, "weft-" THIRD, 'a');
    g_assert_false(site->fixture->has(site->world, site->host->name, "weft-" THIRD, 'b'));

    save(site, OTHER, WEFT_SAVE_AWAY, OK);
    start_on(site, &disks, OTHER, &own, OK);
    expect_disk(site, "weft-" OTHER, 'c');
    stop(site, OTHER, OK);
    save(site, THIRD, WEFT_SAVE_RUNNING, OK);
    stop(site, THIRD, OK);
    expect_listing(site, "");
    disks_clear(&disks);
}

/* One that stands still is saved as it is, and what was begun and left is begun anew. */
static void
own_disk_paused(Site *site)
{
    Disks disks;
    GError *error = NULL;
    disks_init(&disks);
    bring(site, &disks.base);
    start_on(site, &disks, NODE, NULL, OK);
    writes(site, "weft-" NODE, 'a');
    for (guint round = 0; round < 2; round++) {
        gboolean ok = site->hv->ops->pause(site->hv, site->host, "weft-" NODE, NULL, &error);
        expect(ok, error, OK);
        save(site, NODE, WEFT_SAVE_RUNNING, OK);
        ok = site->hv->ops->resume(site->hv, site->host, "weft-" NODE, NULL, &error);
        expect(ok, error, OK);
        writes(site, "weft-" NODE, 'b');
        discard_saved(site, "weft-" NODE ".saved");
        expect_disk(site, "weft-" NODE, 'b');
    }
    stop(site, NODE, OK);
    expect_listing(site, "");
    disks_clear(&disks);
}

const NamedCase saved_cases[] = {
    { "save-and-go-on", save_and_go_on },
    { "save-running", save_running },
    { "go-on-elsewhere", go_on_elsewhere },
    { "forks", forks },
    { "goes-on-by-another-run", goes_on_by_another_run },
    { "damaged", damaged },
    { "copies", copies },
    { "own-disk", own_disk },
    { "own-disk-paused", own_disk_paused },
    { NULL },
};
