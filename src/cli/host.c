/* weft host: one host, or several, and what is done to them. */
#include "await.h"
#include "errors.h"
#include "size.h"
#include "verbs.h"

static struct {
    char *uri, *fabric, *leaf, *file;
    int cores, threads, numa, housekeeping;
    char **pages, **hcas, **labels;
} add_flags = { .cores = -1, .threads = 1, .numa = 1, .housekeeping = -1 };

static gboolean keep, evict, disrupt, no_wait, wait_until_empty;

/* clang-format off */
static const GOptionEntry add_options[] = {
    { "uri", 0, 0, G_OPTION_ARG_STRING, &add_flags.uri, "of its libvirtd (qemu+tls://NAME/system)", "URI" },
    { "fabric", 0, 0, G_OPTION_ARG_STRING, &add_flags.fabric, "fabric that it hangs on", "NAME" },
    { "leaf", 0, 0, G_OPTION_ARG_STRING, &add_flags.leaf, "leaf switch that it hangs on; as the fabric's map says unless given", "NAME" },
    { "numa", 0, 0, G_OPTION_ARG_INT, &add_flags.numa, "NUMA nodes (1)", "N" },
    { "cores", 0, 0, G_OPTION_ARG_INT, &add_flags.cores, "cores of each NUMA node (hardware as the host has it)", "N" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &add_flags.threads, "hardware threads of each core (1)", "N" },
    { "housekeeping", 0, 0, G_OPTION_ARG_INT, &add_flags.housekeeping,
      "cores of each NUMA node kept for the host itself (0)", "N" },
    { "pages", 0, 0, G_OPTION_ARG_STRING_ARRAY, &add_flags.pages,
      "huge pages of each NUMA node: 2M=1024; may be repeated", "SIZE=COUNT" },
    { "hca", 0, 0, G_OPTION_ARG_STRING_ARRAY, &add_flags.hcas,
      "adapter: mlx5_0,driver=mlx5,port_guid=0x…,vfs=8; may be repeated", "NAME,KEY=VALUE…" },
    { "label", 'l', 0, G_OPTION_ARG_STRING_ARRAY, &add_flags.labels, "label; may be repeated", "KEY=VALUE" },
    { "file", 'f', 0, G_OPTION_ARG_FILENAME, &add_flags.file,
      "one host or a list of them, as in weft.yaml(5); - is the standard input", "FILE" },
    { NULL },
};
/* clang-format on */

static const GOptionEntry drain_options[] = {
    { "keep", 0, 0, G_OPTION_ARG_NONE, &keep, "only place no new nodes on it; those that are there stay", NULL },
    { "evict", 0, 0, G_OPTION_ARG_NONE, &evict, "create those again on other hosts that cannot be moved", NULL },
    { "disrupt", 0, 0, G_OPTION_ARG_NONE, &disrupt, "also move where what is open on fabric devices breaks", NULL },
    { "no-wait", 0, 0, G_OPTION_ARG_NONE, &no_wait, "return once the request is accepted", NULL },
    { "wait", 0, 0, G_OPTION_ARG_NONE, &wait_until_empty, "with --keep: wait until no node is left on it", NULL },
    { NULL },
};

/* "2M=1024" and the like into an object; numbers become numbers. */
static gboolean
put_pair(json_t *object, const char *option, const char *text, gboolean numbers, GError **error)
{
    g_autofree char *key = NULL;
    g_autofree char *value = NULL;
    if (!weft_cli_split_pair(option, text, &key, &value, error))
        return FALSE;
    guint64 number = 0;
    gboolean is_number = numbers && g_ascii_string_to_unsigned(value, 10, 0, G_MAXINT64, &number, NULL);
    json_object_set_new(object, key, is_number ? json_integer((json_int_t)number) : json_string(value));
    return TRUE;
}

