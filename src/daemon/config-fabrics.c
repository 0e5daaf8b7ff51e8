#include "config-fabrics.h"

#include "errors.h"
#include "fakes.h"
#include "fields.h"
#include "file.h"
#include "none-fabric.h"

#define FAKE_WORLDS "/var/lib/weft/fake/fabric"
#define MANAGERS_MAX 8
#define KEY_FILE_MAX 4096

/* From WEFT_MANAGER_OPENSM on. */
static const char *const drivers[] = { "opensm", "none", "fake", NULL };

void
weft_config_manager_free(WeftConfigManager *manager)
{
    if (!manager)
        return;
    g_free(manager->fabric);
    g_free(manager->world);
    g_free(manager->sockets);
    json_decref(manager->json);
    g_free(manager);
}

/* --- the manager --- */

static const char *
read_path(WeftFields *f, const char *name)
{
    const char *path = weft_fields_string(f, name, NULL);
    if (path && !g_path_is_absolute(path))
        weft_fields_fail(f, name, "\"%s\" must be an absolute path", path);
    return path;
}

static void
read_sockets(WeftFields *f, WeftConfigManager *manager)
{
    json_t *array = weft_fields_array(f, "managers", MANAGERS_MAX), *item;
    manager->sockets = g_new0(const char *, MANAGERS_MAX + 1);
    manager->options.managers = manager->sockets;
    gsize i;
    json_array_foreach (array, i, item) {
        manager->sockets[i] = json_string_value(item);
        if (!manager->sockets[i]) {
            weft_fields_fail(f, "managers", "must be a list of sockets, each a path or ssh://user@machine/path");
            return;
        }
    }
}

/* The M_Key is a secret, which has no place in a file that many may read. */
static void
read_key(WeftFields *f, WeftOpensmOptions *options)
{
    const char *path = read_path(f, "m_key_file");
    g_autoptr(GError) error = NULL;
    g_autofree char *text = path && !f->error ? weft_file_read(path, KEY_FILE_MAX, NULL, &error) : NULL;
    if (error)
        weft_fields_fail(f, "m_key_file", "%s", error->message);
    else if (text && !(g_str_has_prefix(g_strstrip(text), "0x") &&
                       g_ascii_string_to_unsigned(text + 2, 16, 1, G_MAXUINT64, &options->m_key, NULL)))
        weft_fields_fail(f, "m_key_file", "%s must hold one number like 0x0123456789abcdef", path);
}

static void
read_opensm(WeftFields *f, WeftConfigManager *manager)
{
    WeftOpensmOptions *options = &manager->options;
    options->way = (WeftOpensmWay)weft_fields_word(f, "way", weft_opensm_way_words, WEFT_OPENSM_PLUGIN);
    options->deadline = weft_fields_duration(f, "deadline", 0);
    read_sockets(f, manager);
    options->ssh_key = read_path(f, "ssh_key");
    options->ssh = read_path(f, "ssh");
    options->partitions_file = read_path(f, "partitions_file");
    options->pid_file = read_path(f, "pid_file");
    options->map_file = read_path(f, "map_file");
    options->device = weft_fields_string(f, "device", NULL);
    options->port = (guint)weft_fields_uint(f, "port", 1, 254, 0);
    read_key(f, options);
}

/* Asks nobody: what makes no sense is refused before anything happens. */
static void
check_opensm(WeftFields *f, const WeftConfigManager *manager)
{
    g_autoptr(GError) error = NULL;
    if (f->error)
        return;
    weft_fabric_driver_free(weft_fabric_opensm_new(&manager->options, &error));
    if (error)
        weft_fields_fail(f, "driver", "%s", error->message);
}

static void
read_fake(WeftFields *f, WeftConfigManager *manager)
{
    const char *world = read_path(f, "world");
    g_autoptr(GError) error = NULL;
    if (!weft_fakes_are_built(&error))
        weft_fields_fail(f, "driver", "%s", error->message);
    manager->world = world ? g_strdup(world) : g_build_filename(FAKE_WORLDS, manager->fabric, NULL);
}

