"""The simulated fabric: ibsim with a net of this lab's hosts, and a real opensm on it, with weft's plugin where that is built.

A two-level fat tree: each leaf is linked to each spine, and the subnet manager's own machine hangs on the first spine.
ibsim's sockets are abstract ones, so they belong to the room's network namespace: labs do not meet there either.
"""

import glob
import os
import re
import shutil

from .host import BOOT_SECONDS, tail, wait_until
from .process import LabError, Process

SPINES = 2
SWEEP_SECONDS = 5
SM = "sm"
TELLER = "10.77.0.1:7471"
# ibsim numbers a node's ports from its GUID on.
LEAF_GUID, SPINE_GUID, SM_GUID = 0x0002C902004A0000, 0x0002C902005A0000, 0x0002C903000F0000

PARTITIONS = "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n"
LINK = re.compile(r"\{ CA [^{]*\{(?P<name>\S+) [^}]*\}[^}]*\} \{.*LOG=(?P<state>\w+)")


def net_of(plan):
    """The net as ibnetdiscover would write it."""
    ports = {leaf: [n for n in range(1, plan.hosts + 1) if plan.leaf(n) == leaf] for leaf in range(1, plan.leaves + 1)}
    records = []
    cables = {leaf: [(n, adapter) for n in hosts for adapter in range(plan.adapters)] for leaf, hosts in ports.items()}
    for leaf, hosts in cables.items():
        down = [f'[{port}] "{adapter_name(plan.host_name(n), adapter)}"[1]' for port, (n, adapter) in enumerate(hosts, 1)]
        up = [f'[{len(hosts) + spine}] "spine{spine}"[{leaf}]' for spine in range(1, SPINES + 1)]
        records.append(_record("Switch", f"leaf{leaf}", LEAF_GUID + (leaf << 8), f"leaf{leaf}", down + up))
    for spine in range(1, SPINES + 1):
        down = [f'[{leaf}] "leaf{leaf}"[{len(hosts) + spine}]' for leaf, hosts in cables.items()]
        own = [f'[{plan.leaves + 1}] "{SM}"[1]'] if spine == 1 else []
        records.append(_record("Switch", f"spine{spine}", SPINE_GUID + (spine << 8), f"spine{spine}", down + own))
    for leaf, hosts in cables.items():
        for port, (n, adapter) in enumerate(hosts, 1):
            name, kind = plan.host_name(n), "mlx4" if plan.metal else "mlx5"
            records.append(_record("Hca", adapter_name(name, adapter), plan.port_guid(n, adapter) - 1, f"{name} {kind}_{adapter}",
                                   [f'[1] "leaf{leaf}"[{port}]']))
    records.append(_record("Hca", SM, SM_GUID, f"{SM} mlx5_0", [f'[1] "spine1"[{plan.leaves + 1}]']))
    return "\n".join(records)


def adapter_name(host, number):
    """What the net calls it."""
    return f"{host}-{number}" if number else host


def _record(kind, node, guid, description, links):
    guid_line = f"{'switchguid' if kind == 'Switch' else 'caguid'}=0x{guid:016x}"
    return "\n".join([guid_line, f'{kind} {len(links)} "{node}" # "{description}"', *links, ""])


def _umad2sim():
    found = glob.glob("/usr/lib/*/umad2sim/libumad2sim.so")
    if not found:
        raise LabError("libumad2sim.so is not installed; tools/packages lab brings it")
    return found[0]


