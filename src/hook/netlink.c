#include "netlink.h"

#include "errors.h"

#include <errno.h>
#include <netlink/errno.h>
#include <netlink/socket.h>

typedef struct Socket {
    WeftNetlink base;
    struct nl_sock *socket;
} Socket;

#define TRIES 20 /* of a list that changed while it was told */

typedef struct Talk {
    GPtrArray *replies; /* struct nl_msg */
    gboolean done;
    int error; /* negative errno */
} Talk;

static int
on_valid(struct nl_msg *message, void *data)
{
    nlmsg_get(message);
    g_ptr_array_add(((Talk *)data)->replies, message);
    return NL_OK;
}

static int
on_end(struct nl_msg *message, void *data)
{
    ((Talk *)data)->done = TRUE;
    return NL_STOP;
}

static int
on_error(struct sockaddr_nl *from, struct nlmsgerr *problem, void *data)
{
    Talk *talk = data;
    talk->error = problem->error;
    talk->done = TRUE;
    return NL_STOP;
}

/* Until the kernel has said all. Returns what libnl does. */
static int
talk_once(Socket *self, struct nl_msg *request, struct nl_cb *callbacks, Talk *talk)
{
    int changed = 0;
    talk->done = FALSE;
    g_ptr_array_set_size(talk->replies, 0);
    nlmsg_hdr(request)->nlmsg_seq = NL_AUTO_SEQ;
    int status = nl_send_auto(self->socket, request);
    while (status >= 0 && !talk->done) {
        status = nl_recvmsgs(self->socket, callbacks);
        if (status == -NLE_DUMP_INTR)
            changed = status, status = 0;
    }
    return status < 0 ? status : changed;
}

/* Interfaces come and go while others are listed, as guests start side by side: then the kernel says that its list is none, and
 * is asked again. */
static int
talk_to_kernel(WeftNetlink *netlink, struct nl_msg *request, WeftNetlinkReply reply, gpointer data)
{
    g_autoptr(GPtrArray) replies = g_ptr_array_new_with_free_func((GDestroyNotify)nlmsg_free);
    Talk talk = { .replies = replies };
    struct nl_cb *callbacks = nl_cb_alloc(NL_CB_DEFAULT);
    if (!callbacks)
        return -ENOMEM;
    nl_cb_set(callbacks, NL_CB_VALID, NL_CB_CUSTOM, on_valid, &talk);
    nl_cb_set(callbacks, NL_CB_ACK, NL_CB_CUSTOM, on_end, &talk);
    nl_cb_set(callbacks, NL_CB_FINISH, NL_CB_CUSTOM, on_end, &talk);
    nl_cb_err(callbacks, NL_CB_CUSTOM, on_error, &talk);
    int status = -NLE_DUMP_INTR;
    for (guint i = 0; status == -NLE_DUMP_INTR && i < TRIES; i++)
        status = talk_once((Socket *)netlink, request, callbacks, &talk);
    nl_cb_put(callbacks);
    if (talk.error || status < 0)
        return talk.error ? talk.error : -EIO;
    for (guint i = 0; reply && i < replies->len; i++)
        reply(replies->pdata[i], data);
    return 0;
}

static void
close_socket(WeftNetlink *netlink)
{
    Socket *self = (Socket *)netlink;
    nl_socket_free(self->socket);
    g_free(self);
}

WeftNetlink *
weft_netlink_open(GError **error)
{
    struct nl_sock *socket = nl_socket_alloc();
    int status = socket ? nl_connect(socket, NETLINK_ROUTE) : -NLE_NOMEM;
    if (status < 0) {
        nl_socket_free(socket);
        weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot talk to the kernel by netlink: %s", nl_geterror(status));
        return NULL;
    }
    Socket *self = g_new0(Socket, 1);
    self->base = (WeftNetlink){ .talk = talk_to_kernel, .free = close_socket };
    self->socket = socket;
    return &self->base;
}

void
weft_netlink_free(WeftNetlink *netlink)
{
    if (netlink)
        netlink->free(netlink);
}

gboolean
weft_netlink_do(WeftNetlink *netlink, struct nl_msg *request, const char *what, GError **error)
{
    int status = netlink->talk(netlink, request, NULL, NULL);
    nlmsg_free(request);
    if (status < 0)
        weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot %s: %s", what, g_strerror(-status));
    return status == 0;
}

gboolean
weft_netlink_ask(WeftNetlink *netlink, struct nl_msg *request, WeftNetlinkReply reply, gpointer data, GError **error)
{
    int status = netlink->talk(netlink, request, reply, data);
    nlmsg_free(request);
    if (status < 0)
        weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot ask the kernel for its interfaces: %s", g_strerror(-status));
    return status == 0;
}
