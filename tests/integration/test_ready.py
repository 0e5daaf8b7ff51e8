"""Nodes are ready once they have proved the ports of the fabric that they were promised, and not before."""

import json

import pytest
from harness.wait import until
from harness.weft import host
from test_templates import SHAPE

QUICK = {"control": {"backoff_max": "20ms", "starts_max": 3}}
PATIENT = {"control": {"starts_max": 100}}  # who fails stays where it is


def told(weft, kind):
    return [event for event in weft.client.events() if event["type"] == kind]


def reason(weft):
    return weft.client.cluster("cfd")["reason"] or ""


def complaint(weft, words):
    """The cluster, once its reason has these words."""
    return until(lambda: words in reason(weft) and weft.client.cluster("cfd"), lambda: weft.client.cluster("cfd"))


def cli_of(weft, *words):
    return weft.cli(*words, env={"WEFT_TENANT": "acme"}).stdout


# --- what is missing ---

SAID = {
    "missing": ("no device inside it has port GUID {guid}", False),
    "state 1": ("port {guid} is DOWN: its link is down", True),
    "state 2": ("port {guid} is INIT: the fabric's subnet manager has not set it up", True),
    "state 3": ("port {guid} is ARMED: ", True),
    "state 9": ("port {guid} is in state 9", True),
    "pkey 0x8011": ("port {guid} has P_Key 0x8011 at index 0, where 0x{pkey:04x} of its cluster belongs", True),
    "no-ipoib": ("port {guid} is active, but no IPoIB interface of this GUID has the rail's address", False),
    "<b>what</b>": ("nothing was said of port {guid}", False),
}


@pytest.mark.parametrize("answer", SAID)
def test_a_port_that_does_not_work_holds_its_node_back(site, settle, answer):
    weft = site(changes=PATIENT)
    words, manager = SAID[answer]
    weft.world.ports(f"0 {answer}")
    weft.client.create("cfd", 1)
    cluster = complaint(weft, "does not have the ports")
    node = weft.client.nodes("cfd")[0]
    device = node["devices"][0]
    assert cluster["phase"] == "starting" and cluster["ready"] == 0 and node["phase"] == "up"
    expected = words.format(guid=device["guid"], pkey=int(cluster["partition"], 16) | 0x8000)
    assert f"cfd[0]: it does not have the ports that it was promised: rail 0: {expected}" in cluster["reason"]
    assert node["host"] not in cluster["reason"] and device["hca"] not in cluster["reason"], "hosts are no business of tenants"
    assert f"rail 0 is {device['hca']} virtual function {device['vf']}: {expected}" in cluster["detail"]
    assert "host n" in cluster["detail"] and "<b>" not in json.dumps(cluster)
    assert ("; the subnet manager: fake " in cluster["detail"]) == manager
    weft.world.ports()
    weft.client.wait_phase("cfd", "ready", ready=1, reason=None)
    assert weft.client.nodes("cfd")[0]["unverified"] is None
    settle(weft)


def test_two_rails(site, settle):
    hosts = []
    for number in (1, 2):
        described = host(f"n{number}")
        described["hcas"].append(described["hcas"][0] | {"name": "mlx5_1", "rail": 1, "port_guid": f"0x{0x0002C90300000100 + number:016x}"})
        hosts.append(described)
    weft = site(changes={"hosts": hosts} | PATIENT)
    weft.world.ports("1 missing")
    weft.client.create("cfd", 2, rails=2)
    cluster = complaint(weft, "rail 1: no device inside it has port GUID")
    assert "rail 0" not in cluster["reason"]
    weft.world.ports("0 state 1", "1 missing")
    assert "rail 0: port" in complaint(weft, "; rail 1: no device")["reason"]
    weft.world.ports()
    weft.client.wait_phase("cfd", "ready", ready=2, reason=None)
    settle(weft)


def test_a_whole_adapter_is_known_by_its_own_port(site, settle):
    weft = site(changes=PATIENT)
    weft.world.ports("0 missing")
    weft.client.create("cfd", 1, path="passthrough")
    cluster = complaint(weft, "no device inside")
    node = weft.client.nodes("cfd")[0]
    port = next(each for each in weft.client.items("/v1/hosts") if each["name"] == node["host"])["hcas"][0]["port_guid"]
    assert f"has port GUID {port}" in cluster["reason"] and "rail 0 is mlx5_0: " in cluster["detail"], cluster
    weft.world.ports()
    weft.client.wait_phase("cfd", "ready", ready=1)
    settle(weft)


