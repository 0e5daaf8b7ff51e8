"""Partitions that this store knows nothing of: weftd started with the wrong store, or with an older one, leaves them as they are."""

import shutil
from pathlib import Path

from harness.wait import until
from harness.weft import host
from test_wrong_store import surveyed_twice, told


def number_of(weft, name):
    return int(weft.client.wait_phase(name, "ready")["partition"], 16)


def replace_store(weft, path=None):
    """The store is another one: an empty one, or an older copy."""
    weft.stop()
    store = Path(weft.config["store"]["path"])
    for file in store.parent.glob(store.name + "*"):
        file.unlink()
    if path:
        shutil.copy(path, store)
    weft.start()


def held(weft):
    return {partition["pkey"] for partition in weft.client.get("/v1/fabrics/ib0/partitions")["partitions"] if partition["held"]}


def test_an_empty_store_removes_no_partition(site):
    weft = site(hosts=4, changes={"shared": [{"name": "storage", "pkey": "0x7001"}], "control": {"scan_interval": "100ms", "patrol_interval": "100ms"}})
    for name in ("one", "two"):
        weft.client.create(name, 2, path="sriov", shared=["storage"])
        weft.client.wait_phase(name, "ready")
    numbers = {int(weft.client.cluster(name)["partition"], 16) for name in ("one", "two")}
    before = {number: weft.world.partitions()[number] for number in numbers}
    replace_store(weft)
    until(lambda: len(told(weft, "partition-held")) == 2, "both are held, and told of")
    assert {number: weft.world.partitions()[number] for number in numbers} == before
    assert held(weft) == {f"0x{number:04x}" for number in numbers}
    assert "weft fabric release ib0 0x" in weft.cli("doctor", check=False).stdout


def test_a_number_that_is_held_is_given_to_nobody(site):
    weft = site(hosts=2, changes={"fabrics": [{"name": "ib0", "guid_prefix": "0x02c9010000000000", "pkey_first": "0x0001", "pkey_last": "0x0002"}]})
    weft.world.add_foreign_partition(1, "weft-0zzzzzzzzzzz")
    weft.world.add_foreign_partition(0x0100, "weft-0yyyyyyyyyyy")
    until(lambda: "carries weft's mark outside of weft's numbers" in weft.cli("doctor", check=False).stdout, "both were seen")
    weft.client.create("cfd", 1)
    assert number_of(weft, "cfd") == 2
    assert weft.world.partitions()[1].name == "weft-0zzzzzzzzzzz" and 0x0100 in weft.world.partitions()


def test_an_older_store_does_not_take_a_number_from_who_has_it_now(site, tmp_path):
    """The copy has cluster one at number 1; since then one has ended, and the number is that of two."""
    weft = site(hosts=2, changes={"fabrics": [{"name": "ib0", "guid_prefix": "0x02c9010000000000", "pkey_first": "0x0001", "pkey_last": "0x0001"}],
                                  "control": {"pkey_rest": "1ms"}})
    weft.client.create("one", 1, path="sriov")
    assert number_of(weft, "one") == 1
    weft.stop()
    old = shutil.copy(weft.config["store"]["path"], tmp_path / "old")
    weft.start()
    weft.client.delete("one")
    weft.client.wait_gone("one")
    weft.client.create("two", 1, path="sriov")
    assert number_of(weft, "two") == 1
    before = weft.world.partitions()[1]
    replace_store(weft, old)
    until(lambda: any("0x0001" in message for message in told(weft, "partition-held")), "it is held")
    weft.client.delete("one")
    until(lambda: weft.client.request("GET", "/v1/clusters/one?tenant=acme").status in (200, 404), "it is asked to go")
    assert weft.world.partitions()[1] == before


