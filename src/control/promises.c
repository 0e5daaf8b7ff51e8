#include "promises.h"

#include "bounds.h"
#include "meet-answer.h"
#include "protocol.h"
#include "roster.h"

#include <string.h>

#define STATE "state "
#define PKEY "pkey "
#define ANSWER_MAX 64 /* bytes of what is said of one rail; no answer that means something is as long */

/* What the states of a port other than active mean, by their number. */
static const struct {
    const char *name, *means;
} states[] = {
    { "in no state", "its driver tells of none" },
    { "DOWN", "its link is down, or the adapter of its host holds it down" },
    { "INIT", "the fabric's subnet manager has not set it up" },
    { "ARMED", "the fabric's subnet manager has not activated it" },
};

/* A finding: words for the tenant, and whether the subnet manager may have to do with it. */
typedef struct Finding {
    char *words;
    gboolean manager;
} Finding;

/* What it says of each rail, the first time that it does; NULL: nothing. */
typedef struct Answers {
    char *by_rail[WEFT_RAILS_MAX];
    gboolean none; /* it speaks of no rail, nor of anything like it */
} Answers;

static void
answers_clear(Answers *answers)
{
    for (guint i = 0; i < WEFT_RAILS_MAX; i++)
        g_clear_pointer(&answers->by_rail[i], g_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Answers, answers_clear)

static Answers
read_answers(const char *output)
{
    G_STATIC_ASSERT(WEFT_RAILS_MAX <= 10); /* one digit */
    Answers answers = { .none = TRUE };
    const char *rest = output, *said;
    while ((said = weft_meet_answer_next(&rest, WEFT_MEET_RAIL))) {
        answers.none = FALSE;
        guint rail = (guint)(*said - '0');
        if (*said < '0' || rail >= WEFT_RAILS_MAX || said[1] != ' ' || answers.by_rail[rail])
            continue;
        answers.by_rail[rail] = g_strndup(said + 2, MIN(strcspn(said + 2, "\n"), ANSWER_MAX));
    }
    return answers;
}

static Finding
judge_state(const WeftPromise *promise, const char *number)
{
    guint64 state = g_ascii_strtoull(number, NULL, 10);
    if (state < G_N_ELEMENTS(states))
        return (Finding){ g_strdup_printf("port 0x%016" G_GINT64_MODIFIER "x is %s: %s", promise->guid, states[state].name,
                                          states[state].means),
                          TRUE };
    return (Finding){ g_strdup_printf("port 0x%016" G_GINT64_MODIFIER "x is in state %" G_GUINT64_FORMAT
                                      ", which is not 4 (active)",
                                      promise->guid, state),
                      TRUE };
}

/* Nothing that a tenant's guest says is repeated but numbers. */
static Finding
judge_answer(const WeftPromise *promise, const char *answer)
{
    guint64 guid = promise->guid;
    if (answer && g_str_equal(answer, "active"))
        return (Finding){ 0 };
    if (answer && g_str_equal(answer, "missing"))
        return (Finding){ g_strdup_printf("no device inside it has port GUID 0x%016" G_GINT64_MODIFIER "x", guid), FALSE };
    if (answer && g_str_has_prefix(answer, STATE))
        return judge_state(promise, answer + strlen(STATE));
    if (answer && g_str_has_prefix(answer, PKEY))
        return (Finding){ g_strdup_printf("port 0x%016" G_GINT64_MODIFIER
                                          "x has P_Key 0x%04x at index 0, where 0x%04x of its cluster belongs",
                                          guid, (guint)(g_ascii_strtoull(answer + strlen(PKEY), NULL, 16) & 0xffff),
                                          promise->pkey),
                          TRUE };
    if (answer && g_str_equal(answer, "no-ipoib"))
        return (Finding){ g_strdup_printf("port 0x%016" G_GINT64_MODIFIER
                                          "x is active, but no IPoIB interface of this GUID has "
                                          "the rail's address; the image may be without ib_ipoib",
                                          guid),
                          FALSE };
    return (Finding){ g_strdup_printf("nothing was said of port 0x%016" G_GINT64_MODIFIER "x", guid), FALSE };
}

static void
add_device(GString *detail, const WeftNode *node, guint rail)
{
    for (guint i = 0; i < node->devices->len; i++) {
        const WeftDevice *device = node->devices->pdata[i];
        if (device->rail != rail)
            continue;
        g_string_append_printf(detail, "%s", device->hca);
        if (device->vf >= 0)
            g_string_append_printf(detail, " virtual function %d", device->vf);
    }
}

static char *
tell_older(const WeftPromised *promised, const GArray *promises, char **ret_detail)
{
    guint64 guid = g_array_index(promises, WeftPromise, 0).guid;
    *ret_detail =
        g_strdup_printf("host %s: the node's guest program is older than weftd, and does not examine ports; one that is "
                        "created anew has the newer one",
                        promised->host->name);
    return g_strdup_printf(
        "its guest program is older than weft and does not tell whether its ports work (port 0x%016" G_GINT64_MODIFIER
        "x%s); a node that is created anew has the newer one",
        guid, promises->len > 1 ? " and more" : "");
}

char *
weft_promises_missing(const WeftPromised *promised, const char *output, gboolean well, char **ret_detail)
{
    g_autoptr(GArray) promises = weft_roster_promises(promised->node, promised->host, promised->pkey);
    if (promises->len == 0)
        return NULL;
    g_auto(Answers) answers = read_answers(output);
    if (answers.none && (!well || promised->saved))
        return NULL;
    if (answers.none)
        return tell_older(promised, promises, ret_detail);
    g_autoptr(GString) words = g_string_new(NULL), detail = g_string_new(NULL);
    gboolean manager = FALSE;
    for (guint i = 0; i < promises->len; i++) {
        const WeftPromise *promise = &g_array_index(promises, WeftPromise, i);
        Finding finding = judge_answer(promise, promise->rail < WEFT_RAILS_MAX ? answers.by_rail[promise->rail] : NULL);
        g_autofree char *found = finding.words;
        if (!found)
            continue;
        g_string_append_printf(words, "%srail %u: %s", words->len ? "; " : "", promise->rail, found);
        g_string_append_printf(detail, "%srail %u is ", detail->len ? "; " : "", promise->rail);
        add_device(detail, promised->node, promise->rail);
        g_string_append_printf(detail, ": %s", found);
        manager |= finding.manager;
    }
    if (!words->len)
        return NULL;
    *ret_detail = g_strdup_printf("host %s: %s%s%s", promised->host->name, detail->str, manager ? "; the subnet manager: " : "",
                                  manager ? promised->manager : "");
    return g_strdup_printf("it does not have the ports that it was promised: %s", words->str);
}

static const char *
why_unverified(const WeftPromised *promised, const char *output)
{
    if (promised->host->verify != WEFT_VERIFY_FABRIC)
        return "its host's adapters are declared as stand-ins, and it has reached the others on the Ethernet only";
    return weft_meet_answer_next(&output, WEFT_MEET_RAIL)
               ? NULL
               : "its guest program is older than weft and does not tell whether its ports work; a node that is "
                 "created again has the newer one";
}

char *
weft_promises_unverified(const WeftPromised *promised, const char *output)
{
    const WeftNode *node = promised->node;
    const char *why = promised->host && node->devices->len > 0 ? why_unverified(promised, output) : NULL;
    if (!why)
        return NULL;
    g_autoptr(GString) rails = g_string_new(NULL);
    for (guint i = 0; i < node->devices->len; i++)
        g_string_append_printf(rails, "%s%u", i ? ", " : "", ((const WeftDevice *)node->devices->pdata[i])->rail);
    return g_strdup_printf("rail%s %s: %s", node->devices->len > 1 ? "s" : "", rails->str, why);
}
