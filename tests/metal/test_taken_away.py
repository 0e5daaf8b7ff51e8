"""Functions that a host refuses to give, and that go while nodes have them; both come back."""

import errno
import json

import pytest
from harness.metal import ADAPTERS, BOOT, FUNCTIONS, NODE
from harness.wait import until

pytestmark = pytest.mark.usefixtures("clean")


def failures(metal):
    return [event for event in metal.events("node-failed") if event["message"].startswith("cfd[0]")]


def alone(metal, but=None):
    """The cluster's node, once it is ready and whoever it replaced has gone."""
    found = metal.nodes("cfd")
    return found[0] if len(found) == 1 and found[0]["phase"] == "ready" and found[0]["id"] != but else None


@pytest.fixture
def refused(metal):
    """A node that boots on h2, as the driver on h1 did not take its GUID."""
    metal.refuse("h1", errno.EIO)
    metal.only("h1")
    metal.create("cfd", 1, start="cold", **NODE)
    until(lambda: failures(metal), metal.tell_hosts, BOOT)
    metal.only(*metal.hosts)
    yield until(lambda: alone(metal), metal.tell_hosts, BOOT)
    metal.refuse("h1", 0)


def test_functions_are_refused_and_then_taken_away(metal, refused):
    """The kernel asks QEMU, that asks the guest to let go; then weftd is told, and the node is placed anew."""
    failed = failures(metal)
    assert "its host refused the start" in failed[0]["message"] and "admin_guids" in json.dumps(failed[0]), failed
    assert refused["host"] == "h2"
    metal.refuse("h1", 0)

    host, adapter, _ = metal.function(refused)
    metal.shell(host, f"echo 0 >/sys/bus/pci/devices/{ADAPTERS[adapter]}/sriov_numvfs")
    until(lambda: all(node["id"] != refused["id"] or node["phase"] != "ready" for node in metal.nodes("cfd")), metal.tell_hosts, BOOT)
    assert "a device of its host was taken away from it" in failures(metal)[-1]["message"], failures(metal)
    [check] = [check for check in metal.client.get(f"/v1/hosts/{host}/doctor")["checks"] if check["check"] == f"hca mlx4_{adapter}"]
    assert check["state"] == "fail" and check["found"].startswith("0 virtual functions"), check
    assert metal.function(until(lambda: alone(metal, refused["id"]), metal.tell_hosts, BOOT))[:2] != (host, adapter)

    metal.shell(host, "weft host prepare >/dev/null && /lab/disks")
    until(lambda: metal.vfs(host) == len(ADAPTERS) * FUNCTIONS, lambda: f"{host} has them again\n{metal.tell_hosts()}", BOOT)
