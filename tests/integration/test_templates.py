"""Templates: made by themselves, forked from, made anew and dropped; where that fails, nodes boot, and the events tell why."""

import contextlib
import hashlib
import json
import random
import sqlite3

import pytest
from harness.files import KERNEL
from harness.invariants import SYSTEM, ledger
from harness.wait import until
from harness.weft import Client, host
from test_images import upload

SHAPE = {"path": "bridge", "cores": 1, "memory": "256M", "image": "mpi"}


def files_of(seed):
    """A kernel and a disk that nobody writes to."""
    return [start + random.Random(f"{seed} {start}").randbytes((1 << 16) - len(start)) for start in (KERNEL, b"hsqs")]


def add_image(weft, name="mpi", seed=1, form="readonly"):
    kernel, disk = files_of(seed)
    for data in (kernel, disk):
        upload(weft.client, data)
    file = lambda data: {"digest": hashlib.sha256(data).hexdigest(), "size": len(data)}  # noqa: E731
    weft.client.expect(201, "POST", "/v1/images", {"name": name, "kernel": file(kernel), "disk": file(disk) | {"format": form}})


def templates(weft):
    return weft.client.items("/v1/templates")


def only(weft, state="ready"):
    """The only template, once it is in that state."""
    until(lambda: [t["state"] for t in templates(weft)] == [state], lambda: f"a template is {state}: {templates(weft)}\n{weft.log_tail()}")
    return templates(weft)[0]


def system_gone(weft):
    until(lambda: not weft.client.items("/v1/clusters", tenant=SYSTEM), f"the cluster that made the template is gone\n{weft.log_tail()}")


def create(weft, name, count=2, **spec):
    weft.client.create(name, count, **SHAPE | spec)
    weft.client.wait_phase(name, "ready")
    return {key: node for key, node in weft.dump().values("node").items() if node["cluster_name"] == name}


def messages(weft, type_):
    return [event["message"] for event in weft.client.items("/v1/events") if event["type"] == type_]


def captured(weft):
    """A site with an image and its template."""
    add_image(weft)
    create(weft, "first", 1)
    template = only(weft)
    system_gone(weft)
    return template


def test_made_once_and_forked_from(weft, settle):
    template = captured(weft)
    assert [n.get("template") for n in weft.dump().values("node").values()] == [None], "who came before it boots"
    assert "there is no template of its image and shape yet; one is being made" in messages(weft, "cluster-boots")[0]
    assert (template["image"], template["generation"], template["cores"], template["memory"]) == ("mpi", 1, 1, 256 << 20)
    assert template["kind"] == "QEMU 7.2.0, pc-q35-7.2, fake, kvm"
    assert (weft.root / "images" / template["digest"]).stat().st_size == template["size"]

    nodes = create(weft, "second", 4)
    assert {node.get("template") for node in nodes.values()} == {template["id"]}
    assert not any(weft.world.is_blank(node["host"], f"weft-{key}") for key, node in nodes.items())
    assert "<interface" in weft.world.definition(f"weft-{next(iter(nodes))}")
    places = {(node["host"], node["memory"][0][0]) for node in nodes.values()}
    primed = weft.client.get(f"/v1/templates/{template['id']}")["primed"]
    assert {(p["host"], p["numa"]) for p in primed} == places
    assert all(p["memory"] == 256 << 20 for p in primed)
    assert len(templates(weft)) == 1
    settle(weft)


def primed_for(weft, template, tenant):
    """{(host, NUMA node): id} of the memory that its nodes are forked from."""
    found = weft.client.get(f"/v1/templates/{template['id']}")["primed"]
    return {(memory["host"], memory["numa"]): memory["id"] for memory in found if memory["tenant"] == tenant}


ONE_NODE = {"hosts": [host("n1", numa=[{"cores": 16, "threads": 2, "pages": {"2M": 4096}}], gpus=[])]}


def test_tenants_share_no_memory(site, settle):
    weft = site(changes=ONE_NODE)
    template = captured(weft)
    for tenant in ("acme", "umbrella"):
        weft.client.create("forked", 4, tenant, **SHAPE)
        weft.client.wait_phase("forked", "ready", tenant)
        nodes = [node for node in weft.dump().values("node").values() if (node["tenant"], node["cluster_name"]) == (tenant, "forked")]
        assert {node.get("template") for node in nodes} == {template["id"]}
        assert primed_for(weft, template, tenant).keys() == {(node["host"], node["memory"][0][0]) for node in nodes}
    own, other = primed_for(weft, template, "acme"), primed_for(weft, template, "umbrella")
    assert own.keys() == other.keys() and set(own.values()).isdisjoint(other.values()), "on one NUMA node, each has its own"
    settle(weft)


