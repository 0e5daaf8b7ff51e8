"""The life of clusters on the fakes: what a user asks for, what the world does, and what weft makes of both."""

import json
import re
import subprocess

import pytest
from harness.wait import until
from harness.weft import build_folder, host


def hosts_of(weft, name):
    return sorted(node["host"] for node in weft.client.nodes(name))


def test_create_becomes_ready(weft, settle):
    made = weft.client.create("cfd", 3, cores=2)
    assert (made["phase"], made["count"], made["partition"]) == ("queued", 3, None)
    ready = weft.client.wait_phase("cfd", "ready", nodes=3, ready=3)
    settle(weft)
    nodes = weft.client.nodes("cfd")
    assert [node["name"] for node in nodes] == ["cfd[0]", "cfd[1]", "cfd[2]"]
    assert all(len(node["core_ids"]) == 2 and len(node["guids"]) == 1 for node in nodes)
    assert ready["vxlan"] == 10000 + int(ready["partition"], 16)


def test_the_store_is_told_as_it_is(weft, settle):
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    weft.stop()
    done = subprocess.run([build_folder() / "src/daemon/weftd", "--dump", weft.root / "weft.db"], capture_output=True, text=True, check=True)
    document = weft.dump().document
    assert document == json.loads(done.stdout)
    assert len(weft.dump().values("node")) == 2 and document["claims"] and document["meters"]


def test_scale_up_and_down(weft, settle):
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready", ready=2)
    first = {node["id"] for node in weft.client.nodes("cfd")}
    weft.client.scale("cfd", 5)
    weft.client.wait_phase("cfd", "ready", ready=5)
    settle(weft)
    assert first < {node["id"] for node in weft.client.nodes("cfd")}, "growing keeps the nodes that are there"
    weft.client.scale("cfd", 1)
    weft.client.wait_phase("cfd", "ready", nodes=1)
    settle(weft)
    assert [node["rank"] for node in weft.client.nodes("cfd")] == [0], "the highest ranks go first"


def test_groups_scale_apart(weft, settle):
    groups = [{"name": "cpu", "count": 2, "cores": 1, "memory": "128M", "image": "mpi"},
              {"name": "gpu", "count": 1, "cores": 1, "memory": "128M", "image": "mpi", "gpus": 1}]
    weft.client.expect(201, "POST", "/v1/clusters?tenant=acme", {"name": "mix", "groups": groups})
    weft.client.wait_phase("mix", "ready", ready=3)
    weft.client.expect(200, "PATCH", "/v1/clusters/mix?tenant=acme", {"group": "gpu", "count": 2})
    weft.client.wait_phase("mix", "ready", ready=4)
    settle(weft)
    assert sorted(node["group"] for node in weft.client.nodes("mix")) == ["cpu", "cpu", "gpu", "gpu"]


def test_delete_leaves_nothing(weft, settle):
    weft.client.create("cfd", 3)
    weft.client.wait_phase("cfd", "ready")
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    settle(weft)
    assert weft.world.partitions() == {} and not any(weft.world.domains().values())
    assert weft.dump().values("node") == {}


def test_name_can_be_used_again(weft, settle):
    first = weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    second = weft.client.create("cfd", 1)
    assert first["id"] != second["id"]
    weft.client.wait_phase("cfd", "ready")
    settle(weft)


def test_queued_until_there_is_room(site, settle):
    weft = site(hosts=1)
    weft.client.create("big", 2, cores=3)
    weft.client.wait_phase("big", "ready")
    weft.client.create("late", 1, cores=3)
    waiting = weft.client.wait_phase("late", "queued")
    until(lambda: weft.client.cluster("late")["reason"], "a reason why it waits")
    assert waiting["nodes"] == 0
    weft.client.delete("big")
    weft.client.wait_phase("late", "ready")
    settle(weft)


