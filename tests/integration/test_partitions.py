"""P_Keys as a resource, partitions that clusters share, and ports that are read back: on the fake."""

import pytest
from harness.wait import until
from harness.weft import host

STORAGE = {"name": "storage", "fabric": "ib0", "pkey": "0x7001", "servers": ["0x0002c903000000f1"], "clusters": "limited", "tenants": ["acme"]}
SERVER = 0x0002C903000000F1


def fabric(**changes):
    return {"name": "ib0", "guid_prefix": "0x02c9010000000000"} | changes


def port(number):
    return 0x0002C90300000000 + number


def reason(weft, name, *words):
    """Until the cluster tells why it is no further."""
    last = []

    def check():
        last[:] = [weft.client.cluster(name)]
        return all(word in (last[0]["reason"] or "") for word in words)

    until(check, lambda: f"{words} of {last}")
    return last[0]


def number_of(weft, name, tenant="acme"):
    return int(weft.client.wait_phase(name, "ready", tenant=tenant)["partition"], 16)


def told(weft, kind):
    return [event["message"] for event in weft.client.events() if event["type"] == kind]


def gone(weft, name):
    weft.client.delete(name)
    weft.client.wait_gone(name)


# --- numbers ---


def test_numbers_tell_nothing_of_others(site, settle):
    """Neither a cluster's P_Key nor its VXLAN follows from those of clusters before it."""
    weft = site(hosts=2, changes={"fabrics": [fabric(pkey_first="0x0001", pkey_last="0x3fff", vxlan_base=10000)]})
    numbers = []
    for name in "abcdef":
        weft.client.create(name, 1)
        numbers.append(number_of(weft, name))
        assert weft.client.cluster(name)["vxlan"] == 10000 + numbers[-1]
    steps = {second - first for first, second in zip(numbers, numbers[1:])}
    assert len(set(numbers)) == len(numbers) and len(steps) > 1, numbers
    settle(weft)


def test_a_freed_number_rests(site, settle):
    weft = site(hosts=1, changes={"fabrics": [fabric(pkey_first="0x0001", pkey_last="0x0002")], "control": {"pkey_rest": "1h"}})
    left = {1, 2}
    while left:
        weft.client.create("cfd", 1)
        left.remove(number_of(weft, "cfd"))
        gone(weft, "cfd")
    weft.client.create("cfd", 1)
    assert reason(weft, "cfd", "rests before it is used again")["phase"] == "queued"
    weft.stop()
    weft.start()
    assert reason(weft, "cfd", "rests before it is used again")["phase"] == "queued", "also over a restart"
    weft.stop()
    weft.config["control"]["pkey_rest"] = "300ms"
    weft.start()
    assert number_of(weft, "cfd") in (1, 2)
    settle(weft)


def test_who_waits_for_a_number_gets_it_after_its_rest(site, settle):
    weft = site(hosts=1, changes={"fabrics": [fabric(pkey_first="0x0001", pkey_last="0x0001")],
                                  "control": {"pkey_rest": "1s", "backoff_base": "1h", "backoff_max": "1h"}})
    weft.client.create("one", 1)
    assert number_of(weft, "one") == 1
    gone(weft, "one")
    weft.client.create("two", 1)
    until(lambda: (seen := weft.client.cluster("two"))["phase"] == "ready" or "rests" in (seen["reason"] or ""), "it waits, unless that is over")
    assert number_of(weft, "two") == 1
    until(lambda: not weft.dump().values("pkey-rest"), "nothing is written of numbers that have rested")
    settle(weft)


def test_who_waits_for_a_number_gets_it_when_the_site_gives_it_up(site, settle):
    weft = site(hosts=1, changes={"fabrics": [fabric(pkey_first="0x0001", pkey_last="0x0001")],
                                  "control": {"pkey_rest": "500ms", "backoff_base": "1h", "backoff_max": "1h"}})
    weft.world.add_foreign_partition(1)
    until(lambda: told(weft, "foreign-partition"), "it is seen")
    weft.client.create("one", 1)
    assert "pkey_last" in reason(weft, "one", "every partition number of fabric ib0, 0x0001 to 0x0001, is in use")["reason"]
    weft.world.remove_partition(1)
    assert number_of(weft, "one") == 1
    settle(weft)


def test_a_number_that_another_partition_took_comes_back_as_it_was(site, settle):
    """As with a manager whose partitions are older: of the cluster's own partition under its former number the store knows that it ended."""
    weft = site(hosts=1)
    weft.client.create("cfd", 1)
    number = number_of(weft, "cfd")
    before = next(weft.world.fabric.glob(f"**/partitions/0x{number:04x}")).read_text(encoding="utf-8").strip()
    settle(weft)
    weft.world.add_foreign_partition(number)
    until(lambda: number_of(weft, "cfd") != number, "the cluster has another number")
    settle(weft)
    weft.world.add_foreign_partition(number, before)
    until(lambda: number not in weft.world.partitions(), "what came back is removed")
    settle(weft)


