"""Whole adapters and GPUs: for the tenants that were granted them, and for nobody else."""

import json
import re

import pytest
from harness.wait import until
from harness.weft import Client, UnixConnection, host

GOOD = {"name": "cfd", "count": 1, "cores": 1, "memory": "128M", "image": "mpi"}
WHOLE = GOOD | {"path": "passthrough"}
WITH_GPU = GOOD | {"path": "bridge", "gpus": 1}
MIXED = {"name": "cfd", "groups": [{"name": "cpu", "count": 1, "cores": 1, "memory": "128M", "image": "mpi", "path": "bridge"},
                                   {"name": "gpu", "count": 1, "cores": 1, "memory": "128M", "image": "mpi", "gpus": 1}]}
BY_FILE = [(WHOLE, "path: passthrough: tenant umbrella is not granted whole adapters; choose another path, or ask an admin for them: "
                   "devices: [passthrough] in weft.yaml"),
           (WITH_GPU, "gpus: tenant umbrella is not granted GPUs; leave gpus out, or ask an admin for them: devices: [gpu] in weft.yaml"),
           (MIXED, "gpus: tenant umbrella is not granted GPUs; leave gpus out, or ask an admin for them: devices: [gpu] in weft.yaml")]


def member_of(weft, tenant):
    weft.client.expect(201, "POST", "/v1/principals", {"name": "bill", "tenant": tenant, "role": "member"})
    return Client(lambda: UnixConnection(weft.socket), weft.token("bill"))


def records(weft):
    return {kind: weft.dump().values(kind) for kind in ("cluster", "cluster-status", "node", "event", "request")}


def grant(weft, *kinds, tenant="initech"):
    return weft.client.expect(200, "PATCH", f"/v1/tenants/{tenant}", {"devices": list(kinds)})


@pytest.fixture
def initech(weft):
    """A tenant that admins may change, with all devices."""
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "initech", "devices": ["gpu", "passthrough"]})
    return weft


@pytest.mark.parametrize("wish, message", BY_FILE, ids=["whole", "gpu", "mixed"])
def test_what_was_not_granted_is_refused_before_anything_changes(weft, wish, message):
    member = Client(lambda: UnixConnection(weft.socket), weft.token("umbrella-member"))
    before = records(weft)
    for client, whose in ((member, ""), (weft.client, "?tenant=umbrella")):  # it is the tenant that has them, whoever asks
        for path in ("/v1/clusters", "/v1/placements"):
            refused = client.request("POST", path + whose, wish)
            assert (refused.status, refused.json["code"], refused.json["detail"]) == (403, "denied", message)
    assert records(weft) == before
    done = weft.cli("create", "cfd", "-n", "1", "--image", "mpi", "--memory", "128M", "--no-wait", "--path", "passthrough",
                    env={"WEFT_TENANT": "umbrella"}, check=False)
    assert done.returncode == 3 and "is not granted whole adapters" in done.stderr


def test_all_else_needs_no_grant(site):
    """Path auto takes what is there, and never a whole adapter."""
    described = [host(f"n{i + 1}") for i in range(2)]
    described[1]["hcas"][0]["vfs"] = 0
    weft = site(changes={"hosts": described})
    for path, count in (("auto", 2), ("sriov", 2), ("bridge", 1)):
        weft.client.create(path, count, tenant="umbrella", path=path)
        weft.client.wait_phase(path, "ready", tenant="umbrella", ready=count)
    nodes = weft.dump().values("node").values()
    assert len(nodes) == 5 and all(vf >= 0 for node in nodes for _rail, _hca, vf, _guid in node.get("devices", []))
    assert not any(node.get("gpus") for node in nodes)


def test_without_virtual_functions_auto_is_the_bridge(site):
    weft = site(changes={"hosts": [host("n1", hcas=[host("n1")["hcas"][0] | {"vfs": 0}])]})
    weft.client.create("cfd", 1, tenant="umbrella")
    weft.client.wait_phase("cfd", "ready", tenant="umbrella")
    [node] = weft.client.nodes("cfd", tenant="umbrella")
    assert node["path"] == "bridge"


def test_admins_grant_and_take_back(weft):
    weft.cli("tenant", "add", "initech")
    bill = member_of(weft, "initech")
    shown = weft.client.get("/v1/tenants/initech")
    assert shown["devices"] == []
    assert re.search(r"^  devices +none$", weft.cli("tenant", "show", "initech").stdout, re.M)
    refused = bill.request("POST", "/v1/clusters", WITH_GPU)
    assert refused.status == 403
    remedy = re.search(r"ask an admin for them: weft (tenant set initech --devices gpu)$", refused.json["detail"])
    weft.cli(*remedy[1].split())
    bill.expect(201, "POST", "/v1/clusters", WITH_GPU)
    refused = bill.request("POST", "/v1/clusters", WHOLE | {"name": "whole"})
    remedy = re.search(r"weft (tenant set initech --devices passthrough,gpu)$", refused.json["detail"])
    assert refused.status == 403 and remedy, "it names what it has and what is missing"
    assert bill.request("PATCH", "/v1/tenants/initech", {"devices": ["passthrough"]}).status == 403, "nobody grants itself anything"
    weft.cli(*remedy[1].split())
    bill.expect(201, "POST", "/v1/clusters", WHOLE | {"name": "whole"})
    assert weft.client.get("/v1/tenants/initech")["devices"] == ["passthrough", "gpu"]
    assert re.search(r"^  devices +passthrough,gpu$", weft.cli("tenant", "show", "initech").stdout, re.M)
    rows = [line.split() for line in weft.cli("tenant", "ls").stdout.splitlines()]
    assert {row[0]: row[-1] for row in rows} == {"NAME": "DEVICES", "acme": "passthrough,gpu", "umbrella": "none", "initech": "passthrough,gpu"}
    weft.cli("tenant", "set", "initech", "--nodes", "8")
    assert weft.client.get("/v1/tenants/initech")["devices"] == ["passthrough", "gpu"], "what is not named stays"
    weft.cli("tenant", "set", "initech", "--devices", "none")
    assert json.loads(weft.cli("tenant", "show", "initech", "--json").stdout)["devices"] == []
    assert bill.request("POST", "/v1/clusters", WHOLE | {"name": "more"}).status == 403


