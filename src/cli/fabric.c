/* weft fabric: what the fabrics look like, who is in what, and a map from a file where the manager gives none. */
#include "table.h"
#include "verbs.h"

#include "file.h"

#define MAP_MAX (16 << 20) /* as much as weftd takes at once */

static char *fabric;
static gboolean slurm, clear, verify, dry_run, yes;

#define FABRIC_OPTION                                                                                                          \
    {                                                                                                                          \
        "fabric", 0, 0, G_OPTION_ARG_STRING, &fabric, "which one, where there are several", "NAME"                             \
    }

static const GOptionEntry options[] = { FABRIC_OPTION, { NULL } };
static const GOptionEntry partitions_options[] = {
    FABRIC_OPTION,
    { "verify", 0, 0, G_OPTION_ARG_NONE, &verify, "read the ports' tables back and compare", NULL },
    { NULL },
};
static const GOptionEntry topology_options[] = {
    FABRIC_OPTION,
    { "slurm", 0, 0, G_OPTION_ARG_NONE, &slurm, "print a topology.conf for Slurm", NULL },
    { NULL },
};
static const GOptionEntry import_options[] = {
    FABRIC_OPTION,
    { "clear", 0, 0, G_OPTION_ARG_NONE, &clear, "take back what was imported", NULL },
    { NULL },
};

static const GOptionEntry release_options[] = {
    { "dry-run", 0, 0, G_OPTION_ARG_NONE, &dry_run, "only show what would be removed", NULL },
    { "yes", 'y', 0, G_OPTION_ARG_NONE, &yes, "do not ask", NULL },
    { NULL },
};

/* The fabric that was named, or the only one there is. */
static char *
choose_fabric(WeftCli *cli, GError **error)
{
    if (fabric)
        return g_strdup(fabric);
    json_auto_t *fabrics = weft_client_list(cli->client, "/v1/fabrics", error);
    if (!fabrics)
        return NULL;
    if (json_array_size(fabrics) == 1)
        return weft_cli_field(json_array_get(fabrics, 0), "name");
    g_autoptr(GString) names = g_string_new(NULL);
    size_t i;
    json_t *item;
    json_array_foreach (fabrics, i, item) {
        g_autofree char *name = weft_cli_field(item, "name");
        g_string_append_printf(names, "%s%s", i ? ", " : "", name);
    }
    weft_cli_set_usage(error, "which fabric? give --fabric NAME; there are: %s", names->len ? names->str : "none");
    return NULL;
}

static char *
fabric_path(WeftCli *cli, const char *suffix, GError **error)
{
    g_autofree char *name = choose_fabric(cli, error);
    g_autofree char *base = name ? weft_client_path("/v1/fabrics", name) : NULL;
    return base ? g_strconcat(base, suffix, NULL) : NULL;
}

static json_t *
ask(WeftCli *cli, const char *suffix, GError **error)
{
    g_autofree char *path = fabric_path(cli, suffix, error);
    return path ? weft_client_get(cli->client, path, error) : NULL;
}

/* "100G"; "-" where it is not known. */
static char *
rate_field(json_t *object)
{
    gint64 rate = weft_cli_number(object, "rate");
    return rate > 0 ? g_strdup_printf("%gG", (double)rate / 1e9) : g_strdup("-");
}

/* --- show --- */

static const struct {
    const char *field, *yes, *no;
} abilities[] = {
    { "master", "master", "not the master" },
    { "sweeping", "sweeping", NULL },
    { "enforces", NULL, "switches enforce nothing" },
    { "keeps_indices", NULL, "P_Keys may move in the tables" },
    { "qos", "qos", NULL },
    { "virtualization", "virtual ports", NULL },
};

