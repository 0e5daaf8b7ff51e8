#include "config.h"

#include "../contract/scratch.h"
#include "errors.h"
#include "records.h"
#include "sqlite.h"

#include <string.h>

#define REWRITE (g_strcmp0(g_getenv("WEFT_GOLDEN_REWRITE"), "1") == 0)

static const char *program;

static char *
golden(const char *file)
{
    return g_test_build_filename(G_TEST_DIST, "..", "golden", "config", file, NULL);
}

static void
compare_with_golden(const char *got, const char *file)
{
    g_autofree char *path = golden(file);
    if (REWRITE)
        g_assert_true(g_file_set_contents(path, got, -1, NULL));
    g_autofree char *expected = NULL;
    g_file_get_contents(path, &expected, NULL, NULL);
    g_assert_cmpstr(got, ==, expected);
}

/* --- good files --- */

typedef json_t *(*Encode)(gconstpointer object);

static json_t *
encode_all(const GPtrArray *objects, Encode encode)
{
    json_t *array = json_array();
    for (guint i = 0; i < objects->len; i++)
        json_array_append_new(array, encode(g_ptr_array_index(objects, i)));
    return array;
}

/* What the site has; options have their own test. */
static char *
encode_site(const WeftConfig *config)
{
    json_auto_t *site = json_object();
    json_object_set_new(site, "fabrics", encode_all(config->fabrics, (Encode)weft_fabric_to_json));
    json_object_set_new(site, "hosts", encode_all(config->hosts, (Encode)weft_host_to_json));
    json_object_set_new(site, "tenants", encode_all(config->tenants, (Encode)weft_tenant_to_json));
    json_object_set_new(site, "principals", encode_all(config->principals, (Encode)weft_principal_to_json));
    char *text = json_dumps(site, JSON_INDENT(1) | JSON_SORT_KEYS);
    char *copy = g_strconcat(text, "\n", NULL);
    free(text);
    return copy;
}

static void
good_file(gconstpointer data)
{
    const char *name = data;
    g_autofree char *input = g_strconcat(name, ".yaml", NULL);
    g_autofree char *output = g_strconcat(name, ".json", NULL);
    g_autofree char *path = golden(input);
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftConfig) config = weft_config_load(path, &error);
    g_assert_no_error(error);
    g_autofree char *site = encode_site(config);
    compare_with_golden(site, output);
}

static WeftConfig *
load_text(const char *folder, const char *text, GError **error)
{
    scratch_write(folder, "weft.yaml", text);
    g_autofree char *path = g_build_filename(folder, "weft.yaml", NULL);
    return weft_config_load(path, error);
}

/* Every option, the number of milliseconds where it is a time. */
static char *
describe_options(const WeftConfig *config)
{
    const WeftApiOptions *a = &config->api;
    const WeftControlOptions *c = &config->control;
    const gint64 times[] = { a->idle_timeout,      c->start_deadline,   c->await_deadline, c->stop_deadline,
                             c->list_deadline,     c->apply_deadline,   c->backoff.base,   c->backoff.max,
                             c->host_grace,        c->scan_interval,    c->event_age,      c->request_age,
                             c->meet_deadline,     c->connect_deadline, c->link_idle,      config->libvirt.dial_limit,
                             c->patrol_interval,   c->pkey_rest,        c->expiry_warning, c->queue.half_life,
                             c->still_deadline,    c->clock_bound,      c->ended_age,      a->token_lifetime,
                             a->token_lifetime_max };
    GString *text = g_string_new(NULL);
    g_string_printf(text, "%s %s %s", config->store_path, config->hypervisor, config->hypervisor_world);
    g_string_append_printf(text, "\n%s %s %s %s %s %u %u %u %u %u %u", a->socket_path, a->socket_group, a->tcp_address,
                           a->tls_certificate, a->tls_key, a->connections, a->connections_per_address, a->body_max,
                           a->requests_per_second, a->requests_burst, a->streams);
    g_string_append_printf(text, "\n%u %u %u %u %" G_GUINT64_FORMAT "\n", c->workers, c->workers_per_host, c->starts_max,
                           c->path_rule.bridge_below, c->path_rule.shm);
    g_string_append_printf(text, "%g %g %g %u\n", c->queue.priority, c->queue.age, c->queue.share, c->queue.depth);
    g_string_append_printf(text, "%s %s %d %s %u %u\n", config->guest, config->secret, config->run_guests, config->hook,
                           config->libvirt.keepalive, config->libvirt.keepalive_count);
    for (gsize i = 0; i < G_N_ELEMENTS(times); i++)
        g_string_append_printf(text, " %" G_GINT64_FORMAT, times[i] / 1000);
    return g_string_free(text, FALSE);
}

