#include "errors.h"
#include "keys.h"
#include "network.h"
#include "roster.h"
#include "seed.h"

#include <glib/gstdio.h>
#include <sys/stat.h>

static const guint8 secret[WEFT_SECRET_LENGTH] = { 1, 2, 3 };

typedef struct {
    char *folder;
} Scratch;

static void
set_up(Scratch *scratch, gconstpointer data)
{
    scratch->folder = g_dir_make_tmp("weft-seed-XXXXXX", NULL);
    g_assert_nonnull(scratch->folder);
}

/* Runs a program to its end and returns what it printed. */
static char *
run(char **argv)
{
    g_autoptr(GError) error = NULL;
    char *out = NULL;
    int status;
    g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, NULL, &status, &error);
    g_assert_no_error(error);
    g_spawn_check_wait_status(status, &error);
    g_assert_no_error(error);
    return out;
}

static void
tear_down(Scratch *scratch, gconstpointer data)
{
    g_free(run((char *[]){ "rm", "-rf", scratch->folder, NULL }));
    g_free(scratch->folder);
}

static WeftKeys *
derive(const char *cluster)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *node = g_strconcat(cluster, "-8", NULL);
    WeftKeys *keys = weft_keys_derive(secret, &(WeftKeyOwner){ cluster, "cfd", node }, &error);
    g_assert_no_error(error);
    return keys;
}

static char *
put(Scratch *scratch, const char *name, gconstpointer data, gssize length)
{
    g_autoptr(GError) error = NULL;
    char *path = g_build_filename(scratch->folder, name, NULL);
    g_file_set_contents_full(path, data, length, G_FILE_SET_CONTENTS_CONSISTENT, 0600, &error);
    g_assert_no_error(error);
    return path;
}

/* OpenSSH itself must find the public key in the private one. */
static void
check_pair(Scratch *scratch, const char *private, const char *public)
{
    g_autofree char *path = put(scratch, "key", private, -1);
    g_autofree char *told = run((char *[]){ "ssh-keygen", "-y", "-f", path, NULL });
    g_assert_cmpstr(g_strchomp(told), ==, public);
}

static void
test_keys_are_openssh(Scratch *scratch, gconstpointer data)
{
    g_autoptr(WeftKeys) keys = derive("0abcdefghijk");
    check_pair(scratch, keys->user_private, keys->user_public);
    check_pair(scratch, keys->host_private, keys->host_public);
    g_assert_true(g_str_has_prefix(keys->user_public, "ssh-ed25519 AAAA"));
    g_assert_true(g_str_has_suffix(keys->user_public, " cfd"));
}

/* What is derived today must be derived tomorrow: nodes that run hold it. */
static void
test_keys_stay(void)
{
    g_autoptr(WeftKeys) keys = derive("0abcdefghijk"), again = derive("0abcdefghijk"), other = derive("1abcdefghijk");
    g_assert_cmpstr(keys->user_private, ==, again->user_private);
    g_assert_cmpmem(keys->munge, sizeof keys->munge, again->munge, sizeof again->munge);
    g_assert_cmpstr(keys->user_public, !=, other->user_public);
    g_assert_cmpstr(keys->user_public, !=, keys->host_public);
    g_assert_cmpint(memcmp(keys->munge, other->munge, sizeof keys->munge), !=, 0);
    g_autofree char *sum = g_compute_checksum_for_data(G_CHECKSUM_SHA256, keys->munge, sizeof keys->munge);
    g_assert_cmpstr(sum, ==, "eaff2e90a0f7e4a5f689b6a0e5bbd47b2971387a867cec51cc6f9c2ba6aa4f4a");
    g_assert_cmpstr(keys->user_public, ==,
                    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKsxN3NNAeEyN9bbCfgKAFn/M6YnfBgLn3Z4cgAEzpz2 cfd");
}

/* Each node has its own, and the others are told the right one. */
static void
test_host_keys(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < 8; i++) {
        g_autofree char *id = g_strdup_printf("0abcdefghijk-%u", i);
        g_autoptr(WeftKeys) keys = weft_keys_derive(secret, &(WeftKeyOwner){ "0abcdefghijk", "cfd", id }, &error);
        g_assert_no_error(error);
        g_autofree char *told = weft_host_key_derive(secret, id, &error);
        g_autofree char *expected = g_strconcat(told, " cfd", NULL);
        g_assert_cmpstr(keys->host_public, ==, expected);
        g_assert_true(g_hash_table_add(seen, g_strdup(told)));
        g_assert_true(g_hash_table_add(seen, g_strdup(keys->machine_id)));
        g_assert_cmpuint(strlen(keys->machine_id), ==, 32);
        g_assert_cmpuint(strspn(keys->machine_id, "0123456789abcdef"), ==, 32);
        g_assert_true(keys->machine_id[12] == '4');
    }
}

