#include "domain-xml.h"
#include "errors.h"

#include <string.h>

#define REWRITE (g_strcmp0(g_getenv("WEFT_GOLDEN_REWRITE"), "1") == 0)

/* --- goldens: cases.json is a table of nodes on hosts; NAME.xml is the domain of one, or NAME.error why there is none --- */

#define PKEY 1
#define VXLAN 10001

static json_t *table;

static char *
golden_file(const char *name, const char *suffix)
{
    g_autofree char *file = g_strconcat(name, suffix, NULL);
    return g_test_build_filename(G_TEST_DIST, "..", "golden", "domain", file, NULL);
}

static json_t *
entry(const char *section, const char *name)
{
    return json_object_get(json_object_get(table, section), name);
}

static guint
number_or(const json_t *json, const char *name, guint otherwise)
{
    const json_t *value = json_object_get(json, name);
    return value ? (guint)json_integer_value(value) : otherwise;
}

static WeftNode *
node_of(json_t *of)
{
    json_t *json = json_copy(json_object_get(table, "node"));
    json_object_update(json, json_object_get(of, "node"));
    g_autoptr(GError) broken = NULL;
    WeftNode *node = weft_node_from_json(json, &broken);
    g_assert_no_error(broken);
    json_decref(json);
    return node;
}

/* device: which of its host's devices alone; -1: all of it. */
static char *
format_part(const char *name, int device, GError **error)
{
    json_t *of = entry("cases", name);
    const char *image_name = json_string_value(json_object_get(of, "image"));
    g_autoptr(GError) broken = NULL;
    g_autoptr(WeftHost) host =
        weft_host_from_json(entry("hosts", json_string_value(json_object_get(of, "host"))), "host", &broken);
    g_assert_no_error(broken);
    g_autoptr(WeftImage) image = image_name ? weft_image_from_json(entry("images", image_name), "image", &broken) : NULL;
    g_assert_no_error(broken);
    g_autoptr(WeftNode) node = node_of(of);
    WeftDomainSpec spec = {
        .node = node,
        .host = host,
        .pkey = number_or(of, "pkey", PKEY),
        .vxlan = number_or(of, "vxlan", VXLAN),
        .image = image,
        .tcg = json_is_true(json_object_get(of, "tcg")),
        .shm = json_object_get(of, "shm_size") != NULL,
        .shm_size = number_or(of, "shm_size", 0),
        .parted = json_is_true(json_object_get(of, "parted")),
    };
    g_autoptr(GArray) shared = g_array_new(FALSE, FALSE, sizeof(guint16));
    json_t *key;
    gsize i;
    json_array_foreach (json_object_get(of, "shared"), i, key)
        g_array_append_val(shared, (guint16){ (guint16)json_integer_value(key) });
    spec.shared = shared;
    return device < 0 ? weft_domain_xml_format(&spec, error) : weft_domain_device_format(&spec, (guint)device, error);
}

static char *
format_golden(const char *name, GError **error)
{
    return format_part(name, -1, error);
}

/* As libvirt's own schema has it. */
static void
assert_valid(const char *file)
{
    const char *argv[] = { "virt-xml-validate", file, "domain", NULL };
    g_autofree char *out = NULL, *err = NULL;
    g_autoptr(GError) error = NULL;
    int status = -1;
    g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, &err, &status, &error);
    g_assert_no_error(error);
    g_test_message("%s%s", out, err);
    g_assert_true(g_spawn_check_wait_status(status, NULL));
}

static void
check_golden(gconstpointer data)
{
    const char *name = data;
    g_autoptr(GError) error = NULL;
    g_autofree char *xml = format_golden(name, &error);
    if (!xml)
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_cmpint(xml == NULL, ==, g_str_has_prefix(name, "refused-"));
    g_autofree char *got = xml ? g_strdup(xml) : g_strdup_printf("%s\n", error->message);

    g_autofree char *path = golden_file(name, xml ? ".xml" : ".error");
    if (REWRITE)
        g_assert_true(g_file_set_contents(path, got, -1, NULL));
    g_autofree char *expected = NULL;
    g_file_get_contents(path, &expected, NULL, NULL);
    g_assert_cmpstr(got, ==, expected);

    g_autofree char *again = format_golden(name, NULL);
    g_assert_cmpstr(again, ==, xml);
    if (xml)
        assert_valid(path);
}

