"""Memory that nodes are forked from: where it is put, when it is refused, and when it goes."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from host import domain

MEMORY = "https://weft.dev/xmlns/memory/1"
SIZE = 4 << 20
ID, GENERATION = "4k2m8w9x1a2c", "9f3c"
MAKER, FORK = "1a-9", "1a-1"
RAM = "var/lib/libvirt/qemu/ram"


def xml(node, use, number=None, memory=ID, generation=GENERATION, size=SIZE):
    mark = f"<m:memory xmlns:m='{MEMORY}' id='{memory}' generation='{generation}' page='4096' use='{use}'/></metadata><memory unit='KiB'>{size >> 10}</memory>"
    text = domain(node).replace("</metadata>", mark)
    return text.replace("<domain type='kvm'>", f"<domain type='kvm' id='{number}'>") if number else text


class Memory:
    """A host on which memory is made and forked from, as libvirt and weftd would have it."""

    def __init__(self, host):
        self.host = host
        self.file = host.root / "dev/shm/weft-memory" / ID
        self.forks = host.root / "run/weft-fork"
        self.number = 0
        self.text = None

    def start(self, node, use, **changes):
        """Until QEMU would be started; tells what the last run of the hook answered."""
        self.number += 1
        answer = self.host.hook("qemu", f"weft-{node}", "prepare", xml(node, use, **changes))
        assert answer.returncode == 0, answer.stderr
        self.folder = self.host.root / RAM / f"{self.number}-weft-{node}"
        self.folder.mkdir(parents=True)
        self.text = xml(node, use, self.number, **changes)
        return self.host.hook("qemu", f"weft-{node}", "start", self.text)

    def end(self, node):
        answer = self.host.hook("qemu", f"weft-{node}", "release", self.text)
        assert answer.returncode == 0, answer.stderr

    def seen(self, path):
        """As the host's processes see it, with what is mounted there."""
        return Path(f"/proc/{self.host.pid}/root{path}")

    @property
    def place(self):
        """Where QEMU looks."""
        return self.seen(self.folder / "pc.ram")

    def write(self, byte=b"m"):
        """As QEMU does, through the place where it looks."""
        with self.place.open("r+b") as ram:
            ram.write(byte * SIZE)

    def note(self, suffix):
        self.forks.mkdir(exist_ok=True)
        (self.forks / f"{ID}{suffix}").write_text("of weftd", encoding="utf-8")

    def make(self):
        assert self.start(MAKER, "make").returncode == 0
        self.write()
        self.note(".state")
        self.end(MAKER)
        self.note(".ok")

    def tidy(self):
        """Any run of the hook does."""
        self.host.hook("network", "weft-probe", "start", "<network/>")


@pytest.fixture
def memory(make):
    memory = Memory(make())
    yield memory
    mounts = Path(f"/proc/{memory.host.pid}/mounts").read_text(encoding="utf-8")
    assert "pc.ram" not in mounts, "nothing stays mounted"


def test_makes_and_shares(memory):
    memory.make()
    assert memory.file.stat().st_size == SIZE
    answer = memory.start(FORK, "share")
    assert answer.returncode == 0, answer.stderr
    assert not memory.place.is_symlink() and memory.place.samefile(memory.seen(memory.file)), "a rule for its folder is enough for QEMU"
    feed = memory.forks / f"weft-{FORK}.in"
    assert "x-ignore-shared" in feed.read_text(encoding="utf-8") and feed.resolve().parent == memory.folder
    assert os.readlink(memory.forks / f"weft-{FORK}.out") == "/dev/null"
    assert memory.host.hook("qemu", f"weft-{FORK}", "started", memory.text).returncode == 0
    assert sorted(entry.name for entry in memory.forks.iterdir()) == [f"{ID}.ok", f"{ID}.state", f"{ID}.sum"]
    assert not memory.folder.exists(), "libvirt has nothing to remove any more"
    memory.end(FORK)
    assert memory.file.exists()


def test_uses_the_hosts_own_folder(memory):
    folder = memory.host.root / "etc/libvirt"
    folder.mkdir(parents=True)
    (folder / "qemu.conf").write_text('user = "root"\nmemory_backing_dir = "/mem"\n', encoding="utf-8")
    assert memory.host.hook("qemu", f"weft-{MAKER}", "prepare", xml(MAKER, "make")).returncode == 0
    place = memory.host.root / f"mem/libvirt/qemu/7-weft-{MAKER}"
    place.mkdir(parents=True)
    memory.text = xml(MAKER, "make", 7)
    assert memory.host.hook("qemu", f"weft-{MAKER}", "start", memory.text).returncode == 0
    assert memory.seen(place / "pc.ram").samefile(memory.seen(memory.file))
    memory.end(MAKER)


@pytest.mark.parametrize("node, use", [(MAKER, "make"), (FORK, "share")])
def test_a_start_that_fails_leaves_nothing(memory, node, use):
    memory.make()
    assert memory.start(node, use).returncode == 0
    memory.end(node)
    assert not memory.folder.exists()


