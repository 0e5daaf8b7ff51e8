#include "fake-hypervisor.h"

#include "domain-xml.h"
#include "errors.h"
#include "fake-private.h"

#include <string.h>

/* A domain's file begins with what its definition says of it, "<!--fake NODE SITE PLACEMENT RECORD USE USE …-->", so that
 * looking at a host's other domains parses no XML. A file that a test dropped there lacks the line and is parsed. */
#define HEAD "<!--fake "
#define TAIL "-->\n"
#define NOBODY "-"
#define MARKS 4 /* words before what it uses */

typedef gboolean (*Visit)(const WeftFakeFolder *host, const char *domain, WeftDomainState state, gpointer data, GError **error);

/* --- what a file says --- */

static GString *
with_head(const WeftDomainFacts *facts, const char *xml)
{
    GString *text = g_string_new(HEAD);
    g_autofree char *record = facts->record ? g_uri_escape_string(facts->record, NULL, FALSE) : NULL;
    const char *const marks[MARKS] = { facts->node, facts->site, facts->placement, record };
    for (guint i = 0; i < MARKS; i++)
        g_string_append_printf(text, "%s%s", i ? " " : "", marks[i] ? marks[i] : NOBODY);
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

static char *
mark_word(char **words, guint i)
{
    return g_strv_length(words) < MARKS || g_str_equal(words[i], NOBODY) ? NULL : g_uri_unescape_string(words[i], NULL);
}

WeftDomainFacts *
weft_fake_facts(const char *domain, const char *text)
{
    const char *xml = without_head(text);
    if (xml == text)
        return weft_domain_xml_read(text, NULL);

    g_autofree char *head = g_strndup(text + strlen(HEAD), xml - text - strlen(HEAD TAIL));
    g_auto(GStrv) words = g_strsplit(head, " ", -1);
    WeftDomainFacts *facts = g_new0(WeftDomainFacts, 1);
    facts->name = g_strdup(domain);
    facts->node = mark_word(words, 0);
    facts->site = mark_word(words, 1);
    facts->placement = mark_word(words, 2);
    facts->record = mark_word(words, 3);
    facts->uses = g_ptr_array_new_with_free_func(g_free);
    for (guint i = MARKS; i < g_strv_length(words); i++)
        g_ptr_array_add(facts->uses, g_strdup(words[i]));
    return facts;
}

static gboolean
visit_file(const WeftFakeFolder *host, const char *file, Visit visit, gpointer data, GError **error)
{
    WeftDomainState state = g_str_has_suffix(file, WEFT_FAKE_RUNNING) ? WEFT_DOMAIN_RUNNING : WEFT_DOMAIN_STOPPED;
    if (state == WEFT_DOMAIN_STOPPED && !g_str_has_suffix(file, WEFT_FAKE_STOPPED))
        return TRUE;
    g_autofree char *domain = g_strndup(file, strlen(file) - strlen(WEFT_FAKE_RUNNING));
    /* Killed between starting it and forgetting that it was stopped. */
    if (state == WEFT_DOMAIN_STOPPED && weft_fake_exists(host, domain, WEFT_FAKE_RUNNING))
        return TRUE;
    return visit(host, domain, state, data, error);
}

static gboolean
visit_domains(const WeftFakeFolder *host, Visit visit, gpointer data, GError **error)
{
    g_autoptr(GPtrArray) files = weft_fake_files(host, error);
    gboolean ok = files != NULL;
    for (guint i = 0; ok && i < files->len; i++)
        ok = visit_file(host, files->pdata[i], visit, data, error);
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
check_beside(const WeftFakeFolder *host, const char *domain, WeftDomainState state, gpointer data, GError **error)
{
    const Newcomer *ours = data;
    if (state != WEFT_DOMAIN_RUNNING || g_str_equal(domain, ours->facts->name))
        return TRUE;
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_RUNNING, NULL);
    g_autofree char *text = weft_fake_read(host, file, WEFT_DOMAIN_XML_MAX, NULL);
    g_autoptr(WeftDomainFacts) theirs = text ? weft_fake_facts(domain, text) : NULL;
    for (guint i = 0; theirs && i < theirs->uses->len; i++) {
        const char *twice = clash(ours, g_ptr_array_index(theirs->uses, i));
        if (twice) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "host %s: domain %s cannot have %s: domain %s has it already",
                        host->host, ours->facts->name, twice, domain);
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean
check_double_use(const WeftFakeFolder *host, const WeftDomainFacts *facts, GError **error)
{
    g_autoptr(GHashTable) uses = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < facts->uses->len; i++)
        g_hash_table_add(uses, g_ptr_array_index(facts->uses, i));
    Newcomer ours = { .facts = facts, .uses = uses };
    return visit_domains(host, check_beside, &ours, error);
}

gboolean
weft_fake_put(const WeftFakeFolder *host, const char *xml, const char *suffix, GError **error)
{
    g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(xml, error);
    if (!facts || !check_double_use(host, facts, error))
        return FALSE;
    g_autofree char *file = g_strconcat(facts->name, suffix, NULL);
    g_autoptr(GString) text = with_head(facts, xml);
    return weft_fake_replace(host, file, text->str, text->len, error);
}

static gboolean
start_locked(const WeftFakeFolder *host, const WeftDomainFacts *facts, const char *xml, GError **error)
{
    g_autofree char *file = g_strconcat(facts->name, WEFT_FAKE_RUNNING, NULL);
    g_autoptr(GError) failed = NULL;
    g_autofree char *running = weft_fake_read(host, file, WEFT_DOMAIN_XML_MAX, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (running && g_str_equal(without_head(running), xml))
        return TRUE;
    if (running) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                    "host %s: domain %s runs already with another definition; stop it first", host->host, facts->name);
        return FALSE;
    }
    return weft_fake_put(host, xml, WEFT_FAKE_RUNNING, error) && weft_fake_remove(host, facts->name, WEFT_FAKE_STOPPED, error);
}

