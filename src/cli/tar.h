/* Files as a stream of tar, to and from the program of that name in a node. */
#pragma once

#include "progress.h"
#include "session.h"

typedef struct WeftTar WeftTar;

typedef struct WeftTarOptions {
    WeftProgress *progress; /* NULL: nobody looks; borrowed */
    gboolean recursive;     /* folders too */
} WeftTarOptions;

/* Takes over the session, in which tar runs. */
WeftTar *weft_tar_new(WeftSession *session, const WeftTarOptions *options);
/* NULL is fine. */
void weft_tar_free(WeftTar *tar);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftTar, weft_tar_free)

/* Sends a file or folder, which is called name there. Others may follow; the end tells what tar made of them. */
gboolean weft_tar_send(WeftTar *tar, const char *path, const char *name, GError **error);
gboolean weft_tar_send_end(WeftTar *tar, GError **error);

/* Takes what tar was asked for as from, a file or folder, and makes it to in the current folder. Nothing that the node sends
 * gets elsewhere. */
gboolean weft_tar_receive(WeftTar *tar, const char *from, const char *to, GError **error);
