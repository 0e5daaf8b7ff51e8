/* weft doctor --selftest: small clusters on real hosts, looked at from inside, and removed again. Through the API alone. */
#pragma once

#include "cli.h"

typedef struct WeftSelftestWish {
    const char *hosts;  /* hostlist; NULL: two of one fabric that are free, else one */
    const char *image;  /* NULL: the site's default */
    const char *memory; /* of each node */
    const char *path;   /* NULL: virtual functions where the hosts have some, else the bridge */
    char **skip;        /* names of checks; NULL: none */
    gint64 timeout;     /* of each step that is waited for, microseconds */
    gboolean dry_run;
} WeftSelftestWish;

/* Prints a line for each check, or all as JSON; cli->status is 1 where one failed. What it made is removed whatever happened;
 * CANCELLED of G_IO_ERROR after Ctrl-C. */
gboolean weft_selftest(WeftCli *cli, const WeftSelftestWish *wish, GError **error);
