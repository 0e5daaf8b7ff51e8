/* weftd: configuration, wiring, main loop; nothing else. */
#include "api.h"
#include "audit.h"
#include "backup.h"
#include "clock-watch.h"
#include "config.h"
#include "control.h"
#include "errors.h"
#include "fakes.h"
#include "file.h"
#include "id.h"
#include "keys.h"
#include "libvirt-hypervisor.h"
#include "owner.h"
#include "records.h"
#include "site-record.h"
#include "sqlite.h"
#include "watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <locale.h>
#include <malloc.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

typedef struct Options {
    char *config;
    char *dump;
    char *restore;
    char *passphrase_file;
    gboolean force;
    gboolean check;
    gboolean routes;
    gboolean version;
    gboolean verbose;
} Options;

/* Everything that lives as long as the daemon, in the order in which it is made. */
typedef struct Daemon {
    WeftConfig *config;
    WeftStore *store;
    WeftAudit *audit;
    WeftSiteRecord *site;
    WeftOwner *owner;
    guint8 secret[WEFT_SECRET_LENGTH];
    GBytes *guest;
    WeftHypervisor *hv;
    GHashTable *fabrics;       /* name to WeftFabricDriver */
    GHashTable *options_files; /* … to the path of its manager's opensm.conf */
    GPtrArray *fakes;          /* char *, what is not real: "hosts", "fabric ib0" */
    char *discover;            /* the program */
    WeftControl *control;
    WeftApi *api;
} Daemon;

/* --- the audit trail --- */

/* What weftd itself does, and on whose word: by no request. Takes the fields over. */
static void
record(WeftAudit *audit, const char *kind, json_t *fields)
{
    json_t *entry = weft_audit_entry(kind);
    json_object_update(entry, fields);
    json_decref(fields);
    weft_audit_write(audit, entry, NULL, NULL);
}

static char *
digest_file(const char *path)
{
    gsize length;
    g_autofree char *text = NULL;
    return g_file_get_contents(path, &text, &length, NULL)
               ? g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)text, length)
               : NULL;
}

static gboolean
begin_trail(Daemon *self, const char *config_path, GError **error)
{
    g_autofree char *digest = digest_file(config_path);
    self->audit = weft_audit_open(&self->config->audit, self->secret, sizeof self->secret, error);
    if (!self->audit)
        return FALSE;
    record(self->audit, "start",
           json_pack("{s:s, s:i, s:i, s:s, s:s?, s:s, s:s, s:s}", "weft", WEFT_VERSION, "uid", (int)getuid(), "pid",
                     (int)getpid(), "config", config_path, "config_digest", digest, "site", self->site->id, "run",
                     self->owner->run, "store", self->config->store_path));
    self->config->api.audit = self->audit;
    return TRUE;
}

/* Who writes the file decides on tenants, their grants and whoever acts for them as an administrator does through the API.
 * Nobody is served yet, so that it can wait for the disk. */
static gboolean
record_import(json_t *changes, gpointer data, GError **error)
{
    Daemon *self = data;
    record(self->audit, "config", json_pack("{s:i, s:o}", "uid", (int)getuid(), "changes", changes));
    return weft_audit_sync(self->audit) || !weft_audit_is_required(self->audit) ||
           weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                             "the audit trail %s cannot be written, and this site requires it: nothing of what the "
                             "configuration changes was done; let it be written, and start weftd again",
                             weft_audit_path(self->audit));
}

/* What ends after it, such as a change that is committed last, is in the trail before "stop". */
static void
end_trail(Daemon *self)
{
    if (self->audit)
        record(self->audit, "stop", json_pack("{s:i}", "pid", (int)getpid()));
    weft_audit_free(self->audit);
}

static void
daemon_clear(Daemon *self)
{
    weft_api_free(self->api);
    weft_control_free(self->control);
    g_clear_pointer(&self->fabrics, g_hash_table_unref);
    g_clear_pointer(&self->options_files, g_hash_table_unref);
    g_clear_pointer(&self->fakes, g_ptr_array_unref);
    g_free(self->discover);
    weft_hypervisor_free(self->hv);
    g_clear_pointer(&self->guest, g_bytes_unref);
    weft_owner_free(self->owner);
    weft_site_record_free(self->site);
    weft_store_free(self->store);
    end_trail(self);
    weft_config_free(self->config);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Daemon, daemon_clear)

