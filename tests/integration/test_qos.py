"""Guaranteed bandwidth: lanes, what is admitted into them, what is refused and why, and what follows for partitions and nodes."""

import json

import pytest
from harness.wait import until
from harness.weft import host

G = 10**9
LANES = [{"sl": 1, "share": 40}, {"sl": 2, "share": 20}]


def port_guid(number):
    """As harness.weft.host() describes it."""
    return 0x0002C90300000000 + number


def fabric_map(hosts, rate=100 * G):
    """Hosts n1, n2, … on one switch, with links of that rate."""
    leaf = {"kind": "switch", "guid": "0xa1", "description": "leaf1", "ports": []}
    nodes = [leaf]
    for i in range(1, hosts + 1):
        link = {"rate": rate, "active": True}
        leaf["ports"].append(link | {"number": i, "peer": f"0x{0x1000 + i:x}", "peer_port": 1})
        port = link | {"number": 1, "guid": f"0x{port_guid(i):016x}", "peer": "0xa1", "peer_port": i}
        nodes.append({"kind": "adapter", "guid": f"0x{0x1000 + i:x}", "description": f"n{i} mlx5_0", "ports": [port]})
    return {"nodes": nodes}


def tell(weft, hosts=4, rate=100 * G, **manager):
    """What the fake manager says from now on of its fabric and of itself."""
    folder = weft.root / "fabric" / "ib0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "map").write_text(json.dumps(fabric_map(hosts, rate)), encoding="utf-8")
    (folder / "manager").write_text(json.dumps(manager), encoding="utf-8")
    (folder / "events.new").write_text("manager changed by the test\n", encoding="utf-8")
    (folder / "events.new").rename(folder / "events")


@pytest.fixture
def lanes(site):
    """A site with lanes of 40 and 20 Gbit/s on each of its hosts' links of 100."""

    def make(hosts=4, lanes=LANES):
        weft = site(hosts=hosts, changes={"fabrics": [{"name": "ib0", "qos": {"lanes": lanes}}]})
        tell(weft, hosts)
        weft.client.wait_open(hosts)
        return weft

    return make


def refusal(weft, **spec):
    body = {"name": "cfd", "count": 1, "cores": 1, "memory": "256M", "image": "mpi"} | spec
    answer = weft.client.request("POST", "/v1/clusters?tenant=acme", body)
    assert answer.status == 400, answer.text
    return answer.json["detail"]


def wait_reason(weft, name, reason):
    until(lambda: (weft.client.cluster(name)["reason"] or "").find(reason) >= 0,
          lambda: f"{reason!r}, it is {weft.client.cluster(name)}")


def promises(weft):
    """(host, HCA, service level) to bits a second, as the store has it."""
    found = {}
    for resource, used in weft.dump().meters.items():
        words = resource.split("/")
        if words[0] == "host" and words[2:3] == ["lane"]:
            found[words[1], words[3], int(words[4])] = used
    return found


# --- admission ---


def test_a_cluster_gets_a_lane_and_its_partition_and_nodes_know_it(lanes, settle):
    weft = lanes()
    weft.client.create("cfd", 4, bandwidth="10G", path="sriov")
    cluster = weft.client.wait_phase("cfd", "ready")
    assert (cluster["bandwidth"], cluster["sl"]) == (10 * G, 2)  # the smallest lane that holds it
    settle(weft)
    nodes = weft.dump().values("node").values()
    assert {(node["sl"], node["bandwidth"]) for node in nodes} == {(2, 10 * G)}
    per_host = {}
    for node in nodes:
        per_host[node["host"], "mlx5_0", 2] = per_host.get((node["host"], "mlx5_0", 2), 0) + 10 * G
    assert promises(weft) == per_host and max(per_host.values()) <= 20 * G
    partition = weft.root / "fabric" / "ib0" / "partitions" / cluster["partition"]
    assert partition.read_text(encoding="utf-8").splitlines()[1] .split()[2] == "2"  # ipoib, service level, rate, MTU
    assert "10G for each node, service level 2" in weft.cli("show", "cfd", "--tenant", "acme").stdout

    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    assert promises(weft) == {}