static void
managers_are_read(void)
{
    char *folder = scratch_new();
    g_autoptr(GError) error = NULL;
    g_autofree char *key = g_build_filename(folder, "m_key", NULL);
    g_assert_true(g_file_set_contents(key, "0x0123456789abcdef\n", -1, NULL));
    g_autofree char *text = g_strdup_printf(
        "fabrics:\n"
        "  - { name: ib0, manager: { driver: opensm, managers: [/run/weft-opensm.sock, "
        "'ssh://weft@sm2/run/weft-opensm.sock'],\n"
        "      ssh_key: /s/key, deadline: 5s } }\n"
        "  - { name: ib1, vxlan_base: 50000, manager: { driver: opensm, way: file, partitions_file: /s/partitions.conf,\n"
        "      pid_file: /s/pid, m_key_file: %s, device: mlx4_0, port: 2 } }\n"
        "  - { name: ib2, vxlan_base: 90000, manager: { driver: fake, world: /s/ib2 } }\n"
        "  - { name: ib3, vxlan_base: 130000, manager: { driver: none } }\n"
        "  - { name: ib4, vxlan_base: 170000, manager: { driver: fake } }\n"
        "  - { name: ib5, vxlan_base: 210000 }\n"
        "shared: [ { name: storage, pkey: '0x7001', servers: ['0x0002c90300000101'] },\n"
        "          { name: storage, fabric: ib1, pkey: '0x7002', clusters: full, tenants: [acme] } ]\n",
        key);
    g_autoptr(WeftConfig) config = load_text(folder, text, &error);
    g_assert_no_error(error);
    const WeftConfigManager *plugin = config->managers->pdata[0], *file = config->managers->pdata[1];
    static const WeftManagerDriver drivers[] = { WEFT_MANAGER_OPENSM, WEFT_MANAGER_OPENSM, WEFT_MANAGER_FAKE,
                                                 WEFT_MANAGER_NONE,   WEFT_MANAGER_FAKE,   WEFT_MANAGER_UNNAMED };
    for (guint i = 0; i < G_N_ELEMENTS(drivers); i++)
        g_assert_cmpint(((const WeftConfigManager *)config->managers->pdata[i])->driver, ==, drivers[i]);
    g_assert_cmpint(plugin->options.way, ==, WEFT_OPENSM_PLUGIN);
    g_assert_cmpstr(plugin->options.managers[1], ==, "ssh://weft@sm2/run/weft-opensm.sock");
    g_assert_null(plugin->options.managers[2]);
    g_assert_cmpstr(plugin->options.ssh_key, ==, "/s/key");
    g_assert_cmpint(plugin->options.deadline, ==, 5 * G_USEC_PER_SEC);
    g_assert_cmpint(file->options.way, ==, WEFT_OPENSM_FILE);
    g_assert_cmpstr(file->options.partitions_file, ==, "/s/partitions.conf");
    g_assert_cmpuint(file->options.m_key, ==, 0x0123456789abcdef);
    g_assert_cmpuint(file->options.port, ==, 2);
    g_assert_cmpstr(((WeftConfigManager *)config->managers->pdata[2])->world, ==, "/s/ib2");
    g_assert_cmpstr(((WeftConfigManager *)config->managers->pdata[4])->world, ==, "/var/lib/weft/fake/fabric/ib4");
    const WeftShared *first = weft_fabric_shared(config->fabrics->pdata[0], "storage");
    const WeftShared *second = weft_fabric_shared(config->fabrics->pdata[1], "storage");
    g_assert_cmpuint(weft_shared_key(first), ==, 0x7001);
    g_assert_cmpuint(weft_shared_key(second), ==, 0xf002);
    g_assert_true(weft_shared_allows(first, "umbrella") && !weft_shared_allows(second, "umbrella"));
    scratch_free(folder);
}

