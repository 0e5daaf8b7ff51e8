"""Clones: a new cluster that begins with the memory of a running one's nodes, which stand still for a moment and run on."""

import contextlib
import re

import pytest
from harness.wait import until
from test_templates import SHAPE, add_image, create, messages, templates

PLAIN = {"start": "cold"}


def source(weft, count=1, **spec):
    add_image(weft)
    return create(weft, "cfd", count, **PLAIN | spec)


def clone(weft, name="sweep", of="cfd", **body):
    return weft.client.expect(201, "POST", f"/v1/clusters/{of}/clone?tenant=acme", {"name": name} | body)


def nodes_of(weft, name):
    return {key: node for key, node in weft.dump().values("node").items() if node["cluster_name"] == name}


def private(weft):
    return [template for template in templates(weft) if template["source"]]


def nothing_left(weft):
    until(lambda: not private(weft) and not weft.world.primed(), lambda: f"what it was made of goes: {templates(weft)}")
    until(lambda: not list(weft.root.glob("hosts/*/pool/*.saved")), "no host keeps what was saved")
    kept = {file["digest"] for image in weft.dump().values("image").values() for file in image.values() if isinstance(file, dict)}
    until(lambda: {path.name for path in (weft.root / "images").iterdir() if len(path.name) == 64} <= kept, "nor does weftd")


def test_one_into_many(weft, settle):
    node = next(iter(source(weft)))
    made = clone(weft, count=3)
    assert (made["count"], made["clone"]["of"]) == (3, weft.client.cluster("cfd")["id"])
    ready = weft.client.wait_phase("sweep", "ready")
    assert ready["clone"]["done"] and ready["clone"]["paused"] > 0
    assert [m for m in messages(weft, "cluster-cloned") if m.startswith("was cloned into sweep: cfd[0] stood still for ")]
    copies = nodes_of(weft, "sweep")
    assert len(copies) == 3 and {copy["template"] for copy in copies.values()} == {f"{made['id']}-0"}
    assert weft.client.cluster("cfd")["phase"] == "ready" and node in weft.dump().values("node")
    assert all(weft.world.is_plugged(copy["host"], f"weft-{key}") for key, copy in copies.items())
    assert len({copy["mac"] for copy in copies.values()} | {weft.dump().values("node")[node]["mac"]}) == 4
    assert ready["partition"] != weft.client.cluster("cfd")["partition"]
    nothing_left(weft)
    settle(weft)


def test_many_into_as_many(weft, settle):
    source(weft, 3)
    made = clone(weft)
    weft.client.wait_phase("sweep", "ready")
    copies = nodes_of(weft, "sweep").values()
    assert {copy["rank"]: copy["template"] for copy in copies} == {rank: f"{made['id']}-{rank}" for rank in range(3)}
    assert all(f"cfd[{rank}]" in messages(weft, "cluster-cloned")[0] for rank in range(3))
    nothing_left(weft)
    settle(weft)


def test_one_of_many(weft):
    nodes = source(weft, 3)
    made = clone(weft, rank=1, count=2)
    one = made["clone"]["node"]
    assert one == next(key for key, node in nodes.items() if node["rank"] == 1)
    weft.client.wait_phase("sweep", "ready")
    shown = weft.cli("show", "sweep", "--tenant", "acme").stdout
    assert re.search(rf"clone of +{made['clone']['of']}, node {one}; a node stood still for \d+\.\d ms at most\n", shown), shown
    assert {copy["template"] for copy in nodes_of(weft, "sweep").values()} == {f"{made['id']}-1"}


def test_of_a_clone_that_has_moved(weft, settle):
    """Its network device was plugged once; where it has gone since, its definition has it."""
    source(weft)
    clone(weft)
    weft.client.wait_phase("sweep", "ready")
    weft.client.expect(202, "POST", "/v1/clusters/sweep/nodes/0/move?tenant=acme", {})
    until(lambda: messages(weft, "node-moved"), "it has moved")
    weft.client.wait_phase("sweep", "ready")
    clone(weft, "again", "sweep")
    weft.client.wait_phase("again", "ready")
    settle(weft)


def test_a_clone_of_a_clone_of_a_fork(weft, settle):
    add_image(weft)
    create(weft, "first", 1)
    until(lambda: [t["state"] for t in templates(weft)] == ["ready"], "a template")
    create(weft, "cfd", 1)
    clone(weft, "sweep")
    weft.client.wait_phase("sweep", "ready")
    clone(weft, "again", "sweep", count=2)
    weft.client.wait_phase("again", "ready")
    settle(weft)


def test_what_comes_later_begins_with_the_image(weft, settle):
    source(weft)
    clone(weft)
    weft.client.wait_phase("sweep", "ready")
    weft.client.scale("sweep", 2)
    until(lambda: weft.client.cluster("sweep")["ready"] == 2, "it grows")
    assert len(messages(weft, "clone-grows")) == 1
    late = next(node for node in nodes_of(weft, "sweep").values() if node["rank"] == 1)
    assert "template" not in late
    settle(weft)


