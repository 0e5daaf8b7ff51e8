#include "ops.h"

#include "adapter.h"
#include "bridge.h"
#include "channels.h"
#include "claim.h"
#include "errors.h"
#include "failpoint.h"
#include "hook.h"
#include "memory.h"
#include "metadata.h"
#include "peers.h"
#include "quarantine.h"
#include "release.h"
#include "state.h"
#include "vf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VXLAN_MAX 0xffffff

/* --- bridges that nobody needs --- */

static gboolean
is_wanted_by_node(const WeftHook *hook, guint vxlan)
{
    g_autoptr(GPtrArray) records = weft_state_list(hook, WEFT_RECORD_DOMAIN);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = g_ptr_array_index(records, i);
        g_autoptr(WeftHookNode) node = weft_hook_node_read(record->name, record->text, NULL);
        if (node && node->vxlan == vxlan)
            return TRUE;
    }
    return FALSE;
}

static char *
network_name(guint vxlan)
{
    return g_strdup_printf(WEFT_NETWORK_PREFIX "%u", vxlan);
}

static gboolean
is_wanted_by_network(const WeftHook *hook, guint vxlan)
{
    g_autofree char *name = network_name(vxlan);
    g_autoptr(WeftRecord) record = weft_state_get(hook, WEFT_RECORD_NETWORK, name);
    return record != NULL;
}

static gboolean
collect_bridge(const WeftHook *hook, guint vxlan, GError **error)
{
    gboolean has_ports;
    if (is_wanted_by_network(hook, vxlan) || is_wanted_by_node(hook, vxlan)) /* the node's records have to be parsed */
        return TRUE;
    if (!weft_bridge_has_ports(hook, vxlan, &has_ports, error))
        return FALSE;
    return has_ports || weft_bridge_remove(hook, vxlan, error);
}

/* --- what others left behind --- */

/* WeftTaken: what the node has for itself. */
static GArray *
list_taken(const WeftHookNode *node)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(WeftTaken));
    for (guint i = 0; i < node->devices->len; i++) {
        WeftTaken taken = weft_taken_device(g_ptr_array_index(node->devices, i));
        g_array_append_val(list, taken);
    }
    for (guint i = 0; i < node->gpus->len; i++) {
        WeftTaken taken = weft_taken_gpu(g_ptr_array_index(node->gpus, i));
        g_array_append_val(list, taken);
    }
    return list;
}

static gboolean
is_in_quarantine(const WeftHook *hook, const char *pci)
{
    g_autofree char *why = weft_quarantine_why(hook, pci);
    return why != NULL;
}

static void
add_word(GString *list, const char *word)
{
    g_string_append_printf(list, "%s%s", list->len ? "," : "", word);
}

/* All of them, and the first error. Those that were released before may be another's by now. ret_why: why one could not be
 * released that is not in quarantine either; NULL: there is none. */
static gboolean
clear_devices(const WeftHook *hook, const WeftRecord *record, const WeftHookNode *node, GString *released, char **ret_why,
              GError **error)
{
    gboolean ok = TRUE;
    g_autoptr(GArray) list = list_taken(node);
    for (guint i = 0; i < list->len; i++) {
        const WeftTaken *taken = &g_array_index(list, WeftTaken, i);
        g_autoptr(GError) trouble = NULL;
        if (weft_record_is_released(record, taken->pci) || weft_release(hook, taken, &trouble)) {
            add_word(released, taken->pci);
            continue;
        }
        if (!*ret_why && !is_in_quarantine(hook, taken->pci))
            *ret_why = g_strdup(trouble->message);
        if (ok)
            g_propagate_error(error, g_steal_pointer(&trouble));
        ok = FALSE;
    }
    return ok;
}

/* --- memory that nodes of a cluster share --- */

static gboolean
is_of_cluster(const char *domain, const char *cluster, gsize length)
{
    return strncmp(domain, cluster, length) == 0 && domain[length] == '-' && !strchr(domain + length + 1, '-');
}

/* The domain is "weft-<cluster>-<serial>", and the file "weft-<cluster>". */
static gsize
cluster_length(const char *domain)
{
    return (gsize)(strrchr(domain, '-') - domain);
}

static char *
memory_path(const WeftHook *hook, const char *domain)
{
    return g_strdup_printf("%s/dev/shm/%.*s", hook->root, (int)cluster_length(domain), domain);
}

