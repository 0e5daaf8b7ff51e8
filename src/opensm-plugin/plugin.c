/* What opensm loads: libweftosm.so, by "event_plugin_name weftosm". */
#include "acks.h"
#include "apply.h"
#include "check.h"
#include "door.h"
#include "errors.h"
#include "hands.h"
#include "osm.h"

#include <unistd.h>

#define SOCKET "/run/weft/opensm.sock"
/* Instead of SOCKET: where opensm is not laid out as expected its options cannot be read, either. */
#define SOCKET_VARIABLE "WEFT_OPENSM_SOCKET"

/* --- options: "socket=/run/weft/opensm.sock,uid=997,pkeys=0x1000-0x1fff+0x7001" --- */

static gboolean
read_uid(WeftOsm *weft, const char *value, GError **error)
{
    guint64 uid;
    if (!g_ascii_string_to_unsigned(value, 10, 0, G_MAXUINT32 - 1, &uid, NULL))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "event_plugin_options: uid must be a number, is \"%s\"", value);
    weft->uid = (uid_t)uid;
    return TRUE;
}

static gboolean
read_socket(WeftOsm *weft, const char *value, GError **error)
{
    if (!g_path_is_absolute(value))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "event_plugin_options: socket must be a whole path, is \"%s\"",
                                 value);
    g_free(weft->socket);
    weft->socket = g_strdup(value);
    return TRUE;
}

static gboolean
read_pkeys(WeftOsm *weft, const char *value, GError **error)
{
    if (weft_pkeys_parse(value, &weft->pkeys, error))
        return TRUE;
    g_prefix_error(error, "event_plugin_options: pkeys: ");
    return FALSE;
}

static const struct {
    const char *name;
    gboolean (*read)(WeftOsm *weft, const char *value, GError **error);
} options[] = { { "socket=", read_socket }, { "uid=", read_uid }, { "pkeys=", read_pkeys } };

static gboolean
read_option(WeftOsm *weft, const char *word, GError **error)
{
    for (guint i = 0; i < G_N_ELEMENTS(options); i++)
        if (g_str_has_prefix(word, options[i].name))
            return options[i].read(weft, word + strlen(options[i].name), error);
    return weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "event_plugin_options: no such option, \"%s\"; known are socket=, uid= and pkeys=", word);
}

static gboolean
read_options(WeftOsm *weft, const char *text, GError **error)
{
    g_auto(GStrv) words = g_strsplit_set(text ? text : "", ", \t", -1);
    for (guint i = 0; words[i]; i++)
        if (*words[i] && !read_option(weft, words[i], error))
            return FALSE;
    return TRUE;
}

/* --- life --- */

/* thread: opensm's main, after all of its own is gone but its memory. */
static void
weft_delete(void *data)
{
    WeftOsm *weft = data;
    if (weft->acks)
        weft_acks_stop(weft->acks);
    weft_door_close(weft->door);
    weft_hands_free(weft->hands);
    weft_door_free(weft->door);
    weft_applier_free(weft->applier);
    weft_acks_free(weft->acks);
    g_free(weft->partitions);
    g_free(weft->socket);
    g_free(weft->trouble);
    g_free(weft);
}

/* From here on opensm's structures are used; or only the log, where they are not as they should be. */
static gboolean
settle_in(WeftOsm *weft, GError **error)
{
    const osm_subn_opt_t *opt = &weft->osm->subn.opt;
    weft->trouble = weft_check_layout(weft->osm);
    if (!weft->trouble && !read_options(weft, opt->event_plugin_options, error))
        return FALSE;
    if (!weft->trouble) {
        weft->partitions =
            g_strdup(opt->partition_config_file ? opt->partition_config_file : OSM_DEFAULT_PARTITION_CONFIG_FILE);
        weft->acks = weft_acks_new(weft->osm);
        if (!weft->acks)
            weft->trouble = g_strdup("opensm gave its answers to P_Key tables not to us");
    }
    weft->applier = weft_applier_new();
    weft->hands = weft_hands_new(weft);
    weft->door = weft_door_new(weft, error);
    return weft->door != NULL;
}

