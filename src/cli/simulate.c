/* weft simulate: the queue and the placement that weftd has, on a load, here and now. Asks no weftd. */
#include "errors.h"
#include "figures.h"
#include "file.h"
#include "generate.h"
#include "simulate-table.h"
#include "size.h"
#include "swf.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#define FILE_MAX (1u << 30)
#define CORE_MEMORY (4ULL << 30) /* of a host, unless told */
#define CORE_MEMORY_MIN (64ULL << 20)

static char *trace, *fabric, *memory, *policy, *layout, *share_by, *svg, *write_trace;
static gboolean generate, timing;

typedef enum {
    SEED,
    DAYS,
    JOBS,
    LOAD,
    TENANTS,
    LARGEST,
    GPU_SHARE,
    PREEMPTIBLE_SHARE,
    HOSTS,
    LEAF_HOSTS,
    LEVELS,
    RADIX,
    CORES,
    SOCKETS,
    VFS,
    GPUS,
    CORES_PER_NODE,
    DEPTH,
    NUMBERS
} Number;
static char *words[NUMBERS];

typedef enum { ALWAYS, GENERATED, TREE } When;

/* What the numbers may be, and what they are unless told. */
static const struct {
    const char *name;
    When when; /* with a generated load only, or without --fabric */
    gboolean fraction;
    double min, max, otherwise;
} numbers[NUMBERS] = {
    [SEED] = { "seed", GENERATED, FALSE, 0, 9007199254740991, 1 },
    [DAYS] = { "days", GENERATED, TRUE, 0.001, 36600, 7 },
    [JOBS] = { "jobs", GENERATED, FALSE, 1, WEFT_GENERATE_JOBS_MAX, 0 },
    [LOAD] = { "load", GENERATED, TRUE, 0.001, 100, 0.8 },
    [TENANTS] = { "tenants", GENERATED, FALSE, 1, WEFT_TENANTS_MAX, 32 },
    [LARGEST] = { "largest", GENERATED, FALSE, 1, WEFT_LOAD_PROCESSORS_MAX, 0 },
    [GPU_SHARE] = { "gpu-share", GENERATED, TRUE, 0, 1, 0 },
    [PREEMPTIBLE_SHARE] = { "preemptible-share", GENERATED, TRUE, 0, 1, 0 },
    [HOSTS] = { "hosts", TREE, FALSE, 1, WEFT_HOSTS_MAX, 0 },
    [LEAF_HOSTS] = { "leaf-hosts", TREE, FALSE, 1, WEFT_HOSTS_MAX, 32 },
    [LEVELS] = { "levels", TREE, FALSE, 1, 16, 2 },
    [RADIX] = { "radix", TREE, FALSE, 2, 1024, 16 },
    [CORES] = { "cores", ALWAYS, FALSE, 1, WEFT_CORES_MAX, 0 },
    [SOCKETS] = { "sockets", ALWAYS, FALSE, 1, WEFT_SEAT_PARTS, 0 },
    [VFS] = { "vfs", ALWAYS, FALSE, 0, WEFT_VFS_MAX, 0 },
    [GPUS] = { "gpus", ALWAYS, FALSE, 0, WEFT_GPUS_MAX, 0 },
    [CORES_PER_NODE] = { "cores-per-node", ALWAYS, FALSE, 1, WEFT_CORES_MAX, 0 },
    [DEPTH] = { "depth", ALWAYS, FALSE, 0, 1000000, 0 },
};

