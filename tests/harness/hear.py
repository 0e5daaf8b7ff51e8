#!/usr/bin/python3
"""hear.py SECONDS: what bench/beat sends from nodes of this host, a line "time sent written" each. Runs on a host."""

import socket
import struct
import sys
import time

PORT = 7777
UDP, IPV4, ALL = 17, b"\x08\x00", 3


def main():
    heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    heard.settimeout(0.2)
    end = time.time() + float(sys.argv[1])
    while time.time() < end:
        try:
            frame, (interface, *_) = heard.recvfrom(256)
        except socket.timeout:
            continue
        if not interface.startswith("wef0") or len(frame) < 58 or frame[12:14] != IPV4 or frame[23] != UDP:
            continue
        if struct.unpack(">H", frame[36:38])[0] == PORT:
            print(time.time(), *struct.unpack("QQ", frame[42:58]), flush=True)


main()
