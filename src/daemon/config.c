#include "config.h"

#include "clock.h"
#include "config-hosts.h"
#include "errors.h"
#include "fakes.h"
#include "fields.h"
#include "file.h"
#include "names.h"
#include "size.h"
#include "yaml.h"

#define FILE_MAX (16 * 1024 * 1024)
#define FABRICS_MAX 64
#define PRINCIPALS_MAX 100000

#define STATE_FOLDER "/var/lib/weft/"
#define DEFAULT_FABRIC "ib0"

#define DURATION_MIN 1000 /* a millisecond */
#define DURATION_MAX (10 * 365 * 86400 * (gint64)G_USEC_PER_SEC)

/* --- options: a line each --- */

typedef struct Number {
    const char *name;
    gsize offset; /* of a guint in WeftConfig */
    guint min;
    guint max;
} Number;

typedef struct Duration {
    const char *name;
    gsize offset; /* of a gint64 in WeftConfig */
} Duration;

typedef struct Weight {
    const char *name;
    gsize offset; /* of a double in WeftConfig */
} Weight;

#define WEIGHT_MAX 1e9
#define DEPTH_MAX 100000
#define RESERVE (64ULL << 20)
#define RESERVE_MAX (1ULL << 40)
#define AUDIT_SIZE (64ULL << 20)
#define AUDIT_SIZE_MIN 4096

#define AT(member) offsetof(WeftConfig, member)

/* clang-format off */
static const Number api_numbers[] = {
    { "connections",             AT(api.connections),             1, 100000 },
    { "connections_per_address", AT(api.connections_per_address), 1, 100000 },
    { "requests_per_second",     AT(api.requests_per_second),     1, 1000000 },
    { "requests_burst",          AT(api.requests_burst),          1, 1000000 },
    { "streams",                 AT(api.streams),                 1, 100000 },
    { "sessions",                AT(api.sessions),                1, 100000 },
    { "processor_per_tenant",    AT(api.processor_per_tenant),    1, 100 },
    { "trials",                  AT(api.trials),                  1, 1000 },
    { "questions",               AT(api.questions),               1, 10000 },
    { "uploads",                 AT(api.uploads),                 1, 10000 },
    { NULL },
};

static const Duration api_durations[] = {
    { "idle_timeout",       AT(api.idle_timeout) },
    { "token_lifetime",     AT(api.token_lifetime) },
    { "token_lifetime_max", AT(api.token_lifetime_max) },
    { NULL },
};

static const Number control_numbers[] = {
    { "workers",          AT(control.workers),          1, 1024 },
    { "workers_per_host", AT(control.workers_per_host), 1, 1024 },
    { "starts_max",       AT(control.starts_max),       1, 1000 },
    { "events_per_tenant", AT(control.events_per_tenant), 100, 10000000 },
    { "moves_per_host",   AT(control.moves_per_host),   1, 1024 },
    { NULL },
};

static const Duration control_durations[] = {
    { "start_deadline", AT(control.start_deadline) },
    { "await_deadline", AT(control.await_deadline) },
    { "meet_deadline",  AT(control.meet_deadline) },
    { "still_deadline",  AT(control.still_deadline) },
    { "stop_deadline",  AT(control.stop_deadline) },
    { "connect_deadline", AT(control.connect_deadline) },
    { "list_deadline",  AT(control.list_deadline) },
    { "apply_deadline", AT(control.apply_deadline) },
    { "backoff_base",   AT(control.backoff.base) },
    { "backoff_max",    AT(control.backoff.max) },
    { "host_grace",     AT(control.host_grace) },
    { "scan_interval",  AT(control.scan_interval) },
    { "patrol_interval", AT(control.patrol_interval) },
    { "pkey_rest",      AT(control.pkey_rest) },
    { "event_age",      AT(control.event_age) },
    { "request_age",    AT(control.request_age) },
    { "ended_age",      AT(control.ended_age) },
    { "link_idle",      AT(control.link_idle) },
    { "expiry_warning", AT(control.expiry_warning) },
    { "clock_bound",    AT(control.clock_bound) },
    { "migration_stall", AT(control.migration_stall) },
    { "template_age",   AT(control.template_age) },
    { "template_retry", AT(control.template_retry) },
    { "capture_deadline", AT(control.capture_deadline) },
    { "checkpoint_skew", AT(control.checkpoint_skew) },
    { NULL },
};

