/* YAML of a site or a host. What is taken can be written as strict JSON and read again without a change; as a host's file it is
 * understood or refused. */
#include "fuzz.h"

#include "wish.h"
#include "yaml.h"

static void
check_as_json(json_t *value)
{
    g_autoptr(GError) error = NULL;
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    fuzz_promise(text);
    json_auto_t *again = weft_json_parse(text, strlen(text), &error);
    if (!again)
        g_error("what was read from YAML is not read again as JSON: %s", error->message);
    fuzz_promise(json_equal(value, again));
    free(text);
}

static void
check_wish(json_t *value)
{
    GError *error = NULL;
    g_autoptr(WeftHostWish) wish = weft_host_wish_new(value, &error);
    if (!wish) {
        fuzz_check_refusal(error);
        return;
    }
    for (guint i = 0; i < wish->adapters->len; i++)
        fuzz_promise(*((const WeftAdapterWish *)wish->adapters->pdata[i])->name);
    for (guint i = 0; i < wish->pages->len; i++) {
        const WeftPageWish *pages = &g_array_index(wish->pages, WeftPageWish, i);
        fuzz_promise(pages->size > 0 && pages->node >= WEFT_WISH_EVERY_NODE);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GError *error = NULL;
    json_auto_t *value = weft_yaml_parse((const char *)data, size, "host.yaml", &error);
    if (!value) {
        fuzz_check_refusal(error);
        return 0;
    }
    check_as_json(value);
    check_wish(value);
    return 0;
}
