#include "cluster.h"

#include "codec.h"
#include "errors.h"
#include "host.h"
#include "hostlist.h"
#include "lane.h"
#include "size.h"
#include "tenant.h"
#include "text.h"
#include "traffic.h"

#define TRANSPARENT_PAGES "transparent" /* how users call pages of 4K */
#define ALIGNMENT (2ULL << 20)          /* of a node's memory, whatever its pages */

const char *const weft_path_words[WEFT_PATHS + 1] = {
    [WEFT_PATH_AUTO] = "auto",
    [WEFT_PATH_SRIOV] = "sriov",
    [WEFT_PATH_PASSTHROUGH] = "passthrough",
    [WEFT_PATH_BRIDGE] = "bridge",
};

const char *const weft_locality_words[WEFT_LOCALITIES + 1] = {
    [WEFT_LOCALITY_PREFERRED] = "preferred",
    [WEFT_LOCALITY_REQUIRED] = "required",
    [WEFT_LOCALITY_NONE] = "none",
};

const char *const weft_layout_words[WEFT_LAYOUTS + 1] = {
    [WEFT_LAYOUT_COMPACT] = "compact",
    [WEFT_LAYOUT_SPREAD] = "spread",
};

const char *const weft_pattern_words[WEFT_PATTERNS + 1] = {
    [WEFT_PATTERN_NONE] = "none",           [WEFT_PATTERN_ALL] = "all",
    [WEFT_PATTERN_RING] = "ring",           [WEFT_PATTERN_STENCIL2D] = "stencil2d",
    [WEFT_PATTERN_STENCIL3D] = "stencil3d", [WEFT_PATTERN_MATRIX] = "matrix",
};

const char *const weft_start_words[WEFT_START_WAYS + 1] = {
    [WEFT_START_TEMPLATE] = "template",
    [WEFT_START_COLD] = "cold",
};

/* What a user may say of a group, its name apart. In the store all that has a default is written out, so that what was
 * granted does not change when a default does. */
static const WeftCodecField shape_fields[] = {
    WEFT_FIELD(WeftGroup, count, UINT, .max = WEFT_NODES_MAX),
    WEFT_FIELD(WeftGroup, cores, UINT, WEFT_OPTIONAL, .fallback = 1, .min = 1, .max = WEFT_CORES_MAX),
    WEFT_FIELD(WeftGroup, memory, SIZE, WEFT_OPTIONAL, .fallback = 1 << 30, .min = WEFT_MEMORY_MIN, .max = WEFT_MEMORY_MAX),
    WEFT_FIELD(WeftGroup, gpus, UINT, WEFT_OPTIONAL, .max = WEFT_GPUS_MAX),
    WEFT_FIELD(WeftGroup, path, WORD, WEFT_OPTIONAL, .fallback = WEFT_PATH_AUTO, .words = weft_path_words),
    WEFT_FIELD_AS("numa", WeftGroup, locality, WORD, WEFT_OPTIONAL, .words = weft_locality_words),
    WEFT_FIELD(WeftGroup, rails, UINT, WEFT_OPTIONAL, .fallback = 1, .max = WEFT_RAILS_MAX),
    WEFT_FIELD(WeftGroup, image, TEXT, WEFT_OPTIONAL, .text = "default", .grammar = WEFT_GRAMMAR_IMAGE, .what = "image"),
    WEFT_FIELD(WeftGroup, disk, SIZE, WEFT_OPTIONAL, .min = WEFT_DISK_MIN, .max = WEFT_IMAGE_SIZE_MAX),
    {},
};

static const WeftCodecField pages_field[] = {
    WEFT_FIELD_AS("pages", WeftGroup, page_size, SIZE, WEFT_OPTIONAL, .min = 4 << 10, .max = 16ULL << 30),
    {},
};

static const WeftCodecField group_name[] = {
    WEFT_FIELD(WeftGroup, name, TEXT, .grammar = WEFT_GRAMMAR_NAME, .what = "group name"),
    {},
};