/* --- what belongs to a domain --- */

static const char *const domain_files[] = { WEFT_SEED_SUFFIX, WEFT_DISK_SUFFIX, WEFT_LAYER_SUFFIX, WEFT_SAVED_SUFFIX };

/* It goes on from its own saved file, and so with its own disk. */
static gboolean
keeps_disk(const WeftStart *start)
{
    return start->origin && !start->origin->saved;
}

static gboolean
write_disk(const WeftFakeFolder *pool, const char *domain, const WeftStart *start, GError **error)
{
    g_autofree char *disk = g_strconcat(domain, WEFT_DISK_SUFFIX, NULL);
    g_autofree char *fresh =
        g_strdup_printf("base %s\nsize %" G_GUINT64_FORMAT "\n", start->base->digest, MAX(start->disk_size, start->base->size));
    if (!start->origin || !start->origin->disk)
        return weft_fake_replace(pool, disk, fresh, strlen(fresh), error);
    g_autofree char *from = weft_image_file_name(start->origin->disk->digest);
    g_autofree char *text = weft_fake_read(pool, from, WEFT_FAKE_DISK_MAX, NULL);
    if (!text)
        return weft_error_refuse(error, WEFT_ERROR_NOT_FOUND, "host %s: there is no %s; bring it first", pool->host, from);
    g_autofree char *base = g_strdup_printf("base %s\n", start->base->digest);
    if (!g_str_has_prefix(text, base))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "host %s: %s is no layer over the same image", pool->host, from);
    return weft_fake_replace(pool, disk, text, strlen(text), error);
}

/* Of what is large and the same everywhere only the size is kept: a hundred thousand of these must fit. */
static gboolean
write_files(const WeftFakeFolder *pool, const char *domain, const WeftStart *start, GError **error)
{
    g_autofree char *seed = g_strconcat(domain, WEFT_SEED_SUFFIX, NULL);
    g_autofree char *seed_text = g_strdup_printf("size %" G_GSIZE_FORMAT "\n", start->seed ? g_bytes_get_size(start->seed) : 0);
    return weft_fake_images_check(pool, start->xml, error) &&
           (!start->seed || weft_fake_replace(pool, seed, seed_text, strlen(seed_text), error)) &&
           (!start->base || keeps_disk(start) || write_disk(pool, domain, start, error));
}

static gboolean
remove_files(const WeftFakeFolder *pool, const char *domain, GError **error)
{
    for (guint i = 0; i < G_N_ELEMENTS(domain_files); i++)
        if (!weft_fake_remove(pool, domain, domain_files[i], error))
            return FALSE;
    return weft_fake_marks_remove(pool, domain, error);
}

/* A definition that names no file of the pool needs none. */
static gboolean
needs_pool(const WeftStart *start)
{
    return start->seed || start->base || start->origin || strstr(start->xml, WEFT_POOL_PATH);
}

/* Before it runs: a guest that was forked must never pass for one that knows who it is, nor one that waits for one that goes
 * on. */