/* clang-format off */
static const GOptionEntry options[] = {
    { "trace", 0, 0, G_OPTION_ARG_FILENAME, &trace, "replay this trace in the Standard Workload Format", "FILE" },
    { "generate", 0, 0, G_OPTION_ARG_NONE, &generate, "make up a load instead", NULL },
    { "seed", 0, 0, G_OPTION_ARG_STRING, &words[SEED], "of the load: the same gives the same (1)", "N" },
    { "days", 0, 0, G_OPTION_ARG_STRING, &words[DAYS], "in which jobs are submitted (7)", "X" },
    { "jobs", 0, 0, G_OPTION_ARG_STRING, &words[JOBS], "so many, in as many days as the load asks for", "N" },
    { "load", 0, 0, G_OPTION_ARG_STRING, &words[LOAD], "core time asked for, of what there is (0.8)", "X" },
    { "tenants", 0, 0, G_OPTION_ARG_STRING, &words[TENANTS], "that submit jobs (32)", "N" },
    { "largest", 0, 0, G_OPTION_ARG_STRING, &words[LARGEST], "cores of the largest job (a quarter of all)", "N" },
    { "gpu-share", 0, 0, G_OPTION_ARG_STRING, &words[GPU_SHARE], "of the jobs want GPUs (0)", "X" },
    { "preemptible-share", 0, 0, G_OPTION_ARG_STRING, &words[PREEMPTIBLE_SHARE], "of the jobs give way to others (0)", "X" },
    { "write-trace", 0, 0, G_OPTION_ARG_FILENAME, &write_trace, "write the load as a trace", "FILE" },
    { "hosts", 0, 0, G_OPTION_ARG_STRING, &words[HOSTS], "how many (as the trace says, else 128)", "N" },
    { "cores", 0, 0, G_OPTION_ARG_STRING, &words[CORES], "of each host (as the trace says, else 32)", "N" },
    { "sockets", 0, 0, G_OPTION_ARG_STRING, &words[SOCKETS], "NUMA nodes of each host (2)", "N" },
    { "memory", 0, 0, G_OPTION_ARG_STRING, &memory, "of each host (4G for each core)", "SIZE" },
    { "vfs", 0, 0, G_OPTION_ARG_STRING, &words[VFS], "virtual functions of each host (one for each core)", "N" },
    { "gpus", 0, 0, G_OPTION_ARG_STRING, &words[GPUS], "of each host (0)", "N" },
    { "leaf-hosts", 0, 0, G_OPTION_ARG_STRING, &words[LEAF_HOSTS], "hosts on each leaf switch (32)", "N" },
    { "levels", 0, 0, G_OPTION_ARG_STRING, &words[LEVELS], "of switches, in a fat tree (2)", "N" },
    { "radix", 0, 0, G_OPTION_ARG_STRING, &words[RADIX], "switches of a level below the same ones (16)", "N" },
    { "fabric", 0, 0, G_OPTION_ARG_FILENAME, &fabric, "hosts are those of this map of ibnetdiscover", "FILE" },
    { "cores-per-node", 0, 0, G_OPTION_ARG_STRING, &words[CORES_PER_NODE], "of the largest node (all of a host)", "N" },
    { "share-by", 0, 0, G_OPTION_ARG_STRING, &share_by, "who in the trace is a tenant (user)", "user|group" },
    { "policy", 0, 0, G_OPTION_ARG_STRING, &policy, "by which the queue is ordered (fair)", "fair|fifo" },
    { "depth", 0, 0, G_OPTION_ARG_STRING, &words[DEPTH], "so many that wait are promised a time (as weftd)", "N" },
    { "layout", 0, 0, G_OPTION_ARG_STRING, &layout, "of each job's nodes (compact)", "compact|spread" },
    { "svg", 0, 0, G_OPTION_ARG_FILENAME, &svg, "write a plot over time", "FILE" },
    { "timing", 0, 0, G_OPTION_ARG_NONE, &timing, "tell on standard error how long it took", NULL },
    { NULL },
};
/* clang-format on */

/* --- what was asked for --- */

static gboolean
check_number(Number which, GError **error)
{
    if (!words[which])
        return TRUE;
    char *rest;
    double value = g_ascii_strtod(words[which], &rest);
    gboolean number = rest != words[which] && *rest == '\0' && (numbers[which].fraction || floor(value) == value);
    if (number && value >= numbers[which].min && value <= numbers[which].max)
        return TRUE;
    weft_cli_set_usage(error, "simulate: --%s %s: write a %snumber from %.15g to %.15g", numbers[which].name, words[which],
                       numbers[which].fraction ? "" : "whole ", numbers[which].min, numbers[which].max);
    return FALSE;
}

/* Told by an option, else by what else is known (0: nothing), else as it is everywhere. */
static double
number_or(Number which, double known)
{
    if (words[which])
        return g_ascii_strtod(words[which], NULL);
    return known ? known : numbers[which].otherwise;
}

static double
number(Number which)
{
    return number_or(which, 0);
}

static gboolean
check_options(GError **error)
{
    if (!trace == !generate) {
        weft_cli_set_usage(error, "simulate: give a trace with --trace FILE, or --generate a load; one of them");
        return FALSE;
    }
    for (Number i = 0; i < NUMBERS; i++) {
        const char *other = trace && numbers[i].when == GENERATED ? "--trace"
                            : fabric && numbers[i].when == TREE   ? "--fabric"
                                                                  : NULL;
        if (words[i] && other) {
            weft_cli_set_usage(error, "simulate: --%s has no use with %s, which says what is there; leave it out",
                               numbers[i].name, other);
            return FALSE;
        }
        if (!check_number(i, error))
            return FALSE;
    }
    return TRUE;
}

