"""A host of the lab as an emulated machine: a kernel, an IOMMU, NUMA nodes, huge pages and two adapters with virtual functions (NVMe) of its own.

Its root is the image `metal` below the host's own disk, and what it does when it starts is put together in its folder `lab`, which it sees
as /lab (lab/metal/start). It has two cables: one to the switch, which can be cut, and one by which the lab itself reaches it.
"""

import os
import re
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import yaml

from . import hardware
from .fabric import TELLER
from .host import ANSWER_SECONDS, LIBVIRTD_CONF, QEMU_CONF, Host, tail, wait_until
from .process import LabError, run

BOOT_SECONDS = 300
LEARN_SECONDS = 300
PORT = 16509
FUNCTIONS = 4  # of each adapter
NAMESPACE = 8 << 20  # bytes of what each function has to read and write
DISK = 8 << 30
ADAPTERS = ("adapters", "disks", "hook")  # of lab/metal: what has NVMe devices look like adapters
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# Without what the kernel would do for a machine that lives longer and is trusted less. Cgroups know how many processors there are.
CMDLINE = """console=ttyS0 quiet panic=-1 mitigations=off no5lvl cryptomgr.notests random.trust_cpu=on nomodeset no_timer_check
    tsc=reliable rcupdate.rcu_expedited=1 8250.nr_uarts=1 nowatchdog init_on_alloc=0 psi=0 iommu=pt cgroup_disable=cpuset
    pci=lastbus=0""".split()
OPEN = ["lsm=", "audit=0"]
CONFINED = ["lsm=apparmor", "apparmor=1", "audit=1", "systemd.show_status=0", "net.ifnames=0"]
# … and systemd and AppArmor, as on a site's hosts.
CONFINED_CONF = """\
hugetlbfs_mount = "/dev/hugepages"
migration_address = "0.0.0.0"
migration_host = "{address}"
"""


def check(plan, tools):
    """Before anything is made."""
    if not image_of(plan, tools):
        raise LabError(f"there is no image for such hosts; build it with images/build {'confined' if plan.confined else 'metal'} build/images")
    for name in ("weft", "hook", "hcafs", "probe"):
        if not getattr(tools, name):
            raise LabError(f"weft's {name} is not built; run make build, or name the build folder in WEFT_BUILD")


def image_of(plan, tools):
    return tools.confined if plan.confined else tools.image


