"""What users ask of placement: taken, checked, kept and shown."""

import base64
import json
import re

import pytest

from harness.wait import until
from harness.weft import Client, UnixConnection

GOOD = {"name": "cfd", "count": 2, "cores": 1, "memory": "256M", "image": "mpi"}
WISH = {"numa": "required", "layout": "spread", "exclusive": True, "apart": ["db", "web"], "pattern": "ring", "priority": -7,
        "walltime": "90m", "preemptible": True}

WISH_SHOWN = {field: value for field, value in WISH.items() if field != "numa"} | {"walltime": 5400}


@pytest.fixture
def member(weft):
    """A member of acme."""
    return Client(lambda: UnixConnection(weft.socket), weft.token("acme-member"))


def records(weft):
    """Everything but the memory of tokens' use and of answers."""
    return {kind: weft.dump().values(kind) for kind in ("cluster", "cluster-status", "node", "event", "request")}


def test_wish_is_kept_and_shown(weft):
    made = weft.client.create("cfd", **WISH)
    assert made["groups"][0]["numa"] == "required"
    assert {field: made[field] for field in WISH if field != "numa"} == WISH_SHOWN
    [stored] = weft.dump().values("cluster").values()
    assert (stored["layout"], stored["priority"], stored["apart"], stored["walltime"]) == ("spread", -7, ["db", "web"], 5400)
    assert stored["groups"][0]["numa"] == "required"
    shown = weft.cli("show", "cfd", env={"WEFT_TENANT": "acme"}).stdout
    lines = dict(re.findall(r"^  (\S.*?) {2,}(.*)$", shown, re.M))
    assert lines["layout"] == "spread" and lines["pattern"] == "ring" and lines["priority"] == "-7"
    assert lines["exclusive"] == "yes" and lines["preemptible"] == "yes" and lines["walltime"].startswith("1 h 30 m")
    assert re.findall(r"^  apart from +(\S+)$", shown, re.M) == ["db", "web"]
    assert "; NUMA required; " in lines["group"]


def test_defaults_are_not_shown(weft):
    made = weft.client.create("cfd")
    usual = {"layout": "compact", "exclusive": False, "apart": [], "pattern": "none", "priority": 0, "walltime": None,
             "preemptible": False}
    assert {field: made[field] for field in usual} == usual
    shown = weft.cli("show", "cfd", env={"WEFT_TENANT": "acme"}).stdout
    assert not re.search("layout|pattern|priority|exclusive|preemptible|walltime|apart|NUMA", shown)


def test_priority_is_not_a_tenants_own_to_raise(weft, member):
    before = records(weft)
    refused = member.request("POST", "/v1/clusters", GOOD | {"priority": 1})
    assert (refused.status, refused.json["code"]) == (403, "denied")
    assert refused.json["detail"] == ("priority: 1 is more than tenant acme may ask for; ask for at most 0, or an admin to raise its "
                                      "priority_max")
    assert member.request("POST", "/v1/placements", GOOD | {"priority": 1}).status == 403
    assert records(weft) == before
    member.expect(201, "POST", "/v1/clusters", GOOD | {"name": "nice", "priority": -1})
    weft.client.expect(201, "POST", "/v1/clusters?tenant=acme", GOOD | {"name": "urgent", "priority": 1000})


