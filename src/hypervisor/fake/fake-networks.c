/* A network's file is named after its VXLAN id; its first line is the cluster and the site, the others are the peers. */
#include "fake-private.h"

#define FILE_MAX (1024 * 1024)

static char *
file_name(guint vxlan)
{
    return g_strdup_printf("%u", vxlan);
}

gboolean
weft_fake_connect(WeftHypervisor *hv, const WeftHostAddress *host, const WeftHostNetwork *network, const char *run,
                  GCancellable *cancellable, GError **error)
{
    const char *world = ((WeftFakeHypervisor *)hv)->world;
    WeftFakeFolder folder;
    if (!weft_fake_pass(world, host->name, "connect", cancellable, error) ||
        !weft_fake_folder_lock(world, host->name, WEFT_FAKE_NETWORKS, &folder, error))
        return FALSE;
    g_autofree char *file = file_name(network->vxlan);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "%s%s%s\n", network->cluster, network->site ? " " : "", network->site ? network->site : "");
    for (guint i = 0; i < network->peers->len; i++)
        g_string_append_printf(text, "%s\n", (const char *)network->peers->pdata[i]);
    gboolean ok = weft_fake_check_owner(world, host->name, run, weft_fake_exists(&folder, file, ""), error) &&
                  weft_fake_replace(&folder, file, text->str, text->len, error);
    weft_fake_folder_close(&folder);
    return ok;
}

gboolean
weft_fake_disconnect(WeftHypervisor *hv, const WeftHostAddress *host, guint vxlan, GCancellable *cancellable, GError **error)
{
    const char *world = ((WeftFakeHypervisor *)hv)->world;
    WeftFakeFolder folder;
    if (!weft_fake_pass(world, host->name, "disconnect", cancellable, error) ||
        !weft_fake_folder_open(world, host->name, WEFT_FAKE_NETWORKS, &folder, error))
        return FALSE;
    g_autofree char *file = file_name(vxlan);
    gboolean ok = weft_fake_remove(&folder, file, "", error);
    weft_fake_folder_close(&folder);
    return ok;
}

static WeftHostNetwork *
read_network(const WeftFakeFolder *folder, const char *file, GError **error)
{
    guint64 vxlan;
    g_autofree char *text = NULL;
    if (!g_ascii_string_to_unsigned(file, 10, 0, G_MAXUINT32, &vxlan, error) ||
        !(text = weft_fake_read(folder, file, FILE_MAX, error)))
        return NULL;
    g_auto(GStrv) lines = g_strsplit(g_strchomp(text), "\n", -1);
    g_auto(GStrv) mark = g_strsplit(lines[0] ? lines[0] : "", " ", 2);
    WeftHostNetwork *network = weft_host_network_new((guint)vxlan, mark[0] ? mark[0] : "", mark[0] ? mark[1] : NULL);
    for (guint i = 1; lines[0] && lines[i]; i++)
        g_ptr_array_add(network->peers, g_strdup(lines[i]));
    return network;
}

static int
compare_networks(gconstpointer a, gconstpointer b)
{
    guint left = (*(WeftHostNetwork *const *)a)->vxlan;
    guint right = (*(WeftHostNetwork *const *)b)->vxlan;
    return (left > right) - (left < right);
}

gboolean
weft_fake_networks_list(const char *world, const char *host, GPtrArray *networks, GError **error)
{
    WeftFakeFolder folder;
    if (!weft_fake_folder_open(world, host, WEFT_FAKE_NETWORKS, &folder, error))
        return FALSE;
    g_autoptr(GError) failed = NULL;
    g_autoptr(GPtrArray) files = weft_fake_files(&folder, &failed);
    for (guint i = 0; files && !failed && i < files->len; i++) {
        WeftHostNetwork *network = read_network(&folder, files->pdata[i], &failed);
        if (network) /* else it went meanwhile */
            g_ptr_array_add(networks, network);
    }
    weft_fake_folder_close(&folder);
    g_ptr_array_sort(networks, compare_networks);
    if (failed)
        g_propagate_error(error, g_steal_pointer(&failed));
    return files && (!error || !*error);
}
