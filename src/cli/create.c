/* weft create: a specification from flags or a file, sent once, and the wait until it is ready. */
#include "await.h"
#include "clock.h"
#include "errors.h"
#include "matrix.h"
#include "placement.h"
#include "size.h"
#include "verbs.h"

#include <limits.h>

#define UNSET INT_MIN
#define TRANSPARENT "transparent"
#define NO_KEY "none"
#define KEYS_MAX (64 << 10)      /* bytes of a file of public keys, */
#define USER_DATA_MAX (64 << 10) /* and of user-data */

static int count = UNSET, cores = UNSET, gpus = UNSET, rails = UNSET, priority = UNSET;
static char *memory, *pages, *disk, *image, *path, *numa, *fabric, *shm, *bandwidth, *file, *timeout;
static char *hosts, *layout, *pattern, *matrix, *walltime, *user_data;
static char **labels, **ssh_keys, **shared, **apart, **groups;
static gboolean no_wait, slurm, exclusive, preemptible, cold, forked, dry_run;

/* clang-format off */
static const GOptionEntry options[] = {
    { "nodes", 'n', 0, G_OPTION_ARG_INT, &count, "how many nodes", "N" },
    { "cores", 'c', 0, G_OPTION_ARG_INT, &cores, "cores of each node (1)", "N" },
    { "memory", 'm', 0, G_OPTION_ARG_STRING, &memory, "memory of each node: 8G, 512Mi (1G)", "SIZE" },
    { "image", 0, 0, G_OPTION_ARG_STRING, &image, "what the nodes boot (default)", "NAME" },
    { "path", 0, 0, G_OPTION_ARG_STRING, &path, "how fabric traffic flows (auto)", "auto|sriov|passthrough|bridge" },
    { "gpus", 0, 0, G_OPTION_ARG_INT, &gpus, "GPUs of each node (0)", "N" },
    { "rails", 0, 0, G_OPTION_ARG_INT, &rails, "fabric devices of each node (1)", "N" },
    { "pages", 0, 0, G_OPTION_ARG_STRING, &pages, "size of the pages: 2M, 1G, transparent (the largest that fits)", "SIZE" },
    { "numa", 0, 0, G_OPTION_ARG_STRING, &numa, "a node's cores, memory and devices of one NUMA node (preferred)", "required|preferred|none" },
    { "group", 'g', 0, G_OPTION_ARG_STRING_ARRAY, &groups,
      "a group of nodes, instead of -n: gpu:4,cores=8,gpus=1; may be repeated; what it does not name is as the options say", "NAME:N[,FIELD=VALUE…]" },
    { "disk", 0, 0, G_OPTION_ARG_STRING, &disk, "a node's own disk, where its image can be written to (as large as the image)", "SIZE" },
    { "shm", 0, 0, G_OPTION_ARG_STRING, &shm, "memory that the nodes on one host share: 64M (none)", "SIZE" },
    { "shared", 0, 0, G_OPTION_ARG_STRING_ARRAY, &shared, "joins this partition beside its own; may be repeated", "NAME" },
    { "fabric", 0, 0, G_OPTION_ARG_STRING, &fabric, "only on this fabric", "NAME" },
    { "bandwidth", 0, 0, G_OPTION_ARG_STRING, &bandwidth, "of its hosts' links, guaranteed to each node on each rail: 10G (none)", "RATE" },
    { "label", 'l', 0, G_OPTION_ARG_STRING_ARRAY, &labels, "only on hosts with this label; may be repeated", "KEY=VALUE" },
    { "hosts", 0, 0, G_OPTION_ARG_STRING, &hosts, "only on these hosts: n[1-4]; for operators", "HOSTLIST" },
    { "layout", 0, 0, G_OPTION_ARG_STRING, &layout, "near each other, or over many switches and hosts (compact)", "compact|spread" },
    { "exclusive", 0, 0, G_OPTION_ARG_NONE, &exclusive, "its hosts take nodes of no other cluster", NULL },
    { "apart", 0, 0, G_OPTION_ARG_STRING_ARRAY, &apart, "on no host of that cluster; may be repeated", "NAME" },
    { "pattern", 0, 0, G_OPTION_ARG_STRING, &pattern, "which ranks talk to which: those are near each other (none)", "none|all|ring|stencil2d|stencil3d" },
    { "matrix", 0, 0, G_OPTION_ARG_FILENAME, &matrix, "the same in numbers: a row for each rank, what it sends to each; - is the standard input", "FILE" },
    { "priority", 0, 0, G_OPTION_ARG_INT, &priority, "in the queue: more is sooner, less than 0 lets others go first (0)", "N" },
    { "time", 't', 0, G_OPTION_ARG_STRING, &walltime, "it is removed so long after its nodes were placed: 12h, 90m (without end)", "TIME" },
    { "preemptible", 0, 0, G_OPTION_ARG_NONE, &preemptible, "may be preempted; requeued afterwards", NULL },
    { "from-template", 0, 0, G_OPTION_ARG_NONE, &forked, "nodes are forked from a template of their image, where there is one (the default)", NULL },
    { "cold", 0, 0, G_OPTION_ARG_NONE, &cold, "each node boots for itself", NULL },
    { "ssh-key", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &ssh_keys,
      "public key that may log in; may be repeated; none: no key (those in ~/.ssh)", "FILE" },
    { "user-data", 0, 0, G_OPTION_ARG_FILENAME, &user_data, "for cloud-init in the nodes", "FILE" },
    { "slurm", 0, 0, G_OPTION_ARG_NONE, &slurm, "the nodes form a Slurm cluster too", NULL },
    { "file", 'f', 0, G_OPTION_ARG_FILENAME, &file, "specification in YAML or JSON; - is the standard input", "FILE" },
    { "dry-run", 0, 0, G_OPTION_ARG_NONE, &dry_run, "tell where it would be placed and why; nothing is asked for", NULL },
    { "no-wait", 0, 0, G_OPTION_ARG_NONE, &no_wait, "return once the request is accepted", NULL },
    { "timeout", 0, 0, G_OPTION_ARG_STRING, &timeout, "wait no longer than this: 90s, 10m", "TIME" },
    { NULL },
};
/* clang-format on */