static void
test_secret(Scratch *scratch, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = g_build_filename(scratch->folder, "secret", NULL);
    guint8 first[WEFT_SECRET_LENGTH] = {}, second[WEFT_SECRET_LENGTH] = {};
    g_assert_true(weft_secret_load(path, first, &error));
    g_assert_true(weft_secret_load(path, second, &error));
    g_assert_cmpmem(first, sizeof first, second, sizeof second);
    struct stat info;
    g_assert_cmpint(g_stat(path, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 07777, ==, 0600);
    g_assert_cmpint(info.st_size, ==, WEFT_SECRET_LENGTH);

    g_autoptr(GDir) folder = g_dir_open(scratch->folder, 0, NULL);
    g_assert_cmpstr(g_dir_read_name(folder), ==, "secret");
    g_assert_null(g_dir_read_name(folder));
}

static void
test_secret_refused(Scratch *scratch, gconstpointer data)
{
    guint8 bytes[WEFT_SECRET_LENGTH];
    g_autoptr(GError) error = NULL;
    g_autofree char *path = put(scratch, "secret", "short", -1);
    g_assert_false(weft_secret_load(path, bytes, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "has 5 bytes instead of 32"));

    g_clear_error(&error);
    g_chmod(path, 0640);
    g_assert_false(weft_secret_load(path, bytes, &error));
    g_assert_nonnull(strstr(error->message, "mode 0640"));

    g_clear_error(&error);
    g_autofree char *nowhere = g_build_filename(scratch->folder, "none", "secret", NULL);
    g_assert_false(weft_secret_load(nowhere, bytes, &error));
    g_assert_nonnull(strstr(error->message, nowhere));
}

/* A node of two rails. */
static WeftNode *
make_node(guint rank)
{
    WeftNode *node = weft_node_new();
    node->sl = 2;
    node->id = g_strdup_printf("0abcdefghijk-%u", rank + 5);
    node->cluster_name = g_strdup("cfd");
    node->rank = rank;
    node->mac = g_strdup("02:00:00:00:00:03");
    node->path = WEFT_PATH_SRIOV;
    for (guint16 i = 0; i < 4; i++)
        g_array_append_val(node->cores, i);
    for (guint rail = 0; rail < 2; rail++) {
        WeftDevice *device = weft_device_new(rail, "mlx5_0", 1);
        device->guid = 0x1000 + rail;
        g_ptr_array_add(node->devices, device);
    }
    return node;
}

static WeftCluster *
make_cluster(const char *user_data)
{
    g_autoptr(GError) error = NULL;
    json_t *spec = json_pack("{s:s, s:i}", "name", "cfd", "count", 4);
    WeftCluster *cluster = weft_cluster_from_spec(spec, &error);
    g_assert_no_error(error);
    json_decref(spec);
    g_ptr_array_add(cluster->ssh_keys, g_strdup("ssh-ed25519 AAAAC3Nz alice@example"));
    cluster->user_data = g_strdup(user_data);
    cluster->slurm = TRUE;
    return cluster;
}

static GBytes *
make_seed(const char *user_data, gsize guest_size)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftNode) node = make_node(3);
    g_autoptr(WeftCluster) cluster = make_cluster(user_data);
    g_autoptr(WeftKeys) keys = derive("0abcdefghijk");
    g_autoptr(GBytes) guest = g_bytes_new_take(g_strnfill(guest_size, 'g'), guest_size);
    g_autoptr(GArray) ports = weft_node_ports(node, NULL);
    WeftSeedSpec spec = { .node = node, .ports = ports, .cluster = cluster, .pkey = 0x12, .keys = keys, .guest = guest };
    g_autoptr(GArray) shared = g_array_new(FALSE, FALSE, sizeof(guint16));
    g_array_append_val(shared, (guint16){ 0x7001 });
    g_array_append_val(shared, (guint16){ 0xf002 });
    spec.shared = shared;
    GBytes *seed = weft_seed_make(&spec, &error);
    g_assert_no_error(error);
    return seed;
}