static void
print_manager(json_t *report)
{
    g_autofree char *name = weft_cli_field(report, "fabric");
    g_autofree char *trouble = weft_cli_field(report, "trouble");
    json_t *manager = json_object_get(report, "manager");
    if (!json_is_object(manager)) {
        printf("fabric %s: no manager answers: %s\n", name, trouble);
        return;
    }
    if (g_strcmp0(json_string_value(json_object_get(manager, "way")), "none") == 0) {
        printf("fabric %s: nobody manages it (driver none): no partition is programmed, and nodes get no port of it;\n"
               "  clusters use the path bridge, where their VXLANs keep them apart\n",
               name);
        return;
    }
    g_autofree char *version = weft_cli_field(manager, "version"), *way = weft_cli_field(manager, "way");
    g_autofree char *where = weft_cli_field(manager, "where"), *routing = weft_cli_field(manager, "routing");
    printf("fabric %s: %s, by %s at %s", name, version, way, where);
    for (gsize i = 0; i < G_N_ELEMENTS(abilities); i++) {
        gboolean is = json_is_true(json_object_get(manager, abilities[i].field));
        const char *word = is ? abilities[i].yes : abilities[i].no;
        if (word)
            printf(", %s", word);
    }
    if (json_is_string(json_object_get(manager, "routing")))
        printf(", routing %s", routing);
    putchar('\n');
    if (json_is_string(json_object_get(report, "trouble")))
        printf("  its map cannot be had: %s\n", trouble);
}

/* The first line of a switch has its name. */
static void
add_name(WeftTable *table, json_t *node, gboolean *ret_named)
{
    weft_table_take(table, *ret_named ? g_strdup("") : weft_cli_field(node, "name"));
    *ret_named = TRUE;
}

static void
add_adapters(WeftTable *table, json_t *node, gboolean *ret_named)
{
    size_t i;
    json_t *adapter;
    json_array_foreach (json_object_get(node, "adapters"), i, adapter) {
        add_name(table, node, ret_named);
        weft_table_take(table, weft_cli_field(adapter, "port"));
        gboolean known = json_is_string(json_object_get(adapter, "host"));
        weft_table_take(table, weft_cli_field(adapter, known ? "host" : "description"));
        weft_table_take(table, weft_cli_field(adapter, "hca"));
        weft_table_take(table, weft_cli_field(adapter, "guid"));
        weft_table_take(table, rate_field(adapter));
        weft_table_take(table, g_strdup(json_is_true(json_object_get(adapter, "active")) ? "up" : "down"));
    }
}

static void
add_links(WeftTable *table, json_t *node, gboolean *ret_named)
{
    size_t i;
    json_t *link;
    json_array_foreach (json_object_get(node, "links"), i, link) {
        add_name(table, node, ret_named);
        g_autofree char *name = weft_cli_field(link, "switch");
        weft_table_take(table, weft_cli_count(weft_cli_number(link, "cables"), "cable"));
        weft_table_take(table, g_strdup_printf("switch %s", name));
        weft_table_take(table, g_strdup("-"));
        weft_table_take(table, g_strdup("-"));
        weft_table_take(table, rate_field(link));
        weft_table_take(table, g_strdup("-"));
    }
}

static void
print_texts(json_t *texts, const char *title)
{
    size_t i;
    json_t *text;
    if (json_array_size(texts) > 0)
        printf("\n%s\n", title);
    json_array_foreach (texts, i, text) {
        g_autofree char *clean = weft_cli_clean(json_string_value(text));
        printf("  %s\n", clean);
    }
}

static void
print_tree(json_t *report)
{
    print_manager(report);
    const char *source = json_string_value(json_object_get(report, "source"));
    if (!source)
        return;
    if (strcmp(source, "import") == 0)
        printf("  as it was imported from a file\n");
    g_autoptr(WeftTable) table = weft_table_new("SWITCH|>PORT|TO|ADAPTER|GUID|>RATE|!STATE");
    size_t i;
    json_t *node;
    json_array_foreach (json_object_get(report, "switches"), i, node) {
        gboolean named = FALSE;
        add_adapters(table, node, &named);
        add_links(table, node, &named);
    }
    weft_table_print(table, stdout);
    print_texts(json_object_get(report, "no_port"), "Adapters of hosts that are not on the fabric:");
    print_texts(json_object_get(report, "no_host"), "Ports that are no host's:");
}

static gboolean
run_show(WeftCli *cli, char **args, GError **error)
{
    json_t *report = ask(cli, "", error);
    if (!report)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(report);
        return TRUE;
    }
    print_tree(report);
    json_decref(report);
    return TRUE;
}

/* --- partitions --- */

