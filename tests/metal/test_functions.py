"""Virtual functions of emulated hosts, from `weft host prepare` to the node that writes through one, and back. All tests are about two clusters,
one after the other, since a node takes a minute to boot: cfd's nodes boot, mix's are forked, and lose a host."""

import pytest

from harness.metal import ADAPTERS, BOOT, DISK
from harness.wait import until

MARK = "acme was here"
ZEROS = 64


@pytest.fixture(scope="module", autouse=True)
def clean_module(metal):
    yield
    metal.heal_all()
    metal.remove_all()


def functions(metal, name, tenant="acme"):
    """Of each node, and that it sees it itself."""
    nodes = metal.nodes(name, tenant)
    had = [metal.function(node) for node in nodes]
    assert [metal.seen(name, node, tenant) for node in nodes] == had
    return had


def write(metal, target, tenant="acme"):
    metal.run(target, "sh", "-c", f"echo '{MARK}' | dd of={DISK} bs=512 conv=sync,fsync", tenant=tenant)


def is_blank(metal, target, tenant):
    return metal.run(target, "sh", "-c", f"head -c {ZEROS} {DISK} | tr -d '\\0' | wc -c", tenant=tenant).stdout.strip() == "0"


@pytest.fixture(scope="module")
def cfd(metal):
    """The first tenant's nodes."""
    metal.pair("cfd")
    return metal.nodes("cfd")


@pytest.fixture(scope="module")
def swapped(metal, cfd):
    """The first tenant's functions, and what is on their disks when it has gone; the second tenant has come."""
    had = [metal.function(node) for node in cfd]
    for rank, function in enumerate(had):
        write(metal, f"cfd[{rank}]")
        assert MARK.encode() in metal.disk(function)
    metal.await_template()
    metal.end("cfd")
    metal.wait_clean()
    left = [metal.disk(function) for function in had]
    assert_free(metal)
    metal.pair("mix", tenant="umbrella")
    return had, left


def assert_free(metal):
    """No driver but the one for guests, and no guest, has any of them."""
    for host in metal.hosts:
        drivers = metal.shell(host, "cd /sys/bus/pci/devices; for d in */physfn; do readlink ${d%/physfn}/driver; done; true")
        assert all(line.endswith("vfio-pci") for line in drivers.split()), drivers


def test_hosts_tell_what_they_have(metal):
    for host in metal.hosts:
        found = metal.client.get(f"/v1/hosts/{host}")
        assert found["verify"] == "ethernet"
        assert [(hca["driver"], hca.get("numa", 0), hca["vfs"]) for hca in found["hcas"]] == [("mlx4", 0, 4), ("mlx4", 1, 4)]
        checks = {check["check"]: check for check in metal.client.get(f"/v1/hosts/{host}/doctor")["checks"]}
        # Their kernel is told to leave out mitigations, and has its own way with pages; their root is an overlay, which may lie in memory.
        assert {name for name, check in checks.items() if check["state"] != "ok"} <= {"thp", "mitigations", "/var/lib/weft"}, checks
        assert {"iommu", "interrupts", "kvm"} <= checks.keys()


def test_each_node_has_its_own_function(metal, cfd):
    had = functions(metal, "cfd")
    assert sorted(host for host, _, _ in had) == metal.hosts and len(cfd) == 2
    assert all("stand-ins" in node["unverified"] for node in metal.nodes("cfd")), "nobody calls an NVMe function a port of the fabric"


def test_cores_memory_and_function_are_of_one_numa_node(metal, cfd):
    for node in cfd:
        host, adapter, vf = metal.function(node)
        [memory] = node["memory_nodes"]
        numa = memory["numa"]
        assert metal.shell(host, f"cat /sys/bus/pci/devices/{ADAPTERS[adapter]}/virtfn{vf}/numa_node").strip() == str(numa)
        first, last = map(int, metal.shell(host, f"cat /sys/devices/system/node/node{numa}/cpulist").split("-"))
        pins = [line.split() for line in metal.virsh(host, "vcpupin", f"weft-{node['id']}").splitlines()]
        assert [int(cpu) for _, cpu in pins] == node["core_ids"] and all(first <= core <= last for core in node["core_ids"])
        assert metal.pages(node) == {numa: memory["pages"]}


def test_the_next_tenant_has_the_same_functions_and_finds_nothing(metal, swapped):
    had, left = swapped
    assert all(MARK.encode() not in disk for disk in left)
    assert sorted(functions(metal, "mix", "umbrella")) == sorted(had), "the very same"
    assert all(is_blank(metal, f"mix[{rank}]", "umbrella") for rank in range(2))


@pytest.mark.usefixtures("swapped")
def test_forked_nodes_get_their_functions_and_tell_the_cost(metal, record_property):
    assert not [event for event in metal.events("node-boots") if "mix" in event["message"]]
    told = [event["message"] for event in metal.events("node-copied")]
    copied = [node["copied"] for node in metal.nodes("mix", "umbrella")]
    assert len(told) == 2 and all(cost["bytes"] > 0 and cost["seconds"] > 0 for cost in copied), (told, copied)
    for message in told:
        record_property("told", message)


@pytest.mark.usefixtures("swapped")
def test_a_host_loses_its_power_under_a_node(metal):
    """It is started again when the host is back. Nobody had released its function: what it wrote there is erased all the same."""
    lost = metal.function(metal.nodes("mix", "umbrella")[0])
    write(metal, "mix[0]", "umbrella")
    assert MARK.encode() in metal.disk(lost)
    metal.kill(lost[0])
    metal.heal(lost[0])
    until(lambda: [event for kind in ("node-lost", "node-failed") for event in metal.events(kind) if "mix[0]" in event["message"]],
          metal.tell_hosts, BOOT)
    until(lambda: all(node["phase"] == "ready" for node in metal.nodes("mix", "umbrella")), metal.tell_hosts, BOOT)
    metal.ready("mix", "umbrella", ready=2)
    functions(metal, "mix", "umbrella")
    assert is_blank(metal, "mix[0]", "umbrella") and MARK.encode() not in metal.disk(lost)