/* QEMU makes the file so that every user of the host may read it. */
static gboolean
close_memory(const WeftHook *hook, const char *domain, GError **error)
{
    g_autofree char *path = memory_path(hook, domain);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return TRUE; /* its nodes share none */
    gboolean ok = fd >= 0 && fchmod(fd, 0600) == 0;
    if (!ok)
        weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot take %s from other users of this host: %s", path,
                          g_strerror(errno));
    if (fd >= 0)
        close(fd);
    return ok;
}

/* QEMU leaves the file behind; the last domain of its cluster takes it along. */
static void
remove_memory(const WeftHook *hook, const char *domain)
{
    gsize length = cluster_length(domain);
    g_autoptr(GPtrArray) records = weft_state_list(hook, WEFT_RECORD_DOMAIN);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *other = g_ptr_array_index(records, i);
        if (!g_str_equal(other->name, domain) && is_of_cluster(other->name, domain, length))
            return;
    }
    g_autofree char *path = memory_path(hook, domain);
    unlink(path);
}

/* The record stays until its devices are cleared, as one that nobody holds: so each later run tries again, but for those in
 * quarantine, which wait for an operator. */
static gboolean
undo(const WeftHook *hook, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftHookNode) node = weft_hook_node_read(record->name, record->text, NULL);
    g_autoptr(GString) released = g_string_new(NULL);
    g_autofree char *why = NULL;
    if (node && !clear_devices(hook, record, node, released, &why, error)) {
        weft_state_keep(hook, WEFT_RECORD_DOMAIN, record, released->str, why);
        return FALSE;
    }
    weft_failpoint("hook-cleared");
    if (node) {
        remove_memory(hook, node->domain);
        weft_memory_end(hook, node);
    }
    weft_state_drop(hook, WEFT_RECORD_DOMAIN, record->name);
    return !node || collect_bridge(hook, node->vxlan, error);
}

static void
drop_dead(const WeftHook *hook, WeftRecordKind kind, const char *but)
{
    weft_state_tidy(hook, kind);
    g_autoptr(GPtrArray) records = weft_state_list(hook, kind);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = g_ptr_array_index(records, i);
        if (g_strcmp0(record->name, but) == 0 || weft_state_is_alive(hook, kind, record))
            continue;
        if (kind == WEFT_RECORD_DOMAIN)
            undo(hook, record, NULL);
        else
            weft_state_drop(hook, kind, record->name);
    }
}

/* Mends what a killed hook, libvirtd or node left. What cannot be mended now is left to the next run: it is nobody's fault that
 * this one was asked for something else. but: a domain that was just tried; NULL: none. */
static void
sweep(const WeftHook *hook, const char *but)
{
    drop_dead(hook, WEFT_RECORD_NETWORK, NULL);
    drop_dead(hook, WEFT_RECORD_DOMAIN, but);
    g_autoptr(GArray) vxlans = weft_bridge_list(hook, NULL);
    for (guint i = 0; vxlans && i < vxlans->len; i++)
        collect_bridge(hook, g_array_index(vxlans, guint, i), NULL);
    weft_memory_sweep(hook);
}

void
weft_hook_tidy(const WeftHook *hook)
{
    if (weft_state_lock(hook, NULL))
        sweep(hook, NULL);
}

/* --- nodes --- */

/* A whole HCA takes all of its functions with it. */
static gboolean
overlaps(const WeftTaken *a, const WeftTaken *b)
{
    const char *above = a->pf ? a->pf : a->pci;
    return g_str_equal(a->pci, b->pci) || ((!a->pf || !b->pf) && g_str_equal(above, b->pf ? b->pf : b->pci));
}

static guint64
guid_of(const WeftTaken *taken)
{
    return taken->device ? taken->device->guid : 0;
}

/* What the other has still, by its record. */
static gboolean
check_against(const WeftHookNode *node, const WeftRecord *record, const WeftHookNode *other, GError **error)
{
    g_autoptr(GArray) ours = list_taken(node), others = list_taken(other);
    for (guint i = 0; i < ours->len * others->len; i++) {
        const WeftTaken *mine = &g_array_index(ours, WeftTaken, i / others->len);
        const WeftTaken *theirs = &g_array_index(others, WeftTaken, i % others->len);
        if (weft_record_is_released(record, theirs->pci))
            continue;
        if (overlaps(mine, theirs))
            return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                     "node %s may not have %s: it is node %s's, which is on this host; stop that one first",
                                     node->id, mine->pci, other->id);
        if (guid_of(mine) && guid_of(mine) == guid_of(theirs))
            return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                     "node %s may not have GUID 0x%016" G_GINT64_MODIFIER
                                     "x: it is node %s's, which is on this host; stop that one first",
                                     node->id, guid_of(mine), other->id);
    }
    return TRUE;
}