static const WeftCodecField spec_fields[] = {
    WEFT_FIELD(WeftCluster, name, TEXT, .grammar = WEFT_GRAMMAR_NAME, .what = "cluster name"),
    WEFT_FIELD(WeftCluster, fabric, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_NAME, .what = "fabric name"),
    WEFT_FIELD(WeftCluster, bandwidth, RATE, WEFT_OPTIONAL, .min = WEFT_BANDWIDTH_MIN, .max = WEFT_BANDWIDTH_MAX),
    WEFT_FIELD(WeftCluster, user_data, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCluster, slurm, BOOL),
    WEFT_FIELD(WeftCluster, shm, SIZE, WEFT_OPTIONAL, .min = WEFT_SHM_MIN, .max = WEFT_SHM_MAX),
    WEFT_FIELD(WeftCluster, layout, WORD, WEFT_OPTIONAL, .words = weft_layout_words),
    WEFT_FIELD(WeftCluster, exclusive, BOOL),
    WEFT_FIELD(WeftCluster, pattern, WORD, WEFT_OPTIONAL, .words = weft_pattern_words),
    WEFT_FIELD(WeftCluster, priority, INT, .min = WEFT_PRIORITY_MIN, .max = WEFT_PRIORITY_MAX),
    WEFT_FIELD(WeftCluster, walltime, SECONDS, WEFT_OPTIONAL, .min = WEFT_WALLTIME_MIN, .max = WEFT_WALLTIME_MAX),
    WEFT_FIELD(WeftCluster, preemptible, BOOL),
    WEFT_FIELD(WeftCluster, start, WORD, WEFT_OPTIONAL, .words = weft_start_words),
    WEFT_FIELD(WeftCluster, hosts, TEXT, WEFT_OPTIONAL),
    {},
};

/* clang-format off */
static const WeftCodecField grant_fields[] = {
    WEFT_FIELD(WeftCluster, id, TEXT),
    WEFT_FIELD(WeftCluster, tenant, TEXT),
    WEFT_FIELD(WeftCluster, creator, TEXT),
    WEFT_FIELD(WeftCluster, created, UINT64),
    WEFT_FIELD(WeftCluster, scaled, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCluster, deleted, BOOL),
    WEFT_FIELD(WeftCluster, bridged, BOOL),
    WEFT_FIELD(WeftCluster, capture, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCluster, checkpoint, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCluster, keys, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCluster, clone_of, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftCluster, clone_node, TEXT, WEFT_OPTIONAL),
    {},
};
/* clang-format on */

static const WeftCodecField status_fields[] = {
    WEFT_FIELD(WeftClusterStatus, cluster, TEXT),
    WEFT_FIELD(WeftClusterStatus, tenant, TEXT),
    WEFT_FIELD(WeftClusterStatus, name, TEXT),
    WEFT_FIELD(WeftClusterStatus, phase, WORD, .words = weft_cluster_phase_words),
    WEFT_FIELD(WeftClusterStatus, reason, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, detail, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, since, UINT64),
    WEFT_FIELD(WeftClusterStatus, fabric, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, pkey, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, sl, UINT, WEFT_OPTIONAL, .max = WEFT_LANES_MAX),
    WEFT_FIELD(WeftClusterStatus, vxlan, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, unmanaged, BOOL, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, generation, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, wired, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, next_serial, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, nodes, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, ready, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, was_ready, BOOL),
    WEFT_FIELD(WeftClusterStatus, placed, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, ends, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, cloned, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, paused, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, origin, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, thawed, BOOL, WEFT_OPTIONAL),
    WEFT_FIELD(WeftClusterStatus, restored, BOOL, WEFT_OPTIONAL),
    {},
};

static void
group_free(WeftGroup *group)
{
    weft_codec_clear(group_name, group);
    weft_codec_free(shape_fields, group);
}

