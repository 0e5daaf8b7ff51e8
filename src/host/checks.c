#include "checks.h"

#include "size.h"
#include "text.h"

#include <stdarg.h>
#include <string.h>

static const char *const health_words[] = { "ok", "advice", "warn", "fail", "unknown" };

void
weft_doctor_add(json_t *checks, const char *check, WeftHealth health, const char *remedy, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args), *found = g_utf8_make_valid(text, -1);
    va_end(args);
    json_array_append_new(checks, json_pack("{s:s, s:s, s:s, s:s?}", "check", check, "state", health_words[health], "found",
                                            found, "remedy", health == WEFT_HEALTH_OK ? NULL : remedy));
}

/* --- the way of devices to nodes --- */

static gboolean
works(json_t *report)
{
    return json_integer_value(json_object_get(report, "iommu_groups")) > 0;
}

gboolean
weft_report_lacks_iommu(json_t *report, gboolean on)
{
    return !on && json_object_get(report, "iommu_groups") && !works(report);
}

void
weft_check_iommu(json_t *checks, json_t *report, gboolean on, gboolean needed)
{
    const char *remedy = "switch VT-d or AMD-Vi on in the firmware, add intel_iommu=on iommu=pt (AMD: amd_iommu=on iommu=pt) "
                         "to the kernel's command line and reboot";
    on |= works(report);
    if (on && json_is_false(json_object_get(report, "vfio")))
        weft_doctor_add(checks, "iommu", WEFT_HEALTH_FAIL, "modprobe vfio-pci", "it is on, but vfio is not there");
    else if (on)
        weft_doctor_add(checks, "iommu", WEFT_HEALTH_OK, NULL, "on");
    else if (needed)
        weft_doctor_add(checks, "iommu", WEFT_HEALTH_FAIL, remedy, "off: no virtual function or GPU can be passed on");
    else
        weft_doctor_add(checks, "iommu", WEFT_HEALTH_OK, NULL, "off; nothing here needs it");
}

/* Without it a device could write any interrupt of the host's: vfio refuses such devices unless it is told not to. */
void
weft_check_interrupts(json_t *checks, json_t *report, gboolean needed)
{
    json_t *remapped = json_object_get(report, "interrupt_remapping");
    const char *remedy = "switch interrupt remapping (VT-d, x2APIC) on in the firmware, take intremap=off, nointremap and "
                         "iommu=off out of the kernel's command line and reboot";
    if (!needed || !remapped)
        return;
    if (json_is_true(remapped))
        weft_doctor_add(checks, "interrupts", WEFT_HEALTH_OK, NULL, "remapped");
    else if (json_is_null(remapped))
        weft_doctor_add(checks, "interrupts", WEFT_HEALTH_UNKNOWN, "dmesg | grep -i remapping",
                        "the kernel does not tell whether they are remapped");
    else if (json_is_true(json_object_get(report, "unsafe_interrupts")))
        weft_doctor_add(checks, "interrupts", WEFT_HEALTH_WARN, remedy,
                        "not remapped, and vfio does without (allow_unsafe_interrupts): a node can raise any of the host's");
    else
        weft_doctor_add(checks, "interrupts", WEFT_HEALTH_FAIL, remedy, "not remapped: vfio refuses devices");
}

/* --- virtual functions --- */

static char *
remedy_for(const WeftFunctionsWish *wish)
{
    if (g_strcmp0(wish->driver, "mlx4") == 0)
        return g_strdup_printf("options mlx4_core num_vfs=%u probe_vf=0 in /etc/modprobe.d/weft-mlx4.conf, which weft host "
                               "prepare --adapter %s=%u --modprobe writes on the host, then reboot it",
                               wish->wanted, wish->name, wish->wanted);
    return g_strdup_printf("weft host prepare --adapter %s=%u on the host%s", wish->name, wish->wanted,
                           g_strcmp0(wish->driver, "mlx5") == 0
                               ? " (SR-IOV must be on in the firmware: mstconfig set SRIOV_EN=1 NUM_OF_VFS=…)"
                               : "");
}

/* "0000:41:00.1, 0000:41:00.2, …" */
static char *
name_some(json_t *list)
{
    enum { SOME = 4 };
    GString *text = g_string_new(NULL);
    for (gsize i = 0; i < json_array_size(list) && i < SOME; i++)
        g_string_append_printf(text, "%s%s", i ? ", " : "", json_string_value(json_array_get(list, i)));
    if (json_array_size(list) > SOME)
        g_string_append(text, ", …");
    return g_string_free(text, FALSE);
}

static gboolean
has_any(json_t *adapter, const char *name)
{
    return json_array_size(json_object_get(adapter, name)) > 0;
}

