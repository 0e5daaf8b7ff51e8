#include "partition.h"

#include "id.h"
#include "names.h"

#define MARK "weft-"
#define SHARED_MARK MARK "shared-"

const char *const weft_membership_words[] = { "full", "limited", "both", NULL };

WeftPartition *
weft_partition_new(guint pkey, const char *name)
{
    WeftPartition *partition = g_new0(WeftPartition, 1);
    partition->pkey = pkey;
    partition->name = g_strdup(name);
    partition->members = g_array_new(FALSE, FALSE, sizeof(WeftMember));
    return partition;
}

void
weft_partition_free(WeftPartition *partition)
{
    if (!partition)
        return;
    g_clear_pointer(&partition->members, g_array_unref);
    g_free(partition->name);
    g_free(partition);
}

WeftPartition *
weft_partition_copy(const WeftPartition *partition)
{
    WeftPartition *copy = g_memdup2(partition, sizeof *partition);
    copy->name = g_strdup(partition->name);
    copy->members = g_array_copy(partition->members);
    return copy;
}

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static int
compare_members(gconstpointer a, gconstpointer b)
{
    const WeftMember *x = a, *y = b;
    if (x->port_guid != y->port_guid)
        return ORDER(x->port_guid, y->port_guid);
    if (x->virtual_guid != y->virtual_guid)
        return ORDER(x->virtual_guid, y->virtual_guid);
    if (x->membership != y->membership)
        return ORDER(x->membership, y->membership);
    return ORDER(x->index, y->index);
}

void
weft_partition_add(WeftPartition *partition, const WeftMember *member)
{
    for (guint i = 0; i < partition->members->len; i++)
        if (compare_members(member, &g_array_index(partition->members, WeftMember, i)) == 0)
            return;
    g_array_append_val(partition->members, *member);
}

static gboolean
settings_equal(const WeftPartition *a, const WeftPartition *b)
{
    return a->ipoib == b->ipoib && a->sl == b->sl && a->rate == b->rate && a->mtu == b->mtu;
}

gboolean
weft_partition_equal(const WeftPartition *a, const WeftPartition *b)
{
    if (a->pkey != b->pkey || !g_str_equal(a->name, b->name) || !settings_equal(a, b) || a->members->len != b->members->len)
        return FALSE;
    g_autoptr(GArray) x = g_array_copy(a->members);
    g_autoptr(GArray) y = g_array_copy(b->members);
    g_array_sort(x, compare_members);
    g_array_sort(y, compare_members);
    for (guint i = 0; i < x->len; i++)
        if (compare_members(&g_array_index(x, WeftMember, i), &g_array_index(y, WeftMember, i)) != 0)
            return FALSE;
    return TRUE;
}

char *
weft_partition_name(const char *cluster_id)
{
    return g_strconcat(MARK, cluster_id, NULL);
}

char *
weft_partition_shared_name(const char *name)
{
    return g_strconcat(SHARED_MARK, name, NULL);
}

const char *
weft_partition_cluster(const char *name)
{
    const char *id = g_str_has_prefix(name, MARK) ? name + strlen(MARK) : NULL;
    return id && weft_id_is_valid(id) ? id : NULL;
}

gboolean
weft_partition_is_ours(const char *name)
{
    if (g_str_has_prefix(name, SHARED_MARK))
        return weft_name_check(name + strlen(SHARED_MARK), "name", NULL);
    return weft_partition_cluster(name) != NULL;
}