static char *
content(const char *iso, const char *path)
{
    return run((char *[]){ "bsdtar", "-xOf", (char *)iso, (char *)path, NULL });
}

static char *
put_seed(Scratch *scratch, const char *user_data)
{
    g_autoptr(GBytes) seed = make_seed(user_data, 100000);
    return put(scratch, "seed.iso", g_bytes_get_data(seed, NULL), (gssize)g_bytes_get_size(seed));
}

/* "MODE OWNER GROUP YEAR NAME" of each entry of "ls -l". */
static char *
brief(const char *list)
{
    g_auto(GStrv) lines = g_strsplit(list, "\n", -1);
    GString *text = g_string_new(NULL);
    for (guint i = 0; lines[i] && *lines[i]; i++) {
        char mode[16], owner[16], group[16], year[16], name[64];
        g_assert_cmpint(sscanf(lines[i], "%15s %*s %15s %15s %*s %*s %*s %15s %63s", mode, owner, group, year, name), ==, 5);
        g_string_append_printf(text, "%s %s %s %s %s\n", mode, owner, group, year, name);
    }
    return g_string_free(text, FALSE);
}

static void
test_seed_contents(Scratch *scratch, gconstpointer data)
{
    g_autofree char *iso = put_seed(scratch, NULL);
    g_autofree char *list = run((char *[]){ "bsdtar", "--numeric-owner", "-tvf", iso, NULL });
    g_autofree char *entries = brief(list);
    g_assert_cmpstr(entries, ==,
                    "dr-xr-xr-x 0 0 2000 .\n"
                    "drwxr-xr-x 0 0 2000 weft\n"
                    "drwxr-xr-x 0 0 2000 weft/files\n"
                    "drwxr-xr-x 0 0 2000 weft/files/ssh\n"
                    "-rw-r--r-- 0 0 2000 meta-data\n"
                    "-rw-r--r-- 0 0 2000 network-config\n"
                    "-rw------- 0 0 2000 user-data\n"
                    "-rw-r--r-- 0 0 2000 vendor-data\n"
                    "-rw------- 0 0 2000 weft/files/munge.key\n"
                    "-rw------- 0 0 2000 weft/files/ssh/host_dropbear\n"
                    "-rw------- 0 0 2000 weft/files/ssh/host_ed25519\n"
                    "-rw-r--r-- 0 0 2000 weft/files/ssh/host_ed25519.pub\n"
                    "-rw------- 0 0 2000 weft/files/ssh/id_ed25519\n"
                    "-rw-r--r-- 0 0 2000 weft/files/ssh/id_ed25519.pub\n"
                    "-rwxr-xr-x 0 0 2000 weft/guest\n"
                    "-rw-r--r-- 0 0 2000 weft/node\n");

    g_autoptr(WeftKeys) keys = derive("0abcdefghijk");
    g_autofree char *private = content(iso, "weft/files/ssh/host_ed25519");
    g_assert_cmpstr(private, ==, keys->host_private);
    g_autofree char *public = content(iso, "weft/files/ssh/id_ed25519.pub");
    g_assert_cmpstr(g_strchomp(public), ==, keys->user_public);
}

static void
test_seed_node(Scratch *scratch, gconstpointer data)
{
    g_autofree char *iso = put_seed(scratch, NULL);
    g_autofree char *node = content(iso, "weft/node");
    g_autoptr(WeftKeys) keys = derive("0abcdefghijk");
    g_autofree char *expected =
        g_strdup_printf("hostname cfd-3\nrank 3\ncluster cfd\nid 0abcdefghijk-8\nmachine %s\n"
                        "mac 02:00:00:00:00:03 10.64.0.4/16 1450\n"
                        "ipoib 0 0x0000000000001000 10.65.0.4/16\n"
                        "ipoib 1 0x0000000000001001 10.66.0.4/16\n"
                        "pkey 0x8012\nsl 2\nshared 0x7001\nshared 0xf002\npath sriov\nslots 4\nslurm 1\n"
                        "login %s\nlogin ssh-ed25519 AAAAC3Nz alice@example\n",
                        keys->machine_id, keys->user_public);
    g_assert_cmpstr(node, ==, expected);
}