def test_oldest_gets_the_room(site, settle):
    weft = site(hosts=1, changes={"control": {"backoff_base": "5m", "backoff_max": "5m"}})
    weft.client.create("big", 2, cores=3)
    weft.client.wait_phase("big", "ready")
    for name in ("second", "third", "fourth", "fifth"):
        weft.client.create(name, 1, cores=3)
        until(lambda name=name: weft.client.cluster(name)["reason"], "it waits")
    weft.client.scale("big", 1)
    weft.client.wait_phase("second", "ready")
    weft.client.delete("big")
    weft.client.wait_phase("third", "ready")
    settle(weft)
    assert [weft.client.cluster(name)["phase"] for name in ("fourth", "fifth")] == ["queued", "queued"]


def test_partition_numbers_are_used_again(site, settle):
    weft = site(hosts=1, changes={"fabrics": [{"name": "ib0", "pkey_first": "0x0001", "pkey_last": "0x0002",
                                               "guid_prefix": "0x02c9010000000000", "vxlan_base": 10000}],
                                  "control": {"pkey_rest": "1ms"}})
    for _ in range(3):
        weft.client.create("cfd", 1)
        assert int(weft.client.wait_phase("cfd", "ready")["partition"], 16) in (1, 2)
        weft.client.delete("cfd")
        weft.client.wait_gone("cfd")
    settle(weft)


def test_whole_adapters(weft, settle):
    """One on each host, and no virtual function beside it."""
    weft.client.create("whole", 3, path="passthrough")
    weft.client.wait_phase("whole", "ready", ready=3)
    weft.client.create("parts", 4)
    weft.client.wait_phase("parts", "ready", ready=4)
    settle(weft)
    assert len(set(hosts_of(weft, "whole"))) == 3
    assert not set(hosts_of(weft, "whole")) & set(hosts_of(weft, "parts"))


def test_two_rails(site, settle):
    """Every port of every node is in the partition."""
    hosts = [host(f"n{i}") for i in (1, 2)]
    for number, described in enumerate(hosts):
        described["hcas"].append(described["hcas"][0] | {"name": "mlx5_1", "rail": 1, "port_guid": f"0x{0x0002C90300000100 + number:016x}"})
    weft = site(changes={"hosts": hosts})
    weft.client.create("cfd", 3, rails=2)
    partition = weft.client.wait_phase("cfd", "ready", ready=3)["partition"]
    settle(weft)
    assert len(weft.world.partitions()[int(partition, 16)].members) == 6


def test_new_host_gives_room(site, settle):
    weft = site(hosts=1)
    weft.client.create("wide", 2, cores=3)
    weft.client.wait_phase("wide", "ready")
    weft.client.create("late", 2, cores=3)
    weft.client.wait_phase("late", "queued")
    weft.client.expect(201, "POST", "/v1/hosts", host("n9"))
    weft.client.wait_phase("late", "ready")
    settle(weft)
    assert hosts_of(weft, "late") == ["n9", "n9"]


def test_dead_domain_is_healed(weft, settle):
    weft.client.create("cfd", 3)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    victim, other = weft.client.nodes("cfd")[:2]
    weft.world.end_domain(victim["host"], f"weft-{victim['id']}")
    weft.world.remove_domain(other["host"], f"weft-{other['id']}")
    until(lambda: weft.world.where(f"weft-{victim['id']}") or weft.client.nodes("cfd")[0]["id"] != victim["id"], "a new start")
    weft.client.wait_phase("cfd", "ready", ready=3)
    settle(weft)


def test_healed_node_keeps_its_place(weft, settle):
    """However often its domain dies: only starts that fail in a row move it."""
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    for _ in range(5):
        weft.world.end_domain(node["host"], f"weft-{node['id']}")
        until(lambda: weft.world.where(f"weft-{node['id']}"), "it runs again")
        weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert weft.client.nodes("cfd")[0]["id"] == node["id"]


def test_node_that_never_starts_moves_on(weft, settle):
    """A host where nothing starts is left after some tries."""
    weft.world.fault("fail start 0 no such machine type", host="n1")
    weft.client.create("cfd", 4, cores=3)
    weft.client.wait_phase("cfd", "ready", ready=4)
    settle(weft)
    assert "n1" not in hosts_of(weft, "cfd")