static WeftCluster *
cluster_new(void)
{
    WeftCluster *cluster = g_new0(WeftCluster, 1);
    cluster->groups = g_ptr_array_new_with_free_func((GDestroyNotify)group_free);
    cluster->labels = weft_labels_new();
    cluster->ssh_keys = g_ptr_array_new_with_free_func(g_free);
    cluster->shared = g_ptr_array_new_with_free_func(g_free);
    cluster->apart = g_ptr_array_new_with_free_func(g_free);
    cluster->traffic = g_array_new(FALSE, FALSE, sizeof(WeftTraffic));
    return cluster;
}

static WeftGroup *
add_group(WeftCluster *cluster)
{
    WeftGroup *group = g_new0(WeftGroup, 1);
    g_ptr_array_add(cluster->groups, group);
    return group;
}

/* Says which sizes near the one that was asked for would do. */
static void
check_memory(WeftFields *f, const WeftGroup *group)
{
    guint64 unit = MAX(group->page_size, ALIGNMENT);
    if (group->memory % unit == 0)
        return;
    guint64 below = group->memory / unit * unit;
    g_autofree char *asked = weft_size_format(group->memory);
    g_autofree char *step = weft_size_format(unit);
    g_autofree char *lower = weft_size_format(below);
    g_autofree char *upper = weft_size_format(below + unit);
    gboolean choice = below >= WEFT_MEMORY_MIN;
    weft_fields_fail(f, "memory", "%s is not a multiple of %s%s; ask for %s%s%s", asked,
                     unit == group->page_size ? "the page size " : "", step, choice ? lower : "", choice ? " or " : "", upper);
}

static void
check_rails(WeftFields *f, const WeftGroup *group)
{
    gboolean bridge = group->path == WEFT_PATH_BRIDGE;
    if (bridge && group->rails > 0)
        weft_fields_fail(f, "rails",
                         "%u rails with path bridge, which has no fabric devices; leave rails out, or choose path sriov",
                         group->rails);
    else if (!bridge && group->path != WEFT_PATH_AUTO && group->rails == 0)
        weft_fields_fail(f, "rails",
                         "0 rails with path %s, which needs fabric devices; ask for at least 1, or choose path bridge",
                         weft_path_words[group->path]);
}

static void
check_shape(WeftFields *f, const WeftGroup *group)
{
    g_autoptr(GError) error = NULL;
    if (group->page_size && !weft_page_size_check(group->page_size, &error))
        weft_fields_fail(f, "pages", "%s", error->message);
    check_memory(f, group);
    check_rails(f, group);
}

static void
read_wished_pages(WeftFields *f, WeftGroup *group)
{
    const char *word = weft_fields_has(f, "pages") ? json_string_value(json_object_get(f->object, "pages")) : NULL;
    if (g_strcmp0(word, TRANSPARENT_PAGES) == 0)
        group->page_size = 4 << 10;
    else
        weft_codec_read(f, pages_field, group);
}

static void
read_wished_shape(WeftFields *f, WeftGroup *group)
{
    /* Only scaling may leave a group empty: asked for first, this range is the one that holds. */
    weft_fields_uint(f, "count", 1, WEFT_NODES_MAX, WEFT_REQUIRED);
    weft_codec_read(f, shape_fields, group);
    read_wished_pages(f, group);
    if (group->path == WEFT_PATH_BRIDGE && !json_is_integer(json_object_get(f->object, "rails")))
        group->rails = 0;
    if (!f->error)
        check_shape(f, group);
}

static void
read_wished_group(WeftFields *f, guint index, gpointer owner)
{
    WeftGroup *group = add_group(owner);
    weft_codec_read(f, group_name, group);
    read_wished_shape(f, group);
}

static void
read_stored_group(WeftFields *f, guint index, gpointer owner)
{
    WeftGroup *group = add_group(owner);
    weft_codec_read(f, group_name, group);
    weft_codec_read(f, shape_fields, group);
    weft_codec_read(f, pages_field, group);
}

