#include "seed.h"

#include "iso.h"
#include "network.h"
#include "user-data.h"

#include <jansson.h>

#define FULL_MEMBER 0x8000 /* bit of a P_Key */

/* JSON is YAML too, and knows how to quote. */
static char *
dump(json_t *json)
{
    g_autofree char *text = json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    return g_strconcat(text, "\n", NULL);
}

static char *
format_meta_data(const WeftSeedSpec *spec)
{
    g_autofree char *hostname = weft_node_hostname(spec->node);
    json_t *keys = json_array();
    json_array_append_new(keys, json_string(spec->keys->user_public));
    for (guint i = 0; i < spec->cluster->ssh_keys->len; i++)
        json_array_append_new(keys, json_string(g_ptr_array_index(spec->cluster->ssh_keys, i)));
    return dump(json_pack("{s:s, s:s, s:o}", "instance-id", spec->node->id, "local-hostname", hostname, "public-keys", keys));
}

/* The name is set too: where cloud-init writes the configuration of something older than netplan, it goes by names. */
static char *
format_network(const WeftSeedSpec *spec)
{
    g_autofree char *address = weft_node_address(spec->node);
    return dump(json_pack("{s:i, s:{s:{s:{s:s}, s:s, s:b, s:[o], s:i}}}", "version", 2, "ethernets", "eth0", "match",
                          "macaddress", spec->node->mac, "set-name", "eth0", "dhcp4", 0, "addresses",
                          json_sprintf("%s/%d", address, WEFT_SUBNET_PREFIX), "mtu", WEFT_NETWORK_MTU));
}

static void
append_rails(GString *text, const WeftNode *node, const GArray *ports)
{
    for (guint i = 0; i < node->devices->len; i++) {
        const WeftDevice *device = g_ptr_array_index(node->devices, i);
        g_autofree char *address = weft_node_ipoib_address(node, device->rail);
        g_string_append_printf(text, "ipoib %u 0x%016" G_GINT64_MODIFIER "x %s/%d\n", device->rail,
                               g_array_index(ports, guint64, i), address, WEFT_SUBNET_PREFIX);
    }
}

static char *
format_node(const WeftSeedSpec *spec)
{
    const WeftNode *node = spec->node;
    g_autofree char *hostname = weft_node_hostname(node);
    g_autofree char *address = weft_node_address(node);
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "hostname %s\nrank %u\ncluster %s\n", hostname, node->rank, spec->cluster->name);
    g_string_append_printf(text, "id %s\nmachine %s\n", node->id, spec->keys->machine_id);
    g_string_append_printf(text, "mac %s %s/%d %d\n", node->mac, address, WEFT_SUBNET_PREFIX, WEFT_NETWORK_MTU);
    append_rails(text, node, spec->ports);
    g_string_append_printf(text, "pkey 0x%04x\nsl %u\n", FULL_MEMBER | spec->pkey, node->sl);
    for (guint i = 0; spec->shared && i < spec->shared->len; i++)
        g_string_append_printf(text, "shared 0x%04x\n", g_array_index(spec->shared, guint16, i));
    g_string_append_printf(text, "path %s\nslots %u\n", weft_path_words[node->path], node->cores->len);
    if (spec->cluster->slurm)
        g_string_append(text, "slurm 1\n");
    g_string_append_printf(text, "login %s\n", spec->keys->user_public);
    for (guint i = 0; i < spec->cluster->ssh_keys->len; i++)
        g_string_append_printf(text, "login %s\n", (const char *)g_ptr_array_index(spec->cluster->ssh_keys, i));
    return g_string_free(text, FALSE);
}

static GBytes *
taken(char *text)
{
    return g_bytes_new_take(text, strlen(text));
}

static GBytes *
line(const char *text)
{
    return taken(g_strconcat(text, "\n", NULL));
}

static GBytes *
copied(const char *text)
{
    return g_bytes_new(text, strlen(text));
}

/* --- what belongs into the node as it is --- */

