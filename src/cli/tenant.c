/* weft tenant: who pays, and how much they may have. */
#include "size.h"
#include "table.h"
#include "verbs.h"

static char *quota[8], *priority_max, *share, *devices;

/* In the order of the names below. */
static const GOptionEntry tenant_options[] = {
    { "clusters", 0, 0, G_OPTION_ARG_STRING, &quota[0], "at most so many clusters; none: no limit", "N" },
    { "nodes", 0, 0, G_OPTION_ARG_STRING, &quota[1], "nodes", "N" },
    { "cores", 0, 0, G_OPTION_ARG_STRING, &quota[2], "cores", "N" },
    { "memory", 0, 0, G_OPTION_ARG_STRING, &quota[3], "memory: 512G, 4T", "SIZE" },
    { "gpus", 0, 0, G_OPTION_ARG_STRING, &quota[4], "GPUs", "N" },
    { "vfs", 0, 0, G_OPTION_ARG_STRING, &quota[5], "virtual functions of the fabric", "N" },
    { "storage", 0, 0, G_OPTION_ARG_STRING, &quota[6], "bytes of disks, checkpoints and clones: 4T", "SIZE" },
    { "templates", 0, 0, G_OPTION_ARG_STRING, &quota[7], "bytes of templates made for its nodes: 128G", "SIZE" },
    { "priority-max", 0, 0, G_OPTION_ARG_STRING, &priority_max,
      "priority of its clusters, unless an operator asks for them (0)", "N" },
    { "share", 0, 0, G_OPTION_ARG_STRING, &share, "its weight beside other tenants where clusters wait (1)", "NUMBER" },
    { "devices", 0, 0, G_OPTION_ARG_STRING, &devices,
      "devices that its nodes may have whole: passthrough, gpu, with commas between; none unless granted", "KINDS" },
    { NULL },
};

static const char *const quota_names[] = { "clusters", "nodes", "cores", "memory", "gpus", "vfs", "storage", "templates" };
G_STATIC_ASSERT(G_N_ELEMENTS(quota_names) == G_N_ELEMENTS(quota));

static gboolean
is_size(const char *name)
{
    return strcmp(name, "memory") == 0 || strcmp(name, "storage") == 0 || strcmp(name, "templates") == 0;
}

static json_t *
quota_value(const char *name, const char *text, GError **error)
{
    if (strcmp(text, "none") == 0)
        return json_null();
    guint64 number = 0;
    gboolean size = is_size(name);
    if (size ? weft_size_parse(text, &number, error) : g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT64, &number, NULL))
        return json_integer((json_int_t)number);
    if (size)
        g_prefix_error(error, "--%s: ", name);
    else
        weft_cli_set_usage(error, "--%s %s: write a number, or none for no limit", name, text);
    return NULL;
}

static json_t *
make_quota(GError **error)
{
    json_t *object = json_object();
    for (guint i = 0; i < G_N_ELEMENTS(quota); i++) {
        json_t *value = quota[i] ? quota_value(quota_names[i], quota[i], error) : NULL;
        if (quota[i] && !value) {
            json_decref(object);
            return NULL;
        }
        if (value)
            json_object_set_new(object, quota_names[i], value);
    }
    return object;
}

static gboolean
add_priority_max(json_t *body, GError **error)
{
    gint64 number = 0;
    if (!priority_max)
        return TRUE;
    if (!g_ascii_string_to_signed(priority_max, 10, G_MININT, G_MAXINT, &number, NULL)) {
        weft_cli_set_usage(error, "--priority-max %s: write a whole number, such as 100", priority_max);
        return FALSE;
    }
    json_object_set_new(body, "priority_max", json_integer(number));
    return TRUE;
}

static gboolean
add_share(json_t *body, GError **error)
{
    char *end = NULL;
    double number = share ? g_ascii_strtod(share, &end) : 0;
    json_t *value = share && *share && !*end ? json_real(number) : NULL;
    if (value)
        json_object_set_new(body, "share", value);
    else if (share)
        weft_cli_set_usage(error, "--share %s: write a number, such as 2.5", share);
    return value || !share;
}

