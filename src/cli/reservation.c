/* weft reservation: hosts that are kept for somebody, or for nobody, for a while. */
#include "clock.h"
#include "table.h"
#include "verbs.h"

static char *hosts, *start, *duration;

static const GOptionEntry add_options[] = {
    { "hosts", 0, 0, G_OPTION_ARG_STRING, &hosts, "which: n[1-4],n9", "HOSTLIST" },
    { "start", 0, 0, G_OPTION_ARG_STRING, &start, "from when on: a time, a day, or in how long: 2h (now)", "TIME" },
    { "for", 0, 0, G_OPTION_ARG_STRING, &duration, "how long: 90m, 8h, 2d", "DURATION" },
    { NULL },
};

/* As the API takes it; NULL and no error: now. */
static char *
start_time(GError **error)
{
    gint64 time = 0;
    if (!start)
        return NULL;
    g_autofree char *midnight = g_strconcat(start, "T00:00:00.000Z", NULL);
    if (weft_clock_parse(start, &time, NULL) || weft_clock_parse(midnight, &time, NULL))
        return weft_clock_format(time);
    if (weft_duration_parse(start, &time, NULL))
        return weft_clock_format(weft_clock_now() + time);
    weft_cli_set_usage(error, "--start %s: write a time (2026-01-31T12:00:00Z), a day (2026-01-31), or in how long (2h, 7d)",
                       start);
    return NULL;
}

static json_t *
make_body(const WeftCli *cli, const char *name, GError **error)
{
    GError *failure = NULL;
    gint64 length;
    if (!hosts || !duration) {
        weft_cli_set_usage(error, "reservation add: say which hosts and for how long: --hosts 'n[1-4]' --for 8h");
        return NULL;
    }
    if (!weft_duration_parse(duration, &length, error)) {
        g_prefix_error(error, "--for: ");
        return NULL;
    }
    g_autofree char *begin = start_time(&failure);
    if (failure) {
        g_propagate_error(error, failure);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:s*, s:s, s:s*}", "name", name, "hosts", hosts, "start", begin, "duration", duration,
                     "tenant", cli->tenant);
}

static gboolean
run_add(WeftCli *cli, char **args, GError **error)
{
    json_t *body = make_body(cli, args[0], error);
    if (!body)
        return FALSE;
    g_auto(WeftResponse) response = { 0 };
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ "POST", "/v1/reservations", body }, &response, error);
    json_decref(body);
    if (!ok) {
        weft_cli_blame(error, "reservation", args[0]);
        return FALSE;
    }
    if (cli->json) {
        weft_cli_print_json(g_steal_pointer(&response.body));
        return TRUE;
    }
    g_autofree char *kept = weft_cli_field(response.body, "hosts");
    g_autofree char *from = weft_cli_field(response.body, "start");
    g_autofree char *end = weft_cli_field(response.body, "end");
    printf("reservation %s: %s for %s from %s to %s\n", args[0], kept, cli->tenant ? cli->tenant : "nobody", from, end);
    return TRUE;
}

static gboolean
run_ls(WeftCli *cli, char **args, GError **error)
{
    json_t *reservations = weft_client_list(cli->client, "/v1/reservations", error);
    if (!reservations)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(reservations);
        return TRUE;
    }
    g_autoptr(WeftTable) table = weft_table_new("NAME|TENANT|START|END|!STATE|HOSTS");
    size_t i;
    json_t *reservation;
    json_array_foreach (reservations, i, reservation) {
        gboolean active = json_is_true(json_object_get(reservation, "active"));
        weft_table_take(table, weft_cli_field(reservation, "name"));
        weft_table_take(table, weft_cli_field(reservation, "tenant"));
        weft_table_take(table, weft_cli_field(reservation, "start"));
        weft_table_take(table, weft_cli_field(reservation, "end"));
        weft_table_take(table, g_strdup(active ? "active" : "planned"));
        weft_table_take(table, weft_cli_field(reservation, "hosts"));
    }
    weft_table_print(table, stdout);
    json_decref(reservations);
    return TRUE;
}

static gboolean
run_rm(WeftCli *cli, char **args, GError **error)
{
    return weft_cli_remove(cli, &(WeftRemoval){ "reservation", "/v1/reservations", "is removed" }, args, error);
}

const WeftVerb weft_reservation_verbs[] = {
    {
        .name = "reservation add",
        .arguments = "NAME",
        .summary = "keep hosts for a tenant, or for nobody, for a while",
        .about = "Keeps hosts free from a time on, for the tenant that --tenant names or for nobody, so that they can be "
                 "worked on. Clusters whose walltime ends before may still use them until then.",
        .examples = "weft reservation add firmware --hosts 'n[1-4]' --start 2026-01-31T20:00:00Z --for 4h\n"
                    "weft reservation add course --hosts 'n[5-8]' --for 2d --tenant school",
        .min_args = 1,
        .max_args = 1,
        .options = add_options,
        .run = run_add,
    },
    {
        .name = "reservation ls",
        .arguments = "",
        .summary = "list reservations that are not over",
        .examples = "weft reservation ls\n"
                    "weft reservation ls --json",
        .run = run_ls,
    },
    {
        .name = "reservation rm",
        .arguments = "NAME…",
        .summary = "end reservations, or call them off",
        .examples = "weft reservation rm firmware\n"
                    "weft reservation rm firmware course",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_RESERVATIONS,
        .run = run_rm,
    },
    { 0 },
};
