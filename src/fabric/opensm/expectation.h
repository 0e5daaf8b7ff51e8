/* What ports must hold once a change is done, and whether a table that was read does. Pure. */
#pragma once

#include "fabric.h"

typedef struct WeftExpectation WeftExpectation;

WeftExpectation *weft_expectation_new(void);
void weft_expectation_free(WeftExpectation *expectation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftExpectation, weft_expectation_free)

/* Members of old that are not in the new one must not have it any more. Either may be NULL. */
void weft_expectation_add(WeftExpectation *expectation, const WeftPartition *old, const WeftPartition *wanted);
/* guint64: the ports of which something is expected. */
GArray *weft_expectation_ports(const WeftExpectation *expectation);
/* The first P_Key (15 bits) that the port has not as it must; 0: all is right. A table that was not read lacks what it must
 * have. */
guint weft_expectation_missed(const WeftExpectation *expectation, const WeftPortTable *table);
/* Whether the table has room for what it must get; of the own and the switch's. */
gboolean weft_expectation_fits(const WeftExpectation *expectation, const WeftPortTable *table);