/* One of the words, the first unless told; -1: it is none of them. */
static int
choice(const char *option, const char *word, const char *const *of, GError **error)
{
    for (int i = 0; of[i]; i++)
        if (!word || strcmp(word, of[i]) == 0)
            return i;
    weft_cli_set_usage(error, "simulate: --%s %s: write %s or %s", option, word, of[0], of[1]);
    return -1;
}

static gboolean
choose(WeftSimulateOptions *o, guint host_cores, GError **error)
{
    static const char *const policies[] = { "fair", "fifo", NULL }, *const sharers[] = { "user", "group", NULL };
    int order = choice("policy", policy, policies, error);
    int shape = order < 0 ? -1 : choice("layout", layout, weft_layout_words, error);
    int sharer = shape < 0 ? -1 : choice("share-by", share_by, sharers, error);
    if (sharer < 0)
        return FALSE;
    *o = (WeftSimulateOptions){ .queue = weft_queue_defaults, .layout = (WeftLayout)shape, .by_group = sharer == 1 };
    o->cores_per_node = (guint)number_or(CORES_PER_NODE, host_cores);
    if (words[DEPTH])
        o->queue.depth = (guint)number(DEPTH);
    if (order == 1)
        o->queue.priority = o->queue.share = 0;
    if (o->cores_per_node <= host_cores)
        return TRUE;
    weft_cli_set_usage(error, "simulate: --cores-per-node %u: a host has %u cores; write at most as many", o->cores_per_node,
                       host_cores);
    return FALSE;
}

/* --- what is there --- */

static WeftFabricMap *
read_map(GError **error)
{
    g_autofree char *text = weft_cli_read_text(fabric, FILE_MAX, NULL, error);
    WeftFabricMap *map = text ? weft_fabric_map_from_ibnetdiscover(text, error) : NULL;
    if (text && !map)
        g_prefix_error(error, "%s: ", weft_cli_file_name(fabric));
    return map;
}

/* A trace knows on how many hosts it was recorded, and with how many cores. */
static gboolean
describe_hosts(WeftSiteOptions *o, const WeftLoad *recorded, GError **error)
{
    guint told = recorded->hosts ? recorded->processors / recorded->hosts : 0;
    o->cores = (guint)number_or(CORES, told && told <= WEFT_CORES_MAX && !fabric ? told : 32);
    guint filled = MIN((recorded->processors + o->cores - 1) / o->cores, WEFT_HOSTS_MAX);
    o->hosts = (guint)number_or(HOSTS, recorded->hosts ? recorded->hosts : filled ? filled : 128);
    o->sockets = (guint)number_or(SOCKETS, o->cores > 1 ? 2 : 1);
    o->vfs = words[VFS] ? (guint)number(VFS) : MIN(o->cores, WEFT_VFS_MAX);
    o->gpus = (guint)number(GPUS);
    o->leaf_hosts = (guint)number(LEAF_HOSTS);
    o->levels = (guint)number(LEVELS);
    o->radix = (guint)number(RADIX);
    o->memory = o->cores * CORE_MEMORY;
    if (o->sockets > o->cores) {
        weft_cli_set_usage(error, "simulate: --sockets %u: a host has %u cores; write at most as many", o->sockets, o->cores);
        return FALSE;
    }
    if (memory && !weft_size_parse(memory, &o->memory, error)) {
        g_prefix_error(error, "simulate: --memory: ");
        return FALSE;
    }
    if (o->memory / o->cores >= CORE_MEMORY_MIN && o->memory <= WEFT_MEMORY_MAX)
        return TRUE;
    weft_cli_set_usage(error, "simulate: --memory %s: write from 64M for each of the host's %u cores up to 64T", memory,
                       o->cores);
    return FALSE;
}

static WeftLoad *
read_trace(GError **error)
{
    gsize length = 0;
    g_autofree char *text = weft_cli_read_text(trace, FILE_MAX, &length, error);
    if (!text)
        return NULL;
    g_autoptr(WeftLoad) found = weft_swf_parse(text, length, error);
    if (found && found->jobs->len == 0)
        weft_error_refuse(error, WEFT_ERROR_INVALID,
                          "no job in it can be replayed: of %u, none has both a run time and processors",
                          found->partial + found->incomplete);
    if (found && found->jobs->len > 0)
        return g_steal_pointer(&found);
    g_prefix_error(error, "%s: ", weft_cli_file_name(trace));
    return NULL;
}