static gboolean
begin_with_origin(const char *world, const WeftFakeFolder *host, const char *domain, const WeftStart *start, GError **error)
{
    g_autofree char *blank = g_strconcat(domain, WEFT_FAKE_BLANK, NULL);
    g_autofree char *paused = g_strconcat(domain, WEFT_FAKE_PAUSED, NULL);
    return weft_fake_check_origin(world, host->host, domain, start, error) &&
           (!start->origin->primed || weft_fake_replace(host, blank, "", 0, error)) &&
           (!start->origin->paused || weft_fake_replace(host, paused, "", 0, error)) &&
           (!start->origin->primed || weft_fake_note_fork(host, domain, error));
}

/* What it goes on from by itself is kept where it does not run, and of no use once it does. */
static void
remove_made_files(const WeftFakeFolder *pool, const char *domain, const WeftStart *start, gboolean runs)
{
    if (runs || !keeps_disk(start))
        weft_fake_remove(pool, domain, WEFT_SAVED_SUFFIX, NULL);
    if (runs)
        return;
    weft_fake_remove(pool, domain, WEFT_SEED_SUFFIX, NULL);
    if (keeps_disk(start))
        return;
    weft_fake_remove(pool, domain, WEFT_DISK_SUFFIX, NULL);
    weft_fake_marks_remove(pool, domain, NULL);
}

/* As on a real host: the files come first, and go where the domain does not run. */
static gboolean
start_with_files(const char *world, const WeftFakeFolder *host, const WeftDomainFacts *facts, const WeftStart *start,
                 GError **error)
{
    WeftFakeFolder pool = { .fd = -1 };
    if (!needs_pool(start) || weft_fake_exists(host, facts->name, WEFT_FAKE_RUNNING))
        return start_locked(host, facts, start->xml, error);
    if (!weft_fake_folder_lock(world, host->host, WEFT_FAKE_POOL, &pool, error))
        return FALSE;
    gboolean ok = (!start->origin || begin_with_origin(world, host, facts->name, start, error)) &&
                  weft_fake_mark_make(&pool, facts->name, facts->site, facts->placement, error) &&
                  write_files(&pool, facts->name, start, error) && start_locked(host, facts, start->xml, error);
    remove_made_files(&pool, facts->name, start, ok);
    weft_fake_folder_close(&pool);
    return ok;
}

static const char *
world_of(WeftHypervisor *hv)
{
    return ((WeftFakeHypervisor *)hv)->world;
}

/* As libvirt does it: what the hook refuses does not run, and what does not run is released. */
static gboolean
start_with_hook(const WeftFakeHypervisor *hv, const WeftFakeFolder *host, const WeftDomainFacts *facts, const WeftStart *start,
                GError **error)
{
    if (weft_fake_exists(host, facts->name, WEFT_FAKE_RUNNING))
        return start_with_files(hv->world, host, facts, start, error);
    if (!weft_fake_hook_begin(hv, host->host, facts->name, start->xml, error))
        return FALSE;
    if (start_with_files(hv->world, host, facts, start, error) &&
        weft_fake_hook_started(hv, host->host, facts->name, start->xml, error))
        return TRUE;
    weft_fake_hook_end(hv, host->host, facts->name, start->xml);
    weft_fake_remove(host, facts->name, WEFT_FAKE_RUNNING, NULL);
    return FALSE;
}

static gboolean
has_files(const char *world, const char *host, const char *domain)
{
    WeftFakeFolder pool;
    if (!weft_fake_folder_open(world, host, WEFT_FAKE_POOL, &pool, NULL))
        return TRUE;
    gboolean has = FALSE;
    for (guint i = 0; i < G_N_ELEMENTS(domain_files) && !has; i++)
        has = weft_fake_exists(&pool, domain, domain_files[i]);
    weft_fake_folder_close(&pool);
    return has;
}

static gboolean
fake_start(WeftHypervisor *hv, const WeftHostAddress *address, const WeftStart *start, GCancellable *cancellable,
           GError **error)
{
    if (!weft_fake_pass(world_of(hv), address->name, "start", cancellable, error))
        return FALSE;
    g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(start->xml, error);
    if (!facts || !weft_fake_check_name(facts->name, error))
        return FALSE;
    WeftFakeFolder host;
    if (!weft_fake_folder_lock(world_of(hv), address->name, WEFT_FAKE_DOMAINS, &host, error))
        return FALSE;
    gboolean there = keeps_disk(start) || weft_fake_exists(&host, facts->name, WEFT_FAKE_RUNNING) ||
                     weft_fake_exists(&host, facts->name, WEFT_FAKE_STOPPED) ||
                     (start->run && has_files(world_of(hv), address->name, facts->name));
    gboolean ok = weft_fake_check_owner(world_of(hv), address->name, start->run, there, error) &&
                  start_with_hook((WeftFakeHypervisor *)hv, &host, facts, start, error);
    weft_fake_folder_close(&host);
    return ok;
}

