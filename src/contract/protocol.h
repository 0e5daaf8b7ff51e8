/* What weftd, the command line and the guest program say to each other. Plain C without GLib: the guest program has none.
 *
 * weftd reaches a node through one byte stream, its virtio-serial port WEFT_PORT_NAME. Several sessions share it. The command
 * line speaks the same frames to weftd over an upgraded HTTP connection that carries WEFT_ONLY_SESSION.
 *
 * A conversation begins with a sync from weftd: WEFT_SYNC and a nonce of 16 random bytes; the guest program drops whatever came
 * before, ends the sessions of an earlier conversation, and answers with WEFT_SYNC, the same nonce and a WELCOME. weftd drops
 * whatever it reads until then. A sync may come at any time between frames: its first four bytes are no session. Whoever reads
 * something that is no frame looks for the next sync (the guest program) or gives the stream up (weftd). So that a frame which
 * an earlier weftd left half-written does not swallow the sync, weftd sends as many bytes 0xff before it as a frame can have.
 * A guest program that was started anew sends a sync of its own, its nonce all zeros: weftd's sessions are lost.
 *
 * Then frames go both ways, each a header of WEFT_FRAME_HEADER bytes and up to WEFT_FRAME_MAX bytes of payload:
 *
 *     be32 session   be16 type   be16 length
 *
 * Flow: a sender of DATA, ERROR_DATA holds at most what the receiver allowed it. Each direction of a session begins with
 * WEFT_WINDOW bytes; WINDOW allows more. Who sends more than allowed, or a malformed frame, has its session (or, where that is
 * unknown, its connection) ended. */
#pragma once

#include <stdint.h>

#define WEFT_PROTOCOL_VERSION 1
#define WEFT_PORT_NAME "dev.weft.guest.0"

#define WEFT_SYNC "\xff\xff\xff\xffweft-sync-1\n"
#define WEFT_SYNC_LENGTH 16 /* without a NUL */
#define WEFT_NONCE_LENGTH 16

#define WEFT_FRAME_HEADER 8
#define WEFT_FRAME_MAX 8192
#define WEFT_WINDOW 65536
#define WEFT_WINDOW_MAX 1048576 /* what WINDOW may make of it */
#define WEFT_SESSIONS_MAX 64    /* in one node */
#define WEFT_ONLY_SESSION 1     /* number of a client's */

#define WEFT_MEET_SECONDS 30
#define WEFT_MEET_UNREACHED "unreached"
#define WEFT_MEET_RAIL "port" /* … that it was promised */
#define WEFT_MEET_PORT 7447   /* UDP, on which each guest program answers the others on the partition */

#define WEFT_BECOME_RANDOM 64 /* bytes */
#define WEFT_QUIESCE_FOLDER "etc/weft/quiesce.d"
#define WEFT_QUIESCE_SECONDS 60