/* Clients must leave descriptors for the drivers: a host that cannot be asked for lack of them would look lost. */
static void
share_descriptors(WeftConfig *config)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        g_warning("cannot raise the number of open files: %s", g_strerror(errno));
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    gboolean fewer = weft_api_fit_descriptors(&config->api, limit.rlim_cur);
    g_message("%u connections at a time%s; clients take at most %u of the %" G_GUINT64_FORMAT
              " files that may be open (ulimit -n)",
              config->api.connections, fewer ? ", fewer than configured" : "", weft_api_descriptors(&config->api),
              (guint64)limit.rlim_cur);
}

/* As it was installed, or beside us in the build folder. */
static char *
find_program(const char *built_in, const char *name)
{
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *folder = self ? g_path_get_dirname(self) : NULL;
    g_autofree char *built = folder ? g_build_filename(folder, "..", built_in, name, NULL) : NULL;
    if (built && g_file_test(built, G_FILE_TEST_IS_EXECUTABLE))
        return g_steal_pointer(&built);
    return g_build_filename(WEFT_LIBEXECDIR, "weft", name, NULL);
}

/* --- what nodes are born with --- */

#define GUEST_MAX (64 * 1024 * 1024)

static gboolean
load_births(Daemon *self, GError **error)
{
    WeftConfig *config = self->config;
    if (!weft_secret_load(config->secret, self->secret, error))
        return FALSE;
    gsize length;
    g_autofree char *path = config->guest ? g_strdup(config->guest) : find_program("guest", "weft-guest");
    char *program = weft_file_read(path, GUEST_MAX, &length, error);
    if (program)
        self->guest = g_bytes_new_take(program, length);
    else if (config->control.bare && !config->run_guests)
        g_clear_error(error); /* nothing will run it */
    else
        g_prefix_error(error, "the guest program, which every node starts with (guest: PATH in the configuration names it): ");
    g_free(config->guest);
    config->guest = g_steal_pointer(&path);
    config->control.secret = self->secret;
    config->control.guest = self->guest;
    return !error || !*error;
}

/* --- drivers --- */

static WeftHypervisor *
make_libvirt(const WeftConfig *config, GError **error)
{
    return weft_hypervisor_libvirt_new(&config->libvirt, error);
}

static const struct {
    const char *name;
    WeftHypervisor *(*make)(const WeftConfig *config, GError **error);
} hypervisors[] = {
    { "libvirt", make_libvirt },
    { "fake", weft_fakes_hypervisor },
};

/* What was shared until lately has to be removed yet. */
static gboolean
add_retired(WeftStore *store, const char *fabric, WeftPkeys *pkeys, GError **error)
{
    WeftQuery query = { .kind = WEFT_KIND_PKEY_REST, .scope = fabric };
    g_autoptr(GPtrArray) records = weft_store_list(store, &query, error);
    for (guint i = 0; records && i < records->len; i++) {
        guint pkey;
        gint64 freed;
        g_autofree char *name = NULL, *tenant = NULL;
        if (weft_record_pkey_rest(records->pdata[i], &pkey, &name, &tenant, &freed) && !weft_pkeys_contain(pkeys, pkey))
            weft_pkeys_add(pkeys, pkey, pkey);
    }
    return records != NULL;
}

/* Nobody who reads the log, asks for the version or for a doctor's report takes a world in files for a site. */
static void
note_fakes(Daemon *self)
{
    WeftConfig *config = self->config;
    self->fakes = config->api.fakes = g_ptr_array_new_with_free_func(g_free);
    if (config->control.bare) {
        g_warning("hypervisor.driver is fake, which is for tests: hosts are folders below %s, and no node runs",
                  config->hypervisor_world);
        g_ptr_array_add(self->fakes, g_strdup("hosts"));
    }
    for (guint i = 0; i < config->managers->len; i++) {
        const WeftConfigManager *manager = config->managers->pdata[i];
        if (manager->driver != WEFT_MANAGER_FAKE)
            continue;
        g_warning(
            "the manager of fabric %s is fake, which is for tests: partitions are files below %s, and no subnet manager is "
            "told of them",
            manager->fabric, manager->world);
        g_ptr_array_add(self->fakes, g_strdup_printf("fabric %s", manager->fabric));
    }
}

