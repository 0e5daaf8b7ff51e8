"""Into the nodes, through weftd: commands, terminals, files and consoles, over the Unix socket and TLS, by the right people only.
The nodes are guest programs on this machine."""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import pty
import re
import select
import signal
import socket
import ssl
import struct
import subprocess
import tarfile
import termios
import threading
import time

import pytest

from harness.process import is_running
from harness.wait import PATIENCE, until
from harness.weft import Weft, beside, build_folder, host
from harness.wire import raw, request_text

SESSION = "/v1/clusters/cfd/nodes/0/session"
UPGRADE = ("Connection: Upgrade", "Upgrade: weft-session/1")
SESSIONS = 24  # in all: a quarter of them for one principal
OPEN, DATA, EOF, WINDOW, EXIT, REFUSE = 2, 3, 5, 6, 9, 10


class Site:
    """A weftd with a cluster of three nodes, and weft as somebody of its tenant."""

    def __init__(self, certificate):
        self.certificate = certificate
        self.tokens = {}
        self.weft = Weft(changes={
            "api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"],
                    "sessions": SESSIONS, "connections_per_address": 2000, "connections": 3000},
            "hypervisor": {"run_guests": True},
            # Their guest program sees this machine's devices, and none of theirs.
            "hosts": [host(f"n{i + 1}", verify="ethernet") for i in range(4)]})
        self.weft.start()
        self.weft.client.create("cfd", 3)
        self.weft.client.wait_phase("cfd", "ready")

    def token(self, principal="acme-member"):
        """One for each: nobody has more than a hundred."""
        if principal not in self.tokens:
            self.tokens[principal] = self.weft.token(principal)
        return self.tokens[principal]

    def environment(self, principal="acme-member", tls=False, token=None):
        url = f"https://127.0.0.1:{self.weft.tcp_port()}" if tls else f"unix://{self.weft.socket}"
        return os.environ | {"WEFT_URL": url, "WEFT_TOKEN": token or self.token(principal), "NO_COLOR": "1",
                             "WEFT_CA": self.certificate["certificate"]}

    def run(self, *arguments, code=0, data=b"", **who):
        done = subprocess.run([build_folder() / "src/cli/weft", *arguments], input=data, capture_output=True, check=False,
                              env=self.environment(**who), timeout=PATIENCE * 2)
        assert done.returncode == code, f"weft {arguments}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done

    def is_open(self):
        """Can somebody get in?"""
        return subprocess.run([build_folder() / "src/cli/weft", "run", "cfd", "--", "true"], env=self.environment(), check=False,
                              capture_output=True).returncode == 0

    def start_again(self):
        self.weft.start()
        until(self.is_open, "its nodes are reached again")

    def sessions(self):
        """How many are open, as far as one of many can tell: those that have a descriptor in weftd."""
        return len(os.listdir(f"/proc/{self.weft.process.pid}/fd"))

    def started(self, *arguments, streams=None, **who):
        """weft beside us."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | (streams or {})
        return beside(arguments, self.environment(**who), **pipes)

    @contextlib.contextmanager
    def terminal(self, *arguments, rows=33, columns=111, **who):
        """weft on a terminal of its own."""
        pid, fd = pty.fork()
        if pid == 0:
            resize(0, rows, columns)
            os.execve(build_folder() / "src/cli/weft", ["weft", *arguments], self.environment(**who) | {"TERM": "xterm", "PS1": "$ "})
        terminal = Terminal(pid, fd)
        try:
            yield terminal
        finally:
            terminal.close()


def resize(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Terminal:
    def __init__(self, pid, fd):
        self.pid, self.fd, self.seen, self.status = pid, fd, b"", None

    def type(self, keys):
        os.write(self.fd, keys)

    def expect(self, pattern):
        """Reads until it has come, and returns the match; what came before is forgotten."""
        end = time.monotonic() + PATIENCE
        while not (match := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, f"{pattern} does not come, this did: {self.seen}"
            try:
                self.seen += os.read(self.fd, 65536)
            except OSError:
                raise AssertionError(f"ended without {pattern}: {self.seen}") from None
        self.seen = self.seen[match.end():]
        return match

    def wait(self):
        """The exit status."""
        with contextlib.suppress(OSError):
            while os.read(self.fd, 65536):
                pass
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def frame(kind, payload=b"", number=1):
    return struct.pack(">IHH", number, kind, len(payload)) + payload


def open_frame(*command):
    return frame(OPEN, b"exec\0" + b"".join(b"arg=" + word + b"\0" for word in command))


@pytest.fixture(scope="module")
def site(certificate):
    site = Site(certificate)
    yield site
    try:
        if site.weft.process:
            site.weft.stop()
    finally:
        site.weft.remove()


@pytest.fixture(params=[False, True], ids=["socket", "tls"])
def tls(request):
    return request.param


# --- weft run and weft ssh ---


def test_output_status_and_input(site, tls):
    done = site.run("run", "cfd", "--", "sh", "-c", "cat; echo wrong >&2; exit 7", data=b"some input\n", code=7, tls=tls)
    assert (done.stdout, done.stderr) == (b"some input\n", b"wrong\n")
    assert site.run("run", "cfd", "--", "sh", "-c", "kill -9 $$", code=137, tls=tls).stdout == b""
    assert site.run("ssh", "cfd[1]", "--", "echo", "a  b", "$HOME", "--all", tls=tls).stdout == b"a  b $HOME --all\n"
    assert site.run("ssh", "cfd-2", "--", "true", tls=tls).stdout == b""


def test_variables_and_shells_without_a_terminal(site):
    assert site.run("run", "cfd", "-e", "A=1=2", "-e", "B=", "--", "sh", "-c", "echo $A,$B,$C").stdout == b"1=2,,\n"
    assert site.run("ssh", "cfd", data=b"echo $((6 * 7)); exit 3\n", code=3).stdout.endswith(b"42\n")


def test_much_output_and_input(site, tls):
    data = os.urandom(4 << 20)
    done = site.run("run", "cfd", "--", "sh", "-c", "tee /dev/stderr", data=data, tls=tls)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(done.stderr).digest() == hashlib.sha256(data).digest()


def test_several_nodes(site):
    done = site.run("run", "--all", "cfd", "--", "sh", "-c", "echo one; echo two >&2; printf half; exit 5", code=5)
    assert sorted(done.stdout.decode().splitlines()) == sorted(f"cfd[{i}]: {word}" for i in range(3) for word in ("one", "half"))
    assert sorted(done.stderr.decode().splitlines()) == [f"cfd[{i}]: two" for i in range(3)]
    done = site.run("run", "cfd[0,2]", "--", "cat", data=b"nobody reads this")
    assert done.stdout == b""
    done = site.run("run", "cfd[0,9]", "--", "echo", "hi", code=255)
    assert done.stdout == b"cfd[0]: hi\n" and b"cfd[9]" in done.stderr


@pytest.mark.parametrize("arguments, words", [
    (("run", "cfd"), b"command is missing"),
    (("run", "cfd", "ls"), b"run: a command comes after --: weft run cfd -- ls"),
    (("run", "cfd", "sh", "-c", "true"), b"unknown option -c; a command comes after --"),
    (("run", "cfd[7]", "--", "true"), b"node cfd[7]: there is none; the cluster has 3"),
    (("run", "nobody-4", "--", "true"), b"cluster nobody: not found"),
    (("ssh", "cfd[0-1]", "--", "true"), b"name one, like cfd[0]"),
    (("run", "-e", "=x", "cfd", "--", "true"), b"write KEY=VALUE"),
    (("run", "cfd", "--", "true", "x" * 9000), b"weft scp"),
    (("run", "cfd", "-l", "no-such-user", "--", "true"), b"there is no user 'no-such-user'"),
    (("run", "--all", "cfd[1]", "--", "true"), b"leave out their numbers"),
])
def test_weft_itself_fails_with_255(site, arguments, words):
    assert words in site.run(*arguments, code=255).stderr


def test_program_that_is_not_there(site):
    assert site.run("run", "cfd", "--", "no-such-program", code=127).stdout == b""


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 33), (signal.SIGTERM, 44)])
def test_signals_reach_the_command(site, tls, number, status):
    script = "trap 'exit 33' INT; trap 'exit 44' TERM; echo on; while :; do sleep 0.05; done"
    with site.started("run", "cfd", "--", "sh", "-c", script, tls=tls) as process:
        assert process.stdout.readline() == b"on\n"
        process.send_signal(number)
        assert process.wait(PATIENCE) == status


def test_second_interrupt_ends_weft_and_hangs_up(site):
    with site.started("run", "cfd", "--", "sh", "-c", "trap 'echo on' INT; echo $$; while :; do sleep 0.05; done") as process:
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"on\n"  # two signals at the same moment would be one
        # One that comes seconds later is passed on as well, and the next one counts.
        until(lambda: process.send_signal(signal.SIGINT) or process.poll() is not None, "weft ends")
        assert process.returncode == 255
    until(lambda: not is_running(pid), "the command is hung up")


def test_terminal(site, tls):
    with site.terminal("ssh", "cfd[1]", tls=tls) as terminal:
        terminal.type(b"PS1=; stty size; tty; echo $TERM-$((1 + 1))\n")
        terminal.expect(rb"33 111\r\n")
        terminal.expect(rb"/dev/pts/\d+\r\n")
        terminal.expect(rb"xterm-2\r\n")
        resize(terminal.fd, 40, 140)
        terminal.type(b"while [ \"$(stty size)\" != '40 140' ]; do sleep 0.05; done; echo larg''er\n")
        terminal.expect(rb"larger\r\n")
        terminal.type(b"sh -c \"echo runn''ing; exec sleep 1000\"\n")
        terminal.expect(rb"running\r\n")
        terminal.type(b"\x03echo stat''us $?\n")
        terminal.expect(rb"status 130\r\n")
        terminal.type(b"exit 9\n")
        assert terminal.wait() == 9


def test_terminal_is_left_as_it_was(site):
    fresh = pty.openpty()  # weft may have changed its own already
    before = termios.tcgetattr(fresh[0])
    for fd in fresh:
        os.close(fd)
    with site.terminal("ssh", "-t", "cfd", "--", "sh", "-c", "echo ready; read x; exit 1") as terminal:
        terminal.expect(rb"ready")
        assert termios.tcgetattr(terminal.fd) != before
        terminal.type(b"\r")
        until(lambda: termios.tcgetattr(terminal.fd) == before, "it is as before")
        assert terminal.wait() == 1


def test_slow_reader_stops_the_writer(site, tls):
    usual = growth_by_sessions(site, tls)  # a sanitizer keeps what was freed
    with site.started("run", "cfd", "--", "sh", "-c", "yes; true", tls=tls) as process:
        assert process.stdout.read(4) == b"y\ny\n"
        assert growth_by_sessions(site, tls) < usual + (32 << 20)
        assert len(process.stdout.read(1 << 20)) == 1 << 20


def growth_by_sessions(site, tls):
    """Others are served, and nothing piles up."""
    before = memory_of(site.weft.process.pid)
    for _ in range(3):
        assert site.run("run", "cfd", "--", "echo", "hi", tls=tls).stdout == b"hi\n"
    return memory_of(site.weft.process.pid) - before


def memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) << 10


def test_two_at_once_do_not_mix(site):
    with site.started("run", "cfd", "--", "cat") as first, site.started("run", "cfd", "--", "cat") as second:
        for i in range(20):
            for process, name in ((first, b"first"), (second, b"second")):
                process.stdin.write(b"%s %d\n" % (name, i))
                process.stdin.flush()
                assert process.stdout.readline() == b"%s %d\n" % (name, i)
        for process in (first, second):
            process.stdin.close()
            assert process.wait(PATIENCE) == 0


# --- weft scp ---


def tree(folder):
    """What is in a folder: types, modes, times, contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[os.fsencode(path.relative_to(folder))] = (oct(status.st_mode) if not path.is_symlink() else "link", content,
                                                         int(status.st_mtime) if path.is_file() and not path.is_symlink() else 0)
    return found


