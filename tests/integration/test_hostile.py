"""Clients that mean harm, or are only careless: what one of them does must neither reach another nor stop weftd."""

import contextlib
import os
import re
import resource
import socket
import time
from collections import Counter
from pathlib import Path

import pytest
from harness.wait import until
from harness.weft import Client, UnixConnection, fresh_key
from harness.wire import finish_together, raw, request_text

NOBODY = 65534


def tenant_client(weft, principal):
    return Client(lambda: UnixConnection(weft.socket), weft.token(principal))


def stream_text(token):
    return request_text("/v1/events", token, "Accept: text/event-stream")


def memory(weft):
    """Resident bytes of weftd."""
    fields = Path(f"/proc/{weft.process.pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


LISTENING = 2  # sockets of weftd that nobody is connected to


def opened(weft):
    """How many descriptors it has of each kind."""
    kinds = Counter()
    for path in Path(f"/proc/{weft.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            kinds[os.readlink(path).split(":")[0]] += 1
    return kinds


# --- learning of others ---


def test_a_conflict_tells_no_revision(weft):
    """The revision counts the changes of everybody."""
    member = tenant_client(weft, "acme-member")
    member.create("cfd", 1)
    for _ in range(10):
        answers = finish_together(weft, [request_text("/v1/clusters/cfd", member.token, method="PATCH", body={"count": n % 3 + 1}) for n in range(60)])
        assert all(answer.startswith(("HTTP/1.1 200", "HTTP/1.1 429")) for answer in answers)
        assert all("revision" not in answer for answer in answers)


def test_a_tenant_reads_of_no_host(weft):
    """What a driver says of a failure names the host, and perhaps somebody else's domain there."""
    viewer, token = tenant_client(weft, "acme-viewer"), weft.token("acme-viewer")
    for host in weft.config["hosts"]:
        weft.world.fault("fail start 0 domain weft-4kother00000-7 has core 3 already", host=host["name"])
    weft.client.create("cfd", 1)
    until(lambda: any(event["type"] == "node-failed" for event in weft.client.events()), lambda: weft.client.events())
    until(lambda: "host n" in (weft.client.cluster("cfd")["detail"] or ""), lambda: weft.client.cluster("cfd"))
    texts = [viewer.request("GET", path).text for path in ("/v1/clusters", "/v1/clusters/cfd", "/v1/clusters/cfd/nodes", "/v1/events")]
    with contextlib.closing(raw(weft, request_text("/v1/events", token, "Accept: text/event-stream", "Last-Event-ID: " + "0" * 16))) as stream:
        heard = ""
        while "its host" not in heard:
            heard += stream.recv(1 << 16).decode()
    for text in (*texts, heard):
        assert not re.search(r"host n\d|weft-4kother", text), text
    assert "cfd[0]: its host cannot be reached" in texts[3]
    assert "core 3" in weft.client.request("GET", "/v1/events").text


def test_a_tenant_reads_nothing_of_a_driver_that_does_not_get_inside(site):
    """What a node says of its meeting is its tenant's to read; why it could not be asked is not."""
    weft = site(changes={"control": {"link_idle": "50ms"}})
    viewer = tenant_client(weft, "acme-viewer")
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    until(lambda: opened(weft)["socket"] <= LISTENING, lambda: f"no link is open, and one is opened anew for the meeting: {opened(weft)}")
    weft.world.fault("broken open 0 /var/run/secret-place of host n1")
    weft.client.scale("cfd", 1)
    until(lambda: "secret-place" in (weft.client.cluster("cfd")["detail"] or ""), lambda: weft.client.cluster("cfd"))
    for path in ("/v1/clusters", "/v1/clusters/cfd", "/v1/clusters/cfd/nodes", "/v1/events"):
        assert "secret-place" not in viewer.request("GET", path).text


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


# --- at the same moment: what is made must not outlive what it belongs to; the ledger at the end tells ---


def test_a_tenant_goes_while_it_gets_a_cluster(weft):
    token, body = weft.token("ada"), {"name": "cfd", "count": 1, "cores": 16, "memory": "256M", "image": "mpi"}
    for n in range(20):
        weft.client.expect(201, "POST", "/v1/tenants", {"name": f"brief{n}"})
        gone, made = finish_together(weft, [request_text(f"/v1/tenants/brief{n}", token, method="DELETE"),
                                            request_text(f"/v1/clusters?tenant=brief{n}", token, method="POST", body=body)])
        assert (gone[9:12], made[9:12]) in (("204", "404"), ("409", "201")), (gone, made)


def test_a_principal_goes_while_it_gets_a_token(weft):
    token = weft.token("ada")
    for n in range(20):
        weft.client.expect(201, "POST", "/v1/principals", {"name": f"brief{n}", "role": "operator"})
        gone, made = finish_together(weft, [request_text(f"/v1/principals/brief{n}", token, method="DELETE"),
                                            request_text("/v1/tokens", token, method="POST", body={"principal": f"brief{n}"})])
        assert made[9:12] in ("404", "201") and gone[9:12] == "204", (gone, made)


# --- taking everything ---


def test_one_principal_cannot_take_all_streams(site):
    weft = site(changes={"api": {"streams": 16}})
    greedy, other = weft.token("acme-viewer"), weft.token("umbrella-viewer")
    taken = [raw(weft, stream_text(greedy)) for _ in range(20)]
    statuses = [connection.recv(4096)[:12] for connection in taken]
    mine = raw(weft, stream_text(other))
    assert mine.recv(4096).startswith(b"HTTP/1.1 200")
    assert statuses.count(b"HTTP/1.1 200") == 4 and statuses.count(b"HTTP/1.1 429") == 16
    for connection in (*taken, mine):
        connection.close()


@contextlib.contextmanager
def as_nobody(weft):
    """What connects meanwhile is another user, who may reach the socket."""
    weft.root.chmod(0o711)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to be somebody else")
def test_one_user_cannot_take_all_connections(site):
    weft = site(changes={"api": {"connections": 40, "connections_per_address": 10, "idle_timeout": "5m"}})
    with as_nobody(weft):
        held = [raw(weft, b"GET /v1/version HTTP/1.1\r\n") for _ in range(60)]
    assert weft.client.get("/v1/version")

    def ended(connection):
        connection.setblocking(False)
        try:
            return connection.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:  # refused, with a request that nobody read
            return True

    until(lambda: sum(map(ended, held)) == 50, lambda: f"{sum(map(ended, held))} ended")
    for connection in held:
        connection.close()

    def heard():
        with as_nobody(weft), contextlib.closing(raw(weft, b"GET /v1/version HTTP/1.1\r\nHost: weft\r\n\r\n")) as connection:
            try:
                return connection.recv(4096).startswith(b"HTTP/1.1 401")
            except ConnectionResetError:  # they still count
                return False

    until(heard, "those that were closed no longer count")


def test_long_reads_leave_room(weft):
    """Who reads all that it can waits for its own turns; others have theirs."""
    token = weft.token("acme-viewer")
    weft.client.create("cfd", 4)
    weft.client.wait_phase("cfd", "ready")
    answers = finish_together(weft, [request_text("/v1/usage", token) for _ in range(60)])
    codes = {answer[9:12] for answer in answers}
    assert codes == {"200"} or codes == {"200", "429"}
    assert weft.client.get("/v1/version")
    assert tenant_client(weft, "umbrella-viewer").get("/v1/usage")["tenants"]


def test_connections_leave_descriptors_for_the_hosts(site):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        weft = site()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    held = [raw(weft, b"GET /v1/ver") for _ in range(100)]
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    for connection in held:
        connection.close()


# --- never ending, never reading ---


def test_a_request_must_end(site):
    """A byte now and then does not hold a connection for ever."""
    weft = site(changes={"api": {"idle_timeout": "1s"}})
    with contextlib.closing(raw(weft, b"GET /v1/version HTTP/1.1\r\nX-Slow: ")) as slow:

        def ended():
            try:
                return slow.sendall(b"x")
            except (BrokenPipeError, ConnectionResetError):
                return True

        until(ended, "it is ended, though a byte came each time")


def test_streams_that_are_not_read_cost_nothing(site):
    weft = site(changes={"api": {"idle_timeout": "1s"}})
    for _ in range(30):
        weft.client.create("cfd", 1)
        weft.client.delete("cfd")
        weft.client.wait_gone("cfd")
    token = weft.token("acme-viewer")
    before, size = opened(weft).total(), memory(weft)
    for _ in range(5):
        for connection in [raw(weft, request_text("/v1/events", token, "Accept: text/event-stream", "Last-Event-ID: " + "0" * 16)) for _ in range(20)]:
            connection.close()
    until(lambda: opened(weft).total() <= before + 2, lambda: f"{opened(weft).total()} descriptors, {before} before")
    assert memory(weft) - size < 32 << 20


BROKEN = [
    b"GET\r\n\r\n", b"GET /v1/version\r\n\r\n", b"GET /v1/version HTTP/9.9\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"GET /" + b"a" * 100000,
    b"GET /v1/version HTTP/1.1\r\nno colon\r\n\r\n", b"GET /v1/version HTTP/1.1\r\n" + b"X: y\r\n" * 20000,
    b"POST /v1/clusters HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/clusters HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"POST /v1/clusters HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"POST /v1/clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /v1/version HTTP/1.1\r\nHost: x\r\n\r\n" * 500,
]


def send_broken(weft, text):
    """On twenty connections, which weftd ends, each."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(contextlib.closing(raw(weft))) for _ in range(20)]
        for connection in connections:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
        for connection in connections:
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(1 << 16):
                    pass
        until(lambda: opened(weft)["socket"] <= LISTENING, lambda: f"none of their sockets is left: {opened(weft)}")


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_broken_http_leaves_nothing_behind(site, text):
    """Each is answered or given up. Once first: weftd may begin to use something that it keeps."""
    weft = site(changes={"api": {"idle_timeout": "1s"}})
    weft.client.get("/v1/fabrics/ib0/tables")  # from its first patrol on, which may be late, it watches the fake's partitions
    send_broken(weft, text)
    before = opened(weft)
    send_broken(weft, text)
    until(lambda: opened(weft).total() <= before.total(), lambda: f"nothing of them is left: {opened(weft) - before}")
    assert weft.client.get("/v1/version")


SMUGGLED = b"GET /v1/whoami HTTP/1.1\r\nHost: x\r\n\r\n"
AMBIGUOUS = {
    "both": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "twice": b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED),
    "blank": b"Content-Length : %d\r\n\r\n" % len(SMUGGLED),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_request_with_two_ends_is_the_last(weft, name):
    """A proxy in front may see one request where weftd sees two."""
    with contextlib.closing(raw(weft, b"POST /v1/hosts/n1/undrain HTTP/1.1\r\nHost: x\r\n" + AMBIGUOUS[name] + SMUGGLED)) as connection:
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(1 << 16):
                heard += part
    assert heard.startswith(b"HTTP/1.1 400") and heard.count(b"HTTP/1.1") == 1 and b'"role"' not in heard


def test_clients_that_leave_while_weftd_works(weft):
    """What they asked for is done or not done, and its answer has nobody to go to."""
    token = weft.token("acme-member")
    for n in range(40):
        spec = {"name": f"c{n}", "count": 1, "cores": 1, "memory": "256M", "image": "mpi"}
        leaving = [raw(weft, request_text("/v1/clusters", token, method="POST", body=spec)), raw(weft, request_text("/v1/usage", token))]
        time.sleep(n / 10000)
        for connection in leaving:
            connection.close()
    assert weft.client.get("/v1/clusters")


def test_stops_with_everything_open(weft):
    """Streams, half requests, unread answers and commits on their way."""
    token = weft.token("acme-member")
    texts = [stream_text(token), request_text("/v1/usage", token), b"GET /v1/ver", b"POST /v1/clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{"]
    held = [raw(weft, text) for text in texts for _ in range(10)]
    for n in range(20):
        spec = {"name": f"c{n}", "count": 1, "cores": 1, "memory": "256M", "image": "mpi"}
        held.append(raw(weft, request_text("/v1/clusters", token, method="POST", body=spec)))
    weft.stop()
    for connection in held:
        connection.close()


# --- once and only once ---


def test_the_same_key_at_the_same_instant(weft):
    token = weft.token("acme-member")
    spec = {"name": "cfd", "count": 1, "cores": 1, "memory": "256M", "image": "mpi"}
    text = request_text("/v1/clusters", token, f"Idempotency-Key: {fresh_key()}", method="POST", body=spec)
    answers = finish_together(weft, [text] * 30)
    assert all(answer.startswith("HTTP/1.1 201") for answer in answers)
    assert len({answer.partition("\r\n\r\n")[2] for answer in answers}) == 1
    assert sum("Idempotent-Replayed" not in answer for answer in answers) == 1
