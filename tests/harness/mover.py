"""A lab of two hosts with one node that beats (bench/beat) and is moved by the driver alone, without weftd."""

import collections
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from .cloud import BOOT, Cloud
from .wait import until
from .weft import build_folder

HEAR = Path(__file__).with_name("hear.py")
MIB = 1 << 20
NAME = "mover"
BACKING = "<memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages><nosharepages/></memoryBacking>"
PERIOD = 0.005  # as in bench/beat.c

# When it was heard, how many there were and how many pages were written and found wrong by then, the node's own clock, and its
# longest gap since the one before.
Beat = collections.namedtuple("Beat", "time sent written wrong clock longest")


class Mover(Cloud):
    def __init__(self, memory="512M", image="mpi", start="cold", **options):
        super().__init__(images=("mpi",), hosts=2, cores=3, **({"memory": "2G"} | options))
        self.node = {"memory": memory, "image": image, "start": start}
        self.domain = self.host = None

    name = NAME

    def up(self, weftd=True, renew=True):
        super().up(weftd=weftd)
        self.only("h1")
        if renew:
            self.renew()
        return self

    def renew(self):
        """Another node, in place of the one that there is."""
        for tenant, name in self.clusters():
            self.client.delete(name, tenant)
        until(lambda: not self.clusters(), "the node is gone", BOOT)
        self.make(NAME, 1, **self.node)
        node = self.nodes(NAME)[0]
        self.domain, self.host = f"weft-{node['id']}", node["host"]
        self.weft("scp", "--tenant", "acme", build_folder() / "bench/beat", f"{NAME}[0]:/tmp/beat")

    # --- what the node does ---

    def beat(self, mib, rate):
        """Has the node write, and nothing else; only while weftd runs."""
        self.run(f"{NAME}[0]", "sh", "-c", "for p in /proc/[0-9]*; do read n < $p/comm && [ $n = beat ] && kill ${p#/proc/}; done; "
                 f"setsid /tmp/beat 10.64.255.255 {mib} {rate} > /dev/null 2>&1 < /dev/null & sleep 1")
        until(lambda: self.hear(1)[-1:], "the node beats")

    def listen(self, seconds=None):
        """Begins to hear it on both hosts, for so long or until heard() ends that."""
        limit = [] if seconds is None else [str(seconds)]
        return [subprocess.Popen(self.command("exec", host, "--", sys.executable, str(HEAR), *limit), stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True) for host in self.living()]

    @staticmethod
    def heard(listeners):
        """Beats, each once, in the order in which they were sent."""
        beats = {}
        for listener in listeners:
            for line in listener.communicate()[0].splitlines():
                time, sent, written, wrong, clock, longest = line.split()
                beats.setdefault(int(sent), Beat(float(time), int(sent), int(written), int(wrong), float(clock), float(longest)))
        return [beats[sent] for sent in sorted(beats)]

    def hear(self, seconds):
        return self.heard(self.listen(seconds))

    # --- what is done to it ---

    def leave(self):
        """weftd ends; what the other host needs is brought there."""
        self.stop_weftd()
        network = next(name for name in self.virsh(self.host, "net-list", "--name").split() if name.startswith("weft-"))
        cluster = re.search(r'cluster="(\w+)"', self.virsh(self.host, "net-dumpxml", network)).group(1)
        for host, peer in (("h1", "10.77.0.12"), ("h2", "10.77.0.11")):
            assert self.drive("connect", host, network.removeprefix("weft-"), cluster, peer)["ok"]
        files = subprocess.run(self.command("exec", "h1", "--", "tar", "-C", "/var/lib/libvirt/images/weft", "-c", "--wildcards", "."),
                               capture_output=True, check=True).stdout
        subprocess.run(self.command("exec", "h2", "--", "tar", "-C", "/var/lib/libvirt/images/weft", "-x", "--wildcards", "./image-*"),
                       input=files, check=True)

    def definition(self, core=2):
        """As weft would write it, with another core."""
        text = self.virsh(self.host, "dumpxml", "--migratable", self.domain)
        text = re.sub(r"<driver:definition[^>]*/>", "", text)
        if "<memory:memory" in text:  # it was forked, and need not be there
            text = re.sub(r"<memory:memory[^>]*?(/>|>.*?</memory:memory>)", "", text, flags=re.DOTALL)
            text = re.sub(r"<memoryBacking>.*?</memoryBacking>", BACKING, text, flags=re.DOTALL)
        return re.sub(r"(<vcpupin vcpu=.0. cpuset=)'\d+'", rf"\1'{core}'", text)

    def drive_begin(self, *arguments, text="", patience=30):
        uris = " ".join(f"{name}=qemu+tcp://10.77.0.{11 + number}/system" for number, name in enumerate(self.hosts))
        command = self.command("exec", "switch", "--", "env", f"WEFT_DRIVE_PATIENCE={patience}",
                               build_folder().resolve() / "tests/contract/drive-hypervisor", uris, *arguments)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=os.environ | {"WEFT_BUILD": str(build_folder().resolve())})
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
        return process

    @staticmethod
    def drive_end(process, timeout=180):
        out, told = process.communicate(timeout=timeout)
        assert out, told
        return json.loads(out)

    def drive_kill(self, process):
        """As weftd dies: at once. What was begun is a child of the lab's."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"drive-hypervisor") and self.domain.encode() in words:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(folder.name), signal.SIGKILL)
        process.communicate()

    def drive(self, *arguments, text="", patience=30):
        return self.drive_end(self.drive_begin(*arguments, text=text, patience=patience))

    def other(self):
        return "h2" if self.host == "h1" else "h1"

    def move_begin(self, method, stall=300, bandwidth=50 * MIB, patience=30):
        return self.drive_begin("move", self.host, self.other(), self.domain, method, str(stall), str(bandwidth),
                                text=self.definition(), patience=patience)

    def move_end(self, process):
        answer = self.drive_end(process)
        if answer["ok"]:
            self.host = self.other()
        return answer

    def move(self, method, **options):
        return self.move_end(self.move_begin(method, **options))

    def state(self, host):
        """("running", "post-copy") and the like; None: it is not there."""
        done = self.virsh(host, "domstate", "--reason", self.domain, check=False)
        found = re.match(r"(.+) \((.+)\)", done.stdout)
        return found.groups() if found and found.group(1) != "shut off" else None

    def states(self):
        return {host: self.state(host) for host in self.hosts}


def silence(earlier, later):
    """How long nothing was heard between two beats; those that were lost on the way count as the time that they should have taken."""
    return later.time - earlier.time - PERIOD * (later.sent - earlier.sent - 1)


def gaps(beats):
    """All silences, the longest first."""
    return sorted((silence(earlier, later) for earlier, later in zip(beats, beats[1:])), reverse=True)


def rate(beats):
    """MiB a second that it wrote."""
    return (beats[-1].written - beats[0].written) / 256 / (beats[-1].time - beats[0].time)
