"""Two managers on one fabric: one rules, the other stands by, and partitions survive the change.

One that stands by and finds a lesser master asks it by a trap to hand over. ibsim drops the answer to that trap, and opensm on
umad2sim, which has no timeouts, waits for it forever. So whoever comes back here comes back as the lesser one."""

import pytest
from harness.fabric import SM, STANDBY
from harness.nets import fat_tree
from harness.plugin import Plugin, Refused
from harness.wait import until
from wish import Wish

LESSER = 1  # priority

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
    wait_rules(master)
    tell(master, wish)
    wish.check(master)
