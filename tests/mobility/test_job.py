"""An MPI job goes on while its cluster is moved, put aside and copied, and its result is that of a run that nothing disturbs."""

import re

import pytest

from harness.cloud import BOOT, PATIENT, Cloud
from harness.halo import STEPS, Job
from harness.verbs import PATIENCE, ask_checkpoint, clone, restore, wait_checkpoint
from harness.wait import until

NAME = "cfd"
RANKS = 2
DRAIN = 180.0  # seconds, of two emulated nodes on a busy machine


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=3, images=("mpi",), memory="2G", changes={"control": PATIENT}).up()


@pytest.fixture(scope="module")
def cluster(cloud):
    cloud.spread(NAME, cloud.hosts[:RANKS], memory="384M", image="mpi", path="bridge", start="cold")
    cloud.ready(NAME, timeout=2 * BOOT, ready=RANKS)
    return NAME


@pytest.fixture
def job(cloud, cluster, watched):
    """Runs, and ends with the right result after whatever the test does."""
    running = Job(cloud, cluster).start(RANKS)
    yield running
    assert running.finish() >= STEPS
    cloud.check()


def test_undisturbed(cloud, cluster, watched):
    job = Job(cloud, cluster).start(RANKS)
    assert job.finish() == STEPS
    assert watched.moved() == []


def test_drained(cloud, cluster, job, watched):
    """Its node goes to another host, and the job with it; nothing is created anew."""
    before = cloud.nodes(cluster)
    cloud.weft("drain", before[1]["host"], timeout=DRAIN)
    until(lambda: cloud.nodes(cluster)[1]["host"] != before[1]["host"], lambda: f"moved: {cloud.nodes(cluster)}", DRAIN)
    cloud.ready(cluster, ready=RANKS)
    assert [node["id"] for node in cloud.nodes(cluster)] == [node["id"] for node in before]
    assert watched.moved() == [f"weft-{before[1]['id']}"]
    job.goes_on()
    cloud.only(*cloud.hosts)
    print(cloud.events("node-moved")[-1]["message"])


def test_put_aside(cloud, cluster, job):
    """It stands still meanwhile, and goes on; and once more from there, when the cluster is gone."""
    ids = [node["id"] for node in cloud.nodes(cluster)]
    ask_checkpoint(cloud, cluster, "before")
    made = wait_checkpoint(cloud, "before")
    cloud.ready(cluster, timeout=PATIENCE, ready=RANKS)
    assert [node["id"] for node in cloud.nodes(cluster)] == ids
    job.goes_on()
    print(f"stood still for {made['paused_ms']} ms, one {made['skew_ms']} ms before the other")
    later = job.check()
    cloud.client.delete(cluster)
    cloud.client.wait_gone(cluster, timeout=BOOT)
    cloud.only(*cloud.hosts[1:])
    restore(cloud, "before")
    cloud.ready(cluster, timeout=PATIENCE, ready=RANKS)
    cloud.only(*cloud.hosts)
    assert not {node["id"] for node in cloud.nodes(cluster)} & set(ids)
    assert job.step() < later + 2 * STEPS, "it goes on from where it was"
    job.goes_on()
    cloud.client.expect(204, "DELETE", "/v1/checkpoints/before?tenant=acme")


def test_cloned(cloud, cluster, job):
    """The copy has other names and another partition; the job itself goes on in the source alone."""
    clone(cloud, cluster, "sweep")
    cloud.ready("sweep", timeout=PATIENCE, ready=RANKS)
    cloud.ready(cluster, timeout=PATIENCE, ready=RANKS)
    job.goes_on()
    names = [cloud.run(f"sweep[{rank}]", "hostname").stdout.strip() for rank in range(RANKS)]
    assert names == [f"sweep-{rank}" for rank in range(RANKS)]
    assert Job(cloud, "sweep").check() > 0, "what the job had told by then came along"
    assert re.search(r": right$", cloud.run("sweep", "mpirun", "mpi-ring").stdout, re.M)
    assert not {node["mac"] for node in cloud.nodes("sweep")} & {node["mac"] for node in cloud.nodes(cluster)}
    cloud.client.delete("sweep")
    cloud.client.wait_gone("sweep", timeout=BOOT)
