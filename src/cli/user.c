/* weft user: the people (principals) of tenants, and operators. */
#include "table.h"
#include "verbs.h"

static char *role, *unix_user;

static const GOptionEntry add_options[] = {
    { "role", 0, 0, G_OPTION_ARG_STRING, &role, "what it may do (member)", "viewer|member|operator|admin" },
    { "unix-user", 0, 0, G_OPTION_ARG_STRING, &unix_user, "who this is on the Unix socket", "NAME" },
    { NULL },
};

/* Who belongs to no tenant does so also where WEFT_TENANT is set; --tenant is a mistake that weftd explains. */
static const char *
tenant_of(const WeftCli *cli)
{
    gboolean has_none = g_strcmp0(role, "operator") == 0 || g_strcmp0(role, "admin") == 0;
    return has_none && g_strcmp0(cli->tenant, g_getenv("WEFT_TENANT")) == 0 ? NULL : cli->tenant;
}

static gboolean
run_add(WeftCli *cli, char **args, GError **error)
{
    json_t *body = json_pack("{s:s, s:s}", "name", args[0], "role", role ? role : "member");
    const char *tenant = tenant_of(cli);
    if (tenant)
        json_object_set_new(body, "tenant", json_string(tenant));
    if (unix_user)
        json_object_set_new(body, "unix_user", json_string(unix_user));
    g_auto(WeftResponse) response = { 0 };
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ "POST", "/v1/principals", body }, &response, error);
    json_decref(body);
    if (!ok)
        weft_cli_blame(error, "user", args[0]);
    else if (cli->json)
        weft_cli_print_json(g_steal_pointer(&response.body));
    else
        printf("user %s is added\n", args[0]);
    return ok;
}

static gboolean
run_ls(WeftCli *cli, char **args, GError **error)
{
    json_t *users = weft_client_list(cli->client, "/v1/principals", error);
    if (!users)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(users);
        return TRUE;
    }
    g_autoptr(WeftTable) table = weft_table_new("NAME|TENANT|ROLE|UNIX USER|ORIGIN");
    size_t i;
    json_t *user;
    json_array_foreach (users, i, user) {
        weft_table_take(table, weft_cli_field(user, "name"));
        weft_table_take(table, weft_cli_field(user, "tenant"));
        weft_table_take(table, weft_cli_field(user, "role"));
        weft_table_take(table, weft_cli_field(user, "unix_user"));
        weft_table_take(table, weft_cli_field(user, "origin"));
    }
    weft_table_print(table, stdout);
    json_decref(users);
    return TRUE;
}

static gboolean
run_rm(WeftCli *cli, char **args, GError **error)
{
    return weft_cli_remove(cli, &(WeftRemoval){ "user", "/v1/principals", "and its tokens are removed" }, args, error);
}

const WeftVerb weft_user_verbs[] = {
    {
        .name = "user add",
        .arguments = "NAME",
        .summary = "add a user",
        .about = "Adds a user. Viewers and members belong to the tenant that --tenant names; operators and admins to none.",
        .examples = "weft user add alice --tenant acme --unix-user alice\n"
                    "weft user add oscar --role operator",
        .min_args = 1,
        .max_args = 1,
        .options = add_options,
        .run = run_add,
    },
    {
        .name = "user ls",
        .arguments = "",
        .summary = "list users",
        .examples = "weft user ls\n"
                    "weft user ls --json",
        .run = run_ls,
    },
    {
        .name = "user rm",
        .arguments = "NAME",
        .summary = "remove a user and its tokens",
        .examples = "weft user rm alice\n"
                    "weft user rm oscar",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_PRINCIPALS,
        .run = run_rm,
    },
    { 0 },
};
