#include "fake-hypervisor.h"

#include "domain-xml.h"
#include "errors.h"
#include "faults.h"
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define RUNNING ".xml"
#define STOPPED ".off"
#define FRESH ".new" /* being written, by whoever holds the host's lock */

/* A domain's file begins with what its definition says of it, "<!--fake NODE USE USE …-->", so that looking at a host's other
 * domains parses no XML. A file that a test dropped there lacks the line and is parsed. */
#define HEAD "<!--fake "
#define TAIL "-->\n"
#define NOBODY "-"

typedef struct FakeHypervisor {
    WeftHypervisor base;
    char *world;
} FakeHypervisor;

/* A folder of domains, open. */
typedef struct Host {
    const char *name;
    int fd;
} Host;

typedef gboolean (*Visit)(const Host *host, const char *domain, WeftDomainState state, gpointer data, GError **error);

static gboolean
fail_errno(GError **error, const char *doing, const char *what)
{
    int saved = errno;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_FAILED, "fake hypervisor: %s %s: %s", doing, what, g_strerror(saved));
    return FALSE;
}

/* --- files --- */

static char *
host_folder(WeftHypervisor *hv, const WeftHostAddress *host)
{
    return g_build_filename(((FakeHypervisor *)hv)->world, host->name, "domains", NULL);
}

/* fd -1 and success: the host has no folder, and so no domains. */
static gboolean
host_open(WeftHypervisor *hv, const WeftHostAddress *address, Host *ret_host, GError **error)
{
    g_autofree char *folder = host_folder(hv, address);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return fail_errno(error, "opening", folder);
    *ret_host = (Host){ .name = address->name, .fd = fd };
    return TRUE;
}

/* Makes the folder, and keeps everybody else from starting domains there until it is closed. */
static gboolean
host_open_locked(WeftHypervisor *hv, const WeftHostAddress *address, Host *ret_host, GError **error)
{
    if (!host_open(hv, address, ret_host, error))
        return FALSE;
    g_autofree char *folder = host_folder(hv, address);
    if (ret_host->fd < 0) {
        if (g_mkdir_with_parents(folder, 0755) < 0)
            return fail_errno(error, "making", folder);
        if (!host_open(hv, address, ret_host, error))
            return FALSE;
    }
    if (flock(ret_host->fd, LOCK_EX) < 0) {
        fail_errno(error, "locking", folder);
        close(ret_host->fd);
        return FALSE;
    }
    return TRUE;
}

static void
host_close(Host *host)
{
    if (host->fd >= 0)
        close(host->fd);
}

/* The file's text, cut where it is too long to be a definition; NULL without an error when it is not there (any more). */
static char *
read_at(const Host *host, const char *file, GError **error)
{
    int fd = openat(host->fd, file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT)
            fail_errno(error, "opening", file);
        return NULL;
    }
    g_autoptr(GString) text = g_string_sized_new(8192);
    char buffer[8192];
    gssize n = 0;
    while (text->len <= WEFT_DOMAIN_XML_MAX && (n = read(fd, buffer, sizeof buffer)) > 0)
        g_string_append_len(text, buffer, n);
    gboolean ok = text->len > WEFT_DOMAIN_XML_MAX || n == 0 || fail_errno(error, "reading", file);
    close(fd);
    return ok ? g_string_free(g_steal_pointer(&text), FALSE) : NULL;
}

