"""From a claim to a ready node: the hosts' networks, the image, the first answer from inside, and the meeting of all."""

import hashlib
import json
import os
import re
import time

import pytest
from harness.files import DISK, INITRD, KERNEL
from harness.wait import until
from harness.weft import host

WIDE = {"cores": 3}  # two of these fill a host


def spread(weft, count=5):
    """A cluster on several hosts."""
    weft.client.create("cfd", count, **WIDE)
    ready = weft.client.wait_phase("cfd", "ready", ready=count)
    assert len({node["host"] for node in weft.client.nodes("cfd")}) > 1
    return ready


# --- networks ---


def test_all_hosts_of_a_cluster_know_each_other(weft, settle):
    ready = spread(weft)
    hosts = sorted({node["host"] for node in weft.client.nodes("cfd")})
    assert {place: peers for place, (_, peers) in weft.world.networks().items()} == {
        (name, ready["vxlan"]): [other for other in hosts if other != name] for name in hosts}
    settle(weft)
    weft.client.scale("cfd", 1)
    weft.client.wait_phase("cfd", "ready", ready=1)
    assert [peers for _, peers in weft.world.networks().values()] == [[]]
    settle(weft)
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    assert not weft.world.networks()


def test_no_node_starts_before_all_hosts_have_the_network(weft, settle):
    weft.world.fault("fail connect 0 no bridge here")
    weft.client.create("cfd", 5, **WIDE)
    seen = until(lambda: (seen := weft.client.cluster("cfd"))["detail"] and seen, "its reason is told")
    assert re.fullmatch(r"a host of it cannot be reached; try \d+ in .*", seen["reason"]) and "no bridge here" in seen["detail"]
    assert not weft.world.domains()
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready", reason=None)
    settle(weft)


def test_network_that_was_changed_behind_weft(weft, settle):
    vxlan = spread(weft)["vxlan"]
    settle(weft)
    (first, _), (second, _) = sorted(weft.world.networks())[:2]
    cluster = weft.world.networks()[first, vxlan][0]
    weft.world.remove_network(first, vxlan)
    weft.world.add_network(second, vxlan, cluster, "somebody.else", site=weft.site())
    settle(weft)
    assert weft.client.cluster("cfd")["phase"] == "ready"


def test_network_that_is_gone_after_a_restart(weft, settle):
    vxlan = spread(weft)["vxlan"]
    settle(weft)
    weft.stop()
    weft.world.remove_network(sorted(weft.world.networks())[0][0], vxlan)
    weft.start()
    settle(weft)


def test_network_that_no_cluster_explains(weft, settle):
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    weft.add_ended_network("n3", 4711, "0zzzzzzzzzzz", "n1")
    until(lambda: ("n3", 4711) not in weft.world.networks(), "it is removed")
    until(lambda: any("network 4711" in event["message"] for event in weft.client.events()), "that is told")
    settle(weft)


def test_lost_host_forgets_its_networks_when_it_returns(weft, settle):
    spread(weft)
    name = weft.client.nodes("cfd")[0]["host"]
    weft.world.lose(name)
    until(lambda: name not in {node["host"] for node in weft.client.nodes("cfd")}, "its nodes are elsewhere")
    weft.client.wait_phase("cfd", "ready")
    settle(weft, lost=[name])
    assert any(place[0] == name for place in weft.world.networks())
    weft.world.bring_back(name)
    until(lambda: weft.client.get(f"/v1/hosts/{name}")["state"] == "up", "it is back")
    settle(weft)


# --- answers from inside ---


def test_nodes_are_up_before_they_have_met(site, settle):
    weft = site(changes={"control": {"starts_max": 1000}})  # nobody is moved yet
    weft.world.fault("fail meet 0 cfd-1 does not answer")
    weft.client.create("cfd", 2)
    until(lambda: "it does not reach all others on the partition" in (weft.client.cluster("cfd")["reason"] or ""), "that is told")
    assert weft.client.cluster("cfd")["phase"] == "starting"
    assert {node["phase"] for node in weft.client.nodes("cfd")} == {"up"}
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready", ready=2, reason=None)
    settle(weft)


def test_all_meet_again_after_a_change(site, settle):
    weft = site(changes={"control": {"starts_max": 1000}})
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    domains = weft.world.domains()
    weft.world.fault("fail meet 0 nobody there")
    weft.client.scale("cfd", 3)
    until(lambda: sorted(node["phase"] for node in weft.client.nodes("cfd")) == ["ready", "ready", "up"], "the new one is up")
    until(lambda: "does not reach all others" in (weft.client.cluster("cfd")["reason"] or ""), "that is told")
    assert weft.client.cluster("cfd")["phase"] == "scaling"
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready", ready=3)
    assert all(names <= weft.world.domains()[name] for name, names in domains.items()), "nobody was started anew"
    settle(weft)


