#include "fake-private.h"

#include "domain-xml.h"
#include "errors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A domain moves in steps that a killed weftd may stand between, and at no time two of it run:
 *
 *     NAME.xml here     NAME.in there      it is on its way, and runs here
 *     NAME.out here     NAME.in there      it stands still, as one whose post-copy broke: the same call goes on from there
 *     NAME.out here     NAME.xml there     it has arrived */

static const char *
world_of(WeftHypervisor *hv)
{
    return ((WeftFakeHypervisor *)hv)->world;
}

/* --- both hosts --- */

typedef struct Hosts {
    WeftFakeFolder from, to;           /* their domains */
    WeftFakeFolder from_pool, to_pool; /* their files */
} Hosts;

static void
hosts_close(Hosts *hosts)
{
    WeftFakeFolder *const all[] = { &hosts->from, &hosts->to, &hosts->from_pool, &hosts->to_pool };
    for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
        weft_fake_folder_close(all[i]);
}

static gboolean
lock_folders(const char *world, const char *name, const char *from, const char *to, WeftFakeFolder *folders[2], GError **error)
{
    gboolean first = strcmp(from, to) < 0; /* always in this order: two moves may cross */
    return weft_fake_folder_lock(world, first ? from : to, name, folders[first ? 0 : 1], error) &&
           weft_fake_folder_lock(world, first ? to : from, name, folders[first ? 1 : 0], error);
}

static gboolean
hosts_open(const char *world, const WeftHostAddress *from, const WeftHostAddress *to, Hosts *ret_hosts, GError **error)
{
    *ret_hosts = (Hosts){ { .fd = -1 }, { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
    if (g_str_equal(from->name, to->name))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "host %s: a domain cannot move to where it is", from->name);
    WeftFakeFolder *domains[] = { &ret_hosts->from, &ret_hosts->to };
    WeftFakeFolder *pools[] = { &ret_hosts->from_pool, &ret_hosts->to_pool };
    if (lock_folders(world, WEFT_FAKE_DOMAINS, from->name, to->name, domains, error) &&
        lock_folders(world, WEFT_FAKE_POOL, from->name, to->name, pools, error))
        return TRUE;
    hosts_close(ret_hosts);
    return FALSE;
}

/* --- files --- */

static gboolean
rename_file(const WeftFakeFolder *folder, const char *domain, const char *suffix, const char *to_suffix, GError **error)
{
    g_autofree char *old = g_strconcat(domain, suffix, NULL);
    g_autofree char *fresh = g_strconcat(domain, to_suffix, NULL);
    return renameat(folder->fd, old, folder->fd, fresh) == 0 || weft_fake_fail(error, "renaming", old);
}

/* Success also when there is none. */
static gboolean
carry_file(const WeftFakeFolder *from, const WeftFakeFolder *to, const char *domain, const char *suffix, GError **error)
{
    g_autofree char *file = g_strconcat(domain, suffix, NULL);
    return renameat(from->fd, file, to->fd, file) == 0 || errno == ENOENT || weft_fake_fail(error, "moving", file);
}

static gboolean
carry_files(const Hosts *hosts, const char *domain, GError **error)
{
    return weft_fake_layer_drop(&hosts->from_pool, domain, error) &&
           carry_file(&hosts->from_pool, &hosts->to_pool, domain, WEFT_SEED_SUFFIX, error) &&
           carry_file(&hosts->from_pool, &hosts->to_pool, domain, WEFT_DISK_SUFFIX, error) &&
           weft_fake_marks_remove(&hosts->from_pool, domain, error) &&
           carry_file(&hosts->from, &hosts->to, domain, WEFT_FAKE_BLANK, error) &&
           carry_file(&hosts->from, &hosts->to, domain, WEFT_FAKE_PLUGGED, error) &&
           weft_fake_note_move(&hosts->to, domain, error) &&
           carry_file(&hosts->from, &hosts->to, domain, WEFT_FAKE_RATE, error);
}

/* --- move --- */

static gboolean
refuse_absent(const Hosts *hosts, const char *domain, GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "host %s: domain %s is not running, nor is it on host %s",
                             hosts->from.host, domain, hosts->to.host);
}

/* While nobody looks: the host's folder is not locked, so that a move that hangs hangs alone. */
static gboolean
copy_memory(WeftHypervisor *hv, const WeftHostAddress *from, const WeftHostAddress *to, const WeftMove *move,
            GCancellable *cancellable, GError **error)
{
    if (!weft_fake_pass(world_of(hv), from->name, "move", cancellable, error) ||
        !weft_fake_pass(world_of(hv), to->name, "move", cancellable, error))
        return FALSE;
    if (move->progress) {
        move->progress(WEFT_FAKE_MEMORY / 2, WEFT_FAKE_MEMORY, move->data);
        move->progress(WEFT_FAKE_MEMORY, WEFT_FAKE_MEMORY, move->data);
    }
    return TRUE;
}