/* Whole or not at all, whenever weftd is killed. */
static gboolean
replace_at(const Host *host, const char *file, const GString *text, GError **error)
{
    int fd = openat(host->fd, FRESH, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return fail_errno(error, "writing", file);
    gboolean written = weft_file_write(fd, text->str, text->len);
    if (close(fd) < 0 || !written || renameat(host->fd, FRESH, host->fd, file) < 0)
        return fail_errno(error, "writing", file);
    return TRUE;
}

static gboolean
remove_at(const Host *host, const char *domain, const char *suffix, GError **error)
{
    g_autofree char *file = g_strconcat(domain, suffix, NULL);
    if (unlinkat(host->fd, file, 0) < 0 && errno != ENOENT)
        return fail_errno(error, "removing", file);
    return TRUE;
}

static gboolean
exists_at(const Host *host, const char *domain, const char *suffix)
{
    g_autofree char *file = g_strconcat(domain, suffix, NULL);
    return host->fd >= 0 && faccessat(host->fd, file, F_OK, 0) == 0;
}

/* --- what a file says --- */

static GString *
with_head(const WeftDomainFacts *facts, const char *xml)
{
    GString *text = g_string_new(HEAD);
    g_string_append(text, facts->node ? facts->node : NOBODY);
    for (guint i = 0; i < facts->uses->len; i++)
        g_string_append_printf(text, " %s", (const char *)g_ptr_array_index(facts->uses, i));
    g_string_append(text, TAIL);
    g_string_append(text, xml);
    return text;
}

static const char *
without_head(const char *text)
{
    const char *tail = g_str_has_prefix(text, HEAD) ? strstr(text, TAIL) : NULL;
    return tail ? tail + strlen(TAIL) : text;
}

/* NULL for a text that nobody can read: a domain, but not ours, and of which nothing is known. */
static WeftDomainFacts *
facts_of(const char *domain, const char *text)
{
    const char *xml = without_head(text);
    if (xml == text)
        return weft_domain_xml_read(text, NULL);

    g_autofree char *head = g_strndup(text + strlen(HEAD), xml - text - strlen(HEAD TAIL));
    g_auto(GStrv) words = g_strsplit(head, " ", -1);
    WeftDomainFacts *facts = g_new0(WeftDomainFacts, 1);
    facts->name = g_strdup(domain);
    facts->node = g_strcmp0(words[0], NOBODY) == 0 ? NULL : g_strdup(words[0]);
    facts->uses = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 1; words[0] && words[i]; i++)
        g_ptr_array_add(facts->uses, g_strdup(words[i]));
    return facts;
}

static gboolean
visit_entry(const Host *host, const char *file, Visit visit, gpointer data, GError **error)
{
    WeftDomainState state = g_str_has_suffix(file, RUNNING) ? WEFT_DOMAIN_RUNNING : WEFT_DOMAIN_STOPPED;
    if (file[0] == '.' || (state == WEFT_DOMAIN_STOPPED && !g_str_has_suffix(file, STOPPED)))
        return TRUE;
    g_autofree char *domain = g_strndup(file, strlen(file) - strlen(RUNNING));
    /* Killed between starting it and forgetting that it was stopped. */
    if (state == WEFT_DOMAIN_STOPPED && exists_at(host, domain, RUNNING))
        return TRUE;
    return visit(host, domain, state, data, error);
}

static gboolean
visit_domains(const Host *host, Visit visit, gpointer data, GError **error)
{
    /* A stream of its own: closing it must not give up the lock on host->fd. */
    int fd = openat(host->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder)
        return fail_errno(error, "listing", host->name);
    gboolean ok = TRUE;
    for (struct dirent *entry; ok && (entry = readdir(folder));)
        ok = visit_entry(host, entry->d_name, visit, data, error);
    closedir(folder);
    return ok;
}

/* --- start --- */

static const char *
clash_of_vf(const WeftDomainFacts *ours, const char *hca)
{
    g_autofree char *prefix = g_strdup_printf("vf/%s/", hca);
    for (guint i = 0; i < ours->uses->len; i++) {
        if (g_str_has_prefix(g_ptr_array_index(ours->uses, i), prefix))
            return g_ptr_array_index(ours->uses, i);
    }
    return NULL;
}

typedef struct Newcomer {
    const WeftDomainFacts *facts;
    GHashTable *uses;
} Newcomer;

