"""weftd with a store that is not the one that started what runs on the hosts: nothing is destroyed."""

import contextlib
import hashlib
import os
import shutil
import sqlite3

import pytest
from harness.invariants import converged
from harness.wait import until
from harness.weft import host as describe

OTHER = "9othersite00"


def told(weft, kind):
    return [event["message"] for event in weft.client.events() if event["type"] == kind]


def surveyed_twice(weft):
    """Whatever a look at all partitions leads to has been done: a second one decides."""
    for number in (0x0777, 0x0778):
        while f"0x{number:04x}" in " ".join(told(weft, "partition-held")):
            number += 2  # an event is told once
        weft.world.add_foreign_partition(number, "weft-0zzzzzzzzzzz")
        until(lambda wanted=f"0x{number:04x}": any(wanted in message for message in told(weft, "partition-held")), "it was looked at")
        weft.world.remove_partition(number)


def running(weft):
    return {host: {name for name in names if name.startswith("weft-")} for host, names in weft.world.domains().items()}


def state(weft, name):
    return weft.client.get(f"/v1/hosts/{name}")["state"]


def held(weft):
    return weft.client.items("/v1/site")


def hold_is_told(weft, host):
    """Everywhere that an operator looks."""
    until(lambda: state(weft, host) == "held", lambda: f"{host} is {state(weft, host)}")
    assert "weft site" in weft.client.get(f"/v1/hosts/{host}")["reason"]
    assert any(event["type"] == "host-held" and event["host"] == host for event in weft.client.events())
    checks = {check["check"]: check for check in weft.client.get(f"/v1/hosts/{host}/doctor")["checks"]}
    assert checks["held"]["state"] == "fail" and "weft site" in checks["held"]["remedy"]
    assert f"host {host} is left as it is" in weft.log.read_text(encoding="utf-8")
    assert host in weft.cli("site", "ls").stdout and "held" in weft.cli("hosts").stdout


def lose_store(weft):
    for path in weft.root.glob("weft.db*"):
        path.unlink()


def put_store_back(weft, copy="backup"):
    """In a site that is stopped."""
    lose_store(weft)
    shutil.copy(weft.root / copy, weft.root / "weft.db")


def keep_store(weft):
    """A copy of the store of a site that is stopped."""
    weft.stop()
    shutil.copy(weft.root / "weft.db", weft.root / "backup")
    weft.start()


def hosts_are_anothers(weft, before):
    """… of another site, or of a later store: whatever is there stays until an operator takes them."""
    hosts = [host["name"] for host in weft.client.get("/v1/hosts")["items"]]
    until(lambda: all("weft site take" in (weft.client.get(f"/v1/hosts/{host}").get("reason") or "") for host in hosts), "they are held")
    assert all(state(weft, host) == "held" for host in hosts) and running(weft) == before
    weft.take_hosts()


def return_store(weft):
    before = running(weft)
    weft.stop()
    put_store_back(weft)
    weft.start()
    hosts_are_anothers(weft, before)


def settle(weft):
    """Without the usage of nodes: another store has other books."""
    last = []
    until(lambda: not last.__setitem__(slice(None), converged(weft, ())) and not last, lambda: f"converged, but {last}\n{weft.log_tail()}")


def test_empty_store(weft):
    weft.client.create("cfd", 2, layout="spread")
    weft.client.wait_phase("cfd", "ready")
    before, networks, partitions = running(weft), weft.world.networks(), weft.world.partitions()
    used = {node["host"] for node in weft.client.nodes("cfd")}
    weft.stop()
    lose_store(weft)
    weft.start()
    hosts_are_anothers(weft, before)
    for host in used:
        hold_is_told(weft, host)
    weft.client.create("other", 2)
    weft.client.wait_phase("other", "ready")
    assert used.isdisjoint(node["host"] for node in weft.client.nodes("other"))
    now = running(weft)
    assert {host: now[host] for host in used} == before and networks.items() <= weft.world.networks().items()
    assert {number: part.members for number, part in partitions.items()}.items() <= {
        number: part.members for number, part in weft.world.partitions().items()}.items()
    assert not [event for event in weft.client.events() if event["type"] == "garbage-removed"]
    assert {item["site"] for item in held(weft)} != {weft.site()}