def test_without_devices_nothing_was_promised(weft, settle):
    weft.world.ports("0 missing", "1 missing")
    weft.client.create("cfd", 2, path="bridge")
    weft.client.wait_phase("cfd", "ready", ready=2, reason=None)
    assert [node["unverified"] for node in weft.client.nodes("cfd")] == [None, None]
    settle(weft)


# --- who says so ---


def test_who_says_that_all_is_well_is_not_believed(weft, settle):
    weft.world.ports("0 state 1", "well")
    weft.client.create("cfd", 2)
    complaint(weft, "is DOWN")
    assert weft.client.cluster("cfd")["ready"] == 0
    weft.world.ports()
    weft.client.wait_phase("cfd", "ready", ready=2)
    settle(weft)


def test_an_older_guest_program_is_told_of(site, settle):
    weft = site(changes=PATIENT)
    weft.world.ports("older")
    weft.client.create("cfd", 1)
    cluster = complaint(weft, "is older than weft and does not tell whether its ports work")
    assert cluster["ready"] == 0 and weft.client.nodes("cfd")[0]["devices"][0]["guid"] in cluster["reason"]
    assert "older than weftd" in cluster["detail"]
    weft.world.ports()
    weft.client.wait_phase("cfd", "ready", ready=1, reason=None)
    settle(weft)


OLDER = "rail 0: its guest program is older than weft and does not tell whether its ports work; a node that is created again has the newer one"


def unverified(weft, cluster="cfd"):
    return [node["unverified"] for node in weft.client.nodes(cluster)]


def test_who_was_ready_with_an_older_guest_program_meets_those_who_come(site, settle):
    """weftd was upgraded since: the new node proves its ports, the others say what they did not."""
    weft = site(changes=PATIENT)
    weft.client.create("cfd", 2, cores=4)  # one for each host
    weft.client.wait_phase("cfd", "ready", ready=2)
    old = {node["host"] for node in weft.client.nodes("cfd")}
    for name in old:
        weft.world.ports("older", host=name)
    weft.client.scale("cfd", 3)
    weft.client.wait_phase("cfd", "ready", ready=3, reason=None)
    assert unverified(weft) == [OLDER, OLDER, None]
    for name in old:
        weft.world.ports(host=name)
    weft.client.scale("cfd", 2)
    until(lambda: unverified(weft) == [None, None], lambda: f"a newer one proves all: {unverified(weft)}")
    settle(weft)


def test_what_was_saved_with_an_older_guest_program_goes_on(site, settle):
    weft = site(changes=QUICK)
    weft.client.create("cfd", 2, **SHAPE | {"path": "sriov", "start": "cold"})
    weft.client.wait_phase("cfd", "ready")
    weft.client.expect(201, "POST", "/v1/clusters/cfd/checkpoints?tenant=acme", {"name": "before", "disrupt": True})
    until(lambda: weft.client.get("/v1/checkpoints/before", tenant="acme")["state"] == "complete", weft.log_tail)
    weft.client.wait_phase("cfd", "ready")
    weft.world.ports("older")
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    weft.client.expect(201, "POST", "/v1/checkpoints/before/restore?tenant=acme", {})
    weft.client.wait_phase("cfd", "ready", reason=None)
    assert unverified(weft) == [OLDER, OLDER] and not told(weft, "node-failed")
    weft.world.ports()
    settle(weft)


def test_an_older_guest_program_of_a_bridged_node_will_do(weft, settle):
    weft.world.ports("older")
    weft.client.create("cfd", 2, path="bridge")
    weft.client.wait_phase("cfd", "ready", ready=2, reason=None)
    settle(weft)


# --- what follows ---


def test_a_host_that_does_not_give_what_it_promised_loses_the_node(site, settle):
    weft = site(changes=QUICK)
    weft.client.create("first", 1)
    weft.client.wait_phase("first", "ready")
    bad = weft.client.nodes("first")[0]["host"]
    weft.client.delete("first")
    weft.client.wait_gone("first")
    weft.world.ports("0 missing", host=bad)
    weft.client.create("cfd", 4, cores=4)  # one for each host
    event = until(lambda: told(weft, "node-failed"), "an event says so")[0]
    assert event["host"] == bad and "it does not have the ports that it was promised: rail 0: no device" in event["message"], event
    assert "(try 3)" in event["message"] and f"host {bad}: rail 0 is mlx5_0" in event["detail"]
    weft.world.ports(host=bad)
    weft.client.wait_phase("cfd", "ready", ready=4, reason=None)
    settle(weft)


