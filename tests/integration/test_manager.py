"""Who programs the partitions of a fabric is said aloud: a manager, nobody (driver none), or, in tests, a fake that everybody sees."""

import contextlib
import json
import re
import sqlite3
import subprocess

import pytest
from harness.wait import until
from harness.weft import Weft, build_folder, host

NONE = {"name": "ib0", "manager": {"driver": "none"}}
UNNAMED = {"name": "ib0", "manager": None}
REMEDY = ("manager: { driver: opensm", "manager: { driver: none }")


def site_checks(weft, name):
    """What weft doctor says of the site under that name."""
    site = next(report for report in weft.client.get("/v1/doctor")["items"] if report["host"] is None)
    return [check for check in site["checks"] if check["check"] == name]


def reason(weft, name, *words):
    """Until the cluster tells why it is no further."""
    last = []

    def check():
        last[:] = [weft.client.cluster(name)]
        return all(word in (last[0]["reason"] or "") for word in words)

    until(check, lambda: f"{words} of {last}")
    return last[0]


@pytest.fixture
def fresh(request):
    """A site that was not started yet."""
    def make(**changes):
        weft = Weft(hosts=2, changes=changes)
        request.addfinalizer(weft.remove)
        return weft

    return make


# --- a fabric that does not say who manages it ---


def test_a_new_fabric_names_its_manager(fresh):
    weft = fresh(fabrics=[UNNAMED])
    said = weft.run_refused()
    assert 'fabrics: "ib0" has no manager' in said and all(word in said for word in REMEDY), said
    checked = subprocess.run([build_folder() / "src/daemon/weftd", "--check", "--config", weft.root / "weft.yaml"], capture_output=True,
                             text=True, check=False)
    assert checked.returncode > 0 and 'fabrics: "ib0" has no manager' in checked.stderr, checked
    weft.config["fabrics"] = [UNNAMED, NONE | {"name": "ib1", "vxlan_base": 90000}]
    assert '"ib0" has no manager' in weft.run_refused()


def test_an_older_store_opens_and_its_fabric_is_held(site, settle):
    """Its weft.yaml names no manager, as it needed none then: nodes run on, nothing is changed, and everybody is told what to write."""
    weft = site(hosts=2)
    for name in ("old", "gone"):
        weft.client.create(name, 1, path="sriov")
        weft.client.wait_phase(name, "ready")
    old = weft.client.cluster("old")["partition"]
    partitions = weft.world.partitions()
    weft.stop()
    weft.config["fabrics"][0]["manager"] = None
    weft.start()
    [told] = site_checks(weft, "fabric ib0")
    assert told["state"] == "fail" and "held" in told["found"] and all(word in told["remedy"] for word in REMEDY), told
    until(lambda: all(word in weft.log_tail(200) for word in REMEDY), "the log says it, too")
    shown = weft.cli("fabric", "show").stdout
    assert "no manager answers" in shown and all(word in shown for word in REMEDY), shown
    for name, path in (("new", "bridge"), ("other", "sriov")):
        weft.client.create(name, 1, path=path)
        reason(weft, name, "fabric ib0 takes no nodes now: weft.yaml names no manager")
    weft.client.delete("gone")
    reason(weft, "gone", "the subnet manager cannot be reached")
    assert (weft.client.cluster("old")["phase"], weft.client.cluster("old")["partition"]) == ("ready", old)
    assert weft.world.partitions() == partitions
    weft.stop()
    del weft.config["fabrics"][0]["manager"]
    weft.start()
    weft.client.wait_gone("gone")
    for name in ("old", "new", "other"):
        weft.client.wait_phase(name, "ready")
    settle(weft)


# --- nobody manages it, and the site says so ---


@pytest.mark.parametrize("path", ["sriov", "passthrough"])
def test_nobody_gets_a_port_that_nobody_keeps_apart(site, path):
    weft = site(hosts=2, changes={"fabrics": [NONE]})
    weft.client.wait_open(2)
    spec = {"name": "cfd", "count": 1, "cores": 1, "memory": "256M", "image": "mpi", "path": path}
    why = ("fabric ib0 has no devices to give", "no subnet manager", "driver none in weft.yaml", "--path bridge")
    tried = weft.client.request("POST", "/v1/placements?tenant=acme", spec)
    assert all(word in tried.text for word in why), tried.text
    weft.client.create("cfd", 1, path=path)
    assert reason(weft, "cfd", *why)["nodes"] == 0