static WeftFabricDriver *
make_fabric(const Daemon *self, const WeftConfigManager *manager, const WeftFabric *fabric, GError **error)
{
    WeftPkeys pkeys = weft_fabric_pkeys(fabric);
    if (!add_retired(self->store, fabric->name, &pkeys, error))
        return NULL;
    return weft_config_make_fabric(manager, &pkeys, error);
}

static gboolean
make_drivers(Daemon *self, GError **error)
{
    WeftConfig *config = self->config;
    note_fakes(self);
    for (gsize i = 0; i < G_N_ELEMENTS(hypervisors); i++)
        if (g_str_equal(hypervisors[i].name, config->hypervisor))
            self->hv = hypervisors[i].make(config, error);
    if (!self->hv)
        return FALSE;
    self->fabrics = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)weft_fabric_driver_free);
    self->options_files = config->control.options_files = g_hash_table_new(g_str_hash, g_str_equal);
    self->discover = find_program("fabric/opensm", "weft-discover");
    for (guint i = 0; i < config->fabrics->len; i++) {
        WeftConfigManager *manager = config->managers->pdata[i];
        manager->options.discover = self->discover;
        manager->options.pool = weft_fabric_pkeys(config->fabrics->pdata[i]);
        WeftFabricDriver *driver = make_fabric(self, manager, config->fabrics->pdata[i], error);
        if (!driver) {
            g_prefix_error(error, "fabric %s: ", manager->fabric);
            return FALSE;
        }
        g_hash_table_insert(self->fabrics, g_strdup(manager->fabric), driver);
        if (manager->options_file)
            g_hash_table_insert(self->options_files, manager->fabric, (gpointer)manager->options_file);
    }
    return TRUE;
}

/* Which installation this is: a copy of the store on another machine, or in another folder, is another one. */
static char *
name_instance(const char *store_path, GError **error)
{
    g_autofree char *machine = NULL;
    g_autofree char *whole = realpath(store_path, NULL);
    if (!whole) {
        weft_error_refuse(error, WEFT_ERROR_FAILED, "store %s: %s", store_path, g_strerror(errno));
        return NULL;
    }
    if (!g_file_get_contents("/etc/machine-id", &machine, NULL, NULL))
        machine = g_strdup(g_get_host_name());
    g_autofree char *text = g_strdup_printf("%s\n%s", g_strstrip(machine), whole);
    g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
    return g_strdup_printf("0%.*s", WEFT_ID_LENGTH - 1, sum);
}

static gboolean
begin_epoch(Daemon *self, GError **error)
{
    g_autofree char *instance = name_instance(self->config->store_path, error);
    g_autofree char *run = weft_id_new();
    if (!instance || !weft_store_begin_epoch(self->store, self->site, instance, run, error))
        return FALSE;
    self->owner = weft_owner_new(self->site->id, instance, self->site->epoch, run);
    self->owner->former = weft_site_record_former(self->site, instance);
    self->config->control.owner = self->owner;
    self->config->api.run = self->owner->run;
    return TRUE;
}

static gboolean
daemon_start(Daemon *self, const char *config_path, GError **error)
{
    WeftConfig *config = self->config;
    self->store = weft_store_sqlite_open(config->store_path, config->reserve, error);
    if (!self->store || !weft_clock_watch_begin(self->store, config->control.clock_bound, error))
        return FALSE;
    self->site = weft_store_site(self->store, error);
    if (!self->site || !weft_config_check_new(config, self->store, error) || !begin_epoch(self, error) ||
        !load_births(self, error) || !begin_trail(self, config_path, error) ||
        !weft_config_import(config, self->store, record_import, self, error) ||
        !weft_config_check_group(config, self->store, error) || !make_drivers(self, error))
        return FALSE;
    config->control.site = self->site->id;
    g_message("store %s of site %s", config->store_path, self->site->id);
    self->control = weft_control_new(self->store, self->hv, self->fabrics, &config->control, error);
    if (!self->control)
        return FALSE;
    config->api.gate = weft_control_gate(self->control);
    config->api.backup = (WeftBackupSite){ config->store_path, self->site->id, self->secret, sizeof self->secret };
    self->api = weft_api_new(self->store, &config->api, error);
    return self->api != NULL;
}

