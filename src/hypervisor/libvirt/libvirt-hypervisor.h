/* The driver of real hosts: libvirt, remote or local. Hosts need nothing of ours but weft-hook.
 *
 * Connections. One per host tells of events and carries calls; it is opened with the first call and kept, with libvirt's
 * keepalive. Calls at the same time get further ones, of which a few are kept. A host that cannot be reached is dialled by one
 * call at a time and with growing pauses; whoever asks in between is told UNAVAILABLE at once. When one does not
 * answer a dial in time, or its connection broke, every TCP connection to it is ended: nothing waits for it forever. URIs:
 * qemu+tls, qemu+tcp (both dialled by TCP first, within the limit), qemu+ssh (never asks for a password), qemu:///system. Each
 * open byte stream has a connection of its own: libvirt has no flow control between the streams of a connection, so that one
 * guest that does not read would stop all others, and every call.
 *
 * Calls. libvirt's calls block and cannot be cancelled. Each runs on a helper thread; a caller that is cancelled leaves it
 * behind, and it ends by itself at the latest when the keepalive gives up. While a host has too many of those, new calls get
 * UNAVAILABLE. Calls about the same domain, image or network go one after another, those left behind included.
 *
 * Domains are transient: what a host forgets at a reboot is gone, as weft expects. A running domain carries the SHA-256 of the
 * definition that it was started from in a second element of <metadata>, as libvirt rewrites what it is given.
 *
 * Images. "image-<digest>" is written in order, so that its size says how much of it is there: a broken upload goes on from
 * there. It counts only beside an empty volume "image-<digest>.ok", which is made when the last byte was acknowledged, and only
 * with the right size. What is sent is checked: weftd's own file is hashed before the first byte leaves (once, until it
 * changes); from there on TCP or TLS, and the file system's order of data before size, are trusted. Reading it back would cost
 * as much as sending it again.
 *
 * Channels. The guest's channel is weft's alone: opening it ends the stream of a weftd before us that libvirtd still believes
 * in; what this driver itself has open is BUSY. A console is BUSY also when somebody else has it. A guest that sends more
 * than WEFT_STREAM_BUFFER that nobody reads has its channel ended, and so has one that reboots; of a console the excess is
 * dropped, as on a serial line.
 *
 * Events, streams and keepalive need GLib's main loop to run on the default context.
 *
 * Saved domains are libvirt's own files, in the pool. A domain that goes on from one gets its definition written into the
 * file's head first; one that was brought is copied for that. Memory to fork from, its state and its marks are where a reboot
 * empties them, a pool of their own for all but the memory: see hook.h and docs/decisions/0022-fork.md. States that were read
 * once are kept, since each fork sends its own. */
#pragma once

#include "backoff.h"
#include "hypervisor.h"

typedef struct WeftLibvirtOptions {
    gint64 dial_limit;     /* microseconds until a new connection must stand */
    guint keepalive;       /* seconds of silence before the host is asked; 0: never */
    guint keepalive_count; /* questions without an answer until it is given up */
    guint abandoned_max;   /* calls that nobody waits for any more, per host, until new ones are refused */
    WeftBackoff backoff;   /* between attempts to reach a host */
} WeftLibvirtOptions;

extern const WeftLibvirtOptions weft_libvirt_defaults;

#define WEFT_STREAM_BUFFER (8u << 20)

/* options NULL: the defaults. */
WeftHypervisor *weft_hypervisor_libvirt_new(const WeftLibvirtOptions *options, GError **error);
