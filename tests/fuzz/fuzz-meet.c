/* What a node says of the others and of its own ports, whoever is root in it: what is kept of it is bounded by the cluster, and
 * what its tenant and operators read of it are weft's own words. */
#include "fuzz.h"

#include "meet-answer.h"
#include "promises.h"

#define RANKS 6
#define WORDS_MAX 1024

static void
check_counts(const char *output)
{
    static const guint8 addresses[RANKS] = { 0, 1, 2, 3, 0, 9 };
    g_autoptr(GByteArray) counts = weft_meet_answer_unreached(output, addresses, RANKS);
    fuzz_promise(counts->len <= RANKS);
    for (guint i = 0; i < counts->len; i++)
        fuzz_promise(counts->data[i] <= addresses[i]);
}

static void
check_words(char *words)
{
    for (const char *p = words; p && *p; p++)
        fuzz_promise(g_ascii_isprint(*p));
    fuzz_promise(!words || strlen(words) < WORDS_MAX);
    g_free(words);
}

static void
check_promises(const char *output, gboolean well)
{
    WeftHost *host = weft_host_new();
    WeftNode *node = weft_node_new();
    host->name = g_strdup("h1");
    for (guint rail = 0; rail < 2; rail++) {
        WeftHca *hca = weft_hca_new();
        hca->name = g_strdup_printf("mlx5_%u", rail);
        hca->port_guid = 0x0002c90300000001 + rail;
        g_ptr_array_add(host->hcas, hca);
        g_ptr_array_add(node->devices, weft_device_new(rail, hca->name, -1));
    }
    WeftPromised promised = { node, host, 0x12, "opensm", FALSE };
    char *detail = NULL;
    check_words(weft_promises_missing(&promised, output, well, &detail));
    check_words(detail);
    check_words(weft_promises_unverified(&promised, output));
    weft_node_free(node);
    weft_host_free(host);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    g_autofree char *output = g_strndup((const char *)data + 1, size - 1);
    check_counts(output);
    check_promises(output, data[0] & 1);
    return 0;
}
