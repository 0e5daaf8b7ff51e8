"""weftd of the lab: its configuration, and the process. It runs in the room, where it reaches every host's libvirtd; `weft`
reaches it from anywhere on the machine by its Unix socket."""

import socket

import yaml

from .host import BOOT_SECONDS, tail, wait_until
from .process import LabError, Process

HOUSEKEEPING = 1  # core of each NUMA node
TENANTS = ("acme", "umbrella")
# Who tries things does not want to wait; and lab/writes.c mends what QEMU's emulator lacks.
CONTROL = {"host_grace": "10s", "scan_interval": "10s", "trust_emulator": True}
# An emulated host needs seconds for what a real one does at once, and has no time for a template unless somebody wants forks.
METAL_CONTROL = {"list_deadline": "1m", "connect_deadline": "2m", "start_deadline": "5m", "await_deadline": "10m", "meet_deadline": "5m",
                 "host_grace": "1m", "scan_interval": "30s", "templates": False}
METAL_PATIENCE = {"dial_limit": "20s", "keepalive": 10, "keepalive_count": 5}


def _host(plan, number):
    address = plan.address(number)
    place = {"name": plan.host_name(number), "leaf": f"leaf{plan.leaf(number)}", "uri": f"qemu+tcp://{address}/system", "address": address}
    # The adapters of an emulated host are NVMe devices that only look like such of InfiniBand from the host: nodes find no port in theirs.
    return place | {"verify": "ethernet"} if plan.metal else place | _described(plan, number)


def _described(plan, number):
    """Hardware that only weftd is told of; an emulated host is asked for its own.

    There is no PCI behind the adapter, so no virtual functions either: nodes' traffic takes the bridge."""
    # One mapping each: YAML would tie equal ones together with anchors, which weftd does not take.
    numa = [{"cores": plan.cores, "threads": plan.threads, "pages": {"2M": plan.node_pages}} for _ in range(plan.sockets)]
    return {"housekeeping": HOUSEKEEPING if plan.cores > HOUSEKEEPING else 0, "numa": numa,
            "hcas": [{"name": "mlx5_0", "port_guid": f"0x{plan.port_guid(number):016x}", "vfs": 0}]}


class Site:
    def __init__(self, lab):
        self.lab = lab
        self.folder = lab.folder / "weft"
        self.config = self.folder / "weft.yaml"
        self.socket = self.folder / "weft.sock"
        self.log = self.folder / "weftd.log"
        self.weftd = Process(self.folder / "weftd.pid")

    @property
    def url(self):
        return f"unix://{self.socket}"

    def _fabric(self):
        """opensm by weft's plugin; without the plugin a fake, whose partitions are files."""
        if self.lab.tools.plugin:
            return {"fabrics": [{"name": "ib0", "manager": {"driver": "opensm", "managers": [str(self.lab.fabric.socket)]}}]}
        return {"fabrics": [{"name": "ib0", "manager": {"driver": "fake", "world": str(self.folder / "fabric" / "ib0")}}]}

    def configuration(self):
        plan, guest = self.lab.plan, self.lab.tools.guest
        return {"store": {"path": str(self.folder / "weft.db")}, "api": {"socket": str(self.socket)},
                "control": METAL_CONTROL if plan.metal else CONTROL, **({"guest": str(guest)} if guest else {}),
                "hypervisor": {"driver": "libvirt", **(METAL_PATIENCE if plan.metal else {})}, **self._fabric(),
                "hosts": [_host(plan, number) for number in range(1, plan.hosts + 1)],
                "tenants": [{"name": name} for name in TENANTS]}

    def write(self):
        """Once: what is changed there stays."""
        self.folder.mkdir(exist_ok=True)
        if not self.config.exists():
            text = yaml.safe_dump(self.configuration(), sort_keys=False, default_flow_style=None, width=120)
            fresh = self.config.with_suffix(".new")
            fresh.write_text("# Written by weft lab up; see weft.yaml(5).\n" + text, encoding="utf-8")
            fresh.rename(self.config)

    def start(self):
        """Starts weftd unless it runs, and returns when it serves."""
        if not self.lab.tools.weftd:
            raise LabError("weftd is not built; run make build, or name the build folder in WEFT_BUILD")
        if self.weftd.pid is None:
            self.weftd.spawn([str(self.lab.tools.weftd), "--config", str(self.config)], self.log,
                             inside=self.lab.room.pid, folder=self.folder)

        def serves():
            if self.weftd.pid is None:
                raise LabError(f"weftd ended: {tail(self.log)}")
            with socket.socket(socket.AF_UNIX) as probe:
                return probe.connect_ex(str(self.socket)) == 0

        wait_until(serves, "weftd does not serve", BOOT_SECONDS)

    def status(self):
        return {"running": self.weftd.pid is not None, "url": self.url, "config": str(self.config)}
