"""The guest program as an ordinary process, and weftd's part of the conversation with it."""

import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
SYNC = b"\xff\xff\xff\xffweft-sync-1\n"
WINDOW = 65536
FRAME_MAX = 8192
PATIENCE = 30.0

WELCOME, OPEN, DATA, ERROR_DATA, EOF, WINDOW_MORE, SIGNAL, RESIZE, EXIT, REFUSE, CLOSE = range(1, 12)


def program():
    return Path(os.environ.get("WEFT_BUILD", SOURCE / "build")) / "src/guest/weft-guest"


def frame(session, kind, payload=b""):
    return struct.pack(">IHH", session, kind, len(payload)) + payload


class Session:
    """One of a guest's sessions, and what came of it."""

    def __init__(self, guest, number, listens=True):
        self.guest = guest
        self.number = number
        self.listens = listens      # False: gives no window back
        self.output = b""
        self.errors = b""
        self.status = None
        self.refusal = None
        self.window = WINDOW        # what may be sent
        self.pending = b""

    @property
    def ended(self):
        return self.status is not None or self.refusal is not None

    def send(self, data):
        self.pending += data
        self.push()
        return self

    def push(self):
        while self.pending and self.window:
            n = min(len(self.pending), self.window, FRAME_MAX)
            self.guest.send(frame(self.number, DATA, self.pending[:n]))
            self.pending, self.window = self.pending[n:], self.window - n

    def eof(self):
        self.wait(lambda: not self.pending, "the input is taken")
        self.guest.send(frame(self.number, EOF))
        return self

    def signal(self, number):
        self.guest.send(frame(self.number, SIGNAL, struct.pack(">I", number)))

    def resize(self, rows, columns):
        self.guest.send(frame(self.number, RESIZE, struct.pack(">HH", rows, columns)))

    def allow(self, count):
        self.guest.send(frame(self.number, WINDOW_MORE, struct.pack(">I", count)))

    def close(self):
        self.guest.send(frame(self.number, CLOSE))

    def take(self, kind, payload):
        assert not self.ended, f"frame {kind} after the last one"
        if kind in (DATA, ERROR_DATA):
            if kind == DATA:
                self.output += payload
            else:
                self.errors += payload
            if self.listens:
                self.allow(len(payload))
        elif kind == WINDOW_MORE:
            self.window += struct.unpack(">I", payload)[0]
            self.push()
        elif kind == EXIT:
            self.status = struct.unpack(">I", payload)[0]
        elif kind == REFUSE:
            self.refusal = payload.decode()
        else:
            raise AssertionError(f"the guest program sent a frame of type {kind}")

    def wait(self, check, what):
        self.guest.wait(check, lambda: f"{what}; output {self.output[-200:]!r}, errors {self.errors[-200:]!r}")
        return self

    def wait_for(self, text):
        return self.wait(lambda: text in self.output, f"{text!r} is printed")

    def end(self):
        return self.wait(lambda: self.ended, "the session ends")