def test_lost_host_is_replaced_and_fenced(weft, settle):
    weft.client.create("cfd", 4)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    before = {node["id"]: node for node in weft.client.nodes("cfd")}
    lost = next(iter(before.values()))["host"]
    weft.world.lose(lost)
    until(lambda: weft.client.get(f"/v1/hosts/{lost}")["state"] == "lost", "the host is lost")
    until(lambda: lost not in hosts_of(weft, "cfd"), "its nodes are elsewhere")
    weft.client.wait_phase("cfd", "ready", ready=4)
    settle(weft, lost=[lost])
    after = {node["id"]: node for node in weft.client.nodes("cfd")}
    assert lost not in hosts_of(weft, "cfd")
    new = [after[key] for key in after.keys() - before.keys()]
    old = [before[key] for key in before.keys() - after.keys()]
    assert new and not {g for n in new for g in n["guids"]} & {g for n in old for g in n["guids"]}
    assert not {n["mac"] for n in new} & {n["mac"] for n in old}
    assert any(weft.world.domains()[lost]), "its domains are still there, unseen"

    weft.world.bring_back(lost)
    until(lambda: weft.client.get(f"/v1/hosts/{lost}")["state"] == "up", "the host is back")
    settle(weft)
    assert not weft.world.domains().get(lost)


def test_lost_host_is_lost_until_it_is_clean(weft, settle):
    weft.client.create("cfd", 4)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    lost = hosts_of(weft, "cfd")[0]
    weft.world.lose(lost)
    until(lambda: weft.client.get(f"/v1/hosts/{lost}")["state"] == "lost", "the host is lost")
    until(lambda: lost not in hosts_of(weft, "cfd"), "its nodes are elsewhere")
    weft.world.fault("fail stop 0 it is stuck", host=lost)
    until(lambda: weft.log.read_text(encoding="utf-8").count("it is stuck") >= 3, "it was looked at, and its stale domains tried")
    assert weft.client.get(f"/v1/hosts/{lost}")["state"] == "lost"
    weft.world.fault(host=lost)
    until(lambda: weft.client.get(f"/v1/hosts/{lost}")["state"] == "up", "the host is back")
    assert not weft.world.domains().get(lost), "its stale domains are gone first"
    settle(weft)


def test_short_silence_of_a_host_changes_nothing(site, settle):
    weft = site(changes={"control": {"host_grace": "60s"}})
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    before = [node["id"] for node in weft.client.nodes("cfd")]
    silent = weft.client.nodes("cfd")[0]["host"]
    weft.world.fault("fail list 3 no route to host", host=silent)
    fault = weft.world.hosts / silent / "faults"
    until(lambda: "fail list" not in fault.read_text(encoding="utf-8"), "weft asked three times")
    settle(weft)
    assert [node["id"] for node in weft.client.nodes("cfd")] == before


CLOCK = r"\d\d:\d\d:\d\d UTC"


def test_silent_host_says_so_at_once(site, settle):
    """Long before it is lost: the host with the driver's words, its clusters without, and their states stay what they are."""
    weft = site(changes={"control": {"host_grace": "60s"}})
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    node = weft.client.nodes("cfd")[0]
    path = f"/v1/hosts/{node['host']}"
    since = weft.client.get(path)["since"]
    weft.world.fault("fail list 0 no route to host", host=node["host"])
    told = until(lambda: (seen := weft.client.get(path))["reason"] and seen, "the host says that it does not answer")
    assert told["state"] == "up" and told["since"] == since
    assert re.fullmatch(rf"does not answer since {CLOCK} \(.*no route to host\); its nodes are given up at {CLOCK}", told["reason"])
    cluster = until(lambda: (seen := weft.client.cluster("cfd"))["reason"] and seen, "its cluster says so, too")
    assert cluster["phase"] == "ready" and re.fullmatch(rf"host {node['host']}: .*no route to host", cluster["detail"])
    assert re.fullmatch(rf"node cfd\[\d\]: its host does not answer since {CLOCK}; unless it does, .* from {CLOCK} on", cluster["reason"])
    weft.world.fault(host=node["host"])
    until(lambda: weft.client.get(path)["reason"] is None and weft.client.cluster("cfd")["reason"] is None, "all is well again")
    settle(weft)


