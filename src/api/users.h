/* The names of this machine's users. They may come from a directory that answers slowly or not at all, so another thread asks
 * for them. What was found is remembered for a while, and so is that somebody has no name. thread: main. */
#pragma once

#include <glib.h>

typedef struct WeftUsers WeftUsers;

/* Names a user; NULL: nobody has that number, or it cannot be found out (then *ret_failed is TRUE). thread: any; may block. */
typedef char *(*WeftUserResolver)(guint uid, gboolean *ret_failed);

/* resolve NULL: the system's own. patience: how long somebody waits for a name; memory: how long one is not asked for again,
 * both in microseconds. The names of root and of weftd's user are found at once, and known for ever. */
WeftUsers *weft_users_new(WeftUserResolver resolve, gint64 patience, gint64 memory);
/* Whoever still waits is called with NULL. NULL is fine. */
void weft_users_free(WeftUsers *users);

/* name: its number in digits where it has none, NULL where that is not known within the patience. */
typedef void (*WeftUserFound)(const char *name, gpointer data);
/* found may be called before this returns. */
void weft_users_find(WeftUsers *users, guint uid, WeftUserFound found, gpointer data);
