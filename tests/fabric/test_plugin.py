"""The plugin inside a real opensm, on its socket: each answer is compared with what the ports have."""

import re
import select

import pytest
from harness.fabric import PARTITIONS
from harness.nets import irregular
from harness.plugin import Plugin, Refused, partition
from harness.wait import until
from wish import FULL, Wish, in_file

SITE = PARTITIONS + "storage=0x0100, ipoib : 0x0002c90300100071=full, 0x0002c90300100061=limited ;\n"
RATES = {"4xSDR": 10_000_000_000, "12xSDR": 30_000_000_000}


@pytest.fixture(scope="module")
def fabric(ruled_fabric):
    return ruled_fabric()


@pytest.fixture
def wish(fabric, plugin):
    return Wish(fabric)


def groups(fabric, host):
    """{P_Key: (MTU, rate, SL)} of broadcast groups for IPoIB, as a host sees them: those of its own partitions only."""
    found = re.findall(r"Mtu\.+(\w+)\s+pkey\.+(\w+)\s+Rate\.+(\w+)\s+SL\.+(\w+)", fabric.run("saquery", "-g", host=host))
    return {int(pkey, 16): (int(mtu, 16) & 0x3F, int(rate, 16) & 0x3F, int(sl, 16)) for mtu, pkey, rate, sl in found}


def test_it_tells_who_rules(plugin):
    until(lambda: not plugin.hello().get("sweeping"), "its sweep has ended")
    answer = plugin.ask("hello")
    manager = answer["manager"]
    assert answer["protocol"] == 2
    assert manager["master"] and manager["version"] == "OpenSM 3.3.23" and manager["enforces"] and not manager.get("sweeping")


def test_a_change_in_the_middle_of_a_sweep(fabric, manager, plugin, wish):
    """It is told that opensm sweeps; and a change waits for its answers, and comes out right."""
    manager.sweep()
    with fabric.held():
        manager.hangup()
        until(lambda: plugin.hello().get("sweeping") and manager.mads_on_wire() > 0, "it sweeps")
        asked = plugin.begin("apply", **plugin.change([wish.set(1, ("h1", "h5"))], [], plugin.list()[1] + 1))
        until(lambda: in_file(manager.partitions) == wish.partitions, "it is under way")
        assert not select.select([plugin.socket], [], [], 0)[0], "an answer before the ports have acknowledged it"
    answer = plugin.end(asked)
    assert answer["blocks"] >= 4 and answer["micros"] > 0
    wish.check(manager)
    until(lambda: not plugin.hello().get("sweeping"), "it has swept")
    wish.check(manager)


def test_ports_have_a_partition_when_the_answer_comes(manager, plugin, wish):
    answer = plugin.apply([wish.set(1, ("h1", "h2", "h5"))])
    wish.check(manager)
    assert answer["blocks"] == 6  # three ports, and the switches at their other ends
    plugin.apply(removed=[wish.remove(1)])
    wish.check(manager)


def test_only_changed_blocks_are_sent(manager, plugin, wish):
    plugin.apply([wish.set(1, ("h1", "h2"))])
    before = manager.mads_sent()
    assert plugin.apply([wish.set(1, ("h1", "h2", "h3"))])["blocks"] == 2
    assert plugin.apply([wish.entry(1)])["blocks"] == 0
    assert manager.mads_sent() - before == 2
    wish.check(manager)


def test_it_touches_only_numbers_that_it_was_given(new_fabric):
    fabric = new_fabric()
    manager = fabric.manager(plugin=True, plugin_options=f"socket={fabric.folder / 'sm/weft.sock'},pkeys=0x0010-0x001f+0x7001").start()
    wish = Wish(fabric)
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(0x10, ("h1", "h2")), wish.set(0x7001, ("h1",))])
        for change in ({"partitions": [partition(0x20, wish.guids("h1"))]}, {"removed": [0x20]}):
            with pytest.raises(Refused, match="0x0020 is not one of weft's own on this fabric, 0x0010-0x001f\\+0x7001"):
                plugin.apply(**change)
        with pytest.raises(Refused, match="0x0010 is that of another partition, \"weft-0010\""):
            plugin.apply([partition(0x10, wish.guids("h3"), name="weft-other")])
    wish.check(manager)