static void
options_are_read(void)
{
    char *folder = scratch_new();
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftConfig) config = load_text(
        folder,
        "store: { path: /s/db }\n"
        "api: { socket: /s/sock, group: hpc, tcp: '[::1]:7600', tls_certificate: /s/crt, tls_key: /s/key, connections: 11,\n"
        "  connections_per_address: 12, body_max: 13K, requests_per_second: 14, requests_burst: 15, streams: 16,\n"
        "  idle_timeout: 17s, token_lifetime: 55ms, token_lifetime_max: 56ms }\n"
        "control: { workers: 21, workers_per_host: 22, starts_max: 23, start_deadline: 24ms, await_deadline: 25ms,\n"
        "  stop_deadline: 26ms, list_deadline: 27ms, apply_deadline: 28ms, backoff_base: 29ms, backoff_max: 30ms,\n"
        "  host_grace: 31ms, scan_interval: 32ms, event_age: 33ms, request_age: 34ms, meet_deadline: 35ms,\n"
        "  connect_deadline: 36ms, link_idle: 37ms, patrol_interval: 41ms, pkey_rest: 42ms, expiry_warning: 44ms,\n"
        "  still_deadline: 45ms, clock_bound: 46ms, ended_age: 47ms }\n"
        "paths: { bridge_below: 43, shm: 2M }\n"
        "queue: { priority: 51, age: 52.5, share: 0, half_life: 53ms, depth: 54 }\n"
        "guest: /s/guest\n"
        "secret: /s/secret\n"
        "hypervisor: { driver: fake, world: /s/hosts, run_guests: true, hook: /s/hook, dial_limit: 38ms, keepalive: 39, "
        "keepalive_count: 40 "
        "}\n",
        &error);
    g_assert_no_error(error);
    g_autofree char *options = describe_options(config);
    g_assert_cmpstr(options, ==,
                    "/s/db fake /s/hosts\n"
                    "/s/sock hpc [::1]:7600 /s/crt /s/key 11 12 13312 14 15 16\n"
                    "21 22 23 43 2097152\n"
                    "51 52.5 0 54\n"
                    "/s/guest /s/secret 1 /s/hook 39 40\n"
                    " 17000 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 41 42 44 53 45 46 47 55 56");
    scratch_free(folder);
}

/* The example shows options with their defaults; the man page says so. */
static void
example_shows_defaults(void)
{
    g_autofree char *example = g_test_build_filename(G_TEST_DIST, "..", "..", "docs", "weft.yaml.example", NULL);
    g_autofree char *smallest = golden("smallest.yaml");
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftConfig) config = weft_config_load(example, &error);
    g_assert_no_error(error);
    g_autoptr(WeftConfig) defaults = weft_config_load(smallest, &error);
    g_assert_no_error(error);
    g_autofree char *shown = describe_options(config);
    g_autofree char *expected = describe_options(defaults);
    g_assert_cmpstr(shown, ==, expected);

    g_assert_cmpuint(config->hosts->len, ==, 1025);
    const WeftHost *last = g_ptr_array_index(config->hosts, 1023);
    g_assert_cmpstr(last->name, ==, "n1024");
    g_assert_cmpstr(last->leaf, ==, "leaf64");
}

/* --- bad files: bad.txt is a text of cases, "=== NAME", the file, and "!! " before what weft says --- */

static char *
message_for(const char *folder, const char *yaml)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftConfig) config = load_text(folder, yaml, &error);
    g_assert_null(config);
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    GString *message = g_string_new(error->message);
    g_autofree char *prefix = g_strconcat(folder, "/", NULL);
    g_string_replace(message, prefix, "", 0);
    return g_string_free(message, FALSE);
}

static void
check_case(const char *folder, const char *text, GString *out)
{
    const char *body = strchr(text, '\n') + 1;
    const char *end = strstr(body - 1, "\n!!") + 1;
    g_autofree char *yaml = g_strndup(body, (gsize)(end - body));
    g_autofree char *message = message_for(folder, yaml);
    g_autofree char *said = g_strdup_printf("!! %s\n", message);
    g_test_message("%.*s", (int)(body - text - 1), text);
    if (!REWRITE)
        g_assert_cmpstr(said, ==, end);
    g_string_append_printf(out, "=== %.*s%s", (int)(end - text), text, said);
}

static void
bad_files(void)
{
    g_autofree char *path = golden("bad.txt");
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    char *folder = scratch_new();
    g_auto(GStrv) cases = g_strsplit(text, "=== ", -1);
    g_autoptr(GString) out = g_string_new(cases[0]);
    for (guint i = 1; cases[i]; i++)
        check_case(folder, cases[i], out);
    if (REWRITE)
        g_assert_true(g_file_set_contents(path, out->str, -1, NULL));
    scratch_free(folder);
}

static void
missing_file(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_config_load("/nowhere/weft.yaml", &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND);
}

