/* weft audit: who did what, and whether nobody has changed what is written of it. */
#include "chain.h"
#include "errors.h"
#include "table.h"
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 1000

/* --- verify --- */

static gboolean
check_lines(WeftAuditCheck *check, FILE *file, GError **error)
{
    char *line = NULL;
    size_t size = 0;
    gboolean ok = TRUE;
    for (ssize_t n; ok && (n = getline(&line, &size, file)) > 0;)
        ok = weft_audit_check_line(check, line, (gsize)n - (line[n - 1] == '\n'), error);
    if (ok && ferror(file))
        ok = weft_error_refuse(error, WEFT_ERROR_INVALID, "%s", g_strerror(errno));
    free(line);
    return ok;
}

static gboolean
check_file(WeftAuditCheck *check, const char *path, GError **error)
{
    gboolean is_input = strcmp(path, "-") == 0;
    FILE *file = is_input ? stdin : fopen(path, "re");
    if (!file)
        return weft_cli_refuse_file(path, g_strerror(errno), error);
    weft_audit_check_file(check);
    gboolean ok = check_lines(check, file, error) && weft_audit_check_end(check, error);
    if (!is_input)
        fclose(file);
    if (!ok)
        g_prefix_error(error, "%s: ", weft_cli_file_name(path));
    return ok;
}

static void
print_check(const WeftCli *cli, const WeftAuditCheck *check)
{
    const WeftAuditHead *head = weft_audit_check_head(check);
    guint64 entries = weft_audit_check_entries(check), torn = weft_audit_check_torn(check);
    if (cli->json) {
        weft_cli_print_json(json_pack("{s:I, s:I, s:I, s:s?}", "entries", (json_int_t)entries, "torn", (json_int_t)torn, "last",
                                      (json_int_t)head->sequence, "hash", entries ? head->hash : NULL));
        return;
    }
    printf("%" G_GUINT64_FORMAT " entries, unchanged and in order; the last one is %" G_GUINT64_FORMAT ", hash %s\n", entries,
           head->sequence, head->hash);
    if (torn)
        printf("%" G_GUINT64_FORMAT " lines were not written whole, and entries after them say so\n", torn);
}

static gboolean
run_verify(WeftCli *cli, char **args, GError **error)
{
    g_autoptr(WeftAuditCheck) check = weft_audit_check_new();
    for (guint i = 0; args[i]; i++)
        if (!check_file(check, args[i], error))
            return FALSE;
    if (!weft_audit_check_entries(check))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "there is no entry; name the files of the trail, the oldest first");
    print_check(cli, check);
    return TRUE;
}

/* --- ls --- */

static char *principal;
static int limit = LIMIT_DEFAULT;

static const GOptionEntry ls_options[] = {
    { "principal", 0, 0, G_OPTION_ARG_STRING, &principal, "only what this principal did", "NAME" },
    { "limit", 'n', 0, G_OPTION_ARG_INT, &limit, "how many entries, the newest (100)", "N" },
    { NULL },
};

static void
add_parameter(GString *path, const char *name, const char *value)
{
    g_autofree char *escaped = value ? g_uri_escape_string(value, NULL, FALSE) : NULL;
    if (escaped)
        g_string_append_printf(path, "%c%s=%s", strchr(path->str, '?') ? '&' : '?', name, escaped);
}

/* The pages of the list until there are enough entries; a page may be empty, and others follow. */
static json_t *
fetch(const WeftCli *cli, GError **error)
{
    g_autofree char *after = NULL;
    json_t *entries = json_array();
    do {
        g_autoptr(GString) path = g_string_new("/v1/audit");
        g_autofree char *wanted = g_strdup_printf("%zu", (size_t)limit - json_array_size(entries));
        add_parameter(path, "limit", wanted);
        add_parameter(path, "principal", principal);
        add_parameter(path, "tenant", cli->tenant);
        add_parameter(path, "after", after);
        json_t *page = weft_client_get(cli->client, path->str, error);
        if (!page) {
            json_decref(entries);
            return NULL;
        }
        json_array_extend(entries, json_object_get(page, "items"));
        g_free(after);
        after = g_strdup(json_string_value(json_object_get(page, "next")));
        json_decref(page);
    } while (after && json_array_size(entries) < (size_t)limit);
    return entries;
}

