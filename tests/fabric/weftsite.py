"""weftd on a simulated fabric: its hosts have the ports of the net, and what ports, opensm and its file must hold follows from the
store alone."""

from harness import invariants
from harness.fabric import SM, umad2sim
from harness.plugin import Plugin
from harness.wait import PATIENCE, until
from harness.weft import Weft, host
from harness.world import World
from wish import FULL, Wish, in_memory, managed

MLX4 = {"name": "mlx4_0", "driver": "mlx4", "pci": "0000:42:00.0", "vfs": 4, "vf_pci": [f"0000:42:00.{vf + 1}" for vf in range(4)]}
MLX5 = {"name": "mlx5_0", "driver": "mlx5", "pci": "0000:41:00.0", "vfs": 0}
# Sweeps take their time, and what a test did is to be noticed soon.
CONTROL = {"apply_deadline": "10s", "list_deadline": "5s", "patrol_interval": "500ms", "pkey_rest": "100ms"}
TENANTS = ("acme", "umbrella", "initech", "hooli")


class FabricWorld(World):
    """Hosts are fake ones; partitions are what opensm's file has."""

    def __init__(self, hosts, manager):
        super().__init__(hosts, hosts)
        self.manager = manager

    def partitions(self):
        return managed(self.manager().partitions)


class Site(Weft):
    """way: how weftd tells opensm; managers: the machines of which it knows; adapter: what each host has."""

    def __init__(self, fabric, way="plugin", managers=(SM,), adapter=MLX4, pkeys=(0x0001, 0x3FFF), shared=(), changes=None):
        super().__init__()
        self.fabric, self.way = fabric, way
        self.names = [name for name in fabric.net.hosts() if name not in fabric.managers]
        self.config["control"] |= CONTROL
        self.config["fabrics"][0] |= {"manager": self._manager(managers), "pkey_first": f"0x{pkeys[0]:04x}", "pkey_last": f"0x{pkeys[1]:04x}"}
        self.config["hosts"] = [self._host(name, adapter) for name in self.names]
        self.config["tenants"] = [{"name": name, "devices": ["passthrough"]} for name in TENANTS]
        self.config["principals"] = []
        self.config["shared"] = list(shared)
        for section, values in (changes or {}).items():
            self.config[section] |= values
        self.world = FabricWorld(self.root / "hosts", lambda: self.master)

    def _host(self, name, adapter):
        hca = adapter | {"port_guid": f"0x{self.fabric.net.port_guid(name):016x}"}
        return host(name, hcas=[hca], gpus=[], leaf=self.fabric.net.leaf(name)[0], labels={"host": name})

    def _manager(self, names):
        if self.way == "plugin":
            return {"driver": "opensm", "managers": [str(self.fabric.manager(name).socket) for name in names]}
        (one,) = map(self.fabric.manager, names)
        # The fabric is in a network namespace; opensm's pid is the one that is seen from out here.
        environment = {"LD_PRELOAD": umad2sim(), "SIM_HOST": one.name}
        scratch = self.fabric.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        self.prefix = ["nsenter", "-t", str(self.fabric.room.pid), "-n", "--", "env", "--chdir", scratch,
                       *(f"{name}={value}" for name, value in environment.items())]
        return {"driver": "opensm", "way": self.way, "partitions_file": str(one.partitions), "pid_file": str(one.folder / "pid-outside")}

    @property
    def master(self):
        """The manager that rules, as far as its plugin tells."""
        made = list(self.fabric.managers.values())
        return next(filter(_rules, made), made[0]) if len(made) > 1 else made[0]

    # --- clusters ---

    def make(self, name, count=2, tenant="acme", **spec):
        self.client.create(name, count, tenant, **spec)
        return self.ready(name, tenant, ready=count)

    def ready(self, name, tenant="acme", **fields):
        return self.client.wait_phase(name, "ready", tenant, PATIENCE * 2, **fields)

    def number(self, name, tenant="acme"):
        return int(self.client.cluster(name, tenant)["partition"], 16)

    def remove_clusters(self, *names, tenant="acme"):
        for name in names:
            self.client.delete(name, tenant)
        for name in names:
            self.client.wait_gone(name, tenant)

    def hosts_of(self, name, tenant="acme"):
        return {node["host"] for node in self.client.nodes(name, tenant)}

    def wait_reason(self, name, *words, tenant="acme"):
        """Until `weft show` tells all of that; what it shows."""
        def shown():
            text = self.cli("show", name, "--tenant", tenant).stdout
            return text if all(word in text for word in words) else None

        return until(shown, lambda: f"{words} in {self.cli('show', name, '--tenant', tenant).stdout}")

    def wait_event(self, kind, *words):
        def told():
            return [event for event in self.client.events() if event["type"] == kind and all(word in event["message"] for word in words)]

        return until(told, lambda: f"{kind} {words} in {[event['message'] for event in self.client.events()]}")

    # --- what must be ---

    def wish(self):
        """Partitions as the store has them."""
        dump = self.dump()
        members = invariants.members_of(dump)
        wanted = {status["pkey"]: members[status["cluster"]] for status in dump.values("cluster-status").values() if status.get("pkey")}
        wanted |= {number: ports for number, (_, ports) in invariants.shared_partitions(dump).items()}
        wish = Wish(self.fabric)
        wish.partitions = {number: {member.port: member.membership for member in ports} for number, ports in wanted.items()}
        return wish

    def differences(self):
        """Between store, world, opensm's file and memory, the ports' tables and the switches'; in words."""
        wish = self.wish()
        return self.differences_of_weft() + list(wish.differences())

    def differences_of_weft(self):
        """The same without the ports, which may have what is the site's own."""
        wrong, wish = invariants.converged(self), self.wish()
        if self.way == "plugin":
            wrong += [f"opensm has {found}, the store {wish.partitions}" for found in [in_memory(self.master)] if found != wish.partitions]
        return wrong

    def settle(self):
        """All of them agree, and stay so over a sweep."""
        self.wait_agreement()
        self.master.sweep()
        self.wait_agreement()
        self.check_log()

    def wait_agreement(self):
        last = []

        def agree():
            last[:] = self.differences()
            return not last

        until(agree, lambda: f"all agree, but {last}\n{self.log_tail()}", PATIENCE * 2)

    def first_keys(self, name):
        """What the ports of its hosts have at index 0."""
        return {self.fabric.tables(guid)[guid].own[0] for guid in map(self.fabric.net.port_guid, self.hosts_of(name))}


def key(number):
    return FULL | number


def _rules(manager):
    try:
        with Plugin(manager.socket) as plugin:
            return plugin.hello().get("master", False)
    except OSError:
        return False