static gboolean
put_pages(json_t *pages, GError **error)
{
    for (guint i = 0; add_flags.pages && add_flags.pages[i]; i++) {
        g_autofree char *size = g_strdup(add_flags.pages[i]);
        size[strcspn(size, "=")] = '\0';
        guint64 bytes = 0;
        if (!put_pair(pages, "--pages", add_flags.pages[i], TRUE, error))
            return FALSE;
        if (!weft_size_parse(size, &bytes, error)) {
            g_prefix_error(error, "--pages %s: ", add_flags.pages[i]);
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean
put_hca(json_t *hcas, const char *text, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", -1);
    json_t *hca = json_object();
    json_array_append_new(hcas, hca);
    json_object_set_new(hca, "name", json_string(parts[0] ? parts[0] : ""));
    for (guint i = 1; parts[0] && parts[i]; i++)
        if (!put_pair(hca, "--hca", parts[i], TRUE, error))
            return FALSE;
    return TRUE;
}

static void
put_text(json_t *object, const char *name, const char *value)
{
    if (value)
        json_object_set_new(object, name, json_string(value));
}

static gboolean
put_hcas(json_t *host, GError **error)
{
    json_t *hcas = json_array();
    json_object_set_new(host, "hcas", hcas);
    for (guint i = 0; add_flags.hcas && add_flags.hcas[i]; i++)
        if (!put_hca(hcas, add_flags.hcas[i], error))
            return FALSE;
    return TRUE;
}

static gboolean
put_labels(json_t *host, GError **error)
{
    json_t *labels = json_object();
    json_object_set_new(host, "labels", labels);
    for (guint i = 0; add_flags.labels && add_flags.labels[i]; i++)
        if (!put_pair(labels, "--label", add_flags.labels[i], FALSE, error))
            return FALSE;
    return TRUE;
}

/* Hardware is described as a whole, or read from the host as a whole. */
static gboolean
is_described(void)
{
    return add_flags.cores != -1 || add_flags.numa != 1 || add_flags.threads != 1 || add_flags.housekeeping != -1 ||
           add_flags.pages || add_flags.hcas;
}

static gboolean
put_hardware(json_t *host, GError **error)
{
    json_t *pages = json_object(), *numa = json_array();
    if (add_flags.housekeeping >= 0)
        json_object_set_new(host, "housekeeping", json_integer(add_flags.housekeeping));
    json_object_set_new(host, "numa", numa);
    for (int i = 0; i < MIN(add_flags.numa, 1024); i++)
        json_array_append_new(
            numa, json_pack("{s:i, s:i, s:O}", "cores", add_flags.cores, "threads", add_flags.threads, "pages", pages));
    gboolean ok = put_hcas(host, error) && put_pages(pages, error);
    json_decref(pages);
    return ok;
}

static json_t *
host_from_flags(const char *name, GError **error)
{
    if (is_described() && (add_flags.cores <= 0 || add_flags.numa <= 0)) {
        weft_cli_set_usage(error, "host add: how many cores has each NUMA node? (--cores N, --numa N; without any hardware, "
                                  "all of it is read from the host)");
        return NULL;
    }
    if (!add_flags.fabric) {
        weft_cli_set_usage(error, "host add: which fabric does it hang on? (--fabric NAME)");
        return NULL;
    }
    json_t *host = json_pack("{s:s}", "name", name);
    put_text(host, "uri", add_flags.uri);
    put_text(host, "fabric", add_flags.fabric);
    put_text(host, "leaf", add_flags.leaf);
    if (!put_labels(host, error) || (is_described() && !put_hardware(host, error)))
        g_clear_pointer(&host, json_decref);
    return host;
}

/* A list of hosts, whichever way they were given. */
static json_t *
hosts_to_add(const char *name, GError **error)
{
    if ((name == NULL) == (add_flags.file == NULL)) {
        weft_cli_set_usage(error, "host add: give a name and its flags, or a file with -f");
        return NULL;
    }
    json_t *given = name ? host_from_flags(name, error) : weft_cli_read_file(add_flags.file, error);
    if (!given || json_is_array(given))
        return given;
    json_t *list = json_array();
    json_array_append_new(list, given);
    return list;
}

/* Prints what became of the hosts: their JSON, or "host n1 is added". */
static void
tell(WeftCli *cli, json_t *host, const char *what)
{
    g_autofree char *name = weft_cli_field(host, "name");
    if (cli->json)
        weft_cli_print_json(json_incref(host));
    else
        printf("host %s is %s\n", name, what);
    fflush(stdout);
}

static gboolean
run_add(WeftCli *cli, char **args, GError **error)
{
    json_t *hosts = hosts_to_add(args[0], error);
    gboolean ok = hosts != NULL;
    size_t i;
    json_t *host;
    json_array_foreach (hosts, i, host) {
        g_auto(WeftResponse) response = { 0 };
        g_autofree char *name = weft_cli_field(host, "name");
        ok = weft_client_call(cli->client, &(WeftCall){ "POST", "/v1/hosts", host }, &response, error);
        if (!ok) {
            weft_cli_blame(error, "host", name);
            break;
        }
        tell(cli, response.body, "added");
    }
    json_decref(hosts);
    return ok;
}

static void
print_numa(json_t *host)
{
    size_t i;
    json_t *numa;
    json_array_foreach (json_object_get(host, "numa"), i, numa) {
        g_autofree char *cores = weft_cli_count(weft_cli_number(numa, "cores"), "core");
        printf("  numa %-7zu  %s", i, cores);
        if (weft_cli_number(numa, "threads") > 1)
            printf(" of %" G_GINT64_FORMAT " threads", weft_cli_number(numa, "threads"));
        const char *size;
        json_t *count;
        json_object_foreach (json_object_get(numa, "pages"), size, count) {
            g_autofree char *clean = weft_cli_clean(size);
            printf(", %" JSON_INTEGER_FORMAT " pages of %s", json_integer_value(count), clean);
        }
        putchar('\n');
    }
}

static void
print_devices(json_t *host)
{
    size_t i;
    json_t *device;
    json_array_foreach (json_object_get(host, "hcas"), i, device) {
        g_autofree char *name = weft_cli_field(device, "name");
        g_autofree char *port = weft_cli_field(device, "port_guid");
        g_autofree char *vfs = weft_cli_count(weft_cli_number(device, "vfs"), "VF");
        printf("  hca           %s: port %s, %s, NUMA node %" G_GINT64_FORMAT "\n", name, port, vfs,
               weft_cli_number(device, "numa"));
    }
    json_array_foreach (json_object_get(host, "gpus"), i, device) {
        g_autofree char *name = weft_cli_field(device, "name");
        printf("  gpu           %s: NUMA node %" G_GINT64_FORMAT "\n", name, weft_cli_number(device, "numa"));
    }
}

static void
print_labels(json_t *host)
{
    const char *key;
    json_t *value;
    json_object_foreach (json_object_get(host, "labels"), key, value) {
        g_autofree char *name = weft_cli_clean(key);
        g_autofree char *text = weft_cli_clean(json_string_value(value));
        printf("  label         %s=%s\n", name, text);
    }
}

static void
print_host(json_t *host)
{
    static const char *const fields[] = { "state", "since", "reason", "fabric", "leaf", "uri", "nodes", "draining", "origin" };
    g_autofree char *name = weft_cli_field(host, "name");
    printf("host %s\n", name);
    for (guint i = 0; i < G_N_ELEMENTS(fields); i++) {
        g_autofree char *value = weft_cli_field(host, fields[i]);
        gboolean leave = strcmp(fields[i], "draining") == 0 &&
                         (json_is_true(json_object_get(host, "evicting")) || json_is_true(json_object_get(host, "moving")));
        if (json_object_get(host, fields[i]) && strcmp(value, "-") != 0)
            printf("  %-12s  %s%s\n", fields[i], value, leave ? ", its nodes go elsewhere" : "");
    }
    printf("  cores         %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " in use\n", weft_cli_number(host, "cores_used"),
           weft_cli_number(host, "cores_total"));
    print_numa(host);
    print_devices(host);
    print_labels(host);
}

static gboolean
show_one(WeftCli *cli, const char *path, GError **error)
{
    json_t *host = weft_client_get(cli->client, path, error);
    if (!host)
        return FALSE;
    if (cli->json)
        weft_cli_print_json(host);
    else {
        print_host(host);
        json_decref(host);
    }
    return TRUE;
}

static gboolean
post(WeftCli *cli, const char *path, const char *action, json_t *body, json_t **ret_host, GError **error)
{
    g_autofree char *where = g_strconcat(path, action, NULL);
    g_auto(WeftResponse) response = { 0 };
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ "POST", where, body }, &response, error);
    json_decref(body);
    *ret_host = g_steal_pointer(&response.body);
    return ok;
}

static gboolean
drain_one(WeftCli *cli, const char *path, GError **error)
{
    json_t *host = NULL;
    json_t *how = json_pack("{s:b, s:b, s:b}", "evict", evict, "move", !keep, "disrupt", disrupt);
    gboolean ok = post(cli, path, "/drain", how, &host, error);
    if (ok)
        tell(cli, host, "draining");
    json_decref(host);
    return ok;
}

static gboolean
undrain_one(WeftCli *cli, const char *path, GError **error)
{
    json_t *host = NULL;
    gboolean ok = post(cli, path, "/undrain", NULL, &host, error);
    if (ok)
        tell(cli, host, "taking nodes again");
    json_decref(host);
    return ok;
}

static gboolean
rm_one(WeftCli *cli, const char *path, GError **error)
{
    if (!weft_client_call(cli->client, &(WeftCall){ "DELETE", path }, NULL, error))
        return FALSE;
    if (!cli->json)
        printf("host %s is removed\n", strrchr(path, '/') + 1);
    return TRUE;
}

/* Which nodes cannot be moved, and why. */
static void
tell_stays(const char *what, json_t *host, GError **error)
{
    g_autoptr(GString) list = g_string_new(NULL);
    size_t i;
    json_t *stay;
    json_array_foreach (json_object_get(host, "stays"), i, stay) {
        g_autofree char *name = weft_cli_field(stay, "name");
        g_autofree char *tenant = weft_cli_field(stay, "tenant");
        g_autofree char *reason = weft_cli_field(stay, "reason");
        g_string_append_printf(list, "%s%s of %s: %s", i ? "; " : "", name, tenant, reason);
    }
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                "%s keeps nodes that cannot be moved (%s); --evict creates them anew elsewhere, --disrupt breaks connections",
                what, list->str);
}