def test_what_others_change_is_looked_at_twice_without_a_further_hint(site, settle):
    weft = site(hosts=1, changes={"control": {"scan_interval": "1h", "patrol_interval": "1h"}})
    weft.client.create("cfd", 1, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    weft.world.remove_partition(number_of(weft, "cfd"))
    weft.world.fabric_event("swept")
    until(lambda: told(weft, "partition-repaired"), "it is repaired")
    settle(weft)


def test_numbers_are_not_returned_to_rest_by_the_quota(site):
    """A cluster that never got as far as a partition leaves nothing to rest."""
    weft = site(hosts=1)
    weft.client.create("big", 1, cores=64)
    reason(weft, "big", "scarcest: cores")
    gone(weft, "big")
    assert weft.dump().values("pkey-rest") == {}


# --- places in ports ---


def test_ports_have_room_for_so_many_clusters(site, settle):
    weft = site(hosts=1, changes={"fabrics": [fabric(port_pkeys=3)]})
    for name in ("a", "b"):
        weft.client.create(name, 1, path="sriov")
        weft.client.wait_phase(name, "ready")
    weft.client.create("c", 1, path="sriov")
    reason(weft, "c", "places for P_Keys")
    weft.client.scale("a", 2)
    weft.client.wait_phase("a", "ready", ready=2)
    gone(weft, "b")
    weft.client.wait_phase("c", "ready")
    settle(weft)


def test_the_map_tells_how_many(site, settle):
    weft = site(hosts=1)
    weft.world.map({"nodes": [
        {"kind": "switch", "guid": "0x1", "description": "leaf1", "ports": [{"number": 1, "pkeys": 2, "peer": "0x2", "peer_port": 1}]},
        {"kind": "adapter", "guid": "0x2", "description": "n1 mlx5_0",
         "ports": [{"number": 1, "guid": f"0x{port(1):016x}", "pkeys": 64, "peer": "0x1", "peer_port": 1}]}]})
    weft.world.fabric_event("ports")
    weft.client.create("a", 1, path="sriov")
    weft.client.wait_phase("a", "ready")

    def is_full():
        weft.client.create("b", 1, path="sriov")
        found = until(lambda: weft.client.cluster("b")["phase"] == "ready" or weft.client.cluster("b")["reason"], "b got somewhere")
        full = found is not True and "places for P_Keys" in found
        gone(weft, "b")
        return full

    until(is_full, "the switch's small table is heeded")
    settle(weft)


# --- virtual functions ---


def test_mlx5_needs_a_manager_with_virtualization(site, settle):
    weft = site(hosts=2)
    weft.world.manager(virtualization=False)
    weft.world.fabric_event("manager another one rules")
    weft.client.create("one", 1, path="passthrough")
    weft.client.wait_phase("one", "ready")

    def is_refused():
        weft.client.create("two", 1, path="sriov")
        found = until(lambda: weft.client.cluster("two")["phase"] == "ready" or weft.client.cluster("two")["reason"], "two got somewhere")
        refused = found is not True and "does not program such" in found and "--path passthrough" in found
        gone(weft, "two")
        return refused

    until(is_refused, "sriov is refused with the reason and the remedy")
    weft.client.create("three", 1)
    weft.client.wait_phase("three", "ready")
    assert weft.client.nodes("three")[0]["path"] == "bridge"
    settle(weft)


def test_nodes_of_mlx4_are_in_the_partition_by_their_hosts_port(site, settle):
    hcas = [{"name": "mlx4_0", "driver": "mlx4", "port_guid": f"0x{port(1):016x}", "vfs": 4}]
    weft = site(changes={"hosts": [host("n1", hcas=hcas)]})
    weft.world.manager(virtualization=False)
    weft.client.create("cfd", 3, path="sriov")
    number = number_of(weft, "cfd")
    members = weft.world.partitions()[number].members
    assert [(m.port, m.virtual, m.membership) for m in members] == [(port(1), 0, "full")]
    weft.client.scale("cfd", 1)
    weft.client.wait_phase("cfd", "ready", nodes=1)
    assert len(weft.world.partitions()[number].members) == 1
    settle(weft)


def test_guids_stay_with_their_nodes_and_never_leak(site, settle):
    weft = site(hosts=2)
    weft.client.create("cfd", 2, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    before = sorted(guid for node in weft.client.nodes("cfd") for guid in node["guids"])
    assert len(set(before)) == 2
    node = weft.client.nodes("cfd")[0]
    weft.world.end_domain(node["host"], f"weft-{node['id']}")
    until(lambda: weft.world.where(f"weft-{node['id']}"), "it runs again")
    weft.stop()
    weft.start()
    weft.client.wait_phase("cfd", "ready")
    assert sorted(guid for each in weft.client.nodes("cfd") for guid in each["guids"]) == before
    settle(weft)
    gone(weft, "cfd")
    assert not [resource for resource in weft.dump().owners if any(guid in resource for guid in before)]


# --- a manager that is away ---


def test_nothing_is_placed_before_the_manager_was_heard(site, settle):
    weft = site(hosts=1)
    weft.stop()
    weft.world.fabric_fault("fail greet 0 nobody there")
    weft.start()
    weft.client.create("cfd", 1)
    assert reason(weft, "cfd", "subnet manager has not answered yet")["phase"] == "queued"
    weft.world.fabric_fault()
    weft.client.wait_phase("cfd", "ready")
    settle(weft)


# --- shared partitions ---


@pytest.fixture
def storage(site):
    return site(changes={"shared": [STORAGE, {"name": "licences", "pkey": "0x7002", "clusters": "full"}]})


def test_clusters_join_what_is_shared(storage, settle):
    weft = storage
    until(lambda: 0x7001 in weft.world.partitions() and 0x7002 in weft.world.partitions(), "they are there before any cluster")
    assert {(m.port, m.membership) for m in weft.world.partitions()[0x7001].members} == {(SERVER, "full")}
    weft.cli("create", "cfd", "-n", "2", "--memory", "256M", "--image", "mpi", "--tenant", "acme", "--path", "sriov", "--shared", "storage",
             "--shared", "licences", "--ssh-key", "none")
    weft.client.create("other", 2, path="sriov")
    weft.client.wait_phase("other", "ready")
    assert weft.client.cluster("cfd")["shared"] == ["storage", "licences"] and weft.client.cluster("cfd")["fabric"] == "ib0"
    guids = {int(guid, 16) for node in weft.client.nodes("cfd") for guid in node["guids"]}
    assert {(m.virtual, m.membership) for m in weft.world.partitions()[0x7001].members} == {(0, "full")} | {(guid, "limited") for guid in guids}
    assert {(m.virtual, m.membership) for m in weft.world.partitions()[0x7002].members} == {(guid, "full") for guid in guids}
    for node in weft.client.nodes("cfd"):
        assert "shared=\"0x7001 0xf002\"" in weft.world.definition(f"weft-{node['id']}")
    for node in weft.client.nodes("other"):
        assert "shared=" not in weft.world.definition(f"weft-{node['id']}")
    settle(weft)

    weft.stop()
    weft.start()
    weft.client.create("third", 1, path="sriov", shared=["storage"])
    weft.client.wait_phase("third", "ready")
    assert len(weft.world.partitions()[0x7001].members) == 4, "after a restart nobody has lost what he had"
    settle(weft)
    gone(weft, "cfd")
    assert len(weft.world.partitions()[0x7001].members) == 2
    settle(weft)


def test_what_is_not_shared_with_a_tenant_is_refused(storage):
    for tenant, name in (("umbrella", "storage"), ("acme", "stroage")):
        spec = {"name": "cfd", "count": 1, "image": "mpi", "shared": [name]}
        answer = storage.client.request("POST", f"/v1/clusters?tenant={tenant}", spec)
        assert answer.status == 400 and f'tenant {tenant} has no shared partition \\"{name}\\"' in answer.text, answer.text
    answer = storage.client.request("POST", "/v1/clusters?tenant=acme", {"name": "cfd", "count": 1, "image": "mpi", "shared": ["storage", "storage"]})
    assert answer.status == 400
    storage.client.create("cfd", 1, tenant="umbrella", shared=["licences"])
    storage.client.wait_phase("cfd", "ready", tenant="umbrella")


def test_what_a_tenant_may_no_longer_share_is_taken_away(storage, settle):
    weft = storage
    weft.client.create("cfd", 1, path="sriov", shared=["storage"])
    weft.client.wait_phase("cfd", "ready")
    assert len(weft.world.partitions()[0x7001].members) == 2
    weft.stop()
    weft.config["shared"] = [STORAGE | {"tenants": ["umbrella"]}]
    weft.start()
    until(lambda: len(weft.world.partitions()[0x7001].members) == 1, "its port has left")
    until(lambda: 0x7002 not in weft.world.partitions(), "what is shared no more is gone")
    settle(weft)


def test_a_shared_number_is_no_clusters(site):
    weft = site(hosts=1, changes={"fabrics": [fabric(pkey_first="0x0001", pkey_last="0x0002")], "shared": [STORAGE]})
    weft.client.create("cfd", 1)
    number = number_of(weft, "cfd")
    weft.stop()
    weft.config["shared"] = [STORAGE | {"pkey": "0x0002"}]
    weft.write_config()
    assert "P_Key 0x0002 of \"storage\" lies among those of clusters on fabric ib0, 0x0001 to 0x0002" in weft.run_refused()
    weft.config["shared"] = [STORAGE]
    weft.config["fabrics"] = [fabric(pkey_first="0x0003", pkey_last="0x0004")]
    weft.write_config()
    assert f"0x0003 to 0x0004, leaves out 0x{number:04x} of cluster acme/cfd; widen it" in weft.run_refused()


def test_shared_partitions_are_repaired(storage, settle):
    weft = storage
    weft.client.create("cfd", 1, path="sriov", shared=["storage"])
    weft.client.wait_phase("cfd", "ready")
    weft.world.change_partition(0x7001, f"0x{SERVER:016x} 0x{0:016x} full -1")
    until(lambda: any("0x7001" in message for message in told(weft, "partition-repaired")), "it is told")
    settle(weft)


# --- ports are read back ---


def test_a_cluster_is_wired_when_its_ports_have_it(site, settle):
    weft = site(hosts=1)
    weft.world.port_table(port(1))
    weft.client.create("cfd", 1, path="sriov")
    found = reason(weft, "cfd", "a port of its hosts does not answer")
    assert found["phase"] == "wiring" and "host n1 (mlx5_0)" in found["detail"] and f"0x{port(1):016x}" in found["detail"]
    assert not any(weft.world.domains().values()), "nothing is started before"
    weft.world.port_is_well(port(1))
    weft.client.wait_phase("cfd", "ready")
    settle(weft)


def test_a_port_that_loses_its_key_is_repaired(weft, settle):
    weft.client.create("cfd", 2, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    victim = weft.client.nodes("cfd")[0]["host"]
    guid = port(int(victim[1:]))
    weft.world.port_table(guid, 0x7FFF)
    weft.world.fabric_event("swept")
    until(lambda: not weft.world.port_lies(guid), "the port was told again")
    message = until(lambda: next(iter(told(weft, "partition-repaired")), None), "it is told")
    assert f"host {victim} (mlx5_0) has no P_Key" in message
    weft.client.wait_phase("cfd", "ready")
    settle(weft)


def test_ports_are_read_without_a_hint(site, settle):
    weft = site(hosts=1, changes={"control": {"patrol_interval": "100ms"}})
    weft.client.create("cfd", 1, path="passthrough")
    number = number_of(weft, "cfd")
    weft.world.port_table(port(1), 0x7FFF, 0x8000 | number)
    until(lambda: any("at index 1, not 0" in message for message in told(weft, "partition-repaired")), "the wrong index is told")
    until(lambda: not weft.world.port_lies(port(1)), "the port was told again")
    settle(weft)


def test_a_silent_port_of_a_cluster_that_runs_is_left_alone(weft):
    weft.client.create("cfd", 1, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    victim = weft.client.nodes("cfd")[0]["host"]
    weft.world.port_table(port(int(victim[1:])))
    weft.world.fabric_event("ports a link went down")
    until(lambda: f"host {victim} (mlx5_0) does not answer" in weft.cli("doctor", check=False).stdout, "weft doctor tells of it")
    assert weft.client.cluster("cfd")["phase"] == "ready" and not told(weft, "partition-repaired")


def test_partitions_that_others_change_are_repaired(weft, settle):
    weft.client.create("cfd", 2, path="sriov")
    number = number_of(weft, "cfd")
    weft.world.remove_partition(number)
    weft.world.fabric_event("manager an older one took over")
    until(lambda: any(f"0x{number:04x}" in message for message in told(weft, "partition-repaired")), "it is told")
    settle(weft)


def test_full_members_of_the_default_partition_are_told(weft):
    weft.client.create("cfd", 1, path="sriov")
    number = number_of(weft, "cfd")
    victim = weft.client.nodes("cfd")[0]["host"]
    weft.world.port_table(port(int(victim[1:])), 0xFFFF, 0x8000 | number)
    weft.world.fabric_event("swept")
    until(lambda: "is a full member of the default partition" in weft.cli("doctor", check=False).stdout, "weft doctor tells of it")
    assert f"host {victim} (mlx5_0)" in weft.cli("doctor", check=False).stdout