/* --- the other operations --- */

static gboolean
check_running(WeftHypervisor *hv, const WeftHostAddress *address, const char *domain, GError **error)
{
    WeftFakeFolder host;
    if (!weft_fake_check_name(domain, error) ||
        !weft_fake_folder_open(world_of(hv), address->name, WEFT_FAKE_DOMAINS, &host, error))
        return FALSE;
    gboolean running = weft_fake_exists(&host, domain, WEFT_FAKE_RUNNING);
    weft_fake_folder_close(&host);
    if (!running)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND, "host %s: domain %s is not running", address->name, domain);
    return running;
}

static int
fake_open(WeftHypervisor *hv, const WeftHostAddress *address, const char *domain, WeftChannel channel,
          GCancellable *cancellable, GError **error)
{
    if (!weft_fake_pass(world_of(hv), address->name, "open", cancellable, error) || !check_running(hv, address, domain, error))
        return -1;
    return weft_fake_guests_open(((WeftFakeHypervisor *)hv)->guests, address->name, domain, channel, error);
}

/* Before its file goes: whoever is killed in between does it again. The report gives back what a hook that was killed left. */
static void
end_with_hook(const WeftFakeHypervisor *hv, const WeftFakeFolder *host, const char *domain)
{
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_RUNNING, NULL);
    g_autofree char *text = hv->hook && host->fd >= 0 ? weft_fake_read(host, file, WEFT_DOMAIN_XML_MAX, NULL) : NULL;
    g_autofree char *problem = NULL;
    if (!text)
        return;
    weft_fake_hook_end(hv, host->host, domain, without_head(text));
    json_decref(weft_fake_hook_report(hv, host->host, &problem));
    if (problem)
        weft_fake_devices_changed(hv->world, host->host);
}

static gboolean
fake_stop(WeftHypervisor *hv, const WeftHostAddress *address, const char *domain, GCancellable *cancellable, GError **error)
{
    WeftFakeFolder host, pool;
    if (!weft_fake_pass(world_of(hv), address->name, "stop", cancellable, error) || !weft_fake_check_name(domain, error) ||
        !weft_fake_folder_open_still(world_of(hv), address->name, WEFT_FAKE_DOMAINS, &host, error))
        return FALSE;
    if (!weft_fake_folder_open(world_of(hv), address->name, WEFT_FAKE_POOL, &pool, error)) {
        weft_fake_folder_close(&host);
        return FALSE;
    }
    end_with_hook((WeftFakeHypervisor *)hv, &host, domain);
    gboolean ok =
        weft_fake_remove(&host, domain, WEFT_FAKE_STOPPED, error) &&
        weft_fake_remove(&host, domain, WEFT_FAKE_RUNNING, error) && weft_fake_remove(&host, domain, WEFT_FAKE_BLANK, error) &&
        weft_fake_remove(&host, domain, WEFT_FAKE_PLUGGED, error) && weft_fake_remove(&host, domain, WEFT_FAKE_PAUSED, error) &&
        weft_fake_remove(&host, domain, WEFT_FAKE_RATE, error) && weft_fake_remove(&host, domain, WEFT_FAKE_OUT, error) &&
        weft_fake_remove(&host, domain, WEFT_FAKE_IN, error) && remove_files(&pool, domain, error);
    weft_fake_guests_end(((WeftFakeHypervisor *)hv)->guests, address->name, domain);
    weft_fake_folder_close(&pool);
    weft_fake_folder_close(&host);
    return ok;
}

/* --- list --- */

/* facts NULL: only its name is known. */
static void
add_domain(GPtrArray *domains, const char *name, WeftDomainFacts *facts, WeftDomainState state)
{
    WeftDomain *domain = g_new0(WeftDomain, 1);
    domain->name = g_strdup(name);
    domain->state = state;
    if (facts) {
        domain->node = g_steal_pointer(&facts->node);
        domain->site = g_steal_pointer(&facts->site);
        domain->placement = g_steal_pointer(&facts->placement);
        domain->record = g_steal_pointer(&facts->record);
    }
    g_ptr_array_add(domains, domain);
}