def test_a_node_that_dies_later_boots(weft, settle):
    source(weft)
    clone(weft)
    weft.client.wait_phase("sweep", "ready")
    key, copy = next(iter(nodes_of(weft, "sweep").items()))
    weft.world.end_domain(copy["host"], f"weft-{key}")
    until(lambda: any("boots, and is not forked" in message for message in messages(weft, "node-boots")), "an event tells why")
    weft.client.wait_phase("sweep", "ready")
    settle(weft)


def disks(weft, name):
    """What the fake keeps of their own disks, by rank: a test has the guest write behind what it is laid over."""
    nodes = sorted(nodes_of(weft, name).items(), key=lambda item: item[1]["rank"])
    return [weft.root / "hosts" / node["host"] / "pool" / f"weft-{key}.disk" for key, node in nodes]


def write(path, text):
    with path.open("a", encoding="ascii") as file:
        file.write(f"{text}\n")


@pytest.mark.parametrize("fault", ["", "fail fetch 1 no room", "fail start 1 no room", "fail discard 2 no room"])
def test_own_disk_is_copied(weft, settle, fault):
    """Each copy writes to its own."""
    add_image(weft, form="raw")
    create(weft, "cfd", 1, **PLAIN)
    (old,) = disks(weft, "cfd")
    write(old, "early")
    weft.world.fault(*[fault] if fault else [])
    clone(weft, count=2)
    weft.client.wait_phase("sweep", "ready")
    weft.world.fault()
    new = disks(weft, "sweep")
    assert [path.read_text(encoding="ascii") for path in new] == [old.read_text(encoding="ascii")] * 2
    write(new[0], "late")
    assert [path.read_text(encoding="ascii").split("\n", 2)[2] for path in (*new, old)] == ["early\nlate\n", "early\n", "early\n"]
    nothing_left(weft)
    until(lambda: not list(weft.root.glob("hosts/*/pool/*.layer")), "its disk is one again")
    settle(weft)


def test_deleted_while_weftd_dies(weft, settle):
    """Nobody knows any more that its source was being saved: what lies on that one's host goes all the same."""
    add_image(weft, form="raw")
    create(weft, "cfd", 1, **PLAIN)
    weft.stop()
    weft.start(failpoint="cluster-deleted")
    weft.world.fault("hang fetch")
    clone(weft)
    until(lambda: list(weft.root.glob("hosts/*/pool/*.layer")), "it is saved")
    with contextlib.suppress(OSError):
        weft.client.delete("sweep")
    until(weft.died, "weftd dies")
    weft.world.fault()
    weft.start()
    weft.client.wait_gone("sweep")
    nothing_left(weft)
    until(lambda: not list(weft.root.glob("hosts/*/pool/*.layer")), "its disk is one again")
    settle(weft)


def test_clusters_that_cannot_be_cloned(weft):
    weft.client.create("fast", 1)  # with a virtual function; before there is an image, which would need its address
    weft.client.wait_phase("fast", "ready")
    source(weft, shm="64M")
    for name, why in (("fast", "devices of its host"), ("cfd", "shares memory")):
        answer = weft.client.expect(400, "POST", f"/v1/clusters/{name}/clone?tenant=acme", {"name": "sweep"})
        assert why in answer["detail"]


def test_refusals(weft):
    add_image(weft, form="raw")
    weft.client.expect(404, "POST", "/v1/clusters/cfd/clone?tenant=acme", {"name": "sweep"})
    create(weft, "cfd", 1, **PLAIN)
    for body, why in (({}, "name: is missing"), ({"name": "Sweep"}, "cluster name"), ({"name": "sweep", "rank": 7}, "there is none"),
                      ({"name": "sweep", "count": 0}, "count"), ({"name": "sweep", "colour": 1}, "colour")):
        answer = weft.client.request("POST", "/v1/clusters/cfd/clone?tenant=acme", body)
        assert answer.status in (400, 404) and why in answer.json["detail"], answer.text


def test_what_it_is_made_of(weft):
    """Is shown with its source as long as the clone needs it."""
    source(weft)
    weft.world.fault("hang start")
    made = clone(weft)
    one = until(lambda: next(iter(private(weft)), None), "there is what it begins with")
    shown = weft.cli("template", "show", one["id"]).stdout
    assert re.search(rf"^source +{re.escape(one['source'])}$", shown, re.M) and re.search(rf"^for clone +{made['id']}$", shown, re.M), shown
    assert re.search(rf"^{one['id']} .* {re.escape(one['source'])}$", weft.cli("template", "ls").stdout, re.M)
    weft.world.fault()
    weft.client.wait_phase("sweep", "ready")
    nothing_left(weft)


def test_not_ready(weft):
    add_image(weft)
    weft.world.fault("hang start")
    weft.client.create("cfd", 1, **SHAPE | PLAIN)
    answer = weft.client.expect(409, "POST", "/v1/clusters/cfd/clone?tenant=acme", {"name": "sweep"})
    assert "can be cloned when it is ready" in answer["detail"]
    weft.world.fault()