static gboolean
check_bound(json_t *checks, json_t *adapter, const WeftFunctionsWish *wish)
{
    if (!has_any(adapter, "bound"))
        return TRUE;
    g_autofree char *some = name_some(json_object_get(adapter, "bound"));
    g_autofree char *remedy = g_strdup_printf("weft host prepare --adapter %s=%u on the host", wish->name, wish->wanted);
    weft_doctor_add(checks, wish->check, WEFT_HEALTH_WARN, remedy, "a driver of the host has %zu of its virtual functions: %s",
                    json_array_size(json_object_get(adapter, "bound")), some);
    return FALSE;
}

static const char *
remedy_for_groups(json_t *adapter)
{
    if (has_any(adapter, "acs_lacking"))
        return "put the adapter into a slot below a port that has access control services (lspci -vv shows ACSCap), or give "
               "nodes the whole adapter (path passthrough)";
    return "switch ACS on in the firmware, take pci=disable_acs_redir= out of the kernel's command line and reboot";
}

/* The kernel's groups are the judgement on all that is above a function; the ports' settings tell the cause. */
static gboolean
check_groups(json_t *checks, json_t *report, json_t *adapter, const WeftFunctionsWish *wish)
{
    gboolean lacking = has_any(adapter, "acs_lacking");
    json_t *ports = json_object_get(adapter, lacking ? "acs_lacking" : "acs_off");
    g_autofree char *some = name_some(ports);
    const char *cmdline = json_string_value(json_object_get(report, "cmdline"));
    if (has_any(adapter, "ungrouped")) {
        g_autofree char *alone = name_some(json_object_get(adapter, "ungrouped"));
        weft_doctor_add(checks, wish->check, WEFT_HEALTH_FAIL, "look into the kernel's log: dmesg | grep -i -e dmar -e iommu",
                        "the IOMMU knows nothing of %s", alone);
        return FALSE;
    }
    if (has_any(adapter, "shared")) {
        g_autofree char *mates = name_some(json_object_get(adapter, "shared"));
        weft_doctor_add(checks, wish->check, WEFT_HEALTH_FAIL, remedy_for_groups(adapter),
                        "%s can reach other devices past the IOMMU, and share a group with them%s%s%s", mates,
                        *some ? lacking ? "; no ACS at port " : "; ACS is off at port " : "", some,
                        *some ? "" : "; find /sys/kernel/iommu_groups -type l shows them");
        return FALSE;
    }
    if (cmdline && strstr(cmdline, "pcie_acs_override=") && json_array_size(ports) > 0) {
        weft_doctor_add(checks, wish->check, WEFT_HEALTH_WARN, "take pcie_acs_override= out of the kernel's command line",
                        "its functions are apart only because the kernel was told to believe so; no ACS at port %s", some);
        return FALSE;
    }
    return TRUE;
}

void
weft_check_functions(json_t *checks, json_t *report, json_t *adapter, const WeftFunctionsWish *wish)
{
    json_t *vfs = json_object_get(adapter, "vfs"), *total = json_object_get(adapter, "vfs_total");
    guint has = vfs ? (guint)json_integer_value(vfs) : wish->found;
    g_autofree char *remedy = remedy_for(wish);
    if (has < wish->wanted) {
        weft_doctor_add(checks, wish->check, WEFT_HEALTH_FAIL, remedy,
                        "%u virtual functions of %" JSON_INTEGER_FORMAT " possible; %u are wanted", has,
                        json_integer_value(total), wish->wanted);
        return;
    }
    gboolean fine = wish->wanted == 0 || check_bound(checks, adapter, wish);
    if (wish->wanted > 0 && works(report))
        fine &= check_groups(checks, report, adapter, wish);
    if (fine)
        weft_doctor_add(checks, wish->check, WEFT_HEALTH_OK, NULL, "%u virtual functions", has);
}

void
weft_check_unclean(json_t *checks, json_t *report)
{
    json_t *item;
    gsize i;
    json_array_foreach (json_object_get(report, "unclean"), i, item)
        weft_doctor_add(checks, "functions", WEFT_HEALTH_FAIL,
                        "fix what it says; it is tried again when a node starts or stops there, and by weft doctor",
                        "nobody gets what %s had: %s", json_string_value(json_object_get(item, "domain")),
                        json_string_value(json_object_get(item, "why")));
}

void
weft_check_folders(json_t *checks, json_t *report)
{
    json_t *item;
    gsize i;
    json_array_foreach (json_object_get(report, "unsafe_folders"), i, item)
        weft_doctor_add(checks, "memory folder", WEFT_HEALTH_FAIL,
                        "do what it says; until then nodes boot instead of being forked", "%s",
                        json_string_value(json_object_get(item, "why")));
}