static const Weight queue_weights[] = {
    { "priority", AT(control.queue.priority) },
    { "age",      AT(control.queue.age) },
    { "share",    AT(control.queue.share) },
    { NULL },
};

static const Number queue_numbers[] = {
    { "depth", AT(control.queue.depth), 1, DEPTH_MAX },
    { NULL },
};

static const Duration queue_durations[] = {
    { "half_life", AT(control.queue.half_life) },
    { NULL },
};

static const Number path_numbers[] = {
    { "bridge_below", AT(control.path_rule.bridge_below), 0, 100 },
    { NULL },
};

static const Number libvirt_numbers[] = {
    { "keepalive",       AT(libvirt.keepalive),       0, 3600 },
    { "keepalive_count", AT(libvirt.keepalive_count), 1, 100 },
    { NULL },
};

static const Duration libvirt_durations[] = {
    { "dial_limit", AT(libvirt.dial_limit) },
    { NULL },
};
/* clang-format on */

static void
read_numbers(WeftFields *f, const Number *numbers, WeftConfig *config)
{
    for (; numbers->name; numbers++) {
        guint *value = &G_STRUCT_MEMBER(guint, config, numbers->offset);
        *value = (guint)weft_fields_uint(f, numbers->name, numbers->min, numbers->max, *value);
    }
}

static void
read_durations(WeftFields *f, const Duration *durations, WeftConfig *config)
{
    for (; durations->name; durations++) {
        gint64 *value = &G_STRUCT_MEMBER(gint64, config, durations->offset);
        gint64 given = weft_fields_duration(f, durations->name, *value);
        if (given < DURATION_MIN || given > DURATION_MAX) {
            g_autofree char *is = weft_duration_format(given);
            weft_fields_fail(f, durations->name, "must be 1ms to 3650d, is %s", is);
        }
        *value = given;
    }
}

static void
read_text(WeftFields *f, const char *name, char **value)
{
    const char *given = weft_fields_string(f, name, NULL);
    if (!given)
        return;
    if (!*given)
        weft_fields_fail(f, name, "is empty; leave it out for its default");
    g_free(*value);
    *value = g_strdup(given);
}

static void
read_path(WeftFields *f, const char *name, char **value)
{
    read_text(f, name, value);
    if (*value && !g_path_is_absolute(*value))
        weft_fields_fail(f, name, "\"%s\" must be an absolute path", *value);
}

/* --- sections --- */

static void
read_store(WeftFields *f, WeftConfig *config)
{
    read_path(f, "path", &config->store_path);
    config->reserve = weft_fields_size(f, "reserve", 0, RESERVE_MAX, config->reserve);
}

/* The trail lies beside the store unless it is to lie elsewhere. */
static void
read_audit(WeftFields *f, WeftConfig *config)
{
    WeftAuditOptions *audit = &config->audit;
    read_path(f, "path", &audit->path);
    const char *syslog = weft_fields_string(f, "syslog", NULL);
    if (g_strcmp0(syslog, "none") == 0)
        g_clear_pointer(&audit->syslog, g_free);
    else
        read_path(f, "syslog", &audit->syslog);
    audit->size = weft_fields_size(f, "size", AUDIT_SIZE_MIN, RESERVE_MAX, audit->size);
    audit->required = weft_fields_bool(f, "required", audit->required);
}

static void
place_audit(WeftConfig *config)
{
    g_autofree char *folder = g_path_get_dirname(config->store_path);
    if (!config->audit.path)
        config->audit.path = g_build_filename(folder, "audit.log", NULL);
}