static WeftLoad *
make_load(const WeftSiteOptions *site, GError **error)
{
    WeftGenerateOptions o = { .seed = (guint64)number(SEED),
                              .days = words[JOBS] && !words[DAYS] ? 0 : number(DAYS),
                              .jobs = (guint)number(JOBS),
                              .load = number(LOAD),
                              .hosts = site->hosts,
                              .cores = site->cores,
                              .largest = (guint)number(LARGEST),
                              .users = (guint)number(TENANTS),
                              .gpu_share = number(GPU_SHARE),
                              .preemptible_share = number(PREEMPTIBLE_SHARE) };
    return weft_generate(&o, error);
}

/* --- what comes of it --- */

/* Not by replacing: it may be a device or a pipe. */
static gboolean
write_text(const char *path, const char *text, GError **error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    gboolean written = fd >= 0 && weft_file_write(fd, text, strlen(text));
    int saved = errno;
    if (fd >= 0 && close(fd) < 0 && written) {
        saved = errno;
        written = FALSE;
    }
    return written || weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot write %s: %s", path, g_strerror(saved));
}

static char *
name_load(const WeftLoad *load)
{
    g_autofree char *jobs = weft_cli_count(load->jobs->len, "job");
    if (trace)
        return g_strdup_printf("%s of %s", jobs, weft_cli_file_name(trace));
    return g_strdup_printf("%s, generated from seed %.0f", jobs, number(SEED));
}

static gboolean
write_files(const WeftSimulation *result, const WeftSite *site, const WeftLoad *load, GError **error)
{
    g_autofree char *name = name_load(load);
    g_autofree char *hosts = weft_cli_count(site->options.hosts, "host");
    g_autofree char *title = g_strdup_printf("%s, on %s with %u cores", name, hosts, site->options.cores);
    g_autofree char *plot = svg ? weft_simulation_plot(result, title) : NULL;
    g_autofree char *text = write_trace ? weft_swf_format(load, title) : NULL;
    return (!plot || write_text(svg, plot, error)) && (!text || write_text(write_trace, text, error));
}

static void
report(const WeftCli *cli, const WeftSimulation *result, const WeftSite *site, const WeftLoad *load,
       const WeftSimulateOptions *chosen)
{
    if (cli->json) {
        weft_cli_print_json(weft_simulation_to_json(result));
        return;
    }
    g_autofree char *name = name_load(load);
    g_autofree char *rules = g_strdup_printf("queue %s to a depth of %u, nodes %s, of up to %u cores", policy ? policy : "fair",
                                             chosen->queue.depth, weft_layout_words[chosen->layout], chosen->cores_per_node);
    weft_simulate_table(result, site, load, &(WeftSimulateNames){ name, rules });
}

static WeftSite *
make_site(const WeftSiteOptions *o, GError **error)
{
    if (!fabric)
        return weft_site_new(o);
    g_autoptr(WeftFabricMap) map = read_map(error);
    WeftSite *site = map ? weft_site_from_map(o, map, error) : NULL;
    if (map && !site)
        g_prefix_error(error, "%s: ", weft_cli_file_name(fabric));
    return site;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    gint64 begin = g_get_monotonic_time();
    g_autoptr(WeftLoad) recorded = check_options(error) ? trace ? read_trace(error) : weft_load_new() : NULL;
    WeftSiteOptions described;
    WeftSimulateOptions chosen;
    if (!recorded || !describe_hosts(&described, recorded, error) || !choose(&chosen, described.cores, error))
        return FALSE;
    g_autoptr(WeftSite) site = make_site(&described, error);
    g_autoptr(WeftLoad) made = site && generate ? make_load(&site->options, error) : NULL;
    const WeftLoad *load = generate ? made : recorded;
    g_autoptr(WeftSimulation) result = site && load ? weft_simulate(site, load, &chosen, error) : NULL;
    if (!result || !write_files(result, site, load, error))
        return FALSE;
    report(cli, result, site, load, &chosen);
    if (timing)
        fprintf(stderr, "took %.3f s\n", (double)(g_get_monotonic_time() - begin) / G_USEC_PER_SEC);
    return TRUE;
}

const WeftVerb weft_simulate_verbs[] = {
    {
        .name = "simulate",
        .arguments = "--trace FILE | --generate",
        .summary = "replay a trace, or a generated load, and show the result",
        .about =
            "Runs the very queue and placement of weftd on jobs, each of which is a cluster, and on hosts that need not be\n"
            "there, and tells utilisation, waits, and how near to each other the nodes were. The same input gives the same\n"
            "output. Asks no weftd.",
        .examples = "weft simulate --generate --hosts 128 --days 30 --load 0.9 --svg load.svg\n"
                    "weft simulate --trace log.swf --cores-per-node 16 --policy fifo --json",
        .options = options,
        .run = run,
    },
    { 0 },
};