static void
check_groups(WeftFields *f, const WeftCluster *cluster)
{
    for (guint i = 0; i < cluster->groups->len; i++)
        for (guint j = 0; j < i; j++) {
            const WeftGroup *a = g_ptr_array_index(cluster->groups, i), *b = g_ptr_array_index(cluster->groups, j);
            if (g_str_equal(a->name, b->name))
                weft_fields_fail(f, "groups", "two groups are named \"%s\"; give each its own name", a->name);
        }
    if (cluster->groups->len == 0)
        weft_fields_fail(f, "groups", "is empty; describe at least one group");
    if (weft_cluster_count(cluster) > WEFT_NODES_MAX)
        weft_fields_fail(f, "groups", "%u nodes in all; a cluster has at most %d", weft_cluster_count(cluster), WEFT_NODES_MAX);
}

static void
refuse_beside_groups(WeftFields *f, const WeftCodecField *table)
{
    for (const WeftCodecField *field = table; field->name; field++)
        if (weft_fields_has(f, field->name))
            weft_fields_fail(f, field->name, "cannot stand beside \"groups\"; write it into each group");
}

static void
read_wished_groups(WeftFields *f, WeftCluster *cluster)
{
    refuse_beside_groups(f, shape_fields);
    refuse_beside_groups(f, pages_field);
    weft_codec_read_items(f, "groups", WEFT_GROUPS_MAX, read_wished_group, cluster);
    if (!f->error)
        check_groups(f, cluster);
}

/* A key's own bytes are texts with their lengths before them, the first the name of its type (RFC 4253). */
static gboolean
is_key_of(const guchar *blob, gsize length, const char *type)
{
    guint texts = 0;
    for (gsize at = 0; at != length; texts++) {
        if (length - at < 4)
            return FALSE;
        gsize size = (gsize)blob[at] << 24 | (gsize)blob[at + 1] << 16 | (gsize)blob[at + 2] << 8 | blob[at + 3];
        at += 4;
        if (size > length - at || (texts == 0 && (size != strlen(type) || memcmp(blob + at, type, size) != 0)))
            return FALSE;
        at += size;
    }
    return texts >= 2;
}

