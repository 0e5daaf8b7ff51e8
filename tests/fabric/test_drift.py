"""The fabric changes under the partitions: in the end the ports have what was wished."""

import pytest
from harness.nets import fat_tree
from harness.plugin import Plugin
from harness.wait import until
from test_managers import GREATER
from weftsite import Site, key
from wish import FULL, Wish

LEAVES, SPINES = ("leaf1", "leaf2"), ("spine1", "spine2")


@pytest.fixture
def wish(fabric, manager):
    wish = Wish(fabric)
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2", "h5")), wish.set(2, ("h5", "h6"), "limited")])
    return wish


def uplinks(net, leaf):
    return [port for port, (other, _) in net.nodes[leaf].links.items() if other in SPINES]


def forget_tables(fabric, leaf):
    """A switch that reboots has lost what it enforced."""
    for host in fabric.net.hosts():
        if fabric.net.leaf(host)[0] == leaf:
            for index in range(3):
                fabric.put(fabric.net.port_guid(host), index, 0, table="enforced")


def test_a_port_flaps(fabric, manager, wish):
    for _ in range(5):
        fabric.unlink("h5")
        fabric.relink("h5")
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(3, ("h1", "h5"))])
    wish.wait()
    wish.check(manager)


def test_a_port_is_away_during_a_change(fabric, manager, wish):
    fabric.unlink("h5")
    manager.wait_up()
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(3, ("h1", "h5")), wish.entry(1)], removed=[wish.remove(2)])
    fabric.relink("h5")
    wish.wait()
    wish.check(manager)


def test_a_host_comes_back_with_an_empty_table(fabric, manager, wish):
    guid = wish.guids("h5")[0]
    for index in range(3):
        fabric.put(guid, index, 0)
    fabric.unlink("h5")
    fabric.relink("h5")
    wish.wait()
    wish.check(manager)


def test_a_switch_reboots(fabric, manager, wish):
    forget_tables(fabric, "leaf2")
    fabric.unlink("leaf2")
    manager.wait_up()
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(4, ("h2", "h7"))])
    fabric.relink("leaf2")
    wish.wait()
    wish.check(manager)


def test_the_fabric_splits_and_joins(fabric, manager, wish):
    for port in uplinks(fabric.net, "leaf2"):
        fabric.unlink("leaf2", port)
    with Plugin(manager.socket) as plugin:
        # It sweeps once for each cable; a port that it does not miss yet would be written to, and not answer.
        until(lambda: not any(node["description"].startswith("h5") for node in plugin.map()["nodes"]), "it misses the other half")
        plugin.apply([wish.set(1, ("h1", "h7")), wish.set(5, ("h3", "h8"))], removed=[wish.remove(2)])
    for port in uplinks(fabric.net, "leaf2"):
        fabric.relink("leaf2", port)
    wish.wait()
    wish.check(manager)


def test_both_halves_are_ruled_while_it_is_split(new_fabric):
    """Each by its own manager, with its own wish; when they join, the one that rules then decides."""
    net = fat_tree(2, 4, 2, managers=("sm",)).host("sm2").link("sm2", "leaf2")
    fabric = new_fabric(net)
    manager, other = fabric.manager("sm", plugin=True, options=GREATER).start(), fabric.manager("sm2", plugin=True)
    other.start(wait=False).wait_standby()
    wish = Wish(fabric)
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2", "h5"))])
    for port in uplinks(net, "leaf2"):
        fabric.unlink("leaf2", port)
    other.wait_up()
    with Plugin(other.socket) as plugin:
        plugin.apply([{"pkey": "0x0009", "name": "weft-half", "members": [
            {"guid": f"0x{net.port_guid('h6'):016x}", "membership": "full"}]}])
    for port in uplinks(net, "leaf2"):
        fabric.relink("leaf2", port)
    manager.wait_up()
    wish.wait()
    wish.check(manager)


@pytest.mark.parametrize("host", ["h1", "h3"])
@pytest.mark.parametrize("table", ["own", "enforced"])
def test_strangers_writes_are_repaired(fabric, manager, wish, host, table):
    """opensm does not read tables again that it knows, not even in a sweep: what verify reads, the next change repairs. One of the
    ports is a member of something, the other of nothing."""
    guid = wish.guids(host)[0]
    fabric.put(guid, 5, FULL | 2, table=table)
    fabric.put(guid, 40, FULL | 1, table=table)
    assert list(wish.differences())
    with Plugin(manager.socket) as plugin:
        told = plugin.verify(guid)[guid]["pkeys" if table == "own" else "enforced"]
        assert (told[5], told[40]) == (FULL | 2, FULL | 1)
        plugin.apply(wish.all(), whole=True)
    wish.check(manager)


def test_a_restart_repairs_strangers_writes(fabric, manager, wish):
    fabric.put(wish.guids("h3")[0], 5, FULL | 1)
    fabric.put(wish.guids("h1")[0], 9, FULL | 9, table="enforced")
    manager.kill()
    manager.start()
    wish.check(manager)


@pytest.mark.parametrize("table", ["own", "enforced"])
def test_weftd_takes_away_what_a_stranger_gave(fabric, manager, table):
    """Another tenant's key, to a port that has a cluster of its own and to one that has none."""
    site = Site(fabric)
    site.start()
    try:
        site.make("cfd", 2, cores=4)
        site.make("sim", 2, "umbrella", cores=4)
        victims, others = site.hosts_of("cfd"), site.hosts_of("sim", "umbrella")
        for host in (min(others - victims), min(set(site.names) - others - victims)):
            fabric.put(fabric.net.port_guid(host), 20, key(site.number("cfd")), table)
            site.wait_event("partition-repaired", f"host {host} ", f"0x{key(site.number('cfd')):04x}")
        site.settle()
        site.stop()
    finally:
        site.remove()
