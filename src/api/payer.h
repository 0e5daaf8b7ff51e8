/* On whose account something is done: what is limited is limited for each tenant as a whole and for each principal in it, for
 * each operator, and for strangers as a whole and each by where it comes from. */
#pragma once

#include <glib.h>

typedef enum {
    WEFT_PAYER_STRANGER, /* has not said who it is */
    WEFT_PAYER_TENANT,   /* a principal of a tenant */
    WEFT_PAYER_OPERATOR, /* an operator or an admin */
    WEFT_PAYERS
} WeftPayerKind;

typedef struct WeftPayer {
    WeftPayerKind kind;
    const char *tenant; /* "" where there is none */
    const char *name;   /* that no other payer has: "acme/alice", "/ada", "uid 1000", "192.0.2.7" */
} WeftPayer;