static gboolean
wait_one(WeftCli *cli, const char *path, GError **error)
{
    g_autofree char *what = g_strdup_printf("host %s", strrchr(path, '/') + 1);
    WeftAwait await = {
        .goal = &weft_goal_drained, .what = what, .path = path, .events = "/v1/events", .after = "it goes on draining"
    };
    json_t *host = NULL;
    if (!weft_await(cli, &await, &host, error))
        return FALSE;
    gboolean empty = weft_cli_number(host, "nodes") == 0;
    if (empty && !cli->json)
        printf("%s is empty\n", what);
    if (!empty)
        tell_stays(what, host, error);
    json_decref(host);
    return empty;
}

/* Does it for each host of the lists; goes on after an error. */
static gboolean
for_each(WeftCli *cli, char **args, gboolean (*do_one)(WeftCli *, const char *path, GError **), GError **error)
{
    g_autoptr(GPtrArray) names = weft_cli_expand(args, error);
    GError *first = NULL;
    for (guint i = 0; names && i < names->len; i++) {
        GError *local = NULL;
        g_autofree char *path = weft_client_path("/v1/hosts", names->pdata[i]);
        if (do_one(cli, path, &local))
            continue;
        if (!weft_client_interrupted(NULL))
            weft_cli_blame(&local, "host", names->pdata[i]);
        weft_cli_keep_first(&first, local);
        if (weft_client_interrupted(NULL))
            break;
    }
    if (first)
        g_propagate_error(error, first);
    return names && !first;
}

