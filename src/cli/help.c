#include "help.h"

#include "table.h"
#include "text.h"

#include <stdio.h>

#define COLUMNS 80

/* Two columns, the first padded to the widest of all. */
static void
print_rows(GPtrArray *left, GPtrArray *right)
{
    gsize width = 0;
    for (guint i = 0; i < left->len; i++)
        width = MAX(width, weft_text_width(left->pdata[i]));
    for (guint i = 0; i < left->len; i++) {
        int pad = (int)(width - weft_text_width(left->pdata[i])) + 2;
        printf("  %s%*s", (char *)left->pdata[i], pad, "");
        weft_text_fill(right->pdata[i], 2 + width + 2, COLUMNS, stdout);
        putchar('\n');
    }
}

static char *
option_text(const GOptionEntry *option)
{
    g_autofree char *brief = option->short_name ? g_strdup_printf("-%c, ", option->short_name) : g_strdup("    ");
    return g_strconcat(brief, "--", option->long_name, option->arg_description ? " " : "",
                       option->arg_description ? option->arg_description : "", NULL);
}

static void
print_options(const char *title, const WeftVerb *verb, const GOptionEntry *options)
{
    g_autoptr(GPtrArray) left = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) right = g_ptr_array_new();
    for (const GOptionEntry *option = options; option && option->long_name; option++) {
        if (!weft_verb_takes(verb, option))
            continue;
        g_ptr_array_add(left, option_text(option));
        g_ptr_array_add(right, (char *)option->description);
    }
    if (left->len > 0)
        printf("\n%s:\n", title);
    print_rows(left, right);
}

static void
print_verbs(const WeftVerb *const *files)
{
    g_autoptr(GPtrArray) left = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) right = g_ptr_array_new();
    for (; *files; files++) {
        for (const WeftVerb *verb = *files; verb->name; verb++) {
            g_ptr_array_add(left, g_strconcat(verb->name, verb->arguments[0] ? " " : "", verb->arguments, NULL));
            g_ptr_array_add(right, (char *)verb->summary);
        }
    }
    print_rows(left, right);
}

void
weft_help_all(void)
{
    puts("Usage: weft [OPTION…] VERB [ARGUMENT…]\n\nVirtual InfiniBand clusters: asked for in one line, ready and isolated.");
    for (const WeftSection *section = weft_sections; section->title; section++) {
        printf("\n%s:\n", section->title);
        print_verbs(section->files);
    }
    print_options("Options", NULL, weft_global_options);
    puts("\n'weft VERB --help' tells more about a verb, weft(1) about the environment and the\nexit codes.");
}

void
weft_help_group(const char *word)
{
    printf("Usage: weft %s VERB [ARGUMENT…]\n\n", word);
    WeftVerbIter iter = { 0 };
    g_autofree char *prefix = g_strconcat(word, " ", NULL);
    g_autoptr(GPtrArray) left = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) right = g_ptr_array_new();
    for (const WeftVerb *verb; (verb = weft_verb_next(&iter));) {
        if (!g_str_has_prefix(verb->name, prefix))
            continue;
        g_ptr_array_add(left, g_strconcat(verb->name, " ", verb->arguments, NULL));
        g_ptr_array_add(right, (char *)verb->summary);
    }
    print_rows(left, right);
}

void
weft_help_verb(const WeftVerb *verb)
{
    printf("Usage: weft %s [OPTION…]%s%s\n\n", verb->name, verb->arguments[0] ? " " : "", verb->arguments);
    g_autofree char *about = verb->about ? g_strdelimit(g_strdup(verb->about), "\n", ' ')
                                         : g_strdup_printf("%c%s.", g_ascii_toupper(verb->summary[0]), verb->summary + 1);
    weft_text_fill(about, 0, COLUMNS, stdout);
    putchar('\n');
    print_options("Options", verb, verb->options);
    print_options("Options of every verb", verb, weft_global_options);
    g_auto(GStrv) examples = g_strsplit(verb->examples, "\n", -1);
    puts("\nExamples:");
    for (guint i = 0; examples[i]; i++)
        printf("  %s\n", examples[i]);
}

/* What other tools call it: no misspelling leads from one to the other. The first that is there counts. */
static const char *const other_words[][2] = {
    { "delete", "rm" }, { "delete", "revoke" }, { "remove", "rm" },    { "remove", "revoke" },  { "destroy", "rm" },
    { "rm", "revoke" }, { "add", "create" },    { "new", "create" },   { "new", "add" },        { "create", "add" },
    { "get", "ls" },    { "cluster", "ls" },    { "status", "show" },  { "info", "show" },      { "describe", "show" },
    { "node", "show" }, { "nodes", "show" },    { "resize", "scale" }, { "log", "events" },     { "logs", "events" },
    { "exec", "run" },  { "login", "ssh" },     { "shell", "ssh" },    { "principal", "user" }, { "quota", "tenant" },
};

/* Verbs, or the subverbs of a group. */
static GPtrArray *
list_words(const char *group)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
    WeftVerbIter iter = { 0 };
    for (const WeftVerb *verb; (verb = weft_verb_next(&iter));) {
        g_auto(GStrv) words = g_strsplit(verb->name, " ", 2);
        if (!group)
            g_ptr_array_add(list, g_strdup(words[0]));
        else if (strcmp(group, words[0]) == 0)
            g_ptr_array_add(list, g_strdup(words[1]));
    }
    return list;
}

char *
weft_help_nearest(const char *group, const char *word)
{
    if (g_strcmp0(group, "host") == 0 && (strcmp(word, "ls") == 0 || strcmp(word, "list") == 0))
        return g_strdup("weft hosts");
    g_autoptr(GPtrArray) candidates = list_words(group);
    for (gsize i = 0; i < G_N_ELEMENTS(other_words); i++)
        if (strcmp(word, other_words[i][0]) == 0 &&
            g_ptr_array_find_with_equal_func(candidates, other_words[i][1], g_str_equal, NULL))
            return g_strdup(other_words[i][1]);
    return g_strdup(weft_text_nearest(word, (const char *const *)candidates->pdata, candidates->len));
}
