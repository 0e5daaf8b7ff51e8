"""Emulated hosts with virtual functions, and nodes that use them: what a node sees of its function, and what the machine sees of it."""

import re
import subprocess
from collections import Counter

from .cloud import Cloud
from .wait import until
from .weft import SOURCE, build_folder

BOOT = 600.0  # seconds that two nodes may take on emulated hosts of a busy machine
UP_SECONDS = 600
FUNCTIONS = 4
ADAPTERS = ("0000:41:00.0", "0000:81:00.0")
NODE = {"memory": "192M", "path": "sriov"}
# What a node says of the one NVMe device that it has, once its driver has found it: "h1-0 2", whose it is, and which of its controllers.
DISK = "/dev/nvme0n1"
WHICH = f"for i in $(seq 100); do [ -e {DISK} ] && break; sleep 0.2; done; cat /sys/class/nvme/nvme0/serial /sys/class/nvme/nvme0/cntlid"


class Metal(Cloud):
    """Its nodes' image is `tiny` with the driver of the functions."""

    patience = 120.0

    def __init__(self, iommu=True, **options):
        words = {"hosts": 2, "metal": True} | ({} if iommu else {"no-iommu": True}) | options
        super().__init__(images=(), changes={"control": {"backoff_base": "1s", "templates": True}}, **words)
        for name in ("sockets", "cores", "memory"):
            self.options.pop(name)

    def lab(self, verb, *arguments, timeout=UP_SECONDS, **more):
        words = [word for word in arguments if word is not True]
        return super().lab(verb, *words, timeout=timeout, **more)

    def exec(self, host, *command, timeout=UP_SECONDS, **more):
        return super().exec(host, *command, timeout=timeout, **more)

    def weft(self, *arguments, timeout=UP_SECONDS, **more):
        return super().weft(*arguments, timeout=timeout, **more)

    def up(self, weftd=True):
        super().up(weftd=weftd)
        if weftd:
            self._add_image()
            self._ready_hosts()
        return self

    def _add_image(self):
        images, initrd = build_folder() / "images", self.root / "initrd"
        modules = "virtio_pci virtio_blk virtio_net virtio_console virtio_rng af_packet isofs nvme".split()
        subprocess.run([SOURCE / "images/initrd", images / "kernel", initrd, SOURCE / "images/stage1", *modules], check=True)
        self.weft("image", "add", "tiny", "--kernel", images / "tiny/kernel", "--initrd", initrd, "--cmdline",
                  (images / "tiny/cmdline").read_text(encoding="utf-8").strip())

    def _ready_hosts(self):
        until(lambda: all(self.vfs(host) for host in self.hosts), lambda: f"hosts tell of their functions\n{self.tell_hosts()}", BOOT)

    def vfs(self, host):
        return sum(hca["vfs"] for hca in self.client.get(f"/v1/hosts/{host}").get("hcas") or [])

    def ready(self, name, tenant="acme", timeout=BOOT, **fields):
        return super().ready(name, tenant, timeout, **fields)

    def pair(self, name, tenant="acme", **spec):
        """A cluster of two nodes with a function each, one on either host."""
        return self.make(name, 2, tenant, **NODE, layout="spread", **spec)

    def end(self, name, tenant="acme"):
        self.client.delete(name, tenant)
        until(lambda: self.client.cluster(name, tenant) is None, lambda: f"{name} is gone: {self.client.cluster(name, tenant)}", BOOT)

    def await_template(self):
        """Until new nodes are forked."""
        until(lambda: [template["state"] for template in self.client.items("/v1/templates")] == ["ready"],
              lambda: f"{self.client.items('/v1/templates')}\n{self.log_tail()}", BOOT)

    def function(self, node):
        """What the store says of a node's: (host, which of its adapters, which function)."""
        [device] = node["devices"]
        return node["host"], int(device["hca"].rpartition("_")[2]), device["vf"]

    def seen(self, name, node, tenant="acme"):
        """The same as the node itself sees it."""
        serial, controller = self.run(f"{name}[{node['rank']}]", "sh", "-c", WHICH, tenant=tenant).stdout.split()
        host, _, adapter = serial.rpartition("-")
        return host, int(adapter), int(controller) - 1

    def pages(self, node):
        """Where its memory is, as the kernel has it: how many huge pages on which NUMA node."""
        maps = self.shell(node["host"], f"grep kernelpagesize_kB=2048 /proc/$(cat /run/libvirt/qemu/weft-{node['id']}.pid)/numa_maps")
        found = Counter()
        for numa, count in re.findall(r" N(\d+)=(\d+)", maps):
            found[int(numa)] += int(count)
        return found

    def refuse(self, host, error):
        """Its adapters' driver refuses GUIDs for functions with this error; 0: it takes them again, and what is in quarantine for it is
        readmitted. See lab/hcafs/main.c."""
        order = f"fail %s {error}" if error else "mend %s"
        files = f"/iov/ports/1/admin_guids/[1-{FUNCTIONS}]"
        self.shell(host, f"""nsenter -t "$(cat /run/adapters/pid)" -m sh -ec '
            for hca in /sys/class/infiniband/*; do
                for file in $(readlink -f $hca){files}; do printf "{order}" ${{file#/sys}} >/sys/.control; done
            done'""")
        if not error:
            self.shell(host, "cd /var/lib/weft/quarantine 2>/dev/null || exit 0; for pci in *; do [ ! -e $pci ] || weft-hook readmit $pci; done")
            self.weft("doctor", host, check=False)  # lets weftd know

    def disk(self, function):
        """What is on that function's disk, from outside."""
        host, adapter, vf = function
        return (self.folder / f"hosts/{host}/nvme{adapter}n{vf + 1}").read_bytes()


class Confined(Metal):
    """Hosts with systemd and AppArmor, as a site's."""

    def __init__(self):
        super().__init__(confined=True)

    def leftovers(self, hosts=None):
        """Debian's libvirt comes with a network of its own."""
        return [found for found in super().leftovers(hosts) if not found.endswith(": network default")]
