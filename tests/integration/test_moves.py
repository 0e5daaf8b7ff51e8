"""Nodes that move to another host while they run: asked for, or because their host is emptied."""

import json
import re
from collections import Counter

from harness.invariants import ledger
from harness.wait import until

MOVED = re.compile(r"cfd\[\d+\] moved to another host within [^;]+; it stood still for [^;,]+, \S+ were sent by "
                   r"(pre-copy|post-copy|hybrid) in \d+ pass(es)?$")


def bridge(weft, name="cfd", count=2, **spec):
    made = weft.client.create(name, count, path="bridge", **spec)
    weft.client.wait_phase(name, "ready")
    return made


def node(weft, rank=0, name="cfd"):
    return weft.client.nodes(name)[rank]


def move(weft, rank=0, status=202, **wish):
    return weft.client.expect(status, "POST", f"/v1/clusters/cfd/nodes/{rank}/move?tenant=acme", wish)


def told(weft, kind):
    return [event for event in weft.client.events() if event["type"] == kind]


def wait_told(weft, kind, count=1):
    until(lambda: len(told(weft, kind)) >= count, lambda: f"{kind} is told: {weft.log_tail()}")
    return told(weft, kind)


def wait_moved(weft, before, rank=0):
    until(lambda: node(weft, rank)["host"] != before and not node(weft, rank)["moving_to"], "it is elsewhere")
    weft.client.wait_phase("cfd", "ready")


def other_host(weft, *avoid):
    taken = {n["host"] for n in weft.client.nodes("cfd")} | set(avoid)
    return next(name for name in ("n1", "n2", "n3", "n4") if name not in taken)


def identity(one):
    return {field: one[field] for field in ("id", "mac", "rank", "guids", "cores", "memory")}


def test_a_wish_is_not_refused_while_hosts_are_silent(site, settle):
    """Those with room did not answer the last look: nobody knows whether there is a place."""
    weft = site(changes={"control": {"host_grace": "60s"}})
    bridge(weft, layout="spread")
    here = node(weft)["host"]
    others = sorted({"n1", "n2", "n3", "n4"} - {here})
    for name in others:
        weft.world.fault("fail list", host=name)
    until(lambda: all("does not answer" in (weft.client.get(f"/v1/hosts/{name}")["reason"] or "") for name in others), "they are silent")
    move(weft)
    weft.client.create("next", 1, path="bridge")  # by the time that it is ready the wish was looked at
    weft.client.wait_phase("next", "ready")
    assert not told(weft, "node-move-failed")
    for name in others:
        weft.world.fault(host=name)
    wait_moved(weft, here)
    settle(weft)


def test_a_node_moves(weft, settle):
    bridge(weft, count=3)
    settle(weft)
    before = node(weft, 1)
    answer = move(weft, 1)
    assert (answer["name"], answer["begun"], answer["copy"]) == ("cfd[1]", False, "auto")
    wait_moved(weft, before["host"], 1)
    after = node(weft, 1)
    assert identity(after) == identity(before) and after["phase"] == "ready"
    settle(weft)
    assert MOVED.match(wait_told(weft, "node-moved")[0]["message"]), told(weft, "node-moved")
    assert told(weft, "node-moved")[0]["host"] == after["host"]
    assert [told(weft, kind) for kind in ("node-failed", "node-lost", "node-move-failed")] == [[], [], []]
    usage = [value for value in weft.dump().values("usage").values() if value["node"] == before["id"]]
    assert len(usage) == 1, "until it left"
    assert weft.client.request("GET", "/v1/clusters/cfd/nodes/1/move?tenant=acme").status == 404
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    settle(weft)


def test_to_a_host_by_a_method(weft, settle):
    bridge(weft)
    to = other_host(weft)
    move(weft, 0, to=to, copy="hybrid")
    until(lambda: node(weft)["host"] == to, "it is there")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert "by hybrid" in wait_told(weft, "node-moved")[0]["message"]


