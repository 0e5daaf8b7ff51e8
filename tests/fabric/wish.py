"""Which partitions there shall be, and whether ports, switches, opensm's file and its memory say the same."""

import re

from harness.plugin import Plugin, partition
from harness.wait import until
from harness.world import Member, Partition

DEFAULT, FULL = 0x7FFF, 0x8000
SECTION = re.compile(r"^# >>> weft:[^\n]*>>>\n(.*?)^# <<< weft <<<\n", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"(\S+)=(0x[0-9a-f]{4})([^:]*):([^;]*);")
MEMBER = re.compile(r"(0x[0-9a-f]{16})=(full|limited|both)")
WORDS = {"full": (FULL,), "limited": (0,), "both": (FULL, 0)}


def managed(path):
    """{number: Partition} as weft's part of opensm's file has them, virtual functions left out."""
    section = SECTION.search(path.read_text(encoding="utf-8"))
    found = {}
    for name, number, flags, members in ENTRY.findall(re.sub(r"#.*", "", section[1])) if section else ():
        index = 0 if "indx0" in flags else -1
        ports = {Member(int(guid, 16), 0, word, index) for guid, word in MEMBER.findall(members)}
        partition_ = found.setdefault(int(number, 16), Partition(int(number, 16), name, frozenset()))
        partition_.members |= ports
    return found


def in_file(path):
    """{number: {guid: membership}}: the same in short."""
    return {number: {member.port: member.membership for member in entry.members} for number, entry in managed(path).items()}


def in_memory(manager):
    """{number: {guid: membership}} of weft's own, as the plugin tells."""
    with Plugin(manager.socket) as plugin:
        listed, _ = plugin.list()
    ours = {number: entry["members"] for number, entry in listed.items() if entry["name"].startswith("weft-")}
    return {number: {int(m["guid"], 16): m["membership"] for m in members} for number, members in ours.items()}


class Wish:
    """{number: {guid: membership}}, for the hosts of a fabric."""

    def __init__(self, fabric):
        self.fabric, self.net = fabric, fabric.net
        self.partitions = {}

    def guids(self, *hosts):
        return [self.net.port_guid(host) for host in hosts]

    def set(self, number, hosts, membership="full"):
        """Wishes it; what to apply."""
        self.partitions[number] = {guid: membership for guid in self.guids(*hosts)}
        return self.entry(number)

    def entry(self, number, **settings):
        return partition(number, self.partitions[number], **settings)

    def all(self):
        return [self.entry(number) for number in sorted(self.partitions)]

    def remove(self, number):
        del self.partitions[number]
        return number

    def keys(self, guid):
        """What the port's table must hold, no more and no less; the manager's machines are full members of the default."""
        found = {DEFAULT}
        for number, members in self.partitions.items():
            if guid in members:
                found |= {bit | number for bit in WORDS[members[guid]]}
        return found

    def enforced(self, guid):
        """What the switch checks there; to opensm a full member is enough to let limited ones pass."""
        keys = self.keys(guid)
        return {pkey for pkey in keys if pkey & FULL or FULL | pkey not in keys}

    def differences(self, hosts=None):
        """Of the ports and of the switches' tables, in words; empty when all is as wished."""
        managers = {self.net.port_guid(host) for host in self.net.hosts() if host in self.fabric.managers}
        wanted = self.guids(*(hosts or self.net.hosts()))
        tables = self.fabric.tables(*(wanted if hosts else ()))
        for guid in (guid for guid in wanted if guid not in managers):
            table = tables.get(guid)
            if table is None or table.own is None:
                yield f"0x{guid:x} does not answer"
            elif table.keys != self.keys(guid):
                yield f"0x{guid:x} has {_hex(table.keys)} and not {_hex(self.keys(guid))}"
            elif table.enforced_keys != self.enforced(guid):
                yield f"the switch at 0x{guid:x} has {_hex(table.enforced)} and not {_hex(self.enforced(guid))}"

    def check(self, manager=None):
        """All is so at this moment; also in the manager's file and memory."""
        found = list(self.differences())
        assert not found, found
        if manager:
            assert in_file(manager.partitions) == self.partitions
            assert in_memory(manager) == self.partitions

    def wait(self):
        last = []

        def right():
            last[:] = self.differences()
            return not last

        until(right, lambda: f"tables as wished, but {last}")


def _hex(pkeys):
    return sorted(f"{pkey:#06x}" for pkey in pkeys or () if pkey)
