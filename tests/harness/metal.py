"""Emulated hosts with virtual functions, and nodes that use them: what a node sees of its function, and what the machine sees of it."""

import subprocess

from .cloud import Cloud
from .wait import until
from .weft import SOURCE, build_folder

BOOT = 600.0  # seconds that two nodes may take on emulated hosts of a busy machine
UP_SECONDS = 600
FUNCTIONS = 4
# What a node says of the one NVMe device that it has: "h1-0 2", whose it is, which of its controllers, and where its disk is.
WHICH = "cat /sys/class/nvme/nvme0/serial /sys/class/nvme/nvme0/cntlid"
DISK = "/dev/nvme0n1"


class Metal(Cloud):
    """Its nodes' image is `tiny` with the driver of the functions."""

    def __init__(self, iommu=True, **options):
        words = {"hosts": 2, "metal": True} | ({} if iommu else {"no-iommu": True}) | options
        super().__init__(images=(), changes={"control": {"backoff_base": "1s"}}, **words)
        for name in ("sockets", "cores", "memory"):
            self.options.pop(name)

    def lab(self, verb, *arguments, timeout=UP_SECONDS, **more):
        words = [word for word in arguments if word is not True]
        return super().lab(verb, *words, timeout=timeout, **more)

    def up(self, weftd=True):
        super().up(weftd=weftd)
        if weftd:
            self._add_image()
            until(lambda: all(self.vfs(host) for host in self.hosts), lambda: f"hosts tell of their functions\n{self.tell_hosts()}", BOOT)
        return self

    def _add_image(self):
        images, initrd = build_folder() / "images", self.root / "initrd"
        modules = "virtio_pci virtio_blk virtio_net virtio_console virtio_rng af_packet isofs nvme".split()
        subprocess.run([SOURCE / "images/initrd", images / "kernel", initrd, SOURCE / "images/stage1", *modules], check=True)
        self.weft("image", "add", "tiny", "--kernel", images / "tiny/kernel", "--initrd", initrd, "--cmdline",
                  (images / "tiny/cmdline").read_text(encoding="utf-8").strip())

    def vfs(self, host):
        return sum(hca["vfs"] for hca in self.client.get(f"/v1/hosts/{host}").get("hcas") or [])

    def ready(self, name, tenant="acme", timeout=BOOT, **fields):
        return super().ready(name, tenant, timeout, **fields)

    def pair(self, name, tenant="acme", **spec):
        """A cluster of two nodes with a function each, one on either host."""
        return self.make(name, 2, tenant, memory="256M", path="sriov", layout="spread", **spec)

    def function(self, node):
        """What the store says of a node's: (host, which of its adapters, which function)."""
        [device] = node["devices"]
        return node["host"], int(device["hca"].rpartition("_")[2]), device["vf"]

    def seen(self, name, node, tenant="acme"):
        """The same as the node itself sees it."""
        serial, controller = self.run(f"{name}[{node['rank']}]", "sh", "-c", WHICH, tenant=tenant).stdout.split()
        host, _, adapter = serial.rpartition("-")
        return host, int(adapter), int(controller) - 1

    def disk(self, function):
        """What is on that function's disk, from outside."""
        host, adapter, vf = function
        return (self.folder / f"hosts/{host}/nvme{adapter}n{vf + 1}").read_bytes()