static gboolean
depart(const Hosts *hosts, const WeftMove *move, GError **error)
{
    if (weft_fake_exists(&hosts->from, move->domain, WEFT_FAKE_OUT))
        return TRUE;
    if (!weft_fake_exists(&hosts->from, move->domain, WEFT_FAKE_RUNNING))
        return refuse_absent(hosts, move->domain, error);
    if (weft_fake_exists(&hosts->from, move->domain, WEFT_FAKE_PAUSED))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "host %s: domain %s is paused; resume it first", hosts->from.host,
                                 move->domain);
    g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(move->xml, error);
    return facts && weft_fake_check_parted(&hosts->from, move->domain, error) &&
           weft_fake_images_check(&hosts->to_pool, move->xml, error) &&
           weft_fake_mark_make(&hosts->to_pool, move->domain, facts->site, facts->placement, error) &&
           weft_fake_put(&hosts->to, move->xml, WEFT_FAKE_IN, error) &&
           rename_file(&hosts->from, move->domain, WEFT_FAKE_RUNNING, WEFT_FAKE_OUT, error);
}

static gboolean
is_halted(const Hosts *hosts, const char *domain)
{
    return weft_fake_exists(&hosts->from, domain, WEFT_FAKE_OUT) && weft_fake_exists(&hosts->to, domain, WEFT_FAKE_IN);
}

static gboolean
arrive(WeftHypervisor *hv, const Hosts *hosts, const char *domain, GCancellable *cancellable, GError **error)
{
    if (!weft_fake_pass(world_of(hv), hosts->to.host, "post-copy", cancellable, error)) {
        if (error)
            (*error)->code = WEFT_ERROR_CONFLICT;
        return FALSE;
    }
    weft_fake_guests_end(((WeftFakeHypervisor *)hv)->guests, hosts->from.host, domain);
    return carry_files(hosts, domain, error) && rename_file(&hosts->to, domain, WEFT_FAKE_IN, WEFT_FAKE_RUNNING, error) &&
           weft_fake_remove(&hosts->from, domain, WEFT_FAKE_OUT, error);
}

static gboolean
has_arrived(const Hosts *hosts, const char *domain)
{
    return !weft_fake_exists(&hosts->from, domain, WEFT_FAKE_RUNNING) &&
           weft_fake_exists(&hosts->to, domain, WEFT_FAKE_RUNNING);
}

/* Ends what was begun where there is something. */
static gboolean
go_on(WeftHypervisor *hv, const WeftHostAddress *from, const WeftHostAddress *to, const WeftMove *move, gboolean copied,
      gboolean *ret_done, GCancellable *cancellable, GError **error)
{
    Hosts hosts;
    if (!hosts_open(world_of(hv), from, to, &hosts, error))
        return FALSE;
    *ret_done = has_arrived(&hosts, move->domain);
    gboolean ok = !*ret_done || weft_fake_remove(&hosts.from, move->domain, WEFT_FAKE_OUT, error);
    if (!*ret_done && (copied || is_halted(&hosts, move->domain)))
        *ret_done = ok = depart(&hosts, move, error) && arrive(hv, &hosts, move->domain, cancellable, error);
    else if (!*ret_done && !weft_fake_exists(&hosts.from, move->domain, WEFT_FAKE_RUNNING))
        ok = refuse_absent(&hosts, move->domain, error);
    hosts_close(&hosts);
    return ok;
}

/* Where it fails otherwise than by being cancelled, it goes over TCP. */
static gboolean
try_rdma(WeftHypervisor *hv, const WeftHostAddress *to, const WeftMove *move, WeftMoved *moved, GCancellable *cancellable,
         GError **error)
{
    g_autoptr(GError) failed = NULL;
    moved->rdma = move->rdma && weft_fake_pass(world_of(hv), to->name, "rdma", cancellable, &failed);
    if (failed)
        moved->rdma_failed = g_strdup(failed->message);
    return !g_cancellable_is_cancelled(cancellable) || weft_fake_pass(world_of(hv), to->name, "rdma", cancellable, error);
}

