#include "domain-xml.h"
#include "errors.h"

#include <string.h>

#define REWRITE (g_strcmp0(g_getenv("WEFT_GOLDEN_REWRITE"), "1") == 0)

/* --- goldens: NAME.json is a node on its host; NAME.xml its domain, or NAME.error why there is none --- */

static char *
format_golden(const char *input, GError **error)
{
    json_error_t problem;
    json_t *json = json_load_file(input, 0, &problem);
    g_assert_cmpstr(json ? "" : problem.text, ==, "");
    g_autoptr(GError) broken = NULL;
    g_autoptr(WeftHost) host = weft_host_from_json(json_object_get(json, "host"), "host", &broken);
    g_assert_no_error(broken);
    g_autoptr(WeftNode) node = weft_node_from_json(json_object_get(json, "node"), &broken);
    g_assert_no_error(broken);
    WeftDomainSpec spec = {
        .node = node,
        .host = host,
        .pkey = (guint)json_integer_value(json_object_get(json, "pkey")),
        .vxlan = (guint)json_integer_value(json_object_get(json, "vxlan")),
    };
    char *xml = weft_domain_xml_format(&spec, error);
    json_decref(json);
    return xml;
}

static void
check_golden(gconstpointer data)
{
    const char *input = data;
    g_autoptr(GError) error = NULL;
    g_autofree char *xml = format_golden(input, &error);
    if (!xml)
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_autofree char *got = xml ? g_strdup(xml) : g_strdup_printf("%s\n", error->message);

    g_autofree char *stem = g_strndup(input, strlen(input) - strlen(".json"));
    g_autofree char *path = g_strconcat(stem, xml ? ".xml" : ".error", NULL);
    if (REWRITE)
        g_assert_true(g_file_set_contents(path, got, -1, NULL));
    g_autofree char *expected = NULL;
    g_file_get_contents(path, &expected, NULL, NULL);
    g_assert_cmpstr(got, ==, expected);

    g_autofree char *again = format_golden(input, NULL);
    g_assert_cmpstr(again, ==, xml);
}

static void
add_goldens(void)
{
    g_autofree char *folder = g_test_build_filename(G_TEST_DIST, "..", "golden", "domain", NULL);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    g_assert_nonnull(dir);
    guint cases = 0, expected = 0;
    for (const char *file; (file = g_dir_read_name(dir));) {
        expected += g_str_has_suffix(file, ".xml") || g_str_has_suffix(file, ".error");
        if (!g_str_has_suffix(file, ".json"))
            continue;
        cases++;
        g_autofree char *path = g_strdup_printf("/domain-xml/golden/%s", file);
        g_test_add_data_func_full(path, g_build_filename(folder, file, NULL), check_golden, g_free);
    }
    g_assert_cmpuint(cases, >, 0);
    if (!REWRITE)
        g_assert_cmpuint(expected, ==, cases); /* none that nobody compares */
}

/* --- reading --- */

static void
reads_what_it_wrote(void)
{
    g_autofree char *input = g_test_build_filename(G_TEST_DIST, "..", "golden", "domain", "sriov-two-rails.json", NULL);
    g_autofree char *xml = format_golden(input, NULL);
    g_autoptr(WeftDomainFacts) facts = weft_domain_xml_read(xml, NULL);
    g_assert_nonnull(facts);
    g_assert_cmpstr(facts->name, ==, "weft-4k2m8w9x1a2b-3");
    g_assert_cmpstr(facts->node, ==, "4k2m8w9x1a2b-3");
    g_ptr_array_add(facts->uses, NULL);
    g_autofree char *uses = g_strjoinv(" ", (char **)facts->uses->pdata);
    g_assert_cmpstr(uses, ==,
                    "vf/mlx5_0/2 guid/0x0277650000000001 vf/mlx5_1/0 guid/0x0277650000000002 "
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
        g_autofree char *name = NULL, *node = NULL;
        gboolean ok = weft_domain_xml_identify(texts[i].xml, &name, &node, &error);
        g_test_message("%s", texts[i].xml);
        g_assert_cmpint(ok, ==, texts[i].name != NULL);
        g_assert_cmpstr(name, ==, texts[i].name);
        g_assert_cmpstr(node, ==, texts[i].node);
        if (!ok)
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
    g_test_add_func("/domain-xml/reads-what-it-wrote", reads_what_it_wrote);
    g_test_add_func("/domain-xml/identifies", identifies);
    g_test_add_func("/domain-xml/refuses-too-large", refuses_too_large);
    return g_test_run();
}
