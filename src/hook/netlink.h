/* Messages to the kernel's network side. The seam: tests carry them to a kernel of their own making. */
#pragma once

#include <glib.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

typedef struct WeftNetlink WeftNetlink;

/* Called with each message of an answer. */
typedef void (*WeftNetlinkReply)(struct nl_msg *reply, gpointer data);

struct WeftNetlink {
    /* Sends the request and waits until it was acknowledged, or its dump ended. Returns 0 or a negative errno. */
    int (*talk)(WeftNetlink *netlink, struct nl_msg *request, WeftNetlinkReply reply, gpointer data);
    void (*free)(WeftNetlink *netlink);
};

WeftNetlink *weft_netlink_open(GError **error);
/* NULL is fine. */
void weft_netlink_free(WeftNetlink *netlink);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftNetlink, weft_netlink_free)

/* Sends the request, which it frees, and tells what could not be done with what: "cannot make bridge weft5: …". Without reply
 * the answer is dropped. */
gboolean weft_netlink_do(WeftNetlink *netlink, struct nl_msg *request, const char *what, GError **error);
gboolean weft_netlink_ask(WeftNetlink *netlink, struct nl_msg *request, WeftNetlinkReply reply, gpointer data, GError **error);
