"""Emulated hosts: a whole kernel each, with libvirtd and an RDMA device, on a machine that need have neither. Their root is the machine's
own, read-only, so that what they run is what is installed here."""
import os
import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODULES = """virtio_pci virtio_net virtio_rng 9pnet_virtio 9p overlay af_packet crc32_generic crc32c_generic rdma_rxe ib_uverbs
    rdma_ucm tun""".split()
CMDLINE = "console=ttyS0 quiet panic=-1 mitigations=off audit=0 no5lvl cryptomgr.notests random.trust_cpu=on nomodeset no_timer_check tsc=reliable"
BOOT_SECONDS = 400


class MetalError(Exception):
    pass


def pack(build, work):
    """The hosts' initrd; what comes later in it takes the place of what is there."""
    tree = work / "tree"
    (tree / "metal").mkdir(parents=True)
    for name in ("host", "libvirtd.conf", "qemu.conf"):
        (tree / "metal" / name).write_bytes((HERE / name).read_bytes())
    found = work / "found"
    found.mkdir()
    subprocess.run([HERE / "capabilities", found], check=True)
    for path in found.glob("*.xml"):
        (tree / "metal" / path.name).write_bytes(path.read_bytes())
    subprocess.run(["as", "--32", "-o", work / "guest.o", HERE / "guest.S"], check=True)
    subprocess.run(["ld", "-m", "elf_i386", "-Ttext", "0x100000", "--oformat", "binary", "-o", tree / "metal" / "guest", work / "guest.o"], check=True)
    initrd = work / "initrd"
    subprocess.run([ROOT / "images/initrd", build / "images/kernel", initrd, HERE / "init", *MODULES], check=True)
    files = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    more = subprocess.run(["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"], cwd=tree, input=files.encode(), stdout=subprocess.PIPE, check=True)
    data = initrd.read_bytes()
    initrd.write_bytes(data + bytes(-len(data) % 512) + more.stdout)
    return initrd


class Host:
    def __init__(self, build, work, number, initrd, link, memory=640):
        self.name = f"metal{number}"
        self.address = f"10.9.0.{number}"
        self.port = free_port()
        self.log = work / f"{self.name}.log"
        words = f"name={self.name} address={self.address} preload={build}/lab/libweftfold.so hook={build}/src/hook/weft-hook"
        command = ["qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", str(memory), "-smp", "1",
                   "-display", "none", "-nodefaults", "-no-reboot", "-vga", "none", "-serial", f"file:{self.log}",
                   "-kernel", build / "images/kernel/vmlinux", "-initrd", initrd, "-append", f"{CMDLINE} {words}",
                   "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
                   "-device", "virtio-9p-pci,fsdev=root,mount_tag=root", "-device", "virtio-rng-pci",
                   "-netdev", f"user,id=reach,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-10.0.2.15:16509",
                   "-device", f"virtio-net-pci,netdev=reach,mac=52:54:00:09:01:0{number},romfile=",
                   "-netdev", f"socket,id=link,{link}", "-device", f"virtio-net-pci,netdev=link,mac=52:54:00:09:02:0{number},romfile="]
        self.process = subprocess.Popen(command)

    @property
    def uri(self):
        return f"qemu+tcp://127.0.0.1:{self.port}/system"

    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def told(self, word):
        found = re.search(rf"@@{word} (.*)", self.text())
        return found and found.group(1).strip()

    def wait(self, check, what, seconds):
        end = time.monotonic() + seconds
        while not (value := check()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise MetalError(f"{self.name}: {what}: not within {seconds} s:\n{self.text()[-2000:]}")
            time.sleep(0.5)
        return value

    def stop(self):
        self.process.kill()
        self.process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Pair:
    """Two of them with a link between them."""
    def __init__(self, build):
        self.work = tempfile.TemporaryDirectory(prefix="weft-metal-")
        work, link = Path(self.work.name), free_port()
        initrd = pack(build, work)
        self.hosts = [Host(build, work, 1, initrd, f"listen=127.0.0.1:{link}")]
        time.sleep(1)
        self.hosts.append(Host(build, work, 2, initrd, f"connect=127.0.0.1:{link}"))

    def __enter__(self):
        try:
            for host in self.hosts:
                host.wait(lambda: host.told("up"), "is not up", BOOT_SECONDS)
        except BaseException:
            self.__exit__()
            raise
        return self.hosts

    def __exit__(self, *_):
        for host in self.hosts:
            host.stop()
        self.work.cleanup()


def environment():
    return os.environ | {"WEFT_DRIVE_PATIENCE": "240"}