def test_a_bridge_is_all_that_is_promised(site, settle):
    """Said by the cluster, its events, the doctor and the fabric: no partition is programmed."""
    weft = site(hosts=2, changes={"fabrics": [NONE]})
    for name in ("cfd", "md"):
        weft.client.create(name, 2, layout="spread")  # path auto, on hosts with functions
        weft.client.wait_phase(name, "ready")
    nodes = weft.client.nodes("cfd")
    assert {node["path"] for node in nodes} == {"bridge"} and not any(node["devices"] for node in nodes)
    cluster = weft.client.cluster("cfd")
    assert cluster["partition"] is None and cluster["vxlan"] > 0
    assert cluster["vxlan"] != weft.client.cluster("md")["vxlan"]
    events = [event["message"] for event in weft.client.events()]
    assert not any(re.search(r"partition 0x|wired", message) for message in events), events
    assert any("no partition is programmed" in message for message in events)
    shown = re.search(r"^ *partition +(.*)$", weft.cli("show", "cfd", "--tenant", "acme").stdout, re.M)[1]
    assert shown == f"none: its fabric has no manager, VXLAN {cluster['vxlan']} keeps it apart"
    [told] = site_checks(weft, "fabric ib0")
    assert told["state"] == "ok" and "driver none: no partition is programmed" in told["found"]
    assert site_checks(weft, "manager of ib0") == []
    assert "nobody manages it (driver none): no partition is programmed" in weft.cli("fabric", "show").stdout
    manager = weft.client.get("/v1/fabrics/ib0")["manager"]
    assert manager["way"] == "none" and not manager["master"]
    assert weft.client.get("/v1/fabrics/ib0/partitions")["partitions"] == []
    assert not weft.world.partitions()
    weft.stop()
    weft.start()
    assert weft.client.wait_phase("cfd", "ready")["partition"] is None
    weft.client.scale("cfd", 1)
    weft.client.wait_phase("cfd", "ready", nodes=1)
    for name in ("cfd", "md"):
        weft.client.delete(name)
        weft.client.wait_gone(name)
    settle(weft)
    assert not [event for event in weft.client.events() if event["type"] == "partition-repaired"]


def test_a_manager_that_comes_later_is_told(site, settle):
    weft = site(hosts=2, changes={"fabrics": [NONE]})
    weft.client.create("cfd", 2)
    vxlan = weft.client.wait_phase("cfd", "ready")["vxlan"]
    weft.stop()
    weft.config["fabrics"] = [{"name": "ib0"}]
    weft.start()
    cluster = until(lambda: (seen := weft.client.wait_phase("cfd", "ready"))["partition"] and seen, "it has a partition")
    assert cluster["vxlan"] == vxlan and set(weft.world.partitions()) == {int(cluster["partition"], 16)}
    assert not [event for event in weft.client.events() if event["type"] == "partition-repaired"]
    settle(weft)


