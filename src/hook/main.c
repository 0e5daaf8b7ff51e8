#include "claim.h"
#include "errors.h"
#include "file.h"
#include "hook.h"
#include "metadata.h"
#include "names.h"
#include "netlink.h"
#include "ops.h"
#include "own.h"
#include "prepare.h"
#include "report.h"

#include <libxml/parser.h>
#include <stdio.h>
#include <string.h>

typedef gboolean (*Work)(const WeftHook *hook, const char *name, const char *xml, GError **error);

typedef struct Op {
    const char *name;
    Work work;
    gboolean lenient; /* a failure must not reach libvirt, which would end a running domain for it */
} Op;

static gboolean
report(const WeftHook *hook, const char *name, const char *xml, GError **error)
{
    weft_hook_tidy(hook); /* whoever took something away asks for a report, so that the rest goes too */
    json_t *json = weft_report_new(hook);
    json_object_set_new(json, "lacking", weft_hook_lacking(hook));
    char *text = json_dumps(json, JSON_COMPACT);
    weft_error_refuse(error, WEFT_ERROR_FAILED, "report\n%s", text);
    free(text);
    json_decref(json);
    return FALSE;
}

/* The operations that need something done; all others are success. */
/* clang-format off */
static const Op qemu_ops[] = {
    { "migrate", weft_hook_check, FALSE }, /* comes before prepare */
    { "restore", weft_hook_check, FALSE }, /* likewise */
    { "prepare", weft_hook_prepare, FALSE },
    { "start", weft_hook_seal, FALSE }, /* the node's interface is there now */
    { "started", weft_hook_note, FALSE },
    { "reconnect", weft_hook_note, TRUE },
    { "release", weft_hook_release, FALSE },
    { NULL },
};
/* clang-format on */
static const Op network_ops[] = {
    { "start", weft_hook_connect, FALSE },
    { "stopped", weft_hook_disconnect, FALSE },
    { NULL },
};
static const Op probe_ops[] = { { "start", report, FALSE }, { NULL } };
static const Op seal_ops[] = { { "start", weft_hook_seal_network, FALSE }, { NULL } };
static const Op owner_ops[] = { { "start", weft_claim_tell, FALSE }, { NULL } };
static const Op own_ops[] = { { "start", weft_own_tell, FALSE }, { NULL } };

typedef struct Kind {
    const char *name;
    const Op *ops;
    gboolean (*is_ours)(const char *xml);
} Kind;

static const Kind kinds[] = {
    { "qemu", qemu_ops, weft_hook_is_domain },
    { "network", network_ops, weft_hook_is_network },
};

static const Kind *
find_kind(const char *name)
{
    for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (g_str_equal(kinds[i].name, name))
            return &kinds[i];
    }
    return NULL;
}

/* /etc/libvirt/hooks/qemu and /etc/libvirt/hooks/qemu.d/weft are both the qemu hook. */
static const Kind *
kind_of_path(const char *path)
{
    g_autofree char *base = g_path_get_basename(path);
    g_autofree char *folder = g_path_get_dirname(path);
    g_autofree char *within = g_path_get_basename(folder);
    const Kind *kind = find_kind(base);
    if (!kind && g_str_has_suffix(within, ".d")) {
        within[strlen(within) - strlen(".d")] = '\0';
        kind = find_kind(within);
    }
    return kind;
}

/* Networks that are asked for to be told something. NULL: it is none of them. */
static const Op *
find_question(const char *name)
{
    if (g_str_has_prefix(name, WEFT_NETWORK_PROBE))
        return probe_ops;
    if (g_str_has_prefix(name, WEFT_NETWORK_OWN))
        return own_ops;
    if (g_str_has_prefix(name, WEFT_NETWORK_OWNER))
        return owner_ops;
    return g_str_has_prefix(name, WEFT_NETWORK_SEAL) ? seal_ops : NULL;
}

static int
run_op(const WeftHook *hook, const Op *op, const char *name, const char *xml)
{
    g_autoptr(GError) error = NULL;
    if (weft_name_check(name, "domain or network", &error) && op->work(hook, name, xml, &error))
        return 0;
    fprintf(stderr, "weft-hook: %s\n", error->message);
    return op->lenient ? 0 : 1;
}

