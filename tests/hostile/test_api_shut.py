"""Clients that want to keep everybody else from the API: each limit is met, somebody else still gets in, and weftd comes back."""

import contextlib
import os
import resource
import select
import signal
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from harness.process import text_of
from harness.wait import until
from harness.weft import Client, UnixConnection, build_folder, surroundings
from harness.wire import raw, request_text

HALF = b"GET /v1/version HTTP/1.1\r\nX-Half: "
WHOLE = b"GET /v1/version HTTP/1.1\r\nHost: weft\r\n\r\n"
FIRST_USER = 3000000  # and those after it: nobody has these numbers
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="takes root to be somebody else")


@pytest.fixture
def crowd():
    """Connections that are held until the test ends."""
    with contextlib.ExitStack() as stack:
        yield lambda connection: stack.enter_context(contextlib.closing(connection))


@contextlib.contextmanager
def as_user(weft, uid):
    """What connects in the meantime is this user."""
    weft.root.chmod(0o711)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@contextlib.contextmanager
def standing_still(weft):
    """The main thread of weftd does nothing, as while it is busy with something else."""
    os.kill(weft.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(weft.process.pid, signal.SIGCONT)


def silent(weft):
    """A connection that does not wait for weftd to take it; None where its queue is full."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        connection.connect(str(weft.socket))
    except BlockingIOError:
        connection.close()
        return None
    connection.send(HALF)
    connection.settimeout(10)
    return connection


def ended(connection):
    """Has weftd closed it?"""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def descriptors(weft):
    return len(list(Path(f"/proc/{weft.process.pid}/fd").iterdir()))


def processor_time(weft):
    """Ticks that weftd has used."""
    fields = Path(f"/proc/{weft.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def answers(weft):
    return weft.client.get("/v1/version")["api"] == "v1"


def admin_client(weft):
    return Client(lambda: UnixConnection(weft.root / "weft-admin.sock"))


def gets_in(weft, user, token):
    """Is this user of the machine answered, with a token of olga?"""
    with as_user(weft, user), contextlib.closing(raw(weft, request_text("/v1/whoami", token))) as connection:
        with contextlib.suppress(ConnectionResetError, TimeoutError):
            return b'"olga"' in connection.recv(4096)


# --- the limit on connections ---


@root_only
def test_the_limit_met_while_weftd_is_busy(site, crowd):
    """All that come at once are there when weftd looks, and all are gone when it looks again: then it still takes others."""
    weft = site(changes={"api": {"connections": 40, "connections_per_address": 40, "idle_timeout": "60s"}})
    answers(weft)
    before = descriptors(weft)
    for _ in range(3):
        with standing_still(weft), as_user(weft, FIRST_USER):
            held = [connection for connection in (silent(weft) for _ in range(120)) if connection]
            assert len(held) > 40
        until(lambda: descriptors(weft) >= before + 10, "weftd has taken them")
        with standing_still(weft):
            for connection in held:
                connection.close()
        assert answers(weft)
        until(lambda: descriptors(weft) <= before + 2, lambda: f"{descriptors(weft)} descriptors, {before} before")


@root_only
def test_one_user_leaves_room_for_others(site, crowd):
    weft = site(changes={"api": {"connections": 200, "connections_per_address": 20, "idle_timeout": "60s"}})
    with as_user(weft, FIRST_USER):
        held = [crowd(raw(weft, HALF)) for _ in range(20)]
        for oldest in range(20):
            held.append(crowd(raw(weft, HALF)))
            until(lambda oldest=oldest: ended(held[oldest]), lambda oldest=oldest: f"{oldest} goes, {list(map(ended, held))}")
            assert not any(map(ended, held[oldest + 1:])), "the oldest go first"
    assert answers(weft)


@root_only
def test_one_user_has_no_more_open_than_twice_its_seats(site, crowd):
    """Whoever comes faster than those that gave up their seat are closed is refused: others have the rest of what may be open."""
    weft = site(changes={"api": {"connections": 400, "connections_per_address": 20, "idle_timeout": "60s"}})
    answers(weft)
    before = descriptors(weft)
    with standing_still(weft), as_user(weft, FIRST_USER):
        held = [crowd(connection) for connection in (silent(weft) for _ in range(200)) if connection]
    until(lambda: sum(map(ended, held)) == len(held) - 20, lambda: f"{sum(map(ended, held))} of {len(held)} ended")
    assert descriptors(weft) <= before + 2 * 20
    assert answers(weft)


@root_only
def test_many_users_do_not_lock_root_out(site, crowd):
    """More users than there are connections for, each with half requests: root gets in, and so does any other user."""
    weft = site(changes={"api": {"connections": 64, "connections_per_address": 16, "idle_timeout": "60s"}})
    for user in range(17):
        with as_user(weft, FIRST_USER + user):
            for _ in range(16):
                crowd(raw(weft, HALF))
    assert answers(weft)
    with as_user(weft, FIRST_USER + 100), contextlib.closing(raw(weft, WHOLE)) as newcomer:
        assert newcomer.recv(4096).startswith(b"HTTP/1.1 401")
    assert admin_client(weft).get("/v1/version")["api"] == "v1"


@root_only
def test_strangers_take_nothing_from_those_who_are_known(site, crowd):
    """However many come: who has made a request keeps its connection, and its next request is answered on it."""
    weft = site(changes={"api": {"connections": 40, "connections_per_address": 20, "idle_timeout": "60s"}})
    token = weft.token("acme-viewer")
    text = f"GET /v1/whoami HTTP/1.1\r\nHost: weft\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    with as_user(weft, FIRST_USER):
        known = [crowd(raw(weft, text)) for _ in range(15)]
    for connection in known:
        assert b"200" in connection.recv(4096)
    for user in range(1, 100):
        with as_user(weft, FIRST_USER + user):
            crowd(raw(weft, HALF))
    for connection in known:
        connection.sendall(text)
        assert b"200" in connection.recv(4096)


# --- TLS ---


@pytest.fixture
def secure(site, certificate):
    def make(**api):
        tls = {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}
        return site(changes={"api": tls | api})

    return make


def tcp_from(weft, address):
    return socket.create_connection(("127.0.0.1", weft.tcp_port()), timeout=20, source_address=(address, 0))


def whoami_from(weft, address, certificate, token):
    context = ssl.create_default_context(cafile=certificate["certificate"])
    with tcp_from(weft, address) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        connection.sendall(f"GET /v1/whoami HTTP/1.1\r\nHost: weft\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        return connection.recv(4096)


def test_silent_sockets_of_one_address(secure, crowd, certificate):
    """An address that says nothing on all connections that it can have shuts out neither others nor itself."""
    weft = secure(connections=100, connections_per_address=30, idle_timeout="60s")
    token = weft.token("acme-viewer")
    for _ in range(100):
        crowd(tcp_from(weft, "127.0.0.2"))
    assert b'"acme-viewer"' in whoami_from(weft, "127.0.0.1", certificate, token)
    assert b'"acme-viewer"' in whoami_from(weft, "127.0.0.2", certificate, token)


def test_silent_sockets_of_many_addresses(secure, crowd, certificate):
    weft = secure(connections=60, connections_per_address=10, idle_timeout="60s")
    token = weft.token("acme-viewer")
    for number in range(10):
        for _ in range(10):
            crowd(tcp_from(weft, f"127.0.0.{100 + number}"))
    assert b'"acme-viewer"' in whoami_from(weft, "127.0.0.1", certificate, token)


def test_a_handshake_must_end(secure, crowd):
    """… in its own time, whatever comes in between, and nothing of it is left."""
    weft = secure(idle_timeout="1s")
    answers(weft)
    before = descriptors(weft)
    held = [crowd(tcp_from(weft, "127.0.0.2")) for _ in range(20)]
    for connection in held:
        connection.sendall(b"\x16\x03\x01\x02")  # the beginning of a hello
    until(lambda: all(map(ended, held)), "all were closed")
    until(lambda: descriptors(weft) <= before, lambda: f"{descriptors(weft)} descriptors, {before} before")


def test_handshakes_have_a_thread_of_their_own(secure, certificate):
    weft = secure()

    def thread_time(name):
        """Nanoseconds that the thread has run."""
        for task in Path(f"/proc/{weft.process.pid}/task").iterdir():
            if text_of(task / "comm").strip() == name:
                return int((task / "schedstat").read_text(encoding="ascii").split()[0])
        return 0

    token = weft.token("acme-viewer")
    whoami_from(weft, "127.0.0.1", certificate, token)
    before = thread_time("handshakes")
    whoami_from(weft, "127.0.0.1", certificate, token)
    assert thread_time("handshakes") > before > 0


# --- bodies in tiny pieces ---


CHUNKED = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
TINY = b"1\r\n \r\n"


@root_only
def test_bodies_of_strangers_are_not_read(site, crowd):
    """What a stranger announces at length, or in pieces, changes nothing: it is told so on the head of its request, and hung up on."""
    weft = site()
    long = f"Content-Type: application/json\r\nContent-Length: {1 << 20}\r\n"
    with as_user(weft, FIRST_USER):
        held = [crowd(raw(weft, f"POST /v1/clusters HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())) for more in (CHUNKED, long)]
    for connection in held:
        assert connection.recv(4096).startswith(b"HTTP/1.1 401")
        while connection.recv(4096):
            pass
    with as_user(weft, FIRST_USER), contextlib.closing(raw(weft, b"POST /v1/clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")) as short:
        short.sendall(b"123456789" + WHOLE)
        assert short.recv(4096).count(b"HTTP/1.1 401") >= 1


def test_tiny_pieces_wait_until_they_are_paid_for(site, crowd):
    """Who is in debt is not read from: nothing more is taken while others are served again and again."""
    weft = site(changes={"api": {"processor_per_tenant": 1}})
    head = f"POST /v1/clusters HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {weft.token('acme-member')}\r\n{CHUNKED}\r\n".encode()
    connection = crowd(raw(weft, head))
    connection.setblocking(False)
    sent = served = 0
    while served < 5 and sent < 8 << 20:
        try:
            sent += connection.send(TINY[sent % len(TINY):] + TINY * 1000)
            served = 0
        except BlockingIOError:
            served += answers(weft)
    assert served == 5, f"{sent} bytes were taken"


# --- time ---


@pytest.mark.parametrize("path", ["/v1/version", "/v1/clusters"])
def test_a_slow_request_is_given_up(site, path):
    """A byte now and then, in the head or in the body, holds no connection: the time for each does not begin again."""
    weft = site(changes={"api": {"idle_timeout": "1s"}})
    head = HALF if path == "/v1/version" else f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n".encode()
    with contextlib.closing(raw(weft, head)) as slow:
        def drip():
            try:
                slow.sendall(b" ")
            except (BrokenPipeError, ConnectionResetError):
                return True
            return False

        until(drip, "weftd has closed it")


def test_an_answer_that_is_not_taken_is_given_up(site, crowd):
    weft = site(changes={"api": {"idle_timeout": "1s"}})
    text = f"GET /v1/openapi.json HTTP/1.1\r\nHost: weft\r\nAuthorization: Bearer {weft.token('acme-viewer')}\r\n\r\n".encode()
    watch = select.poll()
    watch.register(crowd(raw(weft, text * 50)), 0)
    until(lambda: watch.poll(0), "weftd has hung up")


@root_only
def test_answers_that_are_not_taken_do_not_shut_an_address(site, crowd):
    """One viewer takes all connections of its address and reads nothing: somebody else there gets in, long before these are given up."""
    weft = site(changes={"api": {"connections": 64, "connections_per_address": 8, "idle_timeout": "60s"}})
    viewer, operator = weft.token("acme-viewer"), weft.token("olga")
    with as_user(weft, FIRST_USER):
        for _ in range(8):
            crowd(raw(weft, request_text("/v1/openapi.json", viewer) * 50))
    until(lambda: gets_in(weft, FIRST_USER, operator), "the operator at that address gets in")


# --- descriptors ---


@contextlib.contextmanager
def descriptors_left(weft, count):
    """weftd may open only this many more."""
    old = resource.prlimit(weft.process.pid, resource.RLIMIT_NOFILE)
    numbers = sorted(int(path.name) for path in Path(f"/proc/{weft.process.pid}/fd").iterdir())
    free = [number for number in range(numbers[-1]) if number not in numbers]
    limit = free[count] if len(free) > count else numbers[-1] + 1 + count - len(free)
    resource.prlimit(weft.process.pid, resource.RLIMIT_NOFILE, (limit, old[1]))
    try:
        yield
    finally:
        resource.prlimit(weft.process.pid, resource.RLIMIT_NOFILE, old)


@root_only
def test_descriptors_run_out(site, crowd):
    """Nobody can be taken: weftd does not turn in circles, administrators get in, and all is well again later."""
    weft = site(changes={"api": {"idle_timeout": "60s"}, "control": {"scan_interval": "60s"}})
    answers(weft)
    with descriptors_left(weft, 3):
        with as_user(weft, FIRST_USER):
            held = [crowd(connection) for connection in (silent(weft) for _ in range(60)) if connection]
        until(lambda: "Too many open files" in weft.log.read_text(encoding="utf-8"), "weftd says so")
        before, start = processor_time(weft), os.times().elapsed
        for _ in range(20):
            assert admin_client(weft).get("/v1/version")["api"] == "v1"
        until(lambda: os.times().elapsed - start > 2, "two seconds are over")
        used = (processor_time(weft) - before) / os.sysconf("SC_CLK_TCK")
        assert used < (os.times().elapsed - start) / 2, f"{used} s of the processor"
    assert answers(weft)
    until(lambda: "takes connections again" in weft.log.read_text(encoding="utf-8"), weft.log_tail)
    assert held


@root_only
def test_descriptors_run_out_among_those_who_are_known(site, crowd):
    """Where only known clients wait for their next request, one of them gives up its descriptor."""
    weft = site(changes={"api": {"idle_timeout": "60s"}, "control": {"scan_interval": "60s"}})
    viewer, operator = weft.token("acme-viewer"), weft.token("olga")

    def is_short():
        """One more comes. How many that takes nobody knows: weftd may have had more open for a moment when they were counted."""
        with as_user(weft, FIRST_USER):
            crowd(raw(weft, request_text("/v1/whoami", viewer)))
        return "Too many open files" in weft.log.read_text(encoding="utf-8")

    with descriptors_left(weft, 3):
        until(is_short, "weftd says so")
        until(lambda: gets_in(weft, FIRST_USER + 1, operator), "an operator gets in")


def test_limits_follow_from_the_descriptors(secure):
    """With few files weftd takes few connections, and says how many: what hosts need is left, whoever comes."""
    weft = secure()
    weft.stop()
    weft.log.unlink()  # its port is another one then
    weft.prefix = ["prlimit", "--nofile=512:512"]
    weft.start()
    text = weft.log.read_text(encoding="utf-8")
    assert "fewer than configured" in text and "of the 512 files" in text, text
    with contextlib.ExitStack() as stack:
        for number in range(400):
            stack.enter_context(contextlib.closing(tcp_from(weft, f"127.0.0.{number % 200 + 2}")))
        weft.client.create("cfd", 2)
        weft.client.wait_phase("cfd", "ready")
        assert descriptors(weft) < 400


# --- administrators ---


@root_only
def test_the_socket_of_administrators(site, crowd):
    weft = site()
    path = weft.root / "weft-admin.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    with as_user(weft, FIRST_USER), pytest.raises(PermissionError):
        UnixConnection(path).connect()
    path.chmod(0o666)  # even then
    with as_user(weft, FIRST_USER), contextlib.closing(socket.socket(socket.AF_UNIX)) as stranger:
        stranger.connect(str(path))
        with contextlib.suppress(BrokenPipeError):
            stranger.sendall(WHOLE)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    path.chmod(0o600)
    assert admin_client(weft).get("/v1/whoami")["role"] == "admin"


@root_only
def test_nothing_lasts_on_the_socket_of_administrators(site):
    """Streams and sessions would take its few seats for as long as somebody likes; the other socket has them."""
    weft = site()
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    for path, headers in [("/v1/events", {"Accept": "text/event-stream"}),
                          ("/v1/clusters/cfd/nodes/0/session?tenant=acme", {"Connection": "Upgrade", "Upgrade": "weft-session/1"})]:
        with contextlib.closing(UnixConnection(weft.root / "weft-admin.sock")) as connection:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            assert answer.status == 400
            assert f"open them on the other one, {weft.socket}" in answer.read().decode()


@root_only
def test_more_administrators_than_seats_wait(site):
    """None of them is refused: they come one after another."""
    weft = site()
    commands = [subprocess.Popen([build_folder() / "src/cli/weft", "version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env=surroundings() | {"WEFT_URL": f"unix://{weft.socket}"}) for _ in range(60)]
    outputs = [command.communicate(timeout=60)[0] for command in commands]
    assert all("weftd" in output for output in outputs), outputs


@root_only
def test_the_command_line_takes_it_by_itself(site, crowd):
    """Root's requests do not need the socket that everybody has; without the other one they take it."""
    weft = site()
    weft.socket.rename(weft.root / "away")
    assert "weftd" in weft.cli("version").stdout
    (weft.root / "away").rename(weft.socket)
    (weft.root / "weft-admin.sock").rename(weft.root / "away")
    assert "weftd" in weft.cli("version").stdout
    (weft.root / "away").rename(weft.root / "weft-admin.sock")
