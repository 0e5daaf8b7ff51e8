"""Devices that nodes had or were to have: taken from under them, not to be passed on, not taken back."""

import contextlib
import sqlite3

import pytest
from harness.wait import PATIENCE, until
from harness.weft import host as described

NO_IOMMU = {"iommu_groups": 0, "vfio": True}


def tell(weft, name, vfs=4, addresses=(), hint=True, **hook):
    """The host's devices are these, by its own word, from now on."""
    hca = described(name)["hcas"][0] | {"vfs": vfs} | dict(addresses)
    hardware = {key: described(name)[key] for key in ("numa", "housekeeping", "gpus")} | {"hcas": [hca]}
    text = {"hardware": hardware, "kvm": True, "libvirt": "9.0.0", "qemu": "7.2.0", "machine": "pc-q35-7.2", "hook": hook}
    weft.world.set_inventory(name, text)
    if hint:
        weft.world.devices_changed(name)


def lacking(node, vf):
    return {"lacking": [{"domain": f"weft-{node['id']}", "pci": f"0000:41:00.{vf + 1}"}]}


def functions_of(weft, name):
    return {node["id"]: (node["host"], *(vf for _rail, _hca, vf, _guid in node["devices"])) for node in weft.dump().values("node").values()
            if node["cluster_name"] == name}


def failures(weft):
    return [event for event in weft.client.events() if event["type"] == "node-failed"]


@pytest.mark.parametrize("hosts", [2, 1])
def test_a_function_is_taken_from_under_a_node(site, settle, hosts):
    """It gets another, on the same host where there is one; the others of its cluster stay what they are."""
    weft = site(hosts=hosts)
    weft.client.create("cfd", 2, path="sriov")
    weft.client.wait_phase("cfd", "ready", ready=2)
    before = functions_of(weft, "cfd")
    bereft, (where, vf) = max(before.items(), key=lambda item: item[1][1])
    tell(weft, where, vfs=4, **lacking({"id": bereft}, vf))
    until(lambda: bereft not in functions_of(weft, "cfd"), weft.log_tail)
    weft.client.wait_phase("cfd", "ready", ready=2)
    after = functions_of(weft, "cfd")
    assert before.items() - {(bereft, before[bereft])} <= after.items() and len(after) == 2
    [event] = failures(weft)
    assert "a device of its host was taken away from it" in event["message"]
    settle(weft)


def test_it_gets_another_also_from_the_next_weftd(site, settle):
    """Which finds a node that failed, and only on its own host a function that it can have."""
    weft = site(hosts=1)
    weft.client.create("cfd", 2, path="sriov")
    weft.client.wait_phase("cfd", "ready", ready=2)
    bereft, (where, vf) = max(functions_of(weft, "cfd").items(), key=lambda item: item[1][1])
    weft.stop()
    weft.start(failpoint="nodes-marked")
    tell(weft, where, vfs=4, **lacking({"id": bereft}, vf))
    weft.process.wait(30)
    weft.process = None
    weft.start()
    until(lambda: bereft not in functions_of(weft, "cfd"), weft.log_tail)
    weft.client.wait_phase("cfd", "ready", ready=2)
    settle(weft)


def test_functions_that_are_switched_off_take_no_nodes(site, settle):
    weft = site(hosts=2)
    weft.client.create("cfd", 2, path="sriov")
    weft.client.wait_phase("cfd", "ready", ready=2)
    before = functions_of(weft, "cfd")
    where = before[min(before)][0]
    lost = {node: places for node, places in before.items() if places[0] == where}
    tell(weft, where, vfs=0, lacking=[lacking({"id": node}, vf)["lacking"][0] for node, (_, vf) in lost.items()])
    until(lambda: not lost.keys() & functions_of(weft, "cfd").keys(), weft.log_tail)
    weft.client.wait_phase("cfd", "ready", ready=2)
    assert where not in {place for place, _ in functions_of(weft, "cfd").values()}, "it has none"
    found = [check for check in weft.client.get(f"/v1/hosts/{where}/doctor")["checks"] if check["check"] == "hca mlx5_0"]
    assert found[0]["state"] == "fail" and "weft host prepare --adapter mlx5_0=4" in found[0]["remedy"]
    settle(weft)


