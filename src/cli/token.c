/* weft token: what a program or a person on another machine shows to be let in. */
#include "clock.h"
#include "table.h"
#include "verbs.h"

#define NEVER "never"

static char *principal, *note, *expires;

static const GOptionEntry create_options[] = {
    { "user", 0, 0, G_OPTION_ARG_STRING, &principal, "whose token, for admins (your own; root has none)", "NAME" },
    { "note", 0, 0, G_OPTION_ARG_STRING, &note, "what it is for", "TEXT" },
    { "expires", 0, 0, G_OPTION_ARG_STRING, &expires, "after which time it ends: 12h, 30d (the site's); never, for operators",
      "TIME" },
    { NULL },
};

static void
put(json_t *body, const char *name, const char *value)
{
    if (value)
        json_object_set_new(body, name, json_string(value));
}

/* root has no tokens of its own, and the API knows no options. */
static void
explain(GError **error)
{
    if (principal) {
        weft_cli_blame(error, "user", principal);
    } else if (g_str_has_prefix((*error)->message, "principal: ")) {
        g_clear_error(error);
        weft_cli_set_usage(error, "token create: whose token? You have none of your own here (--user NAME)");
    }
}

static char *
end_of(json_t *token)
{
    return json_is_string(json_object_get(token, "expires")) ? weft_cli_field(token, "expires") : g_strdup(NEVER);
}

/* The token alone on the standard output, so that it can go into a file. */
static gboolean
run_create(WeftCli *cli, char **args, GError **error)
{
    gint64 life = 0;
    if (expires && !g_str_equal(expires, NEVER) && !weft_duration_parse(expires, &life, error)) {
        g_prefix_error(error, "--expires: ");
        return FALSE;
    }
    json_t *body = json_object();
    put(body, "principal", principal);
    put(body, "note", note);
    put(body, "expires_in", expires);
    g_auto(WeftResponse) response = { 0 };
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ "POST", "/v1/tokens", body }, &response, error);
    json_decref(body);
    if (!ok) {
        explain(error);
        return FALSE;
    }
    if (cli->json) {
        weft_cli_print_json(g_steal_pointer(&response.body));
        return TRUE;
    }
    g_autofree char *id = weft_cli_field(response.body, "id");
    g_autofree char *token = weft_cli_field(response.body, "token");
    g_autofree char *end = end_of(response.body);
    printf("%s\n", token);
    fprintf(stderr, "token %s: keep it safe, it is shown only now; expires: %s\n", id, end);
    return TRUE;
}

static gboolean
run_ls(WeftCli *cli, char **args, GError **error)
{
    json_t *tokens = weft_client_list(cli->client, "/v1/tokens", error);
    if (!tokens)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(tokens);
        return TRUE;
    }
    g_autoptr(WeftTable) table = weft_table_new("ID|USER|TENANT|CREATED|EXPIRES|NOTE");
    size_t i;
    json_t *token;
    json_array_foreach (tokens, i, token) {
        weft_table_take(table, weft_cli_field(token, "id"));
        weft_table_take(table, weft_cli_field(token, "principal"));
        weft_table_take(table, weft_cli_field(token, "tenant"));
        weft_table_take(table, weft_cli_field(token, "created"));
        weft_table_take(table, end_of(token));
        weft_table_take(table, weft_cli_field(token, "note"));
    }
    weft_table_print(table, stdout);
    json_decref(tokens);
    return TRUE;
}

static gboolean
run_revoke(WeftCli *cli, char **args, GError **error)
{
    return weft_cli_remove(cli, &(WeftRemoval){ "token", "/v1/tokens", "is revoked" }, args, error);
}

const WeftVerb weft_token_verbs[] = {
    {
        .name = "token create",
        .arguments = "",
        .summary = "make a token; it is shown only once",
        .about = "Makes a token and prints it, the only time that it is shown.",
        .examples = "weft token create --note laptop --expires 30d\n"
                    "weft token create --user alice",
        .options = create_options,
        .run = run_create,
    },
    {
        .name = "token ls",
        .arguments = "",
        .summary = "list your tokens; for an admin all",
        .examples = "weft token ls\n"
                    "weft token ls --json",
        .run = run_ls,
    },
    {
        .name = "token revoke",
        .arguments = "ID…",
        .summary = "revoke tokens",
        .examples = "weft token revoke 4k2m9x7b1c3d\n"
                    "weft token revoke 4k2m9x7b1c3d 7b1c3d4k2m9x",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .run = run_revoke,
    },
    { 0 },
};