/* What only a name tells of. */
static void
add_remains(GPtrArray *domains, const char *name)
{
    add_domain(domains, name, NULL, WEFT_DOMAIN_STOPPED);
    WeftDomain *domain = g_ptr_array_index(domains, domains->len - 1);
    if (g_str_has_prefix(name, WEFT_DOMAIN_PREFIX))
        domain->node = g_strdup(name + strlen(WEFT_DOMAIN_PREFIX));
}

static gboolean
list_domain(const WeftFakeFolder *host, const char *name, WeftDomainState state, gpointer domains, GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autofree char *file = g_strconcat(name, state == WEFT_DOMAIN_RUNNING ? WEFT_FAKE_RUNNING : WEFT_FAKE_STOPPED, NULL);
    g_autofree char *text = weft_fake_read(host, file, WEFT_DOMAIN_XML_MAX, &failed);
    if (failed) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return FALSE;
    }
    if (!text) /* stopped meanwhile */
        return TRUE;
    g_autoptr(WeftDomainFacts) facts = weft_fake_facts(name, text);
    add_domain(domains, name, facts, state);
    return TRUE;
}

static gboolean
knows_domain(GPtrArray *domains, const char *name)
{
    for (guint i = 0; i < domains->len; i++)
        if (g_str_equal(((WeftDomain *)domains->pdata[i])->name, name))
            return TRUE;
    return FALSE;
}

static gboolean
list_halted(const WeftFakeFolder *host, GPtrArray *domains, GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    if (!weft_fake_list_halted(host, names, error))
        return FALSE;
    for (guint i = 0; i < names->len; i++) {
        const char *file = g_ptr_array_index(names, i);
        g_autofree char *name = g_strndup(file, (gsize)(strrchr(file, '.') - file));
        g_autofree char *text = weft_fake_read(host, file, WEFT_DOMAIN_XML_MAX, NULL);
        g_autoptr(WeftDomainFacts) facts = text ? weft_fake_facts(name, text) : NULL;
        if (!knows_domain(domains, name))
            add_domain(domains, name, facts, WEFT_DOMAIN_HALTED);
    }
    return TRUE;
}

/* Whose file it is, if it is a domain's. */
static char *
owner_of(const char *file)
{
    for (guint i = 0; i < G_N_ELEMENTS(domain_files); i++)
        if (g_str_has_suffix(file, domain_files[i]))
            return g_strndup(file, strlen(file) - strlen(domain_files[i]));
    g_autoptr(WeftFileMark) mark = weft_file_mark_read(file);
    return mark && mark->placement ? g_strdup(mark->subject) : NULL;
}

static gboolean
list_pool(const char *world, const char *host, WeftContents *contents, GError **error)
{
    WeftFakeFolder pool;
    if (!weft_fake_folder_open(world, host, WEFT_FAKE_POOL, &pool, error))
        return FALSE;
    g_autoptr(GPtrArray) files = weft_fake_files(&pool, error);
    for (guint i = 0; files && i < files->len; i++) {
        const char *file = files->pdata[i];
        const char *digest = weft_fake_image_digest(file);
        g_autofree char *domain = owner_of(file);
        WeftFileMark *mark = weft_file_mark_read(file);
        if (mark)
            g_ptr_array_add(contents->marks, mark);
        if (digest)
            g_ptr_array_add(contents->images, g_strdup(digest));
        else if (domain && !knows_domain(contents->domains, domain))
            add_remains(contents->domains, domain);
    }
    weft_fake_folder_close(&pool);
    return files != NULL;
}

static int
compare_domains(gconstpointer a, gconstpointer b)
{
    return strcmp((*(WeftDomain *const *)a)->name, (*(WeftDomain *const *)b)->name);
}

/* A real host that is described beside the fake driver is not taken for a folder: it does not come up. */
static gboolean
is_fake(const WeftHostAddress *host, GError **error)
{
    return !host->uri || g_str_has_prefix(host->uri, "fake://") ||
           weft_error_refuse(
               error, WEFT_ERROR_INVALID,
               "host %s: URI \"%s\" is that of a real host, and hypervisor.driver is fake in weft.yaml, which is for "
               "tests: write libvirt there, or fake://%s/ here",
               host->name, host->uri, host->name);
}

