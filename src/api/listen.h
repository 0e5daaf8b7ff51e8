/* Sockets that are bound and listen. -1 and an error where that fails. */
#pragma once

#include <glib.h>

/* A socket file that nobody listens on any more is replaced. mode: who may connect; group: … gets it; NULL: weftd's. */
int weft_listen_unix(const char *path, guint mode, const char *group, GError **error);
/* "127.0.0.1:7600", "[::1]:7600"; port 0 takes a free one. */
int weft_listen_tcp(const char *text, guint *ret_port, GError **error);