/* "TYPE BASE64 COMMENT", without the options that authorized_keys would allow: they are not the user's to set. */
static gboolean
is_ssh_key(const char *text)
{
    if (strlen(text) > WEFT_SSH_KEY_MAX)
        return FALSE;
    for (const char *at = text; *at; at++)
        if (g_ascii_iscntrl(*at))
            return FALSE;
    g_auto(GStrv) words = g_strsplit(text, " ", 3);
    if (g_strv_length(words) < 2 ||
        words[1][strspn(words[1], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")])
        return FALSE;
    gsize length;
    g_autofree guchar *blob = g_base64_decode(words[1], &length);
    return is_key_of(blob, length, words[0]);
}

static void
check_access(WeftFields *f, const WeftCluster *cluster)
{
    for (guint i = 0; i < cluster->ssh_keys->len; i++) {
        const char *key = g_ptr_array_index(cluster->ssh_keys, i);
        g_autofree char *quoted = weft_text_quote(key);
        if (!is_ssh_key(key))
            weft_fields_fail(f, "ssh_keys", "%s is no public key; give the line of a .pub file, as ssh-keygen writes it",
                             quoted);
    }
    gsize length = cluster->user_data ? strlen(cluster->user_data) : 0;
    if (length > WEFT_USER_DATA_MAX)
        weft_fields_fail(f, "user_data", "%zu bytes; at most %d are allowed: put the rest into the image", length,
                         WEFT_USER_DATA_MAX);
    else if (cluster->user_data && !length)
        weft_fields_fail(f, "user_data", "is empty; leave it out, or write what cloud-init takes");
}

static void
check_shm(WeftFields *f, const WeftCluster *cluster)
{
    g_autofree char *size = weft_size_format(cluster->shm);
    if (cluster->shm & (cluster->shm - 1))
        weft_fields_fail(f, "shm", "%s is no power of two; ask for 64M, for instance", size);
}

/* What is guaranteed is a part of a fabric device's link. */
static void
check_bandwidth(WeftFields *f, const WeftCluster *cluster)
{
    for (guint i = 0; cluster->bandwidth && i < cluster->groups->len; i++) {
        const WeftGroup *group = g_ptr_array_index(cluster->groups, i);
        if (group->rails == 0)
            weft_fields_fail(
                f, "bandwidth",
                "is guaranteed on fabric devices only, and the nodes of \"%s\" have none; ask for rails and path sriov "
                "or passthrough, or leave bandwidth out",
                group->name);
    }
}

static void
read_names(WeftFields *f, const char *field, guint max, const char *what, GPtrArray *names)
{
    weft_codec_read_texts(f, field, max, WEFT_GRAMMAR_NAME, what, names);
    for (guint i = 0; i < names->len; i++)
        for (guint j = 0; j < i; j++)
            if (g_str_equal(names->pdata[i], names->pdata[j]))
                weft_fields_fail(f, field, "\"%s\" is there twice; ask for it once", (const char *)names->pdata[i]);
}

/* What is a list of texts. */
static void
read_lists(WeftFields *f, WeftCluster *cluster)
{
    weft_codec_read_texts(f, "ssh_keys", WEFT_SSH_KEYS_MAX, WEFT_GRAMMAR_NONE, "ssh key", cluster->ssh_keys);
    read_names(f, "shared", WEFT_SHARED_MAX, "shared partition", cluster->shared);
    read_names(f, "apart", WEFT_APART_MAX, "cluster name", cluster->apart);
}

static void
check_apart(WeftFields *f, const WeftCluster *cluster)
{
    for (guint i = 0; i < cluster->apart->len; i++)
        if (g_str_equal(cluster->apart->pdata[i], cluster->name))
            weft_fields_fail(f, "apart", "\"%s\" is the cluster itself; name others, or ask for layout spread", cluster->name);
}

static void
check_hosts(WeftFields *f, const WeftCluster *cluster)
{
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) names = cluster->hosts ? weft_hostlist_expand(cluster->hosts, &error) : NULL;
    for (guint i = 0; names && names[i]; i++)
        if (!weft_host_name_check(names[i], &error))
            break;
    if (error)
        weft_fields_fail(f, "hosts", "%s", error->message);
}

static void
read_matrix(WeftFields *f, WeftCluster *cluster)
{
    gboolean told = weft_fields_has(f, "matrix") && !json_is_null(json_object_get(f->object, "matrix"));
    if (told && json_is_string(json_object_get(f->object, "pattern")))
        weft_fields_fail(f, "pattern", "cannot stand beside \"matrix\"; leave one of them out");
    else if (!told && cluster->pattern == WEFT_PATTERN_MATRIX)
        weft_fields_fail(f, "pattern", "is \"matrix\" where a field \"matrix\" has the numbers; write that instead");
    if (told && !f->error)
        cluster->pattern = WEFT_PATTERN_MATRIX;
    weft_traffic_read_matrix(f, weft_cluster_count(cluster), cluster->traffic);
}

WeftCluster *
weft_cluster_from_spec(json_t *json, GError **error)
{
    g_autoptr(WeftCluster) cluster = cluster_new();
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "");
    weft_codec_read(&f, spec_fields, cluster);
    weft_labels_read(&f, cluster->labels);
    read_lists(&f, cluster);
    if (!f.error)
        check_access(&f, cluster);
    if (!f.error)
        check_shm(&f, cluster);
    if (!f.error)
        check_apart(&f, cluster);
    if (!f.error)
        check_hosts(&f, cluster);
    if (weft_fields_array(&f, "groups", WEFT_GROUPS_MAX)) {
        read_wished_groups(&f, cluster);
    } else {
        WeftGroup *group = add_group(cluster);
        group->name = g_strdup("nodes");
        read_wished_shape(&f, group);
    }
    read_matrix(&f, cluster);
    if (!f.error)
        check_bandwidth(&f, cluster);
    return weft_fields_end(&f, error) ? g_steal_pointer(&cluster) : NULL;
}

WeftCluster *
weft_cluster_from_json(json_t *json, GError **error)
{
    g_autoptr(WeftCluster) cluster = cluster_new();
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "");
    weft_codec_read(&f, spec_fields, cluster);
    weft_codec_read(&f, grant_fields, cluster);
    weft_labels_read(&f, cluster->labels);
    read_lists(&f, cluster);
    weft_traffic_read(&f, cluster->traffic);
    weft_codec_read_items(&f, "groups", WEFT_GROUPS_MAX, read_stored_group, cluster);
    return weft_fields_end(&f, error) ? g_steal_pointer(&cluster) : NULL;
}

