"""weftd, a store and 64 hosts with simulated adapters, on whose nodes the real weft-hook works: with mlx4 on ibsim and a real opensm, with
mlx5 on weft's fake manager, since no manager in Debian knows virtual ports. What each function can do must follow from the store."""

import shutil
import subprocess
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from harness import invariants
from harness.fabric import Fabric, fat_tree
from harness.weft import Weft, build_folder, host
from trees import Trees, VirtualPorts
from weftsite import TENANTS, Site

HOSTS, VFS = 64, 4
DEFAULT, FULL = 0x7FFF, 0x8000
STORAGE, SCRATCH = 0x7001, 0x7002
KEYS = {"storage": STORAGE, "scratch": FULL | SCRATCH}  # what a cluster that was granted it has
ALLOWED = {"storage": TENANTS[:2], "scratch": TENANTS[2:3]}
PF = {"mlx4": "0000:42:00.0", "mlx5": "0000:41:00.0"}
HOOK = Path(__file__).resolve().parent / "hook"
# The machine may be busy; what a test did is to be noticed soon.
CONTROL = {"scan_interval": "300ms", "start_deadline": "60s", "stop_deadline": "60s", "list_deadline": "30s",
           "apply_deadline": "30s", "backoff_max": "500ms"}


def adapter(driver):
    return {"name": f"{driver}_0", "driver": driver, "pci": PF[driver], "vfs": VFS, "vf_pci": [f"{PF[driver][:-1]}{vf + 1}" for vf in range(VFS)]}


def shared(servers):
    return [{"name": "storage", "pkey": f"0x{STORAGE:04x}", "servers": servers, "clusters": "limited", "tenants": list(ALLOWED["storage"])},
            {"name": "scratch", "pkey": f"0x{SCRATCH:04x}", "servers": servers[:1], "clusters": "full", "tenants": list(ALLOWED["scratch"])}]


# --- what must be ---


def expected(dump):
    """{(host, PCI address): (GUID, P_Key at index 0, all P_Keys)} of the nodes' functions, by the store alone."""
    hosts, found = dump.values("host"), {}
    clusters = {cluster["id"]: (cluster, dump.values("cluster-status")[key]) for key, cluster in dump.values("cluster").items()}
    for node in dump.values("node").values():
        cluster, status = clusters[node["cluster"]]
        own = FULL | status["pkey"]
        granted = {KEYS[name] for name in cluster.get("shared", ()) if cluster["tenant"] in ALLOWED[name]}
        hcas = {hca["name"]: hca for hca in hosts[node["host"]]["hcas"]}
        for _rail, hca, vf, guid in node["devices"]:
            found[node["host"], hcas[hca]["vf_pci"][vf]] = (int(guid, 16), own, {own, DEFAULT} | granted)
    return found


def differences_of_functions(trees, dump):
    """Between what the store says and what functions can do; in words."""
    try:
        wanted, found, wrong = expected(dump), trees.functions(), []
    except OSError as error:  # whoever knows the tables does not answer just now
        return [f"functions cannot be read: {error}"]
    for place, function in found.items():
        guid, first, keys = wanted.get(place, (None, None, None))
        seen = sorted(function.keys.values())
        if guid is None:
            wrong += [f"{place} is nobody's, and has GUID 0x{function.guid:016x}"] if function.is_somebodys else []
            wrong += [f"{place} is nobody's, and can use {list(map(hex, seen))}"] if set(seen) - {DEFAULT} else []
        elif (function.guid, function.link, function.keys.get(0), seen) != (guid, "up", first, sorted(keys)):
            wrong.append(f"{place} is {function}, not 0x{guid:016x} with {first:#x} first of {list(map(hex, keys))}")
    wrong += [f"{place} is not there" for place in wanted.keys() - found.keys()]
    guids = Counter(function.guid for function in found.values() if function.is_somebodys)
    wrong += [f"GUID 0x{guid:016x} is on {times} functions" for guid, times in guids.items() if times > 1]
    domains = {(node["host"], f"weft-{node['id']}") for node in dump.values("node").values()}
    wrong += [f"the hook remembers {record}" for record in trees.records() - domains]
    wrong += [f"the hook has forgotten {domain}" for domain in domains - trees.records()]
    return wrong + [f"{host} has {links}" for host, links in trees.links().items() if host not in {place for place, _ in domains}]


class Mlx4(Site):
    """On a fabric of its own: ibsim and opensm with weft's plugin."""

    def __init__(self, hosts):
        self.folder = Path(tempfile.mkdtemp(prefix="weft-adapters-"))
        fabric = Fabric(self.folder / "fabric", fat_tree(4, hosts // 4, 2)).up()
        fabric.manager(plugin=True).start()
        servers = [f"0x{fabric.net.port_guid(name):016x}" for name in ("h1", "h2")]
        super().__init__(fabric, adapter=adapter("mlx4"), shared=shared(servers), changes={"control": CONTROL, "hypervisor": {"hook": str(HOOK)}})
        self.teller = subprocess.Popen(fabric.command([build_folder().resolve() / "tests/fabric/fabric-probe", "serve", self.folder / "ports"]),
                                       stdout=subprocess.PIPE, text=True)
        assert self.teller.stdout.readline() == "ready\n"
        self.trees = Trees(self.root / "hosts")
        for name in self.names:
            self.trees.add(name, f"fabric {self.folder}/ports", f"mlx4 mlx4_0 {PF['mlx4']} {VFS} ports=1 guid=0x{fabric.net.port_guid(name):016x}")

    def wrong(self):
        return self.differences() or differences_of_functions(self.trees, self.dump())

    def remove(self):
        super().remove()
        self.trees.close()
        self.fabric.close()
        self.teller.wait()
        self.teller.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Mlx5(Weft):
    """On weft's fake manager, whose partitions are the tables of the virtual ports."""

    def __init__(self, hosts):
        super().__init__()
        names = [f"h{i + 1}" for i in range(hosts)]
        guids = {name: f"0x{0x0002C90300100001 + 16 * i:016x}" for i, name in enumerate(names)}
        self.config["hypervisor"]["hook"] = str(HOOK)
        self.config["control"] |= CONTROL
        self.config["hosts"] = [host(name, hcas=[adapter("mlx5") | {"port_guid": guids[name]}], gpus=[], leaf=f"leaf{i // 16}")
                                for i, name in enumerate(names)]
        self.config["tenants"] = [{"name": name} for name in TENANTS]
        self.config["principals"] = []
        self.config["shared"] = shared([guids["h1"], guids["h2"]])
        self.ports = VirtualPorts(self.root / "ports", self.world.partitions)
        self.trees = Trees(self.root / "hosts")
        for name in names:
            self.trees.add(name, f"fabric {self.root}/ports", f"mlx5 mlx5_0 {PF['mlx5']} {VFS} vendor guid={guids[name]}")

    def wrong(self):
        return invariants.converged(self) or differences_of_functions(self.trees, self.dump())

    def remove(self):
        super().remove()
        self.trees.close()
        self.ports.close()


KINDS = {"mlx4": Mlx4, "mlx5": Mlx5}


@contextmanager
def site(kind, hosts=HOSTS):
    made = KINDS[kind](hosts)
    try:
        yield made
    finally:
        made.remove()