typedef gboolean (*Against)(const WeftHook *hook, const WeftHookNode *node, const WeftRecord *record, const WeftHookNode *other,
                            GError **error);

/* Records are parsed only for a node that has something for itself. */
static gboolean
check_others(const WeftHook *hook, const WeftHookNode *node, Against check, GError **error)
{
    if (node->devices->len + node->gpus->len == 0)
        return TRUE;
    g_autoptr(GPtrArray) records = weft_state_list(hook, WEFT_RECORD_DOMAIN);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = g_ptr_array_index(records, i);
        g_autoptr(WeftHookNode) other = weft_hook_node_read(record->name, record->text, NULL);
        if (other && !g_str_equal(other->domain, node->domain) && !check(hook, node, record, other, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
is_not_theirs(const WeftHook *hook, const WeftHookNode *node, const WeftRecord *record, const WeftHookNode *other,
              GError **error)
{
    return !weft_state_is_alive(hook, WEFT_RECORD_DOMAIN, record) || check_against(node, record, other, error);
}

/* After everything that can be mended was: whose record is still there, dead or alive, has what it says. */
static gboolean
is_taken_back(const WeftHook *hook, const WeftHookNode *node, const WeftRecord *record, const WeftHookNode *other,
              GError **error)
{
    const char *trouble = weft_record_trouble(record);
    if (check_against(node, record, other, NULL))
        return TRUE;
    return weft_error_refuse(
        error, WEFT_ERROR_UNAVAILABLE, "node %s may not have what node %s had, which could not be taken back: %s", node->id,
        other->id, trouble ? trouble : "some of it is in quarantine (weft doctor shows why), or that node ended just now");
}

static gboolean
check(const WeftHook *hook, const WeftHookNode *node, GError **error)
{
    if (!weft_vf_check_hostdevs(hook, node, error) || !check_others(hook, node, is_not_theirs, error))
        return FALSE;
    for (guint i = 0; i < node->devices->len; i++) {
        if (!weft_vf_check(hook, g_ptr_array_index(node->devices, i), error))
            return FALSE;
    }
    return TRUE;
}

/* Where its network is active the bridge has that one's peers: should it be new, or its maker have been killed, so it gets them
 * now. */
static gboolean
make_bridge(const WeftHook *hook, guint vxlan, GError **error)
{
    g_autofree char *name = network_name(vxlan);
    if (!weft_bridge_ensure(hook, vxlan, error))
        return FALSE;
    g_autoptr(WeftRecord) record = weft_state_get(hook, WEFT_RECORD_NETWORK, name);
    if (!record)
        return TRUE;
    g_autoptr(GArray) peers = weft_peers_parse(record->text);
    return weft_bridge_set_peers(hook, vxlan, peers, error);
}

static gboolean
check_taken(const WeftHook *hook, const WeftHookNode *node, GError **error)
{
    g_autoptr(GArray) list = list_taken(node);
    for (guint i = 0; i < list->len; i++)
        if (!weft_release_check(hook, &g_array_index(list, WeftTaken, i), error))
            return FALSE;
    return TRUE;
}

static gboolean
note_taken(const WeftHook *hook, const WeftHookNode *node, GError **error)
{
    g_autoptr(GArray) list = list_taken(node);
    for (guint i = 0; i < list->len; i++)
        if (!weft_release_note(hook, &g_array_index(list, WeftTaken, i), error))
            return FALSE;
    return TRUE;
}

static gboolean
set_up(const WeftHook *hook, const WeftHookNode *node, GError **error)
{
    if (!note_taken(hook, node, error))
        return FALSE;
    for (guint i = 0; i < node->devices->len; i++) {
        if (!weft_vf_prepare(hook, g_ptr_array_index(node->devices, i), error))
            return FALSE;
        weft_failpoint("hook-device-prepared");
    }
    /* QEMU opens it where it is: it must not be somebody else's, who knew the name before. */
    remove_memory(hook, node->domain);
    return make_bridge(hook, node->vxlan, error);
}

gboolean
weft_hook_check(const WeftHook *hook, const char *domain, const char *xml, GError **error)
{
    g_autoptr(WeftHookNode) node = weft_hook_node_read(domain, xml, error);
    return node && weft_state_lock(hook, error) && check(hook, node, error);
}

gboolean
weft_hook_prepare(const WeftHook *hook, const char *domain, const char *xml, GError **error)
{
    g_autoptr(WeftHookNode) node = weft_hook_node_read(domain, xml, error);
    if (!node || !weft_state_lock(hook, error) || !weft_claim_check(hook, node->run, error))
        return FALSE;
    sweep(hook, NULL);
    /* Else another may have started it again meanwhile. */
    if (!weft_state_check_asked(domain, error))
        return FALSE;
    if (!check(hook, node, error) || !check_taken(hook, node, error) || !check_others(hook, node, is_taken_back, error))
        return FALSE;
    /* Whatever it had before it has not now: it is about to start. */
    g_autoptr(WeftRecord) earlier = weft_state_get(hook, WEFT_RECORD_DOMAIN, domain);
    if (earlier && !undo(hook, earlier, error))
        return FALSE;
    if (!weft_state_put(hook, WEFT_RECORD_DOMAIN, domain, xml, FALSE, error))
        return FALSE;
    weft_failpoint("hook-recorded");
    if (set_up(hook, node, error))
        return TRUE;
    g_autoptr(WeftRecord) mine = weft_state_get(hook, WEFT_RECORD_DOMAIN, domain);
    if (mine)
        undo(hook, mine, NULL);
    return FALSE;
}

gboolean
weft_hook_seal(const WeftHook *hook, const char *domain, const char *xml, GError **error)
{
    g_autoptr(WeftHookNode) node = weft_hook_node_read(domain, xml, error);
    return node && weft_state_lock(hook, error) && weft_bridge_seal(hook, node->vxlan, error) &&
           (!node->memory || weft_memory_place(hook, node, error));
}

/* Sealed once more: nobody promises that libvirt has made the node's interface before it says "start". */
gboolean
weft_hook_note(const WeftHook *hook, const char *domain, const char *xml, GError **error)
{
    g_autoptr(WeftHookNode) node = weft_hook_node_read(domain, xml, error);
    if (node)
        weft_memory_started(hook, node);
    return node && weft_state_lock(hook, error) && weft_state_put(hook, WEFT_RECORD_DOMAIN, domain, xml, TRUE, error) &&
           weft_channels_take(hook, xml, error) && close_memory(hook, domain, error) &&
           weft_bridge_seal(hook, node->vxlan, error);
}

/* Only what the record says: a domain that was refused names devices that are somebody else's. */
gboolean
weft_hook_release(const WeftHook *hook, const char *domain, const char *xml, GError **error)
{
    if (!weft_state_lock(hook, error))
        return FALSE;
    g_autoptr(WeftRecord) record = weft_state_get(hook, WEFT_RECORD_DOMAIN, domain);
    gboolean ok = !record || undo(hook, record, error);
    sweep(hook, domain);
    return ok;
}

/* --- devices that an operator has repaired --- */

/* What a node that is gone had, by its PCI address. */
static const WeftTaken *
find_taken(const WeftRecord *record, const GArray *list, const char *pci)
{
    for (guint i = 0; i < list->len && !weft_record_is_released(record, pci); i++) {
        const WeftTaken *taken = &g_array_index(list, WeftTaken, i);
        if (g_str_equal(taken->pci, pci))
            return taken;
    }
    return NULL;
}

/* The record knows what the device was given. TRUE in ret_found: it is of this record. */
static gboolean
readmit_from(const WeftHook *hook, const WeftRecord *record, const char *pci, gboolean *ret_found, GError **error)
{
    g_autoptr(WeftHookNode) node = weft_hook_node_read(record->name, record->text, NULL);
    g_autoptr(GArray) list = node ? list_taken(node) : NULL;
    const WeftTaken *taken = list ? find_taken(record, list, pci) : NULL;
    *ret_found = taken && !weft_state_is_alive(hook, WEFT_RECORD_DOMAIN, record);
    if (!*ret_found)
        return FALSE;
    if (!weft_release_readmit(hook, pci, taken->device, error))
        return FALSE;
    g_autoptr(GString) released = g_string_new(pci);
    for (guint i = 0; i < list->len; i++)
        if (weft_record_is_released(record, g_array_index(list, WeftTaken, i).pci))
            add_word(released, g_array_index(list, WeftTaken, i).pci);
    weft_state_keep(hook, WEFT_RECORD_DOMAIN, record, released->str, weft_record_trouble(record));
    g_autoptr(WeftRecord) now = weft_state_get(hook, WEFT_RECORD_DOMAIN, record->name);
    if (now)
        undo(hook, now, NULL); /* it goes when that was the last one */
    return TRUE;
}

gboolean
weft_hook_readmit(const WeftHook *hook, const char *pci, GError **error)
{
    if (!weft_state_lock(hook, error))
        return FALSE;
    g_autoptr(GPtrArray) records = weft_state_list(hook, WEFT_RECORD_DOMAIN);
    for (guint i = 0; i < records->len; i++) {
        gboolean found;
        gboolean ok = readmit_from(hook, g_ptr_array_index(records, i), pci, &found, error);
        if (found)
            return ok;
    }
    return weft_release_readmit(hook, pci, NULL, error);
}

/* --- devices that were taken from under nodes --- */

static void
add_lacking(const WeftHook *hook, json_t *list, const char *domain, const char *pci)
{
    json_t *item;
    gsize i;
    if (weft_device_is_there(hook, pci))
        return;
    json_array_foreach (list, i, item)
        if (g_str_equal(json_string_value(json_object_get(item, "pci")), pci))
            return;
    json_array_append_new(list, json_pack("{s:s, s:s}", "domain", domain, "pci", pci));
}

json_t *
weft_hook_lacking(const WeftHook *hook)
{
    json_t *list = json_array();
    g_autoptr(GPtrArray) records = weft_state_list(hook, WEFT_RECORD_DOMAIN);
    for (guint i = 0; i < records->len; i++) {
        const WeftRecord *record = g_ptr_array_index(records, i);
        g_autoptr(WeftHookNode) node = weft_hook_node_read(record->name, record->text, NULL);
        if (!node || !weft_state_is_alive(hook, WEFT_RECORD_DOMAIN, record))
            continue;
        for (guint n = 0; n < node->devices->len; n++)
            add_lacking(hook, list, record->name, ((const WeftHookDevice *)g_ptr_array_index(node->devices, n))->pci);
        for (guint n = 0; n < node->hostdevs->len; n++)
            add_lacking(hook, list, record->name, g_ptr_array_index(node->hostdevs, n));
    }
    return list;
}

/* --- networks --- */

/* Names are resolved before the lock is taken: a slow resolver holds up nobody else. */
gboolean
weft_hook_connect(const WeftHook *hook, const char *name, const char *xml, GError **error)
{
    g_autofree char *run = NULL;
    g_autoptr(WeftHostNetwork) network = weft_hook_network_read(name, xml, &run, error);
    g_autoptr(GArray) peers = network ? weft_peers_resolve(network->peers, error) : NULL;
    if (!peers || !weft_state_lock(hook, error) || !weft_claim_check(hook, run, error))
        return FALSE;
    g_autofree char *text = weft_peers_format(peers);
    if (!weft_state_put(hook, WEFT_RECORD_NETWORK, name, text, FALSE, error))
        return FALSE;
    weft_failpoint("hook-recorded");
    sweep(hook, NULL);
    if (make_bridge(hook, network->vxlan, error))
        return TRUE;
    weft_state_drop(hook, WEFT_RECORD_NETWORK, name);
    collect_bridge(hook, network->vxlan, NULL);
    return FALSE;
}

/* Where nodes are on the bridge the peers stay: the network may be back at once with others, and then has exactly those. */
gboolean
weft_hook_disconnect(const WeftHook *hook, const char *name, const char *xml, GError **error)
{
    g_autoptr(WeftHostNetwork) network = weft_hook_network_read(name, xml, NULL, error);
    if (!network || !weft_state_lock(hook, error))
        return FALSE;
    weft_state_drop(hook, WEFT_RECORD_NETWORK, name);
    weft_failpoint("hook-forgotten");
    gboolean ok = collect_bridge(hook, network->vxlan, error);
    sweep(hook, NULL);
    return ok;
}

gboolean
weft_hook_seal_network(const WeftHook *hook, const char *name, const char *xml, GError **error)
{
    guint64 vxlan = 0;
    g_auto(GStrv) words = g_strsplit(name + strlen(WEFT_NETWORK_SEAL), "-", 2);
    if (!g_ascii_string_to_unsigned(words[0] ? words[0] : "", 10, 1, VXLAN_MAX, &vxlan, NULL))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "network %s: it names no VXLAN", name);
    if (!weft_state_lock(hook, error) || !weft_bridge_seal(hook, (guint)vxlan, error))
        return FALSE;
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "sealed");
}
