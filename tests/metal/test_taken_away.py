"""Functions that a host refuses to give, and that go while nodes have them; both come back."""

import errno
import json

import pytest
from harness.metal import ADAPTERS, BOOT, FUNCTIONS, NODE
from harness.wait import until

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
def refused(metal):
    """A node that boots on h2, as the driver on h1 did not take its GUID."""
    metal.refuse("h1", errno.EIO)
    metal.only("h1")
    metal.create("cfd", 1, start="cold", **NODE)
    until(lambda: metal.events("node-failed"), metal.tell_hosts, BOOT)
    metal.only(*metal.hosts)
    metal.ready("cfd", ready=1)
    yield metal.nodes("cfd")[0]
    metal.refuse("h1", 0)


def test_functions_are_refused_and_then_taken_away(metal, refused):
    """The kernel asks QEMU, that asks the guest to let go; then weftd is told, and the node is placed anew."""
    failed = [event for event in metal.events("node-failed")]
    assert "its host refused the start" in failed[0]["message"] and "admin_guids" in json.dumps(failed[0]), failed
    assert refused["host"] == "h2"
    metal.refuse("h1", 0)

    host, adapter, _ = metal.function(refused)
    metal.shell(host, f"echo 0 >/sys/bus/pci/devices/{ADAPTERS[adapter]}/sriov_numvfs")
    until(lambda: metal.nodes("cfd")[0]["id"] != refused["id"], metal.tell_hosts, BOOT)
    failed = [event["message"] for event in metal.events("node-failed")]
    assert any("a device of its host was taken away from it" in message for message in failed), failed
    [check] = [check for check in metal.client.get(f"/v1/hosts/{host}/doctor")["checks"] if check["check"] == f"hca mlx4_{adapter}"]
    assert check["state"] == "fail" and check["found"].startswith("0 virtual functions"), check
    metal.ready("cfd", ready=1)
    assert metal.function(metal.nodes("cfd")[0])[:2] != (host, adapter)

    metal.shell(host, "weft host prepare >/dev/null && /lab/disks")
    until(lambda: metal.vfs(host) == len(ADAPTERS) * FUNCTIONS, lambda: f"{host} has them again\n{metal.tell_hosts()}", BOOT)
