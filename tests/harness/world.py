"""The world of the fakes, seen and changed behind weft's back (see fake-hypervisor.h, fake-fabric.h and faults.h)."""

import json
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

    def add_foreign(self, host, name):
        """A domain that somebody else runs there."""
        self._put(self.hosts / host / "domains" / f"{name}.xml", FOREIGN.format(name=name))

    def add_stray(self, host, name, like):
        """A domain with weft's mark that no wish explains: a copy of another one, renamed."""
        source = next(self.hosts.glob(f"*/domains/{like}.xml"))
        node = like.removeprefix("weft-")
        text = source.read_text(encoding="utf-8").replace(node, name.removeprefix("weft-"))
        self._put(self.hosts / host / "domains" / f"{name}.xml", text)

    # --- networks and images ---

    def networks(self):
        """{(host, VXLAN id): (cluster id, [peer])} of all hosts."""
        found = {}
        for path in self.hosts.glob("*/networks/[0-9]*"):
            try:
                lines = path.read_text(encoding="utf-8").split()
            except FileNotFoundError:
                continue
            found[path.parent.parent.name, int(path.name)] = (lines[0], lines[1:])
        return found

    def add_network(self, host, vxlan, cluster, *peers):
        self._write(self.hosts / host / "networks" / str(vxlan), (cluster, *peers))

    def remove_network(self, host, vxlan):
        (self.hosts / host / "networks" / str(vxlan)).unlink()

    def images(self):
        """{host: {digest}} of what was brought whole."""
        found = {}
        for path in self.hosts.glob("*/pool/image-*"):
            if not path.suffix:
                found.setdefault(path.parent.parent.name, set()).add(path.name.removeprefix("image-"))
        return found

    def add_image(self, host, digest, content=b"nobody's"):
        folder = self.hosts / host / "pool"
        folder.mkdir(parents=True, exist_ok=True)
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
        path = self.hosts / host / "domains" / f"{name}.plugged"
        return set(path.read_text(encoding="utf-8").split()) if path.exists() else set()

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

    def part(self, *pairs):
        """Guests on these pairs of hosts do not reach each other; no pairs: all do."""
        self._write(self.hosts / "apart", [" ".join(pair) for pair in pairs])

    # --- faults ---

    def fault(self, *lines, host=None):
        """What goes wrong on a host, or on all; no lines: nothing."""
        folder = self.hosts / host if host else self.hosts
        folder.mkdir(parents=True, exist_ok=True)
        self._write(folder / "faults", lines)

    def lose(self, host):
        self.fault("lost", host=host)

    def bring_back(self, host):
        self.fault(host=host)

    def fabric_fault(self, *lines):
        for folder in self._fabric_folders() or [self.fabric]:
            self._write(folder / "faults", lines)

    def _write(self, path, lines):
        self._put(path, "".join(line + "\n" for line in lines))

    @staticmethod
    def _put(path, text):
        """At once, and from outside a folder that weftd lists: it must not see half of it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent.with_name(f"{path.parent.name}-{path.name}.new")
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(path)

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

    def remove_partition(self, number):
        (self._fabric_file("partitions") / f"0x{number:04x}").unlink()

    def add_foreign_partition(self, number, name="storage"):
        self._put(self._fabric_folders()[0] / "partitions" / f"0x{number:04x}", name + "\n")
