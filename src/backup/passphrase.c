#include "site-archive.h"

#include "errors.h"
#include "file.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>

#define FILE_MAX 4096

void
weft_passphrase_free(char *passphrase)
{
    if (passphrase)
        gnutls_memset(passphrase, 0, strlen(passphrase));
    g_free(passphrase);
}

gboolean
weft_passphrase_check(const char *passphrase, GError **error)
{
    gsize length = strlen(passphrase);
    return (length >= WEFT_PASSPHRASE_MIN && length <= WEFT_PASSPHRASE_MAX) ||
           weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "the passphrase has %" G_GSIZE_FORMAT " bytes; it must have from %d to %d", length,
                             WEFT_PASSPHRASE_MIN, WEFT_PASSPHRASE_MAX);
}

/* Without showing it. NULL: there is no terminal. */
static char *
ask(FILE *terminal, const char *prompt)
{
    struct termios before, silent;
    char line[WEFT_PASSPHRASE_MAX + 2] = "";
    if (tcgetattr(fileno(terminal), &before) < 0)
        return NULL;
    silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    fprintf(terminal, "%s: ", prompt);
    fflush(terminal);
    tcsetattr(fileno(terminal), TCSAFLUSH, &silent);
    const char *got = fgets(line, sizeof line, terminal);
    tcsetattr(fileno(terminal), TCSAFLUSH, &before);
    fputc('\n', terminal);
    char *passphrase = got ? g_strndup(line, strcspn(line, "\n")) : NULL;
    gnutls_memset(line, 0, sizeof line);
    return passphrase;
}

static char *
ask_twice(gboolean is_new, GError **error)
{
    FILE *terminal = fopen("/dev/tty", "r+e");
    char *first = terminal ? ask(terminal, "Passphrase") : NULL;
    char *second = first && is_new ? ask(terminal, "Passphrase again") : NULL;
    if (terminal)
        fclose(terminal);
    gboolean differ = first && is_new && g_strcmp0(first, second) != 0;
    weft_passphrase_free(second);
    if (first && !differ)
        return first;
    weft_passphrase_free(first);
    weft_error_refuse(error, WEFT_ERROR_INVALID, "%s",
                      differ ? "the two passphrases differ"
                             : "there is no terminal to ask for the passphrase on; give it with --passphrase-file FILE");
    return NULL;
}

char *
weft_passphrase_get(const char *file, gboolean is_new, GError **error)
{
    char *passphrase = file ? weft_file_read(file, FILE_MAX, NULL, error) : ask_twice(is_new, error);
    if (!passphrase)
        return NULL;
    passphrase[strcspn(passphrase, "\r\n")] = '\0';
    if (weft_passphrase_check(passphrase, error))
        return passphrase;
    weft_passphrase_free(passphrase);
    return NULL;
}