def test_another_sites_things_are_removed_only_when_confirmed(weft):
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    host, before = weft.client.nodes("cfd")[0]["host"], running(weft)
    weft.stop()
    lose_store(weft)
    weft.start()
    until(lambda: held(weft), "it is held")
    refused = weft.cli("site", "remove", host, "--yes", check=False)
    assert refused.returncode and "belongs to another weftd" in refused.stderr
    hosts_are_anothers(weft, before)
    until(lambda: state(weft, host) == "held", "it is held")
    refused = weft.cli("site", "adopt", host, check=False)
    assert refused.returncode and "not this store's to adopt" in refused.stderr
    assert weft.cli("site", "remove", host, check=False).returncode == 2, "nobody confirmed it"
    assert "would be removed" in weft.cli("site", "remove", host, "--dry-run").stdout
    assert running(weft)[host] and state(weft, host) == "held"
    weft.cli("site", "remove", host, "--yes")
    until(lambda: state(weft, host) == "up", lambda: f"{host} is free: {held(weft)}")
    until(lambda: not running(weft).get(host), "the domain is gone")
    assert any(event["type"] == "end-confirmed" for event in weft.client.events())


def test_older_backup_keeps_what_is_newer(weft):
    weft.client.create("first", 1)
    weft.client.wait_phase("first", "ready")
    settle(weft)
    keep_store(weft)
    weft.client.create("second", 2)
    weft.client.wait_phase("second", "ready")
    settle(weft)
    before, partitions = running(weft), weft.world.partitions()
    used = {node["host"] for node in weft.client.nodes("second")}
    return_store(weft)
    until(lambda: all(state(weft, host) == "held" for host in used), "its hosts are held")
    assert weft.client.cluster("second") is None
    assert running(weft) == before
    weft.cli("site", "adopt", *used, "--dry-run")
    assert weft.client.cluster("second") is None
    weft.cli("site", "adopt", *used)
    weft.client.wait_phase("second", "ready", nodes=2)
    until(lambda: not held(weft), lambda: f"nothing is held: {held(weft)}")
    settle(weft)
    assert running(weft) == before and weft.world.partitions().keys() == partitions.keys()


def test_node_that_came_after_the_backup_is_adopted(weft):
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    keep_store(weft)
    weft.client.scale("cfd", 2)
    weft.client.wait_phase("cfd", "ready", nodes=2)
    settle(weft)
    before, members = running(weft), {n: p.members for n, p in weft.world.partitions().items()}
    return_store(weft)
    until(lambda: held(weft), "the second node is held")
    assert running(weft) == before and {n: p.members for n, p in weft.world.partitions().items()} == members
    weft.cli("site", "adopt", *{item["id"] for item in held(weft) if item["kind"] == "node"})
    weft.client.wait_phase("cfd", "ready", nodes=2)
    settle(weft)
    assert running(weft) == before


def test_node_that_came_after_the_backup_on_a_host_that_is_silent(site):
    """Its port stays in the partition, and in the one that clusters share, until its host has said what is there."""
    weft = site(hosts=2, changes={"shared": [{"name": "storage", "pkey": "0x7001"}]})
    weft.client.create("cfd", 1, path="sriov", layout="spread", shared=["storage"])
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    keep_store(weft)
    weft.client.scale("cfd", 2)
    weft.client.wait_phase("cfd", "ready", nodes=2)
    settle(weft)
    old = weft.client.nodes("cfd")[0]["host"]
    new = weft.client.nodes("cfd")[1]["host"]
    assert old != new
    before, members = running(weft), {n: p.members for n, p in weft.world.partitions().items()}
    weft.stop()
    put_store_back(weft)
    weft.world.lose(new)
    weft.start()
    weft.cli("site", "take", "--yes", old, new)
    until(lambda: state(weft, old) == "up" and state(weft, new) == "lost", "one of the two is there")
    weft.client.create("other", 1, path="sriov", shared=["storage"])
    weft.client.wait_phase("other", "ready")
    weft.client.delete("other")
    weft.client.wait_gone("other")
    assert {n: p.members for n, p in weft.world.partitions().items()} == members
    weft.client.delete("cfd")
    until(lambda: f"host {new}" in (weft.client.cluster("cfd")["reason"] or ""), lambda: f"{weft.client.cluster('cfd')}")
    weft.world.bring_back(new)
    until(lambda: held(weft), "what is newer is held")
    assert running(weft)[new] == before[new]
    assert members.items() <= {n: p.members for n, p in weft.world.partitions().items()}.items()