def test_functions_of_before_are_not_passed_over(site):
    """The manager was taken away while nodes have ports: they are told of as not kept apart, and can be removed."""
    weft = site(hosts=2)
    weft.client.create("cfd", 1, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    weft.stop()
    weft.config["fabrics"][0]["manager"] = NONE["manager"]
    weft.start()
    seen = reason(weft, "cfd", "the subnet manager cannot be reached")
    assert seen["partition"] is None
    detail = weft.client.get("/v1/clusters/cfd?tenant=acme")["detail"]
    assert "nobody programs them" in detail and "name a manager" in detail, detail
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")


# --- what is not real says so ---


def test_a_fake_is_loud(weft):
    version = weft.client.get("/v1/version")
    assert version["fakes"] == ["hosts", "fabric ib0"]
    assert "this weftd is for tests, not real are: hosts, fabric ib0" in weft.cli("version").stdout
    log = weft.log_tail(200)
    assert "hypervisor.driver is fake, which is for tests" in log and "the manager of fabric ib0 is fake, which is for tests" in log
    assert [check["state"] for name in ("hypervisor", "fabric ib0") for check in site_checks(weft, name)] == ["warn", "warn"]


def test_what_is_real_is_not_called_fake(fresh, request):
    weft = fresh(fabrics=[NONE], hypervisor={"driver": "libvirt"}, hosts=[host("n1", uri="qemu+tcp://127.0.0.1:1/system")])
    del weft.config["hypervisor"]["world"]
    weft.start()
    request.addfinalizer(weft.stop)
    assert weft.client.get("/v1/version")["fakes"] == []
    # Nor is libvirt's own fake taken for a host.
    refused = weft.client.request("POST", "/v1/hosts", host("n2", uri="test:///default"))
    assert refused.status == 400 and "is no transport to a host" in refused.text


def test_a_real_host_is_no_folder(site):
    """The fake driver beside a host's real URI: it does not come up, and the remedy is told."""
    weft = site(hosts=0, changes={"hosts": [host("n1", uri="qemu+tls://n1/system"), host("n2")]})
    weft.client.wait_open(1)

    def looked():
        return weft.client.get("/v1/hosts/n1")

    until(lambda: "hypervisor.driver is fake" in json.dumps(looked()), lambda: f"it says so: {looked()}")
    assert looked()["state"] != "up" and not (weft.root / "hosts" / "n1").exists()
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    assert {node["host"] for node in weft.client.nodes("cfd")} == {"n2"}


def test_a_stored_host_whose_uri_is_not_taken_any_more(site, settle):
    """It was described when weftd knew no better: nothing goes there, all else works, and an operator can put it right."""
    weft = site(hosts=1)
    for name in ("n2", "n3"):
        weft.client.expect(201, "POST", "/v1/hosts", host(name))
    weft.client.wait_open(3)
    weft.client.expect(200, "POST", "/v1/hosts/n3/drain", {})
    weft.client.create("cfd", 2, cores=4)  # one for each host
    weft.client.wait_phase("cfd", "ready")
    before = weft.client.nodes("cfd")
    assert {node["host"] for node in before} == {"n1", "n2"}
    weft.stop()
    with contextlib.closing(sqlite3.connect(weft.root / "weft.db")) as store, store:
        store.execute("UPDATE record SET value = json_set(value, '$.uri', 'qemu+ssh://n2/system?command=/bin/evil') WHERE kind = 'host' AND key = 'n2'")
    weft.start()

    def n2():
        return weft.client.get("/v1/hosts/n2")

    until(lambda: n2()["state"] == "held", lambda: f"it is down: {n2()}")
    assert 'its URI is not taken any more' in n2()["reason"] and 'parameter "command" is not allowed' in n2()["reason"]
    assert all(words in n2()["reason"] for words in ("weft drain n2 --evict", "weft host rm n2", "weft host add")), n2()
    weft.client.create("other", 1, cores=1)
    weft.client.wait_phase("other", "ready")
    assert n2()["state"] == "held" and weft.client.nodes("cfd") == before, "its nodes are not given up by weftd itself"
    assert [event["type"] for event in weft.client.events() if event["host"] == "n2"].count("host-held") == 1
    weft.client.expect(200, "POST", "/v1/hosts/n3/undrain", {})
    weft.world.lose("n1")
    until(lambda: {node["host"] for node in weft.client.nodes("cfd")} == {"n2", "n3"}, "nobody waits for its word on others")
    weft.world.bring_back("n1")
    until(lambda: weft.client.get("/v1/hosts/n1")["state"] == "up", "n1 is back")
    weft.client.expect(200, "POST", "/v1/hosts/n2/drain", {"evict": True})
    until(lambda: {node["host"] for node in weft.client.nodes("cfd")} == {"n1", "n3"}, lambda: f"it is replaced: {weft.client.nodes('cfd')}")
    weft.client.wait_phase("cfd", "ready")
    weft.client.expect(204, "DELETE", "/v1/hosts/n2")
    weft.client.expect(201, "POST", "/v1/hosts", host("n2"))
    until(lambda: n2()["state"] == "up", lambda: f"it is back: {n2()}")
    settle(weft)
