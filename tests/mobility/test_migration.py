"""Nodes with real guests leave their hosts while they run: asked for one by one, and all at once where a host is emptied."""

import re

import pytest
from harness.cloud import BOOT, PATIENT, Cloud
from harness.wait import until

COUNT = "i=0; while :; do i=$((i+1)); echo $i > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.2; done"


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=2, changes={"control": PATIENT}).up()


@pytest.fixture
def cluster(cloud):
    """Two nodes on h1, each of which counts."""
    cloud.only("h1")
    cloud.make("cfd", 2, path="bridge")
    cloud.only(*cloud.hosts)
    cloud.run("cfd[0-1]", "sh", "-c", f"setsid sh -c '{COUNT}' > /dev/null 2>&1 < /dev/null & until [ -e /tmp/count ]; do sleep 0.1; done")
    yield
    cloud.only(*cloud.hosts)
    cloud.remove_all()


def counts(cloud):
    return [int(cloud.run(f"cfd[{rank}]", "cat", "/tmp/count").stdout.split()[-1]) for rank in range(2)]


def boots(cloud):
    return [cloud.run(f"cfd[{rank}]", "cat", "/proc/sys/kernel/random/boot_id").stdout.split()[-1] for rank in range(2)]


def reach_each_other(cloud):
    for rank in range(2):
        cloud.run(f"cfd[{rank}]", "ping", "-c", "1", "-W", "5", f"cfd-{1 - rank}")


def places(cloud):
    return [node["host"] for node in cloud.nodes("cfd")]


def went_on(cloud, before, booted):
    assert boots(cloud) == booted, "nobody began anew"
    until(lambda: all(now > then for now, then in zip(counts(cloud), before)), "they count on", BOOT)
    reach_each_other(cloud)
    cloud.check()


def test_move_and_back(cloud, cluster):
    booted, before = boots(cloud), counts(cloud)
    ids = [node["id"] for node in cloud.nodes("cfd")]
    done = cloud.weft("move", "cfd[1]", "--tenant", "acme")
    assert re.match(r"cfd\[1\] moved to another host within .*; it stood still for .* were sent by (pre-copy|post-copy|hybrid)", done.stdout), done.stdout
    assert places(cloud) == ["h1", "h2"]
    cloud.ready("cfd", ready=2)
    went_on(cloud, before, booted)
    before = counts(cloud)
    cloud.weft("move", "cfd[1]", "--to", "h1", "--tenant", "acme")
    assert places(cloud) == ["h1", "h1"] and [node["id"] for node in cloud.nodes("cfd")] == ids
    cloud.ready("cfd", ready=2)
    went_on(cloud, before, booted)
    assert cloud.network("h2") == []


def test_drain(cloud, cluster):
    booted, before = boots(cloud), counts(cloud)
    done = cloud.weft("drain", "h1")
    assert "host h1 is empty" in done.stdout
    assert places(cloud) == ["h2", "h2"]
    cloud.ready("cfd", ready=2)
    went_on(cloud, before, booted)
    assert cloud.network("h1") == [] and len(cloud.events("node-moved")) >= 2 and not cloud.events("node-replaced")