def test_a_node_that_is_not_of_this_site_is_nobodys_loss(site, settle):
    weft = site(hosts=1)
    weft.client.create("cfd", 1, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    tell(weft, "n1", lacking=[{"domain": "weft-0123456789ab-1", "pci": "0000:41:00.1"}, {}, 7])
    until(lambda: weft.client.get("/v1/hosts/n1/doctor")["checks"], "it was asked")
    settle(weft)
    assert failures(weft) == []


def test_without_an_iommu_no_function_is_given(site):
    weft = site(hosts=1)
    tell(weft, "n1", **NO_IOMMU)
    weft.stop()
    weft.start()
    for name, wish in (("vf", {"path": "sriov"}), ("whole", {"path": "passthrough"}), ("gpu", {"path": "bridge", "gpus": 1})):
        weft.client.create(name, 1, **wish)
        until(lambda name=name: "that the hosts do not have or cannot give (weft doctor tells which)" in (weft.client.cluster(name)["reason"] or ""),
              lambda name=name: weft.client.cluster(name))
        assert weft.client.cluster(name)["phase"] == "queued"
    [found] = [check for check in weft.client.get("/v1/hosts/n1/doctor")["checks"] if check["check"] == "iommu"]
    assert found["state"] == "fail" and "intel_iommu=on" in found["remedy"]
    weft.client.create("cfd", 1, path="bridge")
    weft.client.wait_phase("cfd", "ready")
    weft.client.delete("whole")
    tell(weft, "n1", iommu_groups=9, vfio=True)
    weft.client.wait_phase("vf", "ready")


ADDRESSES = {"pci": "0000:41:00.0", "vf_pci": [f"0000:41:00.{vf + 1}" for vf in range(4)]}


def quarantine(*devices):
    return [{"pci": pci, "since": "2026-11-18T20:00:00Z", "why": f"{pci} cannot be reset", "whole": pci not in ADDRESSES["vf_pci"]} for pci in devices]


def seclude(weft, *devices):
    """n1 says that nobody gets these devices."""
    tell(weft, "n1", addresses=ADDRESSES, iommu_groups=9, vfio=True, quarantine=quarantine(*devices))


def reason(weft):
    return weft.client.get("/v1/hosts/n1")["reason"]


def events(weft, word="device-quarantined"):
    return [event["message"] for event in weft.client.events() if event["type"] == word]


def test_a_function_in_quarantine_is_passed_over(site, settle):
    weft = site(hosts=1)
    seclude(weft, "0000:41:00.1", "0000:41:00.3")
    until(lambda: reason(weft) == "0000:41:00.1 and 1 more are in quarantine, and no node gets it: weft doctor n1", lambda: reason(weft))
    weft.client.create("cfd", 2, path="sriov")
    weft.client.wait_phase("cfd", "ready", ready=2)
    assert {vf for _, vf in functions_of(weft, "cfd").values()} == {1, 3}
    weft.client.create("more", 1, path="sriov")
    until(lambda: "that the hosts do not have or cannot give" in (weft.client.cluster("more")["reason"] or ""), lambda: weft.client.cluster("more"))
    assert sorted(message.split()[2] for message in events(weft)) == ["0000:41:00.1", "0000:41:00.3"]
    assert all("weft-hook readmit 0000:41:00." in message for message in events(weft))
    found = [check for check in weft.client.get("/v1/hosts/n1/doctor")["checks"] if check["check"] == "quarantine"]
    assert [check["state"] for check in found] == ["fail", "fail"] and found[0]["remedy"].endswith("weft-hook readmit 0000:41:00.1")
    assert found[0]["found"] == "no node gets 0000:41:00.1 since 2026-11-18T20:00:00Z: 0000:41:00.1 cannot be reset"
    assert "in quarantine" in weft.cli("hosts").stdout
    seclude(weft)
    weft.client.wait_phase("more", "ready")
    until(lambda: reason(weft) is None, "nothing is wrong any more")
    settle(weft)


@pytest.mark.parametrize(("device", "wish", "others"), [("0000:41:00.0", {"path": "passthrough"}, {"path": "bridge"}),
                                                        ("0000:41:00.7", {"path": "sriov"}, {"path": "bridge"}),
                                                        ("0000:40:00.0", {"path": "bridge", "gpus": 2}, {"path": "bridge", "gpus": 1})],
                         ids=["adapter", "adapter's other port", "gpu"])
def test_a_whole_device_in_quarantine_is_passed_over(site, settle, device, wish, others):
    """Also by the next weftd."""
    weft = site(hosts=1)
    seclude(weft, device)
    until(lambda: reason(weft), "it is in quarantine")
    weft.stop()
    weft.start()
    weft.client.create("cfd", 1, **wish)
    until(lambda: "that the hosts do not have or cannot give" in (weft.client.cluster("cfd")["reason"] or ""), lambda: weft.client.cluster("cfd"))
    weft.client.create("others", 1, **others)
    weft.client.wait_phase("others", "ready")
    weft.client.delete("others")
    seclude(weft)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)