def test_memory_goes_with_its_tenant(weft):
    template = captured(weft)
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "guests"})
    weft.client.create("forked", 1, "guests", **SHAPE)
    weft.client.wait_phase("forked", "ready", "guests")
    memory = set(primed_for(weft, template, "guests").values())
    assert memory
    weft.client.delete("forked", "guests")
    weft.client.wait_gone("forked", "guests")
    weft.client.expect(204, "DELETE", "/v1/tenants/guests")
    until(lambda: memory.isdisjoint(set().union(*weft.world.primed().values())), "whoever gets its name is forked from nothing that it had")


def test_cold_is_a_wish(weft):
    add_image(weft)
    nodes = create(weft, "plain", 2, start="cold")
    assert not any(node.get("template") for node in nodes.values())
    assert templates(weft) == [] and messages(weft, "cluster-boots") == []
    assert weft.client.cluster("plain")["start"] == "cold"


@pytest.mark.parametrize(("spec", "why"), [
    ({"user_data": "#cloud-config\n"}, "user-data of its own"),
    ({"shm": "64M"}, "share memory"),
])
def test_clusters_that_cannot_be_forked(weft, spec, why):
    add_image(weft)
    weft.client.create("odd", 1, **SHAPE | spec)
    until(lambda: any(why in message for message in messages(weft, "cluster-boots")), "an event tells why")
    assert templates(weft) == []


def test_images_that_are_written_to_are_not_captured(weft):
    add_image(weft, form="raw")
    create(weft, "odd", 1)
    assert "a disk that each node writes to" in messages(weft, "cluster-boots")[0]


def test_each_shape_has_its_own(weft):
    captured(weft)
    create(weft, "wide", 1, cores=2)
    until(lambda: [t["state"] for t in templates(weft)] == ["ready"] * 2, "a second template")
    assert {(t["cores"], t["generation"]) for t in templates(weft)} == {(1, 1), (2, 1)}


def test_the_system_s_cluster_is_hidden_and_free(weft):
    weft.world.fault("hang settle")
    add_image(weft)
    create(weft, "first", 1)
    only(weft, "capturing")
    found = weft.client.items("/v1/clusters", tenant=SYSTEM)
    assert [(c["tenant"], c["priority"] < 0, c["preemptible"]) for c in found] == [(SYSTEM, True, True)]
    assert ledger(weft.dump()) == []
    member = Client(weft.client.connect, weft.token("acme-member"))
    for path in ("/v1/clusters", "/v1/queue", "/v1/usage", "/v1/events"):
        assert SYSTEM not in json.dumps(member.get(path)), f"its tenants see nothing of it in {path}"
    assert {c["tenant"] for c in weft.client.items("/v1/clusters")} == {SYSTEM, "acme"}, "operators do: it holds room"
    weft.client.delete("first")
    weft.client.wait_gone("first")
    weft.client.expect(204, "DELETE", "/v1/images/mpi")
    until(lambda: not templates(weft) and not weft.client.items("/v1/clusters", tenant=SYSTEM), "it keeps no image from going")


@pytest.mark.parametrize("op", ["settle", "save", "fetch"])
def test_a_capture_that_fails(site, op):
    weft = site(changes={"control": {"template_retry": "300ms"}})
    weft.world.fault(f"broken {op}")
    add_image(weft)
    create(weft, "first", 1)
    assert only(weft, "failed")["reason"]
    system_gone(weft)
    weft.world.fault()
    until(lambda: create_again(weft) and only(weft), "it is made after all")


def create_again(weft):
    weft.client.delete("first")
    weft.client.wait_gone("first")
    create(weft, "first", 1)
    return any(t["state"] != "failed" for t in templates(weft))


@pytest.mark.parametrize("op", ["prime", "become"])
def test_a_fork_that_fails_boots(weft, settle, op):
    captured(weft)
    weft.world.fault(f"broken {op}")
    nodes = create(weft, "second", 2)
    assert not any(node.get("template") for node in nodes.values()) and all(node["cold"] for node in nodes.values())
    assert any("boots, and is not forked" in message for message in messages(weft, "node-boots"))
    weft.world.fault()
    settle(weft)


def damage_file(weft, template):
    (weft.root / "images" / template["digest"]).write_bytes(b"x" * template["size"])


def cut_file(weft, template):
    (weft.root / "images" / template["digest"]).write_bytes(b"")


def remove_file(weft, template):
    (weft.root / "images" / template["digest"]).unlink()


