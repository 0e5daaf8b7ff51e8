/* Is a placement what was asked for? By the books, and by the exact solver; never by the scheduler's own code. Each returns
 * what is wrong, in words; NULL: nothing. */
#pragma once

#include "cases.h"
#include "exact.h"

#define CHECKS_PATIENCE 2000 /* milliseconds for a program */

/* Before it is noted in the books: whose hosts, how many of each group, each node as it was wished for, and the numbers that
 * placement tells beside it. */
char *checks_placement(const Books *books, const WeftFleet *fleet, const Case *it, const WeftPlacement *placement);
/* … of equal nodes of a new cluster: compact on the fewest leaves, the nearest where the fabric is a tree;
 * spread over as many as can be, and evenly. */
char *checks_layout(const Books *books, const WeftFleet *fleet, const Case *it, const WeftPlacement *placement);
/* After it was noted: no node is split or far from its devices while there is still room for it to be better. */
char *checks_locality(const Books *books, const Case *it);

/* All that is told of it, hosts by their names. */
char *checks_text(const WeftFleet *fleet, const WeftPlacement *placement);