def test_late_look_says_so(site):
    """A look that hangs tells nothing by itself for a long time."""
    weft = site(changes={"control": {"host_grace": "60s", "list_deadline": "60s"}})
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    path = f"/v1/hosts/{weft.client.nodes('cfd')[0]['host']}"
    weft.world.fault("slow list 3000", host=path.rsplit("/", maxsplit=1)[1])
    told = until(lambda: (seen := weft.client.get(path))["reason"] and seen, "it is late")
    assert told["state"] == "up" and re.fullmatch(rf"does not answer since {CLOCK}", told["reason"])
    cluster = until(lambda: (seen := weft.client.cluster("cfd"))["reason"] and seen, "its cluster says so, too")
    assert cluster["phase"] == "ready" and re.fullmatch(rf"node cfd\[0\]: its host does not answer since {CLOCK}", cluster["reason"])
    until(lambda: weft.client.get(path)["reason"] is None and weft.client.cluster("cfd")["reason"] is None, "all is well again")


def test_new_host_says_what_it_waits_for(site):
    weft = site(changes={"control": {"host_grace": "60s"}})
    weft.world.fault("hang list", host="n9")
    assert weft.client.expect(201, "POST", "/v1/hosts", host("n9"))["reason"] == "connecting to fake://n9/"
    seen = until(lambda: "since" in (seen := weft.client.get("/v1/hosts/n9"))["reason"] and seen, "it tells since when")
    assert seen["state"] == "unknown" and re.fullmatch(rf"connecting to fake://n9/ since {CLOCK} \(.*\)", seen["reason"])


def test_devices_that_are_not_there_are_not_placed_on(site):
    """A description may promise more than the host has."""
    weft = site(hosts=1)
    folder = weft.world.hosts / "n1"
    folder.mkdir(parents=True, exist_ok=True)
    bare = {"hardware": {"numa": [{"cores": 4, "pages": {"2M": 1024}}] * 2}, "kvm": True}
    (folder / "inventory.json").write_text(json.dumps(bare), encoding="utf-8")
    weft.stop()
    weft.start()
    for path, scarce in (("passthrough", "whole HCAs"), ("sriov", "virtual functions")):
        weft.client.create(path, 1, path=path)
        words = f"path {path}, not even if all hosts were empty; scarcest: {scarce}, of which some are described that the hosts do not have"
        until(lambda path=path, words=words: words in (weft.client.cluster(path)["reason"] or ""), lambda path=path: weft.client.cluster(path))
        assert (weft.client.cluster(path)["phase"], weft.client.cluster(path)["nodes"]) == ("queued", 0)
    weft.client.create("cfd", 1, path="bridge", rails=0)
    weft.client.wait_phase("cfd", "ready")
    weft.client.delete("passthrough")
    (folder / "inventory.json").unlink()
    weft.stop()
    weft.start()
    weft.client.wait_phase("sriov", "ready")


def test_drain_takes_no_new_nodes(weft, settle):
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    drained = weft.client.nodes("cfd")[0]["host"]
    before = hosts_of(weft, "cfd")
    answer = weft.client.expect(200, "POST", f"/v1/hosts/{drained}/drain", {})
    assert answer["draining"] and not answer.get("evicting")
    weft.client.create("more", 6)
    weft.client.wait_phase("more", "ready")
    assert drained not in hosts_of(weft, "more") and hosts_of(weft, "cfd") == before
    weft.client.expect(200, "POST", f"/v1/hosts/{drained}/undrain", {})
    weft.client.create("again", 8)
    weft.client.wait_phase("again", "ready")
    settle(weft)
    assert drained in hosts_of(weft, "again")


