"""Nodes with devices of their host come to rest, let go of them, and get others where they are then: seen through moves."""

import pytest
from harness.wait import until
from test_moves import identity, move, node, told, wait_moved, wait_told

KINDS = [({"path": "sriov"}, {"ua-rail0"}), ({"path": "passthrough"}, {"ua-rail0"}), ({"path": "bridge", "gpus": 1}, {"ua-gpu0"}),
         ({"path": "sriov", "gpus": 2}, {"ua-rail0", "ua-gpu0", "ua-gpu1"})]


def create(weft, count=2, **spec):
    weft.client.create("cfd", count, **{"path": "sriov"} | spec)
    weft.client.wait_phase("cfd", "ready")


def plugged(weft, rank=0):
    one = node(weft, rank)
    return weft.world.plugged(one["host"], f"weft-{one['id']}")


def without_hooks(weft):
    (weft.root / "hosts").mkdir(exist_ok=True)
    (weft.root / "hosts" / "hookless").touch()


@pytest.mark.parametrize(("spec", "parts"), KINDS)
def test_devices_are_let_go_of_and_come_back(weft, settle, spec, parts):
    create(weft, 1, **spec)
    settle(weft)
    before = node(weft)
    move(weft)
    wait_moved(weft, before["host"])
    until(lambda: plugged(weft) == {f"+{part}" for part in parts}, lambda: f"they are plugged there: {plugged(weft)}")
    after = node(weft)
    assert identity(after) == identity(before), "with the same GUID"
    assert 'plugged="later"' in weft.world.definition(f"weft-{after['id']}"), "the host's hook prepares them"
    settle(weft)


def test_without_hooks_it_is_refused(weft, settle):
    without_hooks(weft)
    create(weft)
    before = node(weft)
    move(weft)
    message = wait_told(weft, "node-move-failed")[0]["message"]
    assert "register a hook in /etc/weft/quiesce.d, or give --disrupt" in message
    weft.client.wait_phase("cfd", "ready")
    assert node(weft)["host"] == before["host"] and plugged(weft) == set(), "nothing was touched"
    move(weft, disrupt=True)
    wait_moved(weft, before["host"])
    settle(weft)


def test_a_bridge_needs_no_hooks(weft, settle):
    without_hooks(weft)
    create(weft, path="bridge")
    before = node(weft)["host"]
    move(weft)
    wait_moved(weft, before)
    settle(weft)


@pytest.mark.parametrize("op", ["quiesce", "unplug"])
def test_what_cannot_come_to_rest_goes_on(weft, settle, op):
    create(weft, gpus=1)
    before = node(weft)
    weft.world.fault(f"broken {op}")
    move(weft)
    assert wait_told(weft, "node-move-failed")
    weft.client.wait_phase("cfd", "ready")
    assert node(weft)["host"] == before["host"] and not any(line.startswith("-") for line in plugged(weft))
    assert told(weft, "node-failed") == []
    weft.world.fault()
    settle(weft)


@pytest.mark.parametrize("op", ["plug", "resume"])
def test_what_does_not_come_back_is_tried_again(weft, settle, op):
    create(weft)
    before = node(weft)["host"]
    weft.world.fault(f"fail {op} 1")
    move(weft)
    wait_moved(weft, before)
    until(lambda: plugged(weft) == {"+ua-rail0"}, "it has its function")
    settle(weft)
    assert told(weft, "node-failed") == []


def test_what_never_comes_back_is_healed(weft, settle):
    create(weft)
    before = node(weft)
    weft.world.fault("broken plug")
    move(weft)
    assert "a device of its host was not plugged" in wait_told(weft, "node-failed")[0]["message"]
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready")
    assert node(weft)["rank"] == before["rank"]
    settle(weft)


def test_the_partition_is_checked_before_it_goes_on(weft, settle):
    """A port that has lost the partition's key meanwhile has it again by then."""
    create(weft, 1)
    weft.world.fault("hang move")
    move(weft)
    until(lambda: node(weft)["moving_to"], "it is on its way")
    until(lambda: plugged(weft) == {"-ua-rail0"}, "it is at rest")
    guid = 0x0002C90300000000 + int(node(weft)["moving_to"][1:])
    weft.world.port_table(guid, 0x7FFF)
    weft.world.fault()
    until(lambda: plugged(weft) == {"+ua-rail0"}, "it goes on there")
    weft.client.wait_phase("cfd", "ready")
    assert not weft.world.port_lies(guid) and told(weft, "node-failed") == []
    settle(weft)
