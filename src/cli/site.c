/* weft site: what is on hosts that this store cannot prove to have ended, and what becomes of it. */
#include "bounds.h"
#include "table.h"
#include "verbs.h"

#include <string.h>
#include <unistd.h>

static gboolean dry_run, yes;

static const GOptionEntry adopt_options[] = {
    { "dry-run", 0, 0, G_OPTION_ARG_NONE, &dry_run, "only show whether it could be adopted", NULL },
    { NULL },
};

static const GOptionEntry remove_options[] = {
    { "dry-run", 0, 0, G_OPTION_ARG_NONE, &dry_run, "only show what would be removed", NULL },
    { "yes", 'y', 0, G_OPTION_ARG_NONE, &yes, "do not ask", NULL },
    { NULL },
};

/* --- the list --- */

/* Why it is held, or that it is to be removed. */
static char *
name_verdict(json_t *item)
{
    const char *there = json_string_value(json_object_get(item, "recorded_on"));
    return there ? g_strdup_printf("recorded on %s", there) : weft_cli_field(item, "verdict");
}

static void
print_items(json_t *items)
{
    g_autoptr(WeftTable) table = weft_table_new("HOST|KIND|ID|TENANT|NODE|SITE|SINCE|RUNS|VERDICT");
    size_t i;
    json_t *item;
    json_array_foreach (items, i, item) {
        weft_table_take(table, weft_cli_field(item, "host"));
        weft_table_take(table, weft_cli_field(item, "kind"));
        weft_table_take(table, weft_cli_field(item, "id"));
        weft_table_take(table, weft_cli_field(item, "tenant"));
        weft_table_take(table, weft_cli_field(item, "node"));
        weft_table_take(table, weft_cli_field(item, "site"));
        weft_table_take(table, weft_cli_age_field(item, "since"));
        weft_table_take(table, g_strdup(json_is_true(json_object_get(item, "running")) ? "yes" : "no"));
        weft_table_take(table, name_verdict(item));
    }
    weft_table_print(table, stdout);
}

static gboolean
run_ls(WeftCli *cli, char **args, GError **error)
{
    json_auto_t *site = weft_client_get(cli->client, "/v1/site?limit=1", error);
    json_t *all = site ? weft_client_list(cli->client, "/v1/site", error) : NULL;
    if (!all)
        return FALSE;
    json_object_set_new(site, "items", all);
    json_object_del(site, "next");
    if (cli->json) {
        weft_cli_print_json(json_incref(site));
        return TRUE;
    }
    g_autofree char *id = weft_cli_field(site, "id");
    json_t *items = json_object_get(site, "items");
    printf("site %s: %s\n", id, json_array_size(items) ? "these are held" : "nothing is held");
    if (json_array_size(items))
        print_items(items);
    return TRUE;
}

/* --- what is meant --- */

/* What was confirmed already is meant only by its own name. */
static gboolean
is_meant(json_t *item, char **names)
{
    const char *fields[] = { "id", "name", "host" };
    gboolean confirmed = g_strcmp0(json_string_value(json_object_get(item, "verdict")), "confirmed") == 0;
    for (; *names; names++)
        for (gsize i = 0; i < G_N_ELEMENTS(fields) - confirmed; i++)
            if (g_strcmp0(json_string_value(json_object_get(item, fields[i])), *names) == 0)
                return TRUE;
    return FALSE;
}

/* Those of the names, by their hosts or their ids; nodes: no others. NULL: there are none. */
static json_t *
find_meant(WeftCli *cli, char **names, gboolean nodes, GError **error)
{
    json_auto_t *held = weft_client_list(cli->client, "/v1/site", error);
    json_t *meant = json_array(), *item;
    size_t i;
    json_array_foreach (held, i, item)
        if (is_meant(item, names) && (!nodes || g_strcmp0(json_string_value(json_object_get(item, "kind")), "node") == 0))
            json_array_append(meant, item);
    if (json_array_size(meant))
        return meant;
    json_decref(meant);
    if (held)
        weft_cli_set_usage(error, "site: nothing%s is held as %s; see: weft site ls", nodes ? " that could be adopted" : "",
                           names[0]);
    return NULL;
}