def test_evict_moves_the_nodes_away(weft, settle):
    weft.client.create("cfd", 3)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    drained = weft.client.nodes("cfd")[0]["host"]
    assert weft.client.request("DELETE", f"/v1/hosts/{drained}").status == 409
    weft.client.expect(200, "POST", f"/v1/hosts/{drained}/drain", {"evict": True})
    until(lambda: drained not in hosts_of(weft, "cfd"), "all nodes are elsewhere")
    weft.client.wait_phase("cfd", "ready", ready=3)
    settle(weft)
    assert not weft.world.domains().get(drained)


def test_delete_wins_over_a_hanging_create(site, settle):
    weft = site(changes={"control": {"start_deadline": "5m"}})
    weft.world.fault("hang start")
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "starting")
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    weft.world.fault()
    settle(weft)
    assert not any(weft.world.domains().values())


def test_evict_wins_over_a_hanging_start(site, settle):
    weft = site(changes={"control": {"start_deadline": "5m"}})
    weft.world.fault("hang start")
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "starting")
    left = hosts_of(weft, "cfd")[0]
    weft.world.fault()
    weft.client.expect(200, "POST", f"/v1/hosts/{left}/drain", {"evict": True})
    weft.client.wait_phase("cfd", "ready", nodes=1)
    settle(weft)
    assert hosts_of(weft, "cfd") != [left]


def test_delete_wins_over_a_hanging_fabric(weft, settle):
    weft.client.create("first", 1)
    weft.client.wait_phase("first", "ready")
    weft.world.fabric_fault("hang apply")
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "wiring")
    weft.client.delete("cfd")
    weft.world.fabric_fault()
    weft.client.wait_gone("cfd")
    settle(weft)


@pytest.mark.parametrize("step, deadline", [("start", "start"), ("open", "list"), ("sync", "await"), ("meet", "meet"), ("connect", "connect"),
                                            ("disconnect", "connect"), ("inspect", "list"), ("stop", "stop"), ("apply", "apply")])
def test_deadline_of_a_hanging_step(site, settle, step, deadline):
    """A step that hangs once is cut off at its deadline and done again."""
    weft = site(changes={"control": {f"{deadline}_deadline": "200ms"}})
    (weft.world.fabric_fault if step == "apply" else weft.world.fault)(f"hang {step} 1")
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    settle(weft)


def test_deadline_of_a_hanging_look(site):
    weft = site(changes={"control": {"list_deadline": "200ms"}})
    weft.world.fault("hang list 1", host="n1")
    until(lambda: not (weft.world.hosts / "n1/faults").read_text(encoding="utf-8"), "it is being looked at")
    weft.world.lose("n1")
    until(lambda: weft.client.get("/v1/hosts/n1")["state"] == "lost", "it is looked at again")


def test_backoff_tells_its_reason(weft, settle):
    weft.world.fault("fail start 0 the machine room is on fire")
    weft.client.create("cfd", 1)
    seen = until(lambda: (seen := weft.client.cluster("cfd"))["detail"] and "; try " in seen["reason"] and seen, "the reason is shown")
    assert "the machine room is on fire" in seen["detail"]
    assert re.fullmatch(r"cfd\[0\]: its host cannot be reached; try \d+ in .*", seen["reason"])
    weft.world.fault()
    ready = weft.client.wait_phase("cfd", "ready")
    assert ready["reason"] is None
    settle(weft)


def test_backoff_grows(site, settle):
    """Also where each failed start is cleaned up, and no other host can take the node."""
    weft = site(hosts=1, changes={"control": {"backoff_base": "5ms", "backoff_max": "50ms"}})
    weft.world.fault("fail start 0 the machine room is on fire")
    weft.client.create("cfd", 1)

    def tries():
        told = re.search(r"; try (\d+) in", weft.client.cluster("cfd")["reason"] or "")
        return int(told[1]) if told else 0

    until(lambda: tries() >= 7, lambda: weft.client.cluster("cfd"))
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready")
    settle(weft)


def test_fabric_failure_is_retried(weft, settle):
    weft.client.create("first", 1)
    weft.client.wait_phase("first", "ready")
    weft.world.fabric_fault("fail apply 2 subnet manager is busy")
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)