def test_guest_that_never_answers_is_started_anew(site, settle):
    weft = site(changes={"control": {"await_deadline": "150ms"}})
    weft.world.fault("hang sync 2")
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    failed = [event for event in weft.client.events() if event["type"] == "node-failed"]
    assert failed and all("no answer from inside within 150 ms" in event["message"] for event in failed)
    settle(weft)


def test_node_that_stops_answering_before_it_met_anybody(site, settle):
    weft = site(changes={"control": {"meet_deadline": "100ms"}})
    weft.world.fault("hang meet 3")
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    assert any("no word from inside" in event["message"] for event in weft.client.events() if event["type"] == "node-failed")
    settle(weft)


# --- images ---


def add_image(weft, name, *contents):
    parts = dict(zip(("disk", "kernel", "initrd"), contents))
    for data in contents:
        digest = hashlib.sha256(data).hexdigest()
        headers = {"Content-Type": "application/octet-stream"}
        assert weft.client.request("PATCH", f"/v1/blobs/{digest}?offset=0&size={len(data)}", data, headers).status == 200
    body = {"name": name} | {part: {"digest": hashlib.sha256(data).hexdigest(), "size": len(data)} for part, data in parts.items()}
    body["disk"]["format"] = "raw"
    weft.client.expect(201, "POST", "/v1/images", body)


def test_image_comes_before_its_nodes(weft, settle):
    add_image(weft, "own", DISK, KERNEL, INITRD)
    weft.world.fault("fail bring 0 the disk is full")
    weft.client.create("cfd", 4, image="own", path="bridge", **WIDE)
    seen = until(lambda: (seen := weft.client.cluster("cfd"))["detail"] and seen, "its reason is told")
    assert "image own: its host cannot be reached" in seen["reason"] and "the disk is full" in seen["detail"]
    assert not weft.world.domains()
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready", ready=4, reason=None)
    assert {len(weft.world.images()[node["host"]]) for node in weft.client.nodes("cfd")} == {3}
    settle(weft)


def test_progress_of_an_image_is_shown(weft, settle):
    add_image(weft, "own", DISK)
    weft.world.fault("hang bring 1")
    weft.client.create("cfd", 1, image="own", path="bridge")
    until(lambda: re.fullmatch(r"bringing image own to 1 host: \d+ %", weft.client.cluster("cfd")["reason"] or ""), "how far it is")
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")


def test_reason_is_steady_while_an_image_does_not_come(weft, settle):
    """Not "0 %" during each try, and the failure between two."""
    add_image(weft, "own", DISK)
    weft.world.fault("fail bring 0 the disk is full", "slow bring 20")
    weft.client.create("cfd", 1, image="own", path="bridge")
    tried = re.compile(r"(cfd\[0\]: )?image own: its host cannot be reached(; try \d+ in .*)?")
    until(lambda: tried.fullmatch(weft.client.cluster("cfd")["reason"] or ""), "its reason is told")
    seen = []
    while not any(event["type"] == "node-replaced" for event in weft.client.events()):  # also when it looks elsewhere
        seen += [weft.client.cluster("cfd") for _ in range(10)]
    seen += [weft.client.cluster("cfd") for _ in range(200)]
    assert not [each["reason"] for each in seen if not tried.fullmatch(each["reason"] or "")]
    assert all("the disk is full" in each["detail"] for each in seen)
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready", reason=None)
    settle(weft)