/* One order for each host: of all that is meant there, up to as many as one may name. */
static gboolean
give_orders(WeftCli *cli, json_t *items, const char *route, GError **error)
{
    while (json_array_size(items)) {
        json_t *host = json_object_get(json_array_get(items, 0), "host");
        json_auto_t *body = json_pack("{s:O, s:[], s:b}", "host", host, "keys", "dry_run", (int)dry_run);
        for (size_t i = json_array_size(items); i-- > 0;) {
            json_t *item = json_array_get(items, i);
            if (item && json_equal(json_object_get(item, "host"), json_object_get(body, "host")) &&
                json_array_size(json_object_get(body, "keys")) < WEFT_SITE_KEYS_MAX) {
                json_array_append(json_object_get(body, "keys"), json_object_get(item, "key"));
                json_array_remove(items, i);
            }
        }
        g_auto(WeftResponse) response = { 0 };
        if (!weft_client_call(cli->client, &(WeftCall){ "POST", route, body }, &response, error)) {
            weft_cli_blame(error, "host", json_string_value(json_object_get(body, "host")));
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean
run_adopt(WeftCli *cli, char **args, GError **error)
{
    json_auto_t *items = find_meant(cli, args, TRUE, error);
    if (!items)
        return FALSE;
    g_autofree char *count = weft_cli_count((gint64)json_array_size(items), "node");
    print_items(items);
    if (!give_orders(cli, items, "/v1/site/adopt", error))
        return FALSE;
    printf("%s %s\n", count, dry_run ? "could be adopted" : "adopted");
    return TRUE;
}

/* --- removing --- */

static gboolean
is_confirmed(const char *count, GError **error)
{
    char answer[16] = "";
    if (yes)
        return TRUE;
    if (!isatty(STDIN_FILENO)) {
        weft_cli_set_usage(error, "site remove: say --yes to destroy all of this, or --dry-run to only list it");
        return FALSE;
    }
    printf("Destroy %s for good, with all that is in them? Type yes: ", count);
    fflush(stdout);
    if (fgets(answer, sizeof answer, stdin) && strcmp(g_strchomp(answer), "yes") == 0)
        return TRUE;
    weft_cli_set_usage(error, "site remove: nothing was removed");
    return FALSE;
}

static gboolean
run_remove(WeftCli *cli, char **args, GError **error)
{
    json_auto_t *items = find_meant(cli, args, FALSE, error);
    if (!items)
        return FALSE;
    g_autofree char *count = weft_cli_count((gint64)json_array_size(items), "thing");
    print_items(items);
    if (!dry_run && !is_confirmed(count, error))
        return FALSE;
    if (!give_orders(cli, items, "/v1/site/remove", error))
        return FALSE;
    printf("%s %s\n", count,
           dry_run ? "would be removed" : "to be removed, from each host as soon as nothing else is held there");
    return TRUE;
}

const WeftVerb weft_site_verbs[] = {
    {
        .name = "site ls",
        .arguments = "",
        .summary = "show the site's id, and what is held on hosts",
        .about =
            "weftd removes from hosts only what its store has a record of having ended. Anything else that carries weft's mark "
            "is of another site, or of a time that this store does not know, as after an older backup: it is held. On a "
            "host where something is held nothing is started and nothing removed.",
        .examples = "weft site ls\n"
                    "weft site ls --json",
        .run = run_ls,
    },
    {
        .name = "site adopt",
        .arguments = "HOST|ID…",
        .summary = "take nodes that are held into the store, as their marks say",
        .about =
            "Their records are written with all that they hold, and those of clusters that the store does not have, in one "
            "transaction for each host; or none of them, and why. Nodes that are recorded on the host and are not there "
            "make room for them. A node whose removal was confirmed is adopted by its id: that takes the confirmation back.",
        .examples = "weft site adopt n1 --dry-run\n"
                    "weft site adopt 4k2m8w9x1a2b-3",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_HOSTS,
        .options = adopt_options,
        .run = run_adopt,
    },
    {
        .name = "site remove",
        .arguments = "HOST|ID…",
        .summary = "destroy what is held, after a confirmation",
        .about = "Lists exactly what will be destroyed, and asks. What was confirmed is removed from a host as soon as nothing "
                 "else is held there. What is recorded on another host is never removed: the two are one machine then, or "
                 "share their pool.",
        .examples = "weft site remove n1 --dry-run\n"
                    "weft site remove n1 n2 --yes",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_HOSTS,
        .options = remove_options,
        .run = run_remove,
    },
    { 0 },
};
