#include "subnet-private.h"

#include "doctor.h"
#include "failpoint.h"
#include "none-fabric.h"

#define NO_VIRTUAL                                                                                                             \
    "virtual functions of mlx5 are ports of their own, and its subnet manager does not program such; take --path passthrough " \
    "or --path bridge, or have the site run a manager with virtualization"

#define NO_DEVICES                                                                                                             \
    "it has no subnet manager (driver none in weft.yaml), and nobody would keep clusters apart on its ports; take --path "     \
    "bridge, or have the site name a manager"
#define UNNAMED "weft.yaml names no manager of it, and until it does the fabric is left as it is"

/* --- who rules --- */

static WeftManager *
manager_copy(const WeftManager *manager)
{
    WeftManager *copy = g_memdup2(manager, sizeof *manager);
    copy->way = g_strdup(manager->way);
    copy->version = g_strdup(manager->version);
    copy->where = g_strdup(manager->where);
    copy->routing = g_strdup(manager->routing);
    return copy;
}

static void
meet(WeftSubnet *subnet, const WeftManager *manager)
{
    gboolean first = !subnet->manager;
    weft_manager_free(subnet->manager);
    subnet->manager = manager_copy(manager);
    weft_subnet_tell_fleet(subnet);
    if (first)
        weft_control_room_changed(subnet->control);
}

static void
greeted(const WeftManager *manager, const GError *error, gpointer data)
{
    WeftSubnet *subnet = data;
    weft_failpoint_edge("greet", "after");
    weft_call_end(&subnet->greet);
    if (manager)
        meet(subnet, manager);
    else
        g_debug("fabric %s: its manager does not answer: %s", subnet->fabric->name, error->message);
    if (subnet->greet_again)
        weft_subnet_greet(subnet);
}

void
weft_subnet_greet(WeftSubnet *subnet)
{
    subnet->greet_again = subnet->greet.cancellable != NULL;
    if (subnet->greet_again)
        return;
    weft_call_begin(&subnet->greet, subnet->control->options.list_deadline);
    weft_failpoint_edge("greet", "before");
    subnet->driver->ops->greet(subnet->driver, subnet->greet.cancellable, greeted, subnet);
}

char *
weft_subnets_manager_words(const WeftSubnets *subnets, const char *name)
{
    const WeftSubnet *subnet = weft_subnet_find(subnets, name);
    const WeftManager *manager = subnet ? subnet->manager : NULL;
    if (subnet && subnet->trouble)
        return g_strdup(subnet->trouble);
    return manager ? g_strdup_printf("%s by its %s at %s", manager->version, manager->way, manager->where)
                   : g_strdup("it has not answered yet");
}

/* --- what placement learns --- */

/* Of a table, the default partition and what the site and all clusters share take places. */
static guint
room_in(const WeftSubnet *subnet, guint places)
{
    guint others = 1 + subnet->foreign + subnet->sharings->len;
    return places > others ? places - others : 1;
}

void
weft_subnet_tell_fleet(WeftSubnet *subnet)
{
    WeftFleetFabric told = { .pkeys = room_in(subnet, subnet->fabric->port_pkeys) };
    if (subnet->driver->ops->management == WEFT_FABRIC_UNNAMED)
        told.closed = g_strdup(UNNAMED);
    else if (subnet->driver->ops->management == WEFT_FABRIC_UNMANAGED)
        told.no_devices = g_strdup(NO_DEVICES);
    else if (!subnet->manager)
        told.closed = g_strdup("its subnet manager has not answered yet");
    else if (!subnet->manager->virtualization)
        told.no_virtual = g_strdup(NO_VIRTUAL);
    told.ports = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    GHashTableIter iter;
    gpointer guid, places;
    g_hash_table_iter_init(&iter, subnet->places);
    while (g_hash_table_iter_next(&iter, &guid, &places))
        g_hash_table_insert(told.ports, g_memdup2(guid, sizeof(guint64)),
                            GUINT_TO_POINTER(room_in(subnet, GPOINTER_TO_UINT(places))));
    told.leaves = g_hash_table_ref(subnet->leaves);
    told.switches = subnet->switches ? g_hash_table_ref(subnet->switches) : NULL;
    told.hops = subnet->hops ? g_array_ref(subnet->hops) : NULL;
    weft_subnet_tell_lanes(subnet, &told);
    weft_fleet_set_fabric(subnet->control->fleet, subnet->fabric->name, &told);
}

/* --- events --- */

void
weft_subnet_heard(WeftFabricEvent event, const char *detail, gpointer data)
{
    WeftSubnet *subnet = data;
    if (event == WEFT_FABRIC_EVENT_LOST) {
        g_free(subnet->trouble);
        subnet->trouble = g_strdup(detail ? detail : "no subnet manager can be reached");
        return;
    }
    if (event == WEFT_FABRIC_EVENT_MANAGER)
        weft_subnet_greet(subnet);
    if (event != WEFT_FABRIC_EVENT_SWEPT)
        weft_subnet_read_map(subnet);
    weft_subnet_survey(subnet);
    weft_subnet_patrol(subnet);
}

/* --- weft doctor --- */