@pytest.fixture
def odd(tmp_path):
    """A folder with all that is odd."""
    root = tmp_path / "odd"
    (root / "sub folder/deeper" / ("d" * 120)).mkdir(parents=True)
    for name in (b"a b", b"new\nline", b"-rf", b"caf\xc3\xa9", b"\xff\xfe", b"n" * 250, b"a:b", b"*?[x]"):
        path = root / os.fsdecode(name)
        path.write_bytes(name * 10)
        os.utime(path, (1e9, 1e9))
    (root / "empty").touch(mode=0o600)
    (root / "tool").write_text("#!/bin/sh\n", encoding="utf-8")
    (root / "tool").chmod(0o751)
    (root / "sub folder/deeper" / ("d" * 120) / ("e" * 120)).write_text("deep", encoding="utf-8")
    (root / "link").symlink_to("/etc/passwd")
    (root / "dangling").symlink_to("nowhere")
    (root / "sub folder").chmod(0o750)
    return root


def test_folders_both_ways(site, tls, odd, tmp_path):
    there, back = tmp_path / "there", tmp_path / "back"
    there.mkdir()
    back.mkdir()
    site.run("scp", "-r", str(odd), f"cfd[1]:{there}", tls=tls)
    assert tree(there / "odd") == tree(odd)
    site.run("scp", "-r", f"cfd[1]:{there}/odd", str(back), tls=tls)
    assert tree(back / "odd") == tree(odd)
    site.run("scp", "-r", f"cfd[1]:{there}/odd/", str(back / "new name"), tls=tls)
    assert tree(back / "new name") == tree(odd)


