"""Virtual functions of emulated hosts, from `weft host prepare` to the node that writes through one, and back."""

import pytest

pytestmark = pytest.mark.usefixtures("clean")

MARK = "acme was here"
ZEROS = 64


def test_hosts_tell_what_they_have(metal):
    for host in metal.hosts:
        found = metal.client.get(f"/v1/hosts/{host}")
        assert [(hca["driver"], hca.get("numa", 0), hca["vfs"]) for hca in found["hcas"]] == [("mlx4", 0, 4), ("mlx4", 1, 4)]
        checks = {check["check"]: check for check in metal.client.get(f"/v1/hosts/{host}/doctor")["checks"]}
        assert all(check["state"] == "ok" for check in checks.values()), checks
        assert {"iommu", "interrupts", "kvm"} <= checks.keys()


def test_each_node_has_its_own_function_and_leaves_nothing_there(metal):
    metal.pair("cfd")
    nodes = metal.nodes("cfd")
    had = [metal.function(node) for node in nodes]
    assert sorted(host for host, _, _ in had) == metal.hosts
    assert [metal.seen("cfd", node) for node in nodes] == had
    for rank, function in enumerate(had):
        metal.run(f"cfd[{rank}]", "sh", "-c", f"echo '{MARK}' | dd of=/dev/nvme0n1 bs=512 conv=sync,fsync")
        assert MARK.encode() in metal.disk(function)
    metal.remove_all()
    assert all(MARK.encode() not in metal.disk(function) for function in had)
    assert_free(metal)

    # The other tenant finds nothing of it.
    metal.pair("mix", tenant="umbrella")
    nodes = metal.nodes("mix", "umbrella")
    assert [metal.seen("mix", node, "umbrella") for node in nodes] == [metal.function(node) for node in nodes]
    for rank in range(2):
        assert metal.run(f"mix[{rank}]", "sh", "-c", f"head -c {ZEROS} /dev/nvme0n1 | tr -d '\\0' | wc -c", tenant="umbrella").stdout.strip() == "0"


def assert_free(metal):
    """No driver, no guest, no GUID has any of them."""
    for host in metal.hosts:
        drivers = metal.shell(host, "cd /sys/bus/pci/devices; for d in */physfn; do readlink ${d%/physfn}/driver; done; true")
        assert all(line.endswith("vfio-pci") for line in drivers.split()), drivers
