"""Nodes that lose what they knew of the others, and nodes that others do not reach."""

import itertools

import pytest
from harness.wait import until

WIDE = {"cores": 3}  # two of these fill a host


def told(weft, kind):
    return [event["message"] for event in weft.client.events() if event["type"] == kind]


def boots(weft):
    return {key: node["boot"] for key, node in weft.dump().values("node").items()}


def ready(weft, count, **spec):
    weft.client.create("cfd", count, **spec)
    weft.client.wait_phase("cfd", "ready", ready=count)


def reboot(weft, rank):
    node = next(node for node in weft.client.nodes("cfd") if node["rank"] == rank)
    weft.world.reboot(node["host"], "weft-" + node["id"])
    return node


# --- reboots ---


def test_who_reboots_meets_the_others_again(weft, settle):
    ready(weft, 3)
    nodes, domains = weft.client.nodes("cfd"), weft.world.domains()
    weft.world.fault("fail meet 0 not yet")
    node = reboot(weft, 1)
    until(lambda: "not yet" in (weft.client.cluster("cfd")["reason"] or ""), "it is asked")
    cluster = weft.client.cluster("cfd")
    assert cluster["phase"] == "healing" and cluster["ready"] == 2, cluster
    assert [node["phase"] for node in weft.client.nodes("cfd")] == ["ready", "up", "ready"]
    assert "rebooted" in weft.client.nodes("cfd")[1]["reason"]
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready", ready=3, reason=None)
    assert told(weft, "node-rebooted") == ["cfd[1]: it rebooted, and has to meet the others again"]
    assert weft.client.nodes("cfd") == nodes and weft.world.domains() == domains, "nobody was started anew"
    assert boots(weft)[node["id"]] == "fake-1"
    settle(weft)


def test_who_reboots_and_never_answers_again_is_left_alone(site, settle):
    """Its user may look through the console, and has something to lose."""
    weft = site(changes={"control": {"meet_deadline": "100ms", "backoff_max": "20ms"}})
    ready(weft, 1)
    domains = weft.world.domains()
    weft.world.fault("hang sync 0")
    reboot(weft, 0)
    until(lambda: "try 6" in (weft.client.cluster("cfd")["reason"] or ""), lambda: weft.client.cluster("cfd"))
    assert weft.world.domains() == domains and not told(weft, "node-failed")
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready", ready=1, reason=None)
    settle(weft)


def test_a_reboot_while_nobody_listened(weft, settle):
    ready(weft, 2)
    weft.kill()
    for _ in range(2):
        weft.world.reboot(*next((host, name) for host, names in weft.world.domains().items() for name in sorted(names)))
    weft.start()
    until(lambda: told(weft, "node-rebooted"), "it was noticed")
    weft.client.wait_phase("cfd", "ready", ready=2, reason=None)
    assert sorted(boots(weft).values()) == ["fake-0", "fake-2"] and len(told(weft, "node-rebooted")) == 1
    settle(weft)


def test_a_guest_that_is_mute_after_a_restart_is_asked_again(site, settle):
    weft = site(changes={"control": {"list_deadline": "100ms", "host_grace": "60s"}})
    ready(weft, 1)
    weft.kill()
    weft.world.fault("hang sync 3")
    reboot_of = next(iter(weft.world.domains().items()))
    weft.world.reboot(reboot_of[0], *reboot_of[1])
    weft.start()
    until(lambda: told(weft, "node-rebooted"), "it was noticed")
    weft.client.wait_phase("cfd", "ready", ready=1, reason=None)
    settle(weft)


def test_nothing_happens_to_those_that_did_not_reboot(weft, settle):
    ready(weft, 3)
    before = weft.dump().values("node")
    weft.kill()
    weft.start()
    settle(weft)
    assert weft.dump().values("node") == before and not told(weft, "node-rebooted")


# --- who does not reach whom ---


def hosts_of(weft):
    return {node["rank"]: node["host"] for node in weft.client.nodes("cfd")}


@pytest.mark.parametrize("bad", [0, 3])
def test_a_host_that_reaches_no_other_loses_its_nodes(site, settle, bad):
    """At first it is anybody's guess: either of two hosts does not reach the other."""
    weft = site(hosts=5)
    weft.world.fabric_fault("fail apply 0 not yet")  # nobody meets anybody before all is told
    weft.client.create("cfd", 4, **WIDE)
    where = until(lambda: hosts_of(weft), "they are placed")
    bad = where[bad]
    assert len(set(where.values())) == 2
    weft.world.part(*((bad, name) for name in ("n1", "n2", "n3", "n4", "n5") if name != bad))
    weft.world.fabric_fault()
    weft.client.wait_phase("cfd", "ready", ready=4, reason=None)
    assert bad not in hosts_of(weft).values()
    moved = told(weft, "node-replaced")
    assert moved and all("do not reach each other on the partition (try " in text for text in moved), moved
    assert any("no answer on the partition from the nodes of rank" in text for text in told(weft, "node-failed"))
    assert len(moved) <= 3, moved
    settle(weft)


def test_who_was_ready_stays_and_who_joins_is_moved(weft, settle):
    ready(weft, 2, **WIDE)
    before = weft.client.nodes("cfd")
    old = set(hosts_of(weft).values())
    assert len(old) == 1
    free = sorted({"n1", "n2", "n3", "n4"} - old)
    weft.world.part(*((*old, name) for name in free[:2]))
    weft.client.scale("cfd", 3)
    weft.client.wait_phase("cfd", "ready", ready=3, reason=None)
    assert weft.client.nodes("cfd")[:2] == before
    assert hosts_of(weft)[2] == free[2]
    settle(weft)


@pytest.mark.parametrize("room", [True, False])
def test_where_moving_does_not_help_it_is_tried_ever_less_often(site, settle, room):
    """One at a time, also where no two hosts reach each other, and there is nowhere to go."""
    names = ["n1", "n2", "n3", "n4"] if room else ["n1", "n2"]
    weft = site(hosts=len(names), changes={"control": {"backoff_max": "20ms", "starts_max": 2}})
    weft.world.part(*itertools.combinations(names, 2))
    weft.client.create("cfd", 4, **WIDE)
    until(lambda: any("try 8" in text for text in told(weft, "node-failed")), lambda: told(weft, "node-failed"))
    tries = {int(text.partition("(try ")[2].partition(")")[0]): text.partition(":")[0] for text in told(weft, "node-failed")}
    assert sorted(tries) == [2 << i for i in range(len(tries))], tries  # perhaps further than the eighth by now
    assert len(set(tries.values())) >= 3, "not always the same one"
    cluster = weft.client.cluster("cfd")
    assert cluster["phase"] in ("starting", "wiring") and "do" in cluster["reason"], cluster
    weft.world.part()
    weft.client.wait_phase("cfd", "ready", ready=4, reason=None)
    settle(weft)
