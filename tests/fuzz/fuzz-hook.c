/* What weft-hook reads of the definitions that libvirt gives it: the name of a domain or network, a newline, and the XML. What
 * is taken has only addresses, names and numbers that can be part of a path or a command. */
#include "fuzz.h"

#include "metadata.h"

static void
check_word(const char *word)
{
    fuzz_promise(word && *word && g_utf8_validate(word, -1, NULL));
    fuzz_promise(!strpbrk(word, "/ \t\n") && !g_str_equal(word, "..") && !g_str_equal(word, "."));
}

static void
check_node(const WeftHookNode *node, const char *name)
{
    fuzz_promise(g_strcmp0(node->domain, name) == 0 && node->id && *node->id);
    for (guint i = 0; i < node->devices->len; i++) {
        const WeftHookDevice *device = node->devices->pdata[i];
        check_word(device->hca);
        check_word(device->pci);
        if (device->pf)
            check_word(device->pf);
        fuzz_promise(device->vf >= -1 && device->pkey <= 0x7fff && device->n_shared <= WEFT_SHARED_MAX);
    }
    if (node->memory) {
        check_word(node->memory->id);
        check_word(node->memory->generation);
        fuzz_promise(node->memory->page > 0);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data, size);
    char *newline = strchr(text, '\n');
    if (!newline)
        return 0;
    *newline = '\0';
    const char *name = text, *xml = newline + 1;
    GError *error = NULL;
    weft_hook_is_domain(xml);
    weft_hook_is_network(xml);
    g_autoptr(WeftHookNode) node = weft_hook_node_read(name, xml, &error);
    if (node)
        check_node(node, name);
    else
        fuzz_check_refusal(g_steal_pointer(&error));
    g_autoptr(WeftHostNetwork) network = weft_hook_network_read(name, xml, NULL, &error);
    if (!network)
        fuzz_check_refusal(error);
    return 0;
}
