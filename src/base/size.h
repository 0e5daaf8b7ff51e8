/* Sizes and rates as people write them. Memory: "8G" and "8Gi" are both 2^30 bytes, as for qemu and Slurm. */
#pragma once

#include <glib.h>

/* Accepts a number with one of K M G T (P), optionally followed by i or iB; a plain number is bytes. No sign, no blanks, no
 * fractions that are not whole bytes ("1.5G" is fine). The error names the text and the remedy. */
gboolean weft_size_parse(const char *text, guint64 *ret_bytes, GError **error);

/* The shortest exact form: 8589934592 is "8G", 1000 is "1000". */
char *weft_size_format(guint64 bytes);
/* For people to read: 142447143 is "136M"; in the largest unit of which there are ten. */
char *weft_size_about(guint64 bytes);

/* Bits a second: "10G" is 10^10, as for links. Otherwise like sizes, without i. */
gboolean weft_rate_parse(const char *text, guint64 *ret_bits, GError **error);
char *weft_rate_format(guint64 bits);