/* Of what the configuration changed, the first: --json has all. */
static char *
first_of(json_t *changes)
{
    json_t *first = json_array_get(changes, 0);
    size_t others = json_array_size(changes) - 1;
    g_autofree char *kind = weft_cli_field(first, "kind"), *name = weft_cli_field(first, "name");
    g_autofree char *change = weft_cli_field(first, "change");
    return others ? g_strdup_printf("%s %s %s, and %zu more", kind, name, change, others)
                  : g_strdup_printf("%s %s %s", kind, name, change);
}

/* Of an entry that is about no request: what it is about. */
static char *
subject_of(json_t *entry)
{
    if (json_array_size(json_object_get(entry, "changes")) > 0)
        return first_of(json_object_get(entry, "changes"));
    static const char *const names[] = { "config", "backup", "account", "former", "found", "entries", "bytes" };
    for (guint i = 0; i < G_N_ELEMENTS(names); i++)
        if (json_object_get(entry, names[i]) && !json_is_null(json_object_get(entry, names[i])))
            return weft_cli_field(entry, names[i]);
    return g_strdup("-");
}

static void
add_row(WeftTable *table, json_t *entry)
{
    gboolean is_request = json_object_get(entry, "method") != NULL;
    weft_table_take(table, weft_cli_field(entry, "sequence"));
    weft_table_take(table, weft_cli_field(entry, "time"));
    weft_table_take(table, weft_cli_field(entry, "principal"));
    weft_table_take(table, weft_cli_field(entry, json_object_get(entry, "for") ? "for" : "tenant"));
    weft_table_take(table, json_is_object(json_object_get(entry, "from")) ? g_strdup("-") : weft_cli_field(entry, "from"));
    weft_table_take(table, weft_cli_field(entry, json_object_get(entry, "status") ? "status" : "result"));
    weft_table_take(table, weft_cli_field(entry, is_request ? "method" : "kind"));
    weft_table_take(table, is_request ? weft_cli_field(entry, "target") : subject_of(entry));
}

static gboolean
run_ls(WeftCli *cli, char **args, GError **error)
{
    if (limit < 1 || limit > LIMIT_MAX) {
        weft_cli_set_usage(error, "--limit %d: write 1 to %d", limit, LIMIT_MAX);
        return FALSE;
    }
    json_t *entries = fetch(cli, error);
    if (!entries)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(entries);
        return TRUE;
    }
    g_autoptr(WeftTable) table = weft_table_new(">ENTRY|TIME|PRINCIPAL|TENANT|FROM|STATUS|WHAT|TARGET");
    for (size_t i = json_array_size(entries); i > 0; i--)
        add_row(table, json_array_get(entries, i - 1));
    weft_table_print(table, stdout);
    json_decref(entries);
    return TRUE;
}

const WeftVerb weft_audit_verbs[] = {
    {
        .name = "audit ls",
        .arguments = "",
        .summary = "list who did what, from where, with what result",
        .about =
            "For operators. Every change that was asked for through the API is an entry of the audit trail, refused ones too, "
            "and so is what weftd's machine was used for: starts, stops, restored backups and "
            "what its configuration changed.",
        .examples = "weft audit ls --principal alice -n 20\n"
                    "weft audit ls --tenant acme --json",
        .options = ls_options,
        .run = run_ls,
    },
    {
        .name = "audit verify",
        .arguments = "FILE…",
        .summary = "check that nobody has changed the files of the audit trail",
        .about =
            "Each entry has the hash of the one before it and its own. The first line that does not fit is named. Works "
            "without weftd; name the files in their order, the oldest first, - for standard input. What was cut off at the "
            "end cannot be seen here before weftd's next start: compare the hash of the last entry with the one in "
            "the system's log.",
        .examples = "weft audit verify /var/lib/weft/audit.log.* /var/lib/weft/audit.log\n"
                    "weft audit verify --json - < audit.log",
        .min_args = 1,
        .max_args = G_MAXUINT,
        .run = run_verify,
    },
    { 0 },
};
