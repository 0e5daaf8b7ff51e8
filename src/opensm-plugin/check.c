#include "check.h"

#include "errors.h"

/* Not in any header of opensm's, but exported by it. */
extern void osm_pkey_rcv_process(void *context, void *data);

static gboolean
is_pkey_receiver(const osm_opensm_t *osm)
{
    const cl_disp_reg_info_t *receiver = osm->sm.pkey_disp_h;
    return receiver && receiver->p_disp == &osm->disp && receiver->msg_id == OSM_MSG_MAD_PKEY &&
           receiver->pfn_rcv_callback == osm_pkey_rcv_process && receiver->context == &osm->sm;
}

char *
weft_check_layout(osm_opensm_t *osm)
{
    /* The later ones follow pointers that the earlier ones have shown to be right. */
    const struct {
        const char *what;
        gboolean ok;
    } facts[] = {
        { "osm_opensm_t.subn", osm->subn.p_osm == osm },
        { "osm_opensm_t.sm", osm->sm.p_subn == &osm->subn },
        { "osm_sm_t.p_db", osm->sm.p_db == &osm->db },
        { "osm_sm_t.p_vendor", osm->sm.p_vendor == osm->p_vendor },
        { "osm_sm_t.p_log", osm->sm.p_log == &osm->log },
        { "osm_sm_t.p_mad_pool", osm->sm.p_mad_pool == &osm->mad_pool },
        { "osm_sm_t.p_vl15", osm->sm.p_vl15 == &osm->vl15 },
        { "osm_sm_t.p_disp", osm->sm.p_disp == &osm->disp },
        { "osm_sm_t.p_lock", osm->sm.p_lock == &osm->lock },
        { "osm_sm_t.mad_ctrl", osm->sm.mad_ctrl.p_subn == &osm->subn && osm->sm.mad_ctrl.p_stats == &osm->stats },
        { "osm_opensm_t.sa", osm->sa.sm == &osm->sm && osm->sa.p_subn == &osm->subn && osm->sa.p_lock == &osm->lock },
        { "osm_opensm_t.vl15", osm->vl15.p_stats == &osm->stats && osm->vl15.p_subn == &osm->subn },
    };
    for (guint i = 0; i < G_N_ELEMENTS(facts); i++)
        if (!facts[i].ok)
            return g_strdup_printf("%s is not where this plugin expects it", facts[i].what);
    if (!is_pkey_receiver(osm))
        return g_strdup("osm_sm_t.pkey_disp_h is not what this plugin expects");
    const char *names = osm->subn.opt.event_plugin_name;
    if (!names || !strstr(names, "weftosm"))
        return g_strdup("osm_subn_opt_t.event_plugin_name does not name this plugin");
    return NULL;
}

static gboolean
is_port(const osm_port_t *port)
{
    const osm_physp_t *physp = port->p_physp;
    const osm_node_t *node = port->p_node;
    return physp && node && port->guid == cl_qmap_key(&port->map_item) && physp->port_guid == port->guid &&
           physp->p_node == node && osm_node_get_node_guid(node) == cl_qmap_key(&node->map_item) &&
           osm_node_get_physp_ptr((osm_node_t *)node, physp->port_num) == physp;
}

gboolean
weft_check_port(const osm_port_t *port, GError **error)
{
    if (is_port(port) && (!port->p_physp->p_remote_physp || port->p_physp->p_remote_physp->p_remote_physp == port->p_physp))
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_UNAVAILABLE,
                             "opensm's port 0x%016" G_GINT64_MODIFIER
                             "x is not laid out as this plugin expects; it was made for "
                             "another build of " OSM_VERSION,
                             (guint64)cl_ntoh64(port->guid));
}
