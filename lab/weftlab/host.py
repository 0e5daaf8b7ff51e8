"""One host of a lab: its files, its namespaces, its cable to the switch, and its libvirtd."""

import json
import shutil
import signal
import socket
import time
from pathlib import Path

from . import hardware
from .plan import PAGE
from .process import LabError, Process, become, enter, run

BOOT_SECONDS = 60
LEARN_SECONDS = 120
ANSWER_SECONDS = 10
INTERVAL = 0.02

LIBVIRTD_CONF = """\
listen_tls = 0
listen_tcp = 1
listen_addr = "0.0.0.0"
auth_tcp = "none"
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_group = "root"
host_uuid = "{uuid}"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
max_clients = 200
min_workers = 2
max_workers = 16
"""

# There is no systemd, udev or AppArmor in a host of the lab, and everything runs as root.
QEMU_CONF = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = [ ]
stdio_handler = "file"
hugetlbfs_mount = "/dev/hugepages"
migration_address = "0.0.0.0"
migration_host = "{address}"
"""
# … nor, where it is namespaces only, are there cgroups of its own.
NAMESPACES_CONF = """\
security_default_confined = 0
cgroup_controllers = [ ]
seccomp_sandbox = 0
clear_emulator_capabilities = 0
"""


def wait_until(check, what, seconds):
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            raise LabError(f"{what} within {seconds} s")
        time.sleep(INTERVAL)


def tail(path, lines=5):
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def await_ready(init, name, log):
    """Until the first process of new namespaces has made all that belongs in there."""
    def ready():
        if init.pid is None and init.pid_file.exists():
            raise LabError(f"{name} does not come up: {tail(log)}")
        return init.pid and Path(f"/proc/{init.pid}/root/run/{name}.ready").exists()

    wait_until(ready, f"{name} is not up", BOOT_SECONDS)


class Host:
    """Host `number` of a lab; room is the process that holds the switch."""

    def __init__(self, lab, number):
        self.lab = lab
        self.number = number
        self.name = lab.plan.host_name(number)
        self.address = lab.plan.address(number)
        self.folder = lab.folder / "hosts" / self.name
        self.init = Process(self.folder / "init.pid")
        self.libvirtd = Process(self.folder / "libvirtd.pid")

    # --- files ---

    def prepare(self):
        """Its disk; what a host keeps over a power loss is left as it is."""
        for part in ("etc", "libvirt/hooks", "var/lib/libvirt/images/weft", "var/log/libvirt", "var/cache/libvirt", "var/tmp"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        for name, target in (("run", "/run"), ("lock", "/run/lock")):
            if not (self.folder / "var" / name).is_symlink():
                (self.folder / "var" / name).symlink_to(target)
        self._write("libvirt/libvirtd.conf", LIBVIRTD_CONF.format(uuid=self.uuid()))
        self._write("libvirt/qemu.conf", QEMU_CONF.format(address=self.address) + NAMESPACES_CONF)
        self._write("etc/hosts", self.names())
        hardware.describe(self.lab.plan, self.folder / "hardware")
        self._add_user()
        self._install_hook()

    def names(self):
        """Its /etc/hosts."""
        plan = self.lab.plan
        names = [f"{plan.address(i + 1)} {name}" for i, name in enumerate(plan.host_names())]
        return "\n".join(["127.0.0.1 localhost", "10.77.0.1 switch", *names, ""])

    def uuid(self):
        return f"77656674-0000-4000-8000-{self.number:012d}"

    def _write(self, path, text):
        (self.folder / path).write_text(text, encoding="utf-8")

    def _add_user(self):
        """Debian's libvirtd does not start without that user, whom only the package that also starts a libvirtd would make."""
        lines = {"passwd": "libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin", "group": "libvirt-qemu:x:64055:"}
        for name, line in lines.items():
            text = Path("/etc", name).read_text(encoding="utf-8")
            self._write(f"etc/{name}", text if "\nlibvirt-qemu:" in text else f"{text}{line}\n")

    def _install_hook(self):
        hook = self.lab.tools.hook
        for kind in ("qemu", "network"):
            link = self.folder / f"libvirt/hooks/{kind}.d/weft"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            if hook:
                link.symlink_to(hook)

    # --- power ---

    def boot(self):
        """Starts what does not run; returns before libvirtd answers."""
        if self.init.pid is None:
            self.prepare()
            pages = self.lab.plan.node_pages * self.lab.plan.sockets * PAGE
            self.init.spawn([str(self.lab.tools.folder / "host-init"), str(self.folder), self.name, str(pages)],
                            self.folder / "init.log", inside=self.lab.room.pid, new=("mnt", "uts", "ipc", "pid", "net"))
        # Whoever started it may have been killed: then it is waited for, and plugged, by us.
        await_ready(self.init, self.name, self.folder / "init.log")
        self.lab.fabric.plug(self)
        self._plug()
        self.start_libvirtd()

    def _plug(self):
        """Lays its cable, unless it is there."""
        if self.link() is not None and "eth0" in self._ip("-j", "link", "show"):
            return
        # The cable of a host that lost its power goes when the kernel gets to it.
        if self.link() is not None:
            self.lab.ip("link", "del", self.name)
        # It keeps its card when it boots again: others would look for the old one for a while.
        card = ["name", "eth0", "address", self.lab.plan.mac(self.number), "netns", str(self.init.pid)]
        self.lab.ip("link", "add", "name", self.name, "type", "veth", "peer", *card)
        self._ip("addr", "add", f"{self.address}/24", "dev", "eth0")
        self._ip("link", "set", "eth0", "up")
        self.lab.ip("link", "set", self.name, "master", "switch", "up")

    def _ip(self, *arguments):
        return run(["nsenter", "-t", str(self.init.pid), "-n", "ip", *arguments])

    def kill(self):
        """A power loss: everything of the host ends at once, its files stay."""
        self.init.kill()
        self.libvirtd.kill()
        self.lab.fabric.unplug(self)

    # --- cable ---

    def link(self):
        """Its port on the switch: "up", "down", or None when there is none."""
        for link in json.loads(self.lab.ip("-j", "link", "show")):
            if link["ifname"] == self.name:
                return "up" if "UP" in link["flags"] else "down"
        return None

    def cut(self):
        self.lab.ip("link", "set", self.name, "down")

    def heal(self):
        self.boot()
        self.lab.ip("link", "set", self.name, "up")

    # --- libvirtd ---

    def start_libvirtd(self):
        if self.libvirtd.pid is None:
            self.libvirtd.spawn(["/usr/sbin/libvirtd", "--listen"], self.folder / "var/log/libvirt/libvirtd.out",
                                inside=self.init.pid, environment=self._environment())

    def stop_libvirtd(self, sig=signal.SIGKILL):
        """Its guests live on."""
        self.libvirtd.kill(sig)

    def _environment(self):
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
                "LD_PRELOAD": str(self.lab.tools.fold)}

    def await_libvirtd(self):
        def answers():
            if self.libvirtd.pid is None:
                logs = [tail(self.folder / f"var/log/libvirt/libvirtd.{kind}") for kind in ("out", "log")]
                raise LabError(f"libvirtd of host {self.name} ended: {' '.join(filter(None, logs))}")
            return self._accepts() and self.domains() is not None

        wait_until(answers, f"libvirtd of host {self.name} does not answer", BOOT_SECONDS)

    def has_libvirtd(self):
        return self.libvirtd.pid is not None

    def _accepts(self):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(f"/proc/{self.init.pid}/root/run/libvirt/libvirt-sock") == 0

    @property
    def _knowledge(self):
        return self.folder / "var/cache/libvirt/qemu/capabilities"

    def learn(self):
        """Has libvirtd find out what this machine's QEMU is able to, which takes the longest of all."""
        if not self._knowledge.exists():
            run(self._virsh("domcapabilities"), timeout=LEARN_SECONDS)

    def learn_from(self, other):
        """Spares it that: it is the same QEMU."""
        if not self._knowledge.exists() and other._knowledge.exists():
            shutil.copytree(other._knowledge, self._knowledge)

    def _virsh(self, *words):
        return enter(self.init.pid, ["virsh", "-q", "-c", "qemu:///system", *words])

    def domains(self):
        """Names and states; None when libvirtd does not answer."""
        try:
            text = run(self._virsh("list", "--all"), timeout=ANSWER_SECONDS)
        except LabError:
            return None
        rows = [line.split(None, 2) for line in text.splitlines() if line.strip()]
        return {name: state.strip() for _, name, state in rows}

    # --- seen from outside ---

    def status(self):
        try:
            link = self.link() if self.lab.room.pid and self.init.pid else None
        except LabError:  # it is being killed just now
            link = None
        state = "up" if link == "up" else "cut" if link else "dead"
        domains = self.domains() if link and self.has_libvirtd() else None
        return {"name": self.name, "state": state, "address": self.address, "leaf": f"leaf{self.lab.plan.leaf(self.number)}",
                "libvirtd": domains is not None, "domains": domains or {}}

    def execute(self, argv):
        """Becomes a command there."""
        self.require()
        become(self.init.pid, argv)

    def require(self):
        if self.init.pid is None:
            raise LabError(f"host {self.name} is dead; boot it with weft lab heal {self.name}")
