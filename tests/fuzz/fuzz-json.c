/* JSON and YAML texts: what is taken has bounded depth and can be written and read again. */
#include "fuzz.h"

#include "yaml.h"

static guint
depth_of(json_t *value)
{
    guint deepest = 0;
    size_t i;
    const char *key;
    json_t *item;
    json_array_foreach (value, i, item)
        deepest = MAX(deepest, depth_of(item));
    json_object_foreach (value, key, item)
        deepest = MAX(deepest, depth_of(item));
    return deepest + (json_is_array(value) || json_is_object(value));
}

/* Takes the value. */
static void
check_value(json_t *value)
{
    fuzz_promise(depth_of(value) <= WEFT_TEXT_DEPTH_MAX);
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    fuzz_promise(text);
    json_t *again = weft_json_parse(text, strlen(text), NULL);
    fuzz_promise(again && json_equal(value, again));
    json_decref(again);
    json_decref(value);
    free(text);
}

static void
check(json_t *value, GError *error)
{
    if (value)
        check_value(value);
    else
        fuzz_check_refusal(error);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GError *json_error = NULL, *yaml_error = NULL;
    json_t *json = weft_json_parse((const char *)data, size, &json_error);
    check(json, json_error);
    json_t *yaml = weft_yaml_parse((const char *)data, size, "fuzz.yaml", &yaml_error);
    check(yaml, yaml_error);
    return 0;
}