def test_what_is_refused(weft, settle):
    bridge(weft, count=1)
    here = node(weft)["host"]
    for wish, status, words in (({"to": here}, 400, "already"), ({"to": "n9"}, 404, "n9"), ({"copy": "teleport"}, 400, "teleport"),
                                ({"speed": 9}, 400, "speed")):
        answer = move(weft, 0, status, **wish)
        assert words in answer["detail"], answer
    weft.client.expect(404, "POST", "/v1/clusters/cfd/nodes/7/move?tenant=acme", {})
    to = other_host(weft)
    weft.client.expect(200, "POST", f"/v1/hosts/{to}/drain", {})
    assert "undrain" in move(weft, 0, 409, to=to)["detail"]
    weft.world.fault("hang move")
    move(weft)
    until(lambda: node(weft)["moving_to"], "it leaves")
    assert "already" in move(weft, 0, 409)["detail"]
    assert weft.client.get("/v1/clusters/cfd/nodes/0/move", tenant="acme")["begun"]
    weft.world.fault()
    wait_moved(weft, here)
    settle(weft)


def test_progress_is_told(weft, settle):
    bridge(weft)
    here = node(weft)["host"]
    weft.world.fault("hang move")
    move(weft)
    weft.client.wait_phase("cfd", "migrating")
    until(lambda: re.match(r"cfd\[0\] is moving to another host by [a-z-]+: \d+ %", weft.client.cluster("cfd")["reason"] or ""), "how far it is")
    weft.world.fault()
    wait_moved(weft, here)
    settle(weft)


def test_one_after_the_other(weft, settle):
    """Both nodes of a cluster are on one host: they leave it one by one."""
    bridge(weft, count=2)
    assert len({n["host"] for n in weft.client.nodes("cfd")}) == 1
    here = node(weft)["host"]
    answer = weft.client.expect(200, "POST", f"/v1/hosts/{here}/drain", {"move": True})
    assert answer["moving"] and answer["draining"] and not answer["evicting"]
    seen = Counter()

    def done():
        going = [n for n in weft.client.nodes("cfd") if n["moving_to"]]
        seen[len(going)] += 1
        assert ledger(weft.dump()) == []
        return not any(n["host"] == here for n in weft.client.nodes("cfd"))

    until(done, "both are elsewhere")
    assert set(seen) <= {0, 1}
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert len(told(weft, "node-moved")) == 2
    assert not weft.world.domains().get(here) and weft.client.get(f"/v1/hosts/{here}")["nodes"] == 0
    weft.client.expect(200, "POST", f"/v1/hosts/{here}/undrain", {})


def test_drain_moves_many(site, settle):
    weft = site(hosts=4)
    for i in range(4):
        weft.client.create(f"c{i}", 1, path="bridge")
        weft.client.wait_phase(f"c{i}", "ready")
    hosts = Counter(weft.client.nodes(f"c{i}")[0]["host"] for i in range(4))
    drained, nodes = hosts.most_common(1)[0]
    weft.client.expect(200, "POST", f"/v1/hosts/{drained}/drain", {"move": True})
    until(lambda: weft.client.get(f"/v1/hosts/{drained}")["nodes"] == 0, "it is empty")
    for i in range(4):
        weft.client.wait_phase(f"c{i}", "ready")
    settle(weft)
    assert len(told(weft, "node-moved")) == nodes and not told(weft, "node-replaced")


def test_no_room(site, settle):
    weft = site(hosts=1)
    bridge(weft, count=1)
    here = node(weft)
    move(weft)
    failed = wait_told(weft, "node-move-failed")[0]["message"]
    assert failed.startswith("cfd[0] is not moved, and runs on where it is: ")
    settle(weft)
    assert node(weft)["id"] == here["id"] and weft.client.cluster("cfd")["phase"] == "ready"


def test_drain_waits_for_room(site, settle):
    weft = site(hosts=2)
    bridge(weft, count=1, cores=3)
    here = node(weft)["host"]
    weft.client.create("big", 4, cores=3, path="bridge")
    until(lambda: (weft.client.cluster("big") or {}).get("phase") in ("ready", "queued"), "big is looked at")
    weft.client.delete("big")
    weft.client.wait_gone("big")
    weft.client.expect(200, "POST", f"/v1/hosts/{here}/drain", {})
    weft.client.create("big", 2, cores=3, path="bridge")
    weft.client.wait_phase("big", "ready")
    assert not any(n["host"] == here for n in weft.client.nodes("big"))
    weft.client.expect(200, "POST", f"/v1/hosts/{here}/undrain", {})
    weft.client.expect(200, "POST", f"/v1/hosts/{here}/drain", {"move": True})
    until(lambda: "is to leave its host" in (weft.client.cluster("cfd")["reason"] or ""), "it tells why it waits")
    weft.client.delete("big")
    wait_moved(weft, here)
    settle(weft)


