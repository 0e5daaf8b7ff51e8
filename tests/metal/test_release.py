"""A function on its way from one tenant to the next: a pattern that filled its disk is nowhere afterwards; and one that could not be taken
back is nobody's, through a power loss of its host, until an operator has seen to it."""

import errno

import pytest
from harness.metal import ADAPTERS, BOOT, DISK, NODE
from harness.wait import until

pytestmark = pytest.mark.usefixtures("clean")

CANARY = b"\xa5"


@pytest.fixture
def refusing(metal):
    """The driver on h1 takes no GUIDs while a node goes: its function cannot be taken back."""
    yield lambda: metal.refuse("h1", errno.EIO)
    metal.refuse("h1", 0)


def alone(metal, name, tenant):
    """The function of the only node of a cluster on h1, which boots."""
    metal.only("h1")
    metal.make(name, 1, tenant, start="cold", **NODE)
    metal.only(*metal.hosts)
    [node] = metal.nodes(name, tenant)
    return metal.function(node)


def fill(metal, target, function, tenant):
    size = len(metal.disk(function))
    metal.run(target, "sh", "-c", f"head -c {size} /dev/zero | tr '\\000' '\\245' | dd of={DISK} bs=64k conv=fsync 2>/dev/null", tenant=tenant)
    assert metal.disk(function) == CANARY * size


def address(metal, function):
    host, adapter, vf = function
    return metal.shell(host, f"basename $(readlink /sys/bus/pci/devices/{ADAPTERS[adapter]}/virtfn{vf})").strip()


def secluded(metal, host):
    return [check["found"].split()[3] for check in metal.client.get(f"/v1/hosts/{host}/doctor")["checks"] if check["check"] == "quarantine"]


def test_a_canary_is_nowhere_afterwards(metal):
    function = alone(metal, "cfd", "acme")
    fill(metal, "cfd[0]", function, "acme")
    metal.end("cfd")
    metal.wait_clean()
    assert CANARY * 16 not in metal.disk(function) and secluded(metal, "h1") == []


def test_what_cannot_be_taken_back_is_nobodys(metal, refusing):
    function = alone(metal, "cfd", "acme")
    fill(metal, "cfd[0]", function, "acme")
    pci = address(metal, function)
    refusing()
    metal.end("cfd")
    until(lambda: secluded(metal, "h1") == [pci], lambda: f"{pci} is in quarantine, not {secluded(metal, 'h1')}", BOOT)

    metal.kill("h1")
    metal.heal("h1")
    until(lambda: f"{pci} is in quarantine" in (metal.client.get("/v1/hosts/h1")["reason"] or ""), metal.tell_hosts, BOOT)
    assert [event for event in metal.events("device-quarantined") if pci in event["message"]], "operators were told"
    until(lambda: secluded(metal, "h1") == [pci], metal.tell_hosts, BOOT)
    assert alone(metal, "mix", "umbrella") != function, "it is passed over"

    metal.exec("h1", "weft-hook", "readmit", pci)
    assert CANARY * 16 not in metal.disk(function) and secluded(metal, "h1") == []
