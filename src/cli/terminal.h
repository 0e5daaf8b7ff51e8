/* The terminal that weft runs on, and the signals that it sends. */
#pragma once

#include <glib.h>
#include <poll.h>

/* From now on Ctrl-C and its like, and changes of the size, are kept until they are asked for, and come in
 * weft_terminal_poll() only. */
void weft_terminal_catch(void);
/* As poll(); ends with -1 when a signal came. */
int weft_terminal_poll(struct pollfd *fds, guint n, int timeout_ms);
/* The next signal that was caught; 0: none. */
int weft_terminal_signal(void);

/* Every key goes through as it is, until weft_terminal_restore() or the end of the process. FALSE: standard input is no
 * terminal. */
gboolean weft_terminal_make_raw(void);
void weft_terminal_restore(void);

/* 24 rows of 80 columns where nobody knows. */
void weft_terminal_size(guint *ret_rows, guint *ret_columns);
