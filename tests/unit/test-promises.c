/* What nodes were promised of their fabric: what is said to tenants and operators of what a node answers, whatever it answers.
 */
#include "promises.h"

#include <string.h>

#define MANAGER "opensm 3.3.23 by its plugin at h1"

typedef struct Site {
    WeftNode *node;
    WeftHost *host;
    WeftPromised promised;
} Site;

static void
set_up(Site *site, gconstpointer data)
{
    WeftHca *hca = weft_hca_new();
    hca->name = g_strdup("mlx5_9");
    hca->port_guid = 0x0002c903000000ff;
    site->host = weft_host_new();
    site->host->name = g_strdup("secret-host");
    g_ptr_array_add(site->host->hcas, hca);
    site->node = weft_node_new();
    g_ptr_array_add(site->node->devices, weft_device_new(0, "mlx5_9", 3));
    ((WeftDevice *)site->node->devices->pdata[0])->guid = 0x02c9010000000a00;
    g_ptr_array_add(site->node->devices, weft_device_new(1, "mlx5_9", -1));
    site->promised = (WeftPromised){ site->node, site->host, 0x12, MANAGER };
}

static void
tear_down(Site *site, gconstpointer data)
{
    weft_node_free(site->node);
    weft_host_free(site->host);
}

static void
test_kept(Site *site, gconstpointer data)
{
    char *detail = NULL;
    g_assert_null(weft_promises_missing(&site->promised, "port 1 active\nport 0 active\nreached all\n", TRUE, &detail));
    g_assert_null(weft_promises_missing(&site->promised, "port 0 active\nport 1 active\nunreached 3\n", FALSE, &detail));
    g_assert_null(weft_promises_missing(&site->promised, "unreached 3\nno answer\n", FALSE, &detail));
    g_assert_null(weft_promises_missing(&site->promised, NULL, FALSE, &detail));
    g_assert_null(detail);
}

/* Each rail is told of, with what operators need beside it. */
static void
test_missing(Site *site, gconstpointer data)
{
    g_autofree char *detail = NULL;
    g_autofree char *words = weft_promises_missing(&site->promised, "port 0 state 2\nport 1 missing\nwhy\n", FALSE, &detail);
    g_assert_cmpstr(
        words, ==,
        "it does not have the ports that it was promised: rail 0: port 0x02c9010000000a00 is INIT: the fabric's subnet "
        "manager has not set it up; rail 1: no device inside it has port GUID 0x0002c903000000ff");
    g_assert_cmpstr(
        detail, ==,
        "host secret-host: rail 0 is mlx5_9 virtual function 3: port 0x02c9010000000a00 is INIT: the fabric's subnet "
        "manager has not set it up; rail 1 is mlx5_9: no device inside it has port GUID 0x0002c903000000ff; the subnet "
        "manager: " MANAGER);
}

/* Nothing of what a tenant's guest says gets into texts but numbers, and nothing of the site into those for tenants. */
static void
test_garbage(Site *site, gconstpointer data)
{
    static const char *const answers[] = { "port 0 \x1b[2Jactive\nport 1 active\n",
                                           "port 0 active\nport 1 <script>\n",
                                           "port 0 state 99999999999999999999999\nport 1 active\n",
                                           "port 0 pkey <script>\nport 1 active\n",
                                           "port 0 pkey -1\nport 1 active\n",
                                           "port 7 active\n",
                                           "port \n",
                                           "port 0 active",
                                           "" };
    for (guint i = 0; i < G_N_ELEMENTS(answers); i++) {
        g_autofree char *detail = NULL;
        g_autofree char *words = weft_promises_missing(&site->promised, answers[i], TRUE, &detail);
        g_assert_nonnull(words);
        g_assert_nonnull(detail);
        g_assert_null(strstr(words, "script"));
        g_assert_null(strchr(words, 0x1b));
        g_assert_null(strstr(words, "secret-host"));
        g_assert_null(strstr(words, "mlx5_9"));
        g_assert_null(strstr(detail, "script"));
    }
}