json_t *
weft_cluster_to_json(const WeftCluster *cluster)
{
    json_t *json = weft_codec_write(spec_fields, cluster);
    json_object_update_new(json, weft_codec_write(grant_fields, cluster));
    if (g_hash_table_size(cluster->labels))
        json_object_set_new_nocheck(json, "labels", weft_labels_write(cluster->labels));
    if (cluster->ssh_keys->len)
        json_object_set_new_nocheck(json, "ssh_keys", weft_codec_write_texts(cluster->ssh_keys));
    if (cluster->shared->len)
        json_object_set_new_nocheck(json, "shared", weft_codec_write_texts(cluster->shared));
    if (cluster->apart->len)
        json_object_set_new_nocheck(json, "apart", weft_codec_write_texts(cluster->apart));
    if (cluster->traffic->len)
        json_object_set_new_nocheck(json, "traffic", weft_traffic_write(cluster->traffic));
    json_t *groups = json_array();
    for (guint i = 0; i < cluster->groups->len; i++) {
        const WeftGroup *group = g_ptr_array_index(cluster->groups, i);
        json_t *item = weft_codec_write(group_name, group);
        json_object_update_new(item, weft_codec_write(shape_fields, group));
        json_object_update_new(item, weft_codec_write(pages_field, group));
        json_array_append_new(groups, item);
    }
    json_object_set_new_nocheck(json, "groups", groups);
    return json;
}

static gpointer
copy_text(gconstpointer text, gpointer data)
{
    return g_strdup(text);
}

static gpointer
copy_group(gconstpointer group, gpointer data)
{
    WeftGroup *copy = g_memdup2(group, sizeof *copy);
    weft_codec_own(group_name, copy);
    weft_codec_own(shape_fields, copy);
    return copy;
}

WeftCluster *
weft_cluster_copy(const WeftCluster *cluster)
{
    WeftCluster *copy = g_memdup2(cluster, sizeof *copy);
    weft_codec_own(spec_fields, copy);
    weft_codec_own(grant_fields, copy);
    copy->groups = g_ptr_array_copy(cluster->groups, copy_group, NULL);
    copy->labels = weft_labels_new();
    copy->ssh_keys = g_ptr_array_copy(cluster->ssh_keys, copy_text, NULL);
    copy->shared = g_ptr_array_copy(cluster->shared, copy_text, NULL);
    copy->apart = g_ptr_array_copy(cluster->apart, copy_text, NULL);
    copy->traffic = g_array_ref(cluster->traffic); /* large, and never changed once it is read */
    GHashTableIter iter;
    gpointer name, value;
    g_hash_table_iter_init(&iter, cluster->labels);
    while (g_hash_table_iter_next(&iter, &name, &value))
        g_hash_table_insert(copy->labels, g_strdup(name), g_strdup(value));
    return copy;
}

void
weft_cluster_free(WeftCluster *cluster)
{
    if (!cluster)
        return;
    g_clear_pointer(&cluster->groups, g_ptr_array_unref);
    g_clear_pointer(&cluster->labels, g_hash_table_unref);
    g_clear_pointer(&cluster->ssh_keys, g_ptr_array_unref);
    g_clear_pointer(&cluster->shared, g_ptr_array_unref);
    g_clear_pointer(&cluster->apart, g_ptr_array_unref);
    g_clear_pointer(&cluster->traffic, g_array_unref);
    weft_codec_clear(spec_fields, cluster);
    weft_codec_free(grant_fields, cluster);
}