/* thread: opensm's main, before it has sent or received anything. */
static void *
weft_create(struct osm_opensm *osm)
{
    g_autoptr(GError) error = NULL;
    WeftOsm *weft = g_new0(WeftOsm, 1);
    g_ascii_strtoull("0", NULL, 10); /* GLib's first one: of two threads that make it at once one may find a stray errno */
    weft->osm = osm;
    weft->uid = geteuid();
    weft->rising = TRUE;
    weft_pkeys_add(&weft->pkeys, WEFT_PKEYS_FIRST, WEFT_PKEYS_LAST);
    weft->socket = g_strdup(g_getenv(SOCKET_VARIABLE) ? g_getenv(SOCKET_VARIABLE) : SOCKET);
    if (!settle_in(weft, &error)) {
        g_printerr("weft: %s\n", error->message);
        weft_osm_log(weft, OSM_LOG_ERROR, "%s\n", error->message);
        /* opensm would unload us while it holds our receiver: we stay, and only pass its answers on. */
        return weft;
    }
    if (weft->trouble)
        g_printerr("weft: nothing is touched: %s\n", weft->trouble);
    else
        weft_osm_log(weft, OSM_LOG_INFO, "listens on %s\n", weft->socket);
    return weft;
}

/* --- events --- */

static void
report_trap(WeftOsm *weft, const ib_mad_notice_attr_t *notice)
{
    if (!ib_notice_is_generic(notice))
        return;
    guint trap = cl_ntoh16(notice->g_or_v.generic.trap_num);
    if (trap != SM_GID_IN_SERVICE_TRAP && trap != SM_GID_OUT_OF_SERVICE_TRAP)
        return;
    char text[64];
    g_snprintf(text, sizeof text, "port 0x%016" G_GINT64_MODIFIER "x %s",
               (guint64)cl_ntoh64(notice->data_details.ntc_64_67.gid.unicast.interface_id),
               trap == SM_GID_IN_SERVICE_TRAP ? "came" : "went");
    weft_door_tell(weft->door, "ports", text);
}

static void
note_sweep(WeftOsm *weft, gboolean writes)
{
    if (weft->acks)
        weft_acks_note_sweep(weft->acks, writes);
}

/* opensm frees its engines before it ends us, but not their names. */
static void
note_routing(WeftOsm *weft)
{
    const struct osm_routing_engine *engine = weft->trouble ? NULL : weft->osm->routing_engine_used;
    g_atomic_pointer_set(&weft->routing, engine ? engine->name : NULL);
}

static void
note_rule(WeftOsm *weft)
{
    if (!weft->trouble && weft->osm->subn.sm_state != IB_SMINFO_STATE_MASTER)
        g_atomic_int_set(&weft->rising, TRUE);
}

/* thread: any of opensm's, often with its lock held: nothing here waits. */
static void
weft_report(void *data, osm_epi_event_id_t event, void *detail)
{
    WeftOsm *weft = data;
    if (!weft->door)
        return;
    note_rule(weft);
    switch (event) {
    case OSM_EVENT_ID_TRAP:
        report_trap(weft, detail);
        break;
    case OSM_EVENT_ID_HEAVY_SWEEP_START:
        g_atomic_int_set(&weft->sweeping, TRUE);
        note_sweep(weft, FALSE);
        break;
    case OSM_EVENT_ID_HEAVY_SWEEP_DONE: /* it has looked at all; now it writes */
        note_sweep(weft, TRUE);
        break;
    case OSM_EVENT_ID_UCAST_ROUTING_DONE: /* which begins when the ports have answered about their P_Keys */
        note_routing(weft);
        note_sweep(weft, FALSE);
        g_atomic_int_set(&weft->rising, FALSE); /* only who rules makes routes; that it has not swept is said by now */
        break;
    case OSM_EVENT_ID_SUBNET_UP:
        g_atomic_int_set(&weft->sweeping, FALSE);
        note_sweep(weft, FALSE);
        weft_door_tell_rule(weft->door);
        weft_door_tell(weft->door, "swept", NULL);
        break;
    case OSM_EVENT_ID_STATE_CHANGE:
        g_atomic_int_set(&weft->sweeping, FALSE);
        note_sweep(weft, FALSE);
        weft_door_tell_rule(weft->door);
        break;
    default:
        break;
    }
}

extern osm_event_plugin_t osm_event_plugin;
__attribute__((visibility("default"))) osm_event_plugin_t osm_event_plugin = {
    .osm_version = OSM_VERSION,
    .create = weft_create,
    .delete = weft_delete,
    .report = weft_report,
};