def test_admins_let_tenants_go_higher(weft):
    weft.cli("tenant", "add", "initech", "--priority-max", "10", "--share", "2.5")
    weft.client.expect(201, "POST", "/v1/principals", {"name": "bill", "tenant": "initech", "role": "member"})
    bill = Client(lambda: UnixConnection(weft.socket), weft.token("bill"))
    assert bill.request("POST", "/v1/clusters", GOOD | {"priority": 11}).status == 403
    bill.expect(201, "POST", "/v1/clusters", GOOD | {"priority": 10})
    weft.cli("tenant", "set", "initech", "--priority-max", "-5")
    tenant = weft.client.get("/v1/tenants/initech")
    assert (tenant["priority_max"], tenant["share"]) == (-5, 2.5)
    assert bill.request("POST", "/v1/clusters", GOOD | {"name": "two"}).status == 403
    shown = weft.cli("tenant", "show", "initech").stdout
    assert re.search(r"^  priority_max +-5$", shown, re.M) and re.search(r"^  share +2.5$", shown, re.M)
    weft.client.expect(200, "PATCH", "/v1/tenants/initech", {"share": None, "priority_max": None})
    tenant = weft.client.get("/v1/tenants/initech")
    assert (tenant["priority_max"], tenant["share"]) == (0, 1)
    assert weft.client.request("PATCH", "/v1/tenants/initech", {}).status == 400
    assert weft.client.request("PATCH", "/v1/tenants/initech", {"share": 0}).status == 400


def test_groups_by_flags(weft):
    done = weft.cli("create", "mix", "--no-wait", "--json", "--ssh-key", "none", "--memory", "256M", "--image", "mpi", "--numa", "none",
                    "--group", "gpu:1,cores=2,gpus=1,numa=required", "--group", "cpu:3,memory=512M,path=bridge",
                    "--layout", "spread", "--priority", "-5", "--time", "2d", env={"WEFT_TENANT": "acme"})
    made = json.loads(done.stdout)
    assert (made["layout"], made["priority"], made["walltime"], made["count"]) == ("spread", -5, 2 * 86400, 4)
    fields = ("name", "count", "cores", "memory", "gpus", "path", "numa", "image")
    assert [[group[field] for field in fields] for group in made["groups"]] == [
        ["gpu", 1, 2, 256 << 20, 1, "auto", "required", "mpi"], ["cpu", 3, 1, 512 << 20, 0, "bridge", "none", "mpi"]]


@pytest.mark.parametrize("text", ["0 5 1\n0 0 0\n2, 0, 0\n", "# who\t sends\n\n0,5,1\n\n0,0,0\r\n2,0,0", "[[0, 5, 1], [0, 0, 0], [2, 0, 0]]"],
                         ids=["blanks", "commas", "json"])
def test_matrix_from_a_file(weft, tmp_path, text):
    path = tmp_path / "matrix"
    path.write_text(text, encoding="utf-8")
    weft.cli("create", "cfd", "-n", "3", "--memory", "256M", "--image", "mpi", "--no-wait", "--matrix", path, env={"WEFT_TENANT": "acme"})
    [stored] = weft.dump().values("cluster").values()
    assert (stored["pattern"], base64.b64decode(stored["traffic"])) == ("matrix", bytes([1, 5, 1, 3]))  # 0-1: 5, 0-2: 3


@pytest.mark.parametrize("text, message", [("0 1\n1 x\n", 'line 2: "x" is no number'), ("0 nan\n1 0\n", 'line 1: "nan" is no number'),
                                           ("[[0,1],\n", "line 2"), ("0 1\n", "matrix: has 1 rows, and the cluster 2 nodes")],
                         ids=["word", "nan", "json", "rows"])
def test_wrong_matrix_is_refused(weft, tmp_path, text, message):
    path = tmp_path / "matrix"
    path.write_text(text, encoding="utf-8")
    done = weft.cli("create", "cfd", "-n", "2", "--image", "mpi", "--no-wait", "--matrix", path, env={"WEFT_TENANT": "acme"}, check=False)
    assert done.returncode == 2 and message in done.stderr
    assert not weft.dump().values("cluster")


def test_placement_takes_nothing(weft, member):
    weft.client.wait_open()
    before = records(weft)
    answer = member.expect(200, "POST", "/v1/placements", GOOD | {"count": 4}, {"Idempotency-Key": "once"})
    assert answer["fits"] and len(answer["nodes"]) == 4 and [node["rank"] for node in answer["nodes"]] == [0, 1, 2, 3]
    assert member.expect(200, "POST", "/v1/placements", GOOD | {"count": 4}, {"Idempotency-Key": "once"}) == answer
    assert records(weft) == before
    made = member.expect(201, "POST", "/v1/clusters", GOOD | {"count": 4})
    weft.client.wait_phase(made["name"], "ready")