@pytest.mark.parametrize("silent", [False, True])
def test_cluster_that_was_in_the_queue_when_the_backup_was_made(site, silent):
    """Its node runs by now, and somebody deletes it: it ends, and its partition goes, with the node that is held, also where the host of
    that does not answer."""
    weft = site(hosts=2, changes={"control": {"scan_interval": "100ms", "patrol_interval": "100ms"}})
    weft.client.create("big", 2, cores=6, layout="spread")
    weft.client.wait_phase("big", "ready")
    weft.client.create("cfd", 1, cores=6, path="sriov")
    until(lambda: weft.client.cluster("cfd")["phase"] == "queued", "it waits")
    keep_store(weft)
    weft.client.delete("big")
    number = int(weft.client.wait_phase("cfd", "ready")["partition"], 16)
    weft.client.wait_gone("big")
    settle(weft)
    host, before, members = weft.client.nodes("cfd")[0]["host"], running(weft), weft.world.partitions()[number].members
    if silent:
        weft.stop()
        put_store_back(weft)
        weft.world.lose(host)
        weft.start()
        weft.take_hosts()
        until(lambda: state(weft, host) == "lost", "its host does not answer")
        weft.client.delete("cfd")
        weft.client.wait_gone("cfd")
    else:
        return_store(weft)
        until(lambda: held(weft), "it is held")
        weft.client.delete("cfd")
        until(lambda: "weft site ls" in (weft.client.cluster("cfd")["reason"] or ""), lambda: f"{weft.client.cluster('cfd')}")
        refused = weft.cli("site", "adopt", host, check=False)
        assert refused.returncode and "being deleted" in refused.stderr
    surveyed_twice(weft)
    if silent:
        weft.world.bring_back(host)
        until(lambda: held(weft), "it is held")
        surveyed_twice(weft)
    assert running(weft)[host] == before[host] and weft.world.partitions()[number].members == members
    weft.cli("site", "remove", host, "--yes")
    weft.client.wait_gone("cfd")
    until(lambda: number not in weft.world.partitions() and not running(weft).get(host, set()) & before[host], "both are gone")


def test_what_is_held_on_a_host_that_is_lost_is_waited_for_until_somebody_has_it_removed(site):
    """The machine may never answer again, and a cluster that is deleted has to end; what is there goes should it come back."""
    weft = site(hosts=2, changes={"control": {"scan_interval": "100ms", "patrol_interval": "100ms", "host_grace": "1s"}})
    weft.client.create("big", 2, cores=6, layout="spread")
    weft.client.wait_phase("big", "ready")
    weft.client.create("cfd", 1, cores=6, path="sriov")
    until(lambda: weft.client.cluster("cfd")["phase"] == "queued", "it waits")
    keep_store(weft)
    weft.client.delete("big")
    weft.client.wait_phase("cfd", "ready")
    weft.client.wait_gone("big")
    settle(weft)
    host, before = weft.client.nodes("cfd")[0]["host"], running(weft)
    return_store(weft)
    until(lambda: held(weft), "it is held")
    weft.world.lose(host)
    until(lambda: state(weft, host) == "lost", "its host does not answer")
    weft.client.delete("cfd")
    until(lambda: "weft site ls" in (weft.client.cluster("cfd")["reason"] or ""), lambda: f"{weft.client.cluster('cfd')}")
    weft.cli("site", "remove", host, "--yes")
    weft.client.wait_gone("cfd")
    assert [item["verdict"] for item in held(weft)] == ["confirmed"] and running(weft)[host] == before[host]
    weft.world.bring_back(host)
    until(lambda: state(weft, host) == "up" and not running(weft).get(host, set()) & before[host], lambda: f"it is gone: {held(weft)}")


def members(weft):
    return {number: partition.members for number, partition in weft.world.partitions().items()}


def add_newer_host(weft):
    weft.client.expect(201, "POST", "/v1/hosts", describe("n9"))
    until(lambda: state(weft, "n9") == "up", "it is up")


def is_left_alone(weft, before, parts):
    """… for the port of a host that this store does not know, also after a restart; and that is told."""
    for restart in (False, True):
        if restart:
            weft.stop()
            weft.start()
        until(lambda: any("of no host" in message for message in told(weft, "partition-held")), "it is told")
        surveyed_twice(weft)
        assert running(weft) == before and members(weft) == parts
        until(lambda: "weft fabric release ib0" in weft.cli("doctor", check=False).stdout, "the doctor tells it")