@pytest.mark.parametrize(("path", "pci"), [("passthrough", "0000:41:00.0"), ("sriov", "0000:41:00.1")])
def test_what_is_secluded_when_a_node_goes_is_known_soon(site, path, pci):
    """The host is asked again when a node with a device has stopped: nobody else need come there for an operator to be told."""
    weft = site(hosts=1)
    tell(weft, "n1", addresses=ADDRESSES, iommu_groups=9, vfio=True)
    weft.client.create("cfd", 1, path=path)
    weft.client.wait_phase("cfd", "ready")
    tell(weft, "n1", addresses=ADDRESSES, hint=False, iommu_groups=9, vfio=True, quarantine=quarantine(pci))
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    until(lambda: events(weft), "it is told")
    assert pci in events(weft)[0]


def test_the_doctor_finds_out_that_a_device_was_readmitted(site):
    """Nothing on the host tells weftd."""
    weft = site(hosts=1)
    seclude(weft, "0000:41:00.0")
    until(lambda: reason(weft), "it is in quarantine")
    weft.client.create("cfd", 1, path="passthrough")
    until(lambda: "cannot give" in (weft.client.cluster("cfd")["reason"] or ""), lambda: weft.client.cluster("cfd"))
    tell(weft, "n1", addresses=ADDRESSES, hint=False, iommu_groups=9, vfio=True, quarantine=[])
    weft.cli("doctor", "n1", check=False)
    weft.client.wait_phase("cfd", "ready")
    until(lambda: reason(weft) is None, lambda: reason(weft))


def test_a_refused_start_has_the_host_asked(site):
    """Which has a function in quarantine that weftd has not heard of: the node gets another one there."""
    weft = site(hosts=1)
    tell(weft, "n1", addresses=ADDRESSES, iommu_groups=9, vfio=True)
    until(lambda: weft.client.get("/v1/hosts/n1/doctor")["checks"], "it was asked")
    tell(weft, "n1", addresses=ADDRESSES, hint=False, iommu_groups=9, vfio=True, quarantine=quarantine("0000:41:00.1"))
    weft.world.fault("broken start 1 0000:41:00.1 is in quarantine")
    weft.client.create("cfd", 1, path="sriov")
    until(lambda: events(weft), weft.log_tail)
    weft.client.wait_phase("cfd", "ready")


@pytest.mark.parametrize(("tools", "found"), [
    ({"mstflint": True, "nvidia-smi": True}, "compared before and after a node has a whole device"),
    ({"mstflint": True, "nvidia-smi": False}, "not compared where a node had a whole device, as far as that takes what is not installed: nvidia-smi")])
def test_the_doctor_tells_whether_firmware_is_compared(site, tools, found):
    weft = site(hosts=1)
    tell(weft, "n1", iommu_groups=9, vfio=True, firmware_tools=tools)
    until(lambda: [check["found"] for check in weft.client.get("/v1/hosts/n1/doctor")["checks"] if check["check"] == "firmware"] == [found],
          lambda: weft.client.get("/v1/hosts/n1/doctor"))


def test_what_leaves_quarantine_is_told(site, settle):
    """Nothing else tells weftd that an operator of the host has let nodes have a device again."""
    weft = site(hosts=1)
    seclude(weft, "0000:41:00.1", "0000:41:00.3")
    until(lambda: len(events(weft)) == 2, lambda: events(weft))
    seclude(weft, "0000:41:00.3")
    until(lambda: events(weft, "device-readmitted"), "it is told")
    [message] = events(weft, "device-readmitted")
    assert message.startswith("host n1: 0000:41:00.1 is out of quarantine") and "weft-hook readmit 0000:41:00.1" in message
    assert weft.client.items("/v1/events", tenant="acme") == []
    tell(weft, "n1", addresses=ADDRESSES, iommu_groups=9, vfio=True)  # a hook that does not say
    seclude(weft, "0000:41:00.1", "0000:41:00.3")
    until(lambda: len(events(weft)) == 3, lambda: events(weft))
    assert len(events(weft, "device-readmitted")) == 1
    settle(weft)


