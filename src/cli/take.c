/* weft site take: has hosts taken from another weftd. */
#include "verbs.h"

static gboolean dry_run, yes;

static const GOptionEntry options[] = {
    { "dry-run", 0, 0, G_OPTION_ARG_NONE, &dry_run, "only show whose they are", NULL },
    { "yes", 'y', 0, G_OPTION_ARG_NONE, &yes, "do not ask", NULL },
    { NULL },
};

static gboolean
show_host(WeftCli *cli, const char *name, GError **error)
{
    g_autofree char *path = weft_client_path("/v1/hosts", name);
    json_auto_t *host = weft_client_get(cli->client, path, error);
    if (!host) {
        weft_cli_blame(error, "host", name);
        return FALSE;
    }
    g_autofree char *state = weft_cli_field(host, "state");
    const char *reason = json_string_value(json_object_get(host, "reason"));
    printf("host %s is %s%s%s\n", name, state, reason ? ": " : "", reason ? reason : "");
    return TRUE;
}

static gboolean
take_host(WeftCli *cli, const char *name, GError **error)
{
    g_autofree char *host = weft_client_path("/v1/hosts", name), *path = g_strconcat(host, "/take", NULL);
    if (!weft_client_call(cli->client, &(WeftCall){ .method = "POST", .path = path }, NULL, error)) {
        weft_cli_blame(error, "host", name);
        return FALSE;
    }
    printf("host %s is taken with the next look at it\n", name);
    return TRUE;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    g_autoptr(GPtrArray) names = weft_cli_expand(args, error);
    gboolean ok = names != NULL;
    for (guint i = 0; ok && i < names->len; i++)
        ok = show_host(cli, names->pdata[i], error);
    if (!ok || dry_run)
        return ok;
    g_autofree char *count = weft_cli_count(names->len, "host");
    g_autofree char *question = g_strdup_printf("take %s, so that no other weftd starts or removes anything there", count);
    ok = yes || weft_cli_confirm(question, error);
    for (guint i = 0; ok && i < names->len; i++)
        ok = take_host(cli, names->pdata[i], error);
    return ok;
}

const WeftVerb weft_take_verbs[] = {
    {
        .name = "site take",
        .arguments = "HOST…",
        .summary = "take hosts from another weftd, after a confirmation",
        .about = "Each host has a record of the weftd that may start and remove things there. For any other weftd, or one with "
                 "an older store, the host is held until this is typed; from then on it is held for the first one.",
        .examples = "weft site take n4 --dry-run\n"
                    "weft site take n[1-8] --yes",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_HOSTS,
        .options = options,
        .run = run,
    },
    { 0 },
};
