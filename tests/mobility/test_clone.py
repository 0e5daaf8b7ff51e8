"""A running node with a real guest is cloned: what it has in memory comes along, who it is does not, and it runs on."""

import re

import pytest
from harness.cloud import BOOT, PATIENT, Cloud
from harness.wait import until

COUNTER = "i=0; while :; do i=$((i+1)); echo $i > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.1; done"


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=2, changes={"control": PATIENT}).up()


def sh(cloud, node, script):
    return cloud.run(node, "sh", "-c", script).stdout.strip()


def count(cloud, node):
    return int(sh(cloud, node, "cat /tmp/count"))


def test_one_into_three(cloud):
    cloud.create("cfd", 1, path="bridge")
    cloud.ready("cfd")
    sh(cloud, "cfd[0]", "head -c 1000000 /dev/urandom > /tmp/data; (setsid sh -c '" + COUNTER + "' </dev/null >/dev/null 2>&1 &); "
                        "until [ -e /tmp/count ]; do sleep 0.1; done")
    until(lambda: count(cloud, "cfd[0]") > 5, "it counts")
    data, key = (sh(cloud, "cfd[0]", f"cat {path} | sha256sum") for path in ("/tmp/data", "/etc/machine-id"))

    cloud.client.expect(201, "POST", "/v1/clusters/cfd/clone?tenant=acme", {"name": "sweep", "count": 3, "rank": 0})
    ready = cloud.ready("sweep", timeout=2 * BOOT)
    assert ready["clone"]["paused"] > 0, ready["clone"]
    copies = [f"sweep[{rank}]" for rank in range(3)]
    assert len({node["host"] for node in cloud.nodes("sweep")}) == 2

    assert [sh(cloud, node, "cat /tmp/data | sha256sum") for node in copies] == [data] * 3, "what was in memory is there"
    assert [sh(cloud, node, "hostname") for node in copies] == [f"sweep-{rank}" for rank in range(3)]
    for what in ("cat /etc/machine-id", "cat /proc/sys/kernel/random/boot_id", "head -c 16 /dev/urandom | sha256sum",
                 "cat /run/weft/files/ssh/host_ed25519.pub"):
        told = [sh(cloud, node, what) for node in [*copies, "cfd[0]"]]
        assert len(set(told)) == 4, f"{what}: {told}"
    assert sh(cloud, "cfd[0]", "cat /etc/machine-id | sha256sum") == key, "the source is who it was"
    for node in copies:
        for other in range(3):
            assert "sweep-" in sh(cloud, node, f"ping -c 1 -W 5 sweep-{other} >/dev/null && echo sweep-{other}"), f"{node} reaches {other}"

    for node in [*copies, "cfd[0]"]:
        before = count(cloud, node)
        until(lambda node=node, before=before: count(cloud, node) > before, f"{node} goes on counting")
    told = [event["message"] for event in cloud.client.items("/v1/events") if event["type"] == "cluster-cloned"]
    assert any(re.search(r"was cloned into sweep: cfd\[0\] stood still for \d+\.\d ms", message) for message in told), told
    print(ready["clone"], told)
    for name in ("sweep", "cfd"):
        cloud.client.delete(name)
        cloud.client.wait_gone(name, timeout=BOOT)