gboolean
weft_fake_move(WeftHypervisor *hv, const WeftHostAddress *from, const WeftHostAddress *to, const WeftMove *move,
               WeftMoved *ret_moved, GCancellable *cancellable, GError **error)
{
    gboolean done = FALSE;
    g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(move->xml, error);
    if (!facts)
        return FALSE;
    if (!weft_fake_check_name(move->domain, error) || !g_str_equal(facts->name, move->domain))
        return error && *error ? FALSE
                               : weft_error_refuse(error, WEFT_ERROR_INVALID, "the definition there is of domain %s, not %s",
                                                   facts->name, move->domain);
    /* What a cancelled or lost host must not let through is looked at first. */
    if (!weft_fake_pass(world_of(hv), from->name, "look", cancellable, error) ||
        !go_on(hv, from, to, move, FALSE, &done, cancellable, error))
        return FALSE;
    g_auto(WeftMoved) moved = { .took = 1000, .stall = 1000, .sent = WEFT_FAKE_MEMORY, .passes = 1 };
    if (!done && (!try_rdma(hv, to, move, &moved, cancellable, error) || !copy_memory(hv, from, to, move, cancellable, error) ||
                  !go_on(hv, from, to, move, TRUE, &done, cancellable, error)))
        return FALSE;
    *ret_moved = moved;
    moved.rdma_failed = NULL;
    return TRUE;
}

gboolean
weft_fake_list_halted(const WeftFakeFolder *host, GPtrArray *names, GError **error)
{
    g_autoptr(GPtrArray) files = weft_fake_files(host, error);
    for (guint i = 0; files && i < files->len; i++) {
        const char *file = files->pdata[i];
        const char *suffix = g_str_has_suffix(file, WEFT_FAKE_OUT)  ? WEFT_FAKE_OUT
                             : g_str_has_suffix(file, WEFT_FAKE_IN) ? WEFT_FAKE_IN
                                                                    : NULL;
        if (suffix)
            g_ptr_array_add(names, g_strdup(file));
    }
    return files != NULL;
}

/* --- processors --- */

typedef gboolean (*Change)(const WeftFakeFolder *host, const char *domain, gpointer data, GError **error);

static gboolean
with_running(WeftHypervisor *hv, const WeftHostAddress *address, const char *domain, Change change, gpointer data,
             GError **error)
{
    WeftFakeFolder host;
    if (!weft_fake_check_name(domain, error) ||
        !weft_fake_folder_open_still(world_of(hv), address->name, WEFT_FAKE_DOMAINS, &host, error))
        return FALSE;
    gboolean halted = weft_fake_exists(&host, domain, WEFT_FAKE_OUT) || weft_fake_exists(&host, domain, WEFT_FAKE_IN);
    gboolean ok =
        weft_fake_exists(&host, domain, WEFT_FAKE_RUNNING)
            ? change(&host, domain, data, error)
            : weft_error_refuse(error, halted ? WEFT_ERROR_CONFLICT : WEFT_ERROR_NOT_FOUND, "host %s: domain %s is %s",
                                address->name, domain, halted ? "halted by a migration; end that first" : "not running");
    weft_fake_folder_close(&host);
    return ok;
}

static gboolean
set_paused(const WeftFakeFolder *host, const char *domain, gpointer data, GError **error)
{
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_PAUSED, NULL);
    return weft_fake_replace(host, file, "", 0, error);
}

static gboolean
set_resumed(const WeftFakeFolder *host, const char *domain, gpointer data, GError **error)
{
    return weft_fake_remove(host, domain, WEFT_FAKE_PAUSED, error);
}

static gboolean
read_rate(const WeftFakeFolder *host, const char *domain, gpointer ret_rate, GError **error)
{
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_RATE, NULL);
    g_autofree char *text = weft_fake_read(host, file, 64, NULL);
    *(guint64 *)ret_rate = text ? g_ascii_strtoull(text, NULL, 10) : 0;
    return TRUE;
}

gboolean
weft_fake_pause(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable, GError **error)
{
    return weft_fake_pass(world_of(hv), host->name, "pause", cancellable, error) &&
           with_running(hv, host, domain, set_paused, NULL, error);
}

gboolean
weft_fake_resume(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable, GError **error)
{
    return weft_fake_pass(world_of(hv), host->name, "resume", cancellable, error) &&
           with_running(hv, host, domain, set_resumed, NULL, error);
}

gboolean
weft_fake_measure(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, guint64 *ret_rate,
                  GCancellable *cancellable, GError **error)
{
    return weft_fake_pass(world_of(hv), host->name, "measure", cancellable, error) &&
           with_running(hv, host, domain, read_rate, ret_rate, error);
}