def test_placement_is_checked_like_a_cluster(weft, member):
    weft.client.create("there")
    for wrong, status in [({"name": "there"}, 409), ({"fabric": "ib9"}, 400), ({"cores": 0}, 400),
                          ({"shared": ["storage"]}, 400), ({"bandwidth": "1G"}, 400)]:
        body = GOOD | wrong
        assert member.request("POST", "/v1/clusters", body).json == member.request("POST", "/v1/placements", body).json, wrong
        assert member.request("POST", "/v1/placements", body).status == status, wrong
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "initech", "quota": {"nodes": 1}})
    refused = weft.client.request("POST", "/v1/placements?tenant=initech", GOOD)
    assert (refused.status, refused.json["code"]) == (409, "exhausted")
    assert weft.client.request("POST", "/v1/placements", GOOD).status == 400  # whose?


def test_placement_tells_tenants_no_hosts(weft, member):
    weft.client.wait_open()
    body = GOOD | {"count": 4, "cores": 3, "gpus": 1}
    for_tenant = member.request("POST", "/v1/placements", body)
    everything = weft.client.expect(200, "POST", "/v1/placements?tenant=acme", body)
    hidden = {"host", "leaf", "core_ids", "memory_nodes", "devices", "gpu_ids"}
    assert all(hidden <= node.keys() for node in everything["nodes"])
    assert not any(hidden & node.keys() for node in for_tenant.json["nodes"])
    assert not re.search(r"\bn[1-4]\b|leaf[12]\b|mlx5|0000:4", for_tenant.text)
    assert [{key: node[key] for key in node.keys() - hidden} for node in everything["nodes"]] == for_tenant.json["nodes"]
    numbers = {(node["host"], node["host_number"]) for node in everything["nodes"]}
    assert len(numbers) == everything["hosts"] == len({number for _, number in numbers})


# --- hosts by name ---


def test_an_operator_names_the_hosts(weft, member):
    """Nodes that are added, replaced or moved later stay there, too."""
    def places():
        return sorted(node["host"] for node in weft.client.nodes("cfd"))

    made = weft.client.create("cfd", 2, hosts="n[2,4]", layout="spread")
    assert made["hosts"] == "n[2,4]"
    weft.client.wait_phase("cfd", "ready")
    assert places() == ["n2", "n4"]
    weft.client.scale("cfd", 6)
    weft.client.wait_phase("cfd", "ready", ready=6)
    assert set(places()) == {"n2", "n4"}
    assert "hosts" not in member.get("/v1/clusters/cfd"), "tenants do not know hosts"
    assert "  hosts " in weft.cli("show", "cfd", env={"WEFT_TENANT": "acme"}).stdout
    weft.client.expect(202, "POST", "/v1/clusters/cfd/nodes/0/move?tenant=acme", {"to": "n1", "disrupt": True})
    until(lambda: any(event["type"] == "node-move-failed" for event in weft.client.events()), "it stays on its hosts")
    weft.world.lose("n2")
    weft.client.wait_phase("cfd", "healing")
    assert set(places()) <= {"n2", "n4"}
    weft.world.bring_back("n2")


def test_only_operators_name_hosts(weft, member):
    before = records(weft)
    for path in ("/v1/clusters", "/v1/placements"):
        refused = member.request("POST", path, GOOD | {"hosts": "n1"})
        assert (refused.status, refused.json["code"]) == (403, "denied") and "only operators" in refused.json["detail"]
    assert records(weft) == before


def test_hosts_that_are_not_there_are_waited_for(weft):
    placed = weft.client.expect(200, "POST", "/v1/placements?tenant=acme", GOOD | {"hosts": "n77"})
    assert not placed["fits"]
    weft.cli("create", "cfd", "-n", "1", "--memory", "256M", "--hosts", "n3", env={"WEFT_TENANT": "acme"})
    assert [node["host"] for node in weft.client.nodes("cfd")] == ["n3"]
