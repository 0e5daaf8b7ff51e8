"""Who can reach whom with weftd on top: 64 hosts, 12 clusters of 4 tenants; paths as the subnet administrator gives them, and virtual
functions by the index maps that the real hook makes. And nothing is left over after a long walk with opensm killed and swept."""

import itertools
import os
import random
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from harness import invariants
from harness.nets import fat_tree
from test_isolation import CLUSTERS, assert_isolated
from weftsite import TENANTS, Site
from wish import DEFAULT, FULL

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hook"))

import host as hook_host  # noqa: E402

FULL_WALK = os.environ.get("WEFT_FABRIC_FULL") == "1"
STEPS = 500 if FULL_WALK else 60
LOOK_EVERY = 6
NODES_MAX = 160
REAL_HOOKS = 8  # hosts
STORAGE, SCRATCH = 0x7001, 0x7002
ALLOWED = {"storage": TENANTS[:2], "scratch": TENANTS[2:3]}
DEVICE = f".//{{{hook_host.DOMAIN}}}device"
NOWHERE = "127"


@pytest.fixture(scope="module")
def fabric(ruled_fabric):
    return ruled_fabric(fat_tree(4, 16, 2))


@pytest.fixture
def site(fabric):
    servers = [f"0x{fabric.net.port_guid(name):016x}" for name in ("h63", "h64")]
    shared = [{"name": "storage", "pkey": f"0x{STORAGE:04x}", "servers": servers, "clusters": "limited", "tenants": list(ALLOWED["storage"])},
              {"name": "scratch", "pkey": f"0x{SCRATCH:04x}", "servers": servers[:1], "clusters": "full", "tenants": list(ALLOWED["scratch"])}]
    made = Site(fabric, shared=shared, changes={"control": {"scan_interval": "500ms"}})
    made.start()
    yield made
    made.stop()
    made.remove()


def asks_for(tenant):
    """The shared partitions that its clusters may join."""
    return [name for name, tenants in ALLOWED.items() if tenant in tenants]


@dataclass
class Function:
    """A virtual function of a node: the P_Keys that its map lets it use."""

    node: str
    cluster: str
    shared: frozenset
    keys: frozenset

    def numbers(self):
        return {pkey & ~FULL for pkey in self.keys} - {DEFAULT}

    def reaches(self, other):
        """By a partition of which at least one of them is a full member."""
        return any(one & ~FULL == two & ~FULL and (one | two) & FULL for one in self.keys for two in other.keys)


def mapped_by_the_hook(site, folder, name, table):
    """{domain: P_Keys that its function may use} on that host, after the real hook has run for each domain there."""
    domains = sorted(site.world.domains().get(name, ()))
    keys = ",".join(f"0x{pkey:04x}" for pkey in table.own)
    there = hook_host.Host(folder / name, [f"mlx4 mlx4_0 0000:42:00.0 4 {keys}"])
    try:
        found = {}
        for domain in domains:
            text = site.world.definition(domain)
            done = there.hook("qemu", domain, "prepare", text)
            assert done.returncode == 0, f"{domain} on {name}: {done.stderr}"
            found[domain] = ElementTree.fromstring(text).find(DEVICE).get("pci")
        maps = there.run("sh", "-c", 'cd "$1" && grep -r "" [0-9]*/ports/1/pkey_idx', "sh",
                         there.sys / "devices/pci0000:00/0000:42:00.0/infiniband/mlx4_0/iov").stdout
        pairs = [(line.partition("/")[0], line.rpartition(":")[2]) for line in maps.splitlines()]
        return {domain: frozenset(table.own[int(index)] for function, index in pairs if function == pci and index != NOWHERE)
                for domain, pci in found.items()}
    finally:
        there.close()


def mapped_by_metadata(site, name):
    """The same as the metadata of the domains has it."""
    return {domain: frozenset(keys_of(site.world.definition(domain))) for domain in site.world.domains().get(name, ())}


def functions_of(site, folder):
    """As the real hook maps them on all hosts, or in the short run on those with most clusters."""
    dump = site.dump()
    clusters = {cluster["id"]: cluster for cluster in dump.values("cluster").values()}
    nodes = {f"weft-{node['id']}": node for node in dump.values("node").values()}
    tables = site.fabric.tables()
    by_clusters = sorted({(node["host"], node["cluster"]) for node in nodes.values()})
    names = [name for name, _ in Counter(host for host, _ in by_clusters).most_common()]
    for number, name in enumerate(names):
        real = FULL_WALK or number < REAL_HOOKS
        table = tables[site.fabric.net.port_guid(name)]
        mapped = mapped_by_the_hook(site, folder, name, table) if real else mapped_by_metadata(site, name)
        for domain, keys in mapped.items():
            cluster = nodes[domain]["cluster"]
            yield Function(domain, cluster, frozenset(clusters[cluster].get("shared", ())), keys)


def make_clusters(site, chance):
    for number in range(CLUSTERS):
        tenant = TENANTS[number % len(TENANTS)]
        site.client.create(f"c{number}", chance.randint(3, 15), tenant, path="sriov", shared=asks_for(tenant) if number % 8 < 7 else [])
    for number in range(CLUSTERS):
        site.ready(f"c{number}", TENANTS[number % len(TENANTS)])