static gboolean
stop(gpointer data)
{
    g_main_loop_quit(data);
    return G_SOURCE_CONTINUE;
}

/* Only what may change while weftd runs: its configuration is read at the start. */
static gboolean
reload(gpointer data)
{
    const Daemon *daemon = data;
    if (daemon->api)
        weft_api_reload(daemon->api);
    if (daemon->audit)
        weft_audit_reopen(daemon->audit);
    return G_SOURCE_CONTINUE;
}

/* glibc puts off joining small pieces of memory that were freed until somebody, on any thread, needs a large one. After a large
 * answer that is a tenth of a second, and it is the main thread as often as not. They are joined as they are freed. */
static void
keep_memory_joined(void)
{
    mallopt(M_MXFAST, 0);
}

static gboolean
serve(const Options *options, GError **error)
{
    keep_memory_joined();
    g_auto(Daemon) daemon = { .config = weft_config_load(options->config, error) };
    if (!daemon.config)
        return FALSE;
    if (options->check) {
        for (guint i = 0; i < daemon.config->managers->len; i++)
            if (((const WeftConfigManager *)daemon.config->managers->pdata[i])->driver == WEFT_MANAGER_UNNAMED)
                return weft_config_lacks_manager(daemon.config->managers->pdata[i], error);
        printf("%s: %u hosts, %u tenants, %u principals: fine\n", options->config, daemon.config->hosts->len,
               daemon.config->tenants->len, daemon.config->principals->len);
        return TRUE;
    }
    share_descriptors(daemon.config);
    /* Before it serves: whoever can reach it can also stop it cleanly. */
    g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
    g_unix_signal_add(SIGTERM, stop, loop);
    g_unix_signal_add(SIGINT, stop, loop);
    g_unix_signal_add(SIGHUP, reload, &daemon);
    if (!daemon_start(&daemon, options->config, error))
        return FALSE;
    if (weft_api_port(daemon.api))
        g_message("listening on %s and TCP port %u", daemon.config->api.socket_path, weft_api_port(daemon.api));
    else
        g_message("listening on %s", daemon.config->api.socket_path);
    sd_notify(0, "READY=1");
    weft_watchdog_start();
    g_main_loop_run(loop);
    sd_notify(0, "STOPPING=1");
    g_message("stopping");
    return TRUE;
}

/* The store is back whatever becomes of the trail: then both are told. */
static void
record_restore(const WeftConfig *config, const char *backup, gboolean ok)
{
    g_autoptr(GError) failure = NULL;
    g_autoptr(WeftAudit) audit = weft_audit_open(&config->audit, "", 0, &failure);
    const struct passwd *user = getpwuid(getuid());
    if (audit)
        record(audit, "restore",
               json_pack("{s:i, s:s?, s:i, s:s, s:s}", "uid", (int)getuid(), "user", user ? user->pw_name : NULL, "pid",
                         (int)getpid(), "backup", backup, "result", ok ? "done" : "failed"));
    else if (ok)
        g_printerr("weftd: the store is restored, but the audit trail does not say so: %s\n", failure->message);
}

static void
give_to_owner(const char *path, const char *suffix)
{
    g_autofree char *file = g_strconcat(path, suffix, NULL), *folder = g_path_get_dirname(path);
    struct stat owner, info;
    int fd = open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (stat(folder, &owner) == 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1 &&
        info.st_uid != owner.st_uid && info.st_uid == geteuid() && fchown(fd, owner.st_uid, owner.st_gid) < 0)
        g_printerr("weftd: %s is not that of the folder's owner, as which weftd may run: %s\n", file, g_strerror(errno));
    close(fd);
}

