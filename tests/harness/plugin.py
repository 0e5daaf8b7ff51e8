"""Speaks to weft's plugin inside opensm as weftd does: frames of JSON on its socket, as src/opensm/wire.h has them."""

import json
import socket
import struct

from .wait import PATIENCE


class Refused(Exception):
    """What the plugin said instead of doing it."""

    def __init__(self, error):
        super().__init__(f"{error['kind']}: {error['text']}")
        self.kind, self.text = error["kind"], error["text"]


def partition(number, guids, membership="full", name=None, **settings):
    """As in apply: guids all with that membership, or {guid: membership}."""
    members = guids if isinstance(guids, dict) else dict.fromkeys(guids, membership)
    return {"pkey": f"0x{number:04x}", "name": name or f"weft-{number:04x}",
            "members": [{"guid": f"0x{guid:016x}", "membership": word} for guid, word in members.items()]} | settings


class Plugin:
    """One connection."""

    def __init__(self, path, timeout=PATIENCE):
        self.path, self.timeout = str(path), timeout
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(self.path)
        except OSError:
            self.socket.close()
            raise
        self.last = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # --- frames ---

    def send(self, message):
        text = json.dumps(message).encode()
        self.socket.sendall(struct.pack(">I", len(text)) + text)

    def receive(self):
        (length,) = struct.unpack(">I", self._exactly(4))
        return json.loads(self._exactly(length))

    def _exactly(self, count):
        parts = []
        while count:
            part = self.socket.recv(min(count, 1 << 20))
            if not part:
                raise ConnectionResetError("the plugin closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def begin(self, what, **fields):
        """Sends a request without waiting; its id."""
        self.last += 1
        self.send({"id": self.last, "do": what} | fields)
        return self.last

    def end(self, number):
        """The answer to it; events that come before are kept."""
        while True:
            message = self.receive()
            if "event" in message:
                self.events.append(message)
            elif message.get("id") == number:
                if "error" in message:
                    raise Refused(message["error"])
                return message

    def ask(self, what, **fields):
        return self.end(self.begin(what, **fields))

    # --- requests ---

    def hello(self):
        return self.ask("hello")["manager"]

    def list(self):
        """{number: partition}, and the generation."""
        told = self.ask("list")
        return {int(entry["pkey"], 16): entry for entry in told["partitions"]}, told["generation"]

    def map(self):
        return self.ask("topology")["map"]

    def apply(self, partitions=(), removed=(), whole=False, generation=None):
        """whole: what is not among the partitions goes."""
        there, last = self.list()
        if whole:
            removed = [number for number, entry in there.items() if entry["name"].startswith("weft-")]
            removed = set(removed) - {int(entry["pkey"], 16) for entry in partitions}
        named = [(number, there[number]["name"] if number in there else "") for number in removed]
        return self.ask("apply", **self.change(partitions, named, generation or last + 1))

    @staticmethod
    def change(partitions, removed, generation):
        """removed: number and name of each."""
        return {"generation": generation, "set": list(partitions),
                "removed": [{"pkey": f"0x{number:04x}", "name": name} for number, name in removed]}

    def verify(self, *guids):
        """{guid: table}, as the plugin read them back."""
        told = self.ask("verify", ports=[f"0x{guid:016x}" for guid in guids])
        return {int(table["guid"], 16): table for table in told["tables"]}

    def listen(self):
        self.ask("listen")

    def event(self, kind):
        """The next one of that kind."""
        while True:
            for number, message in enumerate(self.events):
                if message["event"] == kind:
                    return self.events.pop(number)
            message = self.receive()
            assert "event" in message, message
            self.events.append(message)
