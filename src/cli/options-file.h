/* opensm's options on this machine, for the verbs that tell or write them. */
#pragma once

#include "cli.h"
#include "options.h"

typedef struct WeftOptionsFile {
    const char *path;
    gboolean write;    /* else tell what to change */
    const char *after; /* what is left to do once it is written */
} WeftOptionsFile;

/* "" where there is no such file. */
char *weft_options_file_read(const char *path, GError **error);
/* Prints what to take out and to put in, or writes it and keeps the old file beside it. Exit status 1 where something is to be
 * changed and was not. */
gboolean
weft_options_file_settle(WeftCli *cli, const WeftOptionsFile *file, const char *text, const GPtrArray *found, GError **error);
