/* The texts of --help, made from the table of verbs. */
#pragma once

#include "verbs.h"

void weft_help_all(void);
void weft_help_group(const char *word); /* "host": its subverbs */
void weft_help_verb(const WeftVerb *verb);

/* The verb or subverb that a misspelt word most likely means; NULL: none is near. group NULL: among the verbs. */
char *weft_help_nearest(const char *group, const char *word);