/* What of ours cannot be used beside theirs: the same, or a virtual function beside its whole HCA. NULL: nothing. */
static const char *
clash(const Newcomer *ours, const char *theirs)
{
    const char *same = g_hash_table_lookup(ours->uses, theirs);
    if (same)
        return same;
    if (g_str_has_prefix(theirs, "hca/"))
        return clash_of_vf(ours->facts, theirs + strlen("hca/"));
    if (!g_str_has_prefix(theirs, "vf/"))
        return NULL;
    const char *name = theirs + strlen("vf/");
    g_autofree char *hca = g_strdup_printf("hca/%.*s", (int)strcspn(name, "/"), name);
    return g_hash_table_lookup(ours->uses, hca);
}

static gboolean
check_beside(const Host *host, const char *domain, WeftDomainState state, gpointer data, GError **error)
{
    const Newcomer *ours = data;
    if (state != WEFT_DOMAIN_RUNNING || g_str_equal(domain, ours->facts->name))
        return TRUE;
    g_autofree char *file = g_strconcat(domain, RUNNING, NULL);
    g_autofree char *text = read_at(host, file, NULL);
    g_autoptr(WeftDomainFacts) theirs = text ? facts_of(domain, text) : NULL;
    for (guint i = 0; theirs && i < theirs->uses->len; i++) {
        const char *twice = clash(ours, g_ptr_array_index(theirs->uses, i));
        if (twice) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "host %s: domain %s cannot have %s: domain %s has it already",
                        host->name, ours->facts->name, twice, domain);
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean
check_double_use(const Host *host, const WeftDomainFacts *facts, GError **error)
{
    g_autoptr(GHashTable) uses = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < facts->uses->len; i++)
        g_hash_table_add(uses, g_ptr_array_index(facts->uses, i));
    Newcomer ours = { .facts = facts, .uses = uses };
    return visit_domains(host, check_beside, &ours, error);
}

static gboolean
start_locked(const Host *host, const WeftDomainFacts *facts, const char *xml, GError **error)
{
    g_autofree char *file = g_strconcat(facts->name, RUNNING, NULL);
    g_autoptr(GError) failed = NULL;
    g_autofree char *running = read_at(host, file, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (running && g_str_equal(without_head(running), xml))
        return TRUE;
    if (running) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                    "host %s: domain %s runs already with another definition; stop it first", host->name, facts->name);
        return FALSE;
    }
    if (!check_double_use(host, facts, error))
        return FALSE;
    g_autoptr(GString) text = with_head(facts, xml);
    return replace_at(host, file, text, error) && remove_at(host, facts->name, STOPPED, error);
}

/* A name that is a file's name. */
static gboolean
check_name(const char *name, GError **error)
{
    if (*name && *name != '.' && strlen(name) <= 200 && !strpbrk(name, "/ \n"))
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "a domain cannot be named \"%s\"", name);
    return FALSE;
}

/* Every call begins with this: the faults that a test asked for, and an early end. */
static gboolean
pass(WeftHypervisor *hv, const WeftHostAddress *host, const char *op, GCancellable *cancellable, GError **error)
{
    const char *world = ((FakeHypervisor *)hv)->world;
    g_autofree char *everywhere = g_build_filename(world, "faults", NULL);
    g_autofree char *here = g_build_filename(world, host->name, "faults", NULL);
    const char *const files[] = { everywhere, here, NULL };
    if (!weft_faults_pass(op, files, cancellable, error)) {
        g_prefix_error(error, "host %s: ", host->name);
        return FALSE;
    }
    if (g_cancellable_is_cancelled(cancellable)) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_TIMEOUT, "host %s: %s was cancelled", host->name, op);
        return FALSE;
    }
    return TRUE;
}

