/* A store of a few lines, to compare a real one with. Its state has the form of weft_store_dump(). */
#pragma once

#include "store.h"

typedef struct WeftStoreModel {
    json_t *state;
    guint outcomes[3]; /* how often: committed, conflict, exhausted */
} WeftStoreModel;

void weft_store_model_init(WeftStoreModel *model);
void weft_store_model_clear(WeftStoreModel *model);

/* A random transaction as data: [ { "op", "name", "expected", … }, … ]; revisions are those of now, mostly. */
json_t *weft_store_model_wish(WeftStoreModel *model, GRand *random);
WeftTxn *weft_store_model_txn(json_t *wish);
/* Applies it as the revision, or not at all. Returns the code of the error, -1: committed. */
int weft_store_model_apply(WeftStoreModel *model, json_t *wish, gint64 revision);
