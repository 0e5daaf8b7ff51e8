"""64 hosts, 12 clusters of 4 tenants: who can reach whom, as the subnet administrator says; and nothing left over after many changes
with opensm killed and swept at random."""

import itertools
import os
import random

import pytest
from harness.nets import fat_tree
from harness.plugin import Plugin, Refused
from harness.wait import until
from wish import DEFAULT, FULL, Wish

CLUSTERS, SHARED = 12, 0x100
FULL_WALK = os.environ.get("WEFT_FABRIC_FULL") == "1"
STEPS = 500 if FULL_WALK else 120
LOOK_EVERY = 5


@pytest.fixture(scope="module")
def fabric(ruled_fabric):
    return ruled_fabric(fat_tree(4, 16, 2))


def may_talk(wish, pkey, one, other):
    """Both hold the partition, and not both as limited members."""
    number = pkey & ~FULL
    if number == DEFAULT:
        words = ["full" if guid == wish.net.port_guid("sm") else "limited" for guid in (one, other)]
    else:
        members = wish.partitions.get(number, {})
        if one not in members or other not in members:
            return False
        words = [members[guid] for guid in (one, other)]
    return "full" in words


def assert_isolated(wish):
    """For every pair of ports and every P_Key, also those that nobody has."""
    pkeys = [FULL | number for number in (DEFAULT, CLUSTERS + 1, *wish.partitions)]
    guids = wish.guids(*wish.net.hosts())
    found = wish.fabric.paths(*pkeys)
    for pkey in pkeys:
        wanted = {frozenset(pair) for pair in itertools.combinations(guids, 2) if may_talk(wish, pkey, *pair)}
        assert found[pkey] == wanted, f"{pkey:#06x}: {len(found[pkey] - wanted)} too many, {len(wanted - found[pkey])} missing"


def test_paths_only_between_members(manager, fabric):
    chance, wish = random.Random(1), Wish(fabric)
    hosts = [host for host in fabric.net.hosts() if host != "sm"]
    for number in range(1, CLUSTERS + 1):
        wish.set(number, chance.sample(hosts, chance.randint(2, 10)))
    users = {guid: "limited" for number in (1, 2, 3) for guid in wish.partitions[number]}
    wish.partitions[SHARED] = users | dict.fromkeys(wish.guids(*hosts[:2]), "full")  # storage: its servers are full members
    with Plugin(manager.socket) as plugin:
        plugin.apply(wish.all(), whole=True)
        wish.check(manager)
        assert_isolated(wish)
        plugin.apply([], whole=True)


class Walk:
    """Clusters that come, grow, shrink and go, told to an opensm that may be killed or swept at any moment."""

    def __init__(self, manager, seed, sweeps=15, kills=5):
        """sweeps, kills: in how many of 100 changes."""
        self.manager = manager
        self.disturbances = {None: 100 - sweeps - kills, manager.hangup: sweeps, self._kill: kills}
        self.wish = Wish(manager.fabric)
        self.chance = random.Random(seed)
        self.hosts = [host for host in manager.fabric.net.hosts() if host != "sm"]
        with Plugin(manager.socket) as plugin:
            self.generation = plugin.apply([], whole=True)["generation"]

    def step(self):
        """A change, and now and then something that disturbs it."""
        numbers = list(self.wish.partitions)
        act = self.chance.choice(("create", "scale", "scale", "delete")) if numbers else "create"
        if act == "create" and len(numbers) == CLUSTERS:
            act = "delete"
        change = {"create": self._create, "scale": self._scale, "delete": self._delete}[act](numbers)
        disturb = self.chance.choices(list(self.disturbances), self.disturbances.values())[0]
        self._tell(change, disturb)

    def _create(self, numbers):
        number = self.chance.choice([number for number in range(1, CLUSTERS + 1) if number not in numbers])
        return {"partitions": [self.wish.set(number, self.chance.sample(self.hosts, self.chance.randint(2, 12)))]}

    def _scale(self, numbers):
        number = self.chance.choice(numbers)
        members = list(self.wish.partitions[number])
        if len(members) > 2 and self.chance.random() < 0.5:
            members.remove(self.chance.choice(members))
        else:
            members.append(self.chance.choice(self.wish.guids(*self.hosts)))
        self.wish.partitions[number] = dict.fromkeys(members, "full")
        return {"partitions": [self.wish.entry(number)]}

    def _delete(self, numbers):
        return {"removed": [self.wish.remove(self.chance.choice(numbers))]}

    def _kill(self):
        self.manager.kill()
        self.manager.start()

    def _tell(self, change, disturb):
        """As weftd does: the same change again until it is acknowledged."""
        self.generation += 1
        with Plugin(self.manager.socket) as plugin:
            removed = [(number, f"weft-{number:04x}") for number in change.get("removed", ())]
            asked = plugin.begin("apply", **plugin.change(change.get("partitions", ()), removed, self.generation))
            if disturb:
                disturb()
            try:
                plugin.end(asked)
                return
            except (Refused, OSError):
                pass
        until(lambda: self._again(change), f"change {self.generation} is done")

    def _again(self, change):
        self.generation += 1
        try:
            with Plugin(self.manager.socket) as plugin:
                return plugin.apply(**change, generation=self.generation)
        except (Refused, OSError):
            return None


def test_changes_right_after_each_other_while_it_sweeps(manager):
    walk = Walk(manager, seed=12, sweeps=40, kills=0)
    for number in range(STEPS):
        walk.step()
        if number % LOOK_EVERY == 0:
            walk.wish.check(manager)
    walk.wish.check(manager)


def test_nothing_is_left_over_after_many_changes(manager):
    walk = Walk(manager, seed=11)
    for number in range(STEPS):
        walk.step()
        if number % LOOK_EVERY == 0:
            walk.wish.check(manager)
    manager.sweep()
    walk.wish.check(manager)
    assert_isolated(walk.wish)
    with Plugin(manager.socket) as plugin:
        plugin.apply([], whole=True, generation=walk.generation + 1)
    walk.wish.partitions.clear()
    walk.wish.check(manager)
    manager.kill()
    manager.start()
    walk.wish.check(manager)