def break_head(weft, template):
    """What hosts have is what was captured, and that is not a saved domain. weftd looks at all hosts when it starts: it knows of these
    files before it places anything."""
    weft.stop()
    for name in ("n1", "n2", "n3", "n4"):
        weft.world.add_image(name, template["digest"], site=weft.site())
    weft.start()


@pytest.mark.parametrize("damage", [damage_file, cut_file, remove_file, break_head])
def test_a_damaged_file_boots_and_is_captured_anew(weft, settle, damage):
    template = captured(weft)
    damage(weft, template)
    nodes = create(weft, "second", 1)
    assert all(node["cold"] for node in nodes.values())
    assert "is damaged" in messages(weft, "node-boots")[0] or "cannot be forked" in messages(weft, "node-boots")[0]
    assert "it is captured anew" in messages(weft, "template-damaged")[0]
    until(lambda: [t["generation"] for t in templates(weft)] == [2], "a second is wanted")
    again = only(weft)
    system_gone(weft)
    assert {node.get("template") for node in create(weft, "third", 1).values()} == {again["id"]}
    settle(weft)


def test_a_damaged_file_is_not_taken_for_somebody_else_s(weft, settle):
    """That a file has ended is proved once it is written. A look that comes before that must not hold the host for it."""
    digest = captured(weft)["digest"]
    weft.world.fault("slow prime 100", "invalid prime 1")
    weft.client.create("second", 1, **SHAPE)
    until(lambda: "invalid" not in (weft.world.hosts / "faults").read_text(encoding="utf-8"), "memory is made of the file, which is bad")
    name = weft.client.nodes("second")[0]["host"]  # memory is made where the node is; its record may have gone by now
    strange = ["f" * 63 + end for end in "01"]
    with contextlib.closing(sqlite3.connect(weft.root / "weft.db", isolation_level=None)) as store:
        store.execute("BEGIN IMMEDIATE")  # nothing is written until this ends
        for image in strange:  # a look after the other
            before = weft.log.read_text(encoding="utf-8").count("is left as it is")
            weft.world.add_image(name, image, site=weft.site())
            until(lambda before=before: weft.log.read_text(encoding="utf-8").count("is left as it is") > before, "it is looked at")
    assert digest[:24] not in weft.log.read_text(encoding="utf-8")
    for path in (weft.world.hosts / name / "pool").glob("image-ffff*"):
        path.unlink()
    weft.client.wait_phase("second", "ready")
    settle(weft)


def test_damaged_twice_waits(weft):
    damage_file(weft, captured(weft))
    create(weft, "second", 1)
    until(lambda: [t["generation"] for t in templates(weft)] == [2], "a second is wanted")
    damage_file(weft, only(weft))
    system_gone(weft)
    create(weft, "third", 1)
    assert "once more" in only(weft, "failed")["reason"]


def test_bad_memory_is_made_anew(site, settle):
    weft = site(changes={"hosts": [host("n1", numa=[{"cores": 8, "threads": 2, "pages": {"2M": 2048}}], gpus=[])]})
    captured(weft)
    create(weft, "second", 1)
    before = weft.world.primed()["n1"]
    (weft.root / "hosts" / "n1" / "primed" / next(iter(before))).write_text("of another generation", encoding="utf-8")
    assert all(node["cold"] for node in create(weft, "third", 1).values())
    assert "boots, and is not forked" in messages(weft, "node-boots")[0]
    assert not any(node.get("cold") for node in create(weft, "fourth", 1).values()), "it was made anew at once"
    assert before.isdisjoint(weft.world.primed()["n1"])
    settle(weft)


# --- nodes with devices of their host ---

def fabric_host(name):
    addresses = [f"0000:41:00.{i + 1}" for i in range(4)]
    return host(name, hcas=[host(name)["hcas"][0] | {"pci": "0000:41:00.0", "vf_pci": addresses}])


@pytest.fixture
def fabric_site(site):
    return site(changes={"hosts": [fabric_host(f"n{i}") for i in range(1, 5)]})


WITH_DEVICES = [({"path": "sriov"}, {"ua-rail0"}), ({"path": "passthrough"}, {"ua-rail0"}), ({"gpus": 1}, {"ua-gpu0"}),
                ({"path": "sriov", "gpus": 2}, {"ua-rail0", "ua-gpu0", "ua-gpu1"})]


