"""A host that refuses: its IOMMU is off, or more functions are wanted than a device has. Whoever asks is told what to do."""

import pytest

from harness.metal import BOOT, Metal
from harness.wait import until


@pytest.fixture(scope="module")
def bare(module_lab):
    return module_lab(Metal, iommu=False, hosts=1).up()


def test_functions_are_refused_with_the_remedy(bare):
    bare.create("cfd", 1, path="sriov", memory="256M")
    until(lambda: "weft doctor tells which" in (bare.client.cluster("cfd")["reason"] or ""), lambda: bare.client.cluster("cfd"), BOOT)
    [iommu] = [check for check in bare.client.get("/v1/hosts/h1/doctor")["checks"] if check["check"] == "iommu"]
    assert iommu["state"] == "fail" and "intel_iommu=on" in iommu["remedy"]


def test_a_physical_function_refuses(bare):
    """More functions than it has: nothing is changed, and the host says what it could have."""
    done = bare.exec("h1", "weft", "host", "prepare", "--adapter", "0000:41:00.0=9", check=False)
    assert done.returncode != 0 and "4" in done.stdout + done.stderr, (done.stdout, done.stderr)
    assert bare.shell("h1", "cat /sys/bus/pci/devices/0000:41:00.0/sriov_numvfs").strip() == "4"