FAST = {"control": {"scan_interval": "100ms", "patrol_interval": "100ms"}}


@pytest.mark.parametrize("word", ["host", "release"])
def test_node_that_came_after_the_backup_on_a_host_that_is_newer(site, word):
    """Its port is of no host of the store, until the host is added again, or an operator says that it is a stranger's."""
    weft = site(hosts=2, changes=FAST | {"shared": [{"name": "storage", "pkey": "0x7001"}]})
    weft.client.create("cfd", 2, layout="spread", path="sriov", cores=6, shared=["storage"])
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    keep_store(weft)
    add_newer_host(weft)
    weft.client.scale("cfd", 3)
    number = int(weft.client.wait_phase("cfd", "ready", nodes=3)["partition"], 16)
    settle(weft)
    before, parts = running(weft), members(weft)
    return_store(weft)
    is_left_alone(weft, before, parts)
    if word == "host":
        weft.client.expect(201, "POST", "/v1/hosts", describe("n9"))
        until(lambda: "weft site take" in (weft.client.get("/v1/hosts/n9").get("reason") or ""), "it knew a later store")
        weft.cli("site", "take", "--yes", "n9")
        until(lambda: any(item["kind"] == "node" for item in held(weft)), "its node is held")
        weft.cli("site", "adopt", "n9")
        weft.client.wait_phase("cfd", "ready", nodes=3)
        settle(weft)
        assert running(weft) == before and members(weft) == parts
    else:
        assert "ports that are of no host" in weft.cli("fabric", "release", "--dry-run", "ib0", f"0x{number:04x}").stdout
        for pkey in (number, 0x7001):
            weft.cli("fabric", "release", "--yes", "ib0", f"0x{pkey:04x}")
        until(lambda: all(len(members(weft)[pkey]) < len(parts[pkey]) for pkey in (number, 0x7001)), "the port is out of both")
    until(lambda: "aged" not in weft.dump().values("meta"), "the store is in doubt no longer")