def test_puts_it_on_nothing_that_was_put_there(memory):
    memory.make()
    victim = memory.host.root / "victim"
    victim.write_text("as it was", encoding="utf-8")
    folder = memory.host.root / RAM / f"{memory.number + 1}-weft-{FORK}"
    folder.mkdir(parents=True)
    (folder / "pc.ram").symlink_to(victim)
    assert memory.host.hook("qemu", f"weft-{FORK}", "prepare", xml(FORK, "share")).returncode == 0
    memory.text = xml(FORK, "share", memory.number + 1)
    assert memory.host.hook("qemu", f"weft-{FORK}", "start", memory.text).returncode == 0
    assert victim.read_text(encoding="utf-8") == "as it was" and memory.seen(folder / "pc.ram").samefile(memory.seen(memory.file))
    memory.end(FORK)


@pytest.mark.parametrize("spoil, changes, told", [
    (lambda memory: memory.file.unlink(), {}, "not on this host any more"),
    (lambda memory: (memory.forks / f"{ID}.sum").unlink(), {}, "not on this host any more"),
    (lambda memory: memory.file.write_bytes(b"m" * (SIZE - 4096)), {}, "bytes and the node"),
    (lambda memory: memory.file.write_bytes(b"n" * SIZE), {}, "damaged"),
    (lambda memory: None, {"generation": "9f3d"}, "not of generation 9f3d"),
    (lambda memory: None, {"size": SIZE * 2}, "bytes and the node"),
    (lambda memory: None, {"memory": "another"}, "not on this host any more"),
])
def test_refuses_what_is_wrong(memory, spoil, changes, told):
    memory.make()
    spoil(memory)
    answer = memory.start(FORK, "share", **changes)
    assert answer.returncode == 1
    assert told in answer.stderr and "prime it again" in answer.stderr
    assert not memory.place.exists()
    memory.end(FORK)


def make_link(folder):
    elsewhere = folder.parent / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)


# What others make of the folder before weft does, and what the hook says of it and of how to get out of it.
PLANTED = {
    "a link": (make_link, "is a link", "rm -r"),
    "a file": (lambda folder: (shutil.rmtree(folder), folder.write_text("x", encoding="utf-8")), "is not a folder", "rm -r"),
    "of a user": (lambda folder: os.chown(folder, 1000, 1000), "belongs to user 1000", "rm -r"),
    "for a group": (lambda folder: folder.chmod(0o771), "has mode 0771", "rm -r"),
    "for all": (lambda folder: folder.chmod(0o1777), "has mode 1777", "rm -r"),
    "to be replaced": (lambda folder: folder.parent.chmod(0o777), "may replace", "chmod +t"),
}


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("use", ["make", "share"])
def test_refuses_a_folder_that_is_not_roots(memory, use, planted):
    spoil, told, remedy = PLANTED[planted]
    memory.make()
    spoil(memory.file.parent)
    answer = memory.start(FORK, use)
    assert answer.returncode == 1 and told in answer.stderr and f"{remedy} {memory.host.root}/dev/shm" in answer.stderr, answer.stderr
    assert not (memory.folder / "pc.ram").is_symlink()
    _, report = memory.host.hook("network", "weft-probe", "start", "<network/>").stderr.split("\n")[:2]
    assert told in json.loads(report)["unsafe_folders"][0]["why"]


def test_closes_a_folder_of_roots_to_others(memory):
    """Which somebody made by hand: they may not change anything there, and see nothing of it either."""
    folder = memory.file.parent
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    memory.make()
    assert folder.stat().st_mode & 0o7777 == 0o700 and memory.file.exists()


def test_removes_nothing_where_a_link_leads(memory):
    elsewhere = memory.host.root / "etc"
    elsewhere.mkdir(exist_ok=True)
    (elsewhere / "passwd").write_text("root", encoding="utf-8")
    memory.file.parent.parent.mkdir(parents=True)
    memory.file.parent.symlink_to(elsewhere)
    memory.tidy()
    assert (elsewhere / "passwd").exists()


@pytest.mark.parametrize("changes", [{"memory": "../../etc/passwd"}, {"memory": ""}, {"generation": "a/b"}, {"memory": "x" * 65}])
def test_refuses_names_that_are_paths(memory, changes):
    answer = memory.host.hook("qemu", f"weft-{FORK}", "prepare", xml(FORK, "share", **changes))
    assert answer.returncode == 1 and "letters, digits" in answer.stderr
    assert memory.host.hook("qemu", f"weft-{FORK}", "prepare", xml(FORK, "eat")).returncode == 1


def test_goes_when_nobody_wants_it(memory):
    memory.make()
    memory.tidy()
    assert memory.file.exists()
    for suffix in (".ok", ".state"):
        (memory.forks / f"{ID}{suffix}").unlink()
    memory.tidy()
    assert not memory.file.exists()
    assert not list(memory.forks.iterdir())


def test_goes_with_a_maker_that_was_broken_off(memory):
    assert memory.start(MAKER, "make").returncode == 0
    memory.write()
    with memory.host.running(f"weft-{MAKER}"):
        memory.host.hook("qemu", f"weft-{MAKER}", "started", memory.text)
        memory.tidy()
        assert memory.file.exists()
    memory.tidy()  # its process is gone, and nobody said so
    assert not memory.file.exists()


def test_goes_when_it_was_never_marked(memory):
    assert memory.start(MAKER, "make").returncode == 0
    memory.write()
    memory.note(".state")
    memory.end(MAKER)
    memory.tidy()
    assert memory.file.exists()  # weftd is about to mark it
    long_ago = time.time() - 3600
    os.utime(memory.forks / f"{ID}.state", (long_ago, long_ago))
    memory.tidy()
    assert not memory.file.exists()
    assert not list(memory.forks.iterdir())