def test_what_is_held_goes_when_an_operator_says_so(site, settle):
    weft = site(hosts=2)
    weft.world.add_foreign_partition(0x0123, "weft-0zzzzzzzzzzz")
    until(lambda: told(weft, "partition-held"), "it is held")
    assert "would remove partition 0x0123 (weft-0zzzzzzzzzzz)" in weft.cli("fabric", "release", "--dry-run", "ib0", "0x0123").stdout
    refused = weft.cli("fabric", "release", "ib0", "0x0123", check=False)
    assert refused.returncode != 0 and "--yes" in refused.stderr and 0x0123 in weft.world.partitions()
    weft.cli("fabric", "release", "--yes", "ib0", "0x0123")
    until(lambda: 0x0123 not in weft.world.partitions(), "it is removed")
    until(lambda: told(weft, "garbage-removed"), "that is told")
    weft.client.create("cfd", 1, path="sriov")
    number = number_of(weft, "cfd")
    answer = weft.client.request("DELETE", f"/v1/fabrics/ib0/partitions/0x{number:04x}?name=weft-0zzzzzzzzzzz")
    assert answer.status == 409 and "acme/cfd" in answer.text, "a cluster's own is none to release"
    settle(weft)


def test_what_has_ended_is_removed_when_it_comes_back(site, settle):
    """A manager with an older file brings a partition back: the store knows that its cluster ended."""
    weft = site(hosts=2, changes={"control": {"pkey_rest": "1ms"}})
    weft.client.create("cfd", 1, path="sriov")
    number = number_of(weft, "cfd")
    name = weft.world.partitions()[number].name
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    until(lambda: not weft.dump().values("pkey-rest"), "its number has rested")
    weft.world.add_foreign_partition(number, name)
    weft.world.fabric_event("manager an older one took over")
    until(lambda: number not in weft.world.partitions(), "it is removed")
    settle(weft)


def copy_on_the_fabric(weft, request):
    """A copy of the stopped site's store that has the same fabric, and hosts of its own."""
    other = weft.clone()
    request.addfinalizer(other.remove)
    other.fabric_world = other.world.fabric = weft.fabric_world
    return other


def test_without_a_host_no_partition_is_changed(site, request):
    """A copy of the store reaches the subnet manager, and no host: to it all nodes look lost."""
    weft = site(hosts=2)
    weft.client.create("cfd", 2, path="sriov", layout="spread")
    number = number_of(weft, "cfd")
    weft.stop()
    other = copy_on_the_fabric(weft, request)
    for name in ("n1", "n2"):
        other.world.lose(name)
    weft.start()
    weft.client.wait_phase("cfd", "ready")
    before = weft.world.partitions()[number]
    other.start()
    until(lambda: "no host of fabric ib0 says that it is this weftd's" in other.cli("doctor", check=False).stdout, "it says so")
    until(lambda: all("weftd may be cut off" in (item["reason"] or "") for item in other.client.get("/v1/hosts")["items"]), "no host answers it")
    other.client.delete("cfd")
    surveyed_twice(other)
    assert weft.world.partitions()[number] == before
    assert not told(other, "partition-repaired")
    other.stop()
    weft.client.create("late", 1, path="sriov")
    weft.client.wait_phase("late", "ready")
    assert weft.world.partitions()[number] == before


def test_hosts_that_cannot_be_asked_are_no_right_to_partitions(site, request):
    """The hosts answer, and their records of whose they are do not."""
    weft = site(hosts=2)
    weft.client.create("cfd", 2, path="sriov", layout="spread")
    number = number_of(weft, "cfd")
    weft.stop()
    other = copy_on_the_fabric(weft, request)
    other.config["hypervisor"]["world"] = weft.config["hypervisor"]["world"]
    for name in ("n1", "n2"):
        (weft.root / "hosts" / name / "owner").write_text("damaged\n", encoding="utf-8")
    before = weft.world.partitions()[number]
    other.start()
    request.addfinalizer(other.stop)
    until(lambda: {item["state"] for item in other.client.get("/v1/hosts")["items"]} == {"held"}, "it has no host")
    other.client.delete("cfd")
    until(lambda: "no host of fabric ib0" in (other.client.cluster("cfd")["reason"] or ""), lambda: f"{other.client.cluster('cfd')}")
    surveyed_twice(other)
    assert weft.world.partitions()[number] == before
    other.take_hosts()
    other.client.wait_gone("cfd")
    until(lambda: number not in weft.world.partitions(), "it is free to do so now")


