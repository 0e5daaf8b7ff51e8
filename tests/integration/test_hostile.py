"""Clients that mean harm, or are only careless: what one of them does must neither reach another nor stop weftd."""

import contextlib
import json
import socket
import ssl
import threading
import time
from pathlib import Path

from harness.wait import until
from harness.weft import Client, UnixConnection, fresh_key

PROMPT = 2.0  # seconds in which anybody must get an answer, whatever the others do


def tenant_client(weft, principal):
    return Client(lambda: UnixConnection(weft.socket), weft.token(principal))


def raw(weft, text=b""):
    """A connection on which this was sent."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(10)
    connection.connect(str(weft.socket))
    connection.sendall(text)
    return connection


def request_text(path, token, *headers, method="GET", body=None):
    lines = [f"{method} {path} HTTP/1.1", "Host: weft", f"Authorization: Bearer {token}", *headers]
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


def stream_text(token):
    return request_text("/v1/events", token, "Accept: text/event-stream")


def seconds(call):
    start = time.monotonic()
    call()
    return time.monotonic() - start


def memory(weft):
    """Resident bytes of weftd."""
    fields = Path(f"/proc/{weft.process.pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


def descriptors(weft):
    return len(list(Path(f"/proc/{weft.process.pid}/fd").iterdir()))


# --- learning of others ---


def test_a_conflict_tells_no_revision(weft):
    """The revision counts the changes of everybody."""
    member = tenant_client(weft, "acme-member")
    member.create("cfd", 1)
    for _ in range(10):
        answers = finish_together(weft, [request_text("/v1/clusters/cfd", member.token, method="PATCH", body={"count": n % 3 + 1}) for n in range(60)])
        assert all(answer.startswith(("HTTP/1.1 200", "HTTP/1.1 429")) for answer in answers)
        assert all("revision" not in answer for answer in answers)


# --- what is remembered ---


def test_a_list_is_as_fresh_as_the_cluster(weft):
    def listed():
        return weft.client.get("/v1/clusters")["items"]

    for name, count in (("cfd", 2), ("md", 1)):
        weft.client.create(name, count)
        weft.client.wait_phase(name, "ready")
    assert listed() == [weft.client.cluster("cfd"), weft.client.cluster("md")]
    weft.client.scale("cfd", 3)
    assert listed()[0]["count"] == 3
    weft.client.wait_phase("cfd", "ready", ready=3)
    assert listed() == [weft.client.cluster("cfd"), weft.client.cluster("md")]
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    assert listed() == [weft.client.cluster("md")]
    made = weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    assert [cluster["id"] for cluster in listed()] == [made["id"], weft.client.cluster("md")["id"]]
