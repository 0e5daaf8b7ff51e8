#include "hosts.h"

#define QUESTIONS_MAX 64 /* under way; whose turn it is not yet is asked after its host's next look */

typedef struct Question {
    WeftControl *control;
    char *host;
} Question;

static void
question_free(gpointer data)
{
    Question *question = data;
    g_free(question->host);
    g_free(question);
}

/* A guest that is another than it was is told by the links. One that does not answer may still be booting. */
static void
answered(int fd, const char *output, const GError *error, gpointer data)
{
    const Question *question = data;
    WeftHosts *hosts = question->control->hosts;
    hosts->questions--;
    if (error)
        weft_hosts_doubt_guests(hosts, question->host);
}

static void
ask(const WeftWatch *host, const WeftNode *node)
{
    WeftControl *control = host->control;
    g_autofree char *domain = weft_node_domain(node);
    const char *uri = weft_fleet_host(control->fleet, host->name)->uri;
    Question question = { control, g_strdup(host->name) };
    control->hosts->questions++;
    weft_links_want(control->links, &(WeftLinkAddress){ node->id, domain, host->name, uri, node->boot },
                    &(WeftLinkAsk){ .deadline = control->options.list_deadline,
                                    .done = answered,
                                    .data = g_memdup2(&question, sizeof question),
                                    .free = question_free });
}

void
weft_watch_ask_guests(WeftWatch *host, const GPtrArray *nodes)
{
    if (!host->doubts_guests || host->control->hosts->questions >= QUESTIONS_MAX)
        return;
    host->doubts_guests = FALSE;
    for (guint i = 0; i < nodes->len; i++) {
        const WeftNode *node = nodes->pdata[i];
        if (node->phase == WEFT_NODE_READY && !node->target)
            ask(host, node);
    }
}

void
weft_hosts_doubt_guests(WeftHosts *hosts, const char *name)
{
    WeftWatch *host = weft_hosts_find(hosts, name);
    if (host)
        host->doubts_guests = TRUE;
}