@pytest.mark.parametrize("membership", ["full", "limited"])
def test_memberships(manager, plugin, wish, membership):
    plugin.apply([wish.set(3, ("h1", "h6"), membership)])
    wish.check(manager)


def test_both_memberships_need_opensms_consent(plugin, wish, manager, new_fabric):
    with pytest.raises(Refused, match="allow_both_pkeys"):
        plugin.apply([partition(3, wish.guids("h1"), "both")])
    wish.check(manager)
    fabric = new_fabric()
    manager, wish = fabric.manager(plugin=True, options={"allow_both_pkeys": "TRUE"}).start(), Wish(fabric)
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(3, ("h1", "h6"), "both")])
        wish.check(manager)
        plugin.apply(removed=[wish.remove(3)])
        wish.check(manager)


def test_what_is_not_in_a_whole_set_goes(manager, plugin, wish):
    plugin.apply([wish.set(1, ("h1", "h2")), wish.set(2, ("h2", "h3"))])
    wish.remove(1)
    plugin.apply([wish.set(4, ("h1", "h4")), wish.entry(2)], whole=True)
    wish.check(manager)


def test_a_sweep_and_a_restart_agree_and_move_nothing(new_fabric):
    fabric = new_fabric()
    manager, wish = fabric.manager(plugin=True).start(), Wish(fabric)
    with Plugin(manager.socket) as plugin:
        for number in range(1, 6):
            plugin.apply([wish.set(number, ("h1", "h2", "h7"))])
        plugin.apply(removed=[wish.remove(2)])
        plugin.apply([wish.set(9, ("h1", "h8"))])
    before = fabric.tables()
    manager.sweep()
    assert fabric.tables() == before
    manager.kill()
    manager.start()
    assert fabric.tables() == before
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(10, ("h1",)), wish.set(11, ("h1", "h2"))])
    for guid, table in fabric.tables().items():
        moved = [index for index, pkey in enumerate(before[guid].own) if pkey and table.own[index] != pkey]
        assert not moved, (hex(guid), moved)
    wish.check(manager)


def test_broadcast_groups_come_and_go(fabric, manager, plugin, wish):
    wish.set(5, ("h1", "h2"))
    plugin.apply([wish.entry(5, ipoib=True)])
    assert FULL | 5 in groups(fabric, "h1")
    manager.sweep()
    assert FULL | 5 in groups(fabric, "h1")
    plugin.apply([wish.entry(5)])
    assert FULL | 5 not in groups(fabric, "h1")
    plugin.apply([wish.entry(5, ipoib=True)])
    plugin.apply(removed=[5])
    plugin.apply([wish.entry(5)])
    assert FULL | 5 not in groups(fabric, "h1")


def test_a_group_has_the_rate_mtu_and_level_that_were_asked_for(new_fabric):
    """Also after a sweep and a restart, which make it of the file; another wish makes another group."""
    fabric = new_fabric()
    manager, wish = fabric.manager(plugin=True, options={"qos": "TRUE"}).start(), Wish(fabric)
    wish.set(5, ("h1", "h2"))
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.entry(5, ipoib=True, sl=1)])
        assert groups(fabric, "h1")[FULL | 5] == (4, 3, 1), "2 KiB and 10 Gbit/s unless told"
        plugin.apply([wish.entry(5, ipoib=True, mtu=3, rate=2, sl=2)])
    for again in (lambda: None, manager.sweep, lambda: (manager.kill(), manager.start())):
        again()
        assert groups(fabric, "h1")[FULL | 5] == (3, 2, 2)
    wish.check(manager)


def test_the_sites_own_partitions_stay(new_fabric):
    fabric = new_fabric()
    manager = fabric.manager(plugin=True, partitions=SITE).start()
    wish = Wish(fabric)
    storage = dict(zip(wish.guids("h8", "h7"), ("full", "limited")))
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h7", "h8"))])
        with pytest.raises(Refused, match="0x0100") as refused:
            plugin.apply([partition(0x100, wish.guids("h1"))])
        assert refused.value.kind == "conflict"
        with pytest.raises(Refused) as refused:
            plugin.apply(removed=[0x7FFF])
        assert refused.value.kind in ("conflict", "invalid")
        assert in_file(manager.partitions) == wish.partitions
        plugin.apply([], whole=True)
        wish.remove(1)
    assert manager.partitions.read_text().startswith(SITE)
    wish.partitions[0x100] = storage
    assert not list(wish.differences())