def test_a_quarantine_is_told_once(site, settle):
    """Not by each weftd again, which tells what has changed meanwhile."""
    weft = site(hosts=1)
    seclude(weft, "0000:41:00.1", "0000:41:00.3")
    until(lambda: len(events(weft)) == 2, lambda: events(weft))
    weft.kill()
    seclude(weft, "0000:41:00.2", "0000:41:00.3")
    weft.start()
    until(lambda: events(weft, "device-readmitted"), "it is told")
    assert [message.split()[2] for message in events(weft, "device-readmitted")] == ["0000:41:00.1"]
    assert sorted(message.split()[2] for message in events(weft)) == ["0000:41:00.1", "0000:41:00.2", "0000:41:00.3"]
    assert reason(weft).startswith("0000:41:00.2 and 1 more are in quarantine")
    settle(weft)


def test_what_could_not_be_told_is_told_later_and_once(site, settle):
    """Somebody changes the host's record in the same moment as a device of it leaves quarantine, as `weft undrain` does."""
    weft = site(hosts=1)
    seclude(weft, "0000:41:00.1", "0000:41:00.3")
    until(lambda: len(events(weft)) == 2, lambda: events(weft))
    with contextlib.closing(sqlite3.connect(weft.root / "weft.db", timeout=PATIENCE)) as store, store:
        store.execute("UPDATE record SET revision = revision + 1 WHERE kind = 'host' AND key = 'n1'")
    seclude(weft, "0000:41:00.3")
    until(lambda: "its state cannot be written" in weft.log.read_text(encoding="utf-8"), "it is not told")
    assert not events(weft, "device-readmitted")
    weft.client.expect(200, "POST", "/v1/hosts/n1/drain", {})
    weft.client.expect(200, "POST", "/v1/hosts/n1/undrain", {})
    until(lambda: events(weft, "device-readmitted"), lambda: f"it is told: {weft.log_tail()}")
    assert [message.split()[2] for message in events(weft, "device-readmitted")] == ["0000:41:00.1"]
    weft.stop()
    weft.start()
    until(lambda: reason(weft) == "0000:41:00.3 is in quarantine, and no node gets it: weft doctor n1", lambda: reason(weft))
    assert len(events(weft)) == 2 and len(events(weft, "device-readmitted")) == 1
    settle(weft)


def test_a_long_quarantine_costs_little(site, settle):
    """A host that lies can name as many devices as it likes: weftd takes what a host can have, and tells of some."""
    weft = site(hosts=1)
    seclude(weft, "0000:41:00.1", *[f"{n:04x}:41:00.1" for n in range(1, 5000)])
    until(lambda: "and 2063 more are in quarantine" in (reason(weft) or ""), lambda: reason(weft))
    assert len(events(weft)) == 33 and any("so are 2032 more devices" in message for message in events(weft))
    weft.client.create("cfd", 1, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)


def test_a_quarantine_that_makes_no_sense_harms_nobody(site, settle):
    weft = site(hosts=1)
    tell(weft, "n1", addresses=ADDRESSES, iommu_groups=9, vfio=True, quarantine=[7, {}, {"pci": 1}, {"pci": "0000:41:00.1"}])
    until(lambda: events(weft), weft.log_tail)
    weft.client.create("cfd", 3, path="sriov")
    weft.client.wait_phase("cfd", "ready", ready=3)
    assert {vf for _, vf in functions_of(weft, "cfd").values()} == {1, 2, 3}
    settle(weft)


def test_the_doctor_tells_what_could_not_be_taken_back(site):
    weft = site(hosts=1)
    tell(weft, "n1", iommu_groups=9, unclean=[{"domain": "weft-a-1", "why": "0000:41:00.1 cannot be reset"}])

    def told():
        return [check for check in weft.client.get("/v1/hosts/n1/doctor")["checks"] if check["check"] == "functions"]

    until(told, weft.log_tail)
    assert told()[0]["state"] == "fail" and told()[0]["found"] == "nobody gets what weft-a-1 had: 0000:41:00.1 cannot be reset"


def test_the_doctor_tells_of_folders_that_others_made(site):
    weft = site(hosts=1)
    tell(weft, "n1", iommu_groups=9, unsafe_folders=[{"path": "/dev/shm/weft-memory", "why": "/dev/shm/weft-memory is a link"}])

    def told():
        return [check for check in weft.client.get("/v1/hosts/n1/doctor")["checks"] if check["check"] == "memory folder"]

    until(told, weft.log_tail)
    assert told()[0]["state"] == "fail" and told()[0]["found"] == "/dev/shm/weft-memory is a link" and told()[0]["remedy"]
