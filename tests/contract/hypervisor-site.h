/* What the files of the hypervisor suite share: a world with a driver on it, and calls as the cases want to read. */
#pragma once

#include "hypervisor-contract.h"

#define NODE "4k2m8w9x1a2b-1"
#define OTHER "4k2m8w9x1a2b-2"
#define SEED "what a node is told at its first boot"

typedef struct Site {
    const WeftHypervisorFixture *fixture;
    gpointer world;
    WeftHypervisor *hv;
    const WeftHostAddress *host;
} Site;

typedef void (*Case)(Site *site);

typedef struct NamedCase {
    const char *name; /* NULL: the last */
    Case run;
} NamedCase;

void start(Site *site, const char *node, guint memory, int code);
void stop(Site *site, const char *node, int code);
/* The host's domains in a line: "db:- weft-…-1:…-1 weft-…-2:…-2(off)". */
void expect_listing(Site *site, const char *expected);
void reopen(Site *site);

/* A start whose host compares the run, and a claim; former: runs before, NULL: none. */
void start_by(Site *site, const char *run, guint memory, const WeftDomainOrigin *origin, int code);
void
expect_claim(Site *site, const char *instance, const char *run, const char *former, gboolean take, WeftOwnerVerdict verdict);

/* --- hypervisor-saved.c --- */
extern const NamedCase saved_cases[];