#define OWN_FILES 6
#define OWN_FOLDER "weft/files/"

static void
own_files(const WeftKeys *keys, WeftIsoFile ret_files[OWN_FILES])
{
    const WeftIsoFile files[OWN_FILES] = {
        { OWN_FOLDER "ssh/id_ed25519", 0600, copied(keys->user_private) },
        { OWN_FOLDER "ssh/id_ed25519.pub", 0644, line(keys->user_public) },
        { OWN_FOLDER "ssh/host_ed25519", 0600, copied(keys->host_private) },
        { OWN_FOLDER "ssh/host_ed25519.pub", 0644, line(keys->host_public) },
        { OWN_FOLDER "ssh/host_dropbear", 0600, g_bytes_ref(keys->host_dropbear) },
        { OWN_FOLDER "munge.key", 0600, g_bytes_new(keys->munge, sizeof keys->munge) },
    };
    memcpy(ret_files, files, sizeof files);
}

static GBytes *
make(WeftIsoFile *files, gsize n, GError **error)
{
    GBytes *seed = weft_iso_make(WEFT_SEED_LABEL, files, n, error);
    for (gsize i = 0; i < n; i++)
        g_bytes_unref(files[i].content);
    return seed;
}

GBytes *
weft_seed_make(const WeftSeedSpec *spec, GError **error)
{
    WeftIsoFile files[6 + OWN_FILES] = {
        { "meta-data", 0644, taken(format_meta_data(spec)) },
        { "user-data", 0600, taken(weft_user_data_format(spec->cluster->user_data)) },
        { "vendor-data", 0644, copied(weft_vendor_data()) },
        { "network-config", 0644, taken(format_network(spec)) },
        { "weft/guest", 0755, g_bytes_ref(spec->guest) },
        { "weft/node", 0644, taken(format_node(spec)) },
    };
    own_files(spec->keys, files + 6);
    return make(files, G_N_ELEMENTS(files), error);
}

/* cloud-init starts the guest program all the same: it answers that such a node cannot be captured. */
GBytes *
weft_seed_make_blank(const WeftNode *node, GBytes *guest, GError **error)
{
    WeftIsoFile files[] = {
        { "meta-data", 0644, taken(dump(json_pack("{s:s}", "instance-id", "weft-template"))) },
        { "user-data", 0600, taken(weft_user_data_format(NULL)) },
        { "weft/guest", 0755, g_bytes_ref(guest) },
        { "weft/node", 0644, taken(g_strdup_printf("template 1\nmac %s 0.0.0.0/0 %d\n", node->mac, WEFT_NETWORK_MTU)) },
    };
    return make(files, G_N_ELEMENTS(files), error);
}

static void
append_base64(GString *text, gconstpointer bytes, gsize length)
{
    g_autofree char *base64 = g_base64_encode(bytes, length);
    g_string_append_printf(text, "%s\n", base64);
}

char *
weft_seed_become(const WeftSeedSpec *spec, const char *was, const guint8 random[WEFT_SEED_RANDOM])
{
    WeftIsoFile files[OWN_FILES];
    g_autofree char *node = format_node(spec);
    GString *text = g_string_new("random ");
    for (guint i = 0; i < WEFT_SEED_RANDOM; i++)
        g_string_append_printf(text, "%02x", random[i]);
    g_string_append_c(text, '\n');
    if (was)
        g_string_append_printf(text, "was %s\n", was);
    g_string_append(text, "node ");
    append_base64(text, node, strlen(node));
    own_files(spec->keys, files);
    for (guint i = 0; i < OWN_FILES; i++) {
        gsize length;
        gconstpointer bytes = g_bytes_get_data(files[i].content, &length);
        g_string_append_printf(text, "file %s %o ", files[i].path + strlen(OWN_FOLDER), files[i].mode);
        append_base64(text, bytes, length);
        g_bytes_unref(files[i].content);
    }
    return g_string_free(text, FALSE);
}
