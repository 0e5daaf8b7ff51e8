/* Files as a stream of tar to and from the program of that name in a node. */
#pragma once

#include "progress.h"
#include "session.h"

typedef struct WeftTar {
    WeftSession *session; /* in which tar runs */
    WeftProgress *progress;
    gboolean recursive; /* folders too */
} WeftTar;

/* Sends a file or folder that is there called name. Several may follow each other; weft_tar_send_end() tells what tar made of
 * them. */
typedef struct WeftTarSender WeftTarSender;
WeftTarSender *weft_tar_sender_new(const WeftTar *tar, GError **error);
gboolean weft_tar_send(WeftTarSender *sender, const char *path, const char *name, GError **error);
gboolean weft_tar_sender_finish(WeftTarSender *sender, GError **error);
/* NULL is fine. */
void weft_tar_sender_free(WeftTarSender *sender);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftTarSender, weft_tar_sender_free)

/* Takes what tar was asked for as from, a file or folder, and makes it to in the current folder. Nothing that the node sends
 * gets elsewhere. */
gboolean weft_tar_receive(const WeftTar *tar, const char *from, const char *to, GError **error);

/* The session's end: FALSE where the program in it failed, with the last that it said. */
gboolean weft_tar_await_end(WeftSession *session, GError **error);
