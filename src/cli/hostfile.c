/* weft hostfile: the nodes of a cluster as mpirun wants them. */
#include "verbs.h"

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *path = weft_cli_cluster_path(cli, args[0], "/hostfile");
    json_t *list = weft_client_get(cli->client, path, error);
    if (!list) {
        weft_cli_blame(error, "cluster", args[0]);
        return FALSE;
    }
    json_t *nodes = json_object_get(list, "items"), *node;
    if (cli->json)
        weft_cli_print_json(json_incref(nodes));
    size_t i;
    json_array_foreach (nodes, i, node) {
        g_autofree char *hostname = weft_cli_field(node, "hostname");
        if (!cli->json)
            printf("%s slots=%" G_GINT64_FORMAT "\n", hostname, weft_cli_number(node, "slots"));
    }
    json_decref(list);
    return TRUE;
}

const WeftVerb weft_hostfile_verbs[] = {
    {
        .name = "hostfile",
        .arguments = "CLUSTER",
        .summary = "print the nodes as mpirun wants them",
        .about = "Prints a line for each node of a cluster, its host name and its cores: what mpirun --hostfile reads. With\n"
                 "--json the addresses are there too.",
        .examples = "weft hostfile cfd > hosts\n"
                    "weft hostfile cfd --json",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_CLUSTERS,
        .whole = TRUE,
        .run = run,
    },
    { 0 },
};
