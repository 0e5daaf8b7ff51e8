"""The world of the fakes, seen and changed behind weft's back (see fake-hypervisor.h, fake-fabric.h and faults.h)."""

import contextlib
import fcntl
import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Member:
    port: int
    virtual: int
    membership: str
    index: int  # where its P_Key must be in the port's table; -1: anywhere


@dataclass
class Partition:
    number: int
    name: str
    members: frozenset


FOREIGN = "<domain type='kvm'><name>{name}</name><memory unit='KiB'>1024</memory></domain>\n"


class World:
    def __init__(self, hosts, fabric):
        self.hosts = Path(hosts)
        self.fabric = Path(fabric)

    # --- domains ---

    def domains(self, state="xml"):
        """The running domains as {host: {name}}; state "off": the stopped ones."""
        found = {}
        for path in self.hosts.glob(f"*/domains/*.{state}"):
            found.setdefault(path.parent.parent.name, set()).add(path.name[: -len(state) - 1])
        return found

    def where(self, name):
        return sorted(host for host, names in self.domains().items() if name in names)

    def definition(self, name):
        return next(self.hosts.glob(f"*/domains/{name}.xml")).read_text(encoding="utf-8")

    def end_domain(self, host, name):
        """The domain stops by itself, as after a crash of its guest."""
        path = self.hosts / host / "domains" / f"{name}.xml"
        path.rename(path.with_suffix(".off"))

    def remove_domain(self, host, name):
        (self.hosts / host / "domains" / f"{name}.xml").unlink()

    def add_domain(self, host, name, text):
        self._put(self.hosts / host / "domains" / f"{name}.xml", text)

    def add_foreign(self, host, name):
        """A domain that somebody else runs there."""
        self.add_domain(host, name, FOREIGN.format(name=name))

    def add_stray(self, host, name, like):
        """A domain with weft's mark that no record explains: a copy of another one, renamed."""
        text = self.definition(like).replace(like.removeprefix("weft-"), name.removeprefix("weft-"))
        self.add_domain(host, name, text)

    def stay(self, name):
        """The placement that its mark names."""
        return self.definition(name).removeprefix("<!--fake ").split(" ", 3)[2]

    # --- networks and images ---

    def networks(self):
        """{(host, VXLAN id): (cluster id, [peer])} of all hosts."""
        found = {}
        for path in self.hosts.glob("*/networks/[0-9]*"):
            try:
                mark, *peers = path.read_text(encoding="utf-8").splitlines()
            except FileNotFoundError:
                continue
            found[path.parent.parent.name, int(path.name)] = (mark.split()[0], peers)
        return found

    def add_network(self, host, vxlan, cluster, *peers, site=None):
        self._write(self.hosts / host / "networks" / str(vxlan), (f"{cluster} {site}" if site else cluster, *peers))

    def remove_network(self, host, vxlan):
        (self.hosts / host / "networks" / str(vxlan)).unlink()

    def images(self):
        """{host: {digest}} of what was brought whole."""
        found = {}
        for path in self.hosts.glob("*/pool/image-*"):
            if not path.suffix:
                found.setdefault(path.parent.parent.name, set()).add(path.name.removeprefix("image-"))
        return found

    def marks(self):
        """{(host, kind, id, site, stay)} of all that carries weft's mark: nodes (their domains and files), networks, images, memory."""
        found = set()
        for path in self.hosts.glob("*/domains/weft-*"):
            if path.suffix in (".xml", ".off", ".in", ".out"):
                with contextlib.suppress(FileNotFoundError):
                    words = path.read_text(encoding="utf-8").removeprefix("<!--fake ").split(" ", 3)
                    found.add((path.parent.parent.name, "node", *words[:3]))
        for path in self.hosts.glob("*/networks/[0-9]*"):
            with contextlib.suppress(FileNotFoundError):
                found.add((path.parent.parent.name, "network", *(path.read_text(encoding="utf-8").splitlines()[0] + " -").split()[:2], ""))
        for path in self.hosts.glob("*/pool/*.mark"):
            subject, site, *stay = path.name.removesuffix(".mark").split(".")
            kind, name = ("image", subject.removeprefix("image-")) if subject.startswith("image-") else ("node", subject.removeprefix("weft-"))
            found.add((path.parent.parent.name, kind, name, site, *(stay or [""])))
        return found | {(host, "memory", name, name.split("-")[0], "") for host, names in self.primed().items() for name in names}

    def add_image(self, host, digest, content=b"nobody's", site=None):
        folder = self.hosts / host / "pool"
        folder.mkdir(parents=True, exist_ok=True)
        if site:
            (folder / f"image-{digest}.{site}.mark").touch()
        (folder / f"image-{digest}").write_bytes(content)

    # --- forks ---

    def primed(self):
        """{host: {id}} of memory that nodes are forked from."""
        found = {}
        for path in self.hosts.glob("*/primed/*"):
            if not path.name.startswith("."):
                found.setdefault(path.parent.parent.name, set()).add(path.name)
        return found

    def add_primed(self, host, name):
        self._put(self.hosts / host / "primed" / name, "nobody's")

    def is_blank(self, host, name):
        """Its guest was forked, and was not told who it is."""
        return (self.hosts / host / "domains" / f"{name}.blank").exists()

    def plugged(self, host, name):
        """What was plugged into it ("+ALIAS") or unplugged ("-ALIAS")."""
        try:
            return set((self.hosts / host / "domains" / f"{name}.plugged").read_text(encoding="utf-8").split())
        except FileNotFoundError:  # nothing was; or it has just left that host
            return set()

    def is_plugged(self, host, name, alias="ua-nic"):
        return f"+{alias}" in self.plugged(host, name)

    # --- guests ---

    def reboot(self, host, name):
        """Its guest begins anew by itself."""
        with (self.hosts / "reboots").open("a", encoding="utf-8") as file:
            file.write(f"{host} {name}\n")

    def reboots(self):
        """{(host, name): how often}"""
        path = self.hosts / "reboots"
        return Counter(tuple(line.split()) for line in path.read_text(encoding="utf-8").splitlines()) if path.exists() else Counter()

    def devices_changed(self, host):
        """The host tells that its devices are others now: its inventory.json is read again."""
        with (self.hosts / "reboots").open("a", encoding="utf-8") as file:
            file.write(f"{host}\n")

    def set_clock(self, host, seconds):
        """The host's clock is wrong by that."""
        (self.hosts / host).mkdir(parents=True, exist_ok=True)
        self._write(self.hosts / host / "clock", [str(seconds)])

    def part(self, *pairs):
        """Guests on these pairs of hosts do not reach each other; no pairs: all do."""
        self._write(self.hosts / "apart", [" ".join(pair) for pair in pairs])

    def ports(self, *lines, host=None):
        """What guests there, or all, say of their ports: "RAIL ANSWER", "well", "older"; no lines: that they work."""
        self._write((self.hosts / host if host else self.hosts) / "ports", lines)

    def answer(self, text):
        """What all guests answer to "meet", and fail; None: what is true."""
        if text is None:
            (self.hosts / "answer").unlink()
        else:
            self._put(self.hosts / "answer", text)

    # --- faults ---

    def fault(self, *lines, host=None):
        """What goes wrong on a host, or on all; no lines: nothing."""
        folder = self.hosts / host if host else self.hosts
        folder.mkdir(parents=True, exist_ok=True)
        self._write_faults(folder / "faults", lines)

    def lose(self, host):
        self.fault("lost", host=host)

    def bring_back(self, host):
        self.fault(host=host)

    @contextlib.contextmanager
    def locked(self, host, folder="domains"):
        """Whoever is to look at the host's domains, or to change what is in that folder, waits until this ends."""
        path = self.hosts / host / folder
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def fabric_fault(self, *lines):
        for folder in self._fabric_folders() or [self.fabric]:
            self._write_faults(folder / "faults", lines)

    def _write_faults(self, path, lines):
        """Under the lock of the file that has the name: who counts down just then would put back what it has read."""
        while True:
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                self._write(path, lines)
                return
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    self._write(path, lines)
                    return
            finally:
                os.close(descriptor)

    def _write(self, path, lines):
        self._put(path, "".join(line + "\n" for line in lines))

    @staticmethod
    def _put(path, text):
        """At once, and from outside a folder that weftd lists: it must not see half of it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent.with_name(f"{path.parent.name}-{path.name}.new")
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(path)

    def set_inventory(self, host, text):
        self._put(self.hosts / host / "inventory.json", json.dumps(text))

    # --- partitions ---

    def _fabric_folders(self):
        return sorted(path.parent for path in self.fabric.glob("**/partitions"))

    def partitions(self):
        """{number: Partition} of the fabric."""
        found = {}
        for folder in self._fabric_folders():
            for path in folder.glob("partitions/0x*"):
                try:
                    lines = path.read_text(encoding="utf-8").splitlines()
                except FileNotFoundError:
                    continue
                number = int(path.name, 16)
                members = [line for line in lines[1:] if not line.startswith("settings")]
                found[number] = Partition(number, lines[0], frozenset(map(self._member, members)))
        return found

    @staticmethod
    def _member(line):
        port, virtual, membership, index = re.split(r"\s+", line.strip())
        return Member(int(port, 16), int(virtual, 16), membership, int(index))

    def _fabric_file(self, name):
        return (self._fabric_folders() or [self.fabric / "ib0"])[0] / name

    def port_table(self, guid, *keys):
        """What a port holds, whatever the partitions say, until it is told again; no keys: it does not answer."""
        path = self._fabric_file("tables") / f"0x{guid:016x}"
        self._write(path, [" ".join(f"0x{key:04x}" for key in keys) if keys else "silent"])

    def port_is_well(self, guid):
        (self._fabric_file("tables") / f"0x{guid:016x}").unlink()

    def port_lies(self, guid):
        return (self._fabric_file("tables") / f"0x{guid:016x}").exists()

    def manager(self, **abilities):
        self._write(self._fabric_file("manager"), [json.dumps(abilities)])

    def map(self, document):
        self._write(self._fabric_file("map"), [json.dumps(document)])

    def fabric_event(self, *lines):
        self._write(self._fabric_file("events"), lines)

    def change_partition(self, number, *members):
        """Somebody else gives it other members."""
        path = self._fabric_file("partitions") / f"0x{number:04x}"
        name = path.read_text(encoding="utf-8").splitlines()[0]
        self._write(path, [name, *members])

    def overtake(self):
        """Somebody else has changed the fabric, with a generation that is much later."""
        path = self._fabric_file("generation")
        self._write(path, [str(int(path.read_text(encoding="utf-8")) * 2)])

    def remove_partition(self, number):
        (self._fabric_file("partitions") / f"0x{number:04x}").unlink()

    def add_foreign_partition(self, number, name="storage"):
        self._put(self._fabric_folders()[0] / "partitions" / f"0x{number:04x}", name + "\n")