class Guest:
    def __init__(self, root, *, prefix=(), alone=False, path=None):
        self.root = root
        self.socket, theirs = socket.socketpair()
        self.process = subprocess.Popen([*prefix, path or program(), "serve", str(theirs.fileno()), root, *(["alone"] if alone else [])],
                                        pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
        theirs.close()
        self.received = b""
        self.sessions = {}
        self.facts = None

    # --- the stream ---

    def send(self, data):
        """All of it, reading meanwhile: the guest program may be waiting for that."""
        end = time.monotonic() + PATIENCE
        view = memoryview(data)
        while view:
            readable, writable, _ = select.select([self.socket], [self.socket], [], end - time.monotonic())
            assert readable or writable, "the guest program does not read"
            if readable:
                self.read()
            if writable:
                view = view[self.socket.send(view, socket.MSG_DONTWAIT):]

    def read(self):
        data = self.socket.recv(65536)
        assert data, "the guest program went away: " + self.process.stderr.read().decode()
        self.received += data

    def wait(self, check, what):
        end = time.monotonic() + PATIENCE
        self.dispatch()
        while not check():
            ready, _, _ = select.select([self.socket], [], [], end - time.monotonic())
            assert ready, f"not within {PATIENCE:g} s: {what() if callable(what) else what}"
            self.read()
            self.dispatch()

    def dispatch(self):
        while self.facts is not None and len(self.received) >= 8:
            number, kind, length = struct.unpack(">IHH", self.received[:8])
            assert length <= FRAME_MAX
            if len(self.received) < 8 + length:
                return
            payload, self.received = self.received[8:8 + length], self.received[8 + length:]
            if number in self.sessions:
                self.sessions[number].take(kind, payload)

    # --- the conversation ---

    def sync(self, before=b""):
        nonce = os.urandom(16)
        self.facts = None
        self.sessions = {}
        self.send(before + SYNC + nonce)
        self.wait(lambda: SYNC + nonce in self.received, "the sync is answered")
        self.received = self.received.split(SYNC + nonce, 1)[1]
        self.wait(lambda: len(self.received) >= 8 and len(self.received) >= 8 + int.from_bytes(self.received[6:8], "big"), "a welcome")
        number, kind, length = struct.unpack(">IHH", self.received[:8])
        assert (number, kind) == (0, WELCOME)
        texts = self.received[8:8 + length].split(b"\0")
        self.received = self.received[8 + length:]
        assert texts.pop() == b""
        self.facts = dict(text.decode().split("=", 1) for text in texts)
        return self

    def open(self, kind, *texts, listens=True):
        number = max(self.sessions, default=0) + 1
        session = self.sessions[number] = Session(self, number, listens)
        self.send(frame(number, OPEN, b"".join(text.encode() + b"\0" for text in (kind, *texts))))
        return session

    def run(self, *command, env=(), tty=False, listens=True, **keys):
        texts = [f"arg={word}" for word in command] + [f"env={text}" for text in env]
        texts += ["tty=1"] if tty else []
        return self.open("exec", *texts, *(f"{key}={value}" for key, value in keys.items()), listens=listens)

    def shell(self, script, **keys):
        return self.run("/bin/sh", "-c", script, **keys)

    def stop(self):
        self.socket.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()
            self.process.stderr.close()


class Machine:
    """A root with the guest program in namespaces of its own, as test_setup.py has it, that goes on running."""

    def __init__(self, root):
        self.root = root
        for folder in ("bin", "seed/weft", "etc", "run/weft", "dev", "proc", "sys", "root", "tmp"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/busybox", root / "bin/busybox")
        (root / "bin/sh").symlink_to("busybox")
        shutil.copy(program(), root / "seed/weft/guest")
        (root / "seed/weft/node").write_text("template 1\n", encoding="utf-8")
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="utf-8")
        script = f"mount -t proc proc {root}/proc && mount -t sysfs sys {root}/sys && mount -t tmpfs run {root}/run && echo ready && exec cat"
        self.keeper = subprocess.Popen(["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c", script],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.keeper.stdout.readline() == b"ready\n"
        child = (path := f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children") and open(path, encoding="ascii").read().split()[0]
        self.enter = ["nsenter", "--mount", "--net", "--uts", "--ipc", "--pid", "-t", child, "chroot", root]
        self.outside = ["nsenter", "--mount", "--net", "-t", child]  # its network and mounts, with this machine's programs

    def run(self, *command):
        return subprocess.run([*self.enter, *command], capture_output=True, text=True, timeout=60, check=True).stdout

    def tell(self, *command):
        return subprocess.run([*self.outside, *command], capture_output=True, text=True, timeout=60, check=True).stdout

    def plug(self, name, address):
        self.tell("ip", "link", "add", "name", name, "address", address, "type", "veth", "peer", "name", f"far-{name}")

    def unplug(self, name):
        self.tell("ip", "link", "del", name)

    def has_address(self, name, address):
        return f" {address} " in self.tell("ip", "-o", "-4", "address", "show", name)

    def close(self):
        self.keeper.stdin.close()
        self.keeper.wait(PATIENCE)
        self.keeper.stdout.close()
