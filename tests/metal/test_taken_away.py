"""Functions that go while nodes have them, and come back."""

import pytest
from harness.metal import BOOT, FUNCTIONS
from harness.wait import until

pytestmark = pytest.mark.usefixtures("clean")

ADAPTERS = ("0000:41:00.0", "0000:81:00.0")


def test_functions_are_taken_from_under_a_node(metal):
    """The kernel asks QEMU, that asks the guest to let go; then weftd is told, and the node is placed anew."""
    metal.make("cfd", 1, memory="256M", path="sriov")
    [node] = metal.nodes("cfd")
    host, adapter, _ = metal.function(node)
    metal.shell(host, f"echo 0 >/sys/bus/pci/devices/{ADAPTERS[adapter]}/sriov_numvfs")
    until(lambda: metal.nodes("cfd")[0]["id"] != node["id"], metal.tell_hosts, BOOT)
    failed = [event["message"] for event in metal.client.events() if event["type"] == "node-failed"]
    assert any("a device of its host was taken away from it" in message for message in failed), failed
    [check] = [check for check in metal.client.get(f"/v1/hosts/{host}/doctor")["checks"] if check["check"] == f"hca mlx4_{adapter}"]
    assert check["state"] == "fail" and check["found"].startswith("0 virtual functions"), check
    metal.ready("cfd", ready=1)
    assert metal.function(metal.nodes("cfd")[0])[:2] != (host, adapter)

    metal.shell(host, "weft host prepare >/dev/null && /lab/disks")
    until(lambda: metal.vfs(host) == len(ADAPTERS) * FUNCTIONS, lambda: f"{host} has them again\n{metal.tell_hosts()}", BOOT)
