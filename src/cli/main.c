/* weft: the table of verbs, the options of them all, and the exit code. */
#include "complete.h"
#include "errors.h"
#include "file.h"
#include "help.h"
#include "target.h"
#include "text.h"
#include "verbs.h"

#include <gio/gio.h>
#include <locale.h>
#include <signal.h>

#define EXIT_USAGE 2
#define EXIT_INTERRUPTED 130
#define TOKEN_MAX 4096

static const WeftVerb *const cluster_files[] = {
    weft_create_verbs, weft_ls_verbs,    weft_show_verbs,   weft_scale_verbs,      weft_clone_verbs,           weft_rm_verbs,
    weft_wait_verbs,   weft_queue_verbs, weft_events_verbs, weft_checkpoint_verbs, weft_checkpoint_file_verbs, NULL
};
static const WeftVerb *const node_files[] = { weft_ssh_verbs,      weft_run_verbs, weft_scp_verbs,  weft_console_verbs,
                                              weft_hostfile_verbs, weft_top_verbs, weft_move_verbs, NULL };
static const WeftVerb *const host_files[] = { weft_hosts_verbs,       weft_host_verbs,     weft_prepare_verbs, weft_drain_verbs,
                                              weft_reservation_verbs, weft_fabric_verbs,   weft_harden_verbs,  weft_qos_verbs,
                                              weft_image_verbs,       weft_template_verbs, weft_doctor_verbs,  weft_clock_verbs,
                                              weft_backup_verbs,      weft_site_verbs,     weft_take_verbs,    NULL };
static const WeftVerb *const access_files[] = { weft_tenant_verbs, weft_user_verbs,  weft_token_verbs,
                                                weft_usage_verbs,  weft_audit_verbs, NULL };
static const WeftVerb *const other_files[] = { weft_version_verbs, weft_lab_verbs, weft_simulate_verbs, NULL };

const WeftSection weft_sections[] = {
    { "Clusters", cluster_files }, { "Nodes", node_files },  { "Hosts", host_files },
    { "Access", access_files },    { "Other", other_files }, { NULL },
};

/* What the verb that runs makes of the exit code. */
static int status, failure;

static struct {
    char *url;
    char *token_file;
    char *ca;
    char *tenant;
    gboolean json;
    gboolean help;
    gboolean version;
} global;

/* clang-format off */
const GOptionEntry weft_global_options[] = {
    { "url", 0, 0, G_OPTION_ARG_STRING, &global.url, "weftd: unix:///PATH or https://HOST:PORT (WEFT_URL)", "URL" },
    { "token-file", 0, 0, G_OPTION_ARG_FILENAME, &global.token_file,
      "file with the token (WEFT_TOKEN_FILE, or WEFT_TOKEN)", "FILE" },
    { "ca", 0, 0, G_OPTION_ARG_FILENAME, &global.ca, "certificates to trust (WEFT_CA)", "FILE" },
    { "tenant", 0, 0, G_OPTION_ARG_STRING, &global.tenant, "tenant that an operator acts for (WEFT_TENANT)", "NAME" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &global.json, "print the API's JSON", NULL },
    { "help", 'h', 0, G_OPTION_ARG_NONE, &global.help, "show help", NULL },
    { "version", 0, 0, G_OPTION_ARG_NONE, &global.version, "print the version of this program", NULL },
    { NULL },
};
/* clang-format on */

const WeftVerb *
weft_verb_next(WeftVerbIter *iter)
{
    while (weft_sections[iter->section].title) {
        const WeftVerb *file = weft_sections[iter->section].files[iter->file];
        if (file && file[iter->verb].name)
            return &file[iter->verb++];
        iter->verb = 0;
        if (file)
            iter->file++;
        else {
            iter->file = 0;
            iter->section++;
        }
    }
    return NULL;
}

const WeftVerb *
weft_verb_find(char **words, guint *ret_words)
{
    WeftVerbIter iter = { 0 };
    for (const WeftVerb *verb; words[0] && (verb = weft_verb_next(&iter));) {
        g_auto(GStrv) name = g_strsplit(verb->name, " ", 2);
        *ret_words = g_strv_length(name);
        if (strcmp(words[0], name[0]) == 0 && (!name[1] || g_strcmp0(words[1], name[1]) == 0))
            return verb;
    }
    return NULL;
}

gboolean
weft_verb_is_group(const char *word)
{
    g_autofree char *prefix = g_strconcat(word, " ", NULL);
    WeftVerbIter iter = { 0 };
    for (const WeftVerb *verb; (verb = weft_verb_next(&iter));)
        if (g_str_has_prefix(verb->name, prefix))
            return TRUE;
    return FALSE;
}

gboolean
weft_verb_takes(const WeftVerb *verb, const GOptionEntry *option)
{
    return !verb || !verb->speaks || option->arg_data != &global.json;
}

