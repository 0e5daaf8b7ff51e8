"""weft doctor --selftest on hosts of the lab: real libvirt, guests, bridges and moves. They have no virtual functions: what is about
these is skipped, with the reason. Their huge pages are described only, and do not get fewer. All of it takes minutes where guests are emulated:
make test-lab-full looks at it."""

import json
import os

import pytest

from harness.cloud import CONTROL, Cloud

pytestmark = [pytest.mark.usefixtures("clean"),
              pytest.mark.skipif(not os.environ.get("WEFT_LAB_FULL"), reason="WEFT_LAB_FULL is not set: all of its checks take minutes")]


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=2, changes={"control": CONTROL | {"templates": True}}).up()


def test_without_adapters(cloud):
    done = cloud.weft("doctor", "--selftest", "--json", "--image", "tiny", "--memory", "128M", "--skip", "hugepages",
                      timeout=600)
    told = {check["check"]: (check["state"], check["found"]) for check in json.loads(done.stdout)["checks"]}
    skipped = {check: found for check, (state, found) in told.items() if state == "skipped"}
    assert set(skipped) == {"device", "pkeys", "fabric", "hugepages"}, told
    assert skipped["device"] == "the hosts have no virtual functions"
    assert {state for state, _ in told.values()} == {"ok", "skipped"}, told
    assert {tenant["name"] for tenant in cloud.client.items("/v1/tenants")} == {"acme", "umbrella"}
    assert cloud.client.items("/v1/clusters") == [] and cloud.client.items("/v1/templates") == []
    cloud.check()