/* Their files lie beside the store. */
static void
read_images(WeftFields *f, WeftConfig *config)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *folder = g_path_get_dirname(config->store_path);
    config->api.images = g_build_filename(folder, "images", NULL);
    read_text(f, "default_image", (char **)&config->api.default_image);
    const char *image = config->api.default_image;
    if (image && !weft_grammar_check(WEFT_GRAMMAR_IMAGE, image, "image", &error))
        weft_fields_fail(f, "default_image", "%s", error->message);
}

static const char *const hypervisor_drivers[] = { "libvirt", "fake", NULL };

static void
read_hypervisor(WeftFields *f, WeftConfig *config)
{
    guint driver = (guint)weft_fields_word(f, "driver", hypervisor_drivers, 0);
    g_free(config->hypervisor);
    config->hypervisor = g_strdup(hypervisor_drivers[driver]);
    g_autoptr(GError) error = NULL;
    if (g_str_equal(config->hypervisor, "fake") && !weft_fakes_are_built(&error))
        weft_fields_fail(f, "driver", "%s", error->message);
    read_path(f, "world", &config->hypervisor_world);
    config->run_guests = weft_fields_bool(f, "run_guests", FALSE);
    read_path(f, "hook", &config->hook);
    read_numbers(f, libvirt_numbers, config);
    read_durations(f, libvirt_durations, config);
}

/* What every node is born with. */
static void
read_births(WeftFields *f, WeftConfig *config)
{
    read_path(f, "guest", &config->guest);
    read_path(f, "secret", &config->secret);
    g_autofree char *folder = g_path_get_dirname(config->store_path);
    if (!config->secret)
        config->secret = g_build_filename(folder, "secret", NULL);
}

static void
read_api(WeftFields *f, WeftConfig *config)
{
    WeftApiOptions *api = &config->api;
    read_path(f, "socket", (char **)&api->socket_path);
    read_text(f, "group", (char **)&api->socket_group);
    read_text(f, "tcp", (char **)&api->tcp_address);
    read_path(f, "tls_certificate", (char **)&api->tls_certificate);
    read_path(f, "tls_key", (char **)&api->tls_key);
    api->body_max = (guint)weft_fields_size(f, "body_max", 1024, 64 << 20, api->body_max);
    read_numbers(f, api_numbers, config);
    read_durations(f, api_durations, config);
    if (api->tcp_address && !(api->tls_certificate && api->tls_key))
        weft_fields_fail(f, "tcp", "needs tls_certificate and tls_key: tokens do not travel in the clear");
    if (api->token_lifetime > api->token_lifetime_max)
        weft_fields_fail(f, "token_lifetime", "is longer than token_lifetime_max; make that at least as long");
}

static void
read_control(WeftFields *f, WeftConfig *config)
{
    read_numbers(f, control_numbers, config);
    read_durations(f, control_durations, config);
    config->control.migration_bandwidth =
        weft_fields_size(f, "migration_bandwidth", 0, G_MAXINT64, config->control.migration_bandwidth);
    config->control.templates = weft_fields_bool(f, "templates", config->control.templates);
    config->control.trust_emulator = weft_fields_bool(f, "trust_emulator", config->control.trust_emulator);
    if (config->control.backoff.max < config->control.backoff.base)
        weft_fields_fail(f, "backoff_max", "is shorter than backoff_base; make it at least as long");
}

static void
read_paths(WeftFields *f, WeftConfig *config)
{
    WeftPathRule *rule = &config->control.path_rule;
    read_numbers(f, path_numbers, config);
    rule->shm = weft_fields_size(f, "shm", 0, WEFT_SHM_MAX, rule->shm);
    g_autofree char *size = weft_size_format(rule->shm);
    if (rule->shm && (rule->shm < WEFT_SHM_MIN || rule->shm & (rule->shm - 1)))
        weft_fields_fail(f, "shm", "%s is no power of two from 1M to 256M; write 64M, for instance, or 0 for none", size);
}

static void
read_queue(WeftFields *f, WeftConfig *config)
{
    for (const Weight *weight = queue_weights; weight->name; weight++) {
        double *value = &G_STRUCT_MEMBER(double, config, weight->offset);
        *value = weft_fields_real(f, weight->name, 0, WEIGHT_MAX, *value);
    }
    read_numbers(f, queue_numbers, config);
    read_durations(f, queue_durations, config);
}