static void
examine_manager(const WeftSubnet *subnet, const char *check, json_t *checks)
{
    const WeftManager *manager = subnet->manager;
    if (subnet->driver->ops->management == WEFT_FABRIC_UNNAMED)
        weft_doctor_add(checks, check, WEFT_HEALTH_FAIL, WEFT_FABRIC_NAME_MANAGER, "it is held: " UNNAMED);
    else if (subnet->driver->ops->management == WEFT_FABRIC_UNMANAGED)
        weft_doctor_add(checks, check, WEFT_HEALTH_OK, NULL,
                        "driver none: no partition is programmed, and nodes get no port of it; clusters use the path bridge, "
                        "where their VXLANs keep them apart");
    else if (subnet->trouble || !manager)
        weft_doctor_add(checks, check, WEFT_HEALTH_FAIL, "look whether its subnet manager runs", "%s",
                        subnet->trouble ? subnet->trouble : "its subnet manager has not answered yet");
    else if (g_str_equal(subnet->driver->ops->name, "fake"))
        weft_doctor_add(
            checks, check, WEFT_HEALTH_WARN,
            "for tests only: name its manager in weft.yaml, or driver none, where clusters use the path bridge and their "
            "VXLANs keep them apart",
            "driver fake: partitions are written to files, and no subnet manager is told of them");
    else if (!manager->master)
        weft_doctor_add(checks, check, WEFT_HEALTH_FAIL, "list the machine of the master among managers in weft.yaml",
                        "%s at %s does not rule the fabric", manager->version, manager->where);
    else
        weft_doctor_add(checks, check, WEFT_HEALTH_OK, NULL, "%s by its %s at %s", manager->version, manager->way,
                        manager->where);
}

static void
examine_ports(const WeftSubnet *subnet, const char *check, json_t *checks)
{
    if (subnet->silent->len)
        weft_doctor_add(checks, check, WEFT_HEALTH_WARN, "look after its cable and its host", "%s%s",
                        (const char *)subnet->silent->pdata[0], subnet->silent->len > 1 ? ", and more" : "");
    if (subnet->open->len)
        weft_doctor_add(checks, check, WEFT_HEALTH_FAIL,
                        "make all but the manager limited members of the default partition, in opensm's partitions.conf: "
                        "Default=0x7fff, ipoib : ALL=limited, SELF=full ;",
                        "%s%s is a full member of the default partition: its nodes reach others through it",
                        (const char *)subnet->open->pdata[0], subnet->open->len > 1 ? ", and more," : "");
    g_autoptr(GPtrArray) surplus = weft_subnet_surplus(subnet);
    if (surplus->len)
        weft_doctor_add(checks, check, WEFT_HEALTH_FAIL,
                        "if it is still so after the next patrol, restart its subnet manager: it writes all tables then",
                        "%s%s", (const char *)surplus->pdata[0], surplus->len > 1 ? ", and more" : "");
}

/* What carries weft's mark, and is left alone. */
static void
examine_held(const WeftSubnet *subnet, const char *check, json_t *checks)
{
    GHashTableIter iter;
    gpointer pkey, value;
    g_hash_table_iter_init(&iter, subnet->pkeys);
    while (g_hash_table_iter_next(&iter, &pkey, &value)) {
        const WeftPkeyHold *hold = value;
        g_autofree char *remedy =
            g_strdup_printf("if nobody uses it: weft fabric release %s 0x%04x; if this is not the store that it belongs to, "
                            "stop weftd and give it the right one",
                            subnet->fabric->name, GPOINTER_TO_UINT(pkey));
        if (g_str_equal(hold->holder, WEFT_HELD_UNPROVED))
            weft_doctor_add(checks, check, WEFT_HEALTH_WARN, remedy,
                            "partition 0x%04x (%s) carries weft's mark, and no record of this store says that it has ended; it "
                            "is left alone, and its number given to no cluster",
                            GPOINTER_TO_UINT(pkey), hold->name);
    }
    for (guint i = 0; i < subnet->outside->len; i++)
        weft_doctor_add(
            checks, check, WEFT_HEALTH_WARN, "if nobody uses it, remove it in the subnet manager's partitions.conf",
            "%s carries weft's mark outside of weft's numbers, 0x%04x to 0x%04x and what is shared; it is left alone",
            (const char *)subnet->outside->pdata[i], subnet->fabric->pkey_first, subnet->fabric->pkey_last);
}

void
weft_subnet_examine(const WeftSubnet *subnet, json_t *checks)
{
    g_autofree char *check = g_strdup_printf("fabric %s", subnet->fabric->name);
    examine_manager(subnet, check, checks);
    weft_subnet_examine_guard(subnet, check, checks);
    examine_ports(subnet, check, checks);
    examine_held(subnet, check, checks);
    weft_subnet_examine_inherited(subnet, check, checks);
    if (subnet->driver->ops->management == WEFT_FABRIC_MANAGED && subnet->manager && !subnet->manager->enforces)
        weft_doctor_add(checks, check, WEFT_HEALTH_WARN, "let opensm enforce partitions at switches: part_enforce both",
                        "switches do not check partitions: only the hosts' own ports keep clusters apart");
}
