/* A hook gets a domain's XML on its standard input, and no environment but what it needs; it is a child of weftd, as it is one
 * of libvirtd elsewhere. */
#include "fake-private.h"

#include "errors.h"
#include "hook.h"

#include <string.h>
#include <unistd.h>

#define ROOT "root"
#define PROCESSES "run/libvirt/qemu"
#define PROCESS ".pid"
#define ALIVE "1\n" /* of whom it runs as long as this machine does */

static const char probe_xml[] = "<hookData><network><name>" WEFT_NETWORK_PROBE "</name><metadata><weft:network "
                                "xmlns:weft='" WEFT_NETWORK_NAMESPACE "'/></metadata></network></hookData>";

typedef struct Run {
    const char *host, *kind, *name, *op;
    const char *when; /* "begin" or "end", as libvirt says */
} Run;

static GSubprocessLauncher *
new_launcher(const WeftFakeHypervisor *hv, const char *host)
{
    g_autofree char *root = g_build_filename(hv->world, host, ROOT, NULL);
    g_autofree char *told = g_strconcat("WEFT_HOOK_ROOT=", root, NULL);
    g_autofree char *path = g_strconcat("PATH=", g_getenv("PATH"), NULL);
    GSubprocessLauncher *launcher = g_subprocess_launcher_new(
        G_SUBPROCESS_FLAGS_STDIN_PIPE | G_SUBPROCESS_FLAGS_STDOUT_SILENCE | G_SUBPROCESS_FLAGS_STDERR_PIPE);
    g_subprocess_launcher_set_environ(launcher, (char *[]){ path, told, "LC_ALL=C", NULL });
    return launcher;
}

/* ret_said: what it said on standard error, also where it failed. */
static gboolean
run(const WeftFakeHypervisor *hv, const Run *what, const char *xml, char **ret_said, GError **error)
{
    g_autoptr(GSubprocessLauncher) launcher = new_launcher(hv, what->host);
    const char *argv[] = { hv->hook, what->kind, what->name, what->op, what->when, "-", NULL };
    g_autoptr(GSubprocess) process = g_subprocess_launcher_spawnv(launcher, argv, error);
    g_autofree char *said = NULL;
    if (!process || !g_subprocess_communicate_utf8(process, xml, NULL, NULL, &said, error))
        return FALSE;
    gboolean ok = g_subprocess_get_successful(process);
    if (!ok)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_FAILED, "host %s: the hook's %s of %s failed: %s", what->host, what->op,
                    what->name, said && *said ? g_strchomp(said) : "it was killed");
    if (ret_said)
        *ret_said = g_steal_pointer(&said);
    return ok;
}

static gboolean
run_for_domain(const WeftFakeHypervisor *hv, const char *host, const char *domain, const char *op, const char *xml,
               GError **error)
{
    gboolean ends = g_str_equal(op, "stopped") || g_str_equal(op, "release");
    return run(hv, &(Run){ host, "qemu", domain, op, ends ? "end" : "begin" }, xml, NULL, error);
}

/* --- its process --- */

static char *
process_path(const WeftFakeHypervisor *hv, const char *host, const char *domain)
{
    g_autofree char *file = g_strconcat(domain, PROCESS, NULL);
    return g_build_filename(hv->world, host, ROOT, PROCESSES, file, NULL);
}

static gboolean
add_process(const WeftFakeHypervisor *hv, const char *host, const char *domain, GError **error)
{
    g_autofree char *path = process_path(hv, host, domain);
    g_autofree char *folder = g_path_get_dirname(path);
    if (g_mkdir_with_parents(folder, 0755) < 0)
        return weft_fake_fail(error, "making", folder);
    return g_file_set_contents(path, ALIVE, -1, error);
}

static void
remove_process(const WeftFakeHypervisor *hv, const char *host, const char *domain)
{
    g_autofree char *path = process_path(hv, host, domain);
    unlink(path);
}

static void
recover_host(const WeftFakeHypervisor *hv, const char *host)
{
    WeftFakeFolder processes, domains;
    if (!weft_fake_folder_open(hv->world, host, ROOT "/" PROCESSES, &processes, NULL))
        return;
    if (weft_fake_folder_open(hv->world, host, WEFT_FAKE_DOMAINS, &domains, NULL)) {
        g_autoptr(GPtrArray) files = weft_fake_files(&processes, NULL);
        for (guint i = 0; files && i < files->len; i++) {
            g_autofree char *domain = g_strndup(files->pdata[i], strcspn(files->pdata[i], "."));
            if (!weft_fake_exists(&domains, domain, WEFT_FAKE_RUNNING))
                remove_process(hv, host, domain);
        }
        weft_fake_folder_close(&domains);
    }
    weft_fake_folder_close(&processes);
}

void
weft_fake_hook_recover(const WeftFakeHypervisor *hv)
{
    g_autoptr(GDir) hosts = g_dir_open(hv->world, 0, NULL);
    for (const char *host; hosts && (host = g_dir_read_name(hosts));)
        recover_host(hv, host);
}

/* --- domains --- */

gboolean
weft_fake_hook_begin(const WeftFakeHypervisor *hv, const char *host, const char *domain, const char *xml, GError **error)
{
    if (!hv->hook || (run_for_domain(hv, host, domain, "prepare", xml, error) && add_process(hv, host, domain, error) &&
                      run_for_domain(hv, host, domain, "start", xml, error)))
        return TRUE;
    weft_fake_hook_end(hv, host, domain, xml);
    return FALSE;
}

gboolean
weft_fake_hook_started(const WeftFakeHypervisor *hv, const char *host, const char *domain, const char *xml, GError **error)
{
    return !hv->hook || run_for_domain(hv, host, domain, "started", xml, error);
}

/* libvirt does not mind what becomes of these. */
void
weft_fake_hook_end(const WeftFakeHypervisor *hv, const char *host, const char *domain, const char *xml)
{
    if (!hv->hook)
        return;
    remove_process(hv, host, domain);
    run_for_domain(hv, host, domain, "stopped", xml, NULL);
    run_for_domain(hv, host, domain, "release", xml, NULL);
}

/* --- the report --- */

json_t *
weft_fake_hook_report(const WeftFakeHypervisor *hv, const char *host, char **ret_problem)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *said = NULL;
    run(hv, &(Run){ host, "network", WEFT_NETWORK_PROBE, "start", "begin" }, probe_xml, &said, &error);
    const char *mark = said ? strstr(said, WEFT_HOOK_REPORT "\n") : NULL;
    json_t *report = mark ? json_loads(mark + strlen(WEFT_HOOK_REPORT "\n"), JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    if (!report)
        *ret_problem = g_strdup(error ? error->message : "weft-hook is not installed");
    return report;
}