def test_equal_guarantees_share_a_lane_and_others_get_their_own(lanes):
    weft = lanes()
    for name, rate in (("a", "10G"), ("b", "10G"), ("c", "5G")):
        weft.client.create(name, 1, bandwidth=rate, path="sriov")
        weft.client.wait_phase(name, "ready")
    assert [weft.client.cluster(name)["sl"] for name in "abc"] == [2, 2, 1]
    # No lane is free any more: 6G is nearer to 5G than to 10G.
    weft.client.create("d", 1, bandwidth="6G", path="sriov")
    assert weft.client.wait_phase("d", "ready")["sl"] == 1


def test_a_full_lane_makes_others_wait_until_there_is_room(lanes, settle):
    weft = lanes(hosts=1, lanes=[{"sl": 3, "share": 20}])
    weft.client.create("first", 1, bandwidth="10G", path="sriov")
    weft.client.wait_phase("first", "ready", sl=3)
    weft.client.create("large", 1, bandwidth="15G", path="sriov")
    wait_reason(weft, "large", "scarcest: bandwidth that is not guaranteed yet")
    assert promises(weft) == {("n1", "mlx5_0", 3): 10 * G}
    # What has no guarantee is not held up.
    weft.client.create("plain", 1, path="sriov")
    assert weft.client.wait_phase("plain", "ready")["sl"] == 0
    # Nor does scaling find room: it stays in its lane.
    weft.client.scale("first", 3)
    wait_reason(weft, "first", "scarcest: bandwidth that is not guaranteed yet")
    # One more would fit, but that room is kept for who came before.
    weft.client.scale("first", 2)
    wait_reason(weft, "first", "promised to those before it")
    weft.client.delete("large")
    weft.client.wait_phase("first", "ready", ready=2, sl=3)
    assert promises(weft) == {("n1", "mlx5_0", 3): 20 * G}

    weft.client.wait_gone("large")
    weft.client.create("large", 1, bandwidth="15G", path="sriov")
    wait_reason(weft, "large", "scarcest: bandwidth that is not guaranteed yet")
    weft.client.delete("first")
    weft.client.wait_phase("large", "ready", sl=3)
    weft.client.wait_gone("first")
    assert promises(weft) == {("n1", "mlx5_0", 3): 15 * G}
    settle(weft)


def test_guarantees_hold_over_a_restart(lanes):
    weft = lanes(hosts=1, lanes=[{"sl": 1, "share": 20}])
    weft.client.create("cfd", 1, bandwidth="15G", path="sriov")
    weft.client.wait_phase("cfd", "ready", sl=1)
    weft.stop()
    weft.start()
    weft.client.create("late", 1, bandwidth="10G", path="sriov")
    wait_reason(weft, "late", "scarcest: bandwidth that is not guaranteed yet")
    assert promises(weft) == {("n1", "mlx5_0", 1): 15 * G}


def test_a_map_that_could_not_be_read_is_read_again(lanes):
    weft = lanes(hosts=1)
    weft.stop()
    weft.world.fabric_fault("fail map 3 not now")
    weft.start()
    weft.client.create("cfd", 1, bandwidth="10G", path="sriov")
    weft.client.wait_phase("cfd", "ready", sl=2)


# --- refusals before anything changes ---


