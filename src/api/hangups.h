/* Tells when clients hang up on requests that are being worked on: the HTTP library does not look at a suspended connection,
 * and would find out when it has an answer to send. One descriptor for all of them. thread: main. */
#pragma once

#include <glib.h>

typedef struct WeftHangups WeftHangups;

/* Called at most once for each time that a connection is watched; it may forget any. */
typedef void (*WeftHungUp)(gpointer data);

WeftHangups *weft_hangups_new(WeftHungUp hung_up);
/* NULL is fine. */
void weft_hangups_free(WeftHangups *hangups);

/* A client that only stops sending has not hung up. fd: borrowed until it is forgotten. */
void weft_hangups_watch(WeftHangups *hangups, int fd, gpointer data);
void weft_hangups_forget(WeftHangups *hangups, int fd);