@pytest.mark.parametrize("devices, message", [
    (["fpga"], 'devices: "fpga" is not a kind of device that is granted; known are: passthrough, gpu'),
    ([1], "devices: what is not a text is not a kind of device that is granted; known are: passthrough, gpu"),
    ("gpu", "devices: must be a list, is a text")], ids=["unknown", "number", "text"])
def test_wrong_grants_are_refused(initech, devices, message):
    for method, path, more in (("PATCH", "/v1/tenants/initech", {}), ("POST", "/v1/tenants", {"name": "hooli"})):
        refused = initech.client.request(method, path, more | {"devices": devices})
        assert (refused.status, refused.json["detail"]) == (400, message)
    assert initech.client.get("/v1/tenants/initech")["devices"] == ["passthrough", "gpu"]


def test_what_was_taken_back_does_not_grow(initech):
    """Groups without such devices may, all may shrink, and what runs goes on."""
    weft = initech
    weft.client.expect(201, "POST", "/v1/clusters?tenant=initech", MIXED)
    weft.client.wait_phase("cfd", "ready", tenant="initech", ready=2)
    grant(weft)
    refused = weft.client.request("PATCH", "/v1/clusters/cfd?tenant=initech", {"group": "gpu", "count": 2})
    assert (refused.status, refused.json["code"]) == (403, "denied")
    weft.client.expect(200, "PATCH", "/v1/clusters/cfd?tenant=initech", {"group": "cpu", "count": 2})
    weft.client.wait_phase("cfd", "ready", tenant="initech", ready=3)
    weft.client.expect(200, "PATCH", "/v1/clusters/cfd?tenant=initech", {"group": "gpu", "count": 0})
    weft.client.wait_phase("cfd", "ready", tenant="initech", ready=2)
    assert weft.client.request("PATCH", "/v1/clusters/cfd?tenant=initech", {"group": "gpu", "count": 1}).status == 403


def test_what_waits_gets_no_device_that_was_taken_back(site):
    weft = site(hosts=1)
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "initech", "devices": ["passthrough"]})
    weft.client.create("first", 1, path="passthrough")
    weft.client.wait_phase("first", "ready")
    weft.client.create("cfd", 1, tenant="initech", path="passthrough")
    until(lambda: weft.client.cluster("cfd", "initech")["reason"], "it waits for room")
    grant(weft)
    weft.client.delete("first")
    until(lambda: "is not granted whole adapters" in (weft.client.cluster("cfd", "initech")["reason"] or ""),
          lambda: weft.client.cluster("cfd", "initech"))
    weft.client.wait_gone("first")
    assert weft.client.cluster("cfd", "initech")["phase"] == "queued" and weft.client.nodes("cfd", "initech") == []
    weft.stop()
    weft.start()
    until(lambda: "weft tenant set initech --devices passthrough" in (weft.client.cluster("cfd", "initech")["reason"] or ""),
          lambda: weft.client.cluster("cfd", "initech"))
    grant(weft, "passthrough")
    weft.client.wait_phase("cfd", "ready", tenant="initech")


def test_a_lost_node_gets_no_device_that_was_taken_back(initech, settle):
    """The others keep theirs; it is replaced as soon as the tenant is granted them again."""
    weft = initech
    weft.client.create("cfd", 2, tenant="initech", path="bridge", gpus=1, layout="spread")
    weft.client.wait_phase("cfd", "ready", tenant="initech", ready=2)
    before = {node["id"]: node["host"] for node in weft.client.nodes("cfd", "initech")}
    lost, where = min(before.items())
    grant(weft, "passthrough")
    weft.world.lose(where)
    until(lambda: "is not granted GPUs" in (weft.client.cluster("cfd", "initech")["reason"] or ""), lambda: weft.client.cluster("cfd", "initech"))
    assert {node["id"] for node in weft.client.nodes("cfd", "initech")} == set(before), "nothing took its place"
    grant(weft, "passthrough", "gpu")
    until(lambda: lost not in {node["id"] for node in weft.client.nodes("cfd", "initech")}, weft.log_tail)
    weft.client.wait_phase("cfd", "ready", tenant="initech", ready=2)
    settle(weft, lost=[where])