def test_marked_garbage_is_removed_and_told(weft, settle):
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    elsewhere = next(h for h in ("n1", "n2") if h != node["host"])
    weft.add_ended(elsewhere, "weft-0zzzzzzzzzzz-7", like=f"weft-{node['id']}")
    until(lambda: not weft.world.where("weft-0zzzzzzzzzzz-7"), "the stray domain is removed")
    # The event is written after the host has answered, when the domain is gone already.
    until(lambda: any("0zzzzzzzzzzz-7" in event["message"] for event in weft.client.events()), "it is told")
    settle(weft)


def test_foreign_domain_is_only_told(weft, settle):
    weft.world.add_foreign("n2", "somebody-elses-vm")
    until(lambda: any("somebody-elses-vm" in event["message"] for event in weft.client.events()), "it is reported")
    weft.client.create("cfd", 4)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert weft.world.where("somebody-elses-vm") == ["n2"]
    told = [event for event in weft.client.events() if "somebody-elses-vm" in event["message"]]
    assert len(told) == 1, "once, not at each look"


def test_foreign_partition_is_avoided(site, settle):
    """Of four numbers the first cluster has one and others have two."""
    weft = site(hosts=4, changes={"fabrics": [{"name": "ib0", "guid_prefix": "0x02c9010000000000", "pkey_first": "0x0001", "pkey_last": "0x0004"}]})
    weft.client.create("first", 1)
    left = {1, 2, 3, 4} - {int(weft.client.wait_phase("first", "ready")["partition"], 16)}
    for _ in range(2):
        weft.world.add_foreign_partition(left.pop())
    weft.client.create("cfd", 1)
    assert int(weft.client.wait_phase("cfd", "ready")["partition"], 16) in left
    settle(weft)
    assert [p.name for p in weft.world.partitions().values()].count("storage") == 2


def test_usage_sums(weft, settle):
    weft.client.create("cfd", 3, cores=2, memory="1G")
    weft.client.wait_phase("cfd", "ready")
    weft.client.create("other", 1, tenant="umbrella")
    weft.client.wait_phase("other", "ready", tenant="umbrella")
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    settle(weft)
    closed = weft.dump().values("usage").values()
    seconds = sum(usage["end"] - usage["start"] for usage in closed) / 1e6
    acme = next(t for t in weft.client.get("/v1/usage")["tenants"] if t["tenant"] == "acme")
    assert acme["nodes"] == 3
    assert abs(acme["node_seconds"] - seconds) < 0.01
    assert abs(acme["core_seconds"] - 2 * seconds) < 0.01
    assert abs(acme["memory_gib_seconds"] - seconds) < 0.01
    umbrella = next(t for t in weft.client.get("/v1/usage", tenant="umbrella")["tenants"])
    assert umbrella["node_seconds"] > 0, "open intervals count"


def test_quota_counts_no_functions_on_the_bridge(site, settle):
    """Path auto takes virtual functions where there are any; where it is the bridge, it stays that."""
    bare = [host(f"n{i}", hcas=[]) for i in (1, 2)]
    weft = site(changes={"hosts": bare})
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "initech", "quota": {"vfs": 1}})
    weft.client.create("cfd", 2, tenant="initech")
    weft.client.wait_phase("cfd", "ready", tenant="initech")
    assert weft.client.get("/v1/tenants/initech")["used"]["vfs"] == 0
    weft.client.expect(201, "POST", "/v1/hosts", host("n3"))
    until(lambda: weft.client.get("/v1/hosts/n3")["state"] == "up", "a host with virtual functions is up")
    weft.client.scale("cfd", 3, tenant="initech")
    weft.client.wait_phase("cfd", "ready", tenant="initech", ready=3)
    settle(weft)
    assert {node["path"] for node in weft.client.nodes("cfd", tenant="initech")} == {"bridge"}
    refused = weft.client.expect(409, "POST", "/v1/clusters?tenant=initech", {"name": "more", "count": 2, "cores": 1, "memory": "128M", "image": "mpi"})
    assert "vfs 0 of 1 in use, 2 more asked for" in refused["detail"]