@pytest.mark.parametrize(("spec", "parts"), WITH_DEVICES)
def test_devices_are_plugged_after_a_fork(fabric_site, settle, spec, parts):
    weft = fabric_site
    captured(weft)
    nodes = create(weft, "second", 2, **spec)
    for key, node in nodes.items():
        assert node["template"] and weft.world.plugged(node["host"], f"weft-{key}") == {f"+{part}" for part in parts}
        assert 'plugged="later"' in weft.world.definition(f"weft-{key}") and "<hostdev" not in weft.world.definition(f"weft-{key}")
        assert (node["copied"], node["copy_time"] > 0) == (256 << 20, True)
    assert sorted(messages(weft, "node-copied")) == [
        f"second[{i}]: 256M that it shared with its template were copied in 0.00 s when devices of its host were plugged" for i in range(2)]
    shown = weft.client.items("/v1/clusters/second/nodes", tenant="acme")
    assert [node["copied"]["bytes"] for node in shown] == [256 << 20] * 2
    settle(weft)


def test_a_device_that_cannot_be_plugged(fabric_site, settle):
    weft = fabric_site
    captured(weft)
    weft.world.fault("broken plug-hostdev")
    nodes = create(weft, "second", 2, path="sriov")
    assert all(node["cold"] and "copied" not in node for node in nodes.values())
    assert "boots, and is not forked: a device of its host was not plugged" in messages(weft, "node-boots")[0]
    assert not any(node.get("cold") for node in create(weft, "third", 2).values()), "its memory is as good as before"
    weft.world.fault()
    settle(weft)


def test_memory_of_several_numa_nodes(site):
    weft = site(changes={"hosts": [host("n1"), host("n2")]})
    add_image(weft)
    nodes = create(weft, "odd", 2, cores=2, memory="3G")
    assert all(len(node["memory"]) > 1 for node in nodes.values())
    assert ["more than one NUMA node" in message for message in messages(weft, "cluster-boots")] == [True], "told once"


def test_image_gone(weft, settle):
    template = captured(weft)
    create(weft, "second", 1)
    for name in ("first", "second"):
        weft.client.delete(name)
        weft.client.wait_gone(name)
    weft.client.expect(204, "DELETE", "/v1/images/mpi")
    until(lambda: not templates(weft), "the template goes with its image")
    until(lambda: not weft.world.primed(), "and its memory")
    until(lambda: not (weft.root / "images" / template["digest"]).exists(), "and its file")
    settle(weft)


def test_removed_by_an_operator(weft, settle):
    template = captured(weft)
    nodes = create(weft, "second", 1)
    weft.client.expect(204, "DELETE", f"/v1/templates/{template['id']}")
    until(lambda: not weft.world.primed() and not weft.dump().values("primed"), "its memory is given back")
    assert weft.client.cluster("second")["phase"] == "ready", "what was forked goes on"
    assert set(nodes) <= set(weft.dump().values("node"))
    create(weft, "third", 1)
    assert only(weft)["generation"] == 1
    settle(weft)


def test_unused_is_dropped(site, settle):
    weft = site(changes={"control": {"template_age": "1s"}})
    captured(weft)
    until(lambda: not templates(weft), "nobody used it")
    settle(weft)


def test_memory_that_has_ended_is_removed(weft, settle):
    weft.client.wait_open()
    weft.add_ended_memory("n1", "1abc")
    until(lambda: not weft.world.primed(), "it is removed")
    settle(weft)


def test_survives_a_restart(weft, settle):
    template = captured(weft)
    create(weft, "second", 2)
    weft.stop()
    weft.start()
    nodes = create(weft, "third", 2)
    assert {node.get("template") for node in nodes.values()} == {template["id"]}
    settle(weft)


def test_another_qemu_has_another_template(weft):
    captured(weft)
    first = {t["id"] for t in templates(weft)}
    for i in range(1, 5):
        folder = weft.root / "hosts" / f"n{i}"
        folder.mkdir(parents=True, exist_ok=True)
        numa = [{"cores": 4, "threads": 2, "pages": {"2M": 1024}}] * 2
        (folder / "inventory.json").write_text(json.dumps({"hardware": {"numa": numa}, "kvm": True, "cpu_model": "fake", "libvirt": "9.0.0",
                                                           "qemu": "8.0.0", "machine": "pc-q35-8.0"}), encoding="utf-8")
    weft.stop()
    weft.start()
    create(weft, "second", 1)
    until(lambda: sorted(t["state"] for t in templates(weft)) == ["ready"] * 2, "one for the new QEMU")
    second = next(t for t in templates(weft) if t["id"] not in first)
    assert (second["generation"], second["kind"]) == (2, "QEMU 8.0.0, pc-q35-8.0, fake, kvm")
