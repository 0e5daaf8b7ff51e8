#include "fabric-doctor.h"

#include "doctor.h"
#include "host.h"
#include "match.h"
#include "options.h"

static const struct {
    const char *field;
    const char *found;
    const char *remedy;
} lacks[] = {
    { "master", "it does not rule the fabric: another manager does, or none",
      "name the sockets of all managers in weft.yaml; sminfo tells which one rules" },
    { "enforces", "switches do not check partitions at hosts' ports: tenants are kept apart by the hosts alone",
      "part_enforce both and no_partition_enforcement FALSE in opensm.conf, then restart opensm (weft fabric harden)" },
    { "keeps_indices", "P_Keys may move in the ports' tables, under the index maps of virtual functions",
      "keep_pkey_indexes TRUE in opensm.conf, then restart opensm (weft fabric harden)" },
};

static gboolean
has_mlx5_functions(const GPtrArray *hosts)
{
    for (guint i = 0; i < hosts->len; i++) {
        const WeftHost *host = hosts->pdata[i];
        for (guint h = 0; h < host->hcas->len; h++) {
            const WeftHca *hca = host->hcas->pdata[h];
            if (hca->driver == WEFT_HCA_MLX5 && hca->vfs > 0)
                return TRUE;
        }
    }
    return FALSE;
}

static void
check_functions(json_t *checks, const char *check, const WeftFabricFacts *facts)
{
    if (json_is_true(json_object_get(facts->manager, "virtualization")) || !has_mlx5_functions(facts->hosts))
        return;
    weft_doctor_add(checks, check, WEFT_HEALTH_WARN,
                    "use a manager with virtualization, or the paths passthrough and bridge on these hosts",
                    "it does not know virtual ports: virtual functions of mlx5 adapters stay down");
}

void
weft_doctor_manager(json_t *checks, const WeftFabricFacts *facts)
{
    if (facts->management != WEFT_FABRIC_MANAGED)
        return;
    g_autofree char *check = g_strdup_printf("manager of %s", facts->fabric);
    if (!facts->manager) {
        weft_doctor_add(checks, check, WEFT_HEALTH_FAIL, "look whether opensm runs there, and whether weft's plugin is loaded",
                        "%s", facts->trouble ? facts->trouble : "it does not answer");
        return;
    }
    gsize before = json_array_size(checks);
    for (guint i = 0; i < G_N_ELEMENTS(lacks); i++)
        if (!json_is_true(json_object_get(facts->manager, lacks[i].field)))
            weft_doctor_add(checks, check, WEFT_HEALTH_FAIL, lacks[i].remedy, "%s", lacks[i].found);
    check_functions(checks, check, facts);
    if (json_array_size(checks) == before)
        weft_doctor_add(checks, check, WEFT_HEALTH_OK, NULL, "%s, by %s",
                        json_string_value(json_object_get(facts->manager, "version")),
                        json_string_value(json_object_get(facts->manager, "way")));
}

static gboolean
is_described(const GPtrArray *hosts)
{
    for (guint i = 0; i < hosts->len; i++) {
        const WeftHost *host = hosts->pdata[i];
        if (!host->leaf || weft_host_lacks_ports(host))
            return FALSE;
    }
    return TRUE;
}

void
weft_doctor_map(json_t *checks, const WeftFabricFacts *facts)
{
    g_autofree char *check = g_strdup_printf("map of %s", facts->fabric);
    if (!facts->map) {
        if (!is_described(facts->hosts))
            weft_doctor_add(
                checks, check, WEFT_HEALTH_WARN,
                "ibnetdiscover > FILE and weft fabric import FILE, or leaf and port_guid in the hosts' descriptions",
                "there is none, and not all hosts are described with their leaf and ports: it is not known which are near "
                "each other");
        return;
    }
    g_autoptr(WeftMatches) matches = weft_fabric_match(facts->map, facts->hosts);
    if (matches->no_port->len)
        weft_doctor_add(checks, check, WEFT_HEALTH_WARN, "weft fabric show lists them, with what to write",
                        "%u of %u adapters are not on it: %s%s", matches->no_port->len,
                        matches->no_port->len + matches->ports->len, (const char *)matches->no_port->pdata[0],
                        matches->no_port->len > 1 ? "; and more" : "");
    else
        weft_doctor_add(checks, check, WEFT_HEALTH_OK, NULL, "all adapters of its hosts are on it; %u ports are no host's",
                        matches->no_host->len);
}

static void
check_option(json_t *checks, const char *check, const char *path, const WeftOption *option)
{
    g_autofree char *remedy = g_strdup_printf("%s %s in %s, then restart opensm", option->name, option->value, path);
    const char *found = option->secret && option->found ? "(a key)" : option->found;
    weft_doctor_add(checks, check, option->severe ? WEFT_HEALTH_FAIL : WEFT_HEALTH_WARN, remedy, "%s %s: %s", option->name,
                    found ? found : "is not set", option->why);
}

void
weft_doctor_options(json_t *checks, const WeftFabricFacts *facts)
{
    const char *path = facts->options_path;
    g_autofree char *check = g_strdup_printf("options of %s", facts->fabric);
    if (!facts->options) {
        weft_doctor_add(checks, check, WEFT_HEALTH_WARN,
                        "let weftd's user read it and nobody else: it has keys in it; or run weft fabric harden there", "%s",
                        facts->options_error);
        return;
    }
    g_autoptr(GError) error = NULL;
    const char *way = json_string_value(json_object_get(facts->manager, "way"));
    WeftOptionsWant want = { .plugin = g_strcmp0(way, "plugin") == 0, .qos = facts->guarantees };
    g_autoptr(GPtrArray) options = weft_options_check(facts->options, &want, &error);
    if (!options) {
        weft_doctor_add(checks, check, WEFT_HEALTH_FAIL, "shorten the line", "%s: %s", path, error->message);
        return;
    }
    gsize before = json_array_size(checks);
    for (guint i = 0; i < options->len; i++) {
        const WeftOption *option = options->pdata[i];
        if (!option->right)
            check_option(checks, check, path, option);
    }
    if (json_array_size(checks) == before)
        weft_doctor_add(checks, check, WEFT_HEALTH_OK, NULL, "%s is as it should be", path);
}
