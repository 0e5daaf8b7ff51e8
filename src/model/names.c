#include "names.h"

#include "bounds.h"
#include "errors.h"
#include "text.h"

typedef struct {
    guint max;              /* bytes */
    const char *separators; /* may stand between letters and digits; NULL: any printable text goes */
    gboolean host;          /* upper case and a digit in front are fine, and '-' may be repeated */
    gboolean empty;         /* nothing is fine too */
    const char *rule;
} Grammar;

/* clang-format off */
static const Grammar grammars[WEFT_GRAMMARS] = {
    [WEFT_GRAMMAR_NAME]        = { WEFT_NAME_MAX,      "-",    FALSE, FALSE,
                                   "a lower-case letter, then lower-case letters and digits with single '-' between them" },
    [WEFT_GRAMMAR_HOST]        = { WEFT_HOST_NAME_MAX, "-.",   TRUE,  FALSE,
                                   "letters and digits with '-' and '.' between them" },
    [WEFT_GRAMMAR_IMAGE]       = { WEFT_LABEL_MAX,     "-._",  FALSE, FALSE,
                                   "a lower-case letter, then lower-case letters and digits with single '-._' between them" },
    [WEFT_GRAMMAR_LABEL]       = { WEFT_LABEL_MAX,     "-._/", FALSE, FALSE,
                                   "a lower-case letter, then lower-case letters and digits with single '-._/' between them" },
    [WEFT_GRAMMAR_LABEL_VALUE] = { WEFT_LABEL_MAX,     NULL,   FALSE, TRUE,  "printable text" },
    [WEFT_GRAMMAR_DEVICE]      = { WEFT_LABEL_MAX,     "-._:", TRUE,  FALSE,
                                   "letters and digits with '-._:' between them" },
    [WEFT_GRAMMAR_TEXT]        = { WEFT_TEXT_MAX,      NULL,   FALSE, FALSE, "printable text" },
};
/* clang-format on */

static gboolean
is_printable(const char *text)
{
    if (!g_utf8_validate(text, -1, NULL))
        return FALSE;
    for (const char *at = text; *at; at = g_utf8_next_char(at))
        if (!g_unichar_isprint(g_utf8_get_char(at)))
            return FALSE;
    return TRUE;
}

static gboolean
is_word_character(const Grammar *grammar, char c)
{
    return g_ascii_islower(c) || g_ascii_isdigit(c) || (grammar->host && g_ascii_isupper(c));
}

static gboolean
is_word(const Grammar *grammar, const char *text)
{
    if (!is_word_character(grammar, text[0]) || (!grammar->host && g_ascii_isdigit(text[0])))
        return FALSE;
    for (const char *at = text + 1; *at; at++) {
        gboolean repeats = grammar->host && at[0] == '-' && at[-1] == '-';
        if (!is_word_character(grammar, *at) &&
            (!strchr(grammar->separators, *at) || (!is_word_character(grammar, at[-1]) && !repeats)))
            return FALSE;
    }
    return is_word_character(grammar, text[strlen(text) - 1]);
}

static gboolean
matches(const Grammar *grammar, const char *text)
{
    if (!text[0])
        return grammar->empty;
    return strlen(text) <= grammar->max && (grammar->separators ? is_word(grammar, text) : is_printable(text));
}

gboolean
weft_grammar_check(WeftGrammar grammar, const char *text, const char *what, GError **error)
{
    const Grammar *g = &grammars[grammar];
    if (grammar == WEFT_GRAMMAR_NONE || matches(g, text))
        return TRUE;
    g_autofree char *quoted = weft_text_quote(text);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID, "%s %s is not allowed: use %s, at most %u bytes", what, quoted, g->rule,
                g->max);
    return FALSE;
}

gboolean
weft_name_check(const char *name, const char *what, GError **error)
{
    return weft_grammar_check(WEFT_GRAMMAR_NAME, name, what, error);
}

gboolean
weft_host_name_check(const char *name, GError **error)
{
    return weft_grammar_check(WEFT_GRAMMAR_HOST, name, "host name", error);
}