typedef enum { NUMBER, TEXT, SIZE, RATE, TIME, SWITCH, LIST } Kind;

/* A flag that is a field of the specification. */
typedef struct Flag {
    const char *field;
    const char *option;
    Kind kind;
    gconstpointer value; /* where the option is */
} Flag;

/* What belongs to a group of nodes; in a file with several groups it could mean any of them. */
static const Flag group_flags[] = {
    { "count", "-n", NUMBER, &count },      { "cores", "--cores", NUMBER, &cores },  { "gpus", "--gpus", NUMBER, &gpus },
    { "rails", "--rails", NUMBER, &rails }, { "memory", "--memory", SIZE, &memory }, { "pages", "--pages", SIZE, &pages },
    { "image", "--image", TEXT, &image },   { "path", "--path", TEXT, &path },       { "disk", "--disk", SIZE, &disk },
    { "numa", "--numa", TEXT, &numa },
};

static const Flag cluster_flags[] = {
    { "fabric", "--fabric", TEXT, &fabric },
    { "shared", "--shared", LIST, &shared },
    { "slurm", "--slurm", SWITCH, &slurm },
    { "shm", "--shm", SIZE, &shm },
    { "bandwidth", "--bandwidth", RATE, &bandwidth },
    { "hosts", "--hosts", TEXT, &hosts },
    { "layout", "--layout", TEXT, &layout },
    { "exclusive", "--exclusive", SWITCH, &exclusive },
    { "apart", "--apart", LIST, &apart },
    { "pattern", "--pattern", TEXT, &pattern },
    { "priority", "--priority", NUMBER, &priority },
    { "walltime", "--time", TIME, &walltime },
    { "preemptible", "--preemptible", SWITCH, &preemptible },
};

