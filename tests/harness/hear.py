#!/usr/bin/python3
"""hear.py [SECONDS]: what bench/beat sends from nodes of this host, a line "time sent written wrong clock longest" each, for so
long or until standard input ends; all are told at the end, as nobody reads before. Times are seconds: of the kernel when it
got the datagram, and of the node. Runs on a host."""

import ctypes
import select
import socket
import struct
import sys
import time

PORT = 7777
UDP, ALL = 17, 3
BEAT = struct.Struct("QQQQQ")
START, STAMP = 42, 35  # where the datagram is in its frame; SO_TIMESTAMPNS
STAMPED = struct.Struct("ll")

# What a host sends while a node moves is much, and none of it is to be looked at here: the kernel passes IPv4, UDP, that port.
ATTACH_FILTER = 26
LOAD_HALF, LOAD_BYTE, JUMP_IF, RETURN = 0x28, 0x30, 0x15, 0x06
FILTER = ((LOAD_HALF, 0, 0, 12), (JUMP_IF, 0, 5, 0x0800), (LOAD_BYTE, 0, 0, 23), (JUMP_IF, 0, 3, UDP), (LOAD_HALF, 0, 0, 36), (JUMP_IF, 0, 1, PORT),
          (RETURN, 0, 0, 256), (RETURN, 0, 0, 0))


def attach(heard):
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in FILTER))
    heard.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, struct.pack("HL", len(FILTER), ctypes.addressof(program)))


def hear(heard):
    """One of them as a line; None: something else."""
    frame, told, _, (interface, *_) = heard.recvmsg(256, 64)
    if not interface.startswith("wef0") or len(frame) < START + BEAT.size:
        return None
    seconds, nanoseconds = STAMPED.unpack(told[0][2])
    sent, written, wrong, clock, longest = BEAT.unpack_from(frame, START)
    return f"{seconds}.{nanoseconds:09} {sent} {written} {wrong} {clock / 1e9} {longest / 1e9}\n"


def main():
    heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    attach(heard)
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