const char *
weft_cluster_keys(const WeftCluster *cluster)
{
    return cluster->keys ? cluster->keys : cluster->id;
}

guint
weft_cluster_count(const WeftCluster *cluster)
{
    guint count = 0;
    for (guint i = 0; i < cluster->groups->len; i++)
        count += ((const WeftGroup *)g_ptr_array_index(cluster->groups, i))->count;
    return count;
}

void
weft_cluster_demand(const WeftCluster *cluster, guint64 *ret_demand)
{
    memset(ret_demand, 0, WEFT_QUOTAS * sizeof *ret_demand);
    ret_demand[WEFT_QUOTA_CLUSTERS] = 1;
    for (guint i = 0; i < cluster->groups->len; i++) {
        const WeftGroup *group = g_ptr_array_index(cluster->groups, i);
        guint64 count = group->count;
        ret_demand[WEFT_QUOTA_NODES] += count;
        ret_demand[WEFT_QUOTA_CORES] += count * group->cores;
        ret_demand[WEFT_QUOTA_MEMORY] += count * (group->memory + cluster->shm);
        ret_demand[WEFT_QUOTA_STORAGE] += count * group->disk;
        ret_demand[WEFT_QUOTA_GPUS] += count * group->gpus;
        if (!(cluster->bridged && group->path == WEFT_PATH_AUTO))
            ret_demand[WEFT_QUOTA_VFS] += count * group->rails;
    }
}

guint
weft_group_devices(const WeftGroup *group)
{
    return (group->path == WEFT_PATH_PASSTHROUGH ? 1U << WEFT_DEVICE_PASSTHROUGH : 0) |
           (group->gpus > 0 ? 1U << WEFT_DEVICE_GPU : 0);
}

static WeftGroup *
find_group(const WeftCluster *cluster, const char *name, GError **error)
{
    if (!name && cluster->groups->len == 1)
        return g_ptr_array_index(cluster->groups, 0);
    g_autoptr(GString) names = g_string_new(NULL);
    for (guint i = 0; i < cluster->groups->len; i++) {
        WeftGroup *group = g_ptr_array_index(cluster->groups, i);
        if (g_strcmp0(group->name, name) == 0)
            return group;
        g_string_append_printf(names, "%s%s", i ? ", " : "", group->name);
    }
    g_autofree char *quoted = weft_text_quote(name ? name : "");
    if (name)
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "group: cluster \"%s\" has no group %s; it has %s", cluster->name,
                    quoted, names->str);
    else
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "group: is missing; cluster \"%s\" has several: %s", cluster->name,
                    names->str);
    return NULL;
}

gboolean
weft_cluster_scale(WeftCluster *cluster, const char *name, guint count, GError **error)
{
    WeftGroup *group = find_group(cluster, name, error);
    if (!group)
        return FALSE;
    guint64 total = (guint64)weft_cluster_count(cluster) - group->count + count;
    if (total == 0) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "count: 0 would leave cluster \"%s\" without nodes; delete it instead", cluster->name);
        return FALSE;
    }
    if (total > WEFT_NODES_MAX) {
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "count: %u would make %" G_GUINT64_FORMAT " nodes in all; a cluster has at most %d", count, total,
                    WEFT_NODES_MAX);
        return FALSE;
    }
    group->count = count;
    return TRUE;
}

WeftClusterStatus *
weft_cluster_status_from_json(json_t *json, GError **error)
{
    return weft_codec_decode(status_fields, sizeof(WeftClusterStatus), json, "", error);
}

json_t *
weft_cluster_status_to_json(const WeftClusterStatus *status)
{
    return weft_codec_write(status_fields, status);
}

void
weft_cluster_status_free(WeftClusterStatus *status)
{
    weft_codec_free(status_fields, status);
}