def test_quota_is_a_wall(weft):
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "initech", "quota": {"nodes": 3}})
    weft.client.create("cfd", 2, tenant="initech")
    answer = weft.client.request("POST", "/v1/clusters?tenant=initech", {"name": "more", "count": 2})
    assert answer.json["code"] == "exhausted" and "nodes" in answer.json["detail"]
    answer = weft.client.request("PATCH", "/v1/clusters/cfd?tenant=initech", {"count": 4})
    assert answer.json["code"] == "exhausted"
    weft.client.scale("cfd", 3, tenant="initech")
    weft.client.wait_phase("cfd", "ready", tenant="initech", ready=3)
    assert weft.client.get("/v1/tenants/initech")["used"]["nodes"] == 3
    weft.client.expect(200, "PATCH", "/v1/tenants/initech", {"quota": {"nodes": 4}})
    weft.client.scale("cfd", 4, tenant="initech")


def revision_of(dump, kind, **wanted):
    """Of the last record of this kind whose value has these fields."""
    found = [record["revision"] for record in dump.records[kind].values() if wanted.items() <= record["value"].items()]
    return max(found)


def test_what_belongs_together_is_written_together(weft, settle):
    """A change, its event and the answer that is kept for it have one revision: they were one transaction."""
    weft.client.create("cfd", 2, key="once")
    dump = weft.dump()
    made = revision_of(dump, "cluster", name="cfd")
    assert revision_of(dump, "event", type="cluster-created") == made
    assert revision_of(dump, "request") == made
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    dump = weft.dump()
    assert revision_of(dump, "event", type="cluster-ready") == revision_of(dump, "cluster-status", phase="ready")
    weft.client.scale("cfd", 1)
    dump = weft.dump()
    assert revision_of(dump, "event", type="cluster-scaled") == revision_of(dump, "cluster", name="cfd")
    weft.client.wait_phase("cfd", "ready", nodes=1)
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    settle(weft)
    dump = weft.dump()
    assert revision_of(dump, "event", type="cluster-deleted") == revision_of(dump, "usage")
    wishes = ("cluster-created", "cluster-scaled", "cluster-deleting", "cluster-deleted")
    assert [event["type"] for event in weft.client.events() if event["type"] in wishes] == list(wishes)


def test_restart_changes_nothing(weft, settle):
    weft.client.create("cfd", 3)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    before = weft.client.nodes("cfd")
    weft.stop()
    weft.start()
    weft.client.wait_phase("cfd", "ready", ready=3)
    settle(weft)
    assert weft.client.nodes("cfd") == before


def test_idempotency_key_survives_a_kill(weft, settle):
    first = weft.client.create("cfd", 2, key="the-same")
    weft.kill()
    weft.start()
    again = weft.client.create("cfd", 2, key="the-same")
    assert again["id"] == first["id"]
    headers = {"Idempotency-Key": "the-same"}
    other = {"name": "cfd", "count": 3, "cores": 1, "memory": "256M", "image": "mpi"}
    assert weft.client.request("POST", "/v1/clusters?tenant=acme", other, headers).status == 422
    weft.client.wait_phase("cfd", "ready")
    settle(weft)


def test_etag_follows_the_wish(weft):
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    path = "/v1/clusters/cfd?tenant=acme"
    tag = weft.client.request("GET", path).headers["ETag"]
    assert weft.client.request("PATCH", path, {"count": 2}, {"If-Match": tag}).status == 200
    stale = weft.client.request("PATCH", path, {"count": 3}, {"If-Match": tag})
    assert (stale.status, stale.json["code"]) == (412, "conflict")
    weft.client.wait_phase("cfd", "ready", ready=2)
    changed = weft.client.request("GET", path).headers["ETag"]
    assert changed != tag
    assert weft.client.request("DELETE", path, headers={"If-Match": tag}).status == 412
    assert weft.client.request("DELETE", path, headers={"If-Match": changed}).status == 202