/* --- import --- */

typedef struct Site {
    char *folder;
    WeftStore *store;
} Site;

static WeftStore *
open_store(const char *folder)
{
    g_autofree char *path = g_build_filename(folder, "weft.db", NULL);
    g_autoptr(GError) error = NULL;
    WeftStore *store = weft_store_sqlite_open(path, 0, &error);
    g_assert_no_error(error);
    return store;
}

static void
site_open(Site *site)
{
    site->folder = scratch_new();
    site->store = open_store(site->folder);
}

static void
site_close(Site *site)
{
    weft_store_free(site->store);
    scratch_free(site->folder);
}

/* Every record, a line each; with revisions it tells also what was written without need. */
static char *
contents(WeftStore *store, gboolean revisions)
{
    GString *text = g_string_new(NULL);
    for (WeftKind kind = WEFT_KIND_META + 1; kind < WEFT_KINDS; kind++) {
        WeftQuery query = { .kind = kind };
        g_autoptr(GPtrArray) records = weft_store_list(store, &query, NULL);
        for (guint i = 0; i < records->len; i++) {
            const WeftRecord *record = g_ptr_array_index(records, i);
            g_string_append_printf(text, "%s %s %" G_GINT64_FORMAT " %s\n", weft_kind_words[kind], record->key,
                                   revisions ? record->revision : 0, record->value);
        }
    }
    return g_string_free(text, FALSE);
}

/* What the last import said that it changes. */
static GString *said;

static gboolean
note_changes(json_t *changes, gpointer data, GError **error)
{
    size_t i;
    json_t *change;
    g_assert_cmpuint(json_array_size(changes), <=, 100);
    json_array_foreach (changes, i, change)
        g_string_append_printf(said, "%s %s %s; ", json_string_value(json_object_get(change, "kind")),
                               json_string_value(json_object_get(change, "name")),
                               json_string_value(json_object_get(change, "change")));
    json_decref(changes);
    return TRUE;
}

static gboolean
import_noting(const WeftConfig *config, WeftStore *store, GError **error)
{
    if (said)
        g_string_free(said, TRUE);
    said = g_string_new(NULL);
    return weft_config_import(config, store, note_changes, NULL, error);
}

/* message NULL: it is imported; else it is refused with this, and nothing changes. */
static void
import(Site *site, const char *yaml, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftConfig) config = load_text(site->folder, yaml, &error);
    g_assert_no_error(error);
    g_autofree char *before = contents(site->store, TRUE);
    gboolean ok = import_noting(config, site->store, &error);
    if (!message) {
        g_assert_no_error(error);
        g_assert_true(ok);
        return;
    }
    g_assert_false(ok);
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
    g_assert_cmpstr(error->message, ==, message);
    g_autofree char *after = contents(site->store, TRUE);
    g_assert_cmpstr(after, ==, before);
}

/* A new site says who manages its fabrics; one of an older weft, which did not ask, opens. */
static void
new_fabrics_name_managers(void)
{
    Site site;
    site_open(&site);
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftConfig) silent = load_text(site.folder, "tenants: []\n", &error);
    g_assert_no_error(error);
    g_assert_false(weft_config_check_new(silent, site.store, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "\"ib0\" has no manager; write \"manager: { driver: opensm"));
    g_assert_nonnull(strstr(error->message, "driver: none"));
    g_clear_error(&error);
    import(&site, "tenants: []\n", NULL); /* as older ones did */
    g_assert_true(weft_config_check_new(silent, site.store, &error));
    g_autoptr(WeftConfig) more =
        load_text(site.folder, "fabrics: [ { name: ib0 }, { name: ib1, vxlan_base: 90000 } ]\n", &error);
    g_assert_false(weft_config_check_new(more, site.store, &error));
    g_assert_nonnull(strstr(error->message, "\"ib1\" has no manager"));
    site_close(&site);
}

static void
commit(Site *site, WeftTxn *txn)
{
    g_autoptr(GError) error = NULL;
    weft_store_commit_wait(site->store, txn, &error);
    g_assert_no_error(error);
}

static gboolean
exists(Site *site, WeftKind kind, const char *key)
{
    g_autoptr(WeftRecord) record = weft_store_get(site->store, kind, key, NULL);
    return record != NULL;
}

#define NUMA "leaf: l1, numa: [ { cores: 4, pages: { 2M: 512 } } ]"
#define N1 "hosts: [ { name: n1, " NUMA " } ]\n"
#define N2 "hosts: [ { name: n2, " NUMA " } ]\n"
#define ACME "tenants: [ { name: acme } ]\n"