def cpu_seconds(weft):
    fields = (weft.world.hosts.__class__("/proc") / str(weft.process.pid) / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_many_nodes_wait_for_their_image(site):
    """… and weftd with them: it asks for each, and does not ask again and again."""
    weft = site(hosts=40)
    add_image(weft, "own", DISK)
    weft.world.fault("hang bring 0")
    weft.client.create("cfd", 80, image="own", path="bridge", **WIDE)
    until(lambda: "bringing image own to 40 hosts" in (weft.client.cluster("cfd")["reason"] or ""), "all are asked for")
    before, began = cpu_seconds(weft), time.monotonic()
    until(lambda: time.monotonic() - began > 1, "a second has passed")
    used = cpu_seconds(weft) - before
    assert used < 0.5 * (time.monotonic() - began), "however long that second was"
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")


def test_disk_and_shared_memory_reach_the_hosts(weft, settle):
    add_image(weft, "own", DISK)
    weft.client.create("cfd", 2, image="own", path="bridge", disk="1G", shm="64M")
    weft.client.wait_phase("cfd", "ready")
    (shown,) = [weft.client.cluster("cfd")]
    assert (shown["groups"][0]["disk"], shown["shm"]) == (1 << 30, 64 << 20)
    for node in weft.client.nodes("cfd"):
        folder = weft.world.hosts / node["host"]
        assert str(1 << 30) in (folder / f"pool/weft-{node['id']}.disk").read_text(encoding="utf-8")
        assert f"<shmem name='weft-{shown['id']}'>" in (folder / f"domains/weft-{node['id']}.xml").read_text(encoding="utf-8").replace('"', "'")
    settle(weft)


def domain_of(weft, node):
    return (weft.world.hosts / node["host"] / f"domains/weft-{node['id']}.xml").read_text(encoding="utf-8").replace('"', "'")


@pytest.mark.parametrize("rule, count, path, shared", [
    ({"shm": "2M"}, 2, "bridge", True),  # both on one host
    ({}, 2, "bridge", False),
    ({"bridge_below": 0, "shm": "2M"}, 2, "sriov", False),
    ({"shm": "2M"}, 4, "sriov", False),  # two hosts, half of the ring between them
    ({"bridge_below": 51, "shm": "2M"}, 4, "bridge", True),
])
def test_rule_chooses_path_and_shared_memory(site, rule, count, path, shared):
    weft = site(hosts=2, changes={"paths": rule})
    weft.client.create("cfd", count, pattern="ring", **WIDE)
    weft.client.wait_phase("cfd", "ready", ready=count)
    nodes = weft.client.nodes("cfd")
    assert len({node["host"] for node in nodes}) == count // 2
    assert {node["path"] for node in nodes} == {path}
    assert ["<size unit='M'>2</size>" in domain_of(weft, node) for node in nodes] == [shared] * count


def test_later_nodes_talk_by_the_same_path(site):
    """… though by themselves they would not: all of their messages go to another host."""
    weft = site(hosts=2, changes={"paths": {"shm": "2M"}})
    weft.client.create("cfd", 2, pattern="ring", **WIDE)
    weft.client.wait_phase("cfd", "ready", ready=2)
    weft.client.scale("cfd", 3)
    weft.client.wait_phase("cfd", "ready", ready=3)
    nodes = weft.client.nodes("cfd")
    assert sorted((node["host"], node["path"]) for node in nodes) == [("n1", "bridge"), ("n1", "bridge"), ("n2", "bridge")]
    assert all("<size unit='M'>2</size>" in domain_of(weft, node) for node in nodes)


def test_events_tell_where_the_time_goes(weft):
    """One line for each step, whatever the number of nodes."""
    add_image(weft, "own", DISK)
    weft.client.create("cfd", 4, image="own", path="bridge", **WIDE)
    weft.client.wait_phase("cfd", "ready", ready=4)
    told = {event["type"]: event["message"] for event in weft.client.events()}
    assert re.fullmatch(r"2 hosts joined its network \(\d+\.\d s\)", told["cluster-joined"])
    assert re.fullmatch(r"its image is on 2 hosts \(\d+\.\d s\)", told["cluster-brought"])
    assert re.fullmatch(r"4 nodes started \(\d+\.\d s\)", told["cluster-started"])
    assert re.fullmatch(r"4 nodes answered from inside \(\d+\.\d s\)", told["cluster-answered"])
    weft.client.create("one", 1, image="own", path="bridge")
    weft.client.wait_phase("one", "ready")
    told = [event["message"] for event in weft.client.events() if event["cluster_name"] == "one"]
    assert "1 node ready" in told and any(message.startswith("1 node placed") for message in told)


def test_slow_steps_are_told_at_once(weft):
    weft.world.fault("hang sync 0")
    weft.client.create("cfd", 2)
    until(lambda: any(event["type"] == "cluster-started" for event in weft.client.events()), "that its nodes run")
    assert weft.client.cluster("cfd")["phase"] == "starting"
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready")


# --- hosts that fail nodes ---


@pytest.mark.parametrize("fault", ["fail bring 0 the disk is full", "fail connect 0 no bridge", "fail start 0 the hook says no",
                                   "invalid start 0 no such machine type"])
def test_hosts_that_keep_failing_are_left(weft, settle, fault):
    """Nor do nodes go to and fro between two of them."""
    add_image(weft, "own", DISK)
    weft.client.wait_open()
    for name in ("n1", "n2"):
        weft.world.fault(fault, host=name)
    weft.client.create("cfd", 4, image="own", path="bridge", **WIDE)
    weft.client.wait_phase("cfd", "ready", ready=4, reason=None)
    assert {node["host"] for node in weft.client.nodes("cfd")} == {"n3", "n4"}
    moves = [event for event in weft.client.events() if event["type"] == "node-replaced"]
    assert len(moves) <= 4, moves
    settle(weft)


def test_cluster_that_no_host_can_run(weft, settle):
    weft.world.fault("invalid start 0 no such machine type")
    weft.client.create("cfd", 2)
    seen = weft.client.wait_phase("cfd", "failed")
    assert re.fullmatch(r"cfd\[[01]\] cannot start: its host cannot run it as it is", seen["reason"])
    assert "no such machine type" in seen["detail"]
    weft.world.fault()
    weft.client.scale("cfd", 3)
    weft.client.wait_phase("cfd", "ready", ready=3, reason=None)
    settle(weft)


def test_host_that_does_not_tell_what_it_is_able_to(weft, settle):
    weft.client.create("first", 2, **WIDE)
    weft.client.wait_phase("first", "ready")
    name = weft.client.nodes("first")[0]["host"]
    weft.stop()
    weft.world.fault("fail inspect 0 no capabilities", host=name)
    weft.start()
    until(lambda: "no capabilities" in (weft.client.get(f"/v1/hosts/{name}")["reason"] or ""), "that is told")
    assert weft.client.get(f"/v1/hosts/{name}")["state"] == "up"
    weft.client.create("second", 4, **WIDE)
    weft.client.wait_phase("second", "ready")
    assert name not in {node["host"] for node in weft.client.nodes("second")}
    node = weft.client.nodes("first")[0]
    weft.world.end_domain(name, f"weft-{node['id']}")
    until(lambda: name not in {each["host"] for each in weft.client.nodes("first") if each["rank"] == node["rank"]}, "it is elsewhere")
    weft.client.wait_phase("first", "ready", ready=2)
    weft.world.fault(host=name)
    until(lambda: not weft.client.get(f"/v1/hosts/{name}")["reason"], "it has told")
    settle(weft)


def test_image_that_nobody_wants_any_more(weft, settle):
    add_image(weft, "own", DISK)
    weft.client.create("cfd", 1, image="own", path="bridge")
    weft.client.wait_phase("cfd", "ready")
    other = "n4" if weft.client.nodes("cfd")[0]["host"] != "n4" else "n1"
    weft.add_ended_image(other, "0" * 64)
    until(lambda: other not in weft.world.images(), "one that no record names any more is removed")
    assert weft.world.images(), "the other stays"
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    weft.client.expect(204, "DELETE", "/v1/images/own")
    until(lambda: not weft.world.images(), "the host forgets it")
    settle(weft)


# --- hardware that nobody described ---


def bare_host(name):
    return {"name": name, "fabric": "ib0", "leaf": "leaf9", "uri": f"fake://{name}/"}


def write_inventory(weft, name, cores, **more):
    folder = weft.world.hosts / name
    folder.mkdir(parents=True, exist_ok=True)
    hca = {"name": "mlx5_0", "vfs": 4, "port_guid": "0x0002c903000000ff"}
    hardware = {"numa": [{"cores": cores, "pages": {"2M": 1024}}], "hcas": [hca]}
    inventory = {"hardware": hardware, "kvm": True, "libvirt": "9.0.0", "qemu": "7.2.0"} | more
    (folder / "inventory.json").write_text(json.dumps(inventory), encoding="utf-8")


def test_hardware_is_read_from_the_host(site, settle):
    weft = site(hosts=0)
    write_inventory(weft, "n9", 6)
    weft.client.expect(201, "POST", "/v1/hosts", bare_host("n9"))
    until(lambda: weft.client.get("/v1/hosts/n9").get("discovered"), "its hardware is known")
    assert weft.client.get("/v1/hosts/n9")["cores_total"] == 5, "one core is the host's own"
    weft.client.create("cfd", 2, cores=2)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)


