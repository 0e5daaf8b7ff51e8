/* Random identifiers: never sequential, so that they tell nothing of other tenants' counts. */
#pragma once

#include <glib.h>

/* Length of the identifiers that weft_id_new() makes. */
#define WEFT_ID_LENGTH 12

/* A fresh identifier: lower-case letters and digits, the first a digit, so that it can never be taken for a name.
 * 60 random bits from the kernel. */
char *weft_id_new(void);
gboolean weft_id_is_valid(const char *text);

/* n random bytes from the kernel; aborts if the kernel has none to give, which Linux does not do after boot. */
void weft_random_bytes(void *buffer, gsize n);
guint64 weft_random_u64(void);
