/* What every implementation of store.h must do; nothing here knows how it does it. */
#pragma once

#include "store.h"

typedef struct WeftStoreFixture {
    const char *name;
    gpointer (*create)(void);           /* a place for one store, empty */
    WeftStore *(*open)(gpointer place); /* the store in it; again after it was freed */
    void (*destroy)(gpointer place);
} WeftStoreFixture;

/* Adds the suite to the tests of this program. */
void weft_store_contract_add(const WeftStoreFixture *fixture);
