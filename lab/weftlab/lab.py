"""The lab as a whole. Everything that runs is inside one pid namespace, "the room": ending its first process ends all."""

import fcntl
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from . import metal
from .fabric import Fabric
from .host import Host, await_ready
from .metal import MetalHost
from .plan import HOME, MARK, Plan
from .process import LabError, Process, become, run
from .site import Site


def say(text):
    print(text, file=sys.stderr, flush=True)


class Lab:
    """A lab in a folder; there need not be one yet."""

    def __init__(self, folder, tools):
        self.folder = Path(folder)
        self.tools = tools
        self.room = Process(self.folder / "room.pid")
        self.plan = Plan.load(self.folder)
        self.fabric = Fabric(self)
        self.site = Site(self)

    @property
    def hosts(self):
        kind = MetalHost if self.plan.metal else Host
        return [kind(self, number) for number in range(1, self.plan.hosts + 1)]

    def require(self):
        if self.plan is None:
            raise LabError(f"there is no lab in {self.folder}; make one with weft lab up")
        return self

    def host(self, name):
        for host in self.require().hosts:
            if host.name == name:
                return host
        names = ", ".join(self.plan.host_names())
        raise LabError(f"the lab has no host '{name}'; it has {names}")

    def running(self):
        self.require()
        if self.room.pid is None:
            raise LabError(f"the lab in {self.folder} does not run; start it again with weft lab up")
        return self

    def ip(self, *arguments):
        """ip(8) in the room's network namespace."""
        return run(["nsenter", "-t", str(self.room.pid), "-n", "ip", *arguments])

    # --- one at a time ---

    @contextmanager
    def locked(self):
        """Processes that are being started hold it too, until they can be found."""
        path = self.folder.with_name(f".{self.folder.name}.lock")
        while True:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:  # somebody has just removed the last lab
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"waiting: another weft lab is at work on {self.folder}")
                fcntl.flock(fd, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.fstat(fd).st_ino == path.stat().st_ino:
                    break
            os.close(fd)
        try:
            self.plan = Plan.load(self.folder)
            yield
        finally:
            if not self.folder.exists():
                path.unlink()
                if path.parent == HOME:
                    with suppress(OSError):  # other labs are there
                        HOME.rmdir()
            os.close(fd)

    # --- up and down ---

    def up(self, plan, weftd=True):
        """Makes it, or completes what is there."""
        if not self.tools.fold or (weftd and not self.tools.weftd):
            missing = "weftd" if self.tools.fold else "libweftfold.so"
            raise LabError(f"{missing} is not built; run make build, or name the build folder in WEFT_BUILD")
        if plan.metal:
            metal.check(plan, self.tools)
        self._claim_folder()
        if self.plan is None:
            plan.save(self.folder)
            self.plan = plan
        self._open_room()
        self.fabric.start()
        say("fabric: opensm has the subnet up")
        self._boot_hosts()
        self.site.write()
        if weftd:
            self.site.start()
            say("weftd serves")

    def _boot_hosts(self):
        """The first one finds out for all what their QEMU is able to; emulated ones have it from their image and boot side by side."""
        first, *others = self.hosts
        for wave in ([first, *others],) if self.plan.metal else ([first], others):
            for host in wave:
                say(f"host {host.name}: {host.address}")
                host.learn_from(first)
                host.heal()
            for host in wave:
                host.await_libvirtd()
            first.learn()
        say(f"{len(self.hosts)} hosts answer")

    def _claim_folder(self):
        if any(self.folder.is_relative_to(place) for place in ("/run", "/dev", "/proc", "/sys", "/etc/libvirt")):
            raise LabError(f"{self.folder}: hosts have a folder of their own there; choose another --dir")
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / MARK).exists() and any(self.folder.iterdir()):
            raise LabError(f"{self.folder} is not empty and has no {MARK}: not a lab's; choose another --dir")

    def _open_room(self):
        if self.room.pid is None:
            self.room.spawn([str(self.tools.folder / "room-init")], self.folder / "room.log", new=("mnt", "pid", "net"))
        await_ready(self.room, "switch", self.folder / "room.log")

    def down(self):
        """Removes everything, in whatever state it is."""
        if not self.folder.exists():
            return False
        if not (self.folder / MARK).exists() and any(self.folder.iterdir()):
            raise LabError(f"{self.folder} has no {MARK}: not a lab's, so it is left alone")
        self.room.kill()
        self._check_no_mounts()
        # The mark goes last: what is left half-way is still a lab's.
        for entry in self.folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != MARK:
                entry.unlink()
        (self.folder / MARK).unlink(missing_ok=True)
        self.folder.rmdir()
        return True

    def _check_no_mounts(self):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            if Path(line.split()[4]).is_relative_to(self.folder):
                raise LabError(f"{line.split()[4]} is mounted, and not by the lab; unmount it first")

    # --- looking and entering ---

    def status(self):
        with ThreadPoolExecutor() as pool:
            hosts = list(pool.map(lambda host: host.status(), self.require().hosts))
        return {"name": self.plan.name, "folder": str(self.folder), "running": self.room.pid is not None,
                "hosts": hosts, "fabric": self.fabric.status(),
                "weftd": self.site.status()}

    def execute(self, argv):
        """Becomes a command in the room itself: on the switch."""
        become(self.running().room.pid, argv)