static void
refuse_option(const char *word, const GOptionEntry *own, GError **error)
{
    const GOptionEntry *const entries[] = { own, weft_global_options };
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    for (guint i = 0; i < G_N_ELEMENTS(entries); i++)
        for (const GOptionEntry *entry = entries[i]; entry && entry->long_name; entry++)
            g_ptr_array_add(names, (gpointer)entry->long_name);
    const char *nearest =
        g_str_has_prefix(word, "--") ? weft_text_nearest(word + 2, (const char *const *)names->pdata, names->len) : NULL;
    if (nearest)
        weft_cli_set_usage(error, "unknown option %s: did you mean --%s?", word, nearest);
    else
        weft_cli_set_usage(error, "unknown option %s", word);
}

/* Takes the options out of words. "-3" is a number for scale, never an option: so unknown options are left in their places
 * and refused here. */
static gboolean
parse_options(char ***words, const GOptionEntry *own, gboolean stop_at_verb, GError **error)
{
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    g_option_context_set_help_enabled(context, FALSE);
    g_option_context_set_ignore_unknown_options(context, TRUE);
    g_option_context_set_strict_posix(context, stop_at_verb);
    if (own)
        g_option_context_add_main_entries(context, own, NULL);
    g_option_context_add_main_entries(context, weft_global_options, NULL);
    GError *local = NULL;
    if (!g_option_context_parse_strv(context, words, &local)) {
        /* GLib's words name no remedy; those of a missing value need none. */
        const char *remedy = strstr(local->message, "nteger value") ? "; write a whole number, such as 8" : "";
        g_set_error(error, local->domain, local->code, "%s%s", local->message, remedy);
        g_error_free(local);
        return FALSE;
    }
    for (guint i = 1; (*words)[i]; i++) {
        const char *word = (*words)[i];
        if (word[0] == '-' && word[1] != '\0' && !g_ascii_isdigit(word[1])) {
            refuse_option(word, own, error);
            return FALSE;
        }
        if (stop_at_verb)
            break;
    }
    return TRUE;
}

static const char *
setting(const char *option, const char *variable)
{
    const char *value = option ? option : g_getenv(variable);
    return value && value[0] ? value : NULL;
}

/* A given file goes before the environment. Anything but printable ASCII would break the header that carries it. */
static gboolean
read_token(char **ret_token, GError **error)
{
    g_autofree char *token = g_strdup(global.token_file ? NULL : setting(NULL, "WEFT_TOKEN"));
    const char *file = token ? NULL : setting(global.token_file, "WEFT_TOKEN_FILE");
    if (file) {
        if (!weft_file_check_private(file, error)) {
            g_prefix_error(error, "token: ");
            return FALSE;
        }
        token = weft_cli_read_text(file, TOKEN_MAX, NULL, error);
        if (!token) {
            g_prefix_error(error, "token: ");
            return FALSE;
        }
    }
    if (token)
        g_strstrip(token);
    for (const char *p = token; p && *p; p++) {
        if (!g_ascii_isgraph(*p)) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s: a token is one word, weft_ID_SECRET",
                        file ? file : "WEFT_TOKEN");
            return FALSE;
        }
    }
    *ret_token = token && token[0] ? g_steal_pointer(&token) : NULL;
    return TRUE;
}

static WeftClient *
connect_client(guint timeout_ms, GError **error)
{
    g_autofree char *token = NULL;
    if (!read_token(&token, error))
        return NULL;
    const char *url = setting(global.url, "WEFT_URL");
    WeftClientOptions options = { url ? url : WEFT_CLIENT_URL, token, setting(global.ca, "WEFT_CA"), timeout_ms };
    return weft_client_new(&options, error);
}

static gboolean
check_arguments(const WeftVerb *verb, char **args, GError **error)
{
    guint n = g_strv_length(args);
    if (global.json && verb->speaks) {
        weft_cli_set_usage(error, "%s: has no --json: its output is what the node says; leave it out", verb->name);
        return FALSE;
    }
    for (guint i = 0; i < n; i++) {
        if (!g_utf8_validate(args[i], -1, NULL)) {
            weft_cli_set_usage(error, "%s: argument %u is not UTF-8", verb->name, i + 1);
            return FALSE;
        }
    }
    if (n >= verb->min_args && n <= verb->max_args)
        return !verb->whole || n == 0 || weft_target_check_whole(verb->name, args[0], error);
    if (n > verb->max_args && verb->takes_command) {
        g_autofree char *command = g_strjoinv(" ", args + verb->max_args);
        weft_cli_set_usage(error, "%s: a command comes after --: weft %s %s -- %s", verb->name, verb->name, args[0], command);
    } else if (n > verb->max_args)
        weft_cli_set_usage(error, "%s: '%s' is one argument too many: weft %s%s%s", verb->name, args[verb->max_args],
                           verb->name, verb->arguments[0] ? " " : "", verb->arguments);
    else
        weft_cli_set_usage(error, "%s: an argument is missing: weft %s %s", verb->name, verb->name, verb->arguments);
    return FALSE;
}

static gboolean
print_version(void)
{
    puts("weft " WEFT_VERSION);
    return TRUE;
}