static void
test_seed_blank(Scratch *scratch, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GBytes) guest = g_bytes_new_static("program", 7);
    g_autoptr(WeftNode) template = make_node(0);
    g_autoptr(GBytes) seed = weft_seed_make_blank(template, guest, &error);
    g_autoptr(GBytes) again = weft_seed_make_blank(template, guest, &error);
    g_assert_no_error(error);
    g_assert_true(g_bytes_equal(seed, again));
    g_autofree char *iso = put(scratch, "seed.iso", g_bytes_get_data(seed, NULL), (gssize)g_bytes_get_size(seed));
    g_autofree char *node = content(iso, "weft/node"), *program = content(iso, "weft/guest");
    g_autofree char *list = run((char *[]){ "bsdtar", "-tf", iso, NULL });
    g_autofree char *expected = g_strdup_printf("template 1\nmac %s 0.0.0.0/0 1450\n", template->mac);
    g_assert_cmpstr(node, ==, expected);
    g_assert_cmpstr(program, ==, "program");
    g_assert_null(strstr(list, "files"));
}

/* The bytes of this word of a line of what "become" is told, and that is in the seed. */
static void
check_told(const char *iso, char **words, guint at, const char *path)
{
    gsize length;
    g_autofree char *file = content(iso, path);
    g_autofree guchar *bytes = g_base64_decode(words[at], &length);
    gboolean munge = g_str_has_suffix(path, "munge.key"), dropbear = g_str_has_suffix(path, "dropbear");
    if (!munge && !dropbear) /* which are no texts */
        g_assert_cmpmem(bytes, length, file, strlen(file));
    else
        g_assert_cmpuint(length, ==, munge ? sizeof(((WeftKeys *)NULL)->munge) : 4 + 11 + 4 + 64);
}

/* A node that is forked is told what one that boots finds in its seed. */
static void
test_seed_become(Scratch *scratch, gconstpointer data)
{
    guint8 random[WEFT_SEED_RANDOM] = { 0xab, 1 };
    g_autoptr(WeftNode) node = make_node(3);
    g_autoptr(WeftCluster) cluster = make_cluster(NULL);
    g_autoptr(WeftKeys) keys = derive("0abcdefghijk");
    g_autoptr(GArray) shared = g_array_new(FALSE, FALSE, sizeof(guint16));
    g_array_append_val(shared, (guint16){ 0x7001 });
    g_array_append_val(shared, (guint16){ 0xf002 });
    g_autoptr(GArray) ports = weft_node_ports(node, NULL);
    WeftSeedSpec spec = { .node = node, .ports = ports, .cluster = cluster, .pkey = 0x12, .keys = keys, .shared = shared };
    g_autofree char *iso = put_seed(scratch, NULL), *text = weft_seed_become(&spec, "1abcdefghijk-0", random);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_assert_cmpuint(g_strv_length(lines), ==, 10);
    g_assert_true(g_str_has_prefix(lines[0], "random ab01000000"));
    g_assert_cmpuint(strlen(lines[0]), ==, strlen("random ") + 2 * sizeof random);
    g_assert_cmpstr(lines[1], ==, "was 1abcdefghijk-0");
    for (guint i = 2; i < 9; i++) {
        g_auto(GStrv) words = g_strsplit(lines[i], " ", -1);
        g_autofree char *path = i == 2 ? g_strdup("weft/node") : g_strconcat("weft/files/", words[1], NULL);
        check_told(iso, words, i == 2 ? 1 : 3, path);
    }
    g_assert_true(g_str_has_prefix(lines[3], "file ssh/id_ed25519 600 "));
    g_autofree char *fork = weft_seed_become(&spec, NULL, random);
    g_assert_null(strstr(fork, "\nwas "));
}

static json_t *
json_of(const char *iso, const char *path)
{
    g_autofree char *text = content(iso, path);
    json_t *json = json_loads(text, 0, NULL);
    g_assert_nonnull(json);
    return json;
}

