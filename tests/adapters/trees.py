"""Hosts with simulated adapters: a network and mount namespace each, whose /sys they are and whose /run is a folder of the world."""

import contextlib
import os
import socket
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from harness.weft import build_folder

NOBODY = (0, (1 << 64) - 1)  # before a function was ever somebody's, and after


@dataclass(frozen=True)
class Function:
    """What whoever has this virtual function can do on the fabric."""

    guid: int
    link: str
    keys: dict  # its own index: P_Key

    @property
    def is_somebodys(self):
        return self.guid not in NOBODY


def _function(text):
    (_, guid), (_, link), *keys = (line.split() for line in text.splitlines())
    return Function(int(guid, 16), link, {int(index): int(key, 16) for index, key in keys})


class Trees:
    """world: the folder of the fake hypervisor's; they end with close(), and with this process."""

    def __init__(self, world):
        self.world = Path(world)
        self.world.mkdir(parents=True, exist_ok=True)
        (self.world / "build").write_text(f"{build_folder().resolve()}\n", encoding="utf-8")
        self.processes = {}

    def add(self, host, *lines):
        """lines: as hcafs wants them."""
        root = self.world / host / "root"
        (root / "run").mkdir(parents=True)
        (root / "adapters").write_text("\n".join(lines), encoding="utf-8")
        # The process of its /sys holds the host's namespaces.
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "sh", "-c",
                                    'mount --bind "$1/run" /run && exec "$2" "$1/adapters" /sys', "sh", root, build_folder().resolve() / "lab/hcafs"],
                                   stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n", f"{host} has no /sys"
        (root / "pid").write_text(f"{process.pid}\n", encoding="ascii")
        self.processes[host] = process

    def files(self, host):
        """The host's /sys."""
        return Path(f"/proc/{self.processes[host].pid}/root/sys")

    def functions(self):
        """{(host, PCI address): Function} of all."""
        return {(host, file.name): _function(file.read_text(encoding="ascii"))
                for host in self.processes for file in (self.files(host) / ".functions").iterdir()}

    def records(self):
        """(host, domain) of which a hook believes that they are there."""
        return {(path.parents[4].name, path.name) for path in self.world.glob("*/root/run/weft-hook/domains/*")}

    def links(self):
        """{host: its network interfaces}, where it has any but its loopback."""
        found = {}
        for host, process in self.processes.items():
            lines = Path(f"/proc/{process.pid}/net/dev").read_text(encoding="ascii").splitlines()[2:]
            names = {line.partition(":")[0].strip() for line in lines} - {"lo"}
            found |= {host: names} if names else {}
        return found

    # --- hooks that are killed ---

    def strike(self, how):
        """The next hook of an operation is killed: "qemu-prepare at FAILPOINT", "qemu-release after SECONDS"; None: not any more. Of several
        lines each in turn."""
        file = self.world / "strike"
        if how:
            (self.world / "strike.new").write_text(how + "\n", encoding="ascii")
            os.rename(self.world / "strike.new", file)
        else:
            file.unlink(missing_ok=True)

    def is_struck(self):
        return not (self.world / "strike").exists()

    def close(self):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
            process.stdout.close()


class VirtualPorts:
    """In the place of a subnet manager with virtualization, which nobody has in Debian: tables of virtual ports as the partitions say that
    the fake manager was told. tell(): {number: Partition}."""

    DEFAULT, FULL = 0x7FFF, 0x8000

    def __init__(self, path, tell):
        self.tell = tell
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            # Who has waited too long has hung up.
            with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rw") as stream:
                stream.write(" ".join(f"0x{key:04x}" for key in self.table(int(stream.readline(), 16))) + "\n")

    def table(self, guid):
        """The default partition is everybody's, as limited member, and comes first unless another is wished there."""
        found = [(number, member) for number, partition in sorted(self.tell().items()) for member in partition.members if member.virtual == guid]
        keys = [(self.FULL if member.membership == "full" else 0) | number for number, member in sorted(found, key=lambda seat: seat[1].index != 0)]
        first = sum(member.index == 0 for _, member in found)
        return keys[:first] + [self.DEFAULT] + keys[first:] if found else []

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