class Fabric:
    def __init__(self, lab):
        self.lab = lab
        self.folder = lab.folder / "fabric"
        self.ibsim = Process(self.folder / "ibsim.pid")
        self.opensm = Process(self.folder / "opensm.pid")
        self.teller = Process(self.folder / "teller.pid")
        self.console = self.folder / "console"
        self.socket = self.folder / "opensm.sock"  # the plugin's
        self.partitions = self.folder / "partitions.conf"

    def start(self):
        """Starts what does not run, and returns when the subnet is up."""
        self.folder.mkdir(exist_ok=True)
        self._start_ibsim()
        if self.opensm.pid is None:
            self._start_opensm()
        wait_until(self._is_up, f"opensm does not bring the subnet up, see {self.folder}/opensm.log", BOOT_SECONDS)
        if self.lab.plan.metal:
            self._start_teller()

    def _start_ibsim(self):
        if self.ibsim.pid is not None:
            return
        self.opensm.kill()
        self.teller.kill()
        (self.folder / "net").write_text(net_of(self.lab.plan), encoding="ascii")
        log = self.folder / "ibsim.log"
        log.unlink(missing_ok=True)
        self.console.unlink(missing_ok=True)
        os.mkfifo(self.console)
        nodes = self.lab.plan.hosts + self.lab.plan.leaves + SPINES + 16
        limits = ["-N", str(nodes), "-S", str(nodes), "-P", str(nodes * 16)]
        # Both ends of its console stay open, so that commands can come from anybody at any time.
        preload = ["env", f"LD_PRELOAD={self.lab.tools.clients}"] if self.lab.tools.clients else []
        self.ibsim.spawn(["sh", "-c", 'exec "$@" <>console', "sh", *preload, "stdbuf", "-oL", "ibsim", "-s", *limits, "net"], log,
                         inside=self.lab.room.pid, folder=self.folder)

        def ready():
            if self.ibsim.pid is None:
                raise LabError(f"ibsim ended: {tail(log)}")
            return "simulator ready" in log.read_text(encoding="utf-8", errors="replace")

        wait_until(ready, "ibsim does not start", BOOT_SECONDS)

    def environment(self):
        """For any program that speaks to the fabric, as the subnet manager's machine."""
        folders = {name: str(self.folder) for name in ("OSM_CACHE_DIR", "OSM_TMP_DIR")}
        preload = ":".join(map(str, filter(None, [self.lab.tools.wakeups, _umad2sim()])))
        return os.environ | folders | {"LD_PRELOAD": preload, "SIM_HOST": SM}

    def _start_opensm(self):
        if not self.partitions.exists():  # weft's part of it outlives opensm
            self.partitions.write_text(PARTITIONS, encoding="ascii")
        for name in ("opensm.log", "opensm-subnet.lst"):
            (self.folder / name).unlink(missing_ok=True)
        for left in self.folder.glob("sys-*"):  # of a program that was killed, in umad2sim's way
            shutil.rmtree(left)
        environment, options = self.environment(), {"partition_config_file": self.partitions, "sweep_interval": SWEEP_SECONDS}
        if self.lab.tools.plugin:
            options |= {"event_plugin_name": "weftosm", "event_plugin_options": f"socket={self.socket}"}
            environment["LD_LIBRARY_PATH"] = str(self.lab.tools.plugin.parent)
        (self.folder / "opensm.conf").write_text("".join(f"{name} {value}\n" for name, value in options.items()), encoding="ascii")
        flush = ["-d", "2"]
        self.opensm.spawn(["opensm", "-F", "opensm.conf", "--log_file", "opensm.log", *flush], self.folder / "opensm.out",
                          inside=self.lab.room.pid, folder=self.folder, environment=environment)

    def _start_teller(self):
        """Tells emulated hosts the P_Key tables of their ports, which their adapters have not."""
        if self.teller.pid is not None:
            return
        log = self.folder / "teller.log"
        log.unlink(missing_ok=True)
        self.teller.spawn([str(self.lab.tools.probe), "serve", TELLER], log, inside=self.lab.room.pid, folder=self.folder,
                          environment=self.environment())

        def ready():
            if self.teller.pid is None:
                raise LabError(f"fabric-probe ended: {tail(log)}")
            return "ready" in log.read_text(encoding="utf-8", errors="replace")

        wait_until(ready, "fabric-probe does not find the ports", BOOT_SECONDS)

    def _is_up(self):
        if self.opensm.pid is None:
            raise LabError(f"opensm ended: {tail(self.folder / 'opensm.out')}")
        return self.state() == "up"

    # --- a host's port ---

    def unplug(self, host):
        for number in range(self.lab.plan.adapters):
            self._command(f'Unlink "{adapter_name(host.name, number)}"')

    def plug(self, host):
        for number in range(self.lab.plan.adapters):
            self._command(f'ReLink "{adapter_name(host.name, number)}"')

    def _command(self, line):
        if self.ibsim.pid is not None:
            with open(self.console, "w", encoding="ascii") as console:
                console.write(line + "\n")

    # --- seen from outside ---

    def state(self):
        """As opensm's log tells: "up", "sweeping", or "down" when it does not run."""
        if self.ibsim.pid is None or self.opensm.pid is None:
            return "down"
        try:
            text = (self.folder / "opensm.log").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return "sweeping"
        return "up" if "SUBNET UP" in text else "sweeping"

    def ports(self):
        """Hosts' ports and their state, as opensm's last sweep found them."""
        try:
            text = (self.folder / "opensm-subnet.lst").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return {}
        return {found["name"]: found["state"] for found in map(LINK.search, text.splitlines()) if found}

    def status(self):
        ports = self.ports() if self.opensm.pid else {}
        return {"state": self.state(), "active": sorted(name for name, state in ports.items() if state == "ACT")}