/* Keys of what the file can describe. */
static char *
keys(Site *site)
{
    static const WeftKind kinds[] = { WEFT_KIND_FABRIC, WEFT_KIND_HOST, WEFT_KIND_TENANT, WEFT_KIND_PRINCIPAL };
    GString *text = g_string_new(NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++) {
        WeftQuery query = { .kind = kinds[i] };
        g_autoptr(GPtrArray) records = weft_store_list(site->store, &query, NULL);
        for (guint j = 0; j < records->len; j++)
            g_string_append_printf(text, "%s ", ((const WeftRecord *)g_ptr_array_index(records, j))->key);
    }
    return g_string_free(text, FALSE);
}

static void
import_adds_and_removes(void)
{
    Site site;
    site_open(&site);
    import(&site, N1 ACME "principals: [ { name: alice, role: member, tenant: acme } ]\n", NULL);
    g_autofree char *first = keys(&site);
    g_assert_cmpstr(first, ==, "ib0 n1 acme alice ");
    import(&site, N2, NULL);
    g_autofree char *second = keys(&site);
    g_assert_cmpstr(second, ==, "ib0 n2 ");
    import(&site, "fabrics: [ { name: ib1 } ]\n", NULL);
    g_autofree char *third = keys(&site);
    g_assert_cmpstr(third, ==, "ib1 ");
    site_close(&site);
}

static gboolean
refuse_changes(json_t *changes, gpointer data, GError **error)
{
    json_decref(changes);
    return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE, "it cannot be written down");
}

/* What must be told before it is done is not done where nobody can be told. */
static void
import_of_what_cannot_be_told(void)
{
    Site site;
    site_open(&site);
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftConfig) config = load_text(site.folder, N1 ACME, &error);
    g_assert_no_error(error);
    g_assert_false(weft_config_import(config, site.store, refuse_changes, NULL, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE);
    g_autofree char *nothing = keys(&site);
    g_assert_cmpstr(nothing, ==, "");
    site_close(&site);
}

static void
import_again_writes_nothing(void)
{
    Site site;
    site_open(&site);
    const char *yaml = "hosts: [ { name: 'n[1-50]', " NUMA ", labels: { rack: a } } ]\n" ACME
                       "principals: [ { name: alice, role: member, tenant: acme, unix_user: alice } ]\n";
    import(&site, yaml, NULL);
    g_autofree char *before = contents(site.store, TRUE);
    import(&site, yaml, NULL);
    g_autofree char *after = contents(site.store, TRUE);
    g_assert_cmpstr(after, ==, before);
    site_close(&site);
}

static void
import_keeps_drain_marks(void)
{
    Site site;
    site_open(&site);
    import(&site, N1, NULL);
    gint64 revision;
    g_autoptr(WeftHost) host = weft_store_load_host(site.store, "n1", &revision, NULL);
    host->draining = host->evicting = TRUE;
    WeftTxn *txn = weft_txn_new("test-drained");
    weft_txn_put_host(txn, host, revision);
    commit(&site, txn);

    g_autofree char *before = contents(site.store, TRUE);
    import(&site, N1, NULL);
    g_autofree char *after = contents(site.store, TRUE);
    g_assert_cmpstr(after, ==, before);

    import(&site, "hosts: [ { name: n1, labels: { rack: b }, " NUMA " } ]\n", NULL);
    g_autoptr(WeftHost) changed = weft_store_load_host(site.store, "n1", NULL, NULL);
    g_assert_cmpstr(g_hash_table_lookup(changed->labels, "rack"), ==, "b");
    g_assert_true(changed->draining);
    g_assert_true(changed->evicting);
    g_assert_cmpint(changed->origin, ==, WEFT_ORIGIN_CONFIG);
    site_close(&site);
}