def has_kvm():
    """Where the processor cannot virtualize, /dev/kvm only misleads."""
    flags = re.search(r"^flags\s*:.*\b(vmx|svm)\b", Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    return bool(flags) and os.access("/dev/kvm", os.R_OK | os.W_OK)


class Machine:
    """Its command line."""

    def __init__(self, host):
        self.host = host
        self.plan = host.lab.plan

    def command(self):
        return ["qemu-system-x86_64", *self._processors(), *self._memory(), *self._bare(), *self._disks(), *self._network(),
                *[word for node in range(self.plan.sockets) for word in self._adapter(node)]]

    def _processors(self):
        # One, whatever it describes: an emulated machine with two lost what their guests needed, and a machine has few to give.
        kind = ["kvm", "host"] if has_kvm() else ["tcg,tb-size=512", "EPYC,+svm"]
        return ["-M", "q35,kernel-irqchip=split", "-accel", kind[0], "-cpu", kind[1], "-smp", "1"]

    def _memory(self):
        megabytes = self.plan.node_memory >> 20
        words = ["-m", str(megabytes * self.plan.sockets)]
        for node in range(self.plan.sockets):
            words += ["-object", f"memory-backend-ram,id=memory{node},size={megabytes}M",
                      "-numa", f"node,nodeid={node},memdev=memory{node}" + (",cpus=0" if node == 0 else "")]
        return words

    def _bare(self):
        image, iommu = self.host.image, ["-device", "intel-iommu,intremap=on,caching-mode=on"] if self.plan.iommu else []
        line = [*CMDLINE, *(CONFINED if self.plan.confined else OPEN), *(["intel_iommu=on"] if self.plan.iommu else [])]
        return ["-nodefaults", "-display", "none", "-vga", "none", *iommu, "-serial", "file:console.log", "-qmp", "unix:qmp,server=on,wait=off",
                "-device", "virtio-rng-pci", "-kernel", str(image / "kernel"), "-initrd", str(image / "initrd"), "-append", " ".join(line)]

    def _disks(self):
        disks = (("image", f"file={self.host.image}/disk,readonly=on,file.locking=off"), ("disk", "file=disk,cache=writeback"))
        words = [word for name, what in disks
                 for word in ("-drive", f"if=none,id={name},format=raw,{what}", "-device", f"virtio-blk-pci,drive={name}")]
        return [*words, "-fsdev", "local,id=lab,path=lab,security_model=none,readonly=on", "-device", "virtio-9p-pci,fsdev=lab,mount_tag=lab"]

    def _network(self):
        words = []
        for name, mac in ((self.host.name, self.plan.mac(self.host.number)), (self.host.console, f"02:77:65:66:75:{self.host.number:02x}")):
            words += ["-netdev", f"tap,id={name},ifname={name},script=no,downscript=no",
                      "-device", f"virtio-net-pci,netdev={name},mac={mac},romfile="]
        return words

    def _adapter(self, node):
        """On a bus of its NUMA node: PCI address of its first function is ADAPTER below."""
        name = f"nvme{node}"
        words = ["-device", f"pxb-pcie,id=bus{node},bus_nr={bus(node)},bus=pcie.0,numa_node={node}",
                 "-device", f"pcie-root-port,id=port{node},bus=bus{node},chassis={node + 1},slot={node + 1}",
                 "-device", f"nvme-subsys,id=subsystem{node}",
                 "-device", f"nvme,id={name},serial={self.host.name}-{node},subsys=subsystem{node},bus=port{node},sriov_max_vfs={FUNCTIONS},"
                 f"sriov_vq_flexible={2 * FUNCTIONS},sriov_vi_flexible={FUNCTIONS},max_ioqpairs={2 * FUNCTIONS + 4},msix_qsize={FUNCTIONS + 5}"]
        for number in range(1, FUNCTIONS + 1):
            words += ["-drive", f"if=none,id={name}n{number},format=raw,file={name}n{number}",
                      "-device", f"nvme-ns,drive={name}n{number},bus={name},nsid={number},shared=off,detached=on"]
        return words


def bus(node):
    return 64 * (node + 1) if node < 3 else 192 + 8 * (node - 2)


def adapter(node):
    return f"0000:{bus(node) + 1:02x}:00.0"


class MetalHost(Host):
    def __init__(self, lab, number):
        super().__init__(lab, number)
        self.console = f"{self.name}-console"
        self.near, self.far = lab.plan.console(number)
        self.shared = self.folder / "lab"
        self.image = image_of(lab.plan, lab.tools)

    # --- files ---

    def prepare(self):
        """Its disks stay over a power loss; what the lab gives it is the newest at each start."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.shared, ignore_errors=True)
        shutil.copytree(self.lab.tools.folder / ("confined" if self.lab.plan.confined else "metal"), self.shared)
        if self.lab.plan.confined:
            for name in ADAPTERS:
                shutil.copy(self.lab.tools.folder / "metal" / name, self.shared / name)
        hardware.describe_processors(self.lab.plan, self.shared / "hardware")
        for name in ("weft", "hook", "hcafs", "fold"):
            program = getattr(self.lab.tools, name)
            if program:
                shutil.copy(program, self.shared / program.name)
        if self._knowledge.exists():
            shutil.copytree(self._knowledge, self.shared / "capabilities")
        shutil.copy(self._key().with_suffix(".pub"), self.shared / "authorized_keys")
        self._write("lab/libvirtd.conf", LIBVIRTD_CONF.format(uuid=self.uuid()))
        self._write("lab/qemu.conf", (CONFINED_CONF if self.lab.plan.confined else QEMU_CONF).format(address=self.address))
        self._write("lab/hosts", self.names())
        self._write("lab/host.yaml", yaml.safe_dump(self._wish()))
        self._write("lab/ports", self._ports())
        self._write("lab/environment", f"NAME={self.name}\nADDRESS={self.address}\nCONSOLE={self.far}\n")
        if self.lab.plan.confined:
            self._write("lab/weft-prepare.service", re.sub(r"ExecStart=\S+/", "ExecStart=/usr/sbin/", self.lab.tools.prepare.read_text("utf-8")))
        self._make_disks()

    def _wish(self):
        """host.yaml: what it is to make of itself."""
        adapters = [{"name": adapter(node), "functions": FUNCTIONS, "online": True} for node in range(self.lab.plan.sockets)]
        return {"adapters": adapters, "pages": {"2M": self.lab.plan.node_pages}}

    def _ports(self):
        """Which of its devices look like which adapters, and who tells what their ports hold (lab/metal/adapters)."""
        plan = self.lab.plan
        ports = [f"mlx4_{node} {self.name}-{node} 0x{plan.port_guid(self.number, node):016x}\n" for node in range(plan.adapters)]
        return f"fabric {TELLER}\n{''.join(ports)}"

    def _make_disks(self):
        sizes = {f"nvme{node}n{number}": NAMESPACE for node in range(self.lab.plan.sockets) for number in range(1, FUNCTIONS + 1)}
        for name, size in sizes.items():
            if not (self.folder / name).exists():
                with open(self.folder / name, "wb") as file:
                    file.truncate(size)
        if not (self.folder / "disk").exists():
            fresh = self.folder / "disk.new"
            with open(fresh, "wb") as file:
                file.truncate(DISK)
            run(["mkfs.ext4", "-q", "-F", "-m", "0", "-N", "65536", str(fresh)])
            fresh.rename(self.folder / "disk")

    def _key(self):
        key = self.lab.folder / "key"
        if not key.with_suffix(".pub").exists():
            key.unlink(missing_ok=True)
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(key)])
        return key

    # --- power ---

    def boot(self):
        """Starts it unless it runs; returns before libvirtd answers."""
        if self.init.pid is None:
            self.prepare()
            self._plug()
            (self.folder / "console.log").unlink(missing_ok=True)
            self.init.spawn(Machine(self).command(), self.folder / "qemu.log", inside=self.lab.room.pid, folder=self.folder)
        self.lab.fabric.plug(self)

    def _plug(self):
        links = self.lab.ip("-o", "link", "show")
        for name in (self.name, self.console):
            if f" {name}: " not in links:
                self.lab.ip("tuntap", "add", name, "mode", "tap")
        self.lab.ip("link", "set", self.name, "master", "switch", "up")
        self.lab.ip("addr", "replace", f"{self.near}/31", "dev", self.console)
        self.lab.ip("link", "set", self.console, "up")

    def kill(self):
        """A power loss: the machine ends at once, its disks stay."""
        self.init.kill()
        self.lab.fabric.unplug(self)

    # --- libvirtd ---

    def start_libvirtd(self):
        if not self.has_libvirtd():
            self.command("/lab/libvirtd")

    def stop_libvirtd(self, sig=9):
        self.command(f"kill -{int(sig)} $(pidof libvirtd); while pidof libvirtd; do sleep 0.1; done")

    def has_libvirtd(self):
        """By the second cable: as nobody cuts it, a connect that is not answered at once is not answered at all."""
        probe = ["nsenter", "-t", str(self.lab.room.pid), "-n", "timeout", "5", "bash", "-c", f": </dev/tcp/{self.far}/{PORT}"]
        with suppress(LabError):
            run(probe, timeout=ANSWER_SECONDS)
            return True
        return False

    def await_libvirtd(self):
        def started():
            if self.init.pid is None:
                raise LabError(f"host {self.name} ended: {tail(self.folder / 'qemu.log')} {tail(self.folder / 'console.log')}")
            return "@@libvirtd" in tail(self.folder / "console.log", 50)

        wait_until(started, f"host {self.name} is not up, see {self.folder}/console.log: not", BOOT_SECONDS)
        wait_until(lambda: self.has_libvirtd() and self.domains() is not None, f"libvirtd of host {self.name} does not answer", BOOT_SECONDS)

    @property
    def _knowledge(self):
        """Kept beside the image, which is what it tells of."""
        return self.image / "capabilities"

    def learn(self):
        if self._knowledge.exists():
            return
        run(self._virsh("capabilities"), timeout=LEARN_SECONDS)
        fresh = self._knowledge.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        folder = "/var/cache/libvirt/qemu/capabilities"
        for name in self.command(f"ls {folder}").split():
            (fresh / name).write_text(self.command(f"cat {folder}/{name}"), encoding="utf-8")
        fresh.rename(self._knowledge)

    def _virsh(self, *words):
        return ["nsenter", "-t", str(self.lab.room.pid), "-n", "virsh", "-q", "-c", f"qemu+tcp://{self.far}/system", *words]

    # --- commands there ---

    def command(self, text, timeout=300):
        """Runs a line of shell there, and returns what it said."""
        return run(self._ssh(text), timeout=timeout)

    def _ssh(self, text, *more):
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "BatchMode=yes", "ConnectTimeout=10"]
        return ["nsenter", "-t", str(self.lab.room.pid), "-n", "ssh", "-F", "none", "-i", str(self._key()), *more,
                *[word for option in options for word in ("-o", option)], f"root@{self.far}", f"export PATH={PATH}; {text}"]

    def execute(self, argv):
        self.require()
        command = self._ssh(f"exec {shlex.join(argv)}", *(["-t"] if sys.stdin.isatty() and sys.stdout.isatty() else []))
        os.execvp(command[0], command)