static void
test_seed_cloud_init(Scratch *scratch, gconstpointer data)
{
    g_autofree char *iso = put_seed(scratch, NULL);
    json_t *meta = json_of(iso, "meta-data"), *network = json_of(iso, "network-config");
    g_assert_cmpstr(json_string_value(json_object_get(meta, "instance-id")), ==, "0abcdefghijk-8");
    g_assert_cmpstr(json_string_value(json_object_get(meta, "local-hostname")), ==, "cfd-3");
    g_assert_cmpuint(json_array_size(json_object_get(meta, "public-keys")), ==, 2);

    const char *mac, *address;
    int version, mtu;
    g_assert_cmpint(json_unpack(network, "{s:i, s:{s:{s:{s:s}, s:[s], s:i}}}", "version", &version, "ethernets", "eth0",
                                "match", "macaddress", &mac, "addresses", &address, "mtu", &mtu),
                    ==, 0);
    g_assert_cmpint(version, ==, 2);
    g_assert_cmpstr(mac, ==, "02:00:00:00:00:03");
    g_assert_cmpstr(address, ==, "10.64.0.4/16");
    g_assert_cmpint(mtu, ==, WEFT_NETWORK_MTU);
    json_decref(meta);
    json_decref(network);
}

/* Python's mail parser is what cloud-init reads user-data with: it must find weft's part and each of the user's. */
static const char walk[] = "import email, sys\n"
                           "for part in email.message_from_file(open(sys.argv[1])).walk():\n"
                           "    if not part.is_multipart():\n"
                           "        first = part.get_payload(decode=True).decode().splitlines()[0]\n"
                           "        print(part.get_content_type(), first, sep='|')\n";

static char *
parts_of(Scratch *scratch, const char *iso, const char *name)
{
    g_autofree char *text = content(iso, name);
    g_autofree char *path = put(scratch, name, text, -1);
    return run((char *[]){ "/usr/bin/python3", "-c", (char *)walk, path, NULL });
}

static void
check_parts(Scratch *scratch, const char *user_data, const char *expected)
{
    g_autofree char *iso = put_seed(scratch, user_data);
    g_autofree char *parts = parts_of(scratch, iso, "user-data");
    g_autofree char *all = g_strconcat("text/cloud-boothook|#cloud-boothook\n", expected, NULL);
    g_assert_cmpstr(parts, ==, all);
}

static void
test_seed_user_data(Scratch *scratch, gconstpointer data)
{
    check_parts(scratch, NULL, "");
    check_parts(scratch, "#cloud-config\nruncmd: [true]\n", "text/x-not-multipart|#cloud-config\n");
    check_parts(scratch, "#!/bin/sh\necho grüße", "text/x-not-multipart|#!/bin/sh\n");
    check_parts(scratch, "#cloud-config\n# ==weft-0== --==weft-1==\n", "text/x-not-multipart|#cloud-config\n");
    check_parts(scratch,
                "Content-Type: multipart/mixed; boundary=\"==weft-0==\"\nMIME-Version: 1.0\n\n"
                "--==weft-0==\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n"
                "--==weft-0==\nContent-Type: text/cloud-config\n\n#cloud-config\n--==weft-0==--\n",
                "text/x-shellscript|#!/bin/sh\ntext/cloud-config|#cloud-config\n");
}

static void
test_seed_vendor_data(Scratch *scratch, gconstpointer data)
{
    g_autofree char *iso = put_seed(scratch, NULL);
    g_autofree char *parts = parts_of(scratch, iso, "vendor-data");
    g_assert_cmpstr(parts, ==, "text/cloud-config|#cloud-config\ntext/x-shellscript|#!/bin/sh\n");
}

/* The volume descriptors as ECMA-119 has them, from sector 16 on: the primary one, then Joliet's. */
static void
test_seed_label(void)
{
    g_autoptr(GBytes) seed = make_seed(NULL, 1);
    const char *sectors = g_bytes_get_data(seed, NULL);
    g_assert_cmpmem(sectors + 16 * 2048, 6, "\1CD001", 6);
    g_assert_cmpmem(sectors + 16 * 2048 + 40, 7, "CIDATA ", 7);
    g_assert_cmpmem(sectors + 17 * 2048, 6, "\2CD001", 6);
    g_assert_cmpmem(sectors + 17 * 2048 + 88, 3, "%/E", 3);
}

