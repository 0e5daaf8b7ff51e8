/* The head and the definition of a file that libvirt saved a domain in, which a host or another site brings. What is written
 * with another definition is a head that is read again, with that definition and the same cookie. */
#include "fuzz.h"

#include "saved.h"

#include <libxml/parser.h>

#define DEFINITION                                                                                                             \
    "<domain type='kvm'><name>weft-a-1</name><memory unit='KiB'>1048576</memory><vcpu>1</vcpu><devices>"                       \
    "<disk type='file'><source file='/a'/><target dev='vda'/></disk></devices></domain>"

static void
check_definition(const char *xml)
{
    const WeftSavedMemory memory = { .id = "m1", .generation = "1" };
    for (guint i = 0; i < 2; i++) {
        GError *error = NULL;
        g_autofree char *text = weft_saved_definition(xml, DEFINITION, i ? &memory : NULL, &error);
        if (!text) {
            fuzz_check_refusal(error);
            continue;
        }
        g_autoptr(GPtrArray) unlinked = weft_saved_unlinked(text);
        fuzz_promise(strstr(text, "<name>weft-a-1</name>") && unlinked && weft_saved_page_size(text) > 0);
    }
}

static void
check_front(const WeftSavedHead *head, const guint8 *data)
{
    GError *error = NULL;
    g_autoptr(GBytes) front = weft_saved_front(head, data, DEFINITION, 0, &error);
    if (!front) {
        fuzz_check_refusal(error);
        return;
    }
    gsize length;
    const guint8 *bytes = g_bytes_get_data(front, &length);
    WeftSavedHead again;
    fuzz_promise(weft_saved_head_read(bytes, length, &again, NULL));
    fuzz_promise(again.version == head->version && again.running == head->running && !again.cookie == !head->cookie);
    fuzz_promise(length == WEFT_SAVED_HEAD + again.length);
    g_autofree char *xml = weft_saved_xml(&again, bytes + WEFT_SAVED_HEAD, NULL);
    fuzz_promise(g_strcmp0(xml, DEFINITION) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GError *error = NULL;
    WeftSavedHead head;
    g_autofree char *text = g_strndup((const char *)data, size);
    check_definition(text);
    if (!weft_saved_head_read(data, size, &head, &error)) {
        fuzz_check_refusal(error);
        return 0;
    }
    if (head.length > size - WEFT_SAVED_HEAD)
        return 0;
    g_autofree char *xml = weft_saved_xml(&head, data + WEFT_SAVED_HEAD, &error);
    if (xml)
        check_definition(xml);
    else
        fuzz_check_refusal(error);
    check_front(&head, data + WEFT_SAVED_HEAD);
    return 0;
}
