/* Which URIs of libvirt a host may have. libvirt's parameters can name a program to run, a library's socket or files of weftd's
 * machine, and turn checks off; what is not in the table of host-uri.c is refused. Pure. */
#pragma once

#include <glib.h>

/* FALSE with INVALID: the message names what is wrong with it and what to write instead. */
gboolean weft_host_uri_check(const char *text, GError **error);