static char *
owner_of(json_t *partition)
{
    if (!json_is_true(json_object_get(partition, "ours")))
        return g_strdup("the site's own");
    g_autofree char *shared = weft_cli_field(partition, "shared");
    if (json_is_string(json_object_get(partition, "shared")))
        return g_strdup_printf("shared: %s", shared);
    if (!json_is_string(json_object_get(partition, "cluster")))
        return g_strdup(json_is_true(json_object_get(partition, "held")) ? "held: not known here" : "-");
    g_autofree char *tenant = weft_cli_field(partition, "tenant"), *cluster = weft_cli_field(partition, "cluster");
    return g_strdup_printf("%s/%s", tenant, cluster);
}

static char *
member_name(json_t *member)
{
    g_autofree char *host = weft_cli_field(member, "host"), *guid = weft_cli_field(member, "guid");
    if (!json_is_string(json_object_get(member, "host")))
        return g_steal_pointer(&guid);
    if (!json_is_string(json_object_get(member, "node")))
        return g_steal_pointer(&host);
    g_autofree char *node = weft_cli_field(member, "node");
    return g_strdup_printf("%s on %s", node, host);
}

static void
add_members(WeftTable *table, json_t *partition)
{
    size_t i;
    json_t *member;
    gboolean first = TRUE;
    json_array_foreach (json_object_get(partition, "members"), i, member) {
        weft_table_take(table, first ? weft_cli_field(partition, "pkey") : g_strdup(""));
        weft_table_take(table, first ? owner_of(partition) : g_strdup(""));
        weft_table_take(table, first ? weft_cli_field(partition, "name") : g_strdup(""));
        weft_table_take(table, first ? weft_cli_field(partition, "sl") : g_strdup(""));
        weft_table_take(table, member_name(member));
        weft_table_take(table, weft_cli_field(member, "membership"));
        first = FALSE;
    }
    if (!first)
        return;
    weft_table_take(table, weft_cli_field(partition, "pkey"));
    weft_table_take(table, owner_of(partition));
    weft_table_take(table, weft_cli_field(partition, "name"));
    weft_table_take(table, weft_cli_field(partition, "sl"));
    weft_table_take(table, g_strdup("-"));
    weft_table_take(table, g_strdup("-"));
}

static char *
join(json_t *texts, const char *between)
{
    g_autoptr(GString) joined = g_string_new(NULL);
    size_t i;
    json_t *text;
    json_array_foreach (texts, i, text)
        g_string_append_printf(joined, "%s%s", i ? between : "", json_string_value(text));
    return joined->len ? weft_cli_clean(joined->str) : g_strdup("-");
}

/* Those that differ, or the others. Returns how many. */
static guint
add_ports(WeftTable *table, json_t *ports, gboolean different)
{
    guint n = 0;
    size_t i;
    json_t *port;
    json_array_foreach (ports, i, port) {
        json_t *differences = json_object_get(port, "differences");
        if ((json_array_size(differences) > 0) != different)
            continue;
        n++;
        weft_table_take(table, weft_cli_field(port, "host"));
        weft_table_take(table, weft_cli_field(port, "hca"));
        weft_table_take(table, weft_cli_field(port, "guid"));
        weft_table_take(table, join(json_object_get(port, "pkeys"), ","));
        weft_table_take(table, different ? join(differences, "; ") : g_strdup("as the manager says"));
    }
    return n;
}

static gboolean
verify_partitions(WeftCli *cli, GError **error)
{
    json_t *report = ask(cli, "/tables", error);
    if (!report)
        return FALSE;
    g_autoptr(WeftTable) table = weft_table_new("HOST|ADAPTER|GUID|PKEYS|FOUND");
    cli->status = add_ports(table, json_object_get(report, "ports"), TRUE) > 0;
    add_ports(table, json_object_get(report, "ports"), FALSE);
    if (cli->json) {
        weft_cli_print_json(report);
        return TRUE;
    }
    weft_table_print(table, stdout);
    json_decref(report);
    return TRUE;
}

static gboolean
run_partitions(WeftCli *cli, char **args, GError **error)
{
    if (verify)
        return verify_partitions(cli, error);
    json_t *report = ask(cli, "/partitions", error);
    if (!report)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(report);
        return TRUE;
    }
    g_autoptr(WeftTable) table = weft_table_new("PKEY|WHOSE|NAME|>SL|MEMBER|MEMBERSHIP");
    size_t i;
    json_t *partition;
    json_array_foreach (json_object_get(report, "partitions"), i, partition)
        add_members(table, partition);
    weft_table_print(table, stdout);
    json_decref(report);
    return TRUE;
}