static void
read_section(WeftFields *top, const char *name, void (*read)(WeftFields *, WeftConfig *), WeftConfig *config)
{
    json_t *object = weft_fields_object(top, name);
    if (!object)
        return;
    WeftFields f;
    weft_fields_begin(&f, object, "%s", name);
    read(&f, config);
    weft_fields_end(&f, &top->error);
}

/* --- what the site has --- */

/* Of tenants that do not name their own, in the file and through the API. */
static void
read_tenant_defaults(WeftFields *top, WeftConfig *config)
{
    json_t *object = weft_fields_object(top, "tenant_defaults");
    if (object)
        weft_quotas_from_json(object, "tenant_defaults", config->api.quotas, &top->error);
}

typedef gboolean (*AddItem)(WeftConfig *config, json_t *item, const char *where, GError **error);

static gboolean
add_fabric(WeftConfig *config, json_t *item, const char *where, GError **error)
{
    return weft_config_add_fabric(config->fabrics, config->managers, item, where, error);
}

static gboolean
add_shared(WeftConfig *config, json_t *item, const char *where, GError **error)
{
    return weft_config_add_shared(config->fabrics, item, where, error);
}

static gboolean
add_hosts(WeftConfig *config, json_t *item, const char *where, GError **error)
{
    const WeftFabric *first = g_ptr_array_index(config->fabrics, 0);
    return weft_config_add_hosts(config->hosts, item, where, first->name, error);
}

static gboolean
add_tenant(WeftConfig *config, json_t *item, const char *where, GError **error)
{
    WeftTenant *tenant = weft_tenant_from_spec(item, config->api.quotas, where, error);
    if (!tenant)
        return FALSE;
    tenant->origin = WEFT_ORIGIN_CONFIG;
    g_ptr_array_add(config->tenants, tenant);
    return TRUE;
}

static gboolean
add_principal(WeftConfig *config, json_t *item, const char *where, GError **error)
{
    WeftPrincipal *principal = weft_principal_from_json(item, where, error);
    if (!principal)
        return FALSE;
    principal->origin = WEFT_ORIGIN_CONFIG;
    g_ptr_array_add(config->principals, principal);
    return TRUE;
}

static void
read_list(WeftFields *top, const char *name, gsize max, AddItem add, WeftConfig *config)
{
    json_t *items = weft_fields_array(top, name, max);
    json_t *item;
    gsize i;
    json_array_foreach (items, i, item) {
        g_autofree char *where = g_strdup_printf("%s[%zu]", name, i);
        if (!top->error)
            add(config, item, where, &top->error);
    }
}

static void
add_default_fabric(WeftConfig *config)
{
    json_auto_t *json = json_pack("{s:s}", "name", DEFAULT_FABRIC);
    add_fabric(config, json, "fabrics", NULL);
}

/* --- what one entry cannot know of the others --- */

/* Every described object begins with its name. */
static const char *
name_of(const GPtrArray *objects, guint i)
{
    return *(char *const *)g_ptr_array_index(objects, i);
}

G_STATIC_ASSERT(offsetof(WeftFabric, name) == 0 && offsetof(WeftHost, name) == 0);
G_STATIC_ASSERT(offsetof(WeftTenant, name) == 0 && offsetof(WeftPrincipal, name) == 0);

/* The names as a set; NULL when one is there twice. */
static GHashTable *
collect_names(const GPtrArray *objects, const char *list, GError **error)
{
    g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < objects->len; i++) {
        if (!g_hash_table_add(names, (gpointer)name_of(objects, i))) {
            weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: \"%s\" is described twice; keep one of them", list,
                              name_of(objects, i));
            return NULL;
        }
    }
    return g_steal_pointer(&names);
}

