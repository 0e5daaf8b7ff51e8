"""Two managers on one fabric: one rules, the other stands by, and partitions survive the change.

One that stands by and finds a lesser master asks it by a trap to hand over. ibsim drops the answer to that trap, and opensm on
umad2sim, which has no timeouts, waits for it forever. So whoever comes back here comes back as the lesser one, and a greater one
comes as the master of a part that is joined: then the lesser one sees it by itself, and hands over."""

import pytest
from harness.fabric import SM, STANDBY
from harness.nets import fat_tree
from harness.plugin import Plugin, Refused
from harness.wait import until
from weftsite import Site
from wish import Wish

LESSER = 1  # priority
# One that does not look for itself when parts are joined is handed the fabric before it asks for it.
GREATER = {"sm_priority": 9, "sweep_on_trap": "FALSE"}


@pytest.fixture
def fabric(new_fabric):
    return new_fabric(fat_tree(2, 4, 2, managers=(SM, STANDBY)))


@pytest.fixture
def master(fabric):
    return fabric.manager(SM, plugin=True, options={"sm_priority": 5}).start()


@pytest.fixture
def standby(fabric, master):
    return fabric.manager(STANDBY, plugin=True, options={"sm_priority": 3}).start(wait=False).wait_standby()


@pytest.fixture
def wish(fabric, standby):
    return Wish(fabric)


def rules(manager):
    with Plugin(manager.socket) as plugin:
        return plugin.hello().get("master", False)


def come_back(manager):
    manager.options["sm_priority"] = LESSER
    manager.start(wait=False).wait_standby()


def wait_rules(manager):
    until(lambda: rules(manager), f"{manager.name} rules")


def hear(plugin, detail):
    """Until it says so; that it rules since its start may come late."""
    while plugin.event("manager")["detail"] != detail:
        pass


def tell(manager, wish):
    """Everything, as weftd does when another manager rules."""
    with Plugin(manager.socket) as plugin:
        plugin.apply(wish.all(), whole=True, generation=max(plugin.list()[1] + 1, 1000))


def test_who_stands_by_takes_no_orders_for_ports(master, standby, wish):
    assert rules(master) and not rules(standby)
    with Plugin(standby.socket) as plugin, pytest.raises(Refused) as refused:
        plugin.apply([wish.set(1, ("h1", "h2"))])
    assert refused.value.kind == "unavailable" and "master" in refused.value.text.lower()
    wish.remove(1)
    wish.check(master)


def test_the_standby_takes_over(master, standby, wish):
    with Plugin(master.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2")), wish.set(2, ("h3", "h8"))])
    with Plugin(standby.socket) as plugin:
        plugin.listen()
        master.kill()
        plugin.event("manager")
    standby.wait_up()
    wait_rules(standby)
    tell(standby, wish)
    wish.check(standby)


def test_the_old_master_comes_back(master, standby, wish):
    """It stands by then, and rules again, with a file of long ago, when the other goes."""
    with Plugin(master.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2"))])
    master.kill()
    standby.wait_up()
    wait_rules(standby)
    wish.remove(1)
    wish.set(2, ("h2", "h5", "h6"))
    tell(standby, wish)
    wish.check(standby)
    come_back(master)
    assert rules(standby) and not rules(master)
    standby.kill()
    master.wait_up()
    wait_rules(master)
    tell(master, wish)
    wish.check(master)


@pytest.fixture
def parts(new_fabric):
    """Two that rule a part each, the greater one only its own switch; and what joins them. Returns the lesser, the greater, join."""
    net = fat_tree(2, 4, 2).switch("annex").host(STANDBY).link(STANDBY, "annex").link("annex", "spine1")
    fabric = new_fabric(net)
    fabric.unlink("annex", 2)
    lesser = fabric.manager(SM, plugin=True, options={"sm_priority": 3}).start()
    greater = fabric.manager(STANDBY, plugin=True, options=GREATER).start()
    assert rules(lesser) and rules(greater)
    return lesser, greater, lambda: fabric.relink("annex", 2)


def test_a_greater_one_comes_and_goes(parts):
    """The lesser one hands over while it lives, stands by, and rules again when the greater one is gone."""
    lesser, greater, join = parts
    wish = Wish(lesser.fabric)
    with Plugin(lesser.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2", "h5"))])
        plugin.listen()
        join()
        hear(plugin, "does not rule the fabric")
        with pytest.raises(Refused) as refused:
            plugin.apply([wish.set(2, ("h3", "h8"))], generation=100)
        assert refused.value.kind == "unavailable"
        wait_rules(greater)
        tell(greater, wish)
        assert not list(wish.differences())
        wish.remove(1)
        lesser.ups = lesser.sweeps()
        greater.kill()
        hear(plugin, "rules the fabric")
    lesser.wait_up()
    tell(lesser, wish)
    wish.check(lesser)


def test_weftd_follows_a_greater_one_and_back(parts):
    lesser, greater, join = parts
    site = Site(lesser.fabric, managers=(SM, STANDBY))
    site.start()
    try:
        site.make("cfd", 3, cores=4)
        join()
        until(lambda: not rules(lesser), "the lesser one has handed over")
        wait_rules(greater)
        site.make("sim", 4, "umbrella")
        assert site.master is greater
        site.settle()
        site.remove_clusters("cfd")
        greater.kill()
        wait_rules(lesser)
        site.settle()
        site.stop()
    finally:
        site.remove()