static gpointer
make_another(gpointer data)
{
    return make_seed(data, 200000);
}

/* The same bytes, also when several are made at once. */
static void
test_seed_same(void)
{
    g_autoptr(GBytes) alone = make_seed("#!/bin/sh\n", 200000);
    g_assert_cmpuint(g_bytes_get_size(alone) % 2048, ==, 0);
    GThread *threads[4];
    for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
        threads[i] = g_thread_new("seed", make_another, (gpointer) "#!/bin/sh\n");
    for (guint i = 0; i < G_N_ELEMENTS(threads); i++) {
        g_autoptr(GBytes) seed = g_thread_join(threads[i]);
        g_assert_true(g_bytes_equal(seed, alone));
    }
    g_autoptr(GBytes) other = make_seed("#!/bin/bash\n", 200000);
    g_assert_false(g_bytes_equal(other, alone));
}

static void
test_roster(void)
{
    g_autoptr(GPtrArray) nodes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free);
    g_autoptr(GPtrArray) leaves = g_ptr_array_new();
    static const char *const names[] = { "rack 7", "rack 9", "rack 7" };
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_ptr_array_add(nodes, make_node(i));
        g_ptr_array_add(leaves, (gpointer)names[i]);
    }
    ((WeftNode *)g_ptr_array_index(nodes, 2))->rank = 255;
    g_ptr_array_set_size(((WeftNode *)g_ptr_array_index(nodes, 2))->devices, 0);
    g_autoptr(GPtrArray) host_keys = g_ptr_array_new();
    g_ptr_array_add(host_keys, (gpointer) "ssh-ed25519 AAAA0");
    g_ptr_array_add(host_keys, NULL);
    g_ptr_array_add(host_keys, (gpointer) "ssh-ed25519 AAAA255");
    g_autoptr(WeftHost) host = weft_host_new();
    g_autoptr(GPtrArray) hosts = g_ptr_array_new();
    for (guint i = 0; i < nodes->len; i++)
        g_ptr_array_add(hosts, host);
    g_autofree char *members = weft_roster_members(&(WeftRoster){ nodes, hosts, leaves, host_keys });
    g_assert_cmpstr(members, ==,
                    "node 0 cfd-0 10.64.0.1 4 02:00:00:00:00:03\nnode 1 cfd-1 10.64.0.2 4 02:00:00:00:00:03\n"
                    "node 255 cfd-255 10.64.1.0 4 02:00:00:00:00:03\n"
                    "ipoib 0 0 10.65.0.1\nipoib 0 1 10.66.0.1\nipoib 1 0 10.65.0.2\nipoib 1 1 10.66.0.2\n"
                    "hostkey 0 ssh-ed25519 AAAA0\nhostkey 255 ssh-ed25519 AAAA255\n"
                    "leaf 0 leaf0\nleaf 1 leaf1\nleaf 255 leaf0\n");
}

/* Of a host whose adapters are stand-ins nobody is to look for rails. */
static void
test_roster_of_stand_ins(void)
{
    g_autoptr(GPtrArray) nodes = g_ptr_array_new_with_free_func((GDestroyNotify)weft_node_free);
    g_autoptr(GPtrArray) hosts = g_ptr_array_new(), leaves = g_ptr_array_new(), host_keys = g_ptr_array_new();
    g_autoptr(WeftHost) real = weft_host_new(), stand_in = weft_host_new();
    stand_in->verify = WEFT_VERIFY_ETHERNET;
    for (guint i = 0; i < 2; i++) {
        g_ptr_array_add(nodes, make_node(i));
        g_ptr_array_add(hosts, i ? stand_in : real);
        g_ptr_array_add(leaves, (gpointer) "leaf");
        g_ptr_array_add(host_keys, NULL);
    }
    g_autofree char *members = weft_roster_members(&(WeftRoster){ nodes, hosts, leaves, host_keys });
    g_assert_nonnull(strstr(members, "node 1 cfd-1 10.64.0.2"));
    g_assert_nonnull(strstr(members, "ipoib 0 0 10.65.0.1\nipoib 0 1 10.66.0.1\nleaf"));
    g_autoptr(GArray) none = weft_roster_promises(nodes->pdata[1], stand_in, 0x12);
    g_assert_cmpuint(none->len, ==, 0);
}

