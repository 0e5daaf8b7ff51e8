"""What the processes of a lab use: processor time by what they are, and memory that they share with nobody."""

import json
import os
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
GROUPS = ("qemu-system-x86", "libvirtd", "weftd")


def _stat(pid):
    """Name, parent, and seconds of its own and of its children that have ended."""
    try:
        name, rest = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").split("(", 1)[1].rsplit(")", 1)
    except OSError:
        return None
    fields = rest.split()
    return name, int(fields[1]), (int(fields[11]) + int(fields[12])) / TICK, (int(fields[13]) + int(fields[14])) / TICK


def processes(cloud):
    """pid to (name, seconds of its own, seconds of its ended children) of all that runs in the lab."""
    room = json.loads((cloud.folder / "room.pid").read_text(encoding="utf-8"))["pid"]
    stats = {int(name): stat for name in os.listdir("/proc") if name.isdigit() and (stat := _stat(name))}
    inside = {}

    def is_inside(pid):
        if pid not in inside:
            parent = stats[pid][1] if pid in stats else 0
            inside[pid] = pid == room or (parent > 1 and is_inside(parent))
        return inside[pid]

    return {pid: (name, own, ended) for pid, (name, _, own, ended) in stats.items() if is_inside(pid)}


class Meter:
    """Processor seconds from its making until tell(): those of QEMU, of libvirtd with its hooks, and of weftd."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.before = processes(cloud)

    def tell(self):
        used = dict.fromkeys(GROUPS, 0.0)
        for pid, (name, own, ended) in processes(self.cloud).items():
            _, own_before, ended_before = self.before.get(pid, (name, 0.0, 0.0))
            if name in used:
                used[name] += own - own_before + ended - ended_before
        return used


def unshared(cloud):
    """MiB of each QEMU that no other process has: the Private_* of smaps_rollup, added."""
    found = []
    for pid, (name, _, _) in processes(cloud).items():
        if name != "qemu-system-x86":
            continue
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        found.append(sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024)
    return found