def test_hardware_that_nodes_hold_is_not_taken_away(site, settle):
    weft = site(hosts=0)
    write_inventory(weft, "n9", 6)
    weft.client.expect(201, "POST", "/v1/hosts", bare_host("n9"))
    weft.client.create("cfd", 2, cores=2)
    weft.client.wait_phase("cfd", "ready")
    weft.stop()
    write_inventory(weft, "n9", 3)
    weft.start()
    until(lambda: any(event["type"] == "host-hardware-kept" for event in weft.client.events()), "that is told")
    assert weft.client.get("/v1/hosts/n9")["cores_total"] == 5
    settle(weft)
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    weft.stop()
    weft.start()
    until(lambda: weft.client.get("/v1/hosts/n9")["cores_total"] == 2, "now it is what it has")


def test_host_of_the_file_keeps_what_was_read(site):
    weft = site(hosts=0)
    weft.stop()
    write_inventory(weft, "n9", 6)
    weft.config["hosts"] = [bare_host("n9")]
    weft.start()
    until(lambda: weft.client.get("/v1/hosts/n9").get("discovered"), "its hardware is known")
    weft.stop()
    weft.config["hosts"] = [bare_host("n9") | {"labels": {"rack": "r1"}}]
    weft.start()
    seen = weft.client.get("/v1/hosts/n9")
    assert (seen["cores_total"], seen["labels"]) == (5, {"rack": "r1"})