def test_target_is_lost(weft, settle):
    bridge(weft)
    here = node(weft)["host"]
    weft.world.fault("hang move")
    move(weft)
    until(lambda: node(weft)["moving_to"], "it leaves")
    there = node(weft)["moving_to"]
    weft.world.lose(there)
    failed = wait_told(weft, "node-move-failed")[0]
    assert "is lost" in failed["message"]
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready")
    assert node(weft)["host"] == here
    settle(weft, [there])
    weft.world.bring_back(there)
    settle(weft)


def test_source_is_lost(weft, settle):
    bridge(weft)
    old = node(weft)
    weft.world.fault("hang move", host=old["host"])
    move(weft)
    until(lambda: node(weft)["moving_to"], "it leaves")
    weft.world.lose(old["host"])
    until(lambda: all(n["id"] != old["id"] for n in weft.client.nodes("cfd")), "it is replaced")
    weft.client.wait_phase("cfd", "ready", ready=2)
    assert wait_told(weft, "node-lost")
    settle(weft, [old["host"]])
    weft.world.bring_back(old["host"])
    settle(weft)


def test_post_copy_breaks(weft, settle):
    """It stands still until the link is back, however long that takes."""
    bridge(weft)
    here = node(weft)
    weft.world.fault("fail post-copy 6 the link broke")
    move(weft, copy="post-copy")
    wait_moved(weft, here["host"])
    settle(weft)
    assert node(weft)["id"] == here["id"] and not told(weft, "node-move-failed")


def test_target_is_lost_after_the_switch(weft, settle):
    """What is at the source never goes on: the node is started anew, and nobody says that it runs on."""
    bridge(weft)
    old = node(weft)
    weft.world.fault("fail post-copy 1000 the link broke")
    move(weft, copy="post-copy")
    until(lambda: "the link between the hosts broke" in (weft.client.cluster("cfd")["reason"] or ""), "it stands still")
    there = node(weft)["moving_to"]
    weft.world.lose(there)
    until(lambda: told(weft, "node-failed"), "it failed")
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready", ready=2)
    assert node(weft)["id"] == old["id"] and node(weft)["host"] == old["host"]
    assert "runs on" not in " ".join(event["message"] for event in told(weft, "node-move-failed"))
    settle(weft, [there])
    weft.world.bring_back(there)
    settle(weft)


def test_it_is_lost_on_its_way(weft, settle):
    """Neither end has it: it is started anew."""
    bridge(weft)
    old = node(weft)
    weft.world.fault("hang move")
    move(weft)
    until(lambda: node(weft)["moving_to"], "it leaves")
    weft.world.remove_domain(old["host"], f"weft-{old['id']}")
    weft.world.fault()
    until(lambda: told(weft, "node-failed"), "it failed")
    weft.client.wait_phase("cfd", "ready", ready=2)
    settle(weft)
    assert node(weft)["id"] == old["id"] and node(weft)["host"] == old["host"]


def test_it_fails_and_runs_on(weft, settle):
    bridge(weft)
    old = node(weft)
    weft.world.fault("invalid move 1 unsafe migration")
    move(weft)
    failed = wait_told(weft, "node-move-failed")[0]
    assert "cannot move it" in failed["message"] and "unsafe migration" in failed["detail"]
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert node(weft)["host"] == old["host"]


def test_delete_wins(weft, settle):
    bridge(weft)
    weft.world.fault("hang move")
    move(weft)
    until(lambda: node(weft)["moving_to"], "it leaves")
    weft.client.delete("cfd")
    weft.world.fault()
    weft.client.wait_gone("cfd")
    settle(weft)
    assert not any(weft.world.domains().values()) and not any(weft.world.domains("in").values())


def test_weftd_starts_anew_meanwhile(weft, settle):
    bridge(weft)
    here = node(weft)
    weft.world.fault("hang move")
    move(weft)
    until(lambda: node(weft)["moving_to"], "it leaves")
    weft.kill()
    weft.world.fault()
    weft.start()
    wait_moved(weft, here["host"])
    settle(weft)
    assert node(weft)["id"] == here["id"]