/* A partition's number is unique within its fabric only, but all fabrics share the Ethernet. */
static gboolean
check_vxlans(const WeftConfig *config, GError **error)
{
    for (guint i = 0; i < config->fabrics->len; i++) {
        const WeftFabric *a = g_ptr_array_index(config->fabrics, i);
        for (guint j = 0; j < i; j++) {
            const WeftFabric *b = g_ptr_array_index(config->fabrics, j);
            if (a->vxlan_base + a->pkey_first <= b->vxlan_base + b->pkey_last &&
                b->vxlan_base + b->pkey_first <= a->vxlan_base + a->pkey_last)
                return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                         "fabrics: \"%s\" and \"%s\" share VXLAN ids; give one another vxlan_base", b->name,
                                         a->name);
        }
    }
    return TRUE;
}

/* A port that two hosts claim to be theirs would get the partitions of both. */
static gboolean
check_ports(const WeftHost *host, GHashTable *ports, GError **error)
{
    for (guint i = 0; i < host->hcas->len; i++) {
        const WeftHca *hca = g_ptr_array_index(host->hcas, i);
        const WeftHost *other = g_hash_table_lookup(ports, &hca->port_guid);
        if (hca->port_guid && other)
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "hosts: \"%s\" and \"%s\" have the same port GUID 0x%016" G_GINT64_MODIFIER
                                     "x; each port has its own (an entry of several hosts counts up by 0x%x)",
                                     other->name, host->name, hca->port_guid, WEFT_GUID_STRIDE);
        g_hash_table_insert(ports, (gpointer)&hca->port_guid, (gpointer)host);
    }
    return TRUE;
}