def test_node_that_moved_to_a_host_that_is_newer_than_the_backup(site):
    """It is not started a second time where the store has it."""
    weft = site(hosts=1, changes=FAST)
    weft.client.create("cfd", 1, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    keep_store(weft)
    add_newer_host(weft)
    weft.client.expect(202, "POST", "/v1/clusters/cfd/nodes/0/move?tenant=acme", {})
    until(lambda: weft.client.nodes("cfd")[0]["host"] == "n9", "it has moved")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    before, parts = running(weft), members(weft)
    return_store(weft)
    is_left_alone(weft, before, parts)
    weft.client.expect(201, "POST", "/v1/hosts", describe("n9"))
    until(lambda: "weft site take" in (weft.client.get("/v1/hosts/n9").get("reason") or ""), "it knew a later store")
    weft.cli("site", "take", "--yes", "n9")
    until(lambda: any(item["kind"] == "node" for item in held(weft)), "its node is held")
    until(lambda: weft.cli("site", "adopt", "n9", check=False).returncode == 0, "it is adopted")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert running(weft) == before and members(weft) == parts


def test_store_copied_back_after_a_move(weft):
    """The node runs once: not a second time where the store has it."""
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    keep_store(weft)
    node = weft.client.nodes("cfd")[0]
    weft.client.expect(202, "POST", "/v1/clusters/cfd/nodes/0/move?tenant=acme", {})
    until(lambda: weft.client.nodes("cfd")[0]["host"] != node["host"], "it has moved")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    there = weft.client.nodes("cfd")[0]["host"]
    return_store(weft)
    until(lambda: state(weft, there) == "held", lambda: f"{there} is {state(weft, there)}")
    until(lambda: weft.log.read_text(encoding="utf-8").count("is left as it is") > 0, "it is told")
    assert weft.world.where(f"weft-{node['id']}") == [there]
    weft.cli("site", "adopt", there)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert weft.world.where(f"weft-{node['id']}") == [there]
    assert weft.client.nodes("cfd")[0]["host"] == there


@pytest.mark.parametrize("kind", ["node", "network", "image", "memory"])
def test_unproved_garbage_is_held(weft, kind):
    """… and its host is free by itself when it is gone."""
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    host = next(name for name in ("n1", "n2") if name != node["host"])
    folder = weft.root / "hosts" / host
    if kind == "node":
        weft.world.add_stray(host, "weft-0zzzzzzzzzzz-7", like=f"weft-{node['id']}")
        path = folder / "domains" / "weft-0zzzzzzzzzzz-7.xml"
    elif kind == "network":
        weft.world.add_network(host, 4711, "0zzzzzzzzzzz", site=OTHER)
        path = folder / "networks" / "4711"
    elif kind == "image":
        weft.world.add_image(host, "0" * 64, site=weft.site())
        path = folder / "pool" / f"image-{'0' * 64}"
    else:
        weft.world.add_primed(host, f"{OTHER}-1abc")
        path = folder / "primed" / f"{OTHER}-1abc"
    hold_is_told(weft, host)
    assert [item["kind"] for item in held(weft)] == [kind] and path.exists()
    path.unlink()
    for mark in (folder / "pool").glob("*.mark") if kind == "image" else ():
        mark.unlink()
    until(lambda: state(weft, host) == "up", "it is free by itself")
    settle(weft)


def test_a_held_host_that_was_silent_tells_why_it_is_held(site):
    weft = site(changes={"control": {"host_grace": "60s"}})
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    weft.world.add_stray(node["host"], "weft-0zzzzzzzzzzz-7", like=f"weft-{node['id']}")
    hold_is_told(weft, node["host"])
    weft.world.fault("fail list", host=node["host"])
    reason = lambda: weft.client.get(f"/v1/hosts/{node['host']}")["reason"]  # noqa: E731
    until(lambda: "does not answer" in reason() and "does not answer" in (weft.client.cluster("cfd")["reason"] or ""), "its silence is told")
    weft.world.fault(host=node["host"])
    until(lambda: "weft site" in reason() and not weft.client.cluster("cfd")["reason"], lambda: f"it is held again: {reason()}")


def test_what_waited_for_a_held_host_goes_on_when_it_is_free(site):
    """A node that moves elsewhere needs its network on all hosts of its cluster. One that is lost is not waited for: a look that takes long on a
    busy machine must not be the end of this one."""
    weft = site(changes={"control": {"host_grace": "60s"}})
    weft.client.create("cfd", 2, layout="spread")
    weft.client.wait_phase("cfd", "ready")
    moves, stays = weft.client.nodes("cfd")
    weft.world.add_stray(stays["host"], "weft-0zzzzzzzzzzz-7", like=f"weft-{stays['id']}")
    until(lambda: state(weft, stays["host"]) == "held", "the host of the other node is held")
    weft.client.expect(202, "POST", f"/v1/clusters/cfd/nodes/{moves['rank']}/move?tenant=acme", {"disrupt": True})
    until(lambda: weft.dump().values("node")[moves["id"]].get("target"), "it is on its way")
    weft.stop()
    weft.start()
    until(lambda: weft.client.get("/v1/clusters/cfd?tenant=acme")["phase"] == "migrating" and held(weft), "a restart changes nothing")
    weft.cli("site", "remove", stays["host"], "--yes")
    until(lambda: not weft.dump().values("move"), lambda: f"the move ends: {weft.client.cluster('cfd')['reason']}")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)


def test_empty_store_keeps_the_files_of_images(weft):
    digest = hashlib.sha256(b"an image").hexdigest()
    weft.stop()
    path = weft.root / "images" / digest
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"an image")
    os.utime(path, (1e9, 1e9))
    lose_store(weft)
    weft.start()
    assert path.exists()
    weft.stop()
    weft.prove(f"image/{digest}")
    weft.start()
    assert not path.exists(), "what has ended goes"


def starts(weft):
    """When each node there is was started."""
    return {path.name: path.stat().st_mtime_ns for path in weft.root.glob("hosts/*/domains/weft-*.xml")}


def phases(weft):
    return {node["phase"] for node in weft.dump().values("node").values()}


def keep_store_while(weft, phase):
    """A copy of it as it was when the node was in that phase."""
    def is_kept():
        until(lambda: phases(weft) == {phase}, lambda: f"{phase}: {phases(weft)}")
        weft.stop()
        kept = phases(weft) == {phase}
        if kept:
            shutil.copy(weft.root / "weft.db", weft.root / "backup")
        weft.start()
        return kept

    until(is_kept, f"a store with a node that is {phase}")


def runs_on(weft, before):
    """Whoever started it knows more than this store: it is left alone, and can be adopted."""
    assert before
    return_store(weft)
    until(lambda: state(weft, "n1") in ("held", "up"), "it was looked at")
    until(lambda: held(weft) or starts(weft) != before, "it is held, or gone")
    assert starts(weft) == before
    hold_is_told(weft, "n1")
    weft.cli("site", "adopt", "n1")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert starts(weft) == before