def test_sriov_is_refused_and_disrupted(weft, settle):
    """What is open on a virtual function would break: its guest is asked first."""
    weft.client.create("cfd", 2, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    old = node(weft)
    weft.world.fault("fail quiesce 1 no hook")
    move(weft)
    failed = wait_told(weft, "node-move-failed")[0]["message"]
    assert "it could not be brought to rest" in failed and "no hook" in failed
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert node(weft)["host"] == old["host"]
    move(weft, disrupt=True)
    wait_moved(weft, old["host"])
    settle(weft)
    assert identity(node(weft)) == identity(old)


def test_drain_tells_what_stays(weft, settle):
    weft.client.create("cfd", 1, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    here = node(weft)["host"]
    weft.world.fault("fail quiesce 0 no hook")
    weft.client.expect(200, "POST", f"/v1/hosts/{here}/drain", {"move": True})
    stays = until(lambda: weft.client.get(f"/v1/hosts/{here}")["stays"], "it stays")
    assert stays[0]["name"] == "cfd[0]" and "no hook" in stays[0]["reason"]
    weft.client.expect(200, "POST", f"/v1/hosts/{here}/drain", {"move": True, "evict": True})
    until(lambda: node(weft)["host"] != here, "it was created anew elsewhere")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert told(weft, "node-replaced")


def test_the_command_line_tells_how_it_went(weft, settle):
    bridge(weft, count=1)
    here = node(weft)["host"]
    done = weft.cli("move", "cfd[0]", "--tenant", "acme")
    assert MOVED.match(done.stdout.strip()), done.stdout
    there = node(weft)["host"]
    assert there != here
    weft.client.wait_phase("cfd", "ready")
    done = weft.cli("drain", there)
    assert done.stdout == f"host {there} is draining\nhost {there} is empty\n"
    weft.world.fault("invalid move 0 unsafe")
    done = weft.cli("move", "cfd", "--tenant", "acme", check=False)
    assert done.returncode == 1 and "runs on where it is" in done.stderr
    weft.world.fault()
    settle(weft)


def test_one_that_only_times_out_ends(site, settle):
    weft = site(changes={"control": {"starts_max": 1, "start_deadline": "1s"}})
    bridge(weft)
    here = node(weft)
    weft.world.fault("hang move")
    move(weft)
    failed = wait_told(weft, "node-move-failed")[0]
    assert failed["message"].startswith("cfd[0] is not moved, and runs on where it is: ") and "nothing was heard" in failed["message"]
    weft.client.wait_phase("cfd", "ready")
    assert identity(node(weft)) == identity(here) and node(weft)["host"] == here["host"]
    weft.world.fault()
    settle(weft)


def cancel(weft, rank=0, status=202):
    return weft.client.expect(status, "DELETE", f"/v1/clusters/cfd/nodes/{rank}/move?tenant=acme")


def test_called_off(weft, settle):
    """One is on its way, the other waits for that."""
    bridge(weft)
    before = weft.client.nodes("cfd")
    assert "not being moved" in cancel(weft, 0, 404)["detail"]
    weft.world.fault("hang move")
    move(weft, 0)
    until(lambda: node(weft)["moving_to"], "it leaves")
    move(weft, 1)
    assert cancel(weft, 1)["called_off"] == "root"
    wait_told(weft, "node-move-failed")
    assert told(weft, "node-move-failed")[0]["message"] == "cfd[1] is not moved: root called it off"
    done = weft.cli("move", "cfd[0]", "--cancel", "--tenant", "acme")
    assert done.stdout == "cfd[0] is not moved, and runs on where it is: root called it off\n"
    weft.client.wait_phase("cfd", "ready")
    assert [(n["id"], n["host"]) for n in weft.client.nodes("cfd")] == [(n["id"], n["host"]) for n in before]
    weft.world.fault()
    settle(weft)
    move(weft, 0)
    wait_moved(weft, before[0]["host"])
    settle(weft)


def test_called_off_too_late(weft, settle):
    """It has gone over: it arrives, and whoever called it off is told."""
    bridge(weft)
    here = node(weft)
    weft.world.fault("fail post-copy 1000 the link broke")
    move(weft, copy="post-copy")
    until(lambda: "the link between the hosts broke" in (weft.client.cluster("cfd")["reason"] or ""), "it stands still")
    cancel(weft)
    assert cancel(weft)["called_off"] == "root"
    weft.world.fault()
    done = weft.cli("move", "cfd[0]", "--cancel", "--tenant", "acme", check=False)
    assert done.returncode in (1, 4) and ("moved to another host" in done.stderr or "not being moved" in done.stderr), done
    wait_moved(weft, here["host"])
    settle(weft)
    assert node(weft)["id"] == here["id"] and len(told(weft, "node-move-called-off")) == 1 and not told(weft, "node-move-failed")


def test_called_off_after_a_restart(weft, settle):
    bridge(weft)
    here = node(weft)
    weft.world.fault("hang move")
    move(weft)
    until(lambda: node(weft)["moving_to"], "it leaves")
    cancel(weft)
    weft.kill()
    weft.start()
    wait_told(weft, "node-move-failed")
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready")
    assert node(weft)["host"] == here["host"]
    settle(weft)


def test_an_emptied_host_is_not_called_off(weft, settle):
    bridge(weft, count=1)
    here = node(weft)["host"]
    weft.world.fault("hang move")
    weft.client.expect(200, "POST", f"/v1/hosts/{here}/drain", {"move": True})
    until(lambda: node(weft)["moving_to"], "it leaves")
    assert "undrain" in cancel(weft, 0, 409)["detail"]
    assert "--to" in weft.cli("move", "cfd", "--cancel", "--to", "n1", "--tenant", "acme", check=False).stderr
    weft.world.fault()
    wait_moved(weft, here)
    settle(weft)


# --- over RDMA ---


def give_rdma(weft, *names, **described):
    """Hosts say that they have an address on an RDMA device."""
    weft.stop()
    for number, name in enumerate(names, 1):
        folder = weft.world.hosts / name
        folder.mkdir(parents=True, exist_ok=True)
        numa = [{"cores": 8, "pages": {"2M": 8192}}] * 2
        (folder / "inventory.json").write_text(json.dumps({
            "hardware": {"numa": numa, "housekeeping": 1}, "kvm": True, "libvirt": "9.0.0", "qemu": "7.2.0", "machine": "pc-q35-7.2",
            "rdma_address": f"10.2.0.{number}"}), encoding="utf-8")
    for host in weft.config["hosts"]:
        host.update(described.get(host["name"], {}))
    weft.start()


def there_and_back(weft, to):
    """Once to that host and once back; what was told of both."""
    here, before = node(weft)["host"], len(told(weft, "node-moved"))
    for turn, target in enumerate((to, here), before + 1):
        move(weft, 0, to=target, copy="pre-copy")
        until(lambda: node(weft)["host"] == target and not node(weft)["moving_to"], lambda: f"it is on {target}: {weft.log_tail()}")
        wait_told(weft, "node-moved", turn)
        weft.client.wait_phase("cfd", "ready")
    return told(weft, "node-moved")[before:]


def test_over_rdma_where_both_hosts_have_it(weft, settle):
    give_rdma(weft, "n1", "n2", "n3", "n4")
    bridge(weft, count=1)
    assert all(event["message"].endswith(" over RDMA") for event in there_and_back(weft, other_host(weft)))
    move(weft, 0, copy="post-copy")
    assert wait_told(weft, "node-moved", 3)[-1]["message"].endswith("pass"), "a post-copy goes over TCP"
    settle(weft)
    assert "over RDMA" in {check["check"]: check["found"] for check in weft.client.get("/v1/hosts/n1/doctor")["checks"]}["rdma"]


def test_over_tcp_where_rdma_fails(weft, settle):
    """The move goes on, says so, and the next ones between the two do not try again."""
    give_rdma(weft, "n1", "n2", "n3", "n4")
    bridge(weft, count=1)
    here, to = node(weft)["host"], other_host(weft)
    weft.world.fault("fail rdma 1", host=to)
    first, back = there_and_back(weft, to)
    assert first["message"].endswith(", over TCP as RDMA failed") and "rdma" in first["detail"]
    assert back["message"].endswith(" over RDMA") and back["host"] == here, "the other way it works"
    again = there_and_back(weft, to)
    assert again[0]["message"].endswith("pass") and again[1]["message"].endswith(" over RDMA")
    settle(weft)


def test_over_tcp_where_one_host_has_none(weft, settle):
    give_rdma(weft, "n1", "n2", "n3", "n4", n1={"rdma_address": "none"}, n2={"rdma_address": "none"})
    bridge(weft, count=1)
    to = next(name for name in ("n1", "n2") if name != node(weft)["host"])
    assert all(event["message"].endswith("pass") for event in there_and_back(weft, to))
    settle(weft)