static void
import_leaves_api_alone(void)
{
    Site site;
    site_open(&site);
    import(&site, N1, NULL);
    g_autoptr(WeftHost) host = weft_store_load_host(site.store, "n1", NULL, NULL);
    g_autoptr(WeftTenant) tenant = g_new0(WeftTenant, 1);
    tenant->share = 1;
    g_free(host->name);
    host->name = g_strdup("n9");
    host->origin = WEFT_ORIGIN_API;
    tenant->name = g_strdup("umbrella");
    WeftTxn *txn = weft_txn_new("test-added");
    weft_txn_put_host(txn, host, WEFT_ABSENT);
    weft_txn_put_tenant(txn, tenant, WEFT_ABSENT);
    commit(&site, txn);

    import(&site, N2, NULL);
    g_assert_true(exists(&site, WEFT_KIND_HOST, "n9"));
    g_assert_true(exists(&site, WEFT_KIND_TENANT, "umbrella"));
    import(&site, "hosts: [ { name: n9, " NUMA " } ]\n",
           "host n9 is in the file, but was made through the API; remove it there, or take it out of the file");
    import(&site, "tenants: [ { name: umbrella } ]\n",
           "tenant umbrella is in the file, but was made through the API; remove it there, or take it out of the file");
    import(&site, "fabrics: [ { name: ib1 } ]\n",
           "fabric ib0: it is no longer in the file, but host n9 uses it; undo that, or remove the host first");
    site_close(&site);
}

static void
put_node(Site *site)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftHost) host = weft_store_load_host(site->store, "n1", NULL, NULL);
    json_auto_t *json =
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:[i], s:[[i,i,i]], s:[], s:[], s:s, s:s, s:s, s:s, s:i}", "id", "1a-1",
                  "cluster", "1a", "cluster_name", "cfd", "tenant", "acme", "rank", 0, "group", "nodes", "host", "n1", "cores",
                  1, "memory", 0, 2097152, 32, "devices", "gpus", "mac", "02:00:00:00:00:01", "image", "mpi", "path", "bridge",
                  "phase", "ready", "since", 1);
    g_autoptr(WeftNode) node = weft_node_from_json(json, &error);
    g_assert_no_error(error);
    WeftTxn *txn = weft_txn_new("test-placed");
    weft_txn_put_new_node(txn, node, host);
    commit(site, txn);
}

static void
import_spares_hosts_in_use(void)
{
    Site site;
    site_open(&site);
    import(&site, N1, NULL);
    put_node(&site);
    import(&site, N2,
           "host n1 is no longer in the file, but nodes are on it; put it back, \"weft drain --evict n1\", then take it out");
    import(&site, "hosts: [ { name: n1, leaf: l1, numa: [ { cores: 2, pages: { 2M: 512 } } ] } ]\n",
           "host n1: numa changed in the file while nodes are on it; change it back, \"weft drain --evict n1\", then "
           "change it");
    import(&site, "fabrics: [ { name: ib1 } ]\n" N1,
           "host n1: fabric changed in the file while nodes are on it; change it back, \"weft drain --evict n1\", then "
           "change it");
    import(&site, "hosts: [ { name: n1, labels: { rack: b }, " NUMA " }, { name: n2, " NUMA " } ]\n", NULL);
    g_assert_true(exists(&site, WEFT_KIND_HOST, "n2"));
    site_close(&site);
}

static void
put_cluster(Site *site)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftTenant) tenant = weft_store_load_tenant(site->store, "acme", NULL, NULL);
    json_auto_t *spec =
        json_pack("{s:s, s:i, s:i, s:s, s:s}", "name", "cfd", "count", 1, "cores", 1, "memory", "1G", "image", "mpi");
    g_autoptr(WeftCluster) cluster = weft_cluster_from_spec(spec, &error);
    g_assert_no_error(error);
    cluster->id = g_strdup("4k2m8w9x1a2b");
    cluster->tenant = g_strdup("acme");
    cluster->creator = g_strdup("alice");
    WeftClusterStatus status = {
        .cluster = cluster->id, .tenant = cluster->tenant, .name = cluster->name, .fabric = "ib0", .pkey = 1
    };
    WeftTxn *txn = weft_txn_new("test-created");
    weft_txn_put_cluster(txn, cluster, tenant, WEFT_ABSENT);
    weft_txn_put_cluster_status(txn, &status, WEFT_ABSENT);
    commit(site, txn);
}