static WeftContents *
fake_list(WeftHypervisor *hv, const WeftHostAddress *address, GCancellable *cancellable, GError **error)
{
    WeftFakeFolder host;
    if (!is_fake(address, error) || !weft_fake_pass(world_of(hv), address->name, "list", cancellable, error) ||
        !weft_fake_folder_open_still(world_of(hv), address->name, WEFT_FAKE_DOMAINS, &host, error))
        return NULL;
    g_autoptr(WeftContents) contents = weft_contents_new();
    gboolean ok = visit_domains(&host, list_domain, contents->domains, error) && list_halted(&host, contents->domains, error) &&
                  list_pool(world_of(hv), address->name, contents, error) &&
                  weft_fake_networks_list(world_of(hv), address->name, contents->networks, error) &&
                  weft_fake_list_primed(world_of(hv), address->name, contents->primed, error);
    weft_fake_folder_close(&host);
    g_ptr_array_sort(contents->domains, compare_domains);
    return ok ? g_steal_pointer(&contents) : NULL;
}

/* Of reboots only: whoever changes other files can wait for the reconciler's next look, as with a real host whose events got
 * lost. */
static void
fake_watch(WeftHypervisor *hv, WeftHostChanged changed, gpointer data)
{
    WeftFakeHypervisor *fake = (WeftFakeHypervisor *)hv;
    g_clear_pointer(&fake->reboots, weft_fake_reboots_free);
    if (changed)
        fake->reboots = weft_fake_reboots_new(fake->world, fake->guests, changed, data);
}

static void
fake_free(WeftHypervisor *hv)
{
    fake_watch(hv, NULL, NULL);
    weft_fake_guests_free(((WeftFakeHypervisor *)hv)->guests);
    g_free(((WeftFakeHypervisor *)hv)->hook);
    g_free(((WeftFakeHypervisor *)hv)->world);
    g_free(hv);
}

/* As weft-hook does it on a host, with the same code. */
static char *
record_path(const char *world, const char *host)
{
    return g_build_filename(world, host, "owner", NULL);
}

gboolean
weft_fake_check_owner(const char *world, const char *host, const char *run, gboolean there, GError **error)
{
    if (!run)
        return TRUE;
    g_autofree char *path = record_path(world, host);
    return there ? weft_hypervisor_refuse_unclaimed(error, host) : weft_owner_check(path, run, error);
}

static gboolean
fake_claim(WeftHypervisor *hv, const WeftHostAddress *host, const WeftOwner *claim, gboolean take,
           WeftOwnerVerdict *ret_verdict, WeftOwner **ret_record, GCancellable *cancellable, GError **error)
{
    const char *world = ((WeftFakeHypervisor *)hv)->world;
    g_autofree char *path = record_path(world, host->name);
    return is_fake(host, error) && weft_fake_pass(world, host->name, "claim", cancellable, error) &&
           weft_owner_claim(path, claim, take, ret_verdict, ret_record, error);
}

static const WeftHypervisorOps fake_ops = {
    .name = "fake",
    .start = fake_start,
    .stop = fake_stop,
    .list = fake_list,
    .bring = weft_fake_bring,
    .discard = weft_fake_discard,
    .connect = weft_fake_connect,
    .disconnect = weft_fake_disconnect,
    .claim = fake_claim,
    .inspect = weft_fake_inspect,
    .open = fake_open,
    .save = weft_fake_save,
    .fetch = weft_fake_fetch,
    .prime = weft_fake_prime,
    .unprime = weft_fake_unprime,
    .plug = weft_fake_plug,
    .unplug = weft_fake_unplug,
    .pause = weft_fake_pause,
    .resume = weft_fake_resume,
    .measure = weft_fake_measure,
    .move = weft_fake_move,
    .watch = fake_watch,
    .free = fake_free,
};

WeftHypervisor *
weft_hypervisor_fake_new(const char *world, GError **error)
{
    if (g_mkdir_with_parents(world, 0755) < 0) {
        weft_fake_fail(error, "making", world);
        return NULL;
    }
    WeftFakeHypervisor *fake = g_new0(WeftFakeHypervisor, 1);
    fake->base.ops = &fake_ops;
    fake->world = g_strdup(world);
    fake->guests = weft_fake_guests_new(world);
    return &fake->base;
}

void
weft_hypervisor_fake_use_guest(WeftHypervisor *hv, const char *program)
{
    weft_fake_guests_use(((WeftFakeHypervisor *)hv)->guests, program);
}

void
weft_hypervisor_fake_use_hook(WeftHypervisor *hv, const char *program)
{
    WeftFakeHypervisor *fake = (WeftFakeHypervisor *)hv;
    fake->hook = g_strdup(program);
    weft_fake_hook_recover(fake);
}