/* Under systemd weftd is a user of its own, who could not open what root has made there: it is given to whose folder it is. */
static void
give_away(const WeftConfig *config)
{
    give_to_owner(config->store_path, "");
    give_to_owner(config->store_path, ".lock");
    give_to_owner(config->secret, "");
    give_to_owner(config->audit.path, "");
    give_to_owner(config->audit.path, "-head");
}

static gboolean
restore(const Options *options, GError **error)
{
    g_autoptr(WeftConfig) config = weft_config_load(options->config, error);
    char *passphrase = config ? weft_passphrase_get(options->passphrase_file, FALSE, error) : NULL;
    if (!passphrase)
        return FALSE;
    WeftRestoreWish wish = { .backup = options->restore,
                             .store = config->store_path,
                             .secret = config->secret,
                             .images = config->api.images,
                             .secret_length = WEFT_SECRET_LENGTH,
                             .passphrase = passphrase,
                             .force = options->force };
    g_autoptr(GString) report = g_string_new(NULL);
    gboolean ok = weft_restore(&wish, report, error);
    fputs(report->str, stdout);
    weft_passphrase_free(passphrase);
    record_restore(config, options->restore, ok);
    give_away(config);
    return ok;
}

static gboolean
print_json(json_t *json)
{
    if (!json)
        return FALSE;
    json_dumpf(json, stdout, JSON_INDENT(1) | JSON_SORT_KEYS);
    putchar('\n');
    json_decref(json);
    return TRUE;
}

static gboolean
run(const Options *options, GError **error)
{
    if (options->version) {
        printf("weftd %s\n", WEFT_VERSION);
        return TRUE;
    }
    if (options->routes)
        return print_json(weft_api_routes());
    if (options->dump)
        return print_json(weft_store_sqlite_dump(options->dump, error));
    if (options->restore)
        return restore(options, error);
    return serve(options, error);
}

int
main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    signal(SIGPIPE, SIG_IGN);
    Options options = { 0 };
    GOptionEntry entries[] = {
        { "config", 'c', 0, G_OPTION_ARG_FILENAME, &options.config, "Read this file instead of /etc/weft/weft.yaml", "FILE" },
        { "check", 0, 0, G_OPTION_ARG_NONE, &options.check, "Check the configuration and exit", NULL },
        { "routes", 0, 0, G_OPTION_ARG_NONE, &options.routes, "Print the API's routes as JSON and exit", NULL },
        { "dump", 0, 0, G_OPTION_ARG_FILENAME, &options.dump, "Print what the store holds as JSON and exit", "STORE" },
        { "restore", 0, 0, G_OPTION_ARG_FILENAME, &options.restore, "Bring store and secret back from a backup and exit",
          "FILE" },
        { "passphrase-file", 0, 0, G_OPTION_ARG_FILENAME, &options.passphrase_file,
          "File whose first line is the backup's passphrase (it is asked for)", "FILE" },
        { "force", 0, 0, G_OPTION_ARG_NONE, &options.force, "Move a store and secret that are there aside", NULL },
        { "verbose", 'v', 0, G_OPTION_ARG_NONE, &options.verbose, "Log every change", NULL },
        { "version", 0, 0, G_OPTION_ARG_NONE, &options.version, "Print the version and exit", NULL },
        { 0 },
    };
    g_autoptr(GOptionContext) context = g_option_context_new("- manager of virtual InfiniBand clusters");
    g_option_context_add_main_entries(context, entries, NULL);
    g_autoptr(GError) error = NULL;
    if (!g_option_context_parse(context, &argc, &argv, &error)) {
        fprintf(stderr, "weftd: %s; see weftd --help\n", error->message);
        return 2;
    }
    if (argc > 1) {
        fprintf(stderr, "weftd: %s: takes no arguments, only options; see weftd --help\n", argv[1]);
        return 2;
    }
    if (!options.config)
        options.config = g_strdup("/etc/weft/weft.yaml");
    if (options.verbose)
        g_setenv("G_MESSAGES_DEBUG", "all", FALSE);
    int status = 0;
    if (!run(&options, &error)) {
        fprintf(stderr, "weftd: %s\n", error->message);
        status = weft_error_exit_code(weft_error_code(error));
    }
    g_free(options.config);
    g_free(options.dump);
    g_free(options.restore);
    g_free(options.passphrase_file);
    return status;
}