static void
import_spares_tenants_and_fabrics_in_use(void)
{
    Site site;
    site_open(&site);
    import(&site, ACME, NULL);
    put_cluster(&site);
    import(&site, "tenants: []\n",
           "tenant acme is no longer in the file, but has clusters; put it back, remove them, then take it out");
    import(&site, "fabrics: [ { name: ib1 } ]\n" ACME,
           "fabric ib0: it is no longer in the file, but cluster acme/cfd uses it; undo that, or remove the cluster first");
    import(&site, "fabrics: [ { name: ib0, vxlan_base: 20000 } ]\n" ACME,
           "fabric ib0: vxlan_base changed in the file, but cluster acme/cfd uses it; undo that, or remove the cluster first");
    import(&site,
           "fabrics: [ { name: ib0, pkey_first: '0x0001', pkey_last: '0x00ff' } ]\ntenants: [ { name: acme, quota: { nodes: 5 "
           "} } ]\n",
           NULL);
    g_autoptr(WeftTenant) tenant = weft_store_load_tenant(site.store, "acme", NULL, NULL);
    g_assert_cmpuint(tenant->quota[WEFT_QUOTA_NODES], ==, 5);
    site_close(&site);
}

static void
put_token(Site *site, const char *id, const char *principal)
{
    WeftToken token = { .id = (char *)id, .hash = (char *)id, .principal = (char *)principal, .tenant = (char *)"acme" };
    WeftTxn *txn = weft_txn_new("test-token");
    weft_txn_put_token(txn, &token, WEFT_ABSENT);
    commit(site, txn);
}

#define TWO_TENANTS "tenants: [ { name: acme }, { name: umbrella } ]\n"

static void
import_revokes_tokens(void)
{
    Site site;
    site_open(&site);
    import(&site,
           TWO_TENANTS "principals: [ { name: alice, role: member, tenant: acme }, { name: bob, role: member, tenant: acme },"
                       " { name: carol, role: member, tenant: acme } ]\n",
           NULL);
    put_token(&site, "1alice", "alice");
    put_token(&site, "2bob", "bob");
    put_token(&site, "3carol", "carol");
    import(&site,
           TWO_TENANTS
           "principals: [ { name: bob, role: member, tenant: umbrella }, { name: carol, role: viewer, tenant: acme } ]\n",
           NULL);
    g_assert_false(exists(&site, WEFT_KIND_TOKEN, "1alice"));
    g_assert_false(exists(&site, WEFT_KIND_TOKEN, "2bob"));
    g_assert_true(exists(&site, WEFT_KIND_TOKEN, "3carol"));
    site_close(&site);
}

static void
import_swaps_unix_users(void)
{
    Site site;
    site_open(&site);
    import(&site, "principals: [ { name: ada, role: admin, unix_user: u1 }, { name: bob, role: admin, unix_user: u2 } ]\n",
           NULL);
    import(&site, "principals: [ { name: ada, role: admin, unix_user: u2 }, { name: bob, role: admin, unix_user: u1 } ]\n",
           NULL);
    import(&site, "principals: [ { name: carl, role: admin, unix_user: u1 } ]\n", NULL);
    g_autoptr(WeftRecord) holder = weft_store_holder(site.store, "unix/u1", NULL);
    g_assert_nonnull(holder);
    g_assert_cmpstr(holder->key, ==, "carl");
    site_close(&site);
}

#define MANY "hosts: [ { name: 'n[1-2500]', " NUMA " } ]\n" ACME
#define MANY_OTHERS "hosts: [ { name: 'n[1001-3500]', labels: { rack: b }, " NUMA " } ]\n"

static void
import_tells_what_it_changes(void)
{
    Site site;
    site_open(&site);
    const char *ada = "tenants: [ { name: acme } ]\nprincipals: [ { name: ada, role: member, tenant: acme } ]\n";
    import(&site, ada, NULL);
    g_assert_cmpstr(said->str, ==, "fabric ib0 written; tenant acme written; principal ada written; ");
    import(&site, ada, NULL);
    g_assert_cmpstr(said->str, ==, "");
    import(&site, "tenants: [ { name: acme, devices: [ gpu ] } ]\n", NULL);
    g_assert_cmpstr(said->str, ==, "tenant acme written; principal ada removed; ");
    import(&site, MANY, NULL);
    g_assert_nonnull(strstr(said->str, "host n1 written; "));
    g_assert_nonnull(strstr(said->str, "host n2500 written; "));
    site_close(&site);
}

/* --- killed between two transactions --- */

static int
import_only(const char *folder)
{
    Site site = { .folder = (char *)folder, .store = open_store(folder) };
    g_autofree char *path = g_build_filename(folder, "weft.yaml", NULL);
    g_autoptr(WeftConfig) config = weft_config_load(path, NULL);
    gboolean ok = config && import_noting(config, site.store, NULL);
    weft_store_free(site.store);
    return ok ? 0 : 1;
}