enum weft_frame_type {
    /* guest to weftd, session 0: "key=value" texts, each ended by NUL: version, hostname, boot (the kernel's boot id), template
     * (1: the node has no identity yet), hooks (how many wait in WEFT_QUIESCE_FOLDER) */
    WEFT_FRAME_WELCOME = 1,
    /* begins a session. Payload: NUL-ended texts, first the kind, then "key=value":
     *
     *   exec  arg=… (repeated; none: a login shell), tty=1, rows=, cols=, env=NAME=VALUE (repeated), dir=, user= (root if
     *         absent). At most WEFT_SESSIONS_MAX at once.
     *
     *   meet  the roster (see roster.h of src/seed) follows as DATA and EOF, with a line "within SECONDS" where weftd wants
     *         another time limit than WEFT_MEET_SECONDS. Answers lines of text as DATA, and EXIT 0 when this node has written
     *         its hosts and hostfile, and has reached every other node on the partition; else EXIT 1, and the last line says
     *         why. Where others do not answer, a line before it is WEFT_MEET_UNREACHED and their ranks, a space before each,
     *         once for each address. For each line "port" of the roster's head there is one WEFT_MEET_RAIL, its rail, and:
     *             active          the port works, and so does the rail's IPoIB interface
     *             missing         no device inside has a port with this GUID
     *             state NUMBER    the port's state, which is not 4 (active)
     *             pkey 0xHHHH     … has another P_Key at index 0
     *             no-ipoib        … works, but no interface of its GUID has the rail's address
     *         EXIT 0 needs all of them to be active, and others to be reached on each of these rails. A guest program that
     *         says nothing of ports is older than this question.
     *
     *   settle  the node was booted from a seed without identity: gets it ready to be captured. EXIT 0 when nothing moves any
     *         more; REFUSE, where it cannot be captured at all, with the reason: such nodes boot for themselves.
     *
     *   become  gives the node its identity, once; the same again changes nothing, and another one is refused. Lines follow as
     *         DATA and EOF, in any order:
     *             random HEX               WEFT_BECOME_RANDOM bytes or more that nobody else has
     *             node BASE64              the text of the seed's weft/node
     *             file PATH MODE BASE64    the seed's weft/files/PATH, its mode in octal; repeated
     *             was ID                   the node's identity until now, where it is a running node's copy
     *         EXIT 0 when all is in place but the network devices: these are set up as they come, before this or after.
     *
     *   quiesce  gets a running node ready to stand still or to lose devices: hooks, file systems, network. DATA and EOF: the
     *         lines "within SECONDS" (WEFT_QUIESCE_SECONDS otherwise) and "hooks needed", both optional. Answers "hooks N" and
     *         more lines; EXIT 0, or EXIT 1 when a hook failed, or none is there though needed: then all is as it was before.
     *
     *   resume  undoes it, wherever the node runs by now: clock, devices, hooks. "within SECONDS" as above; "node ID" where it
     *         goes on as another node than was saved, its hostname, keys and addresses being the same; "rail RAIL GUID" for
     * each port that it has there. EXIT 1 when a hook failed, or a device that it had did not come back: the rest is done all
     * the same.
     *
     * All but exec are for weftd alone to ask. It tells the time with them: now=MICROSECONDS since 1970, as a key of OPEN. */
    WEFT_FRAME_OPEN,
    WEFT_FRAME_DATA,       /* to the guest: standard input; from it: standard output, or the terminal */
    WEFT_FRAME_ERROR_DATA, /* standard error */
    WEFT_FRAME_EOF,        /* no more DATA in this direction */
    WEFT_FRAME_WINDOW,     /* be32: so many bytes more may be sent to me, as I have taken that many */
    WEFT_FRAME_SIGNAL,     /* be32, to the guest: for the session's process group */
    WEFT_FRAME_RESIZE,     /* be16 rows, be16 columns, to the guest */
    WEFT_FRAME_EXIT,       /* be32, from the guest, last: exit status, or 128 + signal */
    WEFT_FRAME_REFUSE,     /* from the guest or weftd, last: a text that says why the session ended or did not begin */
    WEFT_FRAME_CLOSE,      /* to the guest, last: nobody listens any more; hang up (SIGHUP, then SIGKILL) */
    WEFT_FRAME_TYPES
};

struct weft_frame {
    uint32_t session;
    uint16_t type;
    uint16_t length;
};

static inline void
weft_frame_encode(const struct weft_frame *frame, uint8_t header[WEFT_FRAME_HEADER])
{
    header[0] = (uint8_t)(frame->session >> 24);
    header[1] = (uint8_t)(frame->session >> 16);
    header[2] = (uint8_t)(frame->session >> 8);
    header[3] = (uint8_t)frame->session;
    header[4] = (uint8_t)(frame->type >> 8);
    header[5] = (uint8_t)frame->type;
    header[6] = (uint8_t)(frame->length >> 8);
    header[7] = (uint8_t)frame->length;
}

/* 0 when the header cannot be one. */
static inline int
weft_frame_decode(const uint8_t header[WEFT_FRAME_HEADER], struct weft_frame *ret_frame)
{
    ret_frame->session = (uint32_t)header[0] << 24 | (uint32_t)header[1] << 16 | (uint32_t)header[2] << 8 | header[3];
    ret_frame->type = (uint16_t)(header[4] << 8 | header[5]);
    ret_frame->length = (uint16_t)(header[6] << 8 | header[7]);
    return ret_frame->type > 0 && ret_frame->type < WEFT_FRAME_TYPES && ret_frame->length <= WEFT_FRAME_MAX;
}