def test_large_file_both_ways(site, tls, tmp_path):
    data = os.urandom(12 << 20)
    (tmp_path / "large").write_bytes(data)
    site.run("scp", str(tmp_path / "large"), f"cfd:{tmp_path}/copy", tls=tls)
    assert (tmp_path / "copy").read_bytes() == data
    site.run("scp", f"cfd-0:{tmp_path}/copy", str(tmp_path / "again"), tls=tls)
    assert (tmp_path / "again").read_bytes() == data


def test_several_sources_and_what_cannot_be(site, odd, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    site.run("scp", str(odd / "a b"), str(odd / "-rf"), f"cfd:{target}/")
    assert sorted(os.listdir(target)) == ["-rf", "a b"]
    for arguments, words, code in (
            (("scp", str(odd), f"cfd:{target}"), b"copy it with -r", 2),
            (("scp", f"cfd:{odd}", str(target)), b"copy it with -r", 2),
            (("scp", str(odd / "absent"), f"cfd:{target}"), b"No such file", 2),
            (("scp", f"cfd:{odd}/absent", str(target)), b"No such file", 1),
            (("scp", str(odd / "a b"), str(odd / "-rf"), f"cfd:{target}/absent"), b"is no folder", 2),
            (("scp", str(odd / "a b"), f"cfd:{target}/absent/x"), b"absent", 1),
            (("scp", f"cfd:{odd}/link", str(target / "absent/x")), b"absent", 2),
            (("scp", "cfd:x", "cfd:y"), b"one side must be in a node", 2),
            (("scp", "x", "y"), b"one side must be in a node", 2),
            (("scp", "-r", "cfd:/tmp/..", str(target)), b"names no file", 2)):
        assert words in site.run(*arguments, code=code).stderr


def entry(name, content=b"", **fields):
    """A member of a tar, whatever it may be."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def tar_of(*members):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as out:
        for info, content in members:
            out.addfile(info, io.BytesIO(content))
    return archive.getvalue()


@contextlib.contextmanager
def hostile_node(folder, output):
    """Somebody who answers the upgrade, and whose tar says this."""
    path = folder / "hostile.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve():
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as stream, contextlib.suppress(ConnectionError):
                while stream.readline() not in (b"\r\n", b""):
                    pass
                connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: weft-session/1\r\n\r\n")
                for start in range(0, len(output), 8192):
                    connection.sendall(frame(DATA, output[start:start + 8192]))
                connection.sendall(frame(EXIT, bytes(4)))
                stream.read()

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield path
        server.join(PATIENCE)


def copy_from(folder, output, *arguments):
    """weft scp from a node whose tar says this."""
    with hostile_node(folder, output) as path:
        return subprocess.run([build_folder() / "src/cli/weft", "scp", *arguments], capture_output=True, check=False,
                              env=os.environ | {"WEFT_URL": f"unix://{path}"}, timeout=PATIENCE)


@pytest.mark.parametrize("case", ["absolute", "dotdot", "link", "hard link", "hard link through a link", "other"])
def test_hostile_tar_stays_in_its_place(tmp_path, case):
    home, secret = tmp_path / "home", tmp_path / "secret"
    home.mkdir()
    secret.write_bytes(b"untouched")
    folder = entry("./x", type=tarfile.DIRTYPE, mode=0o755)
    members = {
        "absolute": [entry(str(secret), b"evil")],
        "dotdot": [folder, entry("./x/../../secret", b"evil")],
        "link": [folder, entry("./x/l", type=tarfile.SYMTYPE, linkname=str(tmp_path)), entry("./x/l/secret", b"evil")],
        "hard link": [entry("./x", type=tarfile.LNKTYPE, linkname=str(secret))],
        "hard link through a link": [folder, entry("./x/l", type=tarfile.SYMTYPE, linkname=str(tmp_path)),
                                     entry("./x/h", type=tarfile.LNKTYPE, linkname="./x/l/secret")],
        "other": [entry("./y", b"evil")],
    }
    done = copy_from(tmp_path, tar_of(*members[case]), "-r", "cfd[0]:x", home)
    assert done.returncode == 1 and done.stderr
    assert secret.read_bytes() == b"untouched" and secret.stat().st_nlink == 1
    assert not (home / "y").exists()


@pytest.mark.parametrize("member", [entry("./x", type=tarfile.SYMTYPE, linkname="/etc/passwd"), entry("./x/y", b"evil")], ids=["link", "below"])
def test_one_file_is_what_was_asked_for(tmp_path, member):
    """Without -r a node may send a file, neither a link that leads elsewhere nor a folder."""
    done = copy_from(tmp_path, tar_of(member), "cfd[0]:x", tmp_path)
    assert done.returncode == 1 and b"which nobody asked for" in done.stderr
    assert not os.path.lexists(tmp_path / "x")


def test_names_from_a_node_do_no_harm_to_the_terminal(tmp_path):
    folder = entry("./x", type=tarfile.DIRTYPE, mode=0o755)
    done = copy_from(tmp_path, tar_of(folder, entry("./x/\033[2J", type=tarfile.FIFOTYPE)), "-r", "cfd[0]:x", tmp_path)
    assert b"x/?[2J: is no file, folder or link; left out" in done.stderr and b"\033" not in done.stderr


# --- console, hostfile, doctor, top ---


def test_console(site, tls):
    with site.terminal("console", "cfd[2]", tls=tls) as terminal:
        terminal.expect(rb"console of cfd\[2\]; Ctrl-\] ends it")
        terminal.type(b"login\r")
        terminal.expect(rb"login\r")  # the fake's console says what it hears
        done = site.run("console", "cfd-2", code=7)
        assert b"somebody else has its console" in done.stderr
        terminal.type(b"\x1d")
        assert terminal.wait() == 0
    until(lambda: subprocess.run([build_folder() / "src/cli/weft", "console", "cfd[2]"], input=b"\x1d", capture_output=True,
                                 check=False, env=site.environment()).returncode == 0, "it is free again")


def test_hostfile(site):
    assert site.run("hostfile", "cfd").stdout == b"".join(b"cfd-%d slots=1\n" % i for i in range(3))
    listed = json.loads(site.run("hostfile", "cfd", "--json").stdout)
    assert listed[1] == {"hostname": "cfd-1", "address": "10.64.0.2", "slots": 1}
    answer = site.weft.client.request("GET", "/v1/clusters/cfd/hostfile?tenant=acme")
    assert answer.headers["Content-Type"].startswith("text/plain") and answer.text.splitlines()[2] == "cfd-2 slots=1"


def test_doctor(site):
    done = site.run("doctor", principal="olga", code=1)
    lines = done.stdout.decode().splitlines()
    assert lines[0].split() == ["HOST", "CHECK", "STATE", "FOUND"]
    assert any(re.fullmatch(r" +remedy: install weft-hook on the host .*", line) for line in lines)
    assert any(re.match(r"n4 +hook +fail ", line) for line in lines) and any(line.startswith("-  ") for line in lines)
    report = json.loads(site.run("doctor", "n1", "--json", principal="olga", code=1).stdout)[0]
    assert report["host"] == "n1" and all(check["remedy"] for check in report["checks"] if check["state"] == "fail")
    assert b"host n9: not found" in site.run("doctor", "n9", principal="olga", code=4).stderr
    assert b"takes the role operator" in site.run("doctor", code=3).stderr


def test_top(site):
    lines = site.run("top", "--once").stdout.decode().splitlines()
    assert lines[0].split() == ["NODE", "CPU", "CORES", "USED", "MEMORY"] and len(lines) == 4
    nodes = json.loads(site.run("top", "cfd", "--json").stdout)
    assert sorted(node["name"] for node in nodes) == ["cfd[0]", "cfd[1]", "cfd[2]"] and all("busy" in node for node in nodes)
    assert b"cluster nobody: not found" in site.run("top", "nobody", code=4).stderr


# --- who may ---


def test_roles_and_tenants(site):
    denied = site.run("run", "cfd", "--", "true", principal="acme-viewer", code=255).stderr
    assert b"takes the role member" in denied
    foreign = site.run("run", "cfd", "--", "true", principal="umbrella-member", code=255).stderr
    assert b"cluster cfd: not found" in foreign
    cluster = site.weft.client.cluster("cfd")["id"]
    assert b"not found" in site.run("run", cluster, "--", "true", principal="umbrella-member", code=255).stderr
    assert site.run("--tenant", "acme", "run", "cfd", "--", "echo", "hi", principal="olga").stdout == b"hi\n"


def test_events_tell_who_got_in(site):
    site.run("run", "cfd[2]", "--", "true")
    site.run("console", "cfd[1]", data=b"\x1d")
    told = [event for event in site.weft.client.items("/v1/clusters/cfd/events", tenant="acme") if event["type"] == "session-opened"]
    messages = {event["message"].split(" (")[0] for event in told}
    assert {"acme-member opened a session on cfd[2]", "acme-member opened the console of cfd[1]"} <= messages
    assert all(event["tenant"] == "acme" for event in told)


def test_sessions_of_a_minute_are_one_event(site):
    """A loop of weft run does not flood the log, and each is counted."""
    made = site.weft.client.expect(201, "POST", "/v1/principals", {"name": "looper", "tenant": "acme", "role": "member"})
    for _ in range(4):
        site.run("run", "cfd[1]", "--", "true", principal=made["name"])
    told = [event["message"] for event in site.weft.client.items("/v1/clusters/cfd/events", tenant="acme") if "looper" in event["message"]]
    assert told == ["looper opened a session on cfd[1] (4 times within a minute)"]


def test_revoked_token_ends_its_sessions_at_once(site, tls):
    made = site.weft.client.expect(201, "POST", "/v1/tokens", {"principal": "acme-member"})
    with site.started("run", "cfd", "--", "sh", "-c", "echo on; sleep 1000", tls=tls, token=made["token"]) as process:
        assert process.stdout.readline() == b"on\n"
        with site.started("run", "cfd", "--", "sh", "-c", "echo on; cat", tls=tls) as other:
            assert other.stdout.readline() == b"on\n"
            site.weft.client.expect(204, "DELETE", f"/v1/tokens/{made['id']}")
            assert process.wait(PATIENCE) == 255
            assert b"token was revoked" in process.stderr.read()
            other.stdin.close()
            assert other.wait(PATIENCE) == 0


def test_limit_of_one_principal(site):
    most = SESSIONS // 4
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(site.started("run", "cfd", "--", "sh", "-c", "echo on; cat")) for _ in range(most)]
        for process in running:
            assert process.stdout.readline() == b"on\n"
        assert b"you have 6 sessions already" in site.run("run", "cfd", "--", "true", code=255).stderr
        assert site.run("--tenant", "acme", "run", "cfd", "--", "echo", "hi", principal="olga").stdout == b"hi\n"
        running[0].stdin.close()
        assert running[0].wait(PATIENCE) == 0
        until(site.is_open, "there is room again")


# --- what no decent client sends ---


def upgrade(site, *headers, path=SESSION):
    """A connection that has asked for a session, and the head of the answer."""
    connection = raw(site.weft, request_text(path, site.token(), *headers))
    head = b""
    while b"\r\n\r\n" not in head:
        got = connection.recv(1)
        assert got, head
        head += got
    return connection, head.decode()


def read_frames(connection):
    """All frames until the end."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while got := connection.recv(65536):
            data += got
            if b"\x00\x00\x00\x01\x00\x09" in data or b"\x00\x00\x00\x01\x00\x0a" in data:
                break
    found = []
    while len(data) >= 8:
        _, kind, length = struct.unpack(">IHH", data[:8])
        found.append((kind, data[8:8 + length]))
        data = data[8 + length:]
    return found


def test_what_follows_the_request_at_once_is_not_lost(site):
    text = request_text(SESSION, site.token(), *UPGRADE)
    with raw(site.weft, text + open_frame(b"echo", b"hi")) as connection:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1)
        assert head.startswith(b"HTTP/1.1 101 ") and b"\r\nUpgrade: weft-session/1\r\n" in head
        frames = read_frames(connection)
    assert (DATA, b"hi\n") in frames and frames[-1] == (EXIT, bytes(4))


