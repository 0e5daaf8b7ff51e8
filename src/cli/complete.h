/* Candidates for the shell's completion. */
#pragma once

#include "cli.h"

/* Prints what the last of the words may become, a line each; names come from the API. cli->client may be NULL. */
void weft_complete(WeftCli *cli, char **words);
