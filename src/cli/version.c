/* weft version and weft whoami. */
#include "verbs.h"

static gboolean
run_version(WeftCli *cli, char **args, GError **error)
{
    if (!cli->json)
        puts("weft " WEFT_VERSION);
    json_t *version = weft_client_get(cli->client, "/v1/version", error);
    if (!version)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(version);
        return TRUE;
    }
    g_autofree char *number = weft_cli_field(version, "version");
    g_autofree char *api = weft_cli_field(version, "api");
    printf("weftd %s, API %s, at %s\n", number, api, weft_client_url(cli->client));
    size_t i;
    json_t *fake;
    json_array_foreach (json_object_get(version, "fakes"), i, fake) {
        g_autofree char *name = weft_cli_clean(json_string_value(fake));
        printf("%s%s", i ? ", " : "this weftd is for tests, not real are: ", name);
    }
    if (i > 0)
        putchar('\n');
    json_decref(version);
    return TRUE;
}

static gboolean
run_whoami(WeftCli *cli, char **args, GError **error)
{
    json_t *self = weft_client_get(cli->client, "/v1/whoami", error);
    if (!self)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(self);
        return TRUE;
    }
    g_autofree char *name = weft_cli_field(self, "name");
    g_autofree char *tenant = weft_cli_field(self, "tenant");
    g_autofree char *role = weft_cli_field(self, "role");
    gboolean has_tenant = json_is_string(json_object_get(self, "tenant"));
    printf("%s: %s%s%s\n", name, role, has_tenant ? " of tenant " : "", has_tenant ? tenant : "");
    json_decref(self);
    return TRUE;
}

const WeftVerb weft_version_verbs[] = {
    {
        .name = "whoami",
        .arguments = "",
        .summary = "show who you are to weftd, and your role",
        .examples = "weft whoami\n"
                    "weft whoami --url https://weft.example.org:7600 --token-file ~/.weft-token",
        .run = run_whoami,
    },
    {
        .name = "version",
        .arguments = "",
        .summary = "print the versions of weft and of weftd",
        .examples = "weft version\n"
                    "weft version --json",
        .run = run_version,
    },
    { 0 },
};