/* None that nobody compares. */
static void
counts_goldens(void)
{
    g_autofree char *folder = golden_file("", "");
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    guint files = 0;
    for (const char *file; (file = g_dir_read_name(dir));)
        files += g_str_has_suffix(file, ".xml") || g_str_has_suffix(file, ".error");
    if (!REWRITE)
        g_assert_cmpuint(files, ==, json_object_size(json_object_get(table, "cases")));
}

static void
add_goldens(void)
{
    g_autofree char *path = golden_file("cases", ".json");
    json_error_t problem;
    table = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    g_assert_cmpstr(table ? "" : problem.text, ==, "");
    const char *name;
    json_t *of;
    json_object_foreach (json_object_get(table, "cases"), name, of) {
        g_autofree char *test = g_strdup_printf("/domain-xml/golden/%s", name);
        g_test_add_data_func(test, name, check_golden);
    }
    g_test_add_func("/domain-xml/counts-goldens", counts_goldens);
}

/* --- images that no JSON can say --- */

static char *
refusal_of_image(const WeftImage *image)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(WeftHost) host = weft_host_from_json(entry("hosts", "small"), "host", NULL);
    g_autoptr(WeftNode) node = node_of(NULL);
    WeftDomainSpec spec = { .node = node, .host = host, .pkey = PKEY, .vxlan = VXLAN, .image = image };
    g_assert_null(weft_domain_xml_format(&spec, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    return g_strdup(error->message);
}

static void
refuses_images(void)
{
    char good[] = "1111111111111111111111111111111111111111111111111111111111111111", bad[] = "../../etc/shadow", name[] = "i";
    WeftImageFile file = { .digest = good }, outside = { .digest = bad }, strange = { .digest = good, .format = 7 };
    const struct {
        WeftImage image;
        const char *message;
    } images[] = {
        { { .name = name }, "image i has neither disk nor kernel; add it anew with one" },
        { { .name = name, .disk = &file, .initrd = &file },
          "image i has no kernel; only a kernel takes an initrd and a command line" },
        { { .name = name, .disk = &file, .cmdline = name },
          "image i has no kernel; only a kernel takes an initrd and a command line" },
        { { .name = name, .disk = &strange }, "image i has a disk of unknown format 7; add it anew as qcow2, raw or readonly" },
        { { .name = name, .disk = &outside }, "image i: \"../../etc/shadow\" is no SHA-256 digest" },
        { { .name = name, .kernel = &outside }, "image i: \"../../etc/shadow\" is no SHA-256 digest" },
        { { .name = name, .kernel = &file, .initrd = &outside }, "image i: \"../../etc/shadow\" is no SHA-256 digest" },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(images); i++) {
        g_autofree char *message = refusal_of_image(&images[i].image);
        g_autofree char *expected = g_strconcat("node 4k2m8w9x1a2b-3 on host n1: ", images[i].message, NULL);
        g_test_message("%s", message);
        g_assert_true(g_str_has_prefix(message, expected));
    }
}

/* --- what is plugged and unplugged --- */

/* By the alias that it has in the definition, at the same address of the host, and at no place on the guest's buses. */
static void
writes_devices_alone(void)
{
    static const char *const aliases[] = { "ua-rail0", "ua-rail1", "ua-gpu0", "ua-gpu1", "ua-gpu2", "ua-gpu3" };
    g_autofree char *whole = format_golden("sriov-gpus-of-two-sockets", NULL);
    for (guint i = 0; i < G_N_ELEMENTS(aliases); i++) {
        g_autofree char *alias = g_strdup_printf("<alias name=\"%s\"/>", aliases[i]);
        g_autofree char *alone = format_part("sriov-gpus-of-two-sockets", (int)i, NULL);
        g_assert_true(g_str_has_prefix(alone, "<hostdev mode=\"subsystem\" type=\"pci\" managed=\"yes\">"));
        g_assert_nonnull(strstr(alone, alias));
        g_assert_nonnull(strstr(whole, alias));
        g_assert_null(strstr(alone, "<address type="));
    }
    g_autofree char *gpu = format_part("sriov-gpus-of-two-sockets", 3, NULL);
    g_assert_nonnull(strstr(gpu, "<address domain=\"0x0000\" bus=\"0xc2\" slot=\"0x00\" function=\"0x0\"/>"));
}

/* --- reading --- */

static void
reads_what_it_wrote(void)
{
    g_autofree char *xml = format_golden("sriov-gpus-of-two-sockets", NULL);
    g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(xml, NULL);
    g_assert_nonnull(facts);
    g_assert_cmpstr(facts->name, ==, "weft-4k2m8w9x1a2b-3");
    g_assert_cmpstr(facts->node, ==, "4k2m8w9x1a2b-3");
    g_ptr_array_add(facts->uses, NULL);
    g_autofree char *uses = g_strjoinv(" ", (char **)facts->uses->pdata);
    g_assert_cmpstr(uses, ==,
                    "vf/mlx5_0/0 guid/0x0277650000000001 vf/mlx5_2/0 guid/0x0277650000000002 "
                    "gpu/0000:42:00.0 gpu/0000:c2:00.0 gpu/0000:e1:00.0 gpu/0000:f1:00.0 "
                    "cpu/1 cpu/9 cpu/2 cpu/10 cpu/5 cpu/13 cpu/6 cpu/14");
}

/* clang-format off */
static const struct {
    const char *xml;
    const char *name; /* NULL: refused */
    const char *node;
} texts[] = {
    { "<domain><name>db</name></domain>", "db", NULL },
    { "<?xml version='1.0'?><!-- by hand --><domain id='7'><uuid/><name>db</name></domain>", "db", NULL },
    { "<domain><metadata><name>inner</name></metadata><name>db</name></domain>", "db", NULL },
    { "<domain><name>a&amp;b</name></domain>", "a&b", NULL },
    { "<domain><name>x</name><metadata><w:node xmlns:w='" WEFT_DOMAIN_NAMESPACE "' id='1-2'/></metadata></domain>",
      "x", "1-2" },
    { "<domain><name>x</name><metadata><o:node xmlns:o='https://else.where/1' id='o'/>"
      "<w:node xmlns:w='" WEFT_DOMAIN_NAMESPACE "' id='1-2'/></metadata></domain>", "x", "1-2" },
    { "<domain><name>x</name><metadata><w:node xmlns:w='https://else.where/1' id='1-2'/></metadata></domain>", "x", NULL },
    { "<domain><name>x</name><metadata><node id='1-2'/></metadata></domain>", "x", NULL },
    { "<domain><name>x</name><w:node xmlns:w='" WEFT_DOMAIN_NAMESPACE "' id='1-2'/></domain>", "x", NULL },
    { "", NULL, NULL },
    { "not XML", NULL, NULL },
    { "<domain><name>db</name>", NULL, NULL },
    { "<domain/>", NULL, NULL },
    { "<network><name>db</name></network>", NULL, NULL },
    { "<!DOCTYPE domain [<!ENTITY e 'db'>]><domain><name>&e;</name></domain>", NULL, NULL },
    { "<!DOCTYPE domain [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><domain><name>&e;</name></domain>", NULL, NULL },
    { "<!DOCTYPE domain SYSTEM 'http://127.0.0.1:1/d.dtd'><domain><name>db</name></domain>", NULL, NULL },
    { "<!DOCTYPE d [<!ENTITY a 'aaaaaaaaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'><!ENTITY c '&b;&b;&b;&b;&b;&b;&b;&b;'>"
      "<!ENTITY d '&c;&c;&c;&c;&c;&c;&c;&c;'><!ENTITY e '&d;&d;&d;&d;&d;&d;&d;&d;'>]><domain><name>&e;</name></domain>",
      NULL, NULL },
};
/* clang-format on */

static void
identifies(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(texts[i].xml, &error);
        g_test_message("%s", texts[i].xml);
        g_assert_cmpint(facts != NULL, ==, texts[i].name != NULL);
        g_assert_cmpstr(facts ? facts->name : NULL, ==, texts[i].name);
        g_assert_cmpstr(facts ? facts->node : NULL, ==, texts[i].node);
        if (!facts)
            g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    }
}

static void
refuses_too_large(void)
{
    g_autofree char *padding = g_strnfill(WEFT_DOMAIN_XML_MAX, ' ');
    g_autofree char *xml = g_strconcat("<domain><name>db</name>", padding, "</domain>", NULL);
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_domain_xml_read(xml, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "too large"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_goldens();
    g_test_add_func("/domain-xml/devices-alone", writes_devices_alone);
    g_test_add_func("/domain-xml/refuses-images", refuses_images);
    g_test_add_func("/domain-xml/reads-what-it-wrote", reads_what_it_wrote);
    g_test_add_func("/domain-xml/identifies", identifies);
    g_test_add_func("/domain-xml/refuses-too-large", refuses_too_large);
    int status = g_test_run();
    json_decref(table);
    return status;
}