def test_who_has_its_hosts_goes_on_after_somebody_elses_change(site, settle):
    """… whatever clock that one had."""
    weft = site(hosts=2)
    weft.client.create("one", 1, path="sriov")
    weft.client.wait_phase("one", "ready")
    weft.world.overtake()
    weft.client.create("two", 1, path="sriov")
    weft.client.wait_phase("two", "ready")
    weft.world.overtake()
    weft.client.delete("one")
    weft.client.wait_gone("one")
    settle(weft)


def test_two_sites_on_one_fabric(site):
    """Each has numbers and hosts of its own, and neither locks the other out."""
    def fabric(prefix, first, last, **changes):
        return [{"name": "ib0", "guid_prefix": prefix, "pkey_first": first, "pkey_last": last} | changes]

    one = site(hosts=2, changes={"fabrics": fabric("0x02c9010000000000", "0x1000", "0x10ff")})
    shared = {"driver": "fake", "world": str(one.fabric_world / "ib0")}
    two = site(hosts=0, changes={"fabrics": fabric("0x02c9020000000000", "0x1100", "0x11ff", manager=shared), "hosts": [host("n7"), host("n8")]})
    for name in ("first", "second"):
        for weft in (one, two):
            weft.client.create(name, 1, path="sriov")
            weft.client.wait_phase(name, "ready")
    for weft in (one, two):
        weft.client.delete("first")
        weft.client.wait_gone("first")
    assert set(one.world.partitions()) == {number_of(weft, "second") for weft in (one, two)}


def test_whoever_makes_and_deletes_clusters_does_not_put_all_numbers_to_rest(site):
    """Of six numbers a tenant may have four at rest: then its next cluster waits, and another tenant's does not."""
    weft = site(hosts=2, changes={"fabrics": [{"name": "ib0", "guid_prefix": "0x02c9010000000000", "pkey_first": "0x0001", "pkey_last": "0x0006"}],
                                  "control": {"pkey_rest": "1h"}})
    for _ in range(4):
        weft.client.create("noise", 1)
        weft.client.wait_phase("noise", "ready")
        weft.client.delete("noise")
        weft.client.wait_gone("noise")
    weft.client.create("noise", 1)
    until(lambda: "4 partition numbers of clusters that tenant acme has deleted rest" in (weft.client.cluster("noise")["reason"] or ""),
          lambda: weft.client.cluster("noise"))
    weft.client.create("theirs", 1, tenant="umbrella")
    weft.client.wait_phase("theirs", "ready", tenant="umbrella")
    weft.stop()
    weft.start()
    until(lambda: "rest before they are used again" in (weft.client.cluster("noise")["reason"] or ""), "it is so after a restart")


def test_whose_number_the_site_takes_gets_another_however_many_of_its_tenant_rest(site):
    """It is not a new one: it has lost its own through nobody's fault."""
    weft = site(hosts=2, changes={"fabrics": [{"name": "ib0", "guid_prefix": "0x02c9010000000000", "pkey_first": "0x0001", "pkey_last": "0x0006"}],
                                  "control": {"pkey_rest": "1h"}})
    weft.client.create("cfd", 1, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    number = number_of(weft, "cfd")
    for _ in range(3):
        weft.client.create("noise", 1)
        weft.client.wait_phase("noise", "ready")
        weft.client.delete("noise")
        weft.client.wait_gone("noise")
    weft.client.create("noise", 1)
    until(lambda: "3 partition numbers of clusters that tenant acme has deleted rest" in (weft.client.cluster("noise")["reason"] or ""),
          lambda: weft.client.cluster("noise"))
    weft.world.remove_partition(number)
    weft.world.add_foreign_partition(number)
    until(lambda: number_of(weft, "cfd") != number, lambda: f"it has another number: {weft.client.cluster('cfd')}")
    weft.client.wait_phase("cfd", "ready")
