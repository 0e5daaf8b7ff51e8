/* A failpoint is a named place where a test may kill the process.
 *
 * WEFT_FAILPOINT=NAME     raises SIGKILL the first time that NAME is reached
 * WEFT_FAILPOINT=NAME:3   … the third time
 * WEFT_FAILPOINT_LOG=FILE appends the name of each failpoint that is reached, a line each
 *
 * Without these variables a failpoint costs one load and one branch. thread: any. */
#pragma once

void weft_failpoint(const char *name);

/* The failpoint "NAME-EDGE", for places that several named steps share: edge is "before" or "after". */
void weft_failpoint_edge(const char *name, const char *edge);