def test_a_node_that_had_failed_when_the_backup_was_made(site):
    weft = site(hosts=1)
    weft.world.fault("broken start")
    weft.client.create("cfd", 1)
    keep_store_while(weft, "failed")
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready")
    runs_on(weft, starts(weft))


def test_a_node_whose_host_was_lost_when_the_backup_was_made(site):
    weft = site(hosts=1)
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    weft.world.lose("n1")
    keep_store_while(weft, "lost")
    weft.world.bring_back("n1")
    weft.client.wait_phase("cfd", "ready")
    runs_on(weft, starts(weft))


def keep_store_of_loss(weft, node, phase):
    """A copy of it as weftd leaves it that is killed once the loss of the node's host is written; where the node is lost, with that too."""
    weft.stop()
    if phase == "lost":
        weft.start(failpoint="nodes-marked")
        weft.world.lose(node["host"])
        until(weft.died, "it is killed")
    with contextlib.closing(sqlite3.connect(weft.root / "weft.db")) as store, contextlib.closing(sqlite3.connect(weft.root / "backup")) as copy:
        store.backup(copy)
        copy.execute("UPDATE record SET value = json_set(value, '$.state', 'lost') WHERE kind = 'host-status' AND key = ?", [node["host"]])
        copy.commit()
    assert phases(weft) == {phase}


def go_on_elsewhere(weft, node, others):
    """Its host is back, and alone at first, so that it goes on there; then it moves to one of the others."""
    for name in others:
        weft.world.lose(name)
    weft.world.bring_back(node["host"])
    weft.start()
    weft.client.wait_phase("cfd", "ready")
    for name in others:
        weft.world.bring_back(name)
    weft.client.wait_open(1 + len(others))
    settle(weft)
    weft.client.expect(202, "POST", "/v1/clusters/cfd/nodes/0/move?tenant=acme", {})
    until(lambda: weft.client.nodes("cfd")[0]["host"] != node["host"], lambda: f"it has moved: {weft.client.events()[-2:]}")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    return weft.client.nodes("cfd")[0]["host"]


@pytest.mark.parametrize("phase", ["ready", "lost"])
def test_nobody_is_given_up_with_a_lost_host_before_all_were_looked_at(site, phase):
    """The node runs on a host that answers later than the one that it could be started on again."""
    weft = site(hosts=3, changes={"control": {"list_deadline": "1m"}})
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    others = {"n1", "n2", "n3"} - {node["host"]}
    keep_store_of_loss(weft, node, phase)
    there = go_on_elsewhere(weft, node, others)
    free, = others - {there}
    before = running(weft)
    weft.stop()
    put_store_back(weft)
    weft.world.lose(node["host"])
    with weft.world.locked(there):
        weft.start()
        assert state(weft, node["host"]) == "lost"
        weft.cli("site", "take", "--yes", free)
        until(lambda: state(weft, free) == "up", "another host has room")
        assert state(weft, there) != "held", "it was not looked at yet"
    until(lambda: state(weft, there) == "held", "it is held")
    assert [item["id"] for item in held(weft) if item["kind"] == "node"] == [node["id"]]
    weft.take_hosts()
    weft.cli("site", "adopt", there)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert [(found["id"], found["host"]) for found in weft.client.nodes("cfd")] == [(node["id"], there)] and running(weft) == before


def test_a_fabric_that_nobody_manages_does_not_hold_what_is_lost_on_others(site):
    """Nobody ever answers for it, and the store stays in doubt; but a cluster on another fabric is not there."""
    weft = site(hosts=3)
    weft.stop()
    weft.config["fabrics"].append(weft.config["fabrics"][0] | {"name": "ib1", "guid_prefix": "0x02c9020000000000", "vxlan_base": 90000})
    weft.start()
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    keep_store(weft)
    weft.client.create("second", 1)
    weft.client.wait_phase("second", "ready")
    weft.client.delete("second")
    weft.client.wait_gone("second")
    weft.config["fabrics"][1]["manager"] = None
    return_store(weft)
    weft.client.wait_phase("cfd", "ready")
    weft.world.lose(node["host"])
    until(lambda: any(each["host"] != node["host"] and each["phase"] == "ready" for each in weft.client.nodes("cfd")),
          lambda: f"it is replaced: {weft.client.cluster('cfd')}")