static gboolean
run_show(WeftCli *cli, char **args, GError **error)
{
    return for_each(cli, args, show_one, error);
}

static gboolean
run_drain(WeftCli *cli, char **args, GError **error)
{
    if (keep && (evict || disrupt)) {
        weft_cli_set_usage(error, "drain: --keep leaves the nodes there: give it without --evict and --disrupt");
        return FALSE;
    }
    gboolean waits = keep ? wait_until_empty : !no_wait;
    return for_each(cli, args, drain_one, error) && (!waits || for_each(cli, args, wait_one, error));
}

static gboolean
run_undrain(WeftCli *cli, char **args, GError **error)
{
    return for_each(cli, args, undrain_one, error);
}

static gboolean
run_rm(WeftCli *cli, char **args, GError **error)
{
    return for_each(cli, args, rm_one, error);
}

#define DRAIN_ABOUT                                                                                                            \
    "Places no new nodes on the hosts, moves those that are there to others while they run, and waits until none is left.\n"   \
    "Those that cannot be moved stay, and it is told why; --evict creates them anew elsewhere."

const WeftVerb weft_drain_verbs[] = {
    {
        .name = "drain",
        .arguments = "HOST…",
        .summary = "empty hosts: move their nodes elsewhere while they run",
        .about = DRAIN_ABOUT,
        .examples = "weft drain n1\n"
                    "weft drain 'n[1-16]' --evict --disrupt",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_HOSTS,
        .options = drain_options,
        .run = run_drain,
    },
    { 0 },
};