static gboolean
fake_start(WeftHypervisor *hv, const WeftHostAddress *address, const WeftStart *start, GCancellable *cancellable,
           GError **error)
{
    if (!pass(hv, address, "start", cancellable, error))
        return FALSE;
    g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(start->xml, error);
    if (!facts || !check_name(facts->name, error))
        return FALSE;
    Host host;
    if (!host_open_locked(hv, address, &host, error))
        return FALSE;
    gboolean ok = start_locked(&host, facts, start->xml, error);
    host_close(&host);
    return ok;
}

/* --- the other operations --- */

static gboolean
fake_await(WeftHypervisor *hv, const WeftHostAddress *address, const char *domain, GCancellable *cancellable, GError **error)
{
    Host host;
    if (!pass(hv, address, "await", cancellable, error) || !check_name(domain, error) || !host_open(hv, address, &host, error))
        return FALSE;
    gboolean running = exists_at(&host, domain, RUNNING);
    host_close(&host);
    if (!running)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "host %s: domain %s is not running", address->name, domain);
    return running;
}

static gboolean
fake_stop(WeftHypervisor *hv, const WeftHostAddress *address, const char *domain, GCancellable *cancellable, GError **error)
{
    Host host;
    if (!pass(hv, address, "stop", cancellable, error) || !check_name(domain, error) || !host_open(hv, address, &host, error))
        return FALSE;
    gboolean ok = host.fd < 0 || (remove_at(&host, domain, STOPPED, error) && remove_at(&host, domain, RUNNING, error));
    host_close(&host);
    return ok;
}

static gboolean
add_domain(const Host *host, const char *name, WeftDomainState state, gpointer domains, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autofree char *file = g_strconcat(name, state == WEFT_DOMAIN_RUNNING ? RUNNING : STOPPED, NULL);
    g_autofree char *text = read_at(host, file, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (!text) /* stopped meanwhile */
        return TRUE;
    g_autoptr(WeftDomainFacts) facts = facts_of(name, text);
    WeftDomain *domain = g_new0(WeftDomain, 1);
    domain->name = g_strdup(name);
    domain->node = facts ? g_steal_pointer(&facts->node) : NULL;
    domain->state = state;
    g_ptr_array_add(domains, domain);
    return TRUE;
}

static int
compare_domains(gconstpointer a, gconstpointer b)
{
    return strcmp((*(WeftDomain *const *)a)->name, (*(WeftDomain *const *)b)->name);
}

static WeftContents *
fake_list(WeftHypervisor *hv, const WeftHostAddress *address, GCancellable *cancellable, GError **error)
{
    Host host;
    if (!pass(hv, address, "list", cancellable, error) || !host_open(hv, address, &host, error))
        return NULL;
    g_autoptr(WeftContents) contents = weft_contents_new();
    gboolean ok = host.fd < 0 || visit_domains(&host, add_domain, contents->domains, error);
    host_close(&host);
    g_ptr_array_sort(contents->domains, compare_domains);
    return ok ? g_steal_pointer(&contents) : NULL;
}

/* Nothing happens in this world by itself: whoever changes its files can wait for the reconciler's next look, as with a real
 * host whose events got lost. */
static void
fake_watch(WeftHypervisor *hv, WeftHostChanged changed, gpointer data)
{
}

static void
fake_free(WeftHypervisor *hv)
{
    g_free(((FakeHypervisor *)hv)->world);
    g_free(hv);
}

static const WeftHypervisorOps fake_ops = {
    .name = "fake",
    .start = fake_start,
    .await = fake_await,
    .stop = fake_stop,
    .list = fake_list,
    .watch = fake_watch,
    .free = fake_free,
};

WeftHypervisor *
weft_hypervisor_fake_new(const char *world, GError **error)
{
    if (g_mkdir_with_parents(world, 0755) < 0) {
        fail_errno(error, "making", world);
        return NULL;
    }
    FakeHypervisor *fake = g_new0(FakeHypervisor, 1);
    fake->base.ops = &fake_ops;
    fake->world = g_strdup(world);
    return &fake->base;
}
