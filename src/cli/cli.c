#include "cli.h"

#include "clock.h"
#include "errors.h"
#include "file.h"
#include "hostlist.h"
#include "size.h"
#include "yaml.h"

#include <gio/gio.h>
#include <unistd.h>

#define FILE_MAX (1 << 20) /* what the API takes in one body */

/* Remedies that hold wherever such an error comes from; the rest is in the messages. */
static const char *const hints[WEFT_ERROR_COUNT] = {
    [WEFT_ERROR_UNAUTHENTICATED] =
        "give a token with --token-file or WEFT_TOKEN; on the Unix socket, an admin adds you with 'weft user add --unix-user'",
    [WEFT_ERROR_DENIED] = "'weft whoami' tells who you are and what your role is",
    [WEFT_ERROR_EXHAUSTED] = "'weft tenant show' tells the quota and what is used of it",
    [WEFT_ERROR_BUSY] = "try again in a moment",
};

void
weft_cli_set_usage(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *message = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error_literal(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, message);
}

/* What people call users, the API calls principals. */
static void
speak_of_users(GError **error)
{
    static const char word[] = "principal ";
    if (!g_str_has_prefix((*error)->message, word))
        return;
    char *message = g_strconcat("user ", (*error)->message + strlen(word), NULL);
    g_free((*error)->message);
    (*error)->message = message;
}

void
weft_cli_blame(GError **error, const char *kind, const char *name)
{
    g_autofree char *object = g_strdup_printf("%s %s", kind, name);
    g_autofree char *quoted = g_strdup_printf("\"%s\"", name);
    if (strcmp(kind, "user") == 0)
        speak_of_users(error);
    gboolean elsewhere = g_error_matches(*error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE) ||
                         g_error_matches(*error, WEFT_ERROR, WEFT_ERROR_UNAUTHENTICATED) ||
                         g_error_matches(*error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
    gboolean named = g_str_has_prefix((*error)->message, object) || strstr((*error)->message, quoted);
    if (!elsewhere && !named)
        g_prefix_error(error, "%s: ", object);
}

/* Where to look for what there is, by the kind that a message begins with. */
static const char *const lists[][2] = {
    { "cluster ", "'weft ls' lists the clusters that you may see" },
    { "host ", "'weft hosts' lists the hosts" },
    { "image ", "'weft image ls' lists the images" },
    { "tenant ", "'weft tenant ls' lists the tenants" },
    { "token ", "'weft token ls' lists the tokens" },
    { "user ", "'weft user ls' lists the users" },
};

static const char *
hint_where(const char *message)
{
    for (gsize i = 0; i < G_N_ELEMENTS(lists); i++)
        if (g_str_has_prefix(message, lists[i][0]) && g_str_has_suffix(message, ": not found"))
            return lists[i][1];
    return NULL;
}

static char *
hint_for(const GError *error)
{
    if (error->domain == G_OPTION_ERROR)
        return g_strdup_printf("'%s --help' tells how to use it", g_get_prgname());
    if (error->domain != WEFT_ERROR)
        return NULL;
    if (strstr(error->message, "?tenant="))
        return g_strdup("here that is --tenant NAME, or WEFT_TENANT");
    if (weft_error_code(error) == WEFT_ERROR_NOT_FOUND)
        return g_strdup(hint_where(error->message));
    return g_strdup(hints[weft_error_code(error)]);
}

void
weft_cli_report(const GError *error)
{
    g_autofree char *message = weft_cli_clean(error->message);
    g_autofree char *hint = hint_for(error);
    fflush(stdout);
    fprintf(stderr, "weft: %s\n", message);
    if (hint)
        fprintf(stderr, "hint: %s\n", hint);
}

void
weft_cli_keep_first(GError **first, GError *error)
{
    if (!*first) {
        *first = error;
        return;
    }
    weft_cli_report(error);
    g_error_free(error);
}

gboolean
weft_cli_remove(WeftCli *cli, const WeftRemoval *removal, char **names, GError **error)
{
    GError *first = NULL;
    for (guint i = 0; names[i]; i++) {
        GError *local = NULL;
        g_autofree char *path =
            weft_client_query(weft_client_path(removal->list, names[i]), "tenant", removal->of_tenant ? cli->tenant : NULL);
        if (!weft_client_call(cli->client, &(WeftCall){ "DELETE", path }, NULL, &local)) {
            weft_cli_blame(&local, removal->kind, names[i]);
            weft_cli_keep_first(&first, local);
        } else if (!cli->json)
            printf("%s %s %s\n", removal->kind, names[i], removal->said);
    }
    if (first)
        g_propagate_error(error, first);
    return first == NULL;
}

char *
weft_cli_cluster_path(const WeftCli *cli, const char *name, const char *suffix)
{
    g_autofree char *cluster = weft_client_path("/v1/clusters", name);
    return weft_client_query(g_strconcat(cluster, suffix, NULL), "tenant", cli->tenant);
}

GPtrArray *
weft_cli_expand(char **args, GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; args[i]; i++) {
        g_auto(GStrv) list = weft_hostlist_expand(args[i], error);
        if (!list)
            return NULL;
        for (guint j = 0; list[j]; j++)
            g_ptr_array_add(names, g_strdup(list[j]));
    }
    return g_steal_pointer(&names);
}