/* All that it is granted; weftd knows which kinds there are. */
static void
add_devices(json_t *body)
{
    if (!devices)
        return;
    gboolean none = strcmp(devices, "none") == 0;
    g_auto(GStrv) words = g_strsplit(none ? "" : devices, ",", -1);
    json_t *kinds = json_array();
    for (guint i = 0; words[i]; i++)
        json_array_append_new(kinds, json_string(g_strstrip(words[i])));
    json_object_set_new(body, "devices", kinds);
}

/* What the options say of a tenant; NULL: one of them is wrong. */
static json_t *
make_tenant(GError **error)
{
    json_t *limits = make_quota(error);
    if (!limits)
        return NULL;
    json_t *body = json_object();
    if (json_object_size(limits))
        json_object_set(body, "quota", limits);
    json_decref(limits);
    add_devices(body);
    if (add_priority_max(body, error) && add_share(body, error))
        return body;
    json_decref(body);
    return NULL;
}

/* Sends the body and releases it; prints the tenant that comes back. */
static gboolean
send_tenant(WeftCli *cli, const char *method, const char *path, json_t *body, const char *done, GError **error)
{
    g_auto(WeftResponse) response = { 0 };
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ method, path, body }, &response, error);
    json_decref(body);
    if (!ok)
        return FALSE;
    g_autofree char *name = weft_cli_field(response.body, "name");
    if (cli->json)
        weft_cli_print_json(g_steal_pointer(&response.body));
    else
        printf("tenant %s is %s\n", name, done);
    return TRUE;
}

static gboolean
run_add(WeftCli *cli, char **args, GError **error)
{
    json_t *body = make_tenant(error);
    if (!body)
        return FALSE;
    json_object_set_new(body, "name", json_string(args[0]));
    if (send_tenant(cli, "POST", "/v1/tenants", body, "added", error))
        return TRUE;
    weft_cli_blame(error, "tenant", args[0]);
    return FALSE;
}

static gboolean
run_set(WeftCli *cli, char **args, GError **error)
{
    json_t *body = make_tenant(error);
    if (!body)
        return FALSE;
    if (json_object_size(body) == 0) {
        json_decref(body);
        weft_cli_set_usage(error, "tenant set: nothing to set: give a quota, for example --nodes 64");
        return FALSE;
    }
    g_autofree char *path = weft_client_path("/v1/tenants", args[0]);
    if (send_tenant(cli, "PATCH", path, body, "changed", error))
        return TRUE;
    weft_cli_blame(error, "tenant", args[0]);
    return FALSE;
}

static char *
used_of(json_t *tenant, const char *name)
{
    json_t *used = json_object_get(tenant, "used"), *limit = json_object_get(tenant, "quota");
    gboolean size = is_size(name);
    g_autofree char *left = size ? weft_cli_size_field(used, name) : weft_cli_field(used, name);
    g_autofree char *right = size ? weft_cli_size_field(limit, name) : weft_cli_field(limit, name);
    return g_strconcat(left, "/", right, NULL);
}

static char *
devices_of(json_t *tenant)
{
    g_autoptr(GString) text = g_string_new(NULL);
    json_t *kinds = json_object_get(tenant, "devices"), *kind;
    size_t i;
    json_array_foreach (kinds, i, kind)
        g_string_append_printf(text, "%s%s", i ? "," : "", json_string_value(kind));
    return text->len ? g_strdup(text->str) : g_strdup("none");
}

static gboolean
run_ls(WeftCli *cli, char **args, GError **error)
{
    json_t *tenants = weft_client_list(cli->client, "/v1/tenants", error);
    if (!tenants)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(tenants);
        return TRUE;
    }
    g_autoptr(WeftTable) table = weft_table_new("NAME|>CLUSTERS|>NODES|>CORES|>MEMORY|>GPUS|>VFS|>STORAGE|>TEMPLATES|DEVICES");
    size_t i;
    json_t *tenant;
    json_array_foreach (tenants, i, tenant) {
        weft_table_take(table, weft_cli_field(tenant, "name"));
        for (guint q = 0; q < G_N_ELEMENTS(quota_names); q++)
            weft_table_take(table, used_of(tenant, quota_names[q]));
        weft_table_take(table, devices_of(tenant));
    }
    weft_table_print(table, stdout);
    json_decref(tenants);
    return TRUE;
}