static WeftConfigManager *
read_manager(const WeftFabric *fabric, json_t *json, const char *where, GError **error)
{
    g_autoptr(WeftConfigManager) manager = g_new0(WeftConfigManager, 1);
    manager->fabric = g_strdup(fabric->name);
    if (!json)
        return g_steal_pointer(&manager);
    manager->json = json_incref(json);
    manager->options.pool = weft_fabric_pkeys(fabric);
    WeftFields f;
    weft_fields_begin(&f, json, "%s.manager", where);
    manager->driver = WEFT_MANAGER_OPENSM + (WeftManagerDriver)weft_fields_word(&f, "driver", drivers, -1);
    if (manager->driver != WEFT_MANAGER_NONE)
        manager->options_file = read_path(&f, "options_file");
    if (manager->driver == WEFT_MANAGER_OPENSM) {
        read_opensm(&f, manager);
        check_opensm(&f, manager);
    } else if (manager->driver == WEFT_MANAGER_FAKE) {
        read_fake(&f, manager);
    }
    return weft_fields_end(&f, error) ? g_steal_pointer(&manager) : NULL;
}

WeftFabricDriver *
weft_config_make_fabric(const WeftConfigManager *manager, const WeftPkeys *pkeys, GError **error)
{
    WeftOpensmOptions options = manager->options;
    options.pkeys = *pkeys;
    switch (manager->driver) {
    case WEFT_MANAGER_OPENSM:
        return weft_fabric_opensm_new(&options, error);
    case WEFT_MANAGER_FAKE:
        return weft_fakes_fabric(manager->world, pkeys, error);
    case WEFT_MANAGER_NONE:
        return weft_fabric_none_new(manager->fabric, WEFT_FABRIC_UNMANAGED, pkeys);
    default:
        return weft_fabric_none_new(manager->fabric, WEFT_FABRIC_UNNAMED, pkeys);
    }
}

gboolean
weft_config_lacks_manager(const WeftConfigManager *manager, GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_INVALID, "fabrics: \"%s\" has no manager; " WEFT_FABRIC_NAME_MANAGER,
                             manager->fabric);
}

gboolean
weft_config_check_managers(const GPtrArray *fabrics, const GPtrArray *managers, GError **error)
{
    for (guint i = 0; i < fabrics->len; i++) {
        const WeftFabric *fabric = fabrics->pdata[i];
        if (((const WeftConfigManager *)managers->pdata[i])->driver != WEFT_MANAGER_NONE)
            continue;
        if (fabric->shared->len || fabric->qos.n)
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "fabrics: \"%s\" has %s, and with driver none nobody keeps that; leave it out, or name a "
                                     "manager",
                                     fabric->name, fabric->qos.n ? "lanes (qos)" : "shared partitions");
    }
    return TRUE;
}

/* --- entries --- */

/* The entry without one of its fields, which is read apart. */
static json_t *
without(json_t *item, const char *field)
{
    json_t *copy = json_is_object(item) ? json_copy(item) : json_incref(item);
    if (json_is_object(copy))
        json_object_del(copy, field);
    return copy;
}

gboolean
weft_config_add_fabric(GPtrArray *fabrics, GPtrArray *managers, json_t *item, const char *where, GError **error)
{
    json_auto_t *rest = without(item, "manager");
    g_autoptr(WeftFabric) fabric = weft_fabric_from_json(rest, where, error);
    WeftConfigManager *manager = fabric ? read_manager(fabric, json_object_get(item, "manager"), where, error) : NULL;
    if (!manager)
        return FALSE;
    g_ptr_array_add(fabrics, g_steal_pointer(&fabric));
    g_ptr_array_add(managers, manager);
    return TRUE;
}

static WeftFabric *
find_fabric(const GPtrArray *fabrics, const char *name)
{
    for (guint i = 0; i < fabrics->len; i++)
        if (!name || g_str_equal(((const WeftFabric *)fabrics->pdata[i])->name, name))
            return fabrics->pdata[i];
    return NULL;
}

gboolean
weft_config_add_shared(GPtrArray *fabrics, json_t *item, const char *where, GError **error)
{
    json_auto_t *rest = without(item, "fabric");
    g_autoptr(WeftShared) shared = weft_shared_from_json(rest, where, error);
    if (!shared)
        return FALSE;
    json_t *field = json_object_get(item, "fabric");
    WeftFabric *fabric = !field || json_is_string(field) ? find_fabric(fabrics, json_string_value(field)) : NULL;
    if (!fabric)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s.fabric: is not among fabrics; describe it there", where);
    if (weft_fabric_add_shared(fabric, g_steal_pointer(&shared), error))
        return TRUE;
    g_prefix_error(error, "%s: ", where);
    return FALSE;
}