const WeftVerb weft_host_verbs[] = {
    {
        .name = "host add",
        .arguments = "NAME --fabric F",
        .summary = "add a host, its hardware as it has it or as described",
        .about =
            "Adds a host, or with -f those of a file. There each host stands alone, with its fabric: no hostlists.\n"
            "Without --cores all of its hardware is read from the host itself, and one core of each NUMA node is kept for it.",
        .examples = "weft host add n1 --fabric ib0 --uri qemu+tls://n1.example.org/system\n"
                    "weft host add n2 --fabric ib0 --leaf leaf1 --numa 2 --cores 16 --housekeeping 1 --pages 2M=30720",
        .max_args = 1,
        .options = add_options,
        .run = run_add,
    },
    {
        .name = "host show",
        .arguments = "NAME…",
        .summary = "show hosts",
        .about = "Shows hosts: state, place, cores in use, NUMA nodes with their huge pages, adapters, GPUs, labels.",
        .examples = "weft host show n1\n"
                    "weft host show 'n[1-4]' --json",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_HOSTS,
        .run = run_show,
    },
    {
        .name = "host drain",
        .arguments = "NAME…",
        .summary = "empty hosts, as weft drain does",
        .about = DRAIN_ABOUT,
        .examples = "weft host drain n1 --keep\n"
                    "weft host drain 'n[1-16]' --evict",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_HOSTS,
        .options = drain_options,
        .run = run_drain,
    },
    {
        .name = "host undrain",
        .arguments = "NAME…",
        .summary = "let hosts take nodes again",
        .examples = "weft host undrain n1\n"
                    "weft host undrain 'n[1-16]'",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_HOSTS,
        .run = run_undrain,
    },
    {
        .name = "host rm",
        .arguments = "NAME…",
        .summary = "remove hosts that carry no nodes",
        .examples = "weft host rm n1\n"
                    "weft host rm 'n[1-4]'",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_HOSTS,
        .run = run_rm,
    },
    { 0 },
};
