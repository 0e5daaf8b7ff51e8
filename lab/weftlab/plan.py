"""What a lab consists of: names, addresses and sizes. Kept in lab.json, which also marks the folder as a lab's."""

import dataclasses
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from .process import LabError

HOME = Path("/var/lib/weft-lab")
MARK = "lab.json"
NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
PAGE = 2 << 20
HOSTS_MAX = 200


def parse_size(text):
    found = re.fullmatch(r"(\d+)([KMGT]?)i?", text)
    if not found:
        raise LabError(f"'{text}' is not a size; write one such as 8G")
    return int(found[1]) * UNITS[found[2]]


# An emulated host really has its memory; its processors are described.
METAL = {"hosts": 2, "cores": 4, "memory": 3 << 30, "pages": 384}
METAL_HOSTS_MAX = 16


@dataclass(frozen=True)
class Plan:
    """The options of `up`. Each host is like the others."""

    name: str = "lab"
    hosts: int = 4
    sockets: int = 2
    cores: int = 8  # of a socket
    threads: int = 1  # of a core
    memory: int = 8 << 30  # of a host, bytes
    pages: int = 0  # of 2M on each NUMA node; 0: three quarters of its memory
    leaves: int = 2
    hook: str = ""  # program; empty: the build's
    metal: bool = False  # hosts are emulated machines, which have what is described here
    iommu: bool = True  # of an emulated host
    confined: bool = False  # emulated hosts have systemd, AppArmor, and QEMU as a user of its own

    def check(self):
        limits = {"hosts": METAL_HOSTS_MAX if self.metal else HOSTS_MAX, "sockets": 8, "cores": 128, "threads": 4, "leaves": 64}
        for field, limit in limits.items():
            if not 1 <= getattr(self, field) <= limit:
                raise LabError(f"--{field} must be 1 to {limit}, is {getattr(self, field)}")
        if not 1 << 30 <= self.memory <= 64 << 40:
            raise LabError(f"--memory must be 1G to 64T, is {self.memory >> 20}M")
        if self.node_pages * PAGE > self.node_memory:
            raise LabError(f"--pages {self.pages} of 2M are more than a NUMA node's memory of {self.node_memory >> 20}M")
        return self

    @property
    def node_memory(self):
        """Bytes of a NUMA node; a socket is one."""
        return self.memory // self.sockets

    @property
    def node_pages(self):
        return self.pages or self.node_memory * 3 // 4 // PAGE

    @property
    def cpus(self):
        return self.sockets * self.cores * self.threads

    def core_cpus(self, core):
        """The hardware threads of a core, numbered as Linux does on x86: all first ones, then all second ones."""
        return [thread * self.sockets * self.cores + core for thread in range(self.threads)]

    def node_cores(self, node):
        return range(node * self.cores, (node + 1) * self.cores)

    def host_names(self):
        return [self.host_name(number) for number in range(1, self.hosts + 1)]

    @staticmethod
    def host_name(number):
        return f"h{number}"

    def leaf(self, number):
        """The leaf switch of host `number`: hosts are dealt out in equal runs."""
        return (number - 1) * self.leaves // self.hosts + 1

    @staticmethod
    def address(number):
        return f"10.77.0.{10 + number}"

    @staticmethod
    def mac(number):
        return f"02:77:65:66:74:{number:02x}"

    @staticmethod
    def console(number):
        """Both ends of an emulated host's second cable, which the lab itself uses and nobody cuts."""
        return f"10.78.{number}.0", f"10.78.{number}.1"

    @property
    def adapters(self):
        """Of a host: an emulated one has one on each NUMA node."""
        return self.sockets if self.metal else 1

    @staticmethod
    def port_guid(number, adapter=0):
        return 0x0002C90300000000 + (number << 8) + (adapter << 4) + 1

    def save(self, folder):
        (folder / MARK).write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def load(folder):
        """None when there is none, or whoever began to write it was killed: nothing was made yet then."""
        try:
            return Plan(**json.loads((folder / MARK).read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None


def folder_of(name, given):
    """Where a lab of that name keeps everything."""
    if not NAME.fullmatch(name):
        raise LabError(f"'{name}' is no name for a lab; use up to 32 letters a-z, digits and '-', a letter first")
    return Path(os.path.abspath(given)) if given else HOME / name