/* --- topology --- */

static void
print_leaves(json_t *report)
{
    json_t *leaves = json_object_get(report, "leaves"), *leaf, *item;
    size_t i, j;
    g_autoptr(WeftTable) table = weft_table_new("LEAF|HOSTS|DISTANCES");
    json_array_foreach (leaves, i, leaf) {
        g_autoptr(GString) hosts = g_string_new(NULL);
        g_autoptr(GString) distances = g_string_new(NULL);
        json_array_foreach (json_object_get(leaf, "hosts"), j, item)
            g_string_append_printf(hosts, "%s%s", j ? "," : "", json_string_value(item));
        json_array_foreach (json_object_get(leaf, "distances"), j, item) {
            g_autofree char *cables =
                json_is_integer(item) ? g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(item)) : g_strdup("-");
            g_string_append_printf(distances, "%s%s", j ? " " : "", cables);
        }
        weft_table_take(table, weft_cli_field(leaf, "switch"));
        weft_table_take(table, weft_cli_clean(hosts->str));
        weft_table_take(table, g_strdup(distances->str));
    }
    weft_table_print(table, stdout);
}

static gboolean
run_topology(WeftCli *cli, char **args, GError **error)
{
    json_t *report = ask(cli, "/topology", error);
    if (!report)
        return FALSE;
    const char *text = json_string_value(json_object_get(report, "slurm"));
    if (cli->json) {
        weft_cli_print_json(report);
        return TRUE;
    }
    if (!text)
        weft_cli_set_usage(error, "there is no map of the fabric: import one with weft fabric import FILE");
    else if (slurm)
        fputs(text, stdout);
    else
        print_leaves(report);
    gboolean ok = text != NULL;
    json_decref(report);
    return ok;
}

/* --- import --- */

static gboolean
forget(WeftCli *cli, const char *path, GError **error)
{
    if (!weft_client_call(cli->client, &(WeftCall){ .method = "DELETE", .path = path }, NULL, error))
        return FALSE;
    if (!cli->json)
        printf("the imported map is gone\n");
    return TRUE;
}

static gboolean
import(WeftCli *cli, const char *path, const char *file, GError **error)
{
    gsize length = 0;
    g_autofree char *text = weft_file_read(file, MAP_MAX, &length, error);
    if (!text)
        return FALSE;
    g_auto(WeftResponse) response = { 0 };
    if (!weft_client_call(cli->client, &(WeftCall){ .method = "POST", .path = path, .raw = text, .raw_length = length },
                          &response, error)) {
        weft_cli_blame(error, "file", weft_cli_file_name(file));
        return FALSE;
    }
    if (cli->json) {
        weft_cli_print_json(json_incref(response.body));
        return TRUE;
    }
    g_autofree char *switches = weft_cli_field(response.body, "switches");
    g_autofree char *adapters = weft_cli_field(response.body, "adapters");
    printf("imported: switches %s, adapters %s; weft fabric show tells what could be matched\n", switches, adapters);
    return TRUE;
}

static gboolean
run_import(WeftCli *cli, char **args, GError **error)
{
    if (!args[0] == !clear) {
        weft_cli_set_usage(error, "fabric import: give a file, or --clear to take back what was imported");
        return FALSE;
    }
    g_autofree char *path = fabric_path(cli, "/map", error);
    return path && (clear ? forget(cli, path, error) : import(cli, path, args[0], error));
}

/* --- release --- */

static json_t *
find_held(json_t *report, const char *pkey, GError **error)
{
    size_t i;
    json_t *partition;
    json_array_foreach (json_object_get(report, "partitions"), i, partition)
        if (g_strcmp0(json_string_value(json_object_get(partition, "pkey")), pkey) == 0 &&
            json_is_true(json_object_get(partition, "held")))
            return partition;
    weft_cli_set_usage(error, "fabric release: no partition %s is held there; weft fabric partitions shows which are", pkey);
    return NULL;
}

