"""A lab with weftd and weft's own images, and what must be true of its hosts whenever it has settled."""

import json
import os
import re
import subprocess

from . import invariants
from .lab import Lab
from .wait import PATIENCE, until
from .weft import SOURCE, build_folder

BOOT = 90.0  # seconds that a few emulated nodes may take to be ready on a busy machine
TENANTS = ("acme", "umbrella")
POOL = "/var/lib/libvirt/images/weft"  # weft's files on a host
# Quick to notice what a test did, and patient with guests that are emulated.
CONTROL = {"host_grace": "3s", "scan_interval": "500ms", "backoff_base": "100ms", "backoff_max": "1s", "list_deadline": "3s",
           "await_deadline": "60s", "templates": False}  # what is timed and counted shall not be disturbed
# Where no host is to be lost: one that a busy machine does not run for some seconds is none, and emulated nodes stop one after the other.
PATIENT = CONTROL | {"host_grace": "20s", "list_deadline": "10s", "checkpoint_skew": "60s"}
# One core is the host's own: two nodes fit on a host.
SMALL = {"sockets": 1, "cores": 3, "memory": "1G"}
LOOK = r"""
for name in $(virsh -q list --state-running --name); do echo "running $name"; done
for pid in $(pidof qemu-system-x86_64); do tr '\0' '\n' < /proc/$pid/cmdline | sed -n 's/^guest=\([^,]*\).*/machine \1/p'; done
ls /sys/class/net | sed -n 's/^wef[tv][0-9]*$/link &/p'
"""
LIBVIRTS_OWN = re.compile(r"file qemu/(ram/|(channel/target/)?domain-)\d+-")