@pytest.mark.parametrize("headers", [(), ("Upgrade: weft-session/1",), ("Connection: Upgrade", "Upgrade: websocket"), ("Connection: Upgrade",)])
def test_upgrade_without_its_headers(site, headers):
    connection, head = upgrade(site, *headers)
    with connection:
        assert head.startswith("HTTP/1.1 426 ") and "\r\nUpgrade: weft-session/1\r\n" in head


@pytest.mark.parametrize("path, status", [("/v1/clusters/cfd/nodes/x/session", 400), ("/v1/clusters/cfd/nodes/-1/session", 400),
                                          ("/v1/clusters/cfd/nodes/99999999999/session", 400), ("/v1/clusters/cfd/nodes/3/session", 404),
                                          ("/v1/clusters/absent/nodes/0/session", 404)])
def test_nodes_that_are_none(site, path, status):
    connection, head = upgrade(site, *UPGRADE, path=path)
    with connection:
        assert head.startswith(f"HTTP/1.1 {status} ")


GARBAGE = {
    "no frames": b"\xff" * 100,
    "noise": bytes(range(256)) * 256,
    "data before the beginning": frame(DATA, b"too early"),
    "unknown type": frame(99),
    "more than the window": open_frame(b"sleep", b"1000") + frame(DATA, b"x" * 8192) * 40,  # a pipe takes some
    "two beginnings": open_frame(b"cat") * 2,
    "weftd's own kind": frame(OPEN, b"meet\0"),
    "empty beginning": frame(OPEN, b""),
    "huge window": open_frame(b"cat") + frame(WINDOW, b"\xff" * 4),
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_after_the_upgrade(site, garbage):
    connection, head = upgrade(site, *UPGRADE)
    with connection:
        assert head.startswith("HTTP/1.1 101 ")
        with contextlib.suppress(ConnectionError):
            connection.sendall(garbage)
        frames = read_frames(connection)
        assert not frames or frames[-1][0] == REFUSE
    assert site.run("run", "cfd", "--", "echo", "hi").stdout == b"hi\n"


def test_half_a_connection(site):
    """On the Unix socket a client may stop sending and still get what comes."""
    connection, _ = upgrade(site, *UPGRADE)
    with connection:
        connection.sendall(open_frame(b"sh", b"-c", b"cat; echo over") + frame(DATA, b"in\n") + frame(EOF))
        frames = read_frames(connection)
        assert b"".join(payload for kind, payload in frames if kind == DATA) == b"in\nover\n" and frames[-1] == (EXIT, bytes(4))


def test_many_connections_that_come_and_go(site):
    """A thousand: they are refused or served, all are forgotten, and weftd is as before."""
    token = site.token("ada")
    before = site.sessions()
    text = request_text(SESSION + "?tenant=acme", token, *UPGRADE)
    for _ in range(20):
        connections = [raw(site.weft, text) for _ in range(50)]
        answers = [connection.recv(12) for connection in connections]
        assert set(answers) <= {b"HTTP/1.1 101", b"HTTP/1.1 429"} and b"HTTP/1.1 101" in answers
        for connection in connections:
            connection.close()
    until(lambda: site.sessions() <= before + 4, lambda: f"{site.sessions()} descriptors, {before} before")
    assert site.run("run", "cfd", "--", "echo", "hi").stdout == b"hi\n"


def tls_connection(site):
    context = ssl.create_default_context(cafile=site.certificate["certificate"])
    plain = socket.create_connection(("127.0.0.1", site.weft.tcp_port()), timeout=PATIENCE)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_tls_client_that_vanishes_ends_its_program(site, tmp_path):
    connection = tls_connection(site)
    connection.sendall(request_text(SESSION, site.token(), *UPGRADE))
    assert connection.recv(12) == b"HTTP/1.1 101"
    connection.sendall(open_frame(b"sh", b"-c", f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; sleep 1000".encode()))
    until((tmp_path / "pid").exists, "it runs")
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    assert is_running(pid)
    connection.close()
    until(lambda: not is_running(pid), "it is hung up")


def test_tls_handshakes_that_never_end(site):
    """They cost nobody else anything."""
    idle = [socket.create_connection(("127.0.0.1", site.weft.tcp_port())) for _ in range(50)]
    for connection in idle[::2]:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01")
    assert site.run("run", "cfd", "--", "echo", "hi", tls=True).stdout == b"hi\n"
    for connection in idle[1::2]:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
    for connection in idle:
        connection.close()
    assert site.run("run", "cfd", "--", "echo", "hi", tls=True).stdout == b"hi\n"


# --- weftd ends; last, since a new one has to find its nodes again ---


def test_weftd_stops_in_the_middle(site, tls):
    with site.started("run", "cfd", "--", "sh", "-c", "echo on; sleep 1000", tls=tls) as process:
        assert process.stdout.readline() == b"on\n"
        site.weft.stop()
        assert process.wait(PATIENCE) == 255
        assert b"ended the connection" in process.stderr.read()
    site.start_again()


def test_weftd_is_killed_in_the_middle(site, tls):
    with site.started("run", "cfd", "--", "sh", "-c", "echo on; sleep 1000", tls=tls) as process:
        assert process.stdout.readline() == b"on\n"
        site.weft.kill()
        assert process.wait(PATIENCE) == 255
        assert b"weftd at" in process.stderr.read()
    site.start_again()