/* Imports the file in a process that is killed after its nth transaction. */
static void
import_killed(Site *site, const char *yaml, guint nth)
{
    g_clear_pointer(&site->store, weft_store_free);
    scratch_write(site->folder, "weft.yaml", yaml);
    g_autoptr(GSubprocessLauncher) launcher = g_subprocess_launcher_new(G_SUBPROCESS_FLAGS_NONE);
    g_autofree char *failpoint = g_strdup_printf("config-imported:%u", nth);
    g_subprocess_launcher_setenv(launcher, "WEFT_FAILPOINT", failpoint, TRUE);
    g_autoptr(GSubprocess) child = g_subprocess_launcher_spawn(launcher, NULL, program, "--import", site->folder, NULL);
    g_assert_nonnull(child);
    g_assert_true(g_subprocess_wait(child, NULL, NULL));
    g_assert_true(g_subprocess_get_if_signaled(child));
    site->store = open_store(site->folder);
}

static void
import_survives_kill(void)
{
    Site straight, killed;
    site_open(&straight);
    site_open(&killed);
    import(&straight, MANY_OTHERS, NULL);
    g_autofree char *expected = contents(straight.store, FALSE);

    import_killed(&killed, MANY, 2);
    import_killed(&killed, MANY_OTHERS, 1);
    g_autofree char *halfway = contents(killed.store, FALSE);
    g_assert_cmpstr(halfway, !=, expected);
    import(&killed, MANY_OTHERS, NULL);
    g_autofree char *after = contents(killed.store, FALSE);
    g_assert_cmpstr(after, ==, expected);
    site_close(&killed);
    site_close(&straight);
}

/* --- measured by hand: test-config -m perf --- */

static void
import_of_a_large_fleet(void)
{
    Site site;
    site_open(&site);
    const char *yaml =
        "hosts: [ { name: 'n[1-10000]', leaf: 'l[1-250]', numa: [ { cores: 24, threads: 2, pages: { 2M: 65536 } },"
        " { cores: 24, threads: 2, pages: { 2M: 65536 } } ], hcas: [ { name: mlx5_0, vfs: 16, port_guid: '0x100' } ] } ]\n";
    import(&site, yaml, NULL);
    g_autoptr(GError) error = NULL;
    g_test_timer_start();
    g_autoptr(WeftConfig) config = load_text(site.folder, yaml, &error);
    g_assert_no_error(error);
    double loaded = g_test_timer_elapsed();
    g_assert_true(import_noting(config, site.store, NULL));
    double total = g_test_timer_elapsed();
    g_test_minimized_result(total, "10,000 hosts: %.2f s to load, %.2f s to import unchanged", loaded, total - loaded);
    site_close(&site);
}

int
main(int argc, char **argv)
{
    program = argv[0];
    if (argc == 3 && g_str_equal(argv[1], "--import"))
        return import_only(argv[2]);
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/config/good/smallest", "smallest", good_file);
    g_test_add_data_func("/config/good/hostlists", "hostlists", good_file);
    g_test_add_func("/config/good/example-shows-defaults", example_shows_defaults);
    g_test_add_func("/config/good/options-are-read", options_are_read);
    g_test_add_func("/config/bad/files", bad_files);
    g_test_add_func("/config/bad/missing", missing_file);
    g_test_add_func("/config/import/adds-and-removes", import_adds_and_removes);
    g_test_add_func("/config/import/cannot-be-told", import_of_what_cannot_be_told);
    g_test_add_func("/config/import/again-writes-nothing", import_again_writes_nothing);
    g_test_add_func("/config/import/keeps-drain-marks", import_keeps_drain_marks);
    g_test_add_func("/config/import/leaves-api-alone", import_leaves_api_alone);
    g_test_add_func("/config/import/spares-hosts-in-use", import_spares_hosts_in_use);
    g_test_add_func("/config/managers-are-read", managers_are_read);
    g_test_add_func("/config/new-fabrics-name-managers", new_fabrics_name_managers);
    g_test_add_func("/config/import/spares-tenants-and-fabrics-in-use", import_spares_tenants_and_fabrics_in_use);
    g_test_add_func("/config/import/revokes-tokens", import_revokes_tokens);
    g_test_add_func("/config/import/swaps-unix-users", import_swaps_unix_users);
    g_test_add_func("/config/import/tells-what-it-changes", import_tells_what_it_changes);
    g_test_add_func("/config/import/survives-kill", import_survives_kill);
    if (g_test_perf())
        g_test_add_func("/config/import/large-fleet", import_of_a_large_fleet);
    return g_test_run();
}