/* A guest may answer as much as it likes: the first that it says of a rail counts, and those without ports are not read at all.
 */
static void
test_much(Site *site, gconstpointer data)
{
    g_autoptr(GString) answer = g_string_new("port 1 active\nport 0 active\n");
    while (answer->len < 60000)
        g_string_append(answer, "\nport 0 missing\nport 4294967296 missing\n");
    char *detail = NULL;
    g_assert_null(weft_promises_missing(&site->promised, answer->str, TRUE, &detail));
    g_assert_null(weft_promises_unverified(&site->promised, answer->str));
    g_string_assign(answer, "port 1 active\nport 0 state ");
    while (answer->len < 60000)
        g_string_append_c(answer, '2');
    g_autofree char *words = weft_promises_missing(&site->promised, answer->str, TRUE, &detail);
    g_assert_nonnull(words);
    g_assert_cmpuint(strlen(words) + strlen(detail), <, 1000);
    g_free(detail);
    g_ptr_array_set_size(site->node->devices, 0);
    g_assert_null(weft_promises_missing(&site->promised, answer->str, TRUE, &detail));
}

static void
test_older(Site *site, gconstpointer data)
{
    g_autofree char *detail = NULL;
    g_autofree char *words = weft_promises_missing(&site->promised, "reached 3 addresses of 3 other nodes\n", TRUE, &detail);
    g_assert_nonnull(strstr(words, "older"));
    g_assert_nonnull(strstr(words, "0x02c9010000000a00 and more"));
    g_assert_nonnull(strstr(detail, "secret-host"));
}

/* Of one that was ready, or goes on from saved memory, no newer guest program can be had: it is said what it did not prove. */
static void
test_older_saved(Site *site, gconstpointer data)
{
    char *detail = NULL;
    site->promised.saved = TRUE;
    g_assert_null(weft_promises_missing(&site->promised, "reached 3 addresses of 3 other nodes\n", TRUE, &detail));
    g_autofree char *words = weft_promises_unverified(&site->promised, "reached 3 addresses of 3 other nodes\n");
    g_assert_true(g_str_has_prefix(words, "rails 0, 1: its guest program is older than weft"));
    g_assert_null(weft_promises_unverified(&site->promised, "port 0 active\nport 1 active\nreached all\n"));
    g_autofree char *missing = weft_promises_missing(&site->promised, "port 0 active\n", TRUE, &detail);
    g_assert_nonnull(missing);
    g_free(detail);
}

static void
test_stand_ins(Site *site, gconstpointer data)
{
    char *detail = NULL;
    g_assert_null(weft_promises_unverified(&site->promised, "port 0 active\nport 1 active\n"));
    site->host->verify = WEFT_VERIFY_ETHERNET;
    g_assert_null(weft_promises_missing(&site->promised, "port 0 missing\n", TRUE, &detail));
    g_autofree char *words = weft_promises_unverified(&site->promised, "reached all\n");
    g_assert_true(g_str_has_prefix(words, "rails 0, 1: its host's adapters are declared as stand-ins"));
    g_ptr_array_set_size(site->node->devices, 0);
    g_assert_null(weft_promises_unverified(&site->promised, "reached all\n"));
}

#define WITH_SITE(path, test) g_test_add(path, Site, NULL, set_up, test, tear_down)

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    WITH_SITE("/promises/kept", test_kept);
    WITH_SITE("/promises/missing", test_missing);
    WITH_SITE("/promises/garbage", test_garbage);
    WITH_SITE("/promises/much", test_much);
    WITH_SITE("/promises/older", test_older);
    WITH_SITE("/promises/older-saved", test_older_saved);
    WITH_SITE("/promises/stand-ins", test_stand_ins);
    return g_test_run();
}
