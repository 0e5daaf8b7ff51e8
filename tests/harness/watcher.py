"""Whether a node runs twice, at any time: looks all the while at the processors of every QEMU of a lab.

While a node is moved there are two QEMUs of it, and that is well as long as only one of them lets its guest run. What libvirt and
QEMU say of that may be wrong just then; the time that the threads of the guest's processors have had is not."""

import contextlib
import os
import re
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

INTERVAL = 0.05
LOOKS = 60  # at a process, until it is what it will be
BUSY = 2_000_000  # nanoseconds between two looks: less is what it takes to tell a halted processor something
LATE = 0.1  # seconds by which the kernel may be late to count


@dataclass
class Machine:
    """A QEMU process."""

    pid: int
    domain: str
    threads: list = field(default_factory=list)
    had: int = 0
    seen: float = 0.0
    ran: list = field(default_factory=list)  # [(from, until)]: between these two looks, however far apart they were

    def look(self):
        """What it takes to end it, its memory above all, is no running."""
        if not Path(f"/proc/{self.pid}/cmdline").read_bytes():
            return
        now, had = time.monotonic(), 0
        for task in self.threads or self.find():
            had += int((task / "schedstat").read_text().split()[0])
        if self.had and had - self.had > BUSY:
            self.ran.append((self.seen, time.monotonic()))
        self.had, self.seen = had, now

    def find(self):
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        self.threads = [task for task in tasks if (task / "comm").read_text().startswith("CPU ")]
        return self.threads


def within(one, other):
    """When the other ran after this one had, and before this one did again: both were running, or one came back. Nothing brings a node
    back but another move, which makes a new QEMU. The switch itself may fall between two looks, and proves nothing."""
    if not one.ran:
        return []
    first, last = one.ran[0][1], one.ran[-1][0]
    return [(began, ended) for began, ended in other.ran if first <= began and ended + LATE <= last]


class Watcher:
    """with Watcher(lab): …; fails at the end if a node ran twice meanwhile."""

    def __init__(self, lab):
        self.folder = str(lab.root)
        self.known = {}  # machines by pid
        self.others = Counter()  # how often a pid was looked at that is no machine of the lab's
        self.machines = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.thread.join()
        if kind is None:
            assert not self.wrong(), self.wrong()

    def wrong(self):
        domains = defaultdict(list)
        for machine in self.machines:
            domains[machine.domain].append(machine)
        pairs = [(domain, one, other) for domain, machines in domains.items() for one, other in permutations(machines, 2)]
        return [f"{domain} ran twice: one from {one.ran[0][0]:.2f} to {one.ran[-1][1]:.2f}, another meanwhile, {len(within(one, other))} "
                f"times from {within(one, other)[0]} on" for domain, one, other in pairs if within(one, other)]

    def moved(self):
        """Domains that more than one QEMU ran for, so that the watcher has seen what it was there for."""
        counts = defaultdict(int)
        for machine in self.machines:
            counts[machine.domain] += bool(machine.ran)
        return sorted(domain for domain, count in counts.items() if count > 1)

    # --- looking ---

    def _watch(self):
        while not self.over.wait(INTERVAL):
            self._look()

    def _look(self):
        there = {entry for entry in os.listdir("/proc") if entry.isdigit()}
        for pids in (self.known, self.others):
            for gone in pids.keys() - there:
                del pids[gone]
        for entry in there:
            machine = self.known.get(entry) or (self._meet(entry) if self.others[entry] < LOOKS else None)
            if machine:
                with contextlib.suppress(OSError, IndexError):  # it has just ended
                    machine.look()

    def _meet(self, entry):
        """None: not there any more, no QEMU, or another's."""
        self.others[entry] += 1
        folder = Path("/proc") / entry
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            name = re.search(r"\0-name\0guest=(weft-[^,\0]+)", command)
            if name and self.folder in (folder / "mountinfo").read_text():
                self.known[entry] = Machine(int(entry), name.group(1))
                self.machines.append(self.known[entry])
                return self.known[entry]
        return None
