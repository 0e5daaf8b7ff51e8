#!/usr/bin/python3
"""hear.py [SECONDS]: what bench/beat sends from nodes of this host, a line "time sent written wrong clock longest" each, for so
long or until standard input ends; all are told at the end, as nobody reads before. Times are seconds: of the kernel when it
got the datagram, and of the node. Runs on a host."""

import select
import socket
import struct
import sys
import time

PORT = 7777
UDP, IPV4, ALL = 17, b"\x08\x00", 3
BEAT = struct.Struct("QQQQQ")
START, STAMP = 42, 35  # where the datagram is in its frame; SO_TIMESTAMPNS
STAMPED = struct.Struct("ll")


def hear(heard):
    """One of them as a line; None: something else."""
    frame, told, _, (interface, *_) = heard.recvmsg(256, 64)
    if not interface.startswith("wef0") or len(frame) < START + BEAT.size or frame[12:14] != IPV4 or frame[23] != UDP:
        return None
    if struct.unpack(">H", frame[36:38])[0] != PORT:
        return None
    seconds, nanoseconds = STAMPED.unpack(told[0][2])
    sent, written, wrong, clock, longest = BEAT.unpack_from(frame, START)
    return f"{seconds}.{nanoseconds:09} {sent} {written} {wrong} {clock / 1e9} {longest / 1e9}\n"


def main():
    heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    heard.setsockopt(socket.SOL_SOCKET, STAMP, 1)
    end = time.monotonic() + float(sys.argv[1]) if len(sys.argv) > 1 else None
    sources = [heard] if end else [heard, sys.stdin]
    lines = []
    while not end or time.monotonic() < end:
        ready = select.select(sources, [], [], 0.2)[0]
        if heard in ready:
            lines.append(hear(heard))
        elif sys.stdin in ready:
            break
    sys.stdout.writelines(filter(None, lines))


main()