static gboolean
check_hosts(const WeftConfig *config, GHashTable *fabrics, GError **error)
{
    g_autoptr(GHashTable) names = collect_names(config->hosts, "hosts", error);
    g_autoptr(GHashTable) ports = g_hash_table_new(g_int64_hash, g_int64_equal);
    if (!names)
        return FALSE;
    for (guint i = 0; i < config->hosts->len; i++) {
        const WeftHost *host = g_ptr_array_index(config->hosts, i);
        if (!g_hash_table_contains(fabrics, host->fabric))
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "hosts: \"%s\" is on fabric \"%s\", which is not among fabrics; describe it there",
                                     host->name, host->fabric);
        if (!check_ports(host, ports, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
check_principals(const WeftConfig *config, GHashTable *tenants, GError **error)
{
    g_autoptr(GHashTable) names = collect_names(config->principals, "principals", error);
    g_autoptr(GHashTable) users = g_hash_table_new(g_str_hash, g_str_equal);
    if (!names)
        return FALSE;
    for (guint i = 0; i < config->principals->len; i++) {
        const WeftPrincipal *principal = g_ptr_array_index(config->principals, i);
        if (principal->tenant && !g_hash_table_contains(tenants, principal->tenant))
            return weft_error_refuse(
                error, WEFT_ERROR_INVALID,
                "principals: \"%s\" belongs to tenant \"%s\", which is not among tenants; describe it there", principal->name,
                principal->tenant);
        if (principal->unix_user && !g_hash_table_add(users, principal->unix_user))
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "principals: \"%s\" is Unix user \"%s\", as another is; each user is one principal",
                                     principal->name, principal->unix_user);
    }
    return TRUE;
}

static gboolean
check(const WeftConfig *config, GError **error)
{
    g_autoptr(GHashTable) fabrics = collect_names(config->fabrics, "fabrics", error);
    if (!fabrics)
        return FALSE;
    g_autoptr(GHashTable) tenants = collect_names(config->tenants, "tenants", error);
    return tenants && weft_config_check_managers(config->fabrics, config->managers, error) && check_vxlans(config, error) &&
           check_hosts(config, fabrics, error) && check_principals(config, tenants, error);
}

/* --- the whole --- */

/* What one part needs to know of another's options. */
static void
share(WeftConfig *config)
{
    gboolean fake = g_str_equal(config->hypervisor, "fake");
    config->control.images = config->api.images;
    config->api.reserve = config->control.reserve = config->reserve;
    config->control.bare = fake;
    config->api.check_images = !fake;
}

static gboolean
read_all(WeftConfig *config, json_t *json, GError **error)
{
    WeftFields top;
    weft_fields_begin(&top, json, "%s", "");
    read_section(&top, "store", read_store, config);
    read_section(&top, "audit", read_audit, config);
    place_audit(config);
    read_images(&top, config);
    read_births(&top, config);
    read_section(&top, "api", read_api, config);
    read_section(&top, "control", read_control, config);
    read_section(&top, "paths", read_paths, config);
    read_section(&top, "queue", read_queue, config);
    read_section(&top, "hypervisor", read_hypervisor, config);
    read_list(&top, "fabrics", FABRICS_MAX, add_fabric, config);
    if (config->fabrics->len == 0)
        add_default_fabric(config);
    read_list(&top, "shared", FABRICS_MAX * WEFT_SHARED_MAX, add_shared, config);
    read_list(&top, "hosts", WEFT_HOSTS_MAX, add_hosts, config);
    read_tenant_defaults(&top, config);
    read_list(&top, "tenants", WEFT_TENANTS_MAX, add_tenant, config);
    read_list(&top, "principals", PRINCIPALS_MAX, add_principal, config);
    share(config);
    return weft_fields_end(&top, error) && check(config, error);
}

static WeftConfig *
config_new(void)
{
    WeftConfig *config = g_new0(WeftConfig, 1);
    config->store_path = g_strdup(STATE_FOLDER "weft.db");
    config->hypervisor = g_strdup(hypervisor_drivers[0]);
    config->libvirt = weft_libvirt_defaults;
    config->hypervisor_world = g_strdup(STATE_FOLDER "fake/hosts");
    config->control = weft_control_defaults;
    config->control.queue = weft_queue_defaults;
    config->api = weft_api_defaults;
    memcpy(config->api.quotas, weft_quota_defaults, sizeof config->api.quotas);
    config->reserve = RESERVE;
    config->audit = (WeftAuditOptions){ .syslog = g_strdup("/dev/log"), .size = AUDIT_SIZE };
    config->api.socket_path = g_strdup(weft_api_defaults.socket_path);
    config->fabrics = g_ptr_array_new_with_free_func((GDestroyNotify)weft_fabric_free);
    config->managers = g_ptr_array_new_with_free_func((GDestroyNotify)weft_config_manager_free);
    config->hosts = g_ptr_array_new_with_free_func((GDestroyNotify)weft_host_free);
    config->tenants = g_ptr_array_new_with_free_func((GDestroyNotify)weft_tenant_free);
    config->principals = g_ptr_array_new_with_free_func((GDestroyNotify)weft_principal_free);
    return config;
}

WeftConfig *
weft_config_load(const char *path, GError **error)
{
    gsize length;
    g_autofree char *text = weft_file_read(path, FILE_MAX, &length, error);
    if (!text)
        return NULL;
    json_auto_t *json = weft_yaml_parse(text, length, path, error);
    if (!json)
        return NULL;
    g_autoptr(WeftConfig) config = config_new();
    if (!read_all(config, json, error)) {
        g_prefix_error(error, "%s: ", path);
        return NULL;
    }
    return g_steal_pointer(&config);
}

void
weft_config_free(WeftConfig *config)
{
    if (!config)
        return;
    char *const texts[] = {
        config->store_path,
        config->audit.path,
        config->audit.syslog,
        config->guest,
        config->secret,
        config->hypervisor,
        config->hypervisor_world,
        config->hook,
        (char *)config->api.socket_path,
        (char *)config->api.socket_group,
        (char *)config->api.tcp_address,
        (char *)config->api.tls_certificate,
        (char *)config->api.tls_key,
        (char *)config->api.images,
        (char *)config->api.default_image,
    };
    for (gsize i = 0; i < G_N_ELEMENTS(texts); i++)
        g_free(texts[i]);
    g_ptr_array_unref(config->fabrics);
    g_ptr_array_unref(config->managers);
    g_ptr_array_unref(config->hosts);
    g_ptr_array_unref(config->tenants);
    g_ptr_array_unref(config->principals);
    g_free(config);
}
