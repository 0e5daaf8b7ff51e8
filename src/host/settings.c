#include "settings.h"

#include "checks.h"
#include "cpu-set.h"
#include "file.h"
#include "sysfs.h"

#include <string.h>

#define OPTIONS_MAX (256 * 1024)
#define NAMED_MAX 4 /* in one finding */

/* --- reading --- */

static json_t *
read_value(const char *path)
{
    g_autofree char *value = weft_sysfs_read(path, NULL);
    return value ? json_string(value) : NULL;
}

/* A value for each file. */
static json_t *
read_folder(const char *path)
{
    g_autoptr(GPtrArray) names = weft_sysfs_names(path);
    json_t *values = names->len ? json_object() : NULL;
    for (guint i = 0; i < names->len; i++) {
        g_autofree char *file = g_build_filename(path, g_ptr_array_index(names, i), NULL);
        json_object_set_new(values, g_ptr_array_index(names, i), read_value(file));
    }
    return values;
}

/* How many processors have which; none where the firmware rules. */
static json_t *
read_governors(const char *path)
{
    g_autoptr(GPtrArray) names = weft_sysfs_names(path);
    json_t *counts = json_object();
    for (guint i = 0; i < names->len; i++) {
        g_autofree char *file = g_build_filename(path, g_ptr_array_index(names, i), "cpufreq", "scaling_governor", NULL);
        g_autofree char *governor = weft_sysfs_read(file, NULL);
        if (governor)
            json_object_set_new(counts, governor, json_integer(json_integer_value(json_object_get(counts, governor)) + 1));
    }
    if (json_object_size(counts) > 0)
        return counts;
    json_decref(counts);
    return NULL;
}

/* The first column below the heading, a line each. */
static json_t *
read_swaps(const char *path)
{
    g_autofree char *text = weft_sysfs_read(path, NULL);
    g_auto(GStrv) lines = text ? g_strsplit(text, "\n", -1) : NULL;
    json_t *areas = lines ? json_array() : NULL;
    for (guint i = 1; lines && lines[0] && lines[i]; i++) {
        lines[i][strcspn(lines[i], " \t")] = '\0';
        json_array_append_new(areas, json_string(lines[i]));
    }
    return areas;
}

/* libvirt's own word where the file does not say. */
static json_t *
read_sched_core(const char *path)
{
    g_autofree char *text = weft_file_read(path, OPTIONS_MAX, NULL, NULL);
    g_autoptr(GRegex) option = g_regex_new("^[ \\t]*sched_core[ \\t]*=[ \\t]*\"([a-z]*)\"", G_REGEX_MULTILINE, 0, NULL);
    g_autoptr(GMatchInfo) match = NULL;
    if (!text)
        return NULL;
    g_autofree char *word = g_regex_match(option, text, 0, &match) ? g_match_info_fetch(match, 1) : NULL;
    return json_string(word ? word : "none");
}

static json_t *
read_ksm(const char *path)
{
    g_autofree char *run = g_build_filename(path, "run", NULL), *merged = g_build_filename(path, "pages_sharing", NULL);
    json_t *value = read_value(run);
    return value ? json_pack("{s:o, s:I}", "run", value, "merged", (json_int_t)weft_sysfs_number(merged, 0)) : NULL;
}

/* Does a handler have it, which processors are chosen for? Not for a device of a node: that is where its node is. Nor for the
 * queues of an NVMe device but the first, one for each processor: the kernel places them, and they are quiet where nothing of
 * the host's is written. */
static gboolean
is_placed(const char *folder)
{
    g_autoptr(GPtrArray) names = weft_sysfs_names(folder);
    for (guint i = 0; i < names->len; i++) {
        const char *name = names->pdata[i];
        g_autofree char *handler = g_build_filename(folder, name, NULL);
        if (!g_str_has_prefix(name, "vfio-") && !g_regex_match_simple("^nvme[0-9]+q[1-9]", name, 0, 0) &&
            g_file_test(handler, G_FILE_TEST_IS_DIR))
            return TRUE;
    }
    return FALSE;
}

/* Where an interrupt goes; where the kernel does not tell that, where it may go. */
static void
add_processors(WeftCpuSet *set, const char *folder)
{
    g_autofree char *effective = g_build_filename(folder, "effective_affinity_list", NULL);
    g_autofree char *allowed = g_build_filename(folder, "smp_affinity_list", NULL);
    g_autofree char *list = weft_sysfs_read(effective, NULL), *may = list && *list ? NULL : weft_sysfs_read(allowed, NULL);
    weft_cpu_set_add_list(set, may ? may : list ? list : "");
}

