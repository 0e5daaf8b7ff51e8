/* weft create: a specification from flags or a file, sent once, and the wait until it is ready. */
#include "await.h"
#include "clock.h"
#include "errors.h"
#include "size.h"
#include "verbs.h"

#include <limits.h>

#define UNSET INT_MIN
#define TRANSPARENT "transparent"
#define NO_KEY "none"
#define KEYS_MAX (64 << 10)      /* bytes of a file of public keys, */
#define USER_DATA_MAX (64 << 10) /* and of user-data */

static int count = UNSET, cores = UNSET, gpus = UNSET, rails = UNSET;
static char *memory, *pages, *disk, *image, *path, *fabric, *shm, *bandwidth, *file, *timeout;
static char *user_data;
static char **labels, **ssh_keys, **shared;
static gboolean no_wait, slurm;

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
    { "disk", 0, 0, G_OPTION_ARG_STRING, &disk, "a node's own disk, where its image can be written to (as large as the image)", "SIZE" },
    { "shm", 0, 0, G_OPTION_ARG_STRING, &shm, "memory that the nodes on one host share: 64M (none)", "SIZE" },
    { "shared", 0, 0, G_OPTION_ARG_STRING_ARRAY, &shared, "joins this partition beside its own; may be repeated", "NAME" },
    { "fabric", 0, 0, G_OPTION_ARG_STRING, &fabric, "only on this fabric", "NAME" },
    { "bandwidth", 0, 0, G_OPTION_ARG_STRING, &bandwidth, "of its hosts' links, guaranteed to each node on each rail: 10G (none)", "RATE" },
    { "label", 'l', 0, G_OPTION_ARG_STRING_ARRAY, &labels, "only on hosts with this label; may be repeated", "KEY=VALUE" },
    { "ssh-key", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &ssh_keys,
      "public key that may log in; may be repeated; none: no key (those in ~/.ssh)", "FILE" },
    { "user-data", 0, 0, G_OPTION_ARG_FILENAME, &user_data, "for cloud-init in the nodes", "FILE" },
    { "slurm", 0, 0, G_OPTION_ARG_NONE, &slurm, "the nodes form a Slurm cluster too", NULL },
    { "file", 'f', 0, G_OPTION_ARG_FILENAME, &file, "specification in YAML or JSON; - is the standard input", "FILE" },
    { "no-wait", 0, 0, G_OPTION_ARG_NONE, &no_wait, "return as soon as it is asked for", NULL },
    { "timeout", 0, 0, G_OPTION_ARG_STRING, &timeout, "wait no longer than this: 90s, 10m", "TIME" },
    { NULL },
};
/* clang-format on */

/* What belongs to a group of nodes; in a file with several groups a flag could mean any of them. */
typedef struct GroupFlag {
    const char *field;
    const char *option;
    const int *number; /* or */
    char *const *text;
    gboolean is_size;
} GroupFlag;

static const GroupFlag group_flags[] = {
    { "count", "-n", &count, NULL, FALSE },        { "cores", "--cores", &cores, NULL, FALSE },
    { "gpus", "--gpus", &gpus, NULL, FALSE },      { "rails", "--rails", &rails, NULL, FALSE },
    { "memory", "--memory", NULL, &memory, TRUE }, { "pages", "--pages", NULL, &pages, TRUE },
    { "image", "--image", NULL, &image, FALSE },   { "path", "--path", NULL, &path, FALSE },
    { "disk", "--disk", NULL, &disk, TRUE },
};

static gboolean
apply_group_flag(json_t *spec, const GroupFlag *flag, GError **error)
{
    if (flag->number ? *flag->number == UNSET : *flag->text == NULL)
        return TRUE;
    if (json_object_get(spec, "groups")) {
        weft_cli_set_usage(error, "%s: %s has groups, and it could mean any of them; write it there", flag->option,
                           weft_cli_file_name(file));
        return FALSE;
    }
    guint64 bytes = 0;
    if (flag->is_size && strcmp(*flag->text, TRANSPARENT) != 0 && !weft_size_parse(*flag->text, &bytes, error)) {
        g_prefix_error(error, "%s: ", flag->option);
        return FALSE;
    }
    json_object_set_new(spec, flag->field, flag->number ? json_integer(*flag->number) : json_string(*flag->text));
    return TRUE;
}

static gboolean
apply_shm(json_t *spec, GError **error)
{
    guint64 bytes;
    if (!shm)
        return TRUE;
    if (!weft_size_parse(shm, &bytes, error)) {
        g_prefix_error(error, "--shm: ");
        return FALSE;
    }
    json_object_set_new(spec, "shm", json_string(shm));
    return TRUE;
}

static gboolean
apply_bandwidth(json_t *spec, GError **error)
{
    guint64 bits;
    if (!bandwidth)
        return TRUE;
    if (!weft_rate_parse(bandwidth, &bits, error)) {
        g_prefix_error(error, "--bandwidth: ");
        return FALSE;
    }
    json_object_set_new(spec, "bandwidth", json_string(bandwidth));
    return TRUE;
}

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

static void
apply_shared(json_t *spec)
{
    json_t *names = shared ? json_array() : NULL;
    for (guint i = 0; shared && shared[i]; i++)
        json_array_append_new(names, json_string(shared[i]));
    if (names)
        json_object_set_new(spec, "shared", names);
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
apply_flags(json_t *spec, const char *name, GError **error)
{
    if (name)
        json_object_set_new(spec, "name", json_string(name));
    if (fabric)
        json_object_set_new(spec, "fabric", json_string(fabric));
    apply_shared(spec);
    if (slurm)
        json_object_set_new(spec, "slurm", json_true());
    for (guint i = 0; i < G_N_ELEMENTS(group_flags); i++)
        if (!apply_group_flag(spec, &group_flags[i], error))
            return FALSE;
    return apply_shm(spec, error) && apply_bandwidth(spec, error) && apply_labels(spec, error) && apply_keys(spec, error) &&
           apply_user_data(spec, error);
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
        weft_cli_set_usage(error, "create: how many nodes? (-n N%s)", file ? ", or count: N in the file" : "");
        ok = FALSE;
    }
    if (!ok)
        g_clear_pointer(&spec, json_decref);
    return spec;
}

static gboolean
wait_ready(WeftCli *cli, json_t *cluster, gint64 limit, GError **error)
{
    json_t *ready = NULL;
    gint64 start = g_get_monotonic_time();
    WeftAwait await = { .goal = &weft_goal_ready, .timeout = limit, .after = "it goes on being created" };
    if (!weft_await_cluster(cli, cluster, &await, &ready, error))
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(ready);
        return TRUE;
    }
    g_autofree char *name = weft_cli_field(ready, "name");
    g_autofree char *nodes = weft_cli_count(weft_cli_number(ready, "ready"), "node");
    double seconds = (double)(g_get_monotonic_time() - start) / G_TIME_SPAN_SECOND;
    printf("cluster %s is ready: %s in %.1f s\n", name, nodes, seconds);
    json_decref(ready);
    return TRUE;
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
    g_autofree char *where = weft_client_query(g_strdup("/v1/clusters"), "tenant", cli->tenant);
    g_autofree char *name = weft_cli_field(spec, "name");
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ "POST", where, spec }, &response, error);
    json_decref(spec);
    if (!ok) {
        weft_cli_blame(error, "cluster", name);
        return FALSE;
    }
    if (!no_wait)
        return wait_ready(cli, response.body, limit, error);
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
                    "weft create -f cfd.yaml --no-wait",
        .max_args = 1,
        .options = options,
        .run = run,
    },
    { 0 },
};
