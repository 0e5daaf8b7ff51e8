#include "target.h"

#include "errors.h"
#include "hostlist.h"

#define RANK_MAX G_MAXUINT16

void
weft_target_clear(WeftTarget *target)
{
    g_clear_pointer(&target->cluster, g_free);
    g_clear_pointer(&target->ranks, g_array_unref);
}

gboolean
weft_target_parse(const char *text, WeftTarget *ret_target, GError **error)
{
    WeftTarget target = { 0 };
    if (!weft_hostlist_split(text, &target.cluster, &target.ranks, error))
        return FALSE;
    *ret_target = target;
    return TRUE;
}

gboolean
weft_target_check_whole(const char *verb, const char *text, GError **error)
{
    g_auto(WeftTarget) target = { 0 };
    if (!weft_target_parse(text, &target, error))
        return FALSE;
    if (target.ranks)
        weft_cli_set_usage(error, "%s: %s names nodes of a cluster, and it takes the whole one: write %s", verb, text,
                           target.cluster);
    return !target.ranks;
}

gboolean
weft_target_split(const char *hostname, char **ret_cluster, guint *ret_rank)
{
    guint64 rank = 0;
    const char *hyphen = strrchr(hostname, '-');
    if (!hyphen || hyphen == hostname || (hyphen[1] == '0' && hyphen[2]) ||
        !g_ascii_string_to_unsigned(hyphen + 1, 10, 0, RANK_MAX, &rank, NULL))
        return FALSE;
    *ret_cluster = g_strndup(hostname, (gsize)(hyphen - hostname));
    *ret_rank = (guint)rank;
    return TRUE;
}

gboolean
weft_target_split_path(const char *text, char **ret_nodes, char **ret_path)
{
    gsize length = strcspn(text, ":/");
    if (text[length] != ':' || length == 0)
        return FALSE;
    *ret_nodes = g_strndup(text, length);
    *ret_path = g_strdup(text + length + 1);
    return TRUE;
}

/* FALSE without an error: there is no such cluster. */
static gboolean
exists(WeftCli *cli, const char *cluster, GError **error)
{
    g_autofree char *path = weft_cli_cluster_path(cli, cluster, "");
    GError *failure = NULL;
    json_t *found = weft_client_get(cli->client, path, &failure);
    json_decref(found);
    weft_error_forgive(&failure, WEFT_ERROR_NOT_FOUND);
    if (failure)
        g_propagate_error(error, failure);
    return found != NULL;
}

static void
set_rank(WeftTarget *target, guint rank)
{
    target->ranks = g_array_new(FALSE, FALSE, sizeof(guint));
    g_array_append_val(target->ranks, rank);
}

gboolean
weft_target_find(WeftCli *cli, const char *text, WeftTarget *ret_target, GError **error)
{
    g_auto(WeftTarget) target = { 0 };
    g_autofree char *cluster = NULL;
    GError *failure = NULL;
    guint rank = 0;
    if (!weft_target_parse(text, &target, error))
        return FALSE;
    if (!target.ranks && weft_target_split(target.cluster, &cluster, &rank) && !exists(cli, target.cluster, &failure)) {
        if (failure) {
            g_propagate_error(error, failure);
            return FALSE;
        }
        g_free(target.cluster);
        target.cluster = g_steal_pointer(&cluster);
        set_rank(&target, rank);
    }
    *ret_target = target;
    target = (WeftTarget){ 0 };
    return TRUE;
}

gboolean
weft_target_find_one(WeftCli *cli, const char *text, char **ret_cluster, guint *ret_rank, GError **error)
{
    g_auto(WeftTarget) target = { 0 };
    if (!weft_target_find(cli, text, &target, error))
        return FALSE;
    if (target.ranks && target.ranks->len != 1) {
        weft_cli_set_usage(error, "%s: names %u nodes; name one, like %s[0]", text, target.ranks->len, target.cluster);
        return FALSE;
    }
    *ret_rank = target.ranks ? g_array_index(target.ranks, guint, 0) : 0;
    *ret_cluster = g_steal_pointer(&target.cluster);
    return TRUE;
}