def test_what_cannot_be_guaranteed_is_refused(lanes, weft):
    assert refusal(weft, bandwidth="1G", path="sriov") == (
        "bandwidth: the site guarantees none; leave it out, or ask an operator for lanes (qos in weft.yaml)")
    assert refusal(weft, bandwidth="1G", path="sriov", fabric="ib0") == (
        "bandwidth: fabric ib0 guarantees none; leave it out, or ask an operator for lanes (qos in weft.yaml)")
    with_lanes = lanes()
    assert refusal(with_lanes, bandwidth="1G", path="bridge").startswith(
        'bandwidth: is guaranteed on fabric devices only, and the nodes of "nodes" have none')
    assert refusal(with_lanes, bandwidth="ten") == 'bandwidth: rate "ten" is not understood; write it like 500M, 10G or 2.5G'
    assert refusal(with_lanes, bandwidth=5).startswith("bandwidth: must be 1M to ")
    assert weft.client.items("/v1/clusters") == with_lanes.client.items("/v1/clusters") == []


# --- reasons that only placement knows ---


@pytest.mark.parametrize(("says", "reason"), [
    ({"qos": False}, "fabric ib0 guarantees no bandwidth now: quality of service is off in its subnet manager"),
    ({"routing": "dfsssp"}, "fabric ib0 guarantees no bandwidth now: routing engine dfsssp keeps the service levels for itself"),
    ({"rate": 0}, "fabric ib0 guarantees no bandwidth now: the rates of its hosts' links are not known"),
    ({"rate": 25 * G}, "bandwidth 11G is more than any lane of fabric ib0 has on a host's link; ask for at most 10G"),
])
def test_waits_and_says_why(lanes, says, reason):
    weft = lanes()
    tell(weft, **says)

    def is_told():
        weft.client.create("cfd", 1, bandwidth="11G", path="sriov")
        found = until(lambda: (seen := weft.client.cluster("cfd"))["phase"] == "ready" or seen["reason"], "it got somewhere")
        if found is not True and reason in found:
            return True
        weft.client.delete("cfd")  # weftd had not heard of it yet
        weft.client.wait_gone("cfd")
        return False

    until(is_told, reason)
    assert weft.client.cluster("cfd")["phase"] == "queued" and promises(weft) == {}
    tell(weft, routing="ftree")
    assert weft.client.wait_phase("cfd", "ready")["sl"] == 2


def test_path_auto_is_no_bridge_then(lanes):
    weft = lanes(hosts=1)
    weft.stop()
    hca = host("n1")["hcas"][0] | {"vfs": 0}
    weft.config["hosts"] = [host("n1", hcas=[hca])]
    weft.start()
    weft.client.create("cfd", 1, bandwidth="1G")
    wait_reason(weft, "cfd", "bandwidth is guaranteed on fabric devices only, and fabric ib0 has none to give")


# --- the configuration ---


def test_lanes_do_not_shrink_under_a_guarantee(lanes):
    weft = lanes()
    weft.client.create("cfd", 1, bandwidth="10G", path="sriov")
    weft.client.wait_phase("cfd", "ready", sl=2)
    weft.stop()
    fabric = weft.config["fabrics"][0]
    fabric["qos"] = {"lanes": [{"sl": 1, "share": 40}]}
    with pytest.raises(AssertionError, match="a lane of it went or shrank in the file, but cluster acme/cfd uses it"):
        weft.start()
    weft.process = None
    fabric["qos"] = {"lanes": LANES + [{"sl": 5, "share": 10}]}
    weft.start()
    assert weft.client.wait_phase("cfd", "ready")["sl"] == 2


def test_writes_opensms_options(lanes, tmp_path):
    weft = lanes()
    path = tmp_path / "opensm.conf"
    path.write_text("qos FALSE\n", encoding="utf-8")
    told = weft.cli("fabric", "qos", "--file", path, check=False)
    assert told.returncode == 1 and "+qos_ca_vlarb_low 0:128,1:128,2:64\n" in told.stdout
    weft.cli("fabric", "qos", "--file", path, "--write")
    assert "qos_swe_sl2vl 0,1,2,0,0,0,0,0,0,0,0,0,0,0,0,0\n" in path.read_text(encoding="utf-8")
    assert "nothing to change" in weft.cli("fabric", "qos", "--file", path).stdout