static int
run(const Kind *kind, const char *name, const char *op)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftNetlink) netlink = NULL;
    /* All of it, whatever the operation: libvirt is writing. */
    g_autofree char *xml = weft_file_read("-", WEFT_HOOK_XML_MAX, NULL, &error);
    const Op *question = kind->ops == network_ops ? find_question(name) : NULL;
    const Op *found = question ? question : kind->ops;
    while (found->name && !g_str_equal(found->name, op))
        found++;
    if (!found->name || (xml && !question && !kind->is_ours(xml)) || (!xml && !g_str_has_prefix(name, "weft-")))
        return 0;
    if (xml)
        netlink = weft_netlink_open(&error);
    if (!netlink) {
        fprintf(stderr, "weft-hook: %s\n", error->message);
        return found->lenient ? 0 : 1;
    }
    const char *root = g_getenv("WEFT_HOOK_ROOT"); /* for tests: libvirt passes none on */
    WeftHook hook = { .root = root ? root : "", .netlink = netlink };
    return run_op(&hook, found, name, xml);
}

/* weft host prepare, for hosts that have nothing else of weft's. */
static int
prepare(int argc, char **argv)
{
    gboolean json = FALSE;
    int status = 0;
    const GOptionEntry more[] = { { "json", 0, 0, G_OPTION_ARG_NONE, &json, "print JSON", NULL }, { NULL } };
    g_autoptr(GError) error = NULL;
    g_autoptr(GOptionContext) context = g_option_context_new("- makes this host as /etc/weft/host.yaml wishes");
    g_option_context_add_main_entries(context, weft_prepare_options, NULL);
    g_option_context_add_main_entries(context, more, NULL);
    gboolean parsed = g_option_context_parse(context, &argc, &argv, &error) && argc == 1;
    if (parsed && weft_prepare_run(json, &status, &error))
        return status;
    fprintf(stderr, "weft-hook: %s\n", error ? error->message : "prepare takes options only: weft-hook prepare --help");
    return parsed ? weft_error_exit_code(weft_error_code(error)) : 2;
}

/* weft-hook readmit 0000:41:00.0 */
static int
readmit(const char *pci)
{
    const char *root = g_getenv("WEFT_HOOK_ROOT");
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftNetlink) netlink = weft_netlink_open(&error); /* its node's bridge may go with the device */
    WeftHook hook = { .root = root ? root : "", .netlink = netlink };
    if (netlink && !weft_hook_is_pci(pci))
        weft_error_refuse(&error, WEFT_ERROR_INVALID, "\"%s\" is not a PCI address such as 0000:41:00.1", pci);
    else if (netlink && weft_hook_readmit(&hook, pci, &error))
        return 0;
    fprintf(stderr, "weft-hook: %s\n", error->message);
    return weft_error_exit_code(weft_error_code(error));
}

static int
usage(void)
{
    fprintf(stderr, "usage: weft-hook qemu|network NAME OPERATION < XML\n"
                    "       weft-hook prepare [--dry-run] [OPTION…]\n"
                    "       weft-hook readmit PCI-ADDRESS\n"
                    "       weft-hook --version\n"
                    "libvirt runs it as /etc/libvirt/hooks/qemu.d/weft and /etc/libvirt/hooks/network.d/weft\n");
    return 2;
}

int
main(int argc, char **argv)
{
    const Kind *kind = kind_of_path(argv[0]);
    int first = 1;
    if (argc == 2 && g_str_equal(argv[1], "--version")) {
        printf("weft-hook %s\n", WEFT_VERSION);
        return 0;
    }
    if (!kind && argc > 1 && g_str_equal(argv[1], "prepare"))
        return prepare(argc - 1, argv + 1);
    if (!kind && argc == 3 && g_str_equal(argv[1], "readmit"))
        return readmit(argv[2]);
    if (!kind && argc > 1)
        kind = find_kind(argv[first++]);
    if (!kind || argc < first + 2)
        return usage();
    int status = run(kind, argv[first], argv[first + 1]);
    xmlCleanupParser();
    return status;
}