char *
weft_cli_count(gint64 count, const char *thing)
{
    return g_strdup_printf("%" G_GINT64_FORMAT " %s%s", count, thing, count == 1 ? "" : "s");
}

const char *
weft_cli_file_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

gboolean
weft_cli_refuse_file(const char *path, const char *reason, GError **error)
{
    return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: %s", weft_cli_file_name(path), reason);
}

char *
weft_cli_read_text(const char *path, gsize max, gsize *ret_length, GError **error)
{
    char *text = weft_file_read(path, max, ret_length, error);
    if (!text && error)
        (*error)->code = WEFT_ERROR_INVALID;
    return text;
}

json_t *
weft_cli_read_file(const char *path, GError **error)
{
    gsize length = 0;
    g_autofree char *text = weft_cli_read_text(path, FILE_MAX, &length, error);
    return text ? weft_yaml_parse(text, length, weft_cli_file_name(path), error) : NULL;
}

gboolean
weft_cli_split_pair(const char *option, const char *text, char **ret_key, char **ret_value, GError **error)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        weft_cli_set_usage(error, "%s %s: write KEY=VALUE", option, text);
        return FALSE;
    }
    *ret_key = g_strndup(text, (gsize)(equals - text));
    *ret_value = g_strdup(equals + 1);
    return TRUE;
}

char *
weft_cli_time(const char *option, const char *text, GError **error)
{
    gint64 time = 0;
    g_autofree char *midnight = g_strconcat(text, "T00:00:00.000Z", NULL);
    if (weft_clock_parse(text, &time, NULL) || weft_clock_parse(midnight, &time, NULL))
        return weft_clock_format(time);
    if (weft_duration_parse(text, &time, NULL))
        return weft_clock_format(weft_clock_now() - time);
    weft_cli_set_usage(error, "%s %s: write a time (2026-01-31T12:00:00Z), a day (2026-01-31), or how long ago (2h, 7d)",
                       option, text);
    return NULL;
}

void
weft_cli_print_json(json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    fputc('\n', stdout);
    json_decref(json);
}

char *
weft_cli_clean(const char *text)
{
    if (!text)
        return g_strdup("-");
    GString *clean = g_string_new(NULL);
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    for (const char *p = valid; *p; p = g_utf8_next_char(p)) {
        gunichar c = g_utf8_get_char(p);
        g_string_append_unichar(clean, g_unichar_isprint(c) ? c : '?');
    }
    return g_string_free(clean, FALSE);
}

char *
weft_cli_field(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    if (json_is_integer(value))
        return g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    if (json_is_real(value))
        return g_strdup_printf("%.3f", json_real_value(value));
    if (json_is_boolean(value))
        return g_strdup(json_is_true(value) ? "yes" : "no");
    return weft_cli_clean(json_string_value(value));
}

char *
weft_cli_size_field(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? weft_size_format((guint64)json_integer_value(value)) : weft_cli_field(object, name);
}

char *
weft_cli_age_field(json_t *object, const char *name)
{
    gint64 time = 0;
    const char *text = json_string_value(json_object_get(object, name));
    if (!text || !weft_clock_parse(text, &time, NULL))
        return g_strdup("-");
    gint64 seconds = MAX(0, (weft_clock_now() - time) / G_TIME_SPAN_SECOND);
    if (seconds < 120)
        return g_strdup_printf("%" G_GINT64_FORMAT "s", seconds);
    if (seconds < 120 * 60)
        return g_strdup_printf("%" G_GINT64_FORMAT "m", seconds / 60);
    if (seconds < 48 * 3600)
        return g_strdup_printf("%" G_GINT64_FORMAT "h", seconds / 3600);
    return g_strdup_printf("%" G_GINT64_FORMAT "d", seconds / 86400);
}

char *
weft_cli_until_field(json_t *object, const char *name)
{
    gint64 when = 0;
    const char *text = json_string_value(json_object_get(object, name));
    if (!text || !weft_clock_parse(text, &when, NULL))
        return g_strdup("-");
    gint64 left = when - weft_clock_now();
    if (left < G_USEC_PER_SEC)
        return g_strdup("now");
    g_autofree char *duration = weft_duration_format(left - left % G_USEC_PER_SEC);
    return g_strconcat("in ", duration, NULL);
}

gint64
weft_cli_number(json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

gboolean
weft_cli_confirm(const char *question, GError **error)
{
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        weft_cli_set_usage(error, "nobody can be asked whether to %s; give --yes", question);
        return FALSE;
    }
    fprintf(stderr, "%s? [y/N] ", question);
    if (fgets(answer, sizeof answer, stdin) && g_ascii_tolower(answer[0]) == 'y')
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_FAILED, "nothing was changed");
}