/* Where new ones go, and where those go that there are. */
static json_t *
read_irqs(const char *path)
{
    g_autofree char *file = g_build_filename(path, "default_smp_affinity", NULL), *mask = weft_sysfs_read(file, NULL);
    g_autofree WeftCpuSet *set = g_new0(WeftCpuSet, 1);
    g_autoptr(GPtrArray) names = weft_sysfs_names(path);
    for (guint i = 0; i < names->len; i++) {
        g_autofree char *folder = g_build_filename(path, names->pdata[i], NULL);
        if (g_ascii_isdigit(*(const char *)names->pdata[i]) && is_placed(folder))
            add_processors(set, folder);
    }
    g_autofree char *now = weft_cpu_set_format(set);
    return mask ? json_pack("{s:s, s:s}", "default", mask, "now", now) : NULL;
}

/* --- judging --- */

typedef struct Look {
    json_t *settings;
    gboolean described; /* which processors are for nodes, and which for the host */
    WeftCpuSet nodes, host;
} Look;

/* TRUE: it is right. NULL in ret_found: there is nothing to say. */
typedef gboolean (*Judge)(const Look *look, json_t *value, char **ret_found);

/* The names of those whose text has this in it; "": there are none. */
static char *
name_those(json_t *values, const char *part)
{
    GString *names = g_string_new(NULL);
    guint count = 0;
    const char *name;
    json_t *value;
    json_object_foreach (values, name, value) {
        const char *text = json_string_value(value);
        if (text && strstr(text, part) && ++count <= NAMED_MAX)
            g_string_append_printf(names, "%s%s", count > 1 ? ", " : "", name);
    }
    if (count > NAMED_MAX)
        g_string_append_printf(names, " and %u more", count - NAMED_MAX);
    return g_string_free(names, FALSE);
}

static gboolean
has_smt(const Look *look)
{
    return g_strcmp0(json_string_value(json_object_get(look->settings, "smt")), "on") == 0;
}

static gboolean
judge_smt(const Look *look, json_t *value, char **ret_found)
{
    g_autofree char *leaks = name_those(json_object_get(look->settings, "mitigations"), "SMT vulnerable");
    if (!has_smt(look))
        *ret_found = g_strdup("off");
    else if (!*leaks)
        *ret_found = g_strdup("on; a node has all threads of its cores");
    else
        *ret_found = g_strdup_printf("on, and this processor leaks between the threads of a core: %s", leaks);
    return !has_smt(look) || !*leaks;
}

static gboolean
judge_core_scheduling(const Look *look, json_t *value, char **ret_found)
{
    const char *word = json_string_value(value);
    gboolean full = g_strcmp0(word, "full") == 0;
    if (!has_smt(look))
        *ret_found = g_strdup("not needed without SMT");
    else
        *ret_found = g_strdup_printf("sched_core is \"%s\"", word ? word : "none");
    return full || !has_smt(look);
}

/* Of a hook that tells less the value is the text itself. */
static const char *
text_of(json_t *value, const char *name)
{
    return json_string_value(json_is_string(value) ? value : json_object_get(value, name));
}

static gboolean
judge_ksm(const Look *look, json_t *value, char **ret_found)
{
    json_int_t merged = json_integer_value(json_object_get(value, "merged"));
    gboolean merges = g_strcmp0(text_of(value, "run"), "1") == 0;
    if (!merges && merged > 0)
        *ret_found = g_strdup_printf("off, and %" JSON_INTEGER_FORMAT " pages are merged still", merged);
    else
        *ret_found = g_strdup(merges ? "on" : "off");
    return !merges && merged == 0;
}

static gboolean
judge_mitigations(const Look *look, json_t *value, char **ret_found)
{
    g_autofree char *open = name_those(value, "Vulnerable");
    *ret_found = *open ? g_strdup_printf("not in place for %s", open) : g_strdup("in place");
    return !*open;
}

static gboolean
judge_swap(const Look *look, json_t *value, char **ret_found)
{
    const char *first = json_string_value(json_array_get(value, 0));
    *ret_found =
        first ? g_strdup_printf("on, at %s%s", first, json_array_size(value) > 1 ? " and elsewhere" : "") : g_strdup("none");
    return !first;
}

static gboolean
judge_thp(const Look *look, json_t *value, char **ret_found)
{
    const char *words = json_string_value(value), *begin = words ? strchr(words, '[') : NULL;
    *ret_found = begin ? g_strndup(begin + 1, strcspn(begin + 1, "]")) : NULL;
    return g_strcmp0(*ret_found, "madvise") == 0;
}