/* Cuts the words off at "--" and returns those behind it: options there are not ours. NULL: there are none. */
static char **
take_command(char **words)
{
    guint n = 0;
    while (words[n] && strcmp(words[n], "--") != 0)
        n++;
    char **command = words[n] && words[n + 1] ? g_strdupv(words + n + 1) : NULL;
    for (char **word = words + n; *word; word++)
        g_clear_pointer(word, g_free);
    return command;
}

static void
suffix_error(GError **error, const char *suffix)
{
    char *message = g_strconcat((*error)->message, suffix, NULL);
    g_free((*error)->message);
    (*error)->message = message;
}

static gboolean
run_verb(const WeftVerb *verb, char **args, GError **error)
{
    g_autofree char *program = g_strconcat("weft ", verb->name, NULL);
    g_set_prgname(program);
    if (verb->raw)
        return verb->run(NULL, global.help ? (char *[]){ "--help", NULL } : args + 1, error);
    g_auto(GStrv) words = g_strdupv(args);
    g_auto(GStrv) command = verb->takes_command ? take_command(words) : NULL;
    failure = verb->failure;
    if (!parse_options(&words, verb->options, FALSE, error)) {
        g_prefix_error(error, "%s: ", verb->name);
        if (verb->takes_command && !command)
            suffix_error(error, "; a command comes after --");
        return FALSE;
    }
    char **rest = words + 1;
    if (global.version)
        return print_version();
    if (global.help) {
        weft_help_verb(verb);
        return TRUE;
    }
    if (!check_arguments(verb, rest, error))
        return FALSE;
    g_autoptr(WeftClient) client = connect_client(0, error);
    WeftCli cli = { client, setting(global.tenant, "WEFT_TENANT"), global.json, command, 0 };
    gboolean fine = client && verb->run(&cli, rest, error);
    status = cli.status;
    return fine;
}

static gboolean
refuse_words(char **words, GError **error)
{
    gboolean group = words[0] && weft_verb_is_group(words[0]);
    const char *wrong = group ? words[1] : words[0];
    g_autofree char *nearest = wrong ? weft_help_nearest(group ? words[0] : NULL, wrong) : NULL;
    g_autofree char *meant = nearest ? g_strdup_printf(": did you mean '%s'?", nearest) : g_strdup("");
    g_autofree char *program = group ? g_strconcat("weft ", words[0], NULL) : g_strdup("weft");
    g_set_prgname(program);
    if (!wrong)
        weft_cli_set_usage(error, "%s%sneeds a verb", group ? words[0] : "", group ? ": " : "");
    else
        weft_cli_set_usage(error, "%s%sno verb '%s'%s", group ? words[0] : "", group ? ": " : "", wrong, meant);
    return FALSE;
}

/* Names for the completion must come fast, or not at all. */
static gboolean
complete(char **words)
{
    g_autoptr(WeftClient) client = connect_client(1000, NULL);
    WeftCli cli = { .client = client, .tenant = setting(global.tenant, "WEFT_TENANT") };
    weft_complete(&cli, words);
    return TRUE;
}

/* "weft help create" is "weft --help create". */
static void
take_help(char **words)
{
    if (g_strcmp0(words[1], "help") != 0)
        return;
    global.help = TRUE;
    g_free(words[1]);
    for (char **word = words + 1; *word; word++)
        word[0] = word[1];
}

static gboolean
run(char **argv, GError **error)
{
    g_auto(GStrv) words = g_strdupv(argv);
    if (!parse_options(&words, NULL, TRUE, error))
        return FALSE;
    take_help(words);
    if (g_strcmp0(words[1], "__complete") == 0)
        return complete(words + 2);
    if (global.version)
        return print_version();
    guint taken = 0;
    const WeftVerb *verb = weft_verb_find(words + 1, &taken);
    if (verb)
        return run_verb(verb, words + taken, error);
    if (global.help && !words[1]) {
        weft_help_all();
        return TRUE;
    }
    if (words[1] && weft_verb_is_group(words[1]) &&
        (global.help || g_strcmp0(words[2], "--help") == 0 || g_strcmp0(words[2], "-h") == 0)) {
        weft_help_group(words[1]);
        return TRUE;
    }
    return refuse_words(words + 1, error);
}

static int
exit_code(const GError *error)
{
    if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        return EXIT_INTERRUPTED;
    return error->domain == G_OPTION_ERROR ? EXIT_USAGE : weft_error_exit_code(weft_error_code(error));
}

int
main(int argc, char **argv)
{
    /* weft speaks UTF-8, whatever the environment says; a reader that goes away ends it quietly. */
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_DFL);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    g_set_prgname("weft");

    g_autoptr(GError) error = NULL;
    gboolean fine = run(argv, &error);
    int code = status;
    if (!fine) {
        weft_cli_report(error);
        code = failure ? failure : exit_code(error);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("weft: cannot write the output");
        code = code ? code : 1;
    }
    curl_global_cleanup();
    return code;
}
