/* The inside of a transaction, for implementations of store.h only. */
#pragma once

#include "store.h"

typedef struct WeftClaim {
    char *resource;
    guint64 amount; /* 0: exclusive */
    guint64 limit;
} WeftClaim;

typedef enum { WEFT_OP_PUT, WEFT_OP_DELETE, WEFT_OP_EXPECT } WeftOpType;

typedef struct WeftOp {
    WeftOpType type;
    WeftKind kind;
    char *key;
    char *scope;
    char *place;
    char *value;        /* NULL: not made yet */
    WeftLateValue late; /* … but by this */
    gint64 expected;
    gboolean keep_claims;
    GArray *claims; /* WeftClaim; NULL: none */
} WeftOp;

struct WeftTxn {
    char *name;
    GArray *ops; /* WeftOp */
    gboolean leaves_reserve;
};

/* Makes those that are not there yet. thread: the one that writes it. */
void weft_txn_make_values(WeftTxn *txn);
/* Frees values and claims, which may be many, once it was written or refused; not what watchers are told. thread: the same. */
void weft_txn_drop_values(WeftTxn *txn);