def test_an_older_change_is_refused(plugin, wish, manager):
    generation = plugin.apply([wish.set(1, ("h1",))])["generation"]
    with pytest.raises(Refused) as refused:
        plugin.apply([partition(1, wish.guids("h2"))], generation=generation - 1)
    assert refused.value.kind == "conflict"
    wish.check(manager)


@pytest.mark.parametrize("change", [
    {"set": [{"pkey": "0x8001", "name": "weft-a", "members": []}]},
    {"set": [{"pkey": "0x0000", "name": "weft-a", "members": []}]},
    {"set": [{"pkey": "0x0001", "name": "weft a=; x", "members": []}]},
    {"set": [{"pkey": "0x0001", "name": "weft-a", "members": [{"guid": "h1", "membership": "full"}]}]},
    {"set": [{"pkey": "0x0001", "name": "weft-a", "members": [{"guid": "0x0002c90300100001", "membership": "owner"}]}]},
    {"set": "all"},
    {"removed": [1]},
    {"removed": ["0x0001"]},
])
def test_a_wrong_change_is_refused_and_nothing_changes(plugin, wish, manager, change):
    generation = plugin.list()[1]
    with pytest.raises(Refused) as refused:
        plugin.ask("apply", **({"generation": generation + 1, "set": [], "removed": []} | change))
    assert refused.value.kind == "invalid" and refused.value.text
    wish.check(manager)
    assert plugin.list()[1] == generation


def test_tables_as_read_back_are_the_ports(fabric, plugin, wish):
    plugin.apply([wish.set(1, ("h1", "h2"))])
    told, seen = plugin.verify(*wish.guids("h1", "h3")), fabric.tables(*wish.guids("h1", "h3"))
    for guid in wish.guids("h1", "h3"):
        assert told[guid]["pkeys"] == seen[guid].own
        assert told[guid]["enforced"] == seen[guid].enforced


def test_events(fabric, manager, plugin):
    plugin.listen()
    fabric.unlink("h4")
    assert f"0x{fabric.net.port_guid('h4'):016x}" in plugin.event("ports")["detail"]
    fabric.relink("h4")
    plugin.event("ports")
    manager.hangup()
    plugin.event("swept")


def test_the_map_is_the_net(new_fabric):
    """As ibnetdiscover sees it, without asking anybody."""
    fabric = new_fabric(irregular())
    net, manager = fabric.net, fabric.manager(plugin=True).start()
    seen = re.findall(r"\[\d+\]\(([0-9a-f]+)\).*# lid (\d+) lmc .* (\w+)", fabric.run("ibnetdiscover"))
    sent = manager.mads_sent()
    with Plugin(manager.socket) as plugin:
        told = {int(node["guid"], 16): node for node in plugin.map()["nodes"]}
    assert manager.mads_sent() == sent
    assert set(told) == {node.guid for node in net.nodes.values()}
    for node in net.nodes.values():
        entry = told[node.guid]
        assert entry["description"] == node.description
        links = {port["number"]: (int(port["peer"], 16), port["peer_port"]) for port in entry["ports"] if "peer" in port}
        assert links == {number: (net.nodes[other].guid, port) for number, (other, port) in node.links.items()}
    ports = {int(port["guid"], 16): port for host in net.hosts() for port in told[net.nodes[host].guid]["ports"]}
    wanted = {int(guid, 16): (int(lid), RATES[rate]) for guid, lid, rate in seen}
    assert {guid: (port["lid"], port["rate"]) for guid, port in ports.items()} == wanted
    assert {port["pkeys"] for port in ports.values()} == {64}


def test_changes_while_sweeps_start_run_and_end(manager, plugin, wish):
    for number in range(1, 41):
        if number % 3 == 0:
            manager.hangup()
        plugin.apply([wish.set(number % 12 + 1, [f"h{1 + (number + k) % 8}" for k in range(4)])])
        assert not list(wish.differences()), number
    manager.sweep()
    wish.check(manager)
