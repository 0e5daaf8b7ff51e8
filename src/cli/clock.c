/* weft clock: whether the clock of weftd's machine is trusted, and that it may be. */
#include "verbs.h"

static void
print_field(json_t *clock, const char *name, const char *label)
{
    g_autofree char *value = weft_cli_field(clock, name);
    printf("%-10s %s\n", label, value);
}

static void
print_clock(json_t *clock)
{
    json_t *hosts = json_object_get(clock, "hosts");
    print_field(clock, "state", "state");
    print_field(clock, "time", "weft");
    print_field(clock, "wall", "machine");
    if (g_strcmp0(json_string_value(json_object_get(clock, "state")), "trusted") != 0)
        printf("hosts      %" JSON_INTEGER_FORMAT " agree with the machine, %" JSON_INTEGER_FORMAT
               " with weft, %" JSON_INTEGER_FORMAT " with neither\n",
               json_integer_value(json_object_get(hosts, "wall")), json_integer_value(json_object_get(hosts, "time")),
               json_integer_value(json_object_get(hosts, "neither")));
}

/* Takes it over. */
static gboolean
show(const WeftCli *cli, json_t *clock)
{
    if (cli->json) {
        weft_cli_print_json(clock);
        return TRUE;
    }
    print_clock(clock);
    json_decref(clock);
    return TRUE;
}

static gboolean
run_show(WeftCli *cli, char **args, GError **error)
{
    json_t *clock = weft_client_get(cli->client, "/v1/clock", error);
    return clock && show(cli, clock);
}

/* What it says now is what is accepted: one that is set in between is not. */
static gboolean
run_accept(WeftCli *cli, char **args, GError **error)
{
    json_t *clock = weft_client_get(cli->client, "/v1/clock", error);
    if (!clock)
        return FALSE;
    g_auto(WeftResponse) response = { 0 };
    json_t *body = json_pack("{s:O}", "wall", json_object_get(clock, "wall"));
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ "POST", "/v1/clock/accept", body }, &response, error);
    json_decref(body);
    json_decref(clock);
    return ok && show(cli, g_steal_pointer(&response.body));
}

const WeftVerb weft_clock_verbs[] = {
    {
        .name = "clock show",
        .arguments = "",
        .summary = "show whether the clock of weftd's machine is trusted",
        .about =
            "A clock that was set by more than clock_bound (weft.yaml(5)) while weftd ran has jumped: weft goes on by the time "
            "since the machine booted. Where the machine booted and its clock is that far from the last time that the store "
            "knows, the clock is held: no walltime ends and nothing is dropped by its age. Either ends when the clock comes "
            "back, or with weft clock accept; a clock that is held also when a majority of hosts agrees with it.",
        .examples = "weft clock show\n"
                    "weft clock show --json",
        .run = run_show,
    },
    {
        .name = "clock accept",
        .arguments = "",
        .summary = "trust the clock of weftd's machine as it is",
        .about =
            "What is due by that time ends at once. Clusters that were placed while the clock was doubted keep what is left of "
            "their walltimes, and so do tokens and reservations that have begun.",
        .examples = "weft clock accept\n"
                    "weft clock accept --json",
        .run = run_accept,
    },
    { 0 },
};