static gboolean
release(WeftCli *cli, const char *name, const char *pkey, json_t *partition, GError **error)
{
    g_autofree char *mark = weft_cli_field(partition, "name");
    gboolean whole =
        !json_is_string(json_object_get(partition, "cluster")) && !json_is_string(json_object_get(partition, "shared"));
    g_autofree char *question =
        whole ? g_strdup_printf("remove partition %s (%s) with its %zu members from fabric %s", pkey, mark,
                                json_array_size(json_object_get(partition, "members")), name)
              : g_strdup_printf("remove all ports that are of no host from partition %s (%s) of fabric %s", pkey, mark, name);
    if (dry_run) {
        printf("would %s\n", question);
        return TRUE;
    }
    if (!yes && !weft_cli_confirm(question, error))
        return FALSE;
    g_autofree char *base = weft_client_path("/v1/fabrics", name);
    g_autofree char *path = g_strdup_printf("%s/partitions/%s?name=%s", base, pkey, mark);
    if (!weft_client_call(cli->client, &(WeftCall){ .method = "DELETE", .path = path }, NULL, error))
        return FALSE;
    if (!cli->json)
        printf("partition %s (%s) is released; weft removes %s\n", pkey, mark, whole ? "it" : "ports of no host");
    return TRUE;
}

static gboolean
run_release(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *base = weft_client_path("/v1/fabrics", args[0]);
    g_autofree char *path = g_strconcat(base, "/partitions", NULL);
    json_auto_t *report = weft_client_get(cli->client, path, error);
    json_t *partition = report ? find_held(report, args[1], error) : NULL;
    return partition && release(cli, args[0], args[1], partition, error);
}

const WeftVerb weft_fabric_verbs[] = {
    {
        .name = "fabric show",
        .arguments = "",
        .summary = "show a fabric: its manager, switches, and what hangs on them",
        .about = "Shows the manager's state, the switches with the hosts and switches at their ports, and what could not be "
                 "matched:\n"
                 "adapters of hosts that are not on the fabric, and ports that are no host's.",
        .examples = "weft fabric show\n"
                    "weft fabric show --fabric ib1 --json",
        .options = options,
        .run = run_show,
    },
    {
        .name = "fabric partitions",
        .arguments = "",
        .summary = "show who is in which partition",
        .about = "Lists the partitions as the manager has them, the site's own as well, with the hosts and nodes in them.\n"
                 "With --verify reads the P_Key tables back from the hosts' ports and tells where they are not as the manager\n"
                 "says; exit status 1 where one is not.",
        .examples = "weft fabric partitions\n"
                    "weft fabric partitions --verify",
        .options = partitions_options,
        .run = run_partitions,
    },
    {
        .name = "fabric topology",
        .arguments = "",
        .summary = "show leaves and distances, or write Slurm's topology.conf",
        .about = "Lists the switches that hosts hang on, and how many cables are between them; \"-\" is no way.\n"
                 "With --slurm prints a topology.conf for TopologyPlugin=topology/tree.",
        .examples = "weft fabric topology\n"
                    "weft fabric topology --slurm > /etc/slurm/topology.conf",
        .options = topology_options,
        .run = run_topology,
    },
    {
        .name = "fabric import",
        .arguments = "FILE | --clear",
        .summary = "take a fabric's map from a file that ibnetdiscover wrote",
        .about = "Keeps the map of a fabric whose manager gives none: ibnetdiscover > FILE.\n"
                 "What the manager tells itself goes before it.",
        .examples = "weft fabric import ib0.net\n"
                    "weft fabric import --clear",
        .max_args = 1,
        .options = import_options,
        .run = run_import,
    },
    {
        .name = "fabric release",
        .arguments = "FABRIC PKEY",
        .summary = "remove a partition that weft leaves alone",
        .about =
            "Removes a partition that carries weft's mark and that no record of weft's store knows. weft leaves such a one "
            "alone,\n"
            "since it may be in use: after weftd was started with a wrong or an older store, for instance. Of a cluster's\n"
            "partition that is held for ports of no host, these ports are removed. Asks first.",
        .examples = "weft fabric release --dry-run ib0 0x1003\n"
                    "weft fabric release --yes ib0 0x1003",
        .min_args = 2,
        .max_args = 2,
        .options = release_options,
        .run = run_release,
    },
    { 0 },
};