static gboolean
is_given(const Flag *flag)
{
    switch (flag->kind) {
    case NUMBER:
        return *(const int *)flag->value != UNSET;
    case SWITCH:
        return *(const gboolean *)flag->value;
    default:
        return *(gconstpointer *)flag->value != NULL;
    }
}

/* The value as the specification takes it: what has a unit stays a text. NULL: it is not understood. */
static json_t *
value_of(const Flag *flag, const char *text, GError **error)
{
    guint64 number = 0;
    gint64 duration = 0;
    gboolean ok = TRUE;
    if (flag->kind == SIZE)
        ok = strcmp(text, TRANSPARENT) == 0 || weft_size_parse(text, &number, error);
    else if (flag->kind == RATE)
        ok = weft_rate_parse(text, &number, error);
    else if (flag->kind == TIME)
        ok = weft_duration_parse(text, &duration, error);
    if (!ok)
        g_prefix_error(error, "%s: ", flag->option);
    return ok ? json_string(text) : NULL;
}

static json_t *
list_of(char **texts)
{
    json_t *list = json_array();
    for (guint i = 0; texts[i]; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

static gboolean
apply_flag(json_t *to, const Flag *flag, GError **error)
{
    json_t *value;
    if (flag->kind == NUMBER)
        value = json_integer(*(const int *)flag->value);
    else if (flag->kind == SWITCH)
        value = json_true();
    else if (flag->kind == LIST)
        value = list_of(*(char ***)flag->value);
    else
        value = value_of(flag, *(char *const *)flag->value, error);
    return value && json_object_set_new(to, flag->field, value) == 0;
}

/* --- groups --- */

static const Flag *
find_group_flag(const char *field)
{
    for (guint i = 1; i < G_N_ELEMENTS(group_flags); i++) /* the count is before them */
        if (strcmp(group_flags[i].field, field) == 0)
            return &group_flags[i];
    return NULL;
}

static gboolean
add_group_field(json_t *group, const char *text, const char *pair, GError **error)
{
    g_autofree char *field = NULL;
    g_autofree char *value = NULL;
    guint64 number = 0;
    if (!weft_cli_split_pair("--group", pair, &field, &value, error))
        return FALSE;
    const Flag *flag = find_group_flag(field);
    if (!flag) {
        weft_cli_set_usage(error,
                           "--group %s: no field %s; there are cores, gpus, rails, memory, pages, image, path, disk, numa",
                           text, field);
        return FALSE;
    }
    json_t *item = NULL;
    if (flag->kind != NUMBER)
        item = value_of(flag, value, error);
    else if (g_ascii_string_to_unsigned(value, 10, 0, G_MAXINT, &number, NULL))
        item = json_integer((json_int_t)number);
    else
        weft_cli_set_usage(error, "--group %s: %s is a whole number, not %s", text, field, value);
    return item && json_object_set_new(group, field, item) == 0;
}

/* "gpu:4,cores=8,memory=64G": its name, how many, and the fields in which it differs from the flags. */
static gboolean
add_group(json_t *all, const char *text, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", -1);
    g_auto(GStrv) head = g_strsplit(parts[0] ? parts[0] : "", ":", 2);
    guint64 nodes = 0;
    if (g_strv_length(head) != 2 || !*head[0] || !g_ascii_string_to_unsigned(head[1], 10, 0, G_MAXINT, &nodes, NULL)) {
        weft_cli_set_usage(error, "--group %s: write NAME:COUNT and its fields, such as gpu:4,cores=8,gpus=1", text);
        return FALSE;
    }
    json_t *group = json_pack("{s:s, s:I}", "name", head[0], "count", (json_int_t)nodes);
    json_array_append_new(all, group);
    for (guint i = 1; i < G_N_ELEMENTS(group_flags); i++)
        if (is_given(&group_flags[i]) && !apply_flag(group, &group_flags[i], error))
            return FALSE;
    for (guint i = 1; parts[i]; i++)
        if (!add_group_field(group, text, parts[i], error))
            return FALSE;
    return TRUE;
}

static gboolean
apply_groups(json_t *spec, GError **error)
{
    json_t *all = json_array();
    json_object_set_new(spec, "groups", all);
    if (count != UNSET) {
        weft_cli_set_usage(error, "-n: each --group says how many nodes it has; leave it out");
        return FALSE;
    }
    for (guint i = 0; groups[i]; i++)
        if (!add_group(all, groups[i], error))
            return FALSE;
    return TRUE;
}

static gboolean
apply_nodes(json_t *spec, GError **error)
{
    for (guint i = 0; i < G_N_ELEMENTS(group_flags); i++) {
        if (!is_given(&group_flags[i]))
            continue;
        if (json_object_get(spec, "groups")) {
            weft_cli_set_usage(error, "%s: %s has groups, and it could mean any of them; write it there", group_flags[i].option,
                               weft_cli_file_name(file));
            return FALSE;
        }
        if (!apply_flag(spec, &group_flags[i], error))
            return FALSE;
    }
    return TRUE;
}

/* --- the rest --- */

static gboolean
apply_labels(json_t *spec, GError **error)
{
    json_t *all = json_object_get(spec, "labels");
    if (labels && !json_is_object(all)) {
        all = json_object();
        json_object_set_new(spec, "labels", all);
    }
    for (guint i = 0; labels && labels[i]; i++) {
        g_autofree char *key = NULL;
        g_autofree char *value = NULL;
        if (!weft_cli_split_pair("--label", labels[i], &key, &value, error))
            return FALSE;
        json_object_set_new(all, key, json_string(value));
    }
    return TRUE;
}

static gboolean
apply_matrix(json_t *spec, GError **error)
{
    json_t *rows = matrix ? weft_matrix_read(matrix, error) : NULL;
    if (rows)
        json_object_set_new(spec, "matrix", rows);
    return rows || !matrix;
}

/* Each line of a file of public keys is one, as in authorized_keys. */
static gboolean
add_keys(json_t *keys, const char *name, GError **error)
{
    g_autofree char *text = weft_cli_read_text(name, KEYS_MAX, NULL, error);
    if (!text)
        return FALSE;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (guint i = 0; lines[i]; i++) {
        const char *line = g_strstrip(lines[i]);
        if (*line && *line != '#' && json_array_append_new(keys, json_string(line)) < 0)
            return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: is no text; give a file of public keys (.pub)", name);
    }
    return TRUE;
}

/* Those that ssh itself would offer. */
static gboolean
add_own_keys(json_t *keys, GError **error)
{
    static const char *const names[] = { "id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub" };
    for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *key = g_build_filename(g_get_home_dir(), ".ssh", names[i], NULL);
        if (g_file_test(key, G_FILE_TEST_IS_REGULAR) && !add_keys(keys, key, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
apply_keys(json_t *spec, GError **error)
{
    if (!ssh_keys && json_object_get(spec, "ssh_keys"))
        return TRUE;
    json_t *keys = json_array();
    json_object_set_new(spec, "ssh_keys", keys);
    if (!ssh_keys)
        return add_own_keys(keys, error);
    for (guint i = 0; ssh_keys[i]; i++)
        if (strcmp(ssh_keys[i], NO_KEY) != 0 && !add_keys(keys, ssh_keys[i], error))
            return FALSE;
    return TRUE;
}

static gboolean
apply_user_data(json_t *spec, GError **error)
{
    g_autofree char *text = user_data ? weft_cli_read_text(user_data, USER_DATA_MAX, NULL, error) : NULL;
    if (user_data && !text)
        return FALSE;
    if (text && json_object_set_new(spec, "user_data", json_string(text)) < 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: is no text; what is no text belongs into the image",
                                 weft_cli_file_name(user_data));
    return TRUE;
}

static gboolean
apply_start(json_t *spec, GError **error)
{
    if (cold && forked) {
        weft_cli_set_usage(error, "--cold, --from-template: nodes do one of both; leave the other out");
        return FALSE;
    }
    if (cold || forked)
        json_object_set_new(spec, "start", json_string(cold ? "cold" : "template"));
    return TRUE;
}

static gboolean
apply_flags(json_t *spec, const char *name, GError **error)
{
    if (name)
        json_object_set_new(spec, "name", json_string(name));
    for (guint i = 0; i < G_N_ELEMENTS(cluster_flags); i++)
        if (is_given(&cluster_flags[i]) && !apply_flag(spec, &cluster_flags[i], error))
            return FALSE;
    return (groups ? apply_groups(spec, error) : apply_nodes(spec, error)) && apply_labels(spec, error) &&
           apply_matrix(spec, error) && apply_keys(spec, error) && apply_user_data(spec, error) && apply_start(spec, error);
}

static json_t *
make_spec(const char *name, GError **error)
{
    json_t *spec = file ? weft_cli_read_file(file, error) : json_object();
    if (!spec)
        return NULL;
    gboolean ok = FALSE;
    if (!json_is_object(spec))
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s: must hold one cluster, with name, count and so on",
                    weft_cli_file_name(file));
    else
        ok = apply_flags(spec, name, error);
    if (ok && !json_object_get(spec, "name")) {
        weft_cli_set_usage(error, "create: a name is missing: weft create NAME -n N");
        ok = FALSE;
    } else if (ok && !json_object_get(spec, "count") && !json_object_get(spec, "groups")) {
        weft_cli_set_usage(error, "create: how many nodes? (-n N%s)", file ? ", or count: N in the file" : " or --group");
        ok = FALSE;
    }
    if (!ok)
        g_clear_pointer(&spec, json_decref);
    return spec;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    gint64 limit = 0;
    if (timeout && !weft_duration_parse(timeout, &limit, error)) {
        g_prefix_error(error, "--timeout: ");
        return FALSE;
    }
    json_t *spec = make_spec(args[0], error);
    if (!spec)
        return FALSE;
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *where = weft_client_query(g_strdup(dry_run ? "/v1/placements" : "/v1/clusters"), "tenant", cli->tenant);
    g_autofree char *name = weft_cli_field(spec, "name");
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ "POST", where, spec }, &response, error);
    json_decref(spec);
    if (!ok) {
        weft_cli_blame(error, "cluster", name);
        return FALSE;
    }
    if (dry_run)
        return weft_placement_print(cli, name, response.body);
    if (!no_wait)
        return weft_await_ready(cli, response.body,
                                &(WeftAwait){ .goal = &weft_goal_ready, .timeout = limit, .after = "it goes on being created" },
                                NULL, error);
    if (cli->json)
        weft_cli_print_json(g_steal_pointer(&response.body));
    else
        printf("cluster %s is being created\n", name);
    return TRUE;
}

const WeftVerb weft_create_verbs[] = {
    {
        .name = "create",
        .arguments = "NAME -n N",
        .summary = "ask for a cluster and wait until it is ready",
        .about = "Asks for a cluster and waits until all its nodes were seen working. Flags win over the file. Your\n"
                 "public keys in ~/.ssh may log in, unless --ssh-key or the file names others.",
        .examples = "weft create cfd -n 8 --cores 4 --memory 8G\n"
                    "weft create mix --group gpu:4,cores=8,gpus=1 --group cpu:16,cores=16 --dry-run",
        .max_args = 1,
        .options = options,
        .run = run,
    },
    { 0 },
};
