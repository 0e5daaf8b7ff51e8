/* Names and labels. */
#pragma once

#include <glib.h>

/* Clusters, tenants, groups, principals, fabrics: a lower-case letter, then lower-case letters, digits and single '-',
 * not '-' at the end, at most WEFT_NAME_MAX. what is for the message ("cluster name"). */
gboolean weft_name_check(const char *name, const char *what, GError **error);
/* Hosts: as RFC 1123 host names, dots allowed, at most WEFT_HOST_NAME_MAX. */
gboolean weft_host_name_check(const char *name, GError **error);
