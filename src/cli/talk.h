/* Connects sessions with the standard streams and signals of this process until all have ended. */
#pragma once

#include "session.h"

typedef struct WeftTalk WeftTalk;

/* labelled: several sessions; each line begins with its node, and nobody reads the standard input. Else it goes to the only
 * one, all keys as they are where its program has a terminal. */
WeftTalk *weft_talk_new(gboolean labelled, gboolean tty);
void weft_talk_free(WeftTalk *talk);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftTalk, weft_talk_free)

/* Takes the session over. */
void weft_talk_add(WeftTalk *talk, WeftSession *session);
/* The highest status of those that have ended. */
int weft_talk_status(const WeftTalk *talk);
/* Goes on until fewer than that many are left. FALSE: one of them was lost; the others go on at the next call. Also after a
 * second Ctrl-C: CANCELLED of G_IO_ERROR. */
gboolean weft_talk_until(WeftTalk *talk, guint fewer, GError **error);