def test_quota(weft):
    add_image(weft)
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "initech", "quota": {"nodes": 2}})
    weft.client.create("cfd", 1, tenant="initech", **SHAPE | PLAIN)
    weft.client.wait_phase("cfd", "ready", tenant="initech")
    refused = weft.client.request("POST", "/v1/clusters/cfd/clone?tenant=initech", {"name": "sweep", "count": 2})
    assert refused.json["code"] == "exhausted" and "nodes 1 of 2 in use, 2 more asked for" in refused.json["detail"]
    weft.client.expect(201, "POST", "/v1/clusters/cfd/clone?tenant=initech", {"name": "sweep"})
    weft.client.wait_phase("sweep", "ready", tenant="initech")


@pytest.mark.parametrize("op", ["save", "fetch"])
def test_memory_that_cannot_be_saved(site, settle, op):
    weft = site(changes={"control": {"starts_max": 2}})
    source(weft)
    weft.world.fault(f"broken {op}")
    clone(weft)
    failed = weft.client.wait_phase("sweep", "failed")
    assert "it cannot be cloned: cfd[0]: " in failed["reason"]
    until(lambda: not list(weft.root.glob("hosts/*/pool/*.saved")), "its host does not keep what was saved")
    weft.stop()
    weft.world.fault()
    weft.start()
    assert weft.client.wait_phase("sweep", "failed")["reason"] == failed["reason"], "it is not cloned later than it was asked for"
    weft.client.delete("sweep")
    weft.client.wait_gone("sweep")
    nothing_left(weft)
    settle(weft)


@pytest.mark.parametrize("op", ["become", "plug"])
def test_a_copy_that_fails_never_boots(site, settle, op):
    weft = site(changes={"control": {"starts_max": 2}})
    source(weft)
    weft.world.fault(f"broken {op}")
    clone(weft)
    assert "cannot start" in weft.client.wait_phase("sweep", "failed")["reason"]
    assert messages(weft, "node-boots") == []
    weft.world.fault()
    weft.client.delete("sweep")
    weft.client.wait_gone("sweep")
    nothing_left(weft)
    settle(weft)


def test_memory_that_cannot_be_shared_is_read(weft, settle):
    source(weft)
    weft.world.fault("broken prime")
    clone(weft, count=2)
    weft.client.wait_phase("sweep", "ready")
    assert not weft.world.primed() and messages(weft, "node-boots") == []
    weft.world.fault()
    settle(weft)


def test_the_source_goes_meanwhile(weft, settle):
    source(weft)
    weft.world.fault("hang fetch")
    clone(weft)
    until(lambda: list(weft.root.glob("hosts/*/pool/*.saved")), "it has begun")
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    weft.world.fault()
    failed = weft.client.wait_phase("sweep", "failed")
    assert failed["reason"].startswith("it cannot be cloned: cfd[0]")
    weft.client.delete("sweep")
    weft.client.wait_gone("sweep")
    settle(weft)


def test_deleted_while_it_is_made(weft, settle):
    source(weft)
    weft.world.fault("hang save")
    clone(weft)
    until(lambda: [t["state"] for t in private(weft)] == ["capturing"], "it has begun")
    weft.client.delete("sweep")
    weft.client.wait_gone("sweep")
    weft.world.fault()
    nothing_left(weft)
    settle(weft)


@pytest.mark.parametrize("op", ["save", "fetch", "prime", "become"])
def test_survives_a_restart(weft, settle, op):
    source(weft, 2)
    weft.world.fault(f"hang {op}")
    clone(weft, count=3)
    until(lambda: private(weft), "it has begun")
    weft.stop()
    weft.world.fault()
    weft.start()
    weft.client.wait_phase("sweep", "ready")
    nothing_left(weft)
    settle(weft)


def test_private(weft):
    """Operators see what a clone is made of; nobody else's nodes are made of it."""
    source(weft)
    weft.world.fault("hang become")
    made = clone(weft)
    until(lambda: [t["state"] for t in private(weft)] == ["ready"], "it is saved")
    template = private(weft)[0]
    assert (template["cluster"], template["tenant"], template["id"]) == (made["id"], made["tenant"], f"{made['id']}-0")
    weft.client.create("other", 1, **SHAPE)
    until(lambda: nodes_of(weft, "other"), "another is placed")
    assert all(node.get("template") != template["id"] for node in nodes_of(weft, "other").values())
    weft.world.fault()
    weft.client.wait_phase("sweep", "ready")


def test_command_line(weft):
    source(weft, 2)
    done = weft.cli("--tenant", "acme", "clone", "cfd[0]", "--to", "sweep", "-n", "3")
    assert "cluster sweep is ready: 3 nodes in " in done.stdout and "stood still for" in done.stdout
    done = weft.cli("--tenant", "acme", "clone", "cfd", "--to", "sweep", check=False)
    assert done.returncode != 0 and "exists already" in done.stderr
    assert "--to NAME" in weft.cli("--tenant", "acme", "clone", "cfd", check=False).stderr
