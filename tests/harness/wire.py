"""Requests as bytes, for what no decent client sends."""

import contextlib
import json
import socket
import ssl

from .wait import PATIENCE


def raw(weft, text=b""):
    """A connection on which this was sent."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE)
    connection.connect(str(weft.socket))
    with contextlib.suppress(ConnectionError):  # refused already: what weftd said of it can still be read
        connection.sendall(text)
    return connection


def secure(weft, text=b""):
    """The same over TLS."""
    context = ssl.create_default_context(cafile=weft.config["api"]["tls_certificate"])
    connection = context.wrap_socket(socket.create_connection(("127.0.0.1", weft.tcp_port()), timeout=PATIENCE), server_hostname="127.0.0.1")
    connection.sendall(text)
    return connection


def request_text(path, token, *headers, method="GET", body=None):
    """token None: as the local user."""
    lines = [f"{method} {path} HTTP/1.1", "Host: weft", *([f"Authorization: Bearer {token}"] if token else []), *headers]
    data = json.dumps(body) if body is not None else ""
    if data:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    return "\r\n".join([*lines, "", data]).encode()


def finish_together(weft, texts):
    """The answers to requests whose last bytes are sent together: weftd reads them all in one turn."""
    connections = [raw(weft, text[:-1]) for text in texts]
    for connection, text in zip(connections, texts):
        connection.sendall(text[-1:])
    answers = [connection.recv(1 << 16).decode() for connection in connections]
    for connection in connections:
        connection.close()
    return answers