class Cloud(Lab):
    """images: those of "make images" that it begins with."""

    def __init__(self, images=("tiny",), changes=None, **options):
        changes = {"control": CONTROL} | (changes or {})
        super().__init__(changes=changes, **(SMALL | options))
        self.images = images
        self.lost_power = set()
        self.book = invariants.UsageBook()

    def up(self, weftd=True):
        super().up(weftd=weftd)
        for name in self.images if weftd else ():
            self.add_image(name)
        return self

    def add_image(self, name):
        done = subprocess.run([SOURCE / "tools/image-add", build_folder(), name], capture_output=True, text=True, check=False,
                              env=os.environ | {"WEFT_URL": f"unix://{self.socket}"})
        assert done.returncode == 0, f"image {name}: {done.stderr}"

    def forget_images(self, host):
        """As if none had ever been brought there."""
        pools = self.virsh(host, "pool-list", "--name").split()
        for line in self.virsh(host, "vol-list", "weft").splitlines() if "weft" in pools else ():
            if line.split() and line.split()[0].startswith("image-"):
                self.virsh(host, "vol-delete", line.split()[0], "weft")

    def kill(self, host):
        super().kill(host)
        self.lost_power.add(host)

    def heal_all(self):
        """Brings back what a test that failed has left without its cable, power or libvirtd, and waits until weftd has it."""
        broken = [host["name"] for host in self.status()["hosts"] if host["state"] != "up" or not host["libvirtd"]]
        for host in broken:
            self.heal(host)
        until(lambda: all(self.client.get(f"/v1/hosts/{host}")["state"] == "up" for host in broken),
              lambda: f"{broken} are back\n{self.tell_hosts()}", BOOT)

    def leftovers(self, hosts=None):
        """libvirtd itself never clears what a domain had in its own folders when the power went."""
        return [found for found in super().leftovers(hosts)
                if not (found.split(":")[0] in self.lost_power and LIBVIRTS_OWN.search(found))]

    # --- clusters ---

    def create(self, name, count=1, tenant="acme", **spec):
        return self.client.create(name, count, tenant, **({"memory": "128M", "image": "tiny"} | spec))

    def ready(self, name, tenant="acme", timeout=BOOT, **fields):
        return self.client.wait_phase(name, "ready", tenant, timeout, **fields)

    def ready_without(self, host, name, **fields):
        """Ready again elsewhere. That a host is lost is told before its clusters know: until then they are what they were."""
        until(lambda: all(node["host"] != host for node in self.nodes(name)), lambda: f"no node is on {host}: {self.nodes(name)}", BOOT)
        return self.ready(name, **fields)

    def make(self, name, count=1, tenant="acme", **spec):
        self.create(name, count, tenant, **spec)
        return self.ready(name, tenant, ready=count)

    def only(self, *hosts):
        """Lets only these hosts take new nodes."""
        for host in self.hosts:
            self.client.expect(200, "POST", f"/v1/hosts/{host}/{'undrain' if host in hosts else 'drain'}", {})

    def spread(self, name, hosts, tenant="acme", **spec):
        """A cluster with one node on each of these hosts, in their order; placed, not yet ready."""
        for count, host in enumerate(hosts, 1):
            self.only(host)
            if count == 1:
                self.create(name, 1, tenant, **spec)
            else:
                self.client.scale(name, count, tenant)
            until(lambda n=count: len(self.client.nodes(name, tenant)) == n, f"{name} has a node on {host}")
        self.only(*self.hosts)

    def nodes(self, name, tenant="acme"):
        return sorted(self.client.nodes(name, tenant), key=lambda node: node["rank"])

    def run(self, target, *command, tenant="acme", check=True, text=None):
        """In a node, as weft run does it."""
        return self.weft("run", target, "--tenant", tenant, "--", *command, check=check, text=text)

    def clusters(self):
        return [(tenant, cluster["name"]) for tenant in TENANTS for cluster in self.client.items("/v1/clusters", tenant=tenant)]

    def remove_all(self):
        """Deletes every cluster, and waits until nothing is left of them anywhere."""
        for tenant, name in self.clusters():
            self.client.delete(name, tenant)
        until(lambda: not self.clusters(), lambda: f"clusters are gone, but {self.clusters()}", BOOT)
        self.wait_clean()
        assert not invariants.ledger(self.dump())

    # --- what must be true once it has settled ---

    def domains(self):
        """(host, domain) of all that runs on hosts that live."""
        return [(host, line) for host in self.living() for line in self.virsh(host, "list", "--name").split()]

    def found(self):
        """{"running", "machine", "link"} of hosts that live: [(host, name)]. What stands still does not run; a machine is a QEMU, whether
        libvirt knows of it or not."""
        lines = [(host, *line.split()) for host in self.living() for line in self.shell(host, LOOK).splitlines()]
        return {kind: sorted((host, name) for host, told, name in lines if told == kind) for kind in ("running", "machine", "link")}

    def differs(self, dump):
        """How hosts are not as the store says, in words: a node runs twice, elsewhere or not at all, or something is there for nobody."""
        nodes = [node for node in dump.values("node").values() if node["phase"] in ("up", "ready")]
        domains = sorted((node["host"], f"weft-{node['id']}") for node in nodes)
        numbers = {status["cluster"]: status.get("vxlan") for status in dump.values("cluster-status").values()}
        networks = {(node["host"], numbers[node["cluster"]]) for node in nodes}
        links = sorted((host, f"{kind}{number}") for host, number in networks for kind in ("weft", "wefv"))
        found = self.found()
        return [f"{kind}: {found[kind]}, not {wanted}" for kind, wanted in {"running": domains, "machine": domains, "link": links}.items()
                if found[kind] != wanted]

    def check(self, timeout=PATIENCE):
        """The books are right whenever one looks, and the hosts as they say, once all has settled."""
        last = []

        def settled():
            dump = self.dump()
            wrong = invariants.ledger(dump) + self.book.look(dump)
            assert not wrong, wrong
            last[:] = self.differs(dump)
            return not last

        until(settled, lambda: f"hosts are as the store says, but {last}\n{self.tell_hosts()}\n{self.log_tail()}", timeout)

    def events(self, kind):
        return [event for event in self.client.events() if event["type"] == kind]

    def network(self, host):
        """Names of the bridges and VXLANs there that belong to partitions."""
        links = json.loads(self.exec(host, "ip", "-j", "link", "show"))
        return sorted(link["ifname"] for link in links if re.fullmatch(r"wef[tv]\d+", link["ifname"]))