def test_where_moving_helps_it_is_moved(site, settle):
    weft = site(changes=QUICK)
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    bad = weft.client.nodes("cfd")[0]["host"]
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    weft.world.ports("0 state 1", host=bad)
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready", ready=1, reason=None)
    assert weft.client.nodes("cfd")[0]["host"] != bad
    assert all(event["host"] == bad for event in told(weft, "node-failed"))
    settle(weft)


def test_who_was_ready_is_left_alone(site, settle):
    """A reboot, after which a port does not come back: its user has something to lose."""
    weft = site(changes=QUICK)
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    before, domains = weft.client.nodes("cfd"), weft.world.domains()
    weft.world.ports("0 state 1")
    weft.world.reboot(before[0]["host"], "weft-" + before[0]["id"])
    until(lambda: "try 8" in reason(weft), lambda: weft.client.cluster("cfd"))
    assert weft.client.cluster("cfd")["phase"] == "healing" and weft.world.domains() == domains
    assert not told(weft, "node-failed")
    weft.world.ports()
    weft.client.wait_phase("cfd", "ready", ready=2, reason=None)
    assert weft.client.nodes("cfd") == before
    settle(weft)


# --- stand-ins ---

STAND_IN = "its host's adapters are declared as stand-ins, and it has reached the others on the Ethernet only"


def test_stand_ins_are_declared_and_shown(site, settle):
    weft = site(changes={"hosts": [host(f"n{i}", verify="ethernet") for i in (1, 2)]})
    weft.world.ports("0 missing")
    weft.client.create("cfd", 3)
    weft.client.wait_phase("cfd", "ready", ready=3, reason=None)
    assert {node["unverified"] for node in weft.client.nodes("cfd")} == {f"rail 0: {STAND_IN}"}
    assert f"not verified: cfd[0-2]: rail 0: {STAND_IN}\n" in cli_of(weft, "show", "cfd")
    shown = json.loads(cli_of(weft, "show", "cfd", "--json"))
    assert {node["unverified"] for node in shown["members"]} == {f"rail 0: {STAND_IN}"}
    assert {each["verify"] for each in weft.client.items("/v1/hosts")} == {"ethernet"}
    weft.client.create("plain", 1, path="bridge")
    weft.client.wait_phase("plain", "ready")
    assert "not verified" not in cli_of(weft, "show", "plain"), "nothing was promised to it"
    settle(weft)


def test_beside_stand_ins_others_prove_their_ports(site, settle):
    weft = site(changes={"hosts": [host("n1", verify="ethernet"), host("n2")]} | PATIENT)
    weft.world.ports("0 missing")
    weft.client.create("cfd", 4, cores=3)  # more than one host has
    cluster = complaint(weft, "no device inside it")
    assert "host n2: " in cluster["detail"]
    weft.world.ports()
    weft.client.wait_phase("cfd", "ready", ready=4, reason=None)
    assert {(node["host"], node["unverified"] is None) for node in weft.client.nodes("cfd")} == {("n1", False), ("n2", True)}
    settle(weft)


def test_what_was_not_verified_is_known_after_a_restart_and_proved_when_it_must_be(site, settle):
    weft = site(changes={"hosts": [host("n1", verify="ethernet")]})
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    weft.stop()
    del weft.config["hosts"][0]["verify"]
    weft.start()
    assert weft.client.nodes("cfd")[0]["unverified"], "nobody has proved it since"
    weft.client.scale("cfd", 2)
    weft.client.wait_phase("cfd", "ready", ready=2)
    assert [node["unverified"] for node in weft.client.nodes("cfd")] == [None, None]
    settle(weft)


def test_no_other_way_to_verify(weft):
    answer = weft.client.request("POST", "/v1/hosts", host("n9", verify="none"))
    assert answer.status == 400 and 'verify: must be one of fabric, ethernet; is "none"' in answer.json["detail"]
    added = weft.client.expect(201, "POST", "/v1/hosts", host("n9", verify="ethernet"))
    assert added["verify"] == "ethernet"
    weft.client.expect(204, "DELETE", "/v1/hosts/n9")