/* Its second rail is a whole adapter of this host. */
static WeftHost *
give_adapter(WeftNode *node)
{
    WeftHost *host = weft_host_new();
    WeftHca *hca = weft_hca_new();
    hca->name = g_strdup("mlx5_7");
    hca->port_guid = 0x0002c903000000ff;
    g_ptr_array_add(host->hcas, hca);
    g_ptr_array_set_size(node->devices, 1);
    g_ptr_array_add(node->devices, weft_device_new(1, "mlx5_7", -1));
    return host;
}

/* Whoever finds interfaces by their GUIDs finds those of whole adapters as well, in a seed, as a fork and where it goes on. */
static void
test_seed_ports(void)
{
    g_autoptr(WeftNode) node = make_node(1);
    g_autoptr(WeftHost) host = give_adapter(node);
    g_autoptr(GArray) ports = weft_node_ports(node, host);
    g_autoptr(WeftCluster) cluster = make_cluster(NULL);
    g_autoptr(WeftKeys) keys = derive("0abcdefghijk");
    WeftSeedSpec spec = { .node = node, .ports = ports, .cluster = cluster, .pkey = 0x12, .keys = keys };
    g_autofree char *text = weft_seed_become(&spec, NULL, (guint8[WEFT_SEED_RANDOM]){ 0 });
    char *base64 = strstr(text, "\nnode ") + strlen("\nnode ");
    *strchr(base64, '\n') = '\0';
    gsize length;
    g_autofree guchar *bytes = g_base64_decode(base64, &length);
    g_autofree char *told = g_strndup((char *)bytes, length);
    g_assert_nonnull(strstr(told, "\nipoib 0 0x0000000000001000 10.65.0.2/16\nipoib 1 0x0002c903000000ff 10.66.0.2/16\n"));
    g_autofree char *rails = weft_roster_rails(node, host);
    g_assert_cmpstr(rails, ==, "rail 0 0x0000000000001000\nrail 1 0x0002c903000000ff\n");
}

/* A virtual function is known by its own GUID, a whole adapter by that of its port. */
static void
test_roster_promises(void)
{
    g_autoptr(WeftNode) node = make_node(1);
    g_autoptr(WeftHost) host = give_adapter(node);
    g_autoptr(GArray) promises = weft_roster_promises(node, host, 0x12);
    g_autofree char *head = weft_roster_head(7, 1, 22, promises);
    g_assert_cmpstr(head, ==,
                    "generation 7\nself 1\nwithin 22\nport 0 0x0000000000001000 0x8012\nport 1 0x0002c903000000ff 0x8012\n");
}

#define WITH_SCRATCH(path, test) g_test_add(path, Scratch, NULL, set_up, test, tear_down)

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    WITH_SCRATCH("/keys/openssh", test_keys_are_openssh);
    g_test_add_func("/keys/stay", test_keys_stay);
    g_test_add_func("/keys/hosts", test_host_keys);
    WITH_SCRATCH("/secret/made-once", test_secret);
    WITH_SCRATCH("/secret/refused", test_secret_refused);
    WITH_SCRATCH("/seed/contents", test_seed_contents);
    WITH_SCRATCH("/seed/node", test_seed_node);
    WITH_SCRATCH("/seed/blank", test_seed_blank);
    WITH_SCRATCH("/seed/become", test_seed_become);
    WITH_SCRATCH("/seed/cloud-init", test_seed_cloud_init);
    WITH_SCRATCH("/seed/user-data", test_seed_user_data);
    WITH_SCRATCH("/seed/vendor-data", test_seed_vendor_data);
    g_test_add_func("/seed/label", test_seed_label);
    g_test_add_func("/seed/same", test_seed_same);
    g_test_add_func("/roster", test_roster);
    g_test_add_func("/roster/stand-ins", test_roster_of_stand_ins);
    g_test_add_func("/roster/promises", test_roster_promises);
    g_test_add_func("/seed/ports", test_seed_ports);
    return g_test_run();
}