/* Without a name: the caller's own. */
static char *
own_tenant(WeftCli *cli, GError **error)
{
    if (cli->tenant)
        return g_strdup(cli->tenant);
    json_t *self = weft_client_get(cli->client, "/v1/whoami", error);
    if (!self)
        return NULL;
    char *tenant = g_strdup(json_string_value(json_object_get(self, "tenant")));
    json_decref(self);
    if (!tenant)
        weft_cli_set_usage(error, "tenant show: you belong to no tenant: name one");
    return tenant;
}

static gboolean
run_show(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *name = args[0] ? g_strdup(args[0]) : own_tenant(cli, error);
    if (!name)
        return FALSE;
    g_autofree char *path = weft_client_path("/v1/tenants", name);
    json_t *tenant = weft_client_get(cli->client, path, error);
    if (!tenant) {
        weft_cli_blame(error, "tenant", name);
        return FALSE;
    }
    if (cli->json) {
        weft_cli_print_json(tenant);
        return TRUE;
    }
    printf("tenant %s\n", name);
    for (guint i = 0; i < G_N_ELEMENTS(quota_names); i++) {
        g_autofree char *used = used_of(tenant, quota_names[i]);
        printf("  %-12s  %s\n", quota_names[i], used);
    }
    printf("  %-12s  %" G_GINT64_FORMAT "\n", "priority_max", weft_cli_number(tenant, "priority_max"));
    printf("  %-12s  %g\n", "share", json_number_value(json_object_get(tenant, "share")));
    g_autofree char *granted = devices_of(tenant);
    printf("  %-12s  %s\n", "devices", granted);
    json_decref(tenant);
    return TRUE;
}

static gboolean
run_rm(WeftCli *cli, char **args, GError **error)
{
    return weft_cli_remove(cli, &(WeftRemoval){ "tenant", "/v1/tenants", "is removed" }, args, error);
}

const WeftVerb weft_tenant_verbs[] = {
    {
        .name = "tenant add",
        .arguments = "NAME",
        .summary = "add a tenant",
        .about = "Adds a tenant with its quota; what is not named is as the site has it (tenant_defaults in weft.yaml), and "
                 "none is\n"
                 "no limit. What its clusters wait for is shared among tenants by their weights.\n"
                 "Its nodes get whole adapters and GPUs only where these are granted (--devices).",
        .examples = "weft tenant add acme --nodes 64 --memory 1T\n"
                    "weft tenant add lab",
        .min_args = 1,
        .max_args = 1,
        .options = tenant_options,
        .run = run_add,
    },
    {
        .name = "tenant ls",
        .arguments = "",
        .summary = "list tenants with what they use of their quota",
        .examples = "weft tenant ls\n"
                    "weft tenant ls --json",
        .run = run_ls,
    },
    {
        .name = "tenant show",
        .arguments = "[NAME]",
        .summary = "show a tenant, or your own",
        .examples = "weft tenant show\n"
                    "weft tenant show acme",
        .max_args = 1,
        .names = WEFT_NAMES_TENANTS,
        .run = run_show,
    },
    {
        .name = "tenant set",
        .arguments = "NAME",
        .summary = "change a tenant's quota and weight",
        .about = "Changes what is named; none removes a limit. --devices names all that is granted from then on: nodes that\n"
                 "run keep what they have, and new ones get no more of what was taken back.",
        .examples = "weft tenant set acme --nodes 128 --share 2\n"
                    "weft tenant set acme --gpus none --devices gpu",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_TENANTS,
        .options = tenant_options,
        .run = run_set,
    },
    {
        .name = "tenant rm",
        .arguments = "NAME",
        .summary = "remove a tenant that has no clusters",
        .examples = "weft tenant rm acme\n"
                    "weft tenant rm lab --json",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_TENANTS,
        .run = run_rm,
    },
    { 0 },
};