void
weft_check_volatile(json_t *checks, json_t *report)
{
    const char *kind = json_string_value(json_object_get(report, "volatile"));
    if (kind)
        weft_doctor_add(checks, "/var/lib/weft", WEFT_HEALTH_WARN, "mount a disk there, before libvirtd starts",
                        "it is on %s, which a reboot %s: with it go the quarantine, the firmware to compare with, and which "
                        "weftd owns this host",
                        kind, g_str_equal(kind, "tmpfs") ? "empties" : "may empty");
}

void
weft_check_firmware(json_t *checks, json_t *report)
{
    g_autoptr(GString) absent = g_string_new(NULL);
    json_t *tools = json_object_get(report, "firmware_tools"), *there;
    const char *tool;
    json_object_foreach (tools, tool, there)
        if (!json_is_true(there))
            g_string_append_printf(absent, "%s%s", absent->len ? ", " : "", tool);
    if (absent->len)
        weft_doctor_add(checks, "firmware", WEFT_HEALTH_OK, NULL,
                        "not compared where a node had a whole device, as far as that takes what is not installed: %s",
                        absent->str);
    else if (json_object_size(tools))
        weft_doctor_add(checks, "firmware", WEFT_HEALTH_OK, NULL, "compared before and after a node has a whole device");
}

void
weft_check_quarantine(json_t *checks, json_t *report)
{
    json_t *item;
    gsize i;
    json_array_foreach (json_object_get(report, "quarantine"), i, item) {
        const char *pci = json_string_value(json_object_get(item, "pci"));
        const char *since = json_string_value(json_object_get(item, "since"));
        const char *why = json_string_value(json_object_get(item, "why"));
        g_autofree char *remedy = g_strdup_printf("repair or replace it, then type on the host: weft-hook readmit %s", pci);
        if (pci)
            weft_doctor_add(checks, "quarantine", WEFT_HEALTH_FAIL, remedy, "no node gets %s since %s: %s", pci,
                            since ? since : "a time that is not known", why ? why : "its report does not tell why");
    }
}

/* --- huge pages --- */

gboolean
weft_pages_reported(json_t *report, WeftPagesWish *wish)
{
    json_t *item;
    gsize i;
    wish->found = 0;
    wish->free = -1;
    json_array_foreach (json_object_get(report, "hugepages"), i, item) {
        json_t *unused = json_object_get(item, "free");
        if (json_integer_value(json_object_get(item, "node")) != wish->node ||
            json_integer_value(json_object_get(item, "size")) != (json_int_t)wish->size)
            continue;
        wish->found = (guint64)json_integer_value(json_object_get(item, "total"));
        wish->free = unused ? json_integer_value(unused) : -1;
    }
    return report != NULL;
}

static gboolean
check_wish(json_t *checks, const WeftPagesWish *wish)
{
    if (wish->found >= wish->wanted)
        return TRUE;
    g_autofree char *size = weft_size_format(wish->size);
    g_autofree char *remedy = g_strdup_printf("weft host prepare --pages %s=%u:%" G_GUINT64_FORMAT
                                              " on the host (at boot: hugepagesz=%s hugepages=%u:%" G_GUINT64_FORMAT ")",
                                              size, wish->node, wish->wanted, size, wish->node, wish->wanted);
    weft_doctor_add(checks, "hugepages", WEFT_HEALTH_FAIL, remedy,
                    "NUMA node %u has %" G_GUINT64_FORMAT " pages of %s; %" G_GUINT64_FORMAT " are wanted", wish->node,
                    wish->found, size, wish->wanted);
    return FALSE;
}

static void
tell_pages(GString *text, const WeftPagesWish *wish)
{
    g_autofree char *size = weft_size_format(wish->size);
    g_string_append_printf(text, "%sNUMA node %u: %" G_GUINT64_FORMAT " of %s", text->len ? "; " : "", wish->node, wish->found,
                           size);
    if (wish->free >= 0)
        g_string_append_printf(text, ", %" G_GINT64_FORMAT " free", wish->free);
}

static json_t *
figure_of(const WeftPagesWish *wish)
{
    return json_pack("{s:i, s:I, s:I, s:o}", "node", (int)wish->node, "size", (json_int_t)wish->size, "total",
                     (json_int_t)wish->found, "free", wish->free < 0 ? json_null() : json_integer(wish->free));
}

void
weft_check_pages(json_t *checks, const GArray *wishes)
{
    gboolean fine = TRUE;
    g_autoptr(GString) text = g_string_new(NULL);
    json_t *figures = json_array();
    for (guint i = 0; i < wishes->len; i++) {
        const WeftPagesWish *wish = &g_array_index(wishes, WeftPagesWish, i);
        fine &= check_wish(checks, wish);
        tell_pages(text, wish);
        json_array_append_new(figures, figure_of(wish));
    }
    if (fine)
        weft_doctor_add(checks, "hugepages", WEFT_HEALTH_OK, NULL, "%s", text->len ? text->str : "as described");
    json_object_set_new(json_array_get(checks, json_array_size(checks) - 1), "pages", figures);
}