static gboolean
judge_governor(const Look *look, json_t *value, char **ret_found)
{
    json_int_t all = 0, other = 0;
    const char *governor, *slow = NULL;
    json_t *count;
    json_object_foreach (value, governor, count) {
        gboolean fast = g_str_equal(governor, "performance");
        all += json_integer_value(count);
        other += fast ? 0 : json_integer_value(count);
        slow = fast ? slow : governor;
    }
    if (slow)
        *ret_found = g_strdup_printf("%s on %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " processors", slow, other, all);
    else
        *ret_found = g_strdup("performance");
    return !slow;
}

static gboolean
judge_isolation(const Look *look, json_t *value, char **ret_found)
{
    const char *list = json_string_value(value);
    g_autofree WeftCpuSet *isolated = g_new0(WeftCpuSet, 1), *missing = g_memdup2(&look->nodes, sizeof look->nodes);
    weft_cpu_set_add_list(isolated, list ? list : "");
    weft_cpu_set_keep(missing, isolated, TRUE);
    g_autofree char *all = weft_cpu_set_format(isolated), *some = weft_cpu_set_format(missing);
    if (weft_cpu_set_is_empty(isolated))
        *ret_found = g_strdup("no processor is isolated");
    else if (*some)
        *ret_found = g_strdup_printf("processors %s are for nodes, and not isolated", some);
    else
        *ret_found = g_strdup_printf("processors %s are isolated", all);
    return !weft_cpu_set_is_empty(isolated) && !*some;
}

static gboolean
judge_irqs(const Look *look, json_t *value, char **ret_found)
{
    const char *mask = text_of(value, "default");
    const char *now = json_string_value(json_object_get(value, "now"));
    g_autofree WeftCpuSet *new = g_new0(WeftCpuSet, 1), *old = g_new0(WeftCpuSet, 1);
    weft_cpu_set_add_mask(new, mask ? mask : "");
    weft_cpu_set_add_list(old, now ? now : "");
    g_autofree char *all = weft_cpu_set_format(new);
    weft_cpu_set_keep(new, &look->nodes, FALSE);
    weft_cpu_set_keep(old, &look->nodes, FALSE);
    g_autofree char *some = weft_cpu_set_format(new), *already = weft_cpu_set_format(old);
    if (*some)
        *ret_found = g_strdup_printf("new ones may go to processors %s, which are for nodes%s%s", some,
                                     *already ? "; others go already to " : "", already);
    else if (*already)
        *ret_found = g_strdup_printf("some go to processors %s, which are for nodes", already);
    else if (!weft_cpu_set_is_empty(&look->nodes))
        *ret_found = g_strdup_printf("new ones go to processors %s", all);
    return !*some && !*already;
}

/* --- the list --- */

typedef struct Setting {
    const char *check, *path;
    json_t *(*read)(const char *path);
    Judge judge;
    WeftHealth wrong; /* a warning where tenants are concerned, advice where it is about speed */
    const char *why;
    const char *remedy; /* {nodes}, {host}: their processors */
} Setting;

#define CPU "/sys/devices/system/cpu"
#define BOOT " on the kernel's command line, then reboot"

static const Setting list[] = {
    { "smt", CPU "/smt/control", read_value, judge_smt, WEFT_HEALTH_WARN,
      "a node could read what the thread beside its own handles: another's, where QEMU's threads share the host's cores",
      "nosmt" BOOT "; at once: echo off > " CPU "/smt/control, on an empty host" },
    { "core-scheduling", "/etc/libvirt/qemu.conf", read_sched_core, judge_core_scheduling, WEFT_HEALTH_WARN,
      "QEMU's threads of different tenants run beside each other on one core of the host's, and can spy on each other there",
      "sched_core = \"full\" in /etc/libvirt/qemu.conf (Linux 5.14), then systemctl restart libvirtd (RHEL: virtqemud); nodes "
      "have "
      "it from their next start; or switch SMT off" },
    { "ksm", "/sys/kernel/mm/ksm", read_ksm, judge_ksm, WEFT_HEALTH_WARN,
      "pages that are equal become one, and the time of a write tells a tenant what others have in memory",
      "echo 2 > /sys/kernel/mm/ksm/run, and systemctl disable --now ksm ksmtuned where these are" },
    { "mitigations", CPU "/vulnerabilities", read_folder, judge_mitigations, WEFT_HEALTH_WARN,
      "a node can read memory of the host and of other tenants by way of the processor",
      "take mitigations=off and the like out of the kernel's command line, install intel-microcode or amd64-microcode (RHEL: "
      "microcode_ctl) and a current kernel, then reboot" },
    { "swap", "/proc/swaps", read_swaps, judge_swap, WEFT_HEALTH_ADVICE,
      "memory of nodes in pages of 4K can be written out: they stand still until it is read again, and it stays on the disk",
      "swapoff -a, and take the lines out of /etc/fstab" },
    { "thp", "/sys/kernel/mm/transparent_hugepage/enabled", read_value, judge_thp, WEFT_HEALTH_ADVICE,
      "with always the host's own processes make the kernel move pages, which nodes feel; with never nodes in pages of 4K are "
      "slow, as "
      "QEMU asks for large ones",
      "transparent_hugepage=madvise" BOOT "; at once: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled" },
    { "governor", CPU, read_governors, judge_governor, WEFT_HEALTH_ADVICE,
      "cores that begin slowly after each wait make a job as slow as the slowest of its ranks",
      "tuned-adm profile virtual-host, or cpupower frequency-set -g performance at each start" },
    { "isolation", CPU "/isolated", read_value, judge_isolation, WEFT_HEALTH_ADVICE,
      "tasks of the host run on cores of nodes, and one late rank delays all others",
      "isolcpus=managed_irq,domain,{nodes} nohz_full={nodes} rcu_nocbs={nodes}" BOOT },
    { "irqs", "/proc/irq", read_irqs, judge_irqs, WEFT_HEALTH_ADVICE,
      "interrupts of the host's devices stop the nodes whose cores they go to",
      "irqaffinity={host}" BOOT "; where irqbalance runs, IRQBALANCE_BANNED_CPULIST={nodes} in /etc/default/irqbalance (RHEL: "
      "/etc/sysconfig/irqbalance), or systemctl disable --now irqbalance" },
};

json_t *
weft_settings_read(const WeftHook *hook)
{
    json_t *settings = json_object();
    for (gsize i = 0; i < G_N_ELEMENTS(list); i++) {
        g_autofree char *path = weft_sysfs_path(hook, "%s", list[i].path);
        json_t *value = list[i].read(path);
        if (value)
            json_object_set_new(settings, list[i].check, value);
    }
    return settings;
}

/* Where nobody says which processors are for nodes, those are that are isolated. */
static void
find_processors(Look *look, const WeftHost *host)
{
    for (guint i = 0; host && i < host->cores->len; i++) {
        const WeftCore *core = &g_array_index(host->cores, WeftCore, i);
        for (guint t = 0; t < core->n_cpus; t++)
            if (core->cpus[t] < WEFT_CPUS_MAX)
                (core->housekeeping ? &look->host : &look->nodes)->has[core->cpus[t]] = TRUE;
    }
    look->described = !weft_cpu_set_is_empty(&look->nodes) && !weft_cpu_set_is_empty(&look->host);
    if (look->described)
        return;
    const char *isolated = json_string_value(json_object_get(look->settings, "isolation"));
    memset(&look->nodes, 0, sizeof look->nodes);
    weft_cpu_set_add_list(&look->nodes, isolated ? isolated : "");
}

static char *
remedy_of(const Setting *setting, const Look *look)
{
    g_autofree char *nodes = look->described ? weft_cpu_set_format(&look->nodes) : g_strdup("CORES-OF-NODES");
    g_autofree char *host = look->described ? weft_cpu_set_format(&look->host) : g_strdup("CORES-OF-HOST");
    GString *text = g_string_new(setting->remedy);
    g_string_replace(text, "{nodes}", nodes, 0);
    g_string_replace(text, "{host}", host, 0);
    return g_string_free(text, FALSE);
}

void
weft_check_settings(json_t *checks, json_t *report, const WeftHost *host)
{
    g_autofree Look *look = g_new0(Look, 1);
    look->settings = json_object_get(report, "settings");
    find_processors(look, host);
    for (gsize i = 0; i < G_N_ELEMENTS(list); i++) {
        json_t *value = json_object_get(look->settings, list[i].check);
        g_autofree char *found = NULL;
        gboolean fine = !value || list[i].judge(look, value, &found);
        g_autofree char *remedy = remedy_of(&list[i], look);
        if (!found)
            continue;
        weft_doctor_add(checks, list[i].check, fine ? WEFT_HEALTH_OK : list[i].wrong, remedy, "%s", found);
        if (!fine)
            json_object_set_new(json_array_get(checks, json_array_size(checks) - 1), "why", json_string(list[i].why));
    }
}
