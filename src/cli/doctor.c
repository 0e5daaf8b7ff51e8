/* weft doctor: what hosts and fabrics lack, and how to mend it. */
#include "clock.h"
#include "selftest.h"
#include "size.h"
#include "table.h"
#include "verbs.h"

#define STEP_TIMEOUT (10 * G_TIME_SPAN_MINUTE)

static char *hosts, *image, *memory, *path, *timeout;
static char **skip;
static gboolean selftest, dry_run;

/* clang-format off */
static const GOptionEntry options[] = {
    { "selftest", 0, 0, G_OPTION_ARG_NONE, &selftest, "run small clusters on hosts, and look at them from inside", NULL },
    { "hosts", 0, 0, G_OPTION_ARG_STRING, &hosts, "… on these: n[1-2] (two that are free)", "HOSTLIST" },
    { "image", 0, 0, G_OPTION_ARG_STRING, &image, "… what its nodes boot (the site's default)", "NAME" },
    { "memory", 0, 0, G_OPTION_ARG_STRING, &memory, "… memory of each node (1G)", "SIZE" },
    { "path", 0, 0, G_OPTION_ARG_STRING, &path, "… how fabric traffic flows (sriov where the hosts have functions)", "sriov|passthrough|bridge" },
    { "skip", 0, 0, G_OPTION_ARG_STRING_ARRAY, &skip, "… without these checks; may be repeated", "CHECK[,CHECK…]" },
    { "timeout", 0, 0, G_OPTION_ARG_STRING, &timeout, "… wait no longer than this for each step: 90s (10m)", "TIME" },
    { "dry-run", 0, 0, G_OPTION_ARG_NONE, &dry_run, "… tell what it would do", NULL },
    { NULL },
};
/* clang-format on */

/* --- the self test --- */

static gboolean
run_selftest(WeftCli *cli, const char *host, GError **error)
{
    g_autofree char *unwanted = skip ? g_strjoinv(",", skip) : NULL;
    g_auto(GStrv) skipped = unwanted ? g_strsplit(unwanted, ",", -1) : NULL;
    WeftSelftestWish wish = { .hosts = hosts,
                              .image = image,
                              .memory = memory ? memory : "1G",
                              .path = path,
                              .skip = skipped,
                              .timeout = STEP_TIMEOUT,
                              .dry_run = dry_run };
    guint64 size = 0;
    if (host) {
        weft_cli_set_usage(error, "doctor: the hosts of a self test come after --hosts: weft doctor --selftest --hosts %s",
                           host);
        return FALSE;
    }
    if (!weft_size_parse(wish.memory, &size, error)) {
        g_prefix_error(error, "--memory: ");
        return FALSE;
    }
    if (timeout && !weft_duration_parse(timeout, &wish.timeout, error)) {
        g_prefix_error(error, "--timeout: ");
        return FALSE;
    }
    return weft_selftest(cli, &wish, error);
}

/* The first option that only a self test has; NULL: none is given. */
static const char *
stray_option(void)
{
    const struct {
        const char *name;
        gboolean given;
    } all[] = { { "hosts", hosts != NULL }, { "image", image != NULL }, { "memory", memory != NULL },
                { "path", path != NULL },   { "skip", skip != NULL },   { "timeout", timeout != NULL },
                { "dry-run", dry_run } };
    for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
        if (all[i].given)
            return all[i].name;
    return NULL;
}

/* --- an examination --- */

/* {"items": […]} of one host or of all. */
static json_t *
examine(WeftCli *cli, const char *host, GError **error)
{
    if (!host)
        return weft_client_get(cli->client, "/v1/doctor", error);
    g_autofree char *base = weft_client_path("/v1/hosts", host);
    g_autofree char *route = g_strconcat(base, "/doctor", NULL);
    json_t *report = weft_client_get(cli->client, route, error);
    if (!report)
        weft_cli_blame(error, "host", host);
    return report ? json_pack("{s:[o]}", "items", report) : NULL;
}

/* What was found, and below it why it matters, where that is told, and what to do. */
static char *
tell(json_t *check)
{
    g_autofree char *found = weft_cli_field(check, "found");
    g_autofree char *remedy = weft_cli_field(check, "remedy");
    g_autofree char *why = json_object_get(check, "why") ? weft_cli_field(check, "why") : NULL;
    if (strcmp(remedy, "-") == 0)
        return g_steal_pointer(&found);
    return g_strconcat(found, why ? "\nwhy: " : "", why ? why : "", "\nremedy: ", remedy, NULL);
}

static guint
add_checks(WeftTable *table, json_t *report)
{
    guint failed = 0;
    size_t i;
    json_t *check;
    json_array_foreach (json_object_get(report, "checks"), i, check) {
        const char *state = json_string_value(json_object_get(check, "state"));
        failed += g_strcmp0(state, "fail") == 0;
        weft_table_take(table, weft_cli_field(report, "host"));
        weft_table_take(table, weft_cli_field(check, "check"));
        weft_table_take(table, weft_cli_field(check, "state"));
        weft_table_take(table, tell(check));
    }
    return failed;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    const char *stray = selftest ? NULL : stray_option();
    if (stray) {
        weft_cli_set_usage(error, "doctor: --%s is for --selftest", stray);
        return FALSE;
    }
    if (selftest)
        return run_selftest(cli, args[0], error);
    json_t *found = examine(cli, args[0], error);
    if (!found)
        return FALSE;
    g_autoptr(WeftTable) table = weft_table_new("HOST|CHECK|!STATE|FOUND");
    guint failed = 0;
    size_t i;
    json_t *report;
    json_array_foreach (json_object_get(found, "items"), i, report)
        failed += add_checks(table, report);
    cli->status = failed > 0;
    if (cli->json)
        weft_cli_print_json(json_incref(json_object_get(found, "items")));
    else
        weft_table_print(table, stdout);
    json_decref(found);
    return TRUE;
}

const WeftVerb weft_doctor_verbs[] = {
    {
        .name = "doctor",
        .arguments = "[HOST]",
        .summary = "diagnose hosts and fabrics, and suggest fixes",
        .about = "Examines a host, or all of them and the fabrics: virtual functions, IOMMU, huge pages, the hook, versions.\n"
                 "Tells for each what was found and what to do. Exit status 1 where something fails; a warning is none.\n"
                 "With --selftest small clusters of two tenants are made on hosts, looked at from inside, and removed.",
        .examples = "weft doctor n1\n"
                    "weft doctor --selftest --hosts 'n[1-2]' --image mpi",
        .max_args = 1,
        .names = WEFT_NAMES_HOSTS,
        .options = options,
        .run = run,
    },
    { 0 },
};
