#include "complete.h"

#include "verbs.h"

#include <stdio.h>

static const char *const name_paths[] = {
    [WEFT_NAMES_CLUSTERS] = "/v1/clusters",
    [WEFT_NAMES_HOSTS] = "/v1/hosts",
    [WEFT_NAMES_TENANTS] = "/v1/tenants",
    [WEFT_NAMES_PRINCIPALS] = "/v1/principals",
    [WEFT_NAMES_IMAGES] = "/v1/images",
    [WEFT_NAMES_FABRICS] = "/v1/fabrics",
    [WEFT_NAMES_RESERVATIONS] = "/v1/reservations",
    [WEFT_NAMES_TEMPLATES] = "/v1/templates",
    [WEFT_NAMES_CHECKPOINTS] = "/v1/checkpoints",
};

static void
offer(const char *candidate, const char *begun)
{
    if (g_str_has_prefix(candidate, begun))
        puts(candidate);
}

static void
offer_options(const WeftVerb *verb, const GOptionEntry *options, const char *begun)
{
    for (; options && options->long_name; options++) {
        g_autofree char *text = g_strconcat("--", options->long_name, NULL);
        if (weft_verb_takes(verb, options))
            offer(text, begun);
    }
}

/* Verbs, or the subverbs of a group. */
static void
offer_verbs(const char *group, const char *begun)
{
    WeftVerbIter iter = { 0 };
    g_autofree char *last = NULL;
    for (const WeftVerb *verb; (verb = weft_verb_next(&iter));) {
        g_auto(GStrv) words = g_strsplit(verb->name, " ", 2);
        if (group && strcmp(words[0], group) != 0)
            continue;
        const char *word = group ? words[1] : words[0];
        if (word && g_strcmp0(word, last) != 0)
            offer(word, begun);
        g_free(last);
        last = g_strdup(word);
    }
}

static void
offer_names(WeftCli *cli, WeftNames names, const char *begun)
{
    if (names == WEFT_NAMES_NONE || !cli->client)
        return;
    g_autofree char *path = g_strdup(name_paths[names]);
    if (names == WEFT_NAMES_CLUSTERS || names == WEFT_NAMES_CHECKPOINTS)
        path = weft_client_query(g_steal_pointer(&path), "tenant", cli->tenant);
    json_t *items = weft_client_list(cli->client, path, NULL);
    size_t i;
    json_t *item;
    json_array_foreach (items, i, item) {
        json_t *word = json_object_get(item, names == WEFT_NAMES_TEMPLATES ? "id" : "name");
        const char *name = json_string_value(word);
        if (name)
            offer(name, begun);
    }
    json_decref(items);
}

static const GOptionEntry *
find_option(const GOptionEntry *options, const char *word)
{
    for (; options && options->long_name; options++) {
        gboolean is_long = g_str_has_prefix(word, "--") && strcmp(word + 2, options->long_name) == 0;
        if (is_long || (options->short_name && word[0] == '-' && word[1] == options->short_name && word[2] == '\0'))
            return options;
    }
    return NULL;
}

/* The option whose value the word after it is; NULL: none. */
static const GOptionEntry *
option_with_value(const WeftVerb *verb, const char *word)
{
    const GOptionEntry *option = verb ? find_option(verb->options, word) : NULL;
    if (!option)
        option = find_option(weft_global_options, word);
    return option && option->arg != G_OPTION_ARG_NONE ? option : NULL;
}

static const struct {
    const char *option;
    WeftNames names;
} named_values[] = { { "tenant", WEFT_NAMES_TENANTS },
                     { "user", WEFT_NAMES_PRINCIPALS },
                     { "image", WEFT_NAMES_IMAGES },
                     { "fabric", WEFT_NAMES_FABRICS },
                     { "apart", WEFT_NAMES_CLUSTERS } };

/* A value that is one of several words says so in its description: "ready|deleted". */
static void
offer_values(WeftCli *cli, const GOptionEntry *option, const char *begun)
{
    for (gsize i = 0; option->arg != G_OPTION_ARG_FILENAME && i < G_N_ELEMENTS(named_values); i++)
        if (strcmp(option->long_name, named_values[i].option) == 0)
            offer_names(cli, named_values[i].names, begun);
    if (!option->arg_description || !strchr(option->arg_description, '|'))
        return;
    g_auto(GStrv) values = g_strsplit(option->arg_description, "|", -1);
    for (guint i = 0; values[i]; i++)
        offer(values[i], begun);
}

/* The words before the last one that are neither options nor their values. */
static GPtrArray *
plain_words(char **words, guint n)
{
    GPtrArray *plain = g_ptr_array_new();
    for (guint i = 0; i < n; i++) {
        if (words[i][0] != '-')
            g_ptr_array_add(plain, words[i]);
        else if (option_with_value(NULL, words[i]))
            i++;
    }
    g_ptr_array_add(plain, NULL);
    return plain;
}

void
weft_complete(WeftCli *cli, char **words)
{
    guint n = g_strv_length(words);
    if (n == 0)
        return;
    const char *begun = words[n - 1];
    g_autoptr(GPtrArray) plain = plain_words(words, n - 1);
    char **verb_words = (char **)plain->pdata;
    guint taken = 0;
    const WeftVerb *verb = weft_verb_find(verb_words, &taken);
    if (verb && verb->takes_command && g_strv_contains((const char *const *)words, "--") && strcmp(begun, "--") != 0)
        return; /* what comes there is not weft's */
    const GOptionEntry *option = n > 1 ? option_with_value(verb, words[n - 2]) : NULL;

    if (option) {
        offer_values(cli, option, begun);
    } else if (begun[0] == '-') {
        offer_options(verb, verb ? verb->options : NULL, begun);
        offer_options(verb, weft_global_options, begun);
    } else if (verb) {
        offer_names(cli, verb->names, begun);
    } else if (!verb_words[0]) {
        offer_verbs(NULL, begun);
    } else if (!verb_words[1] && weft_verb_is_group(verb_words[0])) {
        offer_verbs(verb_words[0], begun);
    }
}
