"""Templates on hosts with real guests: made by themselves, and nodes that are forked from them know who they are."""

import re

import pytest
from harness.cloud import BOOT, PATIENT, Cloud
from harness.wait import until

NODES = {"path": "bridge", "memory": "256M", "image": "tiny"}


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=1, cores=4, memory="2G", changes={"control": PATIENT | {"templates": True}}).up()


def create(cloud, name, count):
    cloud.client.create(name, count, **NODES)
    return cloud.client.wait_phase(name, "ready", timeout=BOOT)


def remove(cloud, name):
    cloud.client.delete(name)
    cloud.client.wait_gone(name, timeout=BOOT)


def own(cloud, node):
    """Bytes of the memory that it was forked with that are its own by now, as the host's hook counts them."""
    question = (f"<network><name>weft-own-{node}-01234567</name><metadata><weft:network xmlns:weft='https://weft.dev/xmlns/network/1'/></metadata>"
                "<forward mode='bridge'/><bridge name='weft-probe'/></network>")
    answer = cloud.virsh("h1", "net-create", "/dev/stdin", check=False, text=question).stderr
    return int(re.search(r"weft-hook: own (\d+)", answer)[1])


def test_made_and_forked_from(cloud):
    create(cloud, "first", 1)
    until(lambda: [t["state"] for t in cloud.client.items("/v1/templates")] == ["ready"], lambda: f"{cloud.client.items('/v1/templates')}", BOOT)
    remove(cloud, "first")
    template = cloud.client.items("/v1/templates")[0]
    create(cloud, "second", 2)
    shown = cloud.client.get(f"/v1/templates/{template['id']}")
    assert [p["host"] for p in shown["primed"]] == ["h1"]
    told = [event["message"] for event in cloud.client.items("/v1/events") if event["type"] == "node-boots"]
    assert told == [], "all were forked"
    names = [cloud.run(f"second[{rank}]", "hostname").stdout.split()[-1] for rank in range(2)]
    assert names == ["second-0", "second-1"]
    written = [own(cloud, node["id"]) for node in cloud.client.nodes("second")]
    print(f"memory of its own, of 256 MiB: {[count >> 20 for count in written]} MiB")
    assert all(0 < count < 256 << 20 for count in written)
    remove(cloud, "second")