# --- what is missing ---


def checks(report):
    return {check["check"]: check for check in report["checks"]}


def test_doctor_tells_what_is_missing(weft):
    write_inventory(weft, "n1", 2, kvm=False, qemu="5.2.0", hook={"version": "0.0.1", "hcas": [
        {"name": "mlx5_0", "vfs": 0, "vfs_total": 16, "state": "down", "port_guid": "0x0002c90300000001"}]})
    found = checks(weft.client.get("/v1/hosts/n1/doctor"))
    assert found["libvirt"]["state"] == "ok" and found["libvirt"]["remedy"] is None
    assert found["qemu"]["state"] == "fail" and "5.2.0" in found["qemu"]["found"]
    assert found["kvm"]["state"] == "warn"
    assert found["cores"]["state"] == "fail" and found["hugepages"]["state"] == "fail"
    assert "weft host prepare --pages " in found["hugepages"]["remedy"]
    assert found["hook"]["state"] == "warn"


def test_doctor_advises_on_settings_and_says_why(weft):
    settings = {"smt": "off", "ksm": "1", "thp": "[always] madvise never", "isolation": "1-3"}
    write_inventory(weft, "n1", 2, hook={"version": "0.0.1", "settings": settings})
    found = checks(weft.client.get("/v1/hosts/n1/doctor"))
    assert {name: found[name]["state"] for name in settings} == {"smt": "ok", "ksm": "warn", "thp": "advice", "isolation": "advice"}
    assert "why" not in found["smt"] and "tells a tenant" in found["ksm"]["why"] and "irqs" not in found
    assert found["isolation"]["found"] == "processors 5-7,9-11,13-15 are for nodes, and not isolated"
    lines = [line.strip() for line in weft.cli("doctor", "n1", check=False).stdout.splitlines()]
    at = next(number for number, line in enumerate(lines) if line.split()[1:3] == ["ksm", "warn"])
    assert lines[at + 1].startswith("why: pages that are equal") and lines[at + 2].startswith("remedy: echo 2 >")


def test_doctor_says_that_a_fake_is_one(weft):
    weft.client.wait_open()
    reports = weft.client.get("/v1/doctor")["items"]
    site = checks(next(report for report in reports if report["host"] is None))
    assert site["fabric ib0"]["state"] == "warn" and "fake" in site["fabric ib0"]["found"]
    assert {report["host"] for report in reports} == {None, "n1", "n2", "n3", "n4"}


@pytest.mark.parametrize("count", [1, 40])
def test_meeting_of_many(site, settle, count):
    weft = site(hosts=20)
    weft.client.create("cfd", count)
    weft.client.wait_phase("cfd", "ready", ready=count)
    settle(weft)


def test_two_clusters_on_one_host_have_a_network_each(site, settle):
    weft = site(hosts=1)
    for name in ("one", "two"):
        weft.client.create(name, 1)
    for name in ("one", "two"):
        weft.client.wait_phase(name, "ready")
    assert len(weft.world.networks()) == 2
    settle(weft)
    weft.client.delete("one")
    weft.client.wait_gone("one")
    assert [place[1] for place in weft.world.networks()] == [weft.client.cluster("two")["vxlan"]]
    settle(weft)


def test_host_by_its_own_address(site, settle):
    weft = site(hosts=0)
    for name in ("n1", "n2"):
        weft.client.expect(201, "POST", "/v1/hosts", host(name, address=f"10.0.0.{name[1]}"))
    weft.client.create("cfd", 4, **WIDE)
    weft.client.wait_phase("cfd", "ready")
    assert sorted(peers for _, peers in weft.world.networks().values()) == [["10.0.0.1"], ["10.0.0.2"]]
    settle(weft)
