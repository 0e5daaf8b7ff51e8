#include "help.h"

#include "table.h"
#include "text.h"

#include <stdio.h>

#define COLUMNS 80

/* Fills lines with the words; the first one begins at that column, the others are indented to it. */
static void
print_filled(const char *text, gsize indent)
{
    g_auto(GStrv) words = g_strsplit_set(text, " \n", -1);
    gsize column = indent;
    for (guint i = 0; words[i]; i++) {
        gsize blank = i > 0, width = weft_text_width(words[i]);
        if (blank && column + blank + width > COLUMNS) {
            printf("\n%*s", (int)indent, "");
            column = indent;
            blank = 0;
        }
        printf("%*s%s", (int)blank, "", words[i]);
        column += blank + width;
    }
    putchar('\n');
}

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
        print_filled(right->pdata[i], 2 + width + 2);
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
    if (verb->about)
        print_filled(verb->about, 0);
    else
        printf("%c%s.\n", g_ascii_toupper(verb->summary[0]), verb->summary + 1);
    print_options("Options", verb, verb->options);
    print_options("Options of every verb", verb, weft_global_options);
    g_auto(GStrv) examples = g_strsplit(verb->examples, "\n", -1);
    puts("\nExamples:");
    for (guint i = 0; examples[i]; i++)
        printf("  %s\n", examples[i]);
}

/* What other tools call it: no misspelling leads from one to the other. */
static const char *const other_words[][2] = {
    { "delete", "rm" },   { "remove", "rm" },   { "destroy", "rm" },     { "add", "create" },   { "new", "create" },
    { "status", "show" }, { "info", "show" },   { "describe", "show" },  { "get", "ls" },       { "resize", "scale" },
    { "log", "events" },  { "logs", "events" }, { "principal", "user" }, { "quota", "tenant" },
};

static const char *
translate(const char *word)
{
    for (gsize i = 0; i < G_N_ELEMENTS(other_words); i++)
        if (strcmp(word, other_words[i][0]) == 0)
            return other_words[i][1];
    return word;
}

char *
weft_help_nearest(const char *group, const char *word)
{
    g_autoptr(GPtrArray) candidates = g_ptr_array_new_with_free_func(g_free);
    WeftVerbIter iter = { 0 };
    for (const WeftVerb *verb; (verb = weft_verb_next(&iter));) {
        g_auto(GStrv) words = g_strsplit(verb->name, " ", 2);
        if (!group)
            g_ptr_array_add(candidates, g_strdup(words[0]));
        else if (strcmp(group, words[0]) == 0)
            g_ptr_array_add(candidates, g_strdup(words[1]));
    }
    return g_strdup(weft_text_nearest(translate(word), (const char *const *)candidates->pdata, candidates->len));
}