def remove_clusters(site):
    live = [(cluster["name"], tenant) for tenant in TENANTS for cluster in site.client.items("/v1/clusters", tenant=tenant)]
    for name, tenant in live:
        site.client.delete(name, tenant)
    for name, tenant in live:
        site.client.wait_gone(name, tenant)


def test_only_who_shares_a_partition_can_talk(site, tmp_path):
    make_clusters(site, random.Random(3))
    site.settle()
    wish = site.wish()
    holders = [sum(guid in members for members in wish.partitions.values()) for guid in wish.guids(*site.names)]
    assert max(holders) > 2, "clusters share ports"
    assert_isolated(wish)

    functions = list(functions_of(site, tmp_path))
    assert len(functions) == len(site.dump().values("node"))
    for one, other in itertools.combinations(functions, 2):
        together = one.cluster == other.cluster
        assert bool(one.numbers() & other.numbers()) == (together or bool(one.shared & other.shared)), (one, other)
        assert one.reaches(other) == (together or "scratch" in one.shared & other.shared), (one, other)
    remove_clusters(site)
    site.settle()


def test_by_a_pool_the_index_maps_alone_divide_them(new_fabric, tmp_path):
    """Every port has every key of the pool; what a function may use of them is its cluster's."""
    fabric = new_fabric()
    fabric.manager().start()
    site = Site(fabric, "pool", pkeys=(0x0010, 0x001F))
    site.start()
    try:
        for number in range(4):
            site.client.create(f"c{number}", 4, TENANTS[number % 2], path="sriov")
        for number in range(4):
            site.ready(f"c{number}", TENANTS[number % 2])
        functions = list(functions_of(site, tmp_path))
        assert len(functions) == 16 and all(len(function.numbers()) == 1 for function in functions)
        for one, other in itertools.combinations(functions, 2):
            assert bool(one.numbers() & other.numbers()) == one.reaches(other) == (one.cluster == other.cluster), (one, other)
        site.stop()
    finally:
        site.remove()


class Walk:
    """Clusters that come, grow, shrink and go, with an opensm that may be killed or swept at any moment."""

    def __init__(self, site, seed):
        self.site, self.chance = site, random.Random(seed)
        self.disturbances = {None: 80, site.master.hangup: 15, self._kill: 5}
        self.live = {}  # (name, tenant): nodes
        self.made = 0
        self.places = {}  # (domain, P_Key): where its port has it

    def _kill(self):
        self.site.master.kill()
        self.site.master.start(wait=False)

    def step(self):
        act = self.chance.choice((self._create, self._scale, self._scale, self._delete)) if self.live else self._create
        act()
        disturb = self.chance.choices(list(self.disturbances), self.disturbances.values())[0]
        if disturb:
            disturb()

    def _room(self):
        return NODES_MAX - sum(self.live.values())

    def _create(self):
        if len(self.live) == CLUSTERS or self._room() < 2:
            return self._delete()
        self.made += 1
        name, tenant = f"c{self.made}", self.chance.choice(TENANTS)
        count = self.chance.randint(2, min(16, self._room()))
        shared = [name for name in asks_for(tenant) if self.chance.random() < 0.5]
        self.site.client.create(name, count, tenant, path="sriov", shared=shared)
        self.live[name, tenant] = count

    def _scale(self):
        name, tenant = self.chance.choice(list(self.live))
        count = self.chance.randint(1, min(16, self.live[name, tenant] + self._room()))
        self.site.client.scale(name, count, tenant)
        self.live[name, tenant] = count

    def _delete(self):
        name, tenant = self.chance.choice(list(self.live))
        self.site.client.delete(name, tenant)
        del self.live[name, tenant]

    def look(self):
        """All agree; and no P_Key has moved that the map of a function points to."""
        self.site.wait_agreement()
        tables, now = self.site.fabric.tables(), {}
        for host, domains in self.site.world.domains().items():
            own = tables[self.site.fabric.net.port_guid(host)].own
            for domain in domains:
                now |= {(domain, pkey): own.index(pkey) for pkey in keys_of(self.site.world.definition(domain))}
        moved = {place: (index, now[place]) for place, index in self.places.items() if now.get(place, index) != index}
        assert not moved, f"P_Keys moved under running nodes: {moved}"
        self.places = now


def keys_of(definition):
    """The P_Keys that the hook maps for a domain, as its metadata has them."""
    device = ElementTree.fromstring(definition).find(DEVICE)
    return {FULL | int(device.get("pkey"), 16), DEFAULT, *(int(word, 16) for word in device.get("shared", "").split())}


def test_nothing_is_left_over_after_a_long_walk(site):
    walk = Walk(site, seed=21)
    for number in range(STEPS):
        walk.step()
        if number % LOOK_EVERY == 0:
            walk.look()
    walk.look()
    site.settle()
    walk.look()
    assert_isolated(site.wish())
    remove_clusters(site)
    site.settle()
    assert set(site.wish().partitions) == {STORAGE, SCRATCH} and not invariants.ledger(site.dump())
    site.master.kill()
    site.master.start()
    site.settle()
